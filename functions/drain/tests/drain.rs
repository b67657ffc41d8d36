//! `drain`, `ack` and `ping`: what they read and write, and what they do when something happens beside them.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use domain::limits::DRAIN_MESSAGES_MAX;
use serde_json::json;
use testkit::{Fault, Workbench, message_to_bob, up_to};

#[tokio::test]
async fn a_ping_reads_one_index_entry() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    bench.operations();
    let pong = bench.ok("bob", json!({"action": "ping"})).await;
    assert_eq!(pong, json!({"pending": true, "server_time": "2027-01-15T08:00:00.000Z"}));
    let asked = bench.aws.calls().pop().unwrap();
    assert_eq!(
        (&asked.body()["IndexName"], &asked.body()["Select"], &asked.body()["Limit"]),
        (&json!("pending"), &json!("COUNT"), &json!(1))
    );
    assert_eq!(bench.operations(), ["Query"]);
}

#[tokio::test]
async fn a_drain_reads_what_is_pending_and_its_messages() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    bench.ok("carol", message_to_bob("m1")).await;
    bench.operations();
    let page = bench.ok("bob", json!({"action": "drain"})).await;
    assert_eq!(page["messages"].as_array().unwrap().len(), 2);
    assert_eq!(bench.operations(), ["Query"; 3]);
    assert_eq!(bench.ok("alice", json!({"action": "drain"})).await, json!({"messages": [], "more": false}));
    assert_eq!(bench.operations(), ["Query"], "nothing pending: nothing else is read");
}

#[tokio::test]
async fn a_page_that_cannot_be_read_whole_is_no_page() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    bench.aws.fail_next("Query", Fault::Status(500));
    assert_eq!(bench.refused("bob", json!({"action": "drain"})).await, "unavailable");
    assert_eq!(bench.ok("bob", json!({"action": "drain"})).await["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refused_ack_keeps_the_page_back() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    bench.operations();
    let request = json!({"action": "drain", "ack": [{"conversation_id": "dm_of_others", "seq": 1}]});
    assert_eq!(bench.refused("bob", request).await, "not_member");
    assert_eq!(bench.operations(), ["UpdateItem"]);
}

#[tokio::test]
async fn what_waited_longest_comes_first() {
    let bench = Workbench::default();
    for (sender, id) in [("dave", "1"), ("alice", "2"), ("carol", "3"), ("alice", "4"), ("dave", "5")] {
        bench.clock.advance(std::time::Duration::from_secs(1));
        bench.ok(sender, message_to_bob(id)).await;
    }
    let page = bench.ok("bob", json!({"action": "drain"})).await;
    let order: Vec<_> =
        page["messages"].as_array().unwrap().iter().map(|message| message["sender_id"].as_str().unwrap()).collect();
    assert_eq!(order, ["dave", "alice", "carol", "alice", "dave"]);
}

#[tokio::test]
async fn nothing_younger_comes_before_what_a_page_had_no_room_for() {
    let bench = Workbench::default();
    // Two conversations share a page, and alice's does not fit into its half.
    let half = DRAIN_MESSAGES_MAX / 2;
    let mut id = json!(null);
    for number in 0..=half {
        id = bench.ok("alice", message_to_bob(&format!("m{number}"))).await["conversation_id"].clone();
    }
    bench.clock.advance(std::time::Duration::from_secs(1));
    bench.ok("carol", message_to_bob("m1")).await;

    let page = bench.ok("bob", json!({"action": "drain"})).await;
    let messages = page["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &page["more"]), (half, &json!(true)));
    assert!(messages.iter().all(|message| message["sender_id"] == "alice"), "carol's waits for alice's last");
    let ack = json!([{"conversation_id": id, "seq": half}]);
    let page = bench.ok("bob", json!({"action": "drain", "ack": ack})).await;
    let senders: Vec<_> =
        page["messages"].as_array().unwrap().iter().map(|message| message["sender_id"].as_str().unwrap()).collect();
    assert_eq!((senders, &page["more"]), (vec!["alice", "carol"], &json!(false)));
}

#[tokio::test]
async fn entries_are_applied_side_by_side() {
    let bench = Workbench::default();
    let mut entries = Vec::new();
    for sender in ["alice", "carol"] {
        let id = bench.ok(sender, message_to_bob("m1")).await["conversation_id"].clone();
        entries.push(json!({"conversation_id": id, "seq": 1}));
    }
    let [first, second] = [(); 2].map(|()| bench.aws.hold_next("UpdateItem"));
    let acking = bench.ok("bob", json!({"action": "ack", "up_to": entries}));
    let both_are_on_their_way = async {
        first.reached().await;
        second.reached().await;
        first.release();
        second.release();
    };
    tokio::join!(acking, both_are_on_their_way);
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], false);
}

#[tokio::test]
async fn the_next_page_is_read_while_the_others_are_told() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    bench.ok("alice", message_to_bob("m2")).await;
    bench.operations();
    let telling = bench.aws.hold_next("Query");
    let ack = json!([{"conversation_id": id, "seq": 1}]);
    let draining = bench.ok("bob", json!({"action": "drain", "ack": ack}));
    let page_is_read = async {
        telling.reached().await;
        // Where alice is, is still unknown.
        bench.aws.until("Query", 3).await;
        telling.release();
    };
    let (page, ()) = tokio::join!(draining, page_is_read);
    assert_eq!(page["messages"][0]["seq"], 2);
    assert_eq!(bench.posted("alice"), ["receipt.delivered"]);
}

// ---- ack ----

#[tokio::test]
async fn an_ack_beside_a_new_message_leaves_that_one_pending() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let write = bench.aws.hold_next("UpdateItem");
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
async fn a_slower_ack_does_not_take_a_read_back() {
    let bench = Workbench::default();
    let id = bench.conversation(5).await;
    bench.ok("bob", up_to("ack", &id, 2)).await;
    let refused = bench.aws.hold_next("UpdateItem");
    let slow = bench.ok("bob", up_to("ack", &id, 4));
    let quick = async {
        refused.reached().await;
        let write = bench.aws.hold_next("UpdateItem");
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
async fn entries_after_a_failing_one_still_count() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let id = bench.conversation(1).await;
    let entries = json!([{"conversation_id": "dm_of_others", "seq": 1}, {"conversation_id": id, "seq": 1}]);
    assert_eq!(bench.refused("bob", json!({"action": "ack", "up_to": entries})).await, "not_member");
    assert_eq!(bench.row("bob")["delivered_seq"], 1);
    assert_eq!(bench.posted("alice"), ["receipt.delivered"]);
}
