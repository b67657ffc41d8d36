//! How far each conversation has come on this device, and what is missing.
//!
//! ```text
//! 1 ………… acked ………… held ………… shown     (missing)     buffered … wanted
//!        the server   kept       handed
//!        knows                   to the app
//! ```

use std::collections::{BTreeMap, BTreeSet};

use pigeonhole_sealing::Shown;
use wire::limits::HISTORY_LIMIT_MAX;
use wire::{AckEntry, Conversation as Row, ConversationId, HistoryRequest, HistoryResult, Message, Seq, Side};

use super::requests::Errand;
use super::sealing::millis;
use super::{Core, jitter};
use crate::group::{Turn, turn_of};
use crate::saved::StorageChange;
use crate::turn::Keeper;
use crate::{Event, Moment};

/// The limit of concurrent repairs: after a long absence, each conversation can need one.
const REPAIRS_MAX: usize = 4;

#[derive(Default)]
pub(super) struct Conversations {
    all: BTreeMap<ConversationId, Conversation>,
    /// Conversations with missing entries.
    broken: BTreeSet<ConversationId>,
}

#[derive(Default)]
struct Conversation {
    /// The app has got everything up to here. `None`: new on this device, and its start is not known yet.
    shown: Option<Seq>,
    /// Everything up to here is kept, by the store or by the app.
    held: Seq,
    /// The server has confirmed that this is acknowledged, or has not drained it since a restart.
    acked: Seq,
    /// Entries that came out of order, each with whether it was missed.
    buffer: BTreeMap<Seq, (Message, bool)>,
    /// The server has messages up to here.
    wanted: Seq,
    /// The keyring can't tell yet what the next entry is.
    waits: bool,
    /// In a group: the client repairs no gap up to here, because this user may see only later entries.
    floor: Seq,
    repair_asked: bool,
    /// A group that is new on this device begins once this is known: what is pending.
    drain_asked: bool,
    repair_at: Option<Moment>,
    /// Repairs in a row that brought nothing.
    repair_tries: u32,
}

impl Conversation {
    fn is_broken(&self) -> bool {
        self.wanted > self.shown.unwrap_or_default()
    }

    /// Returns whether the server's reply lacked the missing entries, because the server cannot read them. The client
    /// repeats the request from time to time, and nothing else waits for it.
    fn is_stuck(&self) -> bool {
        self.is_broken() && self.repair_tries > 0
    }

    fn raise_floor(&mut self, first_seq: Option<Seq>) {
        self.floor = self.floor.max(first_seq.unwrap_or_default().previous());
    }
}

impl Conversations {
    pub(super) fn new(held: BTreeMap<ConversationId, Seq>) -> Self {
        // If the last acknowledgement was lost, the first drain brings those messages again: see `arrived_pending`.
        let known =
            |held| Conversation { shown: Some(held), held, acked: held, wanted: held, ..Conversation::default() };
        Self { all: held.into_iter().map(|(id, held)| (id, known(held))).collect(), broken: BTreeSet::new() }
    }

    pub(super) fn known(&self) -> impl Iterator<Item = &ConversationId> {
        self.all.keys()
    }

    pub(super) fn held(&self, id: &ConversationId) -> Seq {
        self.all.get(id).map_or(Seq::ZERO, |conversation| conversation.held)
    }

    pub(super) fn shown(&self, id: &ConversationId) -> Seq {
        self.all.get(id).and_then(|conversation| conversation.shown).unwrap_or_default()
    }

    pub(super) fn is_stuck(&self, id: &ConversationId) -> bool {
        self.all.get(id).is_some_and(Conversation::is_stuck)
    }

    /// Returns whether the app has finished with the received messages of a drained page up to this one, and no more of
    /// them will come.
    pub(super) fn is_done(&self, id: &ConversationId, seq: Seq) -> bool {
        let shown = if self.is_stuck(id) { self.shown(id).min(seq) } else { seq };
        self.held(id) >= shown
    }

    /// Returns the ack for a drained page's messages up to this one.
    pub(super) fn to_acknowledge(&self, id: &ConversationId, seq: Seq) -> Option<AckEntry> {
        let conversation = self.all.get(id)?;
        let mark = conversation.held.min(seq);
        (mark > conversation.acked).then(|| AckEntry { conversation_id: id.clone(), seq: mark })
    }

    pub(super) fn acked(&self, id: &ConversationId) -> Option<Seq> {
        self.all.get(id).filter(|conversation| conversation.shown.is_some()).map(|conversation| conversation.acked)
    }

    pub(super) fn raise_acked(&mut self, id: &ConversationId, seq: Seq) {
        if let Some(conversation) = self.all.get_mut(id) {
            conversation.acked = conversation.acked.max(seq);
        }
    }

