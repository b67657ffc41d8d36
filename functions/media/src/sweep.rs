//! Rows that are gone: their objects go too.

use std::time::Duration;

use domain::Failure;
use futures_util::{StreamExt as _, stream as futures};
use lambda::{BatchResponse, EventLine};
use store::media;
use store::stream::{self, Batch, Removed};
use tokio::time::{Instant, timeout_at};

use crate::Deps;

/// A batch ends so long after it has begun, with what is left as failed: before Lambda would end all of it.
const BATCH_TIMEOUT: Duration = Duration::from_secs(15);
/// Objects that are removed at once.
const AT_ONCE_MAX: usize = 16;

/// Each as often as it comes: what is removed is removed. Lambda hands on again all from the first that failed.
pub(crate) async fn sweep(deps: &Deps, request_id: &str, batch: Batch) -> BatchResponse {
    let (started, until) = (deps.clock.now(), Instant::now() + BATCH_TIMEOUT);
    let mut line = EventLine::of(request_id, "sweep", started);
    let (removed, unreadable) = stream::removed(batch);
    let work = removed.iter().enumerate().map(async |(place, row)| {
        let done = timeout_at(until, one(deps, row)).await;
        (place, done.unwrap_or_else(|elapsed| Err(Failure::Unavailable(elapsed.into()))))
    });
    let mut work = futures::iter(work).buffer_unordered(AT_ONCE_MAX);
    let (mut gone, mut failed) = (0, None::<(usize, Failure)>);
    while let Some((place, done)) = work.next().await {
        match done {
            Ok(()) => gone += 1,
            Err(failure) if failed.as_ref().is_none_or(|(first, _)| place < *first) => failed = Some((place, failure)),
            Err(_) => {}
        }
    }
    line.measures.removed = Some(gone);
    line.unreadable(unreadable);
    line.ended(deps.clock.now());
    match &failed {
        None => line.info("ok", "answered"),
        Some((_, failure)) => line.error("partial", failure, "some of the batch failed"),
    }
    let again = failed.as_ref().and_then(|(place, _)| removed.get(*place));
    BatchResponse::again(again.map(|row| row.sequence_number.as_str()))
}

/// A URL that was signed for the object may still be good, or a PUT under way that began in time: then a row stays behind whose end
/// removes once more what came after this. First that row, so that who dies in between leaves nothing behind.
async fn one(deps: &Deps, row: &Removed) -> Result<(), Failure> {
    let now = deps.clock.now();
    if let Some(until) = row.puts_end.filter(|end| *end > now) {
        media::leave_tombstone(&deps.store, row, until, now).await?;
    }
    deps.objects.remove(&row.key(), row.upload_id.as_deref()).await?;
    Ok(())
}
