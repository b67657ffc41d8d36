//! `send`: the order of its calls, and what each failing one leads to.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use deliver::FAN_OUT_TIMEOUT;
use serde_json::json;
use testkit::{Fault, PATIENCE, Workbench, frame_of, message, message_to_bob};
use tokio::time::Instant;

#[tokio::test]
async fn the_message_is_stored_before_anyone_is_looked_for() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    bench.connected("bob").await;
    bench.operations();
    bench.ok("alice", message_to_bob("m1")).await;
    // Where the conversation ends; of a first message, whether its recipient is suspended; the commit; then where the two are
    // connected.
    assert_eq!(bench.operations(), ["GetItem", "GetItem", "TransactWriteItems", "Query", "Query"]);
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.operations(), ["GetItem", "TransactWriteItems", "Query", "Query"]);
    assert_eq!(bench.posted("bob"), ["messages.new"; 2]);
    assert!(bench.posted("alice").is_empty(), "the origin has its answer");
}

#[tokio::test]
async fn nothing_leaves_while_the_commit_is_under_way() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    bench.connected("bob").await;
    bench.operations();
    let commit = bench.aws.hold_next("TransactWriteItems");
    let sending = bench.run("alice", message_to_bob("m2"));
    let watching = async {
        commit.reached().await;
        assert_eq!(bench.aws.operations(), ["GetItem", "TransactWriteItems"]);
        assert!(bench.posted("bob").is_empty());
        commit.release();
    };
    let (answer, ()) = tokio::join!(sending, watching);
    assert_eq!(answer["type"], "reply");
    assert_eq!(bench.posted("bob"), ["messages.new"]);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_by_the_retry() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    bench.aws.fail_next("TransactWriteItems", Fault::ReplyLost);
    assert_eq!(bench.refused("alice", message_to_bob("m1")).await, "unavailable");
    assert!(bench.posted("bob").is_empty());
    assert_eq!(bench.row("bob")["pending_from"], 1, "committed all the same, and pending");

    let again = bench.ok("alice", message_to_bob("m1")).await;
    assert_eq!((&again["seq"], &again["duplicate"]), (&json!(1), &json!(true)));
    assert_eq!(bench.posted("bob"), ["messages.new"], "delivered by the retry");
    assert_eq!(bench.row("bob")["unread"], 1);
}

#[tokio::test]
async fn a_commit_that_never_arrived_leaves_nothing() {
    let bench = Workbench::default();
    bench.aws.fail_next("TransactWriteItems", Fault::Lost);
    assert_eq!(bench.refused("alice", message_to_bob("m1")).await, "unavailable");
    for table in ["MessagesTable", "IdempotencyTable", "InboxTable"] {
        assert!(bench.aws.rows(table).is_empty(), "{table}");
    }
    assert_eq!(bench.ok("alice", message_to_bob("m1")).await["duplicate"], false);
}

#[tokio::test]
async fn a_conflict_is_tried_again_five_times_and_then_told() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    bench.aws.fail_next("TransactWriteItems", Fault::Conflict);
    assert_eq!(bench.ok("alice", message_to_bob("m2")).await["seq"], 2);
    // Read again each time: what was known is stale.
    assert_eq!(bench.operations()[..4], ["GetItem", "TransactWriteItems", "GetItem", "TransactWriteItems"]);

    bench.aws.fail_always("TransactWriteItems", Fault::Conflict);
    let answer = bench.run("alice", message_to_bob("m3")).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["retryable"]), (&json!("conflict"), &json!(true)));
    assert_eq!(bench.operations(), ["GetItem", "TransactWriteItems"].repeat(5), "and nobody is looked for");
    assert_eq!(bench.aws.rows("MessagesTable").len(), 2);
}

#[tokio::test]
async fn a_cancellation_for_any_other_reason_is_no_conflict() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    bench.aws.fail_next("TransactWriteItems", Fault::Cancelled(&["ThrottlingError"]));
    assert_eq!(bench.refused("alice", message_to_bob("m2")).await, "unavailable");
    assert_eq!(bench.operations(), ["GetItem", "TransactWriteItems"]);
}

