//! Devices of two users with end-to-end encryption, against a small model of the server. Frames are lost and come twice,
//! connections end, and devices crash before and after each commit. In the end each device has each message once and in
//! order, none is unreadable, and no frame had a text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a panic is the test's report")]
#![allow(clippy::too_many_lines, reason = "a model of all actions")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Cursor;

use pigeonhole_core::{
    About, Ask, Core, Draft, Event, FileDigest, Input, Keeper, Keys, LinkId, MemStore, Moment, NewGroup, Outgoing,
    Output, Put, PutEnd, PutNews, Queued, SealedFile, Setup, Source, State, Timing, Unreadable, Upload, Why, opener_of,
};
use serde_json::{Value, json};
use wire::{
    AckEntry, AckResult, Action, AddRequest, AddResult, Attached, ClaimKeysRequest, ClaimKeysResult, ClaimedDevice,
    ClaimedUser, ClientMsgId, CommitRequest, CommitResult, Conversation, ConversationId, DeviceId, DrainResult,
    EditRequest, FileName, GroupInfoResult, GroupMember, HistoryRequest, HistoryResult, InboxResult, KeyDevice,
    KeyPackage, Kind, LeaveRequest, LeaveResult, ListKeysResult, MediaId, Member, MembersResult, Message, MessageId,
    MimeType, PingResult, PublishKeysRequest, PublishKeysResult, ReadResult, Refusal, Rekeyed, RemoveKeysResult,
    RemoveRequest, Reply, Request, Role, SealedMedia, SendRequest, SendResult, Seq, ServerEvent, Side, System, Target,
    Timestamp, UploadRequest, UploadResult, UploadedResult, UserId, direct_conversation_id, error_frame, reply_frame,
};

/// Small, so that there are several pages.
const PAGE_MAX: usize = 3;
const STARTED_MS: i64 = 1_795_000_000_000;

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

thread_local! {
    /// Each test has a thread of its own.
    static GROUP: Cell<bool> = const { Cell::new(false) };
}

fn is_group() -> bool {
    GROUP.get()
}

fn chat() -> ConversationId {
    if is_group() {
        return ConversationId::parse("gr_model").unwrap();
    }
    direct_conversation_id(&user("alice"), &user("bob"))
}

/// An upload: its announced length and digest, and its bytes.
struct Object {
    bytes: u64,
    sha256: wire::Digest,
    put: Option<Vec<u8>>,
    is_attached: bool,
}

/// The app's file at this path.
fn file_at(path: &std::path::Path) -> Vec<u8> {
    path.to_str().unwrap().repeat(40).into_bytes()
}

struct KeysOf {
    credential: wire::Bytes,
    packages: VecDeque<KeyPackage>,
    last_resort: KeyPackage,
    seen: BTreeSet<String>,
}

#[derive(Default)]
struct Server {
    objects: BTreeMap<MediaId, Object>,
    log: Vec<Message>,
    epoch: u64,
    birth_seq: Seq,
    newest: Option<GroupInfoResult>,
    delivered: BTreeMap<UserId, Seq>,
    keys: BTreeMap<(UserId, DeviceId), KeysOf>,
    claims: BTreeMap<(UserId, DeviceId, ClientMsgId), ClaimKeysResult>,
    /// Entries that the other connections get.
    news: Vec<Message>,
    clock_ms: i64,
    /// The members of a group, with the entries by which they joined.
    members: BTreeMap<UserId, Seq>,
    /// The users who left, and whom no commit has named.
    unnamed: BTreeSet<UserId>,
    refused: usize,
}

impl Server {
    /// Makes the entry of a change of the members.
    fn system(&mut self, user: &UserId, id: ClientMsgId, event: System, keys: Option<Rekeyed>) -> SendResult {
        let entry = Message { kind: Kind::System, client_msg_id: Some(id), system: Some(event), ..text(String::new()) };
        let Some(Rekeyed { commit, welcome, group_info, tree, .. }) = keys else { return self.append(user, entry) };
        self.epoch += 1;
        let tree_of_entry = welcome.as_ref().map(|_| Box::new(tree.clone()));
        let (commit, welcome) = (Box::new(commit), welcome.map(Box::new));
        let epoch = Some(self.epoch);
        let stored = self.append(user, Message { epoch, commit: Some(commit), welcome, tree: tree_of_entry, ..entry });
        let (conversation_id, seq, birth_seq) = (chat(), stored.seq, self.birth_seq);
        self.newest = Some(GroupInfoResult { conversation_id, epoch: self.epoch, seq, birth_seq, group_info, tree });
        stored
    }

    fn let_in(&mut self, users: &[UserId], seq: Seq) {
        for user in users {
            self.members.insert(user.clone(), seq);
            self.delivered.insert(user.clone(), seq.previous());
        }
    }

    fn now(&mut self) -> Timestamp {
        self.clock_ms += 1;
        Timestamp::from_millis(STARTED_MS + self.clock_ms)
    }

    fn last(&self) -> Seq {
        self.log.last().map_or(Seq::ZERO, |last| last.seq)
    }

    fn stored(&self, sender: &UserId, id: &ClientMsgId) -> Option<SendResult> {
        let is_it = |entry: &&Message| entry.sender_id == *sender && entry.client_msg_id.as_ref() == Some(id);
        self.log.iter().find(is_it).map(|entry| result(entry, true))
    }

    fn append(&mut self, sender: &UserId, entry: Message) -> SendResult {
        let (seq, sent_at) = (self.last().next(), self.now());
        let entry = Message {
            conversation_id: chat(),
            seq,
            message_id: MessageId::stored("x"),
            sender_id: sender.clone(),
            sent_at,
            ..entry
        };
        let delivered = self.delivered.entry(sender.clone()).or_default();
        if delivered.next() == seq {
            *delivered = seq;
        }
        self.log.push(entry.clone());
        self.news.push(entry.clone());
        result(&entry, false)
    }

    fn stale(&self) -> Refusal {
        let conversation_id = (!self.log.is_empty()).then(chat);
        Refusal::StaleEpoch { conversation_id, epoch: self.epoch, last_seq: self.last() }
    }

