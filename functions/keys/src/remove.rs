//! `remove_keys`: ends the keys of one of the caller's devices.

use domain::Failure;
use lambda::Caller;
use store::keys;
use wire::{RemoveKeysRequest, RemoveKeysResult, Reply};

use crate::Deps;

pub(crate) async fn remove(deps: &Deps, caller: &Caller, request: RemoveKeysRequest) -> Result<Reply, Failure> {
    deps.check_on()?;
    keys::remove(&deps.actions.store, &caller.user, &request.device_id).await?;
    let devices = deps.devices(&caller.user, deps.actions.clock.now()).await?.len() as u64;
    Ok(RemoveKeysResult { devices }.into())
}
