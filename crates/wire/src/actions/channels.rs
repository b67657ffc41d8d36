//! `channels`: those whose member the user is.

use serde::{Deserialize, Serialize};

use crate::conversation::Channel;
use crate::fields::Fields;
use crate::ids::ConversationId;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelsRequest {
    /// The `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<ConversationId>,
    /// Only those that the user has pinned, the one pinned last first, without pages.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out"))]
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChannelsResult {
    /// As many as a frame holds, in the order of their ids.
    pub conversations: Vec<Channel>,
    /// `null`: this was the last page.
    pub next_cursor: Option<ConversationId>,
}

impl ChannelsRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let pinned = super::inbox::pinned(fields, &["cursor"])?;
        Ok(Self { cursor: fields.optional("cursor", ConversationId::parse)?, pinned })
    }
}
