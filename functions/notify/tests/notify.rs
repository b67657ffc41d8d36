//! `notify`: which phones ring and which are cleared, in which order that is done, and what happens when something fails on the way.
//! The batches are what the stream of the inbox table says, as the template's mapping hands it on.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Workbench, file_event, message_to_bob, up_to};

/// Bob has a phone with this token, and nothing else.
async fn bench_with_phone(token: &str, more: Value) -> Workbench {
    let bench = Workbench::ringing();
    assert_eq!(bench.register("bob", token, more).await["type"], "reply");
    bench.operations();
    bench
}

async fn send(bench: &Workbench, id: &str) -> Value {
    bench.ok("alice", message_to_bob(id)).await["conversation_id"].clone()
}

/// Returns the `notified_seq` of bob's row.
fn notified(bench: &Workbench) -> Value {
    bench.row("bob")["notified_seq"].clone()
}

const NOTHING: [&str; 0] = [];

#[tokio::test]
async fn who_has_nobody_connected_is_rung_at_once_and_then_it_is_noted() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    bench.operations();
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.operations(), ["BatchGetItem", "Query", "Query", "Publish", "UpdateItem"]);
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    assert_eq!(notified(&bench), 1);
    assert!(bench.aws.with_sns(|sns| sns.pushes()[0].payload["aps"]["badge"].is_null()));
}

#[tokio::test]
async fn in_its_quiet_hours_a_phone_does_not_ring_and_the_next_message_after_them_rings_for_all() {
    let minute = |at: i64| u64::try_from(at / 60_000 % 1440).unwrap();
    let bench = Workbench::ringing();
    let now = minute(bench.clock.now().millis());
    let quiet = json!({"from_min": now, "to_min": (now + 60) % 1440, "offset_min": 0});
    bench.register("bob", "aa01", json!({"quiet": quiet})).await;
    send(&bench, "m1").await;
    bench.notify().await;
    assert_eq!((bench.rung("aa01"), notified(&bench)), (vec![], Value::Null));
    bench.clock.advance(Duration::from_hours(1));
    send(&bench, "m2").await;
    bench.notify().await;
    assert_eq!((bench.rung("aa01"), notified(&bench)), (vec!["message 2".to_owned()], json!(2)));
    // Registered again without them, it rings at any time.
    bench.clock.advance(Duration::from_hours(23));
    bench.register("bob", "aa01", json!({})).await;
    send(&bench, "m3").await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2", "message 3"]);
}

#[tokio::test]
async fn a_batch_that_comes_again_rings_nobody() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    let batch = bench.batch();
    for _ in 0..2 {
        assert_eq!(bench.started().notify(batch.clone()).await, json!([]));
    }
    assert_eq!(bench.rung("aa01"), ["message 1"]);
}

#[tokio::test]
async fn of_a_conversation_the_newest_of_a_batch_rings() {
    let bench = bench_with_phone("aa01", json!({"preview": true, "badge": true})).await;
    for id in ["m1", "m2", "m3"] {
        send(&bench, id).await;
    }
    let to_bob = json!({"action": "send", "to": "bob", "client_msg_id": "c1", "kind": "text", "body": "lunch?"});
    bench.ok("carol", to_bob).await;
    bench.notify().await;
    let mut rung = bench.rung("aa01");
    rung.sort();
    assert_eq!(rung, ["message 1", "message 3"]);
    bench.aws.with_sns(|sns| {
        let carols = sns.pushes().iter().find(|push| push.says() == "message 1").unwrap();
        let alert = json!({"title-loc-key": "PIGEONHOLE_FROM", "title-loc-args": ["carol"], "body": "lunch?"});
        assert_eq!(carols.payload["aps"]["alert"], alert);
        assert_eq!(carols.payload["aps"]["badge"], 4, "of all conversations");
    });
    send(&bench, "m4").await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01").last().unwrap(), "message 4");
    assert!(bench.aws.rows("InboxTable").iter().any(|row| row["notified_seq"] == 4));
}

