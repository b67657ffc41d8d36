//! `jobs`: does what takes longer than a request. So far that is the erasure of users.
//!
//! The stream of `audit` invokes it for each write of a job's row. A run works for two minutes at most. Then it saves how
//! far it came, on condition that no other run has: that write is the next record. So the runs of a job take turns, a run that
//! is killed repeats its steps, and nothing waits in a queue. A record can be lost: the daily rule has the stream bring each
//! job back that did not move for an hour.

mod erase;

use std::time::Duration;

use actions::{Actions, SendLimits};
use domain::Failure;
use lambda::{
    BadVariable, BatchResponse, Diagnostic, EventLine, LambdaEvent, actions_from_env, count, env, sdk_config,
};
use push::Phones;
use queue::Failures;
use serde_json::json;
use store::jobs::{self, Job};
use store::stream::{self, Due};
use store::{Written, if_readable};
use wire::Refusal;

/// Time for which a run works. Lambda ends it after five minutes.
const SLICE: Duration = Duration::from_mins(2);
/// The try that gives a step up: the function that runs out of memory or time could not.
const TRIES_MAX: u64 = 5;
/// A job that was not saved for this time has lost its record.
const STUCK_AFTER: Duration = Duration::from_hours(1);

/// The function's clients and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub actions: Actions,
    pub phones: Phones,
    pub failures: Failures,
    /// Time for which a run works, at the least one step.
    pub slice: Duration,
    /// Time after which no request of a barred user is under way, and no other function has what it read before.
    pub settling: Duration,
    /// Days after which no backup has what was removed.
    pub backup_days: u64,
    /// Days for which reports are kept.
    pub report_days: u64,
}

/// Starts the process.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let sdk = sdk_config().await;
    let days = |name| Ok::<_, BadVariable>(count(name)? as u64);
    Ok(Deps {
        actions: actions_from_env(&sdk, SendLimits::default())?,
        phones: Phones::from_sdk(&sdk),
        failures: Failures::from_sdk(&sdk, env("FAILURES_URL")?),
        slice: SLICE,
        settling: Duration::from_secs(days("SETTLING_SECONDS")?),
        backup_days: days("BACKUP_DAYS")?,
        report_days: days("REPORT_DAYS")?,
    })
}

/// Handles one batch, or the daily rule.
///
/// # Errors
/// None: the reply names the first record that failed. After a daily rule that failed comes the next one.
pub async fn handle(deps: &Deps, event: LambdaEvent<Due>) -> Result<BatchResponse, Diagnostic> {
    let mut line = EventLine::of(&event.context.request_id, "jobs", deps.actions.clock.now());
    let is_daily = event.payload.daily;
    let (records, unreadable) = stream::jobs(event.payload);
    line.unreadable(unreadable);
    let mut failed = None;
    if is_daily && let Err(failure) = look_after(deps).await {
        failed = Some((None, failure));
    }
    for (job, number) in &records {
        if let Err(failure) = run(deps, job).await {
            failed = Some((Some(number.as_str()), failure));
            break;
        }
    }
    line.ended(deps.actions.clock.now());
    match &failed {
        None => line.info("ok", "answered"),
        Some((_, failure)) => line.error("partial", failure, "a job or the daily rule failed"),
    }
    Ok(BatchResponse::again(failed.and_then(|(number, _)| number)))
}

/// Has the stream bring the jobs back that did not move for an hour.
async fn look_after(deps: &Deps) -> Result<(), Failure> {
    let store = &deps.actions.store;
    let since = deps.actions.clock.now().minus(STUCK_AFTER);
    for id in jobs::under_way(store).await? {
        let job = if_readable(jobs::get(store, &id).await, "a job under way")?;
        let moves = job.flatten().is_some_and(|job| job.saved_at > since);
        if !moves {
            jobs::touch(store, &id).await?;
        }
    }
    Ok(())
}

/// Works at a job, and saves it.
async fn run(deps: &Deps, id: &str) -> Result<(), Failure> {
    let (store, now) = (&deps.actions.store, deps.actions.clock.now());
    let read = jobs::get(store, id).await;
    let step = match &read {
        Ok(Some(job)) if job.state.is_under_way() => job.step,
        // Another function's, or at its end.
        Ok(_) => return Ok(()),
        // The write that gave it up is a record, too.
        Err(_) if jobs::has_failed(store, id).await? => return Ok(()),
        Err(_) => 0,
    };
    if jobs::count_try(store, id, step, now).await? >= TRIES_MAX {
        // First the alarm: another try can repeat it.
        deps.failures.put(&json!({ "job_id": id }).to_string()).await?;
        return Ok(jobs::fail(store, id, now).await?);
    }
    let Some(mut job) = read? else { return Ok(()) };
    erase::work(deps, &mut job).await?;
    job.saved_at = deps.actions.clock.now();
    match jobs::save(store, &job, step).await? {
        Written::Done => Ok(()),
        Written::Lost => lost(deps, &job, step).await,
    }
}

/// Another run has saved the job, and its record goes on. If none has, two runs have met.
async fn lost(deps: &Deps, job: &Job, step: u64) -> Result<(), Failure> {
    let now = jobs::get(&deps.actions.store, &job.id).await?;
    let has_moved = now.is_none_or(|now| now.step != step);
    if has_moved { Ok(()) } else { Err(Refusal::Conflict.into()) }
}
