//! `admin`, asked by a team's own server: what a service does and has answered, and what an operator deletes.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Workbench, message_to_bob};

async fn admin(bench: &Workbench, request: Value) -> Value {
    bench.started().admin(request).await
}

async fn ok(bench: &Workbench, request: Value) -> Value {
    let mut answer = admin(bench, request.clone()).await;
    assert!(answer["result"].is_object(), "{request}: {answer}");
    answer["result"].take()
}

async fn refused(bench: &Workbench, request: Value) -> String {
    let answer = admin(bench, request.clone()).await;
    answer["error"]["code"].as_str().unwrap_or_else(|| panic!("{request}: {answer}")).to_owned()
}

fn send(to: &str, id: &str) -> Value {
    json!({"op": "send", "as": "@orders", "to": to, "client_msg_id": id, "kind": "text", "body": "on its way"})
}

fn about(group: &Value, op: &str, id: &str, more: &Value) -> Value {
    let mut request = json!({"op": op, "as": "@orders", "conversation_id": group, "client_msg_id": id});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

#[tokio::test]
async fn a_service_sends_and_is_answered_as_a_user_is() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let sent = ok(&bench, send("bob", "m1")).await;
    assert_eq!((&sent["seq"], &sent["duplicate"]), (&json!(1), &json!(false)));
    assert_eq!(bench.posted("bob"), ["messages.new"]);
    assert_eq!(ok(&bench, send("bob", "m1")).await["duplicate"], true);
    // The queue and this function are one service: what one has sent, the other knows.
    let queued = json!({"to": "bob", "from": "@orders", "client_msg_id": "m1", "kind": "text", "body": "on its way"});
    assert!(bench.ingest(&[("bob", queued)]).await.is_empty());
    assert_eq!(bench.aws.rows("MessagesTable").len(), 1);
    let mut other = send("bob", "m1");
    other["body"] = json!("never");
    assert_eq!(refused(&bench, other).await, "id_reused");
}

#[tokio::test]
async fn a_text_that_grows_is_sent_and_not_stored_and_five_in_a_second() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let started = bench.started();
    let typing = async |to: &str, text: &str| {
        let answer = started.admin(json!({"op": "typing", "as": "@orders", "to": to, "text": text})).await;
        assert_eq!(answer, json!({"result": {}}), "{to}");
    };
    let texts = || {
        let of_typing = |frame: Value| (frame["type"] == "typing").then(|| frame["text"].clone());
        bench.aws.frames("bob=").into_iter().filter_map(of_typing).collect::<Vec<_>>()
    };
    // Without a conversation nothing happens.
    typing("bob", "Your").await;
    assert_eq!(texts(), [""; 0]);
    ok(&bench, send("bob", "m1")).await;
    let rows = || ["MessagesTable", "InboxTable"].map(|table| bench.aws.rows(table));
    let before = rows();
    for (after_ms, text) in [(200, "Your"), (199, "Your or"), (1, "Your order"), (0, "Your order is")] {
        bench.clock.advance(Duration::from_millis(after_ms));
        typing("bob", text).await;
    }
    assert_eq!(texts(), ["Your", "Your order"]);
    assert_eq!(rows(), before);
    bench.clock.advance(Duration::from_millis(200));
    bench.operations();
    typing("bob", &"x".repeat(16_384)).await;
    assert_eq!(bench.operations(), ["GetItem", "Query"]);
    typing("@shop", "no user").await;
}

#[tokio::test]
async fn a_text_that_grows_goes_where_the_service_may_write() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let create =
        json!({"op": "create_group", "as": "@orders", "client_msg_id": "g", "title": "42", "members": ["bob"]});
    let group = ok(&bench, create).await["conversation_id"].clone();
    let direct = ok(&bench, send("bob", "m1")).await["conversation_id"].clone();
    let typing = |service: &str, conversation: &Value, text: &str| json!({"op": "typing", "as": service, "conversation_id": conversation, "text": text});
    assert_eq!(ok(&bench, typing("@orders", &group, "A lamp")).await, json!({}));
    let frame = bench.aws.frames("bob=").pop().unwrap();
    assert_eq!((&frame["user_id"], &frame["text"]), (&json!("@orders"), &json!("A lamp")));
    assert_eq!(ok(&bench, typing("@orders", &json!("gr_nothing"), "A lamp")).await, json!({}));
    for (request, code) in [
        (typing("@shop", &group, "A lamp"), "not_member"),
        (typing("@orders", &direct, "A lamp"), "not_member"),
        (typing("@orders", &json!("ch_x"), "A lamp"), "bad_request"),
        (typing("bob", &group, "A lamp"), "bad_request"),
        (typing("@orders", &group, &"x".repeat(16_385)), "too_large"),
        (json!({"op": "typing", "as": "@orders", "to": "bob"}), "bad_request"),
        (json!({"op": "typing", "as": "@orders", "text": "A lamp"}), "bad_request"),
    ] {
        assert_eq!(refused(&bench, request).await, code);
    }
    assert_eq!(bench.aws.frames("bob=").iter().filter(|frame| frame["type"] == "typing").count(), 1);
}

