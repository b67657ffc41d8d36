//! Messages and changes on their way to the server, in a lane per conversation, and one for new groups.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use super::reading::readable;
use super::requests::Errand;
use super::uploads::Uploading;
use super::{Session, Waiter};
use crate::group::NewGroup;
use crate::storage::{Outgoing, Queued, StorageChange};
use crate::{Error, Event};
use serde_json::Value;
use wire::{
    Action, AddRequest, AddResult, ClientMsgId, Conversation, ConversationId, CreateRequest, DeleteRequest,
    EditRequest, Kind, LeaveRequest, LeaveResult, Message, ReactRequest, RemoveRequest, RoleRequest, SendRequest,
    SendResult, Seq, System, Target, UpdateRequest, UserId,
};

#[derive(Default)]
pub(super) struct Outbox {
    lanes: BTreeMap<LaneKey, Lane>,
    /// Messages whose files are on their way. They are in no lane yet.
    pub(super) uploads: VecDeque<Uploading>,
    /// Lanes that may have something to send. The others are empty or wait for an answer.
    ready: BTreeSet<LaneKey>,
    /// The direct conversations with these users.
    direct: BTreeMap<UserId, ConversationId>,
    /// Answered, in conversations that are new on this device and have not begun: kept in the storage until they do, so that
    /// they are found after a restart.
    answered_early: BTreeMap<ConversationId, Vec<ClientMsgId>>,
    last_order: u64,
}

/// What has an order among itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKey {
    To(Target),
    /// Groups that are to be made.
    Create,
}

#[derive(Default)]
struct Lane {
    entries: VecDeque<Waiting>,
    /// One, unless two lanes turned out to be for the same conversation.
    under_way: usize,
}

pub(super) struct Waiting {
    /// Their order over all lanes.
    order: u64,
    pub(super) queued: Queued,
    waiter: Option<Waiter<AddResult>>,
    under_way: bool,
    /// What the server held acknowledged when this was first sent; `None`: unknown, or not sent.
    acked_before: Option<Seq>,
    tries: u32,
    /// The app was told of it before it was answered.
    told: bool,
}

impl Waiting {
    pub(super) fn set_unsent(&mut self) {
        (self.under_way, self.acked_before, self.tries) = (false, None, 0);
    }
}

impl LaneKey {
    fn to_conversation(conversation_id: &ConversationId) -> Self {
        Self::To(Target::Conversation(conversation_id.clone()))
    }
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

    fn push(&mut self, queued: Queued, waiter: Option<Waiter<AddResult>>, tries: u32) {
        self.last_order += 1;
        let lane = self.lane_of(&queued.outgoing);
        let order = self.last_order;
        let entry = Waiting { order, queued, waiter, under_way: false, acked_before: None, tries, told: false };
        if entry.queued.outgoing.upload().is_some() {
            return self.uploads.push_back(Uploading::new(entry));
        }
        self.lanes.entry(lane.clone()).or_default().entries.push_back(entry);
        self.ready.insert(lane);
    }

    /// Its file is there: it goes behind what waits in its lane. One that may have been sent goes before that, where `is_unsure` looks
    /// for it.
    pub(super) fn enter(&mut self, Uploading { mut entry, may_be_sent, .. }: Uploading) {
        let key = self.lane_of(&entry.queued.outgoing);
        entry.tries = u32::from(may_be_sent);
        let entries = &mut self.lanes.entry(key.clone()).or_default().entries;
        if may_be_sent {
            entries.push_front(entry);
        } else {
            entries.push_back(entry);
        }
        self.ready.insert(key);
    }

    /// What waits for an answer, oldest first.
    pub(super) fn waiting(&self) -> Vec<Queued> {
        let in_lanes = self.lanes.values().flat_map(|lane| &lane.entries);
        let mut entries: Vec<&Waiting> = in_lanes.chain(self.uploads.iter().map(|upload| &upload.entry)).collect();
        entries.sort_by_key(|entry| entry.order);
        entries.into_iter().map(|entry| entry.queued.clone()).collect()
    }

    /// The same lane for a conversation, whether its messages name the user or the conversation.
    fn lane_of(&self, outgoing: &Outgoing) -> LaneKey {
        match outgoing.target() {
            None => LaneKey::Create,
            Some(Target::User(user)) => LaneKey::To(match self.direct.get(&user) {
                Some(conversation_id) => Target::Conversation(conversation_id.clone()),
                None => Target::User(user),
            }),
            Some(target @ Target::Conversation(_)) => LaneKey::To(target),
        }
    }

