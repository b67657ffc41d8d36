//! Runs the turns of a [`Core`]: commits the writes, and then carries out the outputs.
//!
//! One task runs the turns, and one task per connection dials and then copies frames in both directions.

use std::collections::BTreeMap;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use pigeonhole_core::chat::{Load, LoadId, Shown, ViewId, ViewOf};
use pigeonhole_core::{
    Ask, AskId, Carry, CarryId, Core, Input, Keyring, LinkId, Moment, Output, Put, PutEnd, PutNews, Queued, Step,
};
use pigeonhole_store::TIDY_AFTER;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use wire::{ClientMsgId, Reply};

use crate::clock::{now, time_of_day};
use crate::dial::{Dialer, Up, run_link};
use crate::kept::Kept;
use crate::{Error, Event, State, Stats, Why};

/// While nothing has to be done at any known time.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// A turn takes up to this number of inputs, which share one transaction.
const INPUTS_MAX: usize = 256;

/// The channel on which the app waits for a reply.
pub(crate) type Waiter = oneshot::Sender<Result<Reply, Error>>;

/// Gives the content of a view to the app.
pub(crate) type Show = Box<dyn Fn(Shown) + Send + Sync>;

/// Reads the keys of the encryption, if the client has one.
pub(crate) type ReadKeys = Box<dyn FnOnce(Option<&Keyring>) + Send>;

/// A command from the app to the task.
pub(crate) enum Command {
    Keep {
        queued: Queued,
        kept_tx: oneshot::Sender<Result<(), Error>>,
        stored_tx: Waiter,
    },
    Ask {
        what: Ask,
        reply_tx: Waiter,
    },
    Cancel {
        client_msg_id: ClientMsgId,
        cancelled_tx: oneshot::Sender<bool>,
    },
    Input(Input),
    /// `show` draws the content of the view, whenever it changes.
    Open {
        view: ViewId,
        of: ViewOf,
        show: Show,
    },
    /// Reads the keys of the encryption.
    Keyring(ReadKeys),
    Outbox {
        outbox_tx: oneshot::Sender<Vec<Queued>>,
    },
    Close {
        closed_tx: oneshot::Sender<()>,
    },
}

pub(crate) struct Driver {
    pub core: Core,
    pub kept: Kept,
    pub messages_max: usize,
    pub dialer: Arc<Dialer>,
    pub command_rx: UnboundedReceiver<Command>,
    pub event_tx: UnboundedSender<Event>,
    pub stats_tx: watch::Sender<Stats>,
}

impl Driver {
    /// Until the app closes the client, or drops it.
    pub(crate) async fn run(self) {
        let Self { core, kept, messages_max, dialer, command_rx, event_tx, stats_tx } = self;
        let (input_tx, input_rx) = unbounded_channel();
        let puts = Puts::new(input_tx.clone());
        let has_http = dialer.poster.is_some();
        let links = Links { dialer, open: BTreeMap::new(), tasks: JoinSet::new(), input_tx };
        let running = Running {
            core,
            kept,
            messages_max,
            is_untidy: true,
            links,
            puts,
            inputs: has_http.then_some(Input::Http).into_iter().collect(),
            wake_at: None,
            stuck: None,
            waiting: Waiting::default(),
            views: BTreeMap::new(),
            event_tx,
            stats_tx,
            leaving: None,
        };
        running.run(command_rx, input_rx).await;
    }
}

struct Running {
    core: Core,
    kept: Kept,
    messages_max: usize,
    /// The store has been written since it was last tidied.
    is_untidy: bool,
    links: Links,
    puts: Puts,
    /// The inputs of the next turn.
    inputs: Vec<Input>,
    wake_at: Option<Moment>,
    stuck: Option<Stuck>,
    waiting: Waiting,
    views: BTreeMap<ViewId, Show>,
    event_tx: UnboundedSender<Event>,
    stats_tx: watch::Sender<Stats>,
    leaving: Option<oneshot::Sender<()>>,
}

/// A turn that could not be committed. No other turn begins before the same transaction has succeeded.
struct Stuck {
    step: Step,
    error: Error,
    tries: u32,
    retry_at: Moment,
    /// The connections that were closed because nothing reads them.
    closed: Vec<LinkId>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kept.close();
    }
}

