//! `typing` and `presence`: who sees what of whom.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Limits, Workbench, message_to_bob, up_to};

fn seeing() -> Workbench {
    Workbench::limited(Limits { presence: true, ..Limits::default() })
}

fn typing(id: &Value) -> Value {
    json!({"action": "typing", "conversation_id": id})
}

/// Sends a frame that has no reply.
async fn unanswered(bench: &Workbench, functions: &testkit::InProcess, user: &str, frame: Value) {
    let response = functions.handle("typing", testkit::message(user, &frame.to_string())).await.unwrap();
    assert_eq!((response.status_code, response.body), (200, None));
    bench.aws.assert_reads_are_consistent("ConnectionsTable");
}

fn to_alice(id: &str) -> Value {
    json!({"action": "send", "to": "alice", "client_msg_id": id, "kind": "text", "body": "hi"})
}

#[tokio::test]
async fn a_stranger_learns_ticks_but_neither_who_is_there_nor_who_writes() {
    let bench = seeing();
    let id = bench.conversation(1).await;
    bench.connected("alice").await;
    bench.connected("bob").await;
    let presence = |whom: &str| json!({"action": "presence", "user_ids": [whom]});
    // Bob's app acknowledges by itself, he looks, and begins to write.
    bench.ok("bob", up_to("read", &id, 1)).await;
    unanswered(&bench, &bench.started(), "bob", typing(&id)).await;
    bench
        .ok("bob", json!({"action": "react", "conversation_id": id, "seq": 1, "client_msg_id": "r1", "emoji": "👍"}))
        .await;
    assert_eq!(bench.posted("alice"), ["receipt.read", "messages.new"]);
    assert_eq!(bench.ok("alice", presence("bob")).await, json!({"users": []}));
    assert_eq!(bench.ok("bob", presence("alice")).await["users"][0]["online"], true, "she has written to him");
    // Once he has written, and whoever wrote last.
    bench.ok("bob", to_alice("b1")).await;
    bench.ok("alice", message_to_bob("m2")).await;
    unanswered(&bench, &bench.started(), "bob", typing(&id)).await;
    assert_eq!(bench.posted("alice").last().unwrap(), "typing");
    let at = json!("2027-01-15T08:01:00.000Z");
    let seen = &bench.ok("alice", presence("bob")).await["users"][0];
    assert_eq!((&seen["online"], &seen["last_seen_at"]), (&json!(true), &at));
}

#[tokio::test]
async fn of_a_row_from_before_only_who_wrote_last_is_known() {
    let bench = seeing();
    bench.conversation(1).await;
    bench.ok("bob", to_alice("b1")).await;
    let forget = || {
        for mut row in bench.aws.raw_rows("InboxTable") {
            let row_of = row.as_object_mut().unwrap();
            row_of.retain(|name, _| name != "wrote" && name != "peer_wrote");
            bench.aws.put_rows("InboxTable", &[row]);
        }
    };
    forget();
    let sees = async |user: &str, whom: &str| {
        let users = bench.ok(user, json!({"action": "presence", "user_ids": [whom]})).await["users"].take();
        users.as_array().unwrap().len() == 1
    };
    assert_eq!((sees("alice", "bob").await, sees("bob", "alice").await), (true, false));
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!((sees("alice", "bob").await, sees("bob", "alice").await), (false, true));
    bench.ok("bob", to_alice("b2")).await;
    assert_eq!((sees("alice", "bob").await, sees("bob", "alice").await), (true, true));
}

#[tokio::test]
async fn when_somebody_was_last_there_is_told_to_the_minute() {
    let bench = seeing();
    bench.conversation(1).await;
    bench.ok("bob", to_alice("b1")).await;
    bench.clock.advance(Duration::from_millis(40_123));
    bench.connected("bob").await;
    let users = bench.ok("alice", json!({"action": "presence", "user_ids": ["bob"]})).await["users"].take();
    let at = users[0]["last_seen_at"].as_str().unwrap();
    assert!(at.ends_with(":00.000Z"), "{at}");
}