    fn answer(&mut self, user: &UserId, device: &DeviceId, frame: &str) -> String {
        let raw: Value = serde_json::from_str(frame).unwrap();
        let mut plain = raw.clone();
        plain.as_object_mut().unwrap().remove("removes");
        let Request { id, mut action } = Request::parse(&plain.to_string()).unwrap();
        match &mut action {
            Action::Add(request) => request.keys = keys_in(&raw).map(Box::new),
            Action::Remove(request) => request.keys = keys_in(&raw).map(Box::new),
            Action::Commit(request) => {
                request.removes = serde_json::from_value(raw["removes"].clone()).unwrap_or_default();
            }
            _ => {}
        }
        let name = action.name();
        match self.reply(user, device, action) {
            Ok(reply) => reply_frame(name, id.as_ref(), &reply),
            Err(refusal) => error_frame(Some(name), id.as_ref(), &refusal),
        }
    }

    fn reply(&mut self, user: &UserId, device: &DeviceId, action: Action) -> Result<Reply, Refusal> {
        Ok(match action {
            Action::Upload(request) => self.upload(request)?.into(),
            Action::Uploaded(request) => {
                let object = self.objects.get(&request.media_id).ok_or(Refusal::Gone)?;
                if object.put.is_none() {
                    return Err(Refusal::NotReady);
                }
                UploadedResult { media_id: request.media_id }.into()
            }
            Action::Send(SendRequest { client_msg_id, kind, body, epoch, silent, media, .. }) => {
                assert_eq!(kind, Kind::Sealed, "a message leaves in the clear");
                if let Some(stored) = self.stored(user, &client_msg_id) {
                    return Ok(stored.into());
                }
                if epoch != Some(self.epoch) {
                    return Err(self.stale());
                }
                if !self.unnamed.is_empty() {
                    self.refused += 1;
                    return Err(self.stale());
                }
                let media = media.map(|media| self.attach(media.media_id().clone())).transpose()?.map(Box::new);
                let entry = Message { kind, client_msg_id: Some(client_msg_id), epoch, silent, media, ..text(body) };
                self.append(user, entry).into()
            }
            Action::Commit(request) => self.commit(user, request)?.into(),
            Action::GroupInfo(_) | Action::Members(_) if is_group() && !self.members.contains_key(user) => {
                return Err(Refusal::NotMember);
            }
            Action::GroupInfo(_) => self.newest.clone().ok_or(Refusal::Gone)?.into(),
            Action::PublishKeys(request) => self.publish(user, device, request).into(),
            Action::ListKeys(_) => self.list(user).into(),
            Action::ClaimKeys(request) => self.claim(user, device, request)?.into(),
            Action::RemoveKeys(request) => {
                self.keys.remove(&(user.clone(), request.device_id));
                RemoveKeysResult { devices: 1 }.into()
            }
            Action::Members(_) => {
                let member = |(user_id, seq): (&UserId, &Seq)| GroupMember {
                    user_id: user_id.clone(),
                    role: if *user_id == crate::user("alice") { Role::Owner } else { Role::Member },
                    joined_seq: *seq,
                    restricted_until: None,
                };
                MembersResult { members: self.members.iter().map(member).collect(), next_cursor: None }.into()
            }
            Action::Add(AddRequest { client_msg_id, members, keys, .. }) => {
                assert!(self.epoch == 0 || keys.is_some(), "an add leaves without its commit");
                if keys.as_ref().is_some_and(|keys| keys.epoch != self.epoch) {
                    return Err(self.stale());
                }
                let event = System::MembersAdded { members: members.clone() };
                let entry = self.system(user, client_msg_id, event, keys.map(|keys| *keys));
                self.let_in(&members, entry.seq);
                AddResult { entry: Some(entry), added: members, already: vec![], not_added: vec![] }.into()
            }
            Action::Remove(RemoveRequest { client_msg_id, user_id, keys, .. }) => {
                if keys.as_ref().is_some_and(|keys| keys.epoch != self.epoch) {
                    return Err(self.stale());
                }
                if keys.is_none() && self.epoch > 0 {
                    self.unnamed.insert(user_id.clone());
                }
                let event = System::MembersRemoved { members: vec![user_id.clone()] };
                let entry = self.system(user, client_msg_id, event, keys.map(|keys| *keys));
                self.members.remove(&user_id);
                wire::RemoveResult(entry).into()
            }
            Action::Leave(request) => {
                let entry = self.system(user, request.client_msg_id.unwrap(), System::MemberLeft {}, None);
                self.members.remove(user);
                self.unnamed.insert(user.clone());
                LeaveResult { entry: Some(entry) }.into()
            }
            Action::Ack(request) => {
                self.acknowledge(user, &request.up_to);
                AckResult {}.into()
            }
            Action::Drain(request) => {
                self.acknowledge(user, &request.ack);
                let pending = self.after(self.delivered.get(user).copied().unwrap_or_default());
                let more = pending.len() > PAGE_MAX;
                let messages = seen_by(user, &pending[..pending.len().min(PAGE_MAX)]);
                DrainResult { messages, more }.into()
            }
            Action::Read(request) => {
                let seq = request.seq;
                self.acknowledge(user, &[AckEntry { conversation_id: chat(), seq }]);
                ReadResult { unread: 0, mentions: None }.into()
            }
            Action::Inbox(_) => self.inbox(user).into(),
            Action::History(request) => self.history(user, &request)?.into(),
            Action::Ping(_) => {
                let pending = self.delivered.get(user).copied().unwrap_or_default() < self.last();
                PingResult { pending, server_time: self.now(), features: None }.into()
            }
            _ => panic!("no client asks for it: {action:?}"),
        })
    }

    fn upload(&mut self, request: UploadRequest) -> Result<UploadResult, Refusal> {
        let media_id = match request {
            UploadRequest::Again { media_id } => media_id,
            UploadRequest::New(new) => {
                assert_eq!((new.kind, new.mime), (Kind::Sealed, None), "a file leaves in the clear");
                assert!(self.epoch > 0, "a file is uploaded before the conversation is encrypted");
                let media_id = MediaId::parse(&format!("m_{}", self.objects.len())).unwrap();
                let object = Object { bytes: new.bytes, sha256: new.sha256, put: None, is_attached: false };
                self.objects.insert(media_id.clone(), object);
                media_id
            }
            UploadRequest::Copy { .. } => panic!("no device copies a file"),
        };
        let object = self.objects.get(&media_id).ok_or(Refusal::Gone)?;
        let url = object.put.is_none().then(|| media_id.to_string());
        Ok(UploadResult { media_id, url, headers: BTreeMap::new(), parts: vec![], expires_at: Timestamp::default() })
    }

    fn attach(&mut self, media_id: MediaId) -> Result<Attached, Refusal> {
        let object = self.objects.get_mut(&media_id).filter(|object| object.put.is_some() && !object.is_attached);
        let object = object.ok_or(Refusal::Gone)?;
        object.is_attached = true;
        Ok(Attached::Sealed(SealedMedia { media_id, bytes: Some(object.bytes) }))
    }

