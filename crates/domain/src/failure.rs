//! Why an action was not carried out.

use std::error::Error;

use wire::Refusal;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The caller's doing, or something that the caller can do something about.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A service behind us failed. The source is for the operator; the client gets `unavailable`.
    #[error("a service failed")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// A row is of a later version, or damaged. The client gets `unavailable`: the next try may reach a newer function.
    #[error("a row can't be read")]
    Unreadable(#[source] Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// Returns the client's error.
    pub fn refusal(&self) -> &Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Unavailable(_) | Self::Unreadable(_) => &Refusal::Unavailable,
        }
    }
}

/// An AWS service's error text. The SDK's own errors omit it from their `Display`.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ServiceError {
    code: String,
    message: String,
    source: Box<dyn Error + Send + Sync>,
}

impl ServiceError {
    /// `code` is `None` if the service returned none, for example because the call did not reach it.
    pub fn of(
        code: Option<String>,
        message: Option<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Box<dyn Error + Send + Sync> {
        match code {
            Some(code) => {
                Self { code, message: message.unwrap_or_else(|| "no message".to_owned()), source: source.into() }.into()
            }
            None => source.into(),
        }
    }

    pub fn code(&self) -> &str {
        &self.code
    }
}
