//! The caller of an event on a WebSocket route.

use aws_lambda_events::apigw::ApiGatewayWebsocketProxyRequest as WebSocketEvent;
use domain::ConnectionId;
use lambda_runtime::Diagnostic;
use serde_json::Value;
use wire::{DeviceId, Timestamp, UserId};

/// The caller, and the connection. Never from a body: the authorizer verified the token, and API Gateway repeats its
/// result on every event of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    pub connection: ConnectionId,
    pub connected_at: Timestamp,
    pub token_expires_at: Timestamp,
    /// The client's name of its device, if given at the connect.
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
