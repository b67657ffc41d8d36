//! Any text as a frame: a request, or a refusal that is an error frame of bounded size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Request, error_frame};

fuzz_target!(|frame: &str| {
    if let Err(rejected) = Request::parse(frame) {
        let answer = error_frame(rejected.action.as_deref(), rejected.id.as_ref(), &rejected.refusal);
        // 64 echoed characters twice, six bytes each once escaped, and our own words.
        assert!(answer.len() < 2_000, "{answer}");
        assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok_and(|answer| answer["type"] == "error"));
    }
});
