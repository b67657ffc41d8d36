//! Drives a [`Session`]: carries its frames over sockets, its changes to the storage, its events to the app.
//!
//! One task runs this, and one more per connection, which dials and then copies frames in both directions.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep_until, timeout};

use crate::dial::{Dialer, LinkNews, run_link};
use crate::protocol::Request;
use crate::session::{Answer, LinkId, Output, Session, Ticket};
use crate::storage::{Change, Queued, Storage};
use crate::{Error, Event, Stats};

/// While nothing has to be done at any known time.
const IDLE: Duration = Duration::from_hours(1);
/// So many calls at once share one write to the storage.
const BATCH_MAX: usize = 256;

pub(crate) type Waiter = oneshot::Sender<Result<Answer, Error>>;

/// What the app asks of the task.
pub(crate) enum Command {
    Send { queued: Queued, kept: oneshot::Sender<Result<(), Error>>, stored: Waiter },
    Read { conversation_id: String, seq: u64, answer: Waiter },
    Call { request: Request, answer: Waiter },
    Handled { conversation_id: String, seq: u64 },
    Close { done: oneshot::Sender<()> },
}

pub(crate) struct Driver {
    pub session: Session,
    pub storage: Box<dyn Storage>,
    pub dialer: Arc<Dialer>,
    pub commands: UnboundedReceiver<Command>,
    pub events: UnboundedSender<Event>,
    pub stats: watch::Sender<Stats>,
}

impl Driver {
    /// Until the app closes the client, or lets go of it.
    pub(crate) async fn run(self) {
        let Self { session, storage, dialer, commands, events, stats } = self;
        let (news, heard) = unbounded_channel();
        let links = Links { dialer, open: BTreeMap::new(), tasks: JoinSet::new(), news };
        let keeper = Keeper { storage: Some(storage), unsaved: Vec::new() };
        let running =
            Running { session, keeper, links, events, stats, waiters: BTreeMap::new(), last_ticket: 0, leaving: None };
        running.run(commands, heard).await;
    }
}

struct Running {
    session: Session,
    keeper: Keeper,
    links: Links,
    events: UnboundedSender<Event>,
    stats: watch::Sender<Stats>,
    waiters: BTreeMap<Ticket, Waiter>,
    last_ticket: Ticket,
    leaving: Option<oneshot::Sender<()>>,
}

