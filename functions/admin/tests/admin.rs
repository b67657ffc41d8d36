//! `admin`: what it answers, what it ends, and what it never shows.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Workbench, message_to_bob, up_to};

async fn admin(bench: &Workbench, request: Value) -> Value {
    bench.started().admin(request).await
}

async fn connect(bench: &Workbench, user: &str) -> i64 {
    bench.handle("connect", bench.event("connect", user)).await.unwrap().status_code
}

fn suspend(user: &str, until: &str) -> Value {
    json!({"op": "suspend", "user_id": user, "until": until})
}

#[tokio::test]
async fn what_it_does_not_understand_it_says() {
    let bench = Workbench::default();
    for (request, names) in [
        (json!({}), "op"),
        (json!({"op": "dance"}), "create_group"),
        (json!({"op": "kick"}), "user_id"),
        (json!({"op": "kick", "user_id": "two words"}), "printable"),
        (json!({"op": "kick", "user_id": "bob", "colour": "x"}), "colour"),
        (json!({"op": "suspend", "user_id": "bob", "until": "later"}), "RFC 3339"),
        (json!({"op": "conversation", "user_ids": ["alice"]}), "2"),
    ] {
        let error = admin(&bench, request.clone()).await["error"].clone();
        assert_eq!(error["code"], "bad_request", "{request}");
        assert!(error["message"].as_str().unwrap().contains(names), "{request}: {error}");
    }
    assert!(bench.operations().is_empty());
}

#[tokio::test]
async fn entries_are_found_by_two_users_and_a_time_and_without_texts() {
    let bench = Workbench::default();
    let began = bench.clock.now();
    for number in 1..=30 {
        bench.ok("alice", message_to_bob(&format!("m{number}"))).await;
        bench.clock.advance(Duration::from_mins(1));
    }
    let found = async |request: Value| {
        let reply = admin(&bench, request).await;
        assert!(!reply.to_string().contains("body"), "{reply}");
        let entries = reply["result"]["entries"].as_array().unwrap_or_else(|| panic!("{reply}")).clone();
        let seqs: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
        assert!(entries.iter().all(|entry| entry["sender_id"] == "alice" && entry["kind"] == "text"));
        (reply["result"]["conversation_id"].clone(), seqs)
    };
    let of_two = |minutes: u64| {
        let at = began.plus(Duration::from_mins(minutes)).to_string();
        json!({"op": "find", "user_ids": ["bob", "alice"], "at": at})
    };
    // Message 16 is of minute 15. The reply begins 10 messages before it.
    let (conversation, seqs) = found(of_two(15)).await;
    assert_eq!(seqs, (6..=25).collect::<Vec<_>>());
    assert_eq!(found(of_two(0)).await.1, (1..=20).collect::<Vec<_>>());
    assert_eq!(found(of_two(99)).await.1, (21..=30).collect::<Vec<_>>());
    let mut by_id = of_two(15);
    by_id["conversation_id"] = conversation.clone();
    assert_eq!(admin(&bench, by_id.clone()).await["error"]["code"], "bad_request");
    by_id.as_object_mut().unwrap().remove("user_ids");
    assert_eq!(found(by_id).await, (conversation, seqs));
    assert_eq!(found(json!({"op": "find", "user_ids": ["bob", "eve"], "at": "2026-11-20T10:00:00Z"})).await.1, [0; 0]);
    let bare = admin(&bench, json!({"op": "find", "at": "2026-11-20T10:00:00Z"})).await;
    assert_eq!(bare["error"]["message"], "user_ids: must be set, or conversation_id instead");
}

#[tokio::test]
async fn an_op_that_there_is_not_is_answered_with_all_that_there_are() {
    let bench = Workbench::default();
    for request in [json!({"op": "ban", "user_id": "bob"}), json!({"user_id": "bob"}), json!({"op": 7}), json!(null)] {
        let error = admin(&bench, request.clone()).await["error"].clone();
        let text = error["message"].as_str().unwrap();
        let listed = text.strip_prefix("op: must be one of ").unwrap_or_else(|| panic!("{request}: {text}"));
        for op in listed.split(", ") {
            let known = admin(&bench, json!({ "op": op })).await["error"].clone();
            assert!(!known["message"].as_str().unwrap_or_default().starts_with("op: "), "{op}: {known}");
        }
        assert!(["kick", "repair", "send", "create_group", "add", "remove"].iter().all(|op| listed.contains(op)));
    }
}

