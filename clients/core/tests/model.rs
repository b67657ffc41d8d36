//! A property test against a small model of the server, with any interleaving, duplication and loss of frames,
//! requests over HTTP, connections, devices and restarts. In the end, every message has come once and in order, also of a subscribed
//! channel, and all are acknowledged. A client that stores its messages has all of them in its store, although power
//! failed and commits failed. Its views show the same as those that begin from the store, from the file, and from nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a panic is the test's report")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pigeonhole_core::chat::{
    Act, At, ChatRow, Content, Filter, Item, ListSnapshot, Run, Screen, Shown, ViewId, ViewOf,
};
use pigeonhole_core::{
    About, Ask, AskId, Core, Event, Input, Keeper, LinkId, MemStore, Moment, Outgoing, Output, Put, PutEnd, PutNews,
    Queued, Saved, Setup, Source, Step as Turn, Timing, Upload, Why, Window,
};
use pigeonhole_store::Store;
use proptest::prelude::*;
use wire::{
    AckEntry, AckResult, Action, ChannelsResult, ClientMsgId, Conversation, ConversationId, ConversationKind,
    ConversationSettings, DeleteRequest, DeleteResult, DeviceId, DeviceRequest, DeviceResult, Digest, DrainResult,
    EditRequest, EditResult, FileName, HistoryRequest, HistoryResult, InboxRequest, InboxResult, Kind, LastMessage,
    MediaId, Member, Message, MessageId, MimeType, PingResult, PresenceResult, ReactRequest, ReactResult, ReadRequest,
    ReadResult, Refusal, Reply, Request, SendRequest, SendResult, Seq, ServerEvent, Settings, SettingsResult, Side,
    Target, Timestamp, UploadRequest, UploadResult, UploadedRequest, UploadedResult, UserId, WatchResult, error_frame,
    reply_frame,
};

const PEERS: [&str; 3] = ["bob", "carol", "dave"];
/// The views of the conversations with the peers, of the chat list, and of the channel.
const VIEWS: ViewId = 5;
/// The last one is opened at the end, since the app itself watches the channel until then.
const OPENED: ViewId = 4;
/// Small pages, so that there are several.
const DRAIN_MAX: usize = 3;
const PAGE_MAX: usize = 2;
/// The id of a request whose answer does not matter. The others have the number of their step.
const NOT_AWAITED: AskId = 0;

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn conversation_with(peer: &str) -> ConversationId {
    ConversationId::parse(&format!("dm_{peer}")).unwrap()
}

fn channel() -> ConversationId {
    ConversationId::parse("ch_n").unwrap()
}

/// A conversation on the server, seen by alice.
#[derive(Default)]
struct Said {
    messages: Vec<Message>,
    delivered: Seq,
    read: Seq,
    /// As far as the user's other devices have it, or the user has read it in a view's page: no drain returns it.
    settled: Seq,
    archived: bool,
    marked_unread: bool,
}

impl Said {
    fn last(&self) -> Seq {
        self.messages.last().map_or(Seq::ZERO, |last| last.seq)
    }

    fn after(&self, seq: Seq) -> &[Message] {
        &self.messages[usize::try_from(seq.value()).unwrap().min(self.messages.len())..]
    }

    fn before(&self, seq: Seq) -> &[Message] {
        let end = usize::try_from(seq.previous().value()).unwrap();
        &self.messages[..end.min(self.messages.len())]
    }

    fn read_to(&mut self, seq: Seq) {
        self.read = self.read.max(seq.min(self.last()));
        self.marked_unread = false;
        self.delivered = self.delivered.max(self.read);
        self.settled = self.settled.max(self.read);
    }

    fn unread(&self) -> u64 {
        let counts = |message: &&Message| {
            message.kind.counts() && message.sender_id != "alice" && !(message.seq == Seq::FIRST && self.is_deleted())
        };
        self.after(self.read).iter().filter(counts).count() as u64
    }

    /// Returns whether the first message is deleted. No other one ever is.
    fn is_deleted(&self) -> bool {
        self.messages.iter().any(|message| message.kind == Kind::Delete)
    }

    /// Returns the entries as the server reads them, the first message in its current state.
    fn as_read(&self, entries: &[Message]) -> Vec<Message> {
        let mut entries = entries.to_vec();
        for message in entries.iter_mut().filter(|message| message.seq == Seq::FIRST) {
            for change in &self.messages {
                match change.kind {
                    Kind::Edit if message.deleted_at.is_none() => {
                        message.body.clone_from(&change.body);
                        (message.edited_at, message.version) = (Some(change.sent_at), change.version);
                    }
                    Kind::Delete if message.deleted_at.is_none() => {
                        message.body.clear();
                        (message.edited_at, message.version) = (None, None);
                        (message.deleted_at, message.deleted_by) =
                            (Some(change.sent_at), Some(change.sender_id.clone()));
                    }
                    _ => {}
                }
            }
        }
        entries
    }

    /// Returns the row's last message, and its text as it is now.
    fn line(&self) -> Option<(&Message, String)> {
        let last = self.messages.iter().rfind(|message| message.kind.is_listed())?;
        let edit = self.messages.iter().rfind(|message| message.kind == Kind::Edit).filter(|_| last.seq == Seq::FIRST);
        Some((last, edit.unwrap_or(last).body.clone()))
    }
}

#[derive(Default)]
struct Server {
    said: BTreeMap<ConversationId, Said>,
    /// The connections that watch the channel.
    watchers: BTreeSet<LinkId>,
    /// Announced uploads without a message, and whether their bytes are stored.
    uploads: BTreeMap<MediaId, bool>,
    announced: u64,
    clock_ms: i64,
    fails: Option<Failure>,
}

/// How the next request fails.
#[derive(Clone, Debug)]
enum Failure {
    Refused(Refusal),
    Gateway,
}

impl Server {
    fn append(
        &mut self,
        conversation: &ConversationId,
        sender: &str,
        client_msg_id: &str,
        kind: Kind,
        body: &str,
    ) -> Message {
        self.clock_ms += 1;
        let said = self.said.entry(conversation.clone()).or_default();
        let is_change = matches!(kind, Kind::Edit | Kind::Delete | Kind::Reaction);
        let version = (kind == Kind::Edit).then(|| said.last().next().value());
        let message = Message {
            kind,
            version,
            target_seq: is_change.then_some(Seq::FIRST),
            client_msg_id: ClientMsgId::parse(client_msg_id).ok(),
            ..Message::text(
                conversation.clone(),
                said.last().next(),
                MessageId::stored("x"),
                user(sender),
                body.to_owned(),
                Timestamp::from_millis(1_763_632_800_000 + self.clock_ms),
            )
        };
        let seq = message.seq;
        said.messages.push(message.clone());
        if sender == "alice" && said.delivered.next() == seq {
            said.delivered = seq;
            if !client_msg_id.starts_with('m') {
                said.settled = seq;
            }
        }
        message
    }

