//! The chat list, as an interface shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use pigeonhole_sealing::{Lock, Party};
use serde::{Deserialize, Serialize};
use wire::limits::PREVIEW_CHARS_MAX;
use wire::{
    Action, Channel, ClientMsgId, Conversation, ConversationId, ConversationKind, ConversationSettings, CreateRequest,
    Kind, LastMessage, Message, MutedUntil, Presence, Seq, Settings, System, Target, Timestamp, Title, UserId,
    UserSettings, channel_id, group_id,
};

use super::item::Progress;
use super::kept;
use super::row::{ChatRow, Line};
use super::rules::Standing;
use crate::saved::{Outgoing, Queued};
use crate::timeline::Place;
use crate::words::Query;
use crate::{Draft, Event, Moment, ReceiptKind, Timeline};

/// The chat list: all conversations that are known, with what has come of them.
///
/// Pass in the rows of `inbox` and `channels` or of the store, the outbox, and all events. The list keeps no message
/// that is read, except for the last one.
#[derive(Clone, Debug)]
pub struct Conversations {
    me: UserId,
    chats: Vec<Chat>,
}

/// All that an interface draws of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListSnapshot {
    /// Rises with each change of the rest.
    pub version: u64,
    /// Pinned conversations first, the one pinned last at the top, then pinned channels in the same way, then those with
    /// the latest message. A row that did not change is the same object as in the snapshot before.
    pub rows: Vec<Arc<ChatRow>>,
    /// The number of unread messages of all conversations that are not muted, for the app's badge.
    pub unread: u64,
    /// The known names of users in the rows, once the app shows names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<UserId, Title>,
}

/// Which rows an interface draws.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Filter {
    /// The rows in the archive, instead of the others.
    pub archived: bool,
    /// Only these kinds. Empty: all.
    pub kinds: Vec<ConversationKind>,
    /// The title or the peer has these words, the last one perhaps not complete. A text without words finds all.
    pub words: String,
}

/// A list of the server that has an order of what is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinsOf {
    /// `inbox`: direct conversations and groups.
    Chats,
    /// `channels`.
    Channels,
}

impl PinsOf {
    fn kind(kind: ConversationKind) -> Self {
        match kind {
            ConversationKind::Direct | ConversationKind::Group => Self::Chats,
            ConversationKind::Channel => Self::Channels,
        }
    }
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for something else that is drawn")]
struct Chat {
    key: String,
    conversation_id: Option<ConversationId>,
    /// The ids that a new group or channel can get. Its row can come before the reply.
    made_ids: Vec<ConversationId>,
    /// Has entries that came live, and that are unread or the last ones.
    timeline: Timeline,
    peer_id: Option<UserId>,
    /// The title, by this entry or a row with this `last_seq`.
    title: (Seq, Option<String>),
    standing: Standing,
    /// The last message of the newest row, with its changes by entries up to this `seq`.
    line: (Seq, Option<LastMessage>),
    row_seq: Seq,
    made_at: Option<Timestamp>,
    failed: Option<String>,
    muted_until: Option<MutedUntil>,
    mutes_mentions: bool,
    /// A channel that the server no longer lists.
    is_gone: bool,
    /// The place among the pinned ones, if it is pinned: a higher one is above. 0: the order is not known yet.
    pinned: Option<u64>,
    is_archived: bool,
    is_marked_unread: bool,
    is_blocked: bool,
    draft: Option<Draft>,
    presence: Option<Presence>,
    lock: Lock,
}

/// Input.
impl Conversations {
    /// An empty list of this user.
    pub fn new(me: UserId) -> Self {
        Self { me, chats: Vec::new() }
    }

    /// Takes a row of the chat list. An older row than the known one changes nothing.
    pub fn row(&mut self, row: &Conversation) {
        let chat = self.chat(Some(&row.conversation_id), row.peer_id.as_ref());
        chat.timeline.row(row);
        chat.listed(row.last_seq, row.title.as_ref(), Some(&row.last_message), row.muted_until, row.archived);
        if chat.row_seq == row.last_seq {
            chat.standing.row(row);
            (chat.is_blocked, chat.mutes_mentions) = (row.blocked, row.mute_mentions);
            chat.is_marked_unread = row.marked_unread;
            chat.pinned = row.pinned.then(|| chat.pinned.unwrap_or_default());
        }
    }

