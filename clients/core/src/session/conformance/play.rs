//! One client, in the hands of a script.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use wire::{ClientMsgId, ConversationId, Message, Request, Seq, Timestamp, UserId};

use super::frames::{check_request, check_server_frame};
use super::script::{
    assert_answer, assert_within, comparable, need_name, plain_event, plain_queued, plain_stats, queued_of, read,
    saved, target_of, timing, verb, why_not_opened,
};
use crate::chat::tests::conformance::{brief, brief_row};
use crate::chat::{Reply, Shown, ViewId};
use crate::group::Draft;
use crate::media::{Put, PutEnd, PutNews};
use crate::saved::{Queued, Saved};
use crate::session::Core;
use crate::turn::{Ask, AskId, Input, Keeper, LinkId, Output, Setup};
use crate::{Error, Event, MemStore, Moment, Timing, TokenNeed, Why, Write};

/// A request of the client.
#[derive(Clone, Debug)]
struct Asked {
    link: LinkId,
    by_http: bool,
    frame: Value,
}

pub(super) struct Play {
    name: String,
    timing: Timing,
    core: Core,
    /// When the core has something to do.
    wake_at: Option<Moment>,
    now: Moment,
    keeper: Keeper,
    store: MemStore,
    dialing: Option<LinkId>,
    open: Vec<LinkId>,
    // The client's outputs that no step has expected yet.
    dials: VecDeque<(LinkId, TokenNeed)>,
    asks: VecDeque<Asked>,
    closes: VecDeque<LinkId>,
    events: VecDeque<Event>,
    /// The newest content of each view that has changed.
    shown: BTreeMap<ViewId, Shown>,
    puts: VecDeque<(ClientMsgId, Put)>,
    aborts: VecDeque<ClientMsgId>,
    answers: BTreeMap<String, Result<Value, Error>>,
    /// The requests that have a name.
    named: BTreeMap<String, Asked>,
    /// The message whose bytes each URL takes.
    put: BTreeMap<String, ClientMsgId>,
    /// The names of the app's calls.
    calls: BTreeMap<AskId, String>,
    last_ask: AskId,
}

impl Play {
    pub(super) fn new(scenario: &Value) -> Self {
        let timing = timing(&scenario["timing"]);
        let keeper = if scenario["keep"] == "messages" { Keeper::Store } else { Keeper::App };
        let mut store = MemStore::new(alice());
        store.apply(&saved(&scenario["saved"]));
        let mut play = Self {
            name: scenario["name"].as_str().unwrap().to_owned(),
            core: core(&timing, keeper, store.saved()),
            wake_at: None,
            timing,
            now: Moment::default(),
            keeper,
            store,
            dialing: None,
            open: Vec::new(),
            dials: VecDeque::new(),
            asks: VecDeque::new(),
            closes: VecDeque::new(),
            events: VecDeque::new(),
            shown: BTreeMap::new(),
            puts: VecDeque::new(),
            aborts: VecDeque::new(),
            put: BTreeMap::new(),
            answers: BTreeMap::new(),
            named: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_ask: 0,
        };
        play.turn((scenario["http"] == true).then_some(Input::Http));
        play
    }

    pub(super) fn take(&mut self, step: &Value) {
        if !self.expect(step) {
            self.nothing_else(&format!("before {step}"));
            self.happen(step);
        }
    }

    pub(super) fn nothing_else(&self, when: &str) {
        let idle = self.dials.is_empty() && self.asks.is_empty() && self.closes.is_empty();
        let idle = idle && self.puts.is_empty() && self.aborts.is_empty() && self.shown.is_empty();
        assert!(idle && self.events.is_empty() && self.answers.is_empty(), "{when}: {}", self.left());
    }

    fn left(&self) -> String {
        let Self { name, dials, asks, closes, events, shown, puts, aborts, answers, .. } = self;
        format!(
            "“{name}”: there are {dials:?} {asks:?} {closes:?} {events:?} {shown:?} {puts:?} {aborts:?} {answers:?}"
        )
    }

