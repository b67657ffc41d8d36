//! `device`: where the phone of a connection can be rung.

use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, Event, EventLine, Limiter, Response, answer, count, env,
    sdk_config,
};
use store::Store;
use wire::{Action, Refusal};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub limiter: Limiter,
    pub clock: Clock,
}

impl Deps {
    /// From the environment.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let limiter = Limiter::from_env(ConnectionsApi::from_env(&sdk, env)?, env)?;
        Ok(Self { store, limiter, clock: Clock::system() })
    }
}

/// Answers one event on the route `device`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let act = async |_: &Caller, action, _: &mut EventLine| match action {
        Action::Device(_) => Err(Refusal::bad_request("platform", "this server notifies no phones").into()),
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}
