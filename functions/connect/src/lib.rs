//! `$connect`, `$disconnect` and `$default`: sockets that come and go, and frames that no other route takes; `presence`, `typing`,
//! `watch` and `unwatch`: who is there, and what they are doing.

mod connect;
mod disconnect;
mod presence;
mod typing;
mod watch;

use deliver::Fanout;
use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer,
    count, env, sdk_config,
};
use store::{Store, WarmTable, warm_up};
use wire::{Action, Refusal, Reply};

pub use typing::Typing;

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    pub limiter: Limiter,
    pub typing: Typing,
    /// Whether users can see who is there, and when they were.
    pub presence: bool,
    pub clock: Clock,
}

impl Deps {
    /// From the environment, with the connection open that the first event needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let connections = ConnectionsApi::from_env(&sdk, env)?;
        let limiter = Limiter::from_env(connections.clone(), env)?;
        let presence = match env("PRESENCE")?.as_str() {
            "on" => true,
            "off" => false,
            _ => return Err(BadVariable::new("PRESENCE", "must be on or off")),
        };
        let fanout = Fanout::new(store.clone(), connections);
        warm_up(&store, WarmTable::Connections).await;
        Ok(Self { store, fanout, limiter, typing: Typing::default(), presence, clock: Clock::system() })
    }
}

/// Answers one event on the routes `$connect`, `$disconnect`, `$default`, `presence`, `typing`, `watch` and `unwatch`.
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
            answer(&deps.clock, &deps.limiter, event, act).await
        }
    }
}

async fn act(
    deps: &Deps,
    caller: &Caller,
    action: Action,
    line: &mut EventLine,
) -> Result<Option<Reply>, domain::Failure> {
    match action {
        Action::Presence(request) => presence::presence(deps, caller, &request).await.map(Some),
        Action::Typing(request) => typing::typing(deps, caller, request, line).await.map(|()| None),
        Action::Watch(request) => watch::watch(deps, caller, request, line).await.map(Some),
        Action::Unwatch(request) => watch::unwatch(deps, caller, request, line).await.map(Some),
        // A frame that names no route: the reader of frames says what is wrong with it.
        _ => Err(Refusal::UnknownAction.into()),
    }
}

/// What API Gateway is told.
fn status<T>(outcome: &Result<T, domain::Failure>) -> i64 {
    match outcome {
        Ok(_) => 200,
        Err(domain::Failure::Refused(Refusal::Forbidden)) => 403,
        Err(domain::Failure::Refused(_)) => 400,
        Err(domain::Failure::Unavailable(_) | domain::Failure::Unreadable(_)) => 503,
    }
}