    fn acknowledge(&mut self, marks: &[AckEntry]) {
        for AckEntry { conversation_id, seq } in marks {
            let said = self.said.get_mut(conversation_id).unwrap();
            said.delivered = said.delivered.max((*seq).min(said.last()));
        }
    }

    /// All but the channel, which is never pending.
    fn pendable(&self) -> impl Iterator<Item = (&ConversationId, &Said)> {
        self.said.iter().filter(|(id, _)| **id != channel())
    }

    fn answer(&mut self, link: LinkId, frame: &str) -> String {
        let Request { id: request_id, action } = Request::parse(frame).unwrap();
        let name = action.name();
        match self.fails.take() {
            Some(Failure::Refused(refusal)) => return error_frame(Some(name), request_id.as_ref(), &refusal),
            Some(Failure::Gateway) => return r#"{"message":"Internal server error"}"#.to_owned(),
            None => {}
        }
        let reply: Reply = match action {
            Action::Send(request) => match self.send(request) {
                Ok(reply) => reply,
                Err(refusal) => return error_frame(Some(name), request_id.as_ref(), &refusal),
            },
            Action::Upload(_) | Action::Uploaded(_) => match self.uploaded(action) {
                Ok(reply) => reply,
                Err(refusal) => return error_frame(Some(name), request_id.as_ref(), &refusal),
            },
            Action::Edit(EditRequest { conversation_id, client_msg_id, body, .. }) => {
                EditResult(self.store(&conversation_id, &client_msg_id, Kind::Edit, &body)).into()
            }
            Action::Delete(DeleteRequest { conversation_id, client_msg_id, .. }) => {
                DeleteResult(self.store(&conversation_id, &client_msg_id, Kind::Delete, "")).into()
            }
            Action::React(ReactRequest { conversation_id, client_msg_id, .. }) => {
                ReactResult(self.store(&conversation_id, &client_msg_id, Kind::Reaction, "")).into()
            }
            Action::Watch(request) => {
                assert_eq!(request.conversation_id, channel());
                // Whether a subscription has room is different each time.
                let live = self.clock_ms % 3 != 0;
                if live {
                    self.watchers.insert(link);
                }
                WatchResult { live, last_seq: self.said[&channel()].last(), poll_ms: 10_000 }.into()
            }
            Action::Presence(_) => PresenceResult { users: vec![], watched: vec![] }.into(),
            Action::Channels(_) => ChannelsResult { conversations: vec![], next_cursor: None }.into(),
            Action::Typing(_) => panic!("the model does not type: {frame}"),
            Action::Ack(request) => {
                self.acknowledge(&request.up_to);
                AckResult {}.into()
            }
            Action::Drain(request) => {
                self.acknowledge(&request.ack);
                self.drain().into()
            }
            Action::Read(ReadRequest { conversation_id, seq }) => {
                let said = self.said.get_mut(&conversation_id).unwrap();
                said.read_to(seq);
                ReadResult { unread: said.unread(), mentions: None }.into()
            }
            Action::Inbox(request) => self.inbox(&request).into(),
            Action::History(request) => match self.history(&request) {
                Ok(reply) => reply,
                Err(refusal) => return error_frame(Some(name), request_id.as_ref(), &refusal),
            },
            Action::Settings(settings) => {
                self.set(&settings);
                SettingsResult {}.into()
            }
            Action::Device(request) => {
                let registered = matches!(request, DeviceRequest::On(_));
                DeviceResult { device_id: DeviceId::parse("model").unwrap(), registered }.into()
            }
            Action::Ping(_) => {
                let pending = self.pendable().any(|(_, said)| said.delivered < said.last());
                PingResult { pending, server_time: Timestamp::from_millis(self.clock_ms), features: None }.into()
            }
            _ => panic!("no client asks for it yet: {frame}"),
        };
        reply_frame(name, request_id.as_ref(), &reply)
    }

    fn send(&mut self, request: SendRequest) -> Result<Reply, Refusal> {
        let SendRequest { target, client_msg_id, kind, body, media, .. } = request;
        let id = match target {
            Target::User(peer) => conversation_with(peer.as_str()),
            Target::Conversation(id) => id,
        };
        // A repetition gets the first result.
        if let Some(media) = media.filter(|_| self.stored(&id, &client_msg_id).is_none())
            && self.uploads.remove(media.media_id()) != Some(true)
        {
            return Err(Refusal::Gone);
        }
        Ok(self.store(&id, &client_msg_id, kind, &body).into())
    }

    fn uploaded(&mut self, action: Action) -> Result<Reply, Refusal> {
        Ok(match action {
            Action::Upload(UploadRequest::Again { media_id }) => {
                let is_there = *self.uploads.get(&media_id).ok_or(Refusal::Gone)?;
                self.place(media_id, is_there).into()
            }
            Action::Uploaded(UploadedRequest { media_id }) => {
                let is_there = *self.uploads.get(&media_id).ok_or(Refusal::Gone)?;
                if is_there { UploadedResult { media_id }.into() } else { return Err(Refusal::NotReady) }
            }
            _ => {
                self.announced += 1;
                let media_id = MediaId::parse(&format!("m_{}", self.announced)).unwrap();
                self.uploads.insert(media_id.clone(), false);
                self.place(media_id, false).into()
            }
        })
    }

    fn stored(&self, conversation: &ConversationId, client_msg_id: &ClientMsgId) -> Option<Message> {
        let mut messages = self.said.get(conversation)?.messages.iter();
        messages.find(|message| message.client_msg_id.as_ref() == Some(client_msg_id)).cloned()
    }

    /// Where what is announced is to be put, if it is not there.
    fn place(&self, media_id: MediaId, is_there: bool) -> UploadResult {
        let url = (!is_there).then(|| media_id.to_string());
        let expires_at = Timestamp::from_millis(self.clock_ms);
        UploadResult { media_id, url, headers: BTreeMap::new(), parts: vec![], expires_at }
    }

