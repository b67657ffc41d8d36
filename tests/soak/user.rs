//! A user who chats with a few others through the client library, over a network that breaks, in an app that restarts.
//! The user records every error in the state that the app shows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt;
use pigeonhole_client::{
    Client, ClientMsgId, Config, Conversation, ConversationId, Draft, Event, Events, Member, Message, ReceiptKind, Seq,
    Side, Stats, Target, Timeline, Timing, UserId,
};
use pigeonhole_store::Store;
use testkit::{Network, PATIENCE, TestServer};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::changes::{CHANGE_ONE_IN, Said, has_other_data, is_number, is_numbered, text};
use crate::groups::{Groups, joins, number};
use crate::media::Folder;
use crate::phones;

/// Messages that wait for a reply concurrently.
const UNDER_WAY_MAX: usize = 4;
/// A user reads at one in this many events.
const READ_ONE_IN: u32 = 8;
/// A user's network breaks at one in this many events.
const CUT_ONE_IN: u32 = 250;
/// A user's app restarts at one in this many events.
const RESTART_ONE_IN: u32 = 1000;

/// Errors and possible errors. All users share one object.
#[derive(Default)]
pub(crate) struct Counts {
    /// Messages and changes.
    pub(crate) sent: AtomicU64,
    pub(crate) changes: AtomicU64,
    /// Stored, by the reply to the sender's app.
    pub(crate) answered: AtomicU64,
    /// Shown to the one it was for.
    pub(crate) received: AtomicU64,
    pub(crate) out_of_order: AtomicU64,
    pub(crate) shown_twice: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Changes that came too late, or were too many.
    pub(crate) declined: AtomicU64,
    /// Texts of deleted messages; the number of searches after the reply, and of texts found at any time.
    pub(crate) deleted: Mutex<BTreeSet<String>>,
    pub(crate) looked_for: AtomicU64,
    pub(crate) not_deleted: AtomicU64,
    /// Conversations of a user that look otherwise than the log says.
    pub(crate) wrong_views: AtomicU64,
    pub(crate) wrong_unread: AtomicU64,
    /// Messages of an own kind to another user, silent entries, and messages with other data than their author gave.
    pub(crate) own_kinds: AtomicU64,
    pub(crate) silent: AtomicU64,
    pub(crate) other_data: AtomicU64,
    pub(crate) renames: AtomicU64,
    /// Ticks that were compared, and those that differ from the mark of the other user.
    pub(crate) ticks: AtomicU64,
    pub(crate) wrong_ticks: AtomicU64,
    pub(crate) cuts: AtomicU64,
    pub(crate) restarts: AtomicU64,
    /// Requests in groups, and those of them that changed members or rules.
    pub(crate) in_groups: AtomicU64,
    pub(crate) churn: AtomicU64,
    /// By those who were in none.
    pub(crate) nowhere: AtomicU64,
    pub(crate) waiting_in_groups: AtomicU64,
    pub(crate) declined_in_groups: AtomicU64,
    /// Entries of groups that were shown.
    pub(crate) shown_in_groups: AtomicU64,
    /// Messages that carry a picture, and pictures that were fetched, and were the right ones, or not.
    pub(crate) pictures: AtomicU64,
    pub(crate) fetched: AtomicU64,
    pub(crate) other_bytes: AtomicU64,
    /// Where those were that were gone when they were to be fetched.
    pub(crate) gone: Mutex<BTreeSet<(String, u64)>>,
    /// Messages that the backend put into the queue, those it put twice, those that users showed, and its messages in
    /// the group.
    pub(crate) published: AtomicU64,
    pub(crate) published_again: AtomicU64,
    pub(crate) told: AtomicU64,
    pub(crate) posted: AtomicU64,
    pub(crate) backend_is_done: AtomicBool,
}

impl Counts {
    fn received_from(&self, sender: &UserId) -> &AtomicU64 {
        if sender.is_service() { &self.told } else { &self.received }
    }
}

