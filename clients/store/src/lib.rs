#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod damage;
mod error;
mod rows;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use pigeonhole_core::{Folded, Query, Saved, Window, Write, apply};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use wire::{Conversation, ConversationId, Message, Side, Timestamp, UserId};

use damage::{remove_old_copy, set_aside};
pub use error::Error;
use rows::{Rows, key_of, number_of, queued, spans_of};

/// The version of the schema that this version of the crate writes.
const SCHEMA: i64 = 1;
/// `PGN1`.
const APPLICATION: i64 = 0x5047_4E31;
/// The number of hits whose texts a search reads in one step.
const HITS: usize = 50;

/// A message store in a file, which belongs to one process at a time.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    me: UserId,
    set_aside: Option<PathBuf>,
    /// The journal has a text that was deleted.
    has_deleted: bool,
    /// Locked while this lives.
    _lock: File,
}

impl Store {
    /// Opens the store of this user, or creates one. `path` with `.lock`, `-wal`, `-shm` and `.broken` at its end
    /// belong to the store. On unix, only the user of the program may read the messages.
    ///
    /// A damaged file becomes `.broken`, in place of an earlier one, and a later call removes the copy after 7 days.
    /// The new store has only the requests of the outbox that could be read.
    ///
    /// # Errors
    /// [`Error::Locked`]: another process has the store. [`Error::Newer`]: a later version wrote the store.
    /// [`Error::WrongUser`], [`Error::Foreign`], [`Error::Io`] or [`Error::Sqlite`].
    ///
    /// ```no_run
    /// let alice = wire::UserId::parse("alice")?;
    /// let store = pigeonhole_store::Store::open("alice.store", &alice)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, me: &UserId) -> Result<Self, Error> {
        let path = path.as_ref();
        let lock = lock(path)?;
        remove_old_copy(path);
        let (connection, set_aside) = match connect(path, me) {
            Err(error) if error.is_damage() => {
                let outbox = set_aside(path)?;
                let mut connection = connect(path, me)?;
                let transaction = connection.transaction()?;
                let mut rows = Rows::new(&transaction);
                for request in outbox {
                    rows.queue(&request)?;
                }
                transaction.commit()?;
                (connection, Some(damage::copy_of(path)))
            }
            connected => (connected?, None),
        };
        let store = Self { connection, me: me.clone(), set_aside, has_deleted: false, _lock: lock };
        // An earlier run may have stopped before it emptied the journal.
        store.empty_journal()?;
        Ok(store)
    }

    /// Returns the path of the copy, if the file was damaged.
    pub fn set_aside(&self) -> Option<&Path> {
        self.set_aside.as_deref()
    }

    /// Applies writes in one transaction. With `lasting`, they and all earlier ones survive a power failure when this
    /// returns. A turn is lasting if the server may forget something after it, or if a request enters the outbox.
    ///
    /// A text that was deleted is in no file of the store when this returns. Only a reader of the file can delay that,
    /// until the first write after the reader has ended.
    ///
    /// # Errors
    /// Nothing was written. After damage ([`Error::is_damage`]), open the store again.
    pub fn apply(&mut self, writes: &[Write], lasting: bool) -> Result<(), Error> {
        self.connection.pragma_update(None, "synchronous", if lasting { "FULL" } else { "NORMAL" })?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut rows = Rows::new(&transaction);
        for write in writes {
            apply(&mut rows, &self.me, write)?;
        }
        let has_deleted = rows.has_deleted();
        if lasting {
            // A commit without a change would sync nothing.
            transaction.execute("UPDATE meta SET value = value + 1 WHERE key = 'turn'", ())?;
        }
        transaction.commit()?;
        self.has_deleted |= has_deleted;
        if self.has_deleted {
            // The writes are committed, even if the journal can't be emptied. The next write tries again.
            self.has_deleted = !self.empty_journal().unwrap_or(false);
        }
        Ok(())
    }

    /// Returns what the session saved.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn saved(&self) -> Result<Saved, Error> {
        let mut outbox = self.connection.prepare_cached("SELECT request FROM outbox ORDER BY n")?;
        let outbox = outbox.query_map((), |row| row.get::<_, String>(0))?;
        let mut saved = Saved::default();
        for request in outbox {
            // A request that this version can't read waits for a later one.
            saved.outbox.extend(queued(&request?));
        }
        let mut held = self.connection.prepare("SELECT id, held_seq FROM conversation WHERE held_seq IS NOT NULL")?;
        let mut held = held.query(())?;
        while let Some(row) = held.next()? {
            saved.held.insert(rows::id_of(&row.get::<_, String>(0)?)?, rows::seq_of(row.get(1)?)?);
        }
        let caught_up = "SELECT value FROM meta WHERE key = 'caught_up'";
        let caught_up: Option<i64> = self.connection.query_row(caught_up, (), |row| row.get(0)).optional()?;
        saved.caught_up = caught_up.map(Timestamp::from_millis);
        Ok(saved)
    }

    /// Returns the chat list, the conversation with the newest message first.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn chats(&self) -> Result<Vec<Conversation>, Error> {
        let list = "SELECT listed FROM conversation WHERE sent_at IS NOT NULL ORDER BY sent_at DESC, id";
        let mut list = self.connection.prepare_cached(list)?;
        let rows = list.query_map((), |row| row.get::<_, String>(0))?;
        rows.map(|row| Ok(serde_json::from_str(&row?)?)).collect()
    }

    /// Returns at most `limit` messages of a conversation, on one side of a `seq`.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn window(&self, id: &ConversationId, side: Side, limit: usize) -> Result<Window, Error> {
        let Some(num) = number_of(&self.connection, id)? else { return Ok(Window::default()) };
        let (from, to, order) = match side {
            Side::Newest => (key_of(num, 0), key_of(num + 1, 0), "DESC"),
            Side::Before(seq) => (key_of(num, 0), key_of(num, seq.value()), "DESC"),
            Side::After(seq) => (key_of(num, seq.next().value()), key_of(num + 1, 0), "ASC"),
        };
        let page = "SELECT value FROM message WHERE key >= ? AND key < ? AND sent_at IS NOT NULL ORDER BY key";
        let mut page = self.connection.prepare_cached(&format!("{page} {order} LIMIT ?"))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = page.query(params![from, to, limit])?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next()? {
            messages.extend(message_of(&row.get::<_, String>(0)?)?);
        }
        messages.sort_unstable_by_key(|message| message.seq);
        Ok(Window { messages, spans: spans_of(&self.connection, num)? })
    }

    /// Returns the newest `limit` messages that contain the words, the newest first. The last word may be incomplete.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn search(&self, text: &str, limit: usize) -> Result<Vec<Message>, Error> {
        let Some(query) = Query::new(text) else { return Ok(vec![]) };
        let words = query.words.iter().map(|word| format!("\"{word}\" "));
        let words: String = words.chain([format!("\"{}\"*", query.prefix)]).collect();
        let mut hits = self.connection.prepare_cached(
            "SELECT value FROM search JOIN message ON message.key = search.rowid
             JOIN conversation ON num = message.key / 4294967296
             WHERE search MATCH ? ORDER BY message.sent_at DESC, id, message.key LIMIT ? OFFSET ?",
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

    /// Writes the journal into the file and empties it. Returns `false` if a reader prevents that.
    fn empty_journal(&self) -> Result<bool, Error> {
        let busy: i64 = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
        Ok(busy == 0)
    }
}