    /// Records that the server has stored an own message, and whether the server counts everything up to it as
    /// acknowledged.
    pub(super) fn stored(&mut self, id: &ConversationId, seq: Seq, acknowledged: bool) {
        let conversation = self.all.entry(id.clone()).or_default();
        if acknowledged {
            conversation.acked = conversation.acked.max(seq);
        }
    }

    /// Returns whether this entry of a group belongs to an earlier membership that ended before this device had it.
    /// Only the reply to its own request delivers such an own entry.
    pub(super) fn is_passed(&self, id: &ConversationId, seq: Seq) -> bool {
        self.all.get(id).is_some_and(|conversation| conversation.shown >= Some(seq) && conversation.floor >= seq)
    }

    pub(super) fn has_begun(&self, id: &ConversationId) -> bool {
        self.all.get(id).is_some_and(|conversation| conversation.shown.is_some())
    }
}

impl Core {
    /// Everything of the conversation up to here is kept.
    pub(super) fn held(&mut self, conversation_id: &ConversationId, seq: Seq) {
        let Some(conversation) = self.conversations.all.get_mut(conversation_id) else { return };
        if seq > conversation.held {
            conversation.held = seq;
            let unacked = seq > conversation.acked;
            self.save(StorageChange::Held { conversation_id: conversation_id.clone(), seq });
            if unacked && !self.catch_up.will_acknowledge(conversation_id, seq) {
                self.reports.acknowledge(conversation_id, seq);
            }
        }
    }

    /// A message has come, by any way.
    pub(super) fn arrived(&mut self, message: Message, missed: bool, now: Moment) {
        let id = message.conversation_id.clone();
        let conversation = self.conversations.all.entry(id.clone()).or_default();
        let old = conversation.shown.is_some_and(|shown| message.seq <= shown);
        if old || conversation.buffer.contains_key(&message.seq) {
            self.stats.duplicates_dropped += 1;
            return;
        }
        conversation.wanted = conversation.wanted.max(message.seq);
        let turn = turn_of(&message, &self.me);
        let is_first = message.seq == Seq::FIRST;
        if turn.is_some() && !is_first {
            self.sealing.turned(&id);
        }
        let begins = is_first || turn == Some(Turn::Joins);
        let before = message.seq.previous();
        conversation.buffer.insert(message.seq, (message, missed));
        if begins {
            self.begin(&id, before);
        }
        self.show(&id, now);
    }

    /// A drained message: some device of this user has acknowledged everything before it.
    pub(super) fn arrived_pending(&mut self, message: Message, missed: bool, now: Moment) {
        let (id, before) = (message.conversation_id.clone(), message.seq.previous());
        self.arrived(message, missed, now);
        if !self.conversations.has_begun(&id) && !self.may_hold_own(&id) {
            self.begin(&id, before);
            self.show(&id, now);
        }
        if let Some(conversation) = self.conversations.all.get_mut(&id).filter(|known| known.acked > before) {
            conversation.acked = before;
            self.outbox.forget_acked(&id);
        }
    }

    /// Starts a conversation that is new on this device after this seq, or before the first entry that has come, if
    /// that is earlier.
    fn begin(&mut self, id: &ConversationId, after: Seq) {
        let Some(conversation) = self.conversations.all.get_mut(id).filter(|new| new.shown.is_none()) else { return };
        let after = conversation.buffer.keys().next().map_or(after, |first| after.min(first.previous()));
        conversation.shown = Some(after);
        (conversation.held, conversation.acked) = (after, conversation.acked.max(after));
        // Saved, so that after a restart the client finds the entries that were shown from here on and not finished.
        self.save(StorageChange::Held { conversation_id: id.clone(), seq: after });
        self.forget_sent(id);
        // The keyring can have joined below.
        self.open_lost(id.clone());
    }

    /// Returns whether an unanswered own message may belong to this conversation, whose start is not known. The server
    /// counts such a message as delivered, so until the reply the conversation must not start at the server's mark.
    fn may_hold_own(&self, id: &ConversationId) -> bool {
        let Some(conversation) = self.conversations.all.get(id) else { return false };
        // A service that changes the messages of others is not a member, so its entry does not show the other user.
        let is_operator = |message: &Message| message.sender_id.is_service() && !message.kind.counts();
        let users = conversation.buffer.values();
        let users = users.map(|(message, _)| if is_operator(message) { &self.me } else { &message.sender_id });
        self.outbox.is_unsure(id, users, &self.me)
    }