    /// The announcement of a file that no message has expires.
    fn expire(&mut self) {
        let ids: Vec<MediaId> = self.objects.keys().cloned().collect();
        for id in ids {
            let fresh = MediaId::parse(&format!("{id}_gone")).unwrap();
            if let Some(object) = self.objects.remove(&id) {
                self.objects.insert(if object.is_attached { id } else { fresh }, object);
            }
        }
    }

    fn acknowledge(&mut self, user: &UserId, marks: &[AckEntry]) {
        let last = self.last();
        for AckEntry { seq, .. } in marks {
            let mark = self.delivered.entry(user.clone()).or_default();
            *mark = (*mark).max((*seq).min(last));
        }
    }

    fn after(&self, seq: Seq) -> &[Message] {
        &self.log[usize::try_from(seq.value()).unwrap().min(self.log.len())..]
    }

    fn commit(&mut self, user: &UserId, request: CommitRequest) -> Result<CommitResult, Refusal> {
        let CommitRequest { client_msg_id, epoch, commit, welcome, group_info, tree, removes, .. } = request;
        if let Some(entry) = self.stored(user, &client_msg_id) {
            let epoch = self.log.iter().find(|known| known.seq == entry.seq).unwrap().epoch.unwrap();
            return Ok(CommitResult { entry, epoch });
        }
        if epoch != self.epoch {
            return Err(self.stale());
        }
        self.epoch += 1;
        self.unnamed.retain(|user| !removes.contains(user));
        let is_birth = commit.is_none();
        let tree_of_entry = welcome.as_ref().map(|_| tree.clone());
        let entry = self.append(
            user,
            Message {
                kind: Kind::Commit,
                client_msg_id: Some(client_msg_id),
                silent: true,
                epoch: Some(self.epoch),
                commit,
                welcome,
                tree: tree_of_entry,
                removes: (!removes.is_empty()).then(|| Box::new(removes)),
                ..text(String::new())
            },
        );
        if is_birth {
            self.birth_seq = entry.seq;
        }
        let (conversation_id, seq, birth_seq) = (chat(), entry.seq, self.birth_seq);
        self.newest =
            Some(GroupInfoResult { conversation_id, epoch: self.epoch, seq, birth_seq, group_info, tree: *tree });
        Ok(CommitResult { entry, epoch: self.epoch })
    }

    fn publish(&mut self, user: &UserId, device: &DeviceId, request: PublishKeysRequest) -> PublishKeysResult {
        let PublishKeysRequest { credential, key_packages, last_resort } = request;
        let key = (user.clone(), device.clone());
        let fresh = || KeysOf {
            credential: credential.clone(),
            packages: VecDeque::new(),
            last_resort: last_resort.clone(),
            seen: BTreeSet::new(),
        };
        if self.keys.get(&key).is_some_and(|keys| keys.credential != credential) {
            self.keys.remove(&key);
        }
        let keys = self.keys.entry(key).or_insert_with(fresh);
        keys.last_resort = last_resort;
        for package in key_packages {
            if keys.seen.insert(package.data.to_text()) {
                keys.packages.push_back(package);
            }
        }
        let left = keys.packages.len() as u64;
        PublishKeysResult { left, devices: self.keys.keys().filter(|(owner, _)| owner == user).count() as u64 }
    }

    fn list(&mut self, user: &UserId) -> ListKeysResult {
        let now = self.now();
        let own = self.keys.iter().filter(|((owner, _), _)| owner == user);
        let device = |((_, device_id), keys): (&(UserId, DeviceId), &KeysOf)| KeyDevice {
            device_id: device_id.clone(),
            credential: keys.credential.clone(),
            left: keys.packages.len() as u64,
            last_resort_expires_at: keys.last_resort.expires_at,
            added_at: now,
            seen_at: now,
        };
        ListKeysResult { devices: own.map(device).collect() }
    }

    fn claim(
        &mut self,
        user: &UserId,
        device: &DeviceId,
        ClaimKeysRequest { claim_id, users, .. }: ClaimKeysRequest,
    ) -> Result<ClaimKeysResult, Refusal> {
        let key = (user.clone(), device.clone(), claim_id);
        if let Some(known) = self.claims.get(&key) {
            return Ok(known.clone());
        }
        let has_keys = |wanted: &&UserId| *wanted == user || self.keys.keys().any(|(owner, _)| owner == *wanted);
        let without: Vec<UserId> = users.iter().filter(|wanted| !has_keys(wanted)).cloned().collect();
        if !without.is_empty() {
            return Err(Refusal::NoKeys { users: without });
        }
        let mut claimed = Vec::new();
        for wanted in users {
            let mut devices = Vec::new();
            for ((owner, device_id), keys) in &mut self.keys {
                if *owner == wanted && (owner, device_id) != (user, device) {
                    let package = keys.packages.pop_front();
                    let (last_resort, package) = (package.is_none(), package.unwrap_or(keys.last_resort.clone()));
                    let device_id = device_id.clone();
                    devices.push(ClaimedDevice { device_id, key_package: package.data, last_resort });
                }
            }
            claimed.push(ClaimedUser { user_id: wanted, devices });
        }
        let result = ClaimKeysResult { users: claimed, left: vec![] };
        self.claims.insert(key, result.clone());
        Ok(result)
    }

    fn inbox(&self, user: &UserId) -> InboxResult {
        let counts = |entry: &&Message| !entry.silent;
        let Some(last) = self.log.iter().rfind(counts) else {
            return InboxResult { conversations: vec![], next_cursor: None };
        };
        let peer = if *user == "alice" { "bob" } else { "alice" };
        let delivered = self.delivered.get(user).copied().unwrap_or_default();
        if is_group() {
            let Some(first_seq) = self.members.get(user) else {
                return InboxResult { conversations: self.left(user, last), next_cursor: None };
            };
            let row = json!({"conversation_id": chat(), "kind": "group", "title": "model", "role": "member",
                "member_count": self.members.len(), "first_seq": first_seq, "unread": 0, "mentions": 0, "encrypted": true,
                "epoch": self.epoch, "delivered_seq": delivered, "read_seq": 0, "last_seq": self.last(),
                "last_message": {"seq": last.seq, "sender_id": last.sender_id, "kind": last.kind, "preview": "",
                    "sent_at": last.sent_at}});
            return InboxResult { conversations: vec![serde_json::from_value(row).unwrap()], next_cursor: None };
        }
        let row = json!({"conversation_id": chat(), "kind": "direct", "peer_id": peer, "unread": 0, "encrypted": true,
            "epoch": self.epoch, "delivered_seq": delivered, "read_seq": 0, "last_seq": self.last(),
            "last_message": {"seq": last.seq, "sender_id": last.sender_id, "kind": last.kind, "preview": "",
                "sent_at": last.sent_at}});
        InboxResult { conversations: vec![serde_json::from_value(row).unwrap()], next_cursor: None }
    }

