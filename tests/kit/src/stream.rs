//! The stream of the inbox table, and which of its records Lambda hands on.

use std::sync::LazyLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use serde_yaml_ng::Value as Yaml;
use template::workspace_root;

/// What was not taken from the stream yet.
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

    /// What was written since the last look.
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

/// The patterns of the template's mapping: what matches one of them is handed on.
fn patterns() -> &'static [Value] {
    static PATTERNS: LazyLock<Vec<Value>> = LazyLock::new(read_patterns);
    &PATTERNS
}

fn read_patterns() -> Vec<Value> {
    let text = std::fs::read_to_string(workspace_root().join("template.yaml")).unwrap();
    let template: Yaml = serde_yaml_ng::from_str(&text).unwrap();
    let filters = &template["Resources"]["PendingStream"]["Properties"]["FilterCriteria"]["Filters"];
    let pattern = |filter: &Yaml| serde_json::from_str(filter["Pattern"].as_str().unwrap()).unwrap();
    filters.as_sequence().unwrap().iter().map(pattern).collect()
}

/// A batch of those that match.
pub fn batch(mut records: Vec<Value>) -> Value {
    records.retain(|record| patterns().iter().any(|pattern| matches(pattern, Some(record))));
    json!({ "Records": records })
}

/// As Lambda does it, seen on AWS: `exists` is about leaves. Of what is none it is always false, also where something is there.
/// <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb-filtering.html>
pub fn matches(pattern: &Value, value: Option<&Value>) -> bool {
    match pattern {
        Value::Object(members) => {
            members.iter().all(|(name, pattern)| matches(pattern, value.and_then(|value| value.get(name))))
        }
        Value::Array(rules) => {
            let leaf = value.filter(|value| !value.is_object());
            rules.iter().any(|rule| match rule.get("exists") {
                Some(exists) => *exists == json!(leaf.is_some()),
                None => leaf == Some(rule),
            })
        }
        other => panic!("{other} is no pattern"),
    }
}
