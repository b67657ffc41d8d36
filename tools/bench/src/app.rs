//! The functions on an AWS that counts.

use std::sync::Arc;
use std::time::Duration;

use domain::Rate;
use serde_json::{Value, json};
use testkit::cloud::Cloud;
use testkit::{AwsCall, Filter, InProcess, Limits, ManualClock, message, stream};
use wire::Timestamp;

use crate::aws::{Aws, MeasuredCall, Pace, Units};

pub struct App {
    pub aws: Aws,
    pub functions: InProcess,
    said: u64,
}

/// The cost of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    pub units: Units,
    /// Calls to AWS, the posts among them.
    pub calls: usize,
    /// Lambda invocations: one for a frame that came in, two for a connection.
    pub invocations: usize,
    /// Frames from clients.
    pub frames_in: usize,
    /// Frames to clients: the replies, and the posts to live connections.
    pub frames_out: usize,
}

impl App {
    pub fn new(pace: Option<Pace>) -> Self {
        // The limiter counts as in a deployment; the limit is above what a user sends.
        let sends = Rate { burst: u32::MAX, pause: Duration::from_millis(200) };
        Self::limited(pace, Limits { sends, ..Limits::default() })
    }

    /// With these limits.
    pub fn limited(pace: Option<Pace>, limits: Limits) -> Self {
        Self::on(Aws::new(pace), &limits)
    }

    /// With push to phones.
    pub fn ringing() -> Self {
        Self::on(Aws::ringing(), &Limits::default())
    }

    /// With a filter of the team, which allows all messages.
    pub fn filtered() -> Self {
        let Self { aws, functions, said } = Self::new(None);
        let filter: Filter = Arc::new(|_| Box::pin(async { Ok(json!({"allow": true})) }));
        Self { aws, functions: functions.with_filter((filter, true)), said }
    }

