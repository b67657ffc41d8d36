//! How often something may happen.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use wire::Timestamp;

use crate::limits::REMEMBERED_MAX;

/// A number of times at once, and then one after each pause.
///
/// All that must be kept is one time: until when what has happened so far fills the rate (the generic cell rate algorithm, also
/// known as a leaky bucket as a meter). So the count of a user and conversation is an attribute of a row that is written anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At once, from rest. 0: no limit.
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

    /// Reads `200+5/1s`: 200 at once, then 5 in each second; or `off`.
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

    /// Until when the rate is filled once this happens now too.
    ///
    /// # Errors
    /// How long to wait: after that it is accepted.
    pub fn take(&self, filled_until: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Duration> {
        self.take_many(filled_until, now, 1)
    }

    /// The same of so many that come together: they are accepted if one is, since there may be more of them than the rate ever has room
    /// for, and all of them fill it.
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

    /// The same of what is accepted only if there is room for all of it. It counts as a whole burst at most, so that it is accepted
    /// from rest.
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

/// Until when what each has done fills a rate, as far as one process can count. With one more than [`REMEMBERED_MAX`] it begins anew.
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
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(key) {
            self.0.clear();
        }
        self.0.insert(key.clone(), until);
        Ok(())
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

    proptest! {
        /// In any stretch of time, no more than the burst and one for each pause in it; and what is refused is accepted after
        /// the wait that it was told.
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
