//! Push notifications to phones, through SNS.
//!
//! In the words of SNS, the credentials of an app for APNs or FCM are a platform application. A device token is an
//! endpoint of it.

mod notification;

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sns::Client;
use aws_sdk_sns::config::interceptors::InterceptorContext;
use aws_sdk_sns::config::retry::{ClassifyRetry, RetryAction};
use aws_sdk_sns::config::timeout::TimeoutConfig;
use aws_sdk_sns::error::{BoxError, BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_sns::operation::create_platform_endpoint::CreatePlatformEndpointError;
use aws_sdk_sns::operation::publish::PublishError;
use aws_sdk_sns::operation::set_endpoint_attributes::SetEndpointAttributesError;
use aws_sdk_sns::types::MessageAttributeValue;
use domain::{Failure, ServiceError};
use wire::{DeviceToken, Refusal};

pub use notification::{COLLAPSE_ID_BYTES_MAX, Names, Notification, Ring};

/// One attempt at one call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// One call with the SDK's own retries.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The way to phones. Cheap to clone; made once per process.
#[derive(Clone, Debug)]
pub struct Phones {
    client: Client,
}

/// The outcome of a notification.
#[derive(Debug)]
pub enum Published {
    /// SNS took it. No promise that a phone did.
    Accepted,
    /// The token is invalid or unknown.
    Gone,
    /// The application's credentials have expired, or the platform is no longer configured. No notification of this
    /// platform is sent until an operator fixes that.
    Refused(BoxError),
    /// Any other error. A retry can succeed.
    Failed(BoxError),
}

/// Why a token was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The platform has no such tokens.
    #[error("SNS does not take the token")]
    Token,
    #[error("{operation} failed")]
    Call { operation: &'static str, source: BoxError },
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::Token => Refusal::bad_request("token", "must be a device token of this platform").into(),
            RegisterError::Call { .. } => Self::Unavailable(Box::new(error)),
        }
    }
}

impl Phones {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Three attempts at each call, as the SDK makes them, of throttled ones too.
    pub fn from_sdk(sdk: &SdkConfig) -> Self {
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT).operation_timeout(CALL_TIMEOUT).build();
        let config = aws_sdk_sns::config::Builder::from(sdk).timeout_config(timeouts).retry_classifier(TooMany);
        Self::new(Client::from_conf(config.build()))
    }

    /// Returns the endpoint of a token, and enables it if it was disabled. `application` is the ARN of the platform
    /// application.
    ///
    /// # Errors
    /// [`RegisterError`]
    pub async fn register(&self, application: &str, token: &DeviceToken) -> Result<String, RegisterError> {
        // No attributes of ours: SNS refuses a token that it knows with others.
        let create = self.client.create_platform_endpoint().platform_application_arn(application).token(token.as_str());
        let endpoint = match create.send().await {
            Ok(created) => created.endpoint_arn.ok_or_else(|| no_endpoint("SNS named no endpoint".into()))?,
            Err(error) => known_endpoint(error)?,
        };
        // A token that is known keeps what SNS thinks of it: it may be disabled, and it may be another one by now.
        let set = self.client.set_endpoint_attributes().endpoint_arn(&endpoint);
        match set.attributes("Token", token.as_str()).attributes("Enabled", "true").send().await {
            Ok(_) => Ok(endpoint),
            Err(error)
                if error.as_service_error().is_some_and(SetEndpointAttributesError::is_invalid_parameter_exception) =>
            {
                Err(RegisterError::Token)
            }
            Err(error) => Err(RegisterError::Call { operation: "SetEndpointAttributes", source: said(error) }),
        }
    }

    /// Deletes an endpoint from SNS. An unknown endpoint is no error.
    ///
    /// # Errors
    /// The call to SNS failed.
    pub async fn forget(&self, endpoint: &str) -> Result<(), BoxError> {
        self.client.delete_endpoint().endpoint_arn(endpoint).send().await.map(drop).map_err(said)
    }

    /// Has SNS hand a notification on.
    pub async fn publish(&self, endpoint: &str, notification: Notification) -> Published {
        let mut publish =
            self.client.publish().target_arn(endpoint).message_structure("json").message(notification.message);
        for (name, value) in notification.attributes {
            match attribute(value) {
                Ok(value) => publish = publish.message_attributes(name, value),
                Err(error) => return Published::Failed(error.into()),
            }
        }
        match publish.send().await {
            Ok(_) => Published::Accepted,
            Err(error) if error.as_service_error().is_some_and(is_gone) => Published::Gone,
            Err(error) if error.as_service_error().is_some_and(is_refused) => Published::Refused(said(error)),
            Err(error) => Published::Failed(said(error)),
        }
    }
}

fn attribute(value: String) -> Result<MessageAttributeValue, BuildError> {
    MessageAttributeValue::builder().data_type("String").string_value(value).build()
}

/// Finds the endpoint in SNS's refusal of a token that other code has registered with other attributes.
fn known_endpoint<R>(error: SdkError<CreatePlatformEndpointError, R>) -> Result<String, RegisterError>
where
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let invalid = error.as_service_error().is_some_and(CreatePlatformEndpointError::is_invalid_parameter_exception);
    let message = error.message().filter(|message| invalid && message.contains("Token")).unwrap_or_default();
    if message.is_empty() {
        return Err(no_endpoint(said(error)));
    }
    let known = message.contains("already exists with the same");
    let endpoint = message.split_whitespace().find(|word| known && word.starts_with("arn:"));
    endpoint.map(str::to_owned).ok_or(RegisterError::Token)
}

fn no_endpoint(source: BoxError) -> RegisterError {
    RegisterError::Call { operation: "CreatePlatformEndpoint", source }
}

/// For an endpoint that was deleted SNS has two errors, of which one is also for other parameters.
fn is_gone(error: &PublishError) -> bool {
    error.is_endpoint_disabled_exception()
        || error.is_not_found_exception()
        || error.is_invalid_parameter_exception()
            && error.message().is_some_and(|message| message.contains("No endpoint found"))
}

fn is_refused(error: &PublishError) -> bool {
    error.is_platform_application_disabled_exception() || error.is_authorization_error_exception()
}

/// SNS's word for it is one that the SDK doesn't know, and would not try again.
#[derive(Debug)]
struct TooMany;

impl ClassifyRetry for TooMany {
    fn classify_retry(&self, call: &InterceptorContext) -> RetryAction {
        let status = call.response().map(|response| response.status().as_u16());
        if status == Some(429) { RetryAction::throttling_error() } else { RetryAction::NoActionIndicated }
    }

    fn name(&self) -> &'static str {
        "too many"
    }
}

fn said<E, R>(error: SdkError<E, R>) -> BoxError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    let (code, message) = (error.code().map(str::to_owned), error.message().map(str::to_owned));
    ServiceError::of(code, message, error)
}
