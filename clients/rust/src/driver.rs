//! Executes the outputs of a [`Session`]: sends frames over sockets, writes changes to the storage, delivers events to
//! the app.
//!
//! One task runs the session, and one task per connection dials and then copies frames in both directions.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use pigeonhole_core::{AskId, LinkId, Output, Put, PutEnd, Queued, Session, StorageChange};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use wire::{Action, ClientMsgId, ConversationId, Reply, Seq};

use crate::dial::{Dialer, LinkNews, run_link};
use crate::storage::Storage;
use crate::{Error, Event, Stats, now};

/// While nothing has to be done at any known time.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// Up to this number of calls share one write to the storage.
const BATCH_MAX: usize = 256;

/// The channel on which the app waits for a reply.
pub(crate) type Waiter = oneshot::Sender<Result<Reply, Error>>;

/// A command from the app to the task.
pub(crate) enum Command {
    Send { queued: Queued, kept_tx: oneshot::Sender<Result<(), Error>>, stored_tx: Waiter },
    Read { conversation_id: ConversationId, seq: Seq, left_tx: Waiter },
    Call { action: Action, reply_tx: Waiter },
    Typing(ConversationId),
    Watch { conversation_id: ConversationId, after: Option<Seq>, watched_tx: Waiter },
    Unwatch(ConversationId),
    Handled { conversation_id: ConversationId, seq: Seq },
    Wake,
    Cancel { client_msg_id: ClientMsgId, cancelled_tx: oneshot::Sender<bool> },
    Outbox { outbox_tx: oneshot::Sender<Vec<Queued>> },
    Close { closed_tx: oneshot::Sender<()> },
}

pub(crate) struct Driver {
    pub session: Session,
    pub storage: Box<dyn Storage>,
    pub dialer: Arc<Dialer>,
    pub command_rx: UnboundedReceiver<Command>,
    pub event_tx: UnboundedSender<Event>,
    pub stats_tx: watch::Sender<Stats>,
}

impl Driver {
    /// Until the app closes the client, or drops it.
    pub(crate) async fn run(self) {
        let Self { session, storage, dialer, command_rx, event_tx, stats_tx } = self;
        let (news_tx, news_rx) = unbounded_channel();
        let links = Links { dialer, open: BTreeMap::new(), tasks: JoinSet::new(), news_tx };
        let writer = Writer { storage: Some(storage), unsaved: Vec::new() };
        let (put_tx, put_rx) = unbounded_channel();
        let puts = Puts::new(put_tx);
        let waiting = Waiting::default();
        let running = Running { session, writer, links, puts, waiting, event_tx, stats_tx, leaving: None };
        running.run(command_rx, news_rx, put_rx).await;
    }
}

struct Running {
    session: Session,
    writer: Writer,
    links: Links,
    puts: Puts,
    waiting: Waiting,
    event_tx: UnboundedSender<Event>,
    stats_tx: watch::Sender<Stats>,
    leaving: Option<oneshot::Sender<()>>,
}

impl Running {
    async fn run(
        mut self,
        mut command_rx: UnboundedReceiver<Command>,
        mut news_rx: UnboundedReceiver<LinkNews>,
        mut put_rx: UnboundedReceiver<PutNews>,
    ) {
        self.session.tick(now());
        while self.leaving.is_none() {
            self.execute().await;
            let wait = self.session.next_tick().map_or(IDLE, |at| at - now()).min(IDLE);
            tokio::select! {
                command = command_rx.recv() => {
                    let Some(command) = command else { break };
                    let mut batch = vec![command];
                    while batch.len() < BATCH_MAX && let Ok(command) = command_rx.try_recv() {
                        batch.push(command);
                    }
                    self.handle_commands(batch).await;
                }
                Some(news) = news_rx.recv() => {
                    self.on_link_news(news);
                    while let Ok(news) = news_rx.try_recv() {
                        self.on_link_news(news);
                    }
                }
                Some(news) = put_rx.recv() => match news {
                    PutNews::Progress(client_msg_id, bytes) => self.session.put_progress(&client_msg_id, bytes),
                    PutNews::Ended(client_msg_id, end) => self.session.put_ended(&client_msg_id, end, now()),
                },
                () = sleep(wait) => self.session.tick(now()),
            }
        }
        self.leave().await;
    }

