//! What only the local server has: tokens for any user, a look into the tables and the log, and a way to the operator's function.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::ACCESS_CONTROL_ALLOW_ORIGIN;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::query::Query;
use super::{Gateway, refuse};

const EXPIRES_IN_S_DEFAULT: u32 = 60 * 60;
const EXPIRES_IN_S_MAX: u32 = 24 * 60 * 60;
const ROWS_MAX: usize = 1000;

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
    page(Ok(json!({ "admin_url": url("admin"), "log_url": url("log") })))
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

/// What the functions logged lately, a line of JSON each; with `?with=PART` the lines that hold that.
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
