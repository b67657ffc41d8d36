//! Events on WebSocket routes: who calls and what for; and the answer.

use std::collections::BTreeMap;

use domain::{ConnectionId, Failure};
use lambda_runtime::Diagnostic;
use serde::Serialize;
use serde_json::Value;
use tracing::Instrument as _;
use wire::{ACTIONS, Action, DeviceId, Refusal, Rejected, Reply, Request, Timestamp, UserId, error_frame, reply_frame};

use crate::event_line::EventLine;
use crate::{Clock, InvocationEvent, Limiter, WebSocketEvent};

/// What API Gateway gets back. Ours, since `aws_lambda_events` writes the names of headers in lower case, and nothing says that
/// API Gateway takes `sec-websocket-protocol` for `Sec-WebSocket-Protocol`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    pub status_code: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<&'static str, &'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// Who calls, from where. Never from a body: the authorizer looked at the token, and API Gateway repeats what it found
/// on every event of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    pub connection: ConnectionId,
    pub connected_at: Timestamp,
    pub token_expires_at: Timestamp,
    /// What the client calls its device, if it said so when it connected.
    pub device: Option<DeviceId>,
}

/// An event that API Gateway would not have sent as the template sets it up.
#[derive(Debug, thiserror::Error)]
#[error("the event has no usable {0}: is the route behind the authorizer?")]
pub struct NotFromApiGateway(pub &'static str);

impl From<NotFromApiGateway> for Diagnostic {
    fn from(error: NotFromApiGateway) -> Self {
        Self { error_type: "NotFromApiGateway".to_owned(), error_message: error.to_string() }
    }
}

/// Reads who an event is from.
///
/// # Errors
/// [`NotFromApiGateway`] names what is missing.
pub fn caller(event: &WebSocketEvent) -> Result<Caller, NotFromApiGateway> {
    let context = &event.request_context;
    let principal = context.authorizer.fields.get("principalId").and_then(Value::as_str);
    // Context values arrive as strings, whatever the authorizer returned; accept a number all the same.
    let seconds = context.authorizer.fields.get("exp").and_then(|exp| match exp {
        Value::String(digits) => digits.parse::<i64>().ok(),
        other => other.as_i64(),
    });
    let connection = context.connection_id.as_deref().ok_or(NotFromApiGateway("requestContext.connectionId"))?;
    Ok(Caller {
        user: principal
            .and_then(|id| UserId::parse(id).ok())
            .ok_or(NotFromApiGateway("requestContext.authorizer.principalId"))?,
        connection: ConnectionId::new(connection),
        connected_at: Timestamp::from_millis(context.connected_at),
        token_expires_at: seconds
            .map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)))
            .ok_or(NotFromApiGateway("requestContext.authorizer.exp"))?,
        device: context
            .authorizer
            .fields
            .get("device_id")
            .and_then(Value::as_str)
            .and_then(|id| DeviceId::parse(id).ok()),
    })
}

/// Answers a frame: reads who calls and what for, has `act` do it, and writes the one line that says what came of it. `act` serves
/// the actions of its function, and fills in what of the line it knows. An action that has no answer has none of its errors either.
///
/// # Errors
/// [`NotFromApiGateway`], for which there is no answer but API Gateway's own.
pub async fn answer<R: Into<Option<Reply>>>(
    clock: &Clock,
    limiter: &Limiter,
    event: InvocationEvent,
    act: impl AsyncFnOnce(&Caller, Action, &mut EventLine) -> Result<R, Failure>,
) -> Result<Response, Diagnostic> {
    let (caller, started) = (caller(&event.payload)?, clock.now());
    let mut line = line(&event, &caller, started);
    let frame = event.payload.body.as_deref().unwrap_or_default();
    let (name, id, asked) = match Request::parse(frame) {
        Ok(Request { id, action }) => (Some(action.name().to_owned()), id, Ok(action)),
        Err(Rejected { action, id, refusal }) => (action, id, Err(refusal)),
    };
    let asked = if caller.token_expires_at <= started { Err(Refusal::TokenExpired) } else { asked };
    // What is logged meanwhile says which event it belongs to.
    let span = tracing::info_span!(
        "event",
        request_id = line.request_id,
        route = line.route,
        connection_id = caller.connection.as_str(),
    );
    // What can't be read counts too. Of two reasons to refuse, the other is told.
    let admitted = limiter.admit(&caller, started).instrument(span.clone()).await;
    let outcome = match asked.and_then(|action| admitted.map(|()| action)) {
        Ok(action) => act(&caller, action, &mut line).instrument(span).await.map(Into::into),
        Err(refusal) => Err(refusal.into()),
    };
    let replies = ACTIONS.iter().all(|action| action.replies || name.as_deref() != Some(action.name));
    let frame = match &outcome {
        Ok(reply) => reply.as_ref().map(|reply| reply_frame(name.as_deref().unwrap_or_default(), id.as_ref(), reply)),
        Err(failure) => Some(error_frame(name.as_deref(), id.as_ref(), failure.refusal())),
    };
    line.write(&outcome, clock.now());
    Ok(respond(200, frame.filter(|_| replies)))
}

/// The beginning of an event's line.
pub fn line(event: &InvocationEvent, caller: &Caller, started: Timestamp) -> EventLine {
    let route = event.payload.request_context.route_key.as_deref().unwrap_or_default();
    EventLine::of(&event.context.request_id, route, started).of_connection(&caller.connection, &caller.user)
}

/// A response with a status, which matters on `$connect`, and a frame, which is the route response elsewhere.
pub fn respond(status: i64, frame: Option<String>) -> Response {
    Response { status_code: status, headers: BTreeMap::new(), body: frame }
}