#[tokio::test]
async fn a_preview_names_who_wrote_and_the_group_with_two_reads_for_a_batch() {
    let bench = bench_with_phone("aa01", json!({"preview": true})).await;
    bench.register("carol", "aa02", json!({"preview": true})).await;
    bench.ok("alice", json!({"action": "profile", "set": {"name": "Alice A."}})).await;
    let create = json!({"action": "create", "client_msg_id": "g", "title": "Trip", "members": ["bob", "carol"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let say = |id: &str| json!({"action": "send", "conversation_id": group, "client_msg_id": id, "kind": "text", "body": "tickets?"});
    bench.ok("alice", say("m1")).await;
    bench.aws.clear();
    bench.notify().await;
    let called = bench.aws.operations();
    let names = |call: &&String| ["BatchGetItem", "GetItem"].contains(&call.as_str());
    // The rows of both, then the name and the title; each reads the message.
    assert_eq!(called.iter().filter(names).count(), 1 + 2 + 2, "{called:?}");
    let alert = json!({"title-loc-key": "PIGEONHOLE_FROM", "title-loc-args": ["Alice A."], "subtitle": "Trip",
        "body": "tickets?"});
    let alerts = || -> Vec<Value> {
        bench.aws.with_sns(|sns| sns.pushes().iter().map(|push| push.payload["aps"]["alert"].clone()).collect())
    };
    assert_eq!(alerts(), [alert.clone(), alert]);

    // Without the names, who wrote is an id: a push is not late for a name.
    bench.ok("alice", say("m2")).await;
    let is_of_names = |call: &testkit::AwsCall| call.body().to_string().contains("ConversationsTable");
    bench.aws.fail_if(move |call| is_of_names(call).then_some(Fault::Status(400)));
    bench.notify().await;
    let alert = json!({"title-loc-key": "PIGEONHOLE_FROM", "title-loc-args": ["alice"], "body": "tickets?"});
    assert_eq!(alerts()[2..], [alert.clone(), alert]);
}

#[tokio::test]
async fn who_took_it_or_read_it_is_not_rung() {
    for action in ["ack", "read"] {
        let bench = bench_with_phone("aa01", json!({})).await;
        let id = send(&bench, "m1").await;
        let batch = bench.batch();
        bench.ok("bob", up_to(action, &id, 1)).await;
        bench.operations();
        bench.started().notify(batch).await;
        assert_eq!(bench.rung("aa01"), NOTHING, "{action}");
        assert!(!bench.operations().contains(&"Publish".to_owned()));
    }
}

#[tokio::test]
async fn an_ack_of_a_part_rings_nobody_and_stops_nothing() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let id = send(&bench, "m1").await;
    send(&bench, "m2").await;
    bench.notify().await;
    bench.ok("bob", up_to("ack", &id, 1)).await;
    assert_eq!(bench.batch()["Records"].as_array().unwrap().len(), 2, "the mark and the ack, of what is pending");
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2"]);
}

#[tokio::test]
async fn a_phone_that_wants_what_is_unread_rings_for_what_a_web_page_took() {
    let bench = bench_with_phone("aa01", json!({"when": "unread"})).await;
    bench.register("bob", "aa02", json!({})).await;
    let id = send(&bench, "m1").await;
    let batch = bench.batch();
    bench.ok("bob", up_to("ack", &id, 1)).await;
    bench.started().notify(batch).await;
    assert_eq!((bench.rung("aa01"), bench.rung("aa02")), (vec!["message 1".to_owned()], vec![]));
}

#[tokio::test]
async fn what_is_muted_or_blocked_is_quiet_until_it_is_not() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let id = send(&bench, "m1").await;
    bench.notify().await;
    let mute = |until: Value| json!({"action": "settings", "conversation_id": id, "set": {"muted_until": until}});
    let block = |blocked: bool| json!({"action": "settings", "user_id": "alice", "set": {"blocked": blocked}});
    bench.ok("bob", mute(json!("2027-01-15T08:00:01.000Z"))).await;
    send(&bench, "m2").await;
    bench.notify().await;
    bench.ok("bob", mute(json!("forever"))).await;
    send(&bench, "m3").await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1"]);

    // The time has come, and the next message covers the earlier ones.
    bench.ok("bob", mute(json!("2027-01-15T08:00:01.000Z"))).await;
    bench.clock.advance(Duration::from_secs(1));
    send(&bench, "m4").await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1", "message 4"]);

    send(&bench, "m5").await;
    let batch = bench.batch();
    bench.ok("bob", block(true)).await;
    bench.started().notify(batch.clone()).await;
    assert_eq!(bench.rung("aa01").len(), 2);
    bench.ok("bob", block(false)).await;
    bench.started().notify(batch).await;
    assert_eq!(bench.rung("aa01").last().unwrap(), "message 5");
}

#[tokio::test]
async fn what_is_muted_is_not_in_the_badge() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    let id = send(&bench, "m1").await;
    bench.ok("bob", json!({"action": "settings", "conversation_id": id, "set": {"muted_until": "forever"}})).await;
    let from_carol = json!({"action": "send", "to": "bob", "client_msg_id": "c1", "kind": "text", "body": "hi"});
    bench.ok("carol", from_carol).await;
    bench.notify().await;
    bench.aws.with_sns(|sns| {
        assert_eq!(sns.pushes().len(), 1);
        assert_eq!(sns.pushes()[0].payload["aps"]["badge"], 1);
    });
}

#[tokio::test]
async fn the_badge_is_read_once_for_all_that_rings() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    for user in ["alice", "carol", "dora"] {
        bench.ok(user, message_to_bob("m1")).await;
    }
    bench.operations();
    bench.notify().await;
    let queries = bench.operations().iter().filter(|operation| *operation == "Query").count();
    assert_eq!((bench.rung("aa01").len(), queries), (3, 3 * 2 + 1), "for each its devices and connections");
}

#[tokio::test]
async fn a_phone_rings_without_a_badge_that_can_not_be_read() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    send(&bench, "m1").await;
    bench.aws.pass_next("Query");
    bench.aws.pass_next("Query");
    bench.aws.fail_next("Query", Fault::Throttled);
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    assert!(bench.aws.with_sns(|sns| sns.pushes()[0].payload["aps"]["badge"].is_null()));
}

