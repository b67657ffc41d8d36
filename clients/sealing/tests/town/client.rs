//! A client: it carries between the server and its keyring, and writes all of a turn in one transaction.

use std::collections::{BTreeMap, VecDeque};

use pigeonhole_sealing::{
    Envelope, Group, Identity, Keyring, Notice, Party, Prepared, Readiness, RequestKey, Roll, Shown, Why,
};
use serde_json::Value;
use wire::{
    Action, AddRequest, ClientMsgId, ConversationId, DeviceId, Kind, LeaveRequest, Problem, RemoveRequest, SendRequest,
    Seq, Target, UserId, direct_conversation_id,
};

use super::Server;

/// All that is in the storage.
#[derive(Clone, Default)]
pub(crate) struct Saved {
    pub(crate) rows: BTreeMap<String, Vec<u8>>,
    /// The client has taken the entries up to this one.
    pub(crate) held: u64,
    pub(crate) shown: BTreeMap<u64, Result<String, Why>>,
    pub(crate) outbox: VecDeque<(ClientMsgId, String)>,
    /// The changes of the group's members.
    pub(crate) rolls: VecDeque<(ClientMsgId, Change)>,
    pub(crate) notices: Vec<Notice>,
}

/// A change of a group's members.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Add(Vec<UserId>),
    Remove(UserId),
    Leave,
}

/// A request on its way, and the answer on its way back.
pub(crate) struct Asked {
    pub(crate) key: Option<RequestKey>,
    pub(crate) action: Action,
    pub(crate) answer: Option<Result<Value, Problem>>,
}

pub(crate) struct Client {
    pub(crate) identity: Identity,
    pub(crate) device: DeviceId,
    pub(crate) with: Party,
    pub(crate) keyring: Keyring,
    /// As of the last transaction, and of this turn.
    pub(crate) saved: Saved,
    pub(crate) turn: Saved,
    pub(crate) asked: Vec<Asked>,
    pub(crate) seed: [u8; 32],
    /// How many times a message of another was opened.
    pub(crate) opened: usize,
    carried: bool,
    fetches: usize,
}

impl Client {
    pub(crate) fn new(identity: Identity, device: &str, with: impl Into<Party>, seed: [u8; 32]) -> Self {
        let with = with.into();
        let device = DeviceId::parse(device).unwrap();
        let mut keyring = Keyring::open(&identity, device.clone(), BTreeMap::new(), &seed).unwrap();
        keyring.carry_files();
        let (saved, turn) = (Saved::default(), Saved::default());
        let mut client = Self {
            identity,
            device,
            with,
            keyring,
            saved,
            turn,
            asked: vec![],
            seed,
            opened: 0,
            carried: false,
            fetches: 0,
        };
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
        self.keyring.carry_files();
        self.keyring.connected();
        self.asked.clear();
    }

    pub(crate) fn write(&mut self, id: &str, text: &str) {
        self.turn.outbox.push_back((ClientMsgId::parse(id).unwrap(), text.to_owned()));
        self.commit();
    }

    pub(crate) fn id(&self) -> ConversationId {
        match &self.with {
            Party::User(peer) => direct_conversation_id(self.me(), peer),
            Party::Conversation(id) => id.clone(),
        }
    }

    /// Gives out the change that is due.
    fn roll(&mut self, now_ms: u64) -> Option<Action> {
        let (client_msg_id, change) = self.turn.rolls.front()?.clone();
        let conversation_id = self.id();
        let roll = match &change {
            Change::Leave => {
                let client_msg_id = Some(client_msg_id);
                return Some(Action::Leave(LeaveRequest { conversation_id, client_msg_id }));
            }
            Change::Add(users) => Roll::Add(users),
            Change::Remove(user) => Roll::Remove(user),
        };
        let keys = match self.keyring.roll(&conversation_id, &client_msg_id, roll, now_ms) {
            Prepared::Plain => None,
            Prepared::Ready(keys) => Some(keys),
            Prepared::Waits => return None,
            Prepared::Held(user) => {
                self.keyring.accept(&user);
                return None;
            }
            Prepared::Refused(..) => {
                self.turn.rolls.pop_front();
                return None;
            }
        };
        Some(match change {
            Change::Add(members) => Action::Add(AddRequest { conversation_id, client_msg_id, members, keys }),
            Change::Remove(user_id) => Action::Remove(RemoveRequest { conversation_id, client_msg_id, user_id, keys }),
            Change::Leave => return None,
        })
    }

