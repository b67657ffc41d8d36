//! Writes random scripts of the chat model, with what its views show after each step: `turns SCRIPTS SEED`. Another
//! implementation that plays the scripts must show the same, as `clients/web/twins` does.
//!
//! The steps are those of `conformance/chat.yaml`. `expect` has the whole snapshot and the new requests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a wrong script is a panic")]
#![allow(clippy::print_stdout, reason = "the scripts are the output")]

use std::time::Duration;

use fastrand::Rng;
use pigeonhole_core::chat::{At, Conversations, Filter, ListSnapshot, Messages, Request, Zone};
use pigeonhole_core::{Draft, Error, Event, Moment, Queued, ReceiptKind, Span, State, Window};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use wire::{ConversationId, Seq, Side, Timestamp, UserId};

const ME: &str = "alice";
const USERS: [&str; 3] = [ME, "bob", "carol"];
const EMOJIS: [&str; 3] = ["👍", "❤", "🎉"];
const DIRECT: &str = "dm_ab";
const GROUP: &str = "gr_ab";
const STEPS: usize = 60;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let number = |argument: Option<String>| argument.map_or(100, |text| text.parse::<u64>().unwrap());
    let (scripts, seed) = (number(arguments.next()), number(arguments.next()));
    let all: Vec<Value> = (0..scripts).map(|script| Play::new(seed.wrapping_add(script)).script()).collect();
    println!("{}", Value::Array(all));
}

/// One entry of the log, as it was appended.
struct Entry {
    sender: &'static str,
    /// The message that a change is about.
    target: Option<usize>,
    fields: Map<String, Value>,
}

struct Play {
    rng: Rng,
    conversation: &'static str,
    log: Vec<Entry>,
    /// As far as the user has read, by the server.
    read: usize,
    steps: Vec<Value>,
    own: usize,
    now: u64,
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn at(seq: usize) -> Value {
    // A day has twenty entries.
    json!(Timestamp::from_millis(1_763_632_800_000 + i64::try_from(seq).unwrap() * 4_320_000))
}

fn seq(number: usize) -> Seq {
    Seq::new(number as u64).unwrap()
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let conversation = if rng.bool() { DIRECT } else { GROUP };
        let mut play = Self { rng, conversation, log: vec![], read: 0, steps: vec![], own: 0, now: 0 };
        // The window of a view has at most 300 entries.
        let length = if play.rng.u8(0..10) == 0 { play.rng.usize(300..420) } else { play.rng.usize(1..120) };
        for _ in 0..length {
            play.append();
        }
        play.read = play.rng.usize(0..=play.log.len());
        play
    }

    fn script(mut self) -> Value {
        if self.rng.u8(0..4) == 0 {
            self.list();
        } else {
            self.view();
        }
        Value::Array(self.steps)
    }