    /// A row of the chat list: up to where the conversation goes.
    pub(super) fn row(&mut self, row: &Row, now: Moment) {
        let conversation = self.conversations.all.entry(row.conversation_id.clone()).or_default();
        conversation.wanted = conversation.wanted.max(row.last_seq);
        conversation.raise_floor(row.first_seq);
        // A drain takes longer than a frame, so all frames on their way have arrived.
        conversation.repair_at.get_or_insert(now);
        if !self.may_hold_own(&row.conversation_id) {
            self.begin(&row.conversation_id, row.delivered_seq.min(row.last_seq));
        }
        self.show(&row.conversation_id, now);
    }

    /// The conversation has entries up to here.
    pub(super) fn ends_at(&mut self, id: &ConversationId, last_seq: Seq, now: Moment) {
        let conversation = self.conversations.all.entry(id.clone()).or_default();
        if conversation.wanted >= last_seq {
            return;
        }
        conversation.wanted = last_seq;
        conversation.repair_at.get_or_insert(now);
        self.show(id, now);
    }

    /// Delivers the next entries in order, then checks whether any is missing.
    pub(super) fn show(&mut self, id: &ConversationId, now: Moment) {
        let Some(conversation) = self.conversations.all.get_mut(id) else { return };
        let (mut next, mut notices) = (Vec::new(), Vec::new());
        let mut keyring = self.keyring.as_mut();
        conversation.waits = false;
        if let Some(shown) = &mut conversation.shown {
            let floor = conversation.floor;
            // Entries of an earlier membership go to the app; the gaps between them will never be filled.
            let is_next = |seq: Seq, shown: Seq| seq <= shown.max(floor).next();
            while let Some(first) = conversation.buffer.first_entry().filter(|first| is_next(*first.key(), *shown)) {
                let content = match &mut keyring {
                    None => None,
                    // Entries that the app has passed come first: see `open_due`.
                    Some(keyring) if keyring.position(id).is_some_and(|position| position < *shown) => {
                        Some(Shown::Later)
                    }
                    Some(keyring) => {
                        let taken = keyring.take(&first.get().0, millis(self.wall));
                        notices.extend(taken.notices);
                        Some(taken.shown)
                    }
                };
                if matches!(content, Some(Shown::Later)) {
                    conversation.waits = true;
                    break;
                }
                *shown = *first.key();
                let (message, missed) = first.remove();
                next.push((message, content, missed));
            }
            *shown = (*shown).max(floor);
            conversation.wanted = conversation.wanted.max(*shown);
        }
        if conversation.is_broken() {
            conversation.repair_at.get_or_insert(now + self.timing.gap_wait);
            self.conversations.broken.insert(id.clone());
        } else {
            conversation.repair_at = None;
            conversation.repair_tries = 0;
            self.conversations.broken.remove(id);
        }
        if conversation.waits {
            self.sealing.waiting.insert(id.clone());
        }
        let last = next.last().map(|(message, ..)| message.seq);
        for notice in notices {
            self.tell(Event::Security(notice));
        }
        for (message, content, missed) in next {
            let message = self.content(message, content);
            if message.sender_id != self.me {
                self.stats.received += 1;
                if message.kind.counts() && !message.conversation_id.is_group() {
                    self.outbox.remember_direct(&message.sender_id, &message.conversation_id);
                }
            } else if let Some(id) = &message.client_msg_id {
                self.outbox.told(id);
            }
            self.hand_over(message, missed);
        }
        if let (Keeper::Store, Some(last)) = (self.keeper, last) {
            self.held(id, last);
        }
    }

    /// Returns when the next request for missing entries is due.
    pub(super) fn next_repair(&self) -> Option<Moment> {
        if !self.may_repair() {
            return None;
        }
        self.conversations.broken.iter().filter_map(|id| self.repair_at(id)).min()
    }

    /// When this one is to be repaired; never, while something prevents it.
    fn repair_at(&self, id: &ConversationId) -> Option<Moment> {
        let conversation = self.conversations.all.get(id).filter(|conversation| !conversation.repair_asked)?;
        if conversation.waits || (conversation.shown.is_none() && conversation.drain_asked) {
            return None;
        }
        if conversation.shown.is_some() || !self.may_hold_own(id) { conversation.repair_at } else { None }
    }

    fn may_repair(&self) -> bool {
        // The page that is on its way is likely to bring what is missing.
        !self.catch_up.is_drain_asked() && self.requests.repairs() < REPAIRS_MAX
    }

    pub(super) fn repair_due(&mut self, now: Moment) {
        self.ask_repairs(now);
        self.drain_on(now);
    }