    /// It has come by another way than its answer.
    pub(super) fn told(&mut self, client_msg_id: &ClientMsgId) {
        let mut entries = self.lanes.values_mut().flat_map(|lane| &mut lane.entries);
        if let Some(entry) = entries.find(|entry| entry.queued.client_msg_id == *client_msg_id) {
            entry.told = true;
        }
    }

    /// No answer to it will come any more.
    fn lost(&mut self, queued: &Queued) {
        let key = self.lane_of(&queued.outgoing);
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let entry = lane.entries.iter_mut().find(|entry| entry.queued.client_msg_id == queued.client_msg_id);
        if entry.is_some_and(|entry| std::mem::take(&mut entry.under_way)) {
            lane.under_way -= 1;
        }
        self.ready.insert(key);
    }

    fn remove(&mut self, queued: &Queued) -> Option<Waiting> {
        let key = self.lane_of(&queued.outgoing);
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
        let is_uploaded = |key: &LaneKey| {
            self.uploads.iter().any(|it| it.may_be_sent && self.lane_of(&it.entry.queued.outgoing) == *key)
        };
        let is_sent = |key: &LaneKey| self.lanes.get(key).is_some_and(sent) || is_uploaded(key);
        if conversation_id.is_group() {
            // It may be the one that is being made here.
            return is_sent(&LaneKey::to_conversation(conversation_id)) || is_sent(&LaneKey::Create);
        }
        let to_user = |user: &UserId| match user {
            // Sent by another device; the recipient is unknown here.
            user if user == me => {
                let is_to_user = |key: &LaneKey| matches!(key, LaneKey::To(Target::User(_)));
                self.lanes.iter().any(|(key, lane)| is_to_user(key) && sent(lane))
                    || self
                        .uploads
                        .iter()
                        .any(|it| it.may_be_sent && is_to_user(&self.lane_of(&it.entry.queued.outgoing)))
            }
            user => is_sent(&LaneKey::To(Target::User(user.clone()))),
        };
        is_sent(&LaneKey::to_conversation(conversation_id))
            || (!self.direct.values().any(|known| known == conversation_id) && users.into_iter().any(to_user))
    }

    /// What was taken for acknowledged in this conversation is not.
    pub(super) fn forget_acked(&mut self, conversation_id: &ConversationId) {
        if let Some(lane) = self.lanes.get_mut(&LaneKey::to_conversation(conversation_id)) {
            lane.entries.iter_mut().for_each(|entry| entry.acked_before = None);
        }
    }

    /// Of the chat list.
    pub(super) fn remember_rows(&mut self, rows: &[Conversation]) {
        for row in rows {
            if let Some(peer_id) = &row.peer_id {
                self.remember_direct(peer_id, &row.conversation_id);
            }
        }
    }

    /// Messages to this user go to this conversation.
    pub(super) fn remember_direct(&mut self, user: &UserId, conversation_id: &ConversationId) {
        if self.direct.get(user).is_some_and(|known| known == conversation_id) {
            return;
        }
        self.direct.insert(user.clone(), conversation_id.clone());
        let Some(lane) = self.lanes.remove(&LaneKey::To(Target::User(user.clone()))) else { return };
        let key = LaneKey::to_conversation(conversation_id);
        let merged = self.lanes.entry(key.clone()).or_default();
        merged.entries.extend(lane.entries);
        merged.under_way += lane.under_way;
        // What was sent stays in front, where `is_unsure` looks for it.
        merged.entries.make_contiguous().sort_by_key(|entry| (entry.tries == 0, entry.order));
        self.ready.insert(key);
    }
}

impl Session {
    pub(crate) fn send(&mut self, queued: Queued, waiter: Option<Waiter<AddResult>>, now: Instant) {
        self.outbox.push(queued, waiter, 0);
        self.send_due(now);
    }

