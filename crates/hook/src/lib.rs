//! The way to the team's own filter, a Lambda function of the same account. `send` and `group` ask it before they store
//! what a user wrote.

use std::time::Duration;

use actions::{Ask, Hook};
use aws_config::SdkConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::primitives::Blob;
use domain::error_chain;
use lambda::{BadVariable, count, env, optional};

/// Returns the filter that the environment names: `SEND_HOOK_ARN`, `SEND_HOOK_MS` and `SEND_HOOK_FAILS`.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn from_env(sdk: &SdkConfig) -> Result<Option<Hook>, BadVariable> {
    let Some(arn) = optional("SEND_HOOK_ARN") else { return Ok(None) };
    let time = Duration::from_millis(u64::try_from(count("SEND_HOOK_MS")?).unwrap_or(u64::MAX));
    let is_open = match env("SEND_HOOK_FAILS")?.as_str() {
        "open" => true,
        "closed" => false,
        _ => return Err(BadVariable::new("SEND_HOOK_FAILS", "must be open or closed")),
    };
    // One attempt: the time is short, and the client repeats its request.
    let config = aws_sdk_lambda::config::Builder::from(sdk).retry_config(RetryConfig::disabled());
    Ok(Some(Hook::new(asking(Client::from_conf(config.build()), arn), time, is_open)))
}

/// Invokes the function with the question.
pub fn asking(client: Client, arn: String) -> Box<Ask> {
    Box::new(move |question| {
        let invoke = client.invoke().function_name(&arn).payload(Blob::new(question));
        Box::pin(async move {
            let answer = invoke.send().await.map_err(|error| error_chain(&error))?;
            match (answer.function_error, answer.payload) {
                (None, Some(payload)) => Ok(payload.into_inner()),
                (None, None) => Err("the function returned nothing".to_owned()),
                (Some(error), _) => Err(format!("the function failed: {error}")),
            }
        })
    })
}
