//! `clients/rust/examples/chat.rs`, with a pipe as its input.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{PATIENCE, TestServer};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// Runs the program for alice and bob with this input, up to its end. Returns bob's pending messages.
async fn typed(input: &[u8]) -> Vec<Value> {
    let program = testkit::example("chat");
    let server = TestServer::open().await;
    let mut chat = Command::new(program);
    chat.args([&server.id("alice"), &server.id("bob"), server.url()]).env("PIGEONHOLE_TOKEN", server.token("alice"));
    chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut chat = chat.spawn().unwrap();
    chat.stdin.take().unwrap().write_all(input).await.unwrap();
    let ended = timeout(PATIENCE, chat.wait_with_output()).await.expect("the pipe has ended").unwrap();
    assert!(ended.status.success(), "{ended:?}");
    server.phone("bob").await.drain().await
}

#[tokio::test]
async fn a_byte_that_is_not_utf_8_neither_ends_the_pipe_nor_loses_a_message() {
    let pending = typed(b"one\n\xff\r\ntwo\n").await;
    let bodies: Vec<_> = pending.iter().map(|message| message["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["one", "\u{fffd}", "two"]);
}

#[tokio::test]
async fn a_message_of_an_own_kind_has_its_data_and_a_text_for_others() {
    // The second one lacks its data, and the third one its name.
    let input = b"/own x-poll {\"options\":2} Tea or coffee?\n/own x-poll\n/own poll {}\n/own xs-vote {\"option\":0}\n";
    let pending = typed(input).await;
    let said = |message: &Value| json!([message["kind"], message["body"], message["data"]]);
    assert_eq!(
        pending.iter().map(said).collect::<Vec<_>>(),
        [json!(["x-poll", "Tea or coffee?", {"options": 2}]), json!(["xs-vote", "", {"option": 0}])]
    );
}
