//! `drain`, `ack` and `ping`: what they read and write, and what they do when something happens beside them.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use serde_json::{Value, json};
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
async fn a_lost_entry_ends_its_conversation_alone_until_it_is_back() {
    let bench = Workbench::default();
    let mut id = Value::Null;
    for message in ["m1", "m2", "m3"] {
        id = bench.ok("alice", message_to_bob(message)).await["conversation_id"].take();
    }
    bench.clock.advance(std::time::Duration::from_secs(1));
    bench.ok("carol", message_to_bob("m1")).await;
    let row = bench.aws.raw_rows("MessagesTable").into_iter().find(|row| row["seq"]["N"] == "2").unwrap();
    bench.aws.remove_row("MessagesTable", &json!({"conversation_id": row["conversation_id"], "seq": row["seq"]}));
    let senders = async || {
        let page = bench.ok("bob", json!({"action": "drain"})).await;
        let messages = page["messages"].as_array().unwrap().clone();
        messages
            .iter()
            .map(|message| format!("{} {}", message["sender_id"].as_str().unwrap(), message["seq"]))
            .collect()
    };
    let found: Vec<String> = senders().await;
    assert_eq!(found, ["alice 1", "carol 1"]);
    for (side, sees) in [(json!({}), false), (json!({"after_seq": 1}), false), (json!({"after_seq": 2}), true)] {
        let mut history = json!({"action": "history", "conversation_id": id});
        history.as_object_mut().unwrap().extend(side.as_object().unwrap().clone());
        let answer = bench.run("bob", history).await;
        assert_eq!(answer["type"] == "reply", sees, "{answer}");
        assert!(sees || answer["error"]["code"] == "unavailable", "{answer}");
    }
    bench.aws.put_rows("MessagesTable", &[row]);
    let found: Vec<String> = senders().await;
    assert_eq!(found, ["alice 1", "alice 2", "alice 3", "carol 1"]);
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
    // More than a page holds.
    let mut id = json!(null);
    for number in 0..200 {
        id = bench.ok("alice", message_to_bob(&format!("m{number}"))).await["conversation_id"].clone();
    }
    bench.clock.advance(std::time::Duration::from_secs(1));
    bench.ok("carol", message_to_bob("m1")).await;

    let page = bench.ok("bob", json!({"action": "drain"})).await;
    let messages = page["messages"].as_array().unwrap();
    assert_eq!((messages.len() > 64, &page["more"]), (true, &json!(true)));
    assert!(messages.iter().all(|message| message["sender_id"] == "alice"), "carol's waits for alice's last");
    let ack = json!([{"conversation_id": id, "seq": messages.len()}]);
    let page = bench.ok("bob", json!({"action": "drain", "ack": ack})).await;
    let senders: Vec<_> =
        page["messages"].as_array().unwrap().iter().map(|message| message["sender_id"].as_str().unwrap()).collect();
    assert_eq!((senders.len(), senders.last(), &page["more"]), (201 - messages.len(), Some(&"carol"), &json!(false)));
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

/// Makes groups with large messages, all pending for bob. `interleaved`: consecutive messages are in different groups.
async fn large_backlog(bench: &Workbench, interleaved: bool) {
    let mut groups = vec![];
    for number in 0..25 {
        let create =
            json!({"action": "create", "client_msg_id": format!("c{number}"), "title": "Trip", "members": ["bob"]});
        groups.push(bench.ok("alice", create).await["conversation_id"].take());
    }
    // Bob acknowledges the entries that made the groups.
    for group in &groups {
        bench.ok("bob", up_to("ack", group, 1)).await;
    }
    let body = "x".repeat(16 * 1024);
    let orders: Vec<(usize, usize)> =
        (0..200).map(|n| if interleaved { (n % 25, n / 25) } else { (n / 8, n % 8) }).collect();
    for (group, number) in orders {
        bench.clock.advance(std::time::Duration::from_secs(1));
        let id = format!("m{number}");
        bench.ok("alice", json!({"action": "send", "conversation_id": groups[group], "client_msg_id": id, "kind": "text", "body": body})).await;
    }
}

#[tokio::test]
async fn a_drain_reads_about_what_it_answers() {
    for interleaved in [false, true] {
        let bench = Workbench::default();
        large_backlog(&bench, interleaved).await;
        let (mut all_read, mut all_answered, mut seen, mut ack) = (0, 0, vec![], json!([]));
        loop {
            bench.aws.clear();
            let mut frame = json!({"action": "drain"});
            if ack != json!([]) {
                frame["ack"] = ack;
            }
            let page = bench.ok("bob", frame).await;
            let messages = page["messages"].as_array().unwrap();
            let (read, answered) = (bench.aws.read_bytes(), page.to_string().len());
            // And a row for each conversation that is shown, and what the ack reads.
            assert!(read <= answered * 13 / 10 + 2048, "{interleaved}: {read} bytes for {answered}");
            (all_read, all_answered) = (all_read + read, all_answered + answered);
            seen.extend(
                messages.iter().map(|message| (message["conversation_id"].to_string(), message["seq"].as_u64())),
            );
            ack = messages
                .iter()
                .map(|message| json!({"conversation_id": message["conversation_id"], "seq": message["seq"]}))
                .collect();
            if page["more"] == false {
                break;
            }
        }
        assert!(all_read <= all_answered * 13 / 10, "{all_read} bytes for {all_answered}");
        let mut each = seen.clone();
        each.sort();
        each.dedup();
        assert_eq!((seen.len(), each.len()), (200, 200), "each once");
        let is_dense = |of: &String| seen.iter().filter(|(id, _)| id == of).map(|(_, seq)| seq.unwrap()).eq(2..=9);
        assert!(seen.iter().all(|(id, _)| is_dense(id)));
    }
}

#[tokio::test]
async fn a_conversation_that_cannot_be_asked_for_is_left_out_and_comes_later() {
    let bench = Workbench::default();
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    bench.clock.advance(std::time::Duration::from_secs(1));
    bench.ok("carol", message_to_bob("m1")).await;
    bench.aws.pass_next("Query");
    bench.aws.fail_next("Query", Fault::Status(500));
    let page = bench.ok("bob", json!({"action": "drain"})).await;
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["more"]), (1, &json!(true)));
    assert_eq!(page["messages"][0]["sender_id"], "carol");
    let page = bench.ok("bob", json!({"action": "drain"})).await;
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["messages"][0]["conversation_id"]), (2, &id));
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

#[tokio::test]
async fn a_channel_is_refused_by_the_field_that_names_it() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let entries = json!([{"conversation_id": id, "seq": 1}, {"conversation_id": "ch_x", "seq": 1}]);
    for (action, field) in [("ack", "up_to"), ("drain", "ack")] {
        let answer = bench.run("bob", json!({"action": action, field: entries})).await;
        let problem = format!("{field}[1].conversation_id: must not be a channel; channels need no ack");
        assert_eq!(answer["error"]["message"], problem);
    }
    assert_eq!(bench.row("bob")["delivered_seq"], 1, "the other entry counts");
}
