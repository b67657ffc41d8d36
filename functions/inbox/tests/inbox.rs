//! `inbox` and `history`: what they read, and what their pages hold.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Workbench, message_to_bob, up_to};

#[tokio::test]
async fn the_inbox_and_the_history_read_no_more_than_they_show() {
    let bench = Workbench::default();
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    bench.operations();
    bench.ok("bob", json!({"action": "inbox"})).await;
    assert_eq!(bench.operations(), ["Query"; 2], "the index says that there are few, and they lie side by side");
    let since = json!({"action": "inbox", "since": "2027-01-15T07:00:00Z"});
    bench.ok("bob", since).await;
    assert_eq!(bench.operations(), ["Query", "BatchGetItem"]);
    bench.ok("carol", json!({"action": "inbox"})).await;
    assert_eq!(bench.operations(), ["Query"], "there is none");
    bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    let mut history = bench.operations();
    history.sort();
    assert_eq!(history, ["GetItem", "GetItem", "Query"], "membership first, then messages beside the other's marks");
    assert_eq!(bench.refused("mallory", json!({"action": "history", "conversation_id": id})).await, "not_member");
    assert_eq!(bench.operations(), ["GetItem"], "a stranger costs one read");
}

#[tokio::test]
async fn a_busy_conversation_moves_in_the_chat_list_once_a_minute() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    let moved = bench.row("bob")["active_at"].clone();
    bench.clock.advance(Duration::from_secs(59));
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.row("bob")["active_at"], moved);
    bench.clock.advance(Duration::from_secs(1));
    bench.ok("alice", message_to_bob("m3")).await;
    let row = bench.row("bob");
    assert_eq!(row["active_at"], row["last_at"]);
}

#[tokio::test]
async fn rows_that_are_too_old_are_passed_over_until_there_is_something_to_show() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    for (millis, sender) in [(1, "carol"), (2, "dave")] {
        bench.clock.advance(Duration::from_millis(millis));
        bench.ok(sender, message_to_bob("m1")).await;
    }
    bench.clock.advance(Duration::from_secs(10));
    let since = bench.clock.now().to_string();
    // Alice's is the oldest of the three in the index, and the only one with something new.
    bench.ok("alice", message_to_bob("m2")).await;
    bench.operations();
    let page = bench.ok("bob", json!({"action": "inbox", "since": since, "limit": 1})).await;
    assert_eq!(page["conversations"][0]["peer_id"], "alice");
    assert_eq!(bench.operations(), ["Query", "BatchGetItem"].repeat(2), "a row, then all that is left in one read");
    let all = bench.ok("bob", json!({"action": "inbox", "since": since})).await;
    assert_eq!((all["conversations"].as_array().unwrap().len(), &all["next_cursor"]), (1, &Value::Null));
}

/// The stream lags by more than the minute that a client allows for.
#[tokio::test]
async fn what_came_late_is_found_by_a_since_of_before() {
    let bench = Workbench::default();
    let minutes = |minutes: u64| bench.clock.advance(Duration::from_mins(minutes));
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    bench.fanout().await;
    minutes(10);
    let since = bench.clock.now().to_string();
    let say = json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    // The members' inbox rows, after the commit.
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    bench.ok("alice", say).await;
    minutes(5);
    bench.ok("carol", message_to_bob("m1")).await;
    let list = async |since: &str, limit: u64| {
        let page = bench.ok("bob", json!({"action": "inbox", "since": since, "limit": limit})).await;
        let rows = page["conversations"].as_array().unwrap();
        rows.iter().map(|row| row["conversation_id"].clone()).collect::<Vec<_>>()
    };
    let before = list(&since, 20).await;
    assert!(before.len() == 1 && before[0] != group, "{before:?}");
    // "One minute before the newest of that list."
    let since = bench.clock.now().minus(Duration::from_mins(1)).to_string();
    minutes(1);
    bench.fanout().await;
    bench.ok("bob", up_to("ack", &group, 2)).await;
    assert_eq!(list(&since, 20).await, [group.clone(), before[0].clone()], "where it was when it came");
    assert_eq!(list(&since, 1).await, [group]);
}

