//! A filter's pattern: what of Lambda's rules can be used on a stream's records here, equality, `prefix` and `exists`.
//!
//! Two of the rules are a surprise. `exists` tests only leaves, and in `DynamoDB`'s JSON the leaf is below the
//! letter of the type: `{"x":{"S":[{"exists":true}]}}`. The pattern `{"x":[{"exists":true}]}` never fits, and
//! `{"x":[{"exists":false}]}` always does. And numbers are text there. `LocalStack`'s tests, which it holds against
//! AWS, show both:
//! <https://github.com/localstack/localstack/blob/8b9a79f0/tests/aws/services/lambda_/event_source_mapping>

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// All members fit.
    Members(Vec<(String, Pattern)>),
    /// A value fits if it fits at least one of these rules.
    Leaf(Vec<Rule>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    Equals(Value),
    Prefix(String),
    Exists(bool),
}

impl Pattern {
    /// # Errors
    /// What of it is no pattern, or is not known here.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let pattern = serde_json::from_str(text).with_context(|| format!("the pattern {text} is no JSON"))?;
        Self::of(&pattern).with_context(|| format!("in the pattern {text}"))
    }

    fn of(pattern: &Value) -> anyhow::Result<Self> {
        match pattern {
            Value::Object(members) => {
                ensure!(!members.is_empty(), "an object without members fits nothing");
                let members = members.iter().map(|(name, member)| Ok((name.clone(), Self::of(member)?)));
                Ok(Self::Members(members.collect::<anyhow::Result<_>>()?))
            }
            Value::Array(rules) => Ok(Self::Leaf(rules.iter().map(Rule::of).collect::<anyhow::Result<_>>()?)),
            other => bail!("{other} must stand in an array"),
        }
    }

    /// Whether it fits an event. `None`: there is nothing at this place.
    pub fn fits(&self, event: Option<&Value>) -> bool {
        match self {
            Self::Members(members) => {
                let event = event.and_then(Value::as_object);
                members.iter().all(|(name, pattern)| pattern.fits(event.and_then(|event| event.get(name))))
            }
            Self::Leaf(rules) => rules.iter().any(|rule| rule.fits(event)),
        }
    }
}

impl Rule {
    fn of(rule: &Value) -> anyhow::Result<Self> {
        match rule {
            Value::Object(rule) => match (rule.len(), rule.get("exists"), rule.get("prefix")) {
                (1, Some(Value::Bool(exists)), _) => Ok(Self::Exists(*exists)),
                (1, _, Some(Value::String(prefix))) => Ok(Self::Prefix(prefix.clone())),
                _ => bail!("the rule {rule:?} is not known here: only exists, prefix and equality are"),
            },
            Value::Array(_) => bail!("an array in an array is no rule"),
            equal => Ok(Self::Equals(equal.clone())),
        }
    }

    fn fits(&self, event: Option<&Value>) -> bool {
        let is_leaf = event.is_some_and(|value| !value.is_object());
        match (self, event) {
            (Self::Exists(wanted), _) => is_leaf == *wanted,
            (Self::Prefix(prefix), value) => {
                value.and_then(Value::as_str).is_some_and(|text| text.starts_with(prefix.as_str()))
            }
            // A list fits if it contains the value.
            (Self::Equals(wanted), Some(Value::Array(values))) => values.contains(wanted),
            (Self::Equals(wanted), value) => value == Some(wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The two of the template, and what AWS was seen to make of others.
    #[test]
    fn patterns_fit_as_on_aws() {
        let there =
            json!({ "x": { "N": "3" }, "s": { "S": "a" }, "set": { "SS": ["a", "b"] }, "no": { "NULL": true } });
        let absent = json!({ "y": { "S": "a" } });
        for (pattern, fits_there, fits_absent) in [
            // On leaves.
            (json!({ "x": { "N": [{ "exists": true }] } }), true, false),
            (json!({ "x": { "N": [{ "exists": false }] } }), false, true),
            (json!({ "x": { "S": [{ "exists": true }] } }), false, false),
            (json!({ "x": { "S": [{ "exists": false }] } }), true, true),
            // Not on leaves.
            (json!({ "x": [{ "exists": true }] }), false, false),
            (json!({ "x": [{ "exists": false }] }), true, true),
            // Values are text.
            (json!({ "x": { "N": ["3"] } }), true, false),
            (json!({ "x": { "N": [3] } }), false, false),
            (json!({ "s": { "S": ["b", "a"] } }), true, false),
            (json!({ "s": { "S": ["b"] } }), false, false),
            (json!({ "set": { "SS": ["b"] } }), true, false),
            (json!({ "no": { "NULL": [true] } }), true, false),
            (json!({ "s": { "S": [{ "prefix": "a" }] } }), true, false),
            (json!({ "s": { "S": [{ "prefix": "b" }] } }), false, false),
            // All members, and one rule of each.
            (json!({ "x": { "N": ["3"] }, "s": { "S": ["a"] } }), true, false),
            (json!({ "x": { "N": ["3"] }, "s": { "S": ["b"] } }), false, false),
            (json!({ "x": { "N": ["4", { "exists": true }] } }), true, false),
        ] {
            let parsed = Pattern::parse(&pattern.to_string()).unwrap();
            assert_eq!((parsed.fits(Some(&there)), parsed.fits(Some(&absent))), (fits_there, fits_absent), "{pattern}");
        }
    }

    #[test]
    fn an_attribute_that_went_is_told_from_one_that_stayed() {
        let went =
            r#"{"dynamodb":{"OldImage":{"n":{"N":[{"exists":true}]}},"NewImage":{"n":{"N":[{"exists":false}]}}}}"#;
        let pattern = Pattern::parse(went).unwrap();
        let record = |old: &Value, new: &Value| json!({ "dynamodb": { "OldImage": old, "NewImage": new } });
        let (with, without) = (json!({ "n": { "N": "1" } }), json!({ "m": { "N": "1" } }));
        for (old, new, fits) in
            [(&with, &without, true), (&with, &with, false), (&without, &without, false), (&without, &with, false)]
        {
            assert_eq!(pattern.fits(Some(&record(old, new))), fits, "{old} to {new}");
        }
        let removed = json!({ "dynamodb": { "OldImage": with } });
        assert!(pattern.fits(Some(&removed)), "the whole row is gone");
    }

    #[test]
    fn exists_is_about_leaves() {
        let value = json!({"x": {"S": "a"}});
        let there = |pattern: Value| Pattern::parse(&pattern.to_string()).unwrap().fits(Some(&value));
        assert!(there(json!({"x": {"S": [{"exists": true}]}})));
        assert!(!there(json!({"x": {"S": [{"exists": false}]}})));
        assert!(!there(json!({"x": [{"exists": true}]})), "x is no leaf");
        assert!(there(json!({"x": [{"exists": false}]})), "x is no leaf, whether or not it is there");
        assert!(there(json!({"y": {"S": [{"exists": false}]}})));
        assert!(there(json!({"x": {"S": ["a"]}})) && !there(json!({"x": {"S": ["b"]}})));
    }

    #[test]
    fn what_is_not_known_here_is_refused() {
        for pattern in [
            r#"{"x":{"N":[{"numeric":[">",1]}]}}"#,
            r#"{"x":[{"prefix":1}]}"#,
            r#"{"x":[{"suffix":"a"}]}"#,
            r#"{"x":[{"exists":"yes"}]}"#,
            r#"{"x":"a"}"#,
            r#"{"x":[["a"]]}"#,
            "{}",
            "no JSON",
        ] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }
}