impl Running {
    async fn run(mut self, mut commands: UnboundedReceiver<Command>, mut heard: UnboundedReceiver<LinkNews>) {
        self.session.tick(Instant::now());
        while self.leaving.is_none() {
            self.carry_out().await;
            let tick_at = self.session.next_tick().unwrap_or_else(|| Instant::now() + IDLE);
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { break };
                    let mut batch = vec![command];
                    while batch.len() < BATCH_MAX && let Ok(command) = commands.try_recv() {
                        batch.push(command);
                    }
                    self.obey(batch).await;
                }
                Some(news) = heard.recv() => {
                    self.hear(news);
                    while let Ok(news) = heard.try_recv() {
                        self.hear(news);
                    }
                }
                () = sleep_until(tick_at.into()) => self.session.tick(Instant::now()),
            }
        }
        self.leave().await;
    }

    /// In the order they were given. New messages are on the disk before any of them is known to be sent.
    async fn obey(&mut self, batch: Vec<Command>) {
        let queued = batch.iter().filter_map(|command| match command {
            Command::Send { queued, .. } => Some(Change::Queued(queued.clone())),
            _ => None,
        });
        let queued: Vec<Change> = queued.collect();
        let kept = if queued.is_empty() { Ok(()) } else { self.keeper.save(queued).await };
        let now = Instant::now();
        for command in batch {
            match command {
                Command::Send { queued, kept: tell, stored } => {
                    // An app that no longer waits has sent the message all the same.
                    drop(tell.send(kept.clone()));
                    if kept.is_ok() {
                        let ticket = self.ticket(stored);
                        self.session.send(queued, Some(ticket), now);
                    }
                }
                Command::Read { conversation_id, seq, answer } => {
                    let ticket = self.ticket(answer);
                    self.session.read(&conversation_id, seq, ticket, now);
                }
                Command::Call { request, answer } => {
                    let ticket = self.ticket(answer);
                    self.session.call(ticket, request, now);
                }
                Command::Handled { conversation_id, seq } => self.session.handled(&conversation_id, seq, now),
                Command::Close { done } => self.leaving = Some(done),
            }
        }
    }

    fn ticket(&mut self, waiter: Waiter) -> Ticket {
        self.last_ticket += 1;
        self.waiters.insert(self.last_ticket, waiter);
        self.last_ticket
    }

    fn hear(&mut self, news: LinkNews) {
        let now = Instant::now();
        match news {
            LinkNews::Opened(link) => self.session.opened(link, now),
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

    /// Does what the session wants done. What it wants remembered comes first: a message is not acknowledged, and no
    /// answer told, before that is.
    async fn carry_out(&mut self) {
        let mut changes = Vec::new();
        let mut others = Vec::new();
        for output in self.session.take_outputs() {
            match output {
                Output::Save(change) => changes.push(change),
                other => others.push(other),
            }
        }
        if !changes.is_empty() {
            self.keeper.save_later(changes).await;
        }
        self.stats.send_if_modified(|stats| std::mem::replace(stats, self.session.stats()) != self.session.stats());
        for output in others {
            match output {
                Output::Dial { link, need } => self.links.dial(link, need),
                Output::Frame { link, text } => self.links.write(link, text),
                // Without a writer, the connection's task says goodbye.
                Output::Close { link } => drop(self.links.open.remove(&link)),
                // Nobody has to listen, nor to wait for an answer.
                Output::Event(event) => drop(self.events.send(event)),
                Output::Answer { ticket, answer } => {
                    if let Some(waiter) = self.waiters.remove(&ticket) {
                        drop(waiter.send(answer));
                    }
                }
                Output::Save(_) => {}
            }
        }
    }

    async fn leave(mut self) {
        self.session.leaving(Instant::now());
        self.carry_out().await;
        let close_wait = self.links.dialer.timing.close_wait;
        self.links.open.clear();
        let tasks = &mut self.links.tasks;
        // Those that have not ended by then are ended by being dropped.
        drop(timeout(close_wait, async { while tasks.join_next().await.is_some() {} }).await);
        if let Some(done) = self.leaving.take() {
            // The storage is free again by the time the app hears of it.
            drop(self);
            drop(done);
        }
    }
}

struct Links {
    dialer: Arc<Dialer>,
    /// Where frames go in, for each connection that is open or being opened.
    open: BTreeMap<LinkId, UnboundedSender<String>>,
    tasks: JoinSet<()>,
    news: UnboundedSender<LinkNews>,
}

impl Links {
    fn dial(&mut self, link: LinkId, need: crate::TokenNeed) {
        while self.tasks.try_join_next().is_some() {}
        let (writer, frames) = unbounded_channel();
        self.open.insert(link, writer);
        self.tasks.spawn(run_link(Arc::clone(&self.dialer), link, need, frames, self.news.clone()));
    }

    fn write(&self, link: LinkId, text: String) {
        if let Some(writer) = self.open.get(&link) {
            // One whose task has ended is about to be reported lost.
            drop(writer.send(text));
        }
    }
}

/// The storage, off the task that must not block.
struct Keeper {
    /// `None` only while it is at work.
    storage: Option<Box<dyn Storage>>,
    /// What could not be written; it goes along with the next write.
    unsaved: Vec<Change>,
}

impl Keeper {
    /// Refuses them if they can't be written.
    async fn save(&mut self, changes: Vec<Change>) -> Result<(), Error> {
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
    async fn save_later(&mut self, changes: Vec<Change>) {
        let mut all = std::mem::take(&mut self.unsaved);
        all.extend(changes);
        let (all, written) = self.write(all).await;
        if written.is_err() {
            self.unsaved = all;
        }
    }

    async fn write(&mut self, changes: Vec<Change>) -> (Vec<Change>, io::Result<()>) {
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
