//! The reasons to refuse an input.

use mls_rs::error::MlsError;

/// The reason why an input is refused. The state from before stays valid: no function returns a new one with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what their place asks for.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The input is for another epoch than the group's, which did not try it.
    #[error("the input is of epoch {theirs}, the group of {ours}")]
    Epoch {
        /// The epoch that the input would need.
        ours: u64,
        /// The epoch that the input has.
        theirs: u64,
    },
    /// The entry around the bytes says something else than the bytes: the server moved or renamed them.
    #[error("misplaced: {0}")]
    Misplaced(&'static str),
    /// A member made what the profile does not allow. All members refuse the same.
    #[error("against the profile: {0}")]
    Profile(&'static str),
    /// The bytes do not open. Any user or the server can have made them, so they are no reason for a reset.
    #[error("does not open")]
    Unopened {
        /// The mark in the bytes is the epoch's. Another mark is a sign of a fork.
        own_mark: bool,
        /// The library's error.
        #[source]
        source: Box<MlsError>,
    },
    /// The Welcome has nothing for the packages of this device.
    #[error("the Welcome is not for this device")]
    NotForUs,
    /// The stored bytes can't be used.
    #[error("the stored state can't be used: {0}")]
    State(&'static str),
    /// The library refused.
    #[error("refused by MLS")]
    Mls(#[source] Box<MlsError>),
}

impl From<MlsError> for Error {
    fn from(error: MlsError) -> Self {
        Self::Mls(Box::new(error))
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns a refusal unless the condition holds.
pub(crate) fn ensure(holds: bool, refusal: Error) -> Result<()> {
    if holds { Ok(()) } else { Err(refusal) }
}
