//! AWS in this process: the template's tables, and sockets behind @connections. A call is one function call, without a
//! network in between, so that whoever makes the calls decides their order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dynoxide::DynoxideError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use template::{Table, Template};

use crate::AwsCall;
use crate::billing::as_billed;
use crate::conditions;
use crate::fake_s3::FakeS3;
use crate::fake_sns::FakeSns;
use crate::half_seen::HalfSeen;
use crate::stream::{Stream, whole_template};

/// A place that a call reads or writes. The order of two calls without a common place makes no difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// A table, or what else there is.
    pub place: String,
    /// `None`: all of the place.
    pub partition: Option<String>,
    /// `None`: all of the partition.
    pub sort: Option<String>,
    pub writes: bool,
}

impl Touch {
    /// Whether it matters which of the two comes first.
    pub fn meets(&self, other: &Self) -> bool {
        let overlap = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
        (self.writes || other.writes)
            && self.place == other.place
            && overlap(&self.partition, &other.partition)
            && overlap(&self.sort, &other.sort)
    }
}

/// All rows of all tables, by table, as DynamoDB writes them.
pub type Rows = BTreeMap<String, Vec<Value>>;

enum Dying {
    No,
    AtTheNextCommit,
    Dead,
}

pub struct Cloud {
    engine: dynoxide::Database,
    tables: Vec<Table>,
    /// The sockets that are open, with the frames that came through.
    sockets: BTreeMap<String, Vec<Value>>,
    /// The phones.
    pub sns: FakeSns,
    /// Messages sent to the queue of dead letters, each once.
    pub dead_letters: Vec<Value>,
    /// The bodies in the queue of events that failed after all retries.
    pub given_up: Vec<Value>,
    /// The events that the bus and the queue of the team's own servers took, as sent.
    pub published: Vec<Value>,
    /// Parts of events that both refuse.
    pub refused_events: Vec<String>,
    /// Media of messages.
    pub s3: FakeS3,
    stream: Option<Stream>,
    entries: Option<Stream>,
    reports: Option<Stream>,
    jobs: Option<Stream>,
    heads: Stream,
    media: Stream,
    /// Writes that queries may not show yet.
    pub half_seen: HalfSeen,
    dying: Dying,
    /// How often [`restore`](Self::restore) was called.
    restored: u32,
}

impl Cloud {
    /// The template's tables, empty, and no socket.
    pub fn new() -> Self {
        Self::of(Template::of_workspace().unwrap())
    }

    /// Creates a cloud with push notifications, so that the inbox table has a stream.
    pub fn streaming() -> Self {
        Self::of(whole_template())
    }

    fn of(template: Template) -> Self {
        let engine = fresh(&template.tables);
        let stream = Stream::of(&engine, "InboxTable");
        let [entries, reports, jobs] =
            ["MessagesTable", "AuditTable", "AuditTable"].map(|table| Stream::of(&engine, table));
        let heads = Stream::of(&engine, "ConversationsTable").expect("the template has a stream of heads");
        let media = Stream::of(&engine, "MediaTable").expect("the template has a stream of media");
        Self {
            engine,
            tables: template.tables,
            sockets: BTreeMap::new(),
            sns: FakeSns::default(),
            dead_letters: vec![],
            given_up: vec![],
            published: vec![],
            refused_events: vec![],
            s3: FakeS3::default(),
            stream,
            entries,
            reports,
            jobs,
            heads,
            media,
            half_seen: HalfSeen::default(),
            dying: Dying::No,
            restored: 0,
        }
    }

    /// Returns new writes to the inbox table, as Lambda delivers them, before its filter.
    pub fn records(&mut self) -> Vec<Value> {
        self.stream.as_mut().expect("a cloud with a stream").take(&self.engine)
    }

    /// Returns new steps of jobs, as Lambda delivers them, after its filters.
    pub fn jobs(&mut self) -> Vec<Value> {
        let records = self.jobs.as_mut().map(|stream| stream.take(&self.engine)).unwrap_or_default();
        crate::stream::of_mapping("JobStream", records)
    }

