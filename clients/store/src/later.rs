//! Fields of rows that a later version of the app wrote with the same schema. This version keeps them.

use pigeonhole_core::Folded;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Error;

/// Returns the JSON of a message, with the unknown fields of its old JSON.
pub(crate) fn folded_with_rest(old_json: &str, old: &Folded, new: &Folded) -> Result<String, Error> {
    if serde_json::to_string(old)? == old_json {
        return Ok(serde_json::to_string(new)?);
    }
    let (old_json, known, mut new) = (serde_json::from_str(old_json)?, object(old)?, object(new)?);
    keep_rest(&old_json, &known, &mut new);
    if let (Some(Value::Object(old_json)), Some(Value::Object(known)), Some(Value::Object(new))) =
        (old_json.get("message"), known.get("message"), new.get_mut("message"))
    {
        keep_rest(old_json, known, new);
    }
    Ok(serde_json::to_string(&new)?)
}

/// Returns the JSON of a row of the chat list or of the list of channels, with the unknown fields of its old JSON. The last message loses
/// its own, because another message can have replaced it.
pub(crate) fn row_with_rest<T: Serialize + DeserializeOwned>(old_json: &str, new: &T) -> Result<String, Error> {
    let old: T = serde_json::from_str(old_json)?;
    if serde_json::to_string(&old)? == old_json {
        return Ok(serde_json::to_string(new)?);
    }
    let (old_json, known, mut new) = (serde_json::from_str(old_json)?, object(&old)?, object(new)?);
    keep_rest(&old_json, &known, &mut new);
    Ok(serde_json::to_string(&new)?)
}

fn keep_rest(old_json: &Map<String, Value>, known: &Map<String, Value>, new: &mut Map<String, Value>) {
    for (name, value) in old_json {
        if !known.contains_key(name) && !new.contains_key(name) {
            new.insert(name.clone(), value.clone());
        }
    }
}

fn object(value: &impl Serialize) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(value)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::Unreadable("a row is no object".to_owned())),
    }
}
