//! `ingest`: stored messages and their order, retries, and failures.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Workbench, up_to};

fn to(user: &str, id: &str) -> Value {
    json!({"to": user, "from": "@orders", "client_msg_id": id, "kind": "text", "body": format!("{id} is on its way")})
}

/// Returns the user's history, oldest first.
async fn told(bench: &Workbench, user: &str) -> Vec<String> {
    let inbox = bench.ok(user, json!({"action": "inbox"})).await;
    let Some(conversation) = inbox["conversations"].get(0).map(|row| row["conversation_id"].clone()) else {
        return vec![];
    };
    let history = bench.ok(user, json!({"action": "history", "conversation_id": conversation})).await;
    let text = |message: &Value| message["client_msg_id"].as_str().or(message["body"].as_str()).unwrap().to_owned();
    history["messages"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn a_message_is_stored_pending_and_posted_and_writes_no_row_of_the_service() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    bench.operations();
    assert_eq!(bench.ingest(&[("bob", to("bob", "m1"))]).await, Vec::<usize>::new());
    let first = ["GetItem", "GetItem", "TransactWriteItems", "Query"];
    assert_eq!(bench.operations(), first, "the row, whether bob is barred, the transaction, and where bob is");
    let row = bench.row("bob");
    assert_eq!(
        (&row["peer_id"], &row["unread"], &row["last_seq"], &row["last_sender_id"]),
        (&json!("@orders"), &json!(1), &json!(1), &json!("@orders"))
    );
    assert!(row["pending_since"].is_number());
    assert_eq!(bench.aws.rows("InboxTable").len(), 1, "the service has no row");
    assert_eq!(bench.posted("bob"), ["messages.new"]);
    let listed = bench.ok("bob", json!({"action": "inbox"})).await["conversations"][0].take();
    assert_eq!((&listed["kind"], &listed["peer_id"]), (&json!("direct"), &json!("@orders")));
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    let message = &drained["messages"][0];
    assert_eq!((&message["sender_id"], &message["body"]), (&json!("@orders"), &json!("m1 is on its way")));
    assert_eq!(message.get("client_msg_id"), None, "which is the service's own affair");
    assert_eq!(message.get("recipient"), None);
}

#[tokio::test]
async fn who_names_no_service_is_the_system() {
    let bench = Workbench::default();
    let mut message = to("bob", "m1");
    message.as_object_mut().unwrap().remove("from");
    bench.ingest(&[("bob", message)]).await;
    assert_eq!(bench.row("bob")["peer_id"], "@system");
}

#[tokio::test]
async fn marks_of_a_service_are_told_to_nobody_and_its_history_bears_that_it_has_no_row() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    bench.ingest(&[("bob", to("bob", "m1")), ("bob", to("bob", "m2"))]).await;
    let conversation = bench.row("bob")["conversation_id"].clone();
    bench.operations();
    bench.ok("bob", up_to("ack", &conversation, 2)).await;
    assert_eq!(bench.operations(), ["UpdateItem"], "no look at where the service is connected");
    bench.ok("bob", up_to("read", &conversation, 2)).await;
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": conversation})).await;
    assert_eq!(history["members"], json!([{"user_id": "bob", "delivered_seq": 2, "read_seq": 2}]));
    assert_eq!(bench.row("bob")["unread"], 0);
    let presence = bench.ok("bob", json!({"action": "presence", "user_ids": ["@orders"]})).await;
    assert_eq!(presence, json!({"users": []}));
}

#[tokio::test]
async fn the_same_again_is_told_again_and_stored_once() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    for _ in 0..2 {
        assert!(bench.ingest(&[("bob", to("bob", "m1"))]).await.is_empty());
    }
    assert_eq!(bench.aws.rows("MessagesTable").len(), 1);
    assert_eq!(bench.posted("bob"), ["messages.new", "messages.new"]);
    assert!(bench.aws.dead_letters().is_empty());
    // Seven days, as of a user's.
    let row = bench.aws.rows("IdempotencyTable")[0].clone();
    let kept_s = row["expires_at"].as_i64().unwrap() - bench.clock.now().seconds();
    assert_eq!(kept_s, 7 * 24 * 3600);
}

