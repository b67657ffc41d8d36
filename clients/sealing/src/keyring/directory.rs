//! The keys directory: the packages by which others add this device, and the devices of the user.

use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::Value;
use wire::{
    Action, Bytes, DeviceId, KeyPackage, ListKeysRequest, ListKeysResult, Problem, PublishKeysRequest,
    PublishKeysResult, RemoveKeysRequest, Timestamp,
};
use zeroize::Zeroizing;

use super::rows::{self, PackageRow};
use super::said::{Notice, OwnDevice, RequestKey};
use super::{DAY_MS, Keyring};
use crate::error::Result;
use crate::identity::Credential;

/// The packages of one request.
const PACKAGES: usize = 25;
/// The packages at which a device makes new ones.
const FEW: u64 = 10;
const DAY_S: u64 = 86_400;
/// A last resort is replaced after this time, and when it was used.
const LAST_RESORT_AGE_S: u64 = 30 * DAY_S;
/// Claims are used within 24 hours: the private part of a package stays for longer than that.
const KEPT_S: u64 = 2 * DAY_S;
/// A device that was not seen for this time is removed: its keys are old, and a copy of them reads on.
const IDLE: Duration = Duration::from_secs(45 * DAY_S);

impl Keyring {
    /// Takes `keys.low`.
    pub fn keys_low(&mut self, left: u64) {
        self.left = Some(left);
        self.publish_due |= left <= FEW;
    }

