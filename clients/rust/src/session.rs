//! The client's state, whatever connections carry it: what waits, what is held, what must be asked.
//!
//! Nothing here does I/O or looks at a clock. In go frames, calls of the app and the time; out come [`Output`]s. Four rules
//! carry most of it:
//!
//! * A request stays in `asked` until it is answered, and is sent again, unchanged, when its time is up. Every action of
//!   the protocol may be repeated, so no lost answer needs a case of its own.
//! * Messages wait in their conversation's buffer until everything before them has come, and leave it once, in the order
//!   of their `seq`.
//! * Of the messages to one conversation only the oldest is under way. Two at once could be stored the other way round.
//! * A message is held, and so acknowledged, once the app is done with it: what it had before a crash comes again.

mod calls;
mod catch_up;
mod conversations;
mod links;
mod outbox;
mod reports;
mod requests;

use std::time::{Duration, Instant};

use calls::Calls;
use catch_up::CatchUp;
use conversations::Conversations;
use links::Links;
use outbox::Outbox;
use reports::Reports;
use requests::Requests;

use crate::config::{Timing, TokenNeed};
use crate::protocol::{Frame, History, Inbox, Stored};
use crate::storage::{Change, Saved};
use crate::{Error, Event, State, Stats};

/// One connection, dialled or open. Later ones have higher numbers.
pub(crate) type LinkId = u64;

/// Something that the app waits for.
pub(crate) type Ticket = u64;

#[derive(Debug, PartialEq)]
pub(crate) enum Output {
    Dial { link: LinkId, need: TokenNeed },
    Frame { link: LinkId, text: String },
    Close { link: LinkId },
    Event(Event),
    Save(Change),
    Answer { ticket: Ticket, answer: Result<Answer, Error> },
}

/// What the app waited for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Stored(Stored),
    Unread(u64),
    Inbox(Inbox),
    History(History),
}

pub(crate) struct Session {
    me: String,
    timing: Timing,
    rng: fastrand::Rng,
    links: Links,
    requests: Requests,
    calls: Calls,
    outbox: Outbox,
    conversations: Conversations,
    catch_up: CatchUp,
    reports: Reports,
    stats: Stats,
    outputs: Vec<Output>,
}

impl Session {
    /// Dials at its first tick.
    pub(crate) fn new(me: &str, timing: Timing, saved: Saved, rng: fastrand::Rng, now: Instant) -> Self {
        Self {
            me: me.to_owned(),
            timing,
            rng,
            links: Links::new(now),
            requests: Requests::default(),
            calls: Calls::default(),
            outbox: Outbox::new(saved.outbox),
            conversations: Conversations::new(saved.held),
            catch_up: CatchUp::new(saved.caught_up),
            reports: Reports::default(),
            stats: Stats::default(),
            outputs: Vec::new(),
        }
    }

    /// A frame, from a connection that is open or was until now.
    pub(crate) fn received(&mut self, link: LinkId, text: &str, now: Instant) {
        self.heard(link, now);
        match Frame::parse(text) {
            Some(Frame::Reply { id, result }) => self.answered(id.as_deref(), result, now),
            Some(Frame::Error { error, .. }) if error.code == "token_expired" => self.token_expired(link, now),
            Some(Frame::Error { id, error }) => self.refused(id.as_deref(), error, now),
            Some(Frame::MessageNew { message }) => self.pushed(message, now),
            Some(Frame::Delivered(receipt)) => self.receipt(receipt, false),
            Some(Frame::Read(receipt)) => self.receipt(receipt, true),
            Some(Frame::Unknown) => {}
            // The gateway's own error doesn't say which request it is about.
            None => self.retry_all_soon(link, now),
        }
        self.settle(now);
    }

    pub(crate) fn tick(&mut self, now: Instant) {
        self.bury_silent(now);
        self.resend_due(now);
        self.ping_due(now);
        self.settle(now);
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
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The last word before the connections are closed: what is held and read is reported, however recent the last report.
    pub(crate) fn leaving(&mut self, now: Instant) {
        self.reports.hurry(now);
        self.settle(now);
    }

    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.stats
    }

    /// Asks for whatever the state calls for and is not under way. Called after every change.
    fn settle(&mut self, now: Instant) {
        self.dial_due(now);
        if self.links.current().is_none() {
            return;
        }
        self.ask_calls(now);
        self.send_waiting(now);
        self.drain_on(now);
        self.report(now);
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

    fn answer(&mut self, ticket: Option<Ticket>, answer: Result<Answer, Error>) {
        if let Some(ticket) = ticket {
            self.outputs.push(Output::Answer { ticket, answer });
        }
    }

    fn save(&mut self, change: Change) {
        self.outputs.push(Output::Save(change));
    }
}

/// Full jitter: anything from nothing to the ceiling, which doubles with each attempt.
fn jitter(rng: &mut fastrand::Rng, first: Duration, max: Duration, attempt: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempt)).min(max).mul_f64(rng.f64())
}

#[cfg(test)]
mod conformance;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod model;
