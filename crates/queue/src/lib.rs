//! The queue that a team's own servers write into, as Lambda hands it on; and the queue of dead letters, for what can't be accepted.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::{BoxError, BuildError, ProvideErrorMetadata as _};
use aws_sdk_sqs::types::MessageAttributeValue;
use domain::{Failure, ServiceError};
use serde::Deserialize;
use wire::Refusal;
use wire::limits::FRAME_BYTES_MAX;

/// One attempt at one call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// One call with the SDK's own retries.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// As Lambda hands it to a function: <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>.
#[derive(Debug, Deserialize)]
pub struct Batch {
    #[serde(rename = "Records")]
    pub records: Vec<Record>,
}

/// A message of the queue.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub message_id: String,
    pub body: String,
    attributes: Attributes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    message_group_id: String,
}

impl Batch {
    /// The messages of each group, in their order.
    pub fn groups(&self) -> Vec<Vec<&Record>> {
        let mut groups: Vec<Vec<&Record>> = vec![];
        for record in &self.records {
            let is_of_it = |group: &&mut Vec<&Record>| group.iter().any(|other| other.group() == record.group());
            match groups.iter_mut().find(is_of_it) {
                Some(group) => group.push(record),
                None => groups.push(vec![record]),
            }
        }
        groups
    }
}

impl Record {
    fn group(&self) -> &str {
        &self.attributes.message_group_id
    }
}

/// The way to the queue of dead letters. Cheap to clone; made once per process.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    client: Client,
    url: String,
}

#[derive(Debug, thiserror::Error)]
#[error("SendMessage failed")]
struct Failed {
    source: BoxError,
}

impl DeadLetters {
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into() }
    }

    /// Three attempts at each call, as the SDK makes them.
    pub fn from_sdk(sdk: &SdkConfig, url: impl Into<String>) -> Self {
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT).operation_timeout(CALL_TIMEOUT).build();
        Self::new(Client::from_conf(aws_sdk_sqs::config::Builder::from(sdk).timeout_config(timeouts).build()), url)
    }

    /// Puts a message there that can't be accepted, with the reason. What comes again within five minutes, because nobody could say that
    /// it is done, is put there once.
    ///
    /// # Errors
    /// The queue did not take it.
    pub async fn put(&self, record: &Record, refusal: &Refusal) -> Result<(), Failure> {
        let (reason, detail) = (attribute(refusal.code()), attribute(&refusal.to_string()));
        let (reason, detail) = (reason.map_err(unavailable)?, detail.map_err(unavailable)?);
        // Of one that is too large a part has to do: with the reason beside it, all of it could be more than a queue takes.
        let shown = record.body.floor_char_boundary(FRAME_BYTES_MAX);
        let send = self
            .client
            .send_message()
            .queue_url(&self.url)
            .message_group_id(record.group())
            .message_deduplication_id(&record.message_id)
            .message_body(record.body.get(..shown).unwrap_or_default())
            .message_attributes("reason", reason)
            .message_attributes("detail", detail);
        send.send().await.map(drop).map_err(|error| {
            let (code, message) = (error.code().map(str::to_owned), error.message().map(str::to_owned));
            Failure::Unavailable(Box::new(Failed { source: ServiceError::of(code, message, error) }))
        })
    }
}

fn attribute(value: &str) -> Result<MessageAttributeValue, BuildError> {
    MessageAttributeValue::builder().data_type("String").string_value(value).build()
}

fn unavailable(error: BuildError) -> Failure {
    Failure::Unavailable(error.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests: a panic is the report")]

    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_a_group_stay_together_and_in_order() {
        let record =
            |id: &str, group: &str| json!({"messageId": id, "body": "", "attributes": {"MessageGroupId": group}});
        let records = [record("1", "bob"), record("2", "carol"), record("3", "bob"), record("4", "bob")];
        let batch: Batch = serde_json::from_value(json!({ "Records": records })).unwrap();
        let ids = |group: Vec<&Record>| group.iter().map(|record| record.message_id.clone()).collect::<String>();
        assert_eq!(batch.groups().into_iter().map(ids).collect::<Vec<_>>(), ["134", "2"]);
    }
}
