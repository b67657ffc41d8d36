//! The caller of an event: of a socket's frame, or of a request over HTTP.

use domain::{ConnectionId, Origin};
use lambda_runtime::Diagnostic;
use serde_json::Value;
use wire::{DeviceId, Refusal, Timestamp, UserId};

use crate::event::ApiEvent;

/// The header that names the device over HTTP.
pub(crate) const DEVICE_HEADER: &str = "x-device-id";

/// The caller, and where the request came from. Never from a body: the authorizer verified the token, and API Gateway
/// repeats its result on every event of the socket, or of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    /// `None` over HTTP without a device.
    pub origin: Option<Origin>,
    /// When the socket opened.
    pub connected_at: Timestamp,
    pub token_expires_at: Timestamp,
    /// The client's name of its device, if given.
    pub device: Option<DeviceId>,
}

impl Caller {
    /// Returns the socket.
    ///
    /// # Errors
    /// The request came over HTTP, where no action of sockets has a route.
    pub fn connection(&self) -> Result<&ConnectionId, Refusal> {
        match &self.origin {
            Some(Origin::Connection(id)) => Ok(id),
            Some(Origin::Device(_)) | None => Err(Refusal::UnknownAction),
        }
    }
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
pub fn caller(event: &ApiEvent) -> Result<Caller, NotFromApiGateway> {
    let context = &event.request_context;
    let fields = &context.authorizer.fields;
    let is_http = event.http_route().is_some();
    let over_http = fields.get("lambda").and_then(Value::as_object).filter(|_| is_http);
    let said = |name: &str| over_http.map_or_else(|| fields.get(name), |fields| fields.get(name));
    let text = |name: &str| said(name).and_then(Value::as_str);
    // Context values arrive as strings, whatever the authorizer returned; accept a number all the same.
    let seconds = said("exp").and_then(|exp| match exp {
        Value::String(digits) => digits.parse::<i64>().ok(),
        other => other.as_i64(),
    });
    let connection = context.connection_id.as_deref();
    if connection.is_none() && !is_http {
        return Err(NotFromApiGateway("requestContext.connectionId"));
    }
    let device = if is_http { event.header(DEVICE_HEADER).next() } else { text("device_id") };
    let device = device.and_then(|id| DeviceId::parse(id).ok());
    let origin = connection.map(|id| Origin::Connection(ConnectionId::new(id)));
    Ok(Caller {
        user: text("principalId")
            .and_then(|id| UserId::parse(id).ok())
            .ok_or(NotFromApiGateway("requestContext.authorizer.principalId"))?,
        origin: origin.or_else(|| device.clone().map(Origin::Device)),
        connected_at: Timestamp::from_millis(context.connected_at),
        token_expires_at: seconds
            .map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)))
            .ok_or(NotFromApiGateway("requestContext.authorizer.exp"))?,
        device,
    })
}
