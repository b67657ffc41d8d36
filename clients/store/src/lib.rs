#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod damage;
mod error;
mod files;
mod later;
mod reader;
mod rows;
mod trim;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pigeonhole_core::{Write, apply};
use rusqlite::{Connection, TransactionBehavior};
use wire::UserId;

use damage::{remove_old_copy, set_aside};
pub use error::Error;
use files::folder_of;
pub use reader::{Notice, Reader};
use rows::Rows;

/// Each migration leads from one version of the schema to the next, the first from an empty file.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/001.sql"), include_str!("../migrations/002.sql")];
/// `PGN1`.
const APPLICATION: i64 = 0x5047_4E31;

/// A message store in a file, which belongs to one process at a time. A store has all methods of a [`Reader`].
#[derive(Debug)]
pub struct Store {
    reader: Reader,
    me: UserId,
    set_aside: Option<PathBuf>,
    /// The journal has a text that was deleted.
    has_deleted: bool,
    /// Locked while this lives.
    _lock: Lock,
}

impl Store {
    /// Opens the store of this user, or creates one. `path` with `.lock`, `-wal`, `-shm`, `.check` and `.broken` at its
    /// end belong to the store. On unix, only the user of the program may read the messages.
    ///
    /// A damaged file becomes `.broken`, in place of an earlier one, and a later call removes the copy after 7 days.
    /// The new store has only the outbox and the drafts, as far as they could be read. The whole file is checked only if an
    /// earlier call found damage, because that reads all of it.
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
        Self::open_with(path.as_ref(), me, MIGRATIONS)
    }

    fn open_with(path: &Path, me: &UserId, migrations: &[&str]) -> Result<Self, Error> {
        let lock = Lock::of(path)?;
        remove_old_copy(path);
        let (connection, set_aside) = match connect(path, me, migrations) {
            Err(error) if error.is_damage() => {
                let found = set_aside(path)?;
                let mut connection = connect(path, me, migrations)?;
                let transaction = connection.transaction()?;
                let mut rows = Rows::new(&transaction, folder_of(path));
                for (client_msg_id, request) in &found.outbox {
                    rows.queue(client_msg_id, request)?;
                }
                for (target, draft) in &found.drafts {
                    rows.draft(target, draft)?;
                }
                transaction.commit()?;
                (connection, Some(damage::copy_of(path)))
            }
            connected => (connected?, None),
        };
        damage::forget(path)?;
        let store =
            Self { reader: Reader::new(connection, path), me: me.clone(), set_aside, has_deleted: false, _lock: lock };
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
        let result = self.commit(writes, lasting);
        self.ended(result)
    }

    /// Removes the files of deleted messages. Also removes at most 500 messages: those below a floor, or else old ones
    /// while the store has more than `messages_max`. An app calls this while it is idle, and again while the result is
    /// `true`.
    ///
    /// An old message was read, and is not among the newest 200 of its conversation. The conversation whose last message
    /// is the oldest loses its messages first. These messages are a gap, which the client can request again.
    ///
    /// # Errors
    /// Nothing was removed.
    pub fn tidy(&mut self, messages_max: usize) -> Result<bool, Error> {
        let result = self.tidied(messages_max);
        self.ended(result)
    }

    /// Ends a transaction that a failure has left open, because each later transaction would fail too.
    fn ended<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.noting(result)
    }

    fn tidied(&mut self, messages_max: usize) -> Result<bool, Error> {
        self.remove_files()?;
        let reader = &mut self.reader;
        let transaction = reader.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut rows = Rows::new(&transaction, folder_of(&reader.path));
        let has_more = rows.remove_hidden()?;
        if rows.has_deleted() {
            transaction.commit()?;
            self.forget_deleted();
            return Ok(has_more);
        }
        drop(transaction);
        let Some(trim) = trim::next(&self.reader.connection, messages_max)? else { return Ok(false) };
        self.commit(&[trim], false)?;
        Ok(true)
    }

    /// Removes the files that are no longer needed. A later call tries again if a file can't be removed.
    fn remove_files(&mut self) -> Result<(), Error> {
        let is_gone = |path: &String| match std::fs::remove_file(path) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let gone: Vec<Write> = self.unneeded()?.into_iter().filter(is_gone).map(Write::Removed).collect();
        if gone.is_empty() { Ok(()) } else { self.commit(&gone, false) }
    }

    fn commit(&mut self, writes: &[Write], lasting: bool) -> Result<(), Error> {
        let Reader { connection, path } = &mut self.reader;
        connection.pragma_update(None, "synchronous", if lasting { "FULL" } else { "NORMAL" })?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut rows = Rows::new(&transaction, folder_of(path));
        for write in writes {
            apply(&mut rows, &self.me, write)?;
        }
        let has_deleted = rows.has_deleted();
        if lasting {
            // A commit without a change would sync nothing.
            transaction.execute("UPDATE meta SET value = value + 1 WHERE key = 'turn'", ())?;
        }
        transaction.commit()?;
        if has_deleted || self.has_deleted {
            self.forget_deleted();
        }
        Ok(())
    }

    /// Removes the journal's copies of deleted texts.
    fn forget_deleted(&mut self) {
        // The writes are committed, even if the journal can't be emptied. The next write tries again.
        self.has_deleted = !self.empty_journal().unwrap_or(false);
    }

    /// Writes the journal into the file and empties it. Returns `false` if a reader prevents that.
    fn empty_journal(&self) -> Result<bool, Error> {
        let busy: i64 = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
        Ok(busy == 0)
    }
}

