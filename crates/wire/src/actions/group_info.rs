//! `group_info`: with what a device joins a sealed conversation by itself.

use serde::{Deserialize, Serialize};

use super::send::Target;
use crate::bytes::Bytes;
use crate::fields::Fields;
use crate::ids::{ConversationId, Seq};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupInfoRequest {
    #[serde(flatten)]
    pub target: Target,
}

/// The newest epoch of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupInfoResult {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::limits::EPOCH_MAX)))]
    pub epoch: u64,
    /// The commit that began it.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    /// The last birth.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub birth_seq: Seq,
    pub group_info: Bytes,
    pub tree: crate::carried::Carried,
}

impl GroupInfoRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { target: Target::parse(fields)? })
    }
}
