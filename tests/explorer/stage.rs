//! The functions on a stage: each actor with clients of its own, all of them before the same gate, and phones that note
//! what they receive.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use deliver::{ConnectionsApi, Fanout};
use domain::ConnectionId;
use lambda::{Clock, Context, Event, LambdaEvent, Response};
use serde_json::{Value, json};
use store::connections::Connection;
use store::{Store, Tables as TableNames};
use testkit::cloud::{Cloud, Request, Rows, plain, socket_touch};
use testkit::explorer::{Actor, Play};
use testkit::schedule::{Fault, Step};
use testkit::{Gate, ManualClock, Passed};
use wire::{Timestamp, UserId};

use crate::invariants::{Held, Tables, ensure, number, string};
use crate::scenarios::{Doing, Scenario};

/// More pages than any scenario fills.
const PAGES_MAX: usize = 8;

/// Clones are the same stage.
#[derive(Clone)]
pub(crate) struct Stage(Rc<Inner>);

struct Inner {
    scenario: Scenario,
    gate: Gate,
    clock: ManualClock,
    tables: TableNames,
    /// By actor.
    clients: Vec<(Store, ConnectionsApi)>,
    opening: RefCell<Opening>,
    now: RefCell<Scene>,
}

/// How things stand when the actors begin.
#[derive(Default)]
struct Opening {
    rows: Rows,
    /// All of them opened a minute before.
    sockets: BTreeMap<String, Vec<Value>>,
    connected_at: Timestamp,
    scene: Scene,
}

/// How things stand, apart from what is stored.
#[derive(Default, Clone)]
struct Scene {
    tables: Tables,
    held: Held,
    /// Which actors got what they asked for.
    done: Vec<bool>,
    /// What was answered to a `send`: sender, id, result.
    sent: Vec<(&'static str, &'static str, Value)>,
    broken: Option<String>,
}

impl Stage {
    pub(crate) async fn new(scenario: Scenario) -> Self {
        let cloud = Cloud::new();
        let tables = testkit::tables(|logical_id| cloud.table_name(logical_id));
        let gate = Gate::new(cloud);
        let client = |actor| {
            let store = Store::new(gate.store_client(actor), tables.clone());
            (store, ConnectionsApi::new(gate.management_client(actor)))
        };
        let clients = (0..scenario.at_once.len()).map(client).collect();
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let (opening, now) = (RefCell::default(), RefCell::default());
        let stage = Self(Rc::new(Inner { scenario, gate, clock, tables, clients, opening, now }));
        stage.prepare().await;
        stage
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// What happens before anything happens at once.
    async fn prepare(&self) {
        let inner = &self.0;
        inner.now.borrow_mut().done = vec![false; inner.scenario.at_once.len()];
        for doing in inner.scenario.before {
            inner.act(0, *doing, "").await;
            inner.hear_sockets().unwrap();
            inner.look().expect("nothing is broken before it begins");
        }
        let connected_at = inner.clock.now();
        // Connections are no longer young.
        inner.clock.advance(Duration::from_mins(1));
        let mut scene = inner.now.borrow().clone();
        scene.done.fill(false);
        let (rows, sockets) = inner.gate.with_cloud(|cloud| (cloud.rows(), cloud.sockets().clone()));
        *inner.opening.borrow_mut() = Opening { rows, sockets, connected_at, scene };
    }
}

impl Play for Stage {
    fn begin(&self) -> Vec<Actor> {
        let Opening { rows, sockets, scene, .. } = &*self.0.opening.borrow();
        self.0.gate.with_cloud(|cloud| {
            cloud.restore(rows);
            cloud.sockets_restore(sockets);
        });
        self.0.now.borrow_mut().clone_from(scene);
        let actor = |(n, doing): (usize, &Doing)| {
            let (inner, doing) = (Rc::clone(&self.0), *doing);
            let name = format!("{}/{}", doing.user(), doing.verb());
            Actor { name, run: Box::pin(async move { inner.act(n, doing, "2").await }) }
        };
        self.0.scenario.at_once.iter().enumerate().map(actor).collect()
    }

