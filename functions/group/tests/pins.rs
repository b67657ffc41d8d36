//! Pinned messages of all kinds of conversations.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use serde_json::{Value, json};
use testkit::{Workbench, message_to_bob};
use wire::limits::PINS_MAX;

fn about(action: &str, conversation: &Value, id: &str, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": conversation, "client_msg_id": id});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn pin(conversation: &Value, id: &str, seq: u64, pinned: bool) -> Value {
    about("pin", conversation, id, &json!({"seq": seq, "pinned": pinned}))
}

fn say(conversation: &Value, id: &str) -> Value {
    about("send", conversation, id, &json!({"kind": "text", "body": "hi"}))
}

/// Alice makes it, with bob and carol; bob has written the second entry.
async fn conversation(bench: &Workbench, kind: &str) -> Value {
    if kind == "direct" {
        let id = bench.ok("alice", message_to_bob("m0")).await["conversation_id"].take();
        bench.ok("bob", say(&id, "m1")).await;
        return id;
    }
    let mut create = json!({"action": "create", "kind": kind, "client_msg_id": "c1", "title": "Trip",
        "members": ["bob", "carol"], "post": "all", "add": "all"});
    if kind == "channel" {
        create["join"] = json!("open");
    }
    let id = bench.ok("alice", create).await["conversation_id"].take();
    bench.ok("bob", say(&id, "m1")).await;
    id
}

async fn page(bench: &Workbench, user: &str, id: &Value) -> Value {
    bench.ok(user, json!({"action": "history", "conversation_id": id})).await
}

#[tokio::test]
async fn a_pin_is_a_silent_entry_and_history_has_the_pinned_messages_the_last_first() {
    for kind in ["direct", "group", "channel"] {
        let bench = Workbench::default();
        let id = conversation(&bench, kind).await;
        bench.ok("alice", say(&id, "m2")).await;
        assert_eq!(page(&bench, "bob", &id).await.get("pins"), None, "{kind}");
        assert_eq!(bench.ok("alice", pin(&id, "p1", 2, true)).await["seq"], 4, "{kind}");
        bench.ok("alice", pin(&id, "p2", 3, true)).await;
        let shown = page(&bench, "bob", &id).await;
        assert_eq!(shown["pins"], json!([3, 2]), "{kind}");
        let entry = &shown["messages"].as_array().unwrap().last().unwrap();
        let fields = ["kind", "target_seq", "pinned", "body"].map(|field| entry[field].clone());
        assert_eq!(fields, [json!("pin"), json!(3), json!(true), json!("")], "{kind}");
        bench.fanout().await;
        let list = json!({"action": if kind == "channel" { "channels" } else { "inbox" }});
        let row = bench.ok("bob", list).await["conversations"][0].take();
        let unread = if kind == "direct" { 2 } else { 1 };
        assert_eq!((&row["unread"], &row["last_message"]["seq"]), (&json!(unread), &json!(3)), "{kind}: {row}");
        // A second pin of a message is an entry, and moves it to the front. A repeated request is none.
        bench.ok("alice", pin(&id, "p3", 2, true)).await;
        assert_eq!(bench.ok("alice", pin(&id, "p3", 2, true)).await["duplicate"], true, "{kind}");
        assert_eq!(bench.refused("alice", pin(&id, "p3", 2, false)).await, "id_reused", "{kind}");
        assert_eq!(page(&bench, "bob", &id).await["pins"], json!([2, 3]), "{kind}");
        bench.ok("alice", pin(&id, "p4", 2, false)).await;
        // Nothing to take off: an entry without effect.
        bench.ok("alice", pin(&id, "p5", 2, false)).await;
        assert_eq!(page(&bench, "alice", &id).await["pins"], json!([3]), "{kind}");
    }
}

