//! Endpoints of the local server alone: tokens for any user, views of the tables, the log and the phones, and the
//! operator's function.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::ACCESS_CONTROL_ALLOW_ORIGIN;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::events::Origin;
use super::{Gateway, Query, refuse};
use crate::phones;
use crate::server::EVENTS_QUEUE;
use crate::tokens::SERVICE_AUDIENCE;

const EXPIRES_IN_S_DEFAULT: u32 = 60 * 60;
const EXPIRES_IN_S_MAX: u32 = 24 * 60 * 60;
const ROWS_MAX: usize = 1000;
/// Where it says whose phone is which endpoint.
const DEVICES_TABLE: &str = "DevicesTable";
/// Where it says what a user has read.
const INBOX_TABLE: &str = "InboxTable";

pub(super) async fn token(State(gateway): State<Arc<Gateway>>, RawQuery(query): RawQuery) -> Response {
    let Some(query) = Query::parse(&query.unwrap_or_default()) else {
        return for_any_page(refuse(StatusCode::BAD_REQUEST, "the query string is malformed"));
    };
    let Some(user) = query.get("user").filter(|user| !user.is_empty()) else {
        return for_any_page(refuse(StatusCode::BAD_REQUEST, "user is missing: GET /token?user=alice"));
    };
    let expires_in_s = query.get("expires_in").map_or(Some(EXPIRES_IN_S_DEFAULT), |seconds| seconds.parse().ok());
    let Some(expires_in_s) = expires_in_s.filter(|seconds| (1..=EXPIRES_IN_S_MAX).contains(seconds)) else {
        return for_any_page(refuse(StatusCode::BAD_REQUEST, "expires_in is a number of seconds from 1 to 86400"));
    };
    for_any_page(page(gateway.tokens.issue(user, expires_in_s).map(|token| json!({ "token": token }))))
}

pub(super) async fn jwks(State(gateway): State<Arc<Gateway>>) -> Response {
    for_any_page(Json(gateway.tokens.jwks()).into_response())
}

pub(super) async fn local(State(gateway): State<Arc<Gateway>>) -> Response {
    let url = |page| format!("http://{}/local/{page}", gateway.domain);
    let queue = |name| gateway.queues.get(name).map(|queue| &queue.url);
    let urls = json!({
        "data_id": gateway.data_id, "admin_url": url("admin"), "log_url": url("log"),
        "queue_url": queue("BackendQueue"), "dead_letter_url": queue("BackendDeadLetters"),
        "events_url": queue(EVENTS_QUEUE), "send_hook_url": gateway.send_hook,
        "http_url": gateway.http.as_ref().map(|_| format!("http://{}", gateway.domain)),
        "service_audience": gateway.http.as_ref().map(|_| SERVICE_AUDIENCE),
    });
    page(Ok(urls))
}

/// Returns the events in the queue for a team's own servers, and leaves them there.
pub(super) async fn events(State(gateway): State<Arc<Gateway>>) -> Response {
    let Some(queue) = gateway.queues.get(EVENTS_QUEUE) else {
        return refuse(StatusCode::NOT_FOUND, "this server sends no events");
    };
    let events = queue.messages().into_iter().map(|(body, _)| serde_json::from_str(&body).map_err(Into::into));
    page(events.collect::<anyhow::Result<Vec<Value>>>().map(Value::from))
}

/// Invokes the operator's function, as whoever may do so in AWS does.
pub(super) async fn admin(State(gateway): State<Arc<Gateway>>, Json(request): Json<Value>) -> Response {
    let Some(function) = &gateway.admin else {
        return refuse(StatusCode::NOT_FOUND, "the template has no function for operators");
    };
    match gateway.invoke(function, &request).await {
        Ok(answer) => ([("content-type", "application/json")], answer).into_response(),
        Err(_) => refuse(StatusCode::BAD_GATEWAY, "the function failed; its log says why"),
    }
}

/// Invokes it for an SDK of Lambda: <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>
pub(super) async fn invoke_admin(State(gateway): State<Arc<Gateway>>, request: Bytes) -> Response {
    let (Some(function), Ok(request)) = (&gateway.admin, serde_json::from_slice::<Value>(&request)) else {
        return refuse(StatusCode::BAD_REQUEST, "the payload is no JSON");
    };
    match gateway.invoke(function, &request).await {
        Ok(answer) => answer.into_response(),
        Err(error) => {
            let failure = json!({ "errorType": "Admin", "errorMessage": error.to_string() });
            ([("x-amz-function-error", "Unhandled")], failure.to_string()).into_response()
        }
    }
}

