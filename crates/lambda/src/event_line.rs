//! The outcome of an event: one line in the log, from which CloudWatch also counts the metrics.
//!
//! The line's member `_aws` names its metrics (CloudWatch's embedded metric format), and CloudWatch Logs counts them,
//! without a call, an agent or a second line. See the
//! [specification](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html)
//! and `docs/operating.md`, which explains each metric.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actions::{Actions, Appended, Hook};
use deliver::Delivered;
use domain::{Failure, Frames, Origin, error_chain};
use serde::Serialize;
use serde_json::{Map, Value, json};
use wire::{ConversationId, Seq, Timestamp, UserId};

use crate::caller::Caller;

const NAMESPACE: &str = "Pigeonhole";

/// The field of a `tracing` event that holds a line.
pub(crate) const FIELD: &str = "event_line";

/// The line. A function fills in what it knows, and `lambda` writes it, with digests in the place of ids. No body, no token.
#[derive(Debug, Default, Serialize)]
pub struct EventLine {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// A route of the template, the function's name if it has no route, or `issuer` for the token issuer.
    pub route: String,
    /// `ok`, or why not.
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<String>,
    /// The event's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Up to where the user's devices hold each of these conversations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acked: Vec<UpTo>,
    /// The last pending entry that the reply has of each of these conversations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drained: Vec<UpTo>,
    /// The HTTP status, if the reply is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// Why a token was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The failure of another service, with its sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The milliseconds from the process's start to its first request for an event, in its first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) init_ms: Option<u64>,
    pub measures: Measures,
    /// The reply ends before an entry that its log lacks.
    #[serde(skip)]
    pub has_hole: bool,
    #[serde(skip)]
    pub started: Timestamp,
}

/// A message, and those of its conversation before it.
#[derive(Debug, Serialize)]
pub struct UpTo {
    pub conversation_id: ConversationId,
    pub seq: Seq,
}

/// The numbers of a line: each is a metric, by route, in the lines that have it.
#[derive(Debug, Default, Serialize)]
pub struct Measures {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Of `duration_ms`: until what was sent is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_ms: Option<u64>,
    /// Of `duration_ms`: the team's filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_ms: Option<u64>,
    /// Questions that the filter answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_answered: Option<u64>,
    /// Questions that it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_failed: Option<u64>,
    /// Of `duration_ms`: until the frames have gone out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fanout_ms: Option<u64>,
    /// Writes that had to be repeated, because of a concurrent write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<u64>,
    /// Frames that API Gateway took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posted: Option<u64>,
    /// Frames to connections that are gone; of `notify`, tokens that are dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<u64>,
    /// Frames that failed; of `notify`, records and pushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Frames that were left out, since the process had too much to post.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paced: Option<u64>,
    /// Members whose devices took no frame of a new message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_pending: Option<u64>,
    /// Members for whom there was a push to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rings: Option<u64>,
    /// Of `rings`: a device took it in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spared: Option<u64>,
    /// Of `rings`: of conversations that are muted or blocked, or of users who are suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted: Option<u64>,
    /// Of `rings`: of users who have registered no device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_device: Option<u64>,
    /// Notifications that SNS accepted, without dismissals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed: Option<u64>,
    /// Notifications that SNS took, those that clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared: Option<u64>,
    /// Of `rings`: the member is connected and has time left, so the row comes again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<u64>,
    /// From a message to its notification, the longest of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Messages in a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Objects of messages that are gone, removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
    /// Members whose rows of a group stay behind its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_behind: Option<u64>,
    /// Rows that this version can't read, and passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<u64>,
}

impl EventLine {
    /// The beginning of a line about an event on a route.
    pub fn of(request_id: &str, route: &str, started: Timestamp) -> Self {
        Self { request_id: request_id.to_owned(), route: route.to_owned(), started, ..Self::default() }
    }

    pub(crate) fn of_caller(mut self, caller: &Caller) -> Self {
        self.connection_id = caller.connection().ok().map(|id| id.as_str().to_owned());
        self.user_id = Some(caller.user.clone());
        self
    }

    /// Sends the events of an entry that is stored, and notes how long that took. Nothing may fail the request any more.
    pub async fn tell(
        &mut self,
        actions: &Actions,
        started: Timestamp,
        appended: &Appended,
        from: Option<&Origin>,
    ) -> Vec<Delivered> {
        let stored_at = actions.clock.now();
        let delivered = actions.tell_appended(appended, from).await;
        self.seq = Some(appended.place.seq);
        self.measures.store_ms = Some(millis_between(started, stored_at));
        self.measures.fanout_ms = Some(millis_between(stored_at, actions.clock.now()));
        self.frames(delivered.iter().map(|to| to.frames));
        delivered
    }

    /// Notes what became of the event's frames, to each user, if there were any.
    pub fn frames(&mut self, to_users: impl Iterator<Item = Frames>) {
        let mut to_users = to_users.peekable();
        if to_users.peek().is_some() {
            let Frames { posted, gone, failed, paced } = to_users.sum();
            (self.measures.posted, self.measures.gone, self.measures.failed) = (Some(posted), Some(gone), Some(failed));
            self.measures.paced = (paced > 0).then_some(paced);
        }
    }

    /// Notes the question to the team's filter, if there was one.
    pub fn asked(&mut self, actions: &Actions) {
        let Some(asked) = actions.hook.as_ref().and_then(Hook::take_asked) else { return };
        self.measures.hook_ms = Some(u64::try_from(asked.took.as_millis()).unwrap_or(u64::MAX));
        (self.measures.hook_answered, self.measures.hook_failed) =
            (Some(u64::from(!asked.failed)), Some(u64::from(asked.failed)));
    }