    /// The row of a group that the user has left. The server doesn't say how the group is encrypted.
    fn left(&self, user: &UserId, last: &Message) -> Vec<Conversation> {
        let is_removal = |entry: &&Message| matches!(&entry.system, Some(System::MembersRemoved { members }) if members.contains(user));
        let row = |removal: &Message| {
            json!({"conversation_id": chat(), "kind": "group", "title": "", "role": "none", "member_count": 0,
                "first_seq": 1, "unread": 0, "mentions": 0, "delivered_seq": removal.seq, "read_seq": 0,
                "last_seq": removal.seq, "last_message": {"seq": removal.seq, "sender_id": last.sender_id,
                    "kind": "system", "preview": "", "sent_at": removal.sent_at}})
        };
        self.log.iter().rfind(is_removal).map(|entry| serde_json::from_value(row(entry)).unwrap()).into_iter().collect()
    }

    fn history(&self, user: &UserId, request: &HistoryRequest) -> Result<HistoryResult, Refusal> {
        if self.log.is_empty() {
            return Err(Refusal::NotMember);
        }
        let limit = usize::try_from(request.limit).unwrap().min(PAGE_MAX);
        let found = match request.side {
            Side::After(seq) => self.after(seq),
            Side::Before(seq) => &self.log[..usize::try_from(seq.previous().value()).unwrap().min(self.log.len())],
            Side::Newest => &self.log[..],
        };
        let more = found.len() > limit;
        let page = match request.side {
            Side::After(_) => &found[..found.len().min(limit)],
            Side::Before(_) | Side::Newest => &found[found.len().saturating_sub(limit)..],
        };
        let delivered_seq = self.delivered.get(user).copied().unwrap_or_default();
        let members = vec![Member { user_id: user.clone(), delivered_seq, read_seq: Seq::ZERO }];
        let first_seq = self.members.get(user).copied();
        let page: Vec<Message> =
            page.iter().filter(|entry| first_seq.is_none_or(|first| entry.seq >= first)).cloned().collect();
        let messages = seen_by(user, &page);
        Ok(HistoryResult { messages, more, last_seq: self.last(), first_seq, members, pins: vec![] })
    }
}

/// The bytes of a change of the members.
fn keys_in(raw: &Value) -> Option<Rekeyed> {
    let field = |name: &str| raw.get(name).cloned();
    Some(Rekeyed {
        epoch: raw.get("epoch")?.as_u64()?,
        commit: serde_json::from_value(field("commit")?).unwrap(),
        welcome: field("welcome").map(|welcome| serde_json::from_value(welcome).unwrap()),
        group_info: serde_json::from_value(field("group_info")?).unwrap(),
        tree: serde_json::from_value(field("tree")?).unwrap(),
    })
}

fn text(body: String) -> Message {
    let (id, sent_at) = (MessageId::stored("x"), Timestamp::from_millis(0));
    Message::text(chat(), Seq::FIRST, id, user("nobody"), body, sent_at)
}

fn result(entry: &Message, duplicate: bool) -> SendResult {
    let Message { conversation_id, seq, message_id, sent_at, .. } = entry.clone();
    SendResult { conversation_id, seq, message_id, sent_at, duplicate, version: None, read_seq: None, message: None }
}

/// Only the sender's devices see the idempotency key.
fn seen_by(user: &UserId, entries: &[Message]) -> Vec<Message> {
    let seen = |entry: &Message| {
        let client_msg_id = entry.client_msg_id.clone().filter(|_| entry.sender_id == *user);
        Message { client_msg_id, ..entry.clone() }
    };
    entries.iter().map(seen).collect()
}

struct Device {
    user: UserId,
    id: DeviceId,
    keys: Keys,
    core: Core,
    store: MemStore,
    dialing: Option<LinkId>,
    link: Option<LinkId>,
    up: VecDeque<String>,
    down: VecDeque<String>,
    inputs: Vec<Input>,
    puts: VecDeque<(ClientMsgId, Put)>,
    wake_at: Option<Moment>,
    /// The `seq`s of events, over all runs.
    told: Vec<Seq>,
    unreadable: Vec<(Seq, Unreadable)>,
    is_caught_up: bool,
}

impl Device {
    fn new(name: &str, device: &str, keys: &Keys) -> Self {
        let (user, id) = (user(name), DeviceId::parse(device).unwrap());
        let store = MemStore::new(user.clone());
        let core = Self::start(&user, &id, keys, &store);
        Self {
            user,
            id,
            keys: keys.clone(),
            core,
            store,
            dialing: None,
            link: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            inputs: vec![],
            puts: VecDeque::new(),
            wake_at: Some(Moment::default()),
            told: vec![],
            unreadable: vec![],
            is_caught_up: false,
        }
    }

    fn start(user: &UserId, id: &DeviceId, keys: &Keys, store: &MemStore) -> Core {
        let mut saved = store.saved();
        let keyring = Some(keys.keyring(user, id.clone(), &mut saved).unwrap());
        let (me, timing, keeper) = (user.clone(), Timing::default(), Keeper::Store);
        Core::new(Setup { me, timing, keeper, saved, keyring }, 7)
    }

    fn crash(&mut self, now: Moment) {
        self.core = Self::start(&self.user, &self.id, &self.keys, &self.store);
        (self.dialing, self.link, self.wake_at) = (None, None, Some(now));
        self.up.clear();
        self.down.clear();
        self.inputs.clear();
        self.puts.clear();
    }

    fn cut(&mut self) {
        if let Some(link) = self.link.take() {
            self.up.clear();
            self.down.clear();
            self.inputs.push(Input::Ended { link, why: Why::Closed });
        }
    }