#[tokio::test]
async fn a_users_typing_has_no_text() {
    let bench = Workbench::default();
    let conversation = bench.conversation(1).await;
    bench.connected("bob").await;
    let frame = json!({"action": "typing", "conversation_id": conversation, "text": "not filtered"});
    bench.handle("typing", testkit::message("alice", &frame.to_string())).await.unwrap();
    let frames = bench.aws.frames("bob=");
    let typing = frames.iter().find(|frame| frame["type"] == "typing").unwrap();
    assert_eq!(typing.get("text"), None);
}

#[tokio::test]
async fn only_a_service_is_spoken_for_and_an_error_names_the_field() {
    let bench = Workbench::default();
    for (request, names) in [
        (json!({"op": "send"}), "as: "),
        (json!({"op": "send", "as": "alice"}), "as: "),
        (json!({"op": "add", "as": "@"}), "as: "),
        (json!({"op": "send", "as": "@orders", "to": "bob"}), "client_msg_id: is missing"),
        (json!({"op": "send", "as": "@orders", "action": "delete", "to": "bob"}), "client_msg_id: is missing"),
        (send("@shop", "m1"), "to: must be a user"),
        (json!({"op": "create_group", "as": "@orders", "client_msg_id": "g"}), "title: is missing"),
        (json!({"op": "delete_message", "conversation_id": "dm_x"}), "seq"),
        (json!({"op": "delete_message", "conversation_id": "dm_x", "seq": 1, "as": "@orders"}), "as"),
    ] {
        let error = admin(&bench, request.clone()).await["error"].clone();
        assert_eq!(error["code"], "bad_request", "{request}");
        assert!(error["message"].as_str().unwrap().contains(names), "{request}: {error}");
    }
    assert!(bench.operations().is_empty());
}

#[tokio::test]
async fn a_service_owns_the_group_that_it_made_and_has_no_view_of_it() {
    let bench = Workbench::default();
    let create =
        json!({"op": "create_group", "as": "@orders", "client_msg_id": "g1", "title": "Order 7", "members": ["bob"]});
    let made = ok(&bench, create.clone()).await;
    let group = &made["conversation_id"];
    assert_eq!(ok(&bench, create).await["duplicate"], true);
    let members = bench.ok("bob", json!({"action": "members", "conversation_id": group})).await;
    assert_eq!(members["members"][0], json!({"user_id": "@orders", "role": "owner", "joined_seq": 1}));
    let added = ok(&bench, about(group, "add", "a1", &json!({"members": ["carol", "bob"]}))).await;
    assert_eq!((&added["added"], &added["already"], &added["seq"]), (&json!(["carol"]), &json!(["bob"]), &json!(2)));
    let nobody = ok(&bench, about(group, "add", "a2", &json!({"members": ["carol"]}))).await;
    assert_eq!(nobody, json!({"added": [], "already": ["carol"]}));
    ok(&bench, about(group, "send", "m1", &json!({"kind": "text", "body": "hi", "mentions": ["*"]}))).await;
    ok(&bench, about(group, "remove", "x1", &json!({"user_id": "carol"}))).await;
    let users: Vec<_> = bench.aws.rows("InboxTable").iter().map(|row| row["user_id"].clone()).collect();
    assert!(!users.contains(&json!("@orders")), "{users:?}");
    let row = bench.row("bob");
    assert_eq!((&row["last_seq"], &row["unread"], &row["mentions"]), (&json!(4), &json!(1), &json!(1)));
    // Receipts are requests of users.
    let receipts = bench.ok("bob", json!({"action": "receipts", "conversation_id": group})).await;
    assert_eq!((&receipts["members"], &receipts["read_seq"]), (&json!([]), &json!(4)));
    bench.ok("bob", testkit::up_to("read", group, 3)).await;
    assert!(bench.fanout().await.as_array().unwrap().is_empty());
    // Bob may do there what a member may.
    let say =
        json!({"action": "send", "conversation_id": group, "client_msg_id": "b1", "kind": "text", "body": "thanks"});
    assert_eq!(bench.ok("bob", say).await["seq"], 5);
}

#[tokio::test]
async fn a_service_writes_in_no_group_that_it_is_not_a_member_of() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "g1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].clone();
    for request in [
        about(&group, "send", "m1", &json!({"kind": "text", "body": "hi"})),
        about(&group, "add", "a1", &json!({"members": ["carol"]})),
        about(&group, "remove", "x1", &json!({"user_id": "bob"})),
        about(&json!("dm_x"), "send", "m1", &json!({"kind": "text", "body": "hi"})),
    ] {
        assert_eq!(refused(&bench, request).await, "not_member");
    }
}

