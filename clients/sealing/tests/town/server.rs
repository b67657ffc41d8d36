//! The server: one log, epochs, idempotency, and the keys directory.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wire::{
    Action, Bytes, ClientMsgId, CommitRequest, ConversationId, DeviceId, Kind, Message, MessageId, Problem,
    SendRequest, Seq, Side, Timestamp, UserId,
};

use super::conversation;

/// The keys of a device.
#[derive(Clone, Default)]
pub(crate) struct Packages {
    pub(crate) credential: Vec<u8>,
    pub(crate) left: Vec<(Bytes, i64)>,
    pub(crate) last_resort: Option<(Bytes, i64)>,
    ever: BTreeSet<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) log: Vec<Message>,
    pub(crate) epoch: u64,
    pub(crate) group_info: Option<(Bytes, Bytes, u64)>,
    pub(crate) birth_seq: u64,
    pub(crate) keys: BTreeMap<(UserId, DeviceId), Packages>,
    /// The server hands out nothing but last resorts.
    pub(crate) is_stingy: bool,
    /// A frame has room for the devices of one user.
    pub(crate) is_narrow: bool,
    stored: BTreeMap<(UserId, ClientMsgId), (String, Value)>,
    claims: BTreeMap<(UserId, DeviceId, ClientMsgId), Value>,
    /// The bytes that were sent under an id, until they were called stale.
    sent: BTreeMap<(UserId, ClientMsgId), String>,
    pub(crate) stale: usize,
    /// The actions of the requests.
    pub(crate) asked: Vec<&'static str>,
    pub(crate) now_ms: u64,
}

pub(crate) fn problem(code: &str) -> Problem {
    serde_json::from_value(json!({"code": code, "message": "", "retryable": false})).unwrap()
}

impl Server {
    fn stale_epoch(&mut self) -> Problem {
        self.stale += 1;
        let mut problem = problem("stale_epoch");
        problem.epoch = Some(self.epoch);
        problem.last_seq = Seq::new(self.log.len() as u64);
        problem.conversation_id = (!self.log.is_empty()).then(conversation);
        problem
    }

    /// Appends an entry, as its author's devices see it.
    pub(crate) fn append(&mut self, by: &UserId, id: &ClientMsgId, kind: Kind) -> &mut Message {
        let seq = Seq::new(self.log.len() as u64 + 1).unwrap();
        let sent_at = Timestamp::from_millis(i64::try_from(self.now_ms).unwrap());
        let message_id = MessageId::stored(format!("message-{}", seq.value()));
        let mut message = Message::text(conversation(), seq, message_id, by.clone(), String::new(), sent_at);
        message.kind = kind;
        message.client_msg_id = Some(id.clone());
        self.log.push(message);
        self.log.last_mut().unwrap()
    }

    /// An entry as this user sees it.
    pub(crate) fn seen_by(&self, user: &UserId, place: usize) -> Message {
        let mut message = self.log[place].clone();
        message.client_msg_id.take_if(|_| message.sender_id != *user);
        message
    }

