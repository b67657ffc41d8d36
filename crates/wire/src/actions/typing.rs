//! `typing`: the user is writing.

use serde::Serialize;

use crate::fields::Fields;
use crate::ids::ConversationId;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TypingRequest {
    pub conversation_id: ConversationId,
}

impl TypingRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { conversation_id: fields.required("conversation_id", ConversationId::parse)? })
    }
}
