//! The rows of the store in `SQLite`, within one transaction.

use pigeonhole_core::{Folded, Queued, Span, StorageChange, Tables, words};
use rusqlite::{Connection, OptionalExtension, params};
use wire::{ClientMsgId, Conversation, ConversationId, MediaId, Seq};

use crate::Error;

pub(crate) struct Rows<'a> {
    connection: &'a Connection,
    has_deleted: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self { connection, has_deleted: false }
    }

    /// Returns whether a text is no longer in the store.
    pub(crate) fn has_deleted(&self) -> bool {
        self.has_deleted
    }

    /// Adds a request to the outbox, as its JSON.
    pub(crate) fn queue(&mut self, request: &str) -> Result<(), Error> {
        let Some(queued) = queued(request) else { return Ok(()) };
        let mut insert = self.connection.prepare_cached("INSERT INTO outbox(client_msg_id, request) VALUES (?, ?)")?;
        insert.execute(params![queued.client_msg_id.as_str(), request])?;
        Ok(())
    }

    /// Returns the number of a conversation. A conversation without a number gets a new one.
    fn number(&mut self, id: &ConversationId) -> Result<i64, Error> {
        if let Some(num) = number_of(self.connection, id)? {
            return Ok(num);
        }
        self.connection.prepare_cached("INSERT INTO conversation(id) VALUES (?)")?.execute([id.as_str()])?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Returns the key of a message.
    fn key(&mut self, id: &ConversationId, seq: Seq) -> Result<i64, Error> {
        Ok(key_of(self.number(id)?, seq.value()))
    }

    fn value(&self, key: i64) -> Result<Option<Folded>, Error> {
        let mut select = self.connection.prepare_cached("SELECT value FROM message WHERE key = ?")?;
        let value: Option<String> = select.query_row([key], |row| row.get(0)).optional()?;
        value.map(|value| Ok(serde_json::from_str(&value)?)).transpose()
    }

    /// Replaces the words by which a search finds a message. The index must get the old words as they were.
    fn index(&self, key: i64, old_text: &str, new_text: &str) -> Result<(), Error> {
        let (old, new) = (words(old_text).join(" "), words(new_text).join(" "));
        if old == new {
            return Ok(());
        }
        if !old.is_empty() {
            let remove = "INSERT INTO search(search, rowid, words) VALUES ('delete', ?, ?)";
            self.connection.prepare_cached(remove)?.execute(params![key, old])?;
        }
        if !new.is_empty() {
            let add = "INSERT INTO search(rowid, words) VALUES (?, ?)";
            self.connection.prepare_cached(add)?.execute(params![key, new])?;
        }
        Ok(())
    }

    fn upload(&mut self, client_msg_id: &ClientMsgId, media_id: Option<&MediaId>) -> Result<(), Error> {
        let select = "SELECT n, request FROM outbox WHERE client_msg_id = ? ORDER BY n LIMIT 1";
        let mut select = self.connection.prepare_cached(select)?;
        let found: Option<(i64, String)> =
            select.query_row([client_msg_id.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        if let Some((n, request)) = found
            && let Some(mut queued) = queued(&request)
        {
            queued.outgoing.set_media_id(media_id);
            let request = serde_json::to_string(&queued)?;
            self.connection.execute("UPDATE outbox SET request = ? WHERE n = ?", params![request, n])?;
        }
        Ok(())
    }
}

impl Tables for Rows<'_> {
    type Error = Error;

    fn folded(&mut self, id: &ConversationId, seq: Seq) -> Result<Option<Folded>, Error> {
        let key = self.key(id, seq)?;
        self.value(key)
    }

    fn set_folded(&mut self, id: &ConversationId, seq: Seq, folded: &Folded) -> Result<(), Error> {
        let key = self.key(id, seq)?;
        let old = self.value(key)?;
        if old.as_ref() == Some(folded) {
            return Ok(());
        }
        let text = |folded: &Folded| folded.message().map_or(String::new(), |message| message.body.clone());
        let (old_text, new_text) = (old.as_ref().map_or(String::new(), text), text(folded));
        let is_deleted = folded.message().is_none_or(|message| message.deleted_at.is_some());
        self.has_deleted |= old.is_some() && (old_text != new_text || is_deleted);
        self.index(key, &old_text, &new_text)?;
        let sent_at = folded.message().map(|message| message.sent_at.millis());
        let replace = "INSERT OR REPLACE INTO message(key, sent_at, value) VALUES (?, ?, ?)";
        let value = serde_json::to_string(folded)?;
        self.connection.prepare_cached(replace)?.execute(params![key, sent_at, value])?;
        Ok(())
    }

    fn spans(&mut self, id: &ConversationId) -> Result<Vec<Span>, Error> {
        let num = self.number(id)?;
        spans_of(self.connection, num)
    }

    fn set_spans(&mut self, id: &ConversationId, spans: &[Span]) -> Result<(), Error> {
        let num = self.number(id)?;
        self.connection.prepare_cached("DELETE FROM span WHERE num = ?")?.execute([num])?;
        let mut insert = self.connection.prepare_cached("INSERT INTO span(num, from_seq, to_seq) VALUES (?, ?, ?)")?;
        for span in spans {
            insert.execute(params![num, number(span.from), number(span.to)])?;
        }
        Ok(())
    }

    fn row(&mut self, id: &ConversationId) -> Result<Option<Conversation>, Error> {
        let mut select = self.connection.prepare_cached("SELECT listed FROM conversation WHERE id = ?")?;
        let listed: Option<Option<String>> = select.query_row([id.as_str()], |row| row.get(0)).optional()?;
        listed.flatten().map(|listed| Ok(serde_json::from_str(&listed)?)).transpose()
    }

    fn set_row(&mut self, row: &Conversation) -> Result<(), Error> {
        let num = self.number(&row.conversation_id)?;
        let listed = serde_json::to_string(row)?;
        let update = "UPDATE conversation SET listed = ?, sent_at = ? WHERE num = ?";
        let mut update = self.connection.prepare_cached(update)?;
        update.execute(params![listed, row.last_message.sent_at.millis(), num])?;
        Ok(())
    }

    fn save(&mut self, change: &StorageChange) -> Result<(), Error> {
        match change {
            StorageChange::Queued(queued) => self.queue(&serde_json::to_string(queued)?)?,
            StorageChange::Done(client_msg_id) => {
                let first = "DELETE FROM outbox WHERE n = (SELECT min(n) FROM outbox WHERE client_msg_id = ?)";
                self.connection.prepare_cached(first)?.execute([client_msg_id.as_str()])?;
            }
            StorageChange::Uploading { client_msg_id, media_id } => self.upload(client_msg_id, media_id.as_ref())?,
            StorageChange::Held { conversation_id, seq } => {
                let num = self.number(conversation_id)?;
                let raise = "UPDATE conversation SET held_seq = max(coalesce(held_seq, 0), ?) WHERE num = ?";
                self.connection.prepare_cached(raise)?.execute(params![number(*seq), num])?;
            }
            StorageChange::CaughtUp(at) => {
                let set = "INSERT OR REPLACE INTO meta VALUES ('caught_up', ?)";
                self.connection.prepare_cached(set)?.execute([at.millis()])?;
            }
        }
        Ok(())
    }
}

/// Makes the index from the messages.
pub(crate) fn index_again(connection: &Connection) -> Result<(), Error> {
    connection.execute("INSERT INTO search(search) VALUES ('delete-all')", ())?;
    let mut all = connection.prepare("SELECT key, value FROM message")?;
    let mut insert = connection.prepare("INSERT INTO search(rowid, words) VALUES (?, ?)")?;
    let mut rows = all.query(())?;
    while let Some(row) = rows.next()? {
        let folded: Folded = serde_json::from_str(&row.get::<_, String>(1)?)?;
        let words = folded.message().map_or(vec![], |message| words(&message.body)).join(" ");
        if !words.is_empty() {
            insert.execute(params![row.get::<_, i64>(0)?, words])?;
        }
    }
    Ok(())
}

pub(crate) fn queued(request: &str) -> Option<Queued> {
    serde_json::from_str(request).ok()
}

pub(crate) fn number_of(connection: &Connection, id: &ConversationId) -> Result<Option<i64>, Error> {
    let mut select = connection.prepare_cached("SELECT num FROM conversation WHERE id = ?")?;
    Ok(select.query_row([id.as_str()], |row| row.get(0)).optional()?)
}

pub(crate) fn spans_of(connection: &Connection, num: i64) -> Result<Vec<Span>, Error> {
    let mut select = connection.prepare_cached("SELECT from_seq, to_seq FROM span WHERE num = ? ORDER BY from_seq")?;
    let mut rows = select.query([num])?;
    let mut spans = Vec::new();
    while let Some(row) = rows.next()? {
        spans.push(Span { from: seq_of(row.get(0)?)?, to: seq_of(row.get(1)?)? });
    }
    Ok(spans)
}

/// Returns the key of a message. Conversations of 2³² entries do not exist, so each has its own range of keys.
pub(crate) fn key_of(num: i64, seq: u64) -> i64 {
    (num << 32) + i64::try_from(seq).unwrap_or(i64::MAX).min(i64::from(u32::MAX))
}

fn number(seq: Seq) -> i64 {
    i64::try_from(seq.value()).unwrap_or(i64::MAX)
}

pub(crate) fn seq_of(value: i64) -> Result<Seq, Error> {
    u64::try_from(value).ok().and_then(Seq::new).ok_or_else(|| Error::Unreadable(format!("seq {value}")))
}

pub(crate) fn id_of(text: &str) -> Result<ConversationId, Error> {
    ConversationId::parse(text).map_err(|_| Error::Unreadable(format!("conversation {text:?}")))
}
