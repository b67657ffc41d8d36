//! A client: it carries between the server and its keyring, and writes all of a turn in one transaction.

use std::collections::{BTreeMap, VecDeque};

use pigeonhole_sealing::{Envelope, Group, Identity, Keyring, Notice, Readiness, RequestKey, Shown, Why};
use serde_json::Value;
use wire::{Action, ClientMsgId, DeviceId, Kind, Problem, SendRequest, Seq, Target, UserId};

use super::{Server, conversation};

/// All that is in the storage.
#[derive(Clone, Default)]
pub(crate) struct Saved {
    pub(crate) rows: BTreeMap<String, Vec<u8>>,
    /// The client has taken the entries up to this one.
    pub(crate) held: u64,
    pub(crate) shown: BTreeMap<u64, Result<String, Why>>,
    pub(crate) outbox: VecDeque<(ClientMsgId, String)>,
    pub(crate) notices: Vec<Notice>,
}

/// A request on its way, and the answer on its way back.
pub(crate) struct Asked {
    key: Option<RequestKey>,
    action: Action,
    answer: Option<Result<Value, Problem>>,
}

pub(crate) struct Client {
    pub(crate) identity: Identity,
    pub(crate) device: DeviceId,
    pub(crate) peer: UserId,
    pub(crate) keyring: Keyring,
    /// As of the last transaction, and of this turn.
    pub(crate) saved: Saved,
    pub(crate) turn: Saved,
    pub(crate) asked: Vec<Asked>,
    pub(crate) seed: [u8; 32],
    /// How many times a message of another was opened.
    pub(crate) opened: usize,
    carried: bool,
}

impl Client {
    pub(crate) fn new(identity: Identity, device: &str, peer: UserId, seed: [u8; 32]) -> Self {
        let device = DeviceId::parse(device).unwrap();
        let keyring = Keyring::open(&identity, device.clone(), BTreeMap::new(), &seed).unwrap();
        let (saved, turn) = (Saved::default(), Saved::default());
        let mut client =
            Self { identity, device, peer, keyring, saved, turn, asked: vec![], seed, opened: 0, carried: false };
        client.keyring.connected();
        client.commit();
        client
    }

    pub(crate) fn me(&self) -> &UserId {
        self.identity.user()
    }

    /// Ends a turn: all of it is written in one transaction.
    pub(crate) fn commit(&mut self) {
        for (name, row) in self.keyring.take_changes() {
            match row {
                Some(row) => self.turn.rows.insert(name, row.to_vec()),
                None => self.turn.rows.remove(&name),
            };
        }
        self.saved = self.turn.clone();
    }

    /// The app dies: what was not written is gone.
    pub(crate) fn crash(&mut self) {
        self.turn = self.saved.clone();
        let rows = self.saved.rows.clone();
        self.keyring = Keyring::open(&self.identity, self.device.clone(), rows, &self.seed).unwrap();
        self.keyring.connected();
        self.asked.clear();
    }

    pub(crate) fn write(&mut self, id: &str, text: &str) {
        self.turn.outbox.push_back((ClientMsgId::parse(id).unwrap(), text.to_owned()));
        self.commit();
    }

    /// Gives out what is due. Nothing leaves before the commit of the turn.
    pub(crate) fn pump(&mut self, now_ms: u64) -> Readiness {
        let mut readiness = Readiness::Waits;
        let mut leaves = Vec::new();
        let sends = self.asked.iter().any(|asked| asked.key.is_none());
        if let Some((id, text)) = self.turn.outbox.front().filter(|_| !sends) {
            readiness = Readiness::Ready;
            if self.keyring.sealed(&self.peer, id).is_none() {
                readiness = self.keyring.prepare(&self.peer, now_ms);
            }
            if readiness == Readiness::Ready {
                let envelope = Envelope { kind: "text".into(), body: text.clone(), ..Envelope::default() };
                let sealed = self.keyring.seal(&self.peer, id, &envelope).unwrap();
                let request = SendRequest {
                    target: Target::User(self.peer.clone()),
                    client_msg_id: id.clone(),
                    kind: Kind::Sealed,
                    body: sealed.body,
                    media: None,
                    reply_to: None,
                    mentions: vec![],
                    epoch: Some(sealed.epoch),
                    silent: sealed.silent,
                };
                leaves.push(Asked { key: None, action: Action::Send(request), answer: None });
            }
        }
        for (key, action) in self.keyring.requests(now_ms) {
            leaves.push(Asked { key: Some(key), action, answer: None });
        }
        self.commit();
        self.asked.extend(leaves);
        readiness
    }

