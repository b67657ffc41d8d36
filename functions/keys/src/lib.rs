//! `publish_keys`, `claim_keys`, `list_keys` and `remove_keys`, the key directory of end-to-end encryption, in a file
//! each; `commit` and `group_info`, the keys of a conversation.
//!
//! The server does not know the contents of a package or a commit. A package goes to one claim, and to none after its
//! expiry.

mod claim;
mod commit;
mod list;
mod publish;
mod remove;

use std::time::Duration;

use actions::{Actions, SendLimits};
use domain::{DeviceKeys, Failure, Rate};
use futures_util::future::try_join_all;
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer, encryption, env,
    rate, sdk_config,
};
use store::{WarmTable, keys};
use wire::{DeviceId, KeysAction, Refusal, Timestamp, UserId};

/// The dependencies of the function, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub actions: Actions,
    pub limiter: Limiter,
    pub rates: KeyRates,
}

/// A user's limits on keys.
#[derive(Clone, Copy, Debug)]
pub struct KeyRates {
    pub claims: Rate,
    /// Packages that the directory accepts. Each leaves a row behind until it expires.
    pub packages: Rate,
    /// Devices that are new or have another credential.
    pub devices: Rate,
}

/// Starts the process with the connections open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let mut limits = SendLimits::new(rate("SEND_RATE", env)?, rate("FIRST_MESSAGE_RATE", env)?, Duration::ZERO, 0);
    (limits.encryption, limits.commits, limits.births) =
        (encryption()?, rate("COMMIT_RATE", env)?, rate("BIRTH_RATE", env)?);
    let Core { actions, limiter } = Core::from_env(&sdk_config().await, limits)?;
    let rates = KeyRates {
        claims: rate("CLAIM_RATE", env)?,
        packages: rate("KEY_PACKAGE_RATE", env)?,
        devices: rate("KEY_DEVICE_RATE", env)?,
    };
    actions.warm_up(WarmTable::Keys).await;
    Ok(Deps { actions, limiter, rates })
}

/// Handles one event on the routes of end-to-end encryption.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        KeysAction::PublishKeys(request) => publish::publish(deps, caller, request).await,
        KeysAction::ClaimKeys(request) => claim::claim(deps, caller, request, line).await,
        KeysAction::ListKeys(_) => list::list(deps, caller).await,
        KeysAction::RemoveKeys(request) => remove::remove(deps, caller, request).await,
        KeysAction::Commit(request) => commit::commit(deps, caller, request, line).await,
        KeysAction::GroupInfo(request) => commit::group_info(deps, caller, request, line).await,
    };
    answer(&deps.actions.clock, &deps.limiter, event, act).await
}

impl Deps {
    /// Returns the caller's device.
    ///
    /// # Errors
    /// `device_required`, then `forbidden`.
    fn device<'a>(&self, caller: &'a Caller) -> Result<&'a DeviceId, Refusal> {
        let device = caller.device.as_ref().ok_or(Refusal::DeviceRequired)?;
        self.check_on().map(|()| device)
    }

    fn check_on(&self) -> Result<(), Refusal> {
        self.actions.limits.encryption.check_on()
    }

    /// Returns the devices with keys that have not all expired.
    async fn devices(&self, user: &UserId, now: Timestamp) -> Result<Vec<DeviceKeys>, Failure> {
        self.alive(user, keys::devices(&self.actions.store, user).await?, now).await
    }

    async fn alive(&self, user: &UserId, rows: Vec<DeviceKeys>, now: Timestamp) -> Result<Vec<DeviceKeys>, Failure> {
        let store = &self.actions.store;
        let alive = rows.into_iter().map(|device| async move {
            let is_alive = device.has_last_resort(now) || !keys::free(store, user, &device, now, 1).await?.is_empty();
            Ok::<_, Failure>(is_alive.then_some(device))
        });
        Ok(try_join_all(alive).await?.into_iter().flatten().collect())
    }
}
