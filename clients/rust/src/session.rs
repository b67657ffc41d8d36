//! The client's state, independent of connections: what waits, what is held, what must be asked.
//!
//! Nothing here does I/O or looks at a clock: frames, calls of the app and the time are inputs, changes and [`Output`]s are what
//! to do. Four rules explain most of it:
//!
//! * A request stays in `asked` until it is answered, and is sent again, unchanged, when its time is up. Every action of
//!   the protocol may be repeated, so a lost answer needs no code of its own.
//! * Messages wait in their conversation's buffer until everything before them has come, and leave it once, in the order
//!   of their `seq`.
//! * Of the messages to one conversation only the oldest is under way. Two at once could be stored the other way round.
//! * A message is held, and so acknowledged, once the app is done with it: what it had before a crash comes again.
//!
//! The web client's session works in the same way, and both pass the scripts in conformance/.

mod calls;
mod catch_up;
mod conversations;
mod links;
mod outbox;
mod reading;
mod reports;
mod requests;
mod typing;
mod uploads;
mod watching;

use std::fmt;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use wire::{ClientMsgId, ServerEvent, ServerFrame, UserId};

pub(crate) use calls::Call;
use calls::Calls;
use catch_up::CatchUp;
use conversations::Conversations;
use links::Links;
use outbox::Outbox;
use reading::read_frame;
use reports::Reports;
use requests::Requests;
use typing::Typing;
use watching::Watching;

use crate::config::{Timing, TokenNeed};
use crate::media::Put;
use crate::storage::{Queued, Saved, StorageChange};
use crate::{Error, Event, ReceiptKind, State, Stats};

/// One connection, dialled or open. Later ones have higher numbers.
pub(crate) type LinkId = u64;

/// Where the app waits for an answer.
pub(crate) type Waiter<T> = oneshot::Sender<Result<T, Error>>;

/// Something to do, in this order, once the changes are saved: see [`Session::take_changes`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are events, and none is kept")]
pub(crate) enum Output {
    Dial {
        link: LinkId,
        need: TokenNeed,
    },
    Frame {
        link: LinkId,
        text: String,
    },
    Close {
        link: LinkId,
    },
    Event(Event),
    Complete(Completion),
    Put {
        client_msg_id: ClientMsgId,
        put: Put,
    },
    /// What is put for this message need not go on.
    Abort {
        client_msg_id: ClientMsgId,
    },
}

/// An answer on its way to the app that waits for it.
pub(crate) struct Completion(Box<dyn FnOnce() + Send>);

