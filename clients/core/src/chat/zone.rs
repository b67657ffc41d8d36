//! The days of a time zone, whose offsets the caller knows.

use wire::Timestamp;

/// The times that a [`Timestamp`] can be written for: the years 0 to 9999.
const MILLIS: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// The offsets of the user's time zone, in seconds, each with the time from which it holds. Empty: UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone(Vec<(Timestamp, i32)>);

impl Zone {
    /// Takes the offsets in any order. The first one also holds for all earlier times.
    pub fn new(mut offsets: Vec<(Timestamp, i32)>) -> Self {
        offsets.sort_unstable();
        Self(offsets)
    }

    /// Returns the day of this time, such as `2026-11-25`.
    pub fn day(&self, at: Timestamp) -> String {
        let later = self.0.partition_point(|(from, _)| *from <= at);
        let offset = self.0.get(later.saturating_sub(1)).map_or(0, |(_, seconds)| i64::from(*seconds));
        let local = at.millis().saturating_add(offset * 1000).clamp(*MILLIS.start(), *MILLIS.end());
        let mut day = Timestamp::from_millis(local).to_string();
        day.truncate("2026-11-25".len());
        day
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_the_users_and_follows_the_change_of_the_clocks() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let berlin = Zone::new(vec![(at("2026-10-25T01:00:00Z"), 3600), (at("2026-03-29T01:00:00Z"), 7200)]);
        for (time, day) in [
            ("2026-01-01T21:59:59.999Z", "2026-01-01"),
            ("2026-07-01T22:00:00Z", "2026-07-02"),
            ("2026-11-25T22:59:59Z", "2026-11-25"),
            ("2026-11-25T23:00:00Z", "2026-11-26"),
        ] {
            assert_eq!(berlin.day(at(time)), day, "{time}");
        }
        assert_eq!(Zone::default().day(at("2026-11-25T23:59:59Z")), "2026-11-25");
        let west = Zone::new(vec![(at("2000-01-01T00:00:00Z"), -3600)]);
        assert_eq!(west.day(at("2026-11-25T00:59:59Z")), "2026-11-24");
        assert_eq!(west.day(Timestamp::from_millis(i64::MIN)), "0000-01-01");
        assert_eq!(berlin.day(Timestamp::from_millis(i64::MAX)), "9999-12-31");
    }
}
