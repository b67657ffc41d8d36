//! The environment that the template gives a function.

use aws_config::{BehaviorVersion, SdkConfig};

#[derive(Debug, thiserror::Error)]
#[error("the environment variable {0} is not set; template.yaml sets it")]
pub struct MissingVariable(&'static str);

/// A variable that must be there and not be empty. Read at start, so that a wrong deployment fails there and not at the
/// first message.
///
/// # Errors
/// [`MissingVariable`], which names it.
pub fn env(name: &'static str) -> Result<String, MissingVariable> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or(MissingVariable(name))
}

/// Region, credentials and HTTP client for all SDK clients of a process.
pub async fn sdk_config() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).load().await
}
