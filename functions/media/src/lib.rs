//! `upload`, `uploaded` and `download`: media of messages. A file for each, and one for the stream of its table.
//!
//! A row is the life of an object. The row is written before the object can be, and `send` attaches it in a message's
//! own transaction. When the TTL or the delete of the message removes the row, the table's stream removes the object.
//! So an attached object is never lost, and others are never kept. `send` knows nothing of S3, and S3 nothing of
//! messages.

mod download;
mod sweep;
mod upload;
mod uploaded;

use actions::{Actions, SendLimits};
use domain::Rate;
use lambda::{
    ApiEvent, BadVariable, BatchResponse, Caller, Core, Diagnostic, EventLine, InvocationEvent, LambdaEvent, Limiter,
    NotFromApiGateway, Response, answer, count, encryption, env, rate, sdk_config,
};
use objects::Objects;
use queue::Failures;
use serde::Serialize;
use serde_json::Value;
use store::stream::Removals;
use store::{WarmTable, warm_up};
use wire::MediaAction;

/// The function's clients and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub actions: Actions,
    pub objects: Objects,
    /// The queue of failed removals.
    pub failures: Failures,
    pub limiter: Limiter,
    pub limits: UploadLimits,
}

/// A user's limits on uploads.
#[derive(Clone, Copy, Debug)]
pub struct UploadLimits {
    /// For one message.
    pub bytes_max: u64,
    /// In MiB, each upload as at least one.
    pub mib: Rate,
}

/// Starts the process with the connection open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let sdk = sdk_config().await;
    let mut send_limits = SendLimits::default();
    send_limits.encryption = encryption()?;
    let Core { actions, limiter } = Core::from_env(&sdk, send_limits)?;
    let objects = Objects::from_sdk(&sdk, env("MEDIA_BUCKET")?);
    let bytes_max = u64::try_from(count("MEDIA_MAX_MIB")?).unwrap_or(u64::MAX).saturating_mul(MIB);
    let limits = UploadLimits { bytes_max, mib: rate("UPLOAD_RATE", env)? };
    let failures = Failures::from_sdk(&sdk, env("FAILURES_URL")?);
    warm_up(&actions.store, WarmTable::Media).await;
    Ok(Deps { actions, objects, failures, limiter, limits })
}

/// In bytes.
const MIB: u64 = 1024 * 1024;

/// The reply: to a client, or to Lambda's poller of the stream.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answered {
    Client(Response),
    Batch(BatchResponse),
}

/// Handles one event on the routes `upload`, `uploaded` and `download`, or a batch of the stream, or of failed
/// removals.
///
/// # Errors
/// Only for another kind of event; a client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: LambdaEvent<Value>) -> Result<Answered, Diagnostic> {
    let LambdaEvent { payload, context } = event;
    if payload.get("Records").is_some() || payload.get("removed").is_some() {
        let batch: Removals = serde_json::from_value(payload).map_err(|_| NotFromApiGateway("Records"))?;
        return Ok(Answered::Batch(sweep::sweep(deps, &context.request_id, batch).await));
    }
    let event: ApiEvent = serde_json::from_value(payload).map_err(|_| NotFromApiGateway("form"))?;
    act(deps, LambdaEvent { payload: event, context }).await.map(Answered::Client)
}

/// Handles a client's request.
///
/// # Errors
/// Only for an event that does not come from API Gateway.
pub async fn act(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        MediaAction::Upload(request) => upload::upload(deps, &caller.user, request, line).await,
        MediaAction::Uploaded(request) => uploaded::uploaded(deps, &caller.user, request).await,
        MediaAction::Download(request) => download::download(deps, &caller.user, request).await,
    };
    answer(&deps.actions.clock, &deps.limiter, event, act).await
}
