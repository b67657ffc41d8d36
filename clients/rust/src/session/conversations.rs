//! How far each conversation has come on this device, and what is missing.
//!
//! ```text
//! 1 ………… acked ………… held ………… shown     (missing)     buffered … wanted
//!        the server   the app    handed
//!        knows        is done    to the app
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use wire::limits::HISTORY_LIMIT_MAX;
use wire::{AckEntry, Conversation as Row, ConversationId, HistoryRequest, HistoryResult, Message, Seq, Side};

use super::requests::Errand;
use super::{Session, jitter};
use crate::Event;
use crate::group::{Turn, turn_of};
use crate::storage::StorageChange;

/// Repairs under way at once: after a long absence there can be one for each conversation.
const REPAIRS_MAX: usize = 4;

#[derive(Default)]
pub(super) struct Conversations {
    all: BTreeMap<ConversationId, Conversation>,
    /// Those in which messages are missing.
    broken: BTreeSet<ConversationId>,
}

#[derive(Default)]
struct Conversation {
    /// Handed to the app up to here. `None`: new on this device, and where it begins is not known yet.
    shown: Option<Seq>,
    /// The app is done with everything up to here.
    held: Seq,
    /// The server has confirmed that this is acknowledged, or has not drained it since a restart.
    acked: Seq,
    /// What came out of order, and whether it was missed.
    buffer: BTreeMap<Seq, (Message, bool)>,
    /// The server has messages up to here.
    wanted: Seq,
    /// Of a group: nothing up to here is missing, since this user is shown what is behind it.
    floor: Seq,
    repair_asked: bool,
    /// A group that is new on this device begins once this is known: what is pending.
    drain_asked: bool,
    repair_at: Option<Instant>,
    /// Repairs in a row that brought nothing.
    repair_tries: u32,
}

impl Conversation {
    fn is_broken(&self) -> bool {
        self.wanted > self.shown.unwrap_or_default()
    }

    /// What is missing was asked for, and the server did not have it: it does not give an entry that it can't read. That is asked
    /// for again from time to time, and nothing else waits for it.
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

    /// Whether the app is done with what is here of a drained page's messages up to this one, and no more of them is to come.
    pub(super) fn is_done(&self, id: &ConversationId, seq: Seq) -> bool {
        let shown = if self.is_stuck(id) { self.shown(id).min(seq) } else { seq };
        self.held(id) >= shown
    }

    /// What an ack of a drained page's messages up to this one can say.
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

    /// The server has stored an own message there, and knows whether this user holds everything up to it.
    pub(super) fn stored(&mut self, id: &ConversationId, seq: Seq, acknowledged: bool) {
        let conversation = self.all.entry(id.clone()).or_default();
        if acknowledged {
            conversation.acked = conversation.acked.max(seq);
        }
    }

    /// Of a group: it is of a time as a member that was over before this device had it. Nothing but its answer brings an own one.
    pub(super) fn is_passed(&self, id: &ConversationId, seq: Seq) -> bool {
        self.all.get(id).is_some_and(|conversation| conversation.shown >= Some(seq) && conversation.floor >= seq)
    }

    pub(super) fn has_begun(&self, id: &ConversationId) -> bool {
        self.all.get(id).is_some_and(|conversation| conversation.shown.is_some())
    }
}

impl Session {
    /// The app is done with everything of the conversation up to here.
    pub(crate) fn handled(&mut self, conversation_id: &ConversationId, seq: Seq, now: Instant) {
        let Some(conversation) = self.conversations.all.get_mut(conversation_id) else { return };
        if seq > conversation.held {
            conversation.held = seq;
            let unacked = seq > conversation.acked;
            self.save(StorageChange::Held { conversation_id: conversation_id.clone(), seq });
            if unacked && !self.catch_up.will_acknowledge(conversation_id, seq) {
                self.reports.acknowledge(conversation_id, seq);
            }
        }
        self.send_due(now);
    }

    /// A message has come, by any way.
    pub(super) fn arrived(&mut self, message: Message, missed: bool, now: Instant) {
        let id = message.conversation_id.clone();
        let conversation = self.conversations.all.entry(id.clone()).or_default();
        let old = conversation.shown.is_some_and(|shown| message.seq <= shown);
        if old || conversation.buffer.contains_key(&message.seq) {
            self.stats.duplicates_dropped += 1;
            return;
        }
        conversation.wanted = conversation.wanted.max(message.seq);
        let begins = message.seq == Seq::ZERO.next() || turn_of(&message, &self.me) == Some(Turn::Joins);
        let before = message.seq.previous();
        conversation.buffer.insert(message.seq, (message, missed));
        if begins {
            self.begin(&id, before);
        }
        self.show(&id, now);
    }

