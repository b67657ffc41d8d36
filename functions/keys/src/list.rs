//! `list_keys`: the caller's devices with keys.

use domain::{Failure, midnight};
use futures_util::future::try_join_all;
use lambda::Caller;
use store::keys;
use wire::{KeyDevice, ListKeysResult, Reply};

use crate::Deps;

pub(crate) async fn list(deps: &Deps, caller: &Caller) -> Result<Reply, Failure> {
    deps.check_on()?;
    let (user, store, now) = (&caller.user, &deps.actions.store, deps.actions.clock.now());
    let today = midnight(now);
    let devices = deps.devices(user, now).await?.into_iter().map(|device| async move {
        let left = keys::left(store, user, &device, now).await?;
        let is_own = caller.device.as_ref() == Some(&device.device_id);
        if is_own && device.seen_at != today {
            keys::seen(store, user, &device.device_id, today).await?;
        }
        Ok::<_, Failure>(KeyDevice {
            device_id: device.device_id,
            credential: device.credential,
            left,
            last_resort_expires_at: device.last_resort_expires_at,
            added_at: device.added_at,
            seen_at: if is_own { today } else { device.seen_at },
        })
    });
    Ok(ListKeysResult { devices: try_join_all(devices).await? }.into())
}
