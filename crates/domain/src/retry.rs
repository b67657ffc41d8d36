//! How long to wait before a write is tried again.

use std::time::Duration;

use crate::limits::RETRY_BASE;

/// Exponential back-off with full jitter: anything from nothing to `RETRY_BASE` · 2^(tries − 1), so that writers who
/// collided don't collide again (<https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/>).
///
/// `tries` is how many have failed, `random` is uniform in 0..1.
pub fn retry_delay(tries: u32, random: f64) -> Duration {
    let ceiling = RETRY_BASE.saturating_mul(1 << tries.saturating_sub(1).min(10));
    ceiling.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_are_spread() {
        assert_eq!(retry_delay(1, 1.0), RETRY_BASE);
        assert_eq!(retry_delay(3, 1.0), RETRY_BASE * 4);
        assert_eq!(retry_delay(3, 0.5), RETRY_BASE * 2);
        assert_eq!(retry_delay(4, 0.0), Duration::ZERO);
        assert!(retry_delay(u32::MAX, 1.0) < Duration::from_mins(1));
    }
}
