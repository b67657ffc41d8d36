//! The rules of a message store: which rows a write changes. The rows are in a [`MemStore`], or in a database.
//!
//! A message and its change entries come in any order, from events and from pages, and any number of times. The stored
//! result is the same. A *span* is a range of `seq` that the store has without a gap. Change entries have no rows, so only
//! the spans show what is missing.

mod memory;

use serde::{Deserialize, Serialize};
use wire::limits::PREVIEW_CHARS_MAX;
use wire::{
    Attached, Bytes, Channel, Conversation, ConversationId, GroupMember, HistoryResult, Kind, LastMessage, Media,
    Member, Message, Opened, Role, Seq, Settings, Side, System, Target, UserId, direct_conversation_id,
};
use zeroize::Zeroizing;

pub use memory::MemStore;

use crate::chat::{Rules, Standing};
use crate::group::{Draft, EVERYBODY, joiners, roles_of};
use crate::saved::StorageChange;
use crate::timeline::changes::{Changes, keep_text};

/// One change of the store.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// An entry, as [`Event::Message`](crate::Event::Message) has it.
    Entry(Message),
    /// A page of history.
    Page {
        /// The conversation.
        conversation_id: ConversationId,
        /// The side that was requested.
        side: Side,
        /// The reply.
        page: HistoryResult,
    },
    /// A row of the chat list. A row that is older than the stored one changes nothing.
    Row(Conversation),
    /// A row of the list of channels, in the same way.
    Channel(Channel),
    /// The user is not a member of this channel any more. The store removes its row and its messages.
    Gone(ConversationId),
    /// The user has read a conversation.
    Read {
        /// The conversation.
        conversation_id: ConversationId,
        /// Up to here.
        seq: Seq,
        /// The number of messages that are unread now.
        unread: u64,
        /// In a group, the number of those that mention the user.
        mentions: Option<u64>,
    },
    /// The marks of members. A mark only rises.
    Marks {
        /// The conversation.
        conversation_id: ConversationId,
        /// The members whose marks came.
        members: Vec<Member>,
    },
    /// Settings of the user that the server has stored.
    Settings(Settings),
    /// All members of a group, in place of the stored ones. Their marks stay.
    Members {
        /// The group.
        conversation_id: ConversationId,
        /// The pages of `members`, together.
        members: Vec<GroupMember>,
    },
    /// A text that the user has not sent yet.
    Draft {
        /// Where the user writes.
        target: Target,
        /// `None`: the text was sent or removed.
        draft: Option<Draft>,
    },
    /// The file of a message's attachment on this device. Each message has a file of its own.
    Place {
        /// The conversation.
        conversation_id: ConversationId,
        /// The message.
        seq: Seq,
        /// `None`: the file no longer exists.
        path: Option<String>,
    },
    /// The client removed a file that was no longer needed.
    Removed(String),
    /// The user can no longer see the entries below `first_seq`. The store removes them for good.
    Floor {
        /// The conversation.
        conversation_id: ConversationId,
        /// The first entry that the user can see.
        first_seq: Seq,
    },
    /// The store removes the messages below `first_seq`, to save space. The client can request this gap again.
    Trim {
        /// The conversation.
        conversation_id: ConversationId,
        /// The first message that stays.
        first_seq: Seq,
    },
    /// A change that the session saves.
    Change(StorageChange),
    /// A row of the end-to-end encryption. After the write, no file has its old value, which could open earlier messages.
    Sealing {
        /// The key of the row.
        key: String,
        /// `None`: the row is deleted.
        value: Option<Zeroizing<Vec<u8>>>,
    },
}

/// A member of a conversation, as far as the store knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMember {
    /// The member.
    pub user_id: UserId,
    /// The role and the entry of the join, in a group whose list of members came.
    pub joined: Option<(Role, Seq)>,
    /// A device of the member has received every entry up to this one.
    pub delivered_seq: Seq,
    /// The member has read every entry up to this one.
    pub read_seq: Seq,
}

/// A range of `seq` that the store has without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first `seq`.
    pub from: Seq,
    /// The last `seq`.
    pub to: Seq,
}

impl Span {
    /// Returns the part that both have.
    pub(crate) fn within(self, other: Self) -> Option<Self> {
        let both = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        (both.from <= both.to).then_some(both)
    }