impl Running {
    async fn run(mut self, mut command_rx: UnboundedReceiver<Command>, mut input_rx: UnboundedReceiver<Input>) {
        loop {
            self.turn().await;
            if self.leaving.is_some() {
                break;
            }
            let wake_at = self.stuck.as_ref().map_or(self.wake_at, |stuck| Some(stuck.retry_at));
            let idle = if self.is_untidy { TIDY_AFTER } else { IDLE };
            let wait = wake_at.map_or(idle, |at| at - now()).min(idle);
            tokio::select! {
                command = command_rx.recv() => {
                    let Some(command) = command else { break };
                    self.on_command(command);
                    while self.inputs.len() < INPUTS_MAX && let Ok(command) = command_rx.try_recv() {
                        self.on_command(command);
                    }
                }
                Some(input) = input_rx.recv() => {
                    self.on_input(input);
                    while self.inputs.len() < INPUTS_MAX && let Ok(input) = input_rx.try_recv() {
                        self.on_input(input);
                    }
                }
                () = sleep(wait) => self.tidy().await,
            }
        }
        self.leave().await;
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Keep { queued, kept_tx, stored_tx } => {
                if let Some(Stuck { error, .. }) = &self.stuck {
                    // The app need not wait for this answer.
                    let _ = kept_tx.send(Err(error.clone()));
                    return;
                }
                self.waiting.kept.push(kept_tx);
                let ask = self.waiting.add(stored_tx);
                self.inputs.push(Input::Ask { ask, what: Ask::Keep(queued) });
            }
            Command::Ask { what, reply_tx } => {
                let ask = self.waiting.add(reply_tx);
                self.inputs.push(Input::Ask { ask, what });
            }
            Command::Cancel { client_msg_id, cancelled_tx } => {
                let ask = self.waiting.next();
                self.waiting.cancels.insert(ask, cancelled_tx);
                self.inputs.push(Input::Ask { ask, what: Ask::Cancel(client_msg_id) });
            }
            Command::Input(input) => {
                if let Input::Close(view) = &input {
                    self.views.remove(view);
                }
                self.inputs.push(input);
            }
            Command::Open { view, of, show } => {
                self.views.insert(view, show);
                self.inputs.push(Input::Open { view, of });
            }
            Command::Keyring(read) => read(self.core.keyring()),
            Command::Outbox { outbox_tx } => {
                // An app that no longer waits does not need it.
                let _ = outbox_tx.send(self.core.outbox());
            }
            Command::Close { closed_tx } => self.leaving = Some(closed_tx),
        }
    }

    fn on_input(&mut self, input: Input) {
        if let Input::Ended { link, .. } = &input {
            self.links.open.remove(link);
        }
        self.inputs.push(input);
    }

    async fn turn(&mut self) {
        match self.stuck.take() {
            Some(stuck) if stuck.retry_at > now() && self.leaving.is_none() => self.stuck = Some(stuck),
            Some(stuck) => self.commit(stuck.step, stuck.tries, stuck.closed).await,
            None => {
                let step = self.core.turn(mem::take(&mut self.inputs), now(), time_of_day());
                self.commit(step, 0, Vec::new()).await;
            }
        }
    }

    /// Commits first: the client sends, acknowledges and reports nothing that the store does not have.
    async fn commit(&mut self, step: Step, tries: u32, mut closed: Vec<LinkId>) {
        let (step, committed) = self.write(step).await;
        if let Err(error) = committed {
            let timing = &self.links.dialer.timing;
            let pause = timing.reconnect_first.saturating_mul(2_u32.saturating_pow(tries)).min(timing.reconnect_max);
            let retry_at = now() + pause;
            closed.extend(mem::take(&mut self.links.open).into_keys());
            let why = Why::Store(cause_of(&error));
            // The app need not listen.
            let _ = self.event_tx.send(Event::State(State::Offline { why, retry_at }));
            self.stuck = Some(Stuck { step, error, tries: tries.saturating_add(1), retry_at, closed });
            return;
        }
        self.is_untidy |= !step.writes.is_empty();
        for kept_tx in mem::take(&mut self.waiting.kept) {
            // An app that no longer waits has sent the message all the same.
            let _ = kept_tx.send(Ok(()));
        }
        self.wake_at = step.wake_at;
        self.stats_tx.send_if_modified(|stats| mem::replace(stats, self.core.stats()) != self.core.stats());
        for output in step.outputs {
            self.carry_out(output);
        }
        if !closed.is_empty() {
            let ended = closed.into_iter().map(|link| Input::Ended { link, why: Why::Lost("the store failed".into()) });
            self.inputs.splice(0..0, ended);
            self.wake_at = Some(now());
        }
    }

    /// Removes what the store need not keep, a part at a time, outside the task.
    async fn tidy(&mut self) {
        if self.is_untidy && self.stuck.is_none() {
            let (kept, messages_max) = (self.kept.clone(), self.messages_max);
            // After an error, the next write finds it too.
            self.is_untidy = matches!(spawn_blocking(move || kept.tidy(messages_max)).await, Ok(Ok(true)));
        }
    }

    /// Writes outside the task, which must not block.
    async fn write(&self, step: Step) -> (Step, Result<(), Error>) {
        if step.writes.is_empty() && !step.lasting {
            return (step, Ok(()));
        }
        let kept = self.kept.clone();
        let committed = spawn_blocking(move || {
            let committed = kept.commit(&step.writes, step.lasting);
            (step, committed)
        });
        match committed.await {
            Ok(committed) => committed,
            // A mistake in the store: a repetition would end in the same way, so the client ends.
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Dial { link, need } => self.links.dial(link, need),
            Output::Send { link, text } => self.links.put_out(link, Up::Frame(text)),
            Output::Post { link, request, action, text } => {
                self.links.put_out(link, Up::Post { request, action, text });
            }
            // Without the sender, the connection's task closes it.
            Output::Close { link } => {
                self.links.open.remove(&link);
            }
            Output::Put { client_msg_id, put } => self.puts.begin(client_msg_id, put),
            Output::Abort { client_msg_id } => self.puts.end(&client_msg_id),
            Output::Carry { carry, what } => self.puts.carry(carry, what),
            Output::Answer { ask, result } => self.waiting.answer(ask, result),
            Output::Cancelled { ask, in_time } => self.waiting.cancelled(ask, in_time),
            Output::Tell(event) => {
                // The app need not listen.
                let _ = self.event_tx.send(event);
            }
            Output::Load { load, what } => self.load(load, what),
            Output::Show { view, shown } => {
                if let Some(show) = self.views.get(&view) {
                    show(shown);
                }
            }
        }
    }

    /// Reads the store outside the task, which must not block.
    fn load(&self, load: LoadId, what: Load) {
        let (kept, input_tx) = (self.kept.clone(), self.links.input_tx.clone());
        tokio::spawn(async move {
            let found = Box::new(kept.load(what).await);
            // If the client has ended, the receiver is gone.
            let _ = input_tx.send(Input::Loaded { load, found });
        });
    }

    async fn leave(mut self) {
        if self.stuck.is_none() {
            self.inputs.push(Input::Closing);
            self.turn().await;
        }
        let close_wait = self.links.dialer.timing.close_wait;
        self.links.open.clear();
        let tasks = &mut self.links.tasks;
        // A task that has not ended by then is ended by being dropped.
        let _ = timeout(close_wait, async { while tasks.join_next().await.is_some() {} }).await;
        if let Some(closed_tx) = self.leaving.take() {
            // The file is free again before the app learns that the client is closed.
            drop(self);
            let _ = closed_tx.send(());
        }
    }
}

