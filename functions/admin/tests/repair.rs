//! `repair`: members of groups who were left behind, and rows that were lost.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Workbench, up_to};

async fn repair(bench: &Workbench, more: Value) -> Value {
    let mut request = json!({"op": "repair"});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.started().admin(request).await
}

/// Returns the reply to a repair of one group that needed one request.
fn one(roster: u64, moved: u64, unreadable: u64) -> Value {
    json!({"roster": roster, "moved": moved, "unreadable": unreadable, "left_behind": 0, "next": null})
}

fn about(action: &str, group: &Value, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": group});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn say(group: &Value, id: &str) -> Value {
    about("send", group, &json!({"client_msg_id": id, "kind": "text", "body": "hi"}))
}

async fn group(bench: &Workbench, id: &str, members: &[&str]) -> Value {
    let create = json!({"action": "create", "client_msg_id": id, "title": "Trip", "members": members});
    bench.ok("alice", create).await["conversation_id"].take()
}

/// Fails every step after the writer's commit, and does not read the stream.
async fn unnoticed(bench: &Workbench, frame: Value) {
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    bench.ok("alice", frame).await;
}

fn roster(bench: &Workbench) -> Vec<Value> {
    let mut rows = bench.aws.rows("MembersTable");
    rows.sort_by_key(|row| row["user_id"].as_str().unwrap().to_owned());
    rows
}

/// How far the members' rows have come.
fn ends(bench: &Workbench) -> BTreeSet<u64> {
    bench.aws.rows("InboxTable").iter().map(|row| row["last_seq"].as_u64().unwrap()).collect()
}

fn lose(bench: &Workbench, table: &str, user: &str, group: &Value) {
    bench.aws.remove_row(table, &json!({"user_id": {"S": user}, "conversation_id": {"S": group}}));
}

#[tokio::test]
async fn members_who_were_left_behind_are_brought_along_and_told() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let group = group(&bench, "c1", &["bob", "carol"]).await;
    unnoticed(&bench, say(&group, "m1")).await;
    assert_eq!(ends(&bench), [1].into());
    let repaired = repair(&bench, json!({})).await;
    let all = json!({"groups": 1, "moved": 3, "unreadable": 0, "failed": [], "next": null});
    assert_eq!(repaired, json!({ "result": all }));
    assert_eq!(ends(&bench), [2].into());
    assert_eq!(bench.aws.frames("bob=").last().unwrap()["messages"][0]["seq"], 2);
    unnoticed(&bench, say(&group, "m2")).await;
    let request = json!({ "conversation_id": group });
    let repaired = repair(&bench, request.clone()).await;
    assert_eq!(repaired, json!({"result": one(0, 3, 0)}));
    let again = repair(&bench, request).await;
    assert_eq!(again, json!({"result": one(0, 0, 0)}), "there is nothing left to do");
    assert_eq!(bench.aws.frames("bob=").len(), 3);
}

#[tokio::test]
async fn a_channel_is_passed_over() {
    let bench = Workbench::default();
    let create =
        json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": ["bob"]});
    let channel = bench.ok("alice", create).await["conversation_id"].take();
    let rows = || ["InboxTable", "MembersTable"].map(|table| bench.aws.rows(table));
    let before = rows();
    let all = json!({"groups": 0, "moved": 0, "unreadable": 0, "failed": [], "next": null});
    assert_eq!(repair(&bench, json!({})).await, json!({ "result": all }));
    let one = repair(&bench, json!({ "conversation_id": channel })).await;
    assert_eq!(one["error"]["code"], "bad_request");
    assert_eq!(rows(), before);
}

#[tokio::test]
async fn groups_that_were_quiet_since_are_passed_over_and_one_that_fails_holds_up_no_other() {
    let bench = Workbench::default();
    let quiet = group(&bench, "c1", &["bob"]).await;
    unnoticed(&bench, say(&quiet, "m1")).await;
    bench.clock.advance(Duration::from_mins(10));
    let since = bench.clock.now().to_string();
    let busy = [group(&bench, "c2", &["bob"]).await, group(&bench, "c3", &["bob"]).await];
    for group in &busy {
        unnoticed(&bench, say(group, "m1")).await;
    }
    // The member list of the first group.
    bench.aws.fail_next("Query", Fault::Status(500));
    let since = json!({ "since": since });
    let result = repair(&bench, since.clone()).await["result"].take();
    assert_eq!((&result["groups"], &result["moved"]), (&json!(2), &json!(2)));
    let failed = result["failed"].as_array().unwrap();
    assert!(failed.len() == 1 && busy.contains(&failed[0]), "{result}");
    assert_eq!(repair(&bench, since).await["result"]["moved"], 2);
    assert_eq!(repair(&bench, json!({})).await["result"]["moved"], 2, "the quiet one");
    assert_eq!(ends(&bench), [2].into());
}