    /// Returns these ranges and this one, in their order. Ranges that meet become one.
    pub(crate) fn joined(self, spans: &[Self]) -> Vec<Self> {
        let touches = |span: &Self| span.from <= self.to.next() && self.from <= span.to.next();
        let (met, mut all): (Vec<Self>, Vec<Self>) = spans.iter().partition(|span| touches(span));
        let join = |one: Self, span: Self| Self { from: one.from.min(span.from), to: one.to.max(span.to) };
        all.push(met.into_iter().fold(self, join));
        all.sort_unstable();
        all
    }
}

/// A part of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Messages and system entries in their current state, in the order of their `seq`.
    pub messages: Vec<Message>,
    /// All spans of the conversation, in their order. The entries between two of them are missing.
    pub spans: Vec<Span>,
}

impl Window {
    /// Returns the range of which it has all that the store has, if it was read from this side with this limit.
    pub(crate) fn covered(&self, side: Side, limit: usize) -> Option<Span> {
        let is_all = self.messages.len() < limit;
        let first = if is_all { Seq::FIRST } else { self.messages.first()?.seq };
        let (from, to) = match side {
            Side::Newest => (first, Seq::MAX),
            Side::Before(before) => (first, before.previous()),
            Side::After(after) => (after.next(), if is_all { Seq::MAX } else { self.messages.last()?.seq }),
        };
        (from <= to).then_some(Span { from, to })
    }
}

/// A message and the change entries of it that came, whichever came first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "KeptFolded")]
pub struct Folded {
    message: Option<Message>,
    changes: Changes,
    /// The key of the file and the small image, which are read with no other message.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Box<File>>,
    /// The proofs of the message's current text, and of edits while the message has not come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    proofs: Vec<Opened>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct File {
    key: Option<Bytes>,
    thumbnail: Option<Bytes>,
}

#[derive(Deserialize)]
struct KeptFolded {
    message: Option<Message>,
    changes: Changes,
    #[serde(default)]
    file: Option<Box<File>>,
    #[serde(default)]
    proofs: Vec<Opened>,
}

impl From<KeptFolded> for Folded {
    fn from(KeptFolded { mut message, changes, file, proofs }: KeptFolded) -> Self {
        if let Some(Attached::Clear(media)) = message.as_mut().and_then(|message| message.media.as_deref_mut())
            && let Some(File { key, thumbnail }) = file.as_deref()
        {
            (media.key, media.thumbnail) = (key.clone(), thumbnail.clone());
        }
        let mut folded = Self { message, changes, file, proofs };
        folded.keep_proofs();
        folded
    }
}

impl Folded {
    /// Returns the message in its current state. `None`: only changes of it have come.
    pub fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    /// Returns the words that a search can find.
    pub fn text(&self) -> &str {
        self.message.as_ref().map_or("", text_of)
    }

    /// Takes the message as the server read it, which can be an older state than the stored one.
    fn hold(&mut self, mut message: Message, from_page: bool) {
        if let Some(at) = message.deleted_at {
            let by = message.deleted_by.as_ref().unwrap_or(&message.sender_id).clone();
            self.changes.delete(at, by);
        }
        if message.kind == Kind::Sealed
            && let Some(held) = self.message.as_mut().filter(|held| from_page || held.kind != Kind::Sealed)
        {
            // The server has no text of it.
            self.changes.apply(held);
            return self.keep();
        }
        self.prove(message.proof.take());
        if let Some(held) = self.message.take() {
            // A page that another member's device sees has no such id.
            message.client_msg_id = message.client_msg_id.or_else(|| held.client_msg_id.clone());
            keep_text(&mut message, held);
        }
        // An event without reactions can be of a channel, where only pages have them.
        if from_page || !message.reactions.is_empty() || message.reactions_seq.is_some() {
            self.changes.page(&message);
        }
        self.changes.apply(&mut message);
        self.message = Some(message);
        self.keep();
    }

    /// Takes a change entry of the message.
    fn change(&mut self, entry: &Message, me: &UserId) {
        self.changes.add(entry, me);
        if let Some(message) = &mut self.message {
            self.changes.apply(message);
        }
        if entry.kind == Kind::Edit {
            self.prove(entry.proof.clone());
        }
        self.keep();
    }

