//! The key directory: the keys of a user's devices, and what claims take of them.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::limits::{CLAIMS_OF_DEVICE_MAX, KEY_PACKAGE_DAYS_MAX, LAST_RESORT_DAYS_MAX};
use wire::{Bytes, DeviceId, Timestamp};

pub const PACKAGE_LIFE_MAX: Duration = Duration::from_hours(24 * KEY_PACKAGE_DAYS_MAX);
pub const LAST_RESORT_LIFE_MAX: Duration = Duration::from_hours(24 * LAST_RESORT_DAYS_MAX);

/// A device's keys, without its packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceKeys {
    pub device_id: DeviceId,
    /// New with each credential. The packages of another generation have ended.
    pub generation: String,
    pub credential: Bytes,
    pub last_resort: Bytes,
    pub last_resort_expires_at: Timestamp,
    pub added_at: Timestamp,
    /// Midnight of the day.
    pub seen_at: Timestamp,
}

impl DeviceKeys {
    /// Whether claims can get the last resort.
    pub fn has_last_resort(&self, now: Timestamp) -> bool {
        self.last_resort_expires_at > now
    }
}

/// The packages that a user got from the devices of another user, on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    pub day: i64,
    pub from: BTreeMap<DeviceId, u64>,
}

impl Got {
    /// Returns the counts of this day, which begin at none.
    #[must_use]
    pub fn on(self, day: i64) -> Self {
        if self.day == day { self } else { Self { day, from: BTreeMap::new() } }
    }

    /// Whether the user may take another package of the device.
    pub fn has_room(&self, device: &DeviceId) -> bool {
        self.from.get(device).is_none_or(|count| *count < CLAIMS_OF_DEVICE_MAX)
    }

    pub fn count(&mut self, device: &DeviceId) {
        *self.from.entry(device.clone()).or_default() += 1;
    }
}

/// The number of the day in UTC.
pub fn day(at: Timestamp) -> i64 {
    at.millis().div_euclid(DAY_MS)
}

/// Midnight of the day in UTC.
pub fn midnight(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(day(at).saturating_mul(DAY_MS))
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_ten_packages_of_a_device_in_a_day() {
        let (phone, tablet) = (DeviceId::parse("phone").unwrap(), DeviceId::parse("tablet").unwrap());
        let mut got = Got::default().on(7);
        for _ in 0..CLAIMS_OF_DEVICE_MAX {
            assert!(got.has_room(&phone));
            got.count(&phone);
        }
        assert!(!got.has_room(&phone) && got.has_room(&tablet));
        assert!(!got.clone().on(7).has_room(&phone), "the same day");
        assert!(got.on(8).has_room(&phone), "the next day");
    }

    #[test]
    fn a_day_begins_at_midnight() {
        let at = |text| Timestamp::parse(text).unwrap();
        assert_eq!(midnight(at("2027-02-19T23:59:59.999Z")), at("2027-02-19T00:00:00.000Z"));
        assert_eq!(day(at("2027-02-20T00:00:00.000Z")), day(at("2027-02-19T00:00:00.000Z")) + 1);
    }
}