#[tokio::test]
async fn a_mention_that_a_device_has_rings_no_more_for_what_is_pending() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.register("bob", "aa02", json!({"when": "unread"})).await;
    let create = json!({"action": "create", "client_msg_id": "g", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    bench.ok("bob", up_to("read", &group, 1)).await;
    let mute = json!({"action": "settings", "conversation_id": group, "set": {"muted_until": "forever"}});
    bench.ok("bob", mute).await;
    let say = |id: &str, mentions: Value| json!({"action": "send", "conversation_id": group, "client_msg_id": id, "kind": "text", "body": "hi", "mentions": mentions});
    bench.batch();
    bench.ok("alice", say("m1", json!(["bob"]))).await;
    bench.ok("bob", up_to("ack", &group, 2)).await;
    bench.batch();
    // He has not seen it, so the other phone rings.
    bench.ok("alice", say("m2", json!([]))).await;
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!((bench.rung("aa01"), bench.rung("aa02")), (vec![], vec!["message 3".to_owned()]));
}

#[tokio::test]
async fn a_mute_that_holds_mentions_too_rings_for_none() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let create = json!({"action": "create", "client_msg_id": "g", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    bench.ok("bob", up_to("read", &group, 1)).await;
    let set = |set: Value| json!({"action": "settings", "conversation_id": group, "set": set});
    let say = |id: &str| json!({"action": "send", "conversation_id": group, "client_msg_id": id, "kind": "text", "body": "hi", "mentions": ["bob"]});
    bench.ok("bob", set(json!({"muted_until": "forever", "mute_mentions": true}))).await;
    bench.batch();
    bench.ok("alice", say("m1")).await;
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.rung("aa01"), NOTHING);
    bench.ok("bob", set(json!({"mute_mentions": false}))).await;
    bench.ok("alice", say("m2")).await;
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 3"]);
}

#[tokio::test]
async fn what_clears_a_ring_and_brings_news_in_one_write_does_both() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let create = json!({"action": "create", "client_msg_id": "g", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let say = |id: &str| json!({"action": "send", "conversation_id": group, "client_msg_id": id, "kind": "text", "body": "hi"});
    bench.ok("alice", say("m1")).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2"]);
    bench.batch();
    // Bob's row stays behind both, until the stream takes it over them.
    for entry in [change(&group, "delete", 2), say("m2")] {
        bench.aws.fail_next("BatchGetItem", Fault::Status(500));
        bench.ok("alice", entry).await;
    }
    assert_eq!(bench.batch()["Records"], json!([]));
    bench.fanout().await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2", "read 2", "message 4"]);
}

#[tokio::test]
async fn ones_own_message_rings_nobody_and_is_not_shown() {
    let bench = bench_with_phone("aa01", json!({"preview": true})).await;
    send(&bench, "m1").await;
    let batch = bench.batch();
    bench
        .ok("bob", json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "my own"}))
        .await;
    assert_eq!(bench.notify().await, json!([]), "his own is none of his phones' business");
    assert_eq!(bench.rung("aa01"), NOTHING);
    // Hers still is pending.
    bench.started().notify(batch).await;
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    let payload = bench.aws.with_sns(|sns| sns.pushes()[0].payload.to_string());
    assert!(!payload.contains("my own") && !payload.contains("bob"), "{payload}");
}

#[tokio::test]
async fn who_is_suspended_is_not_rung() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    let suspend = json!({"op": "suspend", "user_id": "bob", "until": "2099-01-01T00:00:00Z"});
    assert!(bench.started().admin(suspend).await["result"].is_object());
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), NOTHING);
}

#[tokio::test]
async fn who_has_no_phone_costs_two_reads() {
    let bench = Workbench::ringing();
    send(&bench, "m1").await;
    bench.operations();
    bench.notify().await;
    assert_eq!(bench.operations(), ["BatchGetItem", "Query"]);
}

#[tokio::test]
async fn a_phone_that_was_not_started_for_60_days_is_silent() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.clock.advance(Duration::from_hours(60 * 24));
    send(&bench, "m1").await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), NOTHING);
}

// ---- The grace ----

#[tokio::test]
async fn who_is_connected_is_rung_after_the_grace_and_holds_up_nobody() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.connected("bob").await;
    send(&bench, "m1").await;
    bench.operations();
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(
        bench.operations(),
        ["BatchGetItem", "Query", "Query", "UpdateItem"],
        "and no more: the row comes again"
    );
    bench.clock.advance(Duration::from_millis(4_999));
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), NOTHING, "however often it comes");
    bench.clock.advance(Duration::from_millis(1));
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    assert_eq!((notified(&bench), &bench.row("bob")["look"]), (json!(1), &Value::Null));
}

#[tokio::test]
async fn who_acknowledges_within_the_grace_is_not_rung() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.connected("bob").await;
    let id = send(&bench, "m1").await;
    bench.notify().await;
    bench.ok("bob", up_to("ack", &id, 1)).await;
    bench.clock.advance(Duration::from_secs(5));
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), NOTHING);
    assert_eq!(bench.batch()["Records"], json!([]), "nothing is left to look at");
}

#[tokio::test]
async fn an_older_message_has_used_its_grace_up() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.connected("bob").await;
    send(&bench, "m1").await;
    bench.clock.advance(Duration::from_secs(5));
    bench.notify().await;
    assert_eq!(bench.rung("aa01").len(), 1);
}

#[tokio::test]
async fn who_can_not_be_looked_at_again_is_rung_too_early_rather_than_not_at_all() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.connected("bob").await;
    send(&bench, "m1").await;
    bench.aws.fail_next("UpdateItem", Fault::Throttled);
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 1"]);
}

