//! A socket that opens.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use actions::{Actions, forget_watched};
use deliver::Closed;
use domain::Failure;
use domain::limits::REMEMBERED_MAX;
use lambda::{Caller, Diagnostic, EventLine, InvocationEvent, Response, caller, line, respond};
use store::connections::{self, Connection, Freshness};
use wire::{DeviceId, Refusal, Timestamp, UserId};

use crate::{Deps, presence, status};

/// The subprotocol that browsers offer beside their token, and the only one we select.
const SUBPROTOCOL: &str = "pigeonhole.v1";

/// Notes where the user can be reached, and closes the oldest of more connections than a user may have. The socket opens only if
/// that succeeded, so that whoever is connected is found.
/// Nothing is posted to it from here: the socket does not exist until this has answered. The client's first `drain` fetches
/// what it missed.
pub(crate) async fn connect(deps: &Deps, event: &InvocationEvent) -> Result<Response, Diagnostic> {
    let caller = caller(&event.payload)?;
    let mut line = line(event, &caller, deps.actions.clock.now());
    let outcome = note(deps, &caller, event, &mut line).await;
    let status = status(&outcome);
    line.status = Some(status);
    line.write(&outcome, deps.actions.clock.now());
    let mut response = respond(status, None);
    if offers_subprotocol(event) {
        response.headers.insert("Sec-WebSocket-Protocol", SUBPROTOCOL);
    }
    Ok(response)
}

async fn note(deps: &Deps, caller: &Caller, event: &InvocationEvent, line: &mut EventLine) -> Result<(), Failure> {
    let device = event.payload.query_string_parameters.get("device_id").map(|id| DeviceId::parse(id)).transpose();
    let device = device.map_err(|invalid| Refusal::bad_request("device_id", invalid.to_string()))?;
    let (id, Caller { user, connected_at, token_expires_at, .. }) = (caller.connection()?, caller);
    deps.suspensions.refuse(&deps.actions, user).await?;
    let connection = Connection::new(id.clone(), *connected_at, *token_expires_at);
    connections::put(&deps.actions.store, user, &connection, device.as_ref()).await?;
    // Only now: of two that open at the same time, and of one that opens beside a suspension, one sees the other.
    let now = deps.actions.clock.now();
    let listed = connections::list(&deps.actions.store, user, now, Freshness::Strong).await?;
    if let Some(until) = listed.suspended_until {
        deps.suspensions.note(user, until);
        connections::forget(&deps.actions.store, user, id).await?;
        return Err(Refusal::Forbidden.into());
    }
    for Closed { connection, watched } in deps.actions.fanout.tidy(now, user, &listed).await {
        // Its `$disconnect` finds no row any more that says so.
        forget_watched(&deps.actions.store, &connection, &watched).await;
    }
    presence::opened(deps, user, &listed, line).await;
    Ok(())
}

/// The ends of the suspensions for which this process has refused users.
#[derive(Debug, Default)]
pub struct Suspensions(Mutex<HashMap<UserId, Timestamp>>);

impl Suspensions {
    /// Refuses a suspended user who tries again, for one read and no write. The read finds an operator's end of the
    /// suspension.
    async fn refuse(&self, actions: &Actions, user: &UserId) -> Result<(), Failure> {
        let now = actions.clock.now();
        if self.noted().get(user).is_none_or(|until| *until <= now) {
            return Ok(());
        }
        if connections::suspended_until(&actions.store, user, now, Freshness::Strong).await?.is_some() {
            return Err(Refusal::Forbidden.into());
        }
        self.noted().remove(user);
        Ok(())
    }

    fn note(&self, user: &UserId, until: Timestamp) {
        let mut noted = self.noted();
        if noted.len() >= REMEMBERED_MAX {
            noted.clear();
        }
        noted.insert(user.clone(), until);
    }

    /// Locks the map, never across an await. After a panic, the times are still valid.
    fn noted(&self) -> MutexGuard<'_, HashMap<UserId, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the client offers the subprotocol. A browser closes a socket whose server selects none of its offers, or
/// another one (RFC 6455, section 4.1). The offers of a browser include its token, which must never be echoed.
fn offers_subprotocol(event: &InvocationEvent) -> bool {
    let mut lists = event.payload.header("sec-websocket-protocol");
    lists.any(|list| list.split(',').any(|protocol| protocol.trim() == SUBPROTOCOL))
}
