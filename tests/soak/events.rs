//! A consumer of the queue of events that reads along, while the queue refuses for some time. At the end the consumer
//! has every entry, and the texts as they are in the log: none of a deleted message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use testkit::{AwsCall, Fault, PATIENCE, TestServer};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The queue begins to refuse when the consumer has this many events.
const REFUSES_AFTER: u64 = 100;
/// Calls that the queue refuses one after another. Each invocation of `publish` makes several.
const REFUSED: u64 = 10;

/// Calls that the queue still refuses.
#[derive(Default)]
pub(crate) struct Refusals(AtomicU64);

/// Whether this run has a consumer.
pub(crate) fn are_wanted() -> bool {
    std::env::var("PIGEONHOLE_EVENTS").is_ok_and(|events| !events.is_empty())
}

/// The outcome of a consumer: empty without one.
#[derive(Default)]
pub(crate) struct Consumed {
    /// Counts that describe the run.
    pub(crate) account: Vec<(&'static str, u64)>,
    /// Counts that must be zero.
    pub(crate) wrong: Vec<(&'static str, u64)>,
}

/// A consumer that reads, until the token is cancelled.
pub(crate) struct Reading(Option<(JoinHandle<Consumer>, CancellationToken)>);

impl Reading {
    pub(crate) async fn start(server: &Arc<TestServer>, refusals: &Arc<Refusals>) -> Self {
        if !are_wanted() {
            return Self(None);
        }
        let end = CancellationToken::new();
        Self(Some((tokio::spawn(Consumer::new(server, refusals).await.read(end.clone())), end)))
    }

    /// Waits until each entry's event was in the queue, and the consumer has read all.
    pub(crate) async fn end(self, server: &TestServer) -> Consumed {
        let Some((reading, end)) = self.0 else { return Consumed::default() };
        let mapping = server.local().mapping("EntryStream").expect("the server sends events");
        timeout(PATIENCE, mapping.settled()).await.expect("the stream is read to its end");
        end.cancel();
        let consumer = timeout(PATIENCE, reading).await.expect("the queue gets empty").expect("no panic");
        Consumed { account: consumer.account(), wrong: consumer.wrong() }
    }
}

impl Refusals {
    pub(crate) fn draw(&self, function: &str, call: &AwsCall) -> Option<Fault> {
        let is_event = function == "PublishFunction" && call.operation() == "SendMessageBatch";
        let refuses = is_event && self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        refuses.then_some(Fault::Status(503))
    }
}

type Key = (String, u64);

/// A search index of a team, in short.
struct Consumer {
    server: Arc<TestServer>,
    refusals: Arc<Refusals>,
    queue_url: Value,
    entries: BTreeSet<Key>,
    deleted: BTreeSet<Key>,
    /// The newest version of each text.
    texts: BTreeMap<Key, (u64, String)>,
    events: u64,
    /// Events of an entry that had one before.
    again: u64,
}

impl Consumer {
    async fn new(server: &Arc<TestServer>, refusals: &Arc<Refusals>) -> Self {
        let local = server.http.get(format!("{}/local", server.local().http_url())).send().await.expect("a reply");
        let local: Value = local.json().await.expect("the reply is JSON");
        Self {
            server: Arc::clone(server),
            refusals: Arc::clone(refusals),
            queue_url: local["events_url"].clone(),
            entries: BTreeSet::new(),
            deleted: BTreeSet::new(),
            texts: BTreeMap::new(),
            events: 0,
            again: 0,
        }
    }

    /// Reads until the end, and then what is left.
    async fn read(mut self, end: CancellationToken) -> Self {
        loop {
            let is_last = end.is_cancelled();
            let receive = json!({"QueueUrl": self.queue_url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1});
            let received = self.queue("ReceiveMessage", receive).await;
            let messages = received["Messages"].as_array().cloned().unwrap_or_default();
            for message in &messages {
                let body = message["Body"].as_str().expect("a message has a body");
                self.take(&serde_json::from_str(body).expect("an event is JSON"));
            }
            if !messages.is_empty() {
                // One call for all: with a call for each, the consumer is slower than the users.
                let delete =
                    |message: &Value| json!({"Id": message["MessageId"], "ReceiptHandle": message["ReceiptHandle"]});
                let entries: Vec<Value> = messages.iter().map(delete).collect();
                self.queue("DeleteMessageBatch", json!({"QueueUrl": self.queue_url, "Entries": entries})).await;
            } else if is_last {
                return self;
            }
        }
    }

    async fn queue(&self, operation: &str, request: Value) -> Value {
        let url = format!("{}/sqs/", self.server.local().http_url());
        let target = format!("AmazonSQS.{operation}");
        let reply = self.server.http.post(url).header("x-amz-target", target).json(&request).send().await;
        let reply = reply.expect("the queue replies");
        assert!(reply.status().is_success(), "{operation}: {}", reply.status());
        reply.json().await.unwrap_or_default()
    }

    fn take(&mut self, event: &Value) {
        if event["type"] != "entry" {
            return;
        }
        let message = &event["message"];
        let key = |seq: &Value| {
            let conversation = message["conversation_id"].as_str().expect("an entry has a conversation");
            (conversation.to_owned(), seq.as_u64().expect("an entry has a seq"))
        };
        self.events += 1;
        if self.events == REFUSES_AFTER {
            self.refusals.0.store(REFUSED, Relaxed);
        }
        self.again += u64::from(!self.entries.insert(key(&message["seq"])));
        let version = message["version"].as_u64().unwrap_or_default();
        let body = message["body"].as_str().unwrap_or_default();
        match message["kind"].as_str().unwrap_or_default() {
            "delete" => self.delete(key(&message["target_seq"])),
            "edit" if body.is_empty() => {}
            "edit" => self.write(key(&message["target_seq"]), version, body),
            _ if message["deleted_at"].is_string() => self.delete(key(&message["seq"])),
            _ => self.write(key(&message["seq"]), version, body),
        }
    }

    fn delete(&mut self, key: Key) {
        self.texts.remove(&key);
        self.deleted.insert(key);
    }

    fn write(&mut self, key: Key, version: u64, body: &str) {
        let is_newest = self.texts.get(&key).is_none_or(|(known, _)| *known <= version);
        if is_newest && !body.is_empty() && !self.deleted.contains(&key) {
            self.texts.insert(key, (version, body.to_owned()));
        }
    }

    fn account(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("events of entries", self.events),
            ("of them again", self.again),
            ("calls that the queue refused for a while", REFUSED - self.refusals.0.load(Relaxed)),
            ("texts that the consumer has", self.texts.len() as u64),
            ("deletes that the consumer knows", self.deleted.len() as u64),
        ]
    }

    fn wrong(&self) -> Vec<(&'static str, u64)> {
        let rows = self.server.local().database().rows("MessagesTable", usize::MAX);
        let rows = rows.expect("the table can be read").expect("the template has the table");
        let (mut missing, mut deleted, mut differ) = (0, 0, 0);
        for row in rows {
            let (Some(conversation), Some(seq)) = (row["conversation_id"].as_str(), row["seq"].as_u64()) else {
                continue;
            };
            let key = (conversation.to_owned(), seq);
            let text = self.texts.get(&key).map(|(_, text)| text.as_str());
            missing += u64::from(!self.entries.contains(&key));
            if row.get("deleted_at").is_some() {
                deleted += u64::from(text.is_some());
            } else if row["kind"] == "text" {
                differ += u64::from(text != row["body"].as_str());
            }
        }
        vec![
            ("entries that the consumer lacks", missing),
            ("deleted texts that the consumer has", deleted),
            ("texts of the consumer that are not in the log", differ),
            ("calls that the queue never refused", self.refusals.0.load(Relaxed)),
        ]
    }
}
