//! The session against a server played by hand: what comes in, what must be asked and told.

#![allow(clippy::needless_pass_by_value, reason = "`json!(…)` reads better without a borrow")]

use serde_json::{Value, json};

use super::*;
use crate::protocol::{BODY_BYTES_MAX, Request, Side, Target};
use crate::storage::Queued;
use crate::{Receipt, ReceiptKind, Why};

const ACK_EVERY: Duration = Duration::from_secs(1);
const ANSWER_WAIT: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(1);

struct Play {
    session: Session,
    now: Instant,
    outputs: Vec<Output>,
    saved: Saved,
}

impl Play {
    fn new() -> Self {
        Self::restored(Saved::default())
    }

    fn restored(saved: Saved) -> Self {
        let now = Instant::now();
        let session = Session::new("alice", Timing::default(), saved.clone(), fastrand::Rng::with_seed(7), now);
        Self { session, now, outputs: Vec::new(), saved }
    }

    /// Connected and caught up, with bob's conversation held up to `last_seq`.
    fn online(last_seq: u64) -> Self {
        let held = (last_seq > 0).then(|| ("dm_ab".to_owned(), last_seq)).into_iter().collect();
        let mut play = Self::restored(Saved { held, ..Saved::default() });
        play.connect();
        play.catch_up();
        assert_eq!(play.states(), [State::Connecting, State::Online, State::CaughtUp]);
        play
    }

    fn collect(&mut self) {
        for output in self.session.take_outputs() {
            match output {
                Output::Save(change) => self.saved.apply(&change),
                other => self.outputs.push(other),
            }
        }
    }

    /// Takes out what fits.
    fn take<T>(&mut self, fits: impl Fn(&Output) -> Option<T>) -> Vec<T> {
        self.collect();
        let mut taken = Vec::new();
        self.outputs.retain(|output| fits(output).map(|found| taken.push(found)).is_none());
        taken
    }

    fn dialed(&mut self) -> Vec<(LinkId, TokenNeed)> {
        self.take(|output| if let Output::Dial { link, need } = output { Some((*link, *need)) } else { None })
    }

    fn forget(&mut self) {
        self.collect();
        self.outputs.clear();
    }

    fn closed(&mut self) -> Vec<LinkId> {
        self.take(|output| if let Output::Close { link } = output { Some(*link) } else { None })
    }

    fn frames(&mut self) -> Vec<(LinkId, Value)> {
        self.take(|output| match output {
            Output::Frame { link, text } => Some((*link, serde_json::from_str(text).unwrap())),
            _ => None,
        })
    }

    fn requests(&mut self) -> Vec<Value> {
        self.frames().into_iter().map(|(_, request)| request).collect()
    }

