//! `claim_keys`: a key package of each device of these users.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, ConversationKind, DeviceId, UserId};
use crate::limits::CLAIM_USERS_MAX;
use crate::refusal::Refusal;

/// From a connection that names its `device_id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimKeysRequest {
    /// The idempotency key: unique per device, for 24 hours.
    pub claim_id: ClientMsgId,
    /// The caller may be one of them.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = CLAIM_USERS_MAX), extend("uniqueItems" = true)))]
    pub users: Vec<UserId>,
    /// A group: the users are its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimKeysResult {
    /// Each with all devices.
    pub users: Vec<ClaimedUser>,
    /// The users for whom the frame had no room: claim their keys with another `claim_id`.
    pub left: Vec<UserId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimedUser {
    pub user_id: UserId,
    /// Without the device of the caller. Empty for a caller with no other device.
    pub devices: Vec<ClaimedDevice>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimedDevice {
    pub device_id: DeviceId,
    pub key_package: Bytes,
    /// The package is the device's last resort, which other claims get too.
    pub last_resort: bool,
}

impl ClaimKeysRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let claim_id = fields.required("claim_id", ClientMsgId::parse)?;
        let users = fields.users("users", 1, CLAIM_USERS_MAX)?.ok_or_else(|| fields.missing("users"))?;
        let conversation_id = fields.optional("conversation_id", ConversationId::parse)?;
        if conversation_id.as_ref().is_some_and(|id| id.kind() != ConversationKind::Group) {
            return Err(fields.wrong("conversation_id", "must be the id of a group"));
        }
        Ok(Self { claim_id, users, conversation_id })
    }
}
