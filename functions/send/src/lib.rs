//! `send`, `edit`, `delete`, `react` and `pin`: appends an entry to a conversation, then notifies the connected users. One
//! file has messages, the other has changes of messages.
//!
//! Durable before delivered: no frame and no reply leaves before the transaction has committed. After the commit,
//! nothing may fail the request: what does not arrive is pending.

mod change;
mod send;

use actions::Appended;
use change::{apply, delete, edit, pin, react};
use domain::Failure;
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Response, answer, encryption, kept_for,
    sdk_config, sealed_reports, send_limits,
};
use store::WarmTable;
use wire::{DeleteResult, EditResult, PinResult, ReactResult, Reply, SendAction, SendResult, Timestamp};

/// Starts the process with the connections open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Core, BadVariable> {
    let mut limits = send_limits(kept_for()?)?;
    (limits.encryption, limits.sealed_reports) = (encryption()?, sealed_reports()?);
    let sdk = sdk_config().await;
    let mut core = Core::from_env(&sdk, limits)?;
    core.actions.hook = hook::from_env(&sdk)?;
    core.actions.warm_up(WarmTable::Inbox).await;
    Ok(core)
}

/// Handles one event on the routes `send`, `edit`, `delete`, `react` and `pin`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(core: &Core, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| {
        let reply = act(core, caller, action, line).await;
        line.asked(&core.actions);
        reply
    };
    answer(&core.actions.clock, &core.limiter, event, act).await
}

async fn act(core: &Core, caller: &Caller, action: SendAction, line: &mut EventLine) -> Result<Reply, Failure> {
    Ok(match action {
        SendAction::Send(request) => send::send(core, caller, request, line).await?,
        SendAction::Edit(request) => EditResult(apply(core, caller, edit(request), line).await?).into(),
        SendAction::Delete(request) => DeleteResult(apply(core, caller, delete(request), line).await?).into(),
        SendAction::Pin(request) => PinResult(apply(core, caller, pin(request), line).await?).into(),
        SendAction::React(request) => ReactResult(apply(core, caller, react(request), line).await?).into(),
    })
}

/// Notifies the connected users after the commit, when nothing may fail the request any more. A duplicate notifies
/// again, because the first run may have died right after its commit.
async fn tell(
    core: &Core,
    caller: &Caller,
    started: Timestamp,
    appended: Appended,
    line: &mut EventLine,
) -> SendResult {
    let delivered = line.tell(&core.actions, started, &appended, caller.origin.as_ref()).await;
    let left = delivered.iter().filter(|to| to.user != caller.user && to.frames.posted == 0).count();
    line.measures.left_pending = Some(left as u64);
    appended.into_result()
}