#[tokio::test]
async fn beyond_a_block_ticks_and_typing_end_in_a_group_too() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "x", "members": ["bob", "carol"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    for user in ["alice", "bob", "carol"] {
        bench.connected(user).await;
    }
    let say = |key: &str| json!({"action": "send", "conversation_id": group, "client_msg_id": key, "kind": "text", "body": key});
    // Processes that remember to whom they have posted.
    let functions = bench.started();
    let writes = async |user: &str| {
        bench.clock.advance(Duration::from_secs(4));
        let event = testkit::message(user, &typing(&group).to_string());
        assert_eq!(functions.handle("typing", event).await.unwrap().body, None);
    };
    let told = |user: &str| bench.posted(user).iter().filter(|kind| *kind != "messages.new").count();
    // An `ack` and a `read` notify the author, with the usual calls.
    bench.ok("alice", say("a1")).await;
    functions.ok("bob", up_to("ack", &group, 2)).await;
    let made = bench.aws.operations().len();
    functions.ok("bob", up_to("read", &group, 2)).await;
    let calls = ["UpdateItem", "GetItem", "Query", "BatchGetItem", "Query", "Query"];
    assert_eq!((&bench.aws.operations()[made..], told("alice")), (&calls.map(str::to_owned)[..], 2));
    writes("bob").await;
    block(&bench, "alice", "bob", true).await;
    let before = ["alice", "bob", "carol"].map(told);
    for (author, reader, key) in [("alice", "bob", "a2"), ("bob", "alice", "b2")] {
        let seq = bench.ok(author, say(key)).await["seq"].as_u64().unwrap();
        functions.ok(reader, up_to("ack", &group, seq)).await;
        functions.ok(reader, up_to("read", &group, seq)).await;
        writes(reader).await;
    }
    assert_eq!([told("alice"), told("bob")], before[..2], "neither hears of the other");
    assert_eq!(told("carol"), before[2] + 2, "she hears of both");
    let members = async |user: &str| {
        let receipts = bench.ok(user, json!({"action": "receipts", "conversation_id": group})).await;
        let ids = receipts["members"].as_array().unwrap().iter().map(|member| member["user_id"].clone());
        (ids.collect::<Vec<_>>(), receipts["read_seq"].clone())
    };
    assert_eq!(
        (members("alice").await, members("bob").await),
        ((vec![json!("carol")], json!(0)), (vec![json!("carol")], json!(0)))
    );
    // With carol nothing has changed, for which a look at the two's rows is what it costs.
    let seq = bench.ok("carol", say("c3")).await["seq"].as_u64().unwrap();
    functions.ok("bob", up_to("ack", &group, seq)).await;
    assert_eq!(told("carol"), before[2] + 3);
    block(&bench, "alice", "bob", false).await;
    writes("bob").await;
    assert_eq!(told("alice"), before[0] + 1);
    assert_eq!(members("alice").await.0.len(), 2);
    assert!(bench.aws.rows("ConnectionsTable").iter().all(|row| row["connection_id"] != " blocks"));
}

#[tokio::test]
async fn where_it_is_unknown_whether_there_is_a_block_nothing_is_told() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "x", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    bench.connected("alice").await;
    block(&bench, "alice", "mallory", true).await;
    bench.aws.pass_next("GetItem");
    bench.aws.fail_next("GetItem", Fault::Status(500));
    let functions = bench.started();
    let response = functions.handle("typing", testkit::message("bob", &typing(&group).to_string())).await.unwrap();
    assert_eq!((response.body, bench.posted("alice").len()), (None, 0));
    bench.clock.advance(Duration::from_secs(4));
    functions.handle("typing", testkit::message("bob", &typing(&group).to_string())).await.unwrap();
    assert_eq!(bench.posted("alice"), ["typing"]);
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
    // In a large group, `typing` reaches no member.
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
    bench.ok("bob", to_alice("b1")).await;
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
    bench.ok("bob", to_alice("b1")).await;
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
    // The last-seen row is no connection. The server posts nothing to it, and finds the next connection.
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
    bench.aws.fail_next("UpdateItem", Fault::Status(500));
    assert_eq!(bench.handle("connect", bench.event("connect", "bob")).await.unwrap().status_code, 200);
    bench.aws.fail_next("UpdateItem", Fault::Status(500));
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

fn watch(user: &str) -> Value {
    json!({"action": "presence", "user_ids": [user], "watch": true})
}

/// The presence events that a user's connection got, each as whether bob is online.
fn told(bench: &Workbench, user: &str) -> Vec<bool> {
    let frames = bench.aws.frames(&format!("{user}="));
    frames.iter().filter(|frame| frame["type"] == "presence").map(|frame| frame["online"].as_bool().unwrap()).collect()
}

/// Alice is connected, and may see bob, who has been here and has left.
async fn alice_without_bob() -> Workbench {
    let bench = seeing();
    bench.conversation(1).await;
    bench.ok("bob", to_alice("b1")).await;
    bench.connected("bob").await;
    leaves(&bench, "bob", "bob=").await;
    bench.connected("alice").await;
    bench
}

async fn leaves(bench: &Workbench, user: &str, connection: &str) {
    let mut event = bench.event("disconnect", user);
    event.payload.request_context.connection_id = Some(connection.to_owned());
    assert_eq!(bench.handle("disconnect", event).await.unwrap().status_code, 200);
}

