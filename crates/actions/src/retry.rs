//! Conditional writes that lost against another one are made again.

use std::time::Duration;

use domain::Failure;
use tokio::time::Instant;
use wire::Refusal;

/// Attempts at one write before the client gets a retryable error.
const TRIES_MAX: u32 = 5;
/// The first pause is between nothing and this; each further one up to twice the one before.
const PAUSE_BASE: Duration = Duration::from_millis(20);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_millis(80);
/// No attempt begins later than this after the first one has lost: a request that loses must not hold its function for
/// long. The time of the first attempt does not count, since it does not depend on other writers.
const TRYING_MAX: Duration = Duration::from_millis(400);

/// The outcome of one attempt.
pub enum Attempt<T> {
    Done(T),
    /// The row was not as expected, and it is known now how it is.
    Again,
    /// Another writer is writing at this moment.
    AgainAfterPause,
    /// No other writer was faster: time has passed.
    Anew,
}

/// Makes attempts until one is done. `conflicts` counts those that were not.
pub async fn retry<T>(
    conflicts: &mut u64,
    attempt: impl AsyncFnMut() -> Result<Attempt<T>, Failure>,
) -> Result<T, Failure> {
    retry_times(TRIES_MAX, conflicts, attempt).await
}

/// Retries with this maximum of attempts.
pub(crate) async fn retry_times<T>(
    tries_max: u32,
    conflicts: &mut u64,
    attempt: impl AsyncFnMut() -> Result<Attempt<T>, Failure>,
) -> Result<T, Failure> {
    attempts(tries_max, &mut None, conflicts, attempt).await
}

/// Retries one of several writes of a request. The first write that loses sets `until`, the end of the retries of all.
pub(crate) async fn retry_until<T>(
    until: &mut Option<Instant>,
    attempt: impl AsyncFnMut() -> Result<Attempt<T>, Failure>,
) -> Result<T, Failure> {
    attempts(TRIES_MAX, until, &mut 0, attempt).await
}

async fn attempts<T>(
    tries_max: u32,
    until: &mut Option<Instant>,
    conflicts: &mut u64,
    mut attempt: impl AsyncFnMut() -> Result<Attempt<T>, Failure>,
) -> Result<T, Failure> {
    for tries in 1..=tries_max {
        let wait = match attempt().await? {
            Attempt::Done(done) => return Ok(done),
            Attempt::Anew => continue,
            Attempt::Again => Duration::ZERO,
            Attempt::AgainAfterPause => pause(tries, fastrand::f64()),
        };
        *conflicts += 1;
        let now = Instant::now();
        if tries == tries_max || now + wait >= *until.get_or_insert(now + TRYING_MAX) {
            break;
        }
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
    Err(Refusal::Conflict.into())
}

/// Exponential back-off with full jitter: anything from nothing to `PAUSE_BASE` · 2^(tries − 1), [`PAUSE_MAX`] at most, so that writers who
/// collided don't collide again (<https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/>).
///
/// `tries` is how many have failed, `random` is uniform in 0..1.
pub(crate) fn pause(tries: u32, random: f64) -> Duration {
    let ceiling = PAUSE_BASE.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(PAUSE_MAX);
    ceiling.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_spread() {
        assert_eq!(pause(1, 1.0), PAUSE_BASE);
        assert_eq!(pause(3, 1.0), PAUSE_BASE * 4);
        assert_eq!(pause(3, 0.5), PAUSE_BASE * 2);
        assert_eq!(pause(4, 0.0), Duration::ZERO);
        assert_eq!(pause(u32::MAX, 1.0), PAUSE_MAX);
    }

    /// Returns the number of attempts that each take this long and always lose, and the time of all.
    async fn lost(tries_max: u32, taking: Duration) -> (u64, Duration) {
        let (start, mut conflicts) = (Instant::now(), 0);
        let outcome = retry_times(tries_max, &mut conflicts, async || {
            tokio::time::sleep(taking).await;
            Ok(Attempt::<()>::AgainAfterPause)
        });
        assert!(matches!(outcome.await, Err(Failure::Refused(Refusal::Conflict))));
        (conflicts, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn who_always_loses_is_told_so_within_400_ms_and_two_attempts() {
        for _ in 0..100 {
            let (tries, took) = lost(8, Duration::from_millis(30)).await;
            assert!((4..=8).contains(&tries) && took <= Duration::from_millis(460), "{tries} tries, {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_after_the_last_attempt() {
        for _ in 0..100 {
            assert_eq!(lost(1, Duration::from_millis(5)).await, (1, Duration::from_millis(5)));
        }
    }
}
