//! The files are what the code makes of the types, every frame has an example, and every name is explained.

use std::collections::BTreeSet;
use std::fs;

use contract::{check_request, check_server_frame, examples, files, schema};
use serde_json::Value;

#[test]
fn the_files_are_current() {
    for (path, text) in files() {
        let found = fs::read_to_string(&path).unwrap();
        assert!(found == text, "{} is not what the types say any more: `just contract`", path.display());
    }
}

#[test]
fn every_frame_has_examples_and_they_are_right() {
    let schema = schema();
    let mut exemplified = BTreeSet::new();
    for (name, frame) in examples() {
        let frame: Value = serde_json::from_str(&frame).unwrap();
        let check = if name.ends_with("Request") { check_request } else { check_server_frame };
        check(&frame).unwrap();
        exemplified.insert(format!("#/definitions/{name}"));
    }
    for choice in ["Request", "ServerFrame"] {
        for one in schema["definitions"][choice]["oneOf"].as_array().unwrap() {
            assert!(exemplified.contains(one["$ref"].as_str().unwrap()), "{one}");
        }
    }
}

#[test]
fn every_error_code_has_an_example() {
    let examples: Vec<Value> = examples().iter().map(|(_, frame)| serde_json::from_str(frame).unwrap()).collect();
    for code in schema()["definitions"]["ErrorCode"]["oneOf"].as_array().unwrap() {
        assert!(examples.iter().any(|frame| frame["error"]["code"] == code["const"]), "{code}");
    }
}

/// The list in `schema.rs` is by hand, since Rust can't list a module's constants.
#[test]
fn apps_are_told_what_each_error_asks_of_them() {
    let clients = include_str!("../../../docs/clients.md");
    for code in schema()["definitions"]["ErrorCode"]["oneOf"].as_array().unwrap() {
        let row = format!("\n| `{}` | ", code["const"].as_str().unwrap());
        assert!(clients.contains(&row), "docs/clients.md has no row for {code}");
    }
}

/// The schemas have the shape of a frame, and docs/protocol.md its meaning. So the page must have every name.
#[test]
fn the_protocol_explains_every_name() {
    let protocol = include_str!("../../../docs/protocol.md");
    let mut names = BTreeSet::new();
    collect_names(&schema(), &mut names);
    for name in names {
        let words = protocol.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
        assert!(words.into_iter().any(|word| word == name), "docs/protocol.md says nothing of {name}");
    }
}

/// Checks each example against the schema. An example is indented by four spaces, and a line that continues it by five.
#[test]
fn the_protocols_examples_are_frames() {
    let protocol = include_str!("../../../docs/protocol.md").replace("\n     ", "");
    let frames = protocol.lines().filter_map(|line| line.strip_prefix("    {")).map(|rest| format!("{{{rest}"));
    let mut requests = BTreeSet::new();
    for frame in frames {
        let frame: Value = serde_json::from_str(&frame).unwrap();
        let check = if frame.get("type").is_none() { check_request } else { check_server_frame };
        check(&frame).unwrap();
        requests.extend(frame["action"].as_str().map(str::to_owned));
    }
    let actions = wire::ACTIONS.iter().map(|action| action.name.to_owned());
    assert_eq!(requests, actions.collect::<BTreeSet<_>>());
}

/// Properties, and the values of tags and codes.
fn collect_names(schema: &Value, names: &mut BTreeSet<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        names.extend(properties.keys().cloned());
    }
    names.extend(schema["const"].as_str().map(str::to_owned));
    match schema {
        Value::Object(object) => object.values().for_each(|value| collect_names(value, names)),
        Value::Array(items) => items.iter().for_each(|value| collect_names(value, names)),
        _ => {}
    }
}
