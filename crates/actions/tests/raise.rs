//! Raising a mark, by `ack` and by `read`: one write where nothing is in the way, and the truth where something is.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Workbench, message_to_bob, up_to};
use tokio::time::Instant;

#[tokio::test]
async fn the_last_message_is_acked_and_read_in_one_write_each() {
    let bench = Workbench::default();
    let id = bench.conversation(3).await;
    bench.ok("bob", up_to("ack", &id, 3)).await;
    assert_eq!(bench.operations(), ["UpdateItem", "Query"], "the write, then where alice is");
    assert_eq!(bench.ok("bob", up_to("read", &id, 3)).await, json!({"unread": 0}));
    assert_eq!(bench.operations(), ["UpdateItem", "Query", "Query"], "the write, then where both are");
}

#[tokio::test]
async fn several_marks_of_one_conversation_are_one() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.conversation(3).await;
    let entry = |seq: u64| json!({"conversation_id": id, "seq": seq});
    let again: Vec<Value> = (0..25).map(|number| entry(number % 3 + 1)).collect();
    bench.ok("bob", json!({"action": "ack", "up_to": again})).await;
    assert_eq!(bench.operations().iter().filter(|operation| *operation == "UpdateItem").count(), 1);
    assert_eq!(bench.posted("alice"), ["receipt.delivered"]);
    assert_eq!(bench.row("bob")["delivered_seq"], 3);
}

/// Where all that lies between was deleted, or never counted: the row alone says how far it goes.
#[tokio::test]
async fn a_long_way_is_read_in_steps_and_what_a_request_does_not_come_to_by_the_next() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.conversation(1).await;
    let mut rows = bench.aws.raw_rows("InboxTable");
    rows.retain(|row| row["user_id"]["S"] == "bob");
    rows[0]["last_seq"] = json!({"N": "20000"});
    bench.aws.put_rows("InboxTable", &rows);
    let read_seq = || bench.row("bob")["read_seq"].as_u64().unwrap();
    for (seq, upto) in [(9_000, 5_000), (9_000, 9_000), (11_000, 11_000)] {
        let answer = bench.run("bob", up_to("read", &id, seq)).await;
        assert_eq!(answer["error"]["code"], if seq == upto { Value::Null } else { json!("conflict") });
        assert_eq!(read_seq(), upto);
    }
    assert_eq!(bench.row("bob")["unread"], 0);
    assert_eq!(bench.posted("alice"), ["receipt.read", "receipt.read"]);
}

/// Each count takes 150 ms, and each step loses once.
#[tokio::test]
async fn all_steps_of_a_request_retry_for_400_ms_together() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let mut rows = bench.aws.raw_rows("InboxTable");
    rows.retain(|row| row["user_id"]["S"] == "bob");
    rows[0]["last_seq"] = json!({"N": "20000"});
    bench.aws.put_rows("InboxTable", &rows);
    let writes = AtomicUsize::new(0);
    bench.aws.fail_if(move |call| match call.operation() {
        "Query" => Some(Fault::Delayed(Duration::from_millis(150))),
        // The first write of a step returns the row, the second loses, and the step makes both again.
        "UpdateItem" => [1, 4].contains(&writes.fetch_add(1, Ordering::Relaxed)).then_some(Fault::Conflict),
        _ => None,
    });
    tokio::time::pause();
    let began = Instant::now();
    assert_eq!(bench.refused("bob", up_to("read", &id, 9_000)).await, "conflict");
    assert!(began.elapsed() < Duration::from_millis(600), "{:?}", began.elapsed());
    assert_eq!(bench.row("bob")["read_seq"], 1_000, "the next request continues here");
}