    /// The server does a request, maybe again.
    pub(crate) fn serve(&mut self, server: &mut Server, place: usize) {
        let asked = &mut self.asked[place];
        let json = serde_json::to_string(&asked.action).unwrap();
        assert!(!json.contains("canary"), "{json}");
        asked.answer = Some(server.ask(self.identity.user(), &self.device, &asked.action));
    }

    /// An answer comes. `again`: it is lost, or comes a second time.
    pub(crate) fn answer(&mut self, place: usize, now_ms: u64, again: bool) {
        let Some(answer) = self.asked[place].answer.clone() else { return };
        if again {
            self.asked[place].answer = None;
            return;
        }
        let Asked { key, action, .. } = self.asked.swap_remove(place);
        if let Some(key) = key {
            let answered = self.keyring.answered(&key, answer.clone(), now_ms);
            self.turn.notices.extend(answered.notices);
            // A second copy of it says nothing new.
            let again = self.keyring.answered(&key, answer, now_ms);
            assert_eq!(again.entry, None);
        } else if let Action::Send(request) = action {
            let id = &request.client_msg_id;
            match answer {
                Ok(value) => {
                    let seq = Seq::new(value["seq"].as_u64().unwrap()).unwrap();
                    self.keyring.sent(&self.peer, id, Some(seq), now_ms);
                    self.told(seq.value(), id);
                }
                Err(problem) => {
                    assert_eq!(problem.code, "stale_epoch");
                    let last_seq = problem.last_seq.unwrap();
                    self.keyring.stale(&self.peer, id, problem.epoch.unwrap(), last_seq, now_ms);
                }
            }
        }
    }

    /// The text of an own message is in the outbox.
    fn told(&mut self, seq: u64, id: &ClientMsgId) {
        if let Some(place) = self.turn.outbox.iter().position(|(other, _)| other == id) {
            let (_, text) = self.turn.outbox.remove(place).unwrap();
            self.turn.shown.insert(seq, Ok(text));
        }
    }

    /// Takes the next entry. Returns whether there was one.
    pub(crate) fn read(&mut self, server: &Server, now_ms: u64) -> bool {
        self.rewind();
        let next = self.turn.held + 1;
        let place = usize::try_from(next - 1).unwrap();
        if place >= server.log.len() {
            return false;
        }
        let message = server.seen_by(self.me(), place);
        let is_next = self.keyring.position(&conversation()).is_some_and(|position| position.value() + 1 == next);
        let taken = self.keyring.take(&message, now_ms);
        self.turn.notices.extend(taken.notices);
        match taken.shown {
            Shown::Plain { message, .. } => {
                assert_eq!(message.kind, Kind::Text);
                let before = self.turn.shown.insert(next, Ok(message.body));
                assert!(!matches!(before, Some(Ok(_))), "opened twice");
                self.opened += 1;
            }
            Shown::Own => self.told(next, &message.client_msg_id.unwrap()),
            Shown::Nothing => {}
            Shown::Later => return false,
            Shown::Unreadable(why) => {
                assert!(!is_next && why == Why::BeforeJoin, "{next} is unreadable: {why:?}, {:?}", self.turn.notices);
                self.turn.shown.entry(next).or_insert(Err(why));
            }
        }
        self.turn.held = next;
        self.rewind();
        true
    }

    /// A device that begins below what it has shown takes all of it again.
    fn rewind(&mut self) {
        if let Some(position) = self.keyring.position(&conversation())
            && position.value() < self.turn.held
        {
            self.turn.held = position.value();
        }
    }

    /// The stored group, if the device has a part in the conversation.
    pub(crate) fn group(&self) -> Option<Group> {
        let row = self.saved.rows.get(&format!("seat/{}", conversation()))?;
        let row: (u8, Value) = serde_json::from_slice(row).unwrap();
        let state = wire::Bytes::parse(row.1["state"].as_str()?).unwrap();
        let tree = self.saved.rows.get(&format!("tree/{}", conversation()))?;
        Some(Group::from_stored(state.as_slice().to_vec(), tree.clone()).unwrap())
    }

    /// The requests that are due, and their answers.
    pub(crate) fn carry(&mut self, server: &mut Server, now_ms: u64) -> Readiness {
        let readiness = self.pump(now_ms);
        self.carried = !self.asked.is_empty();
        while !self.asked.is_empty() {
            self.serve(server, 0);
            self.answer(0, now_ms, false);
            self.commit();
        }
        readiness
    }

    /// All that is due, without losses, until nothing is.
    pub(crate) fn settle(&mut self, server: &mut Server, now_ms: u64) -> Readiness {
        let mut readiness = Readiness::Waits;
        for _ in 0..40 {
            while self.read(server, now_ms) {
                self.commit();
            }
            readiness = self.carry(server, now_ms);
            if !self.carried {
                break;
            }
        }
        readiness
    }
}
