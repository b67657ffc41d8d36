//! After a connect: first what is pending, page by page; then, by the chat list, what other devices of this user took
//! meanwhile. And pings, which find what was posted and did not arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::limits::{ACK_ENTRIES_MAX, INBOX_LIMIT_MAX};
use wire::{AckEntry, ConversationId, DrainRequest, DrainResult, InboxRequest, InboxResult, Seq, Timestamp};

use super::requests::Errand;
use super::{Core, State};
use crate::saved::StorageChange;
use crate::{Event, Moment, Write};

/// Entries that are stored concurrently can become visible in another order than that of their times.
const SINCE_OVERLAP: Duration = Duration::from_secs(60);

pub(super) struct CatchUp {
    stage: Stage,
    drain: Drain,
    /// Something may have become pending after the page that is on its way was read.
    again: bool,
    ping_at: Option<Moment>,
    /// A ping has no reply yet.
    ping_asked: bool,
    /// The server's time up to which nothing is missing.
    since: Option<Timestamp>,
    /// What `since` becomes once all is here.
    newest: Option<Timestamp>,
    /// How far conversations must have come.
    awaited: BTreeMap<ConversationId, Seq>,
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
    /// A page that the app is processing, and not the last. When the app has finished, the client requests the next
    /// page with these as its ack.
    Page(BTreeMap<ConversationId, Seq>),
}

impl CatchUp {
    pub(super) fn new(since: Option<Timestamp>) -> Self {
        Self {
            stage: Stage::Done,
            drain: Drain::Idle,
            again: false,
            ping_at: None,
            ping_asked: false,
            since,
            newest: None,
            awaited: BTreeMap::new(),
        }
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.ping_at
    }

    pub(super) fn is_drain_asked(&self) -> bool {
        matches!(self.drain, Drain::Asked)
    }

    /// Requests the pending messages when a drain is due.
    pub(super) fn drain_again(&mut self) {
        self.again = true;
    }

    /// Stops waiting for this conversation: its missing entries will never come.
    pub(super) fn give_up(&mut self, conversation_id: &ConversationId) {
        self.awaited.remove(conversation_id);
    }

    /// The next drain will carry this as an ack.
    pub(super) fn will_acknowledge(&self, conversation_id: &ConversationId, seq: Seq) -> bool {
        matches!(&self.drain, Drain::Page(marks) if marks.get(conversation_id).is_some_and(|mark| *mark >= seq))
    }
}

impl Core {
    /// On each new connection, one that replaces another included: what was posted into the old one may be lost.
    pub(super) fn start_catch_up(&mut self, now: Moment) {
        self.catch_up.stage = Stage::Draining;
        self.catch_up.again = true;
        self.catch_up.ping_at = Some(now + self.timing.ping_every);
        self.catch_up.awaited.clear();
    }

    /// Sends a ping now, unless one is unanswered, to check the connection and whether anything is pending.
    pub(super) fn ping_soon(&mut self, now: Moment) {
        if !self.catch_up.ping_asked {
            self.catch_up.ping_at = self.catch_up.ping_at.map(|at| at.min(now));
        }
    }

    pub(super) fn ping_due(&mut self, now: Moment) {
        if self.links.current().is_some() && self.catch_up.ping_at.is_some_and(|at| at <= now) {
            self.catch_up.ping_at = Some(now + self.timing.ping_every);
            self.catch_up.ping_asked = true;
            self.ask(Errand::Ping, now);
        }
    }

    pub(super) fn pinged(&mut self, pending: bool) {
        self.ping_ended();
        self.catch_up.again |= pending;
    }

    pub(super) fn ping_ended(&mut self) {
        self.catch_up.ping_asked = false;
    }

    /// Requests the next page when one is due.
    pub(super) fn drain_on(&mut self, now: Moment) {
        let ack = match &self.catch_up.drain {
            Drain::Idle if self.catch_up.again => self.reports.take(),
            Drain::Page(marks) if marks.iter().all(|(id, seq)| self.conversations.is_done(id, *seq)) => {
                let new = marks.iter().filter_map(|(id, seq)| self.conversations.to_acknowledge(id, *seq));
                // The rest comes again on the next page, and the client acknowledges it then.
                let ack: Vec<AckEntry> = new.take(ACK_ENTRIES_MAX).collect();
                // Nothing of it can be read, or be shown.
                let is_of_no_use = marks.is_empty() || marks.keys().any(|id| self.conversations.is_stuck(id));
                if ack.is_empty() && is_of_no_use {
                    // The next page would be this one again.
                    self.drain_ended(now);
                    return self.drain_on(now);
                }
                ack
            }
            _ => return,
        };
        self.catch_up.again = false;
        self.catch_up.drain = Drain::Asked;
        self.ask(Errand::Drain(DrainRequest { ack }), now);
    }

