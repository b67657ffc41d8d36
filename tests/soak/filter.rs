//! A team's filter that allows everything. Some answers come too late, and for a while every question fails. The functions
//! then store the message without an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The time that a function gives the filter.
pub(crate) const TIME_MS: u64 = 200;
/// One question in this many has its answer only later than that.
const STALL_ONE_IN: u64 = 50;
/// The questions that fail. The functions then pause: each after five of them.
const DEAD: std::ops::Range<u64> = 200..260;

#[derive(Default)]
pub(crate) struct Judge {
    asked: AtomicU64,
    stalled: AtomicU64,
    failed: AtomicU64,
}

impl Judge {
    /// Returns the filter's URL too.
    pub(crate) async fn start() -> (Arc<Self>, String) {
        let judge = Arc::new(Self::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let url = format!("http://{}", listener.local_addr().expect("it has an address"));
        let router = Router::new().route("/", post(answer)).with_state(Arc::clone(&judge));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (judge, url)
    }

    pub(crate) fn account(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("questions to the filter", self.asked.load(Relaxed)),
            ("of them answered too late", self.stalled.load(Relaxed)),
            ("of them failed", self.failed.load(Relaxed)),
        ]
    }

    pub(crate) fn proves_something(&self) {
        let disturbed = [&self.stalled, &self.failed].map(|count| count.load(Relaxed));
        assert!(
            disturbed.iter().all(|count| *count > 0),
            "the filter was never late or never dead: this proves little"
        );
    }
}

async fn answer(State(judge): State<Arc<Judge>>) -> Result<Json<Value>, StatusCode> {
    let number = judge.asked.fetch_add(1, Relaxed);
    if DEAD.contains(&number) {
        judge.failed.fetch_add(1, Relaxed);
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    if number % STALL_ONE_IN == 0 {
        judge.stalled.fetch_add(1, Relaxed);
        tokio::time::sleep(Duration::from_millis(2 * TIME_MS)).await;
    }
    Ok(Json(json!({ "allow": true })))
}
