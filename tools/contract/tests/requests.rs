//! The schemas say what `wire` reads: a request that they allow is served, any other is refused.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use contract::{check_request, examples};
use proptest::prelude::*;
use serde_json::{Value, json};
use wire::Request;
use wire::limits::FRAME_BYTES_MAX;

fn requests() -> Vec<Value> {
    let all = examples().into_iter().filter(|(name, _)| name.ends_with("Request"));
    all.map(|(_, frame)| serde_json::from_str(&frame).unwrap()).collect()
}

/// Values on both sides of every limit.
fn values() -> Vec<Value> {
    let texts = |lengths: &[usize]| lengths.iter().map(|length| json!("x".repeat(*length))).collect::<Vec<_>>();
    let entry = json!({"conversation_id": "dm_x", "seq": 7});
    let lists = [0, 1, 25, 26].map(|length| Value::Array(vec![entry.clone(); length]));
    let entries =
        [json!({"conversation_id": "dm_x"}), json!({"conversation_id": "dm_x", "seq": 0}), json!({"seq": 1}), json!(7)];
    let mut values = texts(&[0, 1, 64, 65, 128, 129, 16 * 1024, 16 * 1024 + 1]);
    values.extend([0_i64, 1, 2, 50, 51, 100, 101, -1, (1 << 53) - 1, 1 << 53].map(Value::from));
    values.extend([json!(1.5), json!(true), json!({}), json!("text"), json!("two words"), json!("ü"), json!("a\n")]);
    values.extend(["2025-11-20T11:00:00.123+01:00", "2025-11-20"].map(Value::from));
    values.extend(lists);
    values.extend(entries.map(|entry| json!([entry])));
    values
}

fn fields() -> Vec<&'static str> {
    let mut fields =
        vec!["colour", "id", "to", "conversation_id", "client_msg_id", "kind", "body", "up_to", "ack", "seq"];
    fields.extend(["limit", "since", "before_seq", "after_seq", "action"]);
    fields
}

#[derive(Clone, Debug)]
enum Change {
    Remove(&'static str),
    Set(&'static str, Value),
}

fn change() -> impl Strategy<Value = Change> {
    let field = prop::sample::select(fields());
    prop_oneof![
        1 => field.clone().prop_map(Change::Remove),
        4 => (field, prop::sample::select(values())).prop_map(|(field, value)| Change::Set(field, value)),
    ]
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
                Change::Remove(field) => drop(frame.as_object_mut().unwrap().remove(field)),
                Change::Set(field, value) => frame[field] = value,
            }
        }
        prop_assume!(frame.to_string().len() <= FRAME_BYTES_MAX);
        let read = Request::parse(&frame.to_string());
        prop_assert_eq!(read.is_ok(), check_request(&frame).is_ok(), "{:?} {:?}", read, check_request(&frame));
    }
}
