//! The reply to a batch of a stream or of a queue.

use serde::Serialize;

/// The records of a batch that Lambda must deliver again.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    batch_item_failures: Vec<BatchItemFailure>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchItemFailure {
    item_identifier: String,
}

impl BatchResponse {
    /// Names the records with these ids for a retry. A stream retries all from the first of them on. For a queue's
    /// group, the ids must include those behind the first. Without ids the whole batch is done.
    pub fn again<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let failure = |id: &str| BatchItemFailure { item_identifier: id.to_owned() };
        Self { batch_item_failures: ids.into_iter().map(failure).collect() }
    }
}