#[tokio::test]
async fn what_is_an_hour_old_makes_no_sound() {
    for (hours, sound) in [(0, json!("default")), (1, Value::Null)] {
        let bench = bench_with_phone("aa01", json!({})).await;
        send(&bench, "m1").await;
        bench.clock.advance(Duration::from_hours(hours));
        bench.notify().await;
        assert_eq!(bench.rung("aa01"), ["message 1"]);
        assert_eq!(bench.aws.with_sns(|sns| sns.pushes()[0].payload["aps"]["sound"].clone()), sound);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_the_grace_of_others() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.register("carol", "cc01", json!({})).await;
    bench.connected("bob").await;
    send(&bench, "m1").await;
    let to_carol = json!({"action": "send", "to": "carol", "client_msg_id": "c1", "kind": "text", "body": "hi"});
    bench.ok("alice", to_carol).await;
    let began = tokio::time::Instant::now();
    bench.notify().await;
    assert_eq!((bench.rung("cc01").len(), bench.rung("aa01").len()), (1, 0));
    assert_eq!(began.elapsed(), Duration::ZERO, "what is behind the batch waits for nothing");
}

// ---- Clearing ----

#[tokio::test]
async fn what_was_read_elsewhere_goes_from_phones_that_are_not_connected() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    bench.register("bob", "first", json!({"platform": "fcm"})).await;
    let id = send(&bench, "m1").await;
    bench.notify().await;
    assert_eq!((bench.rung("aa01").len(), bench.rung("first").len()), (1, 1));
    // That device is called so.
    bench.connected("bob").await;
    bench.ok("bob", up_to("ack", &id, 1)).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1"], "delivered is not seen");
    bench.ok("bob", up_to("read", &id, 1)).await;
    assert_eq!(notified(&bench), Value::Null);
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1", "read 1"]);
    assert_eq!(bench.rung("first"), ["message 1"], "it had the event");
    let cleared = bench.aws.with_sns(|sns| sns.pushes().last().unwrap().clone());
    assert_eq!(cleared.payload["aps"], json!({"content-available": 1}));
    assert_eq!(cleared.data()["badge"], 0);
}

#[tokio::test]
async fn a_part_that_was_read_clears_nothing_and_the_rest_does() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let id = send(&bench, "m1").await;
    send(&bench, "m2").await;
    bench.notify().await;
    bench.ok("bob", up_to("read", &id, 1)).await;
    assert_eq!(notified(&bench), 2);
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2"]);
    // Bob reads below a third message, for which no push was sent yet.
    send(&bench, "m3").await;
    let third = bench.batch();
    bench.ok("bob", up_to("read", &id, 2)).await;
    assert_eq!(notified(&bench), Value::Null);
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2", "read 2"]);
    bench.started().notify(third).await;
    assert_eq!(bench.rung("aa01"), ["message 2", "read 2", "message 3"]);
}

#[tokio::test]
async fn what_is_read_between_ring_and_mark_is_cleared_at_once() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let id = send(&bench, "m1").await;
    let (functions, batch) = (bench.started(), bench.batch());
    let hold = bench.aws.hold_next("UpdateItem");
    let read = async {
        hold.reached().await;
        bench.ok("bob", up_to("read", &id, 1)).await;
        hold.release();
    };
    tokio::join!(functions.notify(batch), read);
    assert_eq!(bench.rung("aa01"), ["message 1", "read 1"]);
    assert_eq!(notified(&bench), Value::Null);
}

#[tokio::test]
async fn a_mark_beside_a_read_of_a_part_is_seen_by_it() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let id = send(&bench, "m1").await;
    let batch = bench.batch();
    send(&bench, "m2").await;
    // The run has read the row, and is about to write the result.
    bench.aws.pass_next("UpdateItem");
    let hold = bench.aws.hold_next("UpdateItem");
    let rung = async {
        hold.reached().await;
        bench.aws.put_rows("InboxTable", &mark_rows(&bench, 1));
        hold.release();
    };
    tokio::join!(bench.ok("bob", up_to("read", &id, 1)), rung);
    assert_eq!(notified(&bench), Value::Null, "read, and so no longer shown");
    drop(batch);
}

/// Bob's row with that mark.
fn mark_rows(bench: &Workbench, seq: u64) -> Vec<Value> {
    let mut rows = bench.aws.raw_rows("InboxTable");
    rows.retain(|row| row["user_id"]["S"] == "bob");
    rows[0]["notified_seq"] = json!({"N": seq.to_string()});
    rows
}

// ---- Failures ----

#[tokio::test]
async fn a_dead_phone_is_forgotten_and_the_others_ring() {
    for operation in ["EndpointDisabled", "NotFound", "InvalidParameter"] {
        let bench = bench_with_phone("aa01", json!({})).await;
        bench.register("bob", "aa02", json!({})).await;
        send(&bench, "m1").await;
        match operation {
            "EndpointDisabled" => bench.aws.with_sns(|sns| sns.kill("aa01")),
            "NotFound" => bench.aws.fail_next("Publish", Fault::Sns("NotFound")),
            _ => bench.aws.fail_next("Publish", Fault::Sns("InvalidParameter")),
        }
        assert_eq!(bench.notify().await, json!([]));
        // The last error does not name the endpoint.
        let devices = if operation == "InvalidParameter" { 4 } else { 2 };
        assert_eq!(bench.rung("aa02").len(), 1, "{operation}");
        assert_eq!(bench.aws.rows("DevicesTable").len(), devices, "{operation}");
        assert_eq!(bench.row("bob")["look"].is_string(), operation == "InvalidParameter", "{operation}");
    }
}

