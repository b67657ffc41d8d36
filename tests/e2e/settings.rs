//! Settings of users for conversations and for other users, as both sides see them.

use serde_json::{Value, json};
use testkit::{Phone, TestServer};

async fn set(phone: &mut Phone, whom: &str, set: Value) {
    assert_eq!(phone.ok(json!({"action": "settings", "user_id": whom, "set": set})).await, json!({}));
}

#[tokio::test]
async fn a_block_is_silence_both_ways_until_it_is_undone() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let id = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    bob.event("messages.new").await;
    set(&mut bob, "alice", json!({"blocked": true})).await;
    let send =
        |id: &str, to: &str| json!({"action": "send", "to": to, "client_msg_id": id, "kind": "text", "body": "x"});
    assert_eq!(alice.refused(send("m2", "bob")).await, "forbidden");
    assert_eq!(bob.refused(send("m3", "alice")).await, "forbidden");
    bob.ack(&id, 1).await;
    bob.read(&id, 1).await;
    alice.expect_silence().await;
    bob.expect_silence().await;
    assert_eq!(bob.conversation("alice").await["blocked"], true);
    set(&mut bob, "alice", json!({"blocked": false})).await;
    assert_eq!(alice.ok(send("m2", "bob")).await["seq"], 2);
    bob.event("messages.new").await;
}

#[tokio::test]
async fn a_second_device_hears_of_settings() {
    let server = TestServer::open().await;
    let (mut alice, mut first, mut second) =
        (server.phone("alice").await, server.phone("bob").await, server.phone("bob").await);
    let id = alice.send("bob", "m1", "hi").await["conversation_id"].clone();
    let frame = json!({"action": "settings", "conversation_id": id, "set": {"muted_until": "forever"}});
    first.ok(frame).await;
    assert_eq!(second.event("settings").await["set"], json!({"muted_until": "forever"}));
    assert_eq!(second.conversation("alice").await["muted_until"], "forever");
    assert_eq!(alice.conversation("bob").await["muted_until"], Value::Null);
}

#[tokio::test]
async fn a_report_has_an_id_which_its_repetition_has_too() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let id = alice.send("bob", "m1", "hi").await["conversation_id"].clone();
    bob.event("messages.new").await;
    let report = json!({"action": "report", "conversation_id": id, "seqs": [1], "user_id": "alice", "reason": "spam"});
    let told = bob.ok(report.clone()).await;
    assert!(told["report_id"].as_str().unwrap().starts_with("r_"), "{told}");
    assert_eq!(bob.ok(report).await, told);
    alice.expect_silence().await;
    assert_eq!(
        server
            .phone("mallory")
            .await
            .refused(json!({"action": "report", "conversation_id": id, "reason": "spam"}))
            .await,
        "not_member"
    );
}

#[tokio::test]
async fn a_name_is_seen_by_others_and_told_to_the_users_own_devices() {
    let server = TestServer::open().await;
    let (mut alice, mut second, mut bob) =
        (server.phone("alice").await, server.phone("alice").await, server.phone("bob").await);
    let set = alice.ok(json!({"action": "profile", "set": {"name": "Alice"}})).await;
    assert_eq!(second.event("profile").await["version"], set["version"]);
    let seen = bob.ok(json!({"action": "profiles", "user_ids": ["alice", "bob"]})).await;
    let alice = json!({"user_id": "alice", "name": "Alice", "version": set["version"]});
    assert_eq!(seen, json!({"profiles": [alice], "left": []}));
    bob.expect_silence().await;
}