#[tokio::test]
async fn an_inbox_that_holds_no_more_is_final() {
    let bench = Workbench::default();
    bench.aws.fail_next("TransactWriteItems", Fault::Cancelled(&["ItemCollectionSizeLimitExceeded"]));
    let answer = bench.run("alice", message_to_bob("m1")).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["retryable"]), (&json!("limit_reached"), &json!(false)));
}

#[tokio::test]
async fn the_idempotency_row_is_heard_before_a_conflict() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    // Stale in between: the read says that the conversation ends at 1, but it ends at 2 by the time of the write.
    let write = bench.aws.hold_next("TransactWriteItems");
    let resend = bench.run("alice", message_to_bob("m1"));
    let other = async {
        write.reached().await;
        bench.ok("alice", message_to_bob("m2")).await;
        write.release();
    };
    let (answer, ()) = tokio::join!(resend, other);
    assert_eq!((&answer["result"]["seq"], &answer["result"]["duplicate"]), (&json!(1), &json!(true)));
    let writes = bench.operations().into_iter().filter(|operation| operation == "TransactWriteItems").count();
    assert_eq!(writes, 3, "m1, m2, and the resend once: its answer was there");
}

#[tokio::test]
async fn a_stale_read_is_caught_and_read_again() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    bench.operations();
    let write = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.run("alice", message_to_bob("m2"));
    let quick = async {
        write.reached().await;
        let answer = json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "quick"});
        assert_eq!(bench.ok("bob", answer).await["seq"], 2);
        write.release();
    };
    let (answer, ()) = tokio::join!(slow, quick);
    assert_eq!(answer["result"]["seq"], 3);
    let seqs: Vec<_> = bench.aws.rows("MessagesTable").iter().map(|row| row["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs.len(), 3);
    assert_eq!((bench.row("alice")["last_seq"].clone(), bench.row("bob")["last_seq"].clone()), (json!(3), json!(3)));
    assert_eq!((bench.row("alice")["unread"].clone(), bench.row("bob")["unread"].clone()), (json!(1), json!(2)));
}

#[tokio::test]
async fn two_first_messages_at_once_meet_in_one_conversation() {
    let bench = Workbench::default();
    let write = bench.aws.hold_next("TransactWriteItems");
    let one = bench.run("alice", message_to_bob("m1"));
    let two = async {
        write.reached().await;
        let hello = json!({"action": "send", "to": "alice", "client_msg_id": "m1", "kind": "text", "body": "hello"});
        let sent = bench.ok("bob", hello).await;
        write.release();
        sent
    };
    let (one, two) = tokio::join!(one, two);
    assert_eq!(one["result"]["conversation_id"], two["conversation_id"]);
    assert_eq!((&one["result"]["seq"], &two["seq"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn a_message_that_arrives_while_the_sender_catches_up_does_not_hide_what_is_pending() {
    let bench = Workbench::default();
    let conversation = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    // Bob writes, having read his row before his ack of message 1, which comes in between.
    let write = bench.aws.hold_next("TransactWriteItems");
    let answer = json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "hello"});
    let sending = bench.run("bob", answer);
    let acking = async {
        write.reached().await;
        let ack = json!({"action": "ack", "up_to": [{"conversation_id": conversation, "seq": 1}]});
        bench.ok("bob", ack).await;
        write.release();
    };
    let (answer, ()) = tokio::join!(sending, acking);
    assert_eq!(answer["result"]["seq"], 2);
    let row = bench.row("bob");
    assert!(row["delivered_seq"].as_u64().unwrap() >= 1, "watermarks only rise: {row}");
    assert_eq!(row.get("pending_from"), None);
}

#[tokio::test]
async fn connections_that_are_gone_lose_their_row_unless_they_are_young() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    bench.connected("carol").await;
    for user in ["bob=", "carol="] {
        bench.aws.fail_always(user, Fault::Status(410));
    }
    bench.ok("alice", message_to_bob("m1")).await;
    let left = bench.aws.rows("ConnectionsTable");
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["user_id"], "carol", "only whose connection is gone, and nobody else's");

    // Connected just now: it could still be being set up.
    bench.handle("connect", bench.event("connect", "bob")).await.unwrap();
    bench.clock.advance(Duration::from_millis(9_999));
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.aws.rows("ConnectionsTable").len(), 2);
    bench.clock.advance(Duration::from_millis(1));
    bench.ok("alice", message_to_bob("m3")).await;
    assert_eq!(bench.aws.rows("ConnectionsTable").len(), 1);
}

