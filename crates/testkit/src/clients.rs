//! Configurations of the SDK's clients as in production, but for where their calls go.

use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use aws_smithy_runtime_api::client::http::HttpClient;

pub fn store_config(http: impl HttpClient + 'static) -> dynamodb::config::Builder {
    dynamodb::Config::builder()
        .behavior_version(dynamodb::config::BehaviorVersion::latest())
        .region(dynamodb::config::Region::from_static("us-east-1"))
        .credentials_provider(dynamodb::config::Credentials::new("test", "test", None, None, "testkit"))
        .endpoint_url("http://dynamodb.test")
        .http_client(http)
}

pub fn management_config(http: impl HttpClient + 'static) -> management::config::Builder {
    management::Config::builder()
        .behavior_version(management::config::BehaviorVersion::latest())
        .region(management::config::Region::from_static("us-east-1"))
        .credentials_provider(management::config::Credentials::new("test", "test", None, None, "testkit"))
        .endpoint_url("http://connections.test/v1")
        // One attempt per post.
        .retry_config(management::config::retry::RetryConfig::disabled())
        .http_client(http)
}
