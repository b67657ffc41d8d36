//! Sealed conversations, between devices of two users.

use data_encoding::BASE64;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::{Phone, TestServer};

fn bytes(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

/// The first commit of the conversation with this user.
pub(crate) fn birth(to: &str, id: &str) -> Value {
    json!({
        "action": "commit", "to": to, "client_msg_id": id, "epoch": 0, "welcome": bytes("welcome"),
        "group_info": bytes("info"), "tree": bytes("tree"),
    })
}

fn commit(conversation: &Value, id: &str, epoch: u64) -> Value {
    json!({
        "action": "commit", "conversation_id": conversation, "client_msg_id": id, "epoch": epoch,
        "commit": bytes(id), "group_info": bytes("info"), "tree": bytes("tree"),
    })
}

fn sealed(conversation: &Value, id: &str, epoch: u64) -> Value {
    json!({
        "action": "send", "conversation_id": conversation, "client_msg_id": id, "kind": "sealed", "epoch": epoch,
        "body": bytes(id),
    })
}

#[tokio::test]
async fn a_conversation_is_sealed_and_both_read_what_the_other_writes() {
    let server = TestServer::open().await;
    let (mut alice, mut tablet) = (server.device("alice", "laptop").await, server.device("alice", "tablet").await);
    let mut bob = server.device("bob", "phone").await;
    assert_eq!(alice.refused(json!({"action": "group_info", "to": "bob"})).await, "gone");
    let born = alice.ok(birth("bob", "b1")).await;
    assert_eq!((&born["seq"], &born["epoch"], &born["duplicate"]), (&json!(1), &json!(1), &json!(false)));
    let conversation = &born["conversation_id"];
    for device in [&mut bob, &mut tablet] {
        let event = device.event("messages.new").await;
        let entry = &event["messages"][0];
        assert_eq!((&entry["kind"], &entry["silent"], &entry["epoch"]), (&json!("commit"), &json!(true), &json!(1)));
        assert_eq!((&entry["welcome"], &entry["tree"]), (&json!(bytes("welcome")), &json!(bytes("tree"))));
    }
    alice.ok(sealed(conversation, "m1", 1)).await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["body"], bytes("m1"));
    let listed = bob.ok(json!({"action": "inbox"})).await["conversations"][0].take();
    assert_eq!((&listed["encrypted"], &listed["epoch"], &listed["unread"]), (&json!(true), &json!(1), &json!(1)));

    let updated = bob.ok(commit(conversation, "c1", 1)).await;
    assert_eq!((&updated["seq"], &updated["epoch"]), (&json!(3), &json!(2)));
    let stale = alice.ask(sealed(conversation, "m2", 1)).await["error"].take();
    assert_eq!((&stale["code"], &stale["epoch"], &stale["last_seq"]), (&json!("stale_epoch"), &json!(2), &json!(3)));
    assert_eq!(stale["conversation_id"], *conversation);
    let first = alice.ok(sealed(conversation, "m1", 1)).await;
    assert_eq!((&first["seq"], &first["duplicate"]), (&json!(2), &json!(true)));
    assert_eq!(alice.ok(sealed(conversation, "m2", 2)).await["seq"], 4, "the refused id is free");
    let info = tablet.ok(json!({"action": "group_info", "conversation_id": conversation})).await;
    assert_eq!((&info["epoch"], &info["seq"], &info["birth_seq"]), (&json!(2), &json!(3), &json!(1)));
    let plain =
        json!({"action": "send", "conversation_id": conversation, "client_msg_id": "t1", "kind": "text", "body": "hi"});
    assert_eq!(alice.refused(plain).await, "encryption_required");
    let listed = alice.ok(json!({"action": "ping", "features": true})).await;
    let all = listed["features"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let of_it: Vec<_> = all.filter(|name| name.starts_with("encryption")).collect();
    assert_eq!(of_it, ["encryption", "encryption.groups", "encryption.media"]);
}

#[tokio::test]
async fn a_sealed_message_takes_the_read_mark_along() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.device("alice", "laptop").await, server.device("bob", "phone").await);
    let conversation = alice.ok(birth("bob", "b1")).await["conversation_id"].take();
    assert_eq!(alice.ok(sealed(&conversation, "m1", 1)).await["seq"], 2);
    let mut reply = sealed(&conversation, "m2", 1);
    reply["read"] = json!(2);
    let stored = bob.ok(reply).await;
    assert_eq!((&stored["seq"], &stored["read_seq"]), (&json!(3), &json!(3)));
    let event = alice.event("messages.new").await;
    let marks = json!([{"user_id": server.id("bob"), "delivered_seq": 3, "read_seq": 3}]);
    assert_eq!((&event["messages"][0]["body"], &event["marks"]), (&json!(bytes("m2")), &marks));
    assert_eq!(bob.ok(json!({"action": "inbox"})).await["conversations"][0]["unread"], 0);
}

