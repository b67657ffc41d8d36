//! `fanout`: brings the rows of a group's members to where its log ends, and tells those who are connected; of a channel, tells those who
//! look at it.
//!
//! It runs on the stream of the heads. A record says that a group moved, no more: what there is to do is read from the tables. So one that
//! is lost, late, doubled or out of order does no harm, and those of one group in a batch are one. Lambda hands on again all from the
//! first that failed.

use std::collections::HashMap;
use std::time::Duration;

use actions::{Reconciled, reconcile_and_settle, show};
use deliver::Fanout;
use domain::Failure;
use futures_util::{StreamExt as _, stream as futures};
use lambda::{
    BadVariable, BatchResponse, Clock, ConnectionsApi, Diagnostic, EventLine, LambdaEvent, count, env, sdk_config,
};
use store::stream::{self, Batch};
use store::{Store, WarmTable, warm_up};
use tokio::time::{Instant, timeout_at};
use wire::ConversationId;

/// A batch ends so long after it has begun, with what is left as failed: before Lambda would end all of it.
const BATCH_TIMEOUT: Duration = Duration::from_secs(50);
/// Groups that are worked on at once. Of each, dozens of members are.
const GROUPS_AT_ONCE_MAX: usize = 8;

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    pub clock: Clock,
}

impl Deps {
    /// From the environment, with the connections open that the first batch needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let fanout = Fanout::new(store.clone(), ConnectionsApi::from_env(&sdk, env)?);
        tokio::join!(warm_up(&store, WarmTable::Conversations), fanout.warm_up());
        Ok(Self { store, fanout, clock: Clock::system() })
    }
}

/// Answers one batch.
///
/// # Errors
/// None: what fails is in the answer.
pub async fn handle(deps: &Deps, event: LambdaEvent<Batch>) -> Result<BatchResponse, Diagnostic> {
    let (started, until) = (deps.clock.now(), Instant::now() + BATCH_TIMEOUT);
    let mut line = EventLine::of(&event.context.request_id, "fanout", started);
    let (records, mut unreadable) = stream::groups(event.payload);
    // Of each group the first record: who fails there has failed for all of them.
    let mut first = HashMap::<&ConversationId, usize>::new();
    for (place, (group, _)) in records.iter().enumerate() {
        first.entry(group).or_insert(place);
    }
    let work = first.into_iter().map(async |(group, place)| {
        let done = timeout_at(until, one(deps, group)).await;
        (place, done.unwrap_or_else(|elapsed| Err(Failure::Unavailable(elapsed.into()))))
    });
    let mut work = futures::iter(work).buffer_unordered(GROUPS_AT_ONCE_MAX);
    let (mut frames, mut failed) = (vec![], None::<(usize, Failure)>);
    while let Some((place, done)) = work.next().await {
        let failure = match done {
            Ok(done) => {
                frames.extend(done.delivered.iter().map(|to| to.frames));
                unreadable += done.unreadable;
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
    line.ended(deps.clock.now());
    let again = failed.as_ref().and_then(|(place, _)| records.get(*place));
    match &failed {
        None => line.info("ok", "answered"),
        Some((_, failure)) => line.error("partial", failure, "some of the batch failed"),
    }
    Ok(BatchResponse::again(again.map(|(_, number)| number.as_str())))
}

/// Brings one group's members along; of a channel, tells who looks at it.
async fn one(deps: &Deps, group: &ConversationId) -> Result<Reconciled, Failure> {
    if group.is_channel() {
        return show(&deps.store, &deps.fanout, || deps.clock.now(), group).await;
    }
    reconcile_and_settle(&deps.store, &deps.fanout, || deps.clock.now(), group).await
}
