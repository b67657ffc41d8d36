//! A store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use wire::{Channel, Conversation, ConversationId, Message, Seq, Side, Target, UserId};

use super::{Folded, KnownMember, Span, Tables, Window, Write, apply, order_of_chats};
use crate::chat::{Found, Load, PAGE};
use crate::group::Draft;
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
    channels: BTreeMap<ConversationId, Channel>,
    floors: BTreeMap<ConversationId, Seq>,
    members: BTreeMap<ConversationId, Vec<KnownMember>>,
    drafts: BTreeMap<Target, Draft>,
    places: BTreeMap<(ConversationId, Seq), String>,
    unneeded: BTreeSet<String>,
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

    /// Returns the list of channels, in the order of their ids.
    pub fn channels(&self) -> Vec<Channel> {
        self.rows.channels.values().cloned().collect()
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
        let spans = self.rows.spans.get(id).cloned().unwrap_or_default();
        Window { messages, spans }
    }

    /// Reads what a view needs.
    pub fn load(&self, what: &Load) -> Found {
        match what {
            Load::Members(id) => Found::Members(self.members(id)),
            Load::Start => Found::Start { chats: self.chats(), channels: self.channels(), drafts: self.drafts() },
            Load::Window { conversation_id: id, side } => {
                let window = self.window(id, *side, PAGE);
                let place = |message: &Message| Some((message.seq, self.place(id, message.seq)?));
                Found::Window {
                    row: self.rows.list.get(id).cloned(),
                    channel: self.rows.channels.get(id).cloned(),
                    members: self.members(id),
                    places: window.messages.iter().filter_map(place).collect(),
                    window,
                }
            }
        }
    }

    /// Returns a conversation's members, in the order of their ids.
    pub fn members(&self, id: &ConversationId) -> Vec<KnownMember> {
        self.rows.members.get(id).cloned().unwrap_or_default()
    }

    /// Returns all drafts.
    pub fn drafts(&self) -> BTreeMap<Target, Draft> {
        self.rows.drafts.clone()
    }

    /// Returns the file of a message's attachment.
    pub fn place(&self, id: &ConversationId, seq: Seq) -> Option<String> {
        self.rows.places.get(&(id.clone(), seq)).cloned()
    }

    /// Returns the files that are no longer needed, in the order of their names.
    pub fn unneeded(&self) -> Vec<String> {
        self.rows.unneeded.iter().cloned().collect()
    }

    /// Returns the newest `limit` messages that contain the words, the newest first.
    pub fn search(&self, text: &str, limit: usize) -> Vec<Message> {
        let Some(query) = Query::new(text) else { return vec![] };
        let all = self.rows.messages.values().flat_map(BTreeMap::values).filter(|folded| query.finds(folded.text()));
        let mut found: Vec<Message> = all.filter_map(Folded::message).cloned().collect();
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

    fn channel(&mut self, id: &ConversationId) -> Result<Option<Channel>, Infallible> {
        Ok(self.channels.get(id).cloned())
    }

    fn set_channel(&mut self, id: &ConversationId, row: Option<&Channel>) -> Result<(), Infallible> {
        match row {
            Some(row) => self.channels.insert(id.clone(), row.clone()),
            None => self.channels.remove(id),
        };
        Ok(())
    }

    fn floor(&mut self, id: &ConversationId) -> Result<Seq, Infallible> {
        Ok(self.floors.get(id).copied().unwrap_or_default())
    }

    fn set_floor(&mut self, id: &ConversationId, first_seq: Seq) -> Result<(), Infallible> {
        self.floors.insert(id.clone(), first_seq);
        self.remove_below(id, first_seq)
    }

    fn remove_below(&mut self, id: &ConversationId, first_seq: Seq) -> Result<(), Infallible> {
        if let Some(messages) = self.messages.get_mut(id) {
            *messages = messages.split_off(&first_seq);
        }
        let (below, places) = std::mem::take(&mut self.places)
            .into_iter()
            .partition(|((place_id, seq), _)| place_id == id && *seq < first_seq);
        self.places = places;
        let below: BTreeMap<_, _> = below;
        self.unneeded.extend(below.into_values());
        Ok(())
    }

    fn members(&mut self, id: &ConversationId) -> Result<Vec<KnownMember>, Infallible> {
        Ok(self.members.get(id).cloned().unwrap_or_default())
    }

    fn set_members(&mut self, id: &ConversationId, members: &[KnownMember]) -> Result<(), Infallible> {
        let mut members = members.to_vec();
        members.sort_by(|one, other| one.user_id.cmp(&other.user_id));
        self.members.insert(id.clone(), members);
        Ok(())
    }

    fn set_draft(&mut self, target: &Target, draft: Option<&Draft>) -> Result<(), Infallible> {
        match draft {
            Some(draft) => self.drafts.insert(target.clone(), draft.clone()),
            None => self.drafts.remove(target),
        };
        Ok(())
    }

    fn place(&mut self, id: &ConversationId, seq: Seq) -> Result<Option<String>, Infallible> {
        Ok(self.places.get(&(id.clone(), seq)).cloned())
    }

    fn set_place(&mut self, id: &ConversationId, seq: Seq, path: Option<&str>) -> Result<(), Infallible> {
        let key = (id.clone(), seq);
        match path {
            Some(path) => self.places.insert(key, path.to_owned()),
            None => self.places.remove(&key),
        };
        Ok(())
    }

    fn set_unneeded(&mut self, path: &str, is_unneeded: bool) -> Result<(), Infallible> {
        if is_unneeded {
            self.unneeded.insert(path.to_owned());
        } else {
            self.unneeded.remove(path);
        }
        Ok(())
    }

    fn save(&mut self, change: &StorageChange) -> Result<(), Infallible> {
        self.saved.apply(change);
        Ok(())
    }

    fn set_sealing(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Infallible> {
        match value {
            Some(value) => self.saved.sealing.insert(key.to_owned(), value.to_vec()),
            None => self.saved.sealing.remove(key),
        };
        Ok(())
    }
}
