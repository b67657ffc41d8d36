//! What an operator can ask.

use serde::Deserialize;
use serde_json::Value;
use wire::{ConversationId, Refusal, Timestamp, UserId};

/// A request, by its `op`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Op {
    /// Closes the user's sockets. They may come back.
    Kick {
        user_id: UserId,
    },
    /// Closes the user's sockets, and lets nobody connect as this user until then.
    Suspend {
        user_id: UserId,
        until: Timestamp,
    },
    Unsuspend {
        user_id: UserId,
    },
    /// Where the user is connected.
    Connections {
        user_id: UserId,
    },
    /// In which conversations something waits for the user.
    Pending {
        user_id: UserId,
    },
    /// What stands in the logs for the id of a user or a conversation.
    LoggedAs {
        id: String,
    },
    /// The conversation of two users, and the row of each.
    Conversation {
        user_ids: [UserId; 2],
    },
    /// Makes a group what its log says; or, without one, brings the members of all groups along in which something was written since then:
    /// as many as there is time for, behind the one that the answer before named.
    Repair {
        conversation_id: Option<ConversationId>,
        since: Option<Timestamp>,
        behind: Option<ConversationId>,
    },
}

impl Op {
    /// Whom it is about, if it is one user.
    pub(crate) fn user(&self) -> Option<&UserId> {
        match self {
            Self::Kick { user_id }
            | Self::Suspend { user_id, .. }
            | Self::Unsuspend { user_id }
            | Self::Connections { user_id }
            | Self::Pending { user_id } => Some(user_id),
            Self::LoggedAs { .. } | Self::Conversation { .. } | Self::Repair { .. } => None,
        }
    }

    /// An unknown field is an error: what is misspelt would be left out silently.
    pub(crate) fn parse(request: Value) -> Result<Self, Refusal> {
        serde_json::from_value(request).map_err(|error| Refusal::bad_request("request", error.to_string()))
    }
}
