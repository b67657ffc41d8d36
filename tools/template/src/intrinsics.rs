//! The template's intrinsics: `!Ref`, `!GetAtt`, `!Sub`, `!Join`, `!If` and conditions, in short and long form.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Map, Value, json};
use serde_yaml_ng::Value as Yaml;

use super::{Overrides, section};

const NO_VALUE: &str = "AWS::NoValue";
const PSEUDO_PARAMETERS: [(&str, &str); 5] = [
    ("AWS::AccountId", "000000000000"),
    ("AWS::Partition", "aws"),
    ("AWS::Region", "us-east-1"),
    ("AWS::StackName", "pigeonhole"),
    ("AWS::URLSuffix", "amazonaws.com"),
];

/// YAML as JSON, with every short form (`!Ref X`) turned into its long one (`{"Ref": "X"}`).
pub(super) fn to_json(yaml: Yaml) -> anyhow::Result<Value> {
    Ok(match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => json!(value),
        Yaml::Number(number) => serde_json::to_value(number)?,
        Yaml::String(text) => json!(text),
        Yaml::Sequence(items) => Value::Array(items.into_iter().map(to_json).collect::<Result<_, _>>()?),
        Yaml::Mapping(members) => {
            let mut object = Map::new();
            for (name, value) in members {
                object.insert(text(&to_json(name)?), to_json(value)?);
            }
            Value::Object(object)
        }
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            let name = tag.trim_start_matches('!');
            let argument = to_json(tagged.value)?;
            match (name, &argument) {
                ("Ref" | "Condition", _) => json!({ name: argument }),
                ("GetAtt", Value::String(path)) => {
                    let (resource, attribute) = path.split_once('.').context("!GetAtt without an attribute")?;
                    json!({ "Fn::GetAtt": [resource, attribute] })
                }
                _ => json!({ format!("Fn::{name}"): argument }),
            }
        }
    })
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The names of one template, with their meanings.
pub(super) struct Scope {
    /// Parameters, pseudo parameters and, as themselves, the logical ids of resources.
    names: BTreeMap<String, Value>,
    conditions: Map<String, Value>,
}

impl Scope {
    pub(super) fn new(document: &Value, overrides: &Overrides) -> Self {
        let parameters = section(document, "Parameters").iter().map(|(name, parameter)| {
            let default = parameter.get("Default").cloned().unwrap_or_else(|| json!(""));
            (name.clone(), overrides.get(name).map_or(default, |value| json!(value)))
        });
        let pseudo = PSEUDO_PARAMETERS.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        // CloudFormation makes a bucket's name out of its id, and no bucket's has capitals.
        let name = |id: &String, resource: &Value| {
            let is_bucket = resource.get("Type").and_then(Value::as_str) == Some("AWS::S3::Bucket");
            if is_bucket { json!(id.to_lowercase()) } else { json!(id) }
        };
        let resources = section(document, "Resources").iter().map(|(id, resource)| (id.clone(), name(id, resource)));
        Self {
            names: parameters.chain(pseudo).chain(resources).collect(),
            conditions: section(document, "Conditions").clone(),
        }
    }

    /// Makes a logical id known that the template only implies.
    pub(super) fn define(&mut self, logical_id: &str) {
        self.names.insert(logical_id.to_owned(), json!(logical_id));
    }

    /// Whether the resource's condition, if it has one, holds.
    pub(super) fn exists(&self, resource: &Value, at: &str) -> anyhow::Result<bool> {
        match resource.get("Condition").and_then(Value::as_str) {
            Some(condition) => self.condition(condition, at),
            None => Ok(true),
        }
    }

