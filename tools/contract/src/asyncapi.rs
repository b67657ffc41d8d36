//! `asyncapi.yaml`: an operation per action and per kind of event, with messages that refer to the schemas.

use serde::Serialize;
use serde_json::Value as Json;
use serde_yaml_ng::{Mapping, Value};
use wire::ACTIONS;

use crate::examples::examples;
use crate::schema::names;

const SCHEMAS: &str = "./frames.schema.json#/definitions/";
const CHANNEL: &str = "#/channels/chat";

#[derive(Serialize)]
struct Reference {
    #[serde(rename = "$ref")]
    to: String,
}

/// `receive` and `send` are the server's.
#[derive(Serialize)]
struct Operation {
    action: &'static str,
    summary: String,
    channel: Reference,
    messages: Vec<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Answers>,
}

#[derive(Serialize)]
struct Answers {
    channel: Reference,
    messages: Vec<Reference>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    name: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<Reference>,
    payload: Reference,
    examples: Vec<Example>,
}

#[derive(Serialize)]
struct Example {
    payload: Value,
}

/// The document's text; `schema` is what [`crate::schema`] gave.
pub(crate) fn asyncapi(schema: &Json) -> String {
    let (requests, pushed) = (names(schema, "Request"), names(schema, "ServerFrame"));
    let events = pushed.iter().filter(|name| name.ends_with("Event"));
    let operations: Mapping =
        requests.iter().map(|name| request(schema, name)).chain(events.map(|name| event(schema, name))).collect();
    let all = || requests.iter().chain(&pushed);
    let in_channel = |name: &String| (name.as_str().into(), yaml(&reference("#/components/messages/", name)));
    let in_channel: Mapping = all().map(in_channel).collect();
    let messages: Mapping = all().map(|name| (name.as_str().into(), yaml(&message(schema, name)))).collect();

    let mut document: Value = serde_yaml_ng::from_str(include_str!("about.yaml")).expect("about.yaml is YAML");
    document["channels"]["chat"]["messages"] = in_channel.into();
    document["operations"] = operations.into();
    document["components"]["messages"] = messages.into();
    let text = serde_yaml_ng::to_string(&document).expect("it can be written");
    format!("# Generated from the types in crates/wire by `just contract`.\n{text}")
}

fn request(schema: &Json, name: &str) -> (Value, Value) {
    let action = schema["definitions"][name]["properties"]["action"]["const"].as_str().expect("a request has one");
    let answers = [&name.replace("Request", "Reply"), "ErrorFrame", "GatewayError"];
    let answers = answers.map(|answer| reference("#/channels/chat/messages/", answer)).into();
    let replies = ACTIONS.iter().any(|spec| spec.name == action && spec.replies);
    let reply = replies.then(|| Answers { channel: reference(CHANNEL, ""), messages: answers });
    (action.into(), operation("receive", schema, name, reply))
}

fn event(schema: &Json, name: &str) -> (Value, Value) {
    let key = name[..1].to_lowercase() + name[1..].trim_end_matches("Event");
    (key.into(), operation("send", schema, name, None))
}

fn operation(action: &'static str, schema: &Json, name: &str, reply: Option<Answers>) -> Value {
    let (channel, messages) = (reference(CHANNEL, ""), vec![reference("#/channels/chat/messages/", name)]);
    yaml(&Operation { action, summary: summary(schema, name), channel, messages, reply })
}

fn message(schema: &Json, name: &str) -> Message {
    let examples = examples().into_iter().filter(|(of, _)| *of == name);
    // JSON is YAML, and read as YAML its fields stay in their order.
    let payload = |(_, frame): (_, String)| serde_yaml_ng::from_str(&frame).expect("an example is JSON");
    let has_id = schema["definitions"][name]["properties"].get("id").is_some();
    Message {
        name: name.to_owned(),
        summary: summary(schema, name),
        correlation_id: has_id.then(|| reference("#/components/correlationIds/", "id")),
        payload: reference(SCHEMAS, name),
        examples: examples.map(|example| Example { payload: payload(example) }).collect(),
    }
}

fn summary(schema: &Json, name: &str) -> String {
    schema["definitions"][name]["description"].as_str().expect("every frame is described").to_owned()
}

fn reference(place: &str, name: &str) -> Reference {
    Reference { to: format!("{place}{name}") }
}

fn yaml(value: &impl Serialize) -> Value {
    serde_yaml_ng::to_value(value).expect("it can be written")
}
