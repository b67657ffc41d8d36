//! `profile`: the user's own name and data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::settings::given;
use crate::data::Data;
use crate::fields::Fields;
use crate::group::Title;
use crate::limits::PROFILE_DATA_BYTES_MAX;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileRequest {
    pub set: ProfileChange,
}

/// At least one field. A field that is left out stays as it is; `null` removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("minProperties" = 1)))]
pub struct ProfileChange {
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("nullable" = true)))]
    pub name: Option<Option<Title>>,
    /// At most 1,024 bytes without spaces.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("nullable" = true)))]
    pub data: Option<Option<Data>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileResult {
    pub version: u64,
}

impl ProfileRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { set: ProfileChange::parse(fields)? })
    }
}

impl ProfileChange {
    /// Reads the field `set`.
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let object = fields.get("set").ok_or_else(|| fields.missing("set"))?.as_object();
        Self::of(object.ok_or_else(|| fields.wrong("set", "must be an object"))?)
    }

    /// Reads the object `set`.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn of(object: &Map<String, Value>) -> Result<Self, Refusal> {
        let set = Fields { object, path: "set." };
        if object.contains_key("avatar") {
            return Err(set.wrong("avatar", "must be left out: this server has no avatars"));
        }
        let name = if set.is_null("name") { Some(None) } else { set.optional("name", Title::parse)?.map(Some) };
        let data =
            if set.is_null("data") { Some(None) } else { Data::parse_alone(&set, PROFILE_DATA_BYTES_MAX)?.map(Some) };
        let change = Self { name, data };
        if change == Self::default() { Err(Refusal::bad_request("set", "must have name or data")) } else { Ok(change) }
    }
}
