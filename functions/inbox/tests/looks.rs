//! `profiles` of groups and channels: who sets the look, who sees it, and what that takes.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use domain::Profiles;
use serde_json::{Value, json};
use testkit::{Limits, Workbench};

/// Alice has made it, with Bob.
async fn made(bench: &Workbench, kind: &str, look: &Value) -> Value {
    let mut create =
        json!({"action": "create", "kind": kind, "client_msg_id": kind, "title": "Trip", "members": ["bob"]});
    create.as_object_mut().unwrap().extend(look.as_object().unwrap().clone());
    bench.ok("alice", create).await["conversation_id"].take()
}

fn update(id: &Value, key: &str, set: &Value) -> Value {
    let mut update = json!({"action": "update", "conversation_id": id, "client_msg_id": key});
    update.as_object_mut().unwrap().extend(set.as_object().unwrap().clone());
    update
}

fn profiles(conversations: &[&Value]) -> Value {
    json!({"action": "profiles", "conversation_ids": conversations})
}

async fn seen(bench: &Workbench, user: &str, id: &Value) -> Value {
    bench.ok(user, profiles(&[id])).await["profiles"].as_array_mut().unwrap().pop().unwrap_or_default()
}

async fn info_seq(bench: &Workbench, user: &str) -> Value {
    bench.ok(user, json!({"action": "inbox"})).await["conversations"][0]["info_seq"].take()
}

#[tokio::test]
async fn a_look_comes_with_the_group_and_its_version_with_the_chat_list() {
    let bench = Workbench::default();
    let look = json!({"about": "Two weeks\nat the sea", "data": {"colour": "blue"}});
    let id = made(&bench, "group", &look).await;
    let expected = |version: u64, more: Value| {
        let mut profile = json!({"conversation_id": id, "version": version});
        profile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        profile
    };
    bench.aws.clear();
    assert_eq!(seen(&bench, "bob", &id).await, expected(1, look.clone()));
    assert_eq!(bench.operations(), ["BatchGetItem", "BatchGetItem"], "the look, then the row of the member list");
    let row = bench.ok("bob", json!({"action": "inbox"})).await["conversations"][0].take();
    let system = json!({"event": "created", "title": "Trip", "members": ["alice", "bob"], "about": look["about"]});
    assert_eq!((&row["info_seq"], &row["last_message"]["system"]), (&json!(1), &system), "the list has no data");
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    assert_eq!(history["messages"][0]["system"]["data"], look["data"]);

    // A field that is left out stays, and null removes.
    bench.ok("alice", update(&id, "u1", &json!({"data": null}))).await;
    assert_eq!(seen(&bench, "bob", &id).await, expected(2, json!({"about": look["about"]})));
    bench.ok("alice", update(&id, "u2", &json!({"title": "Sea"}))).await;
    assert_eq!(seen(&bench, "bob", &id).await, expected(3, json!({"about": look["about"]})));
    bench.ok("alice", update(&id, "u3", &json!({"post": "admins"}))).await;
    assert_eq!(info_seq(&bench, "bob").await, 3, "rules are no look");
    bench.ok("alice", update(&id, "u4", &json!({"about": null}))).await;
    assert_eq!(seen(&bench, "bob", &id).await, expected(5, json!({})), "which a cache must know");
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    assert_eq!(history["messages"][4]["system"], json!({"event": "info.changed", "about": null}));
    assert_eq!(info_seq(&bench, "bob").await, 5);
}

#[tokio::test]
async fn a_repeated_request_is_the_same_by_its_look_too() {
    let bench = Workbench::default();
    let id = made(&bench, "group", &json!({"data": null})).await;
    assert_eq!(info_seq(&bench, "alice").await, Value::Null, "null is as left out");
    let first = bench.ok("alice", update(&id, "u1", &json!({"about": "a"}))).await;
    assert_eq!(bench.ok("alice", update(&id, "u1", &json!({"about": "a"}))).await["seq"], first["seq"]);
    for other in [json!({"about": "b"}), json!({"about": null}), json!({"about": "a", "data": null})] {
        assert_eq!(bench.refused("alice", update(&id, "u1", &other)).await, "id_reused");
    }
}