    /// Gives out what is due. Nothing leaves before the commit of the turn.
    pub(crate) fn pump(&mut self, now_ms: u64) -> Readiness {
        let mut readiness = Readiness::Waits;
        let mut leaves = Vec::new();
        let sends = self.asked.iter().any(|asked| asked.key.is_none());
        if !sends && let Some(action) = self.roll(now_ms) {
            leaves.push(Asked { key: None, action, answer: None });
        }
        let sends = sends || !leaves.is_empty();
        if let Some((id, text)) = self.turn.outbox.front().filter(|_| !sends).cloned() {
            readiness = Readiness::Ready;
            if self.keyring.sealed(self.with.clone(), &id).is_none() {
                readiness = self.keyring.prepare(self.with.clone(), now_ms);
            }
            if readiness == Readiness::Refused("not_member".to_owned()) {
                for (id, _) in std::mem::take(&mut self.turn.outbox) {
                    self.keyring.sent(self.with.clone(), &id, None, now_ms);
                }
            }
            if readiness == Readiness::Ready {
                let envelope = Envelope { kind: "text".into(), body: text.clone(), ..Envelope::default() };
                let sealed = self.keyring.seal(self.with.clone(), &id, &envelope).unwrap();
                let target = match &self.with {
                    Party::User(peer) => Target::User(peer.clone()),
                    Party::Conversation(id) => Target::Conversation(id.clone()),
                };
                let request = SendRequest {
                    target,
                    client_msg_id: id.clone(),
                    kind: Kind::Sealed,
                    body: sealed.body,
                    media: None,
                    data: None,
                    reply_to: None,
                    read: None,
                    mentions: vec![],
                    epoch: Some(sealed.epoch),
                    silent: sealed.silent,
                    frank: sealed.frank.map(Box::new),
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

    /// Carries files. Every second download has other bytes.
    pub(crate) fn carry_files(&mut self, server: &mut Server, now_ms: u64) -> bool {
        let (uploads, fetches) = (self.keyring.uploads(now_ms), self.keyring.fetches(now_ms));
        let carries = !uploads.is_empty() || !fetches.is_empty();
        for upload in uploads {
            let media_id = server.upload(upload.bytes.clone());
            self.keyring.uploaded(&upload, Some(media_id), now_ms);
        }
        for fetch in fetches {
            self.fetches += 1;
            let mut bytes = server.files.get(fetch.media_id.as_str()).cloned();
            if let Some(first) =
                bytes.as_mut().and_then(|bytes| bytes.first_mut()).filter(|_| self.fetches.is_multiple_of(2))
            {
                *first ^= 1;
            }
            self.keyring.fetched(&fetch, bytes, now_ms);
        }
        self.commit();
        carries
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
                    self.keyring.sent(self.with.clone(), id, Some(seq), now_ms);
                    self.told(seq.value(), id);
                }
                Err(problem) if problem.code == "rekey_required" => {
                    self.keyring.rekey(self.with.clone(), id, &problem.members, now_ms);
                }
                Err(problem) if problem.code == "not_member" => {
                    self.keyring.sent(self.with.clone(), id, None, now_ms);
                    self.turn.outbox.retain(|(other, _)| other != id);
                }
                Err(problem) => {
                    assert_eq!(problem.code, "stale_epoch");
                    let last_seq = problem.last_seq.unwrap();
                    self.keyring.stale(self.with.clone(), id, problem.epoch.unwrap(), last_seq, now_ms);
                }
            }
        } else {
            let (Action::Add(AddRequest { client_msg_id: id, .. })
            | Action::Remove(RemoveRequest { client_msg_id: id, .. })) = &action
            else {
                self.turn.rolls.pop_front();
                return;
            };
            let again = |problem: &Problem| matches!(problem.code.as_str(), "stale_epoch" | "rekey_required");
            let seq = answer.as_ref().map(|value| Seq::new(value["seq"].as_u64().unwrap()).unwrap());
            self.keyring.rolled(&self.id(), id, seq, now_ms);
            if !answer.as_ref().is_err_and(again) {
                self.turn.rolls.retain(|(other, _)| other != id);
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
        let Some(next) = server.next_for(self.me(), self.turn.held) else { return false };
        let place = usize::try_from(next - 1).unwrap();
        let message = server.seen_by(self.me(), place);
        let is_next = self.keyring.position(&self.id()).is_some_and(|position| position.value() + 1 == next);
        let taken = self.keyring.take(&message, now_ms);
        self.turn.notices.extend(taken.notices);
        match taken.shown {
            Shown::Plain { message, .. } if message.kind == Kind::System => {}
            Shown::Plain { message, .. } => {
                assert_eq!(message.kind, Kind::Text);
                let before = self.turn.shown.insert(next, Ok(message.body));
                assert!(!matches!(before, Some(Ok(_))), "opened twice");
                self.opened += 1;
            }
            Shown::Own => {
                // The answer may never come.
                let id = message.client_msg_id.unwrap();
                self.keyring.sent(self.with.clone(), &id, Seq::new(next), now_ms);
                self.told(next, &id);
            }
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
        if let Some(position) = self.keyring.position(&self.id())
            && position.value() < self.turn.held
        {
            self.turn.held = position.value();
        }
    }

    /// The stored group, if the device has a part in the conversation.
    pub(crate) fn group(&self) -> Option<Group> {
        let row = self.saved.rows.get(&format!("seat/{}", self.id()))?;
        let row: (u8, Value) = serde_json::from_slice(row).unwrap();
        let state = wire::Bytes::parse(row.1["state"].as_str()?).unwrap();
        let tree = self.saved.rows.get(&format!("tree/{}", self.id()))?;
        Some(Group::from_stored(state.as_slice().to_vec(), tree.clone()).unwrap())
    }

    /// The requests that are due, and their answers.
    pub(crate) fn carry(&mut self, server: &mut Server, now_ms: u64) -> Readiness {
        let readiness = self.pump(now_ms);
        self.carried = self.carry_files(server, now_ms) || !self.asked.is_empty();
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
