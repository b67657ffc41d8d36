//! `notify`: rings the phones of who did not take a message, and clears what was read elsewhere.

use std::time::Duration;

use lambda::{BadVariable, Clock, Diagnostic, LambdaEvent, count, env, sdk_config};
use serde_json::{Value, json};
use store::Store;

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub grace: Duration,
    pub clock: Clock,
}

impl Deps {
    /// From the environment.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let grace = Duration::from_secs(u64::try_from(count("PUSH_GRACE_SECONDS")?).unwrap_or_default());
        Ok(Self { store, grace, clock: Clock::system() })
    }
}

/// Answers one batch of the inbox table's stream.
///
/// # Errors
/// None so far.
pub async fn handle(_: &Deps, _: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    Ok(json!({ "batchItemFailures": [] }))
}
