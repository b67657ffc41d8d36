//! The reads of a store, for its own process and for others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pigeonhole_core::chat::{Found, Load, PAGE};
use pigeonhole_core::{Draft, Folded, KnownMember, Query, Queued, Saved, Window};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use wire::{Channel, Conversation, ConversationId, Kind, Message, Seq, Side, Target, Timestamp, UserId};

use crate::rows::{channel_of, floor_of, id_of, key_of, members_of, place_of, queued, row_of, seq_of, spans_of};
use crate::{Error, MIGRATIONS, check_owner, damage, files, version_of};

/// The number of hits whose texts a search reads in one step.
const HITS: usize = 50;
/// A writer that empties the journal holds up a reader for this long at most.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The part of a message that a notification shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// The title of the group or the channel, or the other user of a direct conversation. `None`: the conversation is new.
    pub title: Option<String>,
    /// The author. `None`: the message is not stored yet.
    pub sender_id: Option<UserId>,
    /// The text. `None`: the message is not stored yet, or has no text.
    pub body: Option<String>,
}

/// A view of a message store, which changes nothing.
///
/// A second process, such as one that shows notifications, opens a reader while the app has the [`Store`](crate::Store).
/// Each call sees all writes of the transactions that were committed before, and no part of a later one.
#[derive(Debug)]
pub struct Reader {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

impl Reader {
    /// Opens the store of this user. The folder must be writable, because a reader of a closed store creates its
    /// journals.
    ///
    /// # Errors
    /// [`Error::Newer`] or [`Error::Older`]: another version of the app wrote the store. [`Error::WrongUser`],
    /// [`Error::Foreign`], or [`Error::Sqlite`]: no store exists, or the file can't be read.
    pub fn open(path: impl AsRef<Path>, me: &UserId) -> Result<Self, Error> {
        let path = path.as_ref();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WAIT_MAX)?;
        match version_of(&connection, path)? {
            newer if newer > MIGRATIONS.len() => return Err(Error::Newer(newer)),
            older if older < MIGRATIONS.len() => return Err(Error::Older(older)),
            _ => {}
        }
        check_owner(&connection, me)?;
        Ok(Self::new(connection, path))
    }

    pub(crate) fn new(connection: Connection, path: &Path) -> Self {
        Self { connection, path: path.to_owned() }
    }

