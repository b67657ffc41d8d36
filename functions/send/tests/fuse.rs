//! `send` with `read`: what moves, who gets the marks, and what a try that was too late leaves as it is.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use testkit::{AwsCall, Fault, Workbench, up_to};

/// A message with a read mark.
fn reply(target: &Value, key: &str, read: u64) -> Value {
    json!({"action": "send", "conversation_id": target, "client_msg_id": key, "kind": "text", "body": "yes", "read": read})
}

async fn group(bench: &Workbench) -> Value {
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob", "carol"]});
    let id = bench.ok("alice", create).await["conversation_id"].take();
    bench
        .ok(
            "alice",
            json!({"action": "send", "conversation_id": id, "client_msg_id": "m2", "kind": "text", "body": "?"}),
        )
        .await;
    id
}

fn last(bench: &Workbench, user: &str) -> Value {
    bench.aws.frames(&format!("{user}=")).pop().unwrap()
}

fn marks(row: &Value) -> [&Value; 3] {
    ["delivered_seq", "read_seq", "unread"].map(|name| &row[name])
}

#[tokio::test]
async fn a_message_takes_the_read_mark_along_in_its_own_transaction() {
    let bench = Workbench::default();
    let id = bench.conversation(2).await;
    for user in ["alice", "bob"] {
        bench.connected(user).await;
    }
    let marked = json!({"action": "settings", "conversation_id": id, "set": {"unread": true}});
    bench.ok("bob", marked).await;
    bench.operations();
    let answer = bench.ok("bob", reply(&id, "b1", 2)).await;
    assert_eq!((&answer["seq"], &answer["read_seq"]), (&json!(3), &json!(3)));
    assert_eq!(bench.operations(), ["GetItem", "TransactWriteItems", "Query", "Query"]);
    let row = bench.row("bob");
    assert_eq!(marks(&row), [&json!(3), &json!(3), &json!(0)]);
    for gone in ["pending_from", "pending_since", "notified_seq", "marked_unread"] {
        assert_eq!(row.get(gone), None, "{gone}");
    }
    assert!(row.get("read_at").is_some());
    let event = last(&bench, "alice");
    assert_eq!(event["marks"], json!([{"user_id": "bob", "delivered_seq": 3, "read_seq": 3}]));
    assert_eq!(bench.posted("alice"), ["messages.new"], "no receipt of its own");

    // A repetition has the marks again, whatever mark it brings: the first try may have died before its posts.
    let again = bench.ok("bob", reply(&id, "b1", 1)).await;
    assert_eq!((&again["duplicate"], &again["read_seq"]), (&json!(true), &json!(3)));
    assert_eq!(last(&bench, "alice")["marks"], event["marks"]);
}

#[tokio::test]
async fn a_message_of_the_other_that_came_before_stays_unread() {
    let bench = Workbench::default();
    let id = bench.conversation(2).await;
    bench.connected("alice").await;
    let answer = bench.ok("bob", reply(&id, "b1", 1)).await;
    assert_eq!((&answer["seq"], &answer["read_seq"]), (&json!(3), &json!(0)));
    assert_eq!(marks(&bench.row("bob")), [&json!(0), &json!(0), &json!(2)]);
    assert_eq!(last(&bench, "alice").get("marks"), None);
    // Above the end counts as the end. Without `read` there is no `read_seq`.
    assert_eq!(bench.ok("bob", reply(&id, "b2", 99)).await["read_seq"], 4);
    let plain = json!({"action": "send", "conversation_id": id, "client_msg_id": "b3", "kind": "text", "body": "x"});
    assert_eq!(bench.ok("bob", plain).await.get("read_seq"), None);
    let mut wrong = reply(&id, "b4", 1);
    wrong["read"] = json!("all");
    assert_eq!(bench.refused("bob", wrong).await, "bad_request");
}

#[tokio::test]
async fn while_a_block_exists_a_repetition_has_no_marks() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.connected("alice").await;
    bench.ok("bob", reply(&id, "b1", 1)).await;
    bench.ok("alice", json!({"action": "settings", "user_id": "bob", "set": {"blocked": true}})).await;
    bench.ok("bob", reply(&id, "b1", 1)).await;
    assert_eq!(last(&bench, "alice").get("marks"), None);
}

#[tokio::test]
async fn in_a_group_the_authors_of_what_was_read_get_the_marks() {
    let bench = Workbench::default();
    let id = group(&bench).await;
    for user in ["alice", "bob", "carol"] {
        bench.connected(user).await;
    }
    let answer = bench.ok("bob", reply(&id, "b1", 2)).await;
    assert_eq!((&answer["seq"], &answer["read_seq"]), (&json!(3), &json!(3)));
    let marks = json!([{"user_id": "bob", "delivered_seq": 3, "read_seq": 3}]);
    assert_eq!(last(&bench, "alice")["marks"], marks);
    assert_eq!(last(&bench, "carol").get("marks"), None, "nothing of hers was read");
    assert_eq!(bench.posted("alice"), ["messages.new"], "no receipt of its own");
    let rows = bench.aws.rows("InboxTable");
    let row = rows.iter().find(|row| row["user_id"] == "bob" && row["conversation_id"] == id).unwrap();
    assert_eq!(self::marks(row), [&json!(3), &json!(3), &json!(0)]);
    assert!(row.get("pending_from").is_none() && row.get("read_at").is_some());

    // Carol has not read bob's message.
    let answer = bench.ok("carol", reply(&id, "k1", 2)).await;
    assert_eq!((&answer["seq"], &answer["read_seq"]), (&json!(4), &json!(0)));
    assert_eq!(last(&bench, "bob").get("marks"), None);
}

#[tokio::test]
async fn a_reader_whose_row_another_process_moves_gets_the_ticks_to_the_authors() {
    let bench = Workbench::default();
    let id = group(&bench).await;
    bench.connected("alice").await;
    bench.fanout().await;
    // The process dies before it moves a row. The stream's moves all of them.
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = is_broken.clone();
    bench.aws.fail_if(move |call| {
        let reads_rows = matches!(call, AwsCall::Database { operation, .. } if operation == "BatchGetItem");
        (reads_rows && broken.load(Relaxed)).then_some(Fault::Status(500))
    });
    bench.ok("bob", reply(&id, "b1", 2)).await;
    is_broken.store(false, Relaxed);
    // Bob's own request moves only his row.
    bench.ok("bob", up_to("ack", &id, 3)).await;
    let receipt = last(&bench, "alice");
    assert_eq!(
        (&receipt["type"], &receipt["user_id"], &receipt["seq"]),
        (&json!("receipt.read"), &json!("bob"), &json!(3))
    );
}

#[tokio::test]
async fn a_channel_ignores_it() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "kind": "channel", "title": "News", "members": []});
    let id = bench.ok("alice", create).await["conversation_id"].take();
    let answer = bench.ok("alice", reply(&id, "m1", 1)).await;
    assert_eq!(answer["read_seq"], answer["seq"]);
}
