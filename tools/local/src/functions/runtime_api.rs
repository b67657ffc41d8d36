//! Lambda's Runtime API, version 2018-06-01, as one sandbox sees it.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{AppendHeaders, IntoResponse};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use serde::Deserialize;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::FunctionError;
use crate::lock;

const ANSWER_BYTES_MAX: usize = 6 * 1024 * 1024;

/// The function's reply, or its failure.
type InvocationResult = Result<Vec<u8>, FunctionError>;

struct Invocation {
    request_id: String,
    deadline_ms: i128,
    payload: Bytes,
    answer_tx: oneshot::Sender<InvocationResult>,
}

pub struct RuntimeApi {
    function: String,
    ready: Notify,
    /// The one event that waits to be fetched.
    offered: Mutex<Option<Invocation>>,
    offer_made: Notify,
    /// The events that were fetched and not answered yet, by request id: one, unless a process misbehaves.
    running: Mutex<HashMap<String, oneshot::Sender<InvocationResult>>>,
    init_error: Mutex<Option<FunctionError>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorReport {
    #[serde(default)]
    error_type: String,
    #[serde(default)]
    error_message: String,
}

impl RuntimeApi {
    /// Served at that address until the guard is dropped.
    pub async fn start(function: &str) -> io::Result<(Arc<Self>, SocketAddr, DropGuard)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        // Without this, small answers wait for the other side's delayed acknowledgement.
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap_or_default());
        let stop = CancellationToken::new();
        let api = Arc::new(Self {
            function: function.to_owned(),
            ready: Notify::new(),
            offered: Mutex::default(),
            offer_made: Notify::new(),
            running: Mutex::default(),
            init_error: Mutex::default(),
        });
        let server = axum::serve(listener, Arc::clone(&api).router());
        tokio::spawn(server.with_graceful_shutdown(stop.clone().cancelled_owned()).into_future());
        Ok((api, address, stop.drop_guard()))
    }

    fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(init_error))
            .layer(DefaultBodyLimit::max(ANSWER_BYTES_MAX))
            .with_state(self)
    }

    /// Waits until the function has asked for an event.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }

    pub(super) fn init_error(&self) -> Option<FunctionError> {
        lock(&self.init_error).take()
    }

    /// Gives the function its next event, which it has that long to answer.
    pub fn offer(&self, payload: impl Into<Bytes>, time_max: Duration) -> oneshot::Receiver<InvocationResult> {
        let (answer_tx, answer_rx) = oneshot::channel();
        let deadline = OffsetDateTime::now_utc() + time_max;
        *lock(&self.offered) = Some(Invocation {
            request_id: Uuid::new_v4().to_string(),
            deadline_ms: deadline.unix_timestamp_nanos() / 1_000_000,
            payload: payload.into(),
            answer_tx,
        });
        self.offer_made.notify_one();
        answer_rx
    }

    pub(super) fn has_offer(&self) -> bool {
        lock(&self.offered).is_some()
    }

    async fn next_invocation(&self) -> Invocation {
        loop {
            if let Some(invocation) = lock(&self.offered).take() {
                return invocation;
            }
            self.offer_made.notified().await;
        }
    }

    fn finish(&self, request_id: &str, answer: InvocationResult) -> StatusCode {
        match lock(&self.running).remove(request_id) {
            Some(answer_tx) => {
                // The caller may have stopped waiting; the function need not know.
                let _ = answer_tx.send(answer);
                StatusCode::ACCEPTED
            }
            None => StatusCode::BAD_REQUEST,
        }
    }
}

async fn next(State(api): State<Arc<RuntimeApi>>) -> impl IntoResponse {
    api.ready.notify_one();
    let invocation = api.next_invocation().await;
    let headers = [
        ("lambda-runtime-aws-request-id", invocation.request_id.clone()),
        ("lambda-runtime-deadline-ms", invocation.deadline_ms.to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            format!("arn:aws:lambda:us-east-1:000000000000:function:{}", api.function),
        ),
        ("lambda-runtime-trace-id", format!("Root=1-{:08x}-{:024x};Sampled=0", fastrand::u32(..), fastrand::u64(..))),
        ("content-type", "application/json".to_owned()),
    ];
    lock(&api.running).insert(invocation.request_id, invocation.answer_tx);
    (AppendHeaders(headers), invocation.payload)
}

async fn response(State(api): State<Arc<RuntimeApi>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    api.finish(&id, Ok(body.into()))
}

async fn error(State(api): State<Arc<RuntimeApi>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    api.finish(&id, Err(raised(&body)))
}

async fn init_error(State(api): State<Arc<RuntimeApi>>, body: Bytes) -> StatusCode {
    *lock(&api.init_error) = Some(raised(&body));
    StatusCode::ACCEPTED
}

fn raised(body: &[u8]) -> FunctionError {
    match serde_json::from_slice(body) {
        Ok(ErrorReport { error_type, error_message }) => FunctionError::Raised { error_type, message: error_message },
        Err(_) => FunctionError::Raised {
            error_type: "Unknown".to_owned(),
            message: String::from_utf8_lossy(body).into_owned(),
        },
    }
}