/// How often a user thinks of a group.
const PACE: Duration = Duration::from_millis(200);

pub(crate) struct User {
    name: String,
    peers: Vec<String>,
    to_send: usize,
    /// The number of the last message to each peer.
    said: BTreeMap<String, u64>,
    /// Pictures that were sent.
    pub(crate) pictures: u64,
    pub(crate) folder: Arc<Folder>,
    pub(crate) under_way: usize,
    pub(crate) conversations: BTreeMap<ConversationId, Shown>,
    /// The read marks of others that came as events.
    ticks: BTreeMap<(ConversationId, UserId), Seq>,
    pub(crate) app: App,
    /// For what was deleted.
    pub(crate) looking: JoinSet<()>,
    pub(crate) everybody: Vec<String>,
    pub(crate) groups: Groups,
    /// Additions that wait for their answer: each gives itself, if there is no entry of it.
    pub(crate) adding: JoinSet<Option<ClientMsgId>>,
    server: Arc<TestServer>,
    network: Network,
    outbox: PathBuf,
    pub(crate) rng: Rng,
    pub(crate) counts: Arc<Counts>,
    /// Counts of earlier apps of this user.
    stats: Stats,
}

pub(crate) struct App {
    pub(crate) client: Client,
    events: Events,
}

/// The app's view of a conversation.
pub(crate) struct Shown {
    last_seq: Seq,
    /// And before that.
    before: Seq,
    /// All of it.
    pub(crate) held: BTreeSet<u64>,
    /// The number of the last message, by sender: each counts its own.
    numbers: BTreeMap<UserId, u64>,
    pub(crate) timeline: Timeline,
    /// The messages that are not deleted, oldest first.
    pub(crate) said: Vec<Said>,
}

impl User {
    pub(crate) async fn new(
        server: &Arc<TestServer>,
        (name, everybody): (String, Vec<String>),
        peers: Vec<String>,
        to_send: usize,
        seed: u64,
        (counts, folder): (&Arc<Counts>, &Arc<Folder>),
    ) -> Self {
        let (network, outbox) = (Network::to(server).await, folder.file(&format!("outbox-{name}")));
        let app = App::start(server, &network, &name, &phones::device(&name), &outbox).await;
        Self {
            name,
            peers,
            to_send,
            said: BTreeMap::new(),
            pictures: 0,
            folder: Arc::clone(folder),
            under_way: 0,
            conversations: BTreeMap::new(),
            ticks: BTreeMap::new(),
            app,
            looking: JoinSet::new(),
            everybody,
            groups: Groups::default(),
            adding: JoinSet::new(),
            server: Arc::clone(server),
            network,
            outbox,
            rng: Rng::with_seed(seed),
            counts: Arc::clone(counts),
            stats: Stats::default(),
        }
    }

    /// Sends until `stop`, and chats until `done`, when every user has seen every message or no more arrive.
    pub(crate) async fn chat(mut self, stop: CancellationToken, done: CancellationToken) -> Self {
        let mut pace = tokio::time::interval(PACE);
        loop {
            while !stop.is_cancelled() && self.to_send > 0 && self.under_way < UNDER_WAY_MAX {
                self.send().await;
            }
            let event = tokio::select! {
                event = self.app.events.next() => event.expect("the client is open"),
                _ = pace.tick(), if !stop.is_cancelled() && self.may_act_in_groups() => {
                    self.act_in_a_group().await;
                    continue;
                }
                Some(added) = self.adding.join_next() => {
                    added.expect("nobody has panicked").iter().for_each(|id| self.no_longer_waits(id));
                    continue;
                }
                () = done.cancelled() => return self,
            };
            let message = match event {
                Event::Message { message, .. } => message,
                Event::ConversationChanged(row) if row.conversation_id.is_group() => {
                    if let Some(shown) = self.conversations.get_mut(&row.conversation_id) {
                        shown.timeline.row(&row);
                    }
                    continue;
                }
                Event::Failed { queued, error } => {
                    self.refused(&queued, &error);
                    continue;
                }
                Event::Receipt { kind: ReceiptKind::Read, receipt } => {
                    let tick = self.ticks.entry((receipt.conversation_id, receipt.user_id)).or_default();
                    *tick = receipt.seq.max(*tick);
                    continue;
                }
                _ => continue,
            };
            self.show(&message);
            if message.conversation_id.is_group() && joins(&message, &self.name) {
                self.look_at(&message.conversation_id).await;
            }
            if message.sender_id != *self.name && self.rng.u32(..READ_ONE_IN) == 0 {
                self.app.client.read(&message.conversation_id, message.seq);
            }
            self.may_rename();
            if self.rng.u32(..CUT_ONE_IN) == 0 {
                self.network.cut();
                self.counts.cuts.fetch_add(1, Relaxed);
            }
            if self.rng.u32(..RESTART_ONE_IN) == 0 {
                self.restart(&message).await;
            }
        }
    }

