//! What an operator can ask.

use serde::Deserialize;
use serde_json::Value;
use wire::{Action, ConversationId, Refusal, Request, Seq, Timestamp, UserId};

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
    /// Deletes a message, whoever wrote it.
    DeleteMessage {
        conversation_id: ConversationId,
        seq: Seq,
    },
    /// What a service does, as a user does it over a socket.
    #[serde(skip)]
    As {
        service: UserId,
        action: Box<Action>,
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
            | Self::Pending { user_id }
            | Self::As { service: user_id, .. } => Some(user_id),
            Self::LoggedAs { .. } | Self::Conversation { .. } | Self::Repair { .. } | Self::DeleteMessage { .. } => {
                None
            }
        }
    }

    /// An unknown field is an error: what is misspelt would be left out silently. But of what a service does, where it is ignored as over
    /// a socket.
    pub(crate) fn parse(request: Value) -> Result<Self, Refusal> {
        let named = request.get("op").and_then(Value::as_str);
        if let Some((_, action)) = OF_SERVICES.iter().find(|(op, _)| named == Some(op)) {
            return of_service(request, action);
        }
        serde_json::from_value(request).map_err(|error| Refusal::bad_request("request", error.to_string()))
    }
}

/// Each with the action that it is.
const OF_SERVICES: [(&str, &str); 4] =
    [("send", "send"), ("create_group", "create"), ("add", "add"), ("remove", "remove")];

fn of_service(mut request: Value, action: &str) -> Result<Op, Refusal> {
    let service = request.get("as").and_then(Value::as_str).unwrap_or_default();
    let service = UserId::parse_service(service).map_err(|invalid| Refusal::bad_request("as", invalid.to_string()))?;
    if let Some(fields) = request.as_object_mut() {
        fields.insert("action".to_owned(), Value::from(action));
    }
    let request = Request::parse(&request.to_string()).map_err(|rejected| rejected.refusal)?;
    Ok(Op::As { service, action: Box::new(request.action) })
}
