//! The events that reach a team's own servers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use publish::{Content, Sink};
use serde_json::{Value, json};
use testkit::{Fault, InProcess, Workbench, message_to_bob};

/// The events that the queue took, in order.
fn events(bench: &Workbench) -> Vec<Value> {
    let text = |entry: &Value| entry["MessageBody"].as_str().or(entry["Detail"].as_str()).unwrap().to_owned();
    bench.aws.published().iter().map(|entry| serde_json::from_str(&text(entry)).unwrap()).collect()
}

/// Their ids, without those of conversations.
fn seqs(bench: &Workbench) -> Vec<String> {
    let seq = |event: &Value| event["id"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    events(bench).iter().map(seq).collect()
}

fn on_bus(bench: &Workbench, content: Content) -> InProcess {
    let arn = "arn:aws:events:us-east-1:000000000000:event-bus/chat".to_owned();
    bench.started().with_sink(Sink::Bus { client: bench.aws.events_client(), arn }, content)
}

#[tokio::test]
async fn each_entry_comes_as_one_event_with_the_message_as_it_is() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(2).await;
    assert_eq!(bench.publish().await, json!([]));
    let [first, _] = events(&bench).try_into().unwrap();
    let id = format!("{}:1", conversation.as_str().unwrap());
    assert_eq!(first["id"], json!(id));
    let mut message = first["message"].clone();
    let (sent_at, message_id) = (message["sent_at"].take(), message["message_id"].take());
    assert!(sent_at.is_string() && message_id.is_string());
    let about = json!({"conversation_id": conversation, "kind": "direct", "members": ["alice", "bob"]});
    let shown = json!({
        "conversation_id": conversation, "seq": 1, "message_id": null, "sender_id": "alice", "kind": "text",
        "body": "hi", "sent_at": null,
    });
    assert_eq!(message, shown);
    let event = json!({
        "v": 1, "type": "entry", "id": id, "stack": "stack-of-tests", "conversation": about, "message": first["message"],
    });
    assert_eq!(first, event);
    // A FIFO queue keeps a conversation's entries in order, and drops repetitions.
    let sent = &bench.aws.published()[0];
    assert_eq!((&sent["MessageGroupId"], &sent["MessageDeduplicationId"]), (&conversation, &json!(id)));
    // Nothing is new: no call.
    bench.aws.clear();
    assert_eq!(bench.publish().await, json!([]));
    assert_eq!(bench.aws.operations(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_deleted_by_then_has_no_text_and_an_edit_has_the_newest_one() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(2).await;
    let change = |action: &str, seq: u64, key: &str| json!({"action": action, "conversation_id": conversation, "seq": seq, "client_msg_id": key});
    for (key, body) in [("e1", "second"), ("e2", "third")] {
        let mut edit = change("edit", 1, key);
        edit["body"] = json!(body);
        bench.ok("alice", edit).await;
    }
    bench.ok("alice", change("delete", 2, "d1")).await;
    bench
        .ok(
            "bob",
            json!({"action": "react", "conversation_id": conversation, "seq": 1, "client_msg_id": "r1", "emoji": "👍"}),
        )
        .await;
    assert_eq!(bench.publish().await, json!([]));
    let messages: Vec<Value> = events(&bench).iter().map(|event| event["message"].clone()).collect();
    let said: Vec<_> =
        messages.iter().map(|message| (message["kind"].as_str().unwrap(), message["body"].as_str().unwrap())).collect();
    let wanted =
        [("text", "third"), ("text", ""), ("edit", "third"), ("edit", "third"), ("delete", ""), ("reaction", "")];
    assert_eq!(said, wanted);
    assert!(messages[1]["deleted_at"].is_string());
    assert_eq!(messages[5]["emoji"], "👍");
}

/// An edit alone in its batch: its target is read for it.
#[tokio::test]
async fn an_edit_that_comes_alone_has_its_targets_text_unless_that_is_deleted() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(2).await;
    bench.aws.news();
    for seq in [1, 2] {
        let edit = json!({"action": "edit", "conversation_id": conversation, "seq": seq, "client_msg_id": format!("e{seq}"), "body": "new"});
        bench.ok("alice", edit).await;
    }
    bench
        .ok("alice", json!({"action": "delete", "conversation_id": conversation, "seq": 2, "client_msg_id": "d"}))
        .await;
    assert_eq!(bench.publish().await, json!([]));
    let bodies: Vec<_> = events(&bench).iter().map(|event| event["message"]["body"].clone()).collect();
    assert_eq!(bodies, ["new", "", ""]);
}

#[tokio::test]
async fn entries_come_sorted_and_in_tens() {
    let bench = Workbench::publishing();
    bench.conversation(25).await;
    let [mut records, _] = bench.aws.news();
    records.reverse();
    bench.aws.clear();
    assert_eq!(bench.started().publish(records).await, json!([]));
    assert_eq!(seqs(&bench), (1..=25).map(|seq| seq.to_string()).collect::<Vec<_>>());
    let calls = bench.aws.operations();
    assert_eq!(calls, ["BatchGetItem", "BatchGetItem", "SendMessageBatch", "SendMessageBatch", "SendMessageBatch"]);
}

#[tokio::test]
async fn large_entries_share_a_call_only_as_far_as_it_takes_them() {
    let bench = Workbench::publishing();
    for number in 1..=10 {
        let mut message = message_to_bob(&format!("m{number}"));
        // Each letter is two bytes in JSON.
        message["body"] = json!("\"".repeat(12_000));
        bench.ok("alice", message).await;
    }
    bench.aws.clear();
    assert_eq!(bench.publish().await, json!([]));
    assert_eq!(seqs(&bench).len(), 10);
    assert!(bench.aws.operations().iter().filter(|call| *call == "SendMessageBatch").count() > 1);
}

#[tokio::test]
async fn a_batch_comes_again_from_the_first_record_that_was_refused() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(25).await;
    let id = |seq: u64| format!("{}:{seq}", conversation.as_str().unwrap());
    let [records, _] = bench.aws.news();
    let number = |place: usize| records[place]["dynamodb"]["SequenceNumber"].clone();
    bench.aws.refuse_events(&[&format!("{}\"", id(7)), &format!("{}\"", id(18))]);
    let on = |operation: &str| match operation {
        "PutEvents" => on_bus(&bench, Content::Full),
        _ => bench.started(),
    };
    for operation in ["SendMessageBatch", "PutEvents"] {
        let again = on(operation).publish(records.clone()).await;
        assert_eq!(again, json!([{"itemIdentifier": number(6)}]));
    }
    // The events behind it went out all the same, and come again.
    assert_eq!(bench.aws.published().len(), 2 * 23);
    bench.aws.refuse_events(&[]);
    for operation in ["SendMessageBatch", "PutEvents"] {
        bench.aws.pass_next(operation);
        bench.aws.fail_next(operation, Fault::Lost);
        let again = on(operation).publish(records.clone()).await;
        assert_eq!(again, json!([{"itemIdentifier": number(10)}]), "the second {operation}");
    }
    // If a table can't be read, all comes again.
    bench.aws.fail_next("BatchGetItem", Fault::Lost);
    assert_eq!(bench.started().publish(records.clone()).await, json!([{"itemIdentifier": number(0)}]));
}