    fn ask_repairs(&mut self, now: Moment) {
        while self.may_repair() {
            let mut broken = self.conversations.broken.iter();
            let due = broken.find(|id| self.repair_at(id).is_some_and(|at| at <= now)).cloned();
            let Some(id) = due else { return };
            let Some(conversation) = self.conversations.all.get_mut(&id) else { return };
            let (side, limit) = match conversation.shown {
                Some(shown) => (Side::After(shown), HISTORY_LIMIT_MAX),
                // The history of a group does not contain this user's mark. Pending messages show it.
                None if id.is_group() => {
                    conversation.drain_asked = true;
                    self.catch_up.drain_again();
                    continue;
                }
                // Without a start, the request needs only the mark of this user.
                None => (Side::Newest, 1),
            };
            conversation.repair_asked = true;
            self.ask(Errand::Repair(HistoryRequest { conversation_id: id, side, limit }), now);
        }
    }

    pub(super) fn repaired(&mut self, request: &HistoryRequest, history: HistoryResult, now: Moment) {
        let (id, from_gap) = (&request.conversation_id, matches!(request.side, Side::After(_)));
        let Some(conversation) = self.conversations.all.get_mut(id) else { return };
        conversation.repair_asked = false;
        conversation.wanted = conversation.wanted.max(history.last_seq);
        conversation.raise_floor(history.first_seq);
        let before = conversation.shown;
        if before.is_none() && !self.may_hold_own(id) {
            let own = history.members.iter().find(|member| member.user_id == self.me);
            self.begin(id, own.map_or(history.last_seq, |own| own.delivered_seq));
        }
        // The request was made before the start was known, so this is the end of the conversation, not the missing
        // part.
        let messages = if from_gap { history.messages } else { Vec::new() };
        for message in messages {
            let known = self.conversations.all.get(id).is_some_and(|conversation| {
                conversation.shown.is_some_and(|shown| message.seq <= shown)
                    || conversation.buffer.contains_key(&message.seq)
            });
            // The page begins at the gap, and can have messages from behind it.
            if !known {
                let missed = !self.links.told_caught_up && message.sender_id != self.me;
                self.arrived(message, missed, now);
            }
        }
        self.show(id, now);
        let Some(conversation) = self.conversations.all.get_mut(id) else { return };
        let progress = !from_gap || conversation.shown > before;
        if progress && from_gap {
            self.stats.gaps_repaired += 1;
        }
        if conversation.is_broken() {
            conversation.repair_tries = if progress { 0 } else { conversation.repair_tries.saturating_add(1) };
            let (first, max) = (self.timing.gap_retry, self.timing.reconnect_max);
            let pause = jitter(&mut self.rng, first, max, conversation.repair_tries);
            conversation.repair_at = Some(if progress { now } else { now + pause.max(first) });
        }
    }

    /// Handles the end of a drain. A group without a start was acknowledged by another device, up to the entries that
    /// have come.
    pub(super) fn begin_groups(&mut self, now: Moment) {
        let asked = self.conversations.all.iter_mut().filter(|(_, conversation)| conversation.drain_asked);
        let asked = asked.map(|(id, conversation)| {
            conversation.drain_asked = false;
            id.clone()
        });
        for id in asked.collect::<Vec<_>>() {
            if !self.conversations.has_begun(&id) && !self.may_hold_own(&id) {
                let wanted = self.conversations.all.get(&id).map_or(Seq::ZERO, |conversation| conversation.wanted);
                self.begin(&id, wanted);
                self.show(&id, now);
            }
        }
    }

    pub(super) fn repair_lost(&mut self, id: &ConversationId, now: Moment) {
        if let Some(conversation) = self.conversations.all.get_mut(id) {
            conversation.repair_asked = false;
            conversation.repair_at = Some(now);
        }
    }

    /// Ends a repair for good: the user is no longer a member. The app gets the received entries without the missing
    /// ones.
    pub(super) fn repair_refused(&mut self, id: &ConversationId, now: Moment) {
        let Some(conversation) = self.conversations.all.get_mut(id) else { return };
        conversation.repair_asked = false;
        let first = conversation.buffer.keys().next().map(|first| first.previous());
        self.begin(id, first.unwrap_or_default());
        let Some(conversation) = self.conversations.all.get_mut(id) else { return };
        conversation.shown = conversation.shown.max(first);
        let end = conversation.buffer.keys().next_back().copied();
        conversation.wanted = end.or(conversation.shown).unwrap_or_default();
        conversation.repair_at = None;
        self.catch_up.give_up(id);
        self.show(id, now);
    }

    /// Acknowledges again everything that is saved and not known to be acknowledged.
    pub(super) fn acknowledge_again(&mut self, id: &ConversationId) {
        if let Some(conversation) = self.conversations.all.get(id)
            && conversation.held > conversation.acked
        {
            self.reports.acknowledge(id, conversation.held);
        }
    }
}
