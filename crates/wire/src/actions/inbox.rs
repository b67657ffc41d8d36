//! `inbox`: the chat list.

use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::fields::Fields;
use crate::limits::{INBOX_LIMIT_DEFAULT, INBOX_LIMIT_MAX};
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxRequest {
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", range(min = 1, max = INBOX_LIMIT_MAX), extend("default" = INBOX_LIMIT_DEFAULT)))]
    pub limit: u64,
    /// The `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Only conversations that were active since, with any offset from UTC. Goes along with every cursor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Only those that the user has pinned, the one pinned last first, without pages.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out"))]
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxResult {
    pub conversations: Vec<Conversation>,
    /// `null`: this was the last page. A page that has one is never empty.
    pub next_cursor: Option<String>,
}

/// Whether only pinned conversations are wanted. The fields of pages must then be left out.
pub(super) fn pinned(fields: &Fields, of_pages: &[&str]) -> Result<bool, Refusal> {
    let pinned = fields.boolean("pinned")?.unwrap_or_default();
    match of_pages.iter().find(|name| pinned && fields.get(name).is_some()) {
        Some(name) => Err(fields.wrong(name, "must be left out if pinned is true")),
        None => Ok(pinned),
    }
}

impl InboxRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let limit = fields.integer("limit", 1, INBOX_LIMIT_MAX)?.unwrap_or(INBOX_LIMIT_DEFAULT);
        let cursor = fields.optional("cursor", |text| Ok::<_, &str>(text.to_owned()))?;
        let since = fields.optional("since", |text| {
            Timestamp::parse(text).ok_or("must be a time in RFC 3339, such as 2026-01-31T10:00:00.000Z")
        })?;
        let pinned = pinned(fields, &["cursor", "since"])?;
        Ok(Self { limit, cursor, since, pinned })
    }
}