fn cause_of(error: &Error) -> String {
    match error {
        Error::Storage(cause) => cause.to_string(),
        error => error.to_string(),
    }
}

/// The requests of the app that wait for their answers.
#[derive(Default)]
struct Waiting {
    all: BTreeMap<AskId, Waiter>,
    cancels: BTreeMap<AskId, oneshot::Sender<bool>>,
    /// The requests for the outbox in the next commit.
    kept: Vec<oneshot::Sender<Result<(), Error>>>,
    last: AskId,
}

impl Waiting {
    fn next(&mut self) -> AskId {
        self.last += 1;
        self.last
    }

    fn add(&mut self, waiter: Waiter) -> AskId {
        let ask = self.next();
        self.all.insert(ask, waiter);
        ask
    }

    fn answer(&mut self, ask: AskId, result: Result<Reply, Error>) {
        if let Some(waiter) = self.all.remove(&ask) {
            // An app that no longer waits needs no reply.
            let _ = waiter.send(result);
        }
    }

    fn cancelled(&mut self, ask: AskId, in_time: bool) {
        if let Some(cancelled_tx) = self.cancels.remove(&ask) {
            let _ = cancelled_tx.send(in_time);
        }
    }
}

struct Links {
    dialer: Arc<Dialer>,
    /// Where frames and requests go in, for each connection that is open or being opened.
    open: BTreeMap<LinkId, UnboundedSender<Up>>,
    tasks: JoinSet<()>,
    input_tx: UnboundedSender<Input>,
}