    async fn send(&mut self) {
        if self.rng.u32(..CHANGE_ONE_IN) > 0 || !self.change().await {
            let peer = self.peers[self.rng.usize(..self.peers.len())].clone();
            if self.wants_a_picture() {
                let target = Target::User(UserId::parse(&peer).expect("a name"));
                self.send_picture(target, &peer, Draft::new).await;
            } else {
                let number = self.said.entry(peer.clone()).or_default();
                *number += 1;
                let text = text(&self.name, &peer, *number);
                let draft = self.maybe_own(text);
                self.app.client.send_to(peer, draft).await.expect("it goes into the outbox");
            }
        }
        self.to_send -= 1;
        self.under_way += 1;
        self.counts.sent.fetch_add(1, Relaxed);
    }

    fn show(&mut self, message: &Message) {
        let me = &self.name;
        let shown = self.conversations.entry(message.conversation_id.clone()).or_insert_with(|| Shown::new(me));
        if message.seq <= shown.last_seq {
            // An entry of a membership that ended before this device had it, returned with the reply.
            let is_late = message.conversation_id.is_group() && message.sender_id == *me.as_str();
            match message.client_msg_id.as_ref().filter(|_| is_late && shown.held.insert(message.seq.value())) {
                Some(id) => self.no_longer_waits(id),
                None => _ = self.counts.shown_twice.fetch_add(1, Relaxed),
            }
            return;
        }
        if has_other_data(message) {
            self.counts.other_data.fetch_add(1, Relaxed);
        }
        shown.held.insert(message.seq.value());
        shown.before = shown.last_seq;
        if message.conversation_id.is_group() {
            shown.last_seq = message.seq;
            let own = message.sender_id == *self.name;
            let deleted = shown.fold(message, own);
            self.counts.shown_in_groups.fetch_add(1, Relaxed);
            if let Some(id) = message.client_msg_id.as_ref().filter(|_| own) {
                self.no_longer_waits(id);
            }
            if let Some(deleted) = deleted {
                self.look_for(message.conversation_id.clone(), deleted);
            }
            self.look_at_picture(message);
            return;
        }
        // A sender's numbers rise by one, so a message that is missing, doubled or out of turn in storage shows here too.
        let number = shown.numbers.entry(message.sender_id.clone()).or_default();
        *number += u64::from(is_numbered(message));
        let is_next = !is_numbered(message) || is_number(message, *number);
        if message.seq != shown.last_seq.next() || !is_next {
            self.counts.out_of_order.fetch_add(1, Relaxed);
        }
        shown.last_seq = message.seq;
        let own = message.sender_id == *self.name;
        if own {
            self.under_way -= 1;
            self.counts.answered.fetch_add(1, Relaxed);
        } else {
            self.counts.received_from(&message.sender_id).fetch_add(1, Relaxed);
        }
        if let Some(deleted) = shown.fold(message, own) {
            self.look_for(message.conversation_id.clone(), deleted);
        }
        self.look_at_picture(message);
    }

