//! The clock of this process.

use std::sync::LazyLock;
use std::time::Instant;

use pigeonhole_core::Moment;

/// Returns the time now, for [`Timeline::typing`](crate::Timeline::typing), [`Timeline::writing`](crate::Timeline::writing)
/// and [`State::Offline`](crate::State::Offline). The clock of a process starts at its first use.
pub fn now() -> Moment {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment::from_millis(u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX))
}