    /// Handles commands in the order of the calls. Writes new messages to the disk before any of them can be sent.
    async fn handle_commands(&mut self, batch: Vec<Command>) {
        let queued = batch.iter().filter_map(|command| match command {
            Command::Send { queued, .. } => Some(StorageChange::Queued(queued.clone())),
            _ => None,
        });
        let queued: Vec<StorageChange> = queued.collect();
        let kept = if queued.is_empty() { Ok(()) } else { self.writer.save(queued).await };
        let now = now();
        for command in batch {
            match command {
                Command::Send { queued, kept_tx, stored_tx } => {
                    // An app that no longer waits has sent the message all the same.
                    let _ = kept_tx.send(kept.clone());
                    if kept.is_ok() {
                        self.session.send(queued, Some(self.waiting.add(stored_tx)), now);
                    }
                }
                Command::Read { conversation_id, seq, left_tx } => {
                    self.session.read(&conversation_id, seq, self.waiting.add(left_tx), now);
                }
                Command::Call { action, reply_tx } => self.session.call(action, self.waiting.add(reply_tx), now),
                Command::Typing(conversation_id) => self.session.typing(conversation_id, now),
                Command::Watch { conversation_id, after, watched_tx } => {
                    self.session.watch(&conversation_id, after, self.waiting.add(watched_tx), now);
                }
                Command::Unwatch(conversation_id) => self.session.unwatch(&conversation_id, now),
                Command::Handled { conversation_id, seq } => self.session.handled(&conversation_id, seq, now),
                Command::Wake => self.session.wake(now),
                Command::Cancel { client_msg_id, cancelled_tx } => {
                    // The session cancels the message even if the app no longer waits.
                    let _ = cancelled_tx.send(self.session.cancel(&client_msg_id, now));
                }
                Command::Outbox { outbox_tx } => {
                    // An app that no longer waits does not need it.
                    let _ = outbox_tx.send(self.session.outbox());
                }
                Command::Close { closed_tx } => self.leaving = Some(closed_tx),
            }
        }
    }

    fn on_link_news(&mut self, news: LinkNews) {
        let now = now();
        match news {
            LinkNews::Opened(link, token_left) => self.session.opened(link, token_left, now),
            LinkNews::NotOpened(link, why) => {
                self.links.open.remove(&link);
                self.session.dial_failed(link, why, now);
            }
            LinkNews::Frame(link, text) => self.session.received(link, &text, now),
            LinkNews::Ended(link, why) => {
                self.links.open.remove(&link);
                self.session.lost(link, why, now);
            }
        }
    }

    /// Saves first: the client acknowledges an entry, or completes a call, only after the storage has it.
    async fn execute(&mut self) {
        let changes = self.session.take_changes();
        if !changes.is_empty() {
            self.writer.save_soon(changes).await;
        }
        self.stats_tx.send_if_modified(|stats| std::mem::replace(stats, self.session.stats()) != self.session.stats());
        for output in self.session.take_outputs() {
            match output {
                Output::Dial { link, need } => self.links.dial(link, need),
                Output::Frame { link, text } => self.links.write(link, text),
                // Without the sender, the connection's task closes it.
                Output::Close { link } => {
                    self.links.open.remove(&link);
                }
                Output::Event(event) => {
                    // The app need not listen.
                    let _ = self.event_tx.send(event);
                }
                Output::Answer { ask, result } => self.waiting.answer(ask, result),
                Output::Put { client_msg_id, put } => self.puts.begin(client_msg_id, put),
                Output::Abort { client_msg_id } => self.puts.end(&client_msg_id),
            }
        }
    }

    async fn leave(mut self) {
        self.session.closing(now());
        self.execute().await;
        let close_wait = self.links.dialer.timing.close_wait;
        self.links.open.clear();
        let tasks = &mut self.links.tasks;
        // A task that has not ended by then is ended by being dropped.
        let _ = timeout(close_wait, async { while tasks.join_next().await.is_some() {} }).await;
        if let Some(closed_tx) = self.leaving.take() {
            // The storage is free again before the app learns that the client is closed.
            drop(self);
            let _ = closed_tx.send(());
        }
    }
}

/// The requests of the app that wait for their answers.
#[derive(Default)]
struct Waiting {
    all: BTreeMap<AskId, Waiter>,
    last: AskId,
}

impl Waiting {
    fn add(&mut self, waiter: Waiter) -> AskId {
        self.last += 1;
        self.all.insert(self.last, waiter);
        self.last
    }

    fn answer(&mut self, ask: AskId, result: Result<Reply, Error>) {
        if let Some(waiter) = self.all.remove(&ask) {
            // An app that no longer waits needs no reply.
            let _ = waiter.send(result);
        }
    }
}

struct Links {
    dialer: Arc<Dialer>,
    /// Where frames go in, for each connection that is open or being opened.
    open: BTreeMap<LinkId, UnboundedSender<String>>,
    tasks: JoinSet<()>,
    news_tx: UnboundedSender<LinkNews>,
}

impl Links {
    fn dial(&mut self, link: LinkId, need: crate::TokenNeed) {
        while self.tasks.try_join_next().is_some() {}
        let (frame_tx, frame_rx) = unbounded_channel();
        self.open.insert(link, frame_tx);
        self.tasks.spawn(run_link(Arc::clone(&self.dialer), link, need, frame_rx, self.news_tx.clone()));
    }

