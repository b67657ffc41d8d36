//! `notify`: sends push notifications for messages that no device has acknowledged, and dismisses them later.
//!
//! `notify` runs on the stream of the inbox table, so no request waits for it. Every stored message is checked, even if
//! its function died. Lambda delivers batches of changes, at least once. A job that fails for one member is retried
//! with a later batch, so that no other member waits. A batch fails only if the table does not respond, or time runs
//! out.

mod channel;
mod jobs;
mod later;
mod member;
mod names;
mod once;
mod outcome;
mod phones;
mod rows;
mod tally;

use std::time::Duration;

use domain::{Membership, Profiles};
use futures_util::{FutureExt as _, StreamExt as _, stream as futures};
use jobs::{Job, jobs};
use lambda::{BadVariable, BatchResponse, Clock, Diagnostic, EventLine, LambdaEvent, count, env, profiles, sdk_config};
use later::leave;
use member::settle;
use names::Names;
use outcome::{Cause, Done};
use phones::Badges;
use push::Phones;
use queue::Failures;
use store::Store;
use store::stream::{self, Looks};
use tally::Tally;
use tokio::time::{Instant, timeout_at};

/// After this time of a batch, no further member is begun: the batch comes again from there.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for the reads and pushes of one member. A slower job is left for later.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum of members processed concurrently.
const AT_ONCE_MAX: usize = 32;

/// The function's clients and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub phones: Phones,
    /// The queue of failed events.
    pub failures: Failures,
    /// Time in which a connected user must acknowledge a message.
    pub grace: Duration,
    /// Users have names.
    pub has_profiles: bool,
    pub clock: Clock,
}

/// Starts the process.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let sdk = sdk_config().await;
    let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
    let grace = Duration::from_secs(u64::try_from(count("PUSH_GRACE_SECONDS")?).unwrap_or(u64::MAX));
    let failures = Failures::from_sdk(&sdk, env("FAILURES_URL")?);
    let has_profiles = profiles()? != Profiles::Off;
    Ok(Deps { store, phones: Phones::from_sdk(&sdk), failures, grace, has_profiles, clock: Clock::system() })
}

/// Handles one batch of the stream, or of failed events for another try.
///
/// # Errors
/// None: the reply names the failures.
pub async fn handle(deps: &Deps, event: LambdaEvent<Looks>) -> Result<BatchResponse, Diagnostic> {
    let (started, until) = (deps.clock.now(), Instant::now() + BEGIN_TIMEOUT);
    let mut line = EventLine::of(&event.context.request_id, "notify", started);
    let (changes, unreadable) = stream::changes(event.payload);
    let mut tally = Tally::default();
    tally.unreadable = unreadable;
    // Boxed: the states of all that it awaits are more than the compiler goes into.
    ring(deps, jobs(&changes), until, &mut tally).boxed_local().await;
    line.ended(deps.clock.now());
    let failed = tally.first_failure().and_then(|index| changes.get(index));
    let answer = BatchResponse::again(failed.map(|change| change.sequence_number.as_str()));
    tally.write(line);
    Ok(answer)
}

/// Each member by itself.
async fn ring(deps: &Deps, jobs: Vec<Job>, until: Instant, tally: &mut Tally) {
    tally.rings = jobs.iter().filter(|job| job.ring.is_some()).count() as u64;
    // A channel's row is of another form, and is read with its job.
    let members = jobs.iter().map(|job| job.member.clone()).filter(|(_, id)| !id.is_channel());
    let members: Vec<_> = members.collect();
    let first = jobs.iter().map(|job| job.index).min();
    let rows = timeout_at(until, rows::read(deps, &members, tally)).await;
    let mut rows = match (rows.map_err(Into::into).and_then(|rows| rows), first) {
        (Ok(rows), _) => rows,
        (Err(cause), Some(first)) => return tally.fail_all(first, jobs.len(), cause),
        (Err(_), None) => return,
    };
    let ringing = jobs.iter().filter(|job| job.ring.is_some()).map(|job| job.member.clone());
    let badges = &Badges::of(ringing.collect());
    let names = &Names::default();
    let work = jobs.into_iter().map(|job| one(deps, badges, names, until, rows.take(&job.member), job).boxed_local());
    let work: Vec<_> = work.collect();
    let mut work = futures::iter(work).buffer_unordered(AT_ONCE_MAX);
    while let Some(end) = work.next().await {
        match end {
            End::Done(done) => tally.add(&done),
            End::Left(cause) => tally.leave(cause),
            End::Failed(index, cause) => tally.fail(index, cause),
        }
    }
}

/// The outcome for a member.
enum End {
    Done(Done),
    /// The job failed, and will be retried, or has failed for good.
    Left(Cause),
    /// The record at this place is to come again.
    Failed(usize, Cause),
}

async fn one(
    deps: &Deps,
    badges: &Badges,
    names: &Names,
    until: Instant,
    row: Result<Option<Membership>, Cause>,
    job: Job,
) -> End {
    let now = Instant::now();
    if now >= until {
        return End::Failed(job.index, "the time of the batch is over".into());
    }
    let done = async {
        if job.member.1.is_channel() {
            return channel::settle(deps, badges, names, &job).await;
        }
        settle(deps, badges, names, &job, row?.as_ref()).await
    };
    let done = timeout_at(now + MEMBER_TIMEOUT, done).await.unwrap_or_else(|elapsed| Err(elapsed.into()));
    let cause = match done {
        Ok(done) => return End::Done(done),
        Err(cause) => cause,
    };
    match leave(deps, &job).await {
        Ok(()) => End::Left(cause),
        Err(error) => End::Failed(job.index, error),
    }
}
