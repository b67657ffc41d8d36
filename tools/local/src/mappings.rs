//! Lambda's event source mappings: what takes the changes of a table, from its stream, to a function; and the messages of a queue.
//!
//! A mapping reads from the oldest record that is kept, also after a restart. So a function may see what it has seen: on AWS too a
//! record comes at least once.

mod queue;
mod stream;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
pub(crate) use queue::QueuePoller;
use serde::Deserialize;
use serde_json::{Value, json};
use stream::Stream;
use template::{Mapping, Template};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::database::DatabaseServer;
use crate::functions::{FunctionError, Functions};
use crate::lock;
use crate::logs::Log;
use crate::metrics::Metrics;

/// Lambda reads a shard four times a second.
const READ_EVERY: Duration = Duration::from_millis(250);
/// What Lambda takes of an event.
const EVENT_BYTES_MAX: usize = 6 * 1024 * 1024;
/// A failure waits this often as long as the one before, and no longer than that many times: AWS does not say how long.
const PAUSES_DOUBLED_MAX: u32 = 5;

/// Times that a test may shorten.
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    pub read_every: Duration,
    /// No window is longer, whatever the template says.
    pub window_max: Duration,
    /// No message of a queue that failed waits longer, whatever the template says.
    pub visibility_max: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self { read_every: READ_EVERY, window_max: Duration::MAX, visibility_max: Duration::MAX }
    }
}

/// Switches for a mapping's own behaviour on AWS, for tests.
#[derive(Default)]
pub struct Switches {
    held: watch::Sender<bool>,
    /// The mapping has seen `held`, and reads no more.
    stopped: watch::Sender<bool>,
    delay: Mutex<Duration>,
    behind: Mutex<Duration>,
    duplicates: AtomicBool,
    /// Records sent to the destination of failures, until a test takes them.
    given_up: Mutex<Vec<GivenUp>>,
    /// When the last read began that found nothing, with nothing left to deliver.
    idle: watch::Sender<Option<Instant>>,
}

impl Switches {
    /// Stops reading, as a disabled mapping does. Records read before have been delivered.
    pub async fn hold(&self) {
        self.held.send_replace(true);
        wait_for(&self.stopped, |stopped| *stopped).await;
    }

    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// Each batch comes that much later.
    pub fn delay(&self, by: Duration) {
        *lock(&self.delay) = by;
    }

    /// Each record counts as this much older, as if the mapping had been disabled.
    pub fn behind(&self, by: Duration) {
        *lock(&self.behind) = by;
    }

    /// Each batch comes twice.
    pub fn duplicate(&self, wanted: bool) {
        self.duplicates.store(wanted, Ordering::Relaxed);
    }

    /// Returns the messages in the queue for failed records, as Lambda writes them.
    pub fn given_up(&self) -> Vec<Value> {
        lock(&self.given_up).iter().map(|batch| batch.message.clone()).collect()
    }

    /// The same, with the records that the stream still has.
    pub(crate) fn take_given_up(&self) -> Vec<GivenUp> {
        std::mem::take(&mut lock(&self.given_up))
    }

    pub(crate) fn give_up(&self, batch: GivenUp) {
        lock(&self.given_up).push(batch);
    }

    /// What `aws sqs purge-queue` does there.
    pub fn purge_given_up(&self) {
        lock(&self.given_up).clear();
    }

    /// Waits until all that was written before this call has been delivered, or given up.
    pub async fn settled(&self) {
        let now = Instant::now();
        wait_for(&self.idle, |idle| idle.is_some_and(|since| since >= now)).await;
    }

    async fn released(&self) {
        if *self.held.borrow() {
            self.stopped.send_replace(true);
            wait_for(&self.held, |held| !held).await;
            self.stopped.send_replace(false);
        }
    }
}

async fn wait_for<T>(state: &watch::Sender<T>, reached: impl FnMut(&T) -> bool) {
    // The wait fails without a sender, and the sender is here.
    let _ = state.subscribe().wait_for(reached).await;
}

/// A message to the destination of failures, and its records.
pub(crate) struct GivenUp {
    message: Value,
    pub(crate) records: Vec<Value>,
}

/// One mapping at work.
pub(crate) struct Poller {
    mapping: Mapping,
    stream: Stream,
    limits: StreamLimits,
    functions: Arc<Functions>,
    switches: Arc<Switches>,
    log: Log,
    metrics: Arc<Metrics>,
}

/// Some records in a row, and how often they have failed.
struct Batch {
    records: Vec<Value>,
    failures: u32,
}

/// The function's reply, if it can fail in part.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PartialAnswer {
    #[serde(default)]
    batch_item_failures: Vec<ItemFailure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemFailure {
    item_identifier: Option<String>,
}

