//! The frames' JSON Schemas, out of the types in `wire`.
//!
//! Draft 7, since that is what AsyncAPI's own schema format is made of. A definition per frame, and one for each type that
//! they share.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use wire::{Action, ErrorFrame, Reply, ServerEvent, limits};

/// API Gateway's own frame when it could not invoke a function. The frame has no `type`, and names no request.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "for its schema")]
struct GatewayError {
    #[schemars(rename = "message")]
    message: String,
    connection_id: String,
    request_id: String,
}

/// All of it: `frames.schema.json`.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft07().for_serialize().into_generator();
    let actions = variants::<Action>(&mut generator);
    let replies = variants::<Reply>(&mut generator);
    let events = variants::<ServerEvent>(&mut generator);
    let error = ErrorFrame::json_schema(&mut generator).to_value();
    let gateway_error = GatewayError::json_schema(&mut generator).to_value();
    let mut frames =
        Frames { definitions: generator.take_definitions(true), requests: vec![], pushed: vec![], inlined: vec![] };

    for action in actions {
        frames.request(action);
    }
    for reply in replies {
        frames.reply(&reply);
    }
    frames.error_codes();
    frames.add("ErrorFrame", error);
    for event in events {
        let name = format!("{}Event", pascal(constant(&event, "type")));
        let event = frames.whole(event);
        frames.add(&name, event);
    }
    frames.add("GatewayError", gateway_error);
    frames.finish()
}

/// The definitions that a choice is between, such as `Request`.
pub(crate) fn names(schema: &Value, choice: &str) -> Vec<String> {
    let choices = schema["definitions"][choice]["oneOf"].as_array().expect("it is a choice").iter();
    choices.map(|one| last(one["$ref"].as_str().expect("of definitions")).to_owned()).collect()
}

/// The schemas of an enum's variants.
fn variants<T: JsonSchema>(generator: &mut SchemaGenerator) -> Vec<Value> {
    let mut schema = T::json_schema(generator).to_value();
    match schema["oneOf"].take() {
        Value::Array(variants) => variants,
        other => unreachable!("an enum with a tag is a choice, not {other}"),
    }
}

struct Frames {
    definitions: Map<String, Value>,
    requests: Vec<String>,
    /// The names of frames that the server sends, replies included.
    pushed: Vec<String>,
    /// Definitions that are whole frames, which have names of their own.
    inlined: Vec<String>,
}

impl Frames {
    /// A variant of [`Action`] is the request without its id.
    fn request(&mut self, mut action: Value) {
        let reference = action["$ref"].as_str().map(|reference| last(reference).to_owned());
        action = self.whole(action);
        self.inlined.extend(reference);
        action["properties"]["id"] = json!({
            "description": "Echoed by the answer.", "allOf": [{"$ref": "#/definitions/RequestId"}]
        });
        let name = format!("{}Request", pascal(constant(&action, "action")));
        self.requests.push(name.clone());
        self.definitions.insert(name, action);
    }

    /// A variant that is a struct of its own refers to that, and adds the tag: here they become one.
    fn whole(&self, mut variant: Value) -> Value {
        if let Some(Value::String(reference)) = object(&mut variant).remove("$ref") {
            let fields = self.definitions.get(last(&reference)).expect("what is referred to is defined");
            merge(&mut variant, fields.clone());
        }
        variant
    }

    /// A variant of [`Reply`] is what `action` and `result` are; the rest is the same in all replies.
    fn reply(&mut self, reply: &Value) {
        let action = constant(reply, "action");
        let name = pascal(action);
        let frame = json!({
            "type": "object",
            "properties": {
                "type": {"type": "string", "const": "reply"},
                "action": {"type": "string", "const": action},
                "id": {"description": "The request's. Left out where it had none.", "allOf": [{"$ref": "#/definitions/RequestId"}]},
                "result": {"$ref": format!("#/definitions/{name}Result")},
            },
            "required": ["type", "action", "result"],
            "description": format!("The answer to `{action}`, if it succeeded."),
        });
        assert!(self.definitions.contains_key(&format!("{name}Result")), "{action} has a result");
        self.add(&format!("{name}Reply"), frame);
    }

