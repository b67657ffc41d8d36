//! How often something may happen.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use wire::Timestamp;

use crate::limits::REMEMBERED_MAX;
use crate::weight::SAMPLED;

/// A burst, and then one request after each pause.
///
/// The state is one time, until which the requests so far fill the rate. The algorithm is the generic cell rate
/// algorithm, also known as a leaky bucket as a meter. So the count of a user and conversation is an attribute of a row
/// that is written anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests without a pause, after a rest. 0: no limit.
    pub burst: u32,
    pub pause: Duration,
}

/// A text that is no rate.
#[derive(Debug, thiserror::Error)]
#[error("must be a rate such as 200+5/1s (200 at once, then 5 in each second), or off")]
pub struct InvalidRate;

impl Rate {
    pub const UNLIMITED: Self = Self { burst: 0, pause: Duration::ZERO };

    pub fn is_unlimited(&self) -> bool {
        self.burst == 0
    }

    /// Parses `200+5/1s` (a burst of 200, then 5 in each second) or `off`.
    ///
    /// # Errors
    /// [`InvalidRate`] for anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidRate> {
        if text == "off" {
            return Ok(Self::UNLIMITED);
        }
        let parts = || {
            let (burst, then) = text.split_once('+')?;
            let (count, seconds) = then.strip_suffix('s')?.split_once('/')?;
            let number = |digits: &str| digits.parse::<u32>().ok().filter(|number| *number > 0);
            Some((number(burst)?, number(count)?, number(seconds)?))
        };
        let (burst, count, seconds) = parts().ok_or(InvalidRate)?;
        Ok(Self { burst, pause: Duration::from_secs(seconds.into()) / count })
    }

    /// Returns the rate of samples: one in [`SAMPLED`](crate::SAMPLED) requests is counted for all processes together.
    /// The rate of samples is 1.6 times this rate, by default with a burst of a dozen. So a user who keeps the rate
    /// does not exceed it by chance.
    #[must_use]
    pub fn of_samples(&self) -> Self {
        if self.is_unlimited() {
            return Self::UNLIMITED;
        }
        Self { burst: 8 + self.burst.div_ceil(SAMPLED), pause: self.pause.saturating_mul(SAMPLED) * 5 / 8 }
    }

    /// Whether what has happened so far fills the rate.
    pub fn is_full(&self, filled_until: Timestamp, now: Timestamp) -> bool {
        !self.is_unlimited() && filled_until.since(now) >= self.pause.saturating_mul(self.burst)
    }

    /// Returns the latest time until which the rate may be filled for one more to be accepted now.
    pub fn latest(&self, now: Timestamp) -> Timestamp {
        now.plus(self.pause.saturating_mul(self.burst.saturating_sub(1)))
    }

    /// Adds the weight above one to the time until which the rate is filled.
    pub fn charge(&self, filled_until: Option<Timestamp>, now: Timestamp, weight: f64) -> Timestamp {
        filled_until.map_or(now, |until| until.max(now)).plus(self.pause.mul_f64((weight - 1.0).max(0.0)))
    }

    /// Until when the rate is filled once this happens now too.
    ///
    /// # Errors
    /// How long to wait: after that it is accepted.
    pub fn take(&self, filled_until: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Duration> {
        self.take_many(filled_until, now, 1)
    }

    /// Takes `count` that come together. All are accepted if one is, because `count` can be larger than the rate ever
    /// has room for. All of them fill the rate.
    ///
    /// # Errors
    /// How long to wait: after that they are accepted.
    pub fn take_many(
        &self,
        filled_until: Option<Timestamp>,
        now: Timestamp,
        count: u32,
    ) -> Result<Timestamp, Duration> {
        self.take_with_room(filled_until, now, count, 1)
    }

    /// Takes `count` that come together, if there is room for all. A `count` above the burst counts as the
    /// burst, so it is accepted after a rest.
    ///
    /// # Errors
    /// How long to wait: after that it is accepted.
    pub fn take_whole(
        &self,
        filled_until: Option<Timestamp>,
        now: Timestamp,
        count: u32,
    ) -> Result<Timestamp, Duration> {
        let count = count.min(self.burst.max(1));
        self.take_with_room(filled_until, now, count, count)
    }

    fn take_with_room(
        &self,
        filled_until: Option<Timestamp>,
        now: Timestamp,
        count: u32,
        room: u32,
    ) -> Result<Timestamp, Duration> {
        let filled_until = filled_until.map_or(now, |until| until.max(now));
        let after = |count| filled_until.plus(self.pause.saturating_mul(count));
        // Never negative: a whole burst from rest fills exactly this.
        let over = after(room).since(now.plus(self.pause.saturating_mul(self.burst)));
        if self.is_unlimited() || over.is_zero() { Ok(after(count)) } else { Err(over) }
    }
}

