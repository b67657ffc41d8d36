//! `delete`: deletes a message for all users.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, Seq};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeleteRequest {
    pub conversation_id: ConversationId,
    /// The message.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
}

/// The delete is stored, as an entry of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeleteResult(pub SendResult);

impl DeleteRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let seq = fields.required_seq("seq")?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        Ok(Self { conversation_id, seq, client_msg_id })
    }
}
