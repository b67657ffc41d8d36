//! `typing` and `presence`: who sees what of whom.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Limits, Workbench, message_to_bob};

fn seeing() -> Workbench {
    Workbench::limited(Limits { presence: true, ..Limits::default() })
}

fn typing(id: &Value) -> Value {
    json!({"action": "typing", "conversation_id": id})
}

/// What is never answered.
async fn unanswered(bench: &Workbench, functions: &testkit::InProcess, user: &str, frame: Value) {
    let response = functions.handle("typing", testkit::message(user, &frame.to_string())).await.unwrap();
    assert_eq!((response.status_code, response.body), (200, None));
    bench.aws.assert_reads_are_consistent("ConnectionsTable");
}

async fn block(bench: &Workbench, user: &str, whom: &str, blocked: bool) {
    bench.ok(user, json!({"action": "settings", "user_id": whom, "set": {"blocked": blocked}})).await;
}

#[tokio::test]
async fn who_is_writing_is_told_to_the_others_and_nothing_is_stored() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.connected("alice").await;
    bench.connected("bob").await;
    let before = bench.row("alice");
    bench.operations();
    unanswered(&bench, &bench.started(), "alice", typing(&id)).await;
    assert_eq!(bench.operations(), ["GetItem", "Query"]);
    let at = "2027-01-15T08:02:00.000Z";
    assert_eq!(
        bench.aws.frames("bob="),
        [json!({"type": "typing", "conversation_id": id, "user_id": "alice", "at": at})]
    );
    assert!(bench.aws.frames("alice=").is_empty());
    assert_eq!(bench.row("alice"), before);
}

#[tokio::test]
async fn in_a_small_group_it_is_told_to_the_other_members_and_by_nobody_else() {
    let bench = Workbench::default();
    let create = |id: &str, members: Vec<String>| json!({"action": "create", "client_msg_id": id, "title": "x", "members": members});
    let group =
        bench.ok("alice", create("c1", vec!["bob".to_owned(), "carol".to_owned()])).await["conversation_id"].take();
    for user in ["alice", "bob", "carol"] {
        bench.connected(user).await;
    }
    // Whether it is small may be read as of a moment ago.
    let write = async |user: &str, id: &Value| {
        let event = testkit::message(user, &typing(id).to_string());
        assert_eq!(bench.handle("typing", event).await.unwrap().body, None);
    };
    write("bob", &group).await;
    write("mallory", &group).await;
    assert_eq!((bench.posted("alice"), bench.posted("carol")), (vec!["typing".to_owned()], vec!["typing".to_owned()]));
    assert!(bench.posted("bob").is_empty());
    // In a large one to nobody.
    let many: Vec<String> = (0..32).map(|number| format!("u{number}")).collect();
    let large = bench.ok("alice", create("c2", many)).await["conversation_id"].take();
    bench.connected("u1").await;
    write("alice", &large).await;
    assert!(bench.posted("u1").is_empty());
}

#[tokio::test]
async fn who_writes_on_and_on_is_told_once_in_four_seconds() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.connected("bob").await;
    let functions = bench.started();
    bench.operations();
    for (after_ms, told) in [(0, 1), (100, 1), (3_000, 1), (900, 2), (3_499, 2), (1, 3)] {
        bench.clock.advance(Duration::from_millis(after_ms));
        unanswered(&bench, &functions, "alice", typing(&id)).await;
        assert_eq!(bench.posted("bob").len(), told, "{after_ms} ms later");
    }
    assert_eq!(bench.operations().len(), 6, "what is dropped costs nothing");
}

#[tokio::test]
async fn what_is_wrong_with_typing_is_not_told_either() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.connected("bob").await;
    let functions = bench.started();
    for (user, frame) in [
        ("mallory", typing(&id)),
        ("alice", typing(&json!("dm_nobody"))),
        ("alice", json!({"action": "typing"})),
        ("alice", json!({"action": "typing", "conversation_id": 5})),
    ] {
        unanswered(&bench, &functions, user, frame).await;
    }
    bench.aws.fail_next("GetItem", Fault::Status(500));
    unanswered(&bench, &functions, "alice", typing(&id)).await;
    assert!(bench.aws.frames("bob=").is_empty());
}

