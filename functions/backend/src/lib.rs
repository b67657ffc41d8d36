//! `backend`: requests of your own servers over HTTP, with a token of a service. A request of an operator is not among
//! them: those need the IAM permission to invoke `admin`.

use std::time::Duration;

use actions::{Actions, SendLimits, WrittenAt};
use domain::{Failure, Rate};
use lambda::{
    BadVariable, Diagnostic, EventLine, InvocationEvent, Response, act_as_service, actions_from_env, answer_service,
    group_members_max, profiles, sdk_config, service_request,
};
use serde_json::{Value, json};
use store::{WarmTable, warm_up};
use wire::{ProfileChange, ProfileResult, Refusal, UserId};

/// The function's clients and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    /// Without rates: a service may write what its owner likes.
    pub actions: Actions,
}

/// Starts the process.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let mut limits = SendLimits::new(Rate::UNLIMITED, Rate::UNLIMITED, Duration::ZERO, group_members_max()?);
    limits.profiles = profiles()?;
    let actions = actions_from_env(&sdk_config().await, limits)?;
    warm_up(&actions.store, WarmTable::Inbox).await;
    Ok(Deps { actions })
}

/// Handles one request to `POST /v1/services/{op}`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |service: &UserId, op: &str, request: Value, line: &mut EventLine| {
        check_service(service, &request)?;
        match op {
            "profile" => profile(deps, service, &request).await,
            _ => act_as_service(&deps.actions, service, service_request(op, request)?, line).await,
        }
    };
    answer_service(&deps.actions, event, act).await
}

/// Checks `as`, which `admin` needs and the token has.
fn check_service(service: &UserId, request: &Value) -> Result<(), Refusal> {
    match request.get("as") {
        None | Some(Value::Null) => Ok(()),
        Some(named) if named == service.as_str() => Ok(()),
        Some(_) => Err(Refusal::bad_request("as", "must be the token's sub, or left out")),
    }
}

/// Changes the profile of a user, or without one the service's own.
async fn profile(deps: &Deps, service: &UserId, request: &Value) -> Result<Value, Failure> {
    let user = match request.get("user_id") {
        None | Some(Value::Null) => service.clone(),
        Some(id) => {
            let id = id.as_str().ok_or_else(|| Refusal::bad_request("user_id", "must be a string"))?;
            UserId::parse(id).map_err(|invalid| Refusal::bad_request("user_id", invalid.to_string()))?
        }
    };
    let set = request.get("set").and_then(Value::as_object);
    let set = set.ok_or_else(|| Refusal::bad_request("set", "must be an object"))?;
    let set = ProfileChange::of(set)?;
    let ProfileResult { version } = deps.actions.change_profile(&user, &set, WrittenAt::Now).await?;
    Ok(json!({ "version": version }))
}