    fn prove(&mut self, proof: Option<Box<Opened>>) {
        self.proofs
            .extend(proof.filter(|proof| self.proofs.iter().all(|known| known.seq != proof.seq)).map(|proof| *proof));
    }

    fn keep(&mut self) {
        self.keep_file();
        self.keep_proofs();
    }

    /// A proof goes with its text.
    fn keep_proofs(&mut self) {
        let readable = self.message.as_ref().filter(|message| message.kind != Kind::Sealed);
        let is_deleted = self.message.as_ref().is_some_and(|message| message.deleted_at.is_some());
        self.proofs.retain(|Opened { seq, .. }| match readable {
            _ if is_deleted => false,
            Some(message) => message.version.map_or(*seq == message.seq, |version| version == seq.value()),
            None => self.changes.has_edit(*seq),
        });
        let proof = readable.and(self.proofs.first()).cloned().map(Box::new);
        if let Some(message) = &mut self.message {
            message.proof = proof;
        }
    }

    fn keep_file(&mut self) {
        let media = self.message.as_ref().and_then(|message| message.media.as_deref()?.clear());
        let file = media.map(|Media { key, thumbnail, .. }| File { key: key.clone(), thumbnail: thumbnail.clone() });
        self.file = file.filter(|file| file.key.is_some()).map(Box::new);
    }
}

/// The rows of a store.
pub trait Tables {
    /// Why a row can't be read or written.
    type Error;

    /// Returns a message with its changes.
    ///
    /// # Errors
    /// The row can't be read.
    fn folded(&mut self, id: &ConversationId, seq: Seq) -> Result<Option<Folded>, Self::Error>;

    /// Replaces a message.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_folded(&mut self, id: &ConversationId, seq: Seq, folded: &Folded) -> Result<(), Self::Error>;

    /// Returns a conversation's spans, in their order.
    ///
    /// # Errors
    /// The rows can't be read.
    fn spans(&mut self, id: &ConversationId) -> Result<Vec<Span>, Self::Error>;

    /// Replaces a conversation's spans.
    ///
    /// # Errors
    /// The rows can't be written.
    fn set_spans(&mut self, id: &ConversationId, spans: &[Span]) -> Result<(), Self::Error>;

    /// Returns a conversation's row of the chat list.
    ///
    /// # Errors
    /// The row can't be read.
    fn row(&mut self, id: &ConversationId) -> Result<Option<Conversation>, Self::Error>;

    /// Replaces a row of the chat list.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_row(&mut self, row: &Conversation) -> Result<(), Self::Error>;

    /// Returns a conversation's row of the list of channels.
    ///
    /// # Errors
    /// The row can't be read.
    fn channel(&mut self, id: &ConversationId) -> Result<Option<Channel>, Self::Error>;

    /// Replaces or removes a row of the list of channels.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_channel(&mut self, id: &ConversationId, row: Option<&Channel>) -> Result<(), Self::Error>;

    /// Returns the first entry that the user can see, or zero.
    ///
    /// # Errors
    /// The row can't be read.
    fn floor(&mut self, id: &ConversationId) -> Result<Seq, Self::Error>;

    /// Hides all messages below a new floor. The store removes them and their files now or later.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_floor(&mut self, id: &ConversationId, first_seq: Seq) -> Result<(), Self::Error>;

    /// Removes all messages below `first_seq`. Their files are no longer needed.
    ///
    /// # Errors
    /// The rows can't be written.
    fn remove_below(&mut self, id: &ConversationId, first_seq: Seq) -> Result<(), Self::Error>;

    /// Returns a conversation's members, in the order of their ids.
    ///
    /// # Errors
    /// The rows can't be read.
    fn members(&mut self, id: &ConversationId) -> Result<Vec<KnownMember>, Self::Error>;

    /// Replaces a conversation's members.
    ///
    /// # Errors
    /// The rows can't be written.
    fn set_members(&mut self, id: &ConversationId, members: &[KnownMember]) -> Result<(), Self::Error>;

    /// Replaces or removes a draft.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_draft(&mut self, target: &Target, draft: Option<&Draft>) -> Result<(), Self::Error>;