impl Poller {
    pub(crate) fn new(
        template: &Template,
        mapping: &Mapping,
        database: &DatabaseServer,
        functions: &Arc<Functions>,
        limits: StreamLimits,
        log: &Log,
        metrics: &Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let at = || format!("the mapping {}", mapping.logical_id);
        let table = template.tables.iter().find(|table| table.logical_id == mapping.table);
        Ok(Self {
            stream: Stream::open(database, &table.with_context(at)?.name).with_context(at)?,
            mapping: mapping.clone(),
            limits,
            functions: Arc::clone(functions),
            switches: Arc::default(),
            log: log.clone(),
            metrics: Arc::clone(metrics),
        })
    }

    pub(crate) fn switches(&self) -> Arc<Switches> {
        Arc::clone(&self.switches)
    }

    /// Until the server stops.
    pub(crate) async fn run(mut self) {
        let window = self.mapping.window.min(self.limits.window_max);
        let mut window_began = Instant::now();
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                self.switches.released().await;
            }
            let began = Instant::now();
            let is_full = waiting.len() >= self.mapping.batch_size;
            let found = if is_full { Vec::new() } else { self.read().await };
            let found_nothing = found.is_empty();
            waiting.extend(found.into_iter().filter(|record| self.wants(record)));
            if window_began.elapsed() >= window || is_full {
                if !waiting.is_empty() {
                    let batch = first(&mut waiting, self.mapping.batch_size);
                    self.deliver(batch).await;
                }
                // Not when the first record comes: the window begins where the invocation ended.
                window_began = Instant::now();
            }
            if found_nothing && !is_full {
                if waiting.is_empty() {
                    self.switches.idle.send_replace(Some(began));
                }
                sleep(self.limits.read_every).await;
            }
        }
    }

    async fn read(&mut self) -> Vec<Value> {
        match self.stream.read().await {
            Ok(records) => records,
            Err(error) => {
                self.log("ERROR", &format!("{error:#}"));
                Vec::new()
            }
        }
    }

    fn wants(&self, record: &Value) -> bool {
        self.mapping.patterns.is_empty() || self.mapping.patterns.iter().any(|pattern| pattern.fits(Some(record)))
    }

    /// Delivers until each record has succeeded or failed for good. Later records wait.
    async fn deliver(&self, records: Vec<Value>) {
        let mut batches = VecDeque::from([Batch { records, failures: 0 }]);
        while let Some(mut batch) = batches.pop_front() {
            self.drop_old(&mut batch.records);
            if batch.records.is_empty() {
                continue;
            }
            let Some(failed_from) = self.invoke(&batch.records).await else { continue };
            let failed = batch.records.split_off(failed_from);
            if failed_from > 0 {
                // Earlier records have succeeded, and a division of the batch counts as no attempt.
                batches.push_front(Batch { records: failed, failures: 0 });
            } else if self.mapping.bisects && failed.len() > 1 {
                let (mut former, failures) = (failed, batch.failures);
                let latter = former.split_off(former.len() / 2);
                batches.push_front(Batch { records: latter, failures });
                batches.push_front(Batch { records: former, failures });
            } else if self.mapping.retries_max.is_some_and(|max| batch.failures >= max) {
                self.log("ERROR", &format!("{} records given up after {} retries", failed.len(), batch.failures));
                self.give_up(&failed, "RetryAttemptsExhausted");
            } else {
                sleep(self.limits.read_every * 2_u32.pow(batch.failures.min(PAUSES_DOUBLED_MAX))).await;
                batches.push_front(Batch { records: failed, failures: batch.failures + 1 });
            }
        }
    }

    fn drop_old(&self, records: &mut Vec<Value>) {
        let Some(age_max) = self.mapping.age_max else { return };
        let now = self.now();
        let old = records.iter().take_while(|record| !is_younger(record, age_max, now)).count();
        if old > 0 {
            self.log("WARN", &format!("{old} records given up: they are too old"));
            self.give_up(records.drain(..old).as_slice(), "RecordAgeExceeded");
        }
    }

    /// Tells the destination of failures which records these were, and nothing of what is in them.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html>
    fn give_up(&self, records: &[Value], condition: &str) {
        let (Some(_), [first, ..], [.., last]) = (&self.mapping.on_failure, records, records) else { return };
        let batch = json!({
            "startSequenceNumber": stream::sequence_number(first),
            "endSequenceNumber": stream::sequence_number(last),
            "approximateArrivalOfFirstRecord": stream::created_at(first).format(&Rfc3339).unwrap_or_default(),
            "approximateArrivalOfLastRecord": stream::created_at(last).format(&Rfc3339).unwrap_or_default(),
            "batchSize": records.len(),
            "streamArn": first.get("eventSourceARN"),
        });
        let message = json!({ "requestContext": { "condition": condition }, "DDBStreamBatchInfo": batch });
        self.switches.give_up(GivenUp { message, records: records.to_vec() });
    }

    /// From which record on it failed; `None` if none did.
    async fn invoke(&self, records: &[Value]) -> Option<usize> {
        let delay = *lock(&self.switches.delay);
        sleep(delay).await;
        if let Some(last) = records.last() {
            let age = (self.now() - stream::created_at(last)).whole_milliseconds();
            self.metrics.add_iterator_age(&self.mapping.function, u64::try_from(age).unwrap_or_default());
        }
        let event = json!({ "Records": records });
        let answer = self.functions.invoke(&self.mapping.function, &event).await;
        if self.switches.duplicates.load(Ordering::Relaxed) {
            // The first delivery reports the outcome.
            let _ = self.functions.invoke(&self.mapping.function, &event).await;
        }
        match answer {
            Ok(answer) if self.mapping.reports_failures => failed_from(&answer, records),
            Ok(_) => None,
            Err(error) => {
                self.log_failure(&error);
                Some(0)
            }
        }
    }

    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc() + *lock(&self.switches.behind)
    }

    fn log_failure(&self, error: &FunctionError) {
        self.log.line(&self.mapping.function, &json!({ "level": "ERROR", "message": error.to_string() }).to_string());
    }

    fn log(&self, level: &str, message: &str) {
        self.log.line(&self.mapping.logical_id, &json!({ "level": level, "message": message }).to_string());
    }
}

