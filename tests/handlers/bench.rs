//! Functions on a workbench: fresh tables, calls that are recorded and fail as told, posts that are kept, a clock to set.

use std::sync::Once;
use std::time::Duration;

use deliver::Phones;
use domain::Timestamp;
use lambda::{Clock, Event};
use push::Socket;
use serde_json::{Value, json};
use store::{Store, Tables};
use testkit::{Database, Management, ManualClock, Recorder};
pub(crate) use tests::{file_event, frame_of, message, to_event};

pub(crate) struct Bench {
    pub(crate) database: Database,
    pub(crate) management: Management,
    pub(crate) recorder: Recorder,
    pub(crate) clock: ManualClock,
    store: Store,
    socket: Socket,
}

/// Tests run beside each other, and a place in the code that logs is switched on or off for all threads by the first that
/// comes by. Where that is one without a subscriber, a test of the log at the same time misses its line. So all have one.
fn listen() {
    tracing::subscriber::set_global_default(lambda::subscriber("trace", "stack-of-tests", std::io::sink)).unwrap();
}

static LISTENER: Once = Once::new();

impl Bench {
    pub(crate) async fn new() -> Self {
        LISTENER.call_once(listen);
        let (database, management, recorder) = (Database::start().await, Management::start().await, Recorder::new());
        let table = |logical_id: &str| database.table_name(logical_id).to_owned();
        let tables = Tables {
            connections: table("ConnectionsTable"),
            messages: table("MessagesTable"),
            idempotency: table("IdempotencyTable"),
            inbox: table("InboxTable"),
        };
        let store = Store::new(database.client_with(&recorder), tables);
        let socket = Socket::new(management.client());
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        Self { database, management, recorder, clock, store, socket }
    }

    fn clock(&self) -> Clock {
        let clock = self.clock.clone();
        Clock::new(move || clock.now())
    }

    pub(crate) fn connect_deps(&self) -> connect::Deps {
        connect::Deps { store: self.store.clone(), clock: self.clock() }
    }

    /// Runs the function that the frame's action belongs to. The caller is connected as `{user}=`.
    pub(crate) async fn run(&self, user: &str, frame: Value) -> Value {
        let event = message(user, &frame.to_string());
        let response = match frame["action"].as_str().unwrap() {
            "send" => send::handle(&self.send_deps(), event).await,
            "drain" | "ack" | "ping" => drain::handle(&self.drain_deps(), event).await,
            "read" => read::handle(&self.read_deps(), event).await,
            "inbox" | "history" => inbox::handle(&self.inbox_deps(), event).await,
            _ => connect::handle(&self.connect_deps(), event).await,
        };
        frame_of(&response)
    }

    /// The result of an action that succeeds.
    pub(crate) async fn ok(&self, user: &str, frame: Value) -> Value {
        let mut answer = self.run(user, frame).await;
        assert_eq!(answer["type"], "reply", "{answer}");
        answer["result"].take()
    }

    /// The code of an action that is refused.
    pub(crate) async fn refused(&self, user: &str, frame: Value) -> String {
        let answer = self.run(user, frame).await;
        answer["error"]["code"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Of a process that has just started, and remembers nobody.
    fn phones(&self) -> Phones {
        Phones::new(self.store.clone(), self.socket.clone())
    }

    pub(crate) fn send_deps(&self) -> send::Deps {
        send::Deps { store: self.store.clone(), phones: self.phones(), clock: self.clock() }
    }

    pub(crate) fn drain_deps(&self) -> drain::Deps {
        drain::Deps { store: self.store.clone(), phones: self.phones(), clock: self.clock() }
    }

    pub(crate) fn read_deps(&self) -> read::Deps {
        read::Deps { store: self.store.clone(), phones: self.phones(), clock: self.clock() }
    }

    pub(crate) fn inbox_deps(&self) -> inbox::Deps {
        inbox::Deps { store: self.store.clone(), clock: self.clock() }
    }

    /// Notes the user as connected at `{user}=`, long enough ago to be no longer young.
    pub(crate) async fn connected(&self, user: &str) {
        let response = connect::handle(&self.connect_deps(), self.event("connect", user)).await;
        assert_eq!(response.unwrap().status_code, 200);
        self.clock.advance(Duration::from_mins(1));
    }

    /// An event of `events/`, from this user, connected now.
    pub(crate) fn event(&self, file: &str, user: &str) -> Event {
        let mut event = file_event(file);
        event["requestContext"]["authorizer"]["principalId"] = json!(user);
        event["requestContext"]["connectionId"] = json!(format!("{user}="));
        event["requestContext"]["connectedAt"] = json!(self.clock.now().millis());
        to_event(event)
    }

    pub(crate) fn row(&self, user: &str) -> Value {
        let rows = self.database.scan("InboxTable");
        rows.into_iter().find(|row| row["user_id"] == user).unwrap_or_else(|| panic!("{user} has no row"))
    }

    /// The types of the frames that were posted to the user.
    pub(crate) fn posted(&self, user: &str) -> Vec<String> {
        let frames = self.management.frames(&format!("{user}="));
        frames.iter().map(|frame| frame["type"].as_str().unwrap().to_owned()).collect()
    }

    /// The operations since the last look.
    pub(crate) fn operations(&self) -> Vec<String> {
        let operations = self.recorder.operations();
        self.recorder.assert_reads_are_consistent(self.database.table_name("ConnectionsTable"));
        self.recorder.clear();
        operations
    }
}

pub(crate) fn message_to_bob(client_msg_id: &str) -> Value {
    json!({"action": "send", "to": "bob", "client_msg_id": client_msg_id, "kind": "text", "body": "hi"})
}

pub(crate) fn up_to(action: &str, conversation: &Value, seq: u64) -> Value {
    match action {
        "ack" => json!({"action": "ack", "up_to": [{"conversation_id": conversation, "seq": seq}]}),
        _ => json!({"action": action, "conversation_id": conversation, "seq": seq}),
    }
}