    /// Runs a turn. The device ends before the commit, or after it.
    fn turn(&mut self, now: Moment, crash: Option<bool>) {
        let wall = Timestamp::from_millis(STARTED_MS + i64::try_from(now.millis()).unwrap());
        let step = self.core.turn(std::mem::take(&mut self.inputs), now, wall);
        if crash == Some(false) {
            return self.crash(now);
        }
        self.store.apply(&step.writes);
        if crash == Some(true) {
            return self.crash(now);
        }
        self.wake_at = step.wake_at;
        for output in step.outputs {
            match output {
                Output::Dial { link, .. } => self.dialing = Some(link),
                Output::Send { link, text } if self.link == Some(link) => self.up.push_back(text),
                Output::Close { link } if self.link == Some(link) => {
                    self.link = None;
                    self.up.clear();
                    self.down.clear();
                }
                Output::Put { client_msg_id, put } => self.puts.push_back((client_msg_id, put)),
                Output::Load { load, what } => {
                    let found = Box::new(self.store.load(&what));
                    self.inputs.push(Input::Loaded { load, found });
                }
                Output::Tell(Event::Message { message, .. }) => self.told.push(message.seq),
                Output::Tell(Event::Unreadable { seq, why, .. }) => self.unreadable.push((seq, why)),
                Output::Tell(Event::State(state)) => self.is_caught_up = state == State::CaughtUp,
                _ => {}
            }
        }
    }

    fn open(&mut self) {
        if let Some(link) = self.dialing.take() {
            self.link = Some(link);
            self.inputs.push(Input::Opened { link, token_left: None });
        }
    }

    fn texts(&self) -> Vec<(Seq, String)> {
        let all = self.store.window(&chat(), Side::Newest, usize::MAX).messages;
        all.into_iter()
            .filter(|message| matches!(message.kind, Kind::Text | Kind::File))
            .map(|message| (message.seq, message.body))
            .collect()
    }
}

struct World {
    server: Server,
    devices: Vec<Device>,
    now: Moment,
    rng: fastrand::Rng,
    sent: u64,
    /// The texts that users wrote, by id. Edits replace them.
    written: BTreeMap<String, (UserId, String)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let (server, devices) = (Server::default(), vec![]);
        Self { server, devices, now: Moment::default(), rng, sent: 0, written: BTreeMap::new() }
    }

    fn write(&mut self, at: usize) {
        let device = &mut self.devices[at];
        self.sent += 1;
        let (id, body) = (format!("m{}", self.sent), format!("canary{}", self.sent));
        let peer = user(if device.user == "alice" { "bob" } else { "alice" });
        let target = if is_group() || (self.rng.bool() && self.server.birth_seq > Seq::ZERO && !device.told.is_empty())
        {
            Target::Conversation(chat())
        } else {
            Target::User(peer)
        };
        self.written.insert(id.clone(), (device.user.clone(), body.clone()));
        let media = (self.rng.u8(..3) == 0).then(|| Box::new(upload(&format!("canary-{id}"))));
        let outgoing = Outgoing::Message { target, draft: body.into(), media };
        self.keep(at, &id, outgoing);
    }

    /// The store of objects takes the next PUT of a device.
    fn put(&mut self, at: usize, is_lost: bool) {
        let device = &mut self.devices[at];
        let Some((client_msg_id, put)) = device.puts.pop_front() else { return };
        let sealed = put.sealed.expect("a file leaves in the clear");
        let bytes = sealed.read(&mut Cursor::new(file_at(&put.path)), put.offset, put.bytes).unwrap();
        assert!(!bytes.windows(6).any(|six| six == b"canary"), "an object has a text");
        let mut digest = FileDigest::new(bytes.len() as u64);
        digest.update(&bytes);
        let media_id = MediaId::parse(&put.url).unwrap();
        let end = match self.server.objects.get_mut(&media_id) {
            _ if is_lost => PutEnd::Lost,
            None => PutEnd::Status(403),
            Some(object) => {
                assert_eq!(object.bytes, bytes.len() as u64);
                assert_eq!(object.sha256.as_str(), wire::Bytes::from(digest.end().to_vec()).to_text());
                object.put = Some(bytes);
                PutEnd::Status(200)
            }
        };
        device.inputs.push(Input::Put { client_msg_id, news: PutNews::Ended(end) });
        device.turn(self.now, None);
    }

    /// Opens each file that a device has, as the app downloads it.
    fn check_files(&self, device: &Device) {
        for message in device.store.window(&chat(), Side::Newest, usize::MAX).messages {
            let Some(Attached::Clear(media)) = message.media.as_deref() else { continue };
            let object = self.server.objects[&media.media_id].put.as_ref().unwrap();
            let mut opener = opener_of(media).unwrap();
            let file = opener.push(object).unwrap();
            opener.end().unwrap();
            assert_eq!(file, file_at(media.name.as_ref().unwrap().as_str().as_ref()));
        }
    }

    /// Edits the newest own message that the device has.
    fn edit(&mut self, at: usize) {
        let device = &self.devices[at];
        let all = device.store.window(&chat(), Side::Newest, usize::MAX).messages;
        let own = all.into_iter().rfind(|message| message.kind == Kind::Text && message.sender_id == device.user);
        let Some(Message { seq, client_msg_id: Some(target), .. }) = own else { return };
        self.sent += 1;
        let (id, body) = (format!("e{}", self.sent), format!("canary{}", self.sent));
        let request = EditRequest {
            conversation_id: chat(),
            seq,
            client_msg_id: ClientMsgId::parse(&id).unwrap(),
            body: body.clone(),
            data: None,
        };
        self.written.insert(format!("{id}>{target}"), (device.user.clone(), body));
        self.keep(at, &id, Outgoing::Request(request.into()));
    }

    fn keep(&mut self, at: usize, id: &str, outgoing: Outgoing) {
        let made_at = Timestamp::from_millis(STARTED_MS);
        let queued = Queued { client_msg_id: ClientMsgId::parse(id).unwrap(), outgoing, made_at };
        let device = &mut self.devices[at];
        device.inputs.push(Input::Ask { ask: 1, what: Ask::Keep(queued) });
        // The app knows that it is kept: no crash before the commit.
        device.turn(self.now, None);
    }

    /// The server takes the next frame of a device.
    fn up(&mut self, at: usize, is_lost: bool, again: bool) {
        let device = &mut self.devices[at];
        let Some(frame) = device.up.pop_front() else { return };
        assert!(!frame.contains("canary"), "a frame has a text: {frame}");
        if is_lost {
            return;
        }
        if again {
            device.up.push_back(frame.clone());
        }
        let answer = self.server.answer(&device.user, &device.id, &frame);
        device.down.push_back(answer);
        for entry in std::mem::take(&mut self.server.news) {
            for (other, device) in self.devices.iter_mut().enumerate() {
                let is_for = !is_group()
                    || self.server.members.contains_key(&device.user)
                    || matches!(&entry.system, Some(System::MembersRemoved { members }) if members.contains(&device.user));
                if other != at && device.link.is_some() && is_for {
                    let seen = seen_by(&device.user, std::slice::from_ref(&entry)).remove(0);
                    device.down.push_back(ServerEvent::messages_new(seen).to_frame());
                }
            }
        }
    }

    fn down(&mut self, at: usize, is_lost: bool, crash: Option<bool>) {
        let device = &mut self.devices[at];
        if let (Some(text), Some(link)) = (device.down.pop_front(), device.link)
            && !is_lost
        {
            device.inputs.push(Input::Frame { link, text });
        }
        device.turn(self.now, crash);
    }

    fn step(&mut self) {
        let at = self.rng.usize(..self.devices.len());
        let crash = (self.rng.u8(..40) == 0).then(|| self.rng.bool());
        match self.rng.u8(..100) {
            0..40 => self.up(at, false, false),
            40..42 => self.up(at, true, false),
            42..44 => self.up(at, false, true),
            44..84 => self.down(at, false, crash),
            84..86 => self.down(at, true, crash),
            86..90 => self.write(at),
            90 => self.server.expire(),
            91..93 => self.edit(at),
            93..95 => self.devices[at].cut(),
            95..97 => self.devices[at].open(),
            97 => {
                let is_lost = self.rng.bool();
                self.put(at, is_lost);
            }
            _ => self.now += std::time::Duration::from_millis(self.rng.u64(..8_000)),
        }
    }

    /// No fault happens any more, until nothing is under way.
    fn settle(&mut self) {
        for _ in 0..3_000 {
            let mut is_quiet = true;
            for at in 0..self.devices.len() {
                self.devices[at].open();
                while !self.devices[at].inputs.is_empty()
                    || !self.devices[at].up.is_empty()
                    || !self.devices[at].down.is_empty()
                    || !self.devices[at].puts.is_empty()
                {
                    is_quiet = false;
                    self.put(at, false);
                    while !self.devices[at].up.is_empty() {
                        self.up(at, false, false);
                    }
                    self.down(at, false, None);
                }
                if self.devices[at].wake_at.is_some_and(|wake| wake <= self.now) {
                    self.devices[at].turn(self.now, None);
                }
            }
            let is_done =
                |device: &Device| device.is_caught_up && device.core.outbox().is_empty() && device.link.is_some();
            if is_quiet && self.devices.iter().all(is_done) {
                return;
            }
            let next = self.devices.iter().filter_map(|device| device.wake_at).min();
            self.now = next
                .unwrap_or(self.now)
                .max(self.now + std::time::Duration::from_millis(if is_quiet { 200 } else { 1 }));
        }
        panic!("the devices do not come to an end");
    }

    /// The texts of the log, by their ids, with the last edit of each.
    fn expected(&self) -> Vec<(Seq, String)> {
        let mut texts = Vec::new();
        for entry in self.server.log.iter().filter(|entry| entry.kind == Kind::Sealed) {
            let id = entry.client_msg_id.as_ref().unwrap();
            if let Some((_, body)) = self.written.get(id.as_str()) {
                texts.push((entry.seq, id.to_string(), body.clone()));
            } else {
                let edit = self.written.iter().find(|(key, _)| key.starts_with(&format!("{id}>"))).unwrap();
                let target = edit.0.split('>').nth(1).unwrap();
                texts.iter_mut().find(|(_, id, _)| id == target).unwrap().2.clone_from(&edit.1.1);
            }
        }
        texts.into_iter().map(|(seq, _, body)| (seq, body)).collect()
    }

    /// Checks what a device has of the messages above this `seq`.
    fn check(&self, device: &Device, from: Seq) {
        let above = |texts: Vec<(Seq, String)>| texts.into_iter().filter(|(seq, _)| *seq > from).collect::<Vec<_>>();
        assert_eq!(above(device.texts()), above(self.expected()), "{} {}", device.user, device.id);
        let mut told = device.told.clone();
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), device.told.len(), "an entry was told twice");
        let unreadable: Vec<_> = device.unreadable.iter().filter(|(seq, _)| *seq > from).collect();
        assert_eq!(unreadable, Vec::<&(Seq, Unreadable)>::new(), "{} {}", device.user, device.id);
        self.check_files(device);
    }
}