fn delete(conversation: &Value, seq: u64) -> Value {
    json!({"op": "delete_message", "conversation_id": conversation, "seq": seq})
}

/// Returns the message in each user's history.
async fn shown(bench: &Workbench, user: &str, conversation: &Value, seq: usize) -> Value {
    let history = bench.ok(user, json!({"action": "history", "conversation_id": conversation})).await;
    history["messages"][seq - 1].clone()
}

#[tokio::test]
async fn an_operator_deletes_what_a_user_wrote_to_another() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    bench.connected("bob").await;
    let conversation = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    let deleted = ok(&bench, delete(&conversation, 1)).await;
    assert_eq!((&deleted["seq"], &deleted["duplicate"]), (&json!(2), &json!(false)));
    for user in ["alice", "bob"] {
        let message = shown(&bench, user, &conversation, 1).await;
        assert_eq!((&message["body"], &message["deleted_by"]), (&json!(""), &json!("@system")), "{user}");
        assert_eq!(bench.posted(user).last().unwrap(), "messages.new", "{user}");
    }
    assert_eq!(bench.row("bob")["unread"], 0);
    assert_eq!(bench.aws.rows("InboxTable").len(), 2);
    assert_eq!(bench.aws.rows("AuditTable")[0]["body"], "hi", "which the operator can look up");
    assert_eq!(ok(&bench, delete(&conversation, 1)).await["duplicate"], true);
    assert_eq!(refused(&bench, delete(&conversation, 2)).await, "gone");
    assert_eq!(refused(&bench, delete(&conversation, 9)).await, "gone");
    assert_eq!(refused(&bench, delete(&json!("dm_nowhere"), 1)).await, "gone");
}

#[tokio::test]
async fn an_operator_deletes_what_a_service_wrote() {
    let bench = Workbench::default();
    let conversation = ok(&bench, send("bob", "m1")).await["conversation_id"].clone();
    ok(&bench, send("bob", "m2")).await;
    ok(&bench, delete(&conversation, 2)).await;
    assert_eq!(shown(&bench, "bob", &conversation, 2).await["body"], "");
    assert_eq!(bench.aws.rows("InboxTable").len(), 1);
    assert_eq!(bench.row("bob")["unread"], 1);
    assert_eq!(ok(&bench, send("bob", "m3")).await["seq"], 4);
}

#[tokio::test]
async fn no_service_takes_the_key_of_an_operators_delete() {
    let bench = Workbench::default();
    let mut phish = send("bob", "m1");
    phish["as"] = json!("@system");
    let conversation = ok(&bench, phish.clone()).await["conversation_id"].clone();
    phish["client_msg_id"] = json!("operator:delete:1");
    assert_eq!(refused(&bench, phish).await, "bad_request");
    let queued = json!({"to": "bob", "client_msg_id": "operator:delete:1", "kind": "text", "body": "not this one"});
    assert!(bench.ingest(&[("bob", queued)]).await.is_empty());
    let [reason, detail, _] = &bench.aws.dead_letters()[0];
    assert_eq!((&**reason, &**detail), ("bad_request", "client_msg_id: must not begin with operator:"));
    assert_eq!(ok(&bench, delete(&conversation, 1)).await["duplicate"], false);
    assert_eq!(shown(&bench, "bob", &conversation, 1).await["deleted_by"], "@system");
}

#[tokio::test]
async fn an_operator_deletes_in_groups_and_channels_and_needs_no_role_there() {
    let bench = Workbench::default();
    for kind in ["group", "channel"] {
        let create =
            json!({"action": "create", "kind": kind, "client_msg_id": kind, "title": "Trip", "members": ["bob"]});
        let id = bench.ok("alice", create).await["conversation_id"].clone();
        let say = json!({"action": "send", "conversation_id": id, "client_msg_id": "m1", "kind": "text", "body": "hi"});
        bench.ok("alice", say).await;
        assert_eq!(ok(&bench, delete(&id, 2)).await["seq"], 3, "{kind}");
        assert_eq!(ok(&bench, delete(&id, 2)).await["duplicate"], true, "{kind}");
        let message = shown(&bench, "bob", &id, 2).await;
        assert_eq!((&message["body"], &message["deleted_by"]), (&json!(""), &json!("@system")), "{kind}");
        assert_eq!(refused(&bench, delete(&id, 1)).await, "gone", "a system entry stays");
    }
    let listed = bench.ok("bob", json!({"action": "inbox"})).await["conversations"][0].take();
    assert_eq!((&listed["unread"], &listed["last_message"]["deleted"]), (&json!(0), &json!(true)));
}
