//! An alarm of CloudWatch for each entry of alarms.yaml.

use serde_yaml_ng::{Mapping, Value};

use super::metric::Metric;
use super::yaml::{map, reference, sub, tag, text};
use super::{capitalized, resource, tags};

const PAGE: &str = "docs/runbook.md";

pub(super) fn id(name: &str) -> String {
    name.split('-').map(capitalized).chain(["Alarm".to_owned()]).collect()
}

pub(super) fn alarm(name: &str, entry: &Value) -> Value {
    let or =
        |key: &str, default: &str| entry.get(key).map_or_else(|| default.to_owned(), |value| text(value).to_owned());
    let period = entry.get("period_seconds").cloned().unwrap_or_else(|| 300.into());
    let mut properties = Mapping::new();
    let mut set = |name: &str, value: Value| properties.insert(name.into(), value);
    set("AlarmName", sub(&format!("${{AWS::StackName}}-{name}")));
    set("AlarmDescription", format!("{} See {PAGE}#{name}", text(&entry["says"])).into());
    if let Some(metric) = entry.get("metric") {
        let metric = Metric::parse(text(metric));
        set("Namespace", metric.namespace.into());
        set("MetricName", metric.name.as_str().into());
        set("Dimensions", metric.dimensions());
        set("Statistic", metric.stat.into());
        set("Period", period);
    } else {
        set("Metrics", queries(entry, &period).into());
    }
    let (operator, bound) = match entry.get("above") {
        Some(bound) => ("GreaterThanThreshold", bound),
        None => ("LessThanThreshold", &entry["below"]),
    };
    let number = |text: &str| Value::from(text.parse::<u64>().expect("a number"));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    set("ComparisonOperator", operator.into());
    set("Threshold", number(&digits(text(bound))));
    let periods = or("periods", "2 of 3");
    let (bad, of) = periods.split_once(" of ").expect("`2 of 3`");
    set("EvaluationPeriods", number(of));
    set("DatapointsToAlarm", number(bad));
    set("TreatMissingData", or("TreatMissingData", "notBreaching").into());
    for actions in ["AlarmActions", "OKActions"] {
        let topic = vec![reference("AlarmTopicArn")].into();
        set(actions, tag("If", vec!["HasAlarmTopic".into(), topic, reference("AWS::NoValue")].into()));
    }
    set("Tags", tags());
    let mut alarm = resource("AWS::CloudWatch::Alarm", properties.into());
    if let Some(condition) = entry.get("Condition") {
        alarm["Condition"] = condition.clone();
    }
    alarm
}

/// The first is what the alarm compares; the others are there for it.
fn queries(entry: &Value, period: &Value) -> Vec<Value> {
    let metrics = entry["metrics"].as_mapping().expect("an alarm has a metric or some");
    let bad = r#"SUM(FILL(METRICS("bad"), 0))"#;
    let all = if metrics.contains_key("all") { "all" } else { "SUM(FILL(METRICS(), 0))" };
    let once = entry.get("once").map_or("> 5", text);
    let share = format!("IF({bad} {once}, 100 * {bad} / {all}, 0)");
    let expression = entry.get("expression").map_or(share, |expression| text(expression).to_owned());
    let percent = map([("Id", "percent".into()), ("Label", entry["label"].clone()), ("Expression", expression.into())]);
    let helpers = entry.get("expressions").and_then(Value::as_mapping).into_iter().flatten();
    let hidden = |id: &Value, member: &str, value: Value| {
        map([("Id", id.clone()), ("ReturnData", false.into()), (member, value)])
    };
    let helpers = helpers.map(|(id, expression)| hidden(id, "Expression", expression.clone()));
    let stats = metrics.iter().map(|(id, metric)| {
        let metric = Metric::parse(text(metric));
        let which = map([
            ("Namespace", metric.namespace.into()),
            ("MetricName", metric.name.as_str().into()),
            ("Dimensions", metric.dimensions()),
        ]);
        let stat = [("Stat", metric.stat.as_str().into()), ("Period", period.clone()), ("Metric", which)];
        hidden(id, "MetricStat", map(stat))
    });
    std::iter::once(percent).chain(helpers).chain(stats).collect()
}
