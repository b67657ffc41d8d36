//! Whether anything is pending.

use domain::Failure;
use lambda::{Caller, Core};
use store::inbox;
use wire::{PingRequest, PingResult, Reply};

pub(crate) async fn ping(core: &Core, caller: &Caller, request: &PingRequest) -> Result<Reply, Failure> {
    let pending = inbox::has_pending(&core.actions.store, &caller.user).await?;
    let features = request.features.then(|| {
        let switched_on = core.actions.limits.encryption.features();
        std::iter::once("data".to_owned()).chain(switched_on).collect()
    });
    Ok(PingResult { pending, server_time: core.actions.clock.now(), features }.into())
}
