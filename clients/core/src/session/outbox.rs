//! Requests on their way to the server, with a send queue per conversation, and one for new groups.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::{
    Action, AddResult, ClientMsgId, Conversation, ConversationId, CreateRequest, LeaveRequest, SendResult, Seq, Target,
    Timestamp, UserId, direct_conversation_id,
};

use super::own_entries::{becomes_entry_in_channel, own_entry};
use super::requests::{Sending, TRY_MAX};
use super::sealing::Form;
use super::uploads::Uploading;
use super::waiting::Waiting;
use super::{AskId, Core};
use crate::saved::{Outgoing, Queued, StorageChange};
use crate::turn::Keeper;
use crate::{Error, Event, Moment};

#[derive(Default)]
pub(super) struct Outbox {
    lanes: BTreeMap<LaneKey, Lane>,
    /// Messages whose files are being uploaded, in no send queue yet.
    pub(super) uploads: VecDeque<Uploading>,
    /// Send queues that may have something to send. The others are empty or wait for a reply.
    ready: BTreeSet<LaneKey>,
    /// Send queues whose next message can't be sealed yet.
    unsealed: BTreeSet<LaneKey>,
    /// The direct conversations with these users.
    direct: BTreeMap<UserId, ConversationId>,
    /// Messages with a reply, in conversations that are new on this device and whose start is not known. The storage
    /// keeps them until it is, so that a restart finds them.
    answered_early: BTreeMap<ConversationId, Vec<ClientMsgId>>,
    last_order: u64,
    encrypted_of: Option<UserId>,
}

/// The key of a send queue, whose requests have an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKey {
    To(Target),
    /// Groups that are to be made.
    Create,
}

#[derive(Default)]
struct Lane {
    entries: VecDeque<Waiting>,
    /// One, unless two send queues turned out to be for the same conversation.
    under_way: usize,
}

impl LaneKey {
    fn to_conversation(conversation_id: &ConversationId) -> Self {
        Self::To(Target::Conversation(conversation_id.clone()))
    }
}

impl Outbox {
    /// `is_unsent`: certainly no earlier run has sent it. `encrypted_of`: the user, if the client has encryption.
    pub(super) fn new(
        saved: VecDeque<Queued>,
        is_unsent: impl Fn(&Queued) -> bool,
        encrypted_of: Option<UserId>,
    ) -> Self {
        let mut outbox = Self { encrypted_of, ..Self::default() };
        for queued in saved {
            let tries = u32::from(!is_unsent(&queued));
            outbox.push(queued, None, tries);
        }
        outbox
    }

    fn push(&mut self, queued: Queued, ask: Option<AskId>, tries: u32) {
        self.last_order += 1;
        // Sealed messages open in the order of their sealing, so a conversation has one send queue from the start.
        if let (Some(me), Some(Target::User(user))) = (&self.encrypted_of, queued.outgoing.target()) {
            let id = direct_conversation_id(me, &user);
            self.remember_direct(&user, &id);
        }
        let lane = self.lane_of(&queued.outgoing);
        let order = self.last_order;
        let (under_way, acked_before, runs_until, told) = (false, None, None, false);
        let entry = Waiting { order, queued, ask, under_way, acked_before, tries, runs_until, told };
        if entry.queued.outgoing.upload().is_some() {
            return self.uploads.push_back(Uploading::new(entry));
        }
        self.lanes.entry(lane.clone()).or_default().entries.push_back(entry);
        self.ready.insert(lane);
    }

    /// Adds a message whose file is uploaded at the end of its send queue. A message that may have been sent goes to
    /// the front, where `is_unsure` looks for it.
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

    /// Returns the requests without a reply, oldest first.
    pub(super) fn waiting(&self) -> Vec<Queued> {
        let in_lanes = self.lanes.values().flat_map(|lane| &lane.entries);
        let mut entries: Vec<&Waiting> = in_lanes.chain(self.uploads.iter().map(|upload| &upload.entry)).collect();
        entries.sort_by_key(|entry| entry.order);
        entries.into_iter().map(|entry| entry.queued.clone()).collect()
    }

    /// Returns the send queue of a conversation, the same whether its messages name the user or the conversation.
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

    /// Records that the entry came by another way than its reply.
    pub(super) fn told(&mut self, client_msg_id: &ClientMsgId) {
        let mut entries = self.lanes.values_mut().flat_map(|lane| &mut lane.entries);
        if let Some(entry) = entries.find(|entry| entry.queued.client_msg_id == *client_msg_id) {
            entry.told = true;
        }
    }

    /// Returns the request with this id that waits or is under way.
    pub(super) fn find(&self, client_msg_id: &ClientMsgId) -> Option<&Queued> {
        let mut entries = self.lanes.values().flat_map(|lane| &lane.entries);
        entries.find(|entry| entry.queued.client_msg_id == *client_msg_id).map(|entry| &entry.queued)
    }

    /// Returns the other user of the request's direct conversation, if that is known.
    pub(super) fn recipient(&self, queued: &Queued) -> Option<UserId> {
        match queued.outgoing.target()? {
            Target::User(user) => Some(user),
            Target::Conversation(id) => {
                self.direct.iter().find(|(_, known)| **known == id).map(|(peer, _)| peer.clone())
            }
        }
    }

