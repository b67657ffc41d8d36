//! The server: one log, epochs, idempotency, and the keys directory.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::Digest as _;
use wire::{
    Action, Bytes, Carried, ClientMsgId, CommitRequest, ConversationId, DeviceId, Digest, Kind, MediaId, Message,
    MessageId, Problem, Rekeyed, SendRequest, Seq, Side, System, Timestamp, Title, UserId,
};

use super::conversation;

/// The keys of a device.
#[derive(Clone, Default)]
pub(crate) struct Packages {
    pub(crate) credential: Vec<u8>,
    pub(crate) left: Vec<(Bytes, i64)>,
    pub(crate) last_resort: Option<(Bytes, i64)>,
    seen_ms: u64,
    ever: BTreeSet<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) log: Vec<Message>,
    pub(crate) epoch: u64,
    pub(crate) group_info: Option<(Bytes, Carried, u64)>,
    /// A group, instead of the direct conversation.
    pub(crate) group: Option<ConversationId>,
    /// The members, and the entries by which they joined.
    pub(crate) members: BTreeMap<UserId, u64>,
    /// The entries that a user may see.
    windows: BTreeMap<UserId, Vec<(u64, Option<u64>)>>,
    /// The users who left, and whom no commit has named.
    pub(crate) unnamed: BTreeSet<UserId>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The entries have their bytes in files.
    pub(crate) by_reference: bool,
    pub(crate) rekeys: usize,
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
    pub(crate) fn id(&self) -> ConversationId {
        self.group.clone().unwrap_or_else(conversation)
    }

    /// A group of these users, who see it from its first entry on.
    pub(crate) fn group(users: &[UserId], now_ms: u64) -> Self {
        let mut server = Self { now_ms, group: Some(ConversationId::parse("gr_town").unwrap()), ..Self::default() };
        let system =
            System::Created { title: Title::parse("town").unwrap(), members: users.to_vec(), look: Box::default() };
        let id = ClientMsgId::parse("created").unwrap();
        server.append(&users[0], &id, Kind::System).system = Some(system);
        server.let_in(users);
        server
    }

    fn let_in(&mut self, users: &[UserId]) {
        let seq = self.log.len() as u64;
        for user in users {
            self.members.insert(user.clone(), seq);
            self.windows.entry(user.clone()).or_default().push((seq, None));
        }
    }

    fn let_out(&mut self, user: &UserId) {
        self.members.remove(user);
        let seq = self.log.len() as u64;
        self.windows.get_mut(user).unwrap().last_mut().unwrap().1 = Some(seq);
    }

    /// The next entry behind this one that the user may see.
    pub(crate) fn next_for(&self, user: &UserId, held: u64) -> Option<u64> {
        let is_visible = |seq: u64| {
            self.group.is_none()
                || self.windows.get(user).is_some_and(|windows| {
                    windows.iter().any(|(from, to)| *from <= seq && to.is_none_or(|to| seq <= to))
                })
        };
        (held + 1..=self.log.len() as u64).find(|seq| is_visible(*seq))
    }

    pub(crate) fn upload(&mut self, bytes: Vec<u8>) -> MediaId {
        let media_id = format!("m_{}", self.files.len());
        self.files.insert(media_id.clone(), bytes);
        MediaId::parse(&media_id).unwrap()
    }

    /// Bytes as an entry has them.
    fn told(&mut self, carried: &Carried) -> Carried {
        let bytes = match carried {
            Carried::Bytes(bytes) if self.by_reference => bytes.as_slice().to_vec(),
            Carried::Bytes(_) => return carried.clone(),
            Carried::File { media_id, .. } => self.files[media_id.as_str()].clone(),
        };
        let sha256 = Digest::parse(&data_encoding::BASE64.encode(&sha2::Sha256::digest(&bytes))).unwrap();
        let length = bytes.len() as u64;
        let media_id = match carried {
            Carried::File { media_id, .. } => media_id.clone(),
            Carried::Bytes(_) => self.upload(bytes),
        };
        Carried::File { media_id, bytes: Some(length), sha256: Some(sha256) }
    }

    fn rekey_required(&mut self) -> Problem {
        self.rekeys += 1;
        let mut problem = problem("rekey_required");
        problem.members = self.unnamed.iter().cloned().collect();
        problem
    }
    fn stale_epoch(&mut self) -> Problem {
        self.stale += 1;
        let mut problem = problem("stale_epoch");
        problem.epoch = Some(self.epoch);
        problem.last_seq = Seq::new(self.log.len() as u64);
        problem.conversation_id = (!self.log.is_empty()).then(|| self.id());
        problem
    }

    /// Appends an entry, as its author's devices see it.
    pub(crate) fn append(&mut self, by: &UserId, id: &ClientMsgId, kind: Kind) -> &mut Message {
        let seq = Seq::new(self.log.len() as u64 + 1).unwrap();
        let sent_at = Timestamp::from_millis(i64::try_from(self.now_ms).unwrap());
        let message_id = MessageId::stored(format!("message-{}", seq.value()));
        let mut message = Message::text(self.id(), seq, message_id, by.clone(), String::new(), sent_at);
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
        let is_of_group = !matches!(action, Action::PublishKeys(_) | Action::ListKeys(_) | Action::RemoveKeys(_));
        let is_of_group =
            is_of_group && !matches!(action, Action::ClaimKeys(request) if request.conversation_id.is_none());
        if self.group.is_some() && is_of_group && !self.members.contains_key(user) && !self.is_repeated(user, action) {
            return Err(problem("not_member"));
        }
        match action {
            Action::Send(request) => self.send(user, request),
            Action::Commit(request) => self.commit(user, request),
            Action::GroupInfo(_) => {
                let Some((group_info, tree, seq)) = &self.group_info else { return Err(problem("gone")) };
                let id = self.id();
                Ok(json!({"conversation_id": id, "epoch": self.epoch, "seq": seq, "birth_seq": self.birth_seq,
                    "group_info": group_info, "tree": tree}))
            }
            Action::History(request) => {
                let Side::After(after) = request.side else { return Err(problem("bad_request")) };
                let next = self.next_for(user, after.value()).map(|seq| usize::try_from(seq - 1).unwrap());
                let messages: Vec<_> = next.into_iter().map(|place| self.seen_by(user, place)).collect();
                Ok(json!({"messages": messages, "more": false, "last_seq": self.log.len(), "members": []}))
            }
            Action::ClaimKeys(request) => {
                let key = (user.clone(), device.clone(), request.claim_id.clone());
                if let Some(result) = self.claims.get(&key) {
                    return Ok(result.clone());
                }
                if request.conversation_id.is_some()
                    && request.users.iter().any(|user| !self.members.contains_key(user))
                {
                    return Err(problem("gone"));
                }
                let has_keys = |wanted: &UserId| self.keys.keys().any(|(owner, _)| owner == wanted);
                let without = request.users.iter().filter(|wanted| *wanted != user && !has_keys(wanted));
                let without: Vec<UserId> = without.cloned().collect();
                if !without.is_empty() {
                    return Err(Problem { users: without, ..problem("no_keys") });
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
                packages.seen_ms = self.now_ms;
                let last = &request.last_resort;
                packages.last_resort = Some((last.data.clone(), last.expires_at.millis()));
                let left = packages.left.len();
                Ok(json!({"left": left, "devices": self.keys.keys().filter(|(owner, _)| owner == user).count()}))
            }
            Action::ListKeys(_) => {
                if let Some(packages) = self.keys.get_mut(&(user.clone(), device.clone())) {
                    packages.seen_ms = self.now_ms;
                }
                let own = self.keys.iter().filter(|((owner, _), _)| owner == user);
                let devices: Vec<Value> = own
                    .map(|((_, device), packages)| {
                        let ends = Timestamp::from_millis(packages.last_resort.as_ref().unwrap().1);
                        let seen = Timestamp::from_millis(i64::try_from(packages.seen_ms).unwrap());
                        json!({"device_id": device, "credential": Bytes::from(packages.credential.clone()),
                            "left": packages.left.len(), "last_resort_expires_at": ends, "added_at": seen,
                            "seen_at": seen})
                    })
                    .collect();
                Ok(json!({"devices": devices}))
            }
            Action::RemoveKeys(request) => {
                self.keys.remove(&(user.clone(), request.device_id.clone()));
                Ok(json!({"devices": 1}))
            }
            Action::Members(request) => {
                let behind = |member: &&UserId| request.cursor.as_ref().is_none_or(|cursor| *member > cursor);
                let page: Vec<_> = self.members.iter().filter(|(member, _)| behind(member)).take(3).collect();
                let more = self.members.keys().filter(behind).count() > 3;
                let cursor = page.last().filter(|_| more).map(|(member, _)| *member);
                let members: Vec<Value> = page
                    .iter()
                    .enumerate()
                    .map(|(place, (user, seq))| {
                        let role = if place == 0 { "owner" } else { "member" };
                        json!({"user_id": user, "role": role, "joined_seq": seq})
                    })
                    .collect();
                Ok(json!({"members": members, "next_cursor": cursor}))
            }
            Action::Add(request) => {
                let (id, all) = (&request.client_msg_id, serde_json::to_string(request).unwrap());
                let system = System::MembersAdded { members: request.members.clone() };
                if let Some(result) = self.roll(user, id, &all, request.keys.as_deref(), system)? {
                    return Ok(result);
                }
                let seq = self.log.len() as u64;
                self.let_in(&request.members);
                let mut result = self.result(seq);
                result["added"] = json!(request.members);
                result["already"] = json!([]);
                self.stored.insert((user.clone(), id.clone()), (all, result.clone()));
                Ok(result)
            }
            Action::Remove(request) => {
                let (id, all) = (&request.client_msg_id, serde_json::to_string(request).unwrap());
                let system = System::MembersRemoved { members: vec![request.user_id.clone()] };
                if let Some(result) = self.roll(user, id, &all, request.keys.as_deref(), system)? {
                    return Ok(result);
                }
                self.let_out(&request.user_id);
                if request.keys.is_none() && self.epoch > 0 {
                    self.unnamed.insert(request.user_id.clone());
                }
                let result = self.result(self.log.len() as u64);
                self.stored.insert((user.clone(), id.clone()), (all, result.clone()));
                Ok(result)
            }
            Action::Leave(request) => {
                let id = request.client_msg_id.clone().unwrap();
                if let Some((_, result)) = self.stored.get(&(user.clone(), id.clone())) {
                    return Ok(result.clone());
                }
                self.append(user, &id, Kind::System).system = Some(System::MemberLeft {});
                self.let_out(user);
                if self.epoch > 0 {
                    self.unnamed.insert(user.clone());
                }
                let result = self.result(self.log.len() as u64);
                self.stored.insert((user.clone(), id), (String::new(), result.clone()));
                Ok(result)
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
        if !self.unnamed.is_empty() {
            return Err(self.rekey_required());
        }
        let message = self.append(user, &request.client_msg_id, Kind::Sealed);
        message.epoch = request.epoch;
        message.body.clone_from(&request.body);
        message.silent = request.silent;
        message.frank.clone_from(&request.frank);
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
        for user in &request.removes {
            self.unnamed.remove(user);
        }
        let commit = request.commit.as_ref().map(|commit| Box::new(self.told(commit)));
        let welcome = request.welcome.as_ref().map(|welcome| Box::new(self.told(welcome)));
        let tree = self.told(&request.tree);
        let message = self.append(user, &request.client_msg_id, Kind::Commit);
        message.silent = true;
        message.epoch = Some(epoch);
        message.commit = commit;
        message.tree = welcome.as_ref().map(|_| Box::new(tree.clone()));
        message.welcome = welcome;
        message.removes = (!request.removes.is_empty()).then(|| Box::new(request.removes.clone()));
        let seq = message.seq;
        let result = json!({"conversation_id": message.conversation_id, "seq": seq, "message_id": message.message_id,
            "sent_at": message.sent_at, "duplicate": false, "epoch": epoch});
        self.group_info = Some((request.group_info.clone(), tree, seq.value()));
        if request.commit.is_none() {
            self.birth_seq = seq.value();
        }
        self.stored.insert(key, (all, result.clone()));
        Ok(result)
    }

    fn is_repeated(&self, user: &UserId, action: &Action) -> bool {
        let id = match action {
            Action::Send(request) => &request.client_msg_id,
            Action::Commit(request) => &request.client_msg_id,
            Action::Add(request) => &request.client_msg_id,
            Action::Remove(request) => &request.client_msg_id,
            Action::Leave(request) => request.client_msg_id.as_ref().unwrap(),
            _ => return false,
        };
        self.stored.contains_key(&(user.clone(), id.clone()))
    }

    fn result(&self, seq: u64) -> Value {
        let message = &self.log[usize::try_from(seq - 1).unwrap()];
        json!({"conversation_id": message.conversation_id, "seq": seq, "message_id": message.message_id,
            "sent_at": message.sent_at, "duplicate": false})
    }

    /// Appends the entry of an `add` or a `remove`, or returns the result that it has.
    fn roll(
        &mut self,
        user: &UserId,
        id: &ClientMsgId,
        all: &str,
        keys: Option<&Rekeyed>,
        system: System,
    ) -> Result<Option<Value>, Problem> {
        if let Some((stored, result)) = self.stored.get(&(user.clone(), id.clone())) {
            assert_eq!(stored, all);
            return Ok(Some(result.clone()));
        }
        match &system {
            System::MembersAdded { members } => {
                if members.iter().any(|user| self.members.contains_key(user)) {
                    return Err(problem("forbidden"));
                }
                if keys.is_none() && self.epoch > 0 {
                    return Err(problem("encryption_required"));
                }
                if keys.is_some_and(|keys| keys.epoch != self.epoch) {
                    return Err(self.stale_epoch());
                }
                if members.iter().any(|user| self.unnamed.contains(user)) {
                    return Err(self.rekey_required());
                }
            }
            System::MembersRemoved { members } => {
                if !self.members.contains_key(&members[0]) {
                    return Err(problem("gone"));
                }
                if keys.is_some_and(|keys| keys.epoch != self.epoch) {
                    return Err(self.stale_epoch());
                }
            }
            other => panic!("{other:?}"),
        }
        let Some(keys) = keys else {
            self.append(user, id, Kind::System).system = Some(system);
            return Ok(None);
        };
        self.epoch += 1;
        let epoch = self.epoch;
        let commit = self.told(&keys.commit);
        let welcome = keys.welcome.as_ref().map(|welcome| Box::new(self.told(welcome)));
        let tree = self.told(&keys.tree);
        let message = self.append(user, id, Kind::System);
        message.epoch = Some(epoch);
        message.commit = Some(Box::new(commit));
        message.tree = welcome.as_ref().map(|_| Box::new(tree.clone()));
        message.welcome = welcome;
        message.system = Some(system);
        let seq = message.seq.value();
        self.group_info = Some((keys.group_info.clone(), tree, seq));
        Ok(None)
    }
}