#[tokio::test]
async fn nobody_sees_the_other_beyond_a_block() {
    let bench = seeing();
    let id = bench.conversation(1).await;
    bench.connected("alice").await;
    bench.connected("bob").await;
    let presence = |whom: &str| json!({"action": "presence", "user_ids": [whom]});
    block(&bench, "bob", "alice", true).await;
    for (user, other) in [("alice", "bob"), ("bob", "alice")] {
        unanswered(&bench, &bench.started(), user, typing(&id)).await;
        assert_eq!(bench.ok(user, presence(other)).await, json!({"users": []}), "{user}");
        assert!(bench.aws.frames(&format!("{other}=")).is_empty());
    }
    block(&bench, "bob", "alice", false).await;
    unanswered(&bench, &bench.started(), "alice", typing(&id)).await;
    assert_eq!(bench.posted("bob"), ["typing"]);
    assert_eq!(bench.ok("alice", presence("bob")).await["users"][0]["online"], true);
}

#[tokio::test]
async fn who_wrote_to_each_other_sees_who_is_there_and_when_they_were() {
    let bench = seeing();
    bench.conversation(1).await;
    let ask = json!({"action": "presence", "user_ids": ["bob", "carol", "alice"]});
    assert_eq!(
        bench.ok("alice", ask.clone()).await,
        json!({"users": [{"user_id": "bob", "online": false, "last_seen_at": null}]})
    );
    bench.connected("bob").await;
    let connected = json!({"user_id": "bob", "online": true, "last_seen_at": "2027-01-15T08:00:00.000Z"});
    assert_eq!(bench.ok("alice", ask.clone()).await["users"], json!([connected]));
    bench.handle("disconnect", bench.event("disconnect", "bob")).await.unwrap();
    let gone = json!({"user_id": "bob", "online": false, "last_seen_at": "2027-01-15T08:01:00.000Z"});
    assert_eq!(bench.ok("alice", ask.clone()).await["users"], json!([gone]));
    // It is no connection: nothing is posted to it, and the next one is found beside it.
    bench.connected("bob").await;
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.posted("bob"), ["messages.new"]);
    assert_eq!(bench.aws.posts(" last seen"), 0);
}

#[tokio::test]
async fn switched_off_nothing_is_kept_and_nobody_is_seen() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    bench.connected("bob").await;
    assert_eq!(bench.aws.rows("ConnectionsTable").len(), 1);
    assert_eq!(bench.ok("alice", json!({"action": "presence", "user_ids": ["bob"]})).await, json!({"users": []}));
}

#[tokio::test]
async fn a_connection_opens_and_closes_where_it_cannot_be_noted() {
    let bench = seeing();
    bench.aws.pass_next("PutItem");
    bench.aws.fail_next("PutItem", Fault::Status(500));
    assert_eq!(bench.handle("connect", bench.event("connect", "bob")).await.unwrap().status_code, 200);
    bench.aws.fail_next("PutItem", Fault::Status(500));
    assert_eq!(bench.handle("disconnect", bench.event("disconnect", "bob")).await.unwrap().status_code, 200);
    assert!(bench.aws.rows("ConnectionsTable").is_empty());
}

#[tokio::test]
async fn nobody_is_asked_for_by_the_hundred() {
    let bench = seeing();
    let many: Vec<String> = (0..21).map(|number| format!("user-{number}")).collect();
    for user_ids in [json!([]), json!(many), json!("bob"), json!(["two words"]), json!([5])] {
        assert_eq!(bench.refused("alice", json!({"action": "presence", "user_ids": user_ids})).await, "bad_request");
    }
    assert_eq!(bench.refused("alice", json!({"action": "presence"})).await, "bad_request");
}
