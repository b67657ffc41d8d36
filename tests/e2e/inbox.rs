//! The chat list and the history, page by page.

use serde_json::{Value, json};
use testkit::{Phone, TestServer};

async fn pages(phone: &mut Phone, limit: u64) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut request = json!({"action": "inbox", "limit": limit});
    loop {
        let result = phone.ok(request.clone()).await;
        pages.push(result["conversations"].as_array().unwrap().clone());
        if result["next_cursor"].is_null() {
            return pages;
        }
        request["cursor"] = result["next_cursor"].clone();
    }
}

#[tokio::test]
async fn the_chat_list_is_in_order_of_activity_and_comes_in_pages() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    for number in 0..7 {
        bob.send(&format!("peer{number}"), "m1", "hi").await;
    }
    let pages = pages(&mut bob, 3).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    let peers: Vec<_> = pages.iter().flatten().map(|row| row["peer_id"].as_str().unwrap()).collect();
    assert_eq!(peers, ["peer6", "peer5", "peer4", "peer3", "peer2", "peer1", "peer0"]);
}

#[tokio::test]
async fn a_new_message_moves_its_conversation_to_the_top() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    for peer in ["alice", "carol", "dave"] {
        bob.send(peer, "m1", "hi").await;
    }
    server.phone("alice").await.send("bob", "a1", "me again").await;
    let peers: Vec<_> = bob.inbox().await.iter().map(|row| row["peer_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(peers, ["alice", "dave", "carol"]);
}

#[tokio::test]
async fn a_row_of_the_chat_list_says_what_a_list_shows() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let body = "é".repeat(150);
    let sent = alice.send("bob", "m1", &body).await;
    let row = json!({
        "conversation_id": sent["conversation_id"], "kind": "direct", "peer_id": "alice",
        "last_message": {"seq": 1, "sender_id": "alice", "kind": "text", "preview": "é".repeat(100), "sent_at": sent["sent_at"]},
        "unread": 1, "delivered_seq": 0, "read_seq": 0, "last_seq": 1,
    });
    assert_eq!(bob.inbox().await, [row]);
}

#[tokio::test]
async fn an_empty_chat_list_is_a_page_too() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    assert_eq!(bob.ok(json!({"action": "inbox"})).await, json!({"conversations": [], "next_cursor": null}));
}

#[tokio::test]
async fn since_leaves_out_what_was_quiet() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    bob.send("alice", "m1", "hi").await;
    let middle = bob.send("carol", "m1", "hi").await["sent_at"].clone();
    bob.send("dave", "m1", "hi").await;
    let since = bob.ok(json!({"action": "inbox", "since": middle})).await;
    let peers: Vec<_> =
        since["conversations"].as_array().unwrap().iter().map(|row| row["peer_id"].as_str().unwrap()).collect();
    assert_eq!(peers, ["dave", "carol"]);
    let none = bob.ok(json!({"action": "inbox", "since": "2999-01-01T00:00:00Z"})).await;
    assert_eq!(none, json!({"conversations": [], "next_cursor": null}));
    let offset = bob.ok(json!({"action": "inbox", "since": "1999-01-01T00:00:00+02:00"})).await;
    assert_eq!(offset["conversations"].as_array().unwrap().len(), 3);
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "an issuer chooses its user ids itself")]
async fn a_page_of_the_chat_list_fits_a_frame_whatever_is_in_it() {
    let server = TestServer::open().await;
    let long = "\"".repeat(100);
    let mut bob = server.phone(&format!("{long}bob")).await;
    // Previews whose characters take six bytes each once written as JSON.
    for number in 0..40 {
        bob.send(&format!("{long}{number:03}"), "m1", &"\u{1}".repeat(200)).await;
    }
    let mut seen = Vec::new();
    for page in pages(&mut bob, 50).await {
        assert!(json!(page).to_string().len() <= 32 * 1024);
        seen.extend(page.iter().map(|row| row["peer_id"].as_str().unwrap().to_owned()));
    }
    let expected: Vec<_> = (0..40).rev().map(|number| format!("{long}{number:03}")).collect();
    assert_eq!(seen, expected);
}

fn seqs(page: &Value) -> Vec<u64> {
    page["messages"].as_array().unwrap().iter().map(|message| message["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn history_goes_both_ways() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let conversation = alice.send("bob", "m1", "x").await["conversation_id"].clone();
    for number in 2..=12 {
        alice.send("bob", &format!("m{number}"), "x").await;
    }
    let history = |extra: Value| {
        let mut request = json!({"action": "history", "conversation_id": conversation, "limit": 5});
        request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        request
    };
    for (request, expected, more) in [
        (json!({}), 8..=12, true),
        (json!({"before_seq": 8}), 3..=7, true),
        (json!({"before_seq": 3}), 1..=2, false),
        (json!({"before_seq": 6}), 1..=5, false),
        (json!({"after_seq": 0}), 1..=5, true),
        (json!({"after_seq": 5}), 6..=10, true),
        (json!({"after_seq": 10}), 11..=12, false),
        (json!({"after_seq": 7}), 8..=12, false),
    ] {
        let page = alice.ok(history(request.clone())).await;
        assert_eq!(
            (seqs(&page), &page["more"], &page["last_seq"]),
            (expected.collect(), &json!(more), &json!(12)),
            "{request}"
        );
    }
    for nothing in [json!({"before_seq": 1}), json!({"after_seq": 12}), json!({"after_seq": 9_000_000})] {
        let page = alice.ok(history(nothing)).await;
        assert_eq!((seqs(&page), &page["more"]), (vec![], &json!(false)));
    }
}

#[tokio::test]
async fn a_page_of_history_fits_a_frame_and_nothing_is_skipped() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let mut conversation = Value::Null;
    for number in 1..=9 {
        conversation = alice.send("bob", &format!("m{number}"), &"x".repeat(9_000)).await["conversation_id"].clone();
    }
    let (mut forwards, mut backwards) = (Vec::new(), Vec::new());
    let (mut after, mut before) = (0, 10);
    loop {
        let page = alice
            .ok(json!({"action": "history", "conversation_id": conversation, "after_seq": after, "limit": 100}))
            .await;
        assert!(page.to_string().len() <= 32 * 1024);
        forwards.extend(seqs(&page));
        after = *forwards.last().unwrap();
        if page["more"] == false {
            break;
        }
    }
    loop {
        let page = alice
            .ok(json!({"action": "history", "conversation_id": conversation, "before_seq": before, "limit": 100}))
            .await;
        backwards.extend(seqs(&page).into_iter().rev());
        before = *backwards.last().unwrap();
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(forwards, (1..=9).collect::<Vec<_>>());
    assert_eq!(backwards, (1..=9).rev().collect::<Vec<_>>());
}
