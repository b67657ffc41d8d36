//! After a connect: first what is pending, page by page; then, by the chat list, what other devices of this user took
//! meanwhile. And pings, which find what was pushed and did not arrive.

use std::collections::BTreeMap;
use std::time::Instant;

use super::requests::Purpose;
use super::{Session, State};
use crate::Event;
use crate::protocol::{ACK_MARKS_MAX, DrainResult, INBOX_CONVERSATIONS_MAX, Inbox, Mark, Request};
use crate::storage::Change;

pub(super) struct CatchUp {
    stage: Stage,
    drain: Drain,
    /// Something may have become pending that the page on its way was read too early for.
    again: bool,
    ping_at: Option<Instant>,
    /// The server's time, in its own words, up to which nothing is missing.
    since: Option<String>,
    /// What `since` becomes once all is here.
    newest: Option<String>,
    /// Conversations that must have come that far.
    awaited: BTreeMap<String, u64>,
}

#[derive(PartialEq)]
enum Stage {
    Done,
    Draining,
    Listing,
    Repairing,
}

enum Drain {
    Idle,
    Asked,
    /// Shown to the app, and not the last. Once it is done with everything up to here, the next page is asked for with these as
    /// its ack.
    Page(BTreeMap<String, u64>),
}

impl CatchUp {
    pub(super) fn new(since: Option<String>) -> Self {
        Self {
            stage: Stage::Done,
            drain: Drain::Idle,
            again: false,
            ping_at: None,
            since,
            newest: None,
            awaited: BTreeMap::new(),
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.ping_at
    }

    pub(super) fn is_drain_asked(&self) -> bool {
        matches!(self.drain, Drain::Asked)
    }

    /// What is missing of this conversation will never come.
    pub(super) fn give_up(&mut self, conversation_id: &str) {
        self.awaited.remove(conversation_id);
    }

    /// The next drain will carry this as an ack.
    pub(super) fn will_acknowledge(&self, conversation_id: &str, seq: u64) -> bool {
        matches!(&self.drain, Drain::Page(marks) if marks.get(conversation_id).is_some_and(|mark| *mark >= seq))
    }
}

impl Session {
    /// On each new connection, one that replaces another included: what was posted into the old one may be lost.
    pub(super) fn start_catch_up(&mut self, now: Instant) {
        self.catch_up.stage = Stage::Draining;
        self.catch_up.again = true;
        self.catch_up.ping_at = Some(now + self.timing.ping_every);
        self.catch_up.awaited.clear();
    }

    pub(super) fn drain_again(&mut self) {
        self.catch_up.again = true;
    }

    pub(super) fn ping_due(&mut self, now: Instant) {
        if self.catch_up.ping_at.is_some_and(|at| at <= now) {
            self.catch_up.ping_at = Some(now + self.timing.ping_every);
            self.ask(Request::Ping, Purpose::Ping, now);
        }
    }

    /// Asks for the next page, if it is time for one.
    pub(super) fn drain_on(&mut self, now: Instant) {
        let ack = match &self.catch_up.drain {
            Drain::Idle if self.catch_up.again => self.reports.take(),
            Drain::Page(marks) if marks.iter().all(|(id, seq)| self.conversations.held(id) >= *seq) => {
                // What doesn't fit comes again on the next page, and is acknowledged then.
                let marks = marks.iter().take(ACK_MARKS_MAX);
                marks.map(|(id, seq)| Mark { conversation_id: id.clone(), seq: *seq }).collect()
            }
            _ => return,
        };
        self.catch_up.again = false;
        self.catch_up.drain = Drain::Asked;
        self.ask(Request::Drain { ack }, Purpose::Drain, now);
    }

    pub(super) fn drained(&mut self, page: DrainResult, now: Instant) {
        let mut marks = BTreeMap::new();
        for message in page.messages {
            marks.insert(message.conversation_id.clone(), message.seq);
            let missed = !self.links.told_caught_up && message.sender_id != self.me;
            self.arrived_pending(message, missed, now);
        }
        if page.more {
            self.catch_up.drain = Drain::Page(marks);
            return;
        }
        // What is stored from now on is pushed to this connection, so nothing is left to ask for; a busy user would be asking
        // for ever. What the app is done with already has been acknowledged, but perhaps not heard.
        for (id, seq) in marks {
            if self.conversations.held(&id) >= seq {
                self.acknowledge_again(&id);
            }
        }
        self.drain_ended(now);
    }