    /// Returns new entries and new reports, as Lambda delivers them, after its filters.
    pub fn news(&mut self) -> [Vec<Value>; 2] {
        let [entries, reports] = [&mut self.entries, &mut self.reports]
            .map(|stream| stream.as_mut().map(|stream| stream.take(&self.engine)).unwrap_or_default());
        [crate::stream::of_mapping("EntryStream", entries), crate::stream::of_mapping("ReportStream", reports)]
    }

    /// Which groups have moved since the last look, as Lambda hands it on.
    pub fn heads(&mut self) -> Vec<Value> {
        self.heads.take(&self.engine)
    }

    /// Returns new writes to the media table, as Lambda delivers them, after its filter.
    pub fn media(&mut self) -> Vec<Value> {
        crate::stream::of_mapping("MediaStream", self.media.take(&self.engine))
    }

    /// Everything that is stored.
    pub fn rows(&self) -> Rows {
        self.tables.iter().map(|table| (table.name.clone(), self.scan(&table.name))).collect()
    }

    /// Makes `rows` all that is stored.
    pub fn restore(&mut self, rows: &Rows) {
        self.restored += 1;
        for table in &self.tables {
            let wanted = rows.get(&table.name).map(Vec::as_slice).unwrap_or_default();
            let stored = self.scan(&table.name);
            for row in stored.iter().filter(|row| !wanted.contains(row)) {
                let keys = table.create["KeySchema"].as_array().into_iter().flatten();
                let keys = keys.map(|key| key["AttributeName"].as_str().unwrap_or_default());
                let key: Value = keys.map(|key| (key.to_owned(), row[key].clone())).collect::<Map<_, _>>().into();
                let delete = json!({ "TableName": table.name, "Key": key });
                self.engine.delete_item(serde_json::from_value(delete).unwrap()).unwrap();
            }
            for row in wanted.iter().filter(|row| !stored.contains(row)) {
                self.put(&table.name, row);
            }
        }
    }

    /// Writes a row, as DynamoDB writes it.
    pub fn put(&self, table: &str, row: &Value) {
        let put = json!({ "TableName": table, "Item": row });
        self.engine.put_item(serde_json::from_value(put).unwrap()).unwrap();
    }

    /// Removes the row with this key, in DynamoDB's form, as the TTL does.
    pub fn remove(&mut self, table: &str, key: &Value) {
        let delete = json!({ "TableName": table, "Key": key });
        self.engine.delete_item(serde_json::from_value(delete).unwrap()).unwrap();
    }

    /// All rows of a table, as DynamoDB writes them.
    pub fn scan(&self, table: &str) -> Vec<Value> {
        let scan = serde_json::from_value(json!({ "TableName": table })).unwrap();
        let page = serde_json::to_value(self.engine.scan(scan).unwrap()).unwrap();
        assert!(page.get("LastEvaluatedKey").is_none(), "more than one page");
        page["Items"].as_array().cloned().unwrap_or_default()
    }

    pub fn socket_open(&mut self, connection: &str) {
        self.sockets.insert(connection.to_owned(), Vec::new());
    }

    pub fn socket_close(&mut self, connection: &str) {
        self.sockets.remove(connection);
    }

    pub fn sockets(&self) -> &BTreeMap<String, Vec<Value>> {
        &self.sockets
    }

    pub fn sockets_restore(&mut self, sockets: &BTreeMap<String, Vec<Value>>) {
        self.sockets.clone_from(sockets);
    }

    /// From the next transaction on nothing arrives any more: whoever makes it might as well be dead.
    pub fn die_after_commit(&mut self) {
        self.dying = Dying::AtTheNextCommit;
    }

    pub fn revive(&mut self) {
        self.dying = Dying::No;
    }