    /// Records that the server has not stored it and never will as it was sent. The message is as one that was not sent.
    pub(super) fn unsend(&mut self, queued: &Queued) {
        let key = self.lane_of(&queued.outgoing);
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let entry = lane.entries.iter_mut().find(|entry| entry.queued.client_msg_id == queued.client_msg_id);
        if let Some(entry) = entry {
            lane.under_way -= usize::from(entry.under_way);
            entry.set_unsent();
        }
        self.ready.insert(key);
    }

    /// Records that no reply will come any more.
    fn lost(&mut self, queued: &Queued, runs_until: Moment) {
        let key = self.lane_of(&queued.outgoing);
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let entry = lane.entries.iter_mut().find(|entry| entry.queued.client_msg_id == queued.client_msg_id);
        if let Some(entry) = entry {
            lane.under_way -= usize::from(std::mem::take(&mut entry.under_way));
            entry.runs_until = Some(runs_until);
        }
        self.ready.insert(key);
    }

    /// Returns the request that a send queue sends next, unless one is under way.
    fn next(&self, key: &LaneKey) -> Option<Queued> {
        let lane = self.lanes.get(key).filter(|lane| lane.under_way == 0)?;
        lane.entries.front().map(|entry| entry.queued.clone())
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

    /// Returns whether a sent message without a reply may be in this conversation, in which these users have written.
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
            // The conversation may be the one that `create` is making.
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

    /// Forgets the assumption that this conversation's entries are acknowledged.
    pub(super) fn forget_acked(&mut self, conversation_id: &ConversationId) {
        if let Some(lane) = self.lanes.get_mut(&LaneKey::to_conversation(conversation_id)) {
            lane.entries.iter_mut().for_each(|entry| entry.acked_before = None);
        }
    }

    /// Remembers the direct conversations of the chat list.
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
        // Requests that were sent stay in front, where `is_unsure` looks for them.
        merged.entries.make_contiguous().sort_by_key(|entry| (entry.tries == 0, entry.order));
        self.ready.insert(key);
    }
}

impl Core {
    /// Takes a request into the outbox. The answer to `ask` has the form of an addition's result, whatever the request.
    pub(super) fn keep(&mut self, mut queued: Queued, ask: AskId) {
        if queued.made_at == Timestamp::default() {
            queued.made_at = self.wall;
        }
        self.views.queued(&queued);
        self.save(StorageChange::Queued(queued.clone()));
        self.outbox.push(queued, Some(ask), 0);
    }

    pub(super) fn send_waiting(&mut self, now: Moment) {
        let mut keys = std::mem::take(&mut self.outbox.ready);
        keys.append(&mut self.outbox.unsealed);
        for key in keys {
            let Some(queued) = self.outbox.next(&key) else { continue };
            let (sealed, keys) = match self.form_of(&queued) {
                Form::Clear => (None, None),
                Form::Sealed(sealed) => (Some(sealed), None),
                Form::Rekeyed(keys) => (None, Some(keys)),
                Form::Waits => {
                    self.outbox.unsealed.insert(key);
                    continue;
                }
                Form::Refused(error) => {
                    self.send_refused(&queued, error);
                    continue;
                }
            };
            let acked = match &key {
                LaneKey::To(Target::Conversation(id)) => self.conversations.acked(id),
                LaneKey::To(Target::User(_)) | LaneKey::Create => Some(Seq::ZERO),
            };
            let Some(lane) = self.outbox.lanes.get_mut(&key) else { continue };
            let Some(entry) = lane.entries.front_mut() else { continue };
            entry.under_way = true;
            lane.under_way = 1;
            if entry.tries == 0 {
                entry.acked_before = acked;
                self.stats.sent += 1;
            } else {
                self.stats.resent += 1;
            }
            // For a saved request, the time of its last try is unknown.
            let lost_until = (entry.tries > 0).then(|| entry.runs_until.unwrap_or(now + TRY_MAX));
            entry.tries = entry.tries.saturating_add(1);
            let read = match (&key, &queued.outgoing) {
                (LaneKey::To(Target::Conversation(id)), Outgoing::Message { .. }) => self.fuse(id, now),
                (LaneKey::To(_) | LaneKey::Create, Outgoing::Message { .. } | Outgoing::Request(_)) => None,
            };
            self.ask_to_store(Sending { queued, sealed, keys, read }, lost_until, now);
        }
    }

    /// The mark that the message took along is to be sent again, with the message or alone.
    pub(super) fn fuse_lost(&mut self, sending: &Sending) {
        if sending.read.is_some()
            && let LaneKey::To(Target::Conversation(id)) = self.outbox.lane_of(&sending.queued.outgoing)
        {
            self.read_lost(&id);
        }
    }

    pub(super) fn send_lost(&mut self, queued: &Queued, runs_until: Moment) {
        self.outbox.lost(queued, runs_until);
    }

