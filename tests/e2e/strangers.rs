//! Someone who is not in the conversation sees nothing of it, and cannot tell whether it exists.

use serde_json::{Value, json};
use testkit::TestServer;

#[tokio::test]
async fn a_stranger_is_refused_everywhere_as_if_there_were_nothing() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, mut mallory) =
        (server.phone("alice").await, server.phone("bob").await, server.phone("mallory").await);
    let real = alice.send("bob", "m1", "secret").await["conversation_id"].as_str().unwrap().to_owned();
    bob.event("messages.new").await;

    let attempts = |conversation: &str| {
        [
            json!({"action": "send", "conversation_id": conversation, "client_msg_id": "x", "kind": "text", "body": "hello?"}),
            json!({"action": "ack", "up_to": [{"conversation_id": conversation, "seq": 1}]}),
            json!({"action": "drain", "ack": [{"conversation_id": conversation, "seq": 1}]}),
            json!({"action": "read", "conversation_id": conversation, "seq": 1}),
            json!({"action": "history", "conversation_id": conversation}),
            json!({"action": "history", "conversation_id": conversation, "after_seq": 0}),
        ]
    };
    for (of_others, of_nobody) in attempts(&real).into_iter().zip(attempts("dm_there_is_no_such_conversation")) {
        let errors: Vec<Value> =
            vec![mallory.ask(of_others).await["error"].clone(), mallory.ask(of_nobody).await["error"].clone()];
        assert_eq!(errors[0]["code"], "not_member");
        assert_eq!(errors[0], errors[1], "the two look alike");
    }
    // Nothing of it was written or posted.
    assert!(mallory.inbox().await.is_empty());
    assert_eq!(bob.conversation("alice").await["unread"], 1);
    assert!(bob.pending().await);
    alice.expect_silence().await;
    bob.expect_silence().await;
}

#[tokio::test]
async fn nobody_speaks_for_another_by_saying_so() {
    let server = TestServer::open().await;
    let (mut mallory, mut bob) = (server.phone("mallory").await, server.phone("bob").await);
    let forged = json!({
        "action": "send", "to": "bob", "client_msg_id": "x", "kind": "text", "body": "it's me, alice",
        "sender_id": "alice", "user_id": "alice", "principalId": "alice", "from": "alice",
        "requestContext": {"authorizer": {"principalId": "alice"}},
    });
    mallory.ok(forged).await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["sender_id"], "mallory");
    let mut alice = server.phone("alice").await;
    assert!(alice.inbox().await.is_empty());
}

#[tokio::test]
async fn another_users_cursor_is_refused() {
    let server = TestServer::open().await;
    let (mut alice, mut mallory) = (server.phone("alice").await, server.phone("mallory").await);
    alice.send("bob", "m1", "hi").await;
    alice.send("carol", "m1", "hi").await;
    let cursor = alice.ok(json!({"action": "inbox", "limit": 1})).await["next_cursor"].clone();
    assert!(cursor.is_string());
    let error = mallory.ask(json!({"action": "inbox", "cursor": cursor})).await["error"].clone();
    assert_eq!(error["code"], "bad_request");
    assert!(error["message"].as_str().unwrap().starts_with("cursor: "));
    assert_eq!(alice.ok(json!({"action": "inbox", "cursor": cursor})).await["conversations"][0]["peer_id"], "bob");
}
