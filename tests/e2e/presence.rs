//! Typing and presence, as other users see them.

use serde_json::json;
use testkit::TestServer;

#[tokio::test]
async fn who_writes_is_seen_writing_and_has_no_answer() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let id = alice.send("bob", "m1", "hi").await["conversation_id"].clone();
    bob.event("messages.new").await;
    for frame in [
        json!({"action": "typing", "conversation_id": id}),
        // These requests are invalid. Each process drops frequent ones by its own count, so the handler's tests cover
        // those.
        json!({"action": "typing", "conversation_id": "dm_nobody"}),
        json!({"action": "typing"}),
    ] {
        alice.send_text(&frame.to_string()).await;
    }
    let typing = bob.event("typing").await;
    assert_eq!((&typing["user_id"], &typing["conversation_id"]), (&json!("alice"), &id));
    alice.expect_silence().await;
    bob.expect_silence().await;
}

#[tokio::test]
async fn who_wrote_to_each_other_see_who_is_there() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    alice.send("bob", "m1", "hi").await;
    let none = alice.ok(json!({"action": "presence", "user_ids": ["bob"]})).await["users"].take();
    assert_eq!(none, json!([]), "he has not written to her");
    bob.send("alice", "b1", "hi").await;
    let ask = json!({"action": "presence", "user_ids": ["bob", "carol"]});
    let online = alice.ok(ask.clone()).await["users"].take();
    assert_eq!(
        (online.as_array().unwrap().len(), &online[0]["user_id"], &online[0]["online"]),
        (1, &json!("bob"), &json!(true))
    );
    assert!(online[0]["last_seen_at"].is_string());
    bob.leave().await;
    let gone = async {
        loop {
            let users = alice.ok(ask.clone()).await["users"].take();
            if users[0]["online"] == false {
                return users;
            }
        }
    };
    let users = tokio::time::timeout(testkit::PATIENCE, gone).await.unwrap();
    assert!(users[0]["last_seen_at"].as_str() >= online[0]["last_seen_at"].as_str(), "to the minute");
}

#[tokio::test]
async fn who_watches_is_told_when_the_other_comes_and_goes() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    alice.send("bob", "m1", "hi").await;
    bob.send("alice", "b1", "hi").await;
    let watch = json!({"action": "presence", "user_ids": ["bob"], "watch": true});
    assert_eq!(alice.ok(watch).await["watched"], json!(["bob"]));
    bob.leave().await;
    let gone = alice.event("presence").await;
    assert_eq!((&gone["user_id"], &gone["online"]), (&json!("bob"), &json!(false)));
    let bob = server.phone("bob").await;
    assert_eq!(alice.event("presence").await["online"], true);
    bob.leave().await;
    assert_eq!(alice.event("presence").await["online"], false);
}
