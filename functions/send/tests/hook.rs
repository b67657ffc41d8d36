//! The team's own filter: its questions, what its answers do, and what happens while it gives none.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Filter, Limits, Workbench, message_to_bob};

/// The questions that a filter got.
type Asked = Arc<Mutex<Vec<Value>>>;

/// A filter that gives this answer, or none.
fn answering(answer: Option<Value>) -> (Filter, Asked) {
    let asked = Asked::default();
    let questions = Arc::clone(&asked);
    let filter: Filter = Arc::new(move |question| {
        questions.lock().unwrap().push(question);
        let answer = answer.clone().ok_or_else(|| "it is dead".to_owned());
        Box::pin(async { answer })
    });
    (filter, asked)
}

fn count(asked: &Asked) -> usize {
    asked.lock().unwrap().len()
}

fn send(key: &str, body: &str) -> Value {
    json!({"action": "send", "to": "bob", "client_msg_id": key, "kind": "text", "body": body})
}

#[tokio::test]
async fn a_refused_message_leaves_nothing_and_the_reason_reaches_its_author() {
    let (filter, asked) = answering(Some(json!({"allow": false, "reason": "no phone numbers"})));
    let bench = Workbench::filtered(filter, true);
    let answer = bench.run("alice", send("m1", "call 555")).await;
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["reason"]), (&json!("rejected"), &json!("no phone numbers")));
    assert_eq!(error["retryable"], false);
    assert!(bench.aws.rows("MessagesTable").is_empty() && bench.aws.rows("IdempotencyTable").is_empty());
    let question = &asked.lock().unwrap()[0];
    let conversation = &question["conversation"];
    assert_eq!(
        (&question["v"], &question["action"], &question["user_id"]),
        (&json!(1), &json!("send"), &json!("alice"))
    );
    assert_eq!((&conversation["kind"], &conversation["peer_id"]), (&json!("direct"), &json!("bob")));
    assert!(conversation["conversation_id"].as_str().unwrap().starts_with("dm_"));
    assert_eq!(question["message"], json!({"kind": "text", "body": "call 555"}));
}

#[tokio::test]
async fn a_rewritten_message_is_stored_told_and_returned_and_a_repetition_is_the_same() {
    let (filter, asked) = answering(Some(json!({"allow": true, "set": {"body": "call ***"}})));
    let bench = Workbench::filtered(filter, true);
    bench.connected("bob").await;
    let result = bench.ok("alice", send("m1", "call 555")).await;
    assert_eq!((&result["message"]["body"], &result["duplicate"]), (&json!("call ***"), &json!(false)));
    assert_eq!(bench.aws.frames("bob=")[0]["messages"][0]["body"], "call ***");
    assert_eq!(bench.row("bob")["last_preview"], "call ***");
    let again = bench.ok("alice", send("m1", "call 555")).await;
    assert_eq!((&again["duplicate"], &again["message"]["body"]), (&json!(true), &json!("call ***")));
    assert_eq!(count(&asked), 1, "what is stored is not judged again");
    assert_eq!(bench.refused("alice", send("m1", "call ***")).await, "id_reused", "that is not what the user wrote");
}

#[tokio::test]
async fn an_allowed_message_is_returned_as_ever() {
    let (filter, asked) = answering(Some(json!({"allow": true})));
    let bench = Workbench::filtered(filter, true);
    let result = bench.ok("alice", message_to_bob("m1")).await;
    assert_eq!((result.get("message"), count(&asked)), (None, 1));
    let edit = json!({"action": "edit", "conversation_id": result["conversation_id"], "seq": 1, "client_msg_id": "e1", "body": "ho"});
    assert_eq!(bench.ok("alice", edit).await.get("message"), None);
    let question = asked.lock().unwrap()[1].clone();
    assert_eq!((&question["action"], &question["seq"]), (&json!("edit"), &json!(1)));
    assert_eq!(question["message"], json!({"kind": "text", "body": "ho"}));
}

#[tokio::test]
async fn a_rewritten_edit_is_returned() {
    let (filter, _) = answering(Some(json!({"allow": true, "set": {"body": "***"}})));
    let bench = Workbench::filtered(filter, true);
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].take();
    let edit = json!({"action": "edit", "conversation_id": id, "seq": 1, "client_msg_id": "e1", "body": "555"});
    let result = bench.ok("alice", edit.clone()).await;
    assert_eq!((&result["message"]["body"], &result["message"]["kind"]), (&json!("***"), &json!("edit")));
    assert_eq!(bench.aws.rows("MessagesTable").iter().find(|row| row["seq"] == 1).unwrap()["body"], "***");
    assert_eq!(bench.ok("alice", edit).await["duplicate"], true);
}

