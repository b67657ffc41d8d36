//! `read`: the user has read everything up to here.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::{ConversationId, Seq};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadRequest {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadResult {
    /// The number of messages that are still unread.
    pub unread: u64,
    /// In a group, the number of unread messages that mention the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<u64>,
}

impl ReadRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        Ok(Self { conversation_id, seq: fields.required_seq("seq")? })
    }
}
