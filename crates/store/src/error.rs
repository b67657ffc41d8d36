//! Errors of a table.

use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata, SdkError};
use domain::ServiceError;
use wire::Seq;

use crate::Written;

/// A call that failed, or an item that can't be read. Never shown to a client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation} on {table} failed")]
    Call { operation: &'static str, table: String, source: BoxError },
    #[error("an item of {table} has no usable {attribute}")]
    Item { table: String, attribute: &'static str },
    #[error("the entry {seq} of a log is missing")]
    Missing { seq: Seq },
}

impl Error {
    pub(crate) fn call<E, R>(operation: &'static str, table: &str, error: SdkError<E, R>) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
        R: std::fmt::Debug + Send + Sync + 'static,
    {
        let table = table.to_owned();
        let (code, message) = (error.code().map(str::to_owned), error.message().map(str::to_owned));
        Self::Call { operation, table, source: ServiceError::of(code, message, error) }
    }
}

impl Error {
    /// A condition did not hold, or a transaction was at work on the item.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_refused() || self.code() == Some("TransactionConflictException")
    }

    /// The partition is full: 10 GB, if the table has a local index. The error is permanent.
    pub fn is_full(&self) -> bool {
        self.code() == Some("ItemCollectionSizeLimitExceededException")
    }

    /// A condition did not hold.
    pub(crate) fn is_refused(&self) -> bool {
        self.code() == Some("ConditionalCheckFailedException")
    }

    fn code(&self) -> Option<&str> {
        let Self::Call { source, .. } = self else { return None };
        source.downcast_ref::<ServiceError>().map(ServiceError::code)
    }
}

/// Returns a read row. `None`: the row is of a later version, or damaged; the log has `what`.
///
/// # Errors
/// Any other error.
pub fn if_readable<T>(read: Result<T, Error>, what: &str) -> Result<Option<T>, Error> {
    match read {
        Err(error @ Error::Item { .. }) => {
            tracing::error!(%error, "skipped an unreadable row: {what}");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// A condition that does not hold is an outcome.
pub(crate) fn written<T>(result: Result<T, Error>) -> Result<Written, Error> {
    match result {
        Ok(_) => Ok(Written::Done),
        Err(error) if error.is_lost() => Ok(Written::Lost),
        Err(error) => Err(error),
    }
}

/// Adds the failed call's name to its error.
pub(crate) trait CallResult<T> {
    fn of_call(self, operation: &'static str, table: &str) -> Result<T, Error>;
}

impl<T, E, R> CallResult<T> for Result<T, SdkError<E, R>>
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    fn of_call(self, operation: &'static str, table: &str) -> Result<T, Error> {
        self.map_err(|error| Error::call(operation, table, error))
    }
}

impl From<Error> for domain::Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Item { .. } | Error::Missing { .. } => Self::Unreadable(Box::new(error)),
            Error::Call { .. } => Self::Unavailable(Box::new(error)),
        }
    }
}
