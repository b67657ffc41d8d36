//! Runs the engine through what it exports.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::edge::{TokenNeed, Why};
use crate::reader::{Notice, Reader};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("pigeonhole-ffi-{:x}", fastrand::u64(..)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn setup(&self) -> EngineSetup {
        EngineSetup { folder: Some(self.0.to_string_lossy().into_owned()), ..in_memory() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn in_memory() -> EngineSetup {
    EngineSetup {
        folder: None,
        messages: false,
        user_id: "alice".to_owned(),
        seed: 1,
        timing: HashMap::new(),
        saved: None,
        encrypted: None,
        names: false,
        http: false,
    }
}

fn code<T>(result: Result<T, Fault>) -> String {
    let Fault::Failed { code, .. } = result.err().unwrap();
    code
}

fn hi(ask: u64) -> EdgeInput {
    let request = json!({"client_msg_id": "m1", "target": {"to": "bob"}, "body": "hi"}).to_string();
    EdgeInput::Keep { ask, request }
}

fn sent(turn: &Turn) -> Vec<Value> {
    let frame = |output: &EdgeOutput| match output {
        EdgeOutput::Send { text, .. } => Some(serde_json::from_str(text).unwrap()),
        _ => None,
    };
    turn.outputs.iter().filter_map(frame).collect()
}

/// Opens the connection that the engine dials first.
fn connect(engine: &Engine) -> Turn {
    let turn = engine.turn(vec![], 0, 0).unwrap();
    let dialled = turn.outputs.iter().any(|it| matches!(it, EdgeOutput::Dial { link: 1, need: TokenNeed::Connect }));
    assert!(dialled, "{turn:?}");
    engine.turn(vec![EdgeInput::Opened { link: 1, token_left_ms: None }], 0, 0).unwrap()
}

#[test]
fn a_message_is_sent_and_its_reply_answers_the_caller() {
    let engine = Engine::open(in_memory()).unwrap();
    connect(&engine);
    let frames = sent(&engine.turn(vec![hi(7)], 1, 0).unwrap());
    let send = frames.iter().find(|frame| frame["action"] == "send").unwrap();
    assert_eq!((&send["to"], &send["body"]), (&json!("bob"), &json!("hi")));
    let result = json!({"conversation_id": "dm_ab", "seq": 1, "message_id": "0198b7a0-0000-7000-8000-000000000001",
        "sent_at": "2026-11-20T10:00:01.000Z", "duplicate": false});
    let text = json!({"type": "reply", "action": "send", "id": send["id"], "result": result}).to_string();
    let turn = engine.turn(vec![EdgeInput::Frame { link: 1, text }], 2, 0).unwrap();
    let answer = turn.outputs.iter().find_map(|output| match output {
        EdgeOutput::Answered { ask: 7, result } => Some(serde_json::from_str::<Value>(result).unwrap()),
        _ => None,
    });
    assert_eq!(answer.unwrap()["seq"], 1);
    assert_eq!(engine.counters().unwrap().answered, 1);
    assert!(engine.outbox().unwrap().is_empty());
}

#[test]
fn a_kept_message_survives_the_engine() {
    let folder = Folder::new();
    let engine = Engine::open(folder.setup()).unwrap();
    engine.turn(vec![hi(1)], 0, 0).unwrap();
    assert_eq!(code(Engine::open(folder.setup())), "locked");
    drop(engine);
    let engine = Engine::open(folder.setup()).unwrap();
    let bodies = sent(&connect(&engine)).into_iter().filter_map(|frame| frame.get("body").cloned());
    assert_eq!(bodies.collect::<Vec<_>>(), ["hi"]);
    drop(engine);
    let bob = EngineSetup { user_id: "bob".to_owned(), ..folder.setup() };
    assert_eq!(code(Engine::open(bob)), "wrong_user");
}

#[test]
fn a_request_that_can_be_none_is_refused_alone() {
    let engine = Engine::open(in_memory()).unwrap();
    let keep = |ask, request: Value| EdgeInput::Keep { ask, request: request.to_string() };
    let turn = engine.turn(
        vec![
            keep(1, json!({"client_msg_id": "m2", "target": {"to": "bob"}, "body": "x".repeat(20_000)})),
            keep(2, json!({"client_msg_id": "m3", "create": {"title": "", "members": []}})),
            EdgeInput::Ask { ask: 3, request: json!({"action": "dance"}).to_string() },
            EdgeInput::Watch { ask: 4, conversation_id: String::new(), after_seq: None },
            EdgeInput::Typing { conversation_id: String::new() },
            hi(5),
        ],
        0,
        0,
    );
    let refusal = |output| match output {
        EdgeOutput::Refused { ask, code, .. } => Some((ask, code)),
        _ => None,
    };
    let refused: Vec<_> = turn.unwrap().outputs.into_iter().filter_map(refusal).collect();
    let codes = [(1, "too_large"), (2, "bad_request"), (3, "unknown_action"), (4, "bad_request")];
    assert_eq!(refused, codes.map(|(ask, code)| (ask, code.to_owned())));
    assert_eq!(engine.outbox().unwrap().len(), 1);
}

#[test]
fn nothing_leaves_before_the_store_has_it() {
    let folder = Folder::new();
    let engine = Engine::open(folder.setup()).unwrap();
    connect(&engine);
    let other = rusqlite::Connection::open(folder.0.join("store")).unwrap();
    other.execute_batch("ALTER TABLE outbox RENAME TO gone").unwrap();
    for turn in [engine.turn(vec![hi(1)], 1, 0), engine.turn(vec![], 2, 0)] {
        assert!(matches!(turn, Err(Fault::Failed { code, retryable: true, .. }) if code == "store"));
    }
    assert_eq!(code(engine.flush()), "store");
    other.execute_batch("ALTER TABLE gone RENAME TO outbox").unwrap();
    let bodies = sent(&engine.turn(vec![], 3, 0).unwrap()).into_iter().filter_map(|frame| frame.get("body").cloned());
    assert_eq!(bodies.collect::<Vec<_>>(), ["hi"]);
    engine.flush().unwrap();
}

#[test]
fn what_another_client_kept_is_taken_over_once() {
    let folder = Folder::new();
    let saved = |held: u64| {
        let request = json!({"client_msg_id": "m1", "target": {"to": "bob"}, "body": "hi"});
        json!({"outbox": [request], "held": {"dm_ab": held}, "caught_up": "2026-11-20T10:00:00.000Z"})
    };
    for held in [4, 9] {
        let setup = EngineSetup { saved: Some(saved(held).to_string()), ..folder.setup() };
        let found = Engine::open(setup).unwrap().saved().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), saved(4));
    }
    let unusable = EngineSetup { saved: Some("[]".to_owned()), ..folder.setup() };
    assert_eq!(code(Engine::open(unusable)), "config");
}

#[test]
fn a_panic_ends_the_engine() {
    let engine = Engine::open(in_memory()).unwrap();
    assert_eq!(code(engine.with::<()>(|_| panic!("on purpose"))), "broken");
    assert_eq!(code(engine.turn(vec![], 0, 0)), "broken");
    assert_eq!(code(engine.outbox()), "broken");
}

#[test]
fn times_and_users_are_checked() {
    let timing = HashMap::from([("coffee".to_owned(), 1)]);
    assert_eq!(code(Engine::open(EngineSetup { timing, ..in_memory() })), "config");
    assert_eq!(code(Engine::open(EngineSetup { user_id: String::new(), ..in_memory() })), "config");
    let timing = HashMap::from([("reconnect_first".to_owned(), 0)]);
    let engine = Engine::open(EngineSetup { timing, ..in_memory() }).unwrap();
    engine.turn(vec![], 0, 0).unwrap();
    let why = Why::Status { status: 503 };
    let turn = engine.turn(vec![EdgeInput::Ended { link: 1, why }], 5, 0).unwrap();
    let offline = json!({"state": {"is": "offline", "why": "refused", "status": 503, "retry_at": 5,
        "reason": "the server refused the connection (HTTP 503)"}});
    let told = turn.outputs.iter().filter_map(|output| match output {
        EdgeOutput::Event { event } => Some(serde_json::from_str::<Value>(event).unwrap()),
        _ => None,
    });
    assert!(told.collect::<Vec<_>>().contains(&offline), "{turn:?}");
}

fn shown(turn: Turn, view: u64) -> Option<Value> {
    let mut outputs = turn.outputs.into_iter();
    outputs.find_map(|output| match output {
        EdgeOutput::Show { view: of, shown } if of == view => Some(serde_json::from_str(&shown).unwrap()),
        _ => None,
    })
}

#[test]
fn a_view_has_what_the_store_has_in_the_turn_that_opens_it() {
    let folder = Folder::new();
    let setup = || EngineSetup { messages: true, ..folder.setup() };
    let engine = Engine::open(setup()).unwrap();
    engine.turn(vec![hi(1)], 0, 1_763_632_800_000).unwrap();
    drop(engine);
    let engine = Engine::open(setup()).unwrap();
    let open = |view, of: Value| EdgeInput::Open { view, of: of.to_string() };
    let list = shown(engine.turn(vec![open(1, json!({"chats": {}}))], 0, 0).unwrap(), 1).unwrap();
    assert_eq!(list["chats"]["rows"][0]["peer_id"], "bob");
    assert_eq!(list["chats"]["rows"][0]["line"]["progress"], json!({"state": "waiting"}));
    let of = json!({"messages": {"with": {"to": "bob"}, "at": "first_unread"}});
    let screen = shown(engine.turn(vec![open(2, of)], 0, 0).unwrap(), 2).unwrap();
    let items = &screen["messages"]["messages"]["items"];
    assert_eq!((&items[0]["type"], &items[0]["day"]), (&json!("day"), &json!("2025-11-20")));
    assert_eq!((&items[1]["type"], &items[1]["body"]), (&json!("message"), &json!("hi")));
    // Nothing changes, so nothing is drawn. Invalid JSON opens nothing.
    let of = EdgeInput::Open { view: 3, of: "{".to_owned() };
    assert!(shown(engine.turn(vec![of], 1, 0).unwrap(), 2).is_none());
    let act =
        EdgeInput::Draft { target: json!({"to": "bob"}).to_string(), draft: Some(json!({"body": "we"}).to_string()) };
    let list = shown(engine.turn(vec![act], 2, 0).unwrap(), 1).unwrap();
    assert_eq!(list["chats"]["rows"][0]["draft"]["body"], "we");
}

#[test]
fn a_reader_tells_beside_the_engine_what_a_notification_shows() {
    let folder = Folder::new();
    let engine = Engine::open(EngineSetup { messages: true, ..folder.setup() }).unwrap();
    connect(&engine);
    let entry = |seq: u64, kind: &str, more: Value| {
        let mut entry = json!({"conversation_id": "dm_ab", "seq": seq, "message_id": "x", "sender_id": "bob", "kind": kind,
            "body": "", "sent_at": "2026-11-20T10:00:00.000Z"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"type": "messages.new", "conversation_id": "dm_ab", "messages": [entry]}).to_string()
    };
    let frame = |text: String| drop(engine.turn(vec![EdgeInput::Frame { link: 1, text }], 2, 0).unwrap());
    frame(entry(1, "text", json!({"body": "are you there?"})));
    let path = folder.0.to_string_lossy().into_owned();
    assert_eq!(code(Reader::open(path.clone(), "bob".to_owned())), "wrong_user");
    let reader = Reader::open(path, "alice".to_owned()).unwrap();
    let notice = |seq| reader.notice("dm_ab".to_owned(), seq).unwrap();
    let shown = Notice { title: None, sender_id: Some("bob".to_owned()), body: Some("are you there?".to_owned()) };
    assert_eq!(notice(1), Some(shown));
    assert_eq!(notice(2), Some(Notice { title: None, sender_id: None, body: None }), "it has not come");
    let messages: Value = serde_json::from_str(&reader.messages("dm_ab".to_owned(), None, 9).unwrap()).unwrap();
    assert_eq!(messages[0]["body"], "are you there?");
    frame(entry(2, "delete", json!({"target_seq": 1})));
    assert_eq!(notice(1), None, "the author has deleted it");
    assert_eq!((reader.unread().unwrap(), &*reader.chats().unwrap()), (0, "[]"));
}
