//! A row of a table, as DynamoDB writes it.

use serde_json::Value;

/// The row as plain JSON: `{"S": "a"}` as `"a"`, `{"N": "1"}` as `1`, and so on.
pub fn plain_item(item: &Value) -> Value {
    let attributes = item.as_object().into_iter().flatten();
    Value::Object(attributes.map(|(name, value)| (name.clone(), plain(value))).collect())
}

fn plain(typed: &Value) -> Value {
    let Some((kind, value)) = typed.as_object().and_then(|object| object.iter().next()) else {
        return typed.clone();
    };
    let items = || value.as_array().into_iter().flatten();
    let number = |text: &Value| text.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(text.clone());
    match kind.as_str() {
        "N" => number(value),
        "NS" => items().map(number).collect(),
        "NULL" => Value::Null,
        "L" => items().map(plain).collect(),
        "M" => plain_item(value),
        _ => value.clone(),
    }
}
