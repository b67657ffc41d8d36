//! `receipts`: how far the members of a group have come.

use serde::{Deserialize, Serialize};

use super::history::Member;
use super::members::page;
use crate::fields::Fields;
use crate::ids::{ConversationId, Seq, UserId};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceiptsRequest {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", range(min = 1, max = crate::limits::MEMBERS_LIMIT_MAX), extend("default" = crate::limits::MEMBERS_LIMIT_DEFAULT)))]
    pub limit: u64,
    /// The `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<UserId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReceiptsResult {
    /// Devices of all other members hold everything up to here.
    pub delivered_seq: Seq,
    /// All other members have read everything up to here.
    pub read_seq: Seq,
    /// A page of the others.
    pub members: Vec<Member>,
    /// `null`: this was the last page.
    pub next_cursor: Option<UserId>,
}

impl ReceiptsRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let (limit, cursor) = page(fields)?;
        Ok(Self { conversation_id, limit, cursor })
    }
}
