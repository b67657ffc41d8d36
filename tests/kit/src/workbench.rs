//! Functions on a workbench: fresh tables, calls that are recorded and fail as told, posts that are kept, a clock to set.

use std::sync::Once;

use deliver::ConnectionsApi;
use lambda::{Diagnostic, Event, Response};
use serde_json::{Value, json};
use store::Store;
use wire::Timestamp;

use crate::{Database, InProcess, Management, ManualClock, Recorder, tables};

pub struct Workbench {
    pub database: Database,
    pub management: Management,
    pub recorder: Recorder,
    pub clock: ManualClock,
    store: Store,
    connections: ConnectionsApi,
}

/// Tests run beside each other, and a place in the code that logs is switched on or off for all threads by the first that
/// comes by. Where that is one without a subscriber, a test of the log at the same time misses its line. So all have one.
fn listen() {
    tracing::subscriber::set_global_default(lambda::subscriber("trace", "stack-of-tests", std::io::sink)).unwrap();
}

static LISTENER: Once = Once::new();

impl Workbench {
    pub async fn new() -> Self {
        LISTENER.call_once(listen);
        let (database, management, recorder) = (Database::start().await, Management::start().await, Recorder::new());
        let tables = tables(|logical_id| database.table_name(logical_id));
        let store = Store::new(database.client_with(&recorder), tables);
        let connections = ConnectionsApi::new(management.client());
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        Self { database, management, recorder, clock, store, connections }
    }

    /// The functions as processes that have just started, and remember nobody.
    pub fn started(&self) -> InProcess {
        InProcess::new(self.store.clone(), self.connections.clone(), self.clock.clone())
    }

    /// What the function of that action answers, or of that file of `events/`.
    pub async fn handle(&self, action: &str, event: Event) -> Result<Response, Diagnostic> {
        self.started().handle(action, event).await
    }

    /// Runs the function that the frame's action belongs to. The caller is connected as `{user}=`.
    pub async fn run(&self, user: &str, frame: Value) -> Value {
        self.started().run(user, frame).await
    }

    /// The result of an action that succeeds.
    pub async fn ok(&self, user: &str, frame: Value) -> Value {
        self.started().ok(user, frame).await
    }

    /// The code of an action that is refused.
    pub async fn refused(&self, user: &str, frame: Value) -> String {
        let answer = self.run(user, frame).await;
        answer["error"]["code"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Notes the user as connected at `{user}=`, long enough ago to be no longer young.
    pub async fn connected(&self, user: &str) {
        self.started().connected(user).await;
    }

    /// An event of `events/`, from this user, connected now.
    pub fn event(&self, file: &str, user: &str) -> Event {
        self.started().event(file, user)
    }

    pub fn row(&self, user: &str) -> Value {
        let rows = self.database.scan("InboxTable");
        rows.into_iter().find(|row| row["user_id"] == user).unwrap_or_else(|| panic!("{user} has no row"))
    }

    /// The types of the frames that were posted to the user.
    pub fn posted(&self, user: &str) -> Vec<String> {
        let frames = self.management.frames(&format!("{user}="));
        frames.iter().map(|frame| frame["type"].as_str().unwrap().to_owned()).collect()
    }

    /// The operations since the last look.
    pub fn operations(&self) -> Vec<String> {
        let operations = self.recorder.operations();
        self.recorder.assert_reads_are_consistent(self.database.table_name("ConnectionsTable"));
        self.recorder.clear();
        operations
    }
}

pub fn message_to_bob(client_msg_id: &str) -> Value {
    json!({"action": "send", "to": "bob", "client_msg_id": client_msg_id, "kind": "text", "body": "hi"})
}