    fn pick(&mut self, things: &[&'static str]) -> &'static str {
        things[self.rng.usize(0..things.len())]
    }

    fn append(&mut self) {
        let mut sender = self.pick(if self.conversation == DIRECT { &["alice", "bob", "bob"] } else { &USERS });
        let messages: Vec<usize> = (1..=self.log.len()).filter(|seq| self.log[seq - 1].target.is_none()).collect();
        let target = if messages.is_empty() { 0 } else { messages[self.rng.usize(0..messages.len())] };
        let number = self.log.len() + 1;
        let (kind, more) = match self.rng.u8(0..12) {
            _ if target == 0 => ("text", json!({})),
            0 => ("edit", json!({"target_seq": target, "version": number})),
            1 => {
                // A service deletes messages of others.
                sender = if self.rng.u8(0..3) == 0 { "@system" } else { sender };
                ("delete", json!({"target_seq": target}))
            }
            2 | 3 => {
                let emoji = EMOJIS[self.rng.usize(0..3)];
                let emoji = if self.rng.u8(0..4) == 0 { json!({}) } else { json!({"emoji": emoji}) };
                let of_sender = |entry: &&Entry| entry.sender == sender && entry.target == Some(target);
                let before = self.log.iter().filter(|entry| entry.fields["kind"] == "reaction").rfind(of_sender);
                let before = before.and_then(|entry| entry.fields.get("emoji")).cloned();
                let before = before.map_or(json!({}), |before| json!({"emoji_before": before}));
                ("reaction", merged(merged(json!({"target_seq": target}), &emoji), &before))
            }
            4 if self.conversation == GROUP => ("system", json!({"system": self.system()})),
            5 => ("text", json!({"reply_to": self.rng.usize(1..=number)})),
            6 if self.conversation == GROUP => ("text", json!({"mentions": [self.pick(&["alice", "bob", "*"])]})),
            7 => ("x-poll", json!({})),
            _ => ("text", json!({})),
        };
        let body =
            if matches!(kind, "delete" | "reaction" | "system") { String::new() } else { format!("{kind} {number}") };
        let base = json!({"conversation_id": self.conversation, "seq": number, "message_id": format!("m{number}"),
            "sender_id": sender, "kind": kind, "body": body, "sent_at": at(number)});
        let mut fields = merged(base, &more).as_object().unwrap().clone();
        if sender == ME {
            fields.insert("client_msg_id".to_owned(), json!(format!("c{number}")));
        }
        let target = fields.get("target_seq").map(|_| target);
        self.log.push(Entry { sender, target, fields });
    }

    fn system(&mut self) -> Value {
        let user = self.pick(&["alice", "bob", "carol"]);
        match self.rng.u8(0..6) {
            0 | 1 => json!({"event": "members.added", "members": [user]}),
            2 => json!({"event": "members.removed", "members": [user]}),
            3 => json!({"event": "member.left"}),
            4 => json!({"event": "role.changed", "user_id": user, "role": "admin"}),
            _ => json!({"event": "info.changed", "title": format!("Title {}", self.log.len())}),
        }
    }

    /// Returns an entry as the server reads it when the log has this length.
    fn as_read(&self, number: usize, length: usize) -> Value {
        let entry = &self.log[number - 1];
        let mut fields = Value::Object(entry.fields.clone());
        if entry.target.is_some() {
            return fields;
        }
        let mut reactions: Vec<(&str, Value)> = Vec::new();
        for change in self.log[..length].iter().filter(|change| change.target == Some(number)) {
            let of = |name: &str| change.fields.get(name).cloned().unwrap_or_default();
            match of("kind").as_str().unwrap() {
                _ if fields.get("deleted_at").is_some() => {}
                "edit" => {
                    let edited = json!({"body": of("body"), "version": of("version"), "edited_at": of("sent_at")});
                    fields = merged(fields, &edited);
                }
                "delete" => {
                    reactions.clear();
                    for gone in ["version", "edited_at", "mentions", "reactions_seq"] {
                        fields.as_object_mut().unwrap().remove(gone);
                    }
                    let deleted = json!({"body": "", "deleted_at": of("sent_at"), "deleted_by": change.sender});
                    fields = merged(fields, &deleted);
                }
                _ => {
                    reactions.retain(|(user, _)| *user != change.sender);
                    reactions.extend(Some((change.sender, of("emoji"))).filter(|(_, emoji)| !emoji.is_null()));
                    fields["reactions_seq"] = of("seq");
                }
            }
        }
        let counted: Vec<Value> = EMOJIS
            .iter()
            .filter_map(|emoji| {
                let users = reactions.iter().filter(|(_, of)| of == emoji);
                let count = users.clone().count();
                let mine = users.clone().any(|(user, _)| *user == ME);
                (count > 0).then(|| json!({"emoji": emoji, "count": count, "mine": mine}))
            })
            .collect();
        if counted.is_empty() { fields } else { merged(fields, &json!({"reactions": counted})) }
    }

    fn any(&mut self) -> usize {
        self.rng.usize(1..=self.log.len())
    }

    fn entry(&mut self) -> Value {
        let number = self.any();
        let length = self.rng.usize(number..=self.log.len());
        self.as_read(number, length)
    }

    fn row(&mut self) -> Value {
        let last = self.any();
        let line = (1..=last).rfind(|number| self.log[number - 1].target.is_none()).unwrap_or(1);
        let line = self.as_read(line, last.max(line));
        let read_seq = self.read.min(last);
        let mut last_message = json!({"seq": line["seq"], "sender_id": line["sender_id"], "kind": line["kind"],
            "preview": line["body"], "sent_at": line["sent_at"]});
        if line.get("deleted_at").is_some() {
            last_message["deleted"] = json!(true);
        }
        if let Some(system) = line.get("system") {
            last_message["system"] = system.clone();
        }
        let base = json!({"conversation_id": self.conversation, "unread": self.rng.usize(0..=last - read_seq),
            "delivered_seq": last, "read_seq": read_seq, "last_seq": last, "last_message": last_message});
        let more = if self.conversation == DIRECT {
            json!({"kind": "direct", "peer_id": "bob"})
        } else {
            let role = if self.rng.u8(0..6) == 0 { "none" } else { "member" };
            json!({"kind": "group", "title": "Trip", "role": role, "member_count": 3, "history": "joined", "post": "all",
                "add": "all", "mentions": 0, "first_seq": self.rng.usize(1..=(last / 4 + 1))})
        };
        merged(base, &more)
    }

    fn receipt(&mut self) -> Value {
        let kind = self.pick(&["read", "delivered"]);
        json!({"kind": kind, "user_id": self.pick(&["alice", "bob", "carol"]), "seq": self.any()})
    }

    /// A request of the user that is not stored, or is: then it has the id of an own entry.
    fn request(&mut self) -> Value {
        self.own += 1;
        let own = self.any();
        let is_stored = self.log[own - 1].sender == ME && self.rng.bool();
        let id = if is_stored { format!("c{own}") } else { format!("own-{}", self.own) };
        let target = self.any();
        let what = match self.rng.u8(0..6) {
            0 => json!({"edit": {"seq": target, "body": format!("wanted {}", self.own)}}),
            1 => json!({"delete": {"seq": target}}),
            2 => json!({"react": {"seq": target, "emoji": EMOJIS[self.rng.usize(0..3)]}}),
            3 => json!({"body": "an answer", "reply_to": target}),
            _ => json!({"body": format!("own {}", self.own)}),
        };
        merged(json!({"client_msg_id": id, "conversation_id": self.conversation, "at": at(target)}), &what)
    }

    fn step(&mut self, name: &str, what: Value) -> Value {
        let mut step = Map::new();
        step.insert(name.to_owned(), what.clone());
        self.steps.push(Value::Object(step));
        what
    }
}

/// A view of the conversation.
impl Play {
    fn view(&mut self) {
        let place = match self.rng.u8(0..3) {
            0 => json!("newest"),
            1 => json!("first_unread"),
            _ => json!(self.any()),
        };
        let zone = if self.rng.bool() { json!([["2025-11-21T12:00:00.000Z", 7200]]) } else { json!([]) };
        let open = self.step("open", json!({"at": place, "zone": zone, "conversation_id": self.conversation}));
        let id = ConversationId::parse(self.conversation).unwrap();
        let offsets: Vec<(Timestamp, i32)> = read(&open["zone"]);
        let mut view = Messages::new(UserId::parse(ME).unwrap(), id, place_of(&open["at"]), Zone::new(offsets));
        view.snapshot();
        let mut requested: Vec<Request> = Vec::new();
        let mut failed: Vec<Value> = Vec::new();
        for _ in 0..STEPS {
            self.view_step(&mut view, &mut requested, &mut failed);
            let snapshot = view.snapshot().clone();
            let requests = view.requests();
            let brief = requests.iter().map(|request| match request {
                Request::Load(side) => json!({"load": side_json(*side)}),
                Request::History(side) => json!({"history": side_json(*side)}),
            });
            let requests_json: Vec<Value> = brief.collect();
            requested.extend(requests);
            let mut expected = json!({"requests": requests_json});
            if self.rng.u8(0..5) == 0 {
                expected["snapshot"] = json!(snapshot);
            }
            self.steps.push(json!({"expect": expected}));
        }
    }

    fn view_step(&mut self, view: &mut Messages, requested: &mut Vec<Request>, failed: &mut Vec<Value>) {
        if !requested.is_empty() && self.rng.bool() {
            let request = requested.remove(self.rng.usize(0..requested.len()));
            return self.serve(view, request);
        }
        let conversation = self.conversation;
        match self.rng.u8(0..16) {
            0..=3 => {
                let entry = self.entry();
                let message = read(&self.step("message", entry));
                view.event(&Event::Message { message, missed: false }, Moment::default());
            }
            4 => {
                let row = self.row();
                view.timeline_mut().row(&read(&self.step("row", row)));
            }
            5 => {
                let receipt = self.receipt();
                view.event(&receipt_event(conversation, &self.step("receipt", receipt)), Moment::default());
            }
            6 | 7 => {
                let request = self.request();
                let request = self.step("queued", request);
                view.timeline_mut().queued(queued(&request));
                failed.push(request);
            }
            8 => {
                let Some(request) = failed.pop() else { return };
                let (mut step, code) = (request.clone(), self.pick(&["forbidden", "gone", "too_large", "cancelled"]));
                step["code"] = json!(code);
                step.as_object_mut().unwrap().remove("at");
                self.step("failed", step);
                view.event(&Event::Failed { queued: queued(&request), error: refusal(code) }, Moment::default());
                if self.rng.bool() {
                    let id = self.step("dismiss", request["client_msg_id"].clone());
                    view.timeline_mut().dismiss(&read(&id));
                }
            }
            9 => {
                self.step("older", json!(true));
                view.older();
            }
            10 => {
                self.step("newer", json!(true));
                view.newer();
            }
            11 => {
                let place = if self.rng.bool() { json!("newest") } else { json!(self.any()) };
                view.jump(place_of(&self.step("jump", place)));
            }
            12 | 13 => {
                let items = view.snapshot().items.clone();
                let Some(item) = items.get(self.rng.usize(0..items.len().max(1))) else { return };
                let read = view.seen(&item.key);
                self.step("seen", json!({"key": item.key, "read": read}));
            }
            14 => {
                let read = view.read_all();
                self.step("read_all", json!({"read": read}));
            }
            _ => {
                self.step("state", json!("caught_up"));
                view.event(&Event::State(State::CaughtUp), Moment::default());
            }
        }
    }

    /// Carries out a request of the view, or not.
    fn serve(&mut self, view: &mut Messages, request: Request) {
        let (Request::Load(side) | Request::History(side)) = request;
        let end = self.log.len();
        let (from, to) = match side {
            Side::Newest => (end.saturating_sub(49), end),
            Side::Before(seq) => {
                let before = usize::try_from(seq.value()).unwrap();
                (before.saturating_sub(50), before.saturating_sub(1).min(end))
            }
            Side::After(seq) => {
                let after = usize::try_from(seq.value()).unwrap();
                (after + 1, (after + 50).min(end))
            }
        };
        let length = self.rng.usize(to.max(1)..=end.max(to.max(1)));
        let messages: Vec<Value> = (from.max(1)..=to).map(|number| self.as_read(number, length)).collect();
        let mut fields = side_json(side);
        match request {
            Request::Load(_) => {
                // The store has a part, or nothing.
                let hole = self.rng.usize(0..=end);
                let has = |number: u64| number <= hole as u64;
                let stored = messages
                    .into_iter()
                    .filter(|message| has(message["seq"].as_u64().unwrap()) && message.get("target_seq").is_none());
                fields["messages"] = stored.collect();
                fields["spans"] = if hole == 0 { json!([]) } else { json!([[1, hole]]) };
                let loaded = self.step("loaded", fields);
                let spans = if hole == 0 { vec![] } else { vec![Span { from: seq(1), to: seq(hole) }] };
                view.loaded(side, Window { messages: read(&loaded["messages"]), spans });
            }
            Request::History(_) if self.rng.u8(0..5) == 0 => {
                self.step("lost", fields);
                view.lost(side);
            }
            Request::History(_) => {
                let more = if matches!(side, Side::After(_)) { to < end } else { from > 1 };
                let page = json!({"messages": messages, "more": more, "last_seq": length,
                    "members": [{"user_id": ME, "delivered_seq": length, "read_seq": self.read.min(length)}]});
                let page = merged(fields, &page);
                view.page(side, read(&self.step("page", page)));
            }
        }
    }
}

/// The chat list.
impl Play {
    fn list(&mut self) {
        self.step("list", json!(true));
        let mut list = Conversations::new(UserId::parse(ME).unwrap());
        let mut shown = ListSnapshot::default();
        for _ in 0..STEPS {
            self.list_step(&mut list);
            let wall = Timestamp::from_millis(1_763_632_800_000 + i64::try_from(self.now).unwrap());
            let archived = self.rng.u8(0..4) == 0;
            let filter = Filter { archived, ..Filter::default() };
            shown = list.snapshot(&shown, &filter, moment(self.now), wall);
            let expected = json!({"archived": archived, "now": self.now, "at": wall, "snapshot": shown});
            self.steps.push(json!({"expect": expected}));
        }
    }

    fn list_step(&mut self, list: &mut Conversations) {
        self.now += self.rng.u64(0..4000);
        let conversation = self.conversation;
        match self.rng.u8(0..12) {
            0..=4 => {
                let entry = self.entry();
                let message = read(&self.step("message", entry));
                list.event(&Event::Message { message, missed: false }, moment(self.now));
            }
            5 => {
                let row = self.row();
                list.row(&read(&self.step("row", row)));
            }
            6 => {
                let receipt = self.receipt();
                let receipt = merged(receipt, &json!({"conversation_id": conversation}));
                list.event(&receipt_event(conversation, &self.step("receipt", receipt)), moment(self.now));
            }
            7 => {
                let request = self.request();
                list.queued(queued(&self.step("queued", request)));
            }
            8 => {
                let set = match self.rng.u8(0..3) {
                    0 => json!({"archived": self.rng.bool()}),
                    1 => json!({"muted_until": "forever"}),
                    _ => json!({"muted_until": "2025-11-20T10:00:30.000Z"}),
                };
                let settings = self.step("settings", json!({"conversation_id": conversation, "set": set}));
                list.event(&Event::SettingsChanged(read(&settings)), moment(self.now));
            }
            9 => {
                let user = self.pick(&["bob", "carol"]);
                self.step("typing", json!({"conversation_id": conversation, "user_id": user, "now": self.now}));
                let (conversation_id, user_id) = (ConversationId::parse(conversation), UserId::parse(user));
                let (conversation_id, user_id) = (conversation_id.unwrap(), user_id.unwrap());
                list.event(
                    &Event::Typing { conversation_id, user_id, at: Timestamp::default(), text: None },
                    moment(self.now),
                );
            }
            10 => {
                let key = list.direct(&UserId::parse("bob").unwrap());
                self.step("direct", json!({"peer_id": "bob", "key": key}));
                let text = if self.rng.bool() { json!("Dear") } else { Value::Null };
                self.step("draft", json!({"key": key, "text": text}));
                list.draft(&key, text.as_str().map(Draft::new));
            }
            _ => {
                let number = self.any();
                self.step("read", json!({"conversation_id": conversation, "seq": number}));
                list.read(&ConversationId::parse(conversation).unwrap(), seq(number));
            }
        }
    }
}

fn merged(mut one: Value, other: &Value) -> Value {
    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    one
}

fn moment(ms: u64) -> Moment {
    Moment::default() + Duration::from_millis(ms)
}

fn place_of(value: &Value) -> At {
    match value.as_str() {
        Some("newest") => At::Newest,
        Some(_) => At::FirstUnread,
        None => At::Seq(read(value)),
    }
}

fn side_json(side: Side) -> Value {
    match side {
        Side::Newest => json!({}),
        Side::Before(seq) => json!({"before_seq": seq}),
        Side::After(seq) => json!({"after_seq": seq}),
    }
}

fn receipt_event(conversation: &str, fields: &Value) -> Event {
    let kind = if fields["kind"] == "read" { ReceiptKind::Read } else { ReceiptKind::Delivered };
    let receipt = json!({"conversation_id": conversation, "user_id": fields["user_id"], "seq": fields["seq"],
        "at": "2026-11-20T10:00:00.000Z"});
    Event::Receipt { kind, receipt: read(&receipt) }
}

fn refusal(code: &str) -> Error {
    match code {
        "cancelled" => Error::Cancelled,
        _ => Error::Refused { code: code.to_owned(), message: String::new() },
    }
}

/// The request, as an outbox keeps it.
fn queued(script: &Value) -> Queued {
    let mut kept = script.as_object().unwrap().clone();
    let id = kept.remove("conversation_id").unwrap();
    kept.insert("made_at".to_owned(), script["at"].clone());
    kept.remove("at");
    if kept.contains_key("body") {
        kept.insert("target".to_owned(), json!(wire::Target::Conversation(read(&id))));
    } else if let Some(change) = kept.values_mut().find_map(Value::as_object_mut) {
        change.insert("conversation_id".to_owned(), id);
    }
    read(&Value::Object(kept))
}
