//! Whether anything is pending.

use domain::Failure;
use lambda::Caller;
use store::inbox;
use wire::{PingResult, Reply};

use crate::Deps;

pub(crate) async fn ping(deps: &Deps, caller: &Caller) -> Result<Reply, Failure> {
    let pending = inbox::has_pending(&deps.store, &caller.user).await?;
    Ok(PingResult { pending, server_time: deps.clock.now() }.into())
}