    fn write(&self, link: LinkId, text: String) {
        if let Some(frame_tx) = self.open.get(&link) {
            // If its task has ended, the connection is about to be reported lost.
            let _ = frame_tx.send(text);
        }
    }
}

/// A report from a PUT's task.
enum PutNews {
    /// The number of bytes that have been sent.
    #[cfg_attr(not(feature = "media"), expect(dead_code, reason = "nothing is put without it"))]
    Progress(ClientMsgId, u64),
    Ended(ClientMsgId, PutEnd),
}

/// Uploads in progress. Dropping this value ends them.
struct Puts {
    put_tx: UnboundedSender<PutNews>,
    /// `None` until something is put: it can't be made where there are no certificates, and text needs none.
    #[cfg(feature = "media")]
    http: Option<reqwest::Client>,
    #[cfg(feature = "media")]
    tasks: JoinSet<()>,
    under_way: BTreeMap<ClientMsgId, AbortHandle>,
}

impl Puts {
    #[cfg(feature = "media")]
    fn new(put_tx: UnboundedSender<PutNews>) -> Self {
        Self { put_tx, http: None, tasks: JoinSet::new(), under_way: BTreeMap::new() }
    }

    #[cfg(feature = "media")]
    fn begin(&mut self, client_msg_id: ClientMsgId, put: Put) {
        while self.tasks.try_join_next().is_some() {}
        let (put_tx, id) = (self.put_tx.clone(), client_msg_id.clone());
        let Some(http) = self.http.clone().or_else(|| crate::transfer::http().ok()) else {
            // If the client has ended, the receiver is gone.
            let _ = put_tx.send(PutNews::Ended(client_msg_id, PutEnd::Lost));
            return;
        };
        self.http = Some(http.clone());
        let progress_tx = put_tx.clone();
        let progress = move |bytes| drop(progress_tx.send(PutNews::Progress(id.clone(), bytes)));
        let ended_id = client_msg_id.clone();
        let task = self.tasks.spawn(async move {
            let end = crate::transfer::put(http, put, progress).await;
            let _ = put_tx.send(PutNews::Ended(ended_id, end));
        });
        self.under_way.retain(|_, task| !task.is_finished());
        self.under_way.insert(client_msg_id, task);
    }

    fn end(&mut self, client_msg_id: &ClientMsgId) {
        if let Some(task) = self.under_way.remove(client_msg_id) {
            task.abort();
        }
    }

    #[cfg(not(feature = "media"))]
    fn new(put_tx: UnboundedSender<PutNews>) -> Self {
        Self { put_tx, under_way: BTreeMap::new() }
    }

    /// An outbox of a client that had the feature.
    #[cfg(not(feature = "media"))]
    fn begin(&mut self, client_msg_id: ClientMsgId, _put: Put) {
        let end = PutEnd::Unreadable("this client is built without the feature media".to_owned());
        let _ = self.put_tx.send(PutNews::Ended(client_msg_id, end));
    }
}

/// Writes to the storage, outside the task that must not block, and keeps what could not be written for the next write.
struct Writer {
    /// `None` only while it is at work.
    storage: Option<Box<dyn Storage>>,
    /// Changes that could not be written.
    unsaved: Vec<StorageChange>,
}

impl Writer {
    /// Refuses them if they can't be written.
    async fn save(&mut self, changes: Vec<StorageChange>) -> Result<(), Error> {
        let mut all = std::mem::take(&mut self.unsaved);
        let old = all.len();
        all.extend(changes);
        let (mut all, written) = self.write(all).await;
        if written.is_err() {
            all.truncate(old);
            self.unsaved = all;
        }
        Ok(written?)
    }

    /// Keeps them for the next write if they can't be written.
    async fn save_soon(&mut self, changes: Vec<StorageChange>) {
        let mut all = std::mem::take(&mut self.unsaved);
        all.extend(changes);
        let (all, written) = self.write(all).await;
        if written.is_err() {
            self.unsaved = all;
        }
    }

    async fn write(&mut self, changes: Vec<StorageChange>) -> (Vec<StorageChange>, io::Result<()>) {
        let Some(mut storage) = self.storage.take() else {
            return (changes, Err(io::Error::other("the storage has panicked")));
        };
        let written = spawn_blocking(move || {
            let written = storage.write(&changes);
            (storage, changes, written)
        });
        match written.await {
            Ok((storage, changes, written)) => {
                self.storage = Some(storage);
                (changes, written)
            }
            Err(_) => (Vec::new(), Err(io::Error::other("the storage has panicked"))),
        }
    }
}
