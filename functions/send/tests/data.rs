//! `data` and kinds of an app's own: what is stored and told, and what a silent one leaves as it is.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use serde_json::{Value, json};
use testkit::{Workbench, up_to};

/// A frame of alice's, to bob or about a conversation.
fn frame(action: &str, more: &Value) -> Value {
    let mut frame = json!({"action": action});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn poll(id: &str, data: &Value) -> Value {
    frame("send", &json!({"to": "bob", "client_msg_id": id, "kind": "x-poll", "body": "Tea or coffee?", "data": data}))
}

fn vote(target: &Value, id: &str) -> Value {
    let (name, value) = target.as_object().unwrap().iter().next().unwrap();
    let about = json!({"of": 1});
    frame("send", &json!({name: value, "client_msg_id": id, "kind": "xs-vote", "body": "", "data": about}))
}

fn change(action: &str, id: &Value, seq: u64, more: &Value) -> Value {
    let mut frame = frame(action, more);
    let key = format!("{action}{seq}{more}").len();
    for (name, value) in [("conversation_id", id.clone()), ("seq", json!(seq))] {
        frame[name] = value;
    }
    frame["client_msg_id"] = json!(format!("{action}-{seq}-{key}"));
    frame
}

async fn row(bench: &Workbench, user: &str) -> Value {
    bench.ok(user, json!({"action": "inbox"})).await["conversations"][0].take()
}

async fn shown(bench: &Workbench, user: &str, id: &Value, seq: u64) -> Value {
    let page = json!({"action": "history", "conversation_id": id, "before_seq": seq + 1, "limit": 1});
    bench.ok(user, page).await["messages"][0].take()
}

fn code(answer: &Value) -> &Value {
    &answer["error"]["code"]
}

#[tokio::test]
async fn data_is_told_as_it_was_sent_and_tells_two_requests_apart() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let answer = bench.ok("alice", poll("m1", &json!({"options": ["tea", "coffee"], "n": 1}))).await;
    let id = &answer["conversation_id"];
    let told = bench.aws.frames("bob=").last().unwrap()["messages"][0].clone();
    assert_eq!((&told["kind"], &told["data"]["options"][1]), (&json!("x-poll"), &json!("coffee")));
    assert_eq!(shown(&bench, "bob", id, 1).await["data"], told["data"]);
    let line = row(&bench, "bob").await;
    assert_eq!((&line["unread"], &line["last_message"]["preview"]), (&json!(1), &json!("Tea or coffee?")));
    assert_eq!(line["last_message"]["kind"], "x-poll");

    // Another order and another way to write a number are the same request; another value is another one.
    let same = bench.ok("alice", poll("m1", &json!({"n": 1.0, "options": ["tea", "coffee"]}))).await;
    assert_eq!((&same["duplicate"], &same["seq"]), (&json!(true), &json!(1)));
    let other = bench.run("alice", poll("m1", &json!({"n": 2, "options": ["tea", "coffee"]}))).await;
    assert_eq!(code(&other), "id_reused");
    assert!(!bench.row("bob").to_string().contains("coffee\""), "no data in a row of the chat list");
}