#[tokio::test]
async fn all_groups_can_take_more_than_one_request() {
    let bench = Workbench::default();
    for id in ["c1", "c2", "c3"] {
        let group = group(&bench, id, &["bob"]).await;
        unnoticed(&bench, say(&group, "m1")).await;
    }
    let (mut groups, mut behind, mut requests) = (0, Value::Null, 0);
    loop {
        // Half a minute for each group.
        let slow = bench.aws.hold_next("Query");
        let passes = async {
            slow.reached().await;
            bench.clock.advance(Duration::from_secs(30));
            slow.release();
        };
        let (answer, ()) = tokio::join!(repair(&bench, json!({ "behind": behind })), passes);
        requests += 1;
        groups += answer["result"]["groups"].as_u64().unwrap();
        behind = answer["result"]["next"].clone();
        if groups == 3 {
            break;
        }
    }
    assert_eq!(requests, 3);
    let last = repair(&bench, json!({ "behind": behind })).await["result"].take();
    assert_eq!((&last["groups"], &last["next"]), (&json!(0), &Value::Null));
    assert_eq!(ends(&bench), [2].into());
}

#[tokio::test]
async fn a_row_of_the_inbox_that_was_lost_is_made_anew() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", &["bob"]).await;
    bench.ok("alice", say(&group, "m1")).await;
    bench.ok("bob", up_to("read", &group, 2)).await;
    lose(&bench, "InboxTable", "bob", &group);
    assert_eq!(repair(&bench, json!({ "conversation_id": group })).await["result"]["moved"], 1);
    let row = bench.ok("bob", json!({"action": "inbox"})).await["conversations"][0].take();
    assert_eq!((&row["unread"], &row["read_seq"], &row["last_seq"]), (&json!(1), &json!(0), &json!(2)));
    assert_eq!(bench.ok("bob", json!({"action": "drain"})).await["messages"].as_array().unwrap().len(), 2);
}

/// Longer than there is time for; and what people wrote is no part of it.
#[tokio::test]
async fn the_repair_of_a_long_log_goes_on_where_it_ended() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", &["bob", "carol"]).await;
    for number in 0..120 {
        let mut said = say(&group, &format!("m{number}"));
        said["body"] = json!("x".repeat(16 * 1024));
        bench.ok("alice", said).await;
    }
    bench.ok("alice", about("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
    bench.fanout().await;
    lose(&bench, "MembersTable", "bob", &group);
    let (mut log, mut requests, mut pages) = (Value::Null, 0, 0);
    let done = loop {
        bench.aws.clear();
        let slow = bench.aws.hold_next("Query");
        let passes = async {
            slow.reached().await;
            bench.clock.advance(Duration::from_secs(30));
            slow.release();
        };
        let request = json!({"conversation_id": group, "log": log});
        let (answer, ()) = tokio::join!(repair(&bench, request), passes);
        requests += 1;
        let calls = bench.aws.calls();
        let log_pages = calls.iter().filter(|call| call.is_about("MessagesTable", group.as_str().unwrap()));
        pages += log_pages.clone().count();
        assert!(log_pages.clone().all(|call| call.body()["ProjectionExpression"].is_string()), "no texts");
        log = answer["result"]["next"].clone();
        if log.is_null() {
            break answer;
        }
        assert_eq!(roster(&bench).len(), 1, "nothing is written before");
    };
    assert_eq!(done["result"], one(1, 0, 0));
    assert_eq!((requests, pages), (2, 2), "each page of the log once");
    assert_eq!(roster(&bench).len(), 2);
}

#[tokio::test]
async fn a_member_who_can_t_be_brought_along_is_told_and_holds_up_no_other() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", &["bob", "carol"]).await;
    unnoticed(&bench, say(&group, "m1")).await;
    let is_carols = |call: &testkit::AwsCall| call.is_about("InboxTable", "carol");
    bench.aws.fail_if(move |call| is_carols(call).then_some(Fault::Hot("carol")));
    let repaired = repair(&bench, json!({ "conversation_id": group })).await["result"].take();
    assert_eq!((&repaired["moved"], &repaired["left_behind"]), (&json!(2), &json!(1)));
    let all = repair(&bench, json!({})).await["result"].take();
    assert_eq!((&all["moved"], &all["failed"]), (&json!(0), &json!([group])));
    bench.aws.recover();
    assert_eq!(repair(&bench, json!({})).await["result"]["moved"], 1);
}