#[tokio::test]
async fn a_dead_phone_that_can_not_be_forgotten_keeps_no_other_from_ringing() {
    let bench = bench_with_phone("aa01", json!({})).await;
    bench.register("bob", "aa02", json!({})).await;
    send(&bench, "m1").await;
    bench.aws.with_sns(|sns| sns.kill("aa01"));
    bench.aws.fail_next("TransactWriteItems", Fault::Throttled);
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.rung("aa02").len(), 1);
    assert!(bench.row("bob")["look"].is_string(), "it comes again, for the dead one");
}

#[tokio::test]
async fn a_phone_that_has_just_registered_again_is_not_forgotten() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    bench.aws.with_sns(|sns| sns.kill("aa01"));
    let (functions, batch) = (bench.started(), bench.batch());
    let hold = bench.aws.hold_next("TransactWriteItems");
    let again = async {
        hold.reached().await;
        bench.clock.advance(Duration::from_millis(1));
        bench.register("bob", "aa01", json!({"badge": true})).await;
        hold.release();
    };
    tokio::join!(functions.notify(batch), again);
    assert_eq!(bench.aws.rows("DevicesTable").len(), 2);
    assert_eq!(bench.aws.with_sns(|sns| sns.tokens().join(" ")), "aa01");
}

#[tokio::test]
async fn who_fails_comes_again_alone_and_the_others_are_left_alone() {
    let users = ["bob", "carol", "dave"];
    let bench = bench_with_neighbours(&users).await;
    bench.aws.pass_next("Publish");
    bench.aws.fail_next("Publish", Fault::Throttled);
    bench.aws.fail_next("Publish", Fault::Status(500));
    assert_eq!(bench.notify().await, json!([]));
    let rung = || users.iter().filter(|user| !bench.rung(&format!("{user}01")).is_empty()).count();
    assert_eq!(rung(), 1);
    let batch = bench.batch();
    assert!(batch.to_string().contains("ring "), "{batch}");
    assert_eq!(bench.started().notify(batch).await, json!([]));
    for user in users {
        assert_eq!(bench.rung(&format!("{user}01")), ["message 1"], "{user}");
    }
}

#[tokio::test]
async fn each_call_that_fails_is_made_again_with_a_later_batch() {
    for operation in ["Query", "Publish"] {
        let bench = bench_with_phone("aa01", json!({})).await;
        send(&bench, "m1").await;
        for _ in 0..3 {
            bench.aws.fail_next(operation, Fault::Status(500));
            assert_eq!(bench.notify().await, json!([]), "{operation}");
        }
        assert_eq!(bench.rung("aa01"), NOTHING, "{operation}");
        assert_eq!(bench.notify().await, json!([]), "{operation}");
        assert_eq!(bench.rung("aa01"), ["message 1"], "{operation}");
        assert!(bench.aws.given_up().is_empty());
    }
}

#[tokio::test]
async fn a_table_that_answers_nobody_has_the_batch_come_again() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    let batch = bench.batch();
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    let failures = bench.started().notify(batch.clone()).await;
    assert_eq!(failures.as_array().unwrap().len(), 1);
    assert_eq!(bench.batch()["Records"], json!([]), "nothing is written where nothing is read");
    assert_eq!(bench.started().notify(batch).await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 1"]);
}

#[tokio::test]
async fn what_fails_for_long_is_given_up_where_it_can_be_found_and_rings_when_it_is_tried_again() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    bench.aws.fail_always("Publish", Fault::Status(500));
    for _ in 0..11 {
        assert_eq!(bench.notify().await, json!([]));
    }
    assert_eq!(bench.batch()["Records"], json!([]));
    let [event] = &bench.aws.given_up()[..] else { panic!("{:?}", bench.aws.given_up()) };
    assert!(!event.to_string().contains("hi"), "ids, and nothing of what was written: {event}");
    // A retry that fails again goes to the queue again.
    assert_eq!(bench.started().notify(event.clone()).await, json!([]));
    assert_eq!(bench.aws.given_up().len(), 2);
    bench.aws.fail_next("Publish", Fault::Delayed(Duration::ZERO));
    bench.clock.advance(Duration::from_hours(2));
    assert_eq!(bench.started().notify(event.clone()).await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    assert_eq!(bench.aws.with_sns(|sns| sns.pushes()[0].payload["aps"].get("sound").cloned()), None, "no news by then");
}

#[tokio::test]
async fn what_can_neither_be_done_nor_left_for_later_is_given_up_at_once() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    let batch = bench.batch();
    bench.aws.fail_always("Publish", Fault::Status(500));
    bench.aws.fail_always("UpdateItem", Fault::Throttled);
    bench.aws.fail_next("SendMessage", Fault::Status(500));
    assert_eq!(bench.started().notify(batch.clone()).await.as_array().unwrap().len(), 1, "nobody else knows of it");
    assert_eq!(bench.started().notify(batch).await, json!([]));
    assert_eq!(bench.aws.given_up().len(), 1);
}