#[tokio::test]
async fn both_sdks_of_servers_have_every_op() {
    let error = admin(&Workbench::default(), json!({})).await["error"].clone();
    let text = error["message"].as_str().unwrap();
    for (folder, ending) in [("server-node/src", "ts"), ("server-python/src/pigeonhole_server", "py")] {
        let file = |name| format!("{}/../../clients/{folder}/{name}.{ending}", env!("CARGO_MANIFEST_DIR"));
        let source = ["admin", "service"].map(|name| std::fs::read_to_string(file(name)).unwrap()).concat();
        for op in text.strip_prefix("op: must be one of ").unwrap().split(", ") {
            assert!(source.contains(&format!("\"{op}\"")) || source.contains(&format!("  {op}: [")), "{folder}: {op}");
        }
    }
}

#[tokio::test]
async fn what_stands_in_the_logs_for_an_id() {
    let bench = Workbench::default();
    let logged_as = lambda::LogKey::new("key-of-tests").logged_as("bob");
    let answer = admin(&bench, json!({"op": "logged_as", "id": "bob"})).await;
    assert_eq!(answer, json!({"result": {"logged_as": logged_as}}));
    assert!(bench.operations().is_empty());
}

#[tokio::test]
async fn a_kick_closes_every_socket_and_the_user_may_come_back() {
    let bench = Workbench::default();
    for connection in ["a=", "b=", "c="] {
        bench.started().connected_at("bob", connection, "one-device").await;
    }
    assert_eq!(admin(&bench, json!({"op": "kick", "user_id": "bob"})).await, json!({"result": {"closed": 3}}));
    let mut closed = bench.aws.closed();
    closed.sort();
    assert_eq!(closed, ["a=", "b=", "c="]);
    assert_eq!(bench.aws.rows("ConnectionsTable"), Vec::<Value>::new());
    assert_eq!(connect(&bench, "bob").await, 200);
}

#[tokio::test]
async fn a_socket_that_was_not_closed_is_no_success() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    bench.aws.fail_next("DeleteConnection", Fault::Status(500));
    assert_eq!(admin(&bench, json!({"op": "kick", "user_id": "bob"})).await["error"]["code"], "unavailable");
    assert_eq!(admin(&bench, json!({"op": "kick", "user_id": "bob"})).await["result"]["closed"], 1);
}

#[tokio::test]
async fn who_is_suspended_is_closed_out_until_then() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let until = bench.clock.now().plus(Duration::from_mins(10)).to_string();
    assert_eq!(admin(&bench, suspend("bob", &until)).await, json!({"result": {"closed": 1}}));
    assert_eq!(connect(&bench, "bob").await, 403);
    assert_eq!(bench.aws.rows("ConnectionsTable").len(), 1, "nothing of who was refused stays");
    let looked = admin(&bench, json!({"op": "connections", "user_id": "bob"})).await;
    assert_eq!(looked, json!({"result": {"connections": [], "suspended_until": until}}));
    bench.clock.advance(Duration::from_mins(10));
    assert_eq!(connect(&bench, "bob").await, 200);
}

#[tokio::test]
async fn a_suspension_can_be_taken_back() {
    let bench = Workbench::default();
    admin(&bench, suspend("bob", "2099-01-01T00:00:00Z")).await;
    assert_eq!(connect(&bench, "bob").await, 403);
    assert_eq!(admin(&bench, json!({"op": "unsuspend", "user_id": "bob"})).await, json!({"result": {}}));
    assert_eq!(connect(&bench, "bob").await, 200);
}

#[tokio::test]
async fn a_suspended_user_who_tries_again_costs_one_read() {
    let bench = Workbench::default();
    let functions = bench.started();
    let connect = async |user| functions.handle("connect", bench.event("connect", user)).await.unwrap().status_code;
    functions.admin(suspend("bob", "2099-01-01T00:00:00Z")).await;
    assert_eq!(connect("bob").await, 403);
    bench.operations();
    assert_eq!(connect("bob").await, 403);
    assert_eq!(bench.operations(), ["GetItem"]);
    assert_eq!(connect("alice").await, 200);
    functions.admin(json!({"op": "unsuspend", "user_id": "bob"})).await;
    assert_eq!(connect("bob").await, 200);
}

#[tokio::test]
async fn nobody_new_writes_to_who_is_suspended_and_nothing_is_posted() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    admin(&bench, suspend("bob", "2099-01-01T00:00:00Z")).await;
    let from_carol = json!({"action": "send", "to": "bob", "client_msg_id": "c1", "kind": "text", "body": "hi"});
    assert_eq!(bench.refused("carol", from_carol.clone()).await, "forbidden");
    // A sender who knows the user continues: the message waits.
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.aws.posts("bob="), 0);
    admin(&bench, json!({"op": "unsuspend", "user_id": "bob"})).await;
    bench.ok("carol", from_carol).await;
}