#[tokio::test]
async fn a_roster_becomes_what_the_log_says() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", &["bob", "carol", "dave", "erin"]).await;
    let whom = |id: &str, more: Value| {
        let mut more = more;
        more["client_msg_id"] = json!(id);
        more
    };
    let role = whom("o1", json!({"user_id": "carol", "role": "admin"}));
    bench.ok("alice", about("role", &group, &role)).await;
    bench.ok("alice", about("remove", &group, &whom("x1", json!({"user_id": "dave"})))).await;
    bench.fanout().await;
    // Erin has no event of the removal yet.
    unnoticed(&bench, about("remove", &group, &whom("x2", json!({"user_id": "erin"})))).await;
    let before = roster(&bench);
    assert_eq!(before.len(), 4, "alice, bob, carol, and erin who left");
    for user in ["bob", "erin"] {
        lose(&bench, "MembersTable", user, &group);
    }
    assert_eq!(bench.refused("bob", say(&group, "b1")).await, "not_member");
    let mut rows = bench.aws.raw_rows("MembersTable");
    let carol = rows.iter_mut().find(|row| row["user_id"]["S"] == "carol").unwrap();
    carol["member_role"]["S"] = json!("member");
    let mut mallory = carol.clone();
    mallory["user_id"]["S"] = json!("mallory");
    bench.aws.put_rows("MembersTable", &[carol.clone(), mallory]);

    let repaired = repair(&bench, json!({ "conversation_id": group })).await;
    assert_eq!(repaired["result"], one(4, 4, 0));
    // After erin's event, her row is deleted.
    assert_eq!(roster(&bench), before[..3]);
    bench.ok("bob", say(&group, "b1")).await;
    assert_eq!(bench.refused("mallory", say(&group, "m1")).await, "not_member");
    let left = repair(&bench, json!({ "conversation_id": group })).await;
    assert_eq!(left["result"], one(0, 0, 0), "dave and erin stay out");
}

#[tokio::test]
async fn who_leaves_beside_the_repair_of_their_row_stays_out() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", &["bob", "carol"]).await;
    let mut rows = bench.aws.raw_rows("MembersTable");
    rows.retain(|row| row["user_id"]["S"] == "carol");
    rows[0]["member_role"]["S"] = json!("admin");
    bench.aws.put_rows("MembersTable", &rows);
    let hold = bench.aws.hold_next("TransactWriteItems");
    let leaving = async {
        hold.reached().await;
        bench.ok("carol", about("leave", &group, &json!({"client_msg_id": "l1"}))).await;
        hold.release();
    };
    let (repaired, ()) = tokio::join!(repair(&bench, json!({ "conversation_id": group })), leaving);
    assert_eq!(repaired["result"]["roster"], 0);
    let users: Vec<_> = roster(&bench).iter().map(|row| row["user_id"].clone()).collect();
    assert_eq!(users, ["alice", "bob"]);
}

#[tokio::test]
async fn what_a_later_version_wrote_is_left_alone() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", &["bob"]).await;
    let mut rows = bench.aws.raw_rows("MessagesTable");
    rows[0]["system"]["S"] = json!(r#"{"event":"created.in.another.way","members":[]}"#);
    bench.aws.put_rows("MessagesTable", &rows);
    let before = roster(&bench);
    let repaired = repair(&bench, json!({ "conversation_id": group })).await;
    assert_eq!(repaired["result"], one(0, 0, 1));
    assert_eq!(roster(&bench), before);
}

#[tokio::test]
async fn only_a_group_that_there_is_can_be_repaired() {
    let bench = Workbench::default();
    for id in ["gr_nothing", "dm_nothing"] {
        let answer = repair(&bench, json!({ "conversation_id": id })).await;
        assert_eq!(answer["error"]["code"], "bad_request", "{id}");
    }
    assert_eq!(repair(&bench, json!({"since": "yesterday"})).await["error"]["code"], "bad_request");
    let none = json!({"groups": 0, "moved": 0, "unreadable": 0, "failed": [], "next": null});
    assert_eq!(repair(&bench, json!({})).await["result"], none);
}