    /// Carries the call out, and gives the status and body of the answer.
    pub fn perform(&mut self, call: &AwsCall) -> (u16, String) {
        if matches!(self.dying, Dying::Dead) {
            return (500, json!({ "__type": "InternalServerError" }).to_string());
        }
        match call {
            AwsCall::Post { connection, frame } => match self.sockets.get_mut(connection) {
                Some(frames) => {
                    frames.push(frame.clone());
                    (200, String::new())
                }
                None => (410, json!({ "message": null }).to_string()),
            },
            AwsCall::Close { connection } => match self.sockets.remove(connection) {
                Some(_) => (204, String::new()),
                None => (410, json!({ "message": null }).to_string()),
            },
            AwsCall::Push { operation, body } => self.sns.perform(operation, body),
            AwsCall::Queue { operation, body } if operation == "PutEvents" || operation == "SendMessageBatch" => {
                self.publish(operation, body)
            }
            AwsCall::Queue { body, .. } if body.get("MessageGroupId").is_none() => {
                self.given_up.push(serde_json::from_str(body["MessageBody"].as_str().unwrap()).unwrap());
                (200, json!({"MessageId": "m", "MD5OfMessageBody": ""}).to_string())
            }
            AwsCall::Queue { body, .. } => {
                let id = "MessageDeduplicationId";
                if self.dead_letters.iter().all(|letter| letter[id] != body[id]) {
                    self.dead_letters.push(body.clone());
                }
                (200, json!({"MessageId": "m", "MD5OfMessageBody": ""}).to_string())
            }
            AwsCall::Object { operation, body } => self.s3.perform(operation, body),
            AwsCall::Database { operation, body } => {
                let written = HalfSeen::about_to_write(call);
                let before: Vec<_> = written.iter().map(|(table, key)| self.row(table, key)).collect();
                let (status, mut answer) = answer(&self.engine, operation, &self.of_now(body).to_string());
                if status == 200 && !written.is_empty() {
                    self.half_seen.wrote(written.into_iter().zip(before));
                    if matches!(self.dying, Dying::AtTheNextCommit) {
                        self.dying = Dying::Dead;
                    }
                }
                if status == 200 && operation == "Query" {
                    answer = self.half_seen.answer(call, answer);
                }
                (status, answer)
            }
        }
    }

