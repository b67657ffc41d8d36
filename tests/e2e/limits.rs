//! Limits: a user cannot harm the others. The server refuses excessive requests, and closes the sockets of users who go
//! on.

use std::time::Duration;

use serde_json::json;
use testkit::TestServer;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

async fn server(limits: &[(&str, &str)]) -> TestServer {
    let limits: Vec<_> = limits.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TestServer::with(|options| options.parameters.extend(limits)).await
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sets the limits")]
async fn a_flood_is_closed_and_others_are_served() {
    let server = server(&[("RequestRate", "60+10/1s")]).await;
    let (mut mallory, mut alice) = (server.phone("mallory").await, server.phone("alice").await);
    let refused = loop {
        let answer = mallory.ask(json!({"action": "ping"})).await;
        if answer["type"] == "error" {
            break answer["error"].clone();
        }
    };
    let told = (&refused["code"], &refused["retryable"], &refused["retry_after_ms"]);
    assert_eq!(told, (&json!("rate_limited"), &json!(true), &json!(1000)));
    assert_eq!(mallory.flood(r#"{"action":"ping"}"#).await, Some(CloseCode::Normal));
    server.until_connections("mallory", 0).await;
    assert!(!alice.pending().await);
    server.phone("mallory").await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sets the limits")]
async fn who_asks_for_too_much_over_all_processes_is_closed_everywhere_and_kept_out() {
    let server = server(&[("RequestRate", "1000+10/1s")]).await;
    let (mut one, mut other) = (server.device("mallory", "one").await, server.device("mallory", "two").await);
    let mut alice = server.phone("alice").await;
    // As if most of what she asks for went to other processes.
    server.store_samples("mallory").await;
    assert_eq!(one.flood(r#"{"action":"ping"}"#).await, Some(CloseCode::Normal));
    assert_eq!(other.closed().await, Some(CloseCode::Normal));
    let again = server.connect(&server.token("mallory")).await;
    assert_eq!(again.err(), Some(testkit::ConnectError(403)));
    assert!(!alice.pending().await);
}

#[tokio::test]
async fn the_seventeenth_connection_closes_the_first() {
    let server = TestServer::open().await;
    let mut phones = Vec::new();
    for _ in 0..16 {
        phones.push(server.phone("bob").await);
    }
    for phone in &mut phones {
        assert!(!phone.pending().await);
    }
    phones.push(server.phone("bob").await);
    let first = &mut phones[0];
    first.event("connection.replaced").await;
    assert_eq!(first.closed().await, Some(CloseCode::Normal));
    for phone in &mut phones[1..] {
        assert!(!phone.pending().await);
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sets the limits")]
async fn a_send_over_the_rate_is_accepted_after_the_wait_that_it_is_told() {
    let server = server(&[("SendRate", "3+5/1s")]).await;
    let mut alice = server.phone("alice").await;
    for id in ["m1", "m2", "m3"] {
        alice.send("bob", id, "hi").await;
    }
    let fourth = json!({"action": "send", "to": "bob", "client_msg_id": "m4", "kind": "text", "body": "hi"});
    let refused = alice.ask(fourth.clone()).await["error"].clone();
    assert_eq!(refused["code"], "rate_limited");
    let wait_ms = refused["retry_after_ms"].as_u64().unwrap();
    assert!((1..=200).contains(&wait_ms), "{refused}");
    // The one thing to wait for here is the time itself.
    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    assert_eq!(alice.ok(fourth).await["seq"], 4);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sets the limits")]
async fn strangers_are_written_to_a_few_at_a_time() {
    let server = server(&[("FirstMessageRate", "2+1/180s")]).await;
    let mut alice = server.phone("alice").await;
    for user in ["bob", "carol"] {
        alice.send(user, "m1", "hi").await;
    }
    let third = json!({"action": "send", "to": "dave", "client_msg_id": "m1", "kind": "text", "body": "hi"});
    assert_eq!(alice.refused(third).await, "rate_limited");
    alice.send("bob", "m2", "we know each other").await;
    alice.send("alice", "m1", "a note").await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks into the tables")]
async fn a_token_that_ends_ends_delivery() {
    let server = TestServer::open().await;
    let mut bob = server.connect(&server.token_for("bob", 5)).await.unwrap();
    let mut alice = server.phone("alice").await;
    alice.send("bob", "m1", "in time").await;
    bob.event("messages.new").await;
    while bob.ask(json!({"action": "ping"})).await["error"]["code"] != "token_expired" {}
    alice.send("bob", "m2", "too late").await;
    // The next event that there is would be this.
    assert_eq!(bob.closed().await, Some(CloseCode::Normal));
    server.until_connections("bob", 0).await;
    assert_eq!(server.phone("bob").await.drain().await.len(), 2, "nothing is lost");
}