    /// The client has the log up to its end: the keyring deletes private parts of packages that ended two days ago. An
    /// earlier entry could need them. From here on it knows all members at each entry.
    pub fn caught_up(&mut self, now_ms: u64) {
        let is_over = |row: &PackageRow| {
            let ends_at_s = row.drop_at_s.unwrap_or(row.expires_at_s.saturating_add(KEPT_S));
            ends_at_s <= now_ms / 1_000
        };
        let names: Vec<String> =
            self.packages.iter().filter(|(_, row)| is_over(row)).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.drop_package(&name);
        }
        for (id, seat) in &mut self.seats {
            let is_there = seat.row.position >= seat.row.due;
            if seat.roster.as_mut().is_some_and(|roster| is_there && std::mem::take(&mut roster.is_new)) {
                self.changed.insert(format!("{}{id}", rows::ROSTER));
            }
        }
    }

    pub(super) fn directory_requests(&mut self, now_ms: u64) -> Vec<(RequestKey, Action)> {
        let mut due = Vec::new();
        if self.list_due {
            due.push((RequestKey::ListKeys, Action::ListKeys(ListKeysRequest {})));
        }
        for device in &self.row.removing {
            let request = RemoveKeysRequest { device_id: device.clone() };
            due.push((RequestKey::RemoveKeys(device.clone()), Action::RemoveKeys(request)));
        }
        let is_free =
            !self.asked.contains(&RequestKey::PublishKeys) && !self.later.contains_key(&RequestKey::PublishKeys);
        if self.publish_due && is_free {
            // Without randomness there are no packages: the next connection tries again.
            self.publish_due = self.make_packages(now_ms / 1_000).is_ok();
        }
        if self.publish_due {
            due.extend(self.publication().map(|request| (RequestKey::PublishKeys, Action::PublishKeys(request))));
        }
        due
    }

    /// Makes the packages of a publication, unless those of an earlier one have no answer yet.
    fn make_packages(&mut self, now_s: u64) -> Result<()> {
        if self.last_resort().is_none_or(|row| row.made_at_s.saturating_add(LAST_RESORT_AGE_S) <= now_s) {
            for row in self.packages.values_mut().filter(|row| row.last_resort && row.drop_at_s.is_none()) {
                row.drop_at_s = Some(now_s.saturating_add(KEPT_S));
            }
            let old = self.packages.iter().filter(|(_, row)| row.last_resort).map(|(name, _)| name);
            self.changed.extend(old.map(|name| format!("{}{name}", rows::PACKAGE)));
            self.add_packages(1, true, now_s)?;
        }
        let has_new = self.packages.values().any(|row| !row.last_resort && row.data.is_some());
        if !has_new && self.left.is_none_or(|left| left <= FEW) {
            self.add_packages(PACKAGES, false, now_s)?;
        }
        Ok(())
    }

    fn add_packages(&mut self, count: usize, last_resort: bool, now_s: u64) -> Result<()> {
        for package in self.device.new_packages(count, last_resort, now_s)? {
            let row = PackageRow {
                private: package.private.to_vec().into(),
                data: Some(package.data.into()),
                last_resort,
                made_at_s: now_s,
                expires_at_s: package.expires_at_s,
                drop_at_s: None,
            };
            let name = HEXLOWER.encode(&package.reference);
            self.changed.insert(format!("{}{name}", rows::PACKAGE));
            self.packages.insert(name, row);
        }
        Ok(())
    }

    fn last_resort(&self) -> Option<&PackageRow> {
        self.packages.values().find(|row| row.last_resort && row.drop_at_s.is_none())
    }

    fn publication(&self) -> Option<PublishKeysRequest> {
        let package = |row: &PackageRow| {
            let at = i64::try_from(row.expires_at_s.saturating_mul(1_000)).ok()?;
            Some(KeyPackage { data: row.data.clone()?, expires_at: Timestamp::from_millis(at) })
        };
        let new = self.packages.values().filter(|row| !row.last_resort);
        Some(PublishKeysRequest {
            credential: self.device.credential().to_vec().into(),
            key_packages: new.filter_map(package).collect(),
            last_resort: package(self.last_resort()?)?,
        })
    }

    pub(super) fn directory_answered(&mut self, key: &RequestKey, result: Result<Value, Problem>, now_ms: u64) {
        match key {
            RequestKey::ListKeys => {
                self.list_due = false;
                let listed = result.ok().and_then(|value| serde_json::from_value(value).ok());
                if let Some(ListKeysResult { devices }) = listed {
                    self.listed(devices, now_ms / 1_000);
                    self.remove_idle(now_ms);
                }
            }
            RequestKey::PublishKeys => {
                self.publish_due = false;
                match result {
                    Ok(value) => self.published(serde_json::from_value(value).ok(), now_ms),
                    Err(problem) => self.notices.push(Notice::KeysRefused { code: problem.code }),
                }
            }
            RequestKey::RemoveKeys(device) => {
                self.row.removing.remove(device);
                self.changed.insert(rows::DEVICE.to_owned());
                self.list_due = true;
            }
            RequestKey::GroupInfo(_)
            | RequestKey::Birth(..)
            | RequestKey::Claim(..)
            | RequestKey::Commit(..)
            | RequestKey::Members(..) => {}
        }
    }

    fn published(&mut self, result: Option<PublishKeysResult>, now_ms: u64) {
        self.left = result.map(|result| result.left).or(self.left);
        let device = self.device.member().device.clone();
        let midnight = i64::try_from(now_ms - now_ms % DAY_MS).unwrap_or_default();
        let (left, seen_at) = (self.left.unwrap_or_default(), Timestamp::from_millis(midnight));
        // As the directory lists it from now on.
        self.listed.retain(|listed| listed.device != device);
        self.listed.push(OwnDevice { device, known: true, left, seen_at });
        self.listed.sort_by(|one, other| one.device.cmp(&other.device));
        for (name, row) in self.packages.iter_mut().filter(|(_, row)| !row.last_resort && row.data.is_some()) {
            row.data = None;
            self.changed.insert(format!("{}{name}", rows::PACKAGE));
        }
    }

    /// Publishes if this device has few packages, an old last resort or another credential there. Tells of unknown devices.
    fn listed(&mut self, devices: Vec<wire::KeyDevice>, now_s: u64) {
        let own = self.device.member().clone();
        let is_known = |credential: &Bytes, device: &DeviceId| {
            let read = Credential::read(credential.as_slice());
            read.is_ok_and(|read| read.credential == Credential { device: device.clone(), ..own.clone() })
        };
        let mut is_there = false;
        self.listed.clear();
        for device in devices {
            let is_this = device.device_id == own.device;
            let known = if is_this {
                device.credential.as_slice() == self.device.credential()
            } else {
                is_known(&device.credential, &device.device_id)
            };
            if is_this && known {
                is_there = true;
                self.left = Some(device.left);
            }
            if !known && !is_this && self.told.insert(device.device_id.clone()) {
                self.notices.push(Notice::UnknownDevice { device: device.device_id.clone() });
            }
            let (left, seen_at) = (device.left, device.seen_at);
            self.listed.push(OwnDevice { device: device.device_id, known, left, seen_at });
        }
        if !is_there {
            self.left = Some(0);
        }
        let is_old = self.last_resort().is_none_or(|row| row.made_at_s.saturating_add(LAST_RESORT_AGE_S) <= now_s);
        let has_new = self.packages.values().any(|row| !row.last_resort && row.data.is_some());
        self.publish_due |= !is_there || is_old || has_new || self.left.is_some_and(|left| left <= FEW);
    }

    /// Removes devices of the user, once each, that were last seen 45 days before this one. Both days are the server's, so
    /// a wrong clock of this device removes none.
    fn remove_idle(&mut self, now_ms: u64) {
        let own = &self.device.member().device;
        let Some(today) = self.listed.iter().find(|listed| listed.device == *own).map(|listed| listed.seen_at) else {
            return;
        };
        let is_idle = |listed: &&OwnDevice| listed.known && listed.seen_at.plus(IDLE) <= today;
        let idle: Vec<DeviceId> = self.listed.iter().filter(is_idle).map(|listed| listed.device.clone()).collect();
        for device in idle {
            if self.told.insert(device.clone()) {
                self.remove_device(&device, now_ms);
            }
        }
    }

    // -- Private parts ------------------------------------------------------------------------------------------------

    pub(super) fn private_parts(&self) -> Vec<(Vec<u8>, Zeroizing<Vec<u8>>)> {
        let part = |(name, row): (&String, &PackageRow)| {
            Some((HEXLOWER.decode(name.as_bytes()).ok()?, Zeroizing::new(row.private.as_slice().to_vec())))
        };
        self.packages.iter().filter_map(part).collect()
    }

    /// A Welcome has used this package. Returns whether it is a last resort, which is replaced and stays for two more days.
    pub(super) fn used_package(&mut self, reference: &[u8], now_ms: u64) -> bool {
        let name = HEXLOWER.encode(reference);
        let Some(row) = self.packages.get_mut(&name) else { return false };
        if !row.last_resort {
            self.drop_package(&name);
            return false;
        }
        if row.drop_at_s.is_none() {
            row.drop_at_s = Some((now_ms / 1_000).saturating_add(KEPT_S));
            self.changed.insert(format!("{}{name}", rows::PACKAGE));
        }
        self.publish_due = true;
        true
    }

    fn drop_package(&mut self, name: &str) {
        if self.packages.remove(name).is_some() {
            self.changed.insert(format!("{}{name}", rows::PACKAGE));
        }
    }
}