    fn store(
        &mut self,
        conversation: &ConversationId,
        client_msg_id: &ClientMsgId,
        kind: Kind,
        body: &str,
    ) -> SendResult {
        let known = self.stored(conversation, client_msg_id);
        let duplicate = known.is_some();
        let message = known.unwrap_or_else(|| self.append(conversation, "alice", client_msg_id.as_str(), kind, body));
        let Message { conversation_id, seq, message_id, sent_at, version, .. } = message;
        SendResult { conversation_id, seq, message_id, sent_at, duplicate, version, read_seq: None, message: None }
    }

    fn set(&mut self, settings: &Settings) {
        if let Settings::Conversation { conversation_id, set } = settings {
            let said = self.said.get_mut(conversation_id).unwrap();
            said.archived = set.archived.unwrap_or(said.archived);
            said.marked_unread = set.unread.unwrap_or(said.marked_unread);
        }
    }

    fn drain(&self) -> DrainResult {
        let pending = self.pendable().flat_map(|(_, said)| said.as_read(said.after(said.delivered)));
        let mut messages: Vec<Message> = pending.collect();
        let more = messages.len() > DRAIN_MAX;
        messages.truncate(DRAIN_MAX);
        DrainResult { messages, more }
    }

    fn inbox(&self, InboxRequest { cursor, .. }: &InboxRequest) -> InboxResult {
        // `since` is a minute before the time it is made of, and this model's clock does not run for as long.
        let mut rows: Vec<(&ConversationId, &Said)> =
            self.pendable().filter(|(_, said)| said.last() > Seq::ZERO).collect();
        rows.sort_by_key(|(_, said)| std::cmp::Reverse(said.messages.last().unwrap().sent_at));
        let from: usize = cursor.as_ref().map_or(0, |cursor| cursor.parse().unwrap());
        let row = |(id, said): (&ConversationId, &Said)| {
            let (line, text) = said.line().unwrap();
            let Message { seq, sender_id, kind, sent_at, .. } = line.clone();
            let deleted = seq == Seq::FIRST && said.is_deleted();
            Conversation {
                conversation_id: id.clone(),
                kind: ConversationKind::Direct,
                peer_id: Some(user(id.as_str().strip_prefix("dm_").unwrap())),
                title: None,
                role: None,
                member_count: None,
                first_seq: None,
                history: None,
                post: None,
                add: None,
                last_message: LastMessage {
                    seq,
                    sender_id,
                    kind,
                    preview: if deleted { String::new() } else { text },
                    sent_at,
                    deleted,
                    system: None,
                },
                unread: said.unread(),
                mentions: None,
                delivered_seq: said.delivered,
                read_seq: said.read,
                last_seq: said.last(),
                muted_until: None,
                mute_mentions: false,
                archived: said.archived,
                marked_unread: said.marked_unread,
                pinned: false,
                restricted_until: None,
                info_seq: None,
                blocked: false,
                encrypted: false,
                epoch: None,
            }
        };
        let more = rows.len() > from + PAGE_MAX;
        let conversations = rows.into_iter().skip(from).take(PAGE_MAX).map(row).collect();
        InboxResult { conversations, next_cursor: more.then(|| (from + PAGE_MAX).to_string()) }
    }

