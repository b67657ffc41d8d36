//! The rows of the store in `SQLite`, within one transaction.

use std::path::Path;

use pigeonhole_core::{Draft, Folded, KnownMember, Queued, Span, StorageChange, Tables, words};
use rusqlite::{Connection, OptionalExtension, params};
use wire::{Channel, ClientMsgId, Conversation, ConversationId, MediaId, Seq, Target, UserId};

use crate::later::{folded_with_rest, row_with_rest};
use crate::{Error, files};

/// The number of messages below a floor that one transaction removes. A message takes some tenths of a millisecond.
pub(crate) const REMOVED_MAX: usize = 500;

pub(crate) struct Rows<'a> {
    connection: &'a Connection,
    /// The folder of the store.
    folder: &'a Path,
    has_deleted: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(connection: &'a Connection, folder: &'a Path) -> Self {
        Self { connection, folder, has_deleted: false }
    }

    /// Returns whether a text is no longer in the store.
    pub(crate) fn has_deleted(&self) -> bool {
        self.has_deleted
    }

    /// Adds a request to the outbox, as its JSON.
    pub(crate) fn queue(&mut self, client_msg_id: &str, request: &str) -> Result<(), Error> {
        let mut insert = self.connection.prepare_cached("INSERT INTO outbox(client_msg_id, request) VALUES (?, ?)")?;
        insert.execute([client_msg_id, request])?;
        Ok(())
    }

    /// Replaces a draft, as its JSON.
    pub(crate) fn draft(&mut self, target: &str, draft: &str) -> Result<(), Error> {
        self.connection.prepare_cached("INSERT OR REPLACE INTO draft VALUES (?, ?)")?.execute([target, draft])?;
        Ok(())
    }

    /// Removes messages below floors, up to a limit. Returns `true` if others can remain.
    pub(crate) fn remove_hidden(&mut self) -> Result<bool, Error> {
        let keys =
            "SELECT key FROM conversation CROSS JOIN message ON key >= num << 32 AND key < (num << 32) + floor_seq
                    WHERE floor_seq > 0 LIMIT ?";
        let mut keys = self.connection.prepare_cached(keys)?;
        let keys = keys.query_map([REMOVED_MAX], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        self.remove(&keys)?;
        Ok(keys.len() == REMOVED_MAX)
    }

    fn remove(&mut self, keys: &[i64]) -> Result<(), Error> {
        for key in keys {
            let text = self.value(*key)?.map(|(_, folded)| folded.text().to_owned());
            self.index(*key, &text.unwrap_or_default(), "")?;
            self.connection.prepare_cached("DELETE FROM message WHERE key = ?")?.execute([key])?;
            let unneeded = "INSERT OR IGNORE INTO unneeded SELECT path FROM place WHERE key = ?";
            self.connection.prepare_cached(unneeded)?.execute([key])?;
            self.connection.prepare_cached("DELETE FROM place WHERE key = ?")?.execute([key])?;
            self.has_deleted = true;
        }
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

    /// Returns a message, as its JSON too.
    fn value(&self, key: i64) -> Result<Option<(String, Folded)>, Error> {
        let mut select = self.connection.prepare_cached("SELECT value FROM message WHERE key = ?")?;
        let value: Option<String> = select.query_row([key], |row| row.get(0)).optional()?;
        let Some(value) = value else { return Ok(None) };
        let folded = serde_json::from_str(&value)?;
        Ok(Some((value, folded)))
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
        Ok(self.value(key)?.map(|(_, folded)| folded))
    }

    fn set_folded(&mut self, id: &ConversationId, seq: Seq, folded: &Folded) -> Result<(), Error> {
        let key = self.key(id, seq)?;
        let old = self.value(key)?;
        if old.as_ref().is_some_and(|(_, old)| old == folded) {
            return Ok(());
        }
        let (old_text, new_text) = (old.as_ref().map_or("", |(_, old)| old.text()), folded.text());
        let is_deleted = folded.message().is_none_or(|message| message.deleted_at.is_some());
        self.has_deleted |= old.is_some() && (old_text != new_text || is_deleted);
        self.index(key, old_text, new_text)?;
        let sent_at = folded.message().map(|message| message.sent_at.millis());
        let value = match &old {
            // Fields of a later version can repeat the text.
            Some((value, old)) if old_text == new_text && !is_deleted => folded_with_rest(value, old, folded)?,
            _ => serde_json::to_string(folded)?,
        };
        let replace = "INSERT OR REPLACE INTO message(key, sent_at, value) VALUES (?, ?, ?)";
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
        row_of(self.connection, id)
    }

    fn set_row(&mut self, row: &Conversation) -> Result<(), Error> {
        let num = self.number(&row.conversation_id)?;
        let listed = match column_of(self.connection, "listed", &row.conversation_id)? {
            Some(old) => row_with_rest(&old, row)?,
            None => serde_json::to_string(row)?,
        };
        let update = "UPDATE conversation SET listed = ?, sent_at = ? WHERE num = ?";
        let mut update = self.connection.prepare_cached(update)?;
        update.execute(params![listed, row.last_message.sent_at.millis(), num])?;
        Ok(())
    }

    fn channel(&mut self, id: &ConversationId) -> Result<Option<Channel>, Error> {
        channel_of(self.connection, id)
    }

    fn set_channel(&mut self, id: &ConversationId, row: Option<&Channel>) -> Result<(), Error> {
        let num = self.number(id)?;
        let channel = match (column_of(self.connection, "channel", id)?, row) {
            (Some(old), Some(row)) => Some(row_with_rest(&old, row)?),
            (_, row) => row.map(serde_json::to_string).transpose()?,
        };
        let sent_at = row.map(|row| row.last_message.as_ref().map_or(0, |last| last.sent_at.millis()));
        let update = "UPDATE conversation SET channel = ?, sent_at = ? WHERE num = ?";
        self.connection.prepare_cached(update)?.execute(params![channel, sent_at, num])?;
        self.has_deleted |= row.is_none();
        Ok(())
    }

    fn floor(&mut self, id: &ConversationId) -> Result<Seq, Error> {
        Ok(floor_of(self.connection, id)?.map_or(Seq::ZERO, |(_, floor)| floor))
    }

    fn set_floor(&mut self, id: &ConversationId, first_seq: Seq) -> Result<(), Error> {
        let num = self.number(id)?;
        let update = "UPDATE conversation SET floor_seq = ? WHERE num = ?";
        self.connection.prepare_cached(update)?.execute(params![number(first_seq), num])?;
        // The row of the list can have such a text, even if no message has it.
        self.has_deleted = true;
        self.remove_hidden().map(drop)
    }

    fn remove_below(&mut self, id: &ConversationId, first_seq: Seq) -> Result<(), Error> {
        let num = self.number(id)?;
        let mut keys = self.connection.prepare_cached("SELECT key FROM message WHERE key >= ? AND key < ?")?;
        let range = [key_of(num, 0), key_of(num, first_seq.value())];
        let keys = keys.query_map(range, |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        self.remove(&keys)
    }

    fn members(&mut self, id: &ConversationId) -> Result<Vec<KnownMember>, Error> {
        members_of(self.connection, id)
    }

    fn set_members(&mut self, id: &ConversationId, members: &[KnownMember]) -> Result<(), Error> {
        let num = self.number(id)?;
        self.connection.prepare_cached("DELETE FROM member WHERE num = ?")?.execute([num])?;
        let mut insert = self.connection.prepare_cached("INSERT OR REPLACE INTO member VALUES (?, ?, ?, ?, ?, ?)")?;
        for KnownMember { user_id, joined, delivered_seq, read_seq } in members {
            let (role, joined_seq) = joined.as_ref().map(|(role, seq)| (role.as_str(), number(*seq))).unzip();
            let (delivered_seq, read_seq) = (number(*delivered_seq), number(*read_seq));
            insert.execute(params![num, user_id.as_str(), role, joined_seq, delivered_seq, read_seq])?;
        }
        Ok(())
    }

    fn set_draft(&mut self, target: &Target, draft: Option<&Draft>) -> Result<(), Error> {
        let target = serde_json::to_string(target)?;
        if let Some(draft) = draft {
            return self.draft(&target, &serde_json::to_string(draft)?);
        }
        self.has_deleted |=
            self.connection.prepare_cached("DELETE FROM draft WHERE target = ?")?.execute([target])? > 0;
        Ok(())
    }

    fn place(&mut self, id: &ConversationId, seq: Seq) -> Result<Option<String>, Error> {
        Ok(place_of(self.connection, id, seq)?.map(|path| files::found_text(self.folder, &path)))
    }

    fn set_place(&mut self, id: &ConversationId, seq: Seq, path: Option<&str>) -> Result<(), Error> {
        let key = self.key(id, seq)?;
        match path {
            Some(path) => {
                let replace = "INSERT OR REPLACE INTO place VALUES (?, ?)";
                self.connection.prepare_cached(replace)?.execute(params![key, files::kept_text(self.folder, path)])?
            }
            None => self.connection.prepare_cached("DELETE FROM place WHERE key = ?")?.execute([key])?,
        };
        Ok(())
    }

    fn set_unneeded(&mut self, path: &str, is_unneeded: bool) -> Result<(), Error> {
        let change = if is_unneeded {
            "INSERT OR IGNORE INTO unneeded VALUES (?)"
        } else {
            "DELETE FROM unneeded WHERE path = ?"
        };
        self.connection.prepare_cached(change)?.execute([files::kept_text(self.folder, path)])?;
        Ok(())
    }

    fn save(&mut self, change: &StorageChange) -> Result<(), Error> {
        match change {
            StorageChange::Queued(queued) => {
                let kept = files::with_path(queued.clone(), |path| files::kept(self.folder, path));
                self.queue(queued.client_msg_id.as_str(), &serde_json::to_string(&kept)?)?;
            }
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
            StorageChange::Refused { client_msg_id, code } => {
                let first =
                    "UPDATE outbox SET refused = ? WHERE n = (SELECT min(n) FROM outbox WHERE client_msg_id = ?)";
                self.connection.prepare_cached(first)?.execute([code, client_msg_id.as_str()])?;
            }
            StorageChange::Listed => {
                self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('listed', 1)", ())?;
            }
            StorageChange::Read { conversation_id, seq } => {
                let num = self.number(conversation_id)?;
                let raise = "UPDATE conversation SET untold_seq = max(coalesce(untold_seq, 0), ?) WHERE num = ?";
                self.connection.prepare_cached(raise)?.execute(params![number(*seq), num])?;
            }
            StorageChange::ReadTold { conversation_id, seq } => {
                let told = "UPDATE conversation SET untold_seq = NULL WHERE id = ? AND untold_seq <= ?";
                self.connection.prepare_cached(told)?.execute(params![conversation_id.as_str(), number(*seq)])?;
            }
        }
        Ok(())
    }

    fn set_sealing(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Error> {
        // The journal must not keep the old state, since it opens earlier messages.
        self.has_deleted |= self.connection.prepare_cached("DELETE FROM sealing WHERE key = ?")?.execute([key])? > 0;
        if let Some(value) = value {
            self.connection.prepare_cached("INSERT INTO sealing VALUES (?, ?)")?.execute(params![key, value])?;
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
        let words = words(folded.text()).join(" ");
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

/// Returns a row of the chat list.
pub(crate) fn row_of(connection: &Connection, id: &ConversationId) -> Result<Option<Conversation>, Error> {
    column_of(connection, "listed", id)?.map(|row| Ok(serde_json::from_str(&row)?)).transpose()
}

/// Returns a row of the list of channels.
pub(crate) fn channel_of(connection: &Connection, id: &ConversationId) -> Result<Option<Channel>, Error> {
    column_of(connection, "channel", id)?.map(|row| Ok(serde_json::from_str(&row)?)).transpose()
}

fn column_of(connection: &Connection, column: &str, id: &ConversationId) -> Result<Option<String>, Error> {
    let mut select = connection.prepare_cached(&format!("SELECT {column} FROM conversation WHERE id = ?"))?;
    let value: Option<Option<String>> = select.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(value.flatten())
}

/// Returns the number and the floor of a conversation.
pub(crate) fn floor_of(connection: &Connection, id: &ConversationId) -> Result<Option<(i64, Seq)>, Error> {
    let mut select = connection.prepare_cached("SELECT num, floor_seq FROM conversation WHERE id = ?")?;
    let row: Option<(i64, i64)> = select.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    row.map(|(num, floor)| Ok((num, seq_of(floor)?))).transpose()
}

pub(crate) fn members_of(connection: &Connection, id: &ConversationId) -> Result<Vec<KnownMember>, Error> {
    let mut select = connection.prepare_cached(
        "SELECT user_id, role, joined_seq, delivered_seq, read_seq FROM conversation JOIN member USING (num)
         WHERE id = ? ORDER BY user_id",
    )?;
    let mut rows = select.query([id.as_str()])?;
    let mut members = Vec::new();
    while let Some(row) = rows.next()? {
        let joined: (Option<String>, Option<i64>) = (row.get(1)?, row.get(2)?);
        members.push(KnownMember {
            user_id: user_of(row.get(0)?)?,
            joined: match joined {
                (Some(role), Some(seq)) => Some((serde_json::from_value(role.into())?, seq_of(seq)?)),
                _ => None,
            },
            delivered_seq: seq_of(row.get(3)?)?,
            read_seq: seq_of(row.get(4)?)?,
        });
    }
    Ok(members)
}

pub(crate) fn place_of(connection: &Connection, id: &ConversationId, seq: Seq) -> Result<Option<String>, Error> {
    let Some(num) = number_of(connection, id)? else { return Ok(None) };
    let mut select = connection.prepare_cached("SELECT path FROM place WHERE key = ?")?;
    Ok(select.query_row([key_of(num, seq.value())], |row| row.get(0)).optional()?)
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

fn user_of(text: String) -> Result<UserId, Error> {
    Ok(serde_json::from_value(text.into())?)
}