#[tokio::test]
async fn a_notification_that_can_not_be_marked_has_rung() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    bench.aws.fail_always("UpdateItem", Fault::Throttled);
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_mark_beside_a_transaction_is_made_again() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    bench.aws.fail_next("UpdateItem", Fault::Conflict);
    bench.notify().await;
    assert_eq!(notified(&bench), 1);
}

#[tokio::test]
async fn a_platform_that_takes_nothing_more_fails_only_whom_nothing_else_rings() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    bench.aws.fail_next("Publish", Fault::Sns("PlatformApplicationDisabled"));
    assert_eq!(bench.notify().await, json!([]));
    assert!(bench.row("bob")["look"].is_string());
    bench.register("bob", "bb01", json!({"platform": "fcm"})).await;
    bench.aws.fail_next("Publish", Fault::Sns("PlatformApplicationDisabled"));
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!((bench.rung("aa01").len(), bench.rung("bb01").len()), (0, 1));
    assert_eq!(bench.row("bob")["look"], Value::Null);
    assert_eq!(bench.aws.rows("DevicesTable").len(), 4, "no phone is to blame");
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_left_for_later_and_holds_up_the_shard_for_three_seconds() {
    for operation in ["Publish", "Query"] {
        let bench = bench_with_neighbours(&["bob", "carol"]).await;
        bench.aws.fail_next(operation, Fault::Delayed(Duration::from_hours(1)));
        let began = tokio::time::Instant::now();
        assert_eq!(bench.notify().await, json!([]));
        assert_eq!(began.elapsed().as_secs(), 3, "{operation}");
        assert_eq!(bench.rung("bob01").len() + bench.rung("carol01").len(), 1);
        bench.notify().await;
        assert_eq!((bench.rung("bob01").len(), bench.rung("carol01").len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_in_which_everything_hangs_ends_before_lambda_ends_it() {
    for operation in ["BatchGetItem", "Query", "UpdateItem"] {
        let users: Vec<String> = (0..200).map(|n| format!("u{n}")).collect();
        let bench = bench_with_neighbours(&users.iter().map(String::as_str).collect::<Vec<_>>()).await;
        bench.aws.fail_always(operation, Fault::Delayed(Duration::from_hours(1)));
        let began = tokio::time::Instant::now();
        bench.notify().await;
        assert!(began.elapsed() < Duration::from_secs(28), "{operation}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_record_that_can_not_be_read_stops_nobody() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    let mut batch = bench.batch();
    let records = batch["Records"].as_array_mut().unwrap();
    let mut damaged = records[0].clone();
    damaged["dynamodb"]["NewImage"]["last_seq"] = json!({"N": "many"});
    for poison in [json!(7), json!({}), json!({"dynamodb": {"Keys": {}, "SequenceNumber": "1"}}), damaged] {
        records.insert(0, poison);
    }
    assert_eq!(bench.started().notify(batch).await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 1"]);
}

#[tokio::test]
async fn the_event_of_the_docs_is_read_whole() {
    let bench = bench_with_phone("aa01", json!({})).await;
    // Its message is not stored here, and no phone shows the read one.
    bench.operations();
    assert_eq!(bench.started().notify(file_event("notify")).await, json!([]));
    assert_eq!(bench.rung("aa01"), ["read 2"]);
    assert_eq!(bench.operations(), ["BatchGetItem", "Query", "Query", "Publish"]);
}

// ---- The mapping's filter ----

#[tokio::test]
async fn the_filter_hands_on_what_may_ring_or_clear_and_nothing_else() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let records = || {
        let batch = bench.batch();
        batch["Records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|record| record["dynamodb"]["Keys"]["user_id"]["S"].clone())
            .collect::<Vec<_>>()
    };
    let id = send(&bench, "m1").await;
    assert_eq!(records(), ["bob"], "the sender's own row is not");
    send(&bench, "m2").await;
    assert_eq!(records(), ["bob"]);
    bench.ok("bob", up_to("ack", &id, 1)).await;
    assert_eq!(records(), ["bob"], "an ack of a part");
    bench.ok("bob", up_to("ack", &id, 2)).await;
    assert!(records().is_empty(), "an ack of all");
    bench.ok("bob", up_to("read", &id, 2)).await;
    assert!(records().is_empty(), "a read of what nobody was rung for");
    bench.ok("bob", json!({"action": "settings", "conversation_id": id, "set": {"archived": true}})).await;
    assert!(records().is_empty(), "a setting");
    send(&bench, "m3").await;
    bench.notify().await;
    assert_eq!(records(), ["bob"], "the mark, of what is pending");
    bench.ok("bob", up_to("ack", &id, 3)).await;
    assert!(records().is_empty());
    bench.ok("bob", up_to("read", &id, 3)).await;
    assert_eq!(records(), ["bob"], "a read of what was rung for");
}

fn change(id: &Value, action: &str, seq: u64) -> Value {
    let mut frame =
        json!({"action": action, "conversation_id": id, "seq": seq, "client_msg_id": format!("{action}-{seq}")});
    match action {
        "edit" => frame["body"] = json!("new"),
        "react" => frame["emoji"] = json!("👍"),
        _ => {}
    }
    frame
}

#[tokio::test]
async fn a_reaction_is_none_of_phones_business() {
    let bench = bench_with_phone("aa01", json!({"preview": true})).await;
    let id = send(&bench, "m1").await;
    bench.notify().await;
    bench.ok("alice", change(&id, "react", 1)).await;
    bench.operations();
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.operations(), NOTHING, "not even a look at the row");
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    assert_eq!(notified(&bench), 1);
}

#[tokio::test]
async fn what_rings_is_what_the_message_says_by_then() {
    let bench = bench_with_phone("aa01", json!({"preview": true})).await;
    let id = send(&bench, "m1").await;
    bench.ok("alice", change(&id, "edit", 1)).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    assert_eq!(bench.aws.with_sns(|sns| sns.pushes()[0].payload["aps"]["alert"]["body"].clone()), "new");
}

#[tokio::test]
async fn what_was_deleted_before_the_check_does_not_ring() {
    let bench = bench_with_phone("aa01", json!({"preview": true})).await;
    let id = send(&bench, "m1").await;
    bench.ok("alice", change(&id, "delete", 1)).await;
    assert_eq!(bench.notify().await, json!([]));
    assert!(bench.rung("aa01").is_empty());
    // A message on another device causes no second push.
    send(&bench, "m2").await;
    bench.ok("bob", up_to("ack", &id, 3)).await;
    send(&bench, "m3").await;
    bench.ok("alice", change(&id, "delete", 4)).await;
    bench.notify().await;
    assert!(bench.rung("aa01").is_empty(), "3 is unread, and nothing of it is pending");
}

#[tokio::test]
async fn a_delete_leaves_what_else_is_pending_to_ring() {
    let bench = bench_with_phone("aa01", json!({"preview": true})).await;
    send(&bench, "m1").await;
    let id = send(&bench, "m2").await;
    bench.ok("alice", change(&id, "delete", 2)).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1"]);
    assert_eq!(notified(&bench), 1);
    assert_eq!(bench.aws.with_sns(|sns| sns.pushes()[0].payload["aps"]["alert"].get("body").cloned()), None);
}

#[tokio::test]
async fn a_delete_of_what_the_phone_shows_clears_it() {
    let bench = bench_with_phone("aa01", json!({})).await;
    send(&bench, "m1").await;
    let id = send(&bench, "m2").await;
    bench.notify().await;
    // Not what is shown.
    bench.ok("alice", change(&id, "delete", 1)).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2"]);
    bench.ok("alice", change(&id, "delete", 2)).await;
    assert_eq!(notified(&bench), Value::Null);
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 2", "read 2"]);
}

#[tokio::test]
async fn a_delete_between_a_ring_and_its_note_clears_at_once() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let id = send(&bench, "m1").await;
    let mark = bench.aws.hold_next("UpdateItem");
    let ringing = bench.notify();
    let deleting = async {
        mark.reached().await;
        bench.ok("alice", change(&id, "delete", 1)).await;
        mark.release();
    };
    let (answer, ()) = tokio::join!(ringing, deleting);
    assert_eq!(answer, json!([]));
    assert_eq!(bench.rung("aa01"), ["message 1", "read 1"]);
    assert_eq!(notified(&bench), Value::Null);
}

#[tokio::test]
async fn a_ring_between_a_deletes_reads_and_its_commit_is_seen() {
    let bench = bench_with_phone("aa01", json!({})).await;
    let id = send(&bench, "m1").await;
    let commit = bench.aws.hold_next("TransactWriteItems");
    let deleting = bench.ok("alice", change(&id, "delete", 1));
    let ringing = async {
        commit.reached().await;
        bench.notify().await;
        commit.release();
    };
    let (answer, ()) = tokio::join!(deleting, ringing);
    assert_eq!(answer["seq"], 2);
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 1", "read 1"]);
}

// ---- One bad neighbour ----

/// Creates a bench on which each user has a phone, and a message from alice.
async fn bench_with_neighbours(users: &[&str]) -> Workbench {
    let bench = Workbench::ringing();
    for user in users {
        bench.register(user, &format!("{user}01"), json!({})).await;
        let to = json!({"action": "send", "to": user, "client_msg_id": "m1", "kind": "text", "body": "hi"});
        bench.ok("alice", to).await;
    }
    bench
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_holds_up_nobody_else() {
    let bench = bench_with_neighbours(&["bob", "mallory", "carol"]).await;
    bench.aws.fail_if(|call| call.is_about("InboxTable", "mallory").then_some(Fault::Hot("mallory")));
    let failures = bench.notify().await;
    let rung = |user: &str| bench.rung(&format!("{user}01")).len();
    assert_eq!((rung("bob"), rung("carol"), rung("mallory")), (1, 1, 0));
    assert_eq!(failures, json!([]), "nothing behind it in the shard waits");
}

// ---- What phones show follows what is unread ----

/// Returns the notification and the badge of bob's phone with this token: the newest push without a dismissal.
fn phone(bench: &Workbench, token: &str) -> (Option<u64>, Value) {
    bench.aws.with_sns(|sns| {
        let (mut shown, mut badge) = (None, Value::Null);
        for push in sns.pushes().iter().filter(|push| push.token == token) {
            let data = push.data();
            let count =
                if push.payload["aps"]["badge"].is_null() { &data["badge"] } else { &push.payload["aps"]["badge"] };
            if !count.is_null() {
                badge = count.clone();
            }
            match data["type"].as_str() {
                Some("message") => shown = data["seq"].as_u64(),
                Some("read") => shown = shown.filter(|seq| *seq > data["seq"].as_u64().unwrap()),
                _ => {}
            }
        }
        (shown, badge)
    })
}

/// All that the stream has, and what comes of it.
async fn settle(bench: &Workbench) {
    for _ in 0..20 {
        bench.fanout().await;
        let batch = bench.batch();
        if batch["Records"] == json!([]) {
            return;
        }
        assert_eq!(bench.started().notify(batch).await, json!([]));
    }
    panic!("it does not end");
}

async fn two_rung(bench: &Workbench) -> Value {
    send(bench, "m1").await;
    let id = send(bench, "m2").await;
    settle(bench).await;
    assert_eq!(phone(bench, "aa01"), (Some(2), json!(2)));
    id
}

#[tokio::test]
async fn after_a_delete_and_a_read_of_the_rest_the_badge_is_zero() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    let id = two_rung(&bench).await;
    bench.ok("alice", change(&id, "delete", 2)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(1), json!(1)), "the first one waits");
    bench.ok("bob", up_to("read", &id, 1)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (None, json!(0)));
}

#[tokio::test]
async fn the_badge_follows_a_part_that_was_read_and_a_message_that_was_deleted() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    let id = two_rung(&bench).await;
    bench.ok("bob", up_to("read", &id, 1)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(2), json!(1)));
    send(&bench, "m3").await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(3), json!(2)));
    bench.ok("alice", change(&id, "delete", 2)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(3), json!(1)), "what is shown stays");
}