    pub(super) fn stored(
        &mut self,
        Sending { mut queued, sealed, keys, read }: Sending,
        answer: AddResult,
        now: Moment,
    ) {
        let Some(entry) = self.outbox.remove(&queued) else { return };
        if let (Some(_), Some(stored)) = (keys, &answer.entry) {
            self.rolled(&queued, Ok(stored.seq));
        }
        self.stats.answered += 1;
        if let Some(ask) = entry.ask {
            self.answer(ask, Ok(answer.clone().into()));
        }
        if let (Outgoing::Request(Action::Create(request)), Some(stored)) = (&queued.outgoing, &answer.entry) {
            let encrypted = request.encrypted;
            self.group_created(&stored.conversation_id, encrypted);
            if encrypted {
                self.begin_group(&stored.conversation_id);
            }
        }
        let AddResult { entry: Some(stored), added, not_added, .. } = answer else {
            // All of them were members before, or it is a channel that the user has left.
            if let Outgoing::Request(Action::Leave(LeaveRequest { conversation_id, .. })) = &queued.outgoing {
                self.watch_left(conversation_id);
                self.views.gone(conversation_id.clone());
            }
            return self.save(StorageChange::Done(queued.client_msg_id));
        };
        if let Outgoing::Request(Action::Create(CreateRequest { members, .. })) = &mut queued.outgoing {
            members.retain(|user| not_added.iter().all(|not_added| not_added.user_id != *user));
        }
        if matches!(&queued.outgoing, Outgoing::Request(Action::Delete(delete)) if delete.seq == stored.seq) {
            // A former member's delete: the reply has the place of the message, and the member sees no entry of the
            // delete.
            self.save(StorageChange::Done(queued.client_msg_id.clone()));
            return self.tell(Event::Reacted { queued });
        }
        if stored.conversation_id.is_channel() {
            return self.stored_in_channel(queued, stored, added, now);
        }
        if let Some(Target::User(user)) = queued.outgoing.target() {
            self.outbox.remember_direct(&user, &stored.conversation_id);
        }
        if sealed.is_none() {
            let early = self.outbox.answered_early.entry(stored.conversation_id.clone()).or_default();
            early.push(queued.client_msg_id.clone());
            if self.conversations.has_begun(&stored.conversation_id) {
                self.forget_sent(&stored.conversation_id);
            }
        }
        // If all earlier entries were acknowledged, the server has raised the delivered mark to this one.
        let acknowledged = entry.acked_before.is_some_and(|acked| stored.seq == acked.next())
            || stored.read_seq.is_some_and(|mark| mark >= stored.seq);
        if let Some(seq) = read {
            self.fused(seq, &stored);
        }
        self.conversations.stored(&stored.conversation_id, stored.seq, acknowledged);
        if self.conversations.shown(&stored.conversation_id) >= stored.seq {
            self.views.settled(&queued.client_msg_id);
        }
        if let Some(sealed) = sealed {
            return self.stored_sealed(queued, &sealed, stored, now);
        }
        let own = own_entry(queued, stored, added, self.me.clone());
        if !entry.told && self.conversations.is_passed(&own.conversation_id, own.seq) {
            return self.tell(Event::Message { message: own, missed: false });
        }
        self.arrived(own, false, now);
    }

    /// Handles the reply to a request in a channel, where nothing is acknowledged and no start is needed.
    fn stored_in_channel(&mut self, queued: Queued, stored: SendResult, added: Vec<UserId>, now: Moment) {
        self.save(StorageChange::Done(queued.client_msg_id.clone()));
        if !becomes_entry_in_channel(&queued.outgoing) {
            return self.tell(Event::Reacted { queued });
        }
        let own = own_entry(queued, stored, added, self.me.clone());
        self.own_channel_entry(own, now);
    }

    /// Removes the conversation's requests with a reply from the storage.
    pub(super) fn forget_sent(&mut self, conversation_id: &ConversationId) {
        for client_msg_id in self.outbox.answered_early.remove(conversation_id).into_iter().flatten() {
            self.save(StorageChange::Done(client_msg_id));
        }
    }

    pub(super) fn send_refused(&mut self, queued: &Queued, error: Error) {
        let Some(entry) = self.outbox.remove(queued) else { return };
        let is_gone = matches!(&error, Error::Refused { code, .. } if code == "gone");
        if is_gone && entry.queued.outgoing.upload().is_some() {
            // The file was uploaded and confirmed, and its announcement has expired since.
            return self.upload_anew(entry);
        }
        self.failed(entry, error);
    }

    pub(super) fn failed(&mut self, Waiting { queued, ask, .. }: Waiting, error: Error) {
        self.stats.failed += 1;
        self.forget_sealed(&queued, None);
        let (client_msg_id, code) = (queued.client_msg_id.clone(), error.code().to_owned());
        if self.keeper == Keeper::Store && queued.shows_refusal(&error) {
            self.save(StorageChange::Refused { client_msg_id, code: code.clone() });
            self.refused.push((queued.clone(), code));
        } else {
            self.save(StorageChange::Done(client_msg_id));
        }
        if let Some(ask) = ask {
            self.answer(ask, Err(error.clone()));
        }
        self.tell(Event::Failed { queued, error });
    }
}
