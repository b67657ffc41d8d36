//! `publish_keys`: adds to a device's packages, and replaces its credential and its last resort.

use std::collections::BTreeMap;

use actions::{Attempt, retry};
use domain::{DeviceKeys, Failure, LAST_RESORT_LIFE_MAX, PACKAGE_LIFE_MAX, midnight};
use lambda::Caller;
use store::Written;
use store::keys::{self, KeyLimits, Publish, package_digest};
use wire::limits::{KEY_DEVICES_MAX, KEY_PACKAGE_DAYS_MAX, KEY_PACKAGES_LEFT_MAX, LAST_RESORT_DAYS_MAX};
use wire::{KeyPackage, PublishKeysRequest, PublishKeysResult, Refusal, Reply, Timestamp};

use crate::Deps;

/// Writes all of it, if nothing of what was read has changed. A repetition finds its packages, and adds none.
pub(crate) async fn publish(deps: &Deps, caller: &Caller, request: PublishKeysRequest) -> Result<Reply, Failure> {
    check_ends(&request, deps.actions.clock.now())?;
    let (user, device_id, store) = (&caller.user, deps.device(caller)?, &deps.actions.store);
    let PublishKeysRequest { credential, key_packages, last_resort } = &request;
    // A package that is in the request twice is one.
    let digests: BTreeMap<String, &KeyPackage> =
        key_packages.iter().map(|package| (package_digest(&package.data), package)).collect();
    let result = retry(&mut 0, async || {
        let now = deps.actions.clock.now();
        let names: Vec<&str> = digests.keys().map(String::as_str).collect();
        let (limits, rows, known) = tokio::try_join!(
            keys::limits(store, user),
            keys::devices(store, user),
            keys::packages(store, user, &names)
        )?;
        let was = rows.iter().find(|row| row.device_id == *device_id);
        let same = was.filter(|was| was.credential == *credential);
        let left = match same {
            Some(device) => keys::left(store, user, device, now).await?,
            None => 0,
        };
        let others = rows.iter().filter(|other| other.device_id != *device_id).cloned().collect();
        let others = deps.alive(user, others, now).await?.len();
        let is_new =
            |(digest, package): &(&String, &&KeyPackage)| !known.contains_key(*digest) && package.expires_at > now;
        let new: Vec<(String, &KeyPackage)> =
            digests.iter().filter(is_new).map(|(digest, package)| (digest.clone(), *package)).collect();
        let devices = others as u64 + 1;
        let left = left + new.len() as u64;
        if others >= KEY_DEVICES_MAX {
            return Err(Refusal::DeviceLimit.into());
        }
        if left > KEY_PACKAGES_LEFT_MAX as u64 {
            return Err(Refusal::LimitReached.into());
        }
        let limits = take(deps, &limits, new.len(), same.is_none(), now)?;
        let device = DeviceKeys {
            device_id: device_id.clone(),
            generation: same.map_or_else(generation, |same| same.generation.clone()),
            credential: credential.clone(),
            last_resort: last_resort.data.clone(),
            last_resort_expires_at: last_resort.expires_at,
            added_at: was.map_or(now, |was| was.added_at),
            seen_at: midnight(now),
        };
        let result = PublishKeysResult { left, devices };
        if was == Some(&device) && new.is_empty() {
            return Ok(Attempt::Done(result));
        }
        let was = was.map(|was| was.generation.as_str());
        let publish = Publish { user, device: &device, was, new: &new, limits: &limits, now };
        Ok(match keys::publish(store, &publish).await? {
            Written::Done => Attempt::Done(result),
            Written::Lost => Attempt::AgainAfterPause,
        })
    })
    .await?;
    Ok(result.into())
}

/// Counts what is new against the user's rates.
fn take(
    deps: &Deps,
    limits: &KeyLimits,
    packages: usize,
    is_new_device: bool,
    now: Timestamp,
) -> Result<KeyLimits, Refusal> {
    let (packages, devices) = (u32::try_from(packages).unwrap_or(u32::MAX), u32::from(is_new_device));
    let filled = |rate: &domain::Rate, until: Option<Timestamp>, count: u32| match count {
        0 => Ok(until),
        count => rate.take_whole(until, now, count).map(Some).map_err(Refusal::rate_limited),
    };
    Ok(KeyLimits {
        packages_until: filled(&deps.rates.packages, limits.packages_until, packages)?,
        devices_until: filled(&deps.rates.devices, limits.devices_until, devices)?,
        ..limits.clone()
    })
}

/// Checks that no package lives longer than it may.
fn check_ends(request: &PublishKeysRequest, now: Timestamp) -> Result<(), Refusal> {
    let too_late = |path: String, days: u64| {
        Refusal::bad_request(format!("{path}.expires_at"), format!("must be at most {days} days ahead"))
    };
    let is_late = |package: &KeyPackage| package.expires_at > now.plus(PACKAGE_LIFE_MAX);
    if let Some(place) = request.key_packages.iter().position(is_late) {
        return Err(too_late(format!("key_packages[{place}]"), KEY_PACKAGE_DAYS_MAX));
    }
    if request.last_resort.expires_at > now.plus(LAST_RESORT_LIFE_MAX) {
        return Err(too_late("last_resort".to_owned(), LAST_RESORT_DAYS_MAX));
    }
    Ok(())
}

/// Returns a name that no other generation has.
fn generation() -> String {
    let random: [u8; 16] = std::array::from_fn(|_| fastrand::u8(..));
    data_encoding::HEXLOWER.encode(&random)
}
