//! `unwatch`: no longer have a channel's entries come as they are written.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::ConversationId;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnwatchRequest {
    pub conversation_id: ConversationId,
}

/// None come any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnwatchResult {}

impl UnwatchRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { conversation_id: fields.required("conversation_id", ConversationId::parse)? })
    }
}