#[tokio::test]
async fn who_watches_is_told_of_the_first_connect_and_of_the_last_disconnect() {
    let bench = alice_without_bob().await;
    let answer = bench.ok("alice", watch("bob")).await;
    assert_eq!((&answer["watched"], &answer["users"][0]["online"]), (&json!(["bob"]), &json!(false)));
    bench.connected("bob").await;
    let frame = bench.aws.frames("alice=").pop().unwrap();
    let at = "2027-01-15T08:02:00.000Z";
    assert_eq!(frame, json!({"type": "presence", "user_id": "bob", "online": true, "last_seen_at": at}));
    bench.clock.advance(Duration::from_secs(20));
    let second = bench.started();
    second.connect_at("bob", "bob=2", "tablet").await;
    leaves(&bench, "bob", "bob=").await;
    assert_eq!(told(&bench, "alice"), [true], "he is still there");
    leaves(&bench, "bob", "bob=2").await;
    assert_eq!(told(&bench, "alice"), [true, false]);
    // The same request soon after writes nothing, and one in the other half of the time renews the watch.
    bench.operations();
    bench.ok("alice", watch("bob")).await;
    assert!(!bench.operations().contains(&"UpdateItem".to_owned()));
    bench.clock.advance(Duration::from_mins(9));
    bench.ok("alice", watch("bob")).await;
    bench.clock.advance(Duration::from_mins(9));
    bench.connected("bob").await;
    assert_eq!(told(&bench, "alice"), [true, false, true]);
    bench.clock.advance(Duration::from_mins(1));
    leaves(&bench, "bob", "bob=").await;
    assert_eq!(told(&bench, "alice"), [true, false, true], "ten minutes have passed");
}

#[tokio::test]
async fn beyond_a_block_and_as_a_stranger_nobody_watches() {
    let bench = seeing();
    bench.conversation(1).await;
    for user in ["bob", "alice"] {
        bench.connected(user).await;
    }
    assert_eq!(bench.ok("alice", watch("bob")).await, json!({"users": []}), "he has not written to her");
    bench.ok("bob", to_alice("b1")).await;
    assert_eq!(bench.ok("alice", watch("bob")).await["watched"], json!(["bob"]));
    for (blocked, expected) in [(true, vec![]), (false, vec![false])] {
        block(&bench, "bob", "alice", blocked).await;
        leaves(&bench, "bob", "bob=").await;
        assert_eq!(told(&bench, "alice"), expected);
    }
}

#[tokio::test]
async fn a_ninth_connection_finds_no_room_and_others_pay_nothing() {
    let bench = seeing();
    bench.connected("bob").await;
    let plain = bench.operations();
    for number in 0..9 {
        let (user, id) = (format!("u{number}"), format!("b{number}"));
        bench.ok("bob", json!({"action": "send", "to": user, "client_msg_id": id, "kind": "text", "body": "hi"})).await;
        let watched = bench.ok(&user, watch("bob")).await["watched"].take();
        assert_eq!(watched, if number < 8 { json!(["bob"]) } else { Value::Null }, "{number}");
    }
    // Two requests at the same time: one of them writes nothing, and is not in `watched`.
    bench.clock.advance(Duration::from_mins(10));
    let hold = bench.aws.hold_next("UpdateItem");
    let (first, second) = tokio::join!(bench.ok("u0", watch("bob")), async {
        hold.reached().await;
        let second = bench.ok("u1", watch("bob")).await;
        hold.release();
        second
    });
    assert_eq!((first.get("watched"), &second["watched"]), (None, &json!(["bob"])));
    assert_eq!(first["users"][0]["online"], true);
    let unwatched = seeing();
    unwatched.connected("carol").await;
    assert_eq!(unwatched.operations(), plain, "nobody watches carol");
    leaves(&unwatched, "carol", "carol=").await;
    assert_eq!(unwatched.operations(), ["DeleteItem", "UpdateItem"]);
}

#[tokio::test]
async fn who_comes_while_the_watch_is_written_is_in_the_reply() {
    let bench = alice_without_bob().await;
    bench.clock.advance(Duration::from_secs(1));
    let hold = bench.aws.hold_next("UpdateItem");
    let (answer, ()) = tokio::join!(bench.ok("alice", watch("bob")), async {
        hold.reached().await;
        bench.connected("bob").await;
        hold.release();
    });
    assert_eq!((&answer["users"][0]["online"], told(&bench, "alice")), (&json!(true), vec![]));
}

#[tokio::test]
async fn an_event_that_another_one_overtakes_is_followed_by_the_current_one() {
    let bench = seeing();
    bench.conversation(1).await;
    bench.ok("bob", to_alice("b1")).await;
    for user in ["bob", "alice"] {
        bench.connected(user).await;
    }
    bench.ok("alice", watch("bob")).await;
    bench.clock.advance(Duration::from_secs(1));
    let hold = bench.aws.hold_next("alice=");
    tokio::join!(leaves(&bench, "bob", "bob="), async {
        hold.reached().await;
        bench.started().connect_at("bob", "bob=2", "phone").await;
        hold.release();
    });
    assert_eq!(told(&bench, "alice"), [true, false, true]);
}
