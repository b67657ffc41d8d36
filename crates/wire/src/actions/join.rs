//! `join`: makes the user a member of an open channel.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::{ConversationId, Seq};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinRequest {
    pub conversation_id: ConversationId,
}

/// The user is a member, now or before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JoinResult {
    /// The newest entry's `seq`. Later entries are unread.
    pub last_seq: Seq,
}

impl JoinRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { conversation_id: fields.required("conversation_id", ConversationId::parse)? })
    }
}
