//! Posts to live connections, through API Gateway's @connections API.
//!
//! Nothing here touches the tables: what a dead connection means for them is for [`Posted`]'s reader to decide.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_apigatewaymanagement::Client;
use aws_sdk_apigatewaymanagement::config::interceptors::InterceptorContext;
use aws_sdk_apigatewaymanagement::config::retry::{ClassifyRetry, RetryAction, RetryConfig};
use aws_sdk_apigatewaymanagement::config::timeout::TimeoutConfig;
use aws_sdk_apigatewaymanagement::error::{BoxError, SdkError};
use aws_sdk_apigatewaymanagement::primitives::Blob;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::retries::classifiers::RetryClassifierPriority;
use domain::{ConnectionId, error_chain};

use crate::post_budget::PostBudget;

/// One post to one connection, tried twice at most.
pub const POST_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of one try.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(400);
/// API Gateway closes idle connections, and a frozen function does not notice. Lambda freezes a function for longer
/// than this only without traffic, and then a new connection is right.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The one that the SDK has by itself.
const TLS: Provider = Provider::Rustls(CryptoMode::AwsLc);

/// The way to live connections. Cheap to clone; made once per process, since all clones share what the process may post.
#[derive(Clone, Debug)]
pub struct ConnectionsApi {
    client: Client,
    budget: Arc<PostBudget>,
}

/// The outcome of a post.
#[derive(Debug)]
pub enum Posted {
    /// API Gateway accepted the frame. Only an `ack` shows that a phone received it.
    Accepted,
    /// The connection is closed. API Gateway replies the same while it still sets up a connection.
    Gone,
    /// This process had too many posts, and the frame's turn would have come too late. The client gets its content as a
    /// pending message, or by a request.
    Paced,
    /// Anything else. The message stays pending, so nothing is lost.
    Failed(BoxError),
}

/// The reply of API Gateway, or of a load balancer before it. The SDK has no name for an error with an empty body.
#[derive(Debug, thiserror::Error)]
#[error("the answer was {status}")]
struct Answered {
    status: u16,
    #[source]
    error: BoxError,
}

impl ConnectionsApi {
    pub fn new(client: Client) -> Self {
        Self { client, budget: Arc::default() }
    }

    /// Reads the endpoint from `CONNECTIONS_ENDPOINT`: `https://{api}.execute-api.{region}.amazonaws.com/{stage}`. The
    /// event's domain would lack the stage behind a custom domain.
    ///
    /// A post that met a dead connection of the pool is repeated once. After any reply there is no retry: it would
    /// delay all other frames and the sender's reply, and a missed message is pending.
    ///
    /// # Errors
    /// The error of `env` for a missing variable.
    pub fn from_env<E>(sdk: &SdkConfig, env: impl Fn(&'static str) -> Result<String, E>) -> Result<Self, E> {
        let config = aws_sdk_apigatewaymanagement::config::Builder::from(sdk)
            .endpoint_url(env("CONNECTIONS_ENDPOINT")?)
            .http_client(Builder::new().pool_idle_timeout(POOL_IDLE_TIMEOUT).tls_provider(TLS).build_https())
            .retry_config(RetryConfig::standard().with_max_attempts(2).with_initial_backoff(Duration::ZERO))
            .retry_classifier(OnlyUnanswered)
            .timeout_config(
                TimeoutConfig::builder()
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .operation_timeout(POST_TIMEOUT)
                    .build(),
            )
            .build();
        Ok(Self::new(Client::from_conf(config)))
    }

    /// Posts one frame to one connection, when this process may.
    pub async fn post(&self, connection: &ConnectionId, frame: &str) -> Posted {
        let Some(_place) = self.budget.turn().await else { return Posted::Paced };
        let post = self.client.post_to_connection().connection_id(connection.as_str()).data(Blob::new(frame));
        match post.send().await {
            Ok(_) => Posted::Accepted,
            Err(error) if status(&error) == Some(410) => Posted::Gone,
            Err(error) => Posted::Failed(with_status(error)),
        }
    }

    /// How many frames this process has posted.
    pub fn posts(&self) -> u64 {
        self.budget.posts()
    }

    /// Closes a connection, and reports whether it existed. A connection that is still being set up does not exist yet.
    ///
    /// # Errors
    /// The error of the call to API Gateway.
    pub async fn close(&self, connection: &ConnectionId) -> Result<bool, BoxError> {
        match self.client.delete_connection().connection_id(connection.as_str()).send().await {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(410) => Ok(false),
            Err(error) => Err(with_status(error)),
        }
    }

    /// Opens the connection to API Gateway before the first event needs it, by a post to a connection that does not
    /// exist.
    pub async fn warm_up(&self) {
        if let Posted::Failed(error) = self.post(&ConnectionId::new("warm-up"), "").await {
            tracing::debug!(error = error_chain(&*error), "warm-up failed");
        }
    }
}

/// Returns `None` if there was no reply.
fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    Some(error.raw_response()?.status().as_u16())
}

fn with_status<E: std::error::Error + Send + Sync + 'static>(error: SdkError<E, HttpResponse>) -> BoxError {
    match status(&error) {
        Some(status) => Box::new(Answered { status, error: error.into() }),
        None => error.into(),
    }
}

/// Forbids a retry after a reply, including 429 and 5xx, which the SDK would retry.
#[derive(Debug)]
struct OnlyUnanswered;

impl ClassifyRetry for OnlyUnanswered {
    fn classify_retry(&self, call: &InterceptorContext) -> RetryAction {
        if call.response().is_some() { RetryAction::RetryForbidden } else { RetryAction::NoActionIndicated }
    }

    fn name(&self) -> &'static str {
        "only unanswered"
    }

    fn priority(&self) -> RetryClassifierPriority {
        RetryClassifierPriority::run_after(RetryClassifierPriority::transient_error_classifier())
    }
}
