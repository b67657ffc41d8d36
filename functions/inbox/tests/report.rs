//! `report`, and what an operator reads of it.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use testkit::{Fault, Limits, Workbench, message_to_bob};

const MONTH: &str = "2027-01";

fn report(id: &Value, seqs: &[u64]) -> Value {
    json!({"action": "report", "conversation_id": id, "seqs": seqs, "reason": "abuse"})
}

fn with(mut frame: Value, field: &str, value: Value) -> Value {
    frame[field] = value;
    frame
}

async fn admin(bench: &Workbench, request: Value) -> Value {
    bench.started().admin(request).await
}

async fn reports(bench: &Workbench) -> Vec<Value> {
    let mut answer = admin(bench, json!({"op": "reports", "month": MONTH})).await;
    assert_eq!(answer["result"]["next_cursor"], Value::Null, "{answer}");
    serde_json::from_value(answer["result"]["reports"].take()).unwrap()
}

#[tokio::test]
async fn a_report_copies_what_its_reporter_sees_once() {
    let bench = Workbench::default();
    let id = bench.conversation(2).await;
    let edit = json!({"action": "edit", "conversation_id": id, "seq": 2, "client_msg_id": "e1", "body": "ugly"});
    bench.ok("alice", edit).await;
    bench.operations();
    let frame = with(with(report(&id, &[2, 1]), "note", json!("look")), "user_id", json!("alice"));
    let told = bench.ok("bob", frame.clone()).await;
    let operations = bench.operations();
    assert_eq!(operations, ["GetItem", "GetItem", "GetItem", "GetItem", "GetItem", "UpdateItem", "PutItem"]);
    let open = reports(&bench).await;
    let expected = json!({
        "report_id": told["report_id"], "at": bench.clock.now(), "reporter_id": "bob", "conversation_id": id,
        "seqs": [1, 2], "user_id": "alice", "reason": "abuse", "note": "look", "messages": open[0]["messages"],
    });
    assert_eq!(open, [expected]);
    let copies: Vec<_> = open[0]["messages"].as_array().unwrap().iter().collect();
    assert_eq!([&copies[0]["seq"], &copies[1]["seq"]], [1, 2]);
    assert_eq!([&copies[0]["body"], &copies[1]["body"]], ["hi", "ugly"]);
    assert_eq!((&copies[1]["version"], &copies[1]["client_msg_id"]), (&json!(2), &Value::Null));

    // Repeated, in another order and with another reason: the first one stays.
    bench.operations();
    let again = with(with(frame, "seqs", json!([1, 2])), "reason", json!("spam"));
    assert_eq!(bench.ok("bob", again).await, told);
    assert_eq!(bench.operations(), ["GetItem"; 2]);
    assert_eq!(reports(&bench).await, open);
    // A later delete leaves the copy, and a report then has no text.
    let delete = json!({"action": "delete", "conversation_id": id, "seq": 2, "client_msg_id": "d1"});
    bench.ok("alice", delete).await;
    bench.ok("bob", report(&id, &[2])).await;
    let all = reports(&bench).await;
    let of = |seqs: &[u64]| all.iter().find(|report| report["seqs"] == json!(seqs)).unwrap();
    assert_eq!(of(&[1, 2])["messages"], open[0]["messages"]);
    let deleted = &of(&[2])["messages"][0];
    assert_eq!((&deleted["body"], &deleted["deleted_by"]), (&json!(""), &json!("alice")));
    let row = bench.aws.rows("AuditTable").into_iter().find(|row| row["report"].is_string()).unwrap();
    let days = row["expires_at"].as_i64().unwrap() - bench.clock.now().seconds();
    assert_eq!(days, 180 * 24 * 60 * 60);
}