    /// Returns what the session saved.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn saved(&self) -> Result<Saved, Error> {
        let mut saved = self.read(saved)?;
        let found = |queued: Queued| files::with_path(queued, |path| files::found(files::folder_of(&self.path), path));
        saved.outbox = saved.outbox.into_iter().map(found).collect();
        saved.refused = saved.refused.into_iter().map(|(queued, code)| (found(queued), code)).collect();
        Ok(saved)
    }

    /// Returns the chat list, the conversation with the newest message first.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn chats(&self) -> Result<Vec<Conversation>, Error> {
        self.read(chats)
    }

    /// Returns the list of channels, in the order of their ids.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn channels(&self) -> Result<Vec<Channel>, Error> {
        self.read(channels)
    }

    /// Reads what a view needs.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn load(&self, what: &Load) -> Result<Found, Error> {
        self.read(|connection| match what {
            Load::Members(id) => Ok(Found::Members(members_of(connection, id)?)),
            Load::Start => {
                let (chats, channels) = (chats(connection)?, channels(connection)?);
                Ok(Found::Start { chats, channels, drafts: drafts(connection)? })
            }
            Load::Window { conversation_id: id, side } => {
                let window = window(connection, id, *side, PAGE)?;
                let mut places = BTreeMap::new();
                for message in window.messages.iter().filter(|message| message.media.is_some()) {
                    places.extend(place_of(connection, id, message.seq)?.map(|path| (message.seq, self.file(&path))));
                }
                let (row, channel) = (row_of(connection, id)?, channel_of(connection, id)?);
                Ok(Found::Window { row, channel, members: members_of(connection, id)?, window, places })
            }
        })
    }

    /// Returns the number of unread messages in all conversations that are not archived.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn unread(&self) -> Result<u64, Error> {
        Ok(self.chats()?.iter().filter(|chat| !chat.archived).map(|chat| chat.unread).sum())
    }

    /// Returns at most `limit` messages of a conversation, on one side of a `seq`.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn window(&self, id: &ConversationId, side: Side, limit: usize) -> Result<Window, Error> {
        self.read(|connection| window(connection, id, side, limit))
    }

    /// Returns the newest `limit` messages that contain the words, the newest first. The last word may be incomplete.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn search(&self, text: &str, limit: usize) -> Result<Vec<Message>, Error> {
        let Some(query) = Query::new(text) else { return Ok(vec![]) };
        self.read(|connection| search(connection, &query, limit))
    }

    /// Returns what a notification shows of the message that a ring announces. `None`: nothing, because the user has read
    /// the message, its author has deleted it, or the user has blocked the author.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn notice(&self, id: &ConversationId, seq: Seq) -> Result<Option<Notice>, Error> {
        let (row, found) = self.read(|connection| {
            Ok((row_of(connection, id)?, window(connection, id, Side::After(seq.previous()), 1)?))
        })?;
        let message = found.messages.into_iter().find(|message| message.seq == seq);
        let is_read = row.as_ref().is_some_and(|row| row.read_seq >= seq || row.blocked);
        if is_read || message.as_ref().is_some_and(|message| message.deleted_at.is_some()) {
            return Ok(None);
        }
        let title = row.and_then(|row| row.title.or_else(|| row.peer_id.map(|peer| peer.to_string())));
        let body = |message: Message| if message.kind == Kind::Sealed { String::new() } else { message.body };
        let (sender_id, body) = message.map(|message| (message.sender_id.clone(), body(message))).unzip();
        Ok(Some(Notice { title, sender_id, body: body.filter(|body| !body.is_empty()) }))
    }

    /// Returns a conversation's members, in the order of their ids.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn members(&self, id: &ConversationId) -> Result<Vec<KnownMember>, Error> {
        self.read(|connection| members_of(connection, id))
    }

    /// Returns all drafts.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn drafts(&self) -> Result<BTreeMap<Target, Draft>, Error> {
        self.read(drafts)
    }

    /// Returns the file of a message's attachment on this device.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn place(&self, id: &ConversationId, seq: Seq) -> Result<Option<String>, Error> {
        Ok(self.read(|connection| place_of(connection, id, seq))?.map(|path| self.file(&path)))
    }

    /// Returns the files that [`Store::tidy`](crate::Store::tidy) will remove, in the order of their names.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn unneeded(&self) -> Result<Vec<String>, Error> {
        let mut paths: Vec<String> = self.read(unneeded)?.iter().map(|path| self.file(path)).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    /// Returns the path of a file now.
    fn file(&self, kept: &str) -> String {
        files::found_text(files::folder_of(&self.path), kept)
    }

    /// Reads from one state of the file.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let transaction = self.connection.unchecked_transaction().map_err(Error::from);
        self.noting(transaction.and_then(|transaction| read(&transaction)))
    }

    /// Makes the next start check the file if a read or a write found damage.
    pub(crate) fn noting<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| {
            if error.is_damage() {
                damage::note(&self.path);
            }
        })
    }
}

fn saved(connection: &Connection) -> Result<Saved, Error> {
    let mut outbox = connection.prepare_cached("SELECT request, refused FROM outbox ORDER BY n")?;
    let outbox = outbox.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)))?;
    let mut saved = Saved::default();
    for request in outbox {
        let (request, refused) = request?;
        // A request that this version can't read waits for a later one.
        match (queued(&request), refused) {
            (Some(queued), None) => saved.outbox.push_back(queued),
            (Some(queued), Some(code)) => saved.refused.push((queued, code)),
            (None, _) => {}
        }
    }
    let marks =
        "SELECT id, held_seq, untold_seq FROM conversation WHERE held_seq IS NOT NULL OR untold_seq IS NOT NULL";
    let mut marks = connection.prepare(marks)?;
    let mut marks = marks.query(())?;
    while let Some(row) = marks.next()? {
        let id = id_of(&row.get::<_, String>(0)?)?;
        let (held, read): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
        if let Some(read) = read {
            saved.reads.insert(id.clone(), seq_of(read)?);
        }
        if let Some(held) = held {
            saved.held.insert(id, seq_of(held)?);
        }
    }
    let caught_up = "SELECT value FROM meta WHERE key = 'caught_up'";
    let caught_up: Option<i64> = connection.query_row(caught_up, (), |row| row.get(0)).optional()?;
    saved.caught_up = caught_up.map(Timestamp::from_millis);
    let listed = "SELECT EXISTS(SELECT * FROM meta WHERE key = 'listed')";
    saved.listed = connection.query_row(listed, (), |row| row.get(0))?;
    let mut sealing = connection.prepare("SELECT key, value FROM sealing")?;
    let sealing = sealing.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    saved.sealing = sealing.collect::<Result<_, _>>()?;
    Ok(saved)
}

