//! Messages and changes on their way to the server, in a lane per conversation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use wire::{
    Action, ClientMsgId, ConversationId, DeleteRequest, EditRequest, Kind, Message, ReactRequest, SendRequest,
    SendResult, Seq, Target, UserId,
};

use super::requests::Errand;
use super::{Session, Waiter};
use crate::storage::{Change, Outgoing, Queued};
use crate::{Error, Event};

#[derive(Default)]
pub(super) struct Outbox {
    lanes: BTreeMap<Target, Lane>,
    /// Lanes that may have something to send. The others are empty or wait for an answer.
    ready: BTreeSet<Target>,
    /// The direct conversations with these users.
    direct: BTreeMap<UserId, ConversationId>,
    /// Answered, in conversations that are new on this device and have not begun: kept in the storage until they do, so that
    /// they are found after a restart.
    answered_early: BTreeMap<ConversationId, Vec<ClientMsgId>>,
    last_order: u64,
}

#[derive(Default)]
struct Lane {
    entries: VecDeque<Entry>,
    /// One, unless two lanes turned out to be for the same conversation.
    under_way: usize,
}

struct Entry {
    /// Their order over all lanes.
    order: u64,
    queued: Queued,
    waiter: Option<Waiter<SendResult>>,
    under_way: bool,
    /// What the server held acknowledged when this was first sent; `None`: unknown, or not sent.
    acked_before: Option<Seq>,
    tries: u32,
}

impl Outbox {
    pub(super) fn new(saved: VecDeque<Queued>) -> Self {
        let mut outbox = Self::default();
        for queued in saved {
            // It may have been sent before.
            let tries = 1;
            outbox.push(queued, None, tries);
        }
        outbox
    }

    fn push(&mut self, queued: Queued, waiter: Option<Waiter<SendResult>>, tries: u32) {
        self.last_order += 1;
        let lane = self.lane_of(&queued.outgoing.target());
        let entry = Entry { order: self.last_order, queued, waiter, under_way: false, acked_before: None, tries };
        self.lanes.entry(lane.clone()).or_default().entries.push_back(entry);
        self.ready.insert(lane);
    }

    /// What waits for an answer, oldest first.
    pub(super) fn waiting(&self) -> Vec<Queued> {
        let mut entries: Vec<&Entry> = self.lanes.values().flat_map(|lane| &lane.entries).collect();
        entries.sort_by_key(|entry| entry.order);
        entries.into_iter().map(|entry| entry.queued.clone()).collect()
    }

    /// The same lane for a conversation, whether its messages name the user or the conversation.
    fn lane_of(&self, target: &Target) -> Target {
        match target {
            Target::User(user) => self.direct.get(user).cloned().map_or_else(|| target.clone(), Target::Conversation),
            Target::Conversation(_) => target.clone(),
        }
    }

    /// No answer to it will come any more.
    fn lost(&mut self, queued: &Queued) {
        let key = self.lane_of(&queued.outgoing.target());
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let entry = lane.entries.iter_mut().find(|entry| entry.queued.client_msg_id == queued.client_msg_id);
        if entry.is_some_and(|entry| std::mem::take(&mut entry.under_way)) {
            lane.under_way -= 1;
        }
        self.ready.insert(key);
    }

    fn remove(&mut self, queued: &Queued) -> Option<Entry> {
        let key = self.lane_of(&queued.outgoing.target());
        let lane = self.lanes.get_mut(&key)?;
        let at = lane.entries.iter().position(|entry| entry.queued.client_msg_id == queued.client_msg_id)?;
        let entry = lane.entries.remove(at)?;
        lane.under_way -= usize::from(entry.under_way);
        if lane.entries.is_empty() {
            self.lanes.remove(&key);
        } else {
            self.ready.insert(key);
        }
        Some(entry)
    }

    /// Whether a message that was sent and not answered may be in this conversation, in which these users have spoken.
    pub(super) fn is_unsure<'a>(
        &self,
        conversation_id: &ConversationId,
        users: impl Iterator<Item = &'a UserId>,
        me: &UserId,
    ) -> bool {
        let sent = |lane: &Lane| lane.entries.front().is_some_and(|entry| entry.tries > 0);
        let to_user = |user: &UserId| match user {
            // Sent by another device; the recipient is unknown here.
            user if user == me => self.lanes.iter().any(|(key, lane)| matches!(key, Target::User(_)) && sent(lane)),
            user => self.lanes.get(&Target::User(user.clone())).is_some_and(sent),
        };
        self.lanes.get(&Target::Conversation(conversation_id.clone())).is_some_and(sent)
            || (!self.direct.values().any(|known| known == conversation_id) && users.into_iter().any(to_user))
    }

    /// What was taken for acknowledged in this conversation is not.
    pub(super) fn forget_acked(&mut self, conversation_id: &ConversationId) {
        if let Some(lane) = self.lanes.get_mut(&Target::Conversation(conversation_id.clone())) {
            lane.entries.iter_mut().for_each(|entry| entry.acked_before = None);
        }
    }

    /// Messages to this user go to this conversation.
    pub(super) fn remember_direct(&mut self, user: &UserId, conversation_id: &ConversationId) {
        if self.direct.get(user).is_some_and(|known| known == conversation_id) {
            return;
        }
        self.direct.insert(user.clone(), conversation_id.clone());
        let Some(lane) = self.lanes.remove(&Target::User(user.clone())) else { return };
        let key = Target::Conversation(conversation_id.clone());
        let merged = self.lanes.entry(key.clone()).or_default();
        merged.entries.extend(lane.entries);
        merged.under_way += lane.under_way;
        // What was sent stays in front, where `is_unsure` looks for it.
        merged.entries.make_contiguous().sort_by_key(|entry| (entry.tries == 0, entry.order));
        self.ready.insert(key);
    }
}

