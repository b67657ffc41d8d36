//! Lambda's Runtime API, version 2018-06-01, as one sandbox sees it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{AppendHeaders, IntoResponse};
use axum::routing::{get, post};
use serde::Deserialize;
use tokio::sync::{Notify, oneshot};

use super::FunctionError;
use crate::lock;

const ANSWER_BYTES_MAX: usize = 6 * 1024 * 1024;

pub(super) type Answer = Result<Vec<u8>, FunctionError>;

pub(super) struct Event {
    pub(super) request_id: String,
    pub(super) deadline_ms: i128,
    pub(super) payload: Bytes,
    pub(super) answer: oneshot::Sender<Answer>,
}

pub(super) struct RuntimeApi {
    function: String,
    ready: Notify,
    /// The one event that waits to be fetched.
    offered: Mutex<Option<Event>>,
    offer_made: Notify,
    /// The events that were fetched and not answered yet, by request id: one, unless a process misbehaves.
    running: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
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
    pub(super) fn new(function: &str) -> Self {
        Self {
            function: function.to_owned(),
            ready: Notify::new(),
            offered: Mutex::default(),
            offer_made: Notify::new(),
            running: Mutex::default(),
            init_error: Mutex::default(),
        }
    }

    pub(super) fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(init_error))
            .layer(DefaultBodyLimit::max(ANSWER_BYTES_MAX))
            .with_state(self)
    }

    /// Waits until the function has asked for an event.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }

    pub(super) fn init_error(&self) -> Option<FunctionError> {
        lock(&self.init_error).take()
    }

    /// Gives the function its next event.
    pub(super) fn offer(&self, event: Event) {
        *lock(&self.offered) = Some(event);
        self.offer_made.notify_one();
    }

    pub(super) fn has_offer(&self) -> bool {
        lock(&self.offered).is_some()
    }

    async fn next_event(&self) -> Event {
        loop {
            if let Some(event) = lock(&self.offered).take() {
                return event;
            }
            self.offer_made.notified().await;
        }
    }

    fn finish(&self, request_id: &str, answer: Answer) -> StatusCode {
        match lock(&self.running).remove(request_id) {
            // Whoever asked may have stopped waiting; the function need not know.
            Some(asker) => asker.send(answer).map_or(StatusCode::ACCEPTED, |()| StatusCode::ACCEPTED),
            None => StatusCode::BAD_REQUEST,
        }
    }
}

async fn next(State(api): State<Arc<RuntimeApi>>) -> impl IntoResponse {
    api.ready.notify_one();
    let event = api.next_event().await;
    let headers = [
        ("lambda-runtime-aws-request-id", event.request_id.clone()),
        ("lambda-runtime-deadline-ms", event.deadline_ms.to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            format!("arn:aws:lambda:us-east-1:000000000000:function:{}", api.function),
        ),
        ("lambda-runtime-trace-id", format!("Root=1-{:08x}-{:024x};Sampled=0", fastrand::u32(..), fastrand::u64(..))),
        ("content-type", "application/json".to_owned()),
    ];
    lock(&api.running).insert(event.request_id, event.answer);
    (AppendHeaders(headers), event.payload)
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
