//! A damaged store: its copy, and what can be saved from it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// Deletes do not reach a copy, so no copy stays for longer.
const COPY_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The ends of the names of a database's journals.
const JOURNALS: [&str; 2] = ["-wal", "-shm"];
const CHECK: &str = ".check";

pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

pub(crate) fn copy_of(path: &Path) -> PathBuf {
    beside(path, ".broken")
}

/// Marks the store as one that the next start checks.
pub(crate) fn note(path: &Path) {
    // The app has the error that led to this, in any case.
    let _ = fs::write(beside(path, CHECK), []);
}

pub(crate) fn is_noted(path: &Path) -> bool {
    beside(path, CHECK).exists()
}

/// The store was checked, or is a new one.
pub(crate) fn forget(path: &Path) -> io::Result<()> {
    match fs::remove_file(beside(path, CHECK)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Unsent texts from a damaged file, as JSON.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The `client_msg_id` and the request of each row of the outbox.
    pub(crate) outbox: Vec<(String, String)>,
    /// The target and the text of each draft.
    pub(crate) drafts: Vec<(String, String)>,
}

/// Renames the damaged file. Returns what can be read of that which no server has.
pub(crate) fn set_aside(path: &Path) -> io::Result<Found> {
    let found = found(path).unwrap_or_default();
    fs::rename(path, copy_of(path))?;
    for end in JOURNALS {
        match fs::rename(beside(path, end), beside(&copy_of(path), end)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(found)
}

fn found(path: &Path) -> rusqlite::Result<Found> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let rows = |select| rows(&connection, select).unwrap_or_default();
    Ok(Found {
        outbox: rows("SELECT client_msg_id, request FROM outbox ORDER BY n"),
        drafts: rows("SELECT target, value FROM draft"),
    })
}

/// Reads row by row, up to the first that can't be read.
fn rows(connection: &Connection, select: &str) -> rusqlite::Result<Vec<(String, String)>> {
    let mut select = connection.prepare(select)?;
    let rows = select.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.map_while(Result::ok).collect())
}

/// Removes a copy that is too old. A copy of unknown age stays.
pub(crate) fn remove_old_copy(path: &Path) {
    let copy = copy_of(path);
    let age = fs::metadata(&copy).and_then(|file| file.modified()).ok().and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age > COPY_AGE_MAX) {
        for end in ["", "-wal", "-shm"] {
            // The next start tries again.
            let _ = fs::remove_file(beside(&copy, end));
        }
    }
}
