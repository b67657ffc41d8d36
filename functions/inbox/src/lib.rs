//! `inbox`, `channels` and `history`: the chat list, the list of channels, and a conversation's entries, each in its
//! own file. `report` copies such entries for the operator, `profiles` lists the names of
//! users and the looks of groups.

mod channels;
mod groups;
mod history;
mod inbox;

use actions::SendLimits;
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Response, answer, encryption, profiles,
    reports_kept_for, sdk_config, sealed_reports,
};
use store::{WarmTable, warm_up};
use wire::InboxAction;

/// Starts the process with the connection open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Core, BadVariable> {
    let mut limits = SendLimits::default();
    (limits.encryption, limits.sealed_reports) = (encryption()?, sealed_reports()?);
    (limits.reports_kept_for, limits.profiles) = (reports_kept_for()?, profiles()?);
    let core = Core::from_env(&sdk_config().await, limits)?;
    warm_up(&core.actions.store, WarmTable::Inbox).await;
    Ok(core)
}

/// Handles one event on the routes `inbox`, `channels`, `history`, `report` and `profiles`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(core: &Core, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        InboxAction::Inbox(request) => inbox::inbox(core, &caller.user, request, line).await,
        InboxAction::Channels(request) => Ok(channels::channels(core, &caller.user, request, line).await?.into()),
        InboxAction::History(request) => history::history(core, &caller.user, request, line).await,
        InboxAction::Profiles(request) => Ok(core.actions.profiles(&caller.user, &request).await?.into()),
        InboxAction::Report(request) => {
            line.conversation_id.clone_from(&request.conversation_id);
            Ok(core.actions.report(&caller.user, request).await?.into())
        }
    };
    answer(&core.actions.clock, &core.limiter, event, act).await
}
