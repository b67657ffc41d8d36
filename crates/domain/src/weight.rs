//! The weight of a request, relative to a cheap one, and the consequences of too many heavy requests.

use std::time::Duration;

use wire::Timestamp;

/// Each process counts one in this number of requests for all processes together. The weight multiplies the chance.
pub const SAMPLED: u32 = 16;

/// The time for which a request of weight 1 holds its function.
const HELD: Duration = Duration::from_millis(50);
/// The longest time that counts, which is the time that a request has for its tries. Above it, the server is slow.
const HELD_MAX: Duration = Duration::from_millis(400);
/// The same limit for all processes together: half, so that a slow table does not disconnect a user.
const HELD_SAMPLED_MAX: Duration = Duration::from_millis(200);
/// Posts of a request of weight 1.
const POSTS: f64 = 16.0;
/// Read units of a request of weight 1, as of a full page of a `drain`.
const READ_UNITS: f64 = 32.0;

/// The time for which a user can't connect after the first flood, found over all processes.
const SUSPENDED: Duration = Duration::from_secs(30);
/// Each further flood doubles the time, up to this.
const SUSPENDED_MAX: Duration = Duration::from_mins(10);
/// The quiet time after which a user's floods are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);

/// The time for which other processes leave a flood to the process that found it. After that, it may have died.
const ENDED_WITHIN: Duration = Duration::from_secs(2);

/// The cost of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How long it held its function.
    pub held: Duration,
    pub posts: u64,
    pub half_read_units: u64,
}

impl Cost {
    /// As how many requests it counts in its process: one at least.
    pub fn weight(&self) -> f64 {
        self.with_held(self.held.min(HELD_MAX))
    }

    /// Returns the weight that counts for all processes together.
    pub fn sampled_weight(&self) -> f64 {
        self.with_held(self.held.min(HELD_SAMPLED_MAX))
    }

    #[expect(clippy::cast_precision_loss, reason = "nowhere near 2^52")]
    fn with_held(&self, held: Duration) -> f64 {
        let (posts, read_units) = (self.posts as f64, self.half_read_units as f64 / 2.0);
        let of_each = [held.div_duration_f64(HELD), posts / POSTS, read_units / READ_UNITS];
        of_each.into_iter().fold(1.0, f64::max)
    }
}

/// Whether a request of this weight is sampled, whose `draw` is uniform in 0..1 and its own.
pub fn is_sampled(draw: f64, weight: f64) -> bool {
    draw * f64::from(SAMPLED) < weight
}

/// The length of a window, whose samples are counted together.
const WINDOW_MS: i64 = 2_000;

/// In which window of samples this is.
pub fn window(now: Timestamp) -> i64 {
    now.millis().div_euclid(WINDOW_MS)
}

/// Until when samples fill their rate, by how long those of each window fill it.
pub fn filled_until(windows: &[(i64, Duration)]) -> Timestamp {
    let mut windows = windows.to_vec();
    windows.sort_unstable();
    let start = |window: i64| Timestamp::from_millis(window.saturating_mul(WINDOW_MS));
    windows
        .iter()
        .fold(Timestamp::from_millis(0), |until, (window, filled_for)| until.max(start(*window)).plus(*filled_for))
}

/// How often a user exceeded the request rate over all processes, and when last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floods {
    pub count: u32,
    pub last_at: Option<Timestamp>,
}

impl Floods {
    /// Whether some process is at work on the last one.
    pub fn is_being_ended(&self, now: Timestamp) -> bool {
        self.last_at.is_some_and(|last| now.since(last) < ENDED_WITHIN)
    }

    /// With one more now; and until when its user can't connect.
    #[must_use]
    pub fn and_now(self, now: Timestamp) -> (Self, Timestamp) {
        let is_known = self.last_at.is_some_and(|last| now.since(last) < FORGOTTEN_AFTER);
        let before = if is_known { self.count } else { 0 };
        let suspended = SUSPENDED.saturating_mul(1 << before.min(16)).min(SUSPENDED_MAX);
        (Self { count: before.saturating_add(1), last_at: Some(now) }, now.plus(suspended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_weighs_what_it_takes_most_of() {
        let weight = |held, posts, half_read_units| {
            let cost = Cost { held: Duration::from_millis(held), posts, half_read_units };
            (cost.weight(), cost.sampled_weight())
        };
        assert_eq!(weight(0, 0, 0), (1.0, 1.0));
        assert_eq!(weight(50, 16, 64), (1.0, 1.0));
        assert_eq!(weight(100, 0, 0), (2.0, 2.0));
        assert_eq!(weight(0, 400, 0), (25.0, 25.0));
        assert_eq!(weight(0, 0, 530), (8.28125, 8.28125));
        assert_eq!(weight(100, 48, 64), (3.0, 3.0));
        // A slow table alone makes no user a flood.
        assert_eq!(weight(5_000, 0, 0), (8.0, 4.0));
    }

    #[test]
    fn samples_that_have_run_out_count_no_more() {
        let (seconds, at) = (Duration::from_secs, |seconds: i64| Timestamp::from_millis(seconds * 1_000));
        assert_eq!((window(at(0)), window(at(3)), window(at(4))), (0, 1, 2));
        assert_eq!(filled_until(&[]), at(0));
        assert_eq!(
            filled_until(&[(2, seconds(3)), (1, seconds(5))]),
            at(10),
            "in their order, whatever that of the row"
        );
        assert_eq!(filled_until(&[(1, seconds(2)), (50, seconds(1))]), at(101));
        assert_eq!(filled_until(&[(1, seconds(1_000)), (50, seconds(1))]), at(1_003));
    }

    #[test]
    fn each_flood_lasts_twice_as_long_until_it_is_forgotten() {
        let (mut floods, mut now) = (Floods::default(), Timestamp::from_millis(0));
        for seconds in [30, 60, 120, 240, 480, 600, 600] {
            let (after, until) = floods.and_now(now);
            assert_eq!(until.since(now), Duration::from_secs(seconds));
            (floods, now) = (after, until);
        }
        let last = floods.last_at.unwrap();
        assert!(floods.is_being_ended(last) && !floods.is_being_ended(last.plus(Duration::from_secs(2))));
        let (floods, until) = floods.and_now(now.plus(Duration::from_hours(1)));
        assert_eq!((floods.count, until.since(now)), (1, Duration::from_hours(1) + Duration::from_secs(30)));
    }

    proptest! {
        #[test]
        fn nothing_weighs_less_than_one_and_more_never_less(
            a in (0u64..10_000, 0u64..1_000, 0u64..10_000), b in (0u64..10_000, 0u64..1_000, 0u64..10_000)
        ) {
            let cost = |(held, posts, half_read_units)| Cost { held: Duration::from_millis(held), posts, half_read_units };
            let more = (a.0.max(b.0), a.1.max(b.1), a.2.max(b.2));
            prop_assert!(cost(a).sampled_weight() >= 1.0 && cost(a).weight() >= cost(a).sampled_weight());
            prop_assert!(cost(more).weight() >= cost(a).weight());
        }
    }
}