    /// The client has an input, or only the time.
    fn turn(&mut self, input: impl Into<Option<Input>>) {
        let step = self.core.turn(input.into().into_iter().collect(), self.now, Timestamp::default());
        let is_change = |write: &Write| matches!(write, Write::Change(_));
        assert!(self.keeper == Keeper::Store || step.writes.iter().all(is_change), "the app keeps its messages");
        self.store.apply(&step.writes);
        self.wake_at = step.wake_at;
        let mut loaded = Vec::new();
        for output in step.outputs {
            match output {
                Output::Dial { link, need } => self.dials.push_back((link, need)),
                Output::Send { link, text } => {
                    check_request(&text);
                    let frame = serde_json::from_str(&text).unwrap();
                    self.asks.push_back(Asked { link, by_http: false, frame });
                }
                Output::Post { link, request, action, text } => {
                    check_request(&text);
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!((&frame["action"], &frame["id"]), (&json!(action), &json!(request.to_string())));
                    self.asks.push_back(Asked { link, by_http: true, frame });
                }
                Output::Close { link } => {
                    self.open.retain(|open| *open != link);
                    self.closes.push_back(link);
                }
                Output::Tell(event) => self.events.push_back(event),
                Output::Load { load, what } => loaded.push((load, what)),
                Output::Show { view, shown } => drop(self.shown.insert(view, shown)),
                Output::Answer { ask, result } => {
                    let name = self.calls.remove(&ask).expect("each call has one answer");
                    self.answers.insert(name, result.map(|reply| serde_json::to_value(reply).unwrap()));
                }
                Output::Cancelled { ask, in_time } => {
                    let name = self.calls.remove(&ask).expect("each call has one answer");
                    self.answers.insert(name, Ok(json!(in_time)));
                }
                Output::Put { client_msg_id, put } => self.puts.push_back((client_msg_id, put)),
                Output::Abort { client_msg_id } => self.aborts.push_back(client_msg_id),
                Output::Carry { .. } => panic!("no client has keys here"),
            }
        }
        for (load, what) in loaded {
            let found = Box::new(self.store.load(&what));
            self.turn(Input::Loaded { load, found });
        }
    }
}

fn core(timing: &Timing, keeper: Keeper, saved: Saved) -> Core {
    Core::new(Setup { me: alice(), timing: timing.clone(), keeper, saved, keyring: None }, fastrand::u64(..))
}

fn view(fields: &Value) -> ViewId {
    fields["view"].as_u64().unwrap()
}

/// The content of a view, or an act in it.
fn content(fields: &Value) -> Value {
    let (name, what) = fields.as_object().unwrap().iter().find(|(name, _)| *name != "view").unwrap();
    if *what == true { json!(name) } else { json!({name: what}) }
}

fn assert_shown(expected: &Value, shown: &Shown, place: &str) {
    for (name, expected) in expected.as_object().unwrap().iter().filter(|(name, _)| *name != "view") {
        let found = match (name.as_str(), shown) {
            ("rows", Shown::Chats(list)) => list.rows.iter().map(|row| brief_row(row)).collect(),
            ("unread", Shown::Chats(list)) => json!(list.unread),
            ("names", Shown::Chats(list)) => json!(list.names),
            ("names", Shown::Messages(screen)) => json!(screen.names),
            ("items", Shown::Messages(screen)) => screen.messages.items.iter().map(|item| brief(item)).collect(),
            ("unread", Shown::Messages(screen)) => json!(screen.messages.unread),
            ("pins", Shown::Messages(screen)) => {
                let pin = |pin: &Reply| json!([pin.seq, pin.message.as_ref().map(|it| &it.body)]);
                screen.messages.pins.iter().map(pin).collect()
            }
            ("has_older", Shown::Messages(screen)) => json!(screen.messages.has_older),
            ("has_newer", Shown::Messages(screen)) => json!(screen.messages.has_newer),
            (other, _) => panic!("the view has no {other}"),
        };
        assert_eq!(found, *expected, "{place}: {name}");
    }
}

