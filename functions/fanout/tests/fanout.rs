//! `fanout` updates the rows of members and notifies subscribers. A failing one holds up no other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{AwsCall, Fault, Workbench, up_to};
use tokio::time::{Instant, timeout};

const HOT: Fault = Fault::Hot("mallory");

fn about(action: &str, conversation: &Value, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": conversation});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn say(conversation: &Value, id: &str, body: &str) -> Value {
    about("send", conversation, &json!({"client_msg_id": id, "kind": "text", "body": body}))
}

/// Alice makes a group with mallory, bob and `others` more members.
async fn group(bench: &Workbench, id: &str, others: usize) -> Value {
    let members: Vec<String> =
        (0..others).map(|n| format!("u{n:02}")).chain(["bob", "mallory"].map(str::to_owned)).collect();
    let create = json!({"action": "create", "client_msg_id": id, "title": "Trip", "members": members});
    bench.ok("alice", create).await["conversation_id"].take()
}

async fn channel(bench: &Workbench, members: &[&str]) -> Value {
    let create =
        json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": members});
    bench.ok("alice", create).await["conversation_id"].take()
}

/// Up to where each member's row of the conversation has come: mallory's, and the lowest of all others'.
fn ends(bench: &Workbench, conversation: &Value) -> (u64, u64) {
    let rows = bench.aws.rows("InboxTable");
    let (hers, others): (Vec<&Value>, Vec<&Value>) = rows
        .iter()
        .filter(|row| row["conversation_id"] == *conversation && row.get("last_seq").is_some())
        .partition(|row| row["user_id"] == "mallory");
    let end = |row: &&Value| row["last_seq"].as_u64().unwrap();
    (hers.iter().map(end).min().unwrap_or_default(), others.iter().map(end).min().unwrap())
}

/// Returns the entries of each frame that a connection got.
fn frames(bench: &Workbench, connection: &str) -> Vec<Vec<u64>> {
    let frames = bench.aws.frames(connection);
    let new = frames.iter().filter(|frame| frame["type"] == "messages.new");
    new.map(|frame| frame["messages"].as_array().unwrap().iter().map(|m| m["seq"].as_u64().unwrap()).collect())
        .collect()
}

fn is_of_mallory(call: &AwsCall) -> bool {
    call.is_about("InboxTable", "mallory")
}

#[tokio::test]
async fn a_hot_partition_holds_up_its_user_alone_and_gets_a_second_look() {
    // Told by whoever writes, and by the stream.
    for others in [0, 40] {
        let bench = Workbench::default();
        bench.connected("bob").await;
        let (first, second) = (group(&bench, "c1", others).await, group(&bench, "c2", others).await);
        bench.fanout().await;
        bench.aws.fail_if(|call| is_of_mallory(call).then_some(HOT));
        bench.ok("alice", say(&first, "m1", "hi")).await;
        bench.ok("alice", say(&second, "m1", "hi")).await;
        assert_eq!(bench.fanout().await, json!([]), "no record fails for one member");
        assert_eq!((ends(&bench, &first), ends(&bench, &second)), ((1, 2), (1, 2)));
        assert_eq!(frames(&bench, "bob="), [[1], [1], [2], [2]]);
        assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
        // Once for each end: else one hot partition would keep a lane busy.
        let again = bench.aws.heads();
        assert_eq!(again.len(), 2, "{again:?}");
        assert_eq!(bench.started().fanout(json!({"Records": again})).await, json!([]));
        assert_eq!(bench.aws.heads(), Vec::<Value>::new());
        assert_eq!(ends(&bench, &first), (1, 2));
        // The fault passes. The next entry updates mallory's row.
        bench.aws.recover();
        bench.ok("alice", say(&first, "m2", "hi")).await;
        bench.fanout().await;
        assert_eq!(ends(&bench, &first), (3, 3));
        assert_eq!(bench.ok("mallory", json!({"action": "inbox"})).await["conversations"][1]["last_seq"], 2);
        assert_eq!(ends(&bench, &second), (2, 2), "and so does her own look");
    }
}