#[tokio::test]
async fn a_conversation_with_a_second_message_in_its_first_minute_is_first() {
    let bench = Workbench::default();
    for number in 1..=23 {
        bench.clock.advance(Duration::from_millis(100));
        bench.ok(&format!("user-{number}"), message_to_bob("m1")).await;
    }
    bench.clock.advance(Duration::from_secs(20));
    bench.ok("user-4", message_to_bob("m2")).await;
    let peers = async |cursor: Value| {
        let page = bench.ok("bob", json!({"action": "inbox", "limit": 10, "cursor": cursor})).await;
        let rows = page["conversations"].as_array().unwrap();
        (
            rows.iter().map(|row| row["peer_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
            page["next_cursor"].clone(),
        )
    };
    let (first, next) = peers(Value::Null).await;
    let (second, next) = peers(next).await;
    let (third, end) = peers(next).await;
    let mut wanted: Vec<String> = (1..=23).rev().filter(|n| *n != 4).map(|n| format!("user-{n}")).collect();
    wanted.insert(0, "user-4".to_owned());
    assert_eq!(([first, second, third].concat(), end), (wanted, Value::Null));
}

#[tokio::test]
async fn a_page_that_a_frame_has_no_room_for_goes_on_behind_its_last_row() {
    let bench = Workbench::default();
    let message =
        json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "🐦".repeat(100)});
    for number in 10..60 {
        bench.clock.advance(Duration::from_secs(1));
        bench.ok(&format!("{}{number}", "\"".repeat(126)), message.clone()).await;
    }
    let (mut pages, mut cursor, mut listed) = (0, Value::Null, Vec::new());
    while pages == 0 || cursor != Value::Null {
        let page = bench.ok("bob", json!({"action": "inbox", "limit": 50, "cursor": cursor})).await;
        listed.extend(page["conversations"].as_array().unwrap().iter().map(|row| row["conversation_id"].to_string()));
        (pages, cursor) = (pages + 1, page["next_cursor"].clone());
        assert!(pages <= 10, "{listed:?}");
    }
    assert!(pages > 1);
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), 50);
}

#[tokio::test]
async fn a_cursor_from_elsewhere_is_refused() {
    let bench = Workbench::default();
    for sender in ["alice", "carol"] {
        bench.ok(sender, message_to_bob("m1")).await;
        bench
            .ok(sender, json!({"action": "send", "to": "dave", "client_msg_id": "m1", "kind": "text", "body": "hi"}))
            .await;
    }
    let page = bench.ok("bob", json!({"action": "inbox", "limit": 1})).await;
    let own = page["next_cursor"].clone();
    let next = bench.ok("bob", json!({"action": "inbox", "limit": 1, "cursor": own})).await;
    assert_ne!(next["conversations"][0]["peer_id"], page["conversations"][0]["peer_id"]);
    // Behind another `since` nothing is left of it.
    let later = json!({"action": "inbox", "cursor": own, "since": "2099-01-01T00:00:00.000Z"});
    assert_eq!(bench.ok("bob", later).await, json!({"conversations": [], "next_cursor": null}));
    for (user, cursor) in [("dave", own), ("bob", json!("e30")), ("bob", json!("%%%")), ("bob", json!(""))] {
        let answer = bench.run(user, json!({"action": "inbox", "cursor": cursor})).await;
        assert_eq!(answer["error"]["code"], "bad_request");
        assert_eq!(answer["error"]["message"], "cursor: must be a next_cursor that this user was given, or left out");
    }
}

#[tokio::test]
async fn a_history_never_contradicts_itself() {
    let bench = Workbench::default();
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    // Bob's own row is read; then, before alice's row and the messages are, she writes on.
    bench.aws.pass_next("GetItem");
    let (listing, others) = (bench.aws.hold_next("Query"), bench.aws.hold_next("GetItem"));
    let asking = bench.ok("bob", json!({"action": "history", "conversation_id": id, "before_seq": 2}));
    let writing = async {
        listing.reached().await;
        others.reached().await;
        bench.ok("alice", message_to_bob("m2")).await;
        listing.release();
        others.release();
    };
    let (history, ()) = tokio::join!(asking, writing);
    let last = history["last_seq"].as_u64().unwrap();
    assert_eq!(last, 2);
    for member in history["members"].as_array().unwrap() {
        for mark in ["delivered_seq", "read_seq"] {
            assert!(member[mark].as_u64().unwrap() <= last, "{history}");
        }
    }
}

/// Alice's messages to bob, each with a body of that size; and what bob's history of 100 asked the table for.
async fn limits_asked_for(bodies: &[usize]) -> (Vec<u64>, usize) {
    let bench = Workbench::default();
    let mut id = Value::Null;
    for (number, size) in bodies.iter().enumerate() {
        let body = "x".repeat(*size);
        let frame =
            json!({"action": "send", "to": "bob", "client_msg_id": format!("m{number}"), "kind": "text", "body": body});
        id = bench.ok("alice", frame).await["conversation_id"].clone();
    }
    bench.aws.clear();
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": id, "limit": 100})).await;
    let asked = bench.aws.calls().iter().filter_map(|call| call.body()["Limit"].as_u64()).collect();
    let messages = history["messages"].as_array().unwrap();
    let seqs: Vec<u64> = messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
    let last = bodies.len() as u64;
    assert_eq!(
        seqs,
        (last + 1 - seqs.len() as u64..=last).collect::<Vec<_>>(),
        "the newest, in order and without a hole"
    );
    (asked, messages.len())
}

