//! A metric as alarms.yaml and dashboard.yaml write it: `events route=send`, `lambda:Errors SendFunction`, `Maximum(…)`.

use serde_yaml_ng::Value;

use super::yaml::{get_att, map, reference};

pub(super) struct Metric {
    pub(super) stat: String,
    pub(super) namespace: &'static str,
    pub(super) name: String,
    dimensions: Vec<(String, Dimension)>,
}

enum Dimension {
    Text(String),
    Id(String),
    /// The name of a queue, whose reference is its URL.
    QueueName(String),
}

impl Metric {
    pub(super) fn parse(text: &str) -> Self {
        let (stat, text) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((stat, text)) => (stat, text),
            None => ("Sum", text),
        };
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let id = || Dimension::Id(rest.to_owned());
        let (service, name) = name.split_once(':').unwrap_or(("", name));
        let (namespace, dimensions) = match service {
            "" => {
                let stack = ("stack", Dimension::Id("AWS::StackName".to_owned()));
                let pairs = rest.split_whitespace().map(|pair| pair.split_once('=').expect("a dimension has a value"));
                let own = pairs.map(|(name, value)| (name, Dimension::Text(value.to_owned())));
                ("Pigeonhole", std::iter::once(stack).chain(own).collect())
            }
            "api" => {
                let api = Dimension::Id("WebSocketApi".to_owned());
                ("AWS/ApiGateway", vec![("ApiId", api), ("Stage", Dimension::Text("v1".to_owned()))])
            }
            "lambda" => ("AWS/Lambda", vec![("FunctionName", id())]),
            "dynamodb" => ("AWS/DynamoDB", vec![("TableName", id())]),
            "sqs" => ("AWS/SQS", vec![("QueueName", Dimension::QueueName(rest.to_owned()))]),
            other => panic!("{other} is no service of which metrics are known"),
        };
        let dimensions = dimensions.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { stat: stat.to_owned(), namespace, name: name.to_owned(), dimensions }
    }

    /// As CloudFormation wants them.
    pub(super) fn dimensions(&self) -> Value {
        let value = |dimension: &Dimension| match dimension {
            Dimension::Text(text) => text.as_str().into(),
            Dimension::Id(id) => reference(id),
            Dimension::QueueName(id) => get_att(&format!("{id}.QueueName")),
        };
        let each = |(name, dimension): &(String, Dimension)| {
            map([("Name", name.as_str().into()), ("Value", value(dimension))])
        };
        self.dimensions.iter().map(each).collect::<Vec<_>>().into()
    }

    /// As a dashboard wants it, within `!Sub`.
    pub(super) fn in_dashboard(&self) -> Vec<serde_json::Value> {
        let value = |dimension: &Dimension| match dimension {
            Dimension::Text(text) => text.clone(),
            Dimension::Id(id) => format!("${{{id}}}"),
            Dimension::QueueName(id) => format!("${{{id}.QueueName}}"),
        };
        let dimensions = self.dimensions.iter().flat_map(|(name, dimension)| [name.clone(), value(dimension)]);
        [self.namespace.to_owned(), self.name.clone()].into_iter().chain(dimensions).map(Into::into).collect()
    }
}
