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
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PresenceResult {
    /// Of those who were asked for, the ones that the user has a direct conversation with.
    pub users: Vec<Presence>,
}

/// Whether a user is there, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Presence {
    pub user_id: UserId,
    /// They have a live connection.
    pub online: bool,
    /// When they last opened or closed a connection. `null`: nobody knows.
    pub last_seen_at: Option<Timestamp>,
}

impl PresenceRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let value = fields.get("user_ids").ok_or_else(|| fields.missing("user_ids"))?;
        let list = value.as_array().filter(|list| (1..=PRESENCE_USERS_MAX).contains(&list.len()));
        let problem = || fields.wrong("user_ids", format!("must be a list of 1 to {PRESENCE_USERS_MAX} user ids"));
        let ids = list.ok_or_else(problem)?.iter().map(|id| id.as_str().and_then(|id| UserId::parse(id).ok()));
        Ok(Self { user_ids: ids.collect::<Option<_>>().ok_or_else(problem)? })
    }
}