    /// Returns the file of a message's attachment.
    ///
    /// # Errors
    /// The row can't be read.
    fn place(&mut self, id: &ConversationId, seq: Seq) -> Result<Option<String>, Self::Error>;

    /// Replaces the file of a message's attachment.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_place(&mut self, id: &ConversationId, seq: Seq, path: Option<&str>) -> Result<(), Self::Error>;

    /// Adds a file that is no longer needed, or removes the file from the list of those.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_unneeded(&mut self, path: &str, is_unneeded: bool) -> Result<(), Self::Error>;

    /// Saves a change of the session.
    ///
    /// # Errors
    /// The change can't be saved.
    fn save(&mut self, change: &StorageChange) -> Result<(), Self::Error>;

    /// Replaces or deletes a row of the end-to-end encryption, and its old value for good.
    ///
    /// # Errors
    /// The row can't be written.
    fn set_sealing(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Self::Error>;
}

/// Applies a write to the rows, as `me` sees them.
///
/// # Errors
/// The first error of the rows. The caller undoes the whole transaction.
pub fn apply<T: Tables>(tables: &mut T, me: &UserId, write: &Write) -> Result<(), T::Error> {
    match write {
        Write::Entry(entry) => {
            fold(tables, me, entry, false)?;
            add_span(tables, &entry.conversation_id, Span { from: entry.seq, to: entry.seq })?;
            listed(tables, me, entry)?;
            listed_channel(tables, me, entry)?;
            follow_members(tables, entry)
        }
        Write::Page { conversation_id, side, page } => {
            for entry in &page.messages {
                fold(tables, me, entry, true)?;
            }
            raise(tables, conversation_id, &page.members)?;
            match span_of(*side, page) {
                Some(span) => add_span(tables, conversation_id, span),
                None => Ok(()),
            }
        }
        Write::Row(row) => replace(tables, row),
        Write::Channel(row) => replace_channel(tables, row),
        Write::Gone(conversation_id) => {
            tables.set_channel(conversation_id, None)?;
            tables.set_members(conversation_id, &[])?;
            tables.remove_below(conversation_id, Seq::MAX)?;
            tables.set_spans(conversation_id, &[])
        }
        Write::Read { conversation_id, seq, unread, mentions } => {
            read(tables, conversation_id, *seq, *unread, *mentions)
        }
        Write::Marks { conversation_id, members } => {
            raise(tables, conversation_id, members)?;
            let own = members.iter().find(|member| member.user_id == *me);
            own.map_or(Ok(()), |own| raise_own(tables, conversation_id, own.delivered_seq, own.read_seq))
        }
        Write::Settings(settings) => set(tables, me, settings),
        Write::Members { conversation_id, members } => {
            let known = tables.members(conversation_id)?;
            tables.set_members(conversation_id, &listed_members(&known, members))
        }
        Write::Draft { target, draft } => tables.set_draft(target, draft.as_ref()),
        Write::Place { conversation_id, seq, path } => place(tables, conversation_id, *seq, path.as_deref()),
        Write::Removed(path) => tables.set_unneeded(path, false),
        Write::Floor { conversation_id, first_seq } => hide_below(tables, conversation_id, *first_seq),
        Write::Trim { conversation_id, first_seq } => {
            tables.remove_below(conversation_id, *first_seq)?;
            cut_spans(tables, conversation_id, *first_seq)
        }
        Write::Change(change) => {
            if let StorageChange::Read { conversation_id, seq } = change {
                raise_own(tables, conversation_id, *seq, *seq)?;
            }
            tables.save(change)
        }
        Write::Sealing { key, value } => tables.set_sealing(key, value.as_ref().map(|value| value.as_slice())),
    }
}

/// Takes the server's row of the chat list, unless a later entry has come.
fn replace<T: Tables>(tables: &mut T, row: &Conversation) -> Result<(), T::Error> {
    let known = tables.row(&row.conversation_id)?;
    if known.as_ref().is_some_and(|known| known.last_seq > row.last_seq) {
        return Ok(());
    }
    let mut listed = row.clone();
    let last = &mut listed.last_message;
    // The server has no text of an encrypted message.
    if last.kind == Kind::Sealed
        && let Some(folded) = tables.folded(&row.conversation_id, last.seq)?
        && let Some(message) = folded.message()
    {
        *last = last_message(message);
    }
    list(tables, listed)?;
    if let Some(known) = known {
        // The server may not know the user's newest marks yet.
        raise_own(tables, &row.conversation_id, known.delivered_seq, known.read_seq)?;
    }
    row.first_seq.map_or(Ok(()), |first_seq| hide_below(tables, &row.conversation_id, first_seq))
}

/// Takes the row of a channel as [`replace`] does.
fn replace_channel<T: Tables>(tables: &mut T, row: &Channel) -> Result<(), T::Error> {
    let known = tables.channel(&row.conversation_id)?;
    if known.as_ref().is_some_and(|known| known.last_seq > row.last_seq) {
        return Ok(());
    }
    list_channel(tables, row.clone())?;
    if let Some(known) = known {
        raise_own(tables, &row.conversation_id, known.read_seq, known.read_seq)?;
    }
    hide_below(tables, &row.conversation_id, row.first_seq)
}

/// Takes the server's answer to a read mark.
fn read<T: Tables>(
    tables: &mut T,
    conversation_id: &ConversationId,
    seq: Seq,
    unread: u64,
    mentions: Option<u64>,
) -> Result<(), T::Error> {
    if let Some(row) = tables.channel(conversation_id)?.filter(|row| row.read_seq <= seq) {
        let mentioned_seq = row.mentioned_seq.filter(|mentioned| *mentioned > seq);
        list_channel(tables, Channel { read_seq: seq, unread, mentioned_seq, marked_unread: false, ..row })?;
    }
    match tables.row(conversation_id)? {
        Some(row) if row.read_seq <= seq => {
            list(tables, Conversation { read_seq: seq, unread, mentions, marked_unread: false, ..row })
        }
        _ => Ok(()),
    }
}

/// Sorts the rows of the chat list: the one with the newest message first.
pub fn order_of_chats(rows: &mut [Conversation]) {
    rows.sort_by(|one, other| {
        let key = |row: &Conversation| (std::cmp::Reverse(row.last_message.sent_at), row.conversation_id.clone());
        key(one).cmp(&key(other))
    });
}

fn fold<T: Tables>(tables: &mut T, me: &UserId, entry: &Message, from_page: bool) -> Result<(), T::Error> {
    if entry.kind == Kind::Commit {
        return Ok(());
    }
    let id = &entry.conversation_id;
    let is_change = matches!(entry.kind, Kind::Edit | Kind::Delete | Kind::Reaction);
    let seq = match (is_change, entry.target_seq) {
        (true, Some(target_seq)) => target_seq,
        (true, None) => return Ok(()),
        (false, _) => entry.seq,
    };
    if seq < tables.floor(id)? {
        return Ok(());
    }
    let mut folded = tables.folded(id, seq)?.unwrap_or_default();
    if is_change {
        folded.change(entry, me);
    } else {
        folded.hold(entry.clone(), from_page);
    }
    tables.set_folded(id, seq, &folded)?;
    if !has_media(&folded)
        && let Some(path) = tables.place(id, seq)?
    {
        tables.set_place(id, seq, None)?;
        tables.set_unneeded(&path, true)?;
    }
    let now = |last: LastMessage| match folded.message() {
        Some(message) => last_message(message),
        // The server's row has text of a message that the store lacks.
        None if entry.kind == Kind::Delete => LastMessage { preview: String::new(), deleted: true, ..last },
        None => last,
    };
    if let Some(row) = tables.row(id)?.filter(|row| row.last_message.seq == seq) {
        return tables.set_row(&Conversation { last_message: now(row.last_message.clone()), ..row });
    }
    match tables.channel(id)? {
        Some(Channel { last_message: Some(last), .. }) if last.seq != seq => Ok(()),
        Some(row) => tables.set_channel(id, Some(&Channel { last_message: row.last_message.clone().map(now), ..row })),
        None => Ok(()),
    }
}

/// Returns the range that a page makes whole.
fn span_of(side: Side, page: &HistoryResult) -> Option<Span> {
    let begin = page.first_seq.unwrap_or(Seq::FIRST);
    let first = page.messages.first().map(|message| message.seq);
    let last = page.messages.last().map(|message| message.seq);
    let earliest = if page.more { first? } else { begin };
    let (from, to) = match side {
        Side::Newest => (earliest, page.last_seq),
        Side::Before(seq) => (earliest, seq.previous().min(page.last_seq)),
        Side::After(seq) => (seq.next(), if page.more { last? } else { page.last_seq }),
    };
    let from = from.max(begin);
    (from <= to).then_some(Span { from, to })
}

fn add_span<T: Tables>(tables: &mut T, id: &ConversationId, new: Span) -> Result<(), T::Error> {
    let new = Span { from: new.from.max(tables.floor(id)?), ..new };
    if new.from > new.to {
        return Ok(());
    }
    let old = tables.spans(id)?;
    let spans = new.joined(&old);
    if spans == old { Ok(()) } else { tables.set_spans(id, &spans) }
}

/// Raises a floor.
fn hide_below<T: Tables>(tables: &mut T, id: &ConversationId, first_seq: Seq) -> Result<(), T::Error> {
    if tables.floor(id)? >= first_seq || first_seq <= Seq::FIRST {
        return Ok(());
    }
    tables.set_floor(id, first_seq)?;
    cut_spans(tables, id, first_seq)?;
    if let Some(row) = tables.channel(id)? {
        list_channel(tables, row)?;
    }
    tables.row(id)?.map_or(Ok(()), |row| list(tables, row))
}

/// Takes the user's marks, which the user has set here or on another device.
fn raise_own<T: Tables>(tables: &mut T, id: &ConversationId, delivered: Seq, read: Seq) -> Result<(), T::Error> {
    if let Some(row) = tables.channel(id)?.filter(|row| row.read_seq < read) {
        let unread = row.unread.min(row.last_seq.above(read));
        let mentioned_seq = row.mentioned_seq.filter(|seq| *seq > read);
        tables
            .set_channel(id, Some(&Channel { read_seq: read, unread, mentioned_seq, marked_unread: false, ..row }))?;
    }
    let Some(mut row) = tables.row(id)? else { return Ok(()) };
    row.delivered_seq = row.delivered_seq.max(delivered);
    if row.read_seq < read {
        row.read_seq = read;
        row.marked_unread = false;
        // At most what is above the mark. The next row from the server has the number.
        row.unread = row.unread.min(row.last_seq.above(row.read_seq));
        row.mentions = row.mentions.map(|mentions| mentions.min(row.unread));
    }
    tables.set_row(&row)
}

fn set<T: Tables>(tables: &mut T, me: &UserId, settings: &Settings) -> Result<(), T::Error> {
    let id = match settings {
        Settings::Conversation { conversation_id, .. } => conversation_id.clone(),
        Settings::User { user_id, .. } => direct_conversation_id(me, user_id),
    };
    if let (Settings::Conversation { set, .. }, Some(mut row)) = (settings, tables.channel(&id)?) {
        row.muted_until = set.muted_until.unwrap_or(row.muted_until);
        row.archived = set.archived.unwrap_or(row.archived);
        row.marked_unread = set.unread.unwrap_or(row.marked_unread);
        row.pinned = set.pinned.unwrap_or(row.pinned);
        tables.set_channel(&id, Some(&row))?;
    }
    let Some(mut row) = tables.row(&id)? else { return Ok(()) };
    match settings {
        Settings::Conversation { set, .. } => {
            row.muted_until = set.muted_until.unwrap_or(row.muted_until);
            row.mute_mentions = set.mute_mentions.unwrap_or(row.mute_mentions);
            row.archived = set.archived.unwrap_or(row.archived);
            row.marked_unread = set.unread.unwrap_or(row.marked_unread);
            row.pinned = set.pinned.unwrap_or(row.pinned);
        }
        Settings::User { set, .. } => row.blocked = set.blocked,
    }
    tables.set_row(&row)
}

fn cut_spans<T: Tables>(tables: &mut T, id: &ConversationId, first_seq: Seq) -> Result<(), T::Error> {
    let spans = tables.spans(id)?.into_iter().filter(|span| span.to >= first_seq);
    let spans: Vec<Span> = spans.map(|span| Span { from: span.from.max(first_seq), ..span }).collect();
    tables.set_spans(id, &spans)
}

fn has_media(folded: &Folded) -> bool {
    folded.message().is_some_and(|message| message.media.is_some())
}

fn place<T: Tables>(tables: &mut T, id: &ConversationId, seq: Seq, path: Option<&str>) -> Result<(), T::Error> {
    let Some(path) = path else { return tables.set_place(id, seq, None) };
    // The message can be deleted while its file comes.
    if !tables.folded(id, seq)?.is_some_and(|folded| has_media(&folded)) {
        return tables.set_unneeded(path, true);
    }
    if let Some(old) = tables.place(id, seq)?.filter(|old| old != path) {
        tables.set_unneeded(&old, true)?;
    }
    tables.set_place(id, seq, Some(path))
}

fn raise<T: Tables>(tables: &mut T, id: &ConversationId, came: &[Member]) -> Result<(), T::Error> {
    if came.is_empty() {
        return Ok(());
    }
    let mut members = tables.members(id)?;
    for Member { user_id, delivered_seq, read_seq } in came {
        let (delivered_seq, read_seq) = (*delivered_seq, *read_seq);
        match members.iter_mut().find(|member| member.user_id == *user_id) {
            Some(known) => {
                known.delivered_seq = known.delivered_seq.max(delivered_seq);
                known.read_seq = known.read_seq.max(read_seq);
            }
            None => members.push(KnownMember { user_id: user_id.clone(), joined: None, delivered_seq, read_seq }),
        }
    }
    tables.set_members(id, &members)
}

/// Returns the members that a list of the server has. Their known marks stay.
pub(crate) fn listed_members(known: &[KnownMember], came: &[GroupMember]) -> Vec<KnownMember> {
    let marks = |user_id: &UserId| {
        let member = known.iter().find(|member| member.user_id == *user_id);
        member.map_or((Seq::ZERO, Seq::ZERO), |member| (member.delivered_seq, member.read_seq))
    };
    let members = came.iter().map(|GroupMember { user_id, role, joined_seq, .. }| {
        let (delivered_seq, read_seq) = marks(user_id);
        KnownMember { user_id: user_id.clone(), joined: Some((*role, *joined_seq)), delivered_seq, read_seq }
    });
    members.collect()
}

/// Takes what an entry changes of the members. An entry from before a join is of an earlier membership.
pub(crate) fn change_members(members: &mut Vec<KnownMember>, entry: &Message) {
    for (user_id, role) in roles_of(entry) {
        let is_joined_before = |member: &KnownMember| {
            member.user_id == *user_id && member.joined.is_none_or(|(_, joined_seq)| joined_seq < entry.seq)
        };
        if joiners(entry).contains(user_id) {
            members.retain(|member| !is_joined_before(member));
            if members.iter().all(|member| member.user_id != *user_id) {
                let (joined, delivered_seq, read_seq) = (Some((role, entry.seq)), Seq::ZERO, Seq::ZERO);
                members.push(KnownMember { user_id: user_id.clone(), joined, delivered_seq, read_seq });
            }
        } else if role == Role::None {
            members.retain(|member| !is_joined_before(member));
        } else if let Some(member) = members.iter_mut().find(|member| is_joined_before(member))
            && let Some((known, _)) = &mut member.joined
        {
            *known = role;
        }
    }
}

/// Replaces a row of the chat list, without the text of a message that the user can no longer see.
fn list<T: Tables>(tables: &mut T, mut row: Conversation) -> Result<(), T::Error> {
    hide_text(&mut row.last_message, tables.floor(&row.conversation_id)?);
    tables.set_row(&row)
}

/// As [`list`], for a channel.
fn list_channel<T: Tables>(tables: &mut T, mut row: Channel) -> Result<(), T::Error> {
    let id = row.conversation_id.clone();
    if let Some(last) = &mut row.last_message {
        hide_text(last, tables.floor(&id)?);
    }
    tables.set_channel(&id, Some(&row))
}

/// Removes the text of a message below the floor.
fn hide_text(last: &mut LastMessage, floor: Seq) {
    if last.seq < floor {
        last.preview.clear();
        last.system = None;
    }
}

/// Brings the row of a channel up to a new entry.
fn listed_channel<T: Tables>(tables: &mut T, me: &UserId, entry: &Message) -> Result<(), T::Error> {
    let row = tables.channel(&entry.conversation_id)?.filter(|row| row.last_seq < entry.seq);
    let Some(mut row) = row else { return Ok(()) };
    if let Some(System::InfoChanged { title: Some(title), .. }) = &entry.system {
        title.as_str().clone_into(&mut row.title);
    }
    let mut standing = Standing::default();
    standing.channel(&row);
    standing.entry(entry, me);
    row.role = standing.role().unwrap_or(row.role);
    let Rules { history, post, add, join, rings } = standing.rules();
    (row.history, row.post) = (history.unwrap_or(row.history), post.unwrap_or(row.post));
    (row.add, row.join) = (add.unwrap_or(row.add), join.unwrap_or(row.join));
    row.rings = rings.unwrap_or(row.rings);
    row.last_seq = entry.seq;
    if entry.kind.is_listed() {
        row.last_message = Some(last_message(entry));
    }
    let is_unread = entry.kind.counts() && entry.sender_id != *me && entry.deleted_at.is_none();
    row.unread += u64::from(is_unread);
    if is_unread && entry.mentions.contains(me) {
        row.mentioned_seq = Some(entry.seq);
    }
    list_channel(tables, row)
}

/// Brings the list of members, if it came, up to a new entry.
fn follow_members<T: Tables>(tables: &mut T, entry: &Message) -> Result<(), T::Error> {
    if roles_of(entry).is_empty() {
        return Ok(());
    }
    let known = tables.members(&entry.conversation_id)?;
    let mut members = known.clone();
    change_members(&mut members, entry);
    let is_listed = known.iter().any(|member| member.joined.is_some());
    if is_listed && members != known { tables.set_members(&entry.conversation_id, &members) } else { Ok(()) }
}

/// Brings the chat list up to a new entry. A new conversation waits for its row from the server.
fn listed<T: Tables>(tables: &mut T, me: &UserId, entry: &Message) -> Result<(), T::Error> {
    let row = tables.row(&entry.conversation_id)?.filter(|row| row.last_seq < entry.seq);
    let Some(mut row) = row else { return Ok(()) };
    if let Some(system) = &entry.system {
        changed(&mut row, entry, system, me);
    }
    row.last_seq = entry.seq;
    if entry.kind.is_listed() || counts(entry) {
        row.last_message = last_message(entry);
    }
    if counts(entry) && entry.sender_id != *me && entry.deleted_at.is_none() {
        row.unread += 1;
        let names_me = entry.mentions.iter().any(|user| user == me || *user == EVERYBODY);
        row.mentions = row.mentions.map(|mentions| mentions + u64::from(names_me));
    }
    list(tables, row)
}

/// Takes what an entry changes of a group, which its next row would have.
fn changed(row: &mut Conversation, entry: &Message, system: &System, me: &UserId) {
    if let System::InfoChanged { title: Some(title), .. } = system {
        row.title = Some(title.as_str().to_owned());
    }
    let mut standing = Standing::default();
    standing.row(row);
    standing.entry(entry, me);
    (row.role, row.member_count) = (standing.role(), standing.member_count());
    Rules { history: row.history, post: row.post, add: row.add, .. } = standing.rules();
}

/// Returns the text of a message. An entry that this device can't read has none.
pub(crate) fn text_of(message: &Message) -> &str {
    if message.kind == Kind::Sealed { "" } else { &message.body }
}

/// Returns whether the entry counts as unread.
pub(crate) fn counts(message: &Message) -> bool {
    message.kind.counts() || (message.kind == Kind::Sealed && !message.silent)
}

/// Returns whether a delete can be about the entry. An edit or a reaction can't be about a silent one.
pub(crate) fn is_target(message: &Message) -> bool {
    counts(message) || matches!(message.kind, Kind::Own(_))
}

fn last_message(message: &Message) -> LastMessage {
    LastMessage {
        seq: message.seq,
        sender_id: message.sender_id.clone(),
        kind: message.kind.clone(),
        preview: text_of(message).chars().take(PREVIEW_CHARS_MAX).collect(),
        sent_at: message.sent_at,
        deleted: message.deleted_at.is_some(),
        system: message.system.clone(),
    }
}

#[cfg(test)]
mod tests;
