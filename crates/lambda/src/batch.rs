//! What is answered to a batch of a stream.

use serde::Serialize;

/// Which records of a batch Lambda is to hand on again: all from the first of these on.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchAnswer {
    batch_item_failures: Vec<BatchItemFailure>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchItemFailure {
    item_identifier: String,
}

impl BatchAnswer {
    /// Again from the record on that Lambda calls so; `None`: all of it is done.
    pub fn again_from(sequence_number: Option<&str>) -> Self {
        let failure = sequence_number.map(|number| BatchItemFailure { item_identifier: number.to_owned() });
        Self { batch_item_failures: failure.into_iter().collect() }
    }
}
