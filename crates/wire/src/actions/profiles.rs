//! `profiles`: the names of users, as their apps show them.

use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::fields::Fields;
use crate::group::Title;
use crate::ids::UserId;
use crate::limits::PROFILES_MAX;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilesRequest {
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = PROFILES_MAX), extend("uniqueItems" = true)))]
    pub user_ids: Vec<UserId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilesResult {
    /// The profiles of those who have one, in no order, as many as a frame holds.
    pub profiles: Vec<Profile>,
    /// The ids to request again: their profiles did not fit the frame.
    pub left: Vec<UserId>,
}

/// The name and the data of a user or a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profile {
    pub user_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Title>,
    /// An object of the app's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// Rises with each change.
    pub version: u64,
}

impl ProfilesRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        if fields.get("conversation_ids").is_some() {
            return Err(fields.wrong("conversation_ids", "must be left out: this server has profiles of users alone"));
        }
        let user_ids = fields.users("user_ids", 1, PROFILES_MAX)?;
        Ok(Self { user_ids: user_ids.ok_or_else(|| fields.missing("user_ids"))? })
    }
}
