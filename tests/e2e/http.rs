//! Requests over HTTP, next to the sockets of the same users.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Network, TestServer};

use crate::client::{App, config};

/// The status and the body of the reply to a request with this token.
pub(crate) async fn post(server: &TestServer, token: &str, path: &str, frame: &Value) -> (u16, Value) {
    from_device(server, (token, None), path, frame).await
}

async fn from_device(
    server: &TestServer,
    (token, device): (&str, Option<&str>),
    path: &str,
    frame: &Value,
) -> (u16, Value) {
    let url = format!("{}/v1/{path}", server.local().http_url());
    let mut request = server.http.post(url).bearer_auth(token).json(frame);
    if let Some(device) = device {
        request = request.header("x-device-id", device);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn hi(id: &str) -> Value {
    json!({"to": "bob", "client_msg_id": id, "kind": "text", "body": "hi"})
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "a deployed stack may have no HTTP API")]
async fn every_action_over_http_is_that_of_a_socket() {
    let server = TestServer::open().await;
    let (alice, bob) = (server.token("alice"), server.token("bob"));
    let mut socket = server.phone("bob").await;
    let ok = async |token: &str, path: &str, frame: Value| {
        let (status, mut answer) = post(&server, token, path, &frame).await;
        assert_eq!((status, &answer["type"], &answer["action"]), (200, &json!("reply"), &json!(path)), "{answer}");
        answer["result"].take()
    };
    let sent = ok(&alice, "send", hi("m1")).await;
    assert_eq!(socket.event("messages.new").await["messages"][0]["body"], "hi");
    let (conversation, seq) = (&sent["conversation_id"], &sent["seq"]);
    let of = |key: &str, more: Value| {
        let mut frame = json!({"conversation_id": conversation, "seq": seq, "client_msg_id": key});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    assert_eq!(ok(&bob, "drain", json!({})).await["messages"].as_array().unwrap().len(), 1);
    ok(&bob, "ack", json!({"up_to": [{"conversation_id": conversation, "seq": seq}]})).await;
    assert_eq!(ok(&bob, "drain", json!({})).await["messages"], json!([]));
    assert_eq!(ok(&bob, "read", json!({"conversation_id": conversation, "seq": seq})).await["unread"], 0);
    ok(&bob, "react", of("r1", json!({"emoji": "👍"}))).await;
    ok(&alice, "edit", of("e1", json!({"body": "hello"}))).await;
    assert_eq!(ok(&bob, "history", json!({"conversation_id": conversation})).await["messages"][0]["body"], "hello");
    assert_eq!(ok(&bob, "inbox", json!({})).await["conversations"][0]["peer_id"], "alice");
    ok(&alice, "profiles", json!({"user_ids": ["alice"]})).await;
    ok(&alice, "delete", of("d1", json!({}))).await;
    for path in ["watch", "typing", "device", "ping", "services/kick/x", "services"] {
        assert_eq!(post(&server, &alice, path, &json!({})).await, (404, json!({"message": "Not Found"})), "{path}");
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "a deployed stack may have no HTTP API")]
async fn the_same_message_by_both_ways_is_one() {
    let server = TestServer::open().await;
    let mut alice = server.device("alice", "laptop").await;
    let (mut bob, token) = (server.phone("bob").await, server.token("alice"));
    let device = (token.as_str(), Some("phone"));
    let (status, by_http) = from_device(&server, device, "send", &hi("m1")).await;
    assert_eq!(status, 200, "{by_http}");
    assert_eq!(alice.event("messages.new").await["messages"][0]["seq"], 1, "another device gets a copy");
    assert_eq!(alice.send("bob", "m1", "hi").await["duplicate"], true);
    assert_eq!(bob.drain().await.len(), 1);
    alice.event("receipt.delivered").await;
    let device = (token.as_str(), Some("laptop"));
    assert_eq!(from_device(&server, device, "send", &hi("m2")).await.0, 200);
    alice.expect_silence().await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "a deployed stack may have no HTTP API")]
async fn a_token_over_http_ends_with_its_time_and_with_a_suspension() {
    let server = TestServer::open().await;
    let local: Value = {
        let local = server.http.get(format!("{}/local", server.local().http_url())).send().await.unwrap();
        local.json().await.unwrap()
    };
    assert_eq!(local["http_url"], json!(server.local().http_url()));
    let url = format!("{}/v1/send", server.local().http_url());
    assert_eq!(server.http.post(&url).json(&hi("m1")).send().await.unwrap().status(), 401);
    assert_eq!(post(&server, "no.token.at-all", "send", &hi("m1")).await, (403, json!({"message": "Forbidden"})));

    let token = server.token("alice");
    assert_eq!(post(&server, &token, "send", &hi("m1")).await.0, 200);
    let admin = local["admin_url"].as_str().unwrap();
    let suspend = json!({"op": "suspend", "user_id": "alice", "until": "2099-01-01T00:00:00Z"});
    server.http.post(admin).json(&suspend).send().await.unwrap();
    let (status, error) = post(&server, &token, "send", &hi("m2")).await;
    assert_eq!((status, &error["error"]["code"]), (403, &json!("forbidden")));

    // The authorizer's reply for the token is kept, and the function sees the end.
    let short = server.token_for("carol", 2);
    let mut status = post(&server, &short, "send", &hi("m1")).await.0;
    assert_eq!(status, 200);
    while status == 200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        status = post(&server, &short, "inbox", &json!({})).await.0;
    }
    assert_eq!(status, 401);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "a deployed stack may have no HTTP API")]
