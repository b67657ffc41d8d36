//! `drain`, `ack` and `ping`: what is pending, and its end. A file for each.

mod ack;
mod drain;
mod ping;

use actions::SendLimits;
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Response, answer, encryption, optional,
    profiles, sdk_config, sealed_reports,
};
use store::WarmTable;
use wire::DrainAction;

/// Starts the process with the connections open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Core, BadVariable> {
    let mut limits = SendLimits::default();
    (limits.encryption, limits.sealed_reports) = (encryption()?, sealed_reports()?);
    let features = [("hook", optional("SEND_HOOK_ARN").is_some()), ("http", lambda::env("HTTP_API")? == "on")];
    limits.published = optional("EVENTS_TO").is_some();
    limits.features = features.into_iter().filter_map(|(name, is_on)| is_on.then_some(name)).collect();
    limits.profiles = profiles()?;
    let core = Core::from_env(&sdk_config().await, limits)?;
    core.actions.warm_up(WarmTable::Inbox).await;
    Ok(core)
}

/// Handles one event on the routes `drain`, `ack` and `ping`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(core: &Core, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        DrainAction::Drain(request) => drain::drain(core, caller, &request, line).await,
        DrainAction::Ack(request) => ack::ack(core, caller, &request, line).await,
        DrainAction::Ping(request) => ping::ping(core, caller, &request).await,
    };
    answer(&core.actions.clock, &core.limiter, event, act).await
}