    /// Takes events, each for itself.
    fn publish(&mut self, operation: &str, body: &Value) -> (u16, String) {
        fn text(entry: &Value) -> &str {
            entry["Detail"].as_str().or(entry["MessageBody"].as_str()).expect("an event has a text")
        }
        let entries = body["Entries"].as_array().expect("a batch has entries");
        let bytes: usize = entries.iter().map(|entry| text(entry).len()).sum();
        assert!((1..=10).contains(&entries.len()) && bytes < 256 * 1024, "AWS refuses this batch");
        let is_refused = |entry: &Value| self.refused_events.iter().any(|part| text(entry).contains(part.as_str()));
        let (refused, taken): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| is_refused(entry));
        let answer = if operation == "PutEvents" {
            let refusal = json!({"ErrorCode": "InternalFailure", "ErrorMessage": "not now"});
            let answer = |entry: &Value| if is_refused(entry) { refusal.clone() } else { json!({"EventId": "e"}) };
            let answers: Vec<_> = entries.iter().map(answer).collect();
            json!({"FailedEntryCount": refused.len(), "Entries": answers})
        } else {
            let taken = taken.iter().map(|entry| json!({"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": ""}));
            let refused =
                refused.iter().map(|entry| json!({"Id": entry["Id"], "Code": "Internal", "SenderFault": false}));
            json!({"Successful": taken.collect::<Vec<_>>(), "Failed": refused.collect::<Vec<_>>()})
        };
        self.published.extend(taken.into_iter().cloned());
        (200, answer.to_string())
    }

    fn row(&self, table: &str, key: &Map<String, Value>) -> Option<Value> {
        let get = serde_json::from_value(json!({ "TableName": table, "Key": key })).unwrap();
        serde_json::to_value(self.engine.get_item(get).unwrap()).unwrap().get_mut("Item").map(Value::take)
    }

    /// The engine answers a transaction whose token it has seen as it did then. After a restore that call never happened, and a
    /// client with the same random numbers makes the same tokens again: so they are made different.
    fn of_now<'a>(&self, body: &'a Value) -> Cow<'a, Value> {
        let Some(token) = body["ClientRequestToken"].as_str() else { return Cow::Borrowed(body) };
        let mut body = body.clone();
        body["ClientRequestToken"] = json!(format!("{:08x}{}", self.restored, token.get(8..).unwrap_or_default()));
        Cow::Owned(body)
    }

    /// Returns the places that the call reads and writes.
    pub fn touches(&self, call: &AwsCall) -> Vec<Touch> {
        let (operation, body) = match call {
            AwsCall::Post { connection, .. } => return vec![socket_touch(connection, false)],
            AwsCall::Close { connection } => return vec![socket_touch(connection, true)],
            AwsCall::Push { operation, body } => return vec![push_touch(operation, body)],
            AwsCall::Queue { .. } => {
                return vec![Touch { place: "sqs".to_owned(), partition: None, sort: None, writes: true }];
            }
            AwsCall::Object { body, .. } => {
                let of = |key: &Value, writes| object_touch(key.as_str().unwrap_or_default(), writes);
                let source = body["source"].is_string().then(|| of(&body["source"], false));
                return std::iter::once(of(&body["key"], call.writes())).chain(source).collect();
            }
            AwsCall::Database { operation, body } => (operation, body),
        };
        match operation.as_str() {
            "TransactWriteItems" => {
                let items = body["TransactItems"].as_array().into_iter().flatten();
                let writes = items.filter_map(|item| item.as_object()?.values().next());
                writes.map(|write| self.item_touch(write, true)).collect()
            }
            "BatchGetItem" => {
                let tables = body["RequestItems"].as_object().into_iter().flatten();
                let keys = tables.flat_map(|(table, keys)| {
                    keys["Keys"].as_array().into_iter().flatten().map(move |key| (table, key))
                });
                keys.map(|(table, key)| self.item_touch(&json!({"TableName": table, "Key": key}), false)).collect()
            }
            "GetItem" => vec![self.item_touch(body, false)],
            "Query" => vec![self.query_touch(body)],
            _ => vec![self.item_touch(body, true)],
        }
    }

    /// A call in short: `Query(connections, bob)`.
    pub fn describe(&self, call: &AwsCall) -> String {
        match call {
            AwsCall::Post { connection, frame } => {
                format!("PostToConnection({connection}, {})", frame["type"].as_str().unwrap_or("?"))
            }
            AwsCall::Close { connection } => format!("DeleteConnection({connection})"),
            AwsCall::Queue { operation, .. } => operation.clone(),
            AwsCall::Push { operation, .. } | AwsCall::Object { operation, .. } => {
                let touches = self.touches(call);
                format!("{operation}({})", touches.first().and_then(|touch| touch.partition.as_deref()).unwrap_or("*"))
            }
            AwsCall::Database { operation, body } if operation == "TransactWriteItems" => {
                let items = body["TransactItems"].as_array().map_or(0, Vec::len);
                format!("{operation}({items} items)")
            }
            AwsCall::Database { operation, .. } => {
                let touches = self.touches(call);
                let touch = touches.first().expect("a call touches something");
                let partition = touch.partition.as_deref().unwrap_or("*");
                format!(
                    "{operation}({}, {})",
                    touch.place,
                    if ["dm_", "gr_", "ch_"].iter().any(|kind| partition.starts_with(kind)) {
                        "…"
                    } else {
                        partition
                    }
                )
            }
        }
    }

    fn item_touch(&self, body: &Value, writes: bool) -> Touch {
        let (place, [partition, sort]) = self.table(body);
        let attributes = body.get("Key").or_else(|| body.get("Item")).unwrap_or(&Value::Null);
        let value = |key: &str| attributes.get(key).map(ToString::to_string);
        let partition = attributes.get(&partition).map(text);
        Touch { place, partition, sort: value(&sort), writes }
    }

    fn query_touch(&self, body: &Value) -> Touch {
        let (place, [partition, _]) = self.table(body);
        let condition = body["KeyConditionExpression"].as_str().unwrap_or_default();
        let value = condition.strip_prefix(&format!("{partition} = ")).and_then(|rest| rest.split(' ').next());
        let partition = value.and_then(|name| body["ExpressionAttributeValues"].get(name)).map(text);
        Touch { place, partition, sort: None, writes: false }
    }

    /// The table that a call names, in short, and its keys.
    fn table(&self, body: &Value) -> (String, [String; 2]) {
        let mut tables = self.tables.iter();
        let table = tables.find(|table| body["TableName"] == table.name.as_str()).expect("a table of the template");
        let key = |n: usize| table.create["KeySchema"][n]["AttributeName"].as_str().unwrap_or_default().to_owned();
        (table.logical_id.trim_end_matches("Table").to_lowercase(), [key(0), key(1)])
    }
}