    /// Takes a row of the list of channels, as [`row`](Self::row).
    pub fn channel(&mut self, row: &Channel) {
        let chat = self.chat(Some(&row.conversation_id), None);
        chat.timeline.channel(row);
        let (title, line) = (Some(&row.title), row.last_message.as_ref());
        chat.listed(row.last_seq, title, line, row.muted_until, row.archived);
        if chat.row_seq == row.last_seq {
            chat.standing.channel(row);
            chat.is_marked_unread = row.marked_unread;
            chat.pinned = row.pinned.then(|| chat.pinned.unwrap_or_default());
        }
        chat.is_gone = false;
    }

    /// The user is not a member of this channel any more. The channel leaves the list, and is closed.
    pub(crate) fn gone(&mut self, id: &ConversationId) {
        if let Some(chat) = self.found(id) {
            chat.is_gone = true;
        }
    }

    /// Takes a request of the outbox: a message, a change of one, or a new group.
    pub fn queued(&mut self, queued: Queued) {
        if let Outgoing::Request(Action::Create(request @ CreateRequest { client_msg_id, kind, title, .. })) =
            &queued.outgoing
        {
            let key = made_key(client_msg_id);
            if !self.chats.iter().any(|chat| chat.key == key) {
                let mut timeline = Timeline::new(self.me.clone());
                timeline.is(*kind);
                let title = (Seq::ZERO, Some(title.as_str().to_owned()));
                let mut chat = Chat { title, made_at: Some(queued.made_at), ..Chat::new(key, timeline) };
                chat.standing.begins(request);
                chat.lock = if request.encrypted { Lock::Sealed } else { Lock::Plain };
                chat.made_ids = vec![group_id(&self.me, client_msg_id), channel_id(&self.me, client_msg_id)];
                self.chats.push(chat);
            }
            return;
        }
        let chat = match queued.outgoing.target() {
            Some(Target::Conversation(id)) => self.chat(Some(&id), None),
            Some(Target::User(peer)) => self.chat(None, Some(&peer)),
            None => return,
        };
        chat.timeline.queued(queued);
    }

    /// Takes any event of the client.
    pub fn event(&mut self, event: &Event, now: Moment) {
        match event {
            Event::Message { message, missed } => self.message(message, *missed),
            Event::Receipt { kind, receipt } => {
                let is_own_read = *kind == ReceiptKind::Read && receipt.user_id == self.me;
                if let Some(chat) = self.found(&receipt.conversation_id) {
                    chat.is_marked_unread &= !is_own_read;
                    chat.timeline.receipt(*kind, &receipt.user_id, receipt.seq);
                }
            }
            Event::ConversationChanged(row) => self.row(row),
            Event::SettingsChanged(settings) => self.settings(settings),
            Event::Typing { conversation_id, user_id, text, .. } => {
                if let Some(chat) = self.found(conversation_id) {
                    chat.timeline.typing(user_id, text.as_deref(), now);
                    chat.is_there(user_id);
                }
            }
            Event::PresenceChanged(presence) => self.presence(std::slice::from_ref(presence)),
            Event::Uploading { client_msg_id, done, .. } => {
                self.chats.iter_mut().for_each(|chat| chat.timeline.uploading(client_msg_id, *done));
            }
            Event::Reacted { queued } => {
                if let Some(Target::Conversation(id)) = queued.outgoing.target()
                    && let Some(chat) = self.found(&id)
                {
                    chat.timeline.reacted(queued);
                }
            }
            Event::Failed { queued, error } => {
                for chat in &mut self.chats {
                    chat.timeline.failed_for(queued, error);
                    chat.refused(&queued.client_msg_id, error.code());
                }
            }
            // Events that no row shows.
            _ => {}
        }
    }