impl Links {
    fn dial(&mut self, link: LinkId, need: crate::TokenNeed) {
        while self.tasks.try_join_next().is_some() {}
        let (up_tx, up_rx) = unbounded_channel();
        self.open.insert(link, up_tx);
        self.tasks.spawn(run_link(Arc::clone(&self.dialer), link, need, up_rx, self.input_tx.clone()));
    }

    fn put_out(&self, link: LinkId, up: Up) {
        if let Some(up_tx) = self.open.get(&link) {
            // If its task has ended, the connection is about to be reported lost.
            let _ = up_tx.send(up);
        }
    }
}

/// Uploads in progress. Dropping this value ends them.
struct Puts {
    input_tx: UnboundedSender<Input>,
    /// `None` until something is put: it can't be made where there are no certificates, and text needs none.
    #[cfg(feature = "media")]
    http: Option<reqwest::Client>,
    #[cfg(feature = "media")]
    tasks: JoinSet<()>,
    under_way: BTreeMap<ClientMsgId, AbortHandle>,
}

impl Puts {
    #[cfg(feature = "media")]
    fn new(input_tx: UnboundedSender<Input>) -> Self {
        Self { input_tx, http: None, tasks: JoinSet::new(), under_way: BTreeMap::new() }
    }

    #[cfg(feature = "media")]
    fn begin(&mut self, client_msg_id: ClientMsgId, put: Put) {
        while self.tasks.try_join_next().is_some() {}
        let Some(http) = self.http.clone().or_else(|| crate::transfer::http().ok()) else {
            return self.report(client_msg_id, PutNews::Ended(PutEnd::Lost));
        };
        self.http = Some(http.clone());
        let (input_tx, id) = (self.input_tx.clone(), client_msg_id.clone());
        let report = move |news| {
            // If the client has ended, the receiver is gone.
            let _ = input_tx.send(Input::Put { client_msg_id: id.clone(), news });
        };
        let progress = report.clone();
        let task = self.tasks.spawn(async move {
            let end = crate::transfer::put(http, put, move |bytes| progress(PutNews::Sent(bytes))).await;
            report(PutNews::Ended(end));
        });
        self.under_way.retain(|_, task| !task.is_finished());
        self.under_way.insert(client_msg_id, task);
    }

    /// Carries a file of the encryption. A client without the feature never has one.
    #[cfg(feature = "media")]
    fn carry(&mut self, carry: CarryId, what: Carry) {
        while self.tasks.try_join_next().is_some() {}
        let http = self.http.clone().or_else(|| crate::transfer::http().ok());
        self.http.clone_from(&http);
        let input_tx = self.input_tx.clone();
        self.tasks.spawn(async move {
            let bytes = match http {
                Some(http) => crate::transfer::carry(http, what).await.ok(),
                None => None,
            };
            // If the client has ended, the receiver is gone.
            let _ = input_tx.send(Input::Carried { carry, bytes });
        });
    }

    #[cfg(not(feature = "media"))]
    fn carry(&mut self, carry: CarryId, _what: Carry) {
        // If the client has ended, the receiver is gone.
        let _ = self.input_tx.send(Input::Carried { carry, bytes: None });
    }

    fn end(&mut self, client_msg_id: &ClientMsgId) {
        if let Some(task) = self.under_way.remove(client_msg_id) {
            task.abort();
        }
    }

    #[cfg(not(feature = "media"))]
    fn new(input_tx: UnboundedSender<Input>) -> Self {
        Self { input_tx, under_way: BTreeMap::new() }
    }

    /// An outbox of a client that had the feature.
    #[cfg(not(feature = "media"))]
    fn begin(&mut self, client_msg_id: ClientMsgId, _put: Put) {
        let end = PutEnd::Unreadable("this client is built without the feature media".to_owned());
        self.report(client_msg_id, PutNews::Ended(end));
    }

    fn report(&self, client_msg_id: ClientMsgId, news: PutNews) {
        // If the client has ended, the receiver is gone.
        let _ = self.input_tx.send(Input::Put { client_msg_id, news });
    }
}
