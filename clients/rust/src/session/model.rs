//! Any interleaving, duplication and loss of frames, connections, devices and restarts, against a small model of the
//! server: in the end every message has come once, in order, and everything is acknowledged.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Why;
use crate::protocol::{Message, Target};
use crate::storage::Queued;

const PEERS: [&str; 3] = ["bob", "carol", "dave"];
/// Small pages, so that there are several.
const DRAIN_MAX: usize = 3;
const PAGE_MAX: usize = 2;

fn conversation_with(peer: &str) -> String {
    format!("dm_{peer}")
}

/// A conversation on the server, seen by alice.
#[derive(Default)]
struct Said {
    messages: Vec<Value>,
    delivered: u64,
    read: u64,
    /// As far as the user's other devices have it.
    settled: u64,
}

impl Said {
    fn last(&self) -> u64 {
        self.messages.len() as u64
    }

    fn after(&self, seq: u64) -> &[Value] {
        &self.messages[usize::try_from(seq).unwrap().min(self.messages.len())..]
    }
}

#[derive(Default)]
struct Server {
    said: BTreeMap<String, Said>,
    clock_ms: u64,
    /// The next request fails in this way.
    fails: Option<Value>,
}

impl Server {
    fn append(&mut self, conversation: &str, sender: &str, client_msg_id: &str, body: &str) -> Value {
        self.clock_ms += 1;
        let said = self.said.entry(conversation.to_owned()).or_default();
        let seq = said.last() + 1;
        let sent_at = format!("2026-11-20T10:00:{:02}.{:03}Z", self.clock_ms / 1000, self.clock_ms % 1000);
        let message = json!({"conversation_id":conversation,"seq":seq,"message_id":"x","sender_id":sender,"kind":"text",
            "body":body,"sent_at":sent_at,"client_msg_id":client_msg_id});
        said.messages.push(message.clone());
        if sender == "alice" && said.delivered == seq - 1 {
            said.delivered = seq;
            if !client_msg_id.starts_with('m') {
                said.settled = seq;
            }
        }
        message
    }

    fn acknowledge(&mut self, marks: &Value) {
        for mark in marks.as_array().into_iter().flatten() {
            let said = self.said.get_mut(mark["conversation_id"].as_str().unwrap()).unwrap();
            said.delivered = said.delivered.max(mark["seq"].as_u64().unwrap().min(said.last()));
        }
    }

    fn answer(&mut self, request: &Value) -> Value {
        if let Some(mut failure) = self.fails.take() {
            if failure.get("type").is_some() {
                failure["id"] = request["id"].clone();
            }
            return failure;
        }
        let result = match request["action"].as_str().unwrap() {
            "send" => self.send(request),
            "ack" => {
                self.acknowledge(&request["up_to"]);
                json!({})
            }
            "drain" => {
                self.acknowledge(&request["ack"]);
                self.drain()
            }
            "read" => {
                let said = self.said.get_mut(request["conversation_id"].as_str().unwrap()).unwrap();
                said.read = said.read.max(request["seq"].as_u64().unwrap().min(said.last()));
                said.delivered = said.delivered.max(said.read);
                json!({"unread":said.last() - said.read})
            }
            "inbox" => self.inbox(request),
            "history" => self.history(request),
            "ping" => json!({"pending":self.said.values().any(|said| said.delivered < said.last())}),
            other => panic!("{other}"),
        };
        json!({"type":"reply","action":request["action"],"id":request["id"],"result":result})
    }

    fn send(&mut self, request: &Value) -> Value {
        let conversation = match request.get("to") {
            Some(to) => conversation_with(to.as_str().unwrap()),
            None => request["conversation_id"].as_str().unwrap().to_owned(),
        };
        let id = request["client_msg_id"].as_str().unwrap();
        let mut messages = self.said.entry(conversation.clone()).or_default().messages.iter();
        let known = messages.find(|message| message["client_msg_id"] == id).cloned();
        let duplicate = known.is_some();
        let body = request["body"].as_str().unwrap();
        let message = known.unwrap_or_else(|| self.append(&conversation, "alice", id, body));
        json!({"conversation_id":conversation,"seq":message["seq"],"message_id":"x","sent_at":message["sent_at"],
            "duplicate":duplicate})
    }

    fn drain(&self) -> Value {
        let pending: Vec<&Value> = self.said.values().flat_map(|said| said.after(said.delivered)).collect();
        json!({"messages":pending[..pending.len().min(DRAIN_MAX)],"more":pending.len() > DRAIN_MAX})
    }

