//! Messages that are edited, deleted, reacted to and pinned, as both sides see it.

use serde_json::{Value, json};
use testkit::{Phone, TestServer};

fn edit(id: &str, seq: u64, key: &str, body: &str) -> Value {
    json!({"action": "edit", "conversation_id": id, "seq": seq, "client_msg_id": key, "body": body})
}

fn delete(id: &str, seq: u64, key: &str) -> Value {
    json!({"action": "delete", "conversation_id": id, "seq": seq, "client_msg_id": key})
}

fn react(id: &str, seq: u64, key: &str, emoji: Option<&str>) -> Value {
    json!({"action": "react", "conversation_id": id, "seq": seq, "client_msg_id": key, "emoji": emoji})
}

/// Returns the next entry in an event to the phone.
async fn told(phone: &mut Phone) -> Value {
    phone.event("messages.new").await["messages"][0].take()
}

/// Alice and Bob are connected, and Bob has her first message.
async fn talking(server: &TestServer) -> (Phone, Phone, String) {
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let id = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    told(&mut bob).await;
    (alice, bob, id)
}

#[tokio::test]
async fn changes_reach_who_is_connected() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, id) = talking(&server).await;
    let edited = alice.ok(edit(&id, 1, "e1", "hello")).await;
    let entry = told(&mut bob).await;
    assert_eq!(
        (&entry["kind"], &entry["target_seq"], &entry["body"], &entry["version"]),
        (&json!("edit"), &json!(1), &json!("hello"), &json!(2))
    );
    assert_eq!((&entry["seq"], &entry["sent_at"]), (&edited["seq"], &edited["sent_at"]));
    bob.ok(react(&id, 1, "r1", Some("👍"))).await;
    let entry = told(&mut alice).await;
    assert_eq!(
        (&entry["kind"], &entry["sender_id"], &entry["emoji"]),
        (&json!("reaction"), &json!("bob"), &json!("👍"))
    );
    let message = alice.history(&id).await["messages"][0].take();
    assert_eq!(message["reactions"], json!([{"emoji": "👍", "count": 1, "mine": false}]));
    bob.ok(react(&id, 1, "r2", None)).await;
    assert_eq!(told(&mut alice).await.get("emoji"), None);
    bob.ok(json!({"action": "pin", "conversation_id": id, "seq": 1, "client_msg_id": "p1", "pinned": true})).await;
    let entry = told(&mut alice).await;
    assert_eq!((&entry["kind"], &entry["target_seq"], &entry["pinned"]), (&json!("pin"), &json!(1), &json!(true)));
    assert_eq!(alice.history(&id).await["pins"], json!([1]));
    alice.ok(delete(&id, 1, "d1")).await;
    let entry = told(&mut bob).await;
    assert_eq!((&entry["kind"], &entry["target_seq"], &entry["body"]), (&json!("delete"), &json!(1), &json!("")));
    let line = bob.conversation("alice").await;
    assert_eq!(
        (&line["unread"], &line["last_message"]["deleted"], &line["last_seq"]),
        (&json!(0), &json!(true), &json!(6))
    );
    let message = bob.history(&id).await["messages"][0].take();
    assert_eq!((&message["body"], &message["deleted_by"]), (&json!(""), &json!("alice")));
}

#[tokio::test]
async fn who_was_away_drains_what_is_left() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let id = alice.send("bob", "m1", "one").await["conversation_id"].as_str().unwrap().to_owned();
    alice.send("bob", "m2", "two").await;
    alice.ok(edit(&id, 1, "e1", "once")).await;
    alice.ok(delete(&id, 2, "d1")).await;
    let mut bob = server.phone("bob").await;
    assert_eq!(bob.conversation("alice").await["unread"], 1);
    let drained = bob.drain().await;
    let said: Vec<_> =
        drained.iter().map(|entry| (entry["kind"].as_str().unwrap(), entry["body"].as_str().unwrap())).collect();
    assert_eq!(said, [("text", "once"), ("text", ""), ("edit", "once"), ("delete", "")]);
    assert!(!bob.pending().await);
    assert_eq!(bob.read(&id, 1).await, 0);
}

#[tokio::test]
async fn an_edit_that_came_before_a_delete_brings_nothing_back() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, id) = talking(&server).await;
    alice.ok(edit(&id, 1, "e1", "secret")).await;
    bob.ack(&id, 1).await;
    alice.ok(delete(&id, 1, "d1")).await;
    // The message itself is held, and its edit comes late.
    let drained = bob.drain().await;
    assert_eq!(
        (&drained[0]["kind"], &drained[0]["body"], drained[0].get("version")),
        (&json!("edit"), &json!(""), None)
    );
    assert_eq!(drained[1]["kind"], "delete");
}

