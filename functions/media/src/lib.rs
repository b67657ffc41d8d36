//! `upload`, `uploaded` and `download`: what messages carry. A file for each, and one for the stream of its table.
//!
//! A row is the life of an object. It is written before the object can be, `send` attaches it in a message's own transaction, and whatever
//! removes it, be it the TTL or the delete of the message, removes the object through the table's stream. So an object that is attached is
//! never lost, and one that is not is never kept. `send` knows nothing of S3, and S3 nothing of messages.

mod download;
mod sweep;
mod upload;
mod uploaded;

use domain::Rate;
use lambda::{
    BadVariable, BatchResponse, Caller, Clock, ConnectionsApi, Diagnostic, EventLine, InvocationEvent, LambdaEvent,
    Limiter, NotFromApiGateway, Response, WebSocketEvent, answer, count, env, rate, sdk_config,
};
use objects::Objects;
use serde::Serialize;
use serde_json::Value;
use store::stream::Batch;
use store::{Store, WarmTable, warm_up};
use wire::{Action, Refusal};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub objects: Objects,
    pub limiter: Limiter,
    pub limits: UploadLimits,
    pub clock: Clock,
}

/// What a user may upload.
#[derive(Clone, Copy, Debug)]
pub struct UploadLimits {
    /// For one message.
    pub bytes_max: u64,
    /// In MiB, each upload as at least one.
    pub mib: Rate,
}

impl Deps {
    /// From the environment, with the connection open that the first event needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let objects = Objects::from_sdk(&sdk, env("MEDIA_BUCKET")?);
        let limiter = Limiter::from_env(ConnectionsApi::from_env(&sdk, env)?, env)?;
        let bytes_max = u64::try_from(count("MEDIA_MAX_MIB")?).unwrap_or(u64::MAX).saturating_mul(MIB);
        let limits = UploadLimits { bytes_max, mib: rate("UPLOAD_RATE", env)? };
        warm_up(&store, WarmTable::Media).await;
        Ok(Self { store, objects, limiter, limits, clock: Clock::system() })
    }
}

/// In bytes.
const MIB: u64 = 1024 * 1024;

/// What is answered: to a client, or to Lambda's poller of the stream.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answered {
    Client(Response),
    Batch(BatchResponse),
}

/// Answers one event on the routes `upload`, `uploaded` and `download`, or a batch of the stream.
///
/// # Errors
/// Only for an event that comes from neither; a client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: LambdaEvent<Value>) -> Result<Answered, Diagnostic> {
    let LambdaEvent { payload, context } = event;
    if payload.get("Records").is_some() {
        let batch: Batch = serde_json::from_value(payload).map_err(|_| NotFromApiGateway("Records"))?;
        return Ok(Answered::Batch(sweep::sweep(deps, &context.request_id, batch).await));
    }
    let event: WebSocketEvent = serde_json::from_value(payload).map_err(|_| NotFromApiGateway("form"))?;
    act(deps, LambdaEvent { payload: event, context }).await.map(Answered::Client)
}

/// Answers a client.
///
/// # Errors
/// Only for an event that does not come from API Gateway.
pub async fn act(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        Action::Upload(request) => upload::upload(deps, &caller.user, request, line).await,
        Action::Uploaded(request) => uploaded::uploaded(deps, &caller.user, request).await,
        Action::Download(request) => download::download(deps, &caller.user, request).await,
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}