#[tokio::test]
async fn a_connection_that_opens_beside_a_suspension_is_closed_or_refused() {
    // Between its row and its look at the others.
    let bench = Workbench::default();
    let look = bench.aws.hold_next("Query");
    let suspending = async {
        look.reached().await;
        let closed = admin(&bench, suspend("bob", "2099-01-01T00:00:00Z")).await;
        look.release();
        closed
    };
    let (status, told) = tokio::join!(connect(&bench, "bob"), suspending);
    // A socket that is still opening can't be closed: the operator gets an error to retry.
    assert_eq!((status, &told["error"]["code"]), (403, &json!("unavailable")));
    let again = admin(&bench, suspend("bob", "2099-01-01T00:00:00Z")).await;
    assert_eq!((&again["result"]["closed"], bench.aws.rows("ConnectionsTable").len()), (&json!(0), 1));
}

#[tokio::test]
async fn a_suspension_is_there_before_anybody_is_looked_for() {
    let bench = Workbench::default();
    let look = bench.aws.hold_next("Query");
    let connecting = async {
        look.reached().await;
        let status = connect(&bench, "bob").await;
        look.release();
        status
    };
    let (suspended, status) = tokio::join!(admin(&bench, suspend("bob", "2099-01-01T00:00:00Z")), connecting);
    assert_eq!((suspended, status), (json!({"result": {"closed": 0}}), 403));
}

#[tokio::test]
async fn nothing_is_posted_to_a_socket_that_could_not_be_closed() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    bench.connected("bob").await;
    bench.aws.fail_next("DeleteConnection", Fault::Status(500));
    let told = admin(&bench, suspend("bob", "2099-01-01T00:00:00Z")).await;
    assert_eq!(told["error"]["code"], "unavailable");
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.aws.posts("bob="), 0);
}

#[tokio::test]
async fn it_shows_where_somebody_is_connected() {
    let bench = Workbench::default();
    bench.started().connected_at("bob", "a=", "phone").await;
    let looked = admin(&bench, json!({"op": "connections", "user_id": "bob"})).await["result"].clone();
    let connection = &looked["connections"][0];
    assert_eq!((&connection["connection_id"], &connection["device_id"]), (&json!("a="), &json!("phone")));
    assert!(connection["connected_at"].is_string() && connection["ends_at"].is_string());
    assert_eq!(looked["suspended_until"], Value::Null);
}

#[tokio::test]
async fn it_shows_what_waits_and_how_far_both_have_come_and_no_word_of_it() {
    let bench = Workbench::default();
    let id = bench.conversation(3).await;
    bench.ok("bob", up_to("ack", &id, 2)).await;
    let acked_at = bench.clock.now().to_string();
    bench.clock.advance(Duration::from_secs(5));
    bench.ok("bob", up_to("read", &id, 1)).await;
    let read_at = bench.clock.now().to_string();
    let pending = admin(&bench, json!({"op": "pending", "user_id": "bob"})).await;
    let one = &pending["result"]["conversations"][0];
    assert_eq!((&one["conversation_id"], &one["pending_from"], &one["last_seq"]), (&id, &json!(3), &json!(3)));
    let found = admin(&bench, json!({"op": "conversation", "user_ids": ["bob", "alice"]})).await;
    assert_eq!(found["result"]["conversation_id"], id);
    let rows = found["result"]["rows"].as_array().unwrap();
    let bob = rows.iter().find(|row| row["user_id"] == "bob").unwrap();
    assert_eq!((&bob["delivered_seq"], &bob["delivered_at"]), (&json!(2), &json!(acked_at)));
    assert_eq!((&bob["read_seq"], &bob["read_at"]), (&json!(1), &json!(read_at)));
    for shown in [&pending, &found] {
        assert!(!shown.to_string().contains("\"hi\""), "{shown}");
    }
}

#[tokio::test]
async fn somebody_suspended_gets_nothing_of_a_channel_though_their_socket_could_not_be_closed() {
    let bench = Workbench::default();
    let create =
        json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": ["bob"]});
    let channel = bench.ok("alice", create).await["conversation_id"].take();
    let about = |action: &str| json!({"action": action, "conversation_id": channel});
    bench.connected("bob").await;
    bench.ok("bob", about("watch")).await;
    bench.aws.fail_always("DeleteConnection", Fault::Status(500));
    assert_eq!(admin(&bench, suspend("bob", "2099-01-01T00:00:00Z")).await["error"]["code"], "unavailable");
    let say =
        json!({"action": "send", "conversation_id": channel, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    bench.ok("alice", say).await;
    bench.fanout().await;
    assert!(bench.posted("bob").is_empty(), "{:?}", bench.posted("bob"));
    // Over the socket that is still open.
    assert_eq!(bench.ok("bob", about("watch")).await["live"], false);
    assert!(bench.aws.rows("WatchersTable").iter().all(|row| row.get("user_id").is_none()));
}
