//! Devices for push notifications.

use std::time::Duration;

use wire::{DeviceId, Registration, Timestamp, UserId};

use crate::limits::DEVICE_TTL;

/// Time for which a repeated registration is not processed.
const DEVICE_FRESH: Duration = Duration::from_hours(7 * 24);

/// A device that has registered for notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub user_id: UserId,
    pub device_id: DeviceId,
    pub registration: Registration,
    /// What SNS calls the token.
    pub endpoint: String,
    pub registered_at: Timestamp,
}

impl Device {
    /// Whether the same was registered a short time ago: apps register at each start, and SNS takes few registrations a
    /// second.
    pub fn has_just(&self, registration: &Registration, now: Timestamp) -> bool {
        self.registration == *registration && now.since(self.registered_at) < DEVICE_FRESH
    }

    /// Reports whether the app counts as removed, since its last start is too long ago. The row may still exist.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        now.since(self.registered_at) >= DEVICE_TTL
    }

    /// Reports whether both have the same token, and so are the same phone.
    pub fn is_rung_as(&self, other: &Registration) -> bool {
        self.registration.platform == other.platform && self.registration.token == other.token
    }
}