    fn after(&self, passed: &Passed) -> Result<(), String> {
        match &passed.request {
            Some(request) if request.is_stale_read() && !self.0.is_of_own_devices(passed.actor, request) => {
                return Err(format!("not a consistent read: {}", passed.what));
            }
            Some(Request::Post { connection, frame }) if passed.status == Some(200) => {
                self.0.received(connection, frame)?;
            }
            Some(request) if request.writes() && passed.status.is_some() => self.0.look()?,
            _ => {}
        }
        self.0.unbroken()
    }

    async fn end(&self, faults: &[Step]) -> Result<(), String> {
        self.0.unbroken()?;
        self.0.ask_again().await?;
        let killed = |step: &Step| matches!(step.fault, Some(Fault::Killed | Fault::Conflict));
        if faults.iter().all(killed) {
            self.0.everybody_connected_has_everything()?;
            self.0.senders_have_their_ticks()?;
        }
        for user in ["alice", "bob"] {
            self.0.come_back(user).await?;
        }
        self.0.exactly_once()
    }
}

impl Inner {
    /// What a phone does. `suffix` tells its connection from the user's others.
    async fn act(&self, n: usize, doing: Doing, suffix: &str) {
        let connection = format!("{}={suffix}", doing.user());
        let done = match doing {
            Doing::Send { from, to, id } => self.send(n, from, to, id).await,
            Doing::Connect(user) => self.connect(n, user, &connection).await && self.drain(n, user).await,
            Doing::Disconnect(user) => self.disconnect(n, user).await,
            Doing::Drain(user) => self.drain(n, user).await,
            Doing::Ack(user, seq) => {
                let entry = json!({ "conversation_id": self.conversation(), "seq": seq });
                self.ask(n, user, &json!({ "action": "ack", "up_to": [entry] })).await.is_some()
            }
            Doing::Read(user, seq) => {
                let read = json!({ "action": "read", "conversation_id": self.conversation(), "seq": seq });
                self.ask(n, user, &read).await.is_some()
            }
        };
        self.now.borrow_mut().done[n] |= done;
    }

    async fn send(&self, n: usize, from: &'static str, to: &str, id: &'static str) -> bool {
        let send = json!({ "action": "send", "to": to, "client_msg_id": id, "kind": "text", "body": id });
        let Some(result) = self.ask(n, from, &send).await else { return false };
        let tables = self.tables();
        let stored = tables.by_client_msg_id(from, id).any(|message| message["message_id"] == result["message_id"]);
        if !stored {
            self.now.borrow_mut().broken = Some(format!("durable before answered: {id} is not stored: {result}"));
        }
        self.now.borrow_mut().sent.push((from, id, result));
        true
    }

    async fn connect(&self, n: usize, user: &str, connection: &str) -> bool {
        let event = self.event(user, connection, "$connect", "CONNECT");
        let response = connect::handle(&self.connect_deps(n), event).await.unwrap();
        if response.status_code != 200 {
            return false;
        }
        self.gate.pass(n, "socket opens", vec![socket_touch(connection, true)]).await;
        self.gate.with_cloud(|cloud| cloud.socket_open(connection));
        true
    }

    async fn disconnect(&self, n: usize, user: &str) -> bool {
        let connection = format!("{user}=");
        self.gate.pass(n, "socket closes", vec![socket_touch(&connection, true)]).await;
        self.gate.with_cloud(|cloud| cloud.socket_close(&connection));
        let event = self.event(user, &connection, "$disconnect", "DISCONNECT");
        connect::handle(&self.connect_deps(n), event).await.unwrap().status_code == 200
    }

