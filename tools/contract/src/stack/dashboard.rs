//! The dashboard, whose body is JSON in a `!Sub`. A part that depends on a condition is a variable of the `!Sub`.

use serde_json::{Value as Json, json};
use serde_yaml_ng::{Mapping, Value};

use super::metric::Metric;
use super::yaml::{map, reference, sub, tag, text};
use super::{alarms, resource, tags};

pub(super) fn dashboard(source: &Mapping, alarm_entries: &Mapping) -> Value {
    let mut variables = Variables::default();
    let mut arns = List::default();
    for (name, alarm) in alarm_entries {
        arns.add(&mut variables, alarm.get("Condition"), "Alarms", format!("\"${{{}.Arn}}\"", alarms::id(text(name))));
    }
    let mut widgets = List::default();
    let alarms =
        r#"{"type": "alarm", "x": 0, "y": 0, "width": 24, "height": 4, "properties": {"title": "Alarms", "alarms": ["#;
    widgets.add(&mut variables, None, "Graphs", format!("{alarms}\n{}]}}}}", arns.text()));
    let lists = &source["lists"];
    let rows = source["rows"].as_sequence().expect("rows is a list").iter().enumerate();
    let placed = rows.flat_map(|(row, graphs)| {
        let graphs = graphs.as_sequence().expect("a row is a list").iter().enumerate();
        graphs.map(move |(column, graph)| (8 * column, 4 + 6 * row, graph))
    });
    for (x, y, graph) in placed {
        let mut metrics = List::default();
        for metric in metrics_of(lists, graph) {
            metrics.add(&mut variables, None, "Metrics", metric);
        }
        if let Some(more) = graph.get("more") {
            for metric in metrics_of(lists, more) {
                metrics.add(&mut variables, more.get("if"), "Metrics", metric);
            }
        }
        let period = graph.get("period_seconds").and_then(Value::as_u64).unwrap_or(300);
        let widget = format!(
            r#"{{"type": "metric", "x": {x}, "y": {y}, "width": 8, "height": 6, "properties": {{"title": {}, "region": "${{AWS::Region}}", "period": {period}, "stat": "{}", "metrics": [{}{}]}}}}"#,
            json!(text(&graph["title"])),
            graph.get("stat").map_or("Sum", text),
            "\n",
            metrics.text(),
        );
        widgets.add(&mut variables, graph.get("if"), "Graphs", widget);
    }
    let body = format!("{{\"widgets\": [\n{}]}}\n", widgets.text());
    let variables = variables.0.into_iter().map(|Variable { name, condition, text }| {
        (name.into(), tag("If", vec![condition.into(), sub(&text), "".into()].into()))
    });
    let body = tag("Sub", vec![body.into(), Value::Mapping(variables.collect())].into());
    resource(
        "AWS::CloudWatch::Dashboard",
        map([("DashboardName", reference("AWS::StackName")), ("DashboardBody", body), ("Tags", tags())]),
    )
}

#[derive(Default)]
struct Variables(Vec<Variable>);

struct Variable {
    name: String,
    condition: String,
    text: String,
}

/// The items of a list of the JSON: those that are always there, and then the variables.
#[derive(Default)]
struct List {
    always: Vec<String>,
    variables: Vec<String>,
}

impl List {
    fn add(&mut self, variables: &mut Variables, condition: Option<&Value>, what: &str, item: String) {
        let Some(condition) = condition.map(text) else {
            self.always.push(item);
            return;
        };
        let name = format!("{}{what}", condition.trim_start_matches("Has"));
        if let Some(variable) = variables.0.iter_mut().find(|variable| variable.name == name) {
            variable.text.extend([",\n", &item]);
        } else {
            self.variables.push(format!("${{{name}}}"));
            variables.0.push(Variable { name, condition: condition.to_owned(), text: format!(",\n{item}") });
        }
    }

    fn text(&self) -> String {
        self.always.join(",\n") + &self.variables.concat()
    }
}

fn metrics_of(lists: &Value, graph: &Value) -> Vec<String> {
    let entries = graph["metrics"].as_sequence().expect("a graph has metrics");
    entries.iter().flat_map(|entry| metrics(lists, entry)).collect()
}

fn metrics(lists: &Value, entry: &Value) -> Vec<String> {
    let with = |metric: &str, options: Option<&Value>| {
        let mut parts = Metric::parse(metric).in_dashboard();
        parts.extend(options.map(as_json));
        Json::Array(parts).to_string()
    };
    match entry {
        Value::String(metric) => vec![with(metric, None)],
        Value::Sequence(pair) => vec![with(text(&pair[0]), Some(&pair[1]))],
        entry if entry.get("each").is_some() => {
            let named = |member: &str, name: &str| text(&entry[member]).replace("{}", name);
            let each = |name: &Value| {
                let name = text(name);
                let label = map([("label", named("label", &name.to_lowercase()).into())]);
                with(&named("metric", name), Some(&label))
            };
            lists[text(&entry["each"])].as_sequence().expect("the list is there").iter().map(each).collect()
        }
        expression => {
            let mut expression = as_json(expression);
            let spelled = with_ids(lists, expression["expression"].as_str().expect("an entry has a metric or more"));
            expression["expression"] = spelled.into();
            vec![json!([expression]).to_string()]
        }
    }
}

/// `{tables Table}` as `"${ConnectionsTable}" OR "${MessagesTable}"` and so on.
fn with_ids(lists: &Value, expression: &str) -> String {
    let lists = lists.as_mapping().expect("lists is a map");
    lists.iter().fold(expression.to_owned(), |expression, (list, names)| {
        let Some((before, rest)) = expression.split_once(&format!("{{{} ", text(list))) else {
            return expression;
        };
        let (suffix, after) = rest.split_once('}').expect("the brace ends");
        let names = names.as_sequence().expect("a list of names").iter().map(text);
        let ids: Vec<String> = names.map(|name| format!("\"${{{name}{suffix}}}\"")).collect();
        format!("{before}{}{after}", ids.join(" OR "))
    })
}

fn as_json(value: &Value) -> Json {
    serde_json::to_value(value).expect("it is JSON too")
}