    fn on(aws: Aws, limits: &Limits) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let functions = InProcess::new(
            &aws.dynamodb_client(),
            aws.management_client(),
            aws.sns_client(),
            aws.s3_client(),
            clock,
            *limits,
        );
        let functions = functions.with_queue(aws.sqs_client());
        Self { aws, functions, said: 0 }
    }

    /// Connects these users.
    pub async fn online(&self, users: &[&str]) {
        for user in users {
            self.aws.with_cloud(|cloud| cloud.socket_open(&format!("{user}=")));
            self.functions.connect_at(user, &format!("{user}="), "first").await;
        }
        // No connection is young any more.
        self.functions.clock.advance(Duration::from_mins(1));
    }

    /// Connects one more device of the user.
    pub async fn device(&self, user: &str, number: usize) {
        let connection = format!("{user}-{number}=");
        self.aws.with_cloud(|cloud| cloud.socket_open(&connection));
        self.functions.connected_at(user, &connection, &format!("device-{number}")).await;
    }

    pub async fn ok(&self, user: &str, frame: Value) -> Value {
        self.functions.ok(user, frame).await
    }

    /// A new message, and its conversation and seq.
    pub async fn say(&mut self, from: &str, to: &str, body: &str) -> (Value, u64) {
        let frame = self.message(to, body);
        let stored = self.ok(from, frame).await;
        (stored["conversation_id"].clone(), stored["seq"].as_u64().unwrap_or_default())
    }

    /// A reply that takes the sender's read mark along.
    pub fn reply(&mut self, to: &str, body: &str, read: u64) -> Value {
        let mut frame = self.message(to, body);
        frame["read"] = json!(read);
        frame
    }

    /// A message that has not been sent yet.
    pub fn message(&mut self, to: &str, body: &str) -> Value {
        self.said += 1;
        json!({"action": "send", "to": to, "client_msg_id": format!("m{}", self.said), "kind": "text", "body": body})
    }

    /// Runs `notify` on all records since the last call, as one batch, and returns the cost.
    pub async fn notify(&self) -> Cost {
        let batch = stream::batch(self.aws.with_cloud(Cloud::records));
        let _ = self.aws.calls();
        let failed = self.functions.notify(batch).await;
        assert_eq!(failed, json!([]), "nothing fails here");
        Cost { invocations: 1, ..Cost::default() }.with(&self.aws.calls())
    }

    /// Runs `publish` on all entries since the last call, as one batch, and returns the cost.
    pub async fn publish(&self) -> Cost {
        let [entries, _] = self.aws.with_cloud(Cloud::news);
        let _ = self.aws.calls();
        let failed = self.functions.publish(entries).await;
        assert_eq!(failed, json!([]), "nothing fails here");
        Cost { invocations: 1, ..Cost::default() }.with(&self.aws.calls())
    }

    /// Runs `fanout` on all groups that changed since the last call, as one batch, and returns the cost.
    pub async fn fanout(&self) -> Cost {
        let batch = json!({ "Records": self.aws.with_cloud(Cloud::heads) });
        let _ = self.aws.calls();
        let failed = self.functions.fanout(batch).await;
        assert_eq!(failed, json!([]), "nothing fails here");
        Cost { invocations: 1, ..Cost::default() }.with(&self.aws.calls())
    }

    /// Runs `ingest` on these messages, as one batch, each for its user, and returns the cost.
    pub async fn ingest(&self, messages: &[(&str, Value)]) -> Cost {
        let _ = self.aws.calls();
        let again = self.functions.ingest(messages).await;
        assert!(again.is_empty(), "nothing fails here");
        Cost { invocations: 1, ..Cost::default() }.with(&self.aws.calls())
    }

    /// Runs the object cleanup of the rows removed since the last call, as one batch, and returns the cost.
    pub async fn sweep(&self) -> Cost {
        let records = self.aws.with_cloud(Cloud::media);
        assert!(!records.is_empty(), "a row was removed");
        let _ = self.aws.calls();
        let failed = self.functions.sweep(records).await;
        assert_eq!(failed, json!([]), "nothing fails here");
        Cost { invocations: 1, ..Cost::default() }.with(&self.aws.calls())
    }

    /// Sends these frames one after another, and returns their cost.
    pub async fn cost(&self, frames: impl IntoIterator<Item = (&str, Value)>) -> Cost {
        let _ = self.aws.calls();
        let mut cost = Cost::default();
        for (user, frame) in frames {
            // A refused request has a cost too.
            let action = frame["action"].as_str().unwrap_or_default();
            let answer = self.functions.handle(action, message(user, &frame.to_string())).await;
            cost.invocations += 1;
            cost.frames_in += 1;
            cost.frames_out += usize::from(answer.is_ok_and(|answer| answer.body.is_some()));
        }
        cost.with(&self.aws.calls())
    }

    /// Sends these requests over HTTP, each from the user's first device, and returns their cost. API Gateway bills a
    /// request with its reply as one.
    pub async fn over_http(&self, requests: impl IntoIterator<Item = (&str, Value)>) -> Cost {
        let _ = self.aws.calls();
        let mut cost = Cost::default();
        for (user, frame) in requests {
            let action = frame["action"].as_str().unwrap_or_default();
            let (status, answer) = self.functions.http(user, Some("first"), action, frame.clone()).await;
            assert_eq!(status, 200, "{answer}");
            cost.invocations += 1;
            cost.frames_in += 1;
        }
        cost.with(&self.aws.calls())
    }

    /// Sends a frame from this device of the user's, and returns its cost.
    pub async fn cost_at(&self, user: &str, device: &str, frame: Value) -> Cost {
        let _ = self.aws.calls();
        let answer = self.functions.device(user, device, frame).await;
        assert_eq!(answer["type"], "reply", "{answer}");
        Cost { invocations: 1, frames_in: 1, frames_out: 1, ..Cost::default() }.with(&self.aws.calls())
    }
}

impl Cost {
    /// With these calls.
    #[must_use]
    pub fn with(mut self, calls: &[MeasuredCall]) -> Self {
        for call in calls {
            self.units += call.units;
            self.frames_out += usize::from(call.operation == "PostToConnection");
        }
        self.calls += calls.len();
        self
    }
}

/// An app whose user `bob` has that many conversations, of one message each.
pub async fn with_conversations(count: usize) -> App {
    let mut app = App::new(None);
    let _ = app.say("peer-0", "bob", "a message of some forty characters, say").await;
    let table = "InboxTable";
    let rows = app.aws.with_cloud(|cloud| cloud.scan(table));
    let row = rows.iter().find(|row| row["user_id"]["S"] == "bob").expect("bob has a row").clone();
    // Copies that differ only in the necessary attributes: sending each message would take minutes.
    for number in 1..count {
        let mut item = row.clone();
        item["conversation_id"]["S"] = json!(format!("dm_copy{number:025}"));
        item["peer_id"]["S"] = json!(format!("copy-{number}"));
        let active_at = 1_700_000_000_000_u64 + number as u64;
        item["active_at"]["N"] = json!(active_at.to_string());
        for pending in ["pending_from", "pending_since"] {
            item.as_object_mut().expect("a row").remove(pending);
        }
        let put =
            AwsCall::Database { operation: "PutItem".to_owned(), body: json!({"TableName": table, "Item": item}) };
        let (status, body) = app.aws.with_cloud(|cloud| cloud.perform(&put));
        assert_eq!(status, 200, "{body}");
    }
    app
}