fn chats(connection: &Connection) -> Result<Vec<Conversation>, Error> {
    let list =
        "SELECT listed FROM conversation WHERE sent_at IS NOT NULL AND listed IS NOT NULL ORDER BY sent_at DESC, id";
    let mut list = connection.prepare_cached(list)?;
    let rows = list.query_map((), |row| row.get::<_, String>(0))?;
    rows.map(|row| Ok(serde_json::from_str(&row?)?)).collect()
}

fn channels(connection: &Connection) -> Result<Vec<Channel>, Error> {
    let mut list =
        connection.prepare_cached("SELECT channel FROM conversation WHERE channel IS NOT NULL ORDER BY id")?;
    let rows = list.query_map((), |row| row.get::<_, String>(0))?;
    rows.map(|row| Ok(serde_json::from_str(&row?)?)).collect()
}

fn drafts(connection: &Connection) -> Result<BTreeMap<Target, Draft>, Error> {
    let mut all = connection.prepare_cached("SELECT target, value FROM draft")?;
    let rows = all.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let read = |(target, draft): (String, String)| Ok((serde_json::from_str(&target)?, serde_json::from_str(&draft)?));
    rows.map(|row| read(row?)).collect()
}

fn unneeded(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut all = connection.prepare_cached("SELECT path FROM unneeded")?;
    let rows = all.query_map((), |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn window(connection: &Connection, id: &ConversationId, side: Side, limit: usize) -> Result<Window, Error> {
    let Some((num, first_seq)) = floor_of(connection, id)? else { return Ok(Window::default()) };
    let first = key_of(num, first_seq.value());
    let (from, to, order) = match side {
        Side::Newest => (first, key_of(num + 1, 0), "DESC"),
        Side::Before(seq) => (first, key_of(num, seq.value()), "DESC"),
        Side::After(seq) => (key_of(num, seq.next().value()).max(first), key_of(num + 1, 0), "ASC"),
    };
    let page = "SELECT value FROM message WHERE key >= ? AND key < ? AND sent_at IS NOT NULL ORDER BY key";
    let mut page = connection.prepare_cached(&format!("{page} {order} LIMIT ?"))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = page.query(params![from, to, limit])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.extend(message_of(&row.get::<_, String>(0)?)?);
    }
    messages.sort_unstable_by_key(|message| message.seq);
    Ok(Window { messages, spans: spans_of(connection, num)? })
}

fn search(connection: &Connection, query: &Query, limit: usize) -> Result<Vec<Message>, Error> {
    let words = query.words.iter().map(|word| format!("\"{word}\" "));
    let words: String = words.chain([format!("\"{}\"*", query.prefix)]).collect();
    let mut hits = connection.prepare_cached(
        "SELECT value FROM message INDEXED BY message_sent CROSS JOIN conversation ON num = key / 4294967296
         WHERE message.sent_at IS NOT NULL AND key >= (num << 32) + floor_seq
         AND key IN (SELECT rowid FROM search WHERE search MATCH ?)
         ORDER BY message.sent_at DESC, id, key LIMIT ? OFFSET ?",
    )?;
    let mut found = Vec::new();
    for page in 0.. {
        let values = hits.query_map(params![words, HITS, page * HITS], |row| row.get::<_, String>(0))?;
        let values = values.collect::<Result<Vec<_>, _>>()?;
        for value in &values {
            found.extend(message_of(value)?.filter(|message| query.has_runs(&message.body)));
        }
        if values.len() < HITS || found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn message_of(value: &str) -> Result<Option<Message>, Error> {
    Ok(serde_json::from_str::<Folded>(value)?.message().cloned())
}