    /// Until nothing is pending; each request acknowledges the page before.
    async fn drain(&self, n: usize, user: &str) -> bool {
        let mut drain = json!({ "action": "drain" });
        for _ in 0..PAGES_MAX {
            let Some(page) = self.ask(n, user, &drain).await else { return false };
            let messages = page["messages"].as_array().unwrap();
            for message in messages {
                self.hold(user, message);
            }
            match messages.last() {
                Some(last) => {
                    let entry = json!({ "conversation_id": last["conversation_id"], "seq": last["seq"] });
                    drain = json!({ "action": "drain", "ack": [entry] });
                }
                None => return page["more"] == false,
            }
        }
        panic!("{user}'s drain does not end")
    }

    /// The result, once it has arrived; `None` for an answer that asks to try again.
    async fn ask(&self, n: usize, user: &str, frame: &Value) -> Option<Value> {
        let action = frame["action"].as_str().unwrap();
        let mut event = self.event(user, &format!("{user}="), action, "MESSAGE");
        event.payload.body = Some(frame.to_string());
        let response = match action {
            "send" => send::handle(&self.send_deps(n), event).await,
            "read" => read::handle(&self.read_deps(n), event).await,
            "history" => inbox::handle(&self.inbox_deps(n), event).await,
            _ => drain::handle(&self.drain_deps(n), event).await,
        };
        let mut answer = frame_of(&response.unwrap());
        self.gate.pass(n, "has its answer", Vec::new()).await;
        if answer["type"] == "error" && answer["error"]["retryable"] != true {
            self.now.borrow_mut().broken = Some(format!("refused: {answer}"));
        }
        (answer["type"] == "reply").then(|| answer["result"].take())
    }

    /// Copies for a user's own other devices are a courtesy, and may miss one that is just connecting.
    fn is_of_own_devices(&self, actor: usize, request: &Request) -> bool {
        let Request::Store { body, .. } = request else { return false };
        let user = self.scenario.at_once[actor].user();
        body["TableName"] == self.tables.connections.as_str() && body["ExpressionAttributeValues"][":user"]["S"] == user
    }

    /// Those who had no answer, or one that said so, ask again.
    async fn ask_again(&self) -> Result<(), String> {
        for (n, doing) in self.scenario.at_once.iter().enumerate() {
            if !self.now.borrow().done[n] {
                self.act(n, *doing, "3").await;
                self.look()?;
                self.unbroken()?;
                ensure!(self.now.borrow().done[n], "asked again, {doing:?} has no answer");
            }
        }
        Ok(())
    }

    /// Whoever has a socket has every message, without asking once more.
    fn everybody_connected_has_everything(&self) -> Result<(), String> {
        self.hear_sockets()?;
        let rows = self.gate.with_cloud(|cloud| cloud.scan(&self.tables.connections));
        let rows: Vec<_> = rows.iter().map(plain).collect();
        let sockets: Vec<String> = self.gate.with_cloud(|cloud| cloud.sockets().keys().cloned().collect());
        for socket in &sockets {
            let found = rows.iter().any(|row| row["connection_id"] == socket.as_str());
            ensure!(found, "{socket} is open and can't be found: {rows:?}");
        }
        let scene = self.now.borrow();
        let connected = |user: &str| sockets.iter().any(|id| owner(id) == user);
        for row in scene.tables.inbox.iter().filter(|row| connected(string(row, "user_id"))) {
            let user = string(row, "user_id");
            let missing: Vec<_> = scene.tables.by_others(user).filter(|seq| !holds(&scene, user, *seq)).collect();
            ensure!(missing.is_empty(), "{user} is connected and never received {missing:?}");
        }
        Ok(())
    }

    /// Whoever is connected was told of what the other acknowledged or read: by a receipt for it or for something later.
    fn senders_have_their_ticks(&self) -> Result<(), String> {
        let sockets = self.gate.with_cloud(|cloud| cloud.sockets().clone());
        for doing in self.scenario.at_once {
            let (user, seq, types) = match *doing {
                Doing::Ack(user, seq) => (user, seq, ["receipt.delivered", "receipt.read"]),
                Doing::Read(user, seq) => (user, seq, ["receipt.read"; 2]),
                _ => continue,
            };
            let tells = |frame: &Value| {
                types.contains(&string(frame, "type")) && frame["user_id"] == user && number(frame, "seq") >= seq
            };
            let mut others = sockets.iter().filter(|(connection, _)| owner(connection) != user);
            let untold = others.find(|(_, frames)| !frames.iter().any(tells));
            ensure!(untold.is_none(), "{doing:?} was never told to {untold:?}");
        }
        Ok(())
    }