#[tokio::test]
async fn a_second_device_has_the_change_and_so_has_the_writers_other_one() {
    let server = TestServer::open().await;
    let (mut alice, mut home, id) = talking(&server).await;
    let (mut tablet, mut work) = (server.phone("alice").await, server.phone("bob").await);
    alice.ok(edit(&id, 1, "e1", "hello")).await;
    assert_eq!(told(&mut tablet).await["client_msg_id"], "e1");
    for device in [&mut home, &mut work] {
        let entry = told(device).await;
        assert_eq!((&entry["body"], entry.get("client_msg_id")), (&json!("hello"), None));
    }
    alice.expect_silence().await;
    home.ack(&id, 2).await;
    assert!(work.drain().await.is_empty());
    // A device that was offline finds the change behind its last entry.
    let after = json!({"action": "history", "conversation_id": id, "after_seq": 1});
    let page = server.phone("bob").await.ok(after).await;
    assert_eq!((&page["messages"][0]["kind"], &page["messages"][0]["body"]), (&json!("edit"), &json!("hello")));
}

#[tokio::test]
async fn a_repeated_change_is_made_once() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, id) = talking(&server).await;
    for frame in [edit(&id, 1, "e1", "hello"), react(&id, 1, "r1", Some("👍")), delete(&id, 1, "d1")] {
        let first = alice.ok(frame.clone()).await;
        let again = alice.ok(frame).await;
        assert_eq!((&first["duplicate"], &again["duplicate"]), (&json!(false), &json!(true)));
        assert_eq!((&first["seq"], &first["message_id"]), (&again["seq"], &again["message_id"]));
        for _ in 0..2 {
            assert_eq!(told(&mut bob).await["seq"], first["seq"]);
        }
    }
    assert_eq!(alice.refused(edit(&id, 1, "e1", "other")).await, "id_reused");
    assert_eq!(bob.history(&id).await["last_seq"], 4);
}

#[tokio::test]
async fn what_may_not_be_changed_is_refused() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, id) = talking(&server).await;
    let mut mallory = server.phone("mallory").await;
    for frame in [edit(&id, 1, "x", "x"), delete(&id, 1, "x"), react(&id, 1, "x", Some("👍"))] {
        assert_eq!(mallory.refused(frame).await, "not_member");
    }
    assert_eq!(bob.refused(edit(&id, 1, "x", "x")).await, "forbidden");
    assert_eq!(bob.refused(delete(&id, 1, "x")).await, "forbidden");
    assert_eq!(alice.refused(delete(&id, 2, "x")).await, "gone");
    alice.ok(delete(&id, 1, "d1")).await;
    assert_eq!(alice.refused(edit(&id, 1, "x", "x")).await, "gone");
    assert_eq!(bob.refused(react(&id, 2, "x", Some("👍"))).await, "gone");
}

#[tokio::test]
async fn a_message_has_twenty_edits() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, id) = talking(&server).await;
    for number in 1..=20 {
        alice.ok(edit(&id, 1, &format!("e{number}"), &format!("version {}", number + 1))).await;
    }
    assert_eq!(alice.refused(edit(&id, 1, "e21", "x")).await, "limit_reached");
    let message = bob.history(&id).await["messages"][0].take();
    assert_eq!((&message["version"], &message["body"]), (&json!(21), &json!("version 21")));
}

#[tokio::test]
async fn large_edits_come_page_by_page() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, id) = talking(&server).await;
    bob.ack(&id, 1).await;
    for number in 2..=4 {
        alice.send("bob", &format!("m{number}"), &number.to_string().repeat(16_000)).await;
    }
    bob.drain().await;
    // Small rows, whose content is not.
    for number in 2..=4 {
        alice.ok(edit(&id, number, &format!("e{number}"), &"x".repeat(16_000))).await;
    }
    let drained = bob.drain().await;
    assert_eq!(drained.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect::<Vec<_>>(), [5, 6, 7]);
    assert!(drained.iter().all(|entry| entry["body"].as_str().unwrap().len() == 16_000));
}

#[tokio::test]
async fn an_answer_names_its_message() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, _) = talking(&server).await;
    let answer = |to: u64| json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "yes", "reply_to": to});
    assert_eq!(bob.refused(answer(2)).await, "bad_request");
    bob.ok(answer(1)).await;
    assert_eq!(told(&mut alice).await["reply_to"], 1);
}
