//! `reactions`: who reacted to a message.

use serde::{Deserialize, Serialize};

use super::members::page;
use crate::emoji::Emoji;
use crate::fields::Fields;
use crate::ids::{ConversationId, Seq, UserId};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReactionsRequest {
    pub conversation_id: ConversationId,
    /// The message.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", range(min = 1, max = crate::limits::MEMBERS_LIMIT_MAX), extend("default" = crate::limits::MEMBERS_LIMIT_DEFAULT)))]
    pub limit: u64,
    /// The `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<UserId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReactionsResult {
    pub reactions: Vec<Reactor>,
    /// `null`: this was the last page.
    pub next_cursor: Option<UserId>,
}

/// A user, and the emoji of the user's reaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reactor {
    pub user_id: UserId,
    pub emoji: Emoji,
}

impl ReactionsRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let seq = fields.required_seq("seq")?;
        let (limit, cursor) = page(fields)?;
        Ok(Self { conversation_id, seq, limit, cursor })
    }
}
