//! `fanout`: updates the inbox rows of a group's members up to the end of its log, and notifies those who are
//! connected. In a channel, it notifies the subscribers.
//!
//! The stream of the log heads invokes it. A record only means that a group changed: the function reads the work from
//! the tables. So a lost, late, repeated or unordered record does no harm, and the records of one group in a batch
//! count as one. Lambda retries a batch from the first record that failed: its head, member list or entries could not
//! be read. A member whose row can't be read or written fails no record, because that would hold up the groups behind
//! it.

use std::collections::HashMap;
use std::time::Duration;

use actions::{Actions, SendLimits};
use domain::Failure;
use futures_util::{StreamExt as _, stream as futures};
use lambda::{BadVariable, BatchResponse, Diagnostic, EventLine, LambdaEvent, actions_from_env, sdk_config};
use store::WarmTable;
use store::stream::{self, Batch};
use tokio::time::{Instant, timeout_at};
use wire::ConversationId;

/// The time after which a batch ends, before Lambda would end it. The remaining groups count as failed.
const BATCH_TIMEOUT: Duration = Duration::from_secs(50);
/// Groups that are processed concurrently, each with dozens of members concurrently.
const GROUPS_AT_ONCE_MAX: usize = 8;

/// Starts the process with the connections open that the first batch needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Actions, BadVariable> {
    let actions = actions_from_env(&sdk_config().await, SendLimits::default())?;
    actions.warm_up(WarmTable::Conversations).await;
    Ok(actions)
}

/// Handles one batch.
///
/// # Errors
/// None: the reply lists the failed records.
pub async fn handle(actions: &Actions, event: LambdaEvent<Batch>) -> Result<BatchResponse, Diagnostic> {
    let (started, until) = (actions.clock.now(), Instant::now() + BATCH_TIMEOUT);
    let mut line = EventLine::of(&event.context.request_id, "fanout", started);
    let (records, mut unreadable) = stream::groups(event.payload);
    // The first record of each group: if the group fails, the retry begins there.
    let mut first = HashMap::<&ConversationId, usize>::new();
    for (place, (group, _)) in records.iter().enumerate() {
        first.entry(group).or_insert(place);
    }
    let work = first.into_iter().map(async |(group, place)| {
        let record = records.get(place).and_then(|(_, number)| stream::record_number(number));
        let done = timeout_at(until, actions.follow(group, record)).await;
        (place, done.unwrap_or_else(|elapsed| Err(Failure::Unavailable(elapsed.into()))))
    });
    let mut work = futures::iter(work).buffer_unordered(GROUPS_AT_ONCE_MAX);
    let (mut frames, mut left_behind, mut failed) = (vec![], 0, None::<(usize, Failure)>);
    while let Some((place, done)) = work.next().await {
        let failure = match done {
            Ok(done) => {
                frames.extend(done.delivered.iter().map(|to| to.frames));
                unreadable += done.unreadable;
                left_behind += done.left_behind;
                done.failed
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure
            && failed.as_ref().is_none_or(|(first, _)| place < *first)
        {
            failed = Some((place, failure));
        }
    }
    line.frames(frames.into_iter());
    line.unreadable(unreadable);
    line.left_behind(left_behind);
    line.ended(actions.clock.now());
    let again = failed.as_ref().and_then(|(place, _)| records.get(*place));
    match &failed {
        None => line.info("ok", "answered"),
        Some((_, failure)) => line.error("partial", failure, "some of the batch failed"),
    }
    Ok(BatchResponse::again(again.map(|(_, number)| number.as_str())))
}
