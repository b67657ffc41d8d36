//! `clients/rust/examples/chat.rs`, with a pipe as its input.

use std::process::Stdio;

use testkit::{PATIENCE, TestServer};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

#[tokio::test]
async fn a_byte_that_is_not_utf_8_neither_ends_the_pipe_nor_loses_a_message() {
    let program = testkit::example("chat");
    let server = TestServer::open().await;
    let mut chat = Command::new(program);
    chat.args([&server.id("alice"), &server.id("bob"), server.url()]).env("PIGEONHOLE_TOKEN", server.token("alice"));
    chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut chat = chat.spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"one\n\xff\r\ntwo\n").await.unwrap();
    let ended = timeout(PATIENCE, chat.wait_with_output()).await.expect("the pipe has ended").unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let pending = server.phone("bob").await.drain().await;
    let bodies: Vec<_> = pending.iter().map(|message| message["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["one", "\u{fffd}", "two"]);
}
