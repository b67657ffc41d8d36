//! What is answered to a batch of a stream or of a queue.

use serde::Serialize;

/// Which records of a batch Lambda is to hand on again.
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
    /// Those with these ids. Of a stream, all from the first of them on; of a queue's group, those behind the first must be named as
    /// well. None: the whole batch is done.
    pub fn again<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let failure = |id: &str| BatchItemFailure { item_identifier: id.to_owned() };
        Self { batch_item_failures: ids.into_iter().map(failure).collect() }
    }
}