    /// A reconnect, after which nothing may be pending, and the history says what is stored.
    async fn come_back(&self, user: &'static str) -> Result<(), String> {
        self.act(0, Doing::Connect(user), "4").await;
        self.hear_sockets()?;
        self.look()?;
        self.unbroken()?;
        let Some((messages, conversation)) = self.received_all(user)? else { return Ok(()) };
        let history = self.ask(0, user, &json!({ "action": "history", "conversation_id": conversation })).await;
        let told = history.map(|mut history| history["messages"].take()).unwrap_or_default();
        let ids = |messages: &[Value]| -> Vec<_> {
            messages.iter().map(|message| (number(message, "seq"), string(message, "message_id").to_owned())).collect()
        };
        let told = told.as_array().map(|told| ids(told)).unwrap_or_default();
        ensure!(told == ids(&messages), "{user}'s history is {told:?}, stored is {messages:#?}");
        Ok(())
    }

    /// That nothing waits for the user and nothing is missing: the messages that are stored, and their conversation.
    fn received_all(&self, user: &'static str) -> Result<Option<(Vec<Value>, Value)>, String> {
        let scene = self.now.borrow();
        let Some(row) = scene.tables.inbox.iter().find(|row| row["user_id"] == user) else { return Ok(None) };
        ensure!(row.get("pending_since").is_none(), "drained, and still pending: {row}");
        let missing: Vec<_> = scene.tables.by_others(user).filter(|seq| !holds(&scene, user, *seq)).collect();
        ensure!(missing.is_empty(), "{user} drained and never received {missing:?}");
        Ok(Some((scene.tables.messages.clone(), row["conversation_id"].clone())))
    }

    /// Each `client_msg_id` is one message, and all its answers say the same.
    fn exactly_once(&self) -> Result<(), String> {
        let scene = self.now.borrow();
        let doings = self.scenario.before.iter().chain(self.scenario.at_once);
        for doing in doings {
            let Doing::Send { from, id, .. } = *doing else { continue };
            let stored: Vec<_> = scene.tables.by_client_msg_id(from, id).collect();
            ensure!(stored.len() == 1, "exactly once: {id} is stored {} times", stored.len());
            let answers = || scene.sent.iter().filter(|(sender, sent, _)| (*sender, *sent) == (from, id));
            let message = stored[0];
            let same = |answer: &Value| ["seq", "message_id"].iter().all(|name| answer[*name] == message[*name]);
            ensure!(answers().all(|(.., answer)| same(answer)), "answers differ from {message}: {:?}", scene.sent);
            let firsts = answers().filter(|(.., answer)| answer["duplicate"] == false).count();
            ensure!(firsts <= 1, "{id} was the first {firsts} times: {:?}", scene.sent);
        }
        Ok(())
    }

    /// Notes what is stored, and checks it.
    fn look(&self) -> Result<(), String> {
        let tables = self.tables();
        let mut scene = self.now.borrow_mut();
        tables.check(&scene.tables, &scene.held)?;
        scene.tables = tables;
        Ok(())
    }

    fn unbroken(&self) -> Result<(), String> {
        self.now.borrow().broken.clone().map_or(Ok(()), Err)
    }

    fn tables(&self) -> Tables {
        let rows =
            |table: &str| -> Vec<Value> { self.gate.with_cloud(|cloud| cloud.scan(table).iter().map(plain).collect()) };
        let mut messages = rows(&self.tables.messages);
        messages.sort_by_key(|message| number(message, "seq"));
        Tables { messages, idempotency: rows(&self.tables.idempotency), inbox: rows(&self.tables.inbox) }
    }