#[tokio::test]
async fn what_can_never_be_accepted_is_a_dead_letter_with_its_reason_and_holds_up_nothing() {
    let bench = Workbench::default();
    bench.ingest(&[("bob", to("bob", "m1"))]).await;
    let mut other = to("bob", "m1");
    other["body"] = json!("something else");
    let mut long = to("bob", "m3");
    long["body"] = json!("x".repeat(17_000));
    let mut huge = to("bob", "m4");
    huge["body"] = json!("y".repeat(900_000));
    let poison = json!("{\"to\":");
    let batch = [
        ("bob", poison.clone()),
        ("bob", other.clone()),
        ("bob", long),
        ("bob", huge),
        ("bob", to("@shop", "m5")),
        ("bob", to("bob", "m2")),
    ];
    assert_eq!(bench.ingest(&batch).await, Vec::<usize>::new());
    let letters = bench.aws.dead_letters();
    let reasons: Vec<_> = letters.iter().map(|[reason, detail, _]| format!("{reason}: {detail}")).collect();
    insta::assert_debug_snapshot!(reasons, @r#"
    [
        "bad_request: message: must be valid JSON",
        "id_reused: client_msg_id: already used for another message in this conversation",
        "too_large: body: must be at most 16 KiB of UTF-8, and at most 24 KiB once written as JSON",
        "too_large: message: must be at most 32 KiB",
        "bad_request: to: must be a user: services take no messages",
    ]
    "#);
    assert_eq!(letters[0][2], "{\"to\":", "as it came, so that it can be mended and sent again");
    assert_eq!(letters[3][2].len(), 32 * 1024);
    assert_eq!(bench.row("bob")["last_seq"], 2, "what came after is stored");
    // The run could not report its success: the batch comes again, and each message is stored once.
    assert!(bench.ingest(&batch).await.is_empty());
    assert_eq!(bench.aws.dead_letters().len(), 5);
}

#[tokio::test]
async fn from_the_first_that_fails_on_a_group_comes_again_and_the_others_go_on() {
    let bench = Workbench::default();
    let batch = [
        ("bob", to("bob", "b1")),
        ("bob", to("bob", "b2")),
        ("carol", to("carol", "c1")),
        ("bob", to("bob", "b3")),
        ("carol", to("carol", "c2")),
    ];
    // Bob's first transaction and carol's succeed, and bob's second fails.
    bench.aws.fail_next("TransactWriteItems", Fault::Throttled);
    let again = bench.ingest(&batch).await;
    let (bob, carol) = (told(&bench, "bob").await, told(&bench, "carol").await);
    // A group had the failure.
    if again == [0, 1, 3] {
        assert_eq!((bob.len(), carol.len()), (0, 2));
    } else {
        assert_eq!((again, bob.len(), carol.len()), (vec![2, 4], 3, 0));
    }
    assert!(bench.ingest(&batch).await.is_empty());
    let on_its_way = |ids: &[&str]| ids.iter().map(|id| format!("{id} is on its way")).collect::<Vec<_>>();
    assert_eq!(told(&bench, "bob").await, on_its_way(&["b1", "b2", "b3"]));
    assert_eq!(told(&bench, "carol").await, on_its_way(&["c1", "c2"]));
    assert!(bench.aws.dead_letters().is_empty());
}

#[tokio::test]
async fn nothing_behind_a_failure_in_the_middle_is_stored_before_it() {
    let bench = Workbench::default();
    let batch = [("bob", to("bob", "b1")), ("bob", to("bob", "b2")), ("bob", to("bob", "b3"))];
    bench.aws.pass_next("TransactWriteItems");
    bench.aws.fail_next("TransactWriteItems", Fault::Status(500));
    assert_eq!(bench.ingest(&batch).await, [1, 2]);
    assert_eq!(bench.row("bob")["last_seq"], 1);
    // A message without a reply is stored: then it is a duplicate.
    bench.aws.fail_next("TransactWriteItems", Fault::ReplyLost);
    assert_eq!(bench.ingest(&batch[1..]).await, [0, 1]);
    assert_eq!(bench.row("bob")["last_seq"], 2);
    assert!(bench.ingest(&batch[1..]).await.is_empty());
    assert_eq!(bench.row("bob")["last_seq"], 3);
}

#[tokio::test]
async fn a_dead_letter_that_can_not_be_put_there_comes_again() {
    let bench = Workbench::default();
    let batch = [("bob", json!("poison")), ("bob", to("bob", "m1"))];
    bench.aws.fail_next("SendMessage", Fault::Status(500));
    assert_eq!(bench.ingest(&batch).await, [0], "it is of no conversation, so nothing waits for it");
    assert!(bench.aws.dead_letters().is_empty());
    assert!(bench.ingest(&batch).await.is_empty());
    assert_eq!((bench.aws.dead_letters().len(), &bench.row("bob")["last_seq"]), (1, &json!(1)));
}

/// Writes of this text fail.
fn refuse(bench: &Workbench, text: &'static str) {
    bench.aws.fail_if(move |call| {
        (call.operation() == "TransactWriteItems" && call.body().to_string().contains(text))
            .then_some(Fault::Status(500))
    });
}

#[tokio::test]
async fn what_fails_for_itself_is_given_up_alone_and_what_is_behind_it_is_stored() {
    let bench = Workbench::default();
    refuse(&bench, "b1 is on its way");
    let mut batch = vec![("bob", to("bob", "b1")), ("bob", to("bob", "b2")), ("bob", to("bob", "b3"))];
    for receives in 1..20 {
        assert_eq!(bench.received(receives).ingest(&batch).await, [0, 1, 2], "the {receives}. time");
    }
    assert!(bench.aws.dead_letters().is_empty());
    assert!(bench.received(20).ingest(&batch).await.is_empty());
    let [[reason, detail, body]] = &bench.aws.dead_letters()[..] else { panic!("{:?}", bench.aws.dead_letters()) };
    assert_eq!(reason, "unavailable");
    assert_eq!(detail, "not stored in 20 tries: a service failed; send the same request again");
    assert!(body.contains("b1 is on its way"));
    assert_eq!(told(&bench, "bob").await, ["b2 is on its way", "b3 is on its way"]);

    // A message behind a failed one has its own tries.
    bench.aws.recover();
    bench.aws.fail_if(|call| (call.operation() == "TransactWriteItems").then_some(Fault::Status(500)));
    batch = vec![("bob", to("bob", "b4")), ("bob", to("bob", "b5"))];
    assert_eq!(bench.received(20).ingest(&batch).await, [1], "the first is given up, and the second was tried once");
    assert_eq!(bench.received(21).ingest(&batch[1..]).await, [0]);
    bench.aws.recover();
    assert!(bench.received(22).ingest(&batch[1..]).await.is_empty());
    assert_eq!(bench.row("bob")["last_seq"], 3);
}

#[tokio::test]
async fn what_fails_for_one_conversation_goes_on_for_others_of_its_group() {
    let bench = Workbench::default();
    refuse(&bench, "b1 is on its way");
    let batch = ["bob", "carol", "bob", "dave"].map(|user| ("all", to(user, if user == "bob" { "b1" } else { "m1" })));
    assert_eq!(bench.ingest(&batch).await, [0, 2]);
    assert_eq!((told(&bench, "carol").await.len(), told(&bench, "dave").await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_hangs_lets_others_of_its_group_begin() {
    let bench = Workbench::default();
    bench.aws.fail_next("GetItem", Fault::Delayed(Duration::from_hours(1)));
    let batch = ["bob", "carol"].map(|user| ("all", to(user, "m1")));
    let began = tokio::time::Instant::now();
    assert_eq!(bench.ingest(&batch).await, [0]);
    assert_eq!((began.elapsed().as_secs(), told(&bench, "carol").await.len()), (4, 1));
}

#[tokio::test]
async fn who_writes_all_the_time_has_it_come_again() {
    let bench = Workbench::default();
    bench.aws.fail_always("TransactWriteItems", Fault::Conflict);
    assert_eq!(bench.ingest(&[("bob", to("bob", "m1"))]).await, [0]);
    assert!(bench.aws.dead_letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_long_ends_before_lambda_ends_it() {
    let bench = Workbench::default();
    for _ in 0..2 {
        bench.aws.fail_next("TransactWriteItems", Fault::Delayed(Duration::from_secs(3)));
    }
    let ids = ["b1", "b2", "b3"].map(|id| ("bob", to("bob", id)));
    assert_eq!(bench.ingest(&ids).await, [2], "the third is not begun");
    bench.aws.fail_next("GetItem", Fault::Delayed(Duration::from_mins(1)));
    let began = tokio::time::Instant::now();
    assert_eq!(bench.ingest(&ids[2..]).await, [0]);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(bench.row("bob")["last_seq"], 2);
}

#[tokio::test]
async fn a_frame_that_does_not_arrive_leaves_it_pending() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    bench.aws.fail_always("bob=", Fault::Status(500));
    assert!(bench.ingest(&[("bob", to("bob", "m1"))]).await.is_empty());
    assert_eq!(bench.row("bob")["pending_from"], 1);
}

#[tokio::test]
async fn who_is_suspended_has_it_waiting() {
    let bench = Workbench::default();
    let suspend = json!({"op": "suspend", "user_id": "bob", "until": "2099-01-01T00:00:00Z"});
    bench.started().admin(suspend).await;
    assert!(bench.ingest(&[("bob", to("bob", "m1"))]).await.is_empty());
    assert_eq!(bench.row("bob")["unread"], 1);
}