impl Deref for Store {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

/// The usual number of messages that a client keeps, for [`Store::tidy`].
pub const MESSAGES_MAX: usize = 100_000;

/// A client tidies its store when nothing has happened for this time.
pub const TIDY_AFTER: Duration = Duration::from_secs(2);

/// A locked file.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn of(path: &Path) -> Result<Self, Error> {
        let lock = create_private(&damage::beside(path, ".lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::Locked(path.to_owned()),
            TryLockError::Error(error) => error.into(),
        })?;
        Ok(Self(lock))
    }
}

impl Drop for Lock {
    /// A child process that is just being started has a copy of the file, so that closing this one unlocks nothing yet.
    fn drop(&mut self) {
        // After an error, the end of the last copy unlocks the file.
        let _ = self.0.unlock();
    }
}

fn connect(path: &Path, me: &UserId, migrations: &[&str]) -> Result<Connection, Error> {
    create_private(path)?;
    let mut connection = Connection::open(path)?;
    let version = version_of(&connection, path)?;
    if version > migrations.len() {
        return Err(Error::Newer(version));
    }
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2000;",
    )?;
    for (version, migration) in (1..).zip(migrations).skip(version) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        if version == 1 {
            transaction.execute("INSERT INTO meta VALUES ('me', ?), ('turn', 0)", [me.as_str()])?;
        }
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    if damage::is_noted(path) {
        check(&connection)?;
    }
    check_owner(&connection, me)?;
    Ok(connection)
}

/// Returns the version of the schema, which is 0 in an empty file.
fn version_of(connection: &Connection, path: &Path) -> Result<usize, Error> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    if number("schema_version")? == 0 {
        return Ok(0);
    }
    if number("application_id")? != APPLICATION {
        return Err(Error::Foreign(path.to_owned()));
    }
    let version = number("user_version")?;
    usize::try_from(version).map_err(|_| Error::Unreadable(format!("schema {version}")))
}

fn check_owner(connection: &Connection, me: &UserId) -> Result<(), Error> {
    let owner: String = connection.query_row("SELECT value FROM meta WHERE key = 'me'", (), |row| row.get(0))?;
    if owner == *me.as_str() { Ok(()) } else { Err(Error::WrongUser(owner)) }
}

/// Finds all damage. A damaged index is no damage of the file: the messages have all of it.
fn check(connection: &Connection) -> Result<(), Error> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", (), |row| row.get(0))?;
    match found.as_str() {
        "ok" => Ok(()),
        index if index.contains("FTS5") => rows::index_again(connection),
        _ => Err(Error::Damaged(found)),
    }
}

/// Opens or creates a file that only this user may read. Its journals get the same mode.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests;
