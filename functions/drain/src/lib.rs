//! `drain`, `ack` and `ping`: what is pending, and its end. A file for each.

mod ack;
mod drain;
mod ping;

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
    /// From the environment, with the connections open that the first event needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let connections = ConnectionsApi::from_env(&sdk, env)?;
        let limiter = Limiter::from_env(connections.clone(), env)?;
        let fanout = Fanout::new(store.clone(), connections);
        tokio::join!(warm_up(&store, WarmTable::Inbox), fanout.warm_up());
        Ok(Self { store, fanout, limiter, clock: Clock::system() })
    }
}

/// Answers one event on the routes `drain`, `ack` and `ping`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        Action::Drain(request) => drain::drain(deps, caller, &request, line).await,
        Action::Ack(request) => ack::ack(deps, caller, &request, line).await,
        Action::Ping(_) => ping::ping(deps, caller).await,
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}
