//! `pin`: a message that all members find on top of the conversation.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, Seq};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PinRequest {
    pub conversation_id: ConversationId,
    /// The message.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    /// `false` takes the pin off.
    pub pinned: bool,
}

/// The pin is stored, as an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PinResult(pub SendResult);

impl PinRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let seq = fields.seq("seq", 1)?.ok_or_else(|| fields.missing("seq"))?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let pinned = fields.boolean("pinned")?.ok_or_else(|| fields.missing("pinned"))?;
        Ok(Self { conversation_id, seq, client_msg_id, pinned })
    }
}