    fn message(&mut self, message: &Message, missed: bool) {
        let me = self.me.clone();
        let id = &message.conversation_id;
        let is_own = message.sender_id == self.me;
        let mut timeline = Timeline::new(self.me.clone());
        timeline.message(message.clone());
        // The first own message to a user names the conversation of both.
        let waits = |chat: &&Chat| message.client_msg_id.as_ref().is_some_and(|id| chat.timeline.has_unsent(id));
        let peer_id = match timeline.kind() {
            ConversationKind::Direct if !is_own && message.kind.counts() => Some(message.sender_id.clone()),
            ConversationKind::Direct if is_own => self.chats.iter().find(waits).and_then(|chat| chat.peer_id.clone()),
            ConversationKind::Direct | ConversationKind::Group | ConversationKind::Channel => None,
        };
        let chat = self.chat(Some(id), peer_id.as_ref());
        chat.timeline.message(message.clone());
        chat.learn(message, &me);
        if message.kind.counts() {
            chat.is_archived = false;
        }
        if !missed && !is_own {
            chat.is_there(&message.sender_id);
        }
        chat.timeline.trim();
    }

    fn settings(&mut self, settings: &Settings) {
        match settings {
            Settings::Conversation { conversation_id, set } => {
                let last = self.chats.iter().filter_map(|chat| chat.pinned).max().unwrap_or_default();
                let Some(chat) = self.found(conversation_id) else { return };
                let ConversationSettings { muted_until, archived, mute_mentions, unread, pinned } = set;
                if let Some(is_pinned) = pinned {
                    chat.pinned = is_pinned.then_some(last + 1);
                }
                chat.muted_until = muted_until.unwrap_or(chat.muted_until);
                chat.mutes_mentions = mute_mentions.unwrap_or(chat.mutes_mentions);
                chat.is_archived = archived.unwrap_or(chat.is_archived);
                chat.is_marked_unread = unread.unwrap_or(chat.is_marked_unread);
            }
            Settings::User { user_id, set: UserSettings { blocked } } => {
                let chat = self.chats.iter_mut().find(|chat| chat.peer_id.as_ref() == Some(user_id));
                if let Some(chat) = chat {
                    chat.is_blocked = *blocked;
                }
            }
        }
    }

    /// Takes what is pinned in a list of the server, in its order. Returns what was pinned here and is not there.
    pub fn pinned_are(&mut self, of: PinsOf, order: &[&ConversationId]) -> Vec<ConversationId> {
        let mut unpinned = Vec::new();
        for chat in self.chats.iter_mut().filter(|chat| PinsOf::kind(chat.timeline.kind()) == of) {
            let Some(id) = &chat.conversation_id else { continue };
            let place = (1..).zip(order.iter().rev()).find(|(_, listed)| **listed == id).map(|(place, _)| place);
            if place.is_none() && chat.pinned.is_some() {
                unpinned.push(id.clone());
            }
            chat.pinned = place;
        }
        unpinned
    }

    /// Takes the reply to `presence`.
    pub fn presence(&mut self, users: &[Presence]) {
        for presence in users {
            for chat in self.chats.iter_mut().filter(|chat| chat.peer_id.as_ref() == Some(&presence.user_id)) {
                chat.presence = Some(presence.clone());
            }
        }
    }
}

/// Input from the user. The key is that of a row.
impl Conversations {
    /// Returns the key of the direct conversation with this user, which gets a row.
    pub fn direct(&mut self, peer_id: &UserId) -> String {
        self.chat(None, Some(peer_id)).key.clone()
    }

    /// Sets the text that the user has begun, or `None`.
    pub fn draft(&mut self, key: &str, draft: Option<Draft>) {
        self.keyed(key, |chat| chat.draft = draft);
    }

    /// As [`draft`](Self::draft), by the place where the user writes. A new conversation gets a row with its draft.
    pub(crate) fn draft_of(&mut self, target: &Target, draft: Option<Draft>) {
        let chat = match target {
            Target::User(peer) if draft.is_some() => Some(self.chat(None, Some(peer))),
            Target::User(peer) => self.chats.iter_mut().find(|chat| chat.peer_id.as_ref() == Some(peer)),
            Target::Conversation(id) => self.found(id),
        };
        if let Some(chat) = chat {
            chat.draft = draft;
        }
    }

