//! `device`: where the phone of a connection can be rung. A file for each of the two requests.

mod register;
mod take_out;

use std::sync::Mutex;

use domain::Filled;
use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer,
    count, env, sdk_config,
};
use push::Phones;
use store::{Store, WarmTable, warm_up};
use wire::{Action, DeviceRequest, Platform, Refusal, UserId};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub phones: Phones,
    pub applications: Applications,
    pub limiter: Limiter,
    /// Those that SNS was asked for.
    pub registrations: Mutex<Filled<UserId>>,
    pub clock: Clock,
}

/// The ARNs of SNS's platform applications, of those platforms whose phones are rung.
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
        arn.as_deref()
            .ok_or_else(|| Refusal::bad_request("platform", format!("this server rings no {}", platform.as_str())))
    }
}

impl Deps {
    /// From the environment, with the connection open that the first event needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let limiter = Limiter::from_env(ConnectionsApi::from_env(&sdk, env)?, env)?;
        let (phones, applications) = (Phones::from_sdk(&sdk), Applications::from_env());
        warm_up(&store, WarmTable::Devices).await;
        Ok(Self { store, phones, applications, limiter, registrations: Mutex::default(), clock: Clock::system() })
    }
}

/// Answers one event on the route `device`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, _: &mut EventLine| {
        let Action::Device(request) = action else { return Err(Refusal::UnknownAction.into()) };
        let device = caller.device.as_ref();
        let device = device.ok_or_else(|| Refusal::bad_request("device_id", "must be named at the connect"))?;
        match request {
            DeviceRequest::On(registration) => register::register(deps, &caller.user, device, registration).await,
            DeviceRequest::Off { .. } => take_out::take_out(deps, &caller.user, device).await,
        }
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}

/// Has SNS forget tokens that no row names any more. One that stays there costs nothing, and rings nobody.
async fn forget(deps: &Deps, endpoints: impl IntoIterator<Item = &str>) {
    for endpoint in endpoints {
        if let Err(error) = deps.phones.forget(endpoint).await {
            tracing::warn!(error = domain::error_chain(&*error), "SNS did not forget an endpoint");
        }
    }
}
