//! Every row of the protocol's error table, and what a hostile client may try. The socket stays open through all of it.

use serde_json::{Value, json};
use testkit::{Phone, TestServer};

/// Sends a frame as it is; the next frame is the answer.
async fn answer_to(phone: &mut Phone, frame: &str) -> Value {
    phone.send_text(frame).await;
    phone.wait_for(|frame| frame["type"] == "error" || frame["type"] == "reply").await
}

async fn assert_refused(phone: &mut Phone, frame: &str, code: &str, names: &str) {
    let answer = answer_to(phone, frame).await;
    assert_eq!(answer["error"]["code"], code, "{frame:.200} → {answer}");
    assert!(answer["error"]["message"].as_str().unwrap().starts_with(names), "{frame:.200} → {answer}");
    assert_eq!(answer["error"]["retryable"], false);
}

#[tokio::test]
async fn bad_requests_name_the_field() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    for (frame, names) in [
        ("hello", "frame: "),
        ("{", "frame: "),
        ("[1,2]", "frame: "),
        ("null", "frame: "),
        ("{}", "action: "),
        (r#"{"action":7}"#, "action: "),
        (r#"{"action":["send"]}"#, "action: "),
        (r#"{"action":"ping","id":{}}"#, "id: "),
        (r#"{"action":"send"}"#, "to: "),
        (r#"{"action":"send","to":"b\nb","client_msg_id":"m","kind":"text","body":"x"}"#, "to: "),
        (r#"{"action":"send","to":"bob","client_msg_id":"m 1","kind":"text","body":"x"}"#, "client_msg_id: "),
        (r#"{"action":"send","to":"bob","client_msg_id":"m","kind":"video","body":"x"}"#, "kind: "),
        (r#"{"action":"send","to":"bob","client_msg_id":"m","kind":"text","body":""}"#, "body: "),
        (r#"{"action":"send","to":"bob","client_msg_id":"m","kind":"text","body":{"a":1}}"#, "body: "),
        (r#"{"action":"send","to":"bob","client_msg_id":"m","kind":"text","body":"x","reply_to":0}"#, "reply_to: "),
        (r#"{"action":"edit","conversation_id":"dm_x","seq":1,"client_msg_id":"m"}"#, "body: "),
        (r#"{"action":"edit","conversation_id":"dm_x","seq":"1","client_msg_id":"m","body":"x"}"#, "seq: "),
        (r#"{"action":"delete","conversation_id":"dm_x","seq":1}"#, "client_msg_id: "),
        (r#"{"action":"react","conversation_id":"dm_x","seq":1,"client_msg_id":"m"}"#, "emoji: "),
        (r#"{"action":"react","conversation_id":"dm_x","seq":1,"client_msg_id":"m","emoji":"a b"}"#, "emoji: "),
        (r#"{"action":"presence","user_ids":[]}"#, "user_ids: "),
        (r#"{"action":"ack"}"#, "up_to: "),
        (r#"{"action":"ack","up_to":[{"conversation_id":"dm_x","seq":"1"}]}"#, "up_to[0].seq: "),
        (r#"{"action":"drain","ack":{}}"#, "ack: "),
        (r#"{"action":"read","conversation_id":"dm_x","seq":0}"#, "seq: "),
        (r#"{"action":"read","conversation_id":"dm_x","seq":99999999999999999999}"#, "seq: "),
        (r#"{"action":"settings","set":{"blocked":true}}"#, "user_id: "),
        (r#"{"action":"settings","user_id":"bob"}"#, "set: "),
        (r#"{"action":"settings","user_id":"bob","set":{"blocked":1}}"#, "set.blocked: "),
        (r#"{"action":"settings","conversation_id":"dm_x","set":{}}"#, "set: "),
        (r#"{"action":"settings","conversation_id":"dm_x","set":{"muted_until":"later"}}"#, "set.muted_until: "),
        (r#"{"action":"settings","conversation_id":"dm_x","user_id":"bob","set":{"archived":true}}"#, "user_id: "),
        (r#"{"action":"device","platform":"apns"}"#, "token: "),
        (r#"{"action":"device","platform":"apns","token":"a b"}"#, "token: "),
        (r#"{"action":"device","platform":"wns","token":"t"}"#, "platform: "),
        (r#"{"action":"device","platform":"fcm","token":"t","when":"always"}"#, "when: "),
        (r#"{"action":"inbox","limit":51}"#, "limit: "),
        (r#"{"action":"inbox","cursor":"../../etc/passwd"}"#, "cursor: "),
        (r#"{"action":"inbox","since":"now"}"#, "since: "),
        (r#"{"action":"history","conversation_id":"","limit":1}"#, "conversation_id: "),
        (r#"{"action":"history","conversation_id":"dm_x","limit":1e9}"#, "limit: "),
        (r#"{"action":"history","conversation_id":"dm_x","before_seq":1,"after_seq":1}"#, "before_seq: "),
    ] {
        assert_refused(&mut alice, frame, "bad_request", names).await;
    }
    assert!(!alice.pending().await, "the socket is still open");
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack itself reads the frame, and gives up")]
async fn deep_nesting_is_refused() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let deep = format!(r#"{{"action":"ping","x":{}{}}}"#, "[".repeat(15_000), "]".repeat(15_000));
    assert_refused(&mut alice, &deep, "bad_request", "frame: ").await;
    assert!(!alice.pending().await, "the socket is still open");
}

#[tokio::test]
async fn absurd_sizes_are_refused() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let long_id = json!({"action": "ping", "id": "x".repeat(30_000)}).to_string();
    assert_refused(&mut alice, &long_id, "bad_request", "id: ").await;
    let long_name = json!({"action": "x".repeat(30_000)}).to_string();
    assert_refused(&mut alice, &long_name, "unknown_action", "action: ").await;
    let long_number = format!(r#"{{"action":"read","conversation_id":"dm_x","seq":{}}}"#, "9".repeat(30_000));
    assert_refused(&mut alice, &long_number, "bad_request", "").await;
    let many = json!({"action": "ack", "up_to": vec![json!({"conversation_id": "dm_x", "seq": 1}); 500]}).to_string();
    assert_refused(&mut alice, &many, "bad_request", "up_to: ").await;
    assert!(!alice.pending().await, "the socket is still open");
}

#[tokio::test]
async fn a_body_over_its_limit_is_too_large() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let send = |body: &str| {
        json!({"action": "send", "to": "bob", "client_msg_id": "m", "kind": "text", "body": body}).to_string()
    };
    assert_refused(&mut alice, &send(&"x".repeat(16 * 1024 + 1)), "too_large", "body: ").await;
    // Written plainly it is 5,000 bytes; as JSON it would not fit a frame beside others.
    assert_refused(&mut alice, &send(&"\u{1}".repeat(4_200)), "too_large", "body: ").await;
    assert!(alice.inbox().await.is_empty(), "nothing was stored");
}

#[tokio::test]
async fn unknown_actions_are_answered_even_the_gateways_own_names() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    for action in ["fly", "SEND", "$connect", "$disconnect", "$default", "send ", ""] {
        let answer = alice.ask(json!({"action": action})).await;
        assert_eq!((&answer["error"]["code"], &answer["action"]), (&json!("unknown_action"), &json!(action)));
    }
    // A frame can't disconnect anyone: she is still found.
    server.phone("bob").await.send("alice", "m1", "hi").await;
    alice.event("messages.new").await;
}

#[tokio::test]
async fn a_key_given_twice_does_not_reach_another_function() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    // Whichever of the two API Gateway routes by, the function answers for what it read.
    let answer = answer_to(&mut alice, r#"{"action":"inbox","action":"ping","id":"x"}"#).await;
    assert!(answer["type"] == "reply" || answer["error"]["code"] == "unknown_action", "{answer}");
}

#[tokio::test]
async fn answers_echo_action_and_id_where_they_could_be_read() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let unreadable = answer_to(&mut alice, "no json").await;
    assert_eq!((unreadable.get("action"), unreadable.get("id")), (None, None));
    let without_id = answer_to(&mut alice, r#"{"action":"read","conversation_id":"dm_x"}"#).await;
    assert_eq!((&without_id["action"], without_id.get("id")), (&json!("read"), None));
    let with_id = answer_to(&mut alice, r#"{"action":"ping","id":"ünï \" 42"}"#).await;
    assert_eq!(
        (&with_id["type"], &with_id["action"], &with_id["id"]),
        (&json!("reply"), &json!("ping"), &json!("ünï \" 42"))
    );
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "an issuer may not make tokens that expire at once")]
async fn a_token_that_expires_while_connected_ends_service_not_the_socket() {
    let server = TestServer::open().await;
    let mut alice = server.connect(&server.token_for("alice", 6)).await.unwrap();
    let expired = loop {
        let answer = alice.ask(json!({"action": "ping"})).await;
        if answer["type"] == "error" {
            break answer;
        }
    };
    assert_eq!((&expired["error"]["code"], &expired["error"]["retryable"]), (&json!("token_expired"), &json!(false)));
    let send = json!({"action": "send", "to": "bob", "client_msg_id": "m", "kind": "text", "body": "x"});
    assert_eq!(alice.refused(send).await, "token_expired");
    assert_eq!(alice.refused(json!({"action": "nonsense"})).await, "token_expired");
    let mut fresh = server.phone("alice").await;
    assert!(fresh.inbox().await.is_empty(), "nothing was stored");
}