    /// A drained message: some device of this user has acknowledged everything before it.
    pub(super) fn arrived_pending(&mut self, message: Message, missed: bool, now: Instant) {
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

    /// Begins a conversation that is new on this device after this seq, or before, if something from before that has come.
    fn begin(&mut self, id: &ConversationId, after: Seq) {
        let Some(conversation) = self.conversations.all.get_mut(id).filter(|new| new.shown.is_none()) else { return };
        let after = conversation.buffer.keys().next().map_or(after, |first| after.min(first.previous()));
        conversation.shown = Some(after);
        (conversation.held, conversation.acked) = (after, conversation.acked.max(after));
        // Saved, so that what is shown from here on and not held is found missing after a restart.
        self.save(StorageChange::Held { conversation_id: id.clone(), seq: after });
        self.forget_sent(id);
    }

    /// Whether an own message without an answer may be in this conversation, which has not begun. The server takes such a
    /// message for delivered, so until it is answered the conversation must not begin where the server says.
    fn may_hold_own(&self, id: &ConversationId) -> bool {
        let Some(conversation) = self.conversations.all.get(id) else { return false };
        // A service that changes what others said is no member, so nothing tells whom the conversation is with.
        let is_operator = |message: &Message| message.sender_id.is_service() && !message.kind.counts();
        let users = conversation.buffer.values();
        let users = users.map(|(message, _)| if is_operator(message) { &self.me } else { &message.sender_id });
        self.outbox.is_unsure(id, users, &self.me)
    }

    /// A row of the chat list: up to where the conversation goes.
    pub(super) fn row(&mut self, row: &Row, now: Instant) {
        let conversation = self.conversations.all.entry(row.conversation_id.clone()).or_default();
        conversation.wanted = conversation.wanted.max(row.last_seq);
        conversation.raise_floor(row.first_seq);
        // What was on its way has arrived by now: a drain took longer.
        conversation.repair_at.get_or_insert(now);
        if !self.may_hold_own(&row.conversation_id) {
            self.begin(&row.conversation_id, row.delivered_seq.min(row.last_seq));
        }
        self.show(&row.conversation_id, now);
    }

    /// Hands over what is next in order, then checks whether anything is missing.
    fn show(&mut self, id: &ConversationId, now: Instant) {
        let Some(conversation) = self.conversations.all.get_mut(id) else { return };
        let mut next = Vec::new();
        if let Some(shown) = &mut conversation.shown {
            let floor = conversation.floor;
            // What has come of a time before is handed over, and what is missing of it will never come.
            let is_next = |seq: Seq, shown: Seq| seq <= shown.max(floor).next();
            while let Some(first) = conversation.buffer.first_entry().filter(|first| is_next(*first.key(), *shown)) {
                *shown = *first.key();
                next.push(first.remove());
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
        for (message, missed) in next {
            if message.sender_id != self.me {
                self.stats.received += 1;
                if message.kind.counts() && !message.conversation_id.is_group() {
                    self.outbox.remember_direct(&message.sender_id, &message.conversation_id);
                }
            } else if let Some(id) = &message.client_msg_id {
                self.outbox.told(id);
            }
            self.tell(Event::Message { message, missed });
        }
    }

    /// When something that is missing has to be asked for.
    pub(super) fn next_repair(&self) -> Option<Instant> {
        if !self.may_repair() {
            return None;
        }
        self.conversations.broken.iter().filter_map(|id| self.repair_at(id)).min()
    }

    /// When this one is to be repaired; never, while something prevents it.
    fn repair_at(&self, id: &ConversationId) -> Option<Instant> {
        let conversation = self.conversations.all.get(id).filter(|conversation| !conversation.repair_asked)?;
        if conversation.shown.is_none() && conversation.drain_asked {
            return None;
        }
        if conversation.shown.is_some() || !self.may_hold_own(id) { conversation.repair_at } else { None }
    }

    fn may_repair(&self) -> bool {
        // The page that is on its way is likely to bring what is missing.
        !self.catch_up.is_drain_asked() && self.requests.repairs() < REPAIRS_MAX
    }

    pub(super) fn repair_due(&mut self, now: Instant) {
        self.ask_repairs(now);
        self.drain_on(now);
    }

    fn ask_repairs(&mut self, now: Instant) {
        while self.may_repair() {
            let mut broken = self.conversations.broken.iter();
            let due = broken.find(|id| self.repair_at(id).is_some_and(|at| at <= now)).cloned();
            let Some(id) = due else { return };
            let Some(conversation) = self.conversations.all.get_mut(&id) else { return };
            let (side, limit) = match conversation.shown {
                Some(shown) => (Side::After(shown), HISTORY_LIMIT_MAX),
                // The history of a group does not say how far this user has come. What is pending does.
                None if id.is_group() => {
                    conversation.drain_asked = true;
                    self.catch_up.drain_again();
                    continue;
                }
                // Without a beginning, it is asked only up to where this user holds it.
                None => (Side::Newest, 1),
            };
            conversation.repair_asked = true;
            self.ask(Errand::Repair(HistoryRequest { conversation_id: id, side, limit }), now);
        }
    }

    pub(super) fn repaired(&mut self, request: &HistoryRequest, history: HistoryResult, now: Instant) {
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
        // Asked before the conversation began, so this is its end, not what is missing.
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

    /// All that is pending has come. A group that has not begun by that was acknowledged by another device, up to what has come here.
    pub(super) fn begin_groups(&mut self, now: Instant) {
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

    pub(super) fn repair_lost(&mut self, id: &ConversationId, now: Instant) {
        if let Some(conversation) = self.conversations.all.get_mut(id) {
            conversation.repair_asked = false;
            conversation.repair_at = Some(now);
        }
    }

    /// What is missing will never come: the user is no longer a member. What has come is handed over without it.
    pub(super) fn repair_refused(&mut self, id: &ConversationId, now: Instant) {
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

    /// Everything that is held and not known to be acknowledged, again.
    pub(super) fn acknowledge_again(&mut self, id: &ConversationId) {
        if let Some(conversation) = self.conversations.all.get(id)
            && conversation.held > conversation.acked
        {
            self.reports.acknowledge(id, conversation.held);
        }
    }
}
