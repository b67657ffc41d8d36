//! `update`: what a group is called, and what its members may do.

use serde::{Deserialize, Serialize};

use super::create::{allowed_to, history, join_by, rings};
use super::send::SendResult;
use crate::fields::Fields;
use crate::group::{Info, Title};
use crate::ids::{ClientMsgId, ConversationId};
use crate::look::Look;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("anyOf" = [{"required": ["title"]}, {"required": ["history"]}, {"required": ["post"]}, {"required": ["add"]}, {"required": ["join"]}, {"required": ["rings"]}, {"required": ["about"]}, {"required": ["data"]}])))]
pub struct UpdateRequest {
    pub conversation_id: ConversationId,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    /// At least one of them.
    #[serde(flatten)]
    pub info: Info,
}

/// The change is stored, as an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UpdateResult(pub SendResult);

impl UpdateRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let info = Info {
            title: fields.optional("title", Title::parse)?,
            history: history(fields)?,
            post: allowed_to(fields, "post")?,
            add: allowed_to(fields, "add")?,
            join: join_by(fields)?,
            rings: rings(fields)?,
            look: Box::new(Look::parse(fields)?),
        };
        if info == Info::default() {
            return Err(fields.wrong("title", "is missing; name this, about, data, history, post, add, join or rings"));
        }
        Ok(Self { conversation_id, client_msg_id, info })
    }
}
