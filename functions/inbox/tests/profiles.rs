//! `profiles` and `profile`: who writes a profile, who reads it, and what that takes.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use domain::Profiles;
use serde_json::{Value, json};
use testkit::{Limits, Workbench};

fn profiles(users: &[&str]) -> Value {
    json!({"action": "profiles", "user_ids": users})
}

async fn set(bench: &Workbench, user: &str, set: Value) -> u64 {
    bench.ok(user, json!({"action": "profile", "set": set})).await["version"].as_u64().unwrap()
}

async fn seen(bench: &Workbench, user: &str) -> Value {
    bench.ok("carol", profiles(&[user])).await["profiles"][0].take()
}

async fn admin(bench: &Workbench, user: &str, set: Value) -> Value {
    bench.started().admin(json!({"op": "profile", "user_id": user, "set": set})).await
}

#[tokio::test]
async fn a_profile_takes_one_write_and_a_look_at_many_one_read() {
    let bench = Workbench::default();
    for device in ["alice", "carol"] {
        bench.connected(device).await;
    }
    bench.operations();
    let version = set(&bench, "alice", json!({"name": "Alice", "data": {"team": "sales"}})).await;
    assert_eq!(bench.operations(), ["UpdateItem", "Query"], "the row, and the other devices");
    assert_eq!(bench.posted("carol"), [""; 0], "other users get no event");
    let profile = json!({"user_id": "alice", "name": "Alice", "data": {"team": "sales"}, "version": version});
    let found = bench.ok("carol", profiles(&["bob", "alice"])).await;
    assert_eq!(bench.operations(), ["BatchGetItem"]);
    assert_eq!(found, json!({"profiles": [profile], "left": []}), "bob has none");
}

#[tokio::test]
async fn what_is_left_out_stays_and_null_removes() {
    let bench = Workbench::default();
    let first = set(&bench, "alice", json!({"name": "Alice", "data": {}})).await;
    // In the same millisecond.
    let second = set(&bench, "alice", json!({"name": "Alicia"})).await;
    assert_eq!(second, first + 1);
    assert_eq!(
        seen(&bench, "alice").await,
        json!({"user_id": "alice", "name": "Alicia", "data": {}, "version": second})
    );
    bench.clock.advance(Duration::from_secs(1));
    let third = set(&bench, "alice", json!({"name": null, "data": null})).await;
    assert!(third > second);
    assert_eq!(seen(&bench, "alice").await, json!({"user_id": "alice", "version": third}), "which a cache must know");
}

#[tokio::test]
async fn a_reply_has_as_many_profiles_as_a_frame_holds_and_names_the_others() {
    let bench = Workbench::default();
    let users: Vec<String> = (0..50).map(|number| format!("u{number}")).collect();
    let data = json!({"x": "y".repeat(1_000)});
    for user in &users {
        let answer = admin(&bench, user, json!({"name": "\u{1f980}".repeat(40), "data": data})).await;
        assert!(answer["result"]["version"].is_number(), "{answer}");
    }
    let mut wanted: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut found = vec![];
    for _ in 0..3 {
        let page = bench.ok("carol", profiles(&wanted)).await;
        found.extend(page["profiles"].as_array().unwrap().iter().map(|profile| profile["user_id"].clone()));
        wanted.retain(|user| page["left"].as_array().unwrap().contains(&json!(user)));
        if wanted.is_empty() {
            break;
        }
    }
    found.sort_by_key(|user| user.as_str().unwrap()[1..].parse::<u32>().unwrap());
    assert_eq!(found, users);
}

#[tokio::test]
async fn the_parameter_decides_who_writes_and_whether_anybody_reads() {
    let own = json!({"action": "profile", "set": {"name": "Alice"}});
    for (parameter, written, read) in
        [(Profiles::Off, false, false), (Profiles::Backend, false, true), (Profiles::Users, true, true)]
    {
        let bench = Workbench::limited(Limits { profiles: parameter, ..Limits::default() });
        bench.operations();
        let features = bench.ok("alice", json!({"action": "ping", "features": true})).await["features"].take();
        let has = |name: &str| features.as_array().unwrap().contains(&json!(name));
        assert_eq!((has("profile.write"), has("profiles")), (written, read), "{features}");
        bench.operations();
        let code = |answer: &Value| answer["error"]["code"].as_str().unwrap_or("ok").to_owned();
        let expected = |allowed| if allowed { "ok" } else { "forbidden" };
        let answers = [
            bench.run("alice", own.clone()).await,
            bench.run("carol", profiles(&["alice"])).await,
            admin(&bench, "alice", json!({"name": "Alice"})).await,
        ];
        assert_eq!(answers.each_ref().map(code), [expected(written), expected(read), expected(read)], "{parameter:?}");
        if !read {
            assert_eq!(bench.operations(), [""; 0], "what is off reads nothing");
            bench.ingest(&[("alice", json!({"profile": "alice", "set": {"name": "Alice"}}))]).await;
            assert_eq!(bench.aws.dead_letters().len(), 1);
        }
    }
}

#[tokio::test]
async fn of_two_changes_the_later_one_stays_whatever_comes_again() {
    let bench = Workbench::default();
    let queued = |name: &str| ("alice", json!({"profile": "alice", "set": {"name": name}}));
    // Two in one millisecond, in their order, and the first one again.
    assert_eq!(bench.ingest(&[queued("A"), queued("A"), queued("B")]).await, [0; 0]);
    let second = seen(&bench, "alice").await;
    assert_eq!(second["name"], "B");
    bench.ingest(&[queued("A")]).await;
    assert_eq!(seen(&bench, "alice").await, second);
    bench.clock.advance(Duration::from_secs(1));
    set(&bench, "alice", json!({"name": "Mine"})).await;
    let answer = admin(&bench, "alice", json!({"name": "Theirs"})).await;
    let theirs = seen(&bench, "alice").await;
    assert_eq!((&theirs["name"], &theirs["version"]), (&json!("Theirs"), &answer["result"]["version"]));
    let wrong = admin(&bench, "alice", json!({"name": ""})).await;
    assert!(wrong["error"]["message"].as_str().unwrap().starts_with("set.name: "), "{wrong}");
}

#[tokio::test]
async fn a_repair_of_all_groups_passes_over_profiles() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    bench.ok("alice", create).await;
    for number in 0..250 {
        admin(&bench, &format!("u{number}"), json!({"name": "U"})).await;
    }
    let answer = bench.started().admin(json!({"op": "repair"})).await["result"].take();
    assert_eq!((&answer["groups"], &answer["unreadable"], &answer["next"]), (&json!(1), &json!(0), &Value::Null));
}
