//! Moments, to the millisecond, as the protocol writes them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// A moment: RFC 3339, UTC, three decimals of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String", extend("format" = "date-time")))]
pub struct Timestamp(
    /// Milliseconds since 1970-01-01T00:00:00Z.
    i64,
);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds, as DynamoDB's TTL and a token's `exp` count.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Parses RFC 3339 with any offset. A year in UTC has at most four digits.
    pub fn parse(text: &str) -> Option<Self> {
        let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?.checked_to_offset(UtcOffset::UTC)?;
        if !(0..=9999).contains(&moment.year()) {
            return None;
        }
        i64::try_from(moment.unix_timestamp_nanos().div_euclid(1_000_000)).ok().map(Self)
    }

    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The minute that it lies in.
    #[must_use]
    pub const fn to_the_minute(self) -> Self {
        Self(self.0 - self.0.rem_euclid(60_000))
    }

    /// How long before `self` was `earlier`; nothing if it was not before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment =
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000).map_err(|_| fmt::Error)?;
        let (date, clock) = (moment.date(), moment.time());
        write!(f, "{:04}-{:02}-{:02}T", date.year(), u8::from(date.month()), date.day())?;
        write!(f, "{:02}:{:02}:{:02}.{:03}Z", clock.hour(), clock.minute(), clock.second(), clock.millisecond())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("must be a time in RFC 3339"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(1_763_632_800_123).to_string(), "2025-11-20T10:00:00.123Z");
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn any_offset_is_understood_and_nonsense_is_not() {
        assert_eq!(Timestamp::parse("2025-11-20T11:00:00.123+01:00"), Some(Timestamp::from_millis(1_763_632_800_123)));
        let beyond = ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"];
        for bad in ["", "yesterday", "2025-11-20", "2025-11-20T10:00:00", "1763632800123"].into_iter().chain(beyond) {
            assert_eq!(Timestamp::parse(bad), None, "{bad}");
        }
        for edge in ["0000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"] {
            assert_eq!(Timestamp::parse(edge).map(|time| time.to_string()).as_deref(), Some(edge));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0i64..253_402_300_799_000) {
            let moment = Timestamp::from_millis(millis);
            prop_assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }
    }
}
