//! `inbox` and `history`: the chat list, and what was said. A file for each.

mod history;
mod inbox;

use lambda::{BadVariable, Caller, Clock, Diagnostic, Event, EventLine, Response, answer, env, sdk_config};
use store::{Store, WarmTable, warm_up};
use wire::{Action, Refusal};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub clock: Clock,
}

impl Deps {
    /// From the environment, with the connection open that the first event needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let store = Store::from_env(&sdk_config().await, env)?;
        warm_up(&store, WarmTable::Inbox).await;
        Ok(Self { store, clock: Clock::system() })
    }
}

/// Answers one event on the routes `inbox` and `history`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        Action::Inbox(request) => inbox::inbox(deps, &caller.user, request, line).await,
        Action::History(request) => history::history(deps, &caller.user, request, line).await,
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, event, act).await
}
