//! Unregisters a device whose user logs out.

use actions::{Attempt, retry};
use domain::Failure;
use store::{Written, devices};
use wire::{DeviceId, DeviceResult, Reply, UserId};

use crate::{Deps, forget};

pub(crate) async fn take_out(deps: &Deps, user: &UserId, device_id: &DeviceId) -> Result<Reply, Failure> {
    retry(&mut 0, async || {
        let Some(device) = devices::get(&deps.actions.store, user, device_id).await? else {
            return Ok(Attempt::Done(()));
        };
        match devices::forget(&deps.actions.store, &device, deps.actions.clock.now()).await? {
            Written::Done => {}
            Written::Lost => return Ok(Attempt::AgainAfterPause),
        }
        forget(deps, [device.endpoint.as_str()]).await;
        Ok(Attempt::Done(()))
    })
    .await?;
    Ok(DeviceResult { device_id: device_id.clone(), registered: false }.into())
}