#[tokio::test]
async fn of_two_commits_for_an_epoch_one_is_stored() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.device("alice", "laptop").await, server.device("bob", "phone").await);
    let (one, two) = tokio::join!(alice.ask(birth("bob", "b1")), bob.ask(birth("alice", "b1")));
    let code = |reply: &Value| reply["error"]["code"].as_str().map(str::to_owned);
    let codes = [code(&one), code(&two)];
    assert!(codes.contains(&None) && codes.contains(&Some("stale_epoch".to_owned())), "{one} {two}");
    let conversation =
        if one["type"] == "reply" { &one["result"]["conversation_id"] } else { &two["result"]["conversation_id"] };
    // A message makes no commit stale.
    let (sent, updated) =
        tokio::join!(alice.ask(sealed(conversation, "m1", 1)), bob.ask(commit(conversation, "c1", 1)));
    assert_eq!(updated["result"]["epoch"], 2, "{updated}");
    assert!(matches!(code(&sent).as_deref(), None | Some("stale_epoch")), "{sent}");
}

#[tokio::test]
async fn a_group_of_many_devices_has_its_keys_in_files() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.device("alice", "laptop").await, server.device("bob", "phone").await);
    let create = json!({
        "action": "create", "client_msg_id": "g1", "title": "Trip", "members": ["bob"], "encrypted": true,
    });
    let group = alice.ok(create).await["conversation_id"].take();
    // More than a frame has room for.
    let (welcome, tree) = (vec![1; 60_000], vec![2; 90_000]);
    let of_welcome = file(&server, &mut alice, &group, &welcome).await;
    let of_tree = file(&server, &mut alice, &group, &tree).await;
    let birth = json!({
        "action": "commit", "conversation_id": group, "client_msg_id": "b1", "epoch": 0, "group_info": bytes("info"),
        "welcome": {"media_id": of_welcome["media_id"]}, "tree": {"media_id": of_tree["media_id"]},
    });
    alice.ok(birth).await;
    let entry = loop {
        let event = bob.event("messages.new").await;
        if event["messages"][0]["kind"] == "commit" {
            break event["messages"][0].clone();
        }
    };
    assert_eq!((&entry["welcome"], &entry["tree"]), (&of_welcome, &of_tree));
    for (file, expected) in [(of_welcome, welcome), (of_tree, tree)] {
        let download = bob.ok(json!({"action": "download", "media_ids": [file["media_id"]]})).await;
        let got = server.http.get(download["items"][0]["url"].as_str().unwrap()).send().await.unwrap();
        assert!(got.bytes().await.unwrap() == expected, "{file}");
    }
}

/// Uploads bytes of kind `sealed`. Returns the file as an entry has it.
async fn file(server: &TestServer, device: &mut Phone, group: &Value, bytes: &[u8]) -> Value {
    let sha256 = BASE64.encode(&Sha256::digest(bytes));
    let length = bytes.len();
    let upload =
        json!({"action": "upload", "conversation_id": group, "kind": "sealed", "bytes": length, "sha256": sha256});
    let place = device.ok(upload).await;
    let mut put = server.http.put(place["url"].as_str().unwrap()).body(bytes.to_vec());
    for (name, value) in place["headers"].as_object().unwrap() {
        put = put.header(name, value.as_str().unwrap());
    }
    assert_eq!(put.send().await.unwrap().status(), 200);
    device.ok(json!({"action": "uploaded", "media_id": place["media_id"]})).await;
    json!({"media_id": place["media_id"], "bytes": length, "sha256": sha256})
}