#[tokio::test]
async fn a_partition_that_answers_nothing_holds_up_the_others_for_three_seconds() {
    for others in [0, 40] {
        let bench = Workbench::default();
        bench.connected("bob").await;
        let group = group(&bench, "c1", others).await;
        bench.fanout().await;
        let hangs = Fault::Delayed(Duration::from_mins(1));
        bench.aws.fail_if(move |call| (is_of_mallory(call) && !call.writes()).then_some(hangs));
        bench.ok("alice", say(&group, "m1", "hi")).await;
        assert_eq!(timeout(Duration::from_secs(5), bench.fanout()).await.expect("in time"), json!([]));
        assert_eq!(ends(&bench, &group), (1, 2));
        assert_eq!(frames(&bench, "bob="), [[1], [2]]);
        bench.aws.recover();
        bench.fanout().await;
        assert_eq!(ends(&bench, &group), (2, 2), "by the second look");
    }
}

#[tokio::test]
async fn what_passes_is_made_up_for_by_the_second_look() {
    for fault in [HOT, Fault::Status(500), Fault::Throttled] {
        let bench = Workbench::default();
        let group = group(&bench, "c1", 40).await;
        bench.fanout().await;
        bench.ok("alice", say(&group, "m1", "hi")).await;
        let writes_only = fault != HOT;
        bench.aws.fail_if(move |call| (is_of_mallory(call) && (call.writes() || !writes_only)).then_some(fault));
        assert_eq!(bench.fanout().await, json!([]), "{fault}");
        assert_eq!(ends(&bench, &group), (1, 2), "{fault}");
        bench.aws.recover();
        assert_eq!(bench.fanout().await, json!([]));
        assert_eq!(ends(&bench, &group), (2, 2), "{fault}");
        assert_eq!(bench.aws.heads(), Vec::<Value>::new());
    }
}

#[tokio::test]
async fn a_full_partition_or_a_row_of_a_later_version_gets_no_second_look() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", 40).await;
    bench.fanout().await;
    bench.aws.fail_if(|call| (is_of_mallory(call) && call.writes()).then_some(Fault::Full));
    bench.ok("alice", say(&group, "m1", "hi")).await;
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!((ends(&bench, &group), bench.aws.heads()), ((1, 2), vec![]));
    bench.aws.recover();
    let mut rows = bench.aws.raw_rows("InboxTable");
    rows.retain(|row| row["user_id"]["S"] == "mallory");
    rows[0]["unread"] = json!({"S": "many"});
    bench.aws.put_rows("InboxTable", &rows);
    bench.ok("alice", say(&group, "m2", "hi")).await;
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!((ends(&bench, &group), bench.aws.heads()), ((1, 3), vec![]));
}

/// Then it is no neighbour, and the stream goes on asking.
#[tokio::test]
async fn a_table_that_takes_nothing_is_a_failure_of_the_record() {
    for reads in [false, true] {
        let bench = Workbench::default();
        let group = group(&bench, "c1", 40).await;
        bench.fanout().await;
        bench.ok("alice", say(&group, "m1", "hi")).await;
        let operation = if reads { "BatchGetItem" } else { "UpdateItem" };
        bench.aws.fail_if(move |call| (call.operation() == operation).then_some(Fault::Throttled));
        let records = json!({"Records": bench.aws.heads()});
        assert_ne!(bench.started().fanout(records.clone()).await, json!([]));
        assert_eq!(ends(&bench, &group), (1, 1));
        bench.aws.recover();
        assert_eq!(bench.started().fanout(records).await, json!([]));
        assert_eq!(ends(&bench, &group), (2, 2));
    }
}

/// A failure that concerns all of the group fails the record, and Lambda retries it.
#[tokio::test]
async fn a_group_whose_roster_or_log_can_t_be_read_comes_again() {
    for table in ["MembersTable", "MessagesTable"] {
        let bench = Workbench::default();
        let (first, second) = (group(&bench, "c1", 40).await, group(&bench, "c2", 40).await);
        bench.fanout().await;
        bench.ok("alice", say(&first, "m1", "hi")).await;
        bench.ok("alice", say(&second, "m1", "hi")).await;
        let bad = first.as_str().unwrap().to_owned();
        bench.aws.fail_if(move |call| call.is_about(table, &bad).then_some(Fault::Throttled));
        let records = bench.aws.heads();
        let failed = bench.started().fanout(json!({"Records": records})).await;
        assert_eq!(failed[0]["itemIdentifier"], records[0]["dynamodb"]["SequenceNumber"], "{table}");
        assert_eq!((ends(&bench, &first), ends(&bench, &second)), ((1, 1), (2, 2)), "{table}");
    }
}