    fn history(&self, HistoryRequest { conversation_id, side, .. }: &HistoryRequest) -> Result<Reply, Refusal> {
        let said = self.said.get(conversation_id).ok_or(Refusal::NotMember)?;
        let (found, is_older) = match side {
            Side::After(seq) => (said.after(*seq), false),
            Side::Before(seq) => (said.before(*seq), true),
            Side::Newest => (said.messages.as_slice(), true),
        };
        let skipped = if is_older { found.len().saturating_sub(PAGE_MAX) } else { 0 };
        let alice = Member { user_id: user("alice"), delivered_seq: said.delivered, read_seq: said.read };
        Ok(HistoryResult {
            first_seq: None,
            messages: said.as_read(&found[skipped..found.len().min(skipped + PAGE_MAX)]),
            more: found.len() > PAGE_MAX,
            last_seq: said.last(),
            members: vec![alice],
            pins: vec![],
        }
        .into())
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
    Up {
        pick: usize,
        again: bool,
    },
    Down {
        pick: usize,
        again: bool,
    },
    /// A request over HTTP ends in this way.
    Posted {
        pick: usize,
        how: u8,
    },
    LoseUp(usize),
    LoseDown(usize),
    Cut(usize),
    /// The user has too many connections, and the oldest is ended.
    Replaced,
    Open {
        token_left: Option<u64>,
    },
    FailToOpen(u8),
    PeerSays(usize),
    OtherDeviceSays(usize),
    OtherDeviceHolds(usize),
    Send {
        peer: usize,
        by_conversation: bool,
    },
    /// The user or another user posts in the channel.
    Post {
        own: bool,
    },
    /// The user sends a file.
    SendFile(usize),
    /// A PUT ends in this way.
    Put(u8),
    Handle,
    Read,
    Set(ConversationSettings),
    /// The app shows a view, in place of the one with this number.
    Show(ViewId),
    Hide(ViewId),
    Scroll(ViewId, Act),
    /// All that a view shows was on the screen.
    See(ViewId),
    Wait(u64),
    Wake,
    FailNext(Failure),
    /// The app requests a page of history.
    Look(usize),
    Restart,
    /// A restart from what the last lasting turn left on the disk.
    PowerFails,
    /// From now on, no commit succeeds.
    StoreFails,
    StoreWorks,
}

fn step() -> impl Strategy<Value = Step> {
    let peer = 0..PEERS.len();
    prop_oneof![
        12 => (0..9_usize, prop::bool::weighted(0.15)).prop_map(|(pick, again)| Step::Up { pick, again }),
        12 => (0..9_usize, prop::bool::weighted(0.15)).prop_map(|(pick, again)| Step::Down { pick, again }),
        8 => (0..9_usize, 0..9_u8).prop_map(|(pick, how)| Step::Posted { pick, how }),
        1 => (0..9_usize).prop_map(Step::LoseUp),
        2 => (0..9_usize).prop_map(Step::LoseDown),
        1 => (0..2_usize).prop_map(Step::Cut),
        1 => Just(Step::Replaced),
        4 => prop::option::of(0..100_000_u64).prop_map(|token_left| Step::Open { token_left }),
        1 => (0..4_u8).prop_map(Step::FailToOpen),
        5 => peer.clone().prop_map(Step::PeerSays),
        1 => peer.clone().prop_map(Step::OtherDeviceSays),
        1 => peer.clone().prop_map(Step::OtherDeviceHolds),
        4 => (peer, any::<bool>()).prop_map(|(peer, by_conversation)| Step::Send { peer, by_conversation }),
        4 => prop::bool::weighted(0.3).prop_map(|own| Step::Post { own }),
        2 => (0..PEERS.len()).prop_map(Step::SendFile),
        4 => (0..6_u8).prop_map(Step::Put),
        8 => Just(Step::Handle),
        1 => Just(Step::Read),
        1 => (any::<bool>(), any::<Option<bool>>()).prop_map(|(archived, unread)| {
            Step::Set(ConversationSettings { archived: Some(archived), unread, ..ConversationSettings::default() })
        }),
        2 => (0..OPENED).prop_map(Step::Show),
        1 => (0..OPENED).prop_map(Step::Hide),
        2 => (0..OPENED, prop::bool::ANY).prop_map(|(view, older)| {
            Step::Scroll(view, if older { Act::Older } else { Act::Newer })
        }),
        1 => (0..OPENED).prop_map(Step::See),
        4 => (1..8_000_u64).prop_map(Step::Wait),
        1 => Just(Step::Wake),
        1 => failure().prop_map(Step::FailNext),
        1 => (0..PEERS.len()).prop_map(Step::Look),
        1 => Just(Step::Restart),
        1 => Just(Step::PowerFails),
        1 => Just(Step::StoreFails),
        3 => Just(Step::StoreWorks),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        Just(Failure::Refused(Refusal::Unavailable)),
        Just(Failure::Refused(Refusal::Conflict)),
        Just(Failure::Refused(Refusal::RateLimited { retry_after_ms: 5500 })),
        Just(Failure::Refused(Refusal::TokenExpired)),
        Just(Failure::Gateway),
    ]
}

/// The store as a file, which is removed at the end.
struct OnDisk {
    folder: PathBuf,
    /// `None` only while it is opened again.
    store: Option<Store>,
}

impl OnDisk {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("pigeonhole-model-{:x}", fastrand::u64(..)));
        std::fs::create_dir(&folder).unwrap();
        let mut file = Self { folder, store: None };
        file.open();
        file
    }

    fn open(&mut self) {
        self.store = None;
        self.store = Some(Store::open(self.folder.join("alice"), &user("alice")).unwrap());
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct World {
    server: Server,
    core: Core,
    keeper: Keeper,
    /// Inputs of the next turn.
    inputs: Vec<Input>,
    wake_at: Option<Moment>,
    store: MemStore,
    /// The store as it is after a power failure.
    durable: MemStore,
    file: Option<OnDisk>,
    store_fails: bool,
    /// The turn whose commit failed, and the connections that are closed since.
    stuck: Option<(Turn, Vec<LinkId>)>,
    now: Moment,
    dialing: Option<LinkId>,
    wires: BTreeMap<LinkId, Wire>,
    has_http: bool,
    /// Requests over HTTP that have no response.
    posts: Vec<(LinkId, u64, String)>,
    /// Events that the app has not requested yet.
    events: VecDeque<Event>,
    got: BTreeMap<ConversationId, Vec<Seq>>,
    /// Requests that the app has made, and whose turn is not committed. Without a target: a message with a file.
    keeping: Vec<(Option<Target>, ClientMsgId)>,
    sent: BTreeMap<Target, Vec<ClientMsgId>>,
    /// Messages with files, which come in any order.
    files: BTreeSet<ClientMsgId>,
    puts: VecDeque<(ClientMsgId, Put)>,
    reads: BTreeMap<ConversationId, Seq>,
    /// Settings whose result the app awaits.
    settings: BTreeSet<AskId>,
    /// The open views, and what each one shows.
    open: BTreeSet<ViewId>,
    shown: BTreeMap<ViewId, Shown>,
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

fn core(keeper: Keeper, saved: Saved, seed: u64) -> Core {
    Core::new(Setup { me: user("alice"), timing: timing(), keeper, saved, keyring: None }, seed)
}

impl World {
    fn new(keeper: Keeper, has_http: bool, file: Option<OnDisk>, before: &[(u64, u64)]) -> Self {
        let mut server = Server::default();
        for (peer, (said, held)) in PEERS.iter().zip(before) {
            for number in 0..*said {
                server.append(&conversation_with(peer), peer, &format!("before-{number}"), Kind::Text, "old");
            }
            if let Some(known) = server.said.get_mut(&conversation_with(peer)) {
                known.delivered = Seq::new(*held.min(said)).unwrap();
                known.settled = known.delivered;
            }
        }
        server.said.insert(channel(), Said::default());
        let store = MemStore::new(user("alice"));
        let mut world = Self {
            server,
            core: core(keeper, Saved::default(), 1),
            keeper,
            inputs: has_http.then_some(Input::Http).into_iter().collect(),
            wake_at: None,
            durable: store.clone(),
            store,
            file,
            store_fails: false,
            stuck: None,
            now: Moment::default(),
            dialing: None,
            wires: BTreeMap::new(),
            has_http,
            posts: Vec::new(),
            events: VecDeque::new(),
            got: BTreeMap::new(),
            keeping: Vec::new(),
            sent: BTreeMap::new(),
            files: BTreeSet::new(),
            puts: VecDeque::new(),
            reads: BTreeMap::new(),
            settings: BTreeSet::new(),
            open: BTreeSet::new(),
            shown: BTreeMap::new(),
            count: 0,
        };
        world.watch();
        world.turn();
        world
    }

    /// The client takes the inputs. While a commit fails, it takes none.
    fn turn(&mut self) {
        if self.stuck.is_some() {
            return;
        }
        let turn = self.core.turn(std::mem::take(&mut self.inputs), self.now, Timestamp::default());
        self.wake_at = turn.wake_at;
        self.commit(turn);
    }

    fn commit(&mut self, turn: Turn) {
        if !turn.writes.is_empty() || turn.lasting {
            if self.store_fails {
                // The client closes its connections, since it can't read from them.
                let cut = std::mem::take(&mut self.wires).into_keys().chain(self.dialing.take()).collect();
                self.stuck = Some((turn, cut));
                return;
            }
            self.store.apply(&turn.writes);
            if let Some(file) = &mut self.file {
                file.store().apply(&turn.writes, turn.lasting).unwrap();
            }
            if turn.lasting {
                self.durable = self.store.clone();
            }
        }
        for (target, client_msg_id) in self.keeping.drain(..) {
            match target {
                Some(target) => self.sent.entry(target).or_default().push(client_msg_id),
                None => drop(self.files.insert(client_msg_id)),
            }
        }
        for output in turn.outputs {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Dial { link, .. } => {
                assert!(self.dialing.is_none(), "one at a time");
                self.dialing = Some(link);
            }
            Output::Send { link, text } => {
                self.check_marks(&text);
                // A connection that was closed after a failed commit takes no frame.
                if let Some(wire) = self.wires.get_mut(&link) {
                    wire.up.push(text);
                }
            }
            Output::Post { link, request, text, .. } => {
                self.check_marks(&text);
                self.posts.push((link, request, text));
            }
            Output::Close { link } => {
                self.wires.remove(&link);
                self.dialing = self.dialing.filter(|dialing| *dialing != link);
            }
            Output::Tell(Event::Message { message, .. }) if self.keeper == Keeper::Store => self.got(&message),
            Output::Tell(event) => self.events.push_back(event),
            Output::Load { load, what } => {
                let found = self.store.load(&what);
                if let Some(file) = &mut self.file {
                    assert_eq!(file.store().load(&what).unwrap(), found);
                }
                self.inputs.push(Input::Loaded { load, found: Box::new(found) });
            }
            Output::Show { view, shown } => {
                // A turn whose commit failed can show a view that the app has closed since.
                if self.open.contains(&view) {
                    self.shown.insert(view, shown);
                }
            }
            Output::Answer { ask, result } => {
                assert!(!self.settings.remove(&ask) || result.is_ok(), "{result:?}");
            }
            Output::Cancelled { .. } => panic!("nobody cancels here"),
            Output::Carry { .. } => panic!("no group is so large here"),
            Output::Put { client_msg_id, put } => self.puts.push_back((client_msg_id, put)),
            Output::Abort { client_msg_id } => self.puts.retain(|(id, _)| *id != client_msg_id),
        }
    }

    /// The server may forget entries after this request, so they are kept. A store survives a power failure.
    fn check_marks(&self, frame: &str) {
        let marks = match Request::parse(frame).unwrap().action {
            Action::Ack(request) => request.up_to,
            Action::Drain(request) => request.ack,
            Action::Read(ReadRequest { conversation_id, seq }) if self.keeper == Keeper::Store => {
                vec![AckEntry { conversation_id, seq }]
            }
            _ => return,
        };
        let kept = if self.keeper == Keeper::Store { self.durable.saved() } else { self.store.saved() };
        // Nothing of a channel is ever pending.
        for AckEntry { conversation_id, seq } in marks.into_iter().filter(|mark| mark.conversation_id != channel()) {
            // A view can have read the entry from a page, before this device has begun the conversation.
            let spans = self.durable.window(&conversation_id, Side::Newest, 0).spans;
            let is_kept = kept.held.get(&conversation_id).is_some_and(|held| *held >= seq)
                || spans.iter().any(|span| (span.from..=span.to).contains(&seq));
            assert!(is_kept, "{conversation_id} {seq} of {:?}, {spans:?}", kept.held);
        }
    }

    fn repair_store(&mut self) {
        self.store_fails = false;
        let Some((turn, cut)) = self.stuck.take() else { return };
        self.commit(turn);
        let lost = |link| Input::Ended { link, why: Why::Lost("the store failed".to_owned()) };
        self.inputs.splice(0..0, cut.into_iter().map(lost));
    }

    fn restart(&mut self, power_fails: bool) {
        // A file that is written normally has all of it after a power failure of this model.
        if power_fails && self.keeper == Keeper::Store && self.file.is_none() {
            self.store = self.durable.clone();
        }
        self.store_fails = false;
        self.stuck = None;
        self.inputs.clear();
        self.keeping.clear();
        self.wires.clear();
        self.posts.clear();
        self.dialing = None;
        self.events.clear();
        self.reads.clear();
        self.settings.clear();
        self.open.clear();
        self.shown.clear();
        self.puts.clear();
        if self.count.is_multiple_of(3) {
            // A day later: what was not sent has ended.
            self.server.uploads.clear();
        }
        let mut saved = self.store.saved();
        if let Some(file) = &mut self.file {
            file.open();
            assert_eq!(file.store().saved().unwrap(), saved);
            saved = file.store().saved().unwrap();
        }
        for (id, got) in &mut self.got {
            match (*id == channel(), self.keeper) {
                (true, Keeper::App) => {}
                (true, Keeper::Store) => {
                    let spans = self.store.window(id, Side::Newest, 0).spans;
                    got.retain(|seq| spans.iter().any(|span| (span.from..=span.to).contains(seq)));
                }
                (false, _) => got.retain(|seq| saved.held.get(id).is_some_and(|held| seq <= held)),
            }
        }
        self.got.retain(|_, got| !got.is_empty());
        self.core = core(self.keeper, saved, self.count);
        self.inputs.extend(self.has_http.then_some(Input::Http));
        self.watch();
    }

    fn ask(&mut self, ask: AskId, what: Ask) {
        self.inputs.push(Input::Ask { ask, what });
    }

    /// The app makes a request for the outbox. A client that can't write refuses it.
    fn keep(&mut self, target: Target, client_msg_id: ClientMsgId, outgoing: Outgoing) {
        if self.stuck.is_none() {
            let is_file = outgoing.upload().is_some();
            self.keeping.push(((!is_file).then_some(target), client_msg_id.clone()));
            self.ask(NOT_AWAITED, Ask::Keep(Queued { client_msg_id, outgoing, made_at: Timestamp::default() }));
        }
    }

    /// The app shows the channel from where it has it.
    fn watch(&mut self) {
        let last = self.got.get(&channel()).and_then(|got| got.last().copied());
        let after = Some(last.unwrap_or_default());
        self.ask(NOT_AWAITED, Ask::Watch { conversation_id: channel(), after });
    }

    fn send_file(&mut self, peer: &str) {
        let client_msg_id = ClientMsgId::parse(&format!("m{}", self.count)).unwrap();
        let upload = Upload {
            source: Source::File("/a.pdf".into()),
            kind: Kind::File,
            mime: MimeType::parse("application/pdf").unwrap(),
            bytes: 9,
            sha256: Digest::parse("n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=").unwrap(),
            parts: vec![],
            about: About { name: FileName::parse("a.pdf").ok(), ..About::default() },
            media_id: None,
            sealed: None,
        };
        let target = Target::User(user(peer));
        let outgoing = Outgoing::Message { target: target.clone(), draft: "".into(), media: Some(Box::new(upload)) };
        self.keep(target, client_msg_id, outgoing);
    }

    /// Runs a PUT that succeeds, succeeds without a response, or fails.
    fn put(&mut self, how: u8) {
        let Some((client_msg_id, put)) = self.puts.pop_front() else { return };
        let upload = self.server.uploads.get_mut(&MediaId::parse(&put.url).unwrap());
        let end = match (how, upload) {
            (0..=3, Some(is_there)) => PutEnd::Status(if std::mem::replace(is_there, true) { 412 } else { 200 }),
            (4, Some(is_there)) => {
                *is_there = true;
                PutEnd::Lost
            }
            (5, _) => PutEnd::Status(503),
            _ => PutEnd::Status(403),
        };
        self.inputs.push(Input::Put { client_msg_id, news: PutNews::Ended(end) });
    }

    fn post(&mut self, own: bool) {
        let id = format!("c{}", self.count);
        if own {
            let client_msg_id = ClientMsgId::parse(&id).unwrap();
            let target = Target::Conversation(channel());
            let (to, body) = (target.clone(), "hi".to_owned());
            let outgoing = Outgoing::Message { target: to, draft: body.into(), media: None };
            return self.keep(target, client_msg_id, outgoing);
        }
        let message = self.server.append(&channel(), "bob", &id, Kind::Text, "news");
        self.push(&message);
    }

    /// To each connection, alone or with the message before it.
    fn push(&mut self, message: &Message) {
        let said = &self.server.said[&message.conversation_id];
        let from =
            if self.count.is_multiple_of(2) { message.seq.previous() } else { message.seq.previous().previous() };
        let event = ServerEvent::MessagesNew {
            conversation_id: message.conversation_id.clone(),
            messages: said.after(from).to_vec(),
            marks: vec![],
        };
        let is_told = |link: &LinkId| message.conversation_id != channel() || self.server.watchers.contains(link);
        for (_, wire) in self.wires.iter_mut().filter(|(link, _)| is_told(link)) {
            wire.down.push(event.to_frame());
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
        let answer = self.server.answer(link, &frame);
        if let Some(wire) = self.wires.get_mut(&link) {
            wire.down.push(answer);
        }
    }

    fn posted(&mut self, pick: usize, how: u8) {
        let Some(pick) = pick.checked_rem(self.posts.len()) else { return };
        // A request may reach the server twice, and its second response counts.
        let (link, request, text) = if how == 0 { self.posts[pick].clone() } else { self.posts.remove(pick) };
        let (status, body) = match how {
            1 => (None, String::new()),
            2 => (Some(429), r#"{"message":"Too Many Requests"}"#.to_owned()),
            _ => (Some(200), self.server.answer(link, &text)),
        };
        match how {
            0 => {}
            // The response is lost.
            3 => self.inputs.push(Input::Posted { link, request, status: None, body: String::new() }),
            _ => self.inputs.push(Input::Posted { link, request, status, body }),
        }
    }

    fn down(&mut self, pick: usize, again: bool) {
        let Some((link, frame)) = self.on_the_way(false, pick, again) else { return };
        self.inputs.push(Input::Frame { link, text: frame });
    }

    fn open(&mut self, token_left: Option<u64>) {
        if let Some(link) = self.dialing.take() {
            self.wires.insert(link, Wire::default());
            self.inputs.push(Input::Opened { link, token_left: token_left.map(Duration::from_millis) });
        }
    }

    fn cut(&mut self, pick: usize) {
        let Some(link) = self.wires.keys().nth(pick).copied() else { return };
        self.wires.remove(&link);
        self.inputs.push(Input::Ended { link, why: Why::Closed });
    }

    fn end_oldest(&mut self) {
        let Some((link, _)) = self.wires.pop_first() else { return };
        self.inputs.push(Input::Frame { link, text: ServerEvent::ConnectionReplaced {}.to_frame() });
        self.inputs.push(Input::Ended { link, why: Why::Closed });
    }

    fn set(&mut self, set: ConversationSettings) {
        let Some(conversation_id) = self.got.keys().next().cloned() else { return };
        self.settings.insert(self.count);
        self.ask(self.count, Ask::Question(Settings::Conversation { conversation_id, set }.into()));
    }

    fn handle(&mut self) {
        let Some(event) = self.events.pop_front() else { return };
        let Event::Message { message, .. } = event else { return };
        self.got(&message);
        let Message { conversation_id, seq, .. } = message;
        self.inputs.push(Input::Handled { conversation_id, seq });
    }

    fn got(&mut self, Message { conversation_id, seq, .. }: &Message) {
        let got = self.got.entry(conversation_id.clone()).or_default();
        match got.last() {
            Some(last) => assert_eq!(*seq, last.next(), "{conversation_id} in order and once, after {got:?}"),
            None => assert!(
                seq.previous() <= self.server.said[conversation_id].settled,
                "{conversation_id} begins at {seq}"
            ),
        }
        got.push(*seq);
    }

    fn send(&mut self, peer: &str, by_conversation: bool) {
        let conversation = conversation_with(peer);
        let first = self.server.said.get(&conversation).and_then(|said| said.messages.first());
        let is_own = first.is_some_and(|message| message.sender_id == "alice");
        let target = if by_conversation && first.is_some() {
            Target::Conversation(conversation)
        } else {
            Target::User(user(peer))
        };
        let client_msg_id = ClientMsgId::parse(&format!("m{}", self.count)).unwrap();
        let (seq, body) = (Seq::ZERO.next(), "hi".to_owned());
        let key = client_msg_id.clone();
        let outgoing = match (target.clone(), self.count % 4) {
            (Target::Conversation(conversation_id), 0) if is_own => {
                Outgoing::Request(EditRequest { conversation_id, seq, client_msg_id: key, body, data: None }.into())
            }
            (Target::Conversation(conversation_id), 1) if is_own => {
                Outgoing::Request(DeleteRequest { conversation_id, seq, client_msg_id: key }.into())
            }
            (Target::Conversation(conversation_id), 2) => {
                Outgoing::Request(ReactRequest { conversation_id, seq, client_msg_id: key, emoji: None }.into())
            }
            (target, _) => Outgoing::Message { target, draft: body.into(), media: None },
        };
        self.keep(target, client_msg_id, outgoing);
    }

    fn fail_to_open(&mut self, how: u8) {
        let Some(link) = self.dialing.take() else { return };
        let why = match how {
            0 => Why::TokenRefused { status: 401 },
            1 => Why::NoToken("none".into()),
            2 => Why::Refused { status: 500 },
            _ => Why::Unreachable("no".into()),
        };
        self.inputs.push(Input::Ended { link, why });
    }

    /// With `alone`, the step has a turn of its own. Otherwise its inputs join those of the next step.
    fn take(&mut self, step: &Step, alone: bool) {
        self.count += 1;
        match step.clone() {
            Step::Up { pick, again } => self.up(pick, again),
            Step::Down { pick, again } => self.down(pick, again),
            Step::Posted { pick, how } => self.posted(pick, how),
            Step::LoseUp(pick) => {
                self.on_the_way(true, pick, false);
            }
            Step::LoseDown(pick) => {
                self.on_the_way(false, pick, false);
            }
            Step::Cut(pick) => self.cut(pick),
            Step::Replaced => self.end_oldest(),
            Step::Open { token_left } => self.open(token_left),
            Step::FailToOpen(how) => self.fail_to_open(how),
            Step::PeerSays(peer) => {
                let id = format!("p{}", self.count);
                let is_first = !self.server.said.contains_key(&conversation_with(PEERS[peer]));
                let kind = if self.count.is_multiple_of(3) && !is_first { Kind::Reaction } else { Kind::Text };
                let message = self.server.append(&conversation_with(PEERS[peer]), PEERS[peer], &id, kind, "hello");
                self.push(&message);
            }
            Step::OtherDeviceSays(peer) => {
                let id = format!("o{}", self.count);
                let message =
                    self.server.append(&conversation_with(PEERS[peer]), "alice", &id, Kind::Text, "from my tablet");
                self.push(&message);
            }
            Step::OtherDeviceHolds(peer) => {
                if let Some(said) = self.server.said.get_mut(&conversation_with(PEERS[peer])) {
                    said.delivered = said.last();
                    said.settled = said.last();
                }
            }
            Step::Send { peer, by_conversation } => self.send(PEERS[peer], by_conversation),
            Step::Post { own } => self.post(own),
            Step::SendFile(peer) => self.send_file(PEERS[peer]),
            Step::Put(how) => self.put(how),
            Step::Handle => self.handle(),
            Step::Read => {
                if let Some((id, Some(seq))) = self.got.iter().next().map(|(id, got)| (id.clone(), got.last().copied()))
                {
                    self.ask(NOT_AWAITED, Ask::Read { conversation_id: id.clone(), seq });
                    self.reads.insert(id, seq);
                }
            }
            Step::Set(set) => self.set(set),
            Step::Show(_) | Step::Hide(_) | Step::Scroll(..) | Step::See(_) if self.keeper == Keeper::App => {}
            Step::Show(view) => self.show(view),
            Step::Hide(view) => {
                self.open.remove(&view);
                self.shown.remove(&view);
                self.inputs.push(Input::Close(view));
            }
            Step::Scroll(view, act) => self.inputs.push(Input::Act { view, act }),
            Step::See(view) => self.see(view),
            Step::Wait(ms) => self.now += Duration::from_millis(ms),
            Step::Wake => self.inputs.push(Input::Wake),
            Step::FailNext(how) => self.server.fails = Some(how),
            Step::Look(peer) => self.look(PEERS[peer]),
            Step::Restart | Step::PowerFails => {
                self.turn();
                self.restart(matches!(step, Step::PowerFails));
            }
            Step::StoreFails => self.store_fails = true,
            Step::StoreWorks => self.repair_store(),
        }
        if alone {
            self.turn();
        }
    }

    fn show(&mut self, view: ViewId) {
        self.open.insert(view);
        self.shown.remove(&view);
        let at = if self.count.is_multiple_of(2) { At::FirstUnread } else { At::Newest };
        self.inputs.push(Input::Open { view, of: view_of(view, at) });
    }

    fn see(&mut self, view: ViewId) {
        let Some(Shown::Messages(screen)) = self.shown.get(&view) else { return };
        if let Some(item) = screen.messages.items.last() {
            self.inputs.push(Input::Act { view, act: Act::Seen(item.key.clone()) });
        }
    }

    fn look(&mut self, peer: &str) {
        let conversation_id = conversation_with(peer);
        if self.server.said.contains_key(&conversation_id) {
            let request = HistoryRequest { conversation_id, side: Side::Newest, limit: 2 };
            self.ask(NOT_AWAITED, Ask::Question(request.into()));
        }
    }

    /// Everything works from now on. Returns once nothing is left to be done.
    fn heal(&mut self) {
        self.server.fails = None;
        self.repair_store();
        self.turn();
        // Only a new connection finds an entry that was posted, lost, and acknowledged by another device.
        while !self.wires.is_empty() {
            self.cut(0);
            self.turn();
        }
        // The user has the app before them.
        self.inputs.push(Input::Wake);
        self.turn();
        for _ in 0..2000 {
            self.open(None);
            self.turn();
            while self.wires.values().any(|wire| !wire.up.is_empty() || !wire.down.is_empty())
                || !self.posts.is_empty()
                || !self.events.is_empty()
                || !self.puts.is_empty()
                || !self.inputs.is_empty()
            {
                self.put(0);
                self.turn();
                self.up(0, false);
                self.posted(0, 9);
                self.down(0, false);
                self.handle();
                self.turn();
            }
            if self.is_quiet() {
                return;
            }
            if let Some(next) = self.wake_at {
                self.now = self.now.max(next);
            }
            self.turn();
        }
        panic!("it never comes to rest");
    }

    fn is_quiet(&self) -> bool {
        let rest = self.wake_at.is_some_and(|at| at > self.now + Duration::from_secs(6));
        // A refusal waits for other tries of what is in the outbox.
        rest && self.dialing.is_none() && self.wires.len() == 1 && self.store.saved().outbox.is_empty()
    }

    fn check(&mut self) {
        let saved = self.store.saved();
        assert!(saved.outbox.is_empty(), "{:?}", saved.outbox);
        assert_eq!(self.core.outbox(), []);
        let in_channel = u64::try_from(self.got.get(&channel()).map_or(0, Vec::len)).unwrap();
        assert_eq!(in_channel, self.server.said[&channel()].last().value(), "all of the channel");
        assert!(!saved.held.contains_key(&channel()));
        for (id, said) in self.server.pendable() {
            match self.got.get(id).and_then(|got| got.last()) {
                Some(last) => {
                    assert_eq!(*last, said.last(), "all of {id}");
                    assert_eq!(saved.held.get(id), Some(last));
                }
                None => assert_eq!(said.settled, said.last(), "nothing of {id}"),
            }
            assert_eq!(said.delivered, said.last(), "{id} is acknowledged");
        }
        for (target, ids) in &self.sent {
            let conversation = match target {
                Target::User(user) => conversation_with(user.as_str()),
                Target::Conversation(id) => id.clone(),
            };
            let stored =
                self.server.said[&conversation].messages.iter().filter_map(|message| message.client_msg_id.clone());
            let stored: Vec<ClientMsgId> = stored.filter(|id| ids.contains(id)).collect();
            assert_eq!(stored, *ids, "each once, in order");
        }
        let all: Vec<&Message> = self.server.said.values().flat_map(|said| &said.messages).collect();
        for client_msg_id in &self.files {
            let count = all.iter().filter(|message| message.client_msg_id.as_ref() == Some(client_msg_id)).count();
            assert_eq!(count, 1, "{client_msg_id}");
        }
        for (id, seq) in &self.reads {
            assert!(self.server.said[id].read >= *seq, "{id} is read");
        }
        assert!(self.settings.is_empty(), "each setting is answered");
        if self.keeper == Keeper::Store {
            self.check_store();
            self.check_views();
        }
    }
}

impl World {
    /// The store has each conversation from where it begins to its end, in its last state.
    fn check_store(&mut self) {
        for (id, got) in &self.got {
            let window = self.store.window(id, Side::Newest, usize::MAX);
            let (first, last) = (*got.first().unwrap(), *got.last().unwrap());
            let span = window.spans.last().unwrap();
            assert!(span.from <= first && span.to == last, "{id}: {:?} of {first} to {last}", window.spans);
            let stored: Vec<Seq> =
                window.messages.iter().map(|message| message.seq).filter(|seq| *seq >= first).collect();
            let said = &self.server.said[id].messages;
            let said = said.iter().filter(|message| message.seq >= first && message.kind.counts());
            assert_eq!(stored, said.map(|message| message.seq).collect::<Vec<_>>(), "{id}");
        }
        let Some(file) = &mut self.file else { return };
        let file = file.store();
        assert_eq!(file.saved().unwrap(), self.store.saved());
        assert_eq!(file.chats().unwrap(), self.store.chats());
        for id in self.server.said.keys() {
            let (one, other): (Window, Window) =
                (file.window(id, Side::Newest, 99).unwrap(), self.store.window(id, Side::Newest, 99));
            assert_eq!(one, other, "{id}");
        }
    }
}

/// The content of a view.
fn view_of(view: ViewId, at: At) -> ViewOf {
    let peer = usize::try_from(view).ok().and_then(|at| PEERS.get(at));
    let with = match (peer, view) {
        (Some(peer), _) => conversation_with(peer),
        (None, OPENED) => channel(),
        // Only a server has the rows of channels.
        (None, _) => return ViewOf::Chats(Filter { kinds: vec![ConversationKind::Direct], ..Filter::default() }),
    };
    ViewOf::Messages { with: Target::Conversation(with), at }
}

/// Returns the part of a view that does not depend on the time when it was opened.
fn essence(screen: &Screen) -> Vec<Item> {
    let items = screen.messages.items.iter().filter(|item| !matches!(item.content, Content::Unread { .. }));
    let mut items: Vec<Item> = items.map(|item| Item::clone(item)).collect();
    for item in &mut items {
        if let Content::Message(message) = &mut item.content {
            // This model of the server stores no attachment.
            message.media = None;
            // The separator ends a run.
            message.run = Run::default();
        }
    }
    items
}

impl World {
    /// The views that were open, those of the next start without a network, and those of a new device are the same.
    fn check_views(&mut self) {
        for view in 0..VIEWS {
            if !self.open.contains(&view) {
                self.count = 1;
                self.show(view);
            }
        }
        self.heal();
        let running = std::mem::take(&mut self.shown);
        self.count = 1;
        self.restart(false);
        (0..VIEWS).for_each(|view| self.show(view));
        while !self.inputs.is_empty() {
            self.turn();
        }
        let stored = std::mem::take(&mut self.shown);
        Self::compare(&running, &stored, "of the next start");
        self.store = MemStore::new(user("alice"));
        self.file = None;
        self.restart(false);
        self.heal();
        (0..VIEWS).for_each(|view| self.show(view));
        self.heal();
        let new = std::mem::take(&mut self.shown);
        Self::compare(&running, &new, "of a new device");
    }

    fn compare(one: &BTreeMap<ViewId, Shown>, other: &BTreeMap<ViewId, Shown>, name: &str) {
        assert_eq!(one.len(), other.len());
        for (view, one) in one {
            match (one, &other[view]) {
                (Shown::Messages(one), Shown::Messages(other)) => {
                    let (one, other, id) = (essence(one), essence(other), &one.conversation_id);
                    let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
                    assert_eq!(keys(&one), keys(&other), "{id} {name}");
                    let different = one.iter().zip(&other).find(|(one, other)| one != other);
                    assert!(different.is_none(), "{id} {name}: {different:#?}");
                }
                (Shown::Chats(one), Shown::Chats(other)) => {
                    // A row can have its key from before its peer was known.
                    let row = |row: &Arc<ChatRow>| ChatRow { key: String::new(), ..ChatRow::clone(row) };
                    let rows = |list: &ListSnapshot| list.rows.iter().map(row).collect::<Vec<_>>();
                    assert_eq!(rows(one), rows(other), "the list {name}");
                }
                (one, other) => panic!("{one:?} {other:?}"),
            }
        }
    }
}

fn keeper() -> impl Strategy<Value = Keeper> {
    prop_oneof![Just(Keeper::App), Just(Keeper::Store)]
}

fn steps() -> impl Strategy<Value = Vec<(Step, bool)>> {
    prop::collection::vec((step(), prop::bool::weighted(0.8)), 0..250)
}

fn play(keeper: Keeper, has_http: bool, file: Option<OnDisk>, before: &[(u64, u64)], steps: &[(Step, bool)]) {
    let mut world = World::new(keeper, has_http, file, before);
    for (step, alone) in steps {
        world.take(step, *alone);
    }
    world.heal();
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_once_in_order_and_acknowledged(
        keeper in keeper(), has_http in any::<bool>(), before in prop::collection::vec((0..6_u64, 0..6_u64), 3), steps in steps(),
    ) {
        play(keeper, has_http, None, &before, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_has_what_memory_has(
        keeper in keeper(), has_http in any::<bool>(), before in prop::collection::vec((0..6_u64, 0..6_u64), 3), steps in steps(),
    ) {
        play(keeper, has_http, Some(OnDisk::new()), &before, &steps);
    }
}
