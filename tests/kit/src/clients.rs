//! Configurations of the SDK's clients as in production, but for where their calls go.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{HttpClient, SharedHttpClient};

pub fn store_config(http: impl HttpClient + 'static) -> dynamodb::config::Builder {
    dynamodb::config::Builder::from(&sdk_config(http)).endpoint_url("http://dynamodb.test")
}

/// One attempt per post.
pub fn management_config(http: impl HttpClient + 'static) -> management::config::Builder {
    management::config::Builder::from(&sdk_config(http))
        .endpoint_url("http://connections.test/v1")
        .retry_config(management::config::retry::RetryConfig::disabled())
}

fn sdk_config(http: impl HttpClient + 'static) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "testkit")))
        .http_client(http)
        .build()
}

/// Without TLS, whose certificates would be read anew for each client.
pub fn plain_http() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_http()
}
