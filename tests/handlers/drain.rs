//! `drain` and `ping`: what they read, and that they read it consistently.

use domain::limits::DRAIN_MESSAGES_MAX;
use serde_json::json;
use testkit::{Failure, Workbench, message_to_bob};

#[tokio::test]
async fn a_ping_reads_one_index_entry() {
    let bench = Workbench::new().await;
    bench.ok("alice", message_to_bob("m1")).await;
    bench.operations();
    let pong = bench.ok("bob", json!({"action": "ping"})).await;
    assert_eq!(pong, json!({"pending": true, "server_time": "2027-01-15T08:00:00.000Z"}));
    let asked = bench.recorder.calls().pop().unwrap();
    assert_eq!(
        (&asked.body["IndexName"], &asked.body["Select"], &asked.body["Limit"]),
        (&json!("pending"), &json!("COUNT"), &json!(1))
    );
    assert_eq!(bench.operations(), ["Query"]);
}

#[tokio::test]
async fn a_drain_reads_what_is_pending_and_its_messages() {
    let bench = Workbench::new().await;
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
    let bench = Workbench::new().await;
    bench.ok("alice", message_to_bob("m1")).await;
    bench.recorder.fail_next("Query", Failure::internal());
    assert_eq!(bench.refused("bob", json!({"action": "drain"})).await, "unavailable");
    assert_eq!(bench.ok("bob", json!({"action": "drain"})).await["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refused_ack_keeps_the_page_back() {
    let bench = Workbench::new().await;
    bench.ok("alice", message_to_bob("m1")).await;
    bench.operations();
    let request = json!({"action": "drain", "ack": [{"conversation_id": "dm_of_others", "seq": 1}]});
    assert_eq!(bench.refused("bob", request).await, "not_member");
    assert_eq!(bench.operations(), ["UpdateItem"]);
}

#[tokio::test]
async fn what_waited_longest_comes_first() {
    let bench = Workbench::new().await;
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
    let bench = Workbench::new().await;
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
async fn the_inbox_and_the_history_read_no_more_than_they_show() {
    let bench = Workbench::new().await;
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    bench.operations();
    bench.ok("bob", json!({"action": "inbox"})).await;
    assert_eq!(bench.operations(), ["Query"]);
    bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    let mut history = bench.operations();
    history.sort();
    assert_eq!(history, ["GetItem", "GetItem", "Query"], "membership first, then messages beside the other's marks");
    assert_eq!(bench.refused("mallory", json!({"action": "history", "conversation_id": id})).await, "not_member");
    assert_eq!(bench.operations(), ["GetItem"], "a stranger costs one read");
}

#[tokio::test]
async fn a_busy_conversation_moves_in_the_chat_list_once_a_minute() {
    let bench = Workbench::new().await;
    bench.ok("alice", message_to_bob("m1")).await;
    let moved = bench.row("bob")["active_at"].clone();
    bench.clock.advance(std::time::Duration::from_secs(59));
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.row("bob")["active_at"], moved);
    bench.clock.advance(std::time::Duration::from_secs(1));
    bench.ok("alice", message_to_bob("m3")).await;
    let row = bench.row("bob");
    assert_eq!(row["active_at"], row["last_at"]);
}
