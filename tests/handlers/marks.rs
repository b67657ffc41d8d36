//! `ack` and `read`: one write where nothing is in the way, and the truth where something is.

use serde_json::{Value, json};
use testkit::{Failure, Workbench, message_to_bob, up_to};

/// Alice has sent bob this many messages.
async fn conversation(bench: &Workbench, messages: u64) -> Value {
    let mut id = Value::Null;
    for number in 1..=messages {
        id = bench.ok("alice", message_to_bob(&format!("m{number}"))).await["conversation_id"].clone();
    }
    bench.operations();
    id
}

fn conflict() -> Failure {
    Failure::Status(
        400,
        json!({"__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException", "message": "Transaction is ongoing for the item"}),
    )
}

#[tokio::test]
async fn the_last_message_is_acked_and_read_in_one_write_each() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 3).await;
    bench.ok("bob", up_to("ack", &id, 3)).await;
    assert_eq!(bench.operations(), ["UpdateItem", "Query"], "the write, then where alice is");
    assert_eq!(bench.ok("bob", up_to("read", &id, 3)).await, json!({"unread": 0}));
    assert_eq!(bench.operations(), ["UpdateItem", "Query", "Query"], "the write, then where both are");
}

#[tokio::test]
async fn an_ack_beside_a_new_message_leaves_that_one_pending() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 1).await;
    let write = bench.recorder.hold_next("UpdateItem");
    let acking = bench.ok("bob", up_to("ack", &id, 1));
    let sending = async {
        write.reached().await;
        bench.ok("alice", message_to_bob("m2")).await;
        write.release();
    };
    tokio::join!(acking, sending);
    let row = bench.row("bob");
    assert_eq!((&row["delivered_seq"], &row["pending_from"], &row["last_seq"]), (&json!(1), &json!(2), &json!(2)));
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
}

#[tokio::test]
async fn a_read_beside_a_new_message_does_not_swallow_it() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 1).await;
    let write = bench.recorder.hold_next("UpdateItem");
    let reading = bench.ok("bob", up_to("read", &id, 1));
    let sending = async {
        write.reached().await;
        bench.ok("alice", message_to_bob("m2")).await;
        write.release();
    };
    let (result, ()) = tokio::join!(reading, sending);
    assert_eq!(result["unread"], 1);
    let row = bench.row("bob");
    assert_eq!((&row["read_seq"], &row["unread"], &row["pending_from"]), (&json!(1), &json!(1), &json!(2)));
}

#[tokio::test]
async fn a_count_that_a_new_message_outdates_is_made_again() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 5).await;
    // The first write is refused, since 3 is not the last. The second carries the count.
    bench.recorder.fail_next("UpdateItem", Failure::Lost);
    assert_eq!(bench.refused("bob", up_to("read", &id, 3)).await, "unavailable");
    let count = bench.recorder.hold_next("Query");
    let reading = bench.ok("bob", up_to("read", &id, 3));
    let sending = async {
        count.reached().await;
        bench.recorder.clear();
        // By alice's own transaction alone: her pushes would pass through the recorder's queue too.
        bench.ok("alice", message_to_bob("m6")).await;
        count.release();
    };
    let (result, ()) = tokio::join!(reading, sending);
    assert_eq!(result["unread"], 3, "4, 5 and 6");
    assert_eq!(bench.row("bob")["unread"], 3);
}

#[tokio::test]
async fn a_slower_read_of_less_does_not_take_the_marks_back() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 5).await;
    let count = bench.recorder.hold_next("Query");
    let slow = bench.ok("bob", up_to("read", &id, 2));
    let quick = async {
        count.reached().await;
        // Another device reads everything meanwhile.
        assert_eq!(bench.ok("bob", up_to("read", &id, 5)).await["unread"], 0);
        count.release();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    assert_eq!(slow["unread"], 0);
    let row = bench.row("bob");
    assert_eq!((&row["read_seq"], &row["delivered_seq"], &row["unread"]), (&json!(5), &json!(5), &json!(0)));
    assert_eq!(row.get("pending_from"), None);
}

#[tokio::test]
async fn a_slower_read_of_less_does_not_take_an_ack_back() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 5).await;
    let count = bench.recorder.hold_next("Query");
    let slow = bench.ok("bob", up_to("read", &id, 2));
    let quick = async {
        count.reached().await;
        bench.ok("bob", up_to("ack", &id, 4)).await;
        count.release();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    assert_eq!(slow["unread"], 3);
    let row = bench.row("bob");
    assert_eq!((&row["read_seq"], &row["delivered_seq"], &row["pending_from"]), (&json!(2), &json!(4), &json!(5)));
}