#[tokio::test]
async fn a_row_that_a_transaction_is_writing_is_tried_again() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    for action in ["ack", "read"] {
        bench.aws.fail_next("UpdateItem", Fault::Conflict);
        bench.aws.fail_next("UpdateItem", Fault::Conflict);
        bench.ok("bob", up_to(action, &id, 1)).await;
        assert_eq!(bench.operations()[..3], ["UpdateItem", "UpdateItem", "UpdateItem"]);
    }
    bench.aws.fail_always("UpdateItem", Fault::Conflict);
    for action in ["ack", "read"] {
        assert_eq!(bench.refused("bob", up_to(action, &id, 1)).await, "conflict");
        assert_eq!(bench.operations(), ["UpdateItem"; 5]);
    }
}

#[tokio::test]
async fn an_ack_whose_answer_is_lost_is_told_by_its_retry() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.conversation(1).await;
    bench.aws.fail_next("UpdateItem", Fault::ReplyLost);
    assert_eq!(bench.refused("bob", up_to("ack", &id, 1)).await, "unavailable");
    assert!(bench.posted("alice").is_empty());
    bench.ok("bob", up_to("ack", &id, 1)).await;
    assert_eq!(bench.posted("alice"), ["receipt.delivered"]);
    bench.aws.fail_next("UpdateItem", Fault::ReplyLost);
    assert_eq!(bench.refused("bob", up_to("read", &id, 1)).await, "unavailable");
    bench.ok("bob", up_to("read", &id, 1)).await;
    assert_eq!(bench.posted("alice"), ["receipt.delivered", "receipt.read"]);
}

#[tokio::test]
async fn a_mark_that_does_not_rise_is_told_again_only_while_its_first_try_may_be_under_way() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.conversation(1).await;
    for (action, receipt) in [("ack", "receipt.delivered"), ("read", "receipt.read")] {
        let told = || bench.posted("alice").iter().filter(|event| **event == receipt).count();
        bench.ok("bob", up_to(action, &id, 1)).await;
        bench.clock.advance(Duration::from_secs(59));
        // Each in a process without memory of earlier receipts.
        for _ in 0..2 {
            bench.ok("bob", up_to(action, &id, 1)).await;
        }
        assert_eq!(told(), 3);
        // A repetition does not raise the mark.
        bench.clock.advance(Duration::from_secs(2));
        for _ in 0..2 {
            bench.ok("bob", up_to(action, &id, 1)).await;
        }
        assert_eq!(told(), 3);
        bench.clock.advance(Duration::from_hours(1));
    }
}

#[tokio::test]
async fn one_process_tells_a_mark_again_once_in_five_seconds() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.conversation(1).await;
    let functions = bench.started();
    let told = || bench.posted("alice").len();
    let ten_times = async || {
        for _ in 0..10 {
            functions.ok("bob", up_to("ack", &id, 1)).await;
        }
    };
    ten_times().await;
    assert_eq!(told(), 2, "that it rose, and once that it stands there");
    bench.clock.advance(Duration::from_secs(5));
    ten_times().await;
    assert_eq!(told(), 3);
    // A mark that rises sends its receipt at any time.
    bench.ok("alice", message_to_bob("m2")).await;
    functions.ok("bob", up_to("ack", &id, 2)).await;
    assert_eq!(told(), 4);
}

#[tokio::test]
async fn a_mark_that_rose_with_an_answer_is_told_by_the_retry_of_the_ack() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.conversation(1).await;
    bench.clock.advance(Duration::from_hours(1));
    // The ack died before it wrote, and bob's answer raised the mark.
    let answer = json!({"action": "send", "to": "alice", "client_msg_id": "a1", "kind": "text", "body": "yes"});
    bench.ok("bob", answer).await;
    bench.ok("bob", up_to("ack", &id, 1)).await;
    assert_eq!(bench.posted("alice"), ["messages.new", "receipt.delivered"]);
}

#[tokio::test]
async fn nobody_waits_for_ticks_on_a_note_to_oneself() {
    let bench = Workbench::default();
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
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    for action in ["ack", "read"] {
        assert_eq!(bench.refused("mallory", up_to(action, &id, 1)).await, "not_member");
        assert_eq!(bench.operations(), ["UpdateItem"]);
    }
    assert_eq!(bench.aws.rows("InboxTable").len(), 2);
}