/// Returns the functions' latest log lines, JSON each; with `?with=PART` the lines that contain it.
pub(super) async fn log(State(gateway): State<Arc<Gateway>>, RawQuery(query): RawQuery) -> Response {
    let Some(query) = Query::parse(&query.unwrap_or_default()) else {
        return refuse(StatusCode::BAD_REQUEST, "the query string is malformed");
    };
    gateway.log.with(query.get("with").unwrap_or_default()).join("\n").into_response()
}

pub(super) async fn tables(State(gateway): State<Arc<Gateway>>) -> Response {
    page(gateway.database.tables().map(Value::Object))
}

pub(super) async fn table(State(gateway): State<Arc<Gateway>>, Path(name): Path<String>) -> Response {
    match gateway.database.rows(&name, ROWS_MAX) {
        Ok(None) => refuse(StatusCode::NOT_FOUND, "no such table; GET /tables lists them"),
        Ok(Some(rows)) => page(Ok(Value::Array(rows))),
        Err(error) => page(Err(error)),
    }
}

/// Returns the notifications on each phone of a user.
pub(super) async fn phones(State(gateway): State<Arc<Gateway>>, RawQuery(query): RawQuery) -> Response {
    let query = Query::parse(&query.unwrap_or_default());
    let Some(user) = query.as_ref().and_then(|query| query.get("user")).filter(|user| !user.is_empty()) else {
        return refuse(StatusCode::BAD_REQUEST, "user is missing: GET /phones?user=bob");
    };
    page(gateway.connections.of_user(user).iter().try_for_each(|origin| catch_up(&gateway, origin)).and_then(|()| {
        let rows = gateway.database.rows_of(DEVICES_TABLE, user)?;
        Ok(gateway.sns.with(|endpoints| phones::shown(endpoints, user, &rows)))
    }))
}

/// Removes the app from a phone.
pub(super) async fn kill_phone(State(gateway): State<Arc<Gateway>>, RawQuery(query): RawQuery) -> Response {
    let query = Query::parse(&query.unwrap_or_default());
    let said = |name: &str| query.as_ref().and_then(|query| query.get(name)).unwrap_or_default();
    let (user, device_id) = (said("user"), said("device_id"));
    let rows = match gateway.database.rows_of(DEVICES_TABLE, user) {
        Ok(rows) => rows,
        Err(error) => return page(Err(error)),
    };
    let Some(row) = rows.iter().find(|row| row.get("device_id").is_some_and(|id| id == device_id)) else {
        let how = "no such phone: POST /phones/kill?user=bob&device_id=…, as GET /phones?user=bob lists it";
        return refuse(StatusCode::NOT_FOUND, how);
    };
    page(Ok(gateway.sns.with(|endpoints| {
        phones::kill(endpoints, row);
        phones::shown(endpoints, user, &rows)
    })))
}

/// An app hears over its connection what its user reads, and takes it off its phone by itself. So it has done when the
/// connection ends.
pub(super) fn catch_up(gateway: &Gateway, origin: &Origin) -> anyhow::Result<()> {
    if let Some((user, device)) = device(gateway, origin)? {
        let inbox = gateway.database.rows_of(INBOX_TABLE, user)?;
        gateway.sns.with(|endpoints| phones::catch_up(endpoints, &device, &inbox));
    }
    Ok(())
}

/// An app has registered, so it is there, also where it was removed before. The function need not have asked SNS again.
pub(super) fn registered(gateway: &Gateway, origin: &Origin) -> anyhow::Result<()> {
    if let Some((_, device)) = device(gateway, origin)? {
        gateway.sns.with(|endpoints| phones::install(endpoints, &device));
    }
    Ok(())
}

/// The user and the row of the devices table, if the connection is one of a phone's.
fn device<'a>(gateway: &Gateway, origin: &'a Origin) -> anyhow::Result<Option<(&'a str, Value)>> {
    let (Some(user), Some(device_id)) = (origin.said("principalId"), origin.said("device_id")) else { return Ok(None) };
    let mut devices = gateway.database.rows_of(DEVICES_TABLE, user)?.into_iter();
    Ok(devices.find(|row| row.get("device_id").is_some_and(|id| id == device_id)).map(|row| (user, row)))
}

/// JSON for people.
fn page(content: anyhow::Result<Value>) -> Response {
    match content {
        Ok(content) => ([("content-type", "application/json")], format!("{content:#}\n")).into_response(),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:#}")),
    }
}

/// A web client is served from another origin.
fn for_any_page(response: Response) -> Response {
    ([(ACCESS_CONTROL_ALLOW_ORIGIN, "*")], response).into_response()
}
