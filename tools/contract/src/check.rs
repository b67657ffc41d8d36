//! Frames against the schemas.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::schema::{names, schema};

/// A frame that a client sends.
///
/// # Errors
/// What of it the schema does not allow.
pub fn check_request(frame: &Value) -> Result<(), String> {
    check(&REQUESTS, &frame["action"], frame)
}

/// A frame that a client receives. Clients ignore fields that they don't know; here they are errors, since whatever the server
/// sends is in the contract.
///
/// # Errors
/// What of it the schema does not allow.
pub fn check_server_frame(frame: &Value) -> Result<(), String> {
    let kind = match &frame["type"] {
        Value::String(kind) if kind == "reply" => json!(format!("reply to {}", frame["action"])),
        kind => kind.clone(),
    };
    check(&PUSHED, &kind, frame)
}

/// The validators by the frame's own type, so that an error is about that type and not about all.
type Validators = BTreeMap<String, Validator>;

static REQUESTS: LazyLock<Validators> = LazyLock::new(|| validators(&schema(), "Request"));
static PUSHED: LazyLock<Validators> = LazyLock::new(|| validators(&closed(schema()), "ServerFrame"));

fn check(validators: &Validators, kind: &Value, frame: &Value) -> Result<(), String> {
    let validator = validators.get(&kind.to_string()).ok_or_else(|| format!("there is no such frame: {frame}"))?;
    let problems: Vec<String> =
        validator.iter_errors(frame).map(|error| format!("{}: {error}", error.instance_path())).collect();
    if problems.is_empty() { Ok(()) } else { Err(format!("{frame}: {}", problems.join("; "))) }
}

fn validators(schema: &Value, union: &str) -> Validators {
    let validator = |name: String| {
        let properties = &schema["definitions"][&name]["properties"];
        let tag = |tag: &str| properties[tag]["const"].clone();
        let kind = match (tag("type"), tag("action")) {
            (Value::Null, action) => action,
            (_, action @ Value::String(_)) => json!(format!("reply to {action}")),
            (kind, _) => kind,
        };
        let one = json!({"$schema": schema["$schema"], "$ref": format!("#/definitions/{name}"), "definitions": schema["definitions"]});
        let validator = jsonschema::options().should_validate_formats(true).build(&one);
        (kind.to_string(), validator.expect("the schema is one"))
    };
    names(schema, union).into_iter().map(validator).collect()
}

/// The same, without room for fields that are not in it.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(object) => {
            // Properties next to alternatives belong to each of them, and each alternative is closed.
            if let (Some(shared), Some(Value::Array(alternatives))) =
                (object.get("properties").cloned(), object.get_mut("anyOf"))
            {
                for alternative in alternatives {
                    for (name, property) in shared.as_object().into_iter().flatten() {
                        alternative["properties"][name] = property.clone();
                    }
                }
            } else if object.contains_key("properties") {
                object.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            object.values_mut().for_each(|value| *value = closed(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = closed(item.take())),
        _ => {}
    }
    schema
}