    /// The server refused this request for good.
    pub(crate) fn failed(&mut self, client_msg_id: &ClientMsgId, code: &str) {
        for chat in &mut self.chats {
            chat.timeline.failed(client_msg_id, code);
            chat.refused(client_msg_id, code);
        }
    }

    /// The request is stored, and its entry came before.
    pub(crate) fn settled(&mut self, client_msg_id: &ClientMsgId) {
        self.chats.iter_mut().for_each(|chat| chat.timeline.settled(client_msg_id));
    }

    /// The user has read a conversation up to here: [`Messages::seen`](super::Messages::seen) has returned this mark.
    pub fn read(&mut self, conversation_id: &ConversationId, seq: Seq) {
        let me = self.me.clone();
        if let Some(chat) = self.found(conversation_id) {
            chat.is_marked_unread = false;
            chat.timeline.receipt(ReceiptKind::Read, &me, seq);
            chat.timeline.trim();
        }
    }

    /// The user has read everything of a conversation, although some of it may never have come to this device. Returns
    /// the mark to report with `read`, if it rises.
    pub fn read_all(&mut self, key: &str) -> Option<(ConversationId, Seq)> {
        let id = self.chats.iter().find(|chat| chat.key == key)?.conversation_id.clone()?;
        let seq = self.read_all_of(&id)?;
        Some((id, seq))
    }

    /// As [`read_all`](Self::read_all), by the id.
    pub(crate) fn read_all_of(&mut self, id: &ConversationId) -> Option<Seq> {
        let seq = self.found(id).filter(|chat| chat.timeline.unread() > 0)?.timeline.last_seq();
        self.read(id, seq);
        Some(seq)
    }

    /// Removes a failed message or group, which the user has seen.
    pub fn dismiss(&mut self, client_msg_id: &ClientMsgId) {
        self.chats.retain(|chat| chat.failed.is_none() || chat.key != made_key(client_msg_id));
        self.chats.iter_mut().for_each(|chat| chat.timeline.dismiss(client_msg_id));
    }

    /// Removes a row: the user has left the channel, or discards a group that was refused.
    pub fn remove(&mut self, key: &str) {
        self.chats.retain(|chat| chat.key != key);
    }

    /// Takes how each conversation is encrypted. Returns whether any has changed.
    pub(crate) fn lock(&mut self, lock_of: impl Fn(Party) -> Lock) -> bool {
        let mut has_changed = false;
        for chat in &mut self.chats {
            let lock = match (&chat.peer_id, &chat.conversation_id) {
                (Some(peer), _) => lock_of(Party::from(peer)),
                (None, Some(id)) => lock_of(Party::from(id)),
                (None, None) => chat.lock,
            };
            has_changed |= mem::replace(&mut chat.lock, lock) != lock;
        }
        has_changed
    }

    fn keyed(&mut self, key: &str, set: impl FnOnce(&mut Chat)) {
        if let Some(chat) = self.chats.iter_mut().find(|chat| chat.key == key) {
            set(chat);
        }
    }

    fn found(&mut self, id: &ConversationId) -> Option<&mut Chat> {
        self.chats.iter_mut().find(|chat| chat.conversation_id.as_ref() == Some(id))
    }

