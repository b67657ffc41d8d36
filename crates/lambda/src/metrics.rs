//! The metrics in a log line, in CloudWatch's embedded metric format: a member `_aws` says which of the line's numbers are
//! metrics, and CloudWatch Logs counts them. No call to CloudWatch, no agent, no second line.
//!
//! See the [specification](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html)
//! and `docs/operating.md`, which says what each metric means.

use domain::Timestamp;
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "Pigeonhole";

/// The fields that are metrics where a line has them, by route.
const MEASURES: [&str; 9] =
    ["duration_ms", "store_ms", "push_ms", "conflicts", "posted", "gone", "failed", "left_pending", "messages"];

/// What becomes the line's `_aws`, and the members that it points to; `None` for a line that is not about what came of an
/// event.
///
/// Every combination of dimensions is a metric to pay for, so there are few: the stack, since two stacks of an account must not
/// set off each other's alarms; the route, one of the template's; and the outcome, `ok` or one of the codes of refusal. Never
/// anything that a client can make up.
pub(crate) fn metrics(line: &mut Map<String, Value>, stack: &str, now: Timestamp) -> Option<Value> {
    let outcome = line.get("outcome")?.as_str()?;
    line.get("route")?.as_str()?;
    // How many were `ok` on a route, the samples of its `duration_ms` tell.
    let counted_by = match outcome {
        "ok" => json!([["stack", "outcome"]]),
        _ => json!([["stack", "outcome"], ["stack", "route", "outcome"]]),
    };
    let mut directives = vec![directive(&counted_by, &[json!({"Name": "events"})])];
    let measures: Vec<Value> = MEASURES.into_iter().filter(|name| line.contains_key(*name)).map(definition).collect();
    if !measures.is_empty() {
        directives.push(directive(&json!([["stack", "route"]]), &measures));
    }
    line.insert("stack".to_owned(), json!(stack));
    line.insert("events".to_owned(), json!(1));
    Some(json!({"Timestamp": now.millis(), "CloudWatchMetrics": directives}))
}

fn directive(dimensions: &Value, metrics: &[Value]) -> Value {
    json!({"Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": metrics})
}

/// A count names no unit: what a line does not say costs nothing to ingest.
fn definition(name: &str) -> Value {
    if name.ends_with("_ms") { json!({"Name": name, "Unit": "Milliseconds"}) } else { json!({"Name": name}) }
}