impl Default for Cloud {
    fn default() -> Self {
        Self::new()
    }
}

/// Frames to one connection may overtake each other, so two posts can change places; opening and closing can't.
pub fn socket_touch(connection: &str, writes: bool) -> Touch {
    Touch { place: "@connections".to_owned(), partition: Some(connection.to_owned()), sort: None, writes }
}

/// Returns the place of an object in S3.
pub fn object_touch(key: &str, writes: bool) -> Touch {
    Touch { place: "s3".to_owned(), partition: Some(key.to_owned()), sort: None, writes }
}

/// Returns the place of a phone. A publish writes, because notifications have an order.
fn push_touch(operation: &str, body: &Value) -> Touch {
    let field = |name: &str| body[name].as_str().map(str::to_owned);
    let arn = |arn: String| arn.rsplit('/').next().unwrap_or_default().to_owned();
    let partition = if operation == "CreatePlatformEndpoint" {
        field("Token")
    } else {
        field("EndpointArn").or_else(|| field("TargetArn")).map(arn)
    };
    Touch { place: "sns".to_owned(), partition, sort: None, writes: true }
}

fn fresh(tables: &[Table]) -> dynoxide::Database {
    let engine = dynoxide::Database::memory().unwrap();
    for table in tables {
        engine.create_table(serde_json::from_value(table.create.clone()).unwrap()).unwrap();
    }
    engine
}

/// `{"S": "a"}` as `a`.
fn text(value: &Value) -> String {
    let inner = value.as_object().and_then(|object| object.values().next()).and_then(Value::as_str);
    inner.unwrap_or_default().to_owned()
}

/// What DynamoDB answers to a function: its status and body.
pub fn answer(engine: &dynoxide::Database, operation: &str, body: &str) -> (u16, String) {
    // From text, as on the wire: the engine reads it differently from a value.
    fn run<Q: DeserializeOwned, A: Serialize>(
        body: &str,
        call: impl FnOnce(Q) -> Result<A, DynoxideError>,
    ) -> (u16, String) {
        match call(serde_json::from_str(body).expect("the request is well formed")) {
            Ok(answer) => (200, serde_json::to_string(&answer).expect("an answer is JSON")),
            Err(error) => (error.status_code(), error.to_json()),
        }
    }
    let body = &*conditions::of_run(operation, body);
    match operation {
        "BatchGetItem" => run(body, |request| engine.batch_get_item(request)),
        "GetItem" => run(body, |request| engine.get_item(request)),
        "Query" => as_billed(body, run(body, |request| engine.query(request))),
        "Scan" => run(body, |request| engine.scan(request)),
        "PutItem" => run(body, |request| engine.put_item(request)),
        "UpdateItem" => run(body, |request| engine.update_item(request)),
        "DeleteItem" => run(body, |request| engine.delete_item(request)),
        "TransactWriteItems" => run(body, |request| engine.transact_write_items(request)),
        _ => panic!("no handler asks for {operation}"),
    }
}