    pub(super) fn send_waiting(&mut self, now: Instant) {
        for key in std::mem::take(&mut self.outbox.ready) {
            let acked = match &key {
                LaneKey::To(Target::Conversation(id)) => self.conversations.acked(id),
                LaneKey::To(Target::User(_)) | LaneKey::Create => Some(Seq::ZERO),
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
            self.ask(Errand::Send(Box::new(queued)), now);
        }
    }

    pub(super) fn send_lost(&mut self, queued: &Queued) {
        self.outbox.lost(queued);
    }

    pub(super) fn stored(&mut self, queued: Queued, answer: AddResult, now: Instant) {
        let Some(entry) = self.outbox.remove(&queued) else { return };
        self.stats.answered += 1;
        if let Some(waiter) = entry.waiter {
            self.answer(waiter, Ok(answer.clone()));
        }
        let AddResult { entry: Some(stored), added, .. } = answer else {
            // All of them were members before, or it is a channel that the user has left.
            if let Outgoing::Leave { conversation_id } = &queued.outgoing {
                self.watch_left(conversation_id);
            }
            return self.save(StorageChange::Done(queued.client_msg_id));
        };
        if stored.conversation_id.is_channel() {
            return self.stored_in_channel(queued, stored, added, now);
        }
        if let Some(Target::User(user)) = queued.outgoing.target() {
            self.outbox.remember_direct(&user, &stored.conversation_id);
        }
        let early = self.outbox.answered_early.entry(stored.conversation_id.clone()).or_default();
        early.push(queued.client_msg_id.clone());
        if self.conversations.has_begun(&stored.conversation_id) {
            self.forget_sent(&stored.conversation_id);
        }
        // If the user held everything before it, the server has raised the delivered mark to it.
        let acknowledged = entry.acked_before.is_some_and(|acked| stored.seq == acked.next());
        self.conversations.stored(&stored.conversation_id, stored.seq, acknowledged);
        let own = own_entry(queued, stored, added, self.me.clone());
        if !entry.told && self.conversations.is_passed(&own.conversation_id, own.seq) {
            return self.tell(Event::Message { message: own, missed: false });
        }
        self.arrived(own, false, now);
    }

    /// Of a channel nothing is acknowledged, or begins.
    fn stored_in_channel(&mut self, queued: Queued, stored: SendResult, added: Vec<UserId>, now: Instant) {
        self.save(StorageChange::Done(queued.client_msg_id.clone()));
        if matches!(queued.outgoing, Outgoing::React { .. }) {
            // It is counted, and no entry: the answer is about the message.
            return self.tell(Event::Reacted { queued });
        }
        let own = own_entry(queued, stored, added, self.me.clone());
        self.own_channel_entry(own, now);
    }

    /// What was answered in this conversation need not be remembered any longer.
    pub(super) fn forget_sent(&mut self, conversation_id: &ConversationId) {
        for client_msg_id in self.outbox.answered_early.remove(conversation_id).into_iter().flatten() {
            self.save(StorageChange::Done(client_msg_id));
        }
    }

    pub(super) fn send_refused(&mut self, queued: &Queued, error: Error) {
        let Some(entry) = self.outbox.remove(queued) else { return };
        let is_gone = matches!(&error, Error::Refused { code, .. } if code == "gone");
        if is_gone && entry.queued.outgoing.upload().is_some() {
            // What it carries was there when it was looked after, and has ended since.
            return self.upload_anew(entry);
        }
        self.failed(entry, error);
    }

    pub(super) fn failed(&mut self, Waiting { queued, waiter, .. }: Waiting, error: Error) {
        self.stats.failed += 1;
        self.save(StorageChange::Done(queued.client_msg_id.clone()));
        if let Some(waiter) = waiter {
            self.answer(waiter, Err(error.clone()));
        }
        self.tell(Event::Failed { queued, error });
    }
}

/// What to ask the server for.
pub(super) fn action(queued: &Queued) -> Action {
    let Queued { client_msg_id, outgoing } = queued.clone();
    match outgoing {
        Outgoing::Message { target, body, reply_to, mentions, media } => {
            let kind = media.as_ref().map_or(Kind::Text, |upload| upload.kind.clone());
            let media = media.and_then(|upload| upload.media()).map(Box::new);
            Action::Send(SendRequest { target, client_msg_id, kind, body, media, reply_to, mentions })
        }
        Outgoing::Edit { conversation_id, seq, body } => {
            Action::Edit(EditRequest { conversation_id, seq, client_msg_id, body })
        }
        Outgoing::Delete { conversation_id, seq } => {
            Action::Delete(DeleteRequest { conversation_id, seq, client_msg_id })
        }
        Outgoing::React { conversation_id, seq, emoji } => {
            Action::React(ReactRequest { conversation_id, seq, client_msg_id, emoji })
        }
        Outgoing::Create(NewGroup { kind, title, members, history, post, add, join }) => {
            Action::Create(CreateRequest { client_msg_id, kind, title, members, history, post, add, join })
        }
        Outgoing::Add { conversation_id, members } => {
            Action::Add(AddRequest { conversation_id, client_msg_id, members })
        }
        Outgoing::Remove { conversation_id, user_id } => {
            Action::Remove(RemoveRequest { conversation_id, client_msg_id, user_id })
        }
        Outgoing::Leave { conversation_id } => {
            Action::Leave(LeaveRequest { conversation_id, client_msg_id: Some(client_msg_id) })
        }
        Outgoing::Role { conversation_id, user_id, role } => {
            Action::Role(RoleRequest { conversation_id, client_msg_id, user_id, role })
        }
        Outgoing::Update { conversation_id, info } => {
            Action::Update(UpdateRequest { conversation_id, client_msg_id, info })
        }
    }
}

/// The answer to it, if it can be read. Only an addition can come to nothing, and only to leave a channel is no entry.
pub(super) fn answer(outgoing: &Outgoing, result: Value) -> Option<AddResult> {
    match outgoing {
        Outgoing::Add { .. } => {
            readable::<AddResult>(result).filter(|answer| answer.entry.is_some() || answer.added.is_empty())
        }
        Outgoing::Leave { conversation_id } => readable::<LeaveResult>(result)
            .filter(|answer| answer.entry.is_some() || conversation_id.is_channel())
            .map(|answer| AddResult { entry: answer.entry, added: vec![], already: vec![] }),
        Outgoing::Message { .. }
        | Outgoing::Edit { .. }
        | Outgoing::Delete { .. }
        | Outgoing::React { .. }
        | Outgoing::Create(_)
        | Outgoing::Remove { .. }
        | Outgoing::Role { .. }
        | Outgoing::Update { .. } => {
            readable::<SendResult>(result).map(|entry| AddResult { entry: Some(entry), added: vec![], already: vec![] })
        }
    }
}

/// What it did to the group, if it is a change of one.
fn system(outgoing: &Outgoing, added: Vec<UserId>, own: &UserId) -> Option<System> {
    match outgoing.clone() {
        Outgoing::Message { .. } | Outgoing::Edit { .. } | Outgoing::Delete { .. } | Outgoing::React { .. } => None,
        Outgoing::Create(NewGroup { title, members, .. }) => {
            let others = members.into_iter().filter(|user| user != own);
            Some(System::Created { title, members: std::iter::once(own.clone()).chain(others).collect() })
        }
        Outgoing::Add { .. } => Some(System::MembersAdded { members: added }),
        Outgoing::Remove { user_id, .. } => Some(System::MembersRemoved { members: vec![user_id] }),
        Outgoing::Leave { .. } => Some(System::MemberLeft {}),
        Outgoing::Role { user_id, role, .. } => Some(System::RoleChanged { user_id, role }),
        Outgoing::Update { info, .. } => Some(info.into()),
    }
}

/// The entry that it became.
fn own_entry(queued: Queued, stored: SendResult, added: Vec<UserId>, sender_id: UserId) -> Message {
    let SendResult { conversation_id, seq, message_id, sent_at, version, .. } = stored;
    let target_seq = queued.outgoing.target_seq();
    let system = system(&queued.outgoing, added, &sender_id);
    let (mut mentions, mut media) = (vec![], None);
    let (kind, body, reply_to, emoji) = match queued.outgoing {
        Outgoing::Message { body, reply_to, mentions: named, media: upload, .. } => {
            mentions = named;
            media = upload.as_ref().and_then(|upload| upload.media()).map(Box::new);
            (upload.map_or(Kind::Text, |upload| upload.kind), body, reply_to, None)
        }
        Outgoing::Edit { body, .. } => (Kind::Edit, body, None, None),
        Outgoing::Delete { .. } => (Kind::Delete, String::new(), None, None),
        Outgoing::React { emoji, .. } => (Kind::Reaction, String::new(), None, emoji),
        Outgoing::Create(_)
        | Outgoing::Add { .. }
        | Outgoing::Remove { .. }
        | Outgoing::Leave { .. }
        | Outgoing::Role { .. }
        | Outgoing::Update { .. } => (Kind::System, String::new(), None, None),
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
        media,
        reply_to,
        version,
        edited_at: None,
        deleted_at: None,
        deleted_by: None,
        reactions: vec![],
        reactions_seq: None,
        target_seq,
        emoji,
        // The server's answer does not say.
        emoji_before: None,
        mentions,
        system,
    }
}