fn upload(path: &str) -> Upload {
    let file = file_at(path.as_ref());
    let sealed = SealedFile::of(&mut Cursor::new(&file), file.len() as u64).unwrap();
    Upload {
        source: Source::File(path.into()),
        kind: Kind::File,
        mime: MimeType::parse("application/canary").unwrap(),
        bytes: file.len() as u64,
        sha256: wire::Digest::parse(&format!("{}=", "A".repeat(43))).unwrap(),
        parts: vec![],
        about: About { name: FileName::parse(path).ok(), ..About::default() },
        media_id: None,
        sealed: Some(Box::new(sealed)),
    }
}

fn two() -> (Keys, Keys) {
    (Keys::generate().unwrap(), Keys::generate().unwrap())
}

#[test]
fn a_first_message_is_read_by_the_other_user_alone() {
    let mut world = World::new(1);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    world.write(0);
    world.settle();
    world.write(1);
    world.settle();
    assert_eq!(world.expected().len(), 2);
    for device in &world.devices {
        world.check(device, Seq::ZERO);
    }
    // The server's row has no text.
    world.devices[1].cut();
    world.settle();
    assert_eq!(world.devices[1].store.chats()[0].last_message.preview, "canary2");
}

#[test]
fn a_second_device_joins_by_itself_and_reads_what_comes_then() {
    let mut world = World::new(2);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    world.write(0);
    world.settle();
    world.devices.push(Device::new("alice", "laptop", &alice));
    world.settle();
    let joined = world.server.last();
    world.write(1);
    world.write(2);
    world.settle();
    assert_eq!(world.expected().len(), 3);
    for device in &world.devices[..2] {
        world.check(device, Seq::ZERO);
    }
    world.check(&world.devices[2], joined);
}

