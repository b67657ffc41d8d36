//! The client's state, independent of connections: the outbox, the received entries and the outstanding requests.
//!
//! This module has no I/O and reads no clock. Its inputs are frames, calls of the app and the time; its results are
//! changes of the storage and [`Output`]s to carry out. Four rules explain most of the code:
//!
//! * A request stays in `asked` until the server replies, and the client repeats it unchanged after a timeout. Every
//!   action of the protocol may be repeated, so a lost reply needs no extra code.
//! * An entry waits in its conversation's buffer until all earlier entries have come. The app then gets it once, in the
//!   order of `seq`.
//! * Only the oldest message to each conversation is on its way. The server could store two concurrent messages in the
//!   wrong order.
//! * An entry is saved, and so acknowledged, once the app has finished with it. After a crash, an unfinished entry
//!   comes again.
//!
//! The web client's session works in the same way, and both pass the scripts in conformance/.

mod calls;
mod catch_up;
mod conversations;
mod links;
mod outbox;
mod own_entries;
mod reading;
mod reports;
mod requests;
mod typing;
mod uploads;
mod waiting;
mod watching;

use std::time::Duration;

use wire::{ClientMsgId, Reply, ServerEvent, ServerFrame, UserId};

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

use crate::media::Put;
use crate::saved::{Queued, Saved, StorageChange};
use crate::{Error, Event, Moment, ReceiptKind, State, Stats, Timing, TokenNeed};

/// One connection, dialled or open. Later ones have higher numbers.
pub type LinkId = u64;

/// The number that the caller gives to a request of the app, and that its answer has.
pub type AskId = u64;

/// Something to do, in this order, once the changes are saved: see [`Session::take_changes`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are events, and none is kept")]
pub enum Output {
    /// Open a connection.
    Dial {
        /// Its number.
        link: LinkId,
        /// The token that it takes.
        need: TokenNeed,
    },
    /// Send a frame.
    Frame {
        /// On this connection.
        link: LinkId,
        /// The frame.
        text: String,
    },
    /// Close a connection, or stop opening it.
    Close {
        /// Its number.
        link: LinkId,
    },
    /// Give the app an event.
    Event(Event),
    /// Give the app the answer to a request.
    Answer {
        /// The request.
        ask: AskId,
        /// The reply's result, or the reason why there is none.
        result: Result<Reply, Error>,
    },
    /// Upload bytes of a message's file.
    Put {
        /// The message.
        client_msg_id: ClientMsgId,
        /// The bytes, and where they go.
        put: Put,
    },
    /// Stop the uploads of this message.
    Abort {
        /// The message.
        client_msg_id: ClientMsgId,
    },
}

/// A client's state, independent of connections. Each method is an input; [`take_changes`](Self::take_changes) and
/// [`take_outputs`](Self::take_outputs) return what follows from it.
pub struct Session {
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
    /// Continues from what an earlier run saved, and dials at the first tick. `seed` decides the random waits.
    pub fn new(me: UserId, timing: Timing, saved: Saved, seed: u64, now: Moment) -> Self {
        Self {
            me,
            timing,
            rng: fastrand::Rng::with_seed(seed),
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
    pub fn received(&mut self, link: LinkId, text: &str, now: Moment) {
        let frame = read_frame(text);
        self.frame_arrived(link, is_service(&frame), now);
        match frame {
            ServerFrame::Reply { id, result } => self.answered(id.as_deref(), result, now),
            ServerFrame::Error { error, .. } if error.code == "token_expired" => self.token_expired(link, now),
            ServerFrame::Error { id, error } => self.refused(id.as_deref(), error, now),
            ServerFrame::Event(event) => self.on_event(link, event, now),
            // This frame does not name its request, so all of them are repeated.
            ServerFrame::Gateway => self.retry_all_soon(link, now),
            ServerFrame::Unknown => {}
        }
        self.send_due(now);
    }

    fn on_event(&mut self, link: LinkId, event: ServerEvent, now: Moment) {
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
    pub fn wake(&mut self, now: Moment) {
        self.dial_soon(now);
        self.ping_soon(now);
        self.tick(now);
    }

    /// Returns the app's requests that the server has not stored yet, oldest first.
    pub fn outbox(&self) -> Vec<Queued> {
        self.outbox.waiting()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment) {
        self.close_silent(now);
        self.resend_due(now);
        self.ping_due(now);
        self.send_due(now);
    }

    /// When `tick` has something to do, if nothing else happens before.
    pub fn next_tick(&self) -> Option<Moment> {
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

    /// Reports all marks before the connections are closed, however recent the last report.
    pub fn closing(&mut self, now: Moment) {
        self.reports.flush(now);
        self.send_due(now);
    }

    /// Returns the changes to save before any of the outputs is carried out.
    pub fn take_changes(&mut self) -> Vec<StorageChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns what is to be done now.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Returns the counters of the client.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Sends every request that is due and not under way. Called after every change.
    fn send_due(&mut self, now: Moment) {
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

    fn answer(&mut self, ask: AskId, result: Result<Reply, Error>) {
        self.outputs.push(Output::Answer { ask, result });
    }

    fn save(&mut self, change: StorageChange) {
        self.changes.push(change);
    }
}

/// Returns whether the frame shows that the server works. A server that refuses each request and closes must not be
/// dialled in a tight loop.
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
