//! The SDK's clients as in production, with another transport.

use std::fmt;
use std::sync::Arc;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_s3 as s3;
use aws_sdk_sns as sns;
use aws_sdk_sqs as sqs;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;

use crate::AwsCall;

pub fn dynamodb_config(http: impl HttpClient + 'static) -> dynamodb::config::Builder {
    dynamodb::config::Builder::from(&sdk_config(http)).endpoint_url("http://dynamodb.test")
}

/// One attempt per post.
pub fn management_config(http: impl HttpClient + 'static) -> management::config::Builder {
    management::config::Builder::from(&sdk_config(http))
        .endpoint_url("http://connections.test/v1")
        .retry_config(management::config::retry::RetryConfig::disabled())
}

/// One attempt per call.
pub fn sns_config(http: impl HttpClient + 'static) -> sns::config::Builder {
    sns::config::Builder::from(&sdk_config(http))
        .endpoint_url("http://sns.test")
        .retry_config(sns::config::retry::RetryConfig::disabled())
}

/// One attempt per call.
pub fn sqs_config(http: impl HttpClient + 'static) -> sqs::config::Builder {
    sqs::config::Builder::from(&sdk_config(http))
        .endpoint_url("http://sqs.test")
        .retry_config(sqs::config::retry::RetryConfig::disabled())
}

/// One attempt per call.
pub fn s3_config(http: impl HttpClient + 'static) -> s3::config::Builder {
    s3::config::Builder::from(&sdk_config(http))
        .endpoint_url("http://s3.test")
        .force_path_style(true)
        .retry_config(s3::config::retry::RetryConfig::disabled())
}

pub fn events_config(http: impl HttpClient + 'static) -> aws_sdk_eventbridge::config::Builder {
    aws_sdk_eventbridge::config::Builder::from(&sdk_config(http))
        .endpoint_url("http://events.test")
        .retry_config(aws_sdk_eventbridge::config::retry::RetryConfig::disabled())
}

/// Returns the configuration that all clients share.
pub fn sdk_config(http: impl HttpClient + 'static) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "testkit")))
        .http_client(http)
        .build()
}

/// An HTTP client for the SDK's clients, with a service in this process.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn(AwsCall) -> HttpConnectorFuture + Send + Sync>);

impl Connector {
    /// `answer` gives the status and body; `None` where the connection breaks.
    pub fn new<A>(answer: impl Fn(AwsCall) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Option<(u16, String)>> + Send + 'static,
    {
        Self(Arc::new(move |call| {
            let is_head = call.operation() == "HeadObject";
            let answer = answer(call);
            HttpConnectorFuture::new(async move {
                let broken = || ConnectorError::io("the connection broke".into());
                let (status, body) = answer.await.ok_or_else(broken)?;
                let status = status.try_into().expect("an HTTP status");
                if !is_head {
                    return Ok(HttpResponse::new(status, SdkBody::from(body)));
                }
                // The reply has headers and no body.
                let mut response = HttpResponse::new(status, SdkBody::empty());
                for (name, value) in body.lines().filter_map(|line| line.split_once(": ")) {
                    response.headers_mut().insert(name.to_owned(), value.to_owned());
                }
                Ok(response)
            })
        }))
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = request.body().bytes().expect("a body in memory");
        let header = |name: &str| request.headers().get(name);
        (self.0)(AwsCall::parse(request.method(), header, request.uri(), body))
    }
}

impl HttpClient for Connector {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
