//! The same thing asked more than once.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::{Phone, TestServer};

fn message(client_msg_id: &str, body: &str) -> Value {
    json!({"action": "send", "to": "bob", "client_msg_id": client_msg_id, "kind": "text", "body": body})
}

#[tokio::test]
async fn a_resent_message_gets_its_first_answer() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let first = alice.ok(message("m1", "hi")).await;
    alice.ok(message("m2", "other")).await;
    let mut again = alice.ok(message("m1", "hi")).await;
    assert_eq!(again["duplicate"].take(), true);
    again["duplicate"] = json!(false);
    assert_eq!(again, first);

    // The server delivers the same message again: the first run may have died before the post.
    assert_eq!(bob.event("messages.new").await["messages"][0]["seq"], 1);
    assert_eq!(bob.event("messages.new").await["messages"][0]["seq"], 2);
    let repeated = bob.event("messages.new").await["messages"][0].clone();
    let history = bob.history(first["conversation_id"].as_str().unwrap()).await;
    assert_eq!(history["messages"][0], repeated);
    assert_eq!(history["last_seq"], 2, "stored once");
    assert_eq!(bob.conversation("alice").await["unread"], 2, "counted once");
}

#[tokio::test]
async fn a_resend_by_conversation_is_the_same_as_by_user() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let first = alice.ok(message("m1", "hi")).await;
    let by_conversation = json!({"action": "send", "conversation_id": first["conversation_id"], "client_msg_id": "m1", "kind": "text", "body": "hi"});
    let again = alice.ok(by_conversation).await;
    assert_eq!((&again["seq"], &again["duplicate"]), (&json!(1), &json!(true)));
}

#[tokio::test]
async fn a_client_msg_id_is_not_used_for_another_body() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    alice.ok(message("m1", "hi")).await;
    assert_eq!(alice.refused(message("m1", "hi!")).await, "id_reused");
    assert_eq!(alice.send("bob", "m2", "next").await["seq"], 2, "the refused one took no seq");
    // Per sender and conversation: the same id elsewhere is another.
    assert_eq!(alice.send("carol", "m1", "hi!").await["seq"], 1);
    let mut bob = server.phone("bob").await;
    assert_eq!(bob.send("alice", "m1", "mine").await["seq"], 3);
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "an issuer chooses its user ids itself")]
async fn ids_that_look_alike_when_joined_are_kept_apart() {
    let server = TestServer::open().await;
    let (mut one, mut other) = (server.phone("a").await, server.phone("a#b").await);
    assert_eq!(one.send("a#b", "b#c", "from a").await["seq"], 1);
    assert_eq!(other.send("a", "c", "from a#b").await["seq"], 2);
}

/// Sends the same message five times concurrently from one device.
async fn five(device: &mut Phone) -> Vec<Value> {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(device.start(message("m1", "hi")).await);
    }
    let mut answers = Vec::new();
    for id in ids {
        answers.push(device.answer(&id).await);
    }
    answers
}

#[tokio::test]
async fn the_same_message_ten_times_at_once_from_two_devices_is_one() {
    let server = TestServer::open().await;
    let (mut phone, mut tablet, mut bob) =
        (server.phone("alice").await, server.phone("alice").await, server.phone("bob").await);
    let (one, two) = tokio::join!(five(&mut phone), five(&mut tablet));
    let answers: Vec<Value> = one.into_iter().chain(two).collect();
    // One request was first. The others got `duplicate`, or an error to retry if ten concurrent ones were too many.
    let (replies, errors): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer["type"] == "reply");
    assert!(errors.iter().all(|answer| answer["error"]["code"] == "conflict"), "{errors:?}");
    assert_eq!(replies.iter().filter(|answer| answer["result"]["duplicate"] == false).count(), 1);
    let ids: Vec<_> = replies.iter().map(|answer| &answer["result"]["message_id"]).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");

    assert_eq!(bob.conversation("alice").await["last_seq"], 1);
    assert_eq!(bob.conversation("alice").await["unread"], 1);
    assert_eq!(bob.drain().await.len(), 1);
}

#[tokio::test]
async fn eight_devices_writing_at_once_leave_no_hole() {
    let server = TestServer::open().await;
    let devices = join_all((0..8).map(|number| server.phone(if number % 2 == 0 { "alice" } else { "bob" }))).await;
    let writing = devices.into_iter().enumerate().map(|(number, mut device)| async move {
        let to = if number % 2 == 0 { "bob" } else { "alice" };
        for count in 0..25 {
            let message = json!({"action": "send", "to": to, "client_msg_id": format!("{number}-{count}"), "kind": "text", "body": "x"});
            loop {
                let answer = device.ask(message.clone()).await;
                if answer["type"] == "reply" {
                    break;
                }
                assert_eq!(answer["error"]["code"], "conflict", "{answer}");
                assert_eq!(answer["error"]["retryable"], true);
            }
        }
    });
    join_all(writing).await;

    let mut alice = server.phone("alice").await;
    let conversation = alice.conversation("bob").await;
    assert_eq!(conversation["last_seq"], 200);
    assert_eq!(conversation["unread"], 100, "bob's half");
    let id = conversation["conversation_id"].as_str().unwrap();
    let mut seqs = Vec::new();
    while seqs.len() < 200 {
        let after = json!({"action": "history", "conversation_id": id, "after_seq": seqs.len(), "limit": 100});
        let page = alice.ok(after).await;
        seqs.extend(page["messages"].as_array().unwrap().iter().map(|message| message["seq"].as_u64().unwrap()));
    }
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn acks_and_reads_may_be_repeated() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    // The run before may have died before it told anyone. Each process of the server tells it again once in five seconds.
    for _ in 0..3 {
        bob.ack(&conversation, 1).await;
    }
    assert_eq!(alice.event("receipt.delivered").await["seq"], 1);
    for _ in 0..3 {
        assert_eq!(bob.read(&conversation, 1).await, 0);
    }
    alice.wait_for(|frame| frame["type"] == "receipt.read" && frame["seq"] == 1).await;
    alice.send("bob", "m2", "more").await;
    bob.read(&conversation, 2).await;
    alice.wait_for(|frame| frame["type"] == "receipt.read" && frame["seq"] == 2).await;
    // A mark never moves back.
    bob.ack(&conversation, 1).await;
    assert_eq!(bob.read(&conversation, 1).await, 0);
    let members = alice.history(&conversation).await["members"].take();
    let of_bob = members.as_array().unwrap().iter().find(|member| member["user_id"] == "bob").unwrap();
    assert_eq!((&of_bob["delivered_seq"], &of_bob["read_seq"]), (&json!(2), &json!(2)));
}