    pub(super) fn drained(&mut self, page: DrainResult, now: Moment) {
        let marks = page.messages.iter().map(|message| (message.conversation_id.clone(), message.seq));
        let marks: BTreeMap<ConversationId, Seq> = marks.collect();
        if page.more {
            // An entry of this page that is kept needs no acknowledgement of its own.
            self.catch_up.drain = Drain::Page(marks.clone());
        }
        for message in page.messages {
            let missed = !self.links.told_caught_up && message.sender_id != self.me;
            self.arrived_pending(message, missed, now);
        }
        if page.more {
            return;
        }
        // The server posts all later entries to this connection, so the drain is complete; with a busy user it would
        // never end. The client acknowledged what the app had finished with, but that ack may have been lost.
        for (id, seq) in marks {
            if self.conversations.held(&id) >= seq {
                self.acknowledge_again(&id);
            }
        }
        self.drain_ended(now);
    }

    fn drain_ended(&mut self, now: Moment) {
        self.catch_up.drain = Drain::Idle;
        if self.catch_up.again {
            return;
        }
        self.begin_groups(now);
        self.close_older(now);
        if self.catch_up.stage == Stage::Draining {
            self.catch_up.stage = Stage::Listing;
            self.catch_up.newest = None;
            self.ask_listing(None, now);
        }
    }

    pub(super) fn drain_lost(&mut self, ack: &[AckEntry], now: Moment) {
        self.catch_up.drain = Drain::Idle;
        self.ack_lost(ack);
        self.start_catch_up(now);
    }

    /// Handles a refusal of one entry of the drain's ack. The server applied the others, so the client repeats the
    /// drain without an ack.
    pub(super) fn drain_refused(&mut self, ack: &[AckEntry], now: Moment) {
        if ack.is_empty() {
            self.drain_ended(now);
        } else {
            self.acknowledged(ack);
            self.catch_up.drain = Drain::Idle;
            self.catch_up.again = true;
        }
    }

    fn ask_listing(&mut self, cursor: Option<String>, now: Moment) {
        let since = self.catch_up.since.map(|since| since.minus(SINCE_OVERLAP));
        self.ask(Errand::Listing(InboxRequest { limit: INBOX_LIMIT_MAX, cursor, since, pinned: false }), now);
    }

    pub(super) fn listed(&mut self, inbox: InboxResult, now: Moment) {
        if self.catch_up.stage != Stage::Listing {
            return;
        }
        self.outbox.remember_rows(&inbox.conversations);
        for row in inbox.conversations {
            self.catch_up.newest = self.catch_up.newest.max(Some(row.last_message.sent_at));
            self.store(|| Write::Row(row.clone()));
            self.meet(&row);
            self.row(&row, now);
            self.catch_up.awaited.insert(row.conversation_id.clone(), row.last_seq);
            self.tell(Event::ConversationChanged(row));
        }
        // The first list can be long. A conversation that this device does not know yet is not compared with anything.
        let enough = self.catch_up.since.is_none()
            && self.conversations.known().all(|id| self.catch_up.awaited.contains_key(id));
        match inbox.next_cursor {
            Some(cursor) if !enough => self.ask_listing(Some(cursor), now),
            _ => {
                self.catch_up.stage = Stage::Repairing;
                self.keyring_listed();
            }
        }
    }

    pub(super) fn listing_lost(&mut self, now: Moment) {
        if self.catch_up.stage == Stage::Listing {
            self.start_catch_up(now);
        }
    }

    pub(super) fn listing_refused(&mut self) {
        self.catch_up.stage = Stage::Repairing;
        self.keyring_listed();
        // The client still has to find the entries of the pages that did not come.
        self.catch_up.newest = None;
    }

    pub(super) fn finish_catch_up(&mut self) {
        if self.catch_up.stage != Stage::Repairing {
            return;
        }
        let CatchUp { awaited, .. } = &mut self.catch_up;
        awaited.retain(|id, seq| self.conversations.held(id) < *seq);
        let is_shown =
            |id: &ConversationId, seq| self.conversations.shown(id) >= seq || self.conversations.is_stuck(id);
        let shown = awaited.iter().all(|(id, seq)| is_shown(id, *seq));
        // After a crash, the client must find the entries again that the app has not finished with.
        let held = awaited.is_empty();
        if shown && !self.links.told_caught_up {
            self.tell_state(State::CaughtUp);
        }
        if !held {
            return;
        }
        self.catch_up.stage = Stage::Done;
        self.keyring_caught_up();
        let newest = self.catch_up.newest.take();
        if newest > self.catch_up.since
            && let Some(newest) = newest
        {
            self.catch_up.since = Some(newest);
            self.save(StorageChange::CaughtUp(newest));
        }
    }
}
