//! `presence`: who is there.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::UserId;
use crate::limits::PRESENCE_USERS_MAX;
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PresenceRequest {
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = PRESENCE_USERS_MAX)))]
    pub user_ids: Vec<UserId>,
    /// Have the server send changes to this connection, as `presence` events, for the next
    /// [`PRESENCE_WATCH_MS`](crate::limits::PRESENCE_WATCH_MS).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PresenceResult {
    /// The requested users with whom the caller has a direct conversation.
    pub users: Vec<Presence>,
    /// With `watch`: the users whose changes the server sends. A user has room for a few connections that watch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<UserId>,
}

/// Whether a user is online, and when the user last was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Presence {
    pub user_id: UserId,
    /// The user has an open connection.
    pub online: bool,
    /// When the user last opened or closed a connection. `null`: unknown.
    pub last_seen_at: Option<Timestamp>,
}

impl PresenceRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let value = fields.get("user_ids").ok_or_else(|| fields.missing("user_ids"))?;
        let list = value.as_array().filter(|list| (1..=PRESENCE_USERS_MAX).contains(&list.len()));
        let problem = || fields.wrong("user_ids", format!("must be a list of 1 to {PRESENCE_USERS_MAX} user ids"));
        let ids = list.ok_or_else(problem)?.iter().map(|id| id.as_str().and_then(|id| UserId::parse(id).ok()));
        let user_ids = ids.collect::<Option<_>>().ok_or_else(problem)?;
        Ok(Self { user_ids, watch: fields.boolean("watch")?.unwrap_or_default() })
    }
}
