//! One client, in the hands of a script.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use contract::{check_request, check_server_frame};
use serde_json::{Value, json};

use super::script::{
    assert_answer, assert_within, comparable, need_name, plain_event, plain_stats, saved, target_of, timing, verb,
    why_not_opened,
};
use crate::protocol::{Request, Side};
use crate::session::{Answer, LinkId, Output, Session, Ticket};
use crate::storage::{Change, Queued, Saved};
use crate::{Error, Event, Timing, TokenNeed, Why};

pub(super) struct Play {
    name: String,
    timing: Timing,
    session: Session,
    now: Instant,
    saved: Saved,
    dialing: Option<LinkId>,
    open: Vec<LinkId>,
    // What the client has done and nobody has expected yet.
    dials: VecDeque<(LinkId, TokenNeed)>,
    asks: VecDeque<(LinkId, Value)>,
    closes: VecDeque<LinkId>,
    events: VecDeque<Event>,
    answers: BTreeMap<String, Result<Answer, Error>>,
    /// The requests that have a name.
    named: BTreeMap<String, (LinkId, Value)>,
    /// The app's calls that have a name; a ticket is a place in here.
    calls: Vec<String>,
}

impl Play {
    pub(super) fn new(scenario: &Value) -> Self {
        let timing = timing(&scenario["timing"]);
        let saved = saved(&scenario["saved"]);
        let now = Instant::now();
        let mut play = Self {
            name: scenario["name"].as_str().unwrap().to_owned(),
            session: Session::new("alice", timing.clone(), saved.clone(), fastrand::Rng::new(), now),
            timing,
            now,
            saved,
            dialing: None,
            open: Vec::new(),
            dials: VecDeque::new(),
            asks: VecDeque::new(),
            closes: VecDeque::new(),
            events: VecDeque::new(),
            answers: BTreeMap::new(),
            named: BTreeMap::new(),
            calls: Vec::new(),
        };
        play.tick(now);
        play
    }

    pub(super) fn take(&mut self, step: &Value) {
        if !self.expect(step) {
            self.nothing_else(&format!("before {step}"));
            self.happen(step);
            self.collect();
        }
    }

    pub(super) fn nothing_else(&self, when: &str) {
        let idle = self.dials.is_empty() && self.asks.is_empty() && self.closes.is_empty();
        assert!(idle && self.events.is_empty() && self.answers.is_empty(), "{when}: {}", self.left());
    }

    fn left(&self) -> String {
        let Self { name, dials, asks, closes, events, answers, .. } = self;
        format!("“{name}”: there are {dials:?} {asks:?} {closes:?} {events:?} {answers:?}")
    }

    fn collect(&mut self) {
        for output in self.session.take_outputs() {
            match output {
                Output::Dial { link, need } => self.dials.push_back((link, need)),
                Output::Frame { link, text } => {
                    let frame = serde_json::from_str(&text).unwrap();
                    check_request(&frame).unwrap();
                    self.asks.push_back((link, frame));
                }
                Output::Close { link } => {
                    self.open.retain(|open| *open != link);
                    self.closes.push_back(link);
                }
                Output::Event(event) => self.events.push_back(event),
                Output::Save(change) => self.saved.apply(&change),
                Output::Answer { ticket, answer } => {
                    let name = self.calls[usize::try_from(ticket).unwrap()].clone();
                    self.answers.insert(name, answer);
                }
            }
        }
    }
}

/// What happens to the client.
impl Play {
    fn happen(&mut self, step: &Value) {
        let (verb, what) = verb(step, &["app", "wait", "open", "fail", "end", "server", "raw", "answer"]);
        match verb {
            "app" => self.app(what, step["as"].as_str().unwrap_or_default()),
            "wait" => self.wait(Duration::from_millis(what.as_u64().unwrap())),
            "open" => {
                let link = self.dialing.take().expect("something is being dialled");
                self.open.push(link);
                self.session.opened(link, self.now);
            }
            "fail" => {
                let link = self.dialing.take().expect("something is being dialled");
                self.session.dial_failed(link, why_not_opened(what), self.now);
            }
            "end" => {
                let link = self.link(step);
                self.open.retain(|open| *open != link);
                // A connection that ends without a goodbye has no code.
                let why = if what == 1006 { Why::Lost(String::new()) } else { Why::Closed };
                self.session.lost(link, why, self.now);
            }
            "server" => self.say(self.link(step), what),
            "raw" => self.session.received(self.link(step), what.as_str().unwrap(), self.now),
            _ => {
                let asked = self.named[what.as_str().unwrap()].clone();
                self.answer(&asked, step);
            }
        }
    }

    fn app(&mut self, what: &Value, name: &str) {
        if what == "restart" {
            let (saved, rng) = (self.saved.clone(), fastrand::Rng::new());
            self.session = Session::new("alice", self.timing.clone(), saved, rng, self.now);
            self.dialing = None;
            self.open.clear();
            return self.tick(self.now);
        }
        if what == "close" {
            return self.session.leaving(self.now);
        }
        let (call, fields) = verb(what, &["send", "read", "done", "history", "inbox"]);
        let text = |field: &str| fields[field].as_str().unwrap_or_default().to_owned();
        let (conversation, seq) = (text("conversation_id"), fields["seq"].as_u64().unwrap_or_default());
        match call {
            "send" => {
                let target = serde_json::from_value(target_of(fields)).unwrap();
                let queued = Queued { client_msg_id: text("client_msg_id"), target, body: text("body") };
                self.saved.apply(&Change::Queued(queued.clone()));
                let ticket = self.ticket(&queued.client_msg_id);
                self.session.send(queued, Some(ticket), self.now);
            }
            "read" => {
                let ticket = self.ticket(name);
                self.session.read(&conversation, seq, ticket, self.now);
            }
            "done" => self.session.handled(&conversation, seq, self.now),
            "history" => {
                let limit = u32::try_from(fields["limit"].as_u64().unwrap()).unwrap();
                let before = fields["before_seq"].as_u64().map_or(Side::Newest, Side::Before);
                let side = fields["after_seq"].as_u64().map_or(before, Side::After);
                let ticket = self.ticket(name);
                self.session.call(ticket, Request::history(&conversation, side, limit), self.now);
            }
            _ => {
                let limit = u32::try_from(fields["limit"].as_u64().unwrap()).unwrap();
                let ticket = self.ticket(name);
                self.session.call(ticket, Request::Inbox { limit, cursor: None, since: None }, self.now);
            }
        }
    }

