//! An @connections endpoint that takes every frame, or fails as told.

use std::collections::HashMap;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use aws_sdk_apigatewaymanagement::Client;
use aws_sdk_apigatewaymanagement::config::Builder;
use aws_sdk_apigatewaymanagement::config::timeout::TimeoutConfig;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::{management_config, plain_http};

/// Stops when dropped. Frames of all connections are taken, known or not.
pub struct Management {
    address: SocketAddr,
    state: Arc<Mutex<Posts>>,
    server: AbortHandle,
}

#[derive(Default)]
struct Posts {
    /// By connection id, in the order of their arrival.
    frames: HashMap<String, Vec<String>>,
    /// By connection id.
    attempts: HashMap<String, usize>,
    behaviours: HashMap<String, Behaviour>,
}

#[derive(Clone, Copy)]
enum Behaviour {
    Fails(u16),
    NeverAnswers,
}

impl Management {
    pub async fn start() -> Self {
        let state = Arc::<Mutex<Posts>>::default();
        let router = Router::new().route("/v1/@connections/{id}", post(take)).with_state(Arc::clone(&state));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(axum::serve(listener, router).into_future()).abort_handle();
        Self { address, state, server }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// For a client that differs in something from [`Management::client`].
    pub fn config(&self) -> Builder {
        management_config(plain_http()).endpoint_url(self.endpoint())
    }

    /// One attempt per post, given up after a second, as in production.
    pub fn client(&self) -> Client {
        let timeout = TimeoutConfig::builder().operation_timeout(deliver::POST_TIMEOUT).build();
        Client::from_conf(self.config().timeout_config(timeout).build())
    }

    /// What was posted to a connection, in the order of its arrival.
    pub fn frames(&self, connection_id: &str) -> Vec<Value> {
        let posts = self.state.lock().unwrap();
        let frames = posts.frames.get(connection_id).into_iter().flatten();
        frames.map(|frame| serde_json::from_str(frame).expect("a frame is JSON")).collect()
    }

    /// How often somebody tried to post to a connection, whatever came of it.
    pub fn posts(&self, connection_id: &str) -> usize {
        self.state.lock().unwrap().attempts.get(connection_id).copied().unwrap_or_default()
    }

    /// Posts to the connection answer 410 from now on.
    pub fn gone(&self, connection_id: &str) {
        self.fail(connection_id, 410);
    }

    /// Posts to the connection answer with this status from now on.
    pub fn fail(&self, connection_id: &str, status: u16) {
        self.behave(connection_id, Behaviour::Fails(status));
    }

    /// Posts to the connection are not answered from now on.
    pub fn slow(&self, connection_id: &str) {
        self.behave(connection_id, Behaviour::NeverAnswers);
    }

    fn behave(&self, connection_id: &str, behaviour: Behaviour) {
        self.state.lock().unwrap().behaviours.insert(connection_id.to_owned(), behaviour);
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(state): State<Arc<Mutex<Posts>>>, Path(id): Path<String>, body: String) -> Response {
    *state.lock().unwrap().attempts.entry(id.clone()).or_default() += 1;
    let behaviour = state.lock().unwrap().behaviours.get(&id).copied();
    match behaviour {
        None => state.lock().unwrap().frames.entry(id).or_default().push(body),
        Some(Behaviour::Fails(status)) => return StatusCode::from_u16(status).unwrap().into_response(),
        Some(Behaviour::NeverAnswers) => pending().await,
    }
    StatusCode::OK.into_response()
}

#[cfg(test)]
mod tests {
    use aws_sdk_apigatewaymanagement::Client;
    use aws_sdk_apigatewaymanagement::error::SdkError;
    use aws_sdk_apigatewaymanagement::primitives::Blob;
    use serde_json::json;

    use super::Management;

    async fn status(client: &Client, id: &str) -> Option<u16> {
        let posted = client.post_to_connection().connection_id(id).data(Blob::new(r#"{"n":1}"#)).send().await;
        match posted {
            Ok(_) => Some(200),
            Err(SdkError::TimeoutError(_)) => None,
            Err(error) => Some(error.raw_response().unwrap().status().as_u16()),
        }
    }

    #[tokio::test]
    async fn frames_are_kept_and_connections_fail_as_told() {
        let management = Management::start().await;
        let client = management.client();
        management.gone("gone=");
        management.slow("slow=");
        management.fail("full=", 429);
        assert_eq!(status(&client, "good=").await, Some(200));
        assert_eq!(status(&client, "gone=").await, Some(410));
        assert_eq!(status(&client, "full=").await, Some(429));
        assert_eq!(status(&client, "slow=").await, None);
        assert_eq!(management.frames("good="), [json!({ "n": 1 })]);
        assert!(management.frames("gone=").is_empty());
    }
}
