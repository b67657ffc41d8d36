//! Registers a device for push notifications.

use std::sync::PoisonError;
use std::time::Duration;

use actions::{Attempt, retry};
use domain::{Device, Failure, Rate};
use store::Written;
use store::devices::{self, Owner, Register};
use wire::{DeviceId, DeviceResult, Refusal, Registration, Reply, Timestamp, UserId};

use crate::{Deps, forget};

/// Maximum of a user's devices that get push notifications.
const DEVICES_PER_USER_MAX: usize = 16;

/// Registrations of a user in one process. SNS takes about thirty a second from all users together, so no user may use
/// them up with ever new tokens. A phone registers at each start, which calls SNS once a week, and when its token
/// changes.
const REGISTRATIONS: Rate = Rate { burst: 8, pause: Duration::from_secs(10) };

/// Registers the token with SNS first. An endpoint without a row does no harm, and a row without an endpoint would get
/// no push. The write depends on everything that was read, so it detects another registration of the token, earlier or
/// concurrent.
pub(crate) async fn register(
    deps: &Deps,
    user: &UserId,
    device_id: &DeviceId,
    registration: Registration,
) -> Result<Reply, Failure> {
    let application = deps.applications.of(registration.platform)?;
    retry(&mut 0, async || {
        let now = deps.actions.clock.now();
        let (own, owner) = tokio::join!(
            devices::of_user(&deps.actions.store, user),
            devices::owner(&deps.actions.store, &registration)
        );
        let (own, owner) = (own?, owner?);
        let was = own.iter().find(|device| device.device_id == *device_id);
        let is_owner = owner.as_ref().is_some_and(|owner| owner.user_id == *user && owner.device_id == *device_id);
        if is_owner && was.is_some_and(|was| was.has_just(&registration, now)) {
            return Ok(Attempt::Done(()));
        }
        count(deps, user, now)?;
        let endpoint = deps.phones.register(application, &registration.token).await?;
        let device = Device {
            user_id: user.clone(),
            device_id: device_id.clone(),
            registration: registration.clone(),
            endpoint,
            registered_at: now,
        };
        let mut replaced = too_many(&own, device_id);
        if let Some(previous) = previous(deps, &device, owner.as_ref().filter(|_| !is_owner)).await?
            && !replaced.contains(&previous)
        {
            replaced.push(previous);
        }
        let change = Register { device: &device, was, owner: owner.as_ref(), replaced: &replaced };
        match devices::register(&deps.actions.store, &change).await? {
            Written::Done => {}
            Written::Lost => return Ok(Attempt::AgainAfterPause),
        }
        let unnamed = was.into_iter().chain(&replaced).filter(|gone| !gone.is_rung_as(&registration));
        forget(deps, unnamed.map(|gone| gone.endpoint.as_str())).await;
        Ok(Attempt::Done(()))
    })
    .await?;
    Ok(DeviceResult { device_id: device_id.clone(), registered: true }.into())
}

/// Counts a registration with SNS, or refuses it above the rate.
fn count(deps: &Deps, user: &UserId, now: Timestamp) -> Result<(), Refusal> {
    let mut registrations = deps.registrations.lock().unwrap_or_else(PoisonError::into_inner);
    registrations.count(&REGISTRATIONS, user, now).map_err(Refusal::rate_limited)
}

/// Returns the oldest registrations, which make room for this one.
fn too_many(own: &[Device], device_id: &DeviceId) -> Vec<Device> {
    let mut others: Vec<&Device> = own.iter().filter(|device| device.device_id != *device_id).collect();
    others.sort_by_key(|device| std::cmp::Reverse(device.registered_at));
    others.into_iter().skip(DEVICES_PER_USER_MAX - 1).cloned().collect()
}

/// Returns the registration of the same token by another user, or by this user under another device id.
async fn previous(deps: &Deps, device: &Device, owner: Option<&Owner>) -> Result<Option<Device>, Failure> {
    let Some(Owner { user_id, device_id }) = owner else { return Ok(None) };
    let previous = devices::get(&deps.actions.store, user_id, device_id).await?;
    // The TTL can remove a device's row before its token's row. A later registration of that device has another token.
    Ok(previous.filter(|previous| previous.is_rung_as(&device.registration)))
}
