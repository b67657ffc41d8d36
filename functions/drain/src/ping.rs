//! Whether anything is pending.

use domain::Failure;
use lambda::{Caller, Core};
use store::inbox;
use wire::{PingResult, Reply};

pub(crate) async fn ping(core: &Core, caller: &Caller) -> Result<Reply, Failure> {
    let pending = inbox::has_pending(&core.actions.store, &caller.user).await?;
    Ok(PingResult { pending, server_time: core.actions.clock.now() }.into())
}