#[tokio::test]
async fn a_post_that_fails_fails_nothing_else() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    for status in [429, 500, 403, 413] {
        bench.aws.fail_always("bob=", Fault::Status(status));
        bench.ok("alice", message_to_bob(&format!("m{status}"))).await;
    }
    assert_eq!(bench.aws.rows("ConnectionsTable").len(), 1, "only a 410 says that it is gone");
    bench.aws.fail_always("bob=", Fault::Delayed(PATIENCE));
    bench.ok("alice", message_to_bob("slow")).await;
    assert_eq!(bench.row("bob")["unread"], 5);
}

#[tokio::test]
async fn connections_that_cannot_be_read_fail_nothing_else() {
    let bench = Workbench::default();
    bench.aws.fail_always("Query", Fault::Status(500));
    assert_eq!(bench.ok("alice", message_to_bob("m1")).await["seq"], 1);
    assert_eq!(bench.row("bob")["pending_from"], 1);
}

#[tokio::test]
async fn connections_that_take_for_ever_to_read_hold_nobody_up_for_long() {
    let bench = Workbench::default();
    let never = bench.aws.hold_next("Query");
    let sending = async {
        let answer = bench.ok("alice", message_to_bob("m1")).await;
        (answer, Instant::now())
    };
    let waiting = async {
        never.reached().await;
        // From here on time flies, as long as nothing else happens.
        tokio::time::pause();
        Instant::now()
    };
    let ((answer, answered), began) = tokio::join!(sending, waiting);
    assert_eq!(answer["seq"], 1);
    // Timers fire on whole milliseconds, so a little late.
    let late = Duration::from_millis(10);
    assert!(answered - began < FAN_OUT_TIMEOUT + late, "{:?}", answered - began);
}

#[tokio::test]
async fn a_clock_that_goes_back_does_not_take_the_messages_along() {
    let bench = Workbench::default();
    let first = bench.ok("alice", message_to_bob("m1")).await;
    let same = bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(first["sent_at"], "2027-01-15T08:00:00.000Z");
    assert_eq!(same["sent_at"], "2027-01-15T08:00:00.001Z", "two in one millisecond are told apart");
    assert!(first["message_id"].as_str() < same["message_id"].as_str());
}

#[tokio::test]
async fn a_conversation_waits_since_its_first_undelivered_message() {
    let bench = Workbench::default();
    bench.ok("alice", message_to_bob("m1")).await;
    let since = bench.row("bob")["pending_since"].clone();
    bench.clock.advance(Duration::from_secs(1));
    bench.ok("alice", message_to_bob("m2")).await;
    // Else a busy conversation would stand behind all others at each drain.
    assert_eq!(bench.row("bob")["pending_since"], since);
}

#[tokio::test]
async fn messages_of_one_moment_have_ids_of_their_own() {
    let bench = Workbench::default();
    let one = bench.ok("alice", message_to_bob("m1")).await;
    let other = bench.ok("carol", message_to_bob("m1")).await;
    assert_eq!(one["sent_at"], other["sent_at"]);
    assert_ne!(one["message_id"], other["message_id"]);
}

#[tokio::test]
async fn an_event_without_the_authorizers_word_is_an_error_of_the_function() {
    let bench = Workbench::default();
    let mut event = message("alice", &message_to_bob("m1").to_string());
    event.payload.request_context.authorizer = lambda::ApiEvent::default().request_context.authorizer;
    let error = bench.handle("send", event).await.unwrap_err();
    assert!(error.error_message.contains("principalId"), "{error:?}");
    assert!(bench.operations().is_empty());
}

#[tokio::test]
async fn another_functions_action_is_unknown_here() {
    let bench = Workbench::default();
    for action in [json!({"action": "ping"}), json!({"action": "inbox"})] {
        let answer = frame_of(&bench.handle("send", message("alice", &action.to_string())).await);
        assert_eq!(answer["error"]["code"], "unknown_action");
    }
    let send = message_to_bob("m1").to_string();
    for function in ["drain", "read", "inbox", "connect"] {
        let answer = frame_of(&bench.handle(function, message("alice", &send)).await);
        assert_eq!(answer["error"]["code"], "unknown_action");
    }
    assert!(bench.operations().is_empty(), "refused at no cost");
}
