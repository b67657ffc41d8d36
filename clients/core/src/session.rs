//! The client's state, independent of connections: the outbox, the received entries and the outstanding requests.
//!
//! This module has no I/O and reads no clock. A [`turn`](Core::turn) takes [`Input`]s and the time, and returns writes of
//! the store and [`Output`]s. Four rules explain most of the code:
//!
//! * A request stays in `asked` until the server replies, and the client repeats it unchanged after a timeout. Every
//!   action of the protocol may be repeated, so a lost reply needs no extra code.
//! * An entry waits in its conversation's buffer until all earlier entries have come. The app then gets it once, in the
//!   order of `seq`.
//! * Only the oldest message to each conversation is on its way. The server could store two concurrent messages in the
//!   wrong order.
//! * The client acknowledges an entry once the store or the app keeps it. A store is committed before the acknowledgement
//!   leaves. An app reports that it has finished with the entry.
//!
//! The web client's session works in the same way, and both pass the scripts in conformance/.

mod calls;
mod catch_up;
mod conversations;
mod links;
mod outbox;
mod own_entries;
mod presence;
mod reading;
mod reports;
mod requests;
mod typing;
mod uploads;
mod waiting;
mod watching;

use std::mem;
use std::time::Duration;

use wire::{Message, Reply, ServerEvent, ServerFrame, UserId};

use calls::Calls;
use catch_up::CatchUp;
use conversations::Conversations;
use links::Links;
use outbox::Outbox;
use presence::Presences;
use reading::read_frame;
use reports::Reports;
use requests::Requests;
use typing::Typing;
use watching::Watching;

use crate::media::PutNews;
use crate::saved::{Queued, StorageChange};
use crate::turn::{Ask, AskId, Input, Keeper, LinkId, Output, Setup, Step};
use crate::{Error, Event, Moment, ReceiptKind, State, Stats, Timing, Write};

/// The state machine of a client. Each [`turn`](Self::turn) takes inputs and returns what follows from them.
pub struct Core {
    me: UserId,
    timing: Timing,
    keeper: Keeper,
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
    presences: Presences,
    stats: Stats,
    // The result of the current turn.
    writes: Vec<Write>,
    lasting: bool,
    outputs: Vec<Output>,
}

impl Core {
    /// Continues from what an earlier run saved. The first turn dials. `seed` decides the random waits.
    pub fn new(setup: Setup, seed: u64) -> Self {
        let Setup { me, timing, keeper, saved } = setup;
        Self {
            me,
            timing,
            keeper,
            rng: fastrand::Rng::with_seed(seed),
            links: Links::default(),
            requests: Requests::default(),
            calls: Calls::default(),
            outbox: Outbox::new(saved.outbox),
            conversations: Conversations::new(saved.held),
            catch_up: CatchUp::new(saved.caught_up),
            reports: Reports::default(),
            typing: Typing::default(),
            watching: Watching::default(),
            presences: Presences::default(),
            stats: Stats::default(),
            writes: Vec::new(),
            lasting: false,
            outputs: Vec::new(),
        }
    }

    /// Takes the inputs in their order, and does what is due. Without an input, a turn does what its time has come for.
    /// `now` is never before the time of the last turn.
    pub fn turn(&mut self, inputs: Vec<Input>, now: Moment) -> Step {
        for input in inputs {
            self.take(input, now);
        }
        self.close_silent(now);
        self.resend_due(now);
        self.ping_due(now);
        self.send_due(now);
        Step {
            writes: mem::take(&mut self.writes),
            lasting: mem::take(&mut self.lasting),
            outputs: mem::take(&mut self.outputs),
            wake_at: self.wake_at(),
        }
    }

    fn take(&mut self, input: Input, now: Moment) {
        match input {
            Input::Opened { link, token_left } => self.opened(link, token_left, now),
            Input::Ended { link, why } => self.ended(link, why, now),
            Input::Frame { link, text } => self.received(link, &text, now),
            Input::Wake => {
                self.dial_soon(now);
                self.ping_soon(now);
            }
            Input::Closing => self.reports.flush(now),
            Input::Put { client_msg_id, news: PutNews::Sent(bytes) } => self.put_progress(&client_msg_id, bytes),
            Input::Put { client_msg_id, news: PutNews::Ended(end) } => self.put_ended(&client_msg_id, end, now),
            Input::Ask { ask, what } => match what {
                Ask::Question(action) => self.call(action, ask),
                Ask::Keep(queued) => self.keep(queued, ask),
                Ask::Read { conversation_id, seq } => self.read(&conversation_id, seq, ask),
                Ask::Watch { conversation_id, after } => self.watch(&conversation_id, after, ask, now),
                Ask::Cancel(client_msg_id) => {
                    let in_time = self.cancel(&client_msg_id);
                    self.outputs.push(Output::Cancelled { ask, in_time });
                }
            },
            Input::Handled { conversation_id, seq } => {
                if self.keeper == Keeper::App {
                    self.held(&conversation_id, seq);
                }
            }
            Input::Typing(conversation_id) => self.typing(conversation_id, now),
            Input::Unwatch(conversation_id) => self.unwatch(&conversation_id),
        }
    }

    fn received(&mut self, link: LinkId, text: &str, now: Moment) {
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
            ServerEvent::Presence(presence) => self.tell(Event::PresenceChanged(presence)),
            ServerEvent::ConnectionReplaced {} => self.connection_replaced(link, now),
        }
    }

    /// Returns the app's requests that the server has not stored yet, oldest first.
    pub fn outbox(&self) -> Vec<Queued> {
        self.outbox.waiting()
    }

    /// Returns the counters of the client.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn wake_at(&self) -> Option<Moment> {
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
            self.presences.next(),
            self.next_upload(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Sends every request that is due and not under way.
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
        self.presence_due(now);
        self.repair_due(now);
        self.finish_catch_up();
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push(Output::Tell(event));
    }

    /// The next entry for the app.
    fn hand_over(&mut self, message: Message, missed: bool) {
        self.store(|| Write::Entry(message.clone()));
        self.tell(Event::Message { message, missed });
    }

    fn tell_state(&mut self, state: State) {
        self.links.told_caught_up = state == State::CaughtUp;
        self.tell(Event::State(state));
    }

    fn answer(&mut self, ask: AskId, result: Result<Reply, Error>) {
        self.outputs.push(Output::Answer { ask, result });
    }

    fn save(&mut self, change: StorageChange) {
        // The attachment is part of a message's identity: with another id it would be another message.
        self.lasting |= matches!(change, StorageChange::Queued(_) | StorageChange::Uploading { media_id: Some(_), .. });
        self.writes.push(Write::Change(change));
    }

    /// Writes what the store has beyond the session's own data.
    fn store(&mut self, write: impl FnOnce() -> Write) {
        if self.keeper == Keeper::Store {
            self.writes.push(write());
        }
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
