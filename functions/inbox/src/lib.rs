//! `inbox`, `channels` and `history`: the chat list, the list of channels, and what was said. A file for each.

mod channels;
mod groups;
mod history;
mod inbox;

use deliver::Fanout;
use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer,
    count, env, sdk_config,
};
use store::{Store, WarmTable, warm_up};
use wire::{Action, Refusal};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    pub limiter: Limiter,
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
        let fanout = Fanout::new(store.clone(), connections);
        warm_up(&store, WarmTable::Inbox).await;
        Ok(Self { store, fanout, limiter, clock: Clock::system() })
    }
}

/// Answers one event on the routes `inbox`, `channels` and `history`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        Action::Inbox(request) => inbox::inbox(deps, &caller.user, request, line).await,
        Action::Channels(request) => Ok(channels::channels(deps, &caller.user, request, line).await?.into()),
        Action::History(request) => history::history(deps, &caller.user, request, line).await,
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}
