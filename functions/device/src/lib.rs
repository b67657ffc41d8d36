//! `device`: registers a connection's device for push notifications, or unregisters it, each in its own file.

mod register;
mod take_out;

use std::sync::Mutex;

use actions::{Actions, SendLimits};
use domain::Filled;
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer, env, sdk_config,
};
use push::Phones;
use store::{WarmTable, warm_up};
use wire::{DeviceAction, DeviceRequest, Platform, Refusal, UserId};

/// The dependencies of the function, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub actions: Actions,
    pub phones: Phones,
    pub applications: Applications,
    pub limiter: Limiter,
    /// Registrations with SNS, counted by user.
    pub registrations: Mutex<Filled<UserId>>,
}

/// The ARNs of SNS's platform applications, for the configured platforms.
#[derive(Clone, Debug, Default)]
pub struct Applications {
    pub apns: Option<String>,
    pub apns_sandbox: Option<String>,
    pub fcm: Option<String>,
}

impl Applications {
    /// From `APNS_APPLICATION_ARN`, `APNS_SANDBOX_APPLICATION_ARN` and `FCM_APPLICATION_ARN`, each of which may be missing.
    fn from_env() -> Self {
        let arn = |name| env(name).ok();
        Self {
            apns: arn("APNS_APPLICATION_ARN"),
            apns_sandbox: arn("APNS_SANDBOX_APPLICATION_ARN"),
            fcm: arn("FCM_APPLICATION_ARN"),
        }
    }

    fn of(&self, platform: Platform) -> Result<&str, Refusal> {
        let arn = match platform {
            Platform::Apns => &self.apns,
            Platform::ApnsSandbox => &self.apns_sandbox,
            Platform::Fcm => &self.fcm,
        };
        arn.as_deref().ok_or_else(|| {
            Refusal::bad_request("platform", format!("{} is not configured on this server", platform.as_str()))
        })
    }
}

/// Starts the process with the connection open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let sdk = sdk_config().await;
    let Core { actions, limiter } = Core::from_env(&sdk, SendLimits::default())?;
    let (phones, applications) = (Phones::from_sdk(&sdk), Applications::from_env());
    warm_up(&actions.store, WarmTable::Devices).await;
    Ok(Deps { actions, phones, applications, limiter, registrations: Mutex::default() })
}

/// Handles one event on the route `device`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, _: &mut EventLine| {
        let DeviceAction::Device(request) = action;
        let device = caller.device.as_ref();
        let device = device.ok_or_else(|| Refusal::bad_request("device_id", "must be set at connect"))?;
        match request {
            DeviceRequest::On(registration) => register::register(deps, &caller.user, device, registration).await,
            DeviceRequest::Off { .. } => take_out::take_out(deps, &caller.user, device).await,
        }
    };
    answer(&deps.actions.clock, &deps.limiter, event, act).await
}

/// Deletes endpoints from SNS that no row names any more. A remaining endpoint costs nothing and gets no push.
async fn forget(deps: &Deps, endpoints: impl IntoIterator<Item = &str>) {
    for endpoint in endpoints {
        if let Err(error) = deps.phones.forget(endpoint).await {
            tracing::warn!(error = domain::error_chain(&*error), "an endpoint was not deleted from SNS");
        }
    }
}