    /// The conversation with this id or with this peer, which may be new.
    fn chat(&mut self, id: Option<&ConversationId>, peer_id: Option<&UserId>) -> &mut Chat {
        let of_id =
            |chat: &Chat| id.is_some_and(|id| chat.conversation_id.as_ref() == Some(id) || chat.made_ids.contains(id));
        let of_peer = |chat: &Chat| peer_id.is_some() && chat.peer_id.as_ref() == peer_id;
        let with_id = self.chats.iter().position(of_id);
        let with_peer = self.chats.iter().position(of_peer);
        if let (Some(named), Some(other)) = (with_id, with_peer)
            && named != other
        {
            // Both turn out to be one conversation.
            let other = self.chats.remove(other);
            if let Some(named) = id.and_then(|id| self.found(id)) {
                named.absorb(other);
            }
            return self.chat(id, peer_id);
        }
        let at = with_id.or(with_peer).unwrap_or_else(|| {
            let id = || id.map(|id| format!("c{id}"));
            let key = peer_id.map(|peer| format!("p{peer}")).or_else(id).unwrap_or_default();
            self.chats.push(Chat::new(key, Timeline::new(self.me.clone())));
            self.chats.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "it was found or made above")]
        let chat = &mut self.chats[at];
        chat.conversation_id = id.or(chat.conversation_id.as_ref()).cloned();
        chat.peer_id = peer_id.or(chat.peer_id.as_ref()).cloned();
        chat
    }
}

/// Output.
impl Conversations {
    /// Returns the rows that the filter selects, as the successor of the snapshot that the interface has. `now` is a time
    /// of the clock of [`event`](Self::event), for typing, and `at` the time of day, for mutes.
    pub fn snapshot(&self, before: &ListSnapshot, filter: &Filter, now: Moment, at: Timestamp) -> ListSnapshot {
        let query = Query::new(&filter.words);
        let mut rows = Vec::new();
        let mut unread = 0;
        for chat in &self.chats {
            let row = chat.row(now, at, &self.me);
            unread += if row.is_muted || chat.is_gone { 0 } else { row.unread };
            let name = row.title.as_deref().or(row.peer_id.as_ref().map(UserId::as_str)).unwrap_or_default();
            let is_wanted = !chat.is_gone
                && row.is_archived == filter.archived
                && (filter.kinds.is_empty() || filter.kinds.contains(&row.kind))
                && query.as_ref().is_none_or(|query| query.finds(name));
            if is_wanted {
                let latest = row.line.as_ref().map(|line| line.at).max(chat.made_at);
                rows.push((Reverse(chat.place()), Reverse(latest), row));
            }
        }
        rows.sort_by(|one, other| (one.0, one.1, &one.2.key).cmp(&(other.0, other.1, &other.2.key)));
        let rows = rows.into_iter().map(|(_, _, row)| row).collect();
        let rows = kept(&before.rows, rows, |row| &row.key);
        let new = ListSnapshot { version: before.version, rows, unread, names: before.names.clone() };
        if new == *before { new } else { ListSnapshot { version: new.version + 1, ..new } }
    }

    /// Returns the row of a conversation, known by its id or by the other user.
    pub(crate) fn row_of(
        &self,
        id: &ConversationId,
        peer_id: Option<&UserId>,
        now: Moment,
        at: Timestamp,
    ) -> Option<ChatRow> {
        let of_peer = |chat: &&Chat| peer_id.is_some() && chat.peer_id.as_ref() == peer_id;
        let chat = self.known(id).or_else(|| self.chats.iter().find(of_peer))?;
        Some(chat.row(now, at, &self.me))
    }

    /// Returns whether the conversation lacks its row of the chat list.
    pub(crate) fn lacks_row(&self, id: &ConversationId) -> bool {
        self.known(id).is_some_and(|chat| match chat.timeline.kind() {
            ConversationKind::Direct | ConversationKind::Group => chat.row_seq == Seq::ZERO,
            // Rows of channels are in another list, which is read at each start.
            ConversationKind::Channel => false,
        })
    }

    /// Returns the other user of a direct conversation.
    pub(crate) fn peer_of(&self, id: &ConversationId) -> Option<UserId> {
        self.known(id)?.peer_id.clone()
    }

    /// Returns whether what is pinned in this list has an order.
    pub(crate) fn has_order(&self, of: PinsOf) -> bool {
        self.pinned(of).count() > 1
    }

    /// Returns whether that order is unknown.
    pub(crate) fn lacks_order(&self, of: PinsOf) -> bool {
        self.has_order(of) && self.pinned(of).any(|place| place == 0)
    }

    fn pinned(&self, of: PinsOf) -> impl Iterator<Item = u64> {
        let of_list = self.chats.iter().filter(move |chat| PinsOf::kind(chat.timeline.kind()) == of);
        of_list.filter_map(|chat| chat.pinned)
    }

    fn known(&self, id: &ConversationId) -> Option<&Chat> {
        self.chats.iter().find(|chat| chat.conversation_id.as_ref() == Some(id))
    }

