//! Batches of the queue that a team's own servers write into, as Lambda passes them to a function.
//!
//! Two more queues have the dead letters, which can't be accepted, and the failures of a function after all retries.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::{BoxError, BuildError, ProvideErrorMetadata as _, SdkError};
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::MessageAttributeValue;
use domain::{Failure, ServiceError};
use serde::Deserialize;
use wire::Timestamp;
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
    #[serde(default)]
    approximate_receive_count: Option<String>,
    /// In milliseconds.
    #[serde(default)]
    sent_timestamp: Option<String>,
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

    /// Returns how often the queue has delivered the message, this time included. A delivery also counts if it ended at
    /// an earlier message that failed.
    pub fn receives(&self) -> u32 {
        self.attributes.approximate_receive_count.as_ref().and_then(|count| count.parse().ok()).unwrap_or_default()
    }

    /// Returns when the queue took the message.
    pub fn sent_at(&self) -> Option<Timestamp> {
        self.attributes.sent_timestamp.as_ref()?.parse().ok().map(Timestamp::from_millis)
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
        Self::new(client(sdk), url)
    }

    /// Puts a message that can't be accepted into the queue of dead letters. The reason is a code and its meaning here.
    /// A retry within five minutes, after a call with an unknown outcome, adds no second copy.
    ///
    /// # Errors
    /// The queue did not take it.
    pub async fn put(&self, record: &Record, reason: &str, detail: &str) -> Result<(), Failure> {
        let (reason, detail) = (attribute(reason), attribute(detail));
        let (reason, detail) = (reason.map_err(unavailable)?, detail.map_err(unavailable)?);
        // A part of a message that is too large is enough. All of it, with the reason, could exceed the limit of a
        // queue.
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
        send.send().await.map(drop).map_err(failed)
    }
}

/// The way to where a function puts what it gives up. Cheap to clone; made once per process.
#[derive(Clone, Debug)]
pub struct Failures {
    client: Client,
    url: String,
}

impl Failures {
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into() }
    }

    /// Three attempts at each call, as the SDK makes them.
    pub fn from_sdk(sdk: &SdkConfig, url: impl Into<String>) -> Self {
        Self::new(client(sdk), url)
    }

    /// Puts an event there with which the function can be invoked again.
    ///
    /// # Errors
    /// The queue did not take it.
    pub async fn put(&self, event: &str) -> Result<(), Failure> {
        let send = self.client.send_message().queue_url(&self.url).message_body(event);
        send.send().await.map(drop).map_err(failed)
    }
}

fn client(sdk: &SdkConfig) -> Client {
    let timeouts =
        TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT).operation_timeout(CALL_TIMEOUT).build();
    Client::from_conf(aws_sdk_sqs::config::Builder::from(sdk).timeout_config(timeouts).build())
}

fn failed(error: SdkError<SendMessageError>) -> Failure {
    let (code, message) = (error.code().map(str::to_owned), error.message().map(str::to_owned));
    Failure::Unavailable(Box::new(Failed { source: ServiceError::of(code, message, error) }))
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