#[tokio::test]
async fn a_report_is_about_what_one_sees_and_who_is_there() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    assert_eq!(bench.refused("mallory", report(&id, &[1])).await, "not_member");
    assert_eq!(bench.refused("bob", report(&id, &[2])).await, "gone");
    assert_eq!(bench.refused("bob", with(report(&id, &[1]), "user_id", json!("mallory"))).await, "gone");
    let opened = json!([{"seq": 1, "key": BASE64.encode(&[7; 32]), "plaintext": "e30="}]);
    assert_eq!(bench.refused("bob", with(report(&id, &[1]), "opened", opened)).await, "bad_request");
    assert_eq!(reports(&bench).await, Vec::<Value>::new());

    // About a conversation, a user in it, and a user without any.
    let whole = json!({"action": "report", "conversation_id": id, "reason": "other"});
    bench.ok("bob", whole.clone()).await;
    bench.ok("bob", with(whole, "user_id", json!("alice"))).await;
    bench.ok("bob", json!({"action": "report", "user_id": "dave", "reason": "spam"})).await;
    assert_eq!(reports(&bench).await.len(), 3);

    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob", "carol"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let say = json!({"action": "send", "conversation_id": group, "client_msg_id": "g1", "kind": "text", "body": "boo"});
    bench.ok("carol", say.clone()).await;
    let leave = json!({"action": "leave", "conversation_id": group, "client_msg_id": "l1"});
    bench.ok("bob", leave).await;
    bench.ok("carol", with(say, "client_msg_id", json!("g2"))).await;
    let about = |user: &str, seqs: &[u64]| with(report(&group, seqs), "user_id", json!(user));
    // A member who left reports what came before.
    bench.ok("bob", about("carol", &[2])).await;
    assert_eq!(bench.refused("bob", about("carol", &[4])).await, "gone");
    bench.ok("alice", about("carol", &[4])).await;
    assert_eq!(bench.refused("alice", about("dave", &[4])).await, "gone");

    let create = json!({"action": "create", "kind": "channel", "client_msg_id": "c2", "title": "News", "members": [],
        "join": "open"});
    let channel = bench.ok("alice", create).await["conversation_id"].take();
    bench.ok("bob", json!({"action": "join", "conversation_id": channel})).await;
    let about =
        |user: &str| json!({"action": "report", "conversation_id": channel, "user_id": user, "reason": "illegal"});
    bench.ok("bob", about("alice")).await;
    assert_eq!(bench.refused("bob", about("carol")).await, "gone");
}

#[tokio::test]
async fn long_texts_are_cut_and_a_user_reports_ten_times_at_once() {
    let bench = Workbench::default();
    let long = with(message_to_bob("long"), "body", json!(format!("a{}", "ü".repeat(5_000))));
    let id = bench.ok("alice", long).await["conversation_id"].take();
    bench.conversation(12).await;
    for seq in 1..=10 {
        bench.ok("bob", report(&id, &[seq])).await;
    }
    let copies = reports(&bench).await;
    let cut = copies.iter().find(|report| report["seqs"] == json!([1])).unwrap();
    assert_eq!(cut["messages"][0]["body"].as_str().unwrap().len(), 4_095, "no character is cut");
    let answer = bench.run("bob", report(&id, &[11])).await;
    assert_eq!(answer["error"]["code"], "rate_limited");
    assert_eq!(answer["error"]["retry_after_ms"], 600_000);
    bench.ok("bob", report(&id, &[10])).await;
    bench.ok("alice", report(&id, &[11])).await;
    bench.clock.advance(Duration::from_mins(10));
    bench.ok("bob", report(&id, &[11])).await;
    assert_eq!(bench.refused("bob", report(&id, &[12])).await, "rate_limited");
}

/// The process dies, or AWS refuses, between the count and the report: the repetition stores it.
#[tokio::test]
async fn a_report_that_failed_is_stored_by_its_repetition() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.aws.fail_next("PutItem", Fault::Status(400));
    assert_eq!(bench.refused("bob", report(&id, &[1])).await, "unavailable");
    assert_eq!(reports(&bench).await, Vec::<Value>::new());
    bench.ok("bob", report(&id, &[1])).await;
    assert_eq!(reports(&bench).await.len(), 1);
}

