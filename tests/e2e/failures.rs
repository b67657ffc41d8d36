//! Phones that vanish, functions that die, tables that are gone.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use local::{Logs, Tokens};
use serde_json::json;
use testkit::{ConnectError, PATIENCE, TestServer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::client::Folder;

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "has $disconnect lost")]
async fn a_socket_that_died_unseen_is_found_gone_forgotten_and_its_message_pends() {
    let server = TestServer::with(|options| options.lose_disconnects = true).await;
    let (mut alice, bob) = (server.phone("alice").await, server.phone("bob").await);
    bob.cut();
    server.age_connections("bob").await;
    // The gateway may notice late. Until then it accepts frames for the dead connection, as AWS does.
    let mut sent = 0;
    while server.connections("bob") == 1 {
        sent += 1;
        alice.send("bob", &format!("m{sent}"), "are you there?").await;
    }
    let mut bob = server.phone("bob").await;
    assert_eq!(bob.drain().await.len(), sent);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "has $disconnect lost")]
async fn a_young_connection_that_is_gone_keeps_its_row() {
    let server = TestServer::with(|options| options.lose_disconnects = true).await;
    let (mut alice, bob) = (server.phone("alice").await, server.phone("bob").await);
    bob.cut();
    alice.send("bob", "m1", "hi").await;
    alice.send("bob", "m2", "hi").await;
    // The connection could be one that is still opening, which returns 410 too.
    assert_eq!(server.connections("bob"), 1);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "kills functions")]
async fn a_function_that_is_killed_costs_one_error_frame_and_no_message() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    alice.send("bob", "m0", "warm").await;
    let conversation = bob.event("messages.new").await["messages"][0]["conversation_id"].clone();
    for round in 1..=5 {
        let id = format!("m{round}");
        let message = json!({"action": "send", "to": "bob", "client_msg_id": id, "kind": "text", "body": "x"});
        alice.start(message.clone()).await;
        for pid in server.local().sandboxes("SendFunction") {
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
        // Answered before it died, or not: a client asks again after API Gateway's own error, and hears which.
        alice.wait_for(|frame| frame["type"] == "reply" || frame["message"] == "Internal server error").await;
        alice.ok(message).await;
    }
    let history = bob.history(conversation.as_str().unwrap()).await;
    assert_eq!(history["last_seq"], 6, "each stored once");
    assert_eq!(bob.conversation("alice").await["unread"], 6);
    assert_eq!(bob.drain().await.len(), 6);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "deletes a table")]
async fn a_missing_table_is_unavailable_and_the_socket_stays() {
    let log = Arc::default();
    let server = TestServer::with(|options| options.logs = Logs::Keep(Arc::clone(&log))).await;
    let mut alice = server.phone("alice").await;
    server.tables().delete_table().table_name("InboxTable").send().await.unwrap();
    for request in [
        json!({"action": "send", "to": "bob", "client_msg_id": "m", "kind": "text", "body": "x"}),
        json!({"action": "drain"}),
        json!({"action": "ack", "up_to": [{"conversation_id": "dm_x", "seq": 1}]}),
        json!({"action": "ping"}),
        json!({"action": "read", "conversation_id": "dm_x", "seq": 1}),
        json!({"action": "inbox"}),
        json!({"action": "history", "conversation_id": "dm_x"}),
    ] {
        let answer = alice.ask(request.clone()).await;
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["retryable"]), (&json!("unavailable"), &json!(true)), "{request}");
        assert!(error["retry_after_ms"].is_u64());
        assert!(!answer.to_string().contains("InboxTable"), "no internal detail leaves the server: {answer}");
        until_logged(&log, &["InboxTable", "ResourceNotFoundException"]).await;
        log.lock().unwrap().clear();
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "deletes a table")]
async fn after_the_commit_nothing_fails_a_send() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    server.tables().delete_table().table_name("ConnectionsTable").send().await.unwrap();
    // Connections can't be listed, and still the server stores the message and replies.
    assert_eq!(alice.send("bob", "m1", "hi").await["seq"], 1);
    assert_eq!(bob.drain().await.len(), 1);
    assert!(!bob.pending().await, "an ack counts though nobody could be told");
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "deletes a table")]
async fn without_its_row_a_connection_is_refused() {
    let log = Arc::default();
    let server = TestServer::with(|options| options.logs = Logs::Keep(Arc::clone(&log))).await;
    server.tables().delete_table().table_name("ConnectionsTable").send().await.unwrap();
    // Senders must find every open connection.
    assert_eq!(server.connect(&server.token("alice")).await.err(), Some(ConnectError(503)));
    until_logged(&log, &["ConnectionsTable", "ResourceNotFoundException"]).await;
}