fn alice() -> UserId {
    UserId::parse("alice").unwrap()
}

/// Steps that happen to the client.
impl Play {
    fn happen(&mut self, step: &Value) {
        let (verb, what) = verb(step, &["app", "wait", "open", "fail", "end", "server", "raw", "answer", "put"]);
        match verb {
            "app" => self.app(what, step["as"].as_str().unwrap_or_default()),
            "wait" => self.wait(Duration::from_millis(what.as_u64().unwrap())),
            "open" => {
                let link = self.dialing.take().expect("something is being dialled");
                self.open.push(link);
                let token_left = what["token_ms"].as_u64().map(Duration::from_millis);
                self.turn(Input::Opened { link, token_left });
            }
            "fail" => {
                let link = self.dialing.take().expect("something is being dialled");
                self.turn(Input::Ended { link, why: why_not_opened(what) });
            }
            "end" => {
                let link = self.link(step);
                self.open.retain(|open| *open != link);
                // A connection that ends without a goodbye has no code.
                let why = if what == 1006 { Why::Lost(String::new()) } else { Why::Closed };
                self.turn(Input::Ended { link, why });
            }
            "put" => self.put(what),
            "server" => self.say(self.link(step), what),
            "raw" => self.frame(self.link(step), what.as_str().unwrap()),
            _ => {
                let asked = self.named[what.as_str().unwrap()].clone();
                self.answer(&asked, step);
            }
        }
    }

    fn app(&mut self, what: &Value, name: &str) {
        if what == "restart" {
            self.core = core(&self.timing, self.keeper, self.store.saved());
            self.dialing = None;
            self.open.clear();
            self.put.clear();
            return self.turn(None);
        }
        if what == "close" {
            return self.turn(Input::Closing);
        }
        if what == "names" {
            return self.turn(Input::Names);
        }
        if what == "wake" {
            return self.turn(Input::Wake);
        }
        let (does, fields) = what.as_object().and_then(|does| does.iter().next()).expect("the app does something");
        let conversation = || read::<ConversationId>(&fields["conversation_id"]);
        let seq = || read::<Seq>(&fields["seq"]);
        match does.as_str() {
            "send" => self.send(queued_of(fields)),
            "reply" => {
                let mut message = fields.clone();
                message["reply_to"] = fields["seq"].clone();
                self.send(queued_of(&message));
            }
            "show" => self.turn(Input::Open { view: view(fields), of: read(&content(fields)) }),
            "act" => self.turn(Input::Act { view: view(fields), act: read(&content(fields)) }),
            "hide" => self.turn(Input::Close(view(fields))),
            "draft" => {
                let draft = fields["body"].as_str().map(Draft::new);
                self.turn(Input::Draft { target: target_of(fields), draft });
            }
            "again" => self.ask(name, Ask::Again(read(fields))),
            "dismiss" => self.turn(Input::Dismiss(read(fields))),
            "typing" => self.turn(Input::Typing(conversation())),
            "read" => self.ask(name, Ask::Read { conversation_id: conversation(), seq: seq() }),
            "done" => self.turn(Input::Handled { conversation_id: conversation(), seq: seq() }),
            "cancel" => self.ask(name, Ask::Cancel(read(&fields["client_msg_id"]))),
            "watch" => {
                self.ask(name, Ask::Watch { conversation_id: conversation(), after: read(&fields["after_seq"]) });
            }
            "unwatch" => self.turn(Input::Unwatch(conversation())),
            stored if fields.get("client_msg_id").is_some() => {
                let mut change =
                    json!({"client_msg_id": fields["client_msg_id"], "conversation_id": fields["conversation_id"]});
                change[stored] = fields.clone();
                change[stored].as_object_mut().unwrap().remove("client_msg_id");
                self.send(queued_of(&change));
            }
            action => self.call(action, fields, name),
        }
    }

    /// The app calls the action of that name.
    fn call(&mut self, action: &str, fields: &Value, name: &str) {
        let mut frame = fields.clone();
        frame["action"] = action.into();
        let action = Request::parse(&frame.to_string()).expect("it is a request").action;
        self.ask(name, Ask::Question(action));
    }