#[tokio::test]
async fn members_see_a_look_and_everybody_that_of_an_open_channel() {
    let bench = Workbench::default();
    let look = json!({"about": "What is new"});
    let group = made(&bench, "group", &look).await;
    let channel = made(&bench, "channel", &look).await;
    for id in [&group, &channel] {
        assert_eq!(seen(&bench, "bob", id).await["about"], look["about"]);
        assert_eq!(seen(&bench, "carol", id).await, Value::Null, "she is no member");
        assert_eq!(bench.refused("bob", update(id, "x", &json!({"about": "mine"}))).await, "forbidden");
    }
    let channels = bench.ok("bob", json!({"action": "channels"})).await;
    assert_eq!(channels["conversations"][0]["info_seq"], 1);
    bench.ok("alice", update(&channel, "u1", &json!({"join": "open"}))).await;
    assert_eq!(seen(&bench, "carol", &channel).await["about"], look["about"]);
    // A former member sees no later look.
    bench.ok("bob", json!({"action": "leave", "conversation_id": group, "client_msg_id": "l1"})).await;
    assert_eq!(seen(&bench, "bob", &group).await, Value::Null);
    assert_eq!(info_seq(&bench, "bob").await, Value::Null);
    let none = made(&bench, "group", &json!({"client_msg_id": "g2"})).await;
    let both =
        bench.ok("alice", json!({"action": "profiles", "user_ids": ["bob"], "conversation_ids": [none, "dm_x"]})).await;
    assert_eq!(both, json!({"profiles": [], "left": []}));
}

#[tokio::test]
async fn a_wrong_look_is_refused_by_its_field() {
    let bench = Workbench::default();
    let id = made(&bench, "group", &json!({})).await;
    for (set, problem) in [
        (json!({"about": ""}), "about: must be 1 to 500 characters"),
        (json!({"about": "x".repeat(501)}), "about: must be 1 to 500 characters"),
        (json!({"about": "\u{20ac}".repeat(501)}), "about: must be at most 1500 bytes"),
        (json!({"about": " \n "}), "about: must have a character that shows"),
        (json!({"about": "a\u{202e}b"}), "about: must have a character that shows"),
        (json!({"about": 7}), "about: must be a string"),
        (json!({"data": []}), "data: must be an object"),
        (json!({"data": {"x": "y".repeat(2_048)}}), "data: must be at most 2,048 bytes"),
    ] {
        let error = bench.run("alice", update(&id, "u1", &set)).await["error"].take();
        assert!(error["message"].as_str().unwrap().starts_with(problem), "{set} {error}");
        let is_long = problem.contains("bytes");
        assert_eq!(error["code"], if is_long { "too_large" } else { "bad_request" });
    }
    let many: Vec<String> = (0..26).map(|number| format!("gr_{number}")).collect();
    let users: Vec<String> = (0..25).map(|number| format!("u{number}")).collect();
    let together = json!({"action": "profiles", "user_ids": users, "conversation_ids": many});
    assert_eq!(bench.refused("alice", together).await, "bad_request");
    bench.ok("alice", json!({"action": "profiles", "user_ids": users[1..], "conversation_ids": many})).await;
}

#[tokio::test]
async fn without_profiles_there_is_no_look_and_a_title_takes_no_row() {
    let bench = Workbench::limited(Limits { profiles: Profiles::Off, ..Limits::default() });
    let id = made(&bench, "group", &json!({})).await;
    assert_eq!(bench.refused("alice", update(&id, "u1", &json!({"about": "a"}))).await, "forbidden");
    bench.ok("alice", update(&id, "u1", &json!({"title": "Sea"}))).await;
    assert_eq!(info_seq(&bench, "alice").await, Value::Null);
    assert_eq!(bench.aws.rows("ConversationsTable").len(), 1);
    let create = json!({"action": "create", "client_msg_id": "c9", "title": "x", "members": [], "about": "a"});
    assert_eq!(bench.refused("alice", create).await, "forbidden");
}