#[tokio::test]
async fn the_badge_follows_a_mute() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    let id = two_rung(&bench).await;
    let mute = |until: Value| json!({"action": "settings", "conversation_id": id, "set": {"muted_until": until}});
    bench.ok("bob", mute(json!("forever"))).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(2), json!(0)));
    bench.clock.advance(Duration::from_millis(1));
    bench.ok("bob", mute(Value::Null)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(2), json!(2)));
}

#[tokio::test]
async fn the_badge_follows_a_conversation_that_no_phone_rang_for() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    // A web page acknowledged alice's message, and bob has not read it.
    let alices = send(&bench, "m1").await;
    bench.ok("bob", up_to("ack", &alices, 1)).await;
    settle(&bench).await;
    let carols = bench.ok("carol", message_to_bob("c1")).await["conversation_id"].clone();
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(1), json!(2)));
    bench.ok("bob", up_to("read", &carols, 1)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (None, json!(1)));
    bench.ok("bob", up_to("read", &alices, 1)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (None, json!(0)));
}

#[tokio::test]
async fn what_is_shown_says_what_the_message_says() {
    let bench = bench_with_phone("aa01", json!({"preview": true})).await;
    let id = send(&bench, "m1").await;
    settle(&bench).await;
    bench.ok("alice", change(&id, "edit", 1)).await;
    settle(&bench).await;
    bench.aws.with_sns(|sns| {
        let [first, second] = sns.pushes() else { panic!("{:?}", sns.pushes()) };
        assert_eq!(
            (&first.payload["aps"]["alert"]["body"], &second.payload["aps"]["alert"]["body"]),
            (&json!("hi"), &json!("new"))
        );
        assert_eq!((&first.payload["aps"]["sound"], second.payload["aps"].get("sound")), (&json!("default"), None));
    });
}