async fn a_flood_over_http_is_refused_and_the_socket_goes_on() {
    let limits =
        [("HttpRateLimit", "1"), ("HttpBurstLimit", "5")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = TestServer::with(|options| options.parameters.extend(limits)).await;
    let (mut alice, token) = (server.phone("alice").await, server.token("mallory"));
    let mut last = (200, Value::Null);
    for _ in 0..20 {
        last = post(&server, &token, "drain", &json!({})).await;
    }
    assert_eq!(last, (429, json!({"message": "Too Many Requests"})));
    alice.drain().await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "a deployed stack may have no HTTP API")]
async fn a_service_writes_with_its_token_and_is_no_user() {
    let server = TestServer::open().await;
    let (mut bob, orders) = (server.phone("bob").await, server.token("@orders"));
    let (status, sent) = post(&server, &orders, "services/send", &hi("order-1")).await;
    assert_eq!(status, 200, "{sent}");
    assert_eq!(bob.event("messages.new").await["messages"][0]["sender_id"], "@orders");
    for (token, path) in [(&orders, "send"), (&server.token("alice"), "services/send")] {
        let (status, error) = post(&server, token, path, &hi("m1")).await;
        assert_eq!((status, &error["error"]["code"]), (403, &json!("forbidden")), "{path}");
    }
    let (status, error) = post(&server, &orders, "services/suspend", &json!({"user_id": "bob"})).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("unknown_action")));
    assert_eq!(server.connect(&orders).await.err().map(|refused| refused.0), Some(403));
}

async fn over_http(server: &TestServer, socket: &str, url: &str) -> App {
    App::ready(config(server, socket, "alice").http(url)).await
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "a deployed stack may have no HTTP API")]
async fn a_client_goes_on_by_its_socket_while_http_is_silent_or_gone() {
    let server = TestServer::open().await;
    for is_gone in [false, true] {
        let name = if is_gone { "carol" } else { "bob" };
        let mut peer = server.phone(name).await;
        let frames = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&frames);
        // The socket shows no frame of a request that went over HTTP.
        let socket = Network::watched(&server, move |frame| {
            let frame: Value = serde_json::from_slice(frame).unwrap_or_default();
            let is_request = frame["action"] == "send" && frame["type"].is_null();
            counted.fetch_add(usize::from(is_request), Ordering::Relaxed);
        });
        let (socket, network) = (socket.await, Network::to(&server).await);
        let url = network.url().replace("ws://", "http://").trim_end_matches("/v1").to_owned();
        let alice = over_http(&server, &socket.url(), &url).await;
        let to = server.id(name);
        alice.client.send_to(&*to, "one").await.unwrap().stored().await.unwrap();
        assert_eq!(frames.load(Ordering::Relaxed), 0);
        if is_gone {
            drop(network);
        } else {
            network.mute_server();
        }
        alice.client.send_to(&*to, "two").await.unwrap();
        let three = alice.client.send_to(&*to, "three").await.unwrap();
        three.stored().await.unwrap();
        assert_eq!(frames.load(Ordering::Relaxed), 2);
        let bodies = peer.drain().await;
        assert_eq!(bodies.iter().map(|it| it["body"].as_str().unwrap()).collect::<Vec<_>>(), ["one", "two", "three"]);
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "a deployed stack may have no HTTP API")]
async fn a_client_goes_on_by_its_socket_while_http_is_flooded() {
    let limits =
        [("HttpRateLimit", "1"), ("HttpBurstLimit", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = TestServer::with(|options| options.parameters.extend(limits)).await;
    let mut bob = server.phone("bob").await;
    let alice = over_http(&server, server.url(), &server.local().http_url()).await;
    let mut sent = Vec::new();
    for number in 1..=10 {
        sent.push(alice.client.send_to(&*server.id("bob"), number.to_string()).await.unwrap());
    }
    for (sent, seq) in sent.into_iter().zip(1..) {
        assert_eq!(sent.stored().await.unwrap().seq, seq);
    }
    assert_eq!(bob.drain().await.len(), 10);
}