    fn inbox(&self, request: &Value) -> Value {
        // `since` is a minute before the time it is made of, and this model's clock does not run for as long.
        let mut rows: Vec<(&String, &Said)> = self.said.iter().filter(|(_, said)| said.last() > 0).collect();
        rows.sort_by_key(|(_, said)| std::cmp::Reverse(said.messages.last().unwrap()["sent_at"].to_string()));
        let from: usize = request.get("cursor").map_or(0, |cursor| cursor.as_str().unwrap().parse().unwrap());
        let row = |(id, said): (&String, &Said)| {
            let last = said.messages.last().unwrap();
            json!({"conversation_id":id,"kind":"direct","peer_id":id.strip_prefix("dm_"),"last_seq":said.last(),
                "delivered_seq":said.delivered,"read_seq":said.read,
                "last_message":{"seq":said.last(),"sender_id":last["sender_id"],"sent_at":last["sent_at"]}})
        };
        let more = rows.len() > from + PAGE_MAX;
        let page: Vec<Value> = rows.into_iter().skip(from).take(PAGE_MAX).map(row).collect();
        json!({"conversations":page,"next_cursor":more.then(|| (from + PAGE_MAX).to_string())})
    }

    fn history(&self, request: &Value) -> Value {
        let said = &self.said[request["conversation_id"].as_str().unwrap()];
        let from = request.get("after_seq").map_or(said.last().saturating_sub(1), |after| after.as_u64().unwrap());
        let found = said.after(from);
        let page = &found[..found.len().min(PAGE_MAX)];
        json!({"messages":page,"more":found.len() > page.len(),"last_seq":said.last(),
            "members":[{"user_id":"alice","delivered_seq":said.delivered,"read_seq":said.read}]})
    }
}

/// Frames on their way, one direction each.
#[derive(Default)]
struct Wire {
    up: Vec<String>,
    down: Vec<String>,
}

#[derive(Clone, Debug)]
enum Step {
    Up { pick: usize, again: bool },
    Down { pick: usize, again: bool },
    LoseUp(usize),
    LoseDown(usize),
    Cut(usize),
    Open,
    FailToOpen(u8),
    PeerSays(usize),
    OtherDeviceSays(usize),
    OtherDeviceHolds(usize),
    Send { peer: usize, by_conversation: bool },
    Handle,
    Read,
    Wait(u64),
    FailNext(u8),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..PEERS.len();
    prop_oneof![
        12 => (0..9_usize, prop::bool::weighted(0.15)).prop_map(|(pick, again)| Step::Up { pick, again }),
        12 => (0..9_usize, prop::bool::weighted(0.15)).prop_map(|(pick, again)| Step::Down { pick, again }),
        1 => (0..9_usize).prop_map(Step::LoseUp),
        2 => (0..9_usize).prop_map(Step::LoseDown),
        1 => (0..2_usize).prop_map(Step::Cut),
        4 => Just(Step::Open),
        1 => (0..4_u8).prop_map(Step::FailToOpen),
        5 => peer.clone().prop_map(Step::PeerSays),
        1 => peer.clone().prop_map(Step::OtherDeviceSays),
        1 => peer.clone().prop_map(Step::OtherDeviceHolds),
        4 => (peer, any::<bool>()).prop_map(|(peer, by_conversation)| Step::Send { peer, by_conversation }),
        8 => Just(Step::Handle),
        1 => Just(Step::Read),
        4 => (1..8_000_u64).prop_map(Step::Wait),
        1 => (0..4_u8).prop_map(Step::FailNext),
        1 => Just(Step::Restart),
    ]
}

struct World {
    server: Server,
    session: Session,
    saved: Saved,
    now: Instant,
    dialing: Option<LinkId>,
    wires: BTreeMap<LinkId, Wire>,
    /// What the app has not asked for yet.
    events: VecDeque<Event>,
    got: BTreeMap<String, Vec<u64>>,
    sent: BTreeMap<Target, Vec<String>>,
    reads: BTreeMap<String, u64>,
    count: u64,
}

fn timing() -> Timing {
    Timing {
        ping_every: Duration::from_secs(20),
        lifetime: Duration::from_secs(40),
        lifetime_jitter: Duration::from_secs(10),
        ..Timing::default()
    }
}

impl World {
    fn new(before: &[(u64, u64)]) -> Self {
        let mut server = Server::default();
        for (peer, (said, held)) in PEERS.iter().zip(before) {
            for number in 0..*said {
                server.append(&conversation_with(peer), peer, &format!("before-{number}"), "old");
            }
            if let Some(known) = server.said.get_mut(&conversation_with(peer)) {
                known.delivered = *held.min(said);
                known.settled = known.delivered;
            }
        }
        let now = Instant::now();
        let session = Session::new("alice", timing(), Saved::default(), fastrand::Rng::with_seed(1), now);
        let mut world = Self {
            server,
            session,
            saved: Saved::default(),
            now,
            dialing: None,
            wires: BTreeMap::new(),
            events: VecDeque::new(),
            got: BTreeMap::new(),
            sent: BTreeMap::new(),
            reads: BTreeMap::new(),
            count: 0,
        };
        world.session.tick(now);
        world.collect();
        world
    }

