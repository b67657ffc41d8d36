//! A store in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;

use wire::{Conversation, ConversationId, Message, Seq, Side, UserId};

use super::{Folded, Span, Tables, Window, Write, apply, order_of_chats};
use crate::saved::{Saved, StorageChange};
use crate::words::Query;

/// A store in memory, for tests and for a client that keeps nothing.
#[derive(Clone, Debug)]
pub struct MemStore {
    me: UserId,
    rows: Rows,
}

#[derive(Clone, Debug, Default)]
struct Rows {
    saved: Saved,
    messages: BTreeMap<ConversationId, BTreeMap<Seq, Folded>>,
    spans: BTreeMap<ConversationId, Vec<Span>>,
    list: BTreeMap<ConversationId, Conversation>,
}

impl MemStore {
    /// Creates an empty store of this user.
    pub fn new(me: UserId) -> Self {
        Self { me, rows: Rows::default() }
    }

    /// Applies the writes of one transaction.
    pub fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            let Ok(()) = apply(&mut self.rows, &self.me, write);
        }
    }

    /// Returns what the session saved.
    pub fn saved(&self) -> Saved {
        self.rows.saved.clone()
    }

    /// Returns the chat list, the conversation with the newest message first.
    pub fn chats(&self) -> Vec<Conversation> {
        let mut rows: Vec<_> = self.rows.list.values().cloned().collect();
        order_of_chats(&mut rows);
        rows
    }

    /// Returns at most `limit` messages of a conversation, on one side of a `seq`.
    pub fn window(&self, id: &ConversationId, side: Side, limit: usize) -> Window {
        let messages = self.rows.messages.get(id).into_iter().flatten();
        let is_wanted = |seq: Seq| match side {
            Side::Newest => true,
            Side::Before(before) => seq < before,
            Side::After(after) => seq > after,
        };
        let found = messages.filter(|(seq, _)| is_wanted(**seq)).filter_map(|(_, folded)| folded.message());
        let mut messages: Vec<Message> = found.cloned().collect();
        match side {
            Side::After(_) => messages.truncate(limit),
            Side::Newest | Side::Before(_) => drop(messages.drain(..messages.len().saturating_sub(limit))),
        }
        Window { messages, spans: self.rows.spans.get(id).cloned().unwrap_or_default() }
    }

    /// Returns the newest `limit` messages that contain the words, the newest first.
    pub fn search(&self, text: &str, limit: usize) -> Vec<Message> {
        let Some(query) = Query::new(text) else { return vec![] };
        let all = self.rows.messages.values().flat_map(BTreeMap::values).filter_map(Folded::message);
        let mut found: Vec<Message> = all.filter(|message| query.finds(&message.body)).cloned().collect();
        found.sort_by_key(|message| (std::cmp::Reverse(message.sent_at), message.conversation_id.clone(), message.seq));
        found.truncate(limit);
        found
    }
}

impl Tables for Rows {
    type Error = Infallible;

    fn folded(&mut self, id: &ConversationId, seq: Seq) -> Result<Option<Folded>, Infallible> {
        Ok(self.messages.get(id).and_then(|messages| messages.get(&seq)).cloned())
    }

    fn set_folded(&mut self, id: &ConversationId, seq: Seq, folded: &Folded) -> Result<(), Infallible> {
        self.messages.entry(id.clone()).or_default().insert(seq, folded.clone());
        Ok(())
    }

    fn spans(&mut self, id: &ConversationId) -> Result<Vec<Span>, Infallible> {
        Ok(self.spans.get(id).cloned().unwrap_or_default())
    }

    fn set_spans(&mut self, id: &ConversationId, spans: &[Span]) -> Result<(), Infallible> {
        self.spans.insert(id.clone(), spans.to_vec());
        Ok(())
    }

    fn row(&mut self, id: &ConversationId) -> Result<Option<Conversation>, Infallible> {
        Ok(self.list.get(id).cloned())
    }

    fn set_row(&mut self, row: &Conversation) -> Result<(), Infallible> {
        self.list.insert(row.conversation_id.clone(), row.clone());
        Ok(())
    }

    fn save(&mut self, change: &StorageChange) -> Result<(), Infallible> {
        self.saved.apply(change);
        Ok(())
    }
}