    /// Returns when a row changes without an input: a user is no longer typing, or a mute or a restriction ends.
    pub(crate) fn changes_at(&self, now: Moment, at: Timestamp) -> Option<Moment> {
        let ends = |until: Option<MutedUntil>| match until {
            Some(MutedUntil::At(until)) if at < until => {
                let left = u64::try_from(until.millis().saturating_sub(at.millis())).unwrap_or(u64::MAX);
                Some(now + Duration::from_millis(left))
            }
            _ => None,
        };
        let of_chat = |chat: &Chat| {
            let restricted_until = chat.standing.restricted_until();
            let all = [chat.timeline.writing_ends(now), ends(chat.muted_until), ends(restricted_until)];
            all.into_iter().flatten().min()
        };
        self.chats.iter().filter_map(of_chat).min()
    }
}

impl Chat {
    fn new(key: String, timeline: Timeline) -> Self {
        Self {
            key,
            conversation_id: None,
            made_ids: Vec::new(),
            timeline,
            peer_id: None,
            title: (Seq::ZERO, None),
            standing: Standing::default(),
            line: (Seq::ZERO, None),
            row_seq: Seq::ZERO,
            made_at: None,
            failed: None,
            muted_until: None,
            mutes_mentions: false,
            is_gone: false,
            pinned: None,
            is_archived: false,
            is_marked_unread: false,
            is_blocked: false,
            draft: None,
            presence: None,
            lock: Lock::Plain,
        }
    }

    /// The server refused to create this group, if it is the one of this request.
    fn refused(&mut self, client_msg_id: &ClientMsgId, code: &str) {
        if self.conversation_id.is_none() && self.key == made_key(client_msg_id) {
            self.failed = Some(code.to_owned());
        }
    }

    fn listed(
        &mut self,
        last_seq: Seq,
        title: Option<&String>,
        line: Option<&LastMessage>,
        muted_until: Option<MutedUntil>,
        is_archived: bool,
    ) {
        if last_seq < self.row_seq {
            return;
        }
        self.row_seq = last_seq;
        self.muted_until = muted_until;
        self.is_archived = is_archived;
        if last_seq >= self.title.0 {
            self.title = (last_seq, title.cloned());
        }
        // The server's row of an encrypted message has no text.
        let is_known = |line: &LastMessage| {
            line.kind == Kind::Sealed && self.line.1.as_ref().is_some_and(|known| known.seq == line.seq)
        };
        if last_seq >= self.line.0 && !line.is_some_and(is_known) {
            self.line = (last_seq, line.cloned());
        }
    }

    /// Takes the title, the rules, and a change of the row's last message.
    fn learn(&mut self, entry: &Message, me: &UserId) {
        self.standing.entry(entry, me);
        let title = match &entry.system {
            Some(System::Created { title, .. } | System::InfoChanged { title: Some(title), .. }) => Some(title),
            _ => None,
        };
        if let Some(title) = title.filter(|_| entry.seq > self.title.0) {
            self.title = (entry.seq, Some(title.as_str().to_owned()));
        }
        let (seq, Some(line)) = (&mut self.line.0, &mut self.line.1) else { return };
        if entry.target_seq != Some(line.seq) || entry.seq <= *seq {
            return;
        }
        match entry.kind {
            // No server has checked who wrote an encrypted edit.
            Kind::Edit if entry.epoch.is_some() && entry.sender_id != line.sender_id => return,
            Kind::Edit if !line.deleted => line.preview = preview(&entry.body),
            Kind::Delete => (line.preview, line.deleted) = (String::new(), true),
            _ => return,
        }
        *seq = entry.seq;
    }

    /// Takes what the other one has, which was known by its peer only. An interface may show that one.
    fn absorb(&mut self, other: Self) {
        self.key = other.key;
        self.timeline.adopt(other.timeline);
        self.draft = other.draft.or(self.draft.take());
        self.pinned = other.pinned.or(self.pinned);
        self.presence = other.presence;
    }

    /// Returns the place of a pinned conversation. The server has an order of conversations and one of channels.
    fn place(&self) -> Option<(bool, u64)> {
        self.pinned.map(|place| (PinsOf::kind(self.timeline.kind()) == PinsOf::Chats, place))
    }