#[tokio::test]
async fn a_bus_gets_the_type_and_with_ids_no_content() {
    let bench = Workbench::publishing();
    let mut message = message_to_bob("m1");
    (message["body"], message["data"]) = (json!("canary"), json!({"text": "canary"}));
    bench.ok("alice", message).await;
    let group = json!({"action": "create", "client_msg_id": "g", "title": "canary", "members": ["bob"]});
    let group = bench.ok("alice", group).await["conversation_id"].clone();
    let mention = json!({
        "action": "send", "conversation_id": group, "client_msg_id": "m2", "kind": "text", "body": "canary", "mentions": ["bob"],
    });
    bench.ok("alice", mention).await;
    let [records, _] = bench.aws.news();
    assert_eq!(on_bus(&bench, Content::Ids).publish(records).await, json!([]));
    for entry in bench.aws.published() {
        assert_eq!((&entry["Source"], &entry["DetailType"]), (&json!("pigeonhole"), &json!("entry")));
        assert_eq!(entry["EventBusName"], "arn:aws:events:us-east-1:000000000000:event-bus/chat");
        assert!(!entry.to_string().contains("canary"), "{entry}");
    }
    let kinds: Vec<_> = events(&bench).iter().map(|event| event["conversation"]["kind"].clone()).collect();
    let wanted: Vec<_> = events(&bench)
        .iter()
        .map(|event| if event["message"]["conversation_id"] == group { "group" } else { "direct" })
        .collect();
    assert_eq!(kinds, wanted);
    for event in events(&bench) {
        assert_eq!(event["conversation"].get("members").is_some(), event["conversation"]["kind"] == "direct");
        for field in ["body", "data", "media", "mentions", "system"] {
            assert!(event["message"].get(field).is_none(), "{field}");
        }
    }
}

