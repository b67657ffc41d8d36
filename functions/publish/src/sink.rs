//! The bus or the queue that gets the events.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use domain::{Failure, ServiceError};
use lambda::BadVariable;

use crate::event::Event;

/// Events in a call: `EventBridge` and SQS take no more.
const EVENTS_MAX: usize = 10;
/// Bytes of the events in a call. Both take 256 KiB, with some bytes around each event.
const BYTES_MAX: usize = 200 * 1024;
/// One attempt at one call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// One call with the SDK's own retries.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The `Source` of each event on a bus.
const SOURCE: &str = "pigeonhole";

/// Where the events go. Made once per process.
#[derive(Clone, Debug)]
pub enum Sink {
    Bus { client: aws_sdk_eventbridge::Client, arn: String },
    Queue { client: aws_sdk_sqs::Client, url: String },
}

impl Sink {
    /// Reads `EVENTS_TO`. `sqs`: the endpoint of SQS, at which a queue's URL begins.
    ///
    /// # Errors
    /// [`BadVariable`] for an ARN that names neither a bus nor a queue.
    pub fn from_sdk(sdk: &SdkConfig, arn: &str, sqs: &str) -> Result<Self, BadVariable> {
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        match parts.as_slice() {
            [_, _, "events", _, _, name] if name.starts_with("event-bus/") => {
                use aws_sdk_eventbridge::config::{Builder, timeout::TimeoutConfig};
                let times = TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT);
                let config = Builder::from(sdk).timeout_config(times.operation_timeout(CALL_TIMEOUT).build());
                let client = aws_sdk_eventbridge::Client::from_conf(config.build());
                Ok(Self::Bus { client, arn: arn.to_owned() })
            }
            [_, _, "sqs", _, account, name] => {
                use aws_sdk_sqs::config::{Builder, timeout::TimeoutConfig};
                let times = TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT);
                let config = Builder::from(sdk).timeout_config(times.operation_timeout(CALL_TIMEOUT).build());
                let url = format!("{}/{account}/{name}", sqs.trim_end_matches('/'));
                Ok(Self::Queue { client: aws_sdk_sqs::Client::from_conf(config.build()), url })
            }
            _ => Err(BadVariable::new("EVENTS_TO", "must be the ARN of an event bus or of a queue")),
        }
    }

    /// Sends at most [`fitting`] events. Returns the places of those that were refused.
    ///
    /// # Errors
    /// The call failed: the bus or the queue may have taken none of the events.
    pub(crate) async fn put(&self, events: &[Event]) -> Result<Vec<(usize, Failure)>, Failure> {
        match self {
            Self::Bus { client, arn } => to_bus(client, arn, events).await,
            Self::Queue { client, url } => to_queue(client, url, events).await,
        }
    }
}

/// Returns how many of the first events one call takes: at least one.
pub(crate) fn fitting(events: &[Event]) -> usize {
    let mut bytes = 0;
    let fits = events.iter().take(EVENTS_MAX).take_while(|event| {
        bytes += event.json.len();
        bytes <= BYTES_MAX
    });
    fits.count().max(1)
}

async fn to_bus(
    client: &aws_sdk_eventbridge::Client,
    arn: &str,
    events: &[Event],
) -> Result<Vec<(usize, Failure)>, Failure> {
    use aws_sdk_eventbridge::error::ProvideErrorMetadata as _;
    let entry = |event: &Event| {
        let entry = PutEventsRequestEntry::builder().source(SOURCE).detail_type(event.kind).detail(&event.json);
        entry.event_bus_name(arn).build()
    };
    let put = client.put_events().set_entries(Some(events.iter().map(entry).collect())).send().await;
    let put = put.map_err(|error| {
        let (code, message) = (error.code().map(str::to_owned), error.message().map(str::to_owned));
        failed("PutEvents", ServiceError::of(code, message, error))
    })?;
    let refused = put.entries().iter().enumerate().filter_map(|(index, entry)| {
        let problem = format!("{}: {}", entry.error_code()?, entry.error_message().unwrap_or_default());
        Some((index, failed("PutEvents", problem.into())))
    });
    Ok(refused.collect())
}

async fn to_queue(client: &aws_sdk_sqs::Client, url: &str, events: &[Event]) -> Result<Vec<(usize, Failure)>, Failure> {
    use aws_sdk_sqs::error::ProvideErrorMetadata as _;
    // SQS requires this end of the name.
    let is_fifo = url.rsplit_once('.').is_some_and(|(_, end)| end == "fifo");
    let entry = |(index, event): (usize, &Event)| {
        let entry = SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(&event.json);
        let deduplicated_by = match &event.job_id {
            Some(job_id) => format!("{}:{job_id}", event.id),
            None => event.id.clone(),
        };
        let entry = entry
            .set_message_group_id(is_fifo.then(|| event.group.clone()))
            .set_message_deduplication_id(is_fifo.then_some(deduplicated_by));
        entry.build().map_err(|error| failed("SendMessageBatch", error.into()))
    };
    let entries = events.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
    let put = client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await;
    let put = put.map_err(|error| {
        let (code, message) = (error.code().map(str::to_owned), error.message().map(str::to_owned));
        failed("SendMessageBatch", ServiceError::of(code, message, error))
    })?;
    let refused = put.failed().iter().map(|entry| {
        let problem = format!("{}: {}", entry.code(), entry.message().unwrap_or_default());
        (entry.id().parse().unwrap_or_default(), failed("SendMessageBatch", problem.into()))
    });
    Ok(refused.collect())
}

#[derive(Debug, thiserror::Error)]
#[error("{operation} failed")]
struct NotPut {
    operation: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

fn failed(operation: &'static str, source: Box<dyn std::error::Error + Send + Sync>) -> Failure {
    Failure::Unavailable(Box::new(NotPut { operation, source }))
}
