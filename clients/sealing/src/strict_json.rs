//! JSON with one reading: no name twice in an object.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Reads an object and returns it with the bytes behind it.
///
/// `serde_json` keeps the last of two values with one name, other readers keep the first. An author could show one text
/// and report the other.
pub(crate) fn object<'a>(bytes: &'a [u8], what: &'static str) -> Result<(Map<String, Value>, &'a [u8])> {
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<Strict>();
    let Some(Ok(Strict(Value::Object(object)))) = stream.next() else { return Err(Error::Malformed(what)) };
    Ok((object, bytes.get(stream.byte_offset()..).unwrap_or_default()))
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a name twice")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Strict, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Strict(array.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Strict, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = fields.next_entry::<String, _>()? {
            if object.insert(name, value).is_some() {
                return Err(de::Error::custom("a name occurs twice"));
            }
        }
        Ok(Strict(object.into()))
    }
}
