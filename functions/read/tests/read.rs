//! `read`: what it counts, and what it does when something happens beside it.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use serde_json::json;
use testkit::{Fault, Workbench, message_to_bob, up_to};

#[tokio::test]
async fn a_read_beside_a_new_message_does_not_swallow_it() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let write = bench.aws.hold_next("UpdateItem");
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
    let bench = Workbench::default();
    let id = bench.conversation(5).await;
    // The first write is refused, since 3 is not the last. The second carries the count.
    bench.aws.fail_next("UpdateItem", Fault::Lost);
    assert_eq!(bench.refused("bob", up_to("read", &id, 3)).await, "unavailable");
    let count = bench.aws.hold_next("Query");
    let reading = bench.ok("bob", up_to("read", &id, 3));
    let sending = async {
        count.reached().await;
        bench.aws.clear();
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
    let bench = Workbench::default();
    let id = bench.conversation(5).await;
    let count = bench.aws.hold_next("Query");
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
    let bench = Workbench::default();
    let id = bench.conversation(5).await;
    let count = bench.aws.hold_next("Query");
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
    let bench = Workbench::default();
    let id = bench.conversation(5).await;
    bench.ok("bob", up_to("ack", &id, 5)).await;
    let count = bench.aws.hold_next("Query");
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