#[tokio::test]
async fn nothing_is_asked_for_those_who_may_not_write_and_for_what_the_server_cannot_read() {
    let (filter, asked) = answering(Some(json!({"allow": false})));
    let bench = Workbench::filtered(filter, true);
    bench.ok("bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    assert_eq!(bench.refused("alice", send("m1", "hi")).await, "forbidden");
    let sealed =
        json!({"action": "send", "to": "carol", "client_msg_id": "m2", "kind": "sealed", "epoch": 1, "body": "aGk="});
    assert_eq!(bench.refused("alice", sealed).await, "stale_epoch");
    let told = bench
        .started()
        .admin(json!({"op": "send", "as": "@orders", "to": "bob", "client_msg_id": "m3", "kind": "text", "body": "hi"}))
        .await;
    assert_eq!(told["result"]["seq"], 1);
    assert_eq!(count(&asked), 0);
}

#[tokio::test]
async fn a_filter_that_is_dead_stops_messages_only_if_it_is_closed() {
    for (is_open, code) in [(true, None), (false, Some("unavailable"))] {
        let (filter, _) = answering(None);
        let bench = Workbench::filtered(filter, is_open);
        let answer = bench.run("alice", send("m1", "hi")).await;
        assert_eq!(answer["error"]["code"].as_str(), code, "{answer}");
        assert_eq!(bench.aws.rows("MessagesTable").len(), usize::from(is_open));
    }
}

#[tokio::test]
async fn an_answer_that_no_user_could_have_sent_is_none() {
    let (filter, _) = answering(Some(json!({"allow": true, "set": {"body": "a".repeat(20_000)}})));
    let bench = Workbench::filtered(filter, false);
    assert_eq!(bench.refused("alice", send("m1", "hi")).await, "unavailable");
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_stalls_holds_five_messages_and_then_one_in_ten_seconds() {
    let asked = Asked::default();
    let questions = Arc::clone(&asked);
    let filter: Filter = Arc::new(move |question| {
        questions.lock().unwrap().push(question);
        Box::pin(std::future::pending())
    });
    let bench = Workbench::filtered(filter, true);
    let functions = bench.started();
    for number in 0..8 {
        functions.ok("alice", send(&format!("m{number}"), "hi")).await;
    }
    assert_eq!(count(&asked), 5);
    tokio::time::sleep(Duration::from_secs(11)).await;
    for number in 8..12 {
        functions.ok("alice", send(&format!("m{number}"), "hi")).await;
    }
    assert_eq!(count(&asked), 6, "one question after the pause, and another pause");
}

#[tokio::test(start_paused = true)]
async fn after_a_slow_answer_the_row_is_read_again() {
    let slow: Filter = Arc::new(|_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(json!({"allow": true}))
        })
    });
    let bench = Workbench::filtered(slow, true);
    bench.conversation(1).await;
    bench.ok("alice", send("n1", "hi")).await;
    let calls = bench.operations();
    assert_eq!(calls[..4], ["GetItem", "GetItem", "GetItem", "TransactWriteItems"], "{calls:?}");
}

#[tokio::test]
async fn groups_and_their_titles_are_asked_about() {
    let (filter, asked) = answering(Some(json!({"allow": true})));
    let bench = Workbench::filtered(filter, true);
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Book club", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let say = json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi", "mentions": ["bob"]});
    bench.ok("alice", say).await;
    bench
        .ok("alice", json!({"action": "update", "conversation_id": group, "client_msg_id": "u1", "title": "Books"}))
        .await;
    bench
        .ok("alice", json!({"action": "update", "conversation_id": group, "client_msg_id": "u2", "post": "admins"}))
        .await;
    bench
        .ok("alice", json!({"action": "add", "conversation_id": group, "client_msg_id": "a1", "members": ["carol"]}))
        .await;
    let asked = asked.lock().unwrap();
    let said: Vec<_> = asked
        .iter()
        .map(|question| (&question["action"], &question["set"], &question["message"]["mentions"]))
        .collect();
    let (none, title, mentions) = (Value::Null, json!({"title": "Book club"}), json!(["bob"]));
    let (create, send, update, new) = (json!("create"), json!("send"), json!("update"), json!({"title": "Books"}));
    assert_eq!(said, [(&create, &title, &none), (&send, &none, &mentions), (&update, &new, &none)]);
}

#[tokio::test]
async fn a_group_with_a_refused_title_is_not_made_and_a_rewritten_message_goes_to_its_members() {
    let (filter, _) = answering(Some(json!({"allow": false, "reason": "no"})));
    let bench = Workbench::filtered(filter, true);
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Book club", "members": ["bob"]});
    assert_eq!(bench.refused("alice", create).await, "rejected");
    assert!(bench.aws.rows("ConversationsTable").is_empty());

    let (filter, _) = answering(Some(json!({"allow": true, "set": {"body": "***"}})));
    let bench = Workbench::filtered(filter, true);
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Book club", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    bench.connected("bob").await;
    let say = json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "555"});
    assert_eq!(bench.ok("alice", say).await["message"]["body"], "***");
    assert_eq!(bench.aws.frames("bob=").last().unwrap()["messages"][0]["body"], "***");
}

#[tokio::test]
async fn without_a_filter_nothing_more_is_read() {
    let bench = Workbench::limited(Limits::default());
    bench.conversation(1).await;
    bench.ok("alice", send("n1", "hi")).await;
    assert_eq!(bench.operations()[..2], ["GetItem", "TransactWriteItems"]);
}

#[tokio::test]
async fn a_user_asks_for_a_name_and_the_operator_does_not() {
    let (filter, asked) = answering(Some(json!({"allow": false, "reason": "no links", "set": {"body": "x"}})));
    let bench = Workbench::filtered(filter, true);
    let name = json!({"action": "profile", "set": {"name": "https://x.test"}});
    let answer = bench.run("alice", name).await;
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["reason"]),
        (&json!("rejected"), &json!("no links")),
        "{answer}"
    );
    let question = json!({"v": 1, "action": "profile", "user_id": "alice", "set": {"name": "https://x.test"}});
    assert_eq!(*asked.lock().unwrap(), [question]);
    assert!(bench.aws.rows("ConversationsTable").is_empty());
    let set = json!({"op": "profile", "user_id": "alice", "set": {"name": "Alice"}});
    assert!(bench.started().admin(set).await["result"]["version"].is_u64());
    assert_eq!(count(&asked), 1);

    let (filter, _) = answering(Some(json!({"allow": true, "set": {"body": "x"}})));
    let bench = Workbench::filtered(filter, true);
    bench.ok("alice", json!({"action": "profile", "set": {"name": "Alice", "data": null}})).await;
}