fn message_of(value: &str) -> Result<Option<Message>, Error> {
    Ok(serde_json::from_str::<Folded>(value)?.message().cloned())
}

fn lock(path: &Path) -> Result<File, Error> {
    let lock = OpenOptions::new().create(true).write(true).truncate(false).open(damage::beside(path, ".lock"))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::Locked(path.to_owned()),
        TryLockError::Error(error) => error.into(),
    })?;
    Ok(lock)
}

fn connect(path: &Path, me: &UserId) -> Result<Connection, Error> {
    create_private(path)?;
    let mut connection = Connection::open(path)?;
    let number = |pragma: &str| connection.query_row(&format!("PRAGMA {pragma}"), (), |row| row.get::<_, i64>(0));
    let (application, version, tables) =
        (number("application_id")?, number("user_version")?, number("schema_version")?);
    if tables != 0 && application != APPLICATION {
        return Err(Error::Foreign(path.to_owned()));
    }
    if version > SCHEMA {
        return Err(Error::Newer(version));
    }
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2000;",
    )?;
    if tables == 0 {
        let transaction = connection.transaction()?;
        transaction.execute_batch(include_str!("schema.sql"))?;
        transaction.execute("INSERT INTO meta VALUES ('me', ?), ('turn', 0)", [me.as_str()])?;
        transaction.commit()?;
    }
    check(&connection)?;
    let known: String = connection.query_row("SELECT value FROM meta WHERE key = 'me'", (), |row| row.get(0))?;
    if known == *me.as_str() { Ok(connection) } else { Err(Error::WrongUser(known)) }
}

/// Finds damage before the app does. A damaged index is no damage of the file: the messages have all of it.
fn check(connection: &Connection) -> Result<(), Error> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", (), |row| row.get(0))?;
    match found.as_str() {
        "ok" => Ok(()),
        index if index.contains("FTS5") => rows::index_again(connection),
        _ => Err(Error::Damaged(found)),
    }
}

/// Creates the file with the mode that its journals then have too.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

#[cfg(test)]
mod tests;
