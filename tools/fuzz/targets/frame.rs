//! Any text as a frame: a request, or a refusal that is an error frame of bounded size.
#![no_main]

use domain::{Request, UserId, frame_error};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &str| {
    let caller = UserId::parse("alice").expect("a user id");
    if let Err(rejected) = Request::parse(frame, &caller) {
        let answer = frame_error(rejected.action.as_deref(), rejected.id.as_ref(), &rejected.refusal);
        // 64 echoed characters twice, six bytes each once escaped, and our own words.
        assert!(answer.len() < 2_000, "{answer}");
        assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok_and(|answer| answer["type"] == "error"));
    }
});
