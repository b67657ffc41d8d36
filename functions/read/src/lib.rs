//! `read` and `settings`: a user's marks and settings of a conversation. A file for each.

mod read;
mod settings;

use std::time::Duration;

use actions::SendLimits;
use domain::Rate;
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Response, answer, env, rate, sdk_config,
};
use store::WarmTable;
use wire::ReadAction;

/// Starts the process with the connections open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Core, BadVariable> {
    // A block of a stranger counts as a first message.
    let limits = SendLimits::new(Rate::UNLIMITED, rate("FIRST_MESSAGE_RATE", env)?, Duration::ZERO, 0);
    let core = Core::from_env(&sdk_config().await, limits)?;
    core.actions.warm_up(WarmTable::Inbox).await;
    Ok(core)
}

/// Handles one event on the routes `read` and `settings`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(core: &Core, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        ReadAction::Read(request) => read::read(core, caller, request, line).await,
        ReadAction::Settings(request) => settings::settings(core, caller, request, line).await,
    };
    answer(&core.actions.clock, &core.limiter, event, act).await
}