    /// A frame came through a socket. What it brings must have been stored before.
    fn received(&self, connection: &str, frame: &Value) -> Result<(), String> {
        if frame["type"] == "messages.new" {
            let tables = self.tables();
            for message in frame["messages"].as_array().into_iter().flatten() {
                let stored = tables.messages.iter().find(|row| row["seq"] == message["seq"]);
                ensure!(
                    stored.is_some_and(|row| row["message_id"] == message["message_id"]),
                    "durable before delivered: {frame} is not stored"
                );
                self.hold(owner(connection), message);
            }
        }
        Ok(())
    }

    /// While the gate is open, nobody is told of each frame; so all are heard again.
    fn hear_sockets(&self) -> Result<(), String> {
        let sockets = self.gate.with_cloud(|cloud| cloud.sockets().clone());
        for (connection, frames) in &sockets {
            for frame in frames {
                self.received(connection, frame)?;
            }
        }
        Ok(())
    }

    fn hold(&self, user: &str, message: &Value) {
        self.now.borrow_mut().held.entry(user.to_owned()).or_default().insert(number(message, "seq"));
    }

    fn conversation(&self) -> Value {
        let scene = self.now.borrow();
        scene.tables.inbox.first().map(|row| row["conversation_id"].clone()).expect("there is a conversation")
    }

    fn event(&self, user: &str, connection: &str, route: &str, kind: &str) -> Event {
        let now = self.clock.now().millis();
        let event = json!({
            "requestContext": {
                "routeKey": route, "eventType": kind, "connectionId": connection, "requestId": "r",
                "connectedAt": now, "requestTimeEpoch": now,
                "authorizer": { "principalId": user, "exp": "4102444800" },
            },
            "isBase64Encoded": false,
        });
        LambdaEvent::new(serde_json::from_value(event).expect("the event parses"), Context::default())
    }

    fn clock(&self) -> Clock {
        let clock = self.clock.clone();
        Clock::new(move || clock.now())
    }

    /// Of a process that has just started, or has posted to everybody who was connected when the actors began.
    fn fanout(&self, n: usize) -> Fanout {
        let (store, connections) = self.clients[n].clone();
        let fanout = Fanout::new(store, connections);
        let Opening { sockets, connected_at, .. } = &*self.opening.borrow();
        for id in sockets.keys().filter(|_| self.scenario.remembering) {
            let connection = Connection { id: ConnectionId::new(id), connected_at: *connected_at };
            fanout.remember(&UserId::parse(owner(id)).unwrap(), connection);
        }
        fanout
    }

    fn connect_deps(&self, n: usize) -> connect::Deps {
        connect::Deps { store: self.clients[n].0.clone(), clock: self.clock() }
    }

    fn send_deps(&self, n: usize) -> send::Deps {
        send::Deps { store: self.clients[n].0.clone(), fanout: self.fanout(n), clock: self.clock() }
    }

    fn drain_deps(&self, n: usize) -> drain::Deps {
        drain::Deps { store: self.clients[n].0.clone(), fanout: self.fanout(n), clock: self.clock() }
    }

    fn read_deps(&self, n: usize) -> read::Deps {
        read::Deps { store: self.clients[n].0.clone(), fanout: self.fanout(n), clock: self.clock() }
    }

    fn inbox_deps(&self, n: usize) -> inbox::Deps {
        inbox::Deps { store: self.clients[n].0.clone(), clock: self.clock() }
    }
}

fn owner(connection: &str) -> &str {
    connection.split('=').next().unwrap_or_default()
}

fn holds(scene: &Scene, user: &str, seq: u64) -> bool {
    scene.held.get(user).is_some_and(|held| held.contains(&seq))
}

fn frame_of(response: &Response) -> Value {
    let response = serde_json::to_value(response).unwrap();
    assert_eq!(response["statusCode"], 200, "API Gateway delivers only these");
    serde_json::from_str(response["body"].as_str().unwrap()).unwrap()
}
