//! An app's own JSON object beside a message. The server stores it, and does not read it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::fields::Fields;
use crate::json::json_bytes;
use crate::limits::{BODY_JSON_BYTES_MAX, DATA_BYTES_MAX, DATA_LEVELS_MAX};
use crate::refusal::Refusal;

/// An object of the app's own. Numbers are doubles, and keys have no order, so that two objects of one meaning are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Data(Map<String, Value>);

impl Data {
    /// Reads the field `data`. `null` is left to the caller.
    pub(crate) fn parse(fields: &Fields, body: &str) -> Result<Option<Self>, Refusal> {
        let Some(value) = fields.get("data") else { return Ok(None) };
        let object = value.as_object().ok_or_else(|| fields.wrong("data", "must be an object"))?;
        let data = Self::from(object.clone());
        data.check(body).map(|()| Some(data))
    }

    /// Reads the field `data` of what has no body.
    pub(crate) fn parse_alone(fields: &Fields, bytes_max: usize) -> Result<Option<Self>, Refusal> {
        let data = Self::parse(fields, "")?;
        if data.as_ref().is_some_and(|data| data.to_text().len() > bytes_max) {
            let problem = format!("must be at most {bytes_max} bytes without spaces").into();
            return Err(Refusal::TooLarge { field: "data", problem });
        }
        Ok(data)
    }

    /// Checks its levels and its length, alone and with the body of the same message.
    ///
    /// # Errors
    /// `bad_request` or `too_large`.
    pub fn check(&self, body: &str) -> Result<(), Refusal> {
        if 1 + self.0.values().map(levels).max().unwrap_or_default() > DATA_LEVELS_MAX {
            return Err(Refusal::bad_request("data", format!("must have at most {DATA_LEVELS_MAX} levels")));
        }
        let bytes = self.to_text().len();
        if bytes <= DATA_BYTES_MAX && json_bytes(body) + bytes <= BODY_JSON_BYTES_MAX {
            return Ok(());
        }
        let problem = "must be at most 2,048 bytes without spaces, and together with body at most 24 KiB of JSON";
        Err(Refusal::TooLarge { field: "data", problem: problem.into() })
    }

    /// Reads what [`to_text`](Self::to_text) wrote.
    ///
    /// # Errors
    /// The text is no JSON object.
    pub fn stored(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the object without spaces, with its keys in order.
    pub fn to_text(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    pub fn as_object(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl From<Map<String, Value>> for Data {
    fn from(object: Map<String, Value>) -> Self {
        Self(object.into_iter().map(|(key, value)| (key, of_doubles(value))).collect())
    }
}

fn levels(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(list) => list.iter().map(levels).max(),
        Value::Object(object) => object.values().map(levels).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    1 + deepest.unwrap_or_default()
}

/// JSON has one kind of numbers: `1.0` is `1`, and what is beyond a double's digits is rounded.
fn of_doubles(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(double(&number)),
        Value::Array(list) => list.into_iter().map(of_doubles).collect(),
        Value::Object(object) => object.into_iter().map(|(key, value)| (key, of_doubles(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

fn double(number: &Number) -> Number {
    let Some(double) = number.as_f64() else { return number.clone() };
    if double.fract() == 0.0 && double.abs() <= 9_007_199_254_740_992.0 {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within 2^53")]
        return Number::from(double as i64);
    }
    Number::from_f64(double).unwrap_or_else(|| number.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(data: Value) -> Result<Option<Data>, Refusal> {
        let object = Map::from_iter([("data".to_owned(), data)]);
        Data::parse(&Fields { object: &object, path: "" }, "hi")
    }

    #[test]
    fn two_objects_of_one_meaning_are_equal() {
        let one = read(json!({"b": 1.0, "a": [-0.0, 1e3]})).unwrap().unwrap();
        assert_eq!(one.to_text(), r#"{"a":[0,1000],"b":1}"#);
        assert_eq!(Some(one), read(json!({"a": [0, 1000], "b": 1})).unwrap());
        // As a client in JavaScript reads it.
        assert_eq!(
            read(json!({"id": 9_007_199_254_740_993_u64})).unwrap().unwrap().to_text(),
            r#"{"id":9007199254740992}"#
        );
    }

    #[test]
    fn an_object_has_limits_in_bytes_and_levels() {
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({"x": inner}));
        let text = |bytes: usize| json!({"x": "y".repeat(bytes - 8)});
        assert!(read(nested(8)).is_ok() && read(text(2_048)).is_ok());
        assert!(matches!(read(nested(9)), Err(Refusal::BadRequest { .. })));
        assert!(matches!(read(text(2_049)), Err(Refusal::TooLarge { field: "data", .. })));
        for wrong in [json!([]), json!("x"), json!(1), json!(true)] {
            assert!(matches!(read(wrong), Err(Refusal::BadRequest { .. })));
        }
    }

    proptest! {
        #[test]
        fn what_was_stored_is_read_again(
            pairs in proptest::collection::hash_map("[a-z]{0,4}", any::<f64>().prop_filter("finite", |x| x.is_finite()), 0..6),
        ) {
            let data = read(json!(pairs)).unwrap().unwrap();
            prop_assert_eq!(&Data::stored(&data.to_text()).unwrap(), &data);
        }
    }
}
