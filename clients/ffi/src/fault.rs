//! The errors of the exported functions.

use pigeonhole_core::Error;
use wire::Refusal;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, uniffi::Error)]
pub enum Fault {
    /// The only case, so that a new code breaks no `when` and no `switch`.
    #[error("{reason} ({code})")]
    Failed {
        /// A code of the protocol, or one of `config`, `bad_request`, `too_large`, `unreadable`, `file`, `cancelled`,
        /// `unwatched`, `closed`, `store`, `locked`, `newer`, `wrong_user`, `broken`.
        code: String,
        /// A text for developers.
        reason: String,
        /// A later call can succeed.
        retryable: bool,
    },
}

impl Fault {
    pub(crate) fn new(code: &str, reason: impl Into<String>) -> Self {
        Self::Failed { code: code.to_owned(), reason: reason.into(), retryable: false }
    }

    /// This call or an earlier one has panicked. The engine's memory may have half of a change.
    pub(crate) fn broken() -> Self {
        Self::new("broken", "the engine has panicked: open another one, which continues from the store")
    }

    /// The store did not take a turn's changes.
    pub(crate) fn unwritten(error: &pigeonhole_store::Error) -> Self {
        let Self::Failed { code, reason, .. } = Self::from(error);
        // After damage, only a new engine has a store to write into.
        Self::Failed { code, reason, retryable: !error.is_damage() }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Refused { code, message } => return Self::new(code, message),
            Error::TooLarge => "too_large",
            Error::Closed => "closed",
            Error::Storage(_) => "store",
            Error::Unreadable => "unreadable",
            Error::File(_) => "file",
            Error::Cancelled => "cancelled",
            Error::Invalid { .. } | Error::InvalidUserId { .. } => "bad_request",
            Error::Unwatched => "unwatched",
            Error::Config(_) => "config",
            // `Error` may get further cases.
            _ => "unknown",
        };
        Self::new(code, error.to_string())
    }
}

impl From<&pigeonhole_store::Error> for Fault {
    fn from(error: &pigeonhole_store::Error) -> Self {
        use pigeonhole_store::Error as Store;
        let code = match error {
            Store::Locked(_) => "locked",
            Store::Newer(_) => "newer",
            Store::WrongUser(_) => "wrong_user",
            // All others are of the file or of SQLite.
            _ => "store",
        };
        let cause = std::error::Error::source(error).map_or(String::new(), |source| format!(": {source}"));
        Self::Failed {
            code: code.to_owned(),
            reason: format!("{error}{cause}"),
            retryable: matches!(error, Store::Locked(_)),
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}