    pub(crate) fn ask(&mut self, user: &UserId, device: &DeviceId, action: &Action) -> Result<Value, Problem> {
        self.asked.push(action.name());
        match action {
            Action::Send(request) => self.send(user, request),
            Action::Commit(request) => self.commit(user, request),
            Action::GroupInfo(_) => {
                let Some((group_info, tree, seq)) = &self.group_info else { return Err(problem("gone")) };
                let id: ConversationId = conversation();
                Ok(json!({"conversation_id": id, "epoch": self.epoch, "seq": seq, "birth_seq": self.birth_seq,
                    "group_info": group_info, "tree": tree}))
            }
            Action::History(request) => {
                let Side::After(after) = request.side else { return Err(problem("bad_request")) };
                let after = usize::try_from(after.value()).unwrap();
                let messages: Vec<_> = (after..self.log.len()).take(1).map(|place| self.seen_by(user, place)).collect();
                Ok(json!({"messages": messages, "more": false, "last_seq": self.log.len(), "members": []}))
            }
            Action::ClaimKeys(request) => {
                let key = (user.clone(), device.clone(), request.claim_id.clone());
                if let Some(result) = self.claims.get(&key) {
                    return Ok(result.clone());
                }
                let others = |keys: &&(UserId, DeviceId)| keys.0 != *user;
                let named = |keys: &&(UserId, DeviceId)| request.users.contains(&keys.0);
                let wants_another = request.users.iter().any(|wanted| wanted != user);
                if wants_another && !self.keys.keys().filter(others).any(|keys| named(&keys)) {
                    return Err(problem("no_keys"));
                }
                let mut users = Vec::new();
                let room = if self.is_narrow { 1 } else { request.users.len() };
                let (wanted, left) = request.users.split_at(room);
                for wanted in wanted {
                    let mut devices = Vec::new();
                    for ((owner, other), packages) in &mut self.keys {
                        if owner != wanted || (owner == user && other == device) {
                            continue;
                        }
                        let stingy = self.is_stingy || packages.left.is_empty();
                        let package =
                            if stingy { packages.last_resort.clone().unwrap() } else { packages.left.remove(0) };
                        devices.push(json!({"device_id": other, "key_package": package.0, "last_resort": stingy}));
                    }
                    users.push(json!({"user_id": wanted, "devices": devices}));
                }
                let result = json!({"users": users, "left": left});
                self.claims.insert(key, result.clone());
                Ok(result)
            }
            Action::PublishKeys(request) => {
                let packages = self.keys.entry((user.clone(), device.clone())).or_default();
                if packages.credential != request.credential.as_slice() {
                    *packages = Packages { credential: request.credential.as_slice().to_vec(), ..Packages::default() };
                }
                for package in &request.key_packages {
                    if packages.ever.insert(package.data.as_slice().to_vec()) {
                        packages.left.push((package.data.clone(), package.expires_at.millis()));
                    }
                }
                let last = &request.last_resort;
                packages.last_resort = Some((last.data.clone(), last.expires_at.millis()));
                let left = packages.left.len();
                Ok(json!({"left": left, "devices": self.keys.keys().filter(|(owner, _)| owner == user).count()}))
            }
            Action::ListKeys(_) => {
                let own = self.keys.iter().filter(|((owner, _), _)| owner == user);
                let devices: Vec<Value> = own
                    .map(|((_, device), packages)| {
                        let ends = Timestamp::from_millis(packages.last_resort.as_ref().unwrap().1);
                        let now = Timestamp::from_millis(i64::try_from(self.now_ms).unwrap());
                        json!({"device_id": device, "credential": Bytes::from(packages.credential.clone()),
                            "left": packages.left.len(), "last_resort_expires_at": ends, "added_at": now,
                            "seen_at": now})
                    })
                    .collect();
                Ok(json!({"devices": devices}))
            }
            Action::RemoveKeys(request) => {
                self.keys.remove(&(user.clone(), request.device_id.clone()));
                Ok(json!({"devices": 1}))
            }
            other => panic!("{other:?}"),
        }
    }

    fn send(&mut self, user: &UserId, request: &SendRequest) -> Result<Value, Problem> {
        assert_eq!(request.kind, Kind::Sealed, "a message leaves in the clear");
        let key = (user.clone(), request.client_msg_id.clone());
        let before = self.sent.entry(key.clone()).or_insert_with(|| request.body.clone());
        assert_eq!(*before, request.body, "sealed anew before it was stale");
        // The epoch first, and then the idempotency row.
        if let Some((stored, result)) = self.stored.get(&key) {
            assert_eq!(*stored, request.body);
            return Ok(result.clone());
        }
        if request.epoch != Some(self.epoch) {
            self.sent.remove(&key);
            return Err(self.stale_epoch());
        }
        let message = self.append(user, &request.client_msg_id, Kind::Sealed);
        message.epoch = request.epoch;
        message.body.clone_from(&request.body);
        message.silent = request.silent;
        let result = json!({"conversation_id": message.conversation_id, "seq": message.seq,
            "message_id": message.message_id, "sent_at": message.sent_at, "duplicate": false});
        self.stored.insert(key, (request.body.clone(), result.clone()));
        Ok(result)
    }

    fn commit(&mut self, user: &UserId, request: &CommitRequest) -> Result<Value, Problem> {
        let key = (user.clone(), request.client_msg_id.clone());
        let all = serde_json::to_string(request).unwrap();
        assert!(all.len() < 24_576);
        if let Some((stored, result)) = self.stored.get(&key) {
            assert_eq!(*stored, all);
            return Ok(result.clone());
        }
        if request.epoch != self.epoch {
            return Err(self.stale_epoch());
        }
        assert!(request.epoch > 0 || request.commit.is_none());
        self.epoch += 1;
        let epoch = self.epoch;
        let message = self.append(user, &request.client_msg_id, Kind::Commit);
        message.silent = true;
        message.epoch = Some(epoch);
        message.commit.clone_from(&request.commit);
        message.welcome.clone_from(&request.welcome);
        message.tree = request.welcome.as_ref().map(|_| request.tree.clone());
        let seq = message.seq;
        let result = json!({"conversation_id": message.conversation_id, "seq": seq, "message_id": message.message_id,
            "sent_at": message.sent_at, "duplicate": false, "epoch": epoch});
        self.group_info = Some((request.group_info.clone(), request.tree.clone(), seq.value()));
        if request.commit.is_none() {
            self.birth_seq = seq.value();
        }
        self.stored.insert(key, (all, result.clone()));
        Ok(result)
    }
}
