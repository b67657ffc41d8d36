//! API Gateway's HTTP API: a request, its authorizer, whose replies are kept, and the function's reply.
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html>

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawPathParams, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, post};
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use template::HttpApi;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::events::SOURCE_IP;
use super::{Gateway, ProxyAnswer, random_id, refuse};
use crate::{lock, s3};

/// How long an authorizer's reply is kept.
const KEPT_FOR: Duration = Duration::from_mins(5);
const KEPT_MAX: usize = 1_000;

/// The authorizer's replies, by the header that they are about.
#[derive(Default)]
pub(crate) struct Authorized(Mutex<HashMap<String, (Instant, Context)>>);

/// The authorizer's context; `None` if it refuses.
type Context = Option<Map<String, Value>>;

/// The authorizer's simple response.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Simple {
    is_authorized: bool,
    #[serde(default)]
    context: Map<String, Value>,
}

struct Request {
    key: String,
    uri: Uri,
    parameters: Map<String, Value>,
    headers: HeaderMap,
    body: Bytes,
}

/// Returns the API's routes. Other paths below their stage are not found.
pub(super) fn router(api: &HttpApi) -> anyhow::Result<Router<Arc<Gateway>>> {
    let not_found = || async { refuse(StatusCode::NOT_FOUND, "Not Found") };
    let mut routes = Router::new();
    for key in api.routes.keys() {
        let of_key = key.clone();
        let request = move |State(gateway), uri, parameters: RawPathParams, headers, body| {
            let parameters = parameters.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
            request(gateway, Request { key: of_key, uri, parameters, headers, body })
        };
        let path = key.strip_prefix("POST ").unwrap_or(key);
        routes = routes.route(path, post(request).fallback(not_found));
    }
    Ok(routes.route("/v1/{*rest}", any(not_found)).layer(s3::cors(&api.cors)?))
}

async fn request(gateway: Arc<Gateway>, request: Request) -> Response {
    // In a task of its own: the function goes on when the client hangs up.
    let answering = Arc::clone(&gateway);
    let answer = gateway.tasks.spawn(async move { answering.over_http(request).await });
    answer.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

impl Gateway {
    async fn over_http(&self, request: Request) -> Response {
        let Some(api) = &self.http else { return refuse(StatusCode::NOT_FOUND, "Not Found") };
        if !self.throttles.admit(api.throttle, &request.key) {
            return refuse(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests");
        }
        let failed = || refuse(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error");
        let context = match self.authorized(api, &request).await {
            Ok(Some(context)) => context,
            Ok(None) => return refuse(StatusCode::FORBIDDEN, "Forbidden"),
            Err(StatusCode::UNAUTHORIZED) => return refuse(StatusCode::UNAUTHORIZED, "Unauthorized"),
            Err(_) => return failed(),
        };
        let Some(function) = api.routes.get(&request.key) else { return failed() };
        let answer = self.invoke(function, &request.event(self, api, &context)).await;
        let answer = answer.ok().and_then(|answer| serde_json::from_slice::<ProxyAnswer>(&answer).ok());
        let Some(ProxyAnswer { status_code, headers, body }) = answer else { return failed() };
        let mut response = body.unwrap_or_default().into_response();
        *response.status_mut() = StatusCode::from_u16(status_code).unwrap_or(StatusCode::BAD_GATEWAY);
        for (name, value) in headers.unwrap_or_default() {
            let value = value.as_str().and_then(|value| HeaderValue::try_from(value).ok());
            if let (Ok(name), Some(value)) = (HeaderName::try_from(name), value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }

    /// Asks the authorizer, unless its reply is kept. The error is 401 without a token, else 500.
    async fn authorized(&self, api: &HttpApi, request: &Request) -> Result<Context, StatusCode> {
        let source = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let source = source.ok_or(StatusCode::UNAUTHORIZED)?;
        if let Some((_, kept)) = lock(&self.authorized.0).get(source).filter(|(at, _)| at.elapsed() < KEPT_FOR) {
            return Ok(kept.clone());
        }
        let answer = self.invoke(&api.authorizer, &request.authorize(self, api, source)).await;
        let answer = answer.ok().and_then(|answer| serde_json::from_slice::<Simple>(&answer).ok());
        let Simple { is_authorized, context } = answer.ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
        let context = is_authorized.then_some(context);
        let mut kept = lock(&self.authorized.0);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(source.to_owned(), (Instant::now(), context.clone()));
        Ok(context)
    }
}

impl Request {
    fn event(&self, gateway: &Gateway, api: &HttpApi, context: &Map<String, Value>) -> Value {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_text = kind.starts_with("text/") || kind.starts_with("application/json");
        let text = std::str::from_utf8(&self.body).ok().filter(|_| is_text);
        let more = json!({
            "pathParameters": self.parameters, "isBase64Encoded": text.is_none(),
            "body": text.map_or_else(|| BASE64.encode(&self.body), str::to_owned),
        });
        self.with(gateway, api, &json!({ "lambda": context }), more)
    }

    fn authorize(&self, gateway: &Gateway, api: &HttpApi, source: &str) -> Value {
        let (id, path) = (&api.logical_id, self.uri.path());
        let arn = format!("arn:aws:execute-api:us-east-1:000000000000:{id}/$default/POST{path}");
        self.with(gateway, api, &Value::Null, json!({"type": "REQUEST", "routeArn": arn, "identitySource": [source]}))
    }

    /// The fields of both events, and more.
    fn with(&self, gateway: &Gateway, api: &HttpApi, authorizer: &Value, more: Value) -> Value {
        let path = self.uri.path();
        let mut headers = Map::new();
        for name in self.headers.keys() {
            let values = self.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
            headers.insert(name.as_str().to_owned(), json!(values.collect::<Vec<_>>().join(",")));
        }
        let mut event = json!({
            "version": "2.0", "routeKey": self.key, "rawPath": path,
            "rawQueryString": self.uri.query().unwrap_or_default(), "headers": headers,
            "requestContext": {
                "accountId": "000000000000", "apiId": api.logical_id, "domainName": gateway.domain,
                "stage": "$default", "requestId": random_id(), "routeKey": self.key, "authorizer": authorizer,
                "timeEpoch": OffsetDateTime::now_utc().unix_timestamp() * 1_000,
                "http": {"method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": SOURCE_IP},
            },
        });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        event
    }
}
