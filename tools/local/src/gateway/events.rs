//! The events that functions get, as API Gateway writes them.

use axum::http::HeaderMap;
use axum::http::header::{CONNECTION, UPGRADE, USER_AGENT};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

use super::query::Query;
use super::random_id;

/// The server listens only here, so every client connects from here.
pub(super) const SOURCE_IP: &str = "127.0.0.1";

/// Fields that all events of a connection share.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) api_id: String,
    pub(super) stage: String,
    pub(super) domain: String,
    pub(super) connection_id: String,
    pub(super) connected_at: OffsetDateTime,
    pub(super) user_agent: Option<String>,
    /// The authorizer's principal and context.
    pub(super) authorizer: Option<Map<String, Value>>,
}

impl Origin {
    /// Returns the authorizer's value of this name.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        self.authorizer.as_ref()?.get(name)?.as_str()
    }
}

/// The request for the upgrade, as far as events show it.
pub(super) struct Handshake<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) query: &'a Query,
}

pub(super) fn method_arn(origin: &Origin) -> String {
    let Origin { api_id, stage, .. } = origin;
    format!("arn:aws:execute-api:us-east-1:000000000000:{api_id}/{stage}/$connect")
}

pub(super) fn authorize(origin: &Origin, handshake: &Handshake) -> Value {
    let mut event = connect_request(origin, handshake, |_| true);
    event.insert("type".to_owned(), json!("REQUEST"));
    event.insert("methodArn".to_owned(), json!(method_arn(origin)));
    event.insert("stageVariables".to_owned(), json!({}));
    event.entry("queryStringParameters").or_insert_with(|| json!({}));
    event.entry("multiValueQueryStringParameters").or_insert_with(|| json!({}));
    Value::Object(event)
}

pub(super) fn connect(origin: &Origin, handshake: &Handshake) -> Value {
    // The authorizer sees the headers of the upgrade itself, the integration does not.
    let mut event = connect_request(origin, handshake, |name| name != CONNECTION.as_str() && name != UPGRADE.as_str());
    event.insert("isBase64Encoded".to_owned(), json!(false));
    Value::Object(event)
}

pub(super) fn message(origin: &Origin, request_id: &str, route_key: &str, body: &str) -> Value {
    let mut context = context(origin, request_id, route_key, "MESSAGE");
    context.insert("messageId".to_owned(), json!(random_id()));
    json!({ "requestContext": context, "body": body, "isBase64Encoded": false })
}

pub(super) fn disconnect(origin: &Origin, status_code: u16, reason: &str) -> Value {
    let mut context = context(origin, &random_id(), "$disconnect", "DISCONNECT");
    context.insert("disconnectStatusCode".to_owned(), json!(status_code));
    context.insert("disconnectReason".to_owned(), json!(reason));
    let headers = [("Host", origin.domain.as_str()), ("x-api-key", ""), ("X-Forwarded-For", ""), ("x-restapi", "")];
    json!({
        "headers": Map::from_iter(headers.map(|(name, value)| (name.to_owned(), json!(value)))),
        "multiValueHeaders": Map::from_iter(headers.map(|(name, value)| (name.to_owned(), json!([value])))),
        "requestContext": context,
        "isBase64Encoded": false,
    })
}

fn connect_request(origin: &Origin, handshake: &Handshake, shown: impl Fn(&str) -> bool) -> Map<String, Value> {
    let (mut headers, mut all_headers) = (Map::new(), Map::new());
    let forwarded = [("x-forwarded-for", SOURCE_IP), ("x-forwarded-proto", "http")];
    let sent = handshake.headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())));
    for (name, value) in sent.chain(forwarded.map(|(name, value)| (name, value.into()))) {
        if shown(name) {
            headers.insert(name.to_owned(), json!(value));
            append(&mut all_headers, name, &value);
        }
    }
    let context = context(origin, &random_id(), "$connect", "CONNECT");
    let mut event = Map::from_iter([
        ("headers".to_owned(), Value::Object(headers)),
        ("multiValueHeaders".to_owned(), Value::Object(all_headers)),
        ("requestContext".to_owned(), Value::Object(context)),
    ]);
    let (mut parameters, mut all_parameters) = (Map::new(), Map::new());
    for (name, value) in &handshake.query.pairs {
        parameters.insert(name.clone(), json!(value));
        append(&mut all_parameters, name, value);
    }
    if !parameters.is_empty() {
        event.insert("queryStringParameters".to_owned(), Value::Object(parameters));
        event.insert("multiValueQueryStringParameters".to_owned(), Value::Object(all_parameters));
    }
    event
}

fn append(lists: &mut Map<String, Value>, name: &str, value: &str) {
    if let Value::Array(list) = lists.entry(name).or_insert_with(|| json!([])) {
        list.push(json!(value));
    }
}

fn context(origin: &Origin, request_id: &str, route_key: &str, event_type: &str) -> Map<String, Value> {
    let now = OffsetDateTime::now_utc();
    let format = format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
    let mut identity = json!({ "sourceIp": SOURCE_IP });
    if let (Value::Object(identity), Some(user_agent)) = (&mut identity, &origin.user_agent) {
        identity.insert("userAgent".to_owned(), json!(user_agent));
    }
    let members = [
        ("routeKey", json!(route_key)),
        ("eventType", json!(event_type)),
        ("messageDirection", json!("IN")),
        ("requestId", json!(request_id)),
        ("extendedRequestId", json!(request_id)),
        ("requestTime", json!(now.format(format).unwrap_or_default())),
        ("requestTimeEpoch", json!(epoch_ms(now))),
        ("connectedAt", json!(epoch_ms(origin.connected_at))),
        ("connectionId", json!(origin.connection_id)),
        ("stage", json!(origin.stage)),
        ("domainName", json!(origin.domain)),
        ("apiId", json!(origin.api_id)),
        ("identity", identity),
    ];
    let mut context = Map::from_iter(members.map(|(name, value)| (name.to_owned(), value)));
    if let Some(authorizer) = &origin.authorizer {
        context.insert("authorizer".to_owned(), Value::Object(authorizer.clone()));
    }
    context
}

fn epoch_ms(at: OffsetDateTime) -> i64 {
    at.unix_timestamp() * 1_000 + i64::from(at.millisecond())
}

pub(super) fn user_agent(headers: &HeaderMap) -> Option<String> {
    headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
