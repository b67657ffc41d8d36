//! Values of YAML with CloudFormation's tags, and the text of a document of them.

use serde_yaml_ng::value::{Tag, TaggedValue};
use serde_yaml_ng::{Mapping, Value};

const COLUMNS: usize = 120;

pub(super) fn map<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Mapping(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value:?} must be a string"))
}

pub(super) fn tag(name: &str, value: Value) -> Value {
    Value::Tagged(Box::new(TaggedValue { tag: Tag::new(name), value }))
}

pub(super) fn reference(id: &str) -> Value {
    tag("Ref", id.into())
}

pub(super) fn get_att(path: &str) -> Value {
    tag("GetAtt", path.into())
}

pub(super) fn sub(text: &str) -> Value {
    tag("Sub", text.into())
}

/// In a line what fits into one, as a person would write it; a library's writer has a line for each word.
pub(super) fn document(sections: &Mapping) -> String {
    let mut out = String::new();
    for (name, section) in sections {
        out += "\n";
        out += text(name);
        out += ":";
        match section.as_mapping() {
            Some(members) if text(name) == "Resources" => {
                for (number, (id, resource)) in members.iter().enumerate() {
                    out += if number == 0 { "\n" } else { "\n\n" };
                    out.extend(["  ", text(id), ":"]);
                    block(resource, 4, &mut out);
                }
            }
            _ => block(section, 2, &mut out),
        }
        out += "\n";
    }
    let read: Mapping = serde_yaml_ng::from_str(&out).expect("what is written can be read");
    assert!(read == *sections, "what is written is read as something else");
    out
}

/// Writes a value after its key or its dash, without the line's end.
fn block(value: &Value, indent: usize, out: &mut String) {
    let (tag, untagged) = split(value);
    if let Value::String(text) = untagged
        && text.contains('\n')
    {
        let pad = format!("\n{:indent$}", "");
        out.extend([" ", &tag, "|", if text.ends_with('\n') { "" } else { "-" }]);
        text.trim_end_matches('\n').split('\n').for_each(|line| out.extend([&pad, line]));
        return;
    }
    let flow = flow(value);
    let is_empty = match untagged {
        Value::Mapping(members) => members.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        _ => true,
    };
    let column = out.len() - out.rfind('\n').map_or(0, |end| end + 1);
    let is_section = indent == 4 && tag.is_empty();
    if is_empty || (!is_section && column + 1 + flow.chars().count() <= COLUMNS && !spans_lines(untagged)) {
        *out += " ";
        *out += &flow;
        return;
    }
    if !tag.is_empty() {
        *out += " ";
        *out += tag.trim_end();
    }
    match untagged {
        Value::Mapping(members) => {
            let follows_dash = tag.is_empty() && out.ends_with('-');
            for (number, (name, value)) in members.iter().enumerate() {
                let lead = if number == 0 && follows_dash { " ".to_owned() } else { format!("\n{:indent$}", "") };
                out.extend([&lead, &scalar(text(name)), ":"]);
                block(value, indent + 2, out);
            }
        }
        Value::Sequence(items) => {
            for item in items {
                out.extend([format!("\n{:indent$}-", "")]);
                block(item, indent + 2, out);
            }
        }
        _ => {}
    }
}

fn spans_lines(value: &Value) -> bool {
    match split(value).1 {
        Value::String(text) => text.contains('\n'),
        Value::Sequence(items) => items.iter().any(spans_lines),
        Value::Mapping(members) => members.values().any(spans_lines),
        _ => false,
    }
}

fn split(value: &Value) -> (String, &Value) {
    match value {
        Value::Tagged(tagged) => (format!("{} ", tagged.tag), &tagged.value),
        value => (String::new(), value),
    }
}

fn flow(value: &Value) -> String {
    let (tag, value) = split(value);
    let plain = match value {
        Value::String(text) => scalar(text),
        Value::Sequence(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Mapping(members) => {
            let member = |(name, value): (&Value, &Value)| format!("{}: {}", scalar(text(name)), flow(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => serde_yaml_ng::to_string(other).expect("it can be written").trim_end().to_owned(),
    };
    tag + &plain
}

/// Without quotes only where no reader, of YAML 1.1 either, can take it for anything else.
fn scalar(text: &str) -> String {
    let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:$*".contains(c));
    let opens = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$');
    let library = serde_yaml_ng::to_string(text).expect("it can be written");
    let is_plain = opens && is_word(text) && !text.ends_with(':') && library.trim_end() == text;
    let ambiguous = ["on", "off", "yes", "no", "y", "n", "true", "false", "null"];
    if is_plain && !ambiguous.contains(&text.to_lowercase().as_str()) {
        return text.to_owned();
    }
    if text.contains(['"', '\\']) && !text.contains('\n') {
        return format!("'{}'", text.replace('\'', "''"));
    }
    serde_json::to_string(text).expect("it can be written")
}