#[tokio::test]
async fn services_notes_and_operators_have_their_members_too() {
    let bench = Workbench::publishing();
    bench
        .ok("alice", json!({"action": "send", "to": "alice", "client_msg_id": "n", "kind": "text", "body": "milk"}))
        .await;
    let sent = json!({"op": "send", "as": "@shop", "to": "bob", "client_msg_id": "s", "kind": "text", "body": "hi"});
    let service = bench.started().admin(sent).await["result"]["conversation_id"].clone();
    let direct = bench.conversation(1).await;
    assert_eq!(bench.publish().await, json!([]));
    for conversation in [&service, &direct] {
        let delete = json!({"op": "delete_message", "conversation_id": conversation, "seq": 1});
        assert!(bench.started().admin(delete).await["result"].is_object());
        assert_eq!(bench.publish().await, json!([]));
    }
    let members: Vec<_> = events(&bench).iter().map(|event| event["conversation"]["members"].clone()).collect();
    let (note, service, direct) = (json!(["alice"]), json!(["@shop", "bob"]), json!(["alice", "bob"]));
    for wanted in [&note, &service, &direct] {
        assert!(members[..3].contains(wanted), "{members:?}");
    }
    assert_eq!(members[3..], [service, direct]);
}

/// A row that is there when the record is read may be gone when the entry is.
#[tokio::test]
async fn what_no_longer_exists_is_passed_over_and_what_cant_be_read_is_named() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(3).await;
    let edit =
        json!({"action": "edit", "conversation_id": conversation, "seq": 2, "client_msg_id": "e", "body": "new"});
    bench.ok("alice", edit).await;
    bench.aws.remove_row("MessagesTable", &json!({"conversation_id": {"S": conversation}, "seq": {"N": "1"}}));
    let mut rows = bench.aws.raw_rows("MessagesTable");
    rows.retain(|row| row["seq"]["N"] == "2");
    rows[0]["sent_at"] = json!({"S": "later"});
    bench.aws.put_rows("MessagesTable", &rows);
    let [records, _] = bench.aws.news();
    assert_eq!(bench.started().publish(records).await, json!([]));
    assert_eq!(seqs(&bench), ["2", "3", "4"]);
    // The edit has the text of an entry that can't be read.
    for (place, seq) in [(0, 2), (2, 4)] {
        assert_eq!(events(&bench)[place]["message"], json!({"conversation_id": conversation, "seq": seq}));
    }
}

#[tokio::test]
async fn a_report_is_an_event_once() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(1).await;
    let report = json!({
        "action": "report", "conversation_id": conversation, "seqs": [1], "user_id": "alice", "reason": "spam", "note": "again",
    });
    let report_id = bench.ok("bob", report).await["report_id"].clone();
    let close = json!({"op": "report_close", "month": month(&bench), "report_id": report_id, "outcome": "warned"});
    assert_eq!(bench.started().admin(close).await, json!({"result": {}}));
    assert_eq!(bench.publish().await, json!([]));
    let [_, report] = events(&bench).try_into().unwrap();
    for (field, value) in [
        ("v", json!(1)),
        ("type", json!("report")),
        ("id", report_id.clone()),
        ("report_id", report_id),
        ("stack", json!("stack-of-tests")),
        ("reporter_id", json!("bob")),
        ("conversation_id", conversation.clone()),
        ("seqs", json!([1])),
        ("user_id", json!("alice")),
        ("reason", json!("spam")),
        ("note", json!("again")),
    ] {
        assert_eq!(report[field], value, "{field}");
    }
    assert_eq!(report["messages"][0]["body"], "hi");
    assert_eq!(bench.aws.published()[1]["MessageGroupId"], conversation);
}

#[tokio::test]
async fn a_report_with_ids_has_no_content() {
    let bench = Workbench::publishing();
    let mut message = message_to_bob("m1");
    message["body"] = json!("canary");
    let conversation = bench.ok("alice", message).await["conversation_id"].clone();
    let report = json!({
        "action": "report", "conversation_id": conversation, "seqs": [1], "user_id": "alice", "reason": "spam", "note": "canary",
    });
    let report_id = bench.ok("bob", report).await["report_id"].clone();
    let [_, records] = bench.aws.news();
    assert_eq!(on_bus(&bench, Content::Ids).publish(records).await, json!([]));
    let [report] = events(&bench).try_into().unwrap();
    assert_eq!((&report["id"], &report["seqs"]), (&report_id, &json!([1])));
    assert!(!report.to_string().contains("canary"), "{report}");
}

fn month(bench: &Workbench) -> String {
    bench.clock.now().to_string().chars().take(7).collect()
}

