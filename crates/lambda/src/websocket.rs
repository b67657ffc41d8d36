//! Events on WebSocket routes: the caller, the request and the reply.

use std::collections::BTreeMap;
use std::pin::pin;

use domain::Failure;
use lambda_runtime::Diagnostic;
use serde::Serialize;
use tracing::Instrument as _;
use wire::{ACTIONS, Action, Refusal, Rejected, Reply, Request, Timestamp, error_frame, reply_frame};

use crate::caller::{Caller, caller};
use crate::event_line::EventLine;
use crate::{Clock, InvocationEvent, Limiter};

/// The response to API Gateway. The type is ours, because `aws_lambda_events` writes header names in lower case. No page of
/// AWS promises that API Gateway accepts `sec-websocket-protocol` for `Sec-WebSocket-Protocol`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    pub status_code: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<&'static str, &'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// Handles a frame: parses the caller and the request, calls `act`, and logs the one line with the outcome. `act` serves
/// the actions of its function, and adds fields to the line. An action without a reply has no error frame either.
///
/// # Errors
/// [`NotFromApiGateway`], for which API Gateway sends its own error.
pub async fn answer<A: TryFrom<Action, Error = Refusal>, R: Into<Option<Reply>>>(
    clock: &Clock,
    limiter: &Limiter,
    event: InvocationEvent,
    act: impl AsyncFnOnce(&Caller, A, &mut EventLine) -> Result<R, Failure>,
) -> Result<Response, Diagnostic> {
    let (caller, started) = (caller(&event.payload)?, clock.now());
    let mut line = line(&event, &caller, started);
    let frame = event.payload.body.as_deref().unwrap_or_default();
    let (name, id, asked) = match Request::parse(frame) {
        Ok(Request { id, action }) => (Some(action.name().to_owned()), id, Ok(action)),
        Err(Rejected { action, id, refusal }) => (action, id, Err(refusal)),
    };
    let asked = if caller.token_expires_at <= started { Err(Refusal::TokenExpired) } else { asked };
    // Log lines of the request belong to its event.
    let span = tracing::info_span!(
        "event",
        request_id = line.request_id,
        route = line.route,
        connection_id = caller.connection.as_str(),
    );
    // An unreadable request counts too. If both apply, the error is `rate_limited`.
    let request_id = event.payload.request_context.request_id.as_deref().unwrap_or_default();
    let admitted = limiter.admit(&caller, request_id, started).instrument(span.clone()).await;
    let (admitted, asked) = match admitted {
        Ok(admitted) => (Some(admitted), asked),
        Err(refusal) => (None, asked.and(Err(refusal))),
    };
    let outcome: Result<Option<Reply>, Failure> = {
        let acting = pin!(async {
            // Boxed: the states of a function's actions are on the stack once, and not again with each future around them.
            Box::pin(act(&caller, A::try_from(asked?)?, &mut line)).await.map(Into::into)
        });
        limiter.charged(&caller, admitted, || clock.now(), acting).instrument(span).await
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
