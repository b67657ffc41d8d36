//! An event of API Gateway: a frame of a socket, or a request over HTTP (payload format 2.0).

use std::collections::HashMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The fields that the functions read. The type is ours, because the types of `aws_lambda_events` take one of the two.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiEvent {
    pub request_context: RequestContext,
    #[serde(deserialize_with = "or_default")]
    pub headers: HashMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub multi_value_headers: HashMap<String, Vec<String>>,
    #[serde(deserialize_with = "or_default")]
    pub query_string_parameters: HashMap<String, String>,
    /// The variables in the route's path.
    #[serde(deserialize_with = "or_default")]
    pub path_parameters: HashMap<String, String>,
    pub body: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub is_base64_encoded: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestContext {
    pub request_id: Option<String>,
    /// `send`, or over HTTP `POST /v1/send`.
    pub route_key: Option<String>,
    /// The socket, if there is one; so are the fields below.
    pub connection_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub connected_at: i64,
    /// `CONNECT`, `MESSAGE` or `DISCONNECT`.
    pub event_type: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub authorizer: Authorizer,
}

/// The authorizer's context: over HTTP below `lambda`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Authorizer {
    pub fields: HashMap<String, Value>,
}

/// Over HTTP, the routes are below it.
const ROUTES: &str = "POST /v1/";

impl ApiEvent {
    /// Returns the route of a request over HTTP, such as `send`; `None` for a socket's event.
    pub fn http_route(&self) -> Option<&str> {
        let RequestContext { route_key, connection_id, .. } = &self.request_context;
        route_key.as_deref().and_then(|key| key.strip_prefix(ROUTES)).filter(|_| connection_id.is_none())
    }

    /// Returns the header's values. Proxies change the case of names.
    pub fn header<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let one = self.headers.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        let several = self.multi_value_headers.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        one.map(|(_, value)| value).chain(several.flat_map(|(_, values)| values)).map(String::as_str)
    }
}

/// `null` is as left out.
fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}