/// The time until which the requests of each key fill a rate, as counted by one process. One key more than
/// [`REMEMBERED_MAX`] clears all of them.
#[derive(Debug)]
pub struct Filled<K>(HashMap<K, Timestamp>);

impl<K> Default for Filled<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Clone + Eq + Hash> Filled<K> {
    /// Whether one more is within the rate.
    ///
    /// # Errors
    /// How long to wait: after that it is.
    pub fn admit(&self, rate: &Rate, key: &K, now: Timestamp) -> Result<(), Duration> {
        rate.take(self.0.get(key).copied(), now).map(drop)
    }

    /// Counts one, if it is within the rate. Nothing is kept of what has no limit.
    ///
    /// # Errors
    /// How long to wait: after that it is accepted.
    pub fn count(&mut self, rate: &Rate, key: &K, now: Timestamp) -> Result<(), Duration> {
        if rate.is_unlimited() {
            return Ok(());
        }
        let until = rate.take(self.0.get(key).copied(), now)?;
        self.note(key, until);
        Ok(())
    }

    /// Notes a time that a count outside of this process has.
    pub fn note(&mut self, key: &K, until: Timestamp) {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(key) {
            self.0.clear();
        }
        self.0.insert(key.clone(), until);
    }

    /// Adds the weight of a request that was counted as one.
    pub fn charge(&mut self, rate: &Rate, key: &K, now: Timestamp, weight: f64) {
        if let Some(until) = self.0.get_mut(key).filter(|_| !rate.is_unlimited()) {
            *until = rate.charge(Some(*until), now, weight);
        }
    }