    /// The one request that was made.
    fn request(&mut self) -> Value {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    fn events(&mut self) -> Vec<Event> {
        self.take(|output| if let Output::Event(event) = output { Some(event.clone()) } else { None })
    }

    fn states(&mut self) -> Vec<State> {
        let states = self.events().into_iter();
        states.filter_map(|event| if let Event::State(state) = event { Some(state) } else { None }).collect()
    }

    fn answers(&mut self) -> Vec<(Ticket, Result<Answer, Error>)> {
        self.take(|output| match output {
            Output::Answer { ticket, answer } => Some((*ticket, answer.clone())),
            _ => None,
        })
    }

    /// What was handed over since last asked; the app is done with it at once.
    fn shown(&mut self) -> Vec<(String, u64)> {
        let shown = self.peek();
        for (conversation, seq) in &shown {
            self.session.handled(conversation, *seq, self.now);
        }
        shown
    }

    /// The same, but the app is not done with it.
    fn peek(&mut self) -> Vec<(String, u64)> {
        let events = self.events().into_iter();
        let messages = events.filter_map(|event| match event {
            Event::Message { message, .. } => Some((message.conversation_id, message.seq)),
            _ => None,
        });
        messages.collect()
    }

    fn seqs(&mut self) -> Vec<u64> {
        self.shown().into_iter().map(|(_, seq)| seq).collect()
    }

    fn tick(&mut self) {
        self.session.tick(self.now);
    }

    fn after(&mut self, wait: Duration) {
        self.now += wait;
        self.tick();
    }

    /// Goes to the next time at which the session has something to do.
    fn next(&mut self) {
        let at = self.session.next_tick().unwrap();
        self.now = self.now.max(at);
        self.tick();
    }

    /// Dials, and the connection opens.
    fn connect(&mut self) -> LinkId {
        let mut dialed = self.dialed();
        if dialed.is_empty() {
            self.next();
            dialed = self.dialed();
        }
        assert_eq!(dialed.len(), 1);
        self.session.opened(dialed[0].0, self.now);
        dialed[0].0
    }

    /// Nothing is pending, and nothing is new.
    fn catch_up(&mut self) {
        self.answer("drain", page(&[], false));
        self.answer("inbox", inbox(&[]));
    }

    /// Expects a request with this action, and answers it.
    fn answer(&mut self, action: &str, result: Value) -> Value {
        self.collect();
        let at = self.outputs.iter().position(
            |output| matches!(output, Output::Frame { text, .. } if text.contains(&format!(r#""action":"{action}""#))),
        );
        let Some(Output::Frame { link, text }) = at.map(|at| self.outputs.remove(at)) else {
            panic!("no {action} in {:?}", self.outputs)
        };
        let request: Value = serde_json::from_str(&text).unwrap();
        self.reply(link, &request, result);
        request
    }

    fn reply(&mut self, link: LinkId, request: &Value, result: Value) {
        self.frame(link, json!({"type":"reply","action":request["action"],"id":request["id"],"result":result}));
    }

    fn refuse(&mut self, request: &Value, error: Value) {
        self.frame(1, json!({"type":"error","action":request["action"],"id":request["id"],"error":error}));
    }

    fn frame(&mut self, link: LinkId, frame: Value) {
        self.session.received(link, &frame.to_string(), self.now);
    }

    fn push(&mut self, conversation: &str, seq: u64) {
        self.frame(1, json!({"type":"message.new","message":message(conversation, seq, "bob")}));
    }

    fn send(&mut self, id: &str, target: Target) {
        let queued = Queued { client_msg_id: id.into(), target, body: format!("body of {id}") };
        self.saved.apply(&Change::Queued(queued.clone()));
        self.session.send(queued, Some(id.bytes().map(u64::from).sum()), self.now);
    }

    fn write_bob(&mut self, id: &str) {
        self.send(id, Target::User("bob".into()));
    }
}

fn message(conversation: &str, seq: u64, sender: &str) -> Value {
    json!({"conversation_id":conversation,"seq":seq,"message_id":"x","sender_id":sender,"kind":"text",
        "body":format!("{sender} {seq}"),"sent_at":"2026-11-20T10:00:00.123Z"})
}

fn page(messages: &[Value], more: bool) -> Value {
    json!({"messages":messages,"more":more})
}

fn inbox(rows: &[Value]) -> Value {
    json!({"conversations":rows,"next_cursor":null})
}

fn row(conversation: &str, peer: &str, delivered_seq: u64, last_seq: u64) -> Value {
    json!({"conversation_id":conversation,"kind":"direct","peer_id":peer,"delivered_seq":delivered_seq,
        "last_seq":last_seq,"last_message":{"seq":last_seq,"sender_id":peer,"sent_at":"2026-11-20T10:00:00.123Z"}})
}

fn history(messages: &[Value], last_seq: u64, alice_delivered: u64) -> Value {
    json!({"messages":messages,"more":false,"last_seq":last_seq,"members":[
        {"user_id":"alice","delivered_seq":alice_delivered,"read_seq":0},
        {"user_id":"bob","delivered_seq":0,"read_seq":0}]})
}

fn stored(conversation: &str, seq: u64) -> Value {
    json!({"conversation_id":conversation,"seq":seq,"message_id":"x","sent_at":"2026-11-20T10:00:00.123Z",
        "duplicate":false})
}

fn marks(marks: &[(&str, u64)]) -> Value {
    marks.iter().map(|(id, seq)| json!({"conversation_id":id,"seq":seq})).collect()
}

mod connecting;
mod receiving;
mod sending;
