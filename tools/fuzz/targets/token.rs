//! Any text as a token, at the authorizer's front door: denied, since no signer has the private halves of these keys.
#![no_main]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::LazyLock;

use authorize::{Deps, Expected, Keys, handle};
use lambda::{Clock, Context, LambdaEvent};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use wire::Timestamp;

/// The public example keys of RFC 7515, appendix A, and RFC 8037, appendix A. Tokens that those documents print were
/// signed with them, but none that has an `exp` in the future.
const KEYS: &str = include_str!("../keys.json");

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("a runtime"));

/// Requests the issuer's keys once. The clock stands still, so the authorizer never requests them again.
static AUTHORIZER: LazyLock<Deps> = LazyLock::new(|| Deps {
    keys: Keys::at(&issuer()).expect("a URL"),
    expected: Expected::default(),
    query_string_tokens: false,
    clock: Clock::new(|| Timestamp::from_millis(1_700_000_000_000)),
});

fn issuer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a request");
        socket.read(&mut [0; 4096]).expect("a request");
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", KEYS.len());
        socket.write_all(format!("{head}{KEYS}").as_bytes()).expect("an answer");
    });
    url
}

fuzz_target!(|token: &str| {
    let event = json!({
        "methodArn": "arn", "headers": {"Authorization": format!("Bearer {token}")}, "requestContext": {},
    });
    let Ok(event) = serde_json::from_value(event) else { return };
    let event = LambdaEvent::new(event, Context::default());
    let answer = RUNTIME.block_on(handle(&AUTHORIZER, event)).expect("the keys are there");
    let effect = &serde_json::to_value(answer).expect("JSON")["policyDocument"]["Statement"][0]["Effect"];
    assert_eq!(effect, "Deny", "{token}");
});
