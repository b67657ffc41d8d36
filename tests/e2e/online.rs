//! Two people who are both there.

use serde_json::json;
use testkit::TestServer;

#[tokio::test]
async fn a_message_arrives_and_both_ticks_turn() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);

    let sent = alice.send("bob", "m1", "hi").await;
    assert_eq!((&sent["seq"], &sent["duplicate"]), (&json!(1), &json!(false)));
    let conversation = sent["conversation_id"].as_str().unwrap();

    let arrived = bob.event("messages.new").await;
    assert_eq!(
        arrived["messages"][0],
        json!({
            "conversation_id": conversation, "seq": 1, "message_id": sent["message_id"], "sender_id": "alice",
            "kind": "text", "body": "hi", "sent_at": sent["sent_at"],
        })
    );

    bob.ack(conversation, 1).await;
    let delivered = alice.event("receipt.delivered").await;
    assert_eq!(
        (&delivered["conversation_id"], &delivered["user_id"], &delivered["seq"]),
        (&json!(conversation), &json!("bob"), &json!(1))
    );
    assert!(delivered["at"].is_string());

    assert_eq!(bob.read(conversation, 1).await, 0);
    let read = alice.event("receipt.read").await;
    assert_eq!(
        (&read["conversation_id"], &read["user_id"], &read["seq"]),
        (&json!(conversation), &json!("bob"), &json!(1))
    );

    alice.expect_silence().await;
    bob.expect_silence().await;
}

#[tokio::test]
async fn both_write_into_one_conversation() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let first = alice.send("bob", "a1", "ping?").await;
    let conversation = first["conversation_id"].clone();
    bob.event("messages.new").await;

    // An answer by the conversation's id reaches the same place as one by the user's.
    let answer = json!({"action": "send", "conversation_id": conversation, "client_msg_id": "b1", "kind": "text", "body": "pong"});
    assert_eq!(bob.ok(answer).await["seq"], 2);
    assert_eq!(alice.event("messages.new").await["messages"][0]["body"], "pong");
    assert_eq!(bob.send("alice", "b2", "and?").await["seq"], 3);

    let history = alice.history(conversation.as_str().unwrap()).await;
    let said: Vec<_> = history["messages"].as_array().unwrap().iter().map(|m| m["body"].as_str().unwrap()).collect();
    assert_eq!(said, ["ping?", "pong", "and?"]);
    assert_eq!((&history["more"], &history["last_seq"]), (&json!(false), &json!(3)));
}

#[tokio::test]
async fn a_note_to_oneself_is_never_pending_nor_unread() {
    let server = TestServer::open().await;
    let (mut phone, mut tablet) = (server.phone("alice").await, server.phone("alice").await);

    let note = phone.send("alice", "n1", "buy milk").await;
    assert_eq!(note["seq"], 1);
    let seen = tablet.event("messages.new").await;
    assert_eq!(
        (&seen["messages"][0]["body"], &seen["messages"][0]["client_msg_id"]),
        (&json!("buy milk"), &json!("n1"))
    );
    assert_eq!(phone.send("alice", "n2", "and bread").await["seq"], 2);

    assert!(!phone.pending().await);
    assert!(phone.drain().await.is_empty());
    let row = phone.conversation("alice").await;
    assert_eq!(
        (&row["unread"], &row["delivered_seq"], &row["read_seq"], &row["last_seq"]),
        (&json!(0), &json!(2), &json!(2), &json!(2))
    );
    let history = phone.history(note["conversation_id"].as_str().unwrap()).await;
    assert_eq!(history["members"], json!([{"user_id": "alice", "delivered_seq": 2, "read_seq": 2}]));
}

