//! The way into a socket: upgrade request, authorizer, `$connect`, and only then the 101.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::events::{self, Handshake, Origin};
use super::policy::{Verdict, evaluate};
use super::query::Query;
use super::{Gateway, ProxyAnswer, random_id, refuse, socket};
use crate::functions::FunctionError;

pub(super) async fn upgrade(State(gateway): State<Arc<Gateway>>, mut request: Request) -> Response {
    let Some(accept) = accept_key(request.headers()) else {
        gateway.count("ClientError");
        return refuse(StatusCode::UPGRADE_REQUIRED, "Upgrade Required");
    };
    let Some(query) = Query::parse(request.uri().query().unwrap_or_default()) else {
        gateway.count("ClientError");
        return refuse(StatusCode::BAD_REQUEST, "Bad Request");
    };
    let socket = hyper::upgrade::on(&mut request);
    let headers = std::mem::take(request.headers_mut());
    // In a task of its own, so that a client who hangs up half way still gets its $disconnect after a $connect.
    let connecting = Arc::clone(&gateway).connect(headers, query, accept, socket);
    let connected = gateway.tasks.spawn(connecting).await;
    connected.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// The answer to the client's challenge, if this is a WebSocket handshake.
fn accept_key(headers: &HeaderMap) -> Option<HeaderValue> {
    let says = |name: HeaderName, expected: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(expected))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    let asked = says(CONNECTION, "upgrade") && says(UPGRADE, "websocket") && says(SEC_WEBSOCKET_VERSION, "13");
    if asked { derive_accept_key(key.as_bytes()).parse().ok() } else { None }
}

impl Gateway {
    async fn connect(
        self: Arc<Self>,
        headers: HeaderMap,
        query: Query,
        accept: HeaderValue,
        io: OnUpgrade,
    ) -> Response {
        if !self.throttles.admit(self.api.throttle, "$connect") {
            self.count("ClientError");
            return refuse(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests");
        }
        let handshake = Handshake { headers: &headers, query: &query };
        let mut origin = Origin {
            api_id: self.api.logical_id.clone(),
            stage: self.api.stage.clone(),
            domain: self.domain.clone(),
            connection_id: random_id(),
            connected_at: OffsetDateTime::now_utc(),
            user_agent: events::user_agent(&headers),
            authorizer: None,
        };
        if let Some(authorizer) = &self.api.authorizer {
            match self.authorize(authorizer, &origin, &handshake).await {
                Ok(context) => origin.authorizer = Some(context),
                Err(refusal) => return refusal,
            }
        }
        let protocol = match self.connect_route(&origin, &handshake).await {
            Ok(protocol) => protocol,
            Err(refusal) => return refusal,
        };
        let serving = socket::serve(Arc::clone(&self), origin, io);
        self.tasks.spawn(serving);

        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if let Some(protocol) = protocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }

    async fn authorize(
        &self,
        function: &str,
        origin: &Origin,
        handshake: &Handshake<'_>,
    ) -> Result<Map<String, Value>, Response> {
        let started = Instant::now();
        // What API Gateway says when an authorizer fails in any other way than by throwing "Unauthorized".
        let failed = || (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(json!({ "message": null }))).into_response();
        let answer = match self.invoke(function, &events::authorize(origin, handshake)).await {
            Ok(answer) => answer,
            Err(FunctionError::Raised { message, .. }) if message == "Unauthorized" => {
                self.count("ClientError");
                return Err(refuse(StatusCode::UNAUTHORIZED, "Unauthorized"));
            }
            Err(_) => return Err(failed()),
        };
        match evaluate(&answer, &events::method_arn(origin)) {
            Verdict::Allowed(mut context) => {
                let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                context.insert("integrationLatency".to_owned(), json!(latency_ms));
                Ok(context)
            }
            Verdict::Denied => {
                self.count("ClientError");
                Err(refuse(StatusCode::FORBIDDEN, "User is not authorized to access this resource"))
            }
            Verdict::Malformed => {
                self.log_failure(function, "malformed authorizer response");
                Err(failed())
            }
        }
    }

    /// Runs `$connect`, if the API has it. Returns the subprotocol that the function selected.
    async fn connect_route(&self, origin: &Origin, handshake: &Handshake<'_>) -> Result<Option<HeaderValue>, Response> {
        let Some(route) = self.api.routes.get("$connect") else {
            return Ok(None);
        };
        self.count("ConnectCount");
        let Some(answer) = self.integrate(&route.function, &events::connect(origin, handshake)).await else {
            return Err(refuse(StatusCode::BAD_GATEWAY, "Internal server error"));
        };
        if (200..300).contains(&answer.status_code) {
            return Ok(selected_protocol(&answer));
        }
        let status = StatusCode::from_u16(answer.status_code).unwrap_or(StatusCode::BAD_GATEWAY);
        Err((status, answer.body.unwrap_or_default()).into_response())
    }
}

fn selected_protocol(answer: &ProxyAnswer) -> Option<HeaderValue> {
    // In AWS's spelling only: API Gateway's handling of another one is unknown.
    answer.headers.as_ref()?.get("Sec-WebSocket-Protocol")?.as_str()?.parse().ok()
}
