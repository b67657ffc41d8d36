//! `members`: who is in a group.

use serde::{Deserialize, Serialize};

use super::settings::MutedUntil;
use crate::fields::Fields;
use crate::group::Role;
use crate::ids::{ConversationId, Seq, UserId};
use crate::limits::{MEMBERS_LIMIT_DEFAULT, MEMBERS_LIMIT_MAX};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MembersRequest {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", range(min = 1, max = MEMBERS_LIMIT_MAX), extend("default" = MEMBERS_LIMIT_DEFAULT)))]
    pub limit: u64,
    /// The `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<UserId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MembersResult {
    pub members: Vec<GroupMember>,
    /// `null`: this was the last page.
    pub next_cursor: Option<UserId>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupMember {
    pub user_id: UserId,
    pub role: Role,
    /// The entry with which they joined.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub joined_seq: Seq,
    /// Until then the member may only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restricted_until: Option<MutedUntil>,
}

impl MembersRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let (limit, cursor) = page(fields)?;
        Ok(Self { conversation_id, limit, cursor })
    }
}

/// Parses the page size and the cursor of a list of members.
pub(super) fn page(fields: &Fields) -> Result<(u64, Option<UserId>), Refusal> {
    let limit = fields.integer("limit", 1, MEMBERS_LIMIT_MAX)?.unwrap_or(MEMBERS_LIMIT_DEFAULT);
    Ok((limit, fields.optional("cursor", UserId::parse)?))
}
