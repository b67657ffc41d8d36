//! The environment that the template gives a function.

use std::fmt;

use aws_config::{BehaviorVersion, SdkConfig};
use domain::Rate;

/// A variable that keeps the function from starting.
#[derive(thiserror::Error)]
#[error("the environment variable {name} {problem}; template.yaml sets it")]
pub struct BadVariable {
    name: &'static str,
    problem: String,
}

impl BadVariable {
    pub fn new(name: &'static str, problem: impl Into<String>) -> Self {
        Self { name, problem: problem.into() }
    }
}

/// What `main` prints of the error that it ends with.
impl fmt::Debug for BadVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A variable that must be there and not be empty. Read at start, so that a wrong deployment fails there and not at the
/// first message.
///
/// # Errors
/// [`BadVariable`], which names it.
pub fn env(name: &'static str) -> Result<String, BadVariable> {
    optional(name).ok_or_else(|| BadVariable::new(name, "is not set"))
}

/// A variable that may be empty.
pub fn optional(name: &'static str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A variable that holds a number.
///
/// # Errors
/// [`BadVariable`], which names it.
pub fn count(name: &'static str) -> Result<usize, BadVariable> {
    env(name)?.parse().map_err(|_| BadVariable::new(name, "must be a whole number"))
}

/// A variable that holds a rate, as [`Rate::parse`] reads it.
///
/// # Errors
/// [`BadVariable`], which names it.
pub fn rate(
    name: &'static str,
    env: impl Fn(&'static str) -> Result<String, BadVariable>,
) -> Result<Rate, BadVariable> {
    Rate::parse(&env(name)?).map_err(|invalid| BadVariable::new(name, invalid.to_string()))
}

/// Region, credentials and HTTP client for all SDK clients of a process.
pub async fn sdk_config() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest()).load().await
}
