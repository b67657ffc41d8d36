//! Channels, as those who post and those who read see them.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};
use testkit::{Phone, TestServer};

fn about(action: &str, channel: &str, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": channel});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn only(action: &str, channel: &str) -> Value {
    about(action, channel, &json!({}))
}

fn say(channel: &str, id: &str, body: &str) -> Value {
    about("send", channel, &json!({"client_msg_id": id, "kind": "text", "body": body}))
}

async fn create(phone: &mut Phone, join: &str) -> String {
    let frame = json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": [],
        "join": join});
    phone.ok(frame).await["conversation_id"].as_str().unwrap().to_owned()
}

async fn joined(server: &TestServer, user: &str, channel: &str) -> Phone {
    let mut phone = server.phone(user).await;
    phone.ok(only("join", channel)).await;
    phone
}

async fn row(phone: &mut Phone) -> Value {
    phone.ok(json!({"action": "channels"})).await["conversations"][0].take()
}

fn seqs(messages: &Value) -> Vec<u64> {
    messages.as_array().unwrap().iter().map(|message| message["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_post_is_seen_by_who_watches_and_read_by_the_others() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "open").await;
    let (mut bob, mut carol) = (joined(&server, "bob", &channel).await, joined(&server, "carol", &channel).await);
    assert_eq!(bob.ok(only("watch", &channel)).await, json!({"live": true, "last_seq": 1, "poll_ms": 60_000}));
    let sent = alice.ok(say(&channel, "m1", "hi")).await;
    let told = bob.event("messages.new").await;
    let entry = &told["messages"][0];
    assert_eq!((&entry["seq"], &entry["body"], &entry["sender_id"]), (&sent["seq"], &json!("hi"), &json!("alice")));
    alice.ok(about("edit", &channel, &json!({"seq": 2, "client_msg_id": "e1", "body": "hello"}))).await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["body"], "hello");
    let news = row(&mut carol).await;
    assert_eq!((&news["kind"], &news["unread"], &news["last_seq"]), (&json!("channel"), &json!(1), &json!(3)));
    assert_eq!(news["last_message"]["preview"], "hello");
    let page = carol.history(&channel).await;
    assert_eq!((seqs(&page["messages"]), &page["first_seq"]), (vec![2, 3], &json!(2)));
    carol.expect_silence().await;
    let mut tablet = server.phone("carol").await;
    carol.read(&channel, 3).await;
    assert_eq!(tablet.event("receipt.read").await["seq"], 3);
    assert_eq!(row(&mut carol).await["unread"], 0);
    assert!(!carol.pending().await && carol.inbox().await.is_empty());
    bob.ok(only("unwatch", &channel)).await;
    alice.ok(say(&channel, "m2", "more")).await;
    bob.expect_silence().await;
}

#[tokio::test]
async fn unread_is_exact_and_a_deleted_post_counts_until_it_is_read() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "open").await;
    alice.ok(say(&channel, "m1", "before")).await;
    let mut bob = joined(&server, "bob", &channel).await;
    for number in 3..=6 {
        alice.ok(say(&channel, &format!("m{number}"), "hi")).await;
    }
    alice.ok(about("delete", &channel, &json!({"seq": 6, "client_msg_id": "d1"}))).await;
    let news = row(&mut bob).await;
    assert_eq!((&news["unread"], &news["first_seq"]), (&json!(4), &json!(3)));
    assert_eq!((&news["last_message"]["deleted"], &news["last_message"]["preview"]), (&json!(true), &json!("")));
    assert_eq!(bob.read(&channel, 4).await, 2);
    assert_eq!(bob.read(&channel, 6).await, 0);
    let react = |id: &str| about("react", &channel, &json!({"seq": 3, "client_msg_id": id, "emoji": "👍"}));
    alice.ok(react("r1")).await;
    bob.ok(react("r1")).await;
    let page = bob.ok(about("history", &channel, &json!({"after_seq": 2, "limit": 1}))).await;
    assert_eq!(page["messages"][0]["reactions"], json!([{"emoji": "👍", "count": 2, "mine": true}]));
    assert_eq!(page["last_seq"], 7, "reactions are no entries");
}

