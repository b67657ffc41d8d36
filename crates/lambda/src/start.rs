//! The clients and settings of a function, made from the environment once per process.

use std::time::Duration;

use actions::{Actions, Clock, SendLimits};
use aws_config::SdkConfig;
use deliver::{ConnectionsApi, Fanout};
use domain::{Encryption, Profiles};
use store::Store;

use crate::Limiter;
use crate::env::{BadVariable, count, env, rate};

/// The clients of a function behind API Gateway.
#[derive(Debug)]
pub struct Core {
    pub actions: Actions,
    pub limiter: Limiter,
}

impl Core {
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub fn from_env(sdk: &SdkConfig, limits: SendLimits) -> Result<Self, BadVariable> {
        let actions = actions_from_env(sdk, limits)?;
        let limiter = Limiter::from_env(actions.store.clone(), actions.fanout.connections().clone(), env)?;
        Ok(Self { actions, limiter })
    }
}

/// The use cases, with the tables and the API that the environment names.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn actions_from_env(sdk: &SdkConfig, limits: SendLimits) -> Result<Actions, BadVariable> {
    let store = Store::from_env(sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
    let fanout = Fanout::new(store.clone(), ConnectionsApi::from_env(sdk, env)?);
    Ok(Actions::new(store, fanout, limits, Clock::system()))
}

/// Reads the limits on writing, from `SEND_RATE`, `FIRST_MESSAGE_RATE` and `GROUP_MEMBERS_MAX`.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn send_limits(kept_for: Duration) -> Result<SendLimits, BadVariable> {
    Ok(SendLimits::new(rate("SEND_RATE", env)?, rate("FIRST_MESSAGE_RATE", env)?, kept_for, group_members_max()?))
}

/// `ENCRYPTION`: whether users encrypt end to end.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn encryption() -> Result<Encryption, BadVariable> {
    Encryption::parse(&env("ENCRYPTION")?).map_err(|invalid| BadVariable::new("ENCRYPTION", invalid.to_string()))
}

/// `SEALED_REPORTS`: whether each sealed message has a digest with which a member can prove it.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn sealed_reports() -> Result<bool, BadVariable> {
    match env("SEALED_REPORTS")?.as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(BadVariable::new("SEALED_REPORTS", "must be on or off")),
    }
}

/// `PROFILES`: whether users have profiles, and who writes them.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn profiles() -> Result<Profiles, BadVariable> {
    Profiles::parse(&env("PROFILES")?).map_err(|invalid| BadVariable::new("PROFILES", invalid.to_string()))
}

/// `AUDIT_DAYS`: how long an earlier text of a message is kept for the operator.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn kept_for() -> Result<Duration, BadVariable> {
    Ok(Duration::from_hours(24) * u32::try_from(count("AUDIT_DAYS")?).unwrap_or(u32::MAX))
}

/// `REPORT_DAYS`: how long a report is kept for the operator.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub fn reports_kept_for() -> Result<Duration, BadVariable> {
    Ok(Duration::from_hours(24) * u32::try_from(count("REPORT_DAYS")?).unwrap_or(u32::MAX))
}

/// # Errors
/// [`BadVariable`] names the variable.
pub fn group_members_max() -> Result<u64, BadVariable> {
    Ok(u64::try_from(count("GROUP_MEMBERS_MAX")?).unwrap_or(u64::MAX))
}
