//! `watch`: have a channel's entries come as they are written.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::{ConversationId, Seq};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchRequest {
    pub conversation_id: ConversationId,
}

/// Whether they do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchResult {
    /// Not if too many are watching already, or this connection watches too many.
    pub live: bool,
    /// The newest entry's `seq`. The server sends later entries as events.
    pub last_seq: Seq,
    /// How often to ask for the history: instead, or, if `live`, beside it, since an event can be lost.
    pub poll_ms: u64,
}

impl WatchRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { conversation_id: fields.required("conversation_id", ConversationId::parse)? })
    }
}
