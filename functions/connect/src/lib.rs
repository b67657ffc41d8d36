//! `$connect`, `$disconnect` and `$default`: sockets that come and go, and frames that no other route takes; `presence`, `typing`,
//! `watch` and `unwatch`: who is there, and what they are doing.

mod connect;
mod disconnect;
mod presence;
mod typing;
mod watch;

use actions::{Actions, SendLimits};
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer, env, sdk_config,
};
use store::{WarmTable, warm_up};
use wire::{ConnectAction, Refusal, Reply};

pub use connect::Suspensions;
pub use typing::Typing;

/// The dependencies of the function, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub actions: Actions,
    pub limiter: Limiter,
    pub typing: Typing,
    pub suspensions: Suspensions,
    /// Whether users can see who is there, and when they were.
    pub presence: bool,
}

/// Starts the process with the connection open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let Core { actions, limiter } = Core::from_env(&sdk_config().await, SendLimits::default())?;
    let presence = match env("PRESENCE")?.as_str() {
        "on" => true,
        "off" => false,
        _ => return Err(BadVariable::new("PRESENCE", "must be on or off")),
    };
    warm_up(&actions.store, WarmTable::Connections).await;
    Ok(Deps { actions, limiter, typing: Typing::default(), suspensions: Suspensions::default(), presence })
}

/// Handles one event on the routes `$connect`, `$disconnect`, `$default`, `presence`, `typing`, `watch` and `unwatch`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    // Not by route: a client can put any route's name into its frame.
    match event.payload.request_context.event_type.as_deref() {
        Some("CONNECT") => connect::connect(deps, &event).await,
        Some("DISCONNECT") => disconnect::disconnect(deps, &event).await,
        _ => {
            let act = async |caller: &Caller, action, line: &mut EventLine| act(deps, caller, action, line).await;
            answer(&deps.actions.clock, &deps.limiter, event, act).await
        }
    }
}

async fn act(
    deps: &Deps,
    caller: &Caller,
    action: ConnectAction,
    line: &mut EventLine,
) -> Result<Option<Reply>, domain::Failure> {
    match action {
        ConnectAction::Presence(request) => presence::presence(deps, caller, &request).await.map(Some),
        ConnectAction::Typing(request) => typing::typing(deps, caller, request, line).await.map(|()| None),
        ConnectAction::Watch(request) => watch::watch(deps, caller, request, line).await.map(Some),
        ConnectAction::Unwatch(request) => watch::unwatch(deps, caller, request, line).await.map(Some),
    }
}

/// Returns the HTTP status for API Gateway.
fn status<T>(outcome: &Result<T, domain::Failure>) -> i64 {
    match outcome {
        Ok(_) => 200,
        Err(domain::Failure::Refused(Refusal::Forbidden)) => 403,
        Err(domain::Failure::Refused(_)) => 400,
        Err(domain::Failure::Unavailable(_) | domain::Failure::Unreadable(_)) => 503,
    }
}