    /// Ends a PUT with the result of the step.
    fn put(&mut self, what: &Value) {
        let url = what["url"].as_str().unwrap();
        let id = self.put.get(url).expect("it is put").clone();
        if let Some(sent) = what["sent"].as_u64() {
            return self.turn(Input::Put { client_msg_id: id, news: PutNews::Sent(sent) });
        }
        let end = match what["status"].as_u64() {
            Some(status) => PutEnd::Status(u16::try_from(status).unwrap()),
            None if what.get("lost").is_some() => PutEnd::Lost,
            None => PutEnd::Unreadable("no".to_owned()),
        };
        self.put.remove(url);
        self.turn(Input::Put { client_msg_id: id, news: PutNews::Ended(end) });
    }

    fn send(&mut self, queued: Queued) {
        let name = queued.client_msg_id.to_string();
        self.ask(&name, Ask::Keep(queued));
    }

    fn ask(&mut self, name: &str, what: Ask) {
        self.last_ask += 1;
        self.calls.insert(self.last_ask, name.to_owned());
        self.turn(Input::Ask { ask: self.last_ask, what });
    }

    fn wait(&mut self, wait: Duration) {
        let end = self.now + wait;
        while let Some(next) = self.wake_at.filter(|next| *next < end) {
            self.tick(next);
            self.nothing_else(&format!("{:?} before the end", end - self.now));
        }
        self.tick(end);
    }

    fn tick(&mut self, at: Moment) {
        self.now = self.now.max(at);
        self.turn(None);
    }

    fn link(&self, step: &Value) -> LinkId {
        step["link"].as_u64().or_else(|| self.open.last().copied()).expect("a connection is open")
    }

    fn frame(&mut self, link: LinkId, text: &str) {
        self.turn(Input::Frame { link, text: text.to_owned() });
    }

    fn say(&mut self, link: LinkId, frame: &Value) {
        check_server_frame(frame);
        self.frame(link, &frame.to_string());
    }

    fn answer(&mut self, asked: &Asked, step: &Value) {
        let request = &asked.frame;
        let frame = |kind: &str, field: &str, what: &Value| json!({"type": kind, "action": request["action"], "id": request["id"], field: what});
        let frame = if let Some(broken) = step.get("broken") {
            frame("reply", "result", broken)
        } else if let Some(error) = step.get("error") {
            frame("error", "error", error)
        } else if let Some(result) = step.get("result") {
            frame("reply", "result", result)
        } else {
            json!({"message": "Too Many Requests"})
        };
        if asked.by_http {
            let status = step.get("status").map_or(Some(200), Value::as_u64);
            let status = status.map(|status| u16::try_from(status).unwrap());
            let request = request["id"].as_str().unwrap().parse().unwrap();
            return self.turn(Input::Posted { link: asked.link, request, status, body: frame.to_string() });
        }
        if step.get("broken").is_none() {
            check_server_frame(&frame);
        }
        self.frame(asked.link, &frame.to_string());
    }
}