    /// Returns the computed value, or `None` where the template has `AWS::NoValue`. `at` is for error texts.
    pub(super) fn resolve(&self, value: &Value, at: &str) -> anyhow::Result<Option<Value>> {
        match value {
            Value::Object(object) => match sole_member(object) {
                Some((name, argument)) if name == "Ref" || name.starts_with("Fn::") => {
                    self.call(name, argument, &format!("{at}.{name}"))
                }
                _ => {
                    let mut resolved = Map::new();
                    for (name, member) in object {
                        if let Some(member) = self.resolve(member, &format!("{at}.{name}"))? {
                            resolved.insert(name.clone(), member);
                        }
                    }
                    Ok(Some(Value::Object(resolved)))
                }
            },
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(index, item)| self.resolve(item, &format!("{at}[{index}]")));
                Ok(Some(items.filter_map(Result::transpose).collect::<Result<_, _>>()?))
            }
            scalar => Ok(Some(scalar.clone())),
        }
    }

    fn call(&self, name: &str, argument: &Value, at: &str) -> anyhow::Result<Option<Value>> {
        match (name, argument, argument.as_array().map(Vec::as_slice)) {
            ("Ref", Value::String(name), _) if name == NO_VALUE => Ok(None),
            ("Ref", Value::String(name), _) => self.named(name, at).cloned().map(Some),
            ("Fn::GetAtt", _, Some([Value::String(id), Value::String(attribute)])) => {
                self.attribute(id, attribute, at).map(Some)
            }
            ("Fn::Sub", Value::String(pattern), _) => self.substitute(pattern, &Map::new(), at).map(Some),
            ("Fn::Sub", _, Some([Value::String(pattern), Value::Object(local)])) => {
                self.substitute(pattern, local, at).map(Some)
            }
            ("Fn::Join", _, Some([Value::String(separator), list])) => {
                let list = self.resolve(list, at)?;
                let items = list.as_ref().and_then(Value::as_array).with_context(|| format!("{at}: not a list"))?;
                Ok(Some(json!(items.iter().map(text).collect::<Vec<_>>().join(separator))))
            }
            ("Fn::If", _, Some([Value::String(condition), then, otherwise])) => {
                self.resolve(if self.condition(condition, at)? { then } else { otherwise }, at)
            }
            _ => bail!("{at}: this intrinsic, or its argument {argument}, is not known here"),
        }
    }

    fn named(&self, name: &str, at: &str) -> anyhow::Result<&Value> {
        self.names.get(name).with_context(|| format!("{at}: nothing is called {name}"))
    }

    /// Only ARNs exist as attributes here, and each ends in the logical id of its resource.
    fn attribute(&self, id: &str, attribute: &str, at: &str) -> anyhow::Result<Value> {
        let id = text(self.named(id, at)?);
        if !attribute.ends_with("Arn") {
            bail!("{at}: the attribute {attribute} of {id} is not known here");
        }
        Ok(json!(format!("arn:aws:local:us-east-1:000000000000:{id}")))
    }

    fn substitute(&self, pattern: &str, local: &Map<String, Value>, at: &str) -> anyhow::Result<Value> {
        let mut parts = pattern.split("${");
        let mut result = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').with_context(|| format!("{at}: ${{ without its end"))?;
            let value = match (name.strip_prefix('!'), local.get(name), name.split_once('.')) {
                (Some(literal), ..) => json!(format!("${{{literal}}}")),
                (None, Some(value), _) => self.resolve(value, at)?.unwrap_or_else(|| json!("")),
                (None, None, Some((id, attribute))) => self.attribute(id, attribute, at)?,
                (None, None, None) => self.named(name, at)?.clone(),
            };
            result += &text(&value);
            result += rest;
        }
        Ok(json!(result))
    }

    fn condition(&self, name: &str, at: &str) -> anyhow::Result<bool> {
        let expression = self.conditions.get(name).with_context(|| format!("{at}: no condition is called {name}"))?;
        self.holds(expression, &format!("Conditions.{name}"))
    }

    fn holds(&self, expression: &Value, at: &str) -> anyhow::Result<bool> {
        let unknown = || anyhow!("{at}: the condition {expression} is not known here");
        let (name, argument) = expression.as_object().and_then(sole_member).ok_or_else(unknown)?;
        let operands = argument.as_array().map(Vec::as_slice).unwrap_or_default();
        match (name.as_str(), operands) {
            ("Condition", _) => self.condition(argument.as_str().ok_or_else(unknown)?, at),
            ("Fn::Equals", [left, right]) => {
                let side = |value| Ok::<_, anyhow::Error>(self.resolve(value, at)?.as_ref().map(text));
                Ok(side(left)? == side(right)?)
            }
            ("Fn::Not", [operand]) => Ok(!self.holds(operand, at)?),
            ("Fn::And", operands) => operands.iter().try_fold(true, |all, operand| Ok(all & self.holds(operand, at)?)),
            ("Fn::Or", operands) => operands.iter().try_fold(false, |any, operand| Ok(any | self.holds(operand, at)?)),
            _ => Err(unknown()),
        }
    }
}

fn sole_member(object: &Map<String, Value>) -> Option<(&String, &Value)> {
    object.iter().next().filter(|_| object.len() == 1)
}
