//! Members who may only read for a time, in groups and channels.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::Workbench;

fn frame(action: &str, conversation: &Value, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": conversation});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn say(conversation: &Value, id: &str) -> Value {
    frame("send", conversation, &json!({"client_msg_id": id, "kind": "text", "body": "hi"}))
}

fn restrict(conversation: &Value, id: &str, user: &str, until: &Value) -> Value {
    frame("restrict", conversation, &json!({"client_msg_id": id, "user_id": user, "until": until}))
}

/// Alice makes it. Bob and Carol are members, and Bob has written the second entry.
async fn conversation(bench: &Workbench, kind: &str) -> Value {
    let mut create = json!({"action": "create", "kind": kind, "client_msg_id": "c1", "title": "Trip",
        "members": ["bob", "carol"], "post": "all", "add": "all"});
    if kind == "channel" {
        create["join"] = json!("open");
    }
    let id = bench.ok("alice", create).await["conversation_id"].take();
    bench.ok("bob", say(&id, "m1")).await;
    id
}

/// Returns the time in the user's own row, and in the list of members.
async fn shown(bench: &Workbench, kind: &str, id: &Value, user: &str) -> (Value, Value) {
    let list = json!({"action": if kind == "channel" { "channels" } else { "inbox" }});
    let row = bench.ok(user, list).await["conversations"][0].take();
    let members = bench.ok("alice", frame("members", id, &json!({}))).await["members"].take();
    let is_it = |member: &&Value| member["user_id"] == user;
    let member = members.as_array().unwrap().iter().find(is_it).cloned().unwrap_or_default();
    (row["restricted_until"].clone(), member["restricted_until"].clone())
}

#[tokio::test]
async fn a_restricted_member_reads_deletes_and_leaves_and_nothing_else_until_the_time_is_over() {
    for kind in ["group", "channel"] {
        let bench = Workbench::default();
        let id = conversation(&bench, kind).await;
        let until = bench.clock.now().plus(Duration::from_hours(1)).to_string();
        let entry = bench.ok("alice", restrict(&id, "r1", "bob", &json!(until))).await;
        assert_eq!(entry["seq"], 3);
        bench.fanout().await;
        assert_eq!(shown(&bench, kind, &id, "bob").await, (json!(until), json!(until)), "{kind}");
        assert_eq!(shown(&bench, kind, &id, "carol").await, (Value::Null, Value::Null));
        let about = |action, key: &str, more: &Value| {
            let mut frame = frame(action, &id, more);
            frame["client_msg_id"] = json!(key);
            frame
        };
        let upload = frame(
            "upload",
            &id,
            &json!({"kind": "image", "mime": "image/jpeg", "bytes": 9,
            "sha256": "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="}),
        );
        let refused = [
            say(&id, "m2"),
            about("edit", "e1", &json!({"seq": 2, "body": "ho"})),
            about("react", "x1", &json!({"seq": 2, "emoji": "👍"})),
            about("add", "a1", &json!({"members": ["dave"]})),
            upload,
        ];
        for frame in &refused {
            assert_eq!(bench.refused("bob", frame.clone()).await, "forbidden", "{frame}");
        }
        assert_eq!(bench.ok("bob", say(&id, "m1")).await["duplicate"], true, "a stored request keeps its reply");
        let page = bench.ok("bob", frame("history", &id, &json!({}))).await;
        let system = json!({"event": "member.restricted", "user_id": "bob", "until": until});
        assert_eq!(page["messages"].as_array().unwrap().last().unwrap()["system"], system);
        // The restriction ends by itself.
        bench.clock.advance(Duration::from_hours(1));
        assert_eq!(shown(&bench, kind, &id, "bob").await, (Value::Null, Value::Null));
        for frame in refused {
            bench.ok("bob", frame).await;
        }
        bench.ok("alice", restrict(&id, "r2", "bob", &json!("forever"))).await;
        assert_eq!(bench.refused("bob", say(&id, "m3")).await, "forbidden");
        bench.ok("bob", about("delete", "d1", &json!({"seq": 2}))).await;
        let lifted = bench.ok("alice", restrict(&id, "r3", "bob", &Value::Null)).await;
        let page = bench.ok("bob", frame("history", &id, &json!({}))).await;
        let entry = page["messages"].as_array().unwrap().iter().find(|entry| entry["seq"] == lifted["seq"]).unwrap();
        assert_eq!(entry["system"], json!({"event": "member.restricted", "user_id": "bob"}));
        bench.ok("bob", say(&id, "m3")).await;
    }
}

