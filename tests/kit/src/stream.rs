//! The stream of the inbox table, and which of its records Lambda hands on.

use std::sync::LazyLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use template::{Pattern, Template, workspace_root};

/// Records of a stream that no test has read yet.
pub struct Stream {
    iterator: String,
}

impl Stream {
    /// From its beginning. `None` if the table has none.
    pub fn of(engine: &dynoxide::Database, table: &str) -> Option<Self> {
        let streams = call(json!({"TableName": table}), |request| engine.list_streams(request));
        let arn = streams["Streams"].get(0)?["StreamArn"].clone();
        let described = call(json!({"StreamArn": arn}), |request| engine.describe_stream(request));
        let shard = &described["StreamDescription"]["Shards"][0]["ShardId"];
        let begin = json!({"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
        let begin = call(begin, |request| engine.get_shard_iterator(request));
        Some(Self { iterator: begin["ShardIterator"].as_str().unwrap().to_owned() })
    }

    /// Takes the new records.
    pub fn take(&mut self, engine: &dynoxide::Database) -> Vec<Value> {
        let mut taken = vec![];
        loop {
            let page = call(json!({"ShardIterator": self.iterator}), |request| engine.get_records(request));
            page["NextShardIterator"].as_str().unwrap().clone_into(&mut self.iterator);
            match page["Records"].as_array().map(Vec::as_slice) {
                None | Some([]) => return taken,
                Some(records) => taken.extend(records.iter().cloned()),
            }
        }
    }
}

fn call<Q: DeserializeOwned, A: Serialize>(
    request: Value,
    call: impl FnOnce(Q) -> Result<A, dynoxide::DynoxideError>,
) -> Value {
    serde_json::to_value(call(serde_json::from_value(request).unwrap()).unwrap()).unwrap()
}

/// The template with all that can be chosen: a backend's queue, a queue for events, and phones to ring. So the inbox
/// table has a stream.
pub fn whole_template() -> Template {
    let push = ("FcmApplicationArn", "arn:aws:sns:us-east-1:000000000000:app/GCM/local");
    let events = ("EventsTo", "arn:aws:sqs:us-east-1:000000000000:Events.fifo");
    let http = [("HttpApi", "on"), ("ServiceAudience", "services")];
    let chosen = [push, events, ("BackendMessages", "on")].into_iter().chain(http);
    let chosen = chosen.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Template::load(&workspace_root().join("template.yaml"), &chosen.collect()).unwrap()
}

/// Returns the patterns of the template's mapping. Lambda delivers a record that fits one of them.
fn patterns() -> &'static [Pattern] {
    static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
        let mapping = whole_template().mappings.into_iter().find(|mapping| mapping.logical_id == "PendingStream");
        mapping.unwrap().patterns
    });
    &PATTERNS
}

/// A batch of those that fit.
pub fn batch(mut records: Vec<Value>) -> Value {
    records.retain(|record| patterns().iter().any(|pattern| pattern.fits(Some(record))));
    json!({ "Records": records })
}

/// Returns the records that this mapping delivers.
pub(crate) fn of_mapping(logical_id: &str, mut records: Vec<Value>) -> Vec<Value> {
    static TEMPLATE: LazyLock<Template> = LazyLock::new(whole_template);
    let mapping =
        TEMPLATE.mappings.iter().find(|mapping| mapping.logical_id == logical_id).expect("the mapping is there");
    records.retain(|record| mapping.patterns.iter().any(|pattern| pattern.fits(Some(record))));
    records
}
