//! `@connections`: how a function posts to a socket, looks at it, or closes it.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use time::format_description::well_known::Rfc3339;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::events::SOURCE_IP;
use super::{FRAME_BYTES_MAX, Gateway};

pub(super) async fn post(State(gateway): State<Arc<Gateway>>, Path(id): Path<String>, body: Body) -> Response {
    let Some(connection) = gateway.connections.get(&id) else {
        return gone();
    };
    let Ok(data) = to_bytes(body, FRAME_BYTES_MAX).await else {
        return fail(StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeException", "The data is more than a frame holds");
    };
    let Ok(text) = String::from_utf8(data.into()) else {
        return fail(StatusCode::BAD_REQUEST, "BadRequestException", "The data is not UTF-8");
    };
    match connection.send(text) {
        Ok(()) => {
            gateway.count("MessageCount");
            StatusCode::OK.into_response()
        }
        Err(_) => fail(StatusCode::TOO_MANY_REQUESTS, "LimitExceededException", "The client side buffer is full"),
    }
}

pub(super) async fn look(State(gateway): State<Arc<Gateway>>, Path(id): Path<String>) -> Response {
    let Some(connection) = gateway.connections.get(&id) else {
        return gone();
    };
    let origin = &connection.origin;
    axum::Json(json!({
        "connectedAt": origin.connected_at.format(&Rfc3339).unwrap_or_default(),
        "identity": { "sourceIp": SOURCE_IP, "userAgent": origin.user_agent },
        "lastActiveAt": connection.last_active_at().format(&Rfc3339).unwrap_or_default(),
    }))
    .into_response()
}

pub(super) async fn close(State(gateway): State<Arc<Gateway>>, Path(id): Path<String>) -> Response {
    let Some(connection) = gateway.connections.get(&id) else {
        return gone();
    };
    connection.close(CloseFrame { code: CloseCode::Normal, reason: "Connection Closed Normally".into() });
    StatusCode::NO_CONTENT.into_response()
}

fn gone() -> Response {
    fail(StatusCode::GONE, "GoneException", "Gone")
}

fn fail(status: StatusCode, error_type: &'static str, message: &str) -> Response {
    (status, [("x-amzn-errortype", error_type)], axum::Json(json!({ "message": message }))).into_response()
}
