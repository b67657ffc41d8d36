//! `add`: more members of a group.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use crate::bytes::{Bytes, Carried};
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
    /// In a sealed group.
    #[serde(flatten)]
    pub keys: Option<Rekeyed>,
}

/// The commit of a change of a sealed group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rekeyed {
    /// The epoch that ends.
    pub epoch: u64,
    pub commit: Carried,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub welcome: Option<Carried>,
    pub group_info: Bytes,
    pub tree: Carried,
}

/// The outcome for each requested user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddResult {
    /// The system entry about the addition. Its fields are left out if no user is new.
    #[serde(flatten)]
    pub entry: Option<SendResult>,
    pub added: Vec<UserId>,
    /// The users who were members before.
    pub already: Vec<UserId>,
    /// The users who could not be added. Left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_added: Vec<NotAdded>,
}

/// A user who could not be added, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotAdded {
    pub user_id: UserId,
    /// `left`: they left the group by themselves, and only they can come back, by `join`; after a first leave an admin can add them.
    /// `removed`: an admin removed them from the channel, and only an admin can add them. `limit_reached`: others have added them to as
    /// many channels as they may. Other reasons will come.
    pub reason: String,
}

impl AddRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let members = fields.users("members", 1, GROUP_CHANGE_MEMBERS_MAX)?.ok_or_else(|| fields.missing("members"))?;
        Ok(Self { conversation_id, client_msg_id, members, keys: None })
    }
}
