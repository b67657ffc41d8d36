//! One user, several devices.

use serde_json::json;
use testkit::TestServer;

#[tokio::test]
async fn every_device_of_the_recipient_hears_and_so_do_the_senders_others() {
    let server = TestServer::open().await;
    let (mut phone, mut tablet) = (server.phone("alice").await, server.phone("alice").await);
    let (mut home, mut work) = (server.phone("bob").await, server.phone("bob").await);
    let sent = phone.send("bob", "m1", "hi").await;
    for device in [&mut home, &mut work] {
        let message = device.event("messages.new").await["messages"][0].clone();
        assert_eq!(message["message_id"], sent["message_id"]);
        assert_eq!(message.get("client_msg_id"), None);
    }
    assert_eq!(tablet.event("messages.new").await["messages"][0]["client_msg_id"], "m1");
    phone.expect_silence().await;
}

#[tokio::test]
async fn one_device_acknowledges_for_all_and_reading_clears_the_badge_everywhere() {
    let server = TestServer::open().await;
    let (mut alice, mut home, mut work) =
        (server.phone("alice").await, server.phone("bob").await, server.phone("bob").await);
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    home.ack(&conversation, 1).await;
    assert!(work.drain().await.is_empty(), "a device of the user has it");
    home.event("messages.new").await;
    work.event("messages.new").await;

    home.read(&conversation, 1).await;
    let cleared = work.event("receipt.read").await;
    assert_eq!((&cleared["user_id"], &cleared["seq"]), (&json!("bob"), &json!(1)));
    home.expect_silence().await;
}

#[tokio::test]
async fn a_second_device_catches_up_with_inbox_since_and_history_after() {
    let server = TestServer::open().await;
    let (mut alice, mut carol, mut home) =
        (server.phone("alice").await, server.phone("carol").await, server.phone("bob").await);
    let quiet = carol.send("bob", "c1", "long ago").await["sent_at"].as_str().unwrap().to_owned();
    let conversation = alice.send("bob", "a1", "1").await["conversation_id"].as_str().unwrap().to_owned();
    // The tablet was here until now; then everything goes to the phone, and is acknowledged and read there.
    let seen_until = alice.send("bob", "a2", "2").await["sent_at"].as_str().unwrap().to_owned();
    for number in 3..=6 {
        alice.send("bob", &format!("a{number}"), "x").await;
    }
    home.send("alice", "b7", "from the phone").await;
    home.read(&conversation, 7).await;
    assert!(home.drain().await.len() <= 1);

    let mut tablet = server.phone("bob").await;
    assert!(tablet.drain().await.is_empty(), "drain is no help here: the phone has it all");
    let active = tablet.ok(json!({"action": "inbox", "since": seen_until})).await["conversations"].clone();
    let active = active.as_array().unwrap();
    assert_eq!(active.len(), 1, "carol's was quiet since {quiet}");
    assert_eq!(
        (&active[0]["peer_id"], &active[0]["last_seq"], &active[0]["unread"]),
        (&json!("alice"), &json!(7), &json!(0))
    );
    let missed = tablet.ok(json!({"action": "history", "conversation_id": conversation, "after_seq": 2})).await;
    let seqs: Vec<_> = missed["messages"].as_array().unwrap().iter().map(|m| m["seq"].as_u64().unwrap()).collect();
    assert_eq!((seqs, &missed["more"]), (vec![3, 4, 5, 6, 7], &json!(false)));
    assert_eq!(missed["messages"][4]["client_msg_id"], "b7");
}

#[tokio::test]
async fn a_device_that_leaves_does_not_take_the_others_along() {
    let server = TestServer::open().await;
    let (mut alice, home, mut work) =
        (server.phone("alice").await, server.phone("bob").await, server.phone("bob").await);
    home.leave().await;
    alice.send("bob", "m1", "hi").await;
    assert_eq!(work.event("messages.new").await["messages"][0]["body"], "hi");
}
