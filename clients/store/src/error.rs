//! Why the store can't be used.

use std::io;
use std::path::PathBuf;

use rusqlite::ErrorCode;

/// The reason why the store can't be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the store.
    #[error("another client uses {0}: each needs a store of its own")]
    Locked(PathBuf),
    /// A later version of the app wrote the store.
    #[error("the store has schema {0}, which needs a later version of the app")]
    Newer(usize),
    /// A reader found a store of an earlier version of the app.
    #[error("the store has schema {0}: a store of this version must open it first")]
    Older(usize),
    /// The store belongs to this user.
    #[error("the store belongs to {0:?}")]
    WrongUser(String),
    /// The file is a database of another program.
    #[error("{0} is a database of another program")]
    Foreign(PathBuf),
    /// The file is damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A row has a value that no version of this crate writes.
    #[error("the store has a row that can't be read: {0}")]
    Unreadable(String),
    /// A file can't be used.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// `SQLite` can't read or write the file.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl Error {
    /// Returns whether the file is damaged. The next [`Store::open`](crate::Store::open) then begins a new one.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Sqlite(error) => {
                matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
            }
            Self::Locked(_)
            | Self::Newer(_)
            | Self::Older(_)
            | Self::WrongUser(_)
            | Self::Foreign(_)
            | Self::Unreadable(_)
            | Self::Io(_) => false,
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}
