//! `leave`: a group or a channel, whose member the user is no longer.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaveRequest {
    pub conversation_id: ConversationId,
    /// The idempotency key: unique per sender and conversation, across all actions. Optional for a channel, where a
    /// leave writes no entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<ClientMsgId>,
}

/// In a group it is stored, as an entry, which is the last that the user gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaveResult {
    /// The entry that says so. Its fields are left out of a channel's.
    #[serde(flatten)]
    pub entry: Option<SendResult>,
}

impl LeaveRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.optional("client_msg_id", ClientMsgId::parse)?;
        Ok(Self { conversation_id, client_msg_id })
    }
}
