//! The parts of Lambda and API Gateway that every function needs: event, reply, environment, clock, log.

use std::time::Instant;

mod batch;
mod caller;
mod env;
mod event;
mod event_line;
mod http;
mod limiter;
mod log;
mod log_key;
mod service;
mod start;
mod websocket;

pub use actions::Clock;
pub use batch::BatchResponse;
pub use caller::{Caller, NotFromApiGateway, caller};
pub use env::{BadVariable, count, env, optional, rate, sdk_config};
pub use event::{ApiEvent, RequestContext};
pub use event_line::{EventLine, Measures, UpTo, millis_between};
pub use lambda_runtime::{Context, Diagnostic, Error, LambdaEvent};
pub use limiter::Limiter;
pub use log::{logs_as_ours, start_log, subscriber};
pub use log_key::LogKey;
pub use service::{OF_SERVICES, ServiceRequest, act_as_service, service_request};
pub use start::{
    Core, actions_from_env, encryption, group_members_max, kept_for, profiles, reports_kept_for, sealed_reports,
    send_limits,
};
pub use websocket::{Response, answer, answer_service, line, respond};

/// An event of API Gateway.
pub type InvocationEvent = LambdaEvent<ApiEvent>;

/// A function's `main`: starts the log, creates the function's dependencies once per process, and handles events one by
/// one.
///
/// # Errors
/// A variable is missing, or Lambda's Runtime API has failed.
pub async fn serve<D, E, A>(
    start: impl AsyncFnOnce() -> Result<D, BadVariable>,
    handle: impl AsyncFn(&D, LambdaEvent<E>) -> Result<A, Diagnostic>,
) -> Result<(), Error>
where
    E: serde::de::DeserializeOwned,
    A: serde::Serialize,
{
    let started = Instant::now();
    start_log()?;
    let deps = start().await?;
    event_line::initialised(started.elapsed());
    lambda_runtime::run(lambda_runtime::service_fn(|event| handle(&deps, event))).await
}