fn is_younger(record: &Value, age_max: Duration, now: OffsetDateTime) -> bool {
    stream::created_at(record) >= now - age_max
}

/// The first records, as many as an invocation takes.
fn first(waiting: &mut VecDeque<Value>, count_max: usize) -> Vec<Value> {
    let mut bytes = 0;
    let count = waiting.iter().take(count_max).take_while(|record| {
        bytes += record.to_string().len();
        bytes <= EVENT_BYTES_MAX
    });
    let count = count.count().max(1);
    waiting.drain(..count.min(waiting.len())).collect()
}

/// Whether the function says that nothing has failed.
pub(crate) fn is_done(answer: &[u8]) -> bool {
    serde_json::from_slice::<PartialAnswer>(answer).is_ok_and(|answer| answer.batch_item_failures.is_empty())
}

/// The place of the lowest number that the answer names. An answer that is none, or names a record that was not there or none
/// at all, says that all failed.
fn failed_from(answer: &[u8], records: &[Value]) -> Option<usize> {
    // A function that answers nothing has no failures.
    let Ok(answer) = serde_json::from_slice::<Option<PartialAnswer>>(answer) else { return Some(0) };
    let places = answer.unwrap_or_default().batch_item_failures.into_iter().map(|failure| {
        let identifier = failure.item_identifier.unwrap_or_default();
        records.iter().position(|record| stream::sequence_number(record) == identifier).unwrap_or_default()
    });
    places.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(numbers: &[&str]) -> Vec<Value> {
        numbers.iter().map(|number| json!({ "dynamodb": { "SequenceNumber": number } })).collect()
    }

    #[test]
    fn the_lowest_failure_counts_and_one_that_names_nothing_is_all() {
        let records = records(&["1", "2", "3"]);
        let of = |numbers: &Value| {
            let failures: Vec<_> = numbers.as_array().unwrap().iter().map(|n| json!({ "itemIdentifier": n })).collect();
            failed_from(json!({ "batchItemFailures": failures }).to_string().as_bytes(), &records)
        };
        assert_eq!(of(&json!([])), None);
        assert_eq!(of(&json!(["3"])), Some(2));
        assert_eq!(of(&json!(["3", "2"])), Some(1));
        for nothing in [json!([null]), json!([""]), json!(["9"]), json!(["3", ""])] {
            assert_eq!(of(&nothing), Some(0), "{nothing}");
        }
        for done in ["null", "{}", r#"{"batchItemFailures":[]}"#] {
            assert_eq!(failed_from(done.as_bytes(), &records), None, "{done}");
        }
        assert_eq!(failed_from(b"nonsense", &records), Some(0));
        assert_eq!(failed_from(br#"{"batchItemFailures":[{}]}"#, &records), Some(0));
    }

    #[test]
    fn a_record_is_given_up_once_it_is_older_than_the_template_allows() {
        let now = time::macros::datetime!(2026-11-22 12:00 UTC);
        let record = |seconds_ago: i64| {
            let created = now.unix_timestamp() - seconds_ago;
            json!({ "dynamodb": { "ApproximateCreationDateTime": created } })
        };
        let age_max = Duration::from_hours(1);
        assert!(is_younger(&record(3600), age_max, now));
        assert!(!is_younger(&record(3601), age_max, now));
    }

    #[test]
    fn an_event_has_no_more_records_and_bytes_than_lambda_takes() {
        let mut waiting: VecDeque<Value> = records(&["1", "2", "3"]).into();
        assert_eq!(first(&mut waiting, 2).len(), 2);
        assert_eq!(first(&mut waiting, 2).len(), 1);
        let large = json!("x".repeat(EVENT_BYTES_MAX / 2));
        let mut waiting = VecDeque::from([large.clone(), large]);
        assert_eq!(first(&mut waiting, 10).len(), 1);
        assert_eq!(first(&mut waiting, 10).len(), 1);
    }
}
