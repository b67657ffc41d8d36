//! The events that a team's own servers get, in the queue of the local server.

use serde_json::{Value, json};
use testkit::{PATIENCE, TestServer};
use tokio::time::timeout;

async fn admin(server: &TestServer, request: Value) -> Value {
    let url = format!("{}/local/admin", server.local().http_url());
    server.http.post(url).json(&request).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "reads the local server's queue")]
async fn every_entry_of_every_conversation_is_an_event() {
    let server = TestServer::with(TestServer::publishing).await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let features = alice.ok(json!({"action": "ping", "features": true})).await["features"].clone();
    assert_eq!(features, json!(testkit::features(&["events", "encryption", "encryption.groups", "encryption.media"])));

    let direct = alice.send("bob", "m1", "hi").await["conversation_id"].clone();
    let change = |action: &str| json!({"action": action, "conversation_id": direct, "seq": 1, "client_msg_id": action});
    let mut edit = change("edit");
    edit["body"] = json!("hello");
    alice.ok(edit).await;
    let mut reaction = change("react");
    reaction["emoji"] = json!("👍");
    bob.ok(reaction).await;
    alice.ok(change("delete")).await;
    let mut conversations = vec![];
    for (kind, members) in [("group", json!(["bob"])), ("channel", json!([]))] {
        let create =
            json!({"action": "create", "kind": kind, "client_msg_id": kind, "title": "Trip", "members": members});
        let conversation = alice.ok(create).await["conversation_id"].clone();
        let say = json!({"action": "send", "conversation_id": conversation, "client_msg_id": kind, "kind": "text", "body": kind});
        alice.ok(say).await;
        conversations.push(conversation);
    }
    let report = json!({"action": "report", "user_id": "bob", "reason": "spam"});
    let report = alice.ok(report).await["report_id"].clone();

    let events = server.events().await;
    let ids: Vec<&Value> = events.iter().map(|event| &event["id"]).collect();
    let id = |conversation: &Value, seq: u64| json!(format!("{}:{seq}", conversation.as_str().unwrap()));
    let [group, channel] = conversations.try_into().unwrap();
    for (conversation, last) in [(&direct, 4), (&group, 2), (&channel, 2)] {
        for seq in 1..=last {
            assert!(ids.contains(&&id(conversation, seq)), "{seq} of {conversation} is missing");
        }
    }
    assert!(ids.contains(&&report));
    assert_eq!(ids.len(), 9);
    let kind = |conversation: &Value| {
        let of = |event: &&Value| event["conversation"]["conversation_id"] == *conversation;
        events.iter().find(of).unwrap()["conversation"]["kind"].clone()
    };
    assert_eq!([&direct, &group, &channel].map(kind), ["direct", "group", "channel"]);

    let page: Value =
        server.http.get(format!("{}/events", server.local().http_url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(page, json!(events), "the page shows the same");
}

/// The bus or the queue refuses for a while, and the functions die: each entry comes, and none with a deleted text.
#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "reads the local server's queue")]
async fn a_consumer_ends_with_every_entry_though_the_queue_refuses_for_a_while() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use testkit::{Fault, Proxy};

    let calls = Arc::new(AtomicU32::new(0));
    let proxy = Proxy::open({
        let calls = Arc::clone(&calls);
        move |function, call| {
            let fails = function == "PublishFunction" && call.operation() == "SendMessageBatch";
            let fault = if calls.load(Ordering::Relaxed).is_multiple_of(2) { Fault::Lost } else { Fault::KilledAfter };
            (fails && calls.fetch_add(1, Ordering::Relaxed) < 6).then_some(fault)
        }
    })
    .await;
    let server = proxy.server_with(TestServer::publishing).await;
    let mut alice = server.phone("alice").await;
    let mut conversation = Value::Null;
    for number in 1..=30 {
        conversation = alice.send("bob", &format!("m{number}"), "canary").await["conversation_id"].clone();
    }
    let events = server.events().await;
    let has = |seq: u64| events.iter().any(|event| event["message"]["seq"] == seq);
    assert!((1..=30).all(has), "{} events", events.len());
    assert!(calls.load(Ordering::Relaxed) > 6, "the queue has refused");

    // A replay brings what the consumer has lost, as it is now.
    server.local().queue("Events").unwrap().purge();
    for seq in 1..=30 {
        let delete = json!({"action": "delete", "conversation_id": conversation, "seq": seq, "client_msg_id": format!("d{seq}")});
        alice.ok(delete).await;
    }
    let replay = json!({"op": "replay", "conversation_id": conversation, "from_seq": 1, "to_seq": 1000});
    assert_eq!(admin(&server, replay).await, json!({"result": {"events": 60}}));
    let again = async {
        while server.local().queue("Events").unwrap().len() < 90 {
            server.events().await;
        }
    };
    timeout(PATIENCE, again).await.expect("the deletes, and all entries once more");
    assert!(server.events().await.iter().all(|event| !event.to_string().contains("canary")));
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "changes the server's options")]
async fn a_server_without_events_has_no_queue_for_them() {
    let server = TestServer::with(|_| {}).await;
    let local: Value =
        server.http.get(format!("{}/local", server.local().http_url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(local["events_url"], Value::Null);
    let page = server.http.get(format!("{}/events", server.local().http_url())).send().await.unwrap();
    assert_eq!(page.status(), 404);
    let mut alice = server.phone("alice").await;
    let sent = alice.send("bob", "m1", "hi").await;
    let replay = json!({"op": "replay", "conversation_id": sent["conversation_id"], "from_seq": 1, "to_seq": 1});
    assert_eq!(admin(&server, replay).await["error"]["code"], "forbidden");
}
