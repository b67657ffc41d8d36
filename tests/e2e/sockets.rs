//! API Gateway's handling of a socket, whatever its frames contain.

use std::time::Duration;

use serde_json::json;
use testkit::TestServer;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack knows no limits")]
async fn binary_frames_close_the_socket() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    alice.send_message(Message::binary(b"{\"action\":\"ping\"}".to_vec())).await;
    assert_eq!(alice.closed().await, Some(CloseCode::Unsupported));
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack knows no limits")]
async fn a_frame_over_32_kib_closes_the_socket() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    alice.send_text(&"x".repeat(32 * 1024 + 1)).await;
    assert_eq!(alice.closed().await, Some(CloseCode::Size));
}

#[tokio::test]
async fn a_frame_of_exactly_32_kib_passes() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let padding = 32 * 1024 - json!({"action": "ping", "id": "1", "x": ""}).to_string().len();
    let frame = json!({"action": "ping", "id": "1", "x": "x".repeat(padding)}).to_string();
    assert_eq!(frame.len(), 32 * 1024);
    alice.send_text(&frame).await;
    assert_eq!(alice.answer("1").await["type"], "reply");
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sets the limit")]
async fn a_silent_socket_is_closed() {
    let server = TestServer::with(|options| options.limits.idle_max = Duration::from_millis(300)).await;
    let mut alice = server.phone("alice").await;
    assert_eq!(alice.closed().await, Some(CloseCode::Away));
    server.until_connections("alice", 0).await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sets the limit")]
async fn every_socket_ends_at_its_lifetime() {
    let server = TestServer::with(|options| options.limits.lifetime_max = Duration::from_millis(500)).await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    assert_eq!(alice.closed().await, Some(CloseCode::Away));
    assert_eq!(bob.closed().await, Some(CloseCode::Away));
    server.until_connections("alice", 0).await;
    server.until_connections("bob", 0).await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "posts without the signature that AWS wants")]
async fn a_connection_can_be_looked_at_posted_to_and_closed() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let id = server.connection_rows("alice")[0]["connection_id"].as_str().unwrap().to_owned();
    let url = format!("{}/@connections/{}", server.local().management_url(), id.replace('=', "%3D"));

    let seen = server.http.get(&url).send().await.unwrap();
    assert_eq!(seen.status(), 200);
    assert!(seen.json::<serde_json::Value>().await.unwrap()["connectedAt"].is_string());
    let event = json!({"type": "receipt.read", "conversation_id": "dm_x", "user_id": "bob", "seq": 1, "at": "2025-11-20T10:00:00.123Z"});
    assert_eq!(server.http.post(&url).body(event.to_string()).send().await.unwrap().status(), 200);
    assert_eq!(alice.event("receipt.read").await, event);
    assert_eq!(server.http.post(&url).body("x".repeat(128 * 1024 + 1)).send().await.unwrap().status(), 413);
    assert_eq!(server.http.delete(&url).send().await.unwrap().status(), 204);
    alice.closed().await;
    server.until_connections("alice", 0).await;
    assert_eq!(server.http.post(&url).body("{}").send().await.unwrap().status(), 410);
    assert_eq!(server.http.get(&url).send().await.unwrap().status(), 410);
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack knows no other server from this one")]
async fn another_path_is_forbidden() {
    let server = TestServer::open().await;
    let other = server.url().replace("/v1", "/v2");
    let refused = testkit::Phone::connect("alice", &other, &server.token("alice")).await;
    assert_eq!(refused.err(), Some(testkit::ConnectError(403)));
}
