//! Whether anything is pending.

use domain::Failure;
use lambda::{Caller, Core};
use store::inbox;
use wire::{PingRequest, PingResult, Reply};

pub(crate) async fn ping(core: &Core, caller: &Caller, request: &PingRequest) -> Result<Reply, Failure> {
    let pending = inbox::has_pending(&core.actions.store, &caller.user).await?;
    let features = request.features.then(|| {
        let limits = &core.actions.limits;
        let switched_on = limits.encryption.features(limits.sealed_reports);
        let always = ["data", "report", "restrict", "pins", "unread", "quiet", "fuse"];
        let on = always.iter().chain(limits.profiles.features()).chain(&limits.features);
        let on = on.chain(limits.published.then_some(&"events"));
        on.map(|name| (*name).to_owned()).chain(switched_on).collect()
    });
    Ok(PingResult { pending, server_time: core.actions.clock.now(), features }.into())
}