/// Alice and bob in a group, with a device each, and carol, who has keys.
fn group() -> World {
    GROUP.set(true);
    let mut world = World::new(8);
    let (alice, bob) = two();
    let carol = Keys::generate().unwrap();
    world.devices = vec![
        Device::new("alice", "phone", &alice),
        Device::new("bob", "phone", &bob),
        Device::new("carol", "phone", &carol),
    ];
    let members = vec![user("alice"), user("bob")];
    let title = wire::Title::parse("model").unwrap();
    let event = System::Created { title, members: members.clone(), look: Box::default() };
    world.server.system(&user("alice"), ClientMsgId::parse("g1").unwrap(), event, None);
    world.server.news.clear();
    world.server.let_in(&members, Seq::FIRST);
    world.server.delivered.clear();
    world.settle();
    world
}

#[test]
fn members_of_a_group_come_and_go_with_commits_and_read_what_is_theirs() {
    let mut world = group();
    world.write(0);
    world.settle();
    world.write(1);
    world.settle();
    assert_eq!(world.expected().len(), 2);
    world.check(&world.devices[0], Seq::ZERO);
    world.check(&world.devices[1], Seq::ZERO);
    // In one request with the commit.
    let add = AddRequest {
        conversation_id: chat(),
        client_msg_id: ClientMsgId::parse("add").unwrap(),
        members: vec![user("carol")],
        keys: None,
    };
    world.keep(0, "add", Outgoing::Request(add.into()));
    world.settle();
    let joined = world.server.last();
    assert!(world.server.log.last().unwrap().commit.is_some());
    world.write(2);
    world.settle();
    for at in [0, 1] {
        world.check(&world.devices[at], Seq::ZERO);
    }
    world.check(&world.devices[2], joined);
    // A user who leaves is out before the next message.
    let leave = LeaveRequest { conversation_id: chat(), client_msg_id: Some(ClientMsgId::parse("leave").unwrap()) };
    world.keep(1, "leave", Outgoing::Request(leave.into()));
    world.settle();
    world.write(0);
    world.settle();
    let commit = world.server.log.iter().rfind(|entry| entry.kind == Kind::Commit).unwrap();
    assert_eq!(commit.removes.as_deref(), Some(&vec![user("bob")]));
    assert_eq!(world.server.refused, 0);
    world.check(&world.devices[2], joined);
    let remove = RemoveRequest {
        conversation_id: chat(),
        client_msg_id: ClientMsgId::parse("remove").unwrap(),
        user_id: user("carol"),
        keys: None,
    };
    world.keep(0, "remove", Outgoing::Request(remove.into()));
    world.settle();
    assert!(world.server.log.last().unwrap().commit.is_some() && world.server.unnamed.is_empty());
}

#[test]
fn a_message_to_a_group_that_the_user_has_left_fails_and_leaves_in_no_form() {
    let mut world = group();
    world.write(0);
    world.settle();
    let (conversation_id, client_msg_id) = (chat(), ClientMsgId::parse("add").unwrap());
    let add = AddRequest { conversation_id, client_msg_id, members: vec![user("carol")], keys: None };
    world.keep(0, "add", Outgoing::Request(add.into()));
    world.settle();
    let (conversation_id, client_msg_id) = (chat(), ClientMsgId::parse("remove").unwrap());
    let remove = RemoveRequest { conversation_id, client_msg_id, user_id: user("carol"), keys: None };
    world.keep(0, "remove", Outgoing::Request(remove.into()));
    world.settle();
    // A new device of carol has only the row, without how the group is encrypted.
    let keys = world.devices[2].keys.clone();
    world.devices.push(Device::new("carol", "laptop", &keys));
    world.settle();
    world.write(3);
    world.settle();
    let refused = world.devices[3].store.saved().refused;
    assert_eq!(refused.iter().map(|(_, code)| &**code).collect::<Vec<_>>(), ["not_member"]);
    assert_eq!(world.server.refused, 0, "the server has seen it");
}

#[test]
fn a_user_who_wrote_after_a_removal_reads_everything_since_the_next_addition() {
    let mut world = group();
    world.write(0);
    world.settle();
    for id in ["add", "again"] {
        let (conversation_id, client_msg_id) = (chat(), ClientMsgId::parse(id).unwrap());
        let add = AddRequest { conversation_id, client_msg_id, members: vec![user("carol")], keys: None };
        world.keep(0, id, Outgoing::Request(add.into()));
        world.settle();
        if id == "add" {
            let (conversation_id, client_msg_id) = (chat(), ClientMsgId::parse("remove").unwrap());
            let remove = RemoveRequest { conversation_id, client_msg_id, user_id: user("carol"), keys: None };
            world.keep(0, "remove", Outgoing::Request(remove.into()));
            world.settle();
            world.write(2);
            world.settle();
        }
    }
    let joined = world.server.last();
    world.write(0);
    world.settle();
    let last = world.devices[2].texts().pop().unwrap();
    assert!(last.0 > joined, "carol's newest text is {last:?}");
    assert!(world.devices[2].unreadable.iter().all(|(seq, _)| *seq < joined), "{:?}", world.devices[2].unreadable);
}

#[test]
fn an_edit_is_sealed_and_holds() {
    let mut world = World::new(3);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    world.write(0);
    world.settle();
    world.edit(0);
    world.settle();
    assert_eq!(world.expected()[0].1, "canary2");
    for device in &world.devices {
        world.check(device, Seq::ZERO);
    }
}

/// The server can't see that the text is another user's, so each client checks it.
#[test]
fn an_edit_of_another_users_text_changes_nothing() {
    let mut world = World::new(6);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    world.write(0);
    world.settle();
    let seq = world.devices[1].texts()[0].0;
    for text in ["canary-of-alice", "canary-of-bob"] {
        let (at, id) = if text.ends_with("bob") { (1, "e2") } else { (0, "e1") };
        let client_msg_id = ClientMsgId::parse(id).unwrap();
        let request = EditRequest { conversation_id: chat(), seq, client_msg_id, body: text.to_owned(), data: None };
        world.keep(at, id, Outgoing::Request(request.into()));
        world.settle();
        let stored = world.server.log.last().unwrap();
        assert_eq!((stored.silent, stored.client_msg_id.as_ref().unwrap().as_str()), (true, id));
        for device in &world.devices {
            assert_eq!(device.texts(), [(seq, "canary-of-alice".to_owned())], "{}", device.user);
            assert_eq!(device.unreadable, []);
        }
    }
}