    fn ticket(&mut self, name: &str) -> Ticket {
        self.calls.push(name.to_owned());
        self.calls.len() as Ticket - 1
    }

    fn wait(&mut self, wait: Duration) {
        let end = self.now + wait;
        while let Some(next) = self.session.next_tick().filter(|next| *next < end) {
            self.tick(next);
            self.nothing_else(&format!("{:?} before the end", end - self.now));
        }
        self.tick(end);
    }

    pub(super) fn tick(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.session.tick(self.now);
        self.collect();
    }

    fn link(&self, step: &Value) -> LinkId {
        step["link"].as_u64().or_else(|| self.open.last().copied()).expect("a connection is open")
    }

    fn say(&mut self, link: LinkId, frame: &Value) {
        check_server_frame(frame).unwrap();
        self.session.received(link, &frame.to_string(), self.now);
    }

    fn answer(&mut self, (link, request): &(LinkId, Value), step: &Value) {
        let frame = |kind: &str, field: &str, what: &Value| json!({"type": kind, "action": request["action"], "id": request["id"], field: what});
        if let Some(broken) = step.get("broken") {
            self.session.received(*link, &frame("reply", "result", broken).to_string(), self.now);
        } else if let Some(error) = step.get("error") {
            self.say(*link, &frame("error", "error", error));
        } else {
            self.say(*link, &frame("reply", "result", &step["result"]));
        }
    }
}

/// What the client must do about it.
impl Play {
    /// `false`: the step expects nothing.
    fn expect(&mut self, step: &Value) -> bool {
        if let Some(dials) = step.get("dials") {
            let (link, need) = self.next(step, |play| play.dials.pop_front());
            assert_eq!(dials["need"], need_name(need), "{}", self.left());
            self.dialing = Some(link);
        } else if let Some(request) = step.get("asks") {
            self.expect_request(step, request);
        } else if let Some(link) = step.get("closes") {
            assert_eq!(self.closes.pop_front(), link.as_u64(), "{step}: {}", self.left());
        } else if let Some(told) = step.get("told") {
            for told in told.as_array().unwrap_or(&vec![told.clone()]) {
                self.expect_event(step, told);
            }
        } else if let Some(name) = step.get("answered") {
            let answer = self.answers.remove(name.as_str().unwrap());
            let answer = answer.unwrap_or_else(|| panic!("{step}: {}", self.left()));
            assert_answer(answer, step);
        } else if let Some(saved) = step.get("saved") {
            self.expect_saved(saved);
        } else if let Some(stats) = step.get("stats") {
            assert_within(stats, &plain_stats(self.session.stats()), &step.to_string());
        } else {
            return false;
        }
        true
    }

    fn expect_request(&mut self, step: &Value, request: &Value) {
        let wanted = comparable(request);
        let asked = self.next(step, |play| {
            let at = play.asks.iter().position(|(_, frame)| comparable(frame) == wanted)?;
            play.asks.remove(at)
        });
        if let Some(link) = step["link"].as_u64() {
            assert_eq!(asked.0, link, "{step}");
        }
        if let Some(name) = step["as"].as_str() {
            self.named.insert(name.to_owned(), asked.clone());
        }
        if step.get("result").is_some() || step.get("error").is_some() {
            self.answer(&asked, step);
            self.collect();
        }
    }

    fn expect_event(&mut self, step: &Value, told: &Value) {
        let event = self.next(step, |play| play.events.pop_front());
        assert_within(told, &plain_event(&event), &format!("“{}”, {step}", self.name));
        if let Event::Message { message, .. } = &event
            && step["done"] != false
        {
            self.session.handled(&message.conversation_id, message.seq, self.now);
            self.collect();
        }
    }

    fn expect_saved(&self, expected: &Value) {
        let Saved { outbox, held, caught_up } = &self.saved;
        let outbox: Vec<&String> = outbox.iter().map(|queued| &queued.client_msg_id).collect();
        let mut saved = json!({"outbox": outbox, "held": held, "caught_up": caught_up});
        let mut expected = expected.clone();
        for found in [&mut saved, &mut expected] {
            found.as_object_mut().unwrap().retain(|_, part| !matches!(part, Value::Null) && *part != json!([]));
        }
        assert_eq!(saved, expected, "“{}”", self.name);
    }

    /// What is there, or comes within the time that the step allows.
    fn next<T>(&mut self, step: &Value, mut take: impl FnMut(&mut Self) -> Option<T>) -> T {
        let end = self.now + Duration::from_millis(step["within"].as_u64().unwrap_or(0));
        loop {
            if let Some(found) = take(self) {
                return found;
            }
            match self.session.next_tick() {
                Some(next) if step.get("within").is_some() && next <= end => self.tick(next),
                _ => panic!("it has not: {step}. {}", self.left()),
            }
        }
    }
}