    /// A user who writes is online, whatever the last request for presence returned.
    fn is_there(&mut self, user_id: &UserId) {
        if let Some(presence) = self.presence.as_mut().filter(|presence| presence.user_id == *user_id) {
            presence.online = true;
        }
    }

    fn row(&self, now: Moment, at: Timestamp, me: &UserId) -> ChatRow {
        ChatRow {
            key: self.key.clone(),
            conversation_id: self.conversation_id.clone(),
            kind: self.timeline.kind(),
            peer_id: self.peer_id.clone(),
            title: self.title.1.clone(),
            role: self.standing.role(),
            rules: self.standing.rules(),
            member_count: self.standing.member_count(),
            restricted_until: self.standing.restricted_until().filter(|until| until.is_after(at)),
            is_closed: self.is_gone || self.timeline.is_closed(),
            failed: self.failed.clone(),
            line: self.last_line(me),
            unread: self.timeline.unread(),
            mentions: self.timeline.mentions(),
            is_muted: match self.muted_until {
                Some(MutedUntil::Forever) => true,
                Some(MutedUntil::At(until)) => at < until,
                None => false,
            },
            muted_until: self.muted_until,
            mutes_mentions: self.mutes_mentions,
            is_pinned: self.pinned.is_some(),
            is_archived: self.is_archived,
            is_marked_unread: self.is_marked_unread,
            is_blocked: self.is_blocked,
            draft: self.draft.clone(),
            typing: self.timeline.writing(now).into_iter().cloned().collect(),
            texts: self.timeline.texts(now).into_iter().map(|(id, text)| (id.clone(), text.to_owned())).collect(),
            presence: self.presence.clone(),
            lock: self.lock,
        }
    }

    /// Returns the last stored message, or a later one that is not stored. A message that waits is the later one,
    /// whatever this device's clock shows.
    fn last_line(&self, me: &UserId) -> Option<Line> {
        let of_row = self.line.1.as_ref();
        let last = self.timeline.shown().last().filter(|seq| of_row.is_none_or(|row| row.seq <= *seq));
        let mut line = of_row.map(|row| Line {
            seq: Some(row.seq),
            sender_id: row.sender_id.clone(),
            at: row.sent_at,
            kind: row.kind.clone(),
            text: row.preview.clone(),
            is_deleted: row.deleted,
            event: row.system.clone(),
            progress: (row.sender_id == *me && row.kind.counts())
                .then(|| Progress::stored(self.timeline.own_tick(row.seq))),
        });
        for place in self.timeline.places(last.unwrap_or(Seq::MAX), None) {
            match place {
                Place::Gap { .. } => {}
                Place::System { message, .. } => line = Some(of_message(message, None)),
                Place::Unreadable { message, .. } => {
                    line = Some(Line { text: String::new(), ..of_message(message, None) });
                }
                Place::Message { message, tick, .. } => {
                    line = Some(of_message(&self.timeline.foreseen(message), tick.map(Progress::stored)));
                }
                Place::Unsent { unsent, draft } => {
                    let before = line.as_ref().map(|line| line.at);
                    if unsent.error.is_none() || before <= Some(unsent.queued.made_at) {
                        line = Some(Line {
                            seq: None,
                            sender_id: me.clone(),
                            at: before.map_or(unsent.queued.made_at, |before| before.max(unsent.queued.made_at)),
                            kind: unsent.queued.outgoing.kind().unwrap_or(Kind::Text),
                            text: preview(&draft.body),
                            is_deleted: false,
                            event: None,
                            progress: Some(Progress::unsent(unsent)),
                        });
                    }
                }
            }
        }
        line
    }
}

fn of_message(message: &Message, progress: Option<Progress>) -> Line {
    Line {
        seq: Some(message.seq),
        sender_id: message.sender_id.clone(),
        at: message.sent_at,
        kind: message.kind.clone(),
        text: preview(&message.body),
        is_deleted: message.deleted_at.is_some(),
        event: message.system.clone(),
        progress,
    }
}

fn preview(body: &str) -> String {
    body.chars().take(PREVIEW_CHARS_MAX).collect()
}

/// The key of a group that was made here.
fn made_key(client_msg_id: &ClientMsgId) -> String {
    format!("n{client_msg_id}")
}
