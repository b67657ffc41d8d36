//! Functions on a workbench: fresh tables, calls that are recorded and fail as told, posts that are kept, a clock to set.

use std::sync::Once;

use lambda::{Diagnostic, InvocationEvent, LogKey, Response};
use serde_json::{Value, json};
use wire::Timestamp;

use crate::fake_sns::Push;
use crate::{FakeAws, Filter, InProcess, Limits, ManualClock, stream};

pub struct Workbench {
    pub aws: FakeAws,
    pub clock: ManualClock,
    functions: InProcess,
}

/// Installs a subscriber. Tests run concurrently, and the first thread at a log statement enables or disables it for
/// all threads. If that thread had no subscriber, a concurrent test of the log would miss the line.
fn listen() {
    tracing::subscriber::set_global_default(lambda::subscriber(
        "trace",
        "stack-of-tests",
        LogKey::new("key-of-tests"),
        std::io::sink,
    ))
    .unwrap();
}

static LISTENER: Once = Once::new();

impl Default for Workbench {
    fn default() -> Self {
        Self::limited(Limits::default())
    }
}

impl Workbench {
    /// With these limits.
    pub fn limited(limits: Limits) -> Self {
        Self::on(FakeAws::default(), &limits)
    }

    /// With phones, and the mapping from the inbox table's stream to who rings them.
    pub fn ringing() -> Self {
        Self::on(FakeAws::streaming(), &Limits::default())
    }

    /// With the streams of entries and reports, and a queue for events.
    pub fn publishing() -> Self {
        Self::on(FakeAws::streaming(), &Limits { events: true, ..Limits::default() })
    }

    /// With a team's filter. `is_open`: what it does not answer is stored.
    pub fn filtered(filter: Filter, is_open: bool) -> Self {
        let Self { aws, clock, functions } = Self::default();
        Self { aws, clock, functions: functions.with_filter((filter, is_open)) }
    }

    fn on(aws: FakeAws, limits: &Limits) -> Self {
        LISTENER.call_once(listen);
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let functions = InProcess::new(
            &aws.dynamodb_client(),
            aws.management_client(),
            aws.sns_client(),
            aws.s3_client(),
            clock.clone(),
            *limits,
        );
        let functions = functions.with_queue(aws.sqs_client());
        Self { aws, clock, functions }
    }

    /// Returns the functions as newly started processes, with empty caches.
    pub fn started(&self) -> InProcess {
        self.functions.restarted()
    }

    /// The same, with messages of the queue that come for that many a time.
    pub fn received(&self, receives: u32) -> InProcess {
        let mut functions = self.started();
        functions.receives = receives;
        functions
    }

    /// Returns the function's reply to that action, or to that file of `events/`.
    pub async fn handle(&self, action: &str, event: InvocationEvent) -> Result<Response, Diagnostic> {
        let functions = self.started();
        Box::pin(functions.handle(action, event)).await
    }

    /// Runs the function that the frame's action belongs to. The caller is connected as `{user}=`. A test with many
    /// requests has no room for their futures on its stack.
    pub async fn run(&self, user: &str, frame: Value) -> Value {
        let functions = self.started();
        Box::pin(functions.run(user, frame)).await
    }

    /// The result of an action that succeeds.
    pub async fn ok(&self, user: &str, frame: Value) -> Value {
        let functions = self.started();
        Box::pin(functions.ok(user, frame)).await
    }

    /// The code of an action that is refused.
    pub async fn refused(&self, user: &str, frame: Value) -> String {
        let answer = self.run(user, frame).await;
        answer["error"]["code"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Registers the token for the user's device, which is called as the token.
    pub async fn register(&self, user: &str, token: &str, more: Value) -> Value {
        let mut frame = json!({"action": "device", "platform": "apns", "token": token});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.device(user, token, frame).await
    }

    /// The answer to a frame from this device of the user's.
    pub async fn device(&self, user: &str, device: &str, frame: Value) -> Value {
        self.started().device(user, device, frame).await
    }

    /// The batch that Lambda would hand on now.
    pub fn batch(&self) -> Value {
        stream::batch(self.aws.records())
    }

    /// Invokes `notify` with the new writes. Returns the records to retry.
    pub async fn notify(&self) -> Value {
        self.started().notify(self.batch()).await
    }

    /// Invokes `fanout` with the groups that have moved. Returns the records to retry.
    pub async fn fanout(&self) -> Value {
        let batch = json!({ "Records": self.aws.heads() });
        self.started().fanout(batch).await
    }

    /// Invokes `publish` with the new entries, and with the new reports. Returns the records to retry.
    pub async fn publish(&self) -> Value {
        let [entries, reports] = self.aws.news();
        let functions = self.started();
        let (mut again, reports) = (functions.publish(entries).await, functions.publish(reports).await);
        again.as_array_mut().unwrap().extend(reports.as_array().unwrap().iter().cloned());
        again
    }

    /// Invokes `jobs` with each new step until there are no more. Returns the number of runs.
    pub async fn jobs(&self) -> usize {
        let (functions, mut runs) = (self.started(), 0);
        loop {
            let records = self.aws.jobs();
            if records.is_empty() {
                return runs;
            }
            for record in records {
                let again = functions.jobs(json!({ "Records": [record] })).await;
                assert_eq!(again, json!([]));
                runs += 1;
            }
        }
    }

    /// Takes these messages out of the queue, in one batch, each with its group. The places of those that are to come again.
    pub async fn ingest(&self, messages: &[(&str, Value)]) -> Vec<usize> {
        self.started().ingest(messages).await
    }

    /// Removes the objects of removed rows. Returns the records to retry.
    pub async fn sweep(&self) -> Value {
        self.started().sweep(self.aws.removed()).await
    }

    /// Returns the pushes to the phone with this token, in short.
    pub fn rung(&self, token: &str) -> Vec<String> {
        let of_token = |push: &&Push| push.token == token;
        self.aws.with_sns(|sns| sns.pushes().iter().filter(of_token).map(Push::says).collect())
    }

    /// Notes the user as connected at `{user}=`, long enough ago to be no longer young.
    pub async fn connected(&self, user: &str) {
        self.started().connected(user).await;
    }

    /// An event of `events/`, from this user, connected now.
    pub fn event(&self, file: &str, user: &str) -> InvocationEvent {
        self.started().event(file, user)
    }

    /// Alice has sent Bob this many messages. The conversation's id.
    pub async fn conversation(&self, messages: u64) -> Value {
        let mut id = Value::Null;
        for number in 1..=messages {
            id = self.ok("alice", message_to_bob(&format!("m{number}"))).await["conversation_id"].clone();
        }
        self.operations();
        id
    }

    pub fn row(&self, user: &str) -> Value {
        let rows = self.aws.rows("InboxTable");
        rows.into_iter().find(|row| row["user_id"] == user).unwrap_or_else(|| panic!("{user} has no row"))
    }

    /// The types of the frames that were posted to the user.
    pub fn posted(&self, user: &str) -> Vec<String> {
        let frames = self.aws.frames(&format!("{user}="));
        frames.iter().map(|frame| frame["type"].as_str().unwrap().to_owned()).collect()
    }

    /// The operations since the last look.
    pub fn operations(&self) -> Vec<String> {
        let operations = self.aws.operations();
        self.aws.assert_reads_are_consistent("ConnectionsTable");
        self.aws.clear();
        operations
    }
}

pub fn message_to_bob(client_msg_id: &str) -> Value {
    json!({"action": "send", "to": "bob", "client_msg_id": client_msg_id, "kind": "text", "body": "hi"})
}