#[tokio::test]
async fn a_slower_read_of_less_does_not_take_a_read_of_what_was_acknowledged_back() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 5).await;
    bench.ok("bob", up_to("ack", &id, 5)).await;
    let count = bench.recorder.hold_next("Query");
    let slow = bench.ok("bob", up_to("read", &id, 2));
    let quick = async {
        count.reached().await;
        bench.ok("bob", up_to("read", &id, 3)).await;
        count.release();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    assert_eq!(slow["unread"], 2);
    let row = bench.row("bob");
    assert_eq!((&row["read_seq"], &row["unread"]), (&json!(3), &json!(2)));
}

#[tokio::test]
async fn a_slower_ack_does_not_take_a_read_back() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 5).await;
    bench.ok("bob", up_to("ack", &id, 2)).await;
    let refused = bench.recorder.hold_next("UpdateItem");
    let slow = bench.ok("bob", up_to("ack", &id, 4));
    let quick = async {
        refused.reached().await;
        let write = bench.recorder.hold_next("UpdateItem");
        refused.release();
        // The row is known to the ack by now.
        write.reached().await;
        bench.ok("bob", up_to("read", &id, 2)).await;
        write.release();
    };
    tokio::join!(slow, quick);
    let row = bench.row("bob");
    assert_eq!((&row["delivered_seq"], &row["read_seq"], &row["unread"]), (&json!(4), &json!(2), &json!(3)));
}

#[tokio::test]
async fn a_row_that_a_transaction_is_writing_is_tried_again() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 1).await;
    for action in ["ack", "read"] {
        bench.recorder.fail_next("UpdateItem", conflict());
        bench.recorder.fail_next("UpdateItem", conflict());
        bench.ok("bob", up_to(action, &id, 1)).await;
        assert_eq!(bench.operations()[..3], ["UpdateItem", "UpdateItem", "UpdateItem"]);
    }
    bench.recorder.fail_always("UpdateItem", conflict());
    for action in ["ack", "read"] {
        assert_eq!(bench.refused("bob", up_to(action, &id, 1)).await, "conflict");
        assert_eq!(bench.operations(), ["UpdateItem"; 5]);
    }
}

#[tokio::test]
async fn an_ack_whose_answer_is_lost_is_told_by_its_retry() {
    let bench = Workbench::new().await;
    bench.connected("alice").await;
    let id = conversation(&bench, 1).await;
    bench.recorder.fail_next("UpdateItem", Failure::ReplyLost);
    assert_eq!(bench.refused("bob", up_to("ack", &id, 1)).await, "unavailable");
    assert!(bench.posted("alice").is_empty());
    bench.ok("bob", up_to("ack", &id, 1)).await;
    assert_eq!(bench.posted("alice"), ["receipt.delivered"]);
    bench.recorder.fail_next("UpdateItem", Failure::ReplyLost);
    assert_eq!(bench.refused("bob", up_to("read", &id, 1)).await, "unavailable");
    bench.ok("bob", up_to("read", &id, 1)).await;
    assert_eq!(bench.posted("alice"), ["receipt.delivered", "receipt.read"]);
}

#[tokio::test]
async fn entries_after_a_failing_one_still_count() {
    let bench = Workbench::new().await;
    bench.connected("alice").await;
    let id = conversation(&bench, 1).await;
    let entries = json!([{"conversation_id": "dm_of_others", "seq": 1}, {"conversation_id": id, "seq": 1}]);
    assert_eq!(bench.refused("bob", json!({"action": "ack", "up_to": entries})).await, "not_member");
    assert_eq!(bench.row("bob")["delivered_seq"], 1);
    assert_eq!(bench.posted("alice"), ["receipt.delivered"]);
}

#[tokio::test]
async fn nobody_waits_for_ticks_on_a_note_to_oneself() {
    let bench = Workbench::new().await;
    let note = json!({"action": "send", "to": "alice", "client_msg_id": "n1", "kind": "text", "body": "milk"});
    let id = bench.ok("alice", note).await["conversation_id"].clone();
    bench.operations();
    bench.ok("alice", up_to("ack", &id, 1)).await;
    assert_eq!(bench.operations(), ["UpdateItem"]);
    bench.ok("alice", up_to("read", &id, 1)).await;
    assert_eq!(bench.operations(), ["UpdateItem", "Query"], "only the reader's other devices are told");
}

#[tokio::test]
async fn a_stranger_costs_one_write_that_writes_nothing() {
    let bench = Workbench::new().await;
    let id = conversation(&bench, 1).await;
    for action in ["ack", "read"] {
        assert_eq!(bench.refused("mallory", up_to(action, &id, 1)).await, "not_member");
        assert_eq!(bench.operations(), ["UpdateItem"]);
    }
    assert_eq!(bench.database.scan("InboxTable").len(), 2);
}
