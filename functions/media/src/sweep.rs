//! Rows that are gone: their objects go too.

use std::time::Duration;

use domain::Failure;
use futures_util::{StreamExt as _, stream as futures};
use lambda::{BatchResponse, EventLine};
use store::media;
use store::stream::{self, Removals, Removed};
use tokio::time::{Instant, sleep, timeout_at};

use crate::Deps;

/// After this time of a batch, no further object is begun: the batch comes again from there.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for one object.
const OBJECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Before what failed is tried once more.
const PAUSE: Duration = Duration::from_secs(1);
/// Objects that are removed concurrently.
const AT_ONCE_MAX: usize = 16;

/// A row, and why its object is still there.
type Left<'a> = (&'a Removed, Failure);

/// Each as often as it comes: what is removed is removed. An object that S3 refuses to remove holds up no other: it is tried once more,
/// and then given up to the queue of failures. Lambda delivers the records again from the first that is in neither place.
pub(crate) async fn sweep(deps: &Deps, request_id: &str, batch: Removals) -> BatchResponse {
    let (started, until) = (deps.actions.clock.now(), Instant::now() + BATCH_TIMEOUT);
    let mut line = EventLine::of(request_id, "sweep", started);
    let (removed, unreadable) = stream::removed(batch);
    let mut left = remove(deps, until, removed.iter()).await;
    if !left.is_empty() {
        sleep(PAUSE).await;
        left = remove(deps, until, left.into_iter().map(|(row, _)| row)).await;
    }
    line.measures.removed = Some((removed.len() - left.len()) as u64);
    line.unreadable(unreadable);
    let again = give_up(deps, until, &left, left.len() < removed.len()).await;
    line.ended(deps.actions.clock.now());
    match left.first() {
        None => line.info("ok", "answered"),
        Some((_, failure)) => line.error("partial", failure, "some of the batch failed"),
    }
    let first = removed.iter().find(|row| again.contains(row));
    BatchResponse::again(first.map(|row| row.sequence_number.as_str()))
}

/// Removes the objects. Returns the rows whose object could not be removed.
async fn remove<'a>(deps: &Deps, until: Instant, rows: impl Iterator<Item = &'a Removed>) -> Vec<Left<'a>> {
    let work: Vec<_> = rows
        .map(|row| async move {
            let now = Instant::now();
            let done = timeout_at(now.min(until) + OBJECT_TIMEOUT, one(deps, row)).await;
            (row, done.unwrap_or_else(|elapsed| Err(Failure::Unavailable(elapsed.into()))))
        })
        .collect();
    let done = futures::iter(work).buffer_unordered(AT_ONCE_MAX);
    done.filter_map(async |(row, done)| done.err().map(|failure| (row, failure))).collect().await
}

/// Puts rows that failed into the queue of failures. Returns the rows that Lambda must retry: those that the queue did
/// not take, or all if S3 or the table does not reply.
async fn give_up<'a>(deps: &Deps, until: Instant, left: &[Left<'a>], some_went: bool) -> Vec<&'a Removed> {
    let mut again = vec![];
    let is_theirs = some_went || left.is_empty() || answer(deps, until).await;
    for (row, _) in left {
        let is_over = Instant::now() >= until + OBJECT_TIMEOUT;
        if !is_theirs || is_over || deps.failures.put(&stream::left_behind(row)).await.is_err() {
            again.push(*row);
        }
    }
    again
}

/// Reports whether S3 and the table reply, by requests for an object and a row that do not exist.
async fn answer(deps: &Deps, until: Instant) -> bool {
    let asked = async { tokio::join!(deps.objects.answers(), media::answers(&deps.actions.store)) };
    let answered = timeout_at(until + OBJECT_TIMEOUT, asked).await;
    matches!(answered, Ok((Ok(()), Ok(()))))
}

/// Removes the object of a row. A signed URL can still be valid, or a PUT can be in progress. Then another row remains,
/// whose expiry removes a later upload. The write of that row comes first, so that a function that dies in between
/// leaves no object behind.
async fn one(deps: &Deps, row: &Removed) -> Result<(), Failure> {
    let now = deps.actions.clock.now();
    if let Some(until) = row.puts_end.filter(|end| *end > now) {
        media::leave_tombstone(&deps.actions.store, row, until, now).await?;
    }
    deps.objects.remove(&row.key(), row.upload_id.as_deref()).await?;
    Ok(())
}