#[tokio::test]
async fn an_edit_keeps_replaces_or_removes_data() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let send = json!({"to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi", "data": {"a": 1}});
    let id = bench.ok("alice", frame("send", &send)).await["conversation_id"].take();
    for (more, then) in [
        (json!({"body": "one"}), json!({"a": 1})),
        (json!({"body": "two", "data": {"b": [2]}}), json!({"b": [2]})),
        (json!({"body": "three!", "data": null}), Value::Null),
    ] {
        bench.ok("alice", change("edit", &id, 1, &more)).await;
        let told = bench.aws.frames("bob=").last().unwrap()["messages"][0].clone();
        assert_eq!((&told["kind"], &told["data"]), (&json!("edit"), &then));
        assert_eq!(shown(&bench, "bob", &id, 1).await["data"], then);
    }
    // The operator's copies have each version with its data.
    let kept = bench.aws.rows("AuditTable");
    let kept: Vec<_> = kept.iter().map(|row| (row["body"].as_str().unwrap(), row["data"].as_str())).collect();
    assert_eq!(kept, [("hi", Some(r#"{"a":1}"#)), ("one", Some(r#"{"a":1}"#)), ("two", Some(r#"{"b":[2]}"#))]);

    // An own kind keeps its data. The limit of both holds for the stored body and data.
    bench.ok("alice", poll("m2", &json!({"x": "y".repeat(2_000)}))).await;
    let none = bench.run("alice", change("edit", &id, 5, &json!({"body": "?", "data": null}))).await;
    assert_eq!(none["error"]["message"], "data: must not be null: the kind is the app's own");
    let long = "\u{1}".repeat(4_000);
    let both = bench.run("alice", change("edit", &id, 5, &json!({"body": long}))).await;
    assert_eq!((code(&both), both["error"]["message"].as_str().unwrap().get(..4)), (&json!("too_large"), Some("data")));

    bench.ok("alice", change("delete", &id, 5, &json!({}))).await;
    let gone = shown(&bench, "bob", &id, 5).await;
    assert_eq!((&gone["body"], gone.get("data"), gone["deleted_by"].as_str()), (&json!(""), None, Some("alice")));
    let stored = bench.aws.rows("MessagesTable").into_iter().find(|row| row["seq"] == 5).unwrap();
    assert_eq!(stored.get("data"), None);
}

#[tokio::test]
async fn a_silent_kind_moves_no_count_and_no_line_and_can_only_be_deleted() {
    let bench = Workbench::default();
    let first = bench.run("alice", vote(&json!({"to": "bob"}), "v0")).await;
    assert_eq!(first["error"]["message"], "kind: must count: a silent entry can't begin a conversation");
    let id = bench.conversation(2).await;
    bench
        .ok("bob", json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "hi"}))
        .await;
    let before = (row(&bench, "bob").await, row(&bench, "alice").await);
    bench.ok("alice", vote(&json!({"conversation_id": id}), "v1")).await;
    for (user, was) in [("bob", &before.0), ("alice", &before.1)] {
        let now = row(&bench, user).await;
        assert_eq!(now["last_message"], was["last_message"]);
        assert_eq!((&now["unread"], &now["last_seq"]), (&was["unread"], &json!(4)), "{user}");
    }
    assert_eq!(
        bench.ok("bob", json!({"action": "drain"})).await["messages"].as_array().unwrap().last().unwrap()["data"],
        json!({"of": 1})
    );
    // Counted anew from the log.
    assert_eq!(bench.ok("bob", up_to("read", &id, 1)).await["unread"], 1);

    for refused in [
        change("edit", &id, 4, &json!({"body": "x"})),
        change("react", &id, 4, &json!({"emoji": "👍"})),
        change("edit", &id, 99, &json!({"body": "x"})),
    ] {
        assert_eq!(code(&bench.run("alice", refused).await), "gone");
    }
    bench.ok("alice", change("delete", &id, 4, &json!({}))).await;
    assert_eq!(row(&bench, "bob").await["unread"], 1);
    assert_eq!(shown(&bench, "bob", &id, 4).await.get("data"), None);
}

#[tokio::test]
async fn in_a_group_a_silent_kind_counts_for_nobody_and_neither_does_its_delete() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let say = json!({"conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    bench.ok("alice", frame("send", &say)).await;
    bench.ok("alice", vote(&json!({"conversation_id": group}), "v1")).await;
    let line = row(&bench, "bob").await;
    assert_eq!((&line["unread"], &line["last_seq"], &line["last_message"]["seq"]), (&json!(1), &json!(3), &json!(2)));
    bench.ok("alice", change("delete", &group, 3, &json!({}))).await;
    let line = row(&bench, "bob").await;
    assert_eq!((&line["unread"], &line["last_seq"]), (&json!(1), &json!(4)));
    assert_eq!(bench.ok("bob", up_to("read", &group, 3)).await["unread"], 0);
}

#[tokio::test]
async fn silent_entries_to_who_never_wrote_fill_the_rate_as_twenty() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let mut sent = 0;
    while code(&bench.run("alice", vote(&json!({"conversation_id": id}), &format!("v{sent}"))).await) != "rate_limited"
    {
        sent += 1;
    }
    let answer = json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "hi"});
    bench.clock.advance(std::time::Duration::from_hours(1));
    bench.ok("bob", answer).await;
    let mut more = 0;
    while code(&bench.run("alice", vote(&json!({"conversation_id": id}), &format!("w{more}"))).await) != "rate_limited"
    {
        more += 1;
    }
    assert!(sent > 0 && more >= 20 * sent, "{sent} before, {more} after");
}