    /// The app is killed, and started again with what its file has.
    async fn restart(&mut self, last: &Message) {
        self.network.cut();
        self.app.client.clone().close().await;
        self.stats = self.stats();
        // A refused request is out of the outbox, so its event comes only once. A message comes again.
        while let Some(Some(event)) = self.app.events.next().now_or_never() {
            if let Event::Failed { queued, error } = event {
                self.refused(&queued, &error);
            }
        }
        // The app has not finished with the last message, which may come again: it does not count as shown.
        let store = Store::open(&self.outbox, &UserId::parse(&self.name).expect("a name")).expect("it is closed");
        let held = store.saved().expect("it can be read").held;
        drop(store);
        if held.get(&last.conversation_id).copied().unwrap_or_default() < last.seq {
            self.unshow(last);
        }
        self.app = App::start(&self.server, &self.network, &self.name, &phones::device(&self.name), &self.outbox).await;
        self.counts.restarts.fetch_add(1, Relaxed);
    }

    fn unshow(&mut self, message: &Message) {
        let shown = self.conversations.get_mut(&message.conversation_id).expect("it was shown");
        if message.seq < shown.last_seq {
            return;
        }
        shown.last_seq = shown.before;
        shown.held.remove(&message.seq.value());
        if message.conversation_id.is_group() {
            shown.said.retain(|said| !said.is(message.seq));
            self.counts.shown_in_groups.fetch_sub(1, Relaxed);
            if let Some(id) = message.client_msg_id.as_ref().filter(|_| message.sender_id == *self.name) {
                self.waits_again(id);
            }
            return;
        }
        *shown.numbers.get_mut(&message.sender_id).expect("it was shown") -= u64::from(is_numbered(message));
        shown.said.retain(|said| !said.is(message.seq));
        if message.sender_id == *self.name {
            self.under_way += 1;
            self.counts.answered.fetch_sub(1, Relaxed);
        } else {
            self.counts.received_from(&message.sender_id).fetch_sub(1, Relaxed);
        }
    }