#[tokio::test]
async fn the_owner_and_the_admins_restrict_members_and_none_themselves() {
    for kind in ["group", "channel"] {
        let bench = Workbench::default();
        let id = conversation(&bench, kind).await;
        let role = json!({"client_msg_id": "o1", "user_id": "carol", "role": "admin"});
        bench.ok("alice", frame("role", &id, &role)).await;
        let forever = json!("forever");
        for (who, whom, refusal) in [
            ("bob", "carol", "forbidden"),
            ("carol", "alice", "forbidden"),
            ("carol", "carol", "forbidden"),
            ("alice", "alice", "forbidden"),
            ("alice", "dave", "gone"),
            ("dave", "bob", "not_member"),
        ] {
            assert_eq!(bench.refused(who, restrict(&id, "r", whom, &forever)).await, refusal, "{who} {whom}");
        }
        let past = json!(bench.clock.now().to_string());
        assert_eq!(bench.refused("alice", restrict(&id, "r", "bob", &past)).await, "bad_request");
        bench.ok("carol", restrict(&id, "r1", "bob", &forever)).await;
        bench.ok("alice", restrict(&id, "r2", "carol", &forever)).await;
        let again = bench.ok("alice", restrict(&id, "r3", "carol", &forever)).await;
        assert_eq!(again["seq"], 6, "the same again is an entry");
        assert_eq!(bench.refused("alice", restrict(&id, "r3", "carol", &Value::Null)).await, "id_reused");
    }
    let bench = Workbench::default();
    let direct = bench.conversation(1).await;
    assert_eq!(bench.refused("alice", restrict(&direct, "r", "bob", &json!("forever"))).await, "bad_request");
}

#[tokio::test]
async fn a_leave_and_a_join_end_no_restriction_and_an_addition_does() {
    for kind in ["group", "channel"] {
        let bench = Workbench::default();
        let id = conversation(&bench, kind).await;
        let leave = |key: &str| frame("leave", &id, &json!({"client_msg_id": key}));
        let add = |key: &str| frame("add", &id, &json!({"client_msg_id": key, "members": ["bob"]}));
        bench.ok("alice", restrict(&id, "r1", "bob", &json!("forever"))).await;
        for round in ["1", "2"] {
            bench.ok("bob", leave(&format!("l{round}"))).await;
            // The second time, the member list no longer has his row.
            bench.fanout().await;
            bench.ok("bob", frame("join", &id, &json!({}))).await;
            assert_eq!(bench.refused("bob", say(&id, "m2")).await, "forbidden", "{kind}");
            bench.fanout().await;
            assert_eq!(shown(&bench, kind, &id, "bob").await, (json!("forever"), json!("forever")), "{kind}");
        }
        bench.ok("bob", leave("l3")).await;
        bench.fanout().await;
        assert_eq!(bench.ok("alice", add("a1")).await["added"], json!(["bob"]));
        bench.ok("bob", say(&id, "m2")).await;
        bench.fanout().await;
        assert_eq!(shown(&bench, kind, &id, "bob").await, (Value::Null, Value::Null), "{kind}");
    }
}

#[tokio::test]
async fn the_typing_of_a_restricted_member_reaches_no_other() {
    let bench = Workbench::default();
    let id = conversation(&bench, "group").await;
    bench.connected("carol").await;
    let typing =
        |bench: &Workbench| bench.aws.frames("carol=").iter().filter(|frame| frame["type"] == "typing").count();
    let types = async || {
        let event = testkit::message("bob", &frame("typing", &id, &json!({})).to_string());
        bench.handle("typing", event).await.unwrap();
    };
    types().await;
    assert_eq!(typing(&bench), 1);
    bench.ok("alice", restrict(&id, "r1", "bob", &json!("forever"))).await;
    types().await;
    assert_eq!(typing(&bench), 1);
}
