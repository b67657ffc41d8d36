//! How much a user may send: by the count in the sender's own row, and without a price for who keeps to it.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use domain::Rate;
use serde_json::{Value, json};
use testkit::{Limits, Workbench, frame_of, message, message_to_bob};

fn bench(sends: u32, first_messages: u32) -> Workbench {
    let rate = |burst, seconds| match burst {
        0 => Rate::UNLIMITED,
        burst => Rate { burst, pause: Duration::from_secs(seconds) },
    };
    Workbench::limited(Limits { sends: rate(sends, 1), first_messages: rate(first_messages, 180), ..Limits::default() })
}

fn to(user: &str) -> Value {
    json!({"action": "send", "to": user, "client_msg_id": format!("to-{user}"), "kind": "text", "body": "hi"})
}

async fn wait_of(bench: &Workbench, frame: Value) -> u64 {
    let answer = bench.run("alice", frame).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["retryable"]), (&json!("rate_limited"), &json!(true)));
    answer["error"]["retry_after_ms"].as_u64().unwrap()
}

#[tokio::test]
async fn a_burst_and_then_one_after_each_pause() {
    let bench = bench(3, 0);
    for id in ["m1", "m2", "m3"] {
        bench.ok("alice", message_to_bob(id)).await;
    }
    assert_eq!(wait_of(&bench, message_to_bob("m4")).await, 1000);
    bench.clock.advance(Duration::from_millis(400));
    assert_eq!(wait_of(&bench, message_to_bob("m4")).await, 600, "what was refused does not count");
    bench.clock.advance(Duration::from_millis(600));
    bench.ok("alice", message_to_bob("m4")).await;
    assert_eq!(wait_of(&bench, message_to_bob("m5")).await, 1000);
}

#[tokio::test]
async fn the_count_is_by_user_and_conversation() {
    let bench = bench(2, 0);
    for id in ["m1", "m2"] {
        bench.ok("alice", message_to_bob(id)).await;
    }
    bench.ok("alice", to("carol")).await;
    bench.ok("bob", to("alice")).await;
    wait_of(&bench, message_to_bob("m3")).await;
}

#[tokio::test]
async fn a_repeated_send_is_answered_whatever_the_count_says() {
    let bench = bench(2, 0);
    for id in ["m1", "m2"] {
        bench.ok("alice", message_to_bob(id)).await;
    }
    wait_of(&bench, message_to_bob("m3")).await;
    for id in ["m1", "m2"] {
        assert_eq!(bench.ok("alice", message_to_bob(id)).await["duplicate"], true);
    }
    let mut other = message_to_bob("m1");
    other["body"] = json!("other");
    assert_eq!(bench.refused("alice", other).await, "id_reused");
}

#[tokio::test]
async fn who_is_refused_costs_two_reads_and_no_write() {
    let bench = bench(1, 0);
    bench.ok("alice", message_to_bob("m1")).await;
    bench.operations();
    wait_of(&bench, message_to_bob("m2")).await;
    // Where the conversation ends, and whether it was sent before.
    assert_eq!(bench.operations(), ["GetItem", "GetItem"]);
}

