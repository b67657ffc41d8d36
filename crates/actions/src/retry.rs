//! Conditional writes that lost against another one are made again.

use std::time::Duration;

use domain::Failure;
use wire::Refusal;

/// Attempts at one write before the client is told to try again itself.
const TRIES_MAX: u32 = 5;
/// The first pause is between nothing and this; each further one up to twice the one before.
const PAUSE_BASE: Duration = Duration::from_millis(20);

/// What came of one attempt.
pub enum Attempt<T> {
    Done(T),
    /// The row was not as expected, and it is known now how it is.
    Again,
    /// Somebody else is writing at this very moment.
    AgainAfterPause,
}

/// Makes attempts until one is done. `conflicts` counts those that were not.
pub async fn retry<T>(
    conflicts: &mut u64,
    attempt: impl AsyncFnMut() -> Result<Attempt<T>, Failure>,
) -> Result<T, Failure> {
    retry_times(TRIES_MAX, conflicts, attempt).await
}

/// The same, with so many attempts.
pub(crate) async fn retry_times<T>(
    tries_max: u32,
    conflicts: &mut u64,
    mut attempt: impl AsyncFnMut() -> Result<Attempt<T>, Failure>,
) -> Result<T, Failure> {
    for tries in 1..=tries_max {
        match attempt().await? {
            Attempt::Done(done) => return Ok(done),
            Attempt::Again => {}
            Attempt::AgainAfterPause => tokio::time::sleep(pause(tries, fastrand::f64())).await,
        }
        *conflicts += 1;
    }
    Err(Refusal::Conflict.into())
}

/// Exponential back-off with full jitter: anything from nothing to `PAUSE_BASE` · 2^(tries − 1), so that writers who
/// collided don't collide again (<https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/>).
///
/// `tries` is how many have failed, `random` is uniform in 0..1.
pub(crate) fn pause(tries: u32, random: f64) -> Duration {
    let ceiling = PAUSE_BASE.saturating_mul(1 << tries.saturating_sub(1).min(10));
    ceiling.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_spread() {
        assert_eq!(pause(1, 1.0), PAUSE_BASE);
        assert_eq!(pause(3, 1.0), PAUSE_BASE * 4);
        assert_eq!(pause(3, 0.5), PAUSE_BASE * 2);
        assert_eq!(pause(4, 0.0), Duration::ZERO);
        assert!(pause(u32::MAX, 1.0) < Duration::from_mins(1));
    }
}
