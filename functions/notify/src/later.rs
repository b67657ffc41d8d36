//! Jobs that can't be done now. A later batch retries them, so that no other member waits.

use std::time::Duration;

use actions::{Attempt, retry};
use domain::{Failure, Look};
use store::inbox::{self, Marked};
use store::stream;
use tokio::time::timeout;

use crate::Deps;
use crate::jobs::{Job, Member};
use crate::outcome::Cause;

/// Tries before a job fails for good: a batching window lies between two.
const TRIES_MAX: u32 = 10;
/// One write of a look, with its retries.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3);

/// Schedules the row for a later batch. After its last try, or if the row can't be written, the job goes to the queue
/// of failures.
///
/// # Errors
/// Neither worked.
pub(crate) async fn leave(deps: &Deps, job: &Job) -> Result<(), Cause> {
    let look = job.again(job.tries.saturating_add(1), deps.clock.now());
    if job.tries < TRIES_MAX && look_again(deps, &job.member, look).await.is_ok() {
        return Ok(());
    }
    let (user, conversation) = &job.member;
    Ok(deps.failures.put(&stream::given_up(user, conversation, &look)).await?)
}

/// Has the stream bring the member's row back.
pub(crate) async fn look_again(deps: &Deps, (user, conversation): &Member, look: Look) -> Result<(), Cause> {
    let written = in_turn(async || inbox::look_again(&deps.store, user, conversation, &look).await);
    timeout(LOOK_TIMEOUT, written).await??;
    Ok(())
}

/// Writes a note into a row, behind a transaction that is at work on it.
pub(crate) async fn in_turn(mut write: impl AsyncFnMut() -> Result<Marked, store::Error>) -> Result<Marked, Failure> {
    retry(&mut 0, async || match write().await? {
        Marked::Busy => Ok(Attempt::AgainAfterPause),
        marked => Ok(Attempt::Done(marked)),
    })
    .await
}