    fn drain_ended(&mut self, now: Instant) {
        self.catch_up.drain = Drain::Idle;
        if self.catch_up.again {
            return;
        }
        self.close_replaced(now);
        if self.catch_up.stage == Stage::Draining {
            self.catch_up.stage = Stage::Listing;
            self.catch_up.newest = None;
            self.ask_listing(None, now);
        }
    }

    pub(super) fn drain_lost(&mut self, ack: Vec<Mark>, now: Instant) {
        self.catch_up.drain = Drain::Idle;
        self.ack_lost(ack);
        self.start_catch_up(now);
    }

    /// An entry of its ack was refused; the others stand, and so will what a drain without any brings.
    pub(super) fn drain_refused(&mut self, ack: &[Mark], now: Instant) {
        if ack.is_empty() {
            self.drain_ended(now);
        } else {
            self.acknowledged(ack);
            self.catch_up.drain = Drain::Idle;
            self.catch_up.again = true;
        }
    }

    fn ask_listing(&mut self, cursor: Option<String>, now: Instant) {
        let since = self.catch_up.since.as_deref().map(a_minute_before);
        let limit = INBOX_CONVERSATIONS_MAX;
        self.ask(Request::Inbox { limit, cursor, since }, Purpose::Listing, now);
    }

    pub(super) fn listed(&mut self, inbox: Inbox, now: Instant) {
        if self.catch_up.stage != Stage::Listing {
            return;
        }
        for row in inbox.conversations {
            if let Some(last) = &row.last_message
                && self.catch_up.newest.as_ref().is_none_or(|newest| *newest < last.sent_at)
            {
                self.catch_up.newest = Some(last.sent_at.clone());
            }
            if let Some(peer) = row.peer_id.as_ref().filter(|_| row.kind == "direct") {
                self.outbox.learn(peer, &row.conversation_id);
            }
            self.row(&row, now);
            self.catch_up.awaited.insert(row.conversation_id.clone(), row.last_seq);
            self.tell(Event::ConversationChanged(row));
        }
        // The first list can be long. What this device does not know yet need not be compared with anything.
        let enough = self.catch_up.since.is_none()
            && self.conversations.known().all(|id| self.catch_up.awaited.contains_key(id));
        match inbox.next_cursor {
            Some(cursor) if !enough => self.ask_listing(Some(cursor), now),
            _ => self.catch_up.stage = Stage::Repairing,
        }
    }

    pub(super) fn listing_lost(&mut self, now: Instant) {
        if self.catch_up.stage == Stage::Listing {
            self.start_catch_up(now);
        }
    }

    pub(super) fn listing_refused(&mut self) {
        self.catch_up.stage = Stage::Repairing;
    }

    pub(super) fn finish_catch_up(&mut self) {
        if self.catch_up.stage != Stage::Repairing {
            return;
        }
        let CatchUp { awaited, .. } = &mut self.catch_up;
        awaited.retain(|id, seq| self.conversations.held(id) < *seq);
        let shown = awaited.iter().all(|(id, seq)| self.conversations.shown(id) >= *seq);
        // What the app has not finished with must be found again after a crash.
        let held = awaited.is_empty();
        if shown && !self.links.told_caught_up {
            self.tell_state(State::CaughtUp);
        }
        if !held {
            return;
        }
        self.catch_up.stage = Stage::Done;
        if let Some(newest) = self.catch_up.newest.take().filter(|newest| Some(newest) > self.catch_up.since.as_ref()) {
            self.catch_up.since = Some(newest.clone());
            self.save(Change::CaughtUp(newest));
        }
    }
}

/// What is stored at the same time can become visible in another order than that of its times. RFC 3339 allows any offset
/// from UTC, so this needs no calendar: it is a minute earlier where the clock is a minute ahead.
fn a_minute_before(utc: &str) -> String {
    utc.strip_suffix('Z').map_or_else(|| utc.to_owned(), |local| format!("{local}+00:01"))
}
