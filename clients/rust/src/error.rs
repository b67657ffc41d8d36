//! What can go wrong for good. What may pass is not here: it is tried again.

use std::io;
use std::sync::Arc;

/// Why something that was asked for will not be.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused, and would do so again.
    #[error("{message} ({code})")]
    Refused {
        /// The protocol's code, such as `not_member`: stable, for programs.
        code: String,
        /// What is wrong, for developers.
        message: String,
    },
    /// More than a message, or a frame, may hold. It was not sent.
    #[error("too large: a message has at most 16 KiB, and 24 KiB once written as JSON")]
    TooLarge,
    /// The client has been closed. A message that is in the outbox is sent by the next client that opens it.
    #[error("the client is closed")]
    Closed,
    /// The outbox could not be read or written.
    #[error("the outbox can't be used")]
    Storage(#[source] Arc<io::Error>),
    /// The server's answer makes no sense to this version.
    #[error("the server's answer can't be read")]
    Unreadable,
    /// A file can't be read or written, or is not what it should be.
    #[error("{0}")]
    File(String),
    /// [`Client::cancel`](crate::Client::cancel) came in time.
    #[error("the app has cancelled it")]
    Cancelled,
    /// What is out of its limits: it was not sent.
    #[error("{field} {problem}")]
    Invalid {
        /// The field at fault, such as `members`.
        field: &'static str,
        /// What it must be.
        problem: String,
    },
    /// A user id that can't be one: it was not sent.
    #[error("{id:?} is no user id: it {problem}")]
    InvalidUserId {
        /// What was given.
        id: String,
        /// What a user id must be.
        problem: String,
    },
    /// [`Client::unwatch`](crate::Client::unwatch) came before the answer.
    #[error("it is no longer watched")]
    Unwatched,
    /// The configuration can't work.
    #[error("{0}")]
    Config(String),
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Refused { code, message }, Self::Refused { code: other, message: text }) => {
                code == other && message == text
            }
            (Self::Config(what), Self::Config(other)) | (Self::File(what), Self::File(other)) => what == other,
            (Self::Invalid { field, .. }, Self::Invalid { field: other, .. }) => field == other,
            (Self::InvalidUserId { id, .. }, Self::InvalidUserId { id: other, .. }) => id == other,
            (Self::Storage(error), Self::Storage(other)) => error.kind() == other.kind(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Storage(Arc::new(error))
    }
}