/// Steps that the client must do.
impl Play {
    /// `false`: the step expects nothing.
    fn expect(&mut self, step: &Value) -> bool {
        if let Some(dials) = step.get("dials") {
            let (link, need) = self.next(step, |play| play.dials.pop_front());
            assert_eq!(dials["need"], need_name(need), "{}", self.left());
            self.dialing = Some(link);
        } else if let Some(request) = step.get("asks") {
            self.expect_request(step, request);
        } else if let Some(expected) = step.get("puts") {
            let (id, put) = self.next(step, |play| play.puts.pop_front());
            let headers: BTreeMap<_, _> = put.headers.into_iter().collect();
            let found =
                json!({"file": put.path, "offset": put.offset, "bytes": put.bytes, "url": put.url, "headers": headers});
            assert_eq!(found, *expected, "{step}");
            self.put.insert(put.url, id);
        } else if let Some(id) = step.get("aborts") {
            assert_eq!(self.aborts.pop_front(), Some(read(id)), "{step}: {}", self.left());
        } else if let Some(link) = step.get("closes") {
            assert_eq!(self.closes.pop_front(), link.as_u64(), "{step}: {}", self.left());
        } else if let Some(told) = step.get("told") {
            for told in told.as_array().unwrap_or(&vec![told.clone()]) {
                self.expect_event(step, told);
            }
        } else if let Some(expected) = step.get("shows") {
            let shown = self.shown.remove(&view(expected)).unwrap_or_else(|| panic!("{step}: {}", self.left()));
            assert_shown(expected, &shown, &format!("“{}”, {step}", self.name));
        } else if let Some(name) = step.get("answered") {
            let answer = self.answers.remove(name.as_str().unwrap());
            let answer = answer.unwrap_or_else(|| panic!("{step}: {}", self.left()));
            assert_answer(answer, step);
        } else if let Some(saved) = step.get("saved") {
            self.expect_saved(saved);
        } else if let Some(outbox) = step.get("outbox") {
            let (waiting, expected) = (self.core.outbox(), outbox.as_array().unwrap());
            assert_eq!(waiting.len(), expected.len(), "{step}: {waiting:?}");
            for (queued, expected) in waiting.iter().zip(expected) {
                let found = if expected.is_string() { json!(queued.client_msg_id) } else { plain_queued(queued) };
                assert_eq!(found, *expected, "{step}");
            }
        } else if let Some(stats) = step.get("stats") {
            assert_within(stats, &plain_stats(self.core.stats()), &step.to_string());
        } else {
            return false;
        }
        true
    }

    fn expect_request(&mut self, step: &Value, request: &Value) {
        let wanted = comparable(request);
        let asked = self.next(step, |play| {
            let at = play.asks.iter().position(|asked| comparable(&asked.frame) == wanted)?;
            play.asks.remove(at)
        });
        assert_eq!(asked.by_http, step["by"] == "http", "{step}");
        if let Some(link) = step["link"].as_u64() {
            assert_eq!(asked.link, link, "{step}");
        }
        if let Some(name) = step["again"].as_str() {
            assert_eq!(asked.frame["id"], self.named[name].frame["id"], "{step}");
        }
        if let Some(name) = step["as"].as_str() {
            self.named.insert(name.to_owned(), asked.clone());
        }
        if step.get("result").is_some() || step.get("error").is_some() {
            self.answer(&asked, step);
        }
    }

    fn expect_event(&mut self, step: &Value, told: &Value) {
        let event = self.next(step, |play| play.events.pop_front());
        assert_within(told, &plain_event(&event), &format!("“{}”, {step}", self.name));
        if let Event::Message { message, .. } = &event
            && step["done"] != false
        {
            let Message { conversation_id, seq, .. } = message.clone();
            self.turn(Input::Handled { conversation_id, seq });
        }
    }

    fn expect_saved(&self, expected: &Value) {
        let Saved { outbox, held, caught_up, .. } = &self.store.saved();
        let outbox: Vec<_> = outbox.iter().map(|queued| &queued.client_msg_id).collect();
        let mut saved = json!({"outbox": outbox, "held": held, "caught_up": caught_up});
        let mut expected = expected.clone();
        for found in [&mut saved, &mut expected] {
            found.as_object_mut().unwrap().retain(|_, part| !matches!(part, Value::Null) && *part != json!([]));
        }
        assert_eq!(saved, expected, "“{}”", self.name);
    }

    /// Takes the expected output if it is present, or comes within the time that the step allows.
    fn next<T>(&mut self, step: &Value, mut take: impl FnMut(&mut Self) -> Option<T>) -> T {
        let end = self.now + Duration::from_millis(step["within"].as_u64().unwrap_or(0));
        loop {
            if let Some(found) = take(self) {
                return found;
            }
            match self.wake_at {
                Some(next) if step.get("within").is_some() && next <= end => self.tick(next),
                _ => panic!("it has not: {step}. {}", self.left()),
            }
        }
    }
}
