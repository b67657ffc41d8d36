//! Events on routes of API Gateway, of sockets and over HTTP: the caller, the request and the reply.

use std::collections::BTreeMap;
use std::pin::pin;

use actions::Actions;
use domain::{ConnectionId, Failure};
use lambda_runtime::Diagnostic;
use serde::Serialize;
use serde_json::{Value, json};
use tracing::Instrument as _;
use wire::limits::FRAME_BYTES_MAX;
use wire::{ACTIONS, Action, Refusal, Rejected, Reply, Request, Timestamp, UserId, error_frame, reply_frame};

use crate::caller::{Caller, caller};
use crate::event_line::EventLine;
use crate::{Clock, InvocationEvent, Limiter, http};

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

/// Handles a request of a user: parses the caller and the request, calls `act`, and logs the one line with the outcome. `act` serves
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
    let route = event.payload.http_route();
    let frame = http::frame(&event.payload);
    let parsed = route.map_or_else(|| Request::parse(&frame), |action| Request::parse_at(action, &frame));
    let (name, id, asked) = match parsed {
        Ok(Request { id, action }) => (Some(action.name().to_owned()), id, Ok(action)),
        Err(Rejected { action, id, refusal }) => (action, id, Err(refusal)),
    };
    let asked = if caller.token_expires_at <= started { Err(Refusal::TokenExpired) } else { asked };
    let asked = http::check(&event.payload, &caller, false).and(asked);
    // Log lines of the request belong to its event.
    let span = tracing::info_span!(
        "event",
        request_id = line.request_id,
        route = line.route,
        connection_id = caller.connection().ok().map(ConnectionId::as_str),
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
            let asked = A::try_from(asked?)?;
            if route.is_some() {
                http::check_suspended(limiter.store(), &caller.user, started).await?;
            }
            Box::pin(act(&caller, asked, &mut line)).await.map(Into::into)
        });
        limiter.charged(&caller, admitted, || clock.now(), acting).instrument(span).await
    };
    let replies = ACTIONS.iter().all(|action| action.replies || name.as_deref() != Some(action.name));
    let frame = match &outcome {
        Ok(reply) => reply.as_ref().map(|reply| reply_frame(name.as_deref().unwrap_or_default(), id.as_ref(), reply)),
        Err(failure) => Some(error_frame(name.as_deref(), id.as_ref(), failure.refusal())),
    };
    // API Gateway counts a status above 400 on a socket's route as a failure of the function.
    let status = if route.is_some() { http::status(&outcome) } else { 200 };
    line.status = route.map(|_| status);
    line.write(&outcome, clock.now());
    let response = respond(status, frame.filter(|_| replies));
    Ok(if route.is_some() { response.of_json() } else { response })
}

/// Handles a request of a service over HTTP. `act` gets the operation and the fields.
///
/// # Errors
/// [`NotFromApiGateway`], for which API Gateway sends its own error.
pub async fn answer_service(
    actions: &Actions,
    event: InvocationEvent,
    act: impl AsyncFnOnce(&UserId, &str, Value, &mut EventLine) -> Result<Value, Failure>,
) -> Result<Response, Diagnostic> {
    let (caller, started) = (caller(&event.payload)?, actions.clock.now());
    let mut line = line(&event, &caller, started);
    let op = event.payload.path_parameters.get("op").cloned().unwrap_or_default();
    "backend".clone_into(&mut line.route);
    let frame = http::frame(&event.payload);
    let outcome = async {
        http::check(&event.payload, &caller, true)?;
        if caller.token_expires_at <= started {
            return Err(Refusal::TokenExpired.into());
        }
        if frame.len() > FRAME_BYTES_MAX {
            return Err(Refusal::TooLarge { field: "frame", problem: "must be at most 32 KiB".into() }.into());
        }
        let request = serde_json::from_str(&frame).ok().filter(Value::is_object);
        let request = request.ok_or_else(|| Refusal::bad_request("frame", "must be a JSON object"))?;
        http::check_suspended(&actions.store, &caller.user, started).await?;
        act(&caller.user, &op, request, &mut line).await
    }
    .await;
    let frame = match &outcome {
        Ok(result) => json!({"type": "reply", "action": op, "result": result}).to_string(),
        Err(failure) => error_frame(Some(&op), None, failure.refusal()),
    };
    let status = http::status(&outcome);
    line.status = Some(status);
    line.write(&outcome, actions.clock.now());
    Ok(respond(status, Some(frame)).of_json())
}

/// The beginning of an event's line.
pub fn line(event: &InvocationEvent, caller: &Caller, started: Timestamp) -> EventLine {
    let key = event.payload.request_context.route_key.as_deref().unwrap_or_default();
    EventLine::of(&event.context.request_id, event.payload.http_route().unwrap_or(key), started).of_caller(caller)
}

impl Response {
    fn of_json(mut self) -> Self {
        self.headers.insert("content-type", "application/json");
        self
    }
}

/// A response with a status, which matters on `$connect` and over HTTP, and a frame.
pub fn respond(status: i64, frame: Option<String>) -> Response {
    Response { status_code: status, headers: BTreeMap::new(), body: frame }
}
