//! `presence`: reports which users are online, and sends the changes to the connections that watch them.

use std::time::Duration;

use deliver::{Delivered, FAN_OUT_TIMEOUT};
use domain::{Failure, Noted, Observer, Observers, error_chain};
use futures_util::future::{join_all, try_join_all};
use lambda::{Caller, EventLine};
use store::connections::{self, Connection, Connections, Freshness};
use store::inbox;
use tokio::time::timeout;
use wire::{Presence, PresenceRequest, PresenceResult, Reply, ServerEvent, Timestamp, UserId, direct_conversation_id};

use crate::Deps;

/// Connections that open within this time may each take the other for the first one.
const AT_THE_SAME_TIME: Duration = Duration::from_secs(10);

/// Reports on the requested users who have written to the caller, unless one blocks the other.
pub(crate) async fn presence(deps: &Deps, caller: &Caller, request: &PresenceRequest) -> Result<Reply, Failure> {
    let asked: &[UserId] = if deps.presence { &request.user_ids } else { &[] };
    let found = try_join_all(asked.iter().map(|user| of(deps, caller, user, request.watch))).await?;
    let mut result = PresenceResult { users: vec![], watched: vec![] };
    for (presence, is_watched) in found.into_iter().flatten() {
        result.watched.extend(is_watched.then(|| presence.user_id.clone()));
        result.users.push(presence);
    }
    Ok(result.into())
}

async fn of(deps: &Deps, caller: &Caller, user: &UserId, watch: bool) -> Result<Option<(Presence, bool)>, Failure> {
    if !may_see(deps, &caller.user, user).await? {
        return Ok(None);
    }
    let (store, now) = (&deps.actions.store, deps.actions.clock.now());
    let mut listed = connections::list(store, user, now, Freshness::Eventual).await?;
    let noted = if watch { note_observer(deps, caller, user, &listed).await } else { None };
    // The user came or went between the list and the write, and found no observer.
    if noted.is_some() && noted != listed.last_seen_at {
        listed = connections::list(store, user, now, Freshness::Strong).await?;
    }
    let online = !listed.reachable().is_empty();
    let last_seen_at = listed.last_seen_at.map(Timestamp::to_the_minute);
    Ok(Some((Presence { user_id: user.clone(), online, last_seen_at }, noted.is_some())))
}

/// Whether `viewer` may know if the user is there.
async fn may_see(deps: &Deps, viewer: &UserId, user: &UserId) -> Result<bool, Failure> {
    let row = inbox::get(&deps.actions.store, viewer, &direct_conversation_id(viewer, user)).await;
    let row = store::if_readable(row, "a row of an inbox")?.flatten();
    Ok(row.is_some_and(|row| row.sees_peer()))
}

/// Notes that the caller's connection watches the user. Returns when the user was last seen at that time; `None` if the
/// connection does not watch. A client then requests the presence again.
async fn note_observer(deps: &Deps, caller: &Caller, user: &UserId, listed: &Connections) -> Option<Timestamp> {
    let (connection, Caller { user: observer, connected_at, token_expires_at, .. }) =
        (caller.connection().ok()?, caller);
    let ends_at = Connection::new(connection.clone(), *connected_at, *token_expires_at).ends_at;
    match listed.observers.note(observer, connection, ends_at, deps.actions.clock.now()) {
        Noted::Already => listed.last_seen_at,
        Noted::Full => None,
        Noted::Room(observers) => {
            match connections::observe(&deps.actions.store, user, &listed.observers, &observers).await {
                Ok(last_seen_at) => last_seen_at,
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), "a watch of a user's presence was not written");
                    None
                }
            }
        }
    }
}

/// Notes that the user was there. If that can't be written, the earlier time stays.
async fn note(deps: &Deps, user: &UserId) -> Observers {
    if !deps.presence {
        return Observers::default();
    }
    connections::seen(&deps.actions.store, user, deps.actions.clock.now()).await.unwrap_or_else(|error| {
        tracing::warn!(error = error_chain(&error), "the last-seen time was not written");
        Observers::default()
    })
}

/// Notes that a connection has opened. Sends the event if no earlier one is open.
pub(crate) async fn opened(deps: &Deps, user: &UserId, listed: &Connections, line: &mut EventLine) {
    let observers = note(deps, user).await;
    let now = deps.actions.clock.now();
    let is_earlier = |open: &connections::Open| now.since(open.connection.connected_at) >= AT_THE_SAME_TIME;
    if observers.live(now).next().is_some() && !listed.open.iter().any(is_earlier) {
        tell_until_true(deps, user, &observers, true, line).await;
    }
}

/// Notes that a connection has closed. Sends the event if it was the last one; only then the others are read.
pub(crate) async fn closed(deps: &Deps, user: &UserId, line: &mut EventLine) {
    let (observers, now) = (note(deps, user).await, deps.actions.clock.now());
    if observers.live(now).next().is_some() && is_online(deps, user).await == Some(false) {
        tell_until_true(deps, user, &observers, false, line).await;
    }
}

/// Sends the event. Another process may send the opposite one before: then the event is no longer true, and the current
/// one follows.
async fn tell_until_true(deps: &Deps, user: &UserId, observers: &Observers, online: bool, line: &mut EventLine) {
    tell(deps, user, observers, online, line).await;
    if is_online(deps, user).await == Some(!online) {
        tell(deps, user, observers, !online, line).await;
    }
}

async fn is_online(deps: &Deps, user: &UserId) -> Option<bool> {
    match connections::list(&deps.actions.store, user, deps.actions.clock.now(), Freshness::Strong).await {
        Ok(listed) => Some(!listed.open.is_empty()),
        Err(error) => {
            tracing::warn!(error = error_chain(&error), "a user's connections were not read; no event was sent");
            None
        }
    }
}

/// Sends the event to the connections that watch the user and still may.
async fn tell(deps: &Deps, user: &UserId, observers: &Observers, online: bool, line: &mut EventLine) {
    let now = deps.actions.clock.now();
    let presence = Presence { user_id: user.clone(), online, last_seen_at: Some(now.to_the_minute()) };
    let posts = observers.live(now).map(async |Observer { user: observer, connection, .. }| {
        match may_see(deps, observer, user).await {
            Ok(true) => {
                let event = ServerEvent::Presence(presence.clone());
                deps.actions.fanout.post_to(observer, connection, std::iter::once(event)).await
            }
            Ok(false) => Delivered::nothing(observer),
            Err(failure) => {
                tracing::warn!(error = error_chain(&failure), "a conversation was not read; no event was sent");
                Delivered::failed(observer)
            }
        }
    });
    if let Ok(delivered) = timeout(FAN_OUT_TIMEOUT, join_all(posts)).await {
        line.frames(delivered.iter().map(|to| to.frames));
    } else {
        tracing::warn!("events about a user's presence timed out");
    }
}