    /// Adds skipped rows, if there were any.
    pub fn unreadable(&mut self, rows: u64) {
        if rows > 0 {
            *self.measures.unreadable.get_or_insert_default() += rows;
        }
    }

    /// Adds members who were left behind, if there are any.
    pub fn left_behind(&mut self, members: u64) {
        if members > 0 {
            *self.measures.left_behind.get_or_insert_default() += members;
        }
    }

    /// Writes the line for an action that was carried out or not.
    pub fn write<T>(mut self, outcome: &Result<T, Failure>, now: Timestamp) {
        self.ended(now);
        match outcome {
            Ok(_) if self.has_hole => self.error(HOLE, &Hole, "answered without what is behind it"),
            Ok(_) => self.info("ok", "answered"),
            Err(Failure::Refused(refusal)) => self.info(refusal.code(), "refused"),
            Err(Failure::Unreadable(error)) if is_hole(&**error) => self.error(HOLE, &**error, "failed"),
            Err(failure @ (Failure::Unavailable(error) | Failure::Unreadable(error))) => {
                self.error(failure.refusal().code(), &**error, "failed");
            }
        }
    }

    /// Notes how long it took.
    pub fn ended(&mut self, now: Timestamp) {
        self.measures.duration_ms = Some(millis_between(self.started, now));
    }

    /// Writes the line of an event that succeeded, whether its caller is known or not.
    pub fn info(mut self, outcome: &'static str, message: &str) {
        self.outcome = outcome;
        tracing::info!(event_line = self.into_json(), "{message}");
    }

    /// Writes a line that an operator should see, though no user was harmed yet.
    pub fn warn(mut self, outcome: &'static str, cause: &(dyn Error + 'static), message: &str) {
        (self.outcome, self.cause) = (outcome, Some(error_chain(cause)));
        tracing::warn!(event_line = self.into_json(), "{message}");
    }

    /// Writes the line of a failure.
    pub fn error(mut self, outcome: &'static str, cause: &(dyn Error + 'static), message: &str) {
        (self.outcome, self.cause) = (outcome, Some(error_chain(cause)));
        tracing::error!(event_line = self.into_json(), "{message}");
    }

    fn into_json(mut self) -> String {
        self.init_ms = INIT.lock().unwrap_or_else(PoisonError::into_inner).take();
        serde_json::to_string(&self).unwrap_or_default()
    }
}

/// The `init_ms` of the process's next line.
static INIT: Mutex<Option<u64>> = Mutex::new(None);

/// Notes how long the process took until it could ask for its first event.
pub(crate) fn initialised(after: Duration) {
    *INIT.lock().unwrap_or_else(PoisonError::into_inner) = u64::try_from(after.as_millis()).ok();
}

/// The outcome of an event that met a lost entry.
const HOLE: &str = "hole";

#[derive(Debug, thiserror::Error)]
#[error("an entry of a conversation is missing")]
struct Hole;

fn is_hole(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(store::Error::Missing { .. }))
}

/// Whole milliseconds; none if the clock went back.
pub fn millis_between(earlier: Timestamp, later: Timestamp) -> u64 {
    u64::try_from(later.since(earlier).as_millis()).unwrap_or(u64::MAX)
}

/// Adds the line's numbers as flat members, and names them: CloudWatch takes metrics only from the root. Returns `None`
/// for a line that is not an event's outcome.
///
/// Every combination of dimensions costs a metric, so there are few. The stack is one, since two stacks of an account
/// must not fire each other's alarms. The others are the route, one of the template's, and the outcome: `ok` or an
/// error code. A client's text is never a dimension.
pub(crate) fn metrics(line: &mut Map<String, Value>, stack: &str, now: Timestamp) -> Option<Value> {
    let Some(Value::Object(mut measures)) = line.remove("measures") else { return None };
    // A sum is the same without its zeros, and each byte of a log line costs money.
    measures.retain(|name, number| *number != 0 || has_samples(name));
    // The samples of `duration_ms` show the number of `ok` on a route. A queue's messages are not requests: a campaign
    // must not hide failed requests.
    let counted_by = if line.get("route").is_some_and(|route| route == "ingest") {
        json!([["stack", "route", "outcome"]])
    } else if line.get("outcome")? == "ok" {
        json!([["stack", "outcome"]])
    } else {
        json!([["stack", "outcome"], ["stack", "route", "outcome"]])
    };
    // No metric has a unit: `_ms` in the name is enough for a reader.
    let names: Vec<Value> = measures.keys().map(|name| json!({"Name": name})).collect();
    let mut directives = vec![directive(&counted_by, &[json!({"Name": "events"})])];
    if !names.is_empty() {
        directives.push(directive(&json!([["stack", "route"]]), &names));
    }
    line.extend(measures);
    line.insert("stack".to_owned(), json!(stack));
    line.insert("events".to_owned(), json!(1));
    Some(json!({"Timestamp": now.millis(), "CloudWatchMetrics": directives}))
}

fn directive(dimensions: &Value, metrics: &[Value]) -> Value {
    json!({"Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": metrics})
}

/// Returns whether the samples of a metric count, and not only their sum: those of `left_pending` are the messages sent.
fn has_samples(name: &str) -> bool {
    name.ends_with("_ms") || name == "left_pending"
}
