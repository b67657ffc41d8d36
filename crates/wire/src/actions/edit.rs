//! `edit`: replaces the text of the user's own message.

use serde::{Deserialize, Serialize};

use super::send::{Empty, SendResult, body};
use crate::data::Data;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, Seq};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EditRequest {
    pub conversation_id: ConversationId,
    /// The message.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    /// At most 16 KiB of UTF-8, and at most 24 KiB once written as JSON. A caption may become empty, a text may not.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::BODY_BYTES_MAX)))]
    pub body: String,
    /// Left out: the message keeps its data. `null`: it has none from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("nullable" = true)))]
    pub data: Option<Option<Data>>,
}

/// The edit is stored, as an entry of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EditResult(pub SendResult);

impl EditRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let seq = fields.required_seq("seq")?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        // The target can be an image, whose caption may be empty.
        let body = body(fields, Empty::Allowed)?;
        let is_null = fields.object.get("data").is_some_and(serde_json::Value::is_null);
        let data = if is_null { Some(None) } else { Data::parse(fields, &body)?.map(Some) };
        Ok(Self { conversation_id, seq, client_msg_id, body, data })
    }
}