#[tokio::test]
async fn two_at_once_are_not_both_the_last_one_allowed() {
    let bench = bench(2, 0);
    bench.ok("alice", message_to_bob("m1")).await;
    let commit = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.run("alice", message_to_bob("m2"));
    let quick = async {
        commit.reached().await;
        bench.ok("alice", message_to_bob("m3")).await;
        commit.release();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    assert_eq!(slow["error"]["code"], "rate_limited");
}

#[tokio::test]
async fn first_messages_to_strangers_are_counted_and_answers_are_not() {
    let bench = bench(0, 2);
    bench.ok("alice", to("bob")).await;
    bench.ok("alice", to("carol")).await;
    assert_eq!(wait_of(&bench, to("dave")).await, 180_000);
    // A user who has written to alice, a user who wrote first, and alice herself are no strangers.
    bench.ok("alice", message_to_bob("m2")).await;
    bench.ok("erin", to("alice")).await;
    bench.ok("alice", to("erin")).await;
    bench.ok("alice", to("alice")).await;
    bench.clock.advance(Duration::from_mins(3));
    bench.ok("alice", to("dave")).await;
    wait_of(&bench, to("frank")).await;
}

#[tokio::test]
async fn two_first_messages_at_once_are_two() {
    let bench = bench(0, 2);
    bench.ok("alice", to("bob")).await;
    let commit = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.run("alice", to("carol"));
    let quick = async {
        commit.reached().await;
        bench.ok("alice", to("dave")).await;
        commit.release();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    assert_eq!(slow["error"]["code"], "rate_limited");
    assert!(bench.aws.rows("InboxTable").iter().all(|row| row["user_id"] != "carol"));
}

#[tokio::test]
async fn first_messages_of_the_same_moment_add_up_without_a_retry() {
    let bench = bench(0, 3);
    bench.ok("alice", to("bob")).await;
    bench.operations();
    let commit = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.ok("alice", to("carol"));
    let quick = async {
        commit.reached().await;
        bench.ok("alice", to("dave")).await;
        commit.release();
    };
    tokio::join!(slow, quick);
    let commits = bench.operations().iter().filter(|operation| *operation == "TransactWriteItems").count();
    assert_eq!(commits, 2);
    assert_eq!(wait_of(&bench, to("erin")).await, 180_000, "each of the three counts");
}

#[tokio::test]
async fn a_process_that_has_refused_a_first_message_refuses_the_next_for_one_read() {
    let bench = bench(0, 1);
    let functions = bench.started();
    functions.ok("alice", to("bob")).await;
    functions.ok("erin", to("alice")).await;
    assert_eq!(functions.run("alice", to("carol")).await["error"]["retry_after_ms"], 180_000);
    bench.clock.advance(Duration::from_mins(1));
    bench.operations();
    let refused = functions.run("alice", to("dave")).await["error"].clone();
    assert_eq!((&refused["code"], &refused["retry_after_ms"]), (&json!("rate_limited"), &json!(120_000)));
    assert_eq!(bench.operations(), ["GetItem"], "whether the two have a conversation");
    // Others, known users and repetitions are served.
    functions.ok("bob", to("carol")).await;
    functions.ok("alice", to("erin")).await;
    assert_eq!(functions.ok("alice", to("bob")).await["duplicate"], true);
    bench.clock.advance(Duration::from_mins(2));
    functions.ok("alice", to("dave")).await;
}

fn create(id: &str, members: &[&str]) -> Value {
    json!({"action": "create", "client_msg_id": id, "title": "Trip", "members": members})
}

fn add(group: &Value, id: &str, members: &[&str]) -> Value {
    json!({"action": "add", "conversation_id": group, "client_msg_id": id, "members": members})
}

#[tokio::test]
async fn strangers_who_are_brought_into_a_group_count_as_first_messages_to_them() {
    let bench = bench(0, 3);
    bench.ok("alice", to("bob")).await;
    let group = bench.ok("alice", create("c1", &["alice", "bob", "carol"])).await["conversation_id"].take();
    bench.ok("alice", add(&group, "a1", &["dave", "carol"])).await;
    assert_eq!(wait_of(&bench, add(&group, "a2", &["erin"])).await, 180_000);
    assert_eq!(wait_of(&bench, create("c2", &["bob", "erin"])).await, 180_000);
    assert_eq!(wait_of(&bench, to("erin")).await, 180_000);
    // Known users and repetitions cost nothing. A new group costs at least one, so that no user is added to any number
    // of groups.
    bench.ok("frank", to("alice")).await;
    bench.ok("alice", add(&group, "a3", &["frank"])).await;
    assert_eq!(wait_of(&bench, create("c3", &["bob", "frank"])).await, 180_000);
    assert_eq!(bench.ok("alice", add(&group, "a1", &["dave", "carol"])).await["duplicate"], true);
    assert_eq!(bench.ok("alice", create("c1", &["alice", "bob", "carol"])).await["duplicate"], true);
    bench.clock.advance(Duration::from_mins(3));
    bench.ok("alice", add(&group, "a2", &["erin"])).await;
    wait_of(&bench, create("c4", &["grace"])).await;
}

#[tokio::test]
async fn a_group_without_others_counts_too_since_they_can_be_added() {
    let bench = bench(0, 1);
    bench.ok("bob", to("alice")).await;
    let group = bench.ok("alice", create("c1", &[])).await["conversation_id"].take();
    bench.ok("alice", add(&group, "a1", &["bob"])).await;
    let mut channel = create("c2", &["alice"]);
    channel["kind"] = json!("channel");
    assert_eq!(wait_of(&bench, channel).await, 180_000);
    assert_eq!(bench.ok("alice", create("c1", &[])).await["duplicate"], true);
}

#[tokio::test]
async fn strangers_who_are_brought_into_a_channel_count_as_in_a_group() {
    let bench = bench(0, 3);
    let mut news = create("c1", &["bob"]);
    news["kind"] = json!("channel");
    let channel = bench.ok("alice", news).await["conversation_id"].take();
    bench.ok("alice", add(&channel, "a1", &["carol", "dave"])).await;
    assert_eq!(wait_of(&bench, add(&channel, "a2", &["erin"])).await, 180_000);
    assert!(bench.aws.rows("InboxTable").iter().all(|row| row["user_id"] != "erin"));
    bench.clock.advance(Duration::from_mins(3));
    bench.ok("alice", add(&channel, "a2", &["erin"])).await;
}

#[tokio::test]
async fn more_strangers_than_the_rate_ever_has_room_for_come_in_at_once_and_are_paid_for_later() {
    let bench = bench(0, 2);
    let group = bench.ok("alice", create("c1", &["bob", "carol", "dave", "erin", "frank"])).await;
    assert_eq!(wait_of(&bench, to("grace")).await, 4 * 180_000);
    bench.clock.advance(Duration::from_mins(9));
    wait_of(&bench, add(&group["conversation_id"], "a1", &["grace"])).await;
    bench.clock.advance(Duration::from_mins(3));
    bench.ok("alice", add(&group["conversation_id"], "a1", &["grace"])).await;
}

#[tokio::test]
async fn strangers_who_are_added_beside_a_first_message_are_counted_too() {
    let bench = bench(0, 2);
    bench.ok("alice", to("bob")).await;
    let commit = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.run("alice", create("c1", &["carol"]));
    let quick = async {
        commit.reached().await;
        bench.ok("alice", to("dave")).await;
        commit.release();
    };
    let (slow, ()) = tokio::join!(slow, quick);
    assert_eq!(slow["error"]["code"], "rate_limited");
    assert!(bench.aws.rows("ConversationsTable").is_empty());
}

#[tokio::test]
async fn requests_of_a_user_are_counted_in_each_process_and_a_flood_is_closed() {
    let requests = Rate { burst: 30, pause: Duration::from_millis(100) };
    let bench = Workbench::limited(Limits { requests, ..Limits::default() });
    let functions = bench.started();
    let ask = async |frame: &str| frame_of(&functions.handle("send", message("mallory", frame)).await)["error"].clone();
    for _ in 0..30 {
        assert_eq!(ask("garbage").await["code"], "bad_request");
    }
    bench.operations();
    let refused = ask(r#"{"action":"send","to":"bob","client_msg_id":"m","kind":"text","body":"x"}"#).await;
    assert_eq!((&refused["code"], &refused["retry_after_ms"]), (&json!("rate_limited"), &json!(1000)));
    assert!(bench.operations().is_empty(), "it costs nothing");
    for _ in 0..19 {
        bench.clock.advance(Duration::from_millis(100));
        for _ in 0..5 {
            ask("garbage").await;
        }
    }
    assert!(bench.aws.closed().is_empty());
    bench.clock.advance(Duration::from_millis(100));
    for _ in 0..2 {
        ask("garbage").await;
    }
    assert_eq!(bench.aws.closed(), ["mallory="]);
    // Others are served.
    let answer = frame_of(&functions.handle("send", message("alice", &message_to_bob("m1").to_string())).await);
    assert_eq!(answer["type"], "reply");
}
