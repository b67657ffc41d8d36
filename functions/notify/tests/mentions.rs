//! Messages of channels that mention members: the row of each, and the phones that ring.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use serde_json::{Value, json};
use testkit::{Fault, Workbench};

/// Alice owns a channel that all may write in, with bob and carol. Bob and carol have a phone.
async fn channel(rings: &str) -> (Workbench, Value) {
    let bench = Workbench::ringing();
    let create = json!({"action": "create", "client_msg_id": "c", "kind": "channel", "title": "News", "rings": rings,
        "post": "all", "members": ["bob", "carol"]});
    let id = bench.ok("alice", create).await["conversation_id"].take();
    bench.register("bob", "aa01", json!({"preview": true})).await;
    bench.register("carol", "aa02", json!({})).await;
    bench.notify().await;
    (bench, id)
}

fn say(id: &Value, key: &str, mentions: &[&str]) -> Value {
    json!({"action": "send", "conversation_id": id, "client_msg_id": key, "kind": "text", "body": format!("to {}", mentions.join(" ")),
        "mentions": mentions})
}

/// Returns the `mentioned_seq` of the user's row in the list of channels.
async fn mentioned(bench: &Workbench, user: &str) -> Value {
    bench.ok(user, json!({"action": "channels"})).await["conversations"][0]["mentioned_seq"].take()
}

fn read(id: &Value, seq: u64) -> Value {
    json!({"action": "read", "conversation_id": id, "seq": seq})
}

#[tokio::test]
async fn a_channel_takes_mentions_once_an_admin_lets_it_ring() {
    let (bench, id) = channel("off").await;
    assert_eq!(bench.refused("alice", say(&id, "m1", &["bob"])).await, "bad_request");
    let update = |rings: &str, key: &str| json!({"action": "update", "conversation_id": id, "client_msg_id": key, "rings": rings});
    assert_eq!(bench.refused("bob", update("mentions", "u0")).await, "forbidden");
    bench.ok("alice", update("mentions", "u1")).await;
    let row = bench.ok("bob", json!({"action": "channels"})).await["conversations"][0].take();
    assert_eq!(row["rings"], "mentions");
    // Not all, not the author, and no user who is no member.
    assert_eq!(bench.refused("alice", say(&id, "m2", &["*"])).await, "bad_request");
    bench.ok("alice", say(&id, "m3", &["bob", "alice", "dave"])).await;
    assert_eq!(mentioned(&bench, "bob").await, 3);
    assert_eq!((mentioned(&bench, "carol").await, mentioned(&bench, "alice").await), (Value::Null, Value::Null));
    assert!(bench.aws.rows("InboxTable").iter().all(|row| row["user_id"] != "dave"));
    bench.ok("bob", read(&id, 2)).await;
    assert_eq!(mentioned(&bench, "bob").await, 3);
    bench.ok("bob", read(&id, 3)).await;
    assert_eq!(mentioned(&bench, "bob").await, Value::Null);
    bench.ok("alice", update("off", "u2")).await;
    let row = bench.ok("bob", json!({"action": "channels"})).await["conversations"][0].take();
    assert_eq!(row["rings"], Value::Null);
    assert_eq!(bench.refused("alice", say(&id, "m4", &["bob"])).await, "bad_request");
    // A group has no such rule.
    let mut group =
        json!({"action": "create", "client_msg_id": "g", "title": "Trip", "members": ["bob"], "rings": "mentions"});
    assert_eq!(bench.refused("alice", group.clone()).await, "bad_request");
    group["rings"].take();
    let group = bench.ok("alice", group).await["conversation_id"].take();
    let update = json!({"action": "update", "conversation_id": group, "client_msg_id": "u", "rings": "off"});
    assert_eq!(bench.refused("alice", update).await, "bad_request");
}

#[tokio::test]
async fn a_mention_rings_once_and_a_read_dismisses_it() {
    let (bench, id) = channel("mentions").await;
    bench.ok("carol", say(&id, "m1", &["bob"])).await;
    let batch = bench.batch();
    for _ in 0..2 {
        assert_eq!(bench.started().notify(batch.clone()).await, json!([]));
    }
    assert_eq!(bench.rung("aa01"), ["message 2"]);
    bench.aws.with_sns(|sns| {
        let aps = &sns.pushes()[0].payload["aps"];
        assert_eq!((&aps["alert"]["subtitle"], &aps["alert"]["body"]), (&json!("News"), &json!("to bob")));
    });
    // Without a mention, and for a mention of another member, his phone is silent.
    bench.ok("carol", say(&id, "m2", &[])).await;
    bench.ok("alice", say(&id, "m3", &["carol"])).await;
    bench.notify().await;
    assert_eq!((bench.rung("aa01"), bench.rung("aa02")), (vec!["message 2".to_owned()], vec!["message 4".to_owned()]));
    bench.ok("bob", read(&id, 4)).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2", "read 2"]);
    // A message that he has read, or that is deleted, does not ring.
    bench.ok("carol", say(&id, "m4", &["bob"])).await;
    bench.ok("bob", read(&id, 5)).await;
    bench.ok("carol", say(&id, "m5", &["bob"])).await;
    bench.ok("carol", json!({"action": "delete", "conversation_id": id, "seq": 6, "client_msg_id": "d"})).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 2", "read 2"]);
}

#[tokio::test]
async fn a_muted_channel_rings_for_its_admins_alone() {
    let (bench, id) = channel("mentions").await;
    bench.ok("bob", json!({"action": "settings", "conversation_id": id, "set": {"muted_until": "forever"}})).await;
    bench.ok("carol", say(&id, "m1", &["bob"])).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), Vec::<String>::new());
    bench.ok("alice", say(&id, "m2", &["bob"])).await;
    bench.notify().await;
    assert_eq!(bench.rung("aa01"), ["message 3"]);
}

#[tokio::test]
async fn a_repetition_records_what_the_first_try_did_not() {
    let (bench, id) = channel("mentions").await;
    let first = bench.ok("alice", say(&id, "m1", &[])).await;
    assert_eq!(first["seq"], 2);
    bench.aws.fail_next("UpdateItem", Fault::Status(400));
    let sent = bench.ok("alice", say(&id, "m2", &["bob"])).await;
    assert_eq!((sent["seq"].clone(), mentioned(&bench, "bob").await), (json!(3), Value::Null));
    let sent = bench.ok("alice", say(&id, "m2", &["bob"])).await;
    assert_eq!((sent["duplicate"].clone(), mentioned(&bench, "bob").await), (json!(true), json!(3)));
    // Not above a later one.
    bench.ok("alice", say(&id, "m3", &["bob"])).await;
    bench.ok("alice", say(&id, "m2", &["bob"])).await;
    assert_eq!(mentioned(&bench, "bob").await, 4);
    bench.ok("bob", json!({"action": "leave", "conversation_id": id, "client_msg_id": "l"})).await;
    bench.ok("alice", say(&id, "m2", &["bob"])).await;
    assert!(bench.aws.rows("InboxTable").iter().all(|row| row["user_id"] != "bob" || row["conversation_id"] != id));
}
