//! Requests of a user to a service: reading and muting succeed, and all others fail.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use serde_json::{Value, json};
use testkit::Workbench;

async fn told_by_orders(bench: &Workbench) -> Value {
    let message = json!({"to": "bob", "from": "@orders", "client_msg_id": "m1", "kind": "text", "body": "on its way"});
    assert!(bench.ingest(&[("bob", message)]).await.is_empty());
    bench.row("bob")["conversation_id"].clone()
}

#[tokio::test]
async fn nobody_writes_to_a_service_or_reacts_to_it_or_blocks_it() {
    let bench = Workbench::default();
    let conversation = told_by_orders(&bench).await;
    let stored = |bench: &Workbench| [bench.aws.rows("MessagesTable").len(), bench.aws.rows("InboxTable").len()];
    for frame in [
        json!({"action": "send", "to": "@orders", "client_msg_id": "c1", "kind": "text", "body": "hi"}),
        json!({"action": "send", "conversation_id": conversation, "client_msg_id": "c2", "kind": "text", "body": "hi"}),
        json!({"action": "react", "conversation_id": conversation, "seq": 1, "client_msg_id": "c3", "emoji": "👍"}),
        json!({"action": "edit", "conversation_id": conversation, "seq": 1, "client_msg_id": "c4", "body": "no"}),
        json!({"action": "delete", "conversation_id": conversation, "seq": 1, "client_msg_id": "c5"}),
        json!({"action": "settings", "user_id": "@orders", "set": {"blocked": true}}),
    ] {
        assert_eq!(bench.refused("bob", frame.clone()).await, "forbidden", "{frame}");
        assert_eq!(stored(&bench), [1, 1], "{frame}");
    }
    // Nor before the first message.
    let first = json!({"action": "send", "to": "@shop", "client_msg_id": "c1", "kind": "text", "body": "hi"});
    assert_eq!(bench.refused("alice", first).await, "forbidden");
    let mute = json!({"action": "settings", "conversation_id": conversation, "set": {"muted_until": "forever"}});
    bench.ok("bob", mute).await;
    let typing = json!({"action": "typing", "conversation_id": conversation});
    bench.operations();
    let event = testkit::message("bob", &typing.to_string());
    bench.handle("typing", event).await.unwrap();
    assert_eq!(bench.operations(), ["GetItem"]);
}

#[tokio::test]
async fn nobody_brings_a_service_into_a_group() {
    let bench = Workbench::default();
    let create =
        |members: &[&str]| json!({"action": "create", "client_msg_id": "g1", "title": "Trip", "members": members});
    assert_eq!(bench.refused("alice", create(&["bob", "@orders"])).await, "forbidden");
    let group = bench.ok("alice", create(&["bob"])).await["conversation_id"].clone();
    let add = json!({"action": "add", "conversation_id": group, "client_msg_id": "a1", "members": ["@orders"]});
    assert_eq!(bench.refused("alice", add).await, "forbidden");
}
