//! A point in time, which each input of the core has: the core reads no clock.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time, in milliseconds by a clock of the caller's choice that never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Reads the caller's clock.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns what the caller's clock showed.
    pub const fn millis(self) -> u64 {
        self.0
    }
}

/// Rounds up to a whole millisecond, so that no wait is shorter than its time.
impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, wait: Duration) {
        *self = *self + wait;
    }
}

/// Zero, if the other one is later.
impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_is_shorter_than_its_time_and_none_overflows() {
        let start = Moment::from_millis(5);
        assert_eq!(start + Duration::from_micros(1_001), Moment::from_millis(7));
        assert_eq!(start + Duration::MAX, Moment::from_millis(u64::MAX));
        assert_eq!((start + Duration::from_millis(3)) - start, Duration::from_millis(3));
        assert_eq!(start - Moment::from_millis(9), Duration::ZERO);
    }
}
