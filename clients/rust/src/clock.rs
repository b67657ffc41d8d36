//! The clock of this process.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pigeonhole_core::Moment;
use wire::Timestamp;

/// Returns the time now, for [`Timeline::typing`](crate::Timeline::typing), [`Timeline::writing`](crate::Timeline::writing)
/// and [`State::Offline`](crate::State::Offline). The clock of a process starts at its first use.
pub fn now() -> Moment {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment::from_millis(u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "this is the edge of the program")]
pub(crate) fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Returns the time of day by this device's clock.
pub(crate) fn time_of_day() -> Timestamp {
    let since = system_time().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