#[test]
fn own_kinds_and_data_are_sealed_and_an_edit_that_names_none_keeps_them() {
    let mut world = World::new(5);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    let object = |text: &str| json!({ "canary": text }).as_object().cloned().unwrap();
    let poll = Draft::own("x-poll", "canary?", object("one"));
    world.keep(0, "a1", Outgoing::message(Target::User(user("bob")), poll, None));
    world.settle();
    let seen = |device: &Device| {
        let all = device.store.window(&chat(), Side::Newest, usize::MAX).messages;
        let data = |message: Message| (message.kind.to_string(), message.body, json!(message.data), message.reply_to);
        all.into_iter().filter(|message| matches!(message.kind, Kind::Own(_))).map(data).collect::<Vec<_>>()
    };
    let seq = world.server.last();
    let vote = Draft::own("xs-vote", "", object("two")).reply_to(seq);
    world.keep(1, "b1", Outgoing::message(Target::Conversation(chat()), vote, None));
    world.settle();
    let entries = &world.server.log;
    assert!(entries.iter().all(|entry| entry.data.is_none()) && entries.last().unwrap().silent);
    let vote = ("xs-vote".to_owned(), String::new(), json!({"canary": "two"}), Some(seq));
    let mut poll = ("x-poll".to_owned(), "canary?".to_owned(), json!({"canary": "one"}), None);
    for (body, data, expected) in [
        ("canary!", None, json!({"canary": "one"})),
        ("canary.", Some(Some(object("three").into())), json!({"canary": "three"})),
        ("canary,", None, json!({"canary": "three"})),
        ("canary-", Some(None), json!(null)),
    ] {
        world.sent += 1;
        let client_msg_id = ClientMsgId::parse(&format!("e{}", world.sent)).unwrap();
        let request = EditRequest { conversation_id: chat(), seq, client_msg_id, body: body.to_owned(), data };
        let id = request.client_msg_id.to_string();
        world.keep(0, &id, Outgoing::Request(request.into()));
        world.settle();
        (poll.1, poll.2) = (body.to_owned(), expected);
        for device in &world.devices {
            assert_eq!(seen(device), [poll.clone(), vote.clone()], "{}", device.user);
        }
    }
}

#[test]
fn a_message_to_a_user_without_keys_fails_and_leaves_in_no_form() {
    let mut world = World::new(4);
    world.devices = vec![Device::new("alice", "phone", &two().0)];
    world.settle();
    world.write(0);
    world.settle();
    assert_eq!(world.server.log, vec![]);
    let refused = world.devices[0].store.saved().refused;
    assert_eq!(refused.iter().map(|(_, code)| &**code).collect::<Vec<_>>(), ["no_keys"]);
}

#[test]
fn a_file_that_an_earlier_version_kept_in_the_clear_fails_before_the_server_hears_of_it() {
    let mut world = World::new(4);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    let media = Some(Box::new(Upload { sealed: None, ..upload("canary.bin") }));
    let target = Target::User(user("bob"));
    world.keep(0, "f1", Outgoing::Message { target, draft: "".into(), media });
    world.settle();
    let refused = world.devices[0].store.saved().refused;
    assert_eq!(refused.iter().map(|(_, code)| &**code).collect::<Vec<_>>(), ["encryption_required"]);
}

#[test]
fn a_first_file_waits_for_the_birth_and_is_uploaded_again_once_it_has_expired() {
    let mut world = World::new(4);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    let media = Some(Box::new(upload("canary-f1")));
    let target = Target::User(user("bob"));
    world.written.insert("f1".to_owned(), (user("alice"), "canary".to_owned()));
    let outgoing = Outgoing::Message { target, draft: "canary".into(), media };
    world.keep(0, "f1", outgoing);
    // The send leaves, and its upload has expired: the bytes that name it are sealed again.
    while !world.devices[0].up.iter().any(|frame| frame.contains(r#""kind":"sealed","body""#)) {
        world.up(0, false, false);
        world.down(0, false, None);
        world.put(0, false);
    }
    world.server.expire();
    world.settle();
    assert_eq!(world.server.objects.len(), 2);
    let entry = world.server.log.iter().find(|entry| entry.kind == Kind::Sealed).unwrap();
    assert!(!entry.silent, "a file counts");
    for device in &world.devices {
        world.check(device, Seq::ZERO);
        assert_eq!(device.texts().len(), 1);
    }
}

#[test]
fn an_encrypted_group_is_not_created_where_the_server_has_none() {
    let mut world = World::new(4);
    world.devices = vec![Device::new("alice", "phone", &two().0)];
    world.settle();
    let group = NewGroup::new(wire::Title::parse("Trip").unwrap(), [user("bob")]);
    let request = group.request(ClientMsgId::parse("g1").unwrap(), true);
    assert!(request.encrypted);
    // The model has no features, and panics at a `create`.
    world.keep(0, "g1", Outgoing::Request(request.into()));
    world.settle();
    let refused = world.devices[0].store.saved().refused;
    assert_eq!(refused.iter().map(|(_, code)| &**code).collect::<Vec<_>>(), ["forbidden"]);
}

#[test]
fn a_page_of_history_leaves_the_opened_texts() {
    let mut world = World::new(5);
    let (alice, bob) = two();
    world.devices = vec![Device::new("alice", "phone", &alice), Device::new("bob", "phone", &bob)];
    world.settle();
    world.write(0);
    world.settle();
    // The page has a message that has not come otherwise.
    world.devices[1].cut();
    world.write(0);
    while !world.devices[0].up.is_empty() || !world.devices[0].down.is_empty() {
        world.up(0, false, false);
        world.down(0, false, None);
    }
    let request = HistoryRequest { conversation_id: chat(), side: Side::Newest, limit: 3 };
    world.devices[1].inputs.push(Input::Ask { ask: 5, what: Ask::Question(request.into()) });
    world.settle();
    assert_eq!(world.expected().len(), 2);
    world.check(&world.devices[1], Seq::ZERO);
}

#[test]
fn whatever_is_lost_or_ends_each_message_is_read_once_by_each_device() {
    let seeds = std::env::var("SEALED_SEED").map_or(0..40, |seed| {
        let seed: u64 = seed.parse().unwrap();
        seed..seed + 1
    });
    for seed in seeds {
        eprintln!("seed {seed}");
        let mut world = World::new(seed);
        let (alice, bob) = two();
        world.devices = vec![
            Device::new("alice", "phone", &alice),
            Device::new("alice", "laptop", &alice),
            Device::new("bob", "phone", &bob),
        ];
        world.settle();
        for _ in 0..400 {
            world.step();
        }
        // Lost events that another device has acknowledged are found at a connect.
        world.devices.iter_mut().for_each(Device::cut);
        world.settle();
        for device in &world.devices {
            world.check(device, Seq::ZERO);
        }
    }
}