    /// How many are remembered.
    pub fn remembered(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate { burst: 3, pause: Duration::from_millis(200) };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_burst_at_once_then_one_after_each_pause() {
        let mut filled = None;
        for _ in 0..3 {
            filled = Some(RATE.take(filled, at(1000)).unwrap());
        }
        assert_eq!(RATE.take(filled, at(1000)), Err(Duration::from_millis(200)));
        assert_eq!(RATE.take(filled, at(1150)), Err(Duration::from_millis(50)));
        filled = Some(RATE.take(filled, at(1200)).unwrap());
        assert_eq!(RATE.take(filled, at(1200)), Err(Duration::from_millis(200)));
        // After a rest, the whole burst again and no more.
        assert_eq!(RATE.take(filled, at(1_000_000)).unwrap(), at(1_000_200));
    }

    #[test]
    fn each_is_counted_and_no_more_are_remembered_than_fit() {
        let mut filled = Filled::default();
        for _ in 0..3 {
            filled.count(&RATE, &0, at(1000)).unwrap();
        }
        assert_eq!(filled.admit(&RATE, &0, at(1000)), Err(Duration::from_millis(200)));
        assert_eq!(filled.count(&RATE, &0, at(1000)), Err(Duration::from_millis(200)));
        for key in 1..2 * REMEMBERED_MAX {
            assert_eq!(filled.count(&RATE, &key, at(1000)), Ok(()));
            assert!(filled.remembered() <= REMEMBERED_MAX);
        }
        let mut unlimited = Filled::default();
        unlimited.count(&Rate::UNLIMITED, &0, at(1000)).unwrap();
        assert_eq!(unlimited.remembered(), 0);
    }

    #[test]
    fn what_needs_room_for_all_of_it_waits_for_it() {
        let filled = RATE.take_whole(None, at(1000), 2).unwrap();
        assert_eq!(filled, at(1400));
        assert_eq!(RATE.take_whole(Some(filled), at(1000), 2), Err(Duration::from_millis(200)));
        assert!(RATE.take_whole(Some(filled), at(1000), 1).is_ok());
        assert_eq!(RATE.take_whole(None, at(1000), 100), RATE.take_whole(None, at(1000), 3), "a whole burst at most");
    }

    #[test]
    fn more_at_once_than_there_is_room_for_are_paid_for_later() {
        let filled = RATE.take(None, at(1000)).unwrap();
        let filled = RATE.take_many(Some(filled), at(1000), 10).unwrap();
        assert_eq!(filled, at(1000 + 11 * 200));
        assert_eq!(RATE.take(Some(filled), at(1000)), Err(Duration::from_millis(9 * 200)));
        assert_eq!(RATE.take_many(Some(filled), at(1000), 10), Err(Duration::from_millis(9 * 200)));
        assert!(RATE.take_many(Some(filled), at(1000 + 9 * 200), 10).is_ok());
    }

    #[test]
    fn there_is_room_for_one_up_to_the_latest_time() {
        let latest = RATE.latest(at(1000));
        assert!(RATE.take(Some(latest), at(1000)).is_ok());
        assert!(RATE.take(Some(latest.plus(Duration::from_millis(1))), at(1000)).is_err());
    }

    #[test]
    fn a_rate_is_read_from_text() {
        assert_eq!(Rate::parse("3+5/1s").unwrap(), RATE);
        assert_eq!(Rate::parse("20+1/180s").unwrap(), Rate { burst: 20, pause: Duration::from_mins(3) });
        assert_eq!(Rate::parse("off").unwrap(), Rate::UNLIMITED);
        for bad in ["", "5", "5/1s", "3+5", "0+5/1s", "3+0/1s", "3+5/0s", "3+5/1", "-3+5/1s", "3 + 5/1s"] {
            assert!(Rate::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_limit_is_none() {
        assert!(Rate::UNLIMITED.take(Some(at(i64::MAX)), at(0)).is_ok());
    }

    #[test]
    fn what_was_more_than_one_is_paid_for_later() {
        let mut filled = Filled::default();
        filled.count(&RATE, &0, at(1000)).unwrap();
        filled.charge(&RATE, &0, at(1000), 10.0);
        assert_eq!(filled.count(&RATE, &0, at(1000)), Err(Duration::from_millis(8 * 200)));
        assert!(filled.count(&RATE, &0, at(1000 + 8 * 200)).is_ok());
        // Less than one was one.
        filled.charge(&RATE, &0, at(10_000), 0.1);
        assert!((0..3).all(|_| filled.count(&RATE, &0, at(10_000)).is_ok()));
    }

    #[test]
    fn samples_are_fewer() {
        let rate = Rate::parse("60+10/1s").unwrap().of_samples();
        assert_eq!(rate, Rate { burst: 12, pause: Duration::from_secs(1) });
        assert!(Rate::UNLIMITED.of_samples().is_unlimited());
        assert!(!rate.is_full(at(12_999), at(1000)) && rate.is_full(at(13_000), at(1000)));
        assert!(!Rate::UNLIMITED.is_full(at(i64::MAX), at(0)));
    }

    proptest! {
        /// In any stretch of time, no more weight than the burst, what the time gives, and one request over.
        #[test]
        fn never_more_weight_than_the_rate(requests in prop::collection::vec((0i64..900, 0.0f64..20.0), 1..200)) {
            let (mut now, mut filled, mut accepted) = (0, Filled::default(), vec![]);
            for (gap, weight) in requests {
                now += gap;
                if filled.count(&RATE, &(), at(now)).is_ok() {
                    filled.charge(&RATE, &(), at(now), weight);
                    accepted.push((now, weight.max(1.0)));
                }
            }
            for (first, (start, _)) in accepted.iter().enumerate() {
                let mut sum = 0.0;
                for (end, weight) in accepted.iter().skip(first) {
                    // The requests before this one fit. This one can have any weight. Each rounding loses a
                    // millisecond.
                    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                    let room = 3.0 + (end - start) as f64 / 200.0 + accepted.len() as f64 / 200.0;
                    prop_assert!(sum <= room, "{sum} of {room}");
                    sum += weight;
                }
            }
        }

        /// In any stretch of time, at most the burst and one for each pause are accepted. A refused request is accepted
        /// after the wait that the refusal returned.
        #[test]
        fn never_more_than_the_rate(gaps in prop::collection::vec(0i64..900, 1..200)) {
            let (mut now, mut filled, mut accepted) = (0, None, vec![]);
            for gap in gaps {
                now += gap;
                match RATE.take(filled, at(now)) {
                    Ok(until) => {
                        filled = Some(until);
                        accepted.push(now);
                    }
                    Err(wait) => prop_assert!(RATE.take(filled, at(now).plus(wait)).is_ok()),
                }
            }
            for (first, start) in accepted.iter().enumerate() {
                for (last, end) in accepted.iter().enumerate().skip(first) {
                    let at_most = 3 + (end - start) / 200;
                    prop_assert!(i64::try_from(last - first + 1).unwrap() <= at_most);
                }
            }
        }
    }
}