    fn collect(&mut self) {
        for output in self.session.take_outputs() {
            match output {
                Output::Dial { link, .. } => {
                    assert!(self.dialing.is_none(), "one at a time");
                    self.dialing = Some(link);
                }
                Output::Frame { link, text } => self.wires.get_mut(&link).expect("it is open").up.push(text),
                Output::Close { link } => drop(self.wires.remove(&link)),
                Output::Event(event) => self.events.push_back(event),
                Output::Save(change) => self.saved.apply(&change),
                Output::Answer { .. } => {}
            }
        }
    }

    fn restart(&mut self) {
        self.wires.clear();
        self.dialing = None;
        self.events.clear();
        self.reads.clear();
        let rng = fastrand::Rng::with_seed(self.count);
        self.session = Session::new("alice", timing(), self.saved.clone(), rng, self.now);
        self.session.tick(self.now);
    }

    fn push(&mut self, message: &Value) {
        for wire in self.wires.values_mut() {
            wire.down.push(json!({"type":"message.new","message":message}).to_string());
        }
    }

    /// The frame that `pick` means of all that are on their way in this direction.
    fn on_the_way(&mut self, up: bool, pick: usize, again: bool) -> Option<(LinkId, String)> {
        let direction = |wire: &Wire| if up { wire.up.len() } else { wire.down.len() };
        let total: usize = self.wires.values().map(direction).sum();
        let mut pick = pick.checked_rem(total)?;
        for (link, wire) in &mut self.wires {
            let frames = if up { &mut wire.up } else { &mut wire.down };
            if pick < frames.len() {
                let frame = if again { frames[pick].clone() } else { frames.remove(pick) };
                return Some((*link, frame));
            }
            pick -= frames.len();
        }
        None
    }

    fn up(&mut self, pick: usize, again: bool) {
        let Some((link, frame)) = self.on_the_way(true, pick, again) else { return };
        let answer = self.server.answer(&serde_json::from_str(&frame).unwrap());
        if let Some(wire) = self.wires.get_mut(&link) {
            wire.down.push(answer.to_string());
        }
    }

    fn down(&mut self, pick: usize, again: bool) {
        let Some((link, frame)) = self.on_the_way(false, pick, again) else { return };
        self.session.received(link, &frame, self.now);
    }

    fn open(&mut self) {
        if let Some(link) = self.dialing.take() {
            self.wires.insert(link, Wire::default());
            self.session.opened(link, self.now);
        }
    }

    fn cut(&mut self, pick: usize) {
        let Some(link) = self.wires.keys().nth(pick).copied() else { return };
        self.wires.remove(&link);
        self.session.lost(link, Why::Closed, self.now);
    }

    fn handle(&mut self) {
        let Some(event) = self.events.pop_front() else { return };
        let Event::Message { message: Message { conversation_id, seq, .. }, .. } = event else { return };
        let got = self.got.entry(conversation_id.clone()).or_default();
        match got.last() {
            Some(last) => assert_eq!(seq, last + 1, "{conversation_id} in order and once, after {got:?}"),
            None => assert!(seq - 1 <= self.server.said[&conversation_id].settled, "{conversation_id} begins at {seq}"),
        }
        got.push(seq);
        self.session.handled(&conversation_id, seq, self.now);
    }

    fn send(&mut self, peer: &str, by_conversation: bool) {
        let conversation = conversation_with(peer);
        let known = self.server.said.contains_key(&conversation);
        let target =
            if by_conversation && known { Target::Conversation(conversation) } else { Target::User(peer.to_owned()) };
        let client_msg_id = format!("m{}", self.count);
        self.sent.entry(target.clone()).or_default().push(client_msg_id.clone());
        let queued = Queued { client_msg_id, target, body: "hi".into() };
        self.saved.apply(&Change::Queued(queued.clone()));
        self.session.send(queued, None, self.now);
    }

    fn fail_to_open(&mut self, how: u8) {
        let Some(link) = self.dialing.take() else { return };
        let why = match how {
            0 => Why::TokenRefused { status: 401 },
            1 => Why::NoToken("none".into()),
            2 => Why::Refused { status: 500 },
            _ => Why::Unreachable("no".into()),
        };
        self.session.dial_failed(link, why, self.now);
    }