#[tokio::test]
async fn a_channel_is_open_or_admins_add() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "admins").await;
    let mut bob = server.phone("bob").await;
    // A closed channel looks like one that does not exist.
    assert_eq!(bob.refused(only("join", &channel)).await, "not_member");
    assert_eq!(bob.refused(only("join", "ch_x")).await, "not_member");
    for action in ["history", "watch", "members"] {
        assert_eq!(bob.refused(only(action, &channel)).await, "not_member");
    }
    alice.ok(about("add", &channel, &json!({"client_msg_id": "a1", "members": ["bob"]}))).await;
    assert_eq!(seqs(&bob.history(&channel).await["messages"]), [2]);
    assert_eq!(bob.refused(say(&channel, "x", "x")).await, "forbidden");
    for frame in [
        json!({"action": "ack", "up_to": [{"conversation_id": channel, "seq": 1}]}),
        only("receipts", &channel),
        about("reactions", &channel, &json!({"seq": 1})),
        only("watch", "gr_x"),
    ] {
        assert_eq!(bob.refused(frame).await, "bad_request");
    }
    alice.ok(about("update", &channel, &json!({"client_msg_id": "u1", "join": "open"}))).await;
    let mut carol = joined(&server, "carol", &channel).await;
    let members = carol.ok(only("members", &channel)).await;
    assert_eq!(members["members"].as_array().unwrap().len(), 3);
    carol.ok(only("leave", &channel)).await;
    assert_eq!(carol.ok(json!({"action": "channels"})).await["conversations"], json!([]));
    assert_eq!(carol.refused(only("history", &channel)).await, "not_member");
}

#[tokio::test]
async fn who_is_removed_while_watching_hears_nothing_more() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "open").await;
    let mut watchers = vec![];
    for user in ["bob", "carol", "dave"] {
        let mut phone = joined(&server, user, &channel).await;
        phone.ok(only("watch", &channel)).await;
        watchers.push(phone);
    }
    let [bob, carol, dave] = &mut watchers[..] else { unreachable!() };
    carol.ok(only("leave", &channel)).await;
    alice.ok(about("remove", &channel, &json!({"client_msg_id": "x1", "user_id": "bob"}))).await;
    alice.ok(say(&channel, "m1", "secret")).await;
    dave.wait_for(|frame| frame["messages"][0]["body"] == "secret" || frame["messages"][1]["body"] == "secret").await;
    bob.expect_silence().await;
    carol.expect_silence().await;
    assert_eq!(bob.ok(json!({"action": "channels"})).await["conversations"], json!([]));
}

#[tokio::test]
async fn sixty_who_watch_are_all_told() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "open").await;
    let mut phones = vec![];
    for number in 0..60 {
        let mut phone = joined(&server, &format!("u{number}"), &channel).await;
        assert_eq!(phone.ok(only("watch", &channel)).await["live"], true);
        phones.push(phone);
    }
    alice.ok(say(&channel, "m1", "hi")).await;
    for phone in &mut phones {
        assert_eq!(phone.event("messages.new").await["messages"][0]["body"], "hi");
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "holds the stream of the local server")]
async fn whoever_reads_sees_everything_while_the_stream_is_held() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "open").await;
    let mut bob = joined(&server, "bob", &channel).await;
    bob.ok(only("watch", &channel)).await;
    server.groups_settled().await;
    server.channel_stream().hold().await;
    for number in 2..=4 {
        alice.ok(say(&channel, &format!("m{number}"), "hi")).await;
    }
    assert_eq!(row(&mut bob).await["unread"], 3);
    assert_eq!(seqs(&bob.history(&channel).await["messages"]), [2, 3, 4]);
    bob.expect_silence().await;
    server.channel_stream().duplicate(true);
    server.channel_stream().release();
    server.groups_settled().await;
    assert_eq!(seqs(&bob.event("messages.new").await["messages"]), [2, 3, 4], "at once, and once");
    bob.expect_silence().await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "kills sandboxes of the local server")]
async fn a_fanout_that_is_killed_tells_who_watches_all_the_same() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "open").await;
    let mut phones = vec![];
    for number in 0..20 {
        let mut phone = joined(&server, &format!("u{number}"), &channel).await;
        phone.ok(only("watch", &channel)).await;
        phones.push(phone);
    }
    for number in 2..=6 {
        alice.ok(say(&channel, &format!("m{number}"), "hi")).await;
        for pid in server.local().sandboxes("FanoutFunction") {
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
    }
    server.groups_settled().await;
    for phone in &mut phones {
        // An event may come twice.
        let mut told = BTreeSet::new();
        while told.len() < 5 {
            told.extend(seqs(&phone.event("messages.new").await["messages"]));
        }
        assert_eq!(told, (2..=6).collect());
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "counts connections of the local server")]
async fn who_is_gone_watches_no_more() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let channel = create(&mut alice, "open").await;
    let mut bob = joined(&server, "bob", &channel).await;
    bob.ok(only("watch", &channel)).await;
    bob.leave().await;
    server.until_connections("bob", 0).await;
    let mut bob = server.phone("bob").await;
    alice.ok(say(&channel, "m1", "hi")).await;
    bob.expect_silence().await;
    assert_eq!(bob.ok(only("watch", &channel)).await["last_seq"], 2);
    alice.ok(say(&channel, "m2", "hi")).await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["seq"], 3);
}
