//! The sender's own marks: a direct conversation writes them by an expression of `store`, a group by `domain::fold`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::{Workbench, up_to};

const USERS: [&str; 2] = ["alice", "bob"];
/// In the group, the entry that created it comes before all others.
const BEFORE: u64 = 1;

/// A user's delivered mark, read mark and unread messages, without what came `before`.
async fn marks(bench: &Workbench, user: &str, conversation: &Value, before: u64) -> [u64; 3] {
    let list = bench.ok(user, json!({"action": "inbox"})).await;
    let row = list["conversations"].as_array().unwrap().iter().find(|row| row["conversation_id"] == *conversation);
    let number = |name: &str| row.unwrap()[name].as_u64().unwrap();
    [number("delivered_seq") - before, number("read_seq") - before, number("unread")]
}

/// Has one user after another send, acknowledge or read, in a direct conversation and in a group of the same two.
async fn compare(acts: &[(usize, u8, u64)]) {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c", "title": "Two", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    bench.ok("bob", up_to("read", &group, BEFORE)).await;
    let (mut direct, mut end) = (Value::Null, 0);
    for (who, what, seq) in acts {
        let (user, peer) = (USERS[*who], USERS[1 - who]);
        if matches!(what, 0 | 3) || end == 0 {
            end += 1;
            let say = json!({"action": "send", "client_msg_id": format!("m{end}"), "kind": "text", "body": "hi"});
            let to = |name: &str, target: &Value, before: u64| {
                let mut frame = say.clone();
                frame[name] = target.clone();
                if *what == 3 {
                    frame["read"] = json!(seq + before);
                }
                frame
            };
            let mut one = bench.ok(user, to("to", &json!(peer), 0)).await;
            direct = one["conversation_id"].take();
            let other = bench.ok(user, to("conversation_id", &group, BEFORE)).await;
            let mark = |result: &Value, before| result["read_seq"].as_u64().map(|seq| seq - before);
            assert_eq!(mark(&one, 0), mark(&other, BEFORE), "{user}'s, after {acts:?} up to {who} {what} {seq}");
        } else {
            let (action, seq) = (if *what == 1 { "ack" } else { "read" }, (*seq).min(end));
            bench.ok(user, up_to(action, &direct, seq)).await;
            bench.ok(user, up_to(action, &group, seq + BEFORE)).await;
        }
        for user in USERS {
            let (one, other) = (marks(&bench, user, &direct, 0).await, marks(&bench, user, &group, BEFORE).await);
            assert_eq!(one, other, "{user}'s, after {acts:?} up to {who} {what} {seq}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_own_message_moves_the_same_marks_in_a_direct_conversation_and_in_a_group(
        acts in proptest::collection::vec((0_usize..2, 0_u8..4, 1_u64..8), 1..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(&acts));
    }
}