    /// Compares the ticks of each conversation of two users with the other user's marks. An event can be lost, but never
    /// comes before its mark. `history` has all marks.
    pub(crate) async fn check_ticks(&self) {
        for id in self.conversations.keys().filter(|id| !id.is_group()) {
            let same = async {
                while !self.ticks_are_marks(id).await {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            if timeout(PATIENCE, same).await.is_err() {
                println!("{} in {id}: the ticks are not the marks", self.name);
                self.counts.wrong_ticks.fetch_add(1, Relaxed);
            }
        }
    }

    async fn ticks_are_marks(&self, id: &ConversationId) -> bool {
        let page = self.app.client.history(id, Side::Newest, 1).await.expect("it is there");
        // A service reads nothing.
        let is_other = |member: &&Member| member.user_id != *self.name && !member.user_id.is_service();
        page.members.iter().filter(is_other).all(|member| {
            let rows = self.server.rows("InboxTable", member.user_id.as_str());
            let row = rows.iter().find(|row| row["conversation_id"] == id.as_str());
            let mark = |name| row.and_then(|row| number(row, name)).unwrap_or_default();
            let tick = self.ticks.get(&(id.clone(), member.user_id.clone())).copied().unwrap_or_default();
            self.counts.ticks.fetch_add(1, Relaxed);
            (member.delivered_seq.value(), member.read_seq.value()) == (mark("delivered_seq"), mark("read_seq"))
                && tick <= member.read_seq
        })
    }

    /// Reads each conversation up to some message, and compares every badge with what was shown.
    pub(crate) async fn check_badges(&mut self) {
        let rows = self.app.client.inbox(None).await.expect("the inbox is there").conversations;
        for (id, shown) in self.conversations.iter().filter(|(id, _)| !id.is_group()) {
            let upto = Seq::new(self.rng.u64(1..=shown.last_seq.value())).expect("it is no larger");
            let left = self.app.client.read(id, upto).await.expect("it can be read").unread;
            let row = rows.iter().find(|row| row.conversation_id == *id);
            let right = row.is_some_and(|row: &Conversation| {
                row.last_seq == shown.last_seq
                    && row.unread == shown.unread_above(row.read_seq, &self.name)
                    && left == shown.unread_above(upto.max(row.read_seq), &self.name)
            });
            if !right {
                println!("{} in {id}: read up to {upto}, {left} left, and before {row:?}", self.name);
                self.counts.wrong_unread.fetch_add(1, Relaxed);
            }
        }
    }

    /// The app is closed: the phone is in a pocket.
    pub(crate) async fn put_away(&mut self) {
        self.network.cut();
        self.app.client.clone().close().await;
    }

    /// Writes this many messages to each other user, and waits until all are stored.
    pub(crate) async fn write_to_each(&mut self, count: usize) {
        for peer in self.peers.clone() {
            for _ in 0..count {
                self.app.client.send_to(peer.clone(), "are you there?").await.expect("it goes into the outbox");
                self.under_way += 1;
            }
        }
        while self.under_way > 0 {
            let event = timeout(PATIENCE, self.app.events.next()).await.expect("it is stored in time");
            match event.expect("the client is open") {
                Event::Message { message, .. } if message.sender_id == *self.name => self.under_way -= 1,
                Event::Failed { .. } => self.under_way -= 1,
                _ => {}
            }
        }
    }

    /// Reads everything on another device.
    pub(crate) async fn read_elsewhere(&self) {
        let (network, outbox) = (Network::to(&self.server).await, self.folder.file(&format!("tablet-{}", self.name)));
        let tablet = App::start(&self.server, &network, &self.name, "tablet", &outbox).await;
        let mut cursor = None;
        loop {
            let page = tablet.client.inbox(cursor).await.expect("the inbox is there");
            for row in &page.conversations {
                let left = tablet.client.read(&row.conversation_id, row.last_seq).await.expect("it can be read");
                assert_eq!((left.unread, left.mentions.unwrap_or_default()), (0, 0));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        tablet.client.close().await;
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sums the counts of this app and the earlier ones.
    pub(crate) fn stats(&self) -> Stats {
        let (mut all, now) = (self.stats, self.app.client.stats());
        all.resent += now.resent;
        all.duplicates_dropped += now.duplicates_dropped;
        all.gaps_repaired += now.gaps_repaired;
        all.reconnects += now.reconnects;
        all
    }

    /// Whether the server still has something for this user.
    pub(crate) fn is_pending(&mut self) -> bool {
        // The app has also finished with the last message that it showed.
        self.app.events.done();
        self.server.rows("InboxTable", &self.name).iter().any(|row| row.get("pending_from").is_some())
    }
}

impl Shown {
    fn new(me: &str) -> Self {
        let me = UserId::parse(me).expect("a name");
        Self {
            last_seq: Seq::ZERO,
            before: Seq::ZERO,
            held: BTreeSet::new(),
            numbers: BTreeMap::new(),
            timeline: Timeline::new(me),
            said: Vec::new(),
        }
    }
}

impl App {
    async fn start(server: &Arc<TestServer>, network: &Network, name: &str, device: &str, outbox: &Path) -> Self {
        let token = server.token(name);
        let give = move |_| std::future::ready(Ok(token.clone()));
        let config = Config::new(network.url(), name, give).device_id(device);
        let (client, events) = Client::connect(config.outbox(outbox).timing(timing())).await.unwrap();
        Self { client, events }
    }
}

/// Connections end often.
fn timing() -> Timing {
    Timing { lifetime: Duration::from_mins(1), lifetime_jitter: Duration::from_secs(40), ..crate::timing::timing() }
}
