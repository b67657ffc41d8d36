//! Someone who was away.

use serde_json::{Value, json};
use testkit::{Phone, TestServer};

fn key(message: &Value) -> (String, u64) {
    (message["conversation_id"].as_str().unwrap().to_owned(), message["seq"].as_u64().unwrap())
}

/// Messages are in the order of their ids overall, and of their seqs, without a hole, within each conversation.
fn assert_in_order(messages: &[Value]) {
    let ids: Vec<_> = messages.iter().map(|message| message["message_id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    for message in messages {
        let (conversation, _) = key(message);
        let seqs: Vec<u64> =
            messages.iter().map(key).filter(|(id, _)| *id == conversation).map(|(_, seq)| seq).collect();
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
    }
}

#[tokio::test]
async fn three_senders_to_someone_offline_then_a_drain_in_pages() {
    let server = TestServer::open().await;
    let mut senders = vec![server.phone("alice").await, server.phone("carol").await, server.phone("dave").await];
    let mut sent = Vec::new();
    // Big enough for several pages of 32 KiB.
    for round in 0..8 {
        for sender in &mut senders {
            let body = format!("{round} {}", "x".repeat(4_000));
            sent.push(sender.send("bob", &format!("m{round}"), &body).await);
        }
    }

    let mut bob = server.phone("bob").await;
    assert!(bob.pending().await);
    let first = bob.ok(json!({"action": "drain"})).await;
    assert_eq!(first["more"], true);
    assert!(first.to_string().len() <= 32 * 1024);
    let again = bob.ok(json!({"action": "drain"})).await;
    assert_eq!(first, again, "asked again without an ack: the same page again");

    let drained = bob.drain().await;
    assert_in_order(&drained);
    let ids = |messages: &[Value]| messages.iter().map(|message| message["message_id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&drained), ids(&sent), "oldest first, across conversations, and nothing twice");
    assert!(!bob.pending().await);

    for sender in &mut senders {
        let receipt = sender.wait_for(|frame| frame["type"] == "receipt.delivered" && frame["seq"] == 8).await;
        assert_eq!(receipt["user_id"], "bob");
    }
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_of_a_drain_loses_nothing() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    for number in 1..=20 {
        alice.send("bob", &format!("m{number}"), &"x".repeat(4_000)).await;
    }
    let mut bob = server.phone("bob").await;
    let page = bob.ok(json!({"action": "drain"})).await;
    let got = page["messages"].as_array().unwrap().len() as u64;
    let (conversation, last) = key(page["messages"].as_array().unwrap().last().unwrap());
    assert_eq!(last, got);
    // The next request goes out with the ack of this page, and the phone is gone before its answer.
    bob.start(json!({"action": "drain", "ack": [{"conversation_id": conversation, "seq": last}]})).await;
    bob.cut();

    let mut bob = server.phone("bob").await;
    let rest = bob.drain().await;
    let seqs: Vec<u64> = rest.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
    // Whether the ack arrived or not, nothing between is missing.
    assert!(seqs[0] == 1 || seqs[0] == last + 1, "{seqs:?}");
    assert_eq!(seqs, (seqs[0]..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn more_conversations_than_an_ack_can_name() {
    let server = TestServer::open().await;
    let senders: Vec<String> = (0..30).map(|number| format!("user{number:02}")).collect();
    for sender in &senders {
        server.phone(sender).await.send("bob", "m1", "hi").await;
    }
    let mut bob = server.phone("bob").await;
    let page = bob.ok(json!({"action": "drain"})).await;
    assert_eq!((page["messages"].as_array().unwrap().len(), &page["more"]), (25, &json!(true)));
    let drained = bob.drain().await;
    assert_in_order(&drained);
    let from: Vec<_> = drained.iter().map(|message| message["sender_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(from, senders);
    assert!(!bob.pending().await);
}

#[tokio::test]
async fn a_message_delivered_live_is_pending_until_it_is_acknowledged() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let sent = alice.send("bob", "m1", "hi").await;
    let live = bob.event("messages.new").await;
    let drained = bob.ok(json!({"action": "drain"})).await;
    assert_eq!(drained["messages"], live["messages"]);
    bob.ack(sent["conversation_id"].as_str().unwrap(), 1).await;
    assert_eq!(bob.ok(json!({"action": "drain"})).await, json!({"messages": [], "more": false}));
}

#[tokio::test]
async fn an_ack_below_the_last_leaves_the_rest_pending() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let conversation = alice.send("bob", "m1", "1").await["conversation_id"].as_str().unwrap().to_owned();
    for number in 2..=5 {
        alice.send("bob", &format!("m{number}"), "x").await;
    }
    bob.ack(&conversation, 3).await;
    assert_eq!(alice.event("receipt.delivered").await["seq"], 3);
    let seqs: Vec<_> = bob.ok(json!({"action": "drain"})).await["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [4, 5]);
    bob.ack(&conversation, 2).await;
    assert_eq!(bob.conversation("alice").await["delivered_seq"], 3, "never backwards");
    bob.ack(&conversation, 9_007_199_254_740_991).await;
    assert_eq!(bob.conversation("alice").await["delivered_seq"], 5, "above the last counts as the last");
    assert!(!bob.pending().await);
}

#[tokio::test]
async fn a_sender_who_has_not_drained_can_still_drain() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    for number in 1..=3 {
        alice.send("bob", &format!("a{number}"), "from alice").await;
    }
    let mut bob = server.phone("bob").await;
    // Writes before looking.
    assert_eq!(bob.send("alice", "b1", "from bob").await["seq"], 4);
    assert!(bob.pending().await);
    let row = bob.conversation("alice").await;
    assert_eq!((&row["delivered_seq"], &row["read_seq"], &row["unread"]), (&json!(0), &json!(0), &json!(3)));
    let drained = bob.drain().await;
    assert_in_order(&drained);
    let bodies: Vec<_> = drained.iter().map(|message| message["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["from alice", "from alice", "from alice", "from bob"]);
    assert_eq!(drained[3]["client_msg_id"], "b1", "own messages carry their client_msg_id");
    assert_eq!(drained[0].get("client_msg_id"), None, "others' don't");
    assert!(!bob.pending().await);
}

#[tokio::test]
async fn an_ack_of_several_conversations_stands_where_one_is_refused() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    let (mut alice, mut carol) = (server.phone("alice").await, server.phone("carol").await);
    let from_alice = alice.send("bob", "m1", "hi").await["conversation_id"].clone();
    let from_carol = carol.send("bob", "m1", "hi").await["conversation_id"].clone();
    let entry = |conversation: &Value| json!({"conversation_id": conversation, "seq": 1});
    let entries = [entry(&from_alice), entry(&json!("dm_of_others")), entry(&from_carol)];
    assert_eq!(bob.refused(json!({"action": "ack", "up_to": entries})).await, "not_member");
    assert!(!bob.pending().await, "the others stand");
    assert_eq!(alice.event("receipt.delivered").await["seq"], 1);
    assert_eq!(carol.event("receipt.delivered").await["seq"], 1);
}

#[tokio::test]
async fn someone_who_connects_while_messages_are_sent_misses_none() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let sending = async {
        for number in 1..=40 {
            alice.send("bob", &format!("m{number}"), "x").await;
        }
    };
    let connecting = async {
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 40 {
            // A phone on a bad network: it connects, drains, receives a little, and is cut off.
            let mut bob = server.phone("bob").await;
            seen.extend(bob.drain().await.iter().map(|message| message["seq"].as_u64().unwrap()));
            listen_briefly(&mut bob, &mut seen).await;
            bob.cut();
        }
        seen
    };
    let ((), seen) = tokio::join!(sending, connecting);
    assert_eq!(seen, (1..=40).collect());
}

async fn listen_briefly(bob: &mut Phone, seen: &mut std::collections::BTreeSet<u64>) {
    let next = bob.event("messages.new");
    if let Ok(frame) = tokio::time::timeout(std::time::Duration::from_millis(20), next).await {
        seen.insert(frame["messages"][0]["seq"].as_u64().unwrap());
    }
}