    /// A frame has the code of a [`wire::Refusal`], not its fields.
    fn error_codes(&mut self) {
        let codes = self.definitions.get_mut("ErrorCode").expect("an error has a code");
        for variant in codes["oneOf"].as_array_mut().expect("there are several") {
            *variant = json!({
                "type": "string", "const": constant(variant, "code"), "description": variant["description"]
            });
        }
    }

    fn add(&mut self, name: &str, frame: Value) {
        self.pushed.push(name.to_owned());
        self.definitions.insert(name.to_owned(), frame);
    }

    fn finish(mut self) -> Value {
        self.definitions.retain(|name, _| !self.inlined.contains(name) || self.requests.contains(name));
        let one_of = |names: &[String], what: &str| {
            let choices = names.iter().map(|name| json!({"$ref": format!("#/definitions/{name}")}));
            json!({"description": what, "oneOf": choices.collect::<Vec<_>>()})
        };
        let request = one_of(&self.requests, "What a client sends.");
        let pushed = one_of(&self.pushed, "What a client receives.");
        self.definitions.insert("Request".to_owned(), request);
        self.definitions.insert("ServerFrame".to_owned(), pushed);
        let mut schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Frames",
            "description": "Every frame of Pigeonhole's protocol, version 1. Generated from the types in crates/wire.",
            "oneOf": [{"$ref": "#/definitions/Request"}, {"$ref": "#/definitions/ServerFrame"}],
            "limits": limits::by_name(),
            "definitions": self.definitions,
        });
        tidy(&mut schema);
        schema
    }
}

/// Applies the rules that every schema here keeps.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(object) => {
            // Rust's own.
            if matches!(object.get("format"), Some(Value::String(format)) if format.starts_with("uint")) {
                object.remove("format");
            }
            // Draft 7 ignores all other members of an object with a reference.
            if object.len() > 1
                && let Some(reference) = object.remove("$ref")
            {
                object.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            // A choice of one is a constant.
            if let Some([only]) = object.get("enum").and_then(Value::as_array).map(Vec::as_slice) {
                let only = only.clone();
                object.remove("enum");
                object.insert("const".to_owned(), only);
            }
            optional_is_not_null(object);
            object.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

/// An optional property is absent, never null.
fn optional_is_not_null(object: &mut Map<String, Value>) {
    let required = object.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|known| known == name));
    let Some(Value::Object(properties)) = object.get_mut("properties") else { return };
    for (name, property) in properties {
        let Some(property) = property.as_object_mut() else { continue };
        // Where `null` is a value of its own.
        if property.remove("nullable").is_some() || is_required(name) {
            continue;
        }
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|kind| kind != "null");
            let only = types[0].take();
            property.insert("type".to_owned(), only);
        }
        if let Some(Value::Array(values)) = property.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(Value::Array(mut choices)) = property.remove("anyOf") {
            choices.retain(|choice| choice["type"] != "null");
            property.insert("allOf".to_owned(), Value::Array(choices));
        }
    }
}

/// Adds what one schema of an object has to another's.
fn merge(schema: &mut Value, other: Value) {
    let Value::Object(other) = other else { return };
    for (keyword, value) in other {
        match (&mut schema[&keyword], value) {
            (Value::Object(known), Value::Object(more)) => known.extend(more),
            (Value::Array(known), Value::Array(more)) => known.extend(more),
            (known @ Value::Null, value) => *known = value,
            // The variant's own description, and `type`.
            _ => {}
        }
    }
}

fn object(schema: &mut Value) -> &mut Map<String, Value> {
    schema.as_object_mut().expect("a schema is an object")
}

/// The one value that a property may have.
fn constant<'a>(schema: &'a Value, property: &str) -> &'a str {
    schema["properties"][property]["const"].as_str().expect("a tag is a constant")
}

/// `#/definitions/Name` → `Name`
fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

/// `message.new` → `MessageNew`, `list_keys` → `ListKeys`
pub(crate) fn pascal(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split(['.', '_']).map(word).collect()
}
