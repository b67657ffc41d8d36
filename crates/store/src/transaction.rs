//! Several writes, all or nothing.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::builders::{ConditionCheckBuilder, DeleteBuilder, PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{CancellationReason, TransactWriteItem};

use crate::{Error, Store};

pub(crate) fn put(put: PutBuilder) -> Result<TransactWriteItem, BuildError> {
    put.build().map(|put| TransactWriteItem::builder().put(put).build())
}

pub(crate) fn update(update: UpdateBuilder) -> Result<TransactWriteItem, BuildError> {
    update.build().map(|update| TransactWriteItem::builder().update(update).build())
}

pub(crate) fn delete(delete: DeleteBuilder) -> Result<TransactWriteItem, BuildError> {
    delete.build().map(|delete| TransactWriteItem::builder().delete(delete).build())
}

pub(crate) fn check(check: ConditionCheckBuilder) -> Result<TransactWriteItem, BuildError> {
    check.build().map(|check| TransactWriteItem::builder().condition_check(check).build())
}

/// The outcome of a transaction.
#[derive(Debug)]
pub(crate) enum Outcome {
    Written,
    /// Nothing was written.
    Cancelled(Cancelled),
}

/// Why nothing was written.
#[derive(Debug)]
pub(crate) struct Cancelled {
    /// A reason per write, in their order.
    reasons: Vec<CancellationReason>,
    error: Error,
}

/// Writes all or nothing. After an error the outcome is unknown. `table`: the table that the error names.
pub(crate) async fn write(
    store: &Store,
    table: &str,
    writes: Result<Vec<TransactWriteItem>, BuildError>,
) -> Result<Outcome, Error> {
    let operation = "TransactWriteItems";
    let writes = writes.map_err(|error| Error::Call { operation, table: table.to_owned(), source: error.into() })?;
    let Err(error) = store.client.transact_write_items().set_transact_items(Some(writes)).send().await else {
        return Ok(Outcome::Written);
    };
    let reasons = match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            Some(cancelled.cancellation_reasons().to_vec())
        }
        _ => None,
    };
    let error = Error::call(operation, table, error);
    match reasons {
        Some(reasons) => Ok(Outcome::Cancelled(Cancelled { reasons, error })),
        None => Err(error),
    }
}

impl Cancelled {
    /// A condition did not hold, or a concurrent write has one of the items.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_for("ConditionalCheckFailed") || self.is_conflict()
    }

    /// A concurrent write has one of the items.
    pub(crate) fn is_conflict(&self) -> bool {
        self.is_for("TransactionConflict")
    }

    /// The items with one partition key fill their 10 GB. DynamoDB has this limit for a table with a local index.
    pub(crate) fn is_full(&self) -> bool {
        self.is_for("ItemCollectionSizeLimitExceeded")
    }

    /// The reason of the write at this place, if its condition did not hold.
    pub(crate) fn refused(&self, place: usize) -> Option<&CancellationReason> {
        self.reasons.get(place).filter(|reason| reason.code() == Some("ConditionalCheckFailed"))
    }

    fn is_for(&self, code: &str) -> bool {
        self.reasons.iter().any(|reason| reason.code() == Some(code))
    }
}

impl From<Cancelled> for Error {
    fn from(cancelled: Cancelled) -> Self {
        cancelled.error
    }
}
