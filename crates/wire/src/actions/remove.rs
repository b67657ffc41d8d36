//! `remove`: a member of a group, who is one no longer.

use serde::{Deserialize, Serialize};

use super::add::Rekeyed;
use super::send::SendResult;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, UserId};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(extend("dependencies" = {"epoch": ["commit", "group_info", "tree"], "commit": ["epoch", "group_info", "tree"], "group_info": ["epoch", "commit", "tree"], "tree": ["epoch", "commit", "group_info"]}, "not" = {"required": ["welcome"]}))
)]
pub struct RemoveRequest {
    pub conversation_id: ConversationId,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    pub user_id: UserId,
    /// In a sealed group. Left out: as a leave.
    #[serde(flatten)]
    pub keys: Option<Box<Rekeyed>>,
}

/// The removal is stored, as an entry, which is the last that the user gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemoveResult(pub SendResult);

impl RemoveRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let user_id = fields.required("user_id", UserId::parse)?;
        let keys = Rekeyed::parse(fields, false)?.map(Box::new);
        Ok(Self { conversation_id, client_msg_id, user_id, keys })
    }
}