#[tokio::test]
async fn an_operator_closes_a_report_with_an_outcome() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let told = bench.ok("bob", report(&id, &[1])).await;
    let close = |outcome: &str| json!({"op": "report_close", "month": MONTH, "report_id": told["report_id"], "outcome": outcome});
    for (wrong, field) in [(close(""), "outcome"), (close(&"x".repeat(201)), "outcome")] {
        let refused = admin(&bench, wrong).await["error"]["message"].take();
        assert!(refused.as_str().unwrap().starts_with(&format!("{field}: ")), "{refused}");
    }
    for month in ["2027", "2027-1", "27-01-01", "2027-01x"] {
        let refused = admin(&bench, json!({"op": "reports", "month": month})).await["error"]["message"].take();
        assert_eq!(refused, "month: must be a month such as 2026-11");
    }
    assert_eq!(admin(&bench, with(close("x"), "month", json!("2026-12"))).await["error"]["code"], "gone");
    assert_eq!(admin(&bench, close("suspended")).await, json!({"result": {}}));
    assert_eq!(admin(&bench, close("again")).await["error"]["code"], "gone");
    assert_eq!(reports(&bench).await, Vec::<Value>::new());
    assert_eq!(bench.ok("bob", report(&id, &[1])).await, told, "a repetition opens no closed one");
    assert_eq!(reports(&bench).await, Vec::<Value>::new());
}

fn frank(key: &[u8], plaintext: &[u8]) -> Value {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(b"pigeonhole frank 1\0");
    json!(BASE64.encode(&mac.chain_update(plaintext).finalize().into_bytes()))
}

/// A sealed message whose author can't deny it, also after the delete.
#[tokio::test]
async fn what_a_sealed_message_says_is_proved() {
    let bench = Workbench::limited(Limits { sealed_reports: true, ..Limits::default() });
    let part = BASE64.encode(b"part");
    let birth = json!({
        "action": "commit", "to": "bob", "client_msg_id": "b1", "epoch": 0, "welcome": part, "group_info": part,
        "tree": part,
    });
    let born = bench.device("alice", "pixel", birth).await;
    let id = &born["result"]["conversation_id"];
    let (key, plaintext) = ([7; 32], br#"{"v":1,"body":"ugly"}  "#);
    let say = json!({
        "action": "send", "conversation_id": id, "client_msg_id": "m1", "kind": "sealed", "epoch": 1, "body": part,
        "frank": frank(&key, plaintext),
    });
    bench.ok("alice", say).await;
    let opened = |key: &[u8], plaintext: &[u8]| {
        let opened = json!([{"seq": 2, "key": BASE64.encode(key), "plaintext": BASE64.encode(plaintext)}]);
        with(with(report(id, &[2]), "opened", opened), "claimed", json!("ugly"))
    };
    for wrong in [opened(&[8; 32], plaintext), opened(&key, br#"{"v":1,"body":"ugly"}"#)] {
        assert_eq!(bench.refused("bob", wrong).await, "bad_request");
    }
    bench.ok("alice", json!({"action": "delete", "conversation_id": id, "seq": 2, "client_msg_id": "d1"})).await;
    bench.ok("bob", opened(&key, plaintext)).await;
    let open = reports(&bench).await;
    assert_eq!((&open[0]["claimed"], &open[0]["opened"]), (&json!("ugly"), &Value::Null));
    let copy = &open[0]["messages"][0];
    assert_eq!((&copy["sender_id"], &copy["seq"], &copy["verified"]), (&json!("alice"), &json!(2), &json!(true)));
    assert_eq!(copy["plaintext"], BASE64.encode(plaintext));
    assert!(copy.get("body").is_none(), "the bytes say nothing: {copy}");
    // A digest proves the row that has it: a user who copies another's accuses themselves.
    let copied = json!({
        "action": "send", "conversation_id": id, "client_msg_id": "m2", "kind": "sealed", "epoch": 1, "body": part,
        "frank": frank(&key, plaintext),
    });
    let seq = bench.ok("bob", copied).await["seq"].clone();
    let opened = json!([{"seq": seq, "key": BASE64.encode(&key), "plaintext": BASE64.encode(plaintext)}]);
    bench.ok("alice", with(report(id, &[seq.as_u64().unwrap()]), "opened", opened)).await;
    let accused: Vec<_> = reports(&bench).await.into_iter().filter(|report| report["reporter_id"] == "alice").collect();
    assert_eq!(accused[0]["messages"][0]["sender_id"], "bob");
    // The birth has no digest.
    let of_birth = json!([{"seq": 1, "key": BASE64.encode(&key), "plaintext": "e30="}]);
    assert_eq!(bench.refused("bob", with(report(id, &[1]), "opened", of_birth)).await, "gone");
}