async fn replay(bench: &Workbench, conversation: &Value, from: u64, to: u64) -> Value {
    let replay = json!({"op": "replay", "conversation_id": conversation, "from_seq": from, "to_seq": to});
    bench.started().admin(replay).await
}

#[tokio::test]
async fn a_replay_sends_the_entries_again_step_by_step() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(190).await;
    bench.aws.news();
    assert_eq!(replay(&bench, &conversation, 20, 1019).await, json!({"result": {"events": 171}}));
    for (step, sent) in [100, 171, 171].into_iter().enumerate() {
        assert_eq!(bench.publish().await, json!([]));
        assert_eq!(bench.aws.published().len(), sent, "after step {step}");
    }
    assert_eq!(seqs(&bench), (20..=190).map(|seq| seq.to_string()).collect::<Vec<_>>());
    // A FIFO queue dropped an id that it had a minute ago.
    let sent = &bench.aws.published()[0];
    let (id, job) = sent["MessageDeduplicationId"].as_str().unwrap().rsplit_once(':').unwrap();
    assert!(id.ends_with(":20") && job.starts_with("j_"), "{sent}");
    assert_eq!(bench.aws.news(), [vec![], Vec::<Value>::new()], "the last step begins no other");
}

#[tokio::test]
async fn a_step_of_a_replay_that_failed_or_came_twice_loses_nothing_and_ends() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(150).await;
    bench.aws.news();
    replay(&bench, &conversation, 1, 150).await;
    let [_, records] = bench.aws.news();
    let again = json!([{"itemIdentifier": records[0]["dynamodb"]["SequenceNumber"]}]);
    for (operation, fault) in [("GetItem", Fault::Lost), ("SendMessageBatch", Fault::Lost), ("UpdateItem", Fault::Lost)]
    {
        bench.aws.fail_next(operation, fault);
        assert_eq!(bench.started().publish(records.clone()).await, again, "{operation}");
    }
    assert_eq!(bench.started().publish(records.clone()).await, json!([]));
    assert_eq!(bench.started().publish(records).await, json!([]), "the first record once more: the second step");
    let [_, records] = bench.aws.news();
    assert_eq!(records.len(), 2);
    assert_eq!(bench.started().publish(records).await, json!([]));
    assert!((1..=150).all(|seq: u64| seqs(&bench).contains(&seq.to_string())));
    assert_eq!(bench.aws.news(), [vec![], Vec::<Value>::new()]);
}

#[tokio::test]
async fn a_late_run_of_a_step_does_not_take_the_replay_back() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(150).await;
    bench.aws.news();
    replay(&bench, &conversation, 1, 150).await;
    let [_, records] = bench.aws.news();
    let (functions, held) = (bench.started(), bench.aws.hold_next("UpdateItem"));
    let others = async {
        held.reached().await;
        assert_eq!(bench.started().publish(records.clone()).await, json!([]));
        let [_, next] = bench.aws.news();
        assert_eq!(bench.started().publish(next).await, json!([]));
        bench.aws.news();
        held.release();
    };
    let (late, ()) = tokio::join!(functions.publish(records.clone()), others);
    assert_eq!(late, json!([]));
    assert_eq!(bench.aws.news(), [vec![], Vec::<Value>::new()]);
}

#[tokio::test]
async fn a_replay_names_what_is_wrong_with_it() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(3).await;
    bench.aws.news();
    let code = async |from, to| replay(&bench, &conversation, from, to).await["error"]["code"].clone();
    assert_eq!(code(0, 1).await, "bad_request");
    assert_eq!(code(3, 2).await, "bad_request");
    assert_eq!(code(1, 1_001).await, "bad_request");
    let nobody = json!("dm_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    assert_eq!(replay(&bench, &nobody, 1, 1).await["error"]["code"], "gone");
    assert_eq!(replay(&bench, &conversation, 4, 9).await, json!({"result": {"events": 0}}));
    assert_eq!(bench.aws.news(), [vec![], Vec::<Value>::new()]);
    assert_eq!(replay(&bench, &conversation, 1, 1_000).await, json!({"result": {"events": 3}}));
    let off = Workbench::default();
    let conversation = off.conversation(1).await;
    assert_eq!(replay(&off, &conversation, 1, 1).await["error"]["code"], "forbidden");
}

#[tokio::test]
async fn a_server_with_events_lists_them() {
    for has in [true, false] {
        let bench = if has { Workbench::publishing() } else { Workbench::default() };
        let features = bench.ok("alice", json!({"action": "ping", "features": true})).await["features"].clone();
        assert_eq!(features.as_array().unwrap().contains(&json!("events")), has);
    }
}
