//! Conditions of writes. `tools/scripts/mutants.py` records them, and then drops one clause of one condition at a time. Thus
//! each rule of a table has a test, and no list repeats the rules.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex};

use serde_json::{Value, json};

/// Names the file that gets a line for each condition.
const RECORD: &str = "PIGEONHOLE_CONDITIONS";
/// Contains the line of the replaced condition, a tab, and the condition that replaces it.
const REPLACED: &str = "PIGEONHOLE_REPLACED_CONDITION";

static FILE: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(RECORD).ok());
static RECORDED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static REPLACEMENT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(REPLACED).ok());

/// Records the request's conditions, and replaces the one that the environment names.
pub(crate) fn of_run<'a>(operation: &str, body: &'a str) -> Cow<'a, str> {
    if FILE.is_none() && REPLACEMENT.is_none() {
        return Cow::Borrowed(body);
    }
    let mut request = serde_json::from_str(body).expect("the request is well formed");
    each(operation, &mut request, |line, condition| {
        record(line);
        if let Some((_, other)) =
            REPLACEMENT.as_deref().and_then(|text| text.split_once('\t')).filter(|(of, _)| *of == line)
        {
            *condition = json!(other);
        }
    });
    Cow::Owned(request.to_string())
}

/// Calls `visit` with each condition of the request's writes, and the line that names it: `InboxTable Update: …`.
fn each(operation: &str, request: &mut Value, mut visit: impl FnMut(&str, &mut Value)) {
    let mut one = |kind: &str, write: &mut Value| {
        let table = write["TableName"].as_str().unwrap_or_default().to_owned();
        if let Some(condition) = write.get_mut("ConditionExpression") {
            let line = format!("{table} {kind}: {}", condition.as_str().unwrap_or_default());
            visit(&line, condition);
        }
    };
    if operation != "TransactWriteItems" {
        return one(operation, request);
    }
    for write in request["TransactItems"].as_array_mut().into_iter().flatten() {
        for (kind, write) in write.as_object_mut().into_iter().flatten() {
            one(kind, write);
        }
    }
}

/// Appends the line to the file, once for each process.
fn record(line: &str) {
    let Some(file) = FILE.as_deref() else { return };
    if RECORDED.lock().expect("no test panics with it").insert(line.to_owned()) {
        let mut file = OpenOptions::new().create(true).append(true).open(file).expect("the file can be written");
        file.write_all(format!("{line}\n").as_bytes()).expect("the line is written");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn each_condition_of_a_transaction_has_its_line_and_can_be_replaced() {
        let mut request = json!({"TransactItems": [
            {"Put": {"TableName": "A", "ConditionExpression": "attribute_not_exists(a)"}},
            {"Update": {"TableName": "B"}},
            {"ConditionCheck": {"TableName": "C", "ConditionExpression": "c = :c"}},
        ]});
        let mut lines = vec![];
        super::each("TransactWriteItems", &mut request, |line, condition| {
            lines.push(line.to_owned());
            *condition = Value::Null;
        });
        assert_eq!(lines, ["A Put: attribute_not_exists(a)", "C ConditionCheck: c = :c"]);
        assert_eq!(request["TransactItems"][0]["Put"]["ConditionExpression"], Value::Null);
        assert_eq!(request["TransactItems"][1], json!({"Update": {"TableName": "B"}}));
    }
}
