//! Permanent failures. The client retries temporary ones itself.

use std::io;
use std::sync::Arc;

use wire::Refusal;

/// The reason why a request failed for good.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused, and would do so again. For an own kind or data, the client refuses in the same words.
    #[error("{message} ({code})")]
    Refused {
        /// The protocol's code, such as `not_member`: stable, for programs.
        code: String,
        /// The server's text, for developers.
        message: String,
    },
    /// The request is larger than the limit of a message or a frame, and was not sent.
    #[error("too large: a message has at most 16 KiB, and 24 KiB once written as JSON; any other request 32 KiB")]
    TooLarge,
    /// The client has been closed. A message that is in the outbox is sent by the next client that opens it.
    #[error("the client is closed")]
    Closed,
    /// The outbox could not be read or written.
    #[error("the outbox can't be used")]
    Storage(#[source] Arc<io::Error>),
    /// This version can't read the server's reply.
    #[error("the server's answer can't be read")]
    Unreadable,
    /// A file can't be read or written, or is not what it should be.
    #[error("{0}")]
    File(String),
    /// `Client::cancel` came in time.
    #[error("the app has cancelled it")]
    Cancelled,
    /// A field exceeds its limits; the request was not sent.
    #[error("{field} {problem}")]
    Invalid {
        /// The field at fault, such as `members`.
        field: &'static str,
        /// The rule that the field must follow.
        problem: String,
    },
    /// A user id that can't be one: it was not sent.
    #[error("{id:?} is no user id: it {problem}")]
    InvalidUserId {
        /// The invalid id.
        id: String,
        /// The rule that a user id must follow.
        problem: String,
    },
    /// The app called `Client::unwatch` before the reply came.
    #[error("it is no longer watched")]
    Unwatched,
    /// The configuration can't work.
    #[error("{0}")]
    Config(String),
}

impl Error {
    /// Returns a stable name for programs: the protocol's code, or a code of the client.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::TooLarge => "too_large",
            Self::Closed => "closed",
            Self::Storage(_) => "storage",
            Self::Unreadable => "unreadable",
            Self::File(_) => "file",
            Self::Cancelled => "cancelled",
            Self::Invalid { .. } | Self::InvalidUserId { .. } => "bad_request",
            Self::Unwatched => "unwatched",
            Self::Config(_) => "config",
        }
    }
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

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { code: refusal.code().to_owned(), message: refusal.to_string() }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Storage(Arc::new(error))
    }
}