/// Waits for a line that has all of this in it.
pub(crate) async fn until_logged(log: &Mutex<Vec<String>>, needles: &[&str]) {
    let found = |line: &String| needles.iter().all(|needle| line.contains(needle));
    let logged = async {
        while !log.lock().unwrap().iter().any(found) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, logged).await.unwrap_or_else(|_| panic!("no line has {needles:?}"));
}

/// Serves the keys of an issuer for as long as it is kept.
pub(crate) async fn serve_keys(listener: TcpListener, keys: String) {
    while let Ok((mut socket, _)) = listener.accept().await {
        let (request, mut answer) = socket.split();
        let mut lines = BufReader::new(request).lines();
        while lines.next_line().await.unwrap().is_some_and(|line| !line.is_empty()) {}
        let length = keys.len();
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{keys}");
        answer.write_all(text.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "takes the issuer down")]
async fn while_the_issuer_is_down_nobody_connects_and_who_is_there_stays() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let folder = Folder::new("issuer");
    let keys = ("JWKS_URL".to_owned(), format!("http://{address}/"));
    let server = TestServer::with(|options| options.environment.extend([keys])).await;
    let issuer = server.local().http_url();
    let issuer = Tokens::with_key_file(&folder.0.join("key"), issuer, "pigeonhole".to_owned()).unwrap();
    let connect = async |user| server.connect(&issuer.issue(user, 60).unwrap()).await;

    let serving = tokio::spawn(serve_keys(listener, issuer.jwks().to_string()));
    let mut alice = connect("alice").await.unwrap();
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    // A process with the keys would continue with them.
    for pid in server.local().sandboxes("AuthorizeFunction") {
        Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    }
    assert_eq!(connect("bob").await.err(), Some(ConnectError(500)));
    assert_eq!(alice.send("bob", "m1", "are you there?").await["seq"], 1);

    let listener = TcpListener::bind(address).await.unwrap();
    let _serving = tokio::spawn(serve_keys(listener, issuer.jwks().to_string()));
    // A process without keys refuses all users for two seconds before its next request.
    let connected = async {
        loop {
            match connect("bob").await {
                Ok(bob) => return bob,
                Err(error) => assert_eq!(error, ConnectError(500)),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let mut bob = timeout(PATIENCE, connected).await.expect("the keys are there again");
    assert_eq!(bob.drain().await.len(), 1);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "restarts the server")]
async fn kept_data_is_there_after_a_restart() {
    let folder =
        std::env::temp_dir().join(format!("pigeonhole-{}-{:?}", std::process::id(), std::thread::current().id()));
    let keep = |options: &mut local::Options| options.data = Some(folder.clone());
    let server = TestServer::with(keep).await;
    server.phone("alice").await.send("bob", "m1", "hi").await;
    server.shutdown().await;

    let server = TestServer::with(keep).await;
    let mut bob = server.phone("bob").await;
    let drained = bob.drain().await;
    assert_eq!(drained[0]["body"], "hi");
    server.shutdown().await;
    std::fs::remove_dir_all(folder).unwrap();
}
