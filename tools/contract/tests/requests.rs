//! The schemas match what `wire` reads: the server handles a request that they allow, and refuses any other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::collections::BTreeSet;

use contract::{check_request, examples, schema};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::Request;
use wire::limits::{ACK_ENTRIES_MAX, COMMIT_CHARS_MAX, FRAME_BYTES_MAX};

fn requests() -> Vec<Value> {
    let all = examples().into_iter().filter(|(name, _)| name.ends_with("Request"));
    all.map(|(_, frame)| serde_json::from_str(&frame).unwrap()).collect()
}

/// Values on both sides of every limit.
fn values() -> Vec<Value> {
    let limits: Vec<u64> =
        schema()["limits"].as_object().unwrap().values().map(|limit| limit.as_u64().unwrap()).collect();
    let around = || limits.iter().flat_map(|limit| [*limit, limit + 1]).chain([0, 1, 2]);
    // Longer ones make a frame too large, whatever else is in it.
    let lengths = around().filter_map(|length| usize::try_from(length).ok()).filter(|length| *length < FRAME_BYTES_MAX);
    let entry = json!({"conversation_id": "dm_x", "seq": 7});
    let lists = [0, 1, ACK_ENTRIES_MAX, ACK_ENTRIES_MAX + 1].map(|length| Value::Array(vec![entry.clone(); length]));
    let entries =
        [json!({"conversation_id": "dm_x"}), json!({"conversation_id": "dm_x", "seq": 0}), json!({"seq": 1}), json!(7)];
    let mut values: Vec<Value> = lengths.map(|length| json!("x".repeat(length))).collect();
    values.extend(around().map(Value::from));
    values.extend([
        json!(-1),
        json!(1.5),
        json!(0.0),
        json!(1.0),
        json!(7.0),
        json!(1e300),
        json!(-0.0),
        json!(true),
        json!({}),
        json!("text"),
        json!("two words"),
    ]);
    values.extend(
        [
            " ",
            "a\u{85}",
            "\u{200b}",
            "\u{202e}a",
            "a\u{2066}",
            "\u{2028}a",
            "\u{1f469}\u{200d}\u{fe0f}",
            "\u{e0041}",
            "\u{3164}a",
        ]
        .map(Value::from),
    );
    values.extend(["audio/x+xml", "audio/html", "audio/mp4", "ש\u{200f}", "❤", "../a"].map(Value::from));
    values.extend(["ü", "a\n", "2025-11-20T11:00:00.123+01:00", "2025-11-20"].map(Value::from));
    values.extend(lists);
    values.extend(entries.map(|entry| json!([entry])));
    values
}

/// Returns every field of every request, and one that does not exist. The cursor is left out: no schema distinguishes it
/// from another text.
fn fields() -> Vec<String> {
    let schema = schema();
    let requests = schema["definitions"].as_object().unwrap().iter().filter(|(name, _)| name.ends_with("Request"));
    let fields = requests.flat_map(|(_, request)| properties(request));
    let all: BTreeSet<String> = fields.filter(|field| field != "cursor").chain(["colour".to_owned()]).collect();
    all.into_iter().collect()
}

/// Returns the properties of a schema and of its parts.
fn properties(schema: &Value) -> Vec<String> {
    let own = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().cloned());
    let parts =
        ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|parts| schema[parts].as_array().into_iter().flatten());
    own.chain(parts.flat_map(properties)).collect()
}

#[derive(Clone, Debug)]
enum Change {
    Remove(String),
    Set(String, Value),
}

fn change() -> impl Strategy<Value = Change> {
    let field = prop::sample::select(fields());
    prop_oneof![
        1 => field.clone().prop_map(Change::Remove),
        4 => (field, prop::sample::select(values())).prop_map(|(field, value)| Change::Set(field, value)),
    ]
}

fn is_read_as_the_schemas_say(frame: &Value) -> Result<(), String> {
    let (read, allowed) = (Request::parse(&frame.to_string()), check_request(frame));
    // No schema adds up the lengths of several fields.
    let is_long = frame.get("group_info").is_some() && frame.to_string().len() > COMMIT_CHARS_MAX;
    // No schema knows the ids of groups.
    let of_groups = [("commit", "removes"), ("claim_keys", "conversation_id")];
    let is_of_groups = of_groups.iter().any(|(action, field)| frame["action"] == *action && frame.get(field).is_some());
    if read.is_ok() == allowed.is_ok() || is_long || is_of_groups {
        Ok(())
    } else {
        Err(format!("{frame}: {read:?}, {allowed:?}"))
    }
}

#[test]
fn a_limit_of_a_field_is_the_same_in_both() {
    let values = values();
    for request in requests() {
        for field in request.as_object().unwrap().keys().filter(|field| *field != "cursor") {
            for value in &values {
                let mut frame = request.clone();
                frame[field] = value.clone();
                if frame.to_string().len() <= FRAME_BYTES_MAX {
                    is_read_as_the_schemas_say(&frame).unwrap();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_schemas_allow_is_what_is_read(
        request in prop::sample::select(requests()),
        changes in prop::collection::vec(change(), 0..3),
    ) {
        let mut frame = request;
        for change in changes {
            match change {
                Change::Remove(field) => drop(frame.as_object_mut().unwrap().remove(&field)),
                Change::Set(field, value) => frame[field] = value,
            }
        }
        prop_assume!(frame.to_string().len() <= FRAME_BYTES_MAX);
        let same = is_read_as_the_schemas_say(&frame);
        prop_assert!(same.is_ok(), "{same:?}");
    }
}
