//! Why an action was not carried out.

use std::error::Error;

use wire::Refusal;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The caller's doing, or something that the caller can do something about.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A service behind us failed. The source is for the operator; the caller is told `unavailable`.
    #[error("a service failed")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// A row is of a later version, or damaged. The caller is told `unavailable`: who can read it may be asked next.
    #[error("a row can't be read")]
    Unreadable(#[source] Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// What the caller is told.
    pub fn refusal(&self) -> &Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Unavailable(_) | Self::Unreadable(_) => &Refusal::Unavailable,
        }
    }
}
