//! The rules of a message store: which rows a write changes. The rows are in a [`MemStore`], or in a database.
//!
//! A message and its change entries come in any order, from events and from pages, and any number of times. The stored
//! result is the same. A *span* is a range of `seq` that the store has without a gap. Change entries have no rows, so only
//! the spans show what is missing.

mod memory;

use serde::{Deserialize, Serialize};
use wire::limits::PREVIEW_CHARS_MAX;
use wire::{Conversation, ConversationId, HistoryResult, Kind, LastMessage, Message, Seq, Side, UserId};

pub use memory::MemStore;

use crate::group::EVERYBODY;
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
    /// A change that the session saves.
    Change(StorageChange),
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
pub struct Folded {
    message: Option<Message>,
    changes: Changes,
}

impl Folded {
    /// Returns the message in its current state. `None`: only changes of it have come.
    pub fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    /// Takes the message as the server read it, which can be an older state than the stored one.
    fn hold(&mut self, mut message: Message, from_page: bool) {
        if let Some(at) = message.deleted_at {
            let by = message.deleted_by.as_ref().unwrap_or(&message.sender_id).clone();
            self.changes.delete(at, by);
        }
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
    }

    /// Takes a change entry of the message.
    fn change(&mut self, entry: &Message, me: &UserId) {
        self.changes.add(entry, me);
        if let Some(message) = &mut self.message {
            self.changes.apply(message);
        }
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

    /// Saves a change of the session.
    ///
    /// # Errors
    /// The change can't be saved.
    fn save(&mut self, change: &StorageChange) -> Result<(), Self::Error>;
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
            listed(tables, me, entry)
        }
        Write::Page { conversation_id, side, page } => {
            for entry in &page.messages {
                fold(tables, me, entry, true)?;
            }
            match span_of(*side, page) {
                Some(span) => add_span(tables, conversation_id, span),
                None => Ok(()),
            }
        }
        Write::Row(row) => match tables.row(&row.conversation_id)? {
            Some(known) if known.last_seq > row.last_seq => Ok(()),
            _ => tables.set_row(row),
        },
        Write::Read { conversation_id, seq, unread, mentions } => match tables.row(conversation_id)? {
            Some(row) if row.read_seq < *seq => {
                tables.set_row(&Conversation { read_seq: *seq, unread: *unread, mentions: *mentions, ..row })
            }
            _ => Ok(()),
        },
        Write::Change(change) => tables.save(change),
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
    let id = &entry.conversation_id;
    let is_change = matches!(entry.kind, Kind::Edit | Kind::Delete | Kind::Reaction);
    let seq = match (is_change, entry.target_seq) {
        (true, Some(target_seq)) => target_seq,
        (true, None) => return Ok(()),
        (false, _) => entry.seq,
    };
    let mut folded = tables.folded(id, seq)?.unwrap_or_default();
    if is_change {
        folded.change(entry, me);
    } else {
        folded.hold(entry.clone(), from_page);
    }
    tables.set_folded(id, seq, &folded)?;
    let Some(row) = tables.row(id)?.filter(|row| row.last_message.seq == seq) else { return Ok(()) };
    let last_message = match folded.message() {
        Some(message) => last_message(message),
        // The server's row has text of a message that the store lacks.
        None if entry.kind == Kind::Delete => {
            LastMessage { preview: String::new(), deleted: true, ..row.last_message.clone() }
        }
        None => return Ok(()),
    };
    tables.set_row(&Conversation { last_message, ..row })
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
    let old = tables.spans(id)?;
    let spans = new.joined(&old);
    if spans == old { Ok(()) } else { tables.set_spans(id, &spans) }
}

/// Brings the chat list up to a new entry. A new conversation waits for its row from the server.
fn listed<T: Tables>(tables: &mut T, me: &UserId, entry: &Message) -> Result<(), T::Error> {
    let row = tables.row(&entry.conversation_id)?.filter(|row| row.last_seq < entry.seq);
    let Some(mut row) = row else { return Ok(()) };
    row.last_seq = entry.seq;
    if entry.kind.is_listed() {
        row.last_message = last_message(entry);
    }
    if entry.kind.counts() && entry.sender_id != *me && entry.deleted_at.is_none() {
        row.unread += 1;
        let names_me = entry.mentions.iter().any(|user| user == me || *user == EVERYBODY);
        row.mentions = row.mentions.map(|mentions| mentions + u64::from(names_me));
    }
    tables.set_row(&row)
}

fn last_message(message: &Message) -> LastMessage {
    LastMessage {
        seq: message.seq,
        sender_id: message.sender_id.clone(),
        kind: message.kind.clone(),
        preview: message.body.chars().take(PREVIEW_CHARS_MAX).collect(),
        sent_at: message.sent_at,
        deleted: message.deleted_at.is_some(),
        system: message.system.clone(),
    }
}

#[cfg(test)]
mod tests;