impl Session {
    pub(crate) fn send(&mut self, queued: Queued, waiter: Option<Waiter<SendResult>>, now: Instant) {
        self.outbox.push(queued, waiter, 0);
        self.send_due(now);
    }

    pub(super) fn send_waiting(&mut self, now: Instant) {
        for key in std::mem::take(&mut self.outbox.ready) {
            let acked = match &key {
                Target::Conversation(id) => self.conversations.acked(id),
                Target::User(_) => Some(Seq::ZERO),
            };
            let Some(lane) = self.outbox.lanes.get_mut(&key) else { continue };
            if lane.under_way > 0 {
                continue;
            }
            let Some(entry) = lane.entries.front_mut() else { continue };
            entry.under_way = true;
            lane.under_way = 1;
            if entry.tries == 0 {
                entry.acked_before = acked;
                self.stats.sent += 1;
            } else {
                self.stats.resent += 1;
            }
            entry.tries = entry.tries.saturating_add(1);
            let queued = entry.queued.clone();
            self.ask(Errand::Send(queued), now);
        }
    }

    pub(super) fn send_lost(&mut self, queued: &Queued) {
        self.outbox.lost(queued);
    }

    pub(super) fn stored(&mut self, queued: Queued, stored: SendResult, now: Instant) {
        let Some(entry) = self.outbox.remove(&queued) else { return };
        if let Target::User(user) = queued.outgoing.target() {
            self.outbox.remember_direct(&user, &stored.conversation_id);
        }
        self.stats.answered += 1;
        let early = self.outbox.answered_early.entry(stored.conversation_id.clone()).or_default();
        early.push(queued.client_msg_id.clone());
        if self.conversations.has_begun(&stored.conversation_id) {
            self.forget_sent(&stored.conversation_id);
        }
        if let Some(waiter) = entry.waiter {
            self.answer(waiter, Ok(stored.clone()));
        }
        // If the user held everything before it, the server has raised the delivered mark to it.
        let acknowledged = entry.acked_before.is_some_and(|acked| stored.seq == acked.next());
        self.conversations.stored(&stored.conversation_id, stored.seq, acknowledged);
        let own = own_entry(queued, stored, self.me.clone());
        self.arrived(own, false, now);
    }

    /// What was answered in this conversation need not be remembered any longer.
    pub(super) fn forget_sent(&mut self, conversation_id: &ConversationId) {
        for client_msg_id in self.outbox.answered_early.remove(conversation_id).into_iter().flatten() {
            self.save(Change::Done(client_msg_id));
        }
    }

    pub(super) fn send_refused(&mut self, queued: Queued, error: Error) {
        let Some(entry) = self.outbox.remove(&queued) else { return };
        self.stats.failed += 1;
        self.save(Change::Done(queued.client_msg_id.clone()));
        if let Some(waiter) = entry.waiter {
            self.answer(waiter, Err(error.clone()));
        }
        self.tell(Event::Failed { queued, error });
    }
}

/// What to ask the server for.
pub(super) fn action(queued: &Queued) -> Action {
    let Queued { client_msg_id, outgoing } = queued.clone();
    match outgoing {
        Outgoing::Message { target, body, reply_to } => Action::Send(SendRequest {
            target,
            client_msg_id,
            kind: Kind::Text,
            body,
            media: None,
            reply_to,
            mentions: vec![],
        }),
        Outgoing::Edit { conversation_id, seq, body } => {
            Action::Edit(EditRequest { conversation_id, seq, client_msg_id, body })
        }
        Outgoing::Delete { conversation_id, seq } => {
            Action::Delete(DeleteRequest { conversation_id, seq, client_msg_id })
        }
        Outgoing::React { conversation_id, seq, emoji } => {
            Action::React(ReactRequest { conversation_id, seq, client_msg_id, emoji })
        }
    }
}

/// The entry that it became.
fn own_entry(queued: Queued, stored: SendResult, sender_id: UserId) -> Message {
    let SendResult { conversation_id, seq, message_id, sent_at, version, .. } = stored;
    let target_seq = queued.outgoing.target_seq();
    let (kind, body, reply_to, emoji) = match queued.outgoing {
        Outgoing::Message { body, reply_to, .. } => (Kind::Text, body, reply_to, None),
        Outgoing::Edit { body, .. } => (Kind::Edit, body, None, None),
        Outgoing::Delete { .. } => (Kind::Delete, String::new(), None, None),
        Outgoing::React { emoji, .. } => (Kind::Reaction, String::new(), None, emoji),
    };
    Message {
        conversation_id,
        seq,
        message_id,
        sender_id,
        kind,
        body,
        sent_at,
        client_msg_id: Some(queued.client_msg_id),
        media: None,
        reply_to,
        version,
        edited_at: None,
        deleted_at: None,
        deleted_by: None,
        reactions: vec![],
        target_seq,
        emoji,
        mentions: vec![],
        system: None,
    }
}
