//! `add`: more members of a group.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, UserId};
use crate::limits::GROUP_CHANGE_MEMBERS_MAX;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddRequest {
    pub conversation_id: ConversationId,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = GROUP_CHANGE_MEMBERS_MAX), extend("uniqueItems" = true))
    )]
    pub members: Vec<UserId>,
}

/// Who is a member now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddResult {
    /// The entry that says so. Its fields are left out if nobody is new.
    #[serde(flatten)]
    pub entry: Option<SendResult>,
    pub added: Vec<UserId>,
    /// Those who were members before.
    pub already: Vec<UserId>,
}

impl AddRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let members = fields.users("members", 1, GROUP_CHANGE_MEMBERS_MAX)?.ok_or_else(|| fields.missing("members"))?;
        Ok(Self { conversation_id, client_msg_id, members })
    }
}