#[tokio::test]
async fn a_deleted_message_stays_pinned_until_the_pin_is_taken_off() {
    for kind in ["direct", "group", "channel"] {
        let bench = Workbench::default();
        let id = conversation(&bench, kind).await;
        bench.ok("alice", pin(&id, "p1", 2, true)).await;
        bench.ok("bob", about("delete", &id, "d1", &json!({"seq": 2}))).await;
        assert_eq!(page(&bench, "bob", &id).await["pins"], json!([2]), "{kind}");
        assert_eq!(bench.refused("alice", pin(&id, "p2", 2, true)).await, "gone", "{kind}");
        bench.ok("alice", pin(&id, "p3", 2, false)).await;
        assert_eq!(page(&bench, "bob", &id).await.get("pins"), None, "{kind}");
        assert_eq!(bench.refused("alice", pin(&id, "p4", 2, false)).await, "gone", "{kind}");
    }
}

#[tokio::test]
async fn only_the_owner_and_the_admins_of_a_group_pin_and_a_block_ends_it_for_two() {
    for kind in ["group", "channel"] {
        let bench = Workbench::default();
        let id = conversation(&bench, kind).await;
        assert_eq!(bench.refused("bob", pin(&id, "p1", 2, true)).await, "forbidden", "{kind}");
        assert_eq!(bench.refused("dave", pin(&id, "p1", 2, true)).await, "not_member", "{kind}");
        assert_eq!(bench.refused("alice", pin(&id, "p1", 99, true)).await, "gone", "{kind}");
        bench.ok("alice", about("role", &id, "o1", &json!({"user_id": "bob", "role": "admin"}))).await;
        bench.ok("bob", pin(&id, "p1", 2, true)).await;
        bench.ok("alice", about("restrict", &id, "r1", &json!({"user_id": "bob", "until": "forever"}))).await;
        assert_eq!(bench.refused("bob", pin(&id, "p2", 2, false)).await, "forbidden", "{kind}");
    }
    let bench = Workbench::default();
    let id = conversation(&bench, "direct").await;
    bench.ok("bob", pin(&id, "p1", 1, true)).await;
    bench.ok("bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    for user in ["alice", "bob"] {
        assert_eq!(bench.refused(user, pin(&id, "p2", 1, false)).await, "forbidden", "{user}");
    }
}

#[tokio::test]
async fn twenty_messages_are_pinned_and_not_one_more() {
    let bench = Workbench::default();
    let id = conversation(&bench, "group").await;
    for seq in 3..=PINS_MAX + 2 {
        bench.ok("alice", say(&id, &format!("m{seq}"))).await;
    }
    for seq in 3..=PINS_MAX + 2 {
        bench.ok("alice", pin(&id, &format!("p{seq}"), seq as u64, true)).await;
    }
    assert_eq!(bench.refused("alice", pin(&id, "p2", 2, true)).await, "limit_reached");
    bench.ok("alice", pin(&id, "again", 3, true)).await;
    bench.ok("alice", pin(&id, "off", 4, false)).await;
    bench.ok("alice", pin(&id, "p2", 2, true)).await;
    let pins = page(&bench, "carol", &id).await["pins"].take();
    assert_eq!((pins.as_array().unwrap().len(), &pins[0], &pins[1]), (PINS_MAX, &json!(2), &json!(3)));
}

#[tokio::test]
async fn who_joins_later_sees_no_pins_of_what_came_before_and_who_left_sees_none() {
    for kind in ["group", "channel"] {
        let bench = Workbench::default();
        let id = conversation(&bench, kind).await;
        bench.ok("alice", pin(&id, "p1", 2, true)).await;
        bench.ok("alice", about("add", &id, "a1", &json!({"members": ["dave"]}))).await;
        bench.ok("alice", say(&id, "m2")).await;
        assert_eq!(page(&bench, "dave", &id).await.get("pins"), None, "{kind}");
        bench.ok("alice", pin(&id, "p2", 5, true)).await;
        assert_eq!(page(&bench, "dave", &id).await["pins"], json!([5]), "{kind}");
        assert_eq!(page(&bench, "bob", &id).await["pins"], json!([5, 2]), "{kind}");
    }
    let bench = Workbench::default();
    let id = conversation(&bench, "group").await;
    bench.ok("bob", json!({"action": "leave", "conversation_id": id, "client_msg_id": "l1"})).await;
    bench.ok("alice", pin(&id, "p1", 2, true)).await;
    assert_eq!(page(&bench, "bob", &id).await.get("pins"), None);
}
