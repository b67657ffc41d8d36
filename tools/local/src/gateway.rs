//! API Gateway: the WebSocket API that the template describes, its `@connections`, and the developer's own pages.

mod connections;
mod demo;
mod developer;
mod events;
mod from_here;
mod http;
mod management;
mod messages;
mod policy;
mod query;
mod socket;
mod throttles;
mod upgrade;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
pub(crate) use connections::Connections;
use data_encoding::BASE64URL;
pub(crate) use from_here::check as from_here;
pub(crate) use http::Authorized;
pub(crate) use query::Query;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use template::{Api, HttpApi};
pub(crate) use throttles::Throttles;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::database::DatabaseServer;
use crate::functions::{Concurrency, FunctionError, Functions};
use crate::lock;
use crate::logs::Log;
use crate::metrics::Metrics;
use crate::queues::Queues;
use crate::s3::ObjectServer;
use crate::send_hook;
use crate::sns::Sns;
use crate::sqs;
use crate::tokens::Tokens;

const FRAME_BYTES_MAX: usize = 32 * 1024;
const MESSAGE_BYTES_MAX: usize = 128 * 1024;
/// The name under which the gateway's own lines are logged.
const LOG_NAME: &str = "api gateway";

/// API Gateway's limits, which a test may want shorter.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Without data in either direction a connection is closed.
    pub idle_max: Duration,
    pub lifetime_max: Duration,
    /// How long a function may take before the caller gets an error.
    pub integration_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle_max: Duration::from_mins(10),
            lifetime_max: Duration::from_hours(2),
            integration_max: Duration::from_secs(29),
        }
    }
}

pub(crate) struct Gateway {
    pub(crate) api: Api,
    pub(crate) http: Option<HttpApi>,
    pub(crate) authorized: Authorized,
    /// The server's name for clients and functions: `127.0.0.1:3001`.
    pub(crate) domain: String,
    pub(crate) functions: Arc<Functions>,
    /// The functions that this API lacks the permission to call.
    pub(crate) forbidden: Mutex<BTreeSet<String>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) database: Arc<DatabaseServer>,
    /// Which data this is: of a folder always the same, in memory another at each start.
    pub(crate) data_id: String,
    pub(crate) objects: ObjectServer,
    pub(crate) sns: Arc<Sns>,
    pub(crate) queues: Queues,
    pub(crate) tokens: Tokens,
    pub(crate) limits: Limits,
    pub(crate) concurrency: Concurrency,
    /// Where the team's filter of messages listens.
    pub(crate) send_hook: Option<String>,
    pub(crate) lose_disconnects: bool,
    pub(crate) log: Log,
    pub(crate) connections: Connections,
    pub(crate) throttles: Throttles,
    /// The logical id of the operator's function.
    pub(crate) admin: Option<String>,
    /// The sockets and the messages in work.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// A function's reply to a proxy integration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProxyAnswer {
    status_code: u16,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    #[serde(default)]
    body: Option<String>,
}

impl Gateway {
    pub(crate) fn router(self: Arc<Self>, host: IpAddr, demo: &Path, docs: &Path) -> anyhow::Result<Router> {
        let stage = &self.api.stage;
        let router = Router::new()
            .route("/token", get(developer::token))
            .route("/.well-known/jwks.json", get(developer::jwks))
            .route("/tables", get(developer::tables))
            .route("/tables/{name}", get(developer::table))
            .route("/local", get(developer::local))
            .route("/local/admin", post(developer::admin))
            .route("/local/log", get(developer::log))
            .route("/events", get(developer::events))
            .route("/phones", get(developer::phones))
            .route("/phones/kill", post(developer::kill_phone))
            .route(&format!("/{stage}"), get(upgrade::upgrade))
            .route(
                &format!("/{stage}/@connections/{{id}}"),
                get(management::look).post(management::post).delete(management::close),
            )
            .nest_service("/docs", demo::docs(docs))
            .fallback_service(demo::site(demo));
        let router = match &self.admin {
            Some(admin) => router.route(&send_hook::path_of(admin), post(developer::invoke_admin)),
            None => router,
        };
        let (sns, sqs) = (Arc::clone(&self.sns).router(), sqs::router(self.queues.clone()));
        let hook = self.send_hook.clone().map(send_hook::router).unwrap_or_default();
        let http = self.http.as_ref().map(http::router).transpose()?.unwrap_or_default();
        Ok(router
            .merge(http)
            .with_state(self)
            .merge(sns)
            .merge(sqs)
            .merge(hook)
            .layer(axum::middleware::from_fn_with_state(host, from_here)))
    }

    /// Invokes a proxy integration. A failure is logged here, once.
    async fn integrate(&self, function: &str, event: &Value) -> Option<ProxyAnswer> {
        let answer = self.invoke(function, event).await;
        if let Err(error) = &answer {
            self.count(match error {
                FunctionError::Throttled | FunctionError::Forbidden => "ExecutionError",
                FunctionError::Raised { .. } | FunctionError::TimedOut(_) | FunctionError::Crashed(_) => {
                    "IntegrationError"
                }
            });
        }
        match serde_json::from_slice::<ProxyAnswer>(&answer.ok()?) {
            Ok(answer) => {
                if answer.status_code >= 400 {
                    self.count("IntegrationError");
                }
                Some(answer)
            }
            Err(error) => {
                self.log_failure(function, &format!("malformed proxy response: {error}"));
                self.count("IntegrationError");
                None
            }
        }
    }

    /// Counts for CloudWatch. The meaning of each metric:
    /// <https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-websocket-api-logging.html>
    fn count(&self, name: &'static str) {
        self.metrics.count("AWS/ApiGateway", name, &self.api.logical_id);
    }

    async fn invoke(&self, function: &str, event: &Value) -> Result<Vec<u8>, FunctionError> {
        let integration_max = self.limits.integration_max;
        let answer = if lock(&self.forbidden).contains(function) {
            Err(FunctionError::Forbidden)
        } else {
            let invocation = timeout(integration_max, self.functions.invoke(function, event));
            invocation.await.unwrap_or(Err(FunctionError::TimedOut(integration_max)))
        };
        if let Err(error) = &answer {
            self.log_failure(function, &error.to_string());
        }
        answer
    }

    fn log_failure(&self, function: &str, why: &str) {
        self.log.line(function, &json!({ "level": "ERROR", "message": why }).to_string());
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, axum::Json(json!({ "message": message }))).into_response()
}

/// As API Gateway's ids look: eleven bytes, so that the last of 16 characters is `=`, which URLs must escape.
fn random_id() -> String {
    BASE64URL.encode(&std::array::from_fn::<u8, 11, _>(|_| fastrand::u8(..)))
}
