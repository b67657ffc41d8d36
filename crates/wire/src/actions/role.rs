//! `role`: what a member of a group may do.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use crate::fields::Fields;
use crate::group::Role;
use crate::ids::{ClientMsgId, ConversationId, UserId};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleRequest {
    pub conversation_id: ConversationId,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    pub user_id: UserId,
    /// `owner` hands the group over: who does so is an admin from then on.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["owner", "admin", "member"])))]
    pub role: Role,
}

/// The change is stored, as an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleResult(pub SendResult);

impl RoleRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let user_id = fields.required("user_id", UserId::parse)?;
        let problem = "must be \"owner\", \"admin\" or \"member\"";
        let role = fields.required("role", |role| Role::parse(role).ok_or(problem))?;
        Ok(Self { conversation_id, client_msg_id, user_id, role })
    }
}
