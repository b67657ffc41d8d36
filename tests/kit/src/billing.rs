//! What `DynamoDB` bills for a query of an index, where the embedded database counts less.

use serde_json::{Value, json};

const UNIT_BYTES: usize = 4096;

#[expect(clippy::cast_precision_loss, reason = "nowhere near 2^52")]
fn units(bytes: usize, each: f64) -> f64 {
    bytes.div_ceil(UNIT_BYTES).max(1) as f64 * each
}

/// Returns the reply with the capacity that `DynamoDB` bills. A query of a local index for attributes outside the index
/// fetches each item from the table. Each item is rounded up to the next 4 KB by itself:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LSI.html#LSI.Querying>. The embedded database
/// rounds their sum.
pub(crate) fn as_billed(query: &str, (status, answer): (u16, String)) -> (u16, String) {
    let query: Value = serde_json::from_str(query).expect("the request is well formed");
    let is_fetched = query["IndexName"].is_string() && query["Select"] == "ALL_ATTRIBUTES";
    if status != 200 || !is_fetched || query["ReturnConsumedCapacity"].is_null() {
        return (status, answer);
    }
    let mut answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    let each = if query["ConsistentRead"] == true { 1.0 } else { 0.5 };
    let fetched: f64 = answer["Items"].as_array().into_iter().flatten().map(|item| units(item_bytes(item), each)).sum();
    let keys = |item: &Value| {
        let names = ["user_id", "conversation_id", "active_at", "pending_since"];
        names.iter().filter_map(|name| Some(name.len() + value_bytes(item.get(name)?))).sum::<usize>()
    };
    let entries: usize = answer["Items"].as_array().into_iter().flatten().map(keys).sum();
    let index = units(entries, each);
    let consumed = &mut answer["ConsumedCapacity"];
    consumed["CapacityUnits"] = json!(fetched + index);
    if consumed["Table"].is_object() {
        consumed["Table"]["CapacityUnits"] = json!(fetched);
        for (_, of_index) in consumed["LocalSecondaryIndexes"].as_object_mut().into_iter().flatten() {
            of_index["CapacityUnits"] = json!(index);
        }
    }
    (status, answer.to_string())
}

/// Names and values, as <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html> counts them.
fn item_bytes(item: &Value) -> usize {
    item.as_object().into_iter().flatten().map(|(name, value)| name.len() + value_bytes(value)).sum()
}

fn value_bytes(value: &Value) -> usize {
    let Some((kind, value)) = value.as_object().and_then(|value| value.iter().next()) else { return 0 };
    match (kind.as_str(), value) {
        ("N", Value::String(digits)) => digits.len().div_ceil(2) + 1,
        ("L", Value::Array(values)) => 3 + values.iter().map(|value| 1 + value_bytes(value)).sum::<usize>(),
        ("M", map) => 3 + item_bytes(map),
        (_, Value::String(text)) => text.len(),
        _ => 1,
    }
}