#[tokio::test]
async fn in_a_group_phones_follow_too() {
    let bench = bench_with_phone("aa01", json!({"badge": true, "preview": true, "when": "unread"})).await;
    let create = json!({"action": "create", "client_msg_id": "g", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let say =
        |id: &str| json!({"action": "send", "conversation_id": group, "client_msg_id": id, "kind": "text", "body": id});
    bench.ok("alice", say("one")).await;
    bench.ok("alice", say("two")).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(3), json!(2)));
    // A page acknowledged everything, and bob has not read it.
    bench.ok("bob", up_to("ack", &group, 3)).await;
    bench.ok("alice", change(&group, "delete", 3)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (Some(2), json!(1)));
    let text = || bench.aws.with_sns(|sns| sns.pushes().last().unwrap().payload["aps"]["alert"]["body"].clone());
    assert_eq!(text(), "one");
    bench.ok("alice", change(&group, "edit", 2)).await;
    settle(&bench).await;
    assert_eq!((phone(&bench, "aa01"), text()), ((Some(2), json!(1)), json!("new")));
    // The read comes after the member has left.
    bench.ok("bob", json!({"action": "leave", "conversation_id": group, "client_msg_id": "l"})).await;
    settle(&bench).await;
    bench.ok("bob", up_to("read", &group, 2)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (None, json!(0)));
}

#[tokio::test]
async fn a_delete_shows_nothing_again_of_what_is_muted_or_blocked() {
    let bench = bench_with_phone("aa01", json!({"badge": true})).await;
    let id = two_rung(&bench).await;
    bench.ok("bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    bench.ok("alice", change(&id, "delete", 2)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (None, json!(1)), "it is unread in the chat list");
    bench.ok("bob", up_to("read", &id, 3)).await;
    settle(&bench).await;
    assert_eq!(phone(&bench, "aa01"), (None, json!(0)));
}