    fn fail_next(&mut self, how: u8) {
        let refused = |code: &str, retryable: bool| json!({"type":"error","error":{"code":code,"message":"","retryable":retryable}});
        self.server.fails = Some(match how {
            0 => refused("unavailable", true),
            1 => json!({"type":"error","error":{"code":"conflict","message":"","retryable":true,"retry_after_ms":700}}),
            2 => refused("token_expired", false),
            _ => json!({"message":"Internal server error"}),
        });
    }

    fn take(&mut self, step: &Step) {
        self.count += 1;
        match *step {
            Step::Up { pick, again } => self.up(pick, again),
            Step::Down { pick, again } => self.down(pick, again),
            Step::LoseUp(pick) => drop(self.on_the_way(true, pick, false)),
            Step::LoseDown(pick) => drop(self.on_the_way(false, pick, false)),
            Step::Cut(pick) => self.cut(pick),
            Step::Open => self.open(),
            Step::FailToOpen(how) => self.fail_to_open(how),
            Step::PeerSays(peer) => {
                let id = format!("p{}", self.count);
                let message = self.server.append(&conversation_with(PEERS[peer]), PEERS[peer], &id, "hello");
                self.push(&message);
            }
            Step::OtherDeviceSays(peer) => {
                let id = format!("o{}", self.count);
                let message = self.server.append(&conversation_with(PEERS[peer]), "alice", &id, "from my tablet");
                self.push(&message);
            }
            Step::OtherDeviceHolds(peer) => {
                if let Some(said) = self.server.said.get_mut(&conversation_with(PEERS[peer])) {
                    said.delivered = said.last();
                    said.settled = said.last();
                }
            }
            Step::Send { peer, by_conversation } => self.send(PEERS[peer], by_conversation),
            Step::Handle => self.handle(),
            Step::Read => {
                if let Some((id, Some(seq))) = self.got.iter().next().map(|(id, got)| (id.clone(), got.last().copied()))
                {
                    self.session.read(&id, seq, self.count, self.now);
                    self.reads.insert(id, seq);
                }
            }
            Step::Wait(ms) => {
                self.now += Duration::from_millis(ms);
                self.session.tick(self.now);
            }
            Step::FailNext(how) => self.fail_next(how),
            Step::Restart => self.restart(),
        }
        self.collect();
    }

    /// Everything works from now on. Returns once nothing is left to be done.
    fn heal(&mut self) {
        self.server.fails = None;
        // What was pushed and lost, and is held by another device, is only found by a new connection.
        while !self.wires.is_empty() {
            self.cut(0);
            self.collect();
        }
        for _ in 0..2000 {
            self.open();
            self.collect();
            while self.wires.values().any(|wire| !wire.up.is_empty() || !wire.down.is_empty())
                || !self.events.is_empty()
            {
                self.up(0, false);
                self.down(0, false);
                self.handle();
                self.collect();
            }
            if self.is_quiet() {
                return;
            }
            if let Some(next) = self.session.next_tick() {
                self.now = self.now.max(next);
            }
            self.session.tick(self.now);
            self.collect();
        }
        panic!("it never comes to rest");
    }

    fn is_quiet(&self) -> bool {
        let rest = self.session.next_tick().is_some_and(|at| at > self.now + Duration::from_secs(6));
        rest && self.dialing.is_none() && self.wires.len() == 1
    }

    fn check(&self) {
        assert!(self.saved.outbox.is_empty(), "{:?}", self.saved.outbox);
        for (id, said) in &self.server.said {
            match self.got.get(id).and_then(|got| got.last()) {
                Some(last) => {
                    assert_eq!(*last, said.last(), "all of {id}");
                    assert_eq!(self.saved.held.get(id), Some(last));
                }
                None => assert_eq!(said.settled, said.last(), "nothing of {id}"),
            }
            assert_eq!(said.delivered, said.last(), "{id} is acknowledged");
        }
        for (target, ids) in &self.sent {
            let conversation = match target {
                Target::User(user) => conversation_with(user),
                Target::Conversation(id) => id.clone(),
            };
            let stored =
                self.server.said[&conversation].messages.iter().map(|message| message["client_msg_id"].as_str());
            let stored: Vec<&str> = stored.flatten().filter(|id| ids.iter().any(|sent| sent == id)).collect();
            assert_eq!(stored, *ids, "each once, in order");
        }
        for (id, seq) in &self.reads {
            assert!(self.server.said[id].read >= *seq, "{id} is read");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_once_in_order_and_acknowledged(
        before in prop::collection::vec((0..6_u64, 0..6_u64), 3),
        steps in prop::collection::vec(step(), 0..250),
    ) {
        let mut world = World::new(&before);
        for step in &steps {
            world.take(step);
        }
        world.heal();
        world.check();
    }
}
