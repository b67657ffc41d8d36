//! `send`, `edit`, `delete` and `react`: appends an entry to a conversation, then tells whoever is connected. A file for messages, and
//! one for what becomes of them.
//!
//! Durable before delivered: no frame leaves and no answer is given before the transaction has committed. After it, nothing
//! may fail the request: what does not arrive is pending.

mod change;
mod send;

use std::time::Duration;

use actions::{Appended, SendLimits, tell_appended};
use change::{apply, delete, edit, react};
use deliver::Fanout;
use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer,
    count, env, millis_between, rate, sdk_config,
};
use store::{Store, WarmTable, warm_up};
use wire::{Action, DeleteResult, EditResult, ReactResult, Refusal, SendResult, Timestamp};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    pub limiter: Limiter,
    pub limits: SendLimits,
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
        let kept_for = Duration::from_hours(24) * u32::try_from(count("AUDIT_DAYS")?).unwrap_or(u32::MAX);
        let members_max = u64::try_from(count("GROUP_MEMBERS_MAX")?).unwrap_or(u64::MAX);
        let (sends, first_messages) = (rate("SEND_RATE", env)?, rate("FIRST_MESSAGE_RATE", env)?);
        let limits = SendLimits::new(sends, first_messages, kept_for, members_max);
        let fanout = Fanout::new(store.clone(), connections);
        tokio::join!(warm_up(&store, WarmTable::Inbox), fanout.warm_up());
        Ok(Self { store, fanout, limiter, limits, clock: Clock::system() })
    }
}

/// Answers one event on the routes `send`, `edit`, `delete` and `react`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        Action::Send(request) => send::send(deps, caller, request, line).await,
        Action::Edit(request) => Ok(EditResult(apply(deps, caller, edit(request), line).await?).into()),
        Action::Delete(request) => Ok(DeleteResult(apply(deps, caller, delete(request), line).await?).into()),
        Action::React(request) => Ok(ReactResult(apply(deps, caller, react(request), line).await?).into()),
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}

/// After the commit: nothing may fail the request any more. A duplicate is told again: the first run may have died right after its
/// commit.
async fn tell(
    deps: &Deps,
    caller: &Caller,
    started: Timestamp,
    appended: Appended,
    line: &mut EventLine,
) -> SendResult {
    let stored_at = deps.clock.now();
    let delivered = tell_appended(&deps.store, &deps.fanout, stored_at, &appended, Some(&caller.connection)).await;
    line.seq = Some(appended.place.seq);
    line.measures.store_ms = Some(millis_between(started, stored_at));
    line.measures.fanout_ms = Some(millis_between(stored_at, deps.clock.now()));
    let left = delivered.iter().filter(|to| to.user != caller.user && to.frames.posted == 0).count();
    line.measures.left_pending = Some(left as u64);
    line.frames(delivered.iter().map(|to| to.frames));
    appended.into_result()
}