#[tokio::test]
async fn large_messages_cost_a_fanout_what_small_ones_do() {
    let mut costs = vec![];
    for bytes in [20, 16 * 1024] {
        let bench = Workbench::default();
        bench.connected("bob").await;
        bench.started().connected_at("bob", "bob=2", "second").await;
        let group = group(&bench, "c1", 40).await;
        bench.fanout().await;
        for number in 0..60 {
            bench.ok("alice", say(&group, &format!("m{number}"), &"x".repeat(bytes))).await;
        }
        bench.ok("alice", about("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "better"}))).await;
        bench.aws.clear();
        assert_eq!(bench.fanout().await, json!([]));
        assert_eq!(ends(&bench, &group), (62, 62));
        let operations = bench.aws.operations();
        assert_eq!(operations.iter().filter(|operation| *operation == "UpdateItem").count(), 43, "one write for each");
        costs.push(operations.len());
        for connection in ["bob=", "bob=2"] {
            assert_eq!(frames(&bench, connection).concat(), (1..=62).collect::<Vec<_>>(), "{bytes}");
        }
        let posted = bench.aws.frames("bob=");
        assert!(posted.iter().all(|frame| frame.to_string().len() <= 32 * 1024));
        let edit = posted.last().unwrap()["messages"].as_array().unwrap().last().unwrap();
        assert_eq!((&edit["kind"], &edit["body"]), (&json!("edit"), &json!("better")), "of a round without texts, too");
    }
    assert!(costs[1] <= costs[0] + 4, "{costs:?}");
}

/// The texts are read once for all connected members, and never if no member is connected.
#[tokio::test]
async fn the_texts_of_a_large_round_are_read_for_who_is_there() {
    let bench = Workbench::default();
    let group = group(&bench, "c1", 40).await;
    bench.fanout().await;
    let round = async |from: usize| {
        for number in from..from + 20 {
            bench.ok("alice", say(&group, &format!("m{number}"), &"x".repeat(16 * 1024))).await;
        }
        bench.aws.clear();
        bench.fanout().await;
        let calls = bench.aws.calls();
        calls.iter().filter(|call| call.body()["KeyConditionExpression"].to_string().contains("BETWEEN")).count()
    };
    assert_eq!(round(0).await, 0);
    for user in ["bob", "u01", "u02"] {
        bench.connected(user).await;
    }
    assert_eq!(round(20).await, 1);
    assert_eq!(frames(&bench, "u02=").concat(), (22..=41).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_watches_a_channel_does_not_wait_for_a_hot_one_who_watches_on() {
    let bench = Workbench::default();
    let channel = channel(&bench, &["bob", "mallory"]).await;
    for user in ["bob", "mallory"] {
        bench.connected(user).await;
        bench.ok(user, about("watch", &channel, &json!({}))).await;
    }
    bench.fanout().await;
    bench.aws.fail_if(|call| (call.operation() == "BatchGetItem" && is_of_mallory(call)).then_some(HOT));
    bench.ok("alice", say(&channel, "m1", "hi")).await;
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!((frames(&bench, "bob="), frames(&bench, "mallory=")), (vec![vec![2]], vec![]));
    bench.aws.recover();
    bench.clock.advance(Duration::from_secs(1));
    bench.ok("alice", say(&channel, "m2", "hi")).await;
    bench.fanout().await;
    assert_eq!(frames(&bench, "mallory="), [[3]], "she watches on, and finds the hole");
}

/// The failing part is one of eight partitions.
#[tokio::test]
async fn a_part_of_a_channel_that_fails_holds_up_no_other_and_is_told_by_the_second_look() {
    let bench = Workbench::default();
    let users: Vec<String> = (0..40).map(|number| format!("u{number:02}")).collect();
    let channel = channel(&bench, &users.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for user in &users {
        bench.connected(user).await;
        bench.ok(user, about("watch", &channel, &json!({}))).await;
    }
    bench.fanout().await;
    let told = |seqs: &[u64]| users.iter().filter(|user| frames(&bench, &format!("{user}=")).concat() == seqs).count();
    let part = format!("{} 3", channel.as_str().unwrap());
    bench.aws.fail_if(move |call| call.is_about("WatchersTable", &part).then_some(Fault::Throttled));
    bench.ok("alice", say(&channel, "m1", "hi")).await;
    assert_eq!(bench.fanout().await, json!([]));
    assert!(told(&[2]) >= 25 && told(&[]) > 0, "{} of 40", told(&[2]));
    bench.aws.recover();
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!(told(&[2]), 40);
}

#[tokio::test]
async fn a_channel_is_shown_once_a_second_and_its_entries_share_a_frame() {
    let bench = Workbench::default();
    let channel = channel(&bench, &["bob"]).await;
    bench.connected("bob").await;
    bench.ok("bob", about("watch", &channel, &json!({}))).await;
    bench.fanout().await;
    tokio::time::pause();
    let began = Instant::now();
    bench.ok("alice", say(&channel, "m1", "hi")).await;
    bench.fanout().await;
    assert_eq!(began.elapsed(), Duration::ZERO, "a single one does not wait");
    bench.ok("alice", say(&channel, "m2", "hi")).await;
    let more = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.ok("alice", say(&channel, "m3", "hi")).await;
    };
    let (answer, ()) = tokio::join!(bench.fanout(), more);
    assert_eq!((answer, began.elapsed().as_secs()), (json!([]), 1));
    assert_eq!(frames(&bench, "bob="), [vec![2], vec![3, 4]]);
    // The third record finds nothing left to post.
    bench.fanout().await;
    assert_eq!((frames(&bench, "bob=").len(), began.elapsed().as_secs()), (2, 1));
}

#[tokio::test]
async fn the_watchers_of_a_channel_get_an_entry_at_the_pace_of_the_post_budget() {
    let bench = Workbench::default();
    let users: Vec<String> = (0..100).map(|number| format!("u{number:02}")).collect();
    let (first, more) = users.split_at(50);
    let channel = channel(&bench, &first.iter().map(String::as_str).collect::<Vec<_>>()).await;
    bench.ok("alice", about("add", &channel, &json!({"client_msg_id": "a1", "members": more}))).await;
    for user in &users {
        bench.connected(user).await;
        bench.ok(user, about("watch", &channel, &json!({}))).await;
    }
    bench.fanout().await;
    bench.ok("alice", say(&channel, "m1", "hi")).await;
    tokio::time::pause();
    let (posted, began) = (Arc::<Mutex<Vec<Duration>>>::default(), Instant::now());
    bench.aws.fail_if({
        let posted = Arc::clone(&posted);
        move |call| {
            if matches!(call, AwsCall::Post { .. }) {
                posted.lock().unwrap().push(began.elapsed());
            }
            None
        }
    });
    assert_eq!(bench.fanout().await, json!([]));
    assert!(users.iter().all(|user| frames(&bench, &format!("{user}=")) == [[3]]));
    let posted = posted.lock().unwrap();
    assert_eq!((posted.len(), posted.iter().filter(|at| at.is_zero()).count()), (100, 64));
    // Then 300 per second: the last after 36 ÷ 300 s.
    for (number, at) in posted.iter().enumerate().skip(64) {
        let due = Duration::from_secs_f64(f64::from(u32::try_from(number).unwrap() - 63) / 300.0);
        assert!((due..due + Duration::from_millis(3)).contains(at), "{number}: {at:?}, not {due:?}");
    }
}

/// Runs until the post to bob is on its way, then kills the process: bob's row has moved.
async fn dies_at_the_post_to_bob(bench: &Workbench, run: impl Future) {
    let post = bench.aws.hold_next("bob=");
    tokio::select! {
        _ = run => panic!("bob's post was not held"),
        () = post.reached() => {}
    }
}

#[tokio::test]
async fn the_retry_of_a_run_that_died_after_a_row_moved_posts_to_that_member() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let group = group(&bench, "c1", 0).await;
    bench.fanout().await;
    let first = say(&group, "m1", "hi");
    dies_at_the_post_to_bob(&bench, bench.run("alice", first.clone())).await;
    assert_eq!((bench.row("bob")["last_seq"].as_u64(), frames(&bench, "bob=")), (Some(2), vec![vec![1]]));
    // The stream's run finds nothing to move.
    bench.fanout().await;
    assert_eq!(frames(&bench, "bob="), [[1]]);
    let process = bench.started();
    for _ in 0..2 {
        assert_eq!(process.ok("alice", first.clone()).await["duplicate"], true);
        assert_eq!(frames(&bench, "bob="), [[1], [2]], "once in five seconds");
    }
    // A client has given up its retries after a minute. A device that has the entry gets nothing again.
    bench.clock.advance(Duration::from_secs(61));
    bench.ok("alice", first.clone()).await;
    bench.clock.advance(Duration::from_secs(61));
    bench.ok("alice", say(&group, "m2", "hi")).await;
    bench.ok("bob", up_to("ack", &group, 3)).await;
    let lists = bench.aws.operations().len();
    bench.ok("alice", say(&group, "m2", "hi")).await;
    assert_eq!(frames(&bench, "bob="), [[1], [2], [3]]);
    let reads = bench.aws.calls().split_off(lists);
    assert!(!reads.iter().any(|call| call.is_about("ConnectionsTable", "bob")), "{reads:?}");
}

#[tokio::test]
async fn a_record_that_comes_again_posts_to_the_members_whom_its_first_run_moved() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    bench.connected("u01").await;
    let group = group(&bench, "c1", 40).await;
    bench.fanout().await;
    for user in ["bob", "u01"] {
        bench.ok(user, up_to("ack", &group, 1)).await;
    }
    bench.ok("alice", say(&group, "m1", "hi")).await;
    let batch = json!({"Records": bench.aws.heads()});
    dies_at_the_post_to_bob(&bench, bench.started().fanout(batch.clone())).await;
    assert_eq!((bench.row("bob")["last_seq"].as_u64(), frames(&bench, "bob=")), (Some(2), vec![vec![1]]));
    assert_eq!(bench.started().fanout(batch.clone()).await, json!([]));
    assert_eq!(frames(&bench, "bob="), [[1], [2]]);
    assert_eq!(ends(&bench, &group), (2, 2));
    for user in ["bob", "u01"] {
        bench.ok(user, up_to("ack", &group, 2)).await;
    }
    assert_eq!(bench.started().fanout(batch).await, json!([]));
    assert_eq!(frames(&bench, "bob="), [[1], [2]], "a device that has the entry gets nothing again");
    // Another record finds the rows of a run that has posted.
    bench.ok("alice", say(&group, "m2", "hi")).await;
    bench.fanout().await;
    let mut other = json!({"dynamodb": {"Keys": {"conversation_id": {"S": group}}}});
    other["dynamodb"]["SequenceNumber"] = json!("000000000000000000010");
    assert_eq!(bench.started().fanout(json!({"Records": [other]})).await, json!([]));
    assert_eq!(frames(&bench, "bob="), [[1], [2], [3]]);
}

/// The other member's row lags behind an entry whose sender has the reply.
#[tokio::test]
async fn nothing_that_was_answered_is_left_out_of_what_a_member_is_told() {
    for repeated in [true, false] {
        let bench = Workbench::default();
        let group = group(&bench, "c1", 0).await;
        bench.ok("alice", say(&group, "m1", "hi")).await;
        bench.ok("bob", up_to("read", &group, 2)).await;
        // The read of the inbox rows fails, as if the function died after the commit and before it notified a member.
        bench.aws.fail_next("BatchGetItem", Fault::Status(500));
        assert_eq!(bench.ok("alice", say(&group, "m2", "hi")).await["seq"], 3);
        if repeated {
            assert_eq!(bench.ok("alice", say(&group, "m2", "hi")).await["duplicate"], true);
            assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
            assert_eq!(bench.ok("bob", json!({"action": "drain"})).await["messages"][0]["seq"], 3);
        }
        bench.ok("bob", up_to("ack", &group, 2)).await;
        assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true, "an ack brings the row along");
        assert_eq!(bench.ok("bob", up_to("read", &group, 2)).await["unread"], 1);
    }
    let bench = Workbench::default();
    let group = group(&bench, "c1", 40).await;
    bench.fanout().await;
    bench.ok("alice", say(&group, "m1", "hi")).await;
    assert_eq!(bench.ok("bob", up_to("read", &group, 1)).await["unread"], 1, "in a large group, before the stream");
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
}
