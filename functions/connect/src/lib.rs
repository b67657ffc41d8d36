//! `$connect`, `$disconnect` and `$default`: sockets that come and go, and frames that no other route takes.

use domain::{ConnectionId, DeviceId, Refusal};
use lambda::{Call, Clock, Diagnostic, Event, Response, caller, respond};
use store::Store;
use store::connections::{self, Connection};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub clock: Clock,
}

/// The subprotocol that browsers offer beside their token, and the only one we select.
const SUBPROTOCOL: &str = "pigeonhole.v1";

/// Answers one event on the routes `$connect`, `$disconnect` and `$default`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    // Not by route: a client can put any route's name into its frame.
    match event.payload.request_context.event_type.as_deref() {
        Some("CONNECT") => connect(deps, event).await,
        Some("DISCONNECT") => disconnect(deps, event).await,
        _ => fallback(deps, &event),
    }
}

/// Notes where the user can be reached. The socket opens only if that succeeded, so that whoever is connected is found.
/// Nothing is posted from here: the socket does not exist until this has answered. The client's first `drain` fetches
/// what it missed.
async fn connect(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let (started, caller) = (deps.clock.now(), caller(&event.payload)?);
    let status = match device(&event) {
        Err(()) => 400,
        Ok(device) => {
            let connection = Connection { id: caller.connection.clone(), connected_at: caller.connected_at };
            match connections::put(&deps.store, &caller.user, &connection, device.as_ref()).await {
                Ok(()) => 200,
                Err(error) => {
                    tracing::error!(%error, request_id = event.context.request_id, "the connection is not noted");
                    503
                }
            }
        }
    };
    log(deps, &event, &caller.connection, started, status, "connect");
    let mut response = respond(status, None);
    if offers_subprotocol(&event) {
        response.headers.insert("Sec-WebSocket-Protocol", http::HeaderValue::from_static(SUBPROTOCOL));
    }
    Ok(response)
}

/// Best effort on API Gateway's side, and so on ours: a row that stays falls to a 410 or to its TTL.
async fn disconnect(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let (started, caller) = (deps.clock.now(), caller(&event.payload)?);
    let status = match connections::forget(&deps.store, &caller.user, &caller.connection).await {
        Ok(()) => 200,
        Err(error) => {
            tracing::error!(%error, request_id = event.context.request_id, "the connection keeps its row until its TTL");
            503
        }
    };
    log(deps, &event, &caller.connection, started, status, "disconnect");
    Ok(respond(status, None))
}

/// A frame that names no route: the reader of frames says what is wrong with it.
fn fallback(deps: &Deps, event: &Event) -> Result<Response, Diagnostic> {
    let (call, asked) = Call::open(event, deps.clock.now())?;
    let outcome = asked.and_then(|_| Err(Refusal::UnknownAction.into()));
    Ok(call.close(outcome, deps.clock.now()))
}

fn device(event: &Event) -> Result<Option<DeviceId>, ()> {
    let device = event.payload.query_string_parameters.first("device_id");
    device.map(|text| DeviceId::parse(text).map_err(|_| ())).transpose()
}

/// A browser closes a socket whose server selects nothing of what it offered, or something else
/// (RFC 6455, section 4.1). It offers its token here too, which must never be echoed.
fn offers_subprotocol(event: &Event) -> bool {
    let offered = event.payload.headers.get_all("sec-websocket-protocol");
    let multi = event.payload.multi_value_headers.get_all("sec-websocket-protocol");
    let mut lists = offered.iter().chain(multi.iter()).filter_map(|list| list.to_str().ok());
    lists.any(|list| list.split(',').any(|protocol| protocol.trim() == SUBPROTOCOL))
}

fn log(deps: &Deps, event: &Event, connection: &ConnectionId, started: domain::Timestamp, status: i64, what: &str) {
    let outcome = match status {
        200 => "ok",
        400 => "bad_request",
        _ => "unavailable",
    };
    tracing::info!(
        request_id = event.context.request_id,
        route = event.payload.request_context.route_key,
        connection_id = connection.as_str(),
        outcome,
        status,
        duration_ms = deps.clock.now().millis() - started.millis(),
        "{what}"
    );
}