#[tokio::test]
async fn of_large_messages_no_more_is_read_than_a_page_may_need() {
    let (asked, shown) = limits_asked_for(&[16_000; 40]).await;
    assert_eq!((asked, shown), (vec![16], 1));
}

#[tokio::test]
async fn of_small_messages_all_that_was_asked_for_is_read_in_two() {
    let (asked, shown) = limits_asked_for(&[5; 120]).await;
    assert_eq!((asked, shown), (vec![16, 84], 100));
    assert_eq!(limits_asked_for(&[5; 10]).await, (vec![16], 10));
}

#[tokio::test]
async fn a_page_is_filled_whatever_the_first_messages_were_like() {
    // The newest sixteen are large, and those before them small: what they need is not known from those.
    let mut bodies = vec![10; 60];
    bodies.extend([1_500; 16]);
    let (asked, shown) = limits_asked_for(&bodies).await;
    assert!(shown >= 16 && asked.len() <= 3, "{asked:?} {shown}");
}

#[tokio::test]
async fn a_row_that_a_later_page_brings_along_is_on_that_page() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    for sender in ["carol", "dave", "erin", "frank"] {
        bench.clock.advance(Duration::from_mins(2));
        bench.ok(sender, message_to_bob("m1")).await;
    }
    bench.clock.advance(Duration::from_mins(2));
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    bench
        .ok(
            "alice",
            json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi"}),
        )
        .await;
    let (mut listed, mut cursor) = (vec![], Value::Null);
    loop {
        let page = bench.ok("bob", json!({"action": "inbox", "limit": 2, "cursor": cursor})).await;
        let rows = page["conversations"].as_array().unwrap();
        listed.extend(rows.iter().map(|row| row["peer_id"].as_str().or(row["title"].as_str()).unwrap().to_owned()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    listed.sort();
    assert_eq!(listed, ["Trip", "carol", "dave", "erin", "frank"]);
}

/// Returns the user's chat list, read page by page.
async fn listed(bench: &Workbench, user: &str, limit: u64) -> Vec<String> {
    let (mut listed, mut cursor) = (vec![], Value::Null);
    loop {
        let page = bench.ok(user, json!({"action": "inbox", "limit": limit, "cursor": cursor})).await;
        let rows = page["conversations"].as_array().unwrap();
        listed.extend(rows.iter().map(|row| row["peer_id"].as_str().unwrap().to_owned()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return listed;
        }
    }
}

#[tokio::test]
async fn a_list_is_the_same_however_its_rows_are_read() {
    let bench = Workbench::default();
    // The table also has rows that are in no list: of a channel, and of a user whom bob blocks.
    bench
        .ok(
            "bob",
            json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": []}),
        )
        .await;
    bench.ok("bob", json!({"action": "settings", "user_id": "mallory", "set": {"blocked": true}})).await;
    let mut senders: Vec<String> = vec![];
    for number in 0..70 {
        bench.clock.advance(Duration::from_secs(1 + number % 3 * 40));
        let sender = format!("user-{number}");
        bench.ok(&sender, message_to_bob("m1")).await;
        senders.insert(0, sender);
        if [20, 48, 49, 53, 70].contains(&senders.len()) {
            for limit in [1, 20, 50] {
                assert_eq!(listed(&bench, "bob", limit).await, senders, "{limit} of {}", senders.len());
            }
        }
    }
}

#[tokio::test]
async fn a_row_that_moves_while_a_later_page_is_read_is_on_that_page() {
    let bench = Workbench::default();
    for number in 0..60 {
        bench.clock.advance(Duration::from_mins(2));
        bench.ok(&format!("user-{number}"), message_to_bob("m1")).await;
    }
    let first = bench.ok("bob", json!({"action": "inbox"})).await;
    let rows = bench.aws.hold_next("BatchGetItem");
    let second = bench.ok("bob", json!({"action": "inbox", "cursor": first["next_cursor"]}));
    let sending = async {
        rows.reached().await;
        bench.ok("user-30", message_to_bob("m2")).await;
        rows.release();
    };
    let (second, ()) = tokio::join!(second, sending);
    let is_there = |row: &Value| row["peer_id"] == "user-30" && row["last_seq"] == 2;
    assert!(second["conversations"].as_array().unwrap().iter().any(is_there), "{second}");
}
