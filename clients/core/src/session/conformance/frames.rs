//! Checks the frames of the scripts against the protocol's types: both must have exactly the same fields.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::{Problem, Reply, Request, ServerEvent};

/// The server would accept it.
pub(super) fn check_request(text: &str) {
    let request = Request::parse(text).unwrap_or_else(|rejected| panic!("{text}: {rejected:?}"));
    assert_eq!(plain(&request), serde_json::from_str::<Value>(text).unwrap(), "{text}");
}

/// The server could send it.
pub(super) fn check_server_frame(frame: &Value) {
    let kind = frame["type"].as_str().unwrap_or_default();
    let action = frame["action"].as_str().unwrap_or_default();
    match (kind, action) {
        ("error", _) => check::<Problem>(&frame["error"]),
        ("reply", _) => {
            let result = Reply::parse(action, frame["result"].clone());
            assert_eq!(plain(&result.unwrap_or_else(|error| panic!("{error}: {frame}"))), frame["result"]);
        }
        // API Gateway's own.
        ("", _) => assert!(frame["message"].is_string() && frame["connectionId"].is_string(), "{frame}"),
        _ => check::<ServerEvent>(frame),
    }
}

/// Read and written again, it is the same.
pub(crate) fn check<T: DeserializeOwned + Serialize>(found: &Value) {
    let typed: T = serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{error}: {found}"));
    assert_eq!(plain(&typed), *found);
}

fn plain(typed: &impl Serialize) -> Value {
    serde_json::to_value(typed).unwrap()
}
