//! `restrict`: a member who may only read for a time.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use super::settings::MutedUntil;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, UserId};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestrictRequest {
    /// A group or a channel.
    pub conversation_id: ConversationId,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    pub user_id: UserId,
    /// Until then the member only reads. `null` ends the restriction.
    pub until: Option<MutedUntil>,
}

/// The change is stored, as an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestrictResult(pub SendResult);

impl RestrictRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let user_id = fields.required("user_id", UserId::parse)?;
        // A request without it may be a mistake, and would end a restriction.
        if !fields.object.contains_key("until") {
            return Err(fields.missing("until"));
        }
        let problem = "must be a time in RFC 3339, \"forever\" or null";
        let until = fields.optional("until", |text| MutedUntil::parse(text).ok_or(problem))?;
        Ok(Self { conversation_id, client_msg_id, user_id, until })
    }
}