#[tokio::test]
async fn bodies_arrive_as_they_were_written() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let family = "👨‍👩‍👧‍👦 café \u{202e}rtl \u{0} \u{7f} \"quoted\" \\back\\ <b>&amp;</b> \r\n\t";
    let largest = "x".repeat(16 * 1024);
    for (number, body) in [family, largest.as_str(), " ", "null", "{\"action\":\"send\"}"].into_iter().enumerate() {
        alice.send("bob", &format!("m{number}"), body).await;
        assert_eq!(bob.event("messages.new").await["messages"][0]["body"], body);
    }
    let conversation = alice.conversation("bob").await;
    assert_eq!(conversation["last_message"]["preview"], "{\"action\":\"send\"}");
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "an issuer chooses its user ids itself")]
async fn user_ids_of_any_issuer_work() {
    let server = TestServer::open().await;
    let (one, other) = ("auth0|5f7c8ec7c33c6c004bbafe82", "a#b%2F+?=&\"\\'{}~");
    let (mut first, mut second) = (server.phone(one).await, server.phone(other).await);
    first.send(other, "m1", "hi").await;
    assert_eq!(second.event("messages.new").await["messages"][0]["sender_id"], one);
    second.send(one, "m1", "hi back").await;
    assert_eq!(first.event("messages.new").await["messages"][0]["sender_id"], other);
}

#[tokio::test]
async fn time_and_ids_rise_within_a_conversation() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let mut sent = Vec::new();
    for number in 1..=20 {
        sent.push(alice.send("bob", &format!("m{number}"), "x").await);
    }
    for pair in sent.windows(2) {
        assert!(pair[0]["sent_at"].as_str() < pair[1]["sent_at"].as_str(), "{pair:?}");
        assert!(pair[0]["message_id"].as_str() < pair[1]["message_id"].as_str(), "{pair:?}");
    }
}

#[tokio::test]
async fn unread_is_exact_through_it_all() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let conversation = alice.send("bob", "a1", "1").await["conversation_id"].as_str().unwrap().to_owned();
    for number in 2..=5 {
        alice.send("bob", &format!("a{number}"), "x").await;
    }
    bob.send("alice", "b6", "mine").await;
    alice.send("bob", "a7", "7").await;
    alice.send("bob", "a8", "8").await;
    // 1 2 3 4 5 are alice's, 6 is bob's, 7 8 are alice's.
    assert_eq!(bob.conversation("alice").await["unread"], 7);
    assert_eq!(bob.read(&conversation, 2).await, 5);
    assert_eq!(bob.conversation("alice").await["unread"], 5);
    assert_eq!(bob.read(&conversation, 1).await, 5, "reading never goes backwards");
    assert_eq!(bob.read(&conversation, 6).await, 2);
    assert_eq!(bob.read(&conversation, 7).await, 1);
    alice.send("bob", "a9", "9").await;
    assert_eq!(bob.conversation("alice").await["unread"], 2);
    assert_eq!(bob.read(&conversation, 1_000_000).await, 0, "above the last counts as the last");
    let row = bob.conversation("alice").await;
    assert_eq!((&row["unread"], &row["read_seq"], &row["delivered_seq"]), (&json!(0), &json!(9), &json!(9)));
    // The other side has one unread: bob's.
    assert_eq!(alice.conversation("bob").await["unread"], 1);
}

#[tokio::test]
async fn history_shows_how_far_each_member_is() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let conversation = alice.send("bob", "a1", "1").await["conversation_id"].as_str().unwrap().to_owned();
    alice.send("bob", "a2", "2").await;
    alice.send("bob", "a3", "3").await;
    bob.ack(&conversation, 2).await;
    bob.read(&conversation, 1).await;
    let mine = json!({"user_id": "alice", "delivered_seq": 3, "read_seq": 3});
    let theirs = json!({"user_id": "bob", "delivered_seq": 2, "read_seq": 1});
    assert_eq!(alice.history(&conversation).await["members"], json!([mine, theirs]));
    assert_eq!(bob.history(&conversation).await["members"], json!([theirs, mine]));
}

#[tokio::test]
async fn reading_implies_having() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let conversation = alice.send("bob", "a1", "1").await["conversation_id"].as_str().unwrap().to_owned();
    alice.send("bob", "a2", "2").await;
    assert!(bob.pending().await);
    bob.read(&conversation, 1).await;
    assert!(bob.pending().await, "the second is still pending");
    bob.read(&conversation, 2).await;
    assert!(!bob.pending().await);
    assert!(bob.drain().await.is_empty());
}
