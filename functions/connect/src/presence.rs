//! `presence`: reports which users are online.

use domain::{Failure, direct_conversation_id, error_chain};
use futures_util::future::try_join_all;
use lambda::Caller;
use store::connections::{self, Freshness};
use store::inbox;
use wire::{Presence, PresenceRequest, PresenceResult, Reply, Timestamp, UserId};

use crate::Deps;

/// Reports on the requested users who have written to the caller, unless one blocks the other.
pub(crate) async fn presence(deps: &Deps, caller: &Caller, request: &PresenceRequest) -> Result<Reply, Failure> {
    let asked: &[UserId] = if deps.presence { &request.user_ids } else { &[] };
    let users = try_join_all(asked.iter().map(|user| of(deps, &caller.user, user))).await?;
    Ok(PresenceResult { users: users.into_iter().flatten().collect() }.into())
}

async fn of(deps: &Deps, caller: &UserId, user: &UserId) -> Result<Option<Presence>, Failure> {
    let row = inbox::get(&deps.actions.store, caller, &direct_conversation_id(caller, user)).await;
    let row = store::if_readable(row, "a row of an inbox")?.flatten();
    if !row.is_some_and(|row| row.sees_peer()) {
        return Ok(None);
    }
    let listed = connections::list(&deps.actions.store, user, deps.actions.clock.now(), Freshness::Eventual).await?;
    let online = !listed.reachable().is_empty();
    let last_seen_at = listed.last_seen_at.map(Timestamp::to_the_minute);
    Ok(Some(Presence { user_id: user.clone(), online, last_seen_at }))
}

/// Notes that the user was there. Where that can't be written, the one before stands.
pub(crate) async fn note(deps: &Deps, user: &UserId) {
    if !deps.presence {
        return;
    }
    if let Err(error) = connections::seen(&deps.actions.store, user, deps.actions.clock.now()).await {
        tracing::warn!(error = error_chain(&error), "the last-seen time was not written");
    }
}
