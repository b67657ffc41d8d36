//! `profiles`: the names of users, and the look of groups and channels, as apps show them.

use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::fields::Fields;
use crate::group::Title;
use crate::ids::{ConversationId, Seq, UserId};
use crate::limits::PROFILES_MAX;
use crate::look::About;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("if" = {"not": {"required": ["user_ids"]}}, "then" = {"required": ["conversation_ids"]})))]
pub struct ProfilesRequest {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = PROFILES_MAX), extend("uniqueItems" = true)))]
    pub user_ids: Vec<UserId>,
    /// Groups and channels. At most 50 ids in both lists together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = PROFILES_MAX), extend("uniqueItems" = true)))]
    pub conversation_ids: Vec<ConversationId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfilesResult {
    /// The profiles that exist, in no order, as many as a frame holds.
    pub profiles: Vec<ProfileOf>,
    /// The ids to request again: their profiles did not fit the frame.
    pub left: Vec<String>,
}

/// The profile of a user, or of a conversation that the caller sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ProfileOf {
    User(Profile),
    Conversation(ConversationProfile),
}

/// The look of a group or a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationProfile {
    pub conversation_id: ConversationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// An object of the app's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// The `info_seq` of the conversation.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub version: Seq,
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
        let user_ids = fields.users("user_ids", 1, PROFILES_MAX)?.unwrap_or_default();
        let conversation_ids = fields.conversations("conversation_ids", 1, PROFILES_MAX)?.unwrap_or_default();
        if user_ids.is_empty() && conversation_ids.is_empty() {
            return Err(fields.wrong("user_ids", "is missing; name this or conversation_ids"));
        }
        if user_ids.len() + conversation_ids.len() > PROFILES_MAX {
            let problem = format!("must have at most {PROFILES_MAX} ids together with user_ids");
            return Err(fields.wrong("conversation_ids", problem));
        }
        Ok(Self { user_ids, conversation_ids })
    }
}