impl Completion {
    fn new<T: Send + 'static>(waiter: Waiter<T>, answer: Result<T, Error>) -> Self {
        Self(Box::new(move || {
            // An app that does not wait any more needs no answer.
            let _ = waiter.send(answer);
        }))
    }

    pub(crate) fn tell(self) {
        (self.0)();
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

pub(crate) struct Session {
    me: UserId,
    timing: Timing,
    rng: fastrand::Rng,
    links: Links,
    requests: Requests,
    calls: Calls,
    outbox: Outbox,
    conversations: Conversations,
    catch_up: CatchUp,
    reports: Reports,
    typing: Typing,
    watching: Watching,
    stats: Stats,
    changes: Vec<StorageChange>,
    outputs: Vec<Output>,
}

impl Session {
    /// Dials at its first tick.
    pub(crate) fn new(me: UserId, timing: Timing, saved: Saved, rng: fastrand::Rng, now: Instant) -> Self {
        Self {
            me,
            timing,
            rng,
            links: Links::new(now),
            requests: Requests::default(),
            calls: Calls::default(),
            outbox: Outbox::new(saved.outbox),
            conversations: Conversations::new(saved.held),
            catch_up: CatchUp::new(saved.caught_up),
            reports: Reports::default(),
            typing: Typing::default(),
            watching: Watching::default(),
            stats: Stats::default(),
            changes: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// A frame, from a connection that is open or was until now.
    pub(crate) fn received(&mut self, link: LinkId, text: &str, now: Instant) {
        let frame = read_frame(text);
        self.frame_arrived(link, is_service(&frame), now);
        match frame {
            ServerFrame::Reply { id, result } => self.answered(id.as_deref(), result, now),
            ServerFrame::Error { error, .. } if error.code == "token_expired" => self.token_expired(link, now),
            ServerFrame::Error { id, error } => self.refused(id.as_deref(), error, now),
            ServerFrame::Event(event) => self.on_event(link, event, now),
            // It does not say which request it is about.
            ServerFrame::Gateway => self.retry_all_soon(link, now),
            ServerFrame::Unknown => {}
        }
        self.send_due(now);
    }

    fn on_event(&mut self, link: LinkId, event: ServerEvent, now: Instant) {
        match event {
            ServerEvent::MessagesNew { messages, .. } => {
                for message in messages {
                    if message.conversation_id.is_channel() {
                        self.channel_entry(message, now);
                    } else {
                        self.arrived(message, false, now);
                    }
                }
            }
            ServerEvent::ReceiptDelivered(receipt) => {
                self.tell(Event::Receipt { kind: ReceiptKind::Delivered, receipt });
            }
            ServerEvent::ReceiptRead(receipt) => self.tell(Event::Receipt { kind: ReceiptKind::Read, receipt }),
            ServerEvent::Settings(settings) => self.tell(Event::SettingsChanged(settings)),
            ServerEvent::Typing { conversation_id, user_id, at } => {
                self.tell(Event::Typing { conversation_id, user_id, at });
            }
            ServerEvent::ConnectionReplaced {} => self.connection_replaced(link, now),
        }
    }

    /// Reconnects that wait are tried now: the network has changed, or the app is in the foreground again.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.dial_soon(now);
        self.ping_soon(now);
        self.tick(now);
    }

    /// What the app has sent and the server has not stored yet, oldest first.
    pub(crate) fn outbox(&self) -> Vec<Queued> {
        self.outbox.waiting()
    }

    pub(crate) fn tick(&mut self, now: Instant) {
        self.close_silent(now);
        self.resend_due(now);
        self.ping_due(now);
        self.send_due(now);
    }

    /// When `tick` has something to do, if nothing else happens before.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        if self.links.current().is_none() {
            return self.links.next_dial();
        }
        [
            self.links.next_dial(),
            self.links.next_silence(&self.requests, self.timing.silence_max),
            self.requests.next_retry(),
            self.catch_up.next(),
            self.reports.next(),
            self.next_repair(),
            self.watching.next(),
            self.next_upload(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Before the connections are closed: what is held and read is reported, however recent the last report.
    pub(crate) fn closing(&mut self, now: Instant) {
        self.reports.flush(now);
        self.send_due(now);
    }

    /// What to remember, before any of the outputs is carried out.
    pub(crate) fn take_changes(&mut self) -> Vec<StorageChange> {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    /// Sends every request that is due and not under way. Called after every change.
    fn send_due(&mut self, now: Instant) {
        self.dial_due(now);
        if self.links.current().is_none() {
            return;
        }
        self.ask_calls(now);
        self.uploads_due(now);
        self.send_waiting(now);
        self.drain_on(now);
        self.report(now);
        self.watch_due(now);
        self.repair_due(now);
        self.finish_catch_up();
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push(Output::Event(event));
    }

    fn tell_state(&mut self, state: State) {
        self.links.told_caught_up = state == State::CaughtUp;
        self.tell(Event::State(state));
    }

    fn answer<T: Send + 'static>(&mut self, waiter: Waiter<T>, answer: Result<T, Error>) {
        self.outputs.push(Output::Complete(Completion::new(waiter, answer)));
    }

    fn save(&mut self, change: StorageChange) {
        self.changes.push(change);
    }
}

/// Whether the server serves. One that only refuses, before it closes the connection, must not be dialled in a tight loop.
fn is_service(frame: &ServerFrame) -> bool {
    match frame {
        ServerFrame::Error { error, .. } => error.code != "token_expired",
        ServerFrame::Reply { .. } | ServerFrame::Event(_) | ServerFrame::Unknown => true,
        ServerFrame::Gateway => false,
    }
}

/// Full jitter: at random between 0 and a maximum that doubles with each attempt.
fn jitter(rng: &mut fastrand::Rng, first: Duration, max: Duration, attempt: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempt)).min(max).mul_f64(rng.f64())
}

#[cfg(test)]
pub(crate) mod conformance;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod model;
