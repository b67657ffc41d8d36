//! One event on a WebSocket route: who calls and what for; and the answer to it.

use aws_lambda_events::apigw::ApiGatewayProxyResponse;
use aws_lambda_events::encodings::Body;
use domain::{Action, ConnectionId, Refusal, Rejected, Reply, Request, RequestId, Timestamp, UserId, frame_error};
use lambda_runtime::Diagnostic;
use serde_json::Value;
use tracing::Span;

use crate::{Event, WebSocketEvent};

/// What API Gateway gets back.
pub type Response = ApiGatewayProxyResponse;

/// Who calls, from where. Never from a body: the authorizer looked at the token, and API Gateway repeats what it found
/// on every event of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    pub connection: ConnectionId,
    pub connected_at: Timestamp,
    pub token_expires_at: Timestamp,
}

/// An event that API Gateway would not have sent as the template sets it up.
#[derive(Debug, thiserror::Error)]
#[error("the event has no usable {0}: is the route behind the authorizer?")]
pub struct NotFromApiGateway(&'static str);

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
    })
}

/// A message on its way through a function: opened from the event, closed with what came of it.
#[derive(Debug)]
pub struct Call {
    pub caller: Caller,
    action: Option<String>,
    id: Option<RequestId>,
    opened_at: Timestamp,
    span: Span,
}

/// Why an action was not carried out.
#[derive(Debug)]
pub struct Failure {
    refusal: Refusal,
    /// What happened behind the scenes, for the log.
    cause: Option<String>,
}

impl Failure {
    /// A service behind us failed.
    pub fn unavailable(cause: impl std::error::Error) -> Self {
        Self { refusal: Refusal::Unavailable, cause: Some(cause.to_string()) }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, cause: None }
    }
}

impl Call {
    /// Reads the event: who calls, and what the frame asks for, or why it can't be served.
    ///
    /// # Errors
    /// [`NotFromApiGateway`], for which there is no answer but API Gateway's own.
    pub fn open(event: &Event, now: Timestamp) -> Result<(Self, Result<Action, Failure>), NotFromApiGateway> {
        let caller = caller(&event.payload)?;
        let frame = event.payload.body.as_deref().unwrap_or_default();
        let (action, id, asked) = match Request::parse(frame, &caller.user) {
            Ok(Request { id, action }) => (Some(action.name().to_owned()), id, Ok(action)),
            Err(Rejected { action, id, refusal }) => (action, id, Err(refusal)),
        };
        let asked = if caller.token_expires_at <= now { Err(Refusal::TokenExpired) } else { asked };
        let span = tracing::info_span!(
            "event",
            request_id = event.context.request_id,
            route = event.payload.request_context.route_key,
            connection_id = caller.connection.as_str(),
            conversation_id = tracing::field::Empty,
            seq = tracing::field::Empty,
            conflicts = tracing::field::Empty,
            store_ms = tracing::field::Empty,
            push_ms = tracing::field::Empty,
            messages = tracing::field::Empty,
            posted = tracing::field::Empty,
            gone = tracing::field::Empty,
            failed = tracing::field::Empty,
            left_pending = tracing::field::Empty,
        );
        Ok((Self { caller, action, id, opened_at: now, span }, asked.map_err(Failure::from)))
    }

    /// The span of the event, to run the action in, so that what it logs says which event it was.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// The answer, and the one line in the log that says what came of the event.
    pub fn close(self, outcome: Result<Reply, Failure>, now: Timestamp) -> Response {
        let _in_span = self.span.enter();
        let duration_ms = now.millis() - self.opened_at.millis();
        let (action, id) = (self.action.as_deref(), self.id.as_ref());
        match outcome {
            Ok(result) => {
                tracing::info!(outcome = "ok", duration_ms, "answered");
                respond(200, Some(domain::reply(action.unwrap_or_default(), id, &result)))
            }
            Err(Failure { refusal, cause: Some(cause) }) => {
                tracing::error!(outcome = refusal.code(), duration_ms, cause, "failed");
                respond(200, Some(frame_error(action, id, &refusal)))
            }
            Err(Failure { refusal, cause: None }) => {
                tracing::info!(outcome = refusal.code(), duration_ms, "refused");
                respond(200, Some(frame_error(action, id, &refusal)))
            }
        }
    }
}

/// A response with a status, which matters on `$connect`, and a frame, which is the route response elsewhere.
pub fn respond(status: i64, frame: Option<String>) -> Response {
    let mut response = Response::default();
    response.status_code = status;
    response.body = frame.map(Body::Text);
    response
}
