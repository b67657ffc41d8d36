//! Requests of an operator.

use actions::LogSoFar;
use lambda::{OF_SERVICES, ServiceRequest, service_request};
use serde::Deserialize;
use serde_json::{Map, Value};
use wire::{ConversationId, Refusal, ReportId, Seq, Timestamp, UserId};

/// A request, by its `op`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Op {
    /// Closes the user's sockets. The user may reconnect.
    Kick {
        user_id: UserId,
    },
    /// Closes the user's sockets, and rejects new ones until then.
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
    /// Returns the digest that logs have for a user or a conversation.
    LoggedAs {
        id: String,
    },
    /// The conversation of two users, and the row of each.
    Conversation {
        user_ids: [UserId; 2],
    },
    /// The entries around a time, without texts, in the conversation of two users or in any other.
    Find {
        user_ids: Option<[UserId; 2]>,
        conversation_id: Option<ConversationId>,
        at: Timestamp,
    },
    /// Rewrites a group's rows from its log, as far as time allows. Without a group, updates the members of all groups
    /// with entries since then: as many as time allows, behind the last reply's group.
    Repair {
        conversation_id: Option<ConversationId>,
        since: Option<Timestamp>,
        behind: Option<String>,
        /// For one group: the last reply's `next`.
        log: Option<LogSoFar>,
    },
    /// Deletes a message of any author.
    DeleteMessage {
        conversation_id: ConversationId,
        seq: Seq,
    },
    /// Changes the profile of a user or a service.
    Profile {
        user_id: UserId,
        set: Map<String, Value>,
    },
    /// Sends the events of a conversation's entries once more to the team's own servers.
    Replay {
        conversation_id: ConversationId,
        from_seq: Seq,
        to_seq: Seq,
    },
    /// Erases a user: what the user wrote, who the user was, and all that is theirs. The user can't come back.
    Erase {
        user_id: UserId,
        reason: Option<String>,
    },
    /// Erases the users once more whose erasure had not ended by then, after tables were restored.
    EraseAgain {
        since: Timestamp,
    },
    /// Keeps the conversations of a user, or one conversation, from being erased, or no longer.
    Hold {
        user_id: Option<UserId>,
        conversation_id: Option<ConversationId>,
        on: bool,
    },
    /// How far a job is. `again`: a job that failed goes on.
    Job {
        job_id: String,
        #[serde(default)]
        again: bool,
    },
    /// The open reports of a month, such as `2026-11`, behind the last reply's `next_cursor`.
    Reports {
        month: String,
        cursor: Option<ReportId>,
    },
    /// Closes a report. The outcome is for other operators.
    ReportClose {
        month: String,
        report_id: ReportId,
        outcome: String,
    },
    /// A service's request, as a user sends it over a socket.
    #[serde(skip)]
    As {
        service: UserId,
        request: ServiceRequest,
    },
}

impl Op {
    /// Returns the user whom the request concerns, if there is one.
    pub(crate) fn user(&self) -> Option<&UserId> {
        match self {
            Self::Kick { user_id }
            | Self::Suspend { user_id, .. }
            | Self::Unsuspend { user_id }
            | Self::Connections { user_id }
            | Self::Pending { user_id }
            | Self::Profile { user_id, .. }
            | Self::Erase { user_id, .. }
            | Self::As { service: user_id, .. } => Some(user_id),
            Self::LoggedAs { .. }
            | Self::Conversation { .. }
            | Self::Find { .. }
            | Self::Repair { .. }
            | Self::DeleteMessage { .. }
            | Self::Replay { .. }
            | Self::EraseAgain { .. }
            | Self::Hold { .. }
            | Self::Job { .. }
            | Self::Reports { .. }
            | Self::ReportClose { .. } => None,
        }
    }

    /// An unknown field is an error: what is misspelt would be left out silently. But of what a service does, where it is ignored as over
    /// a socket.
    pub(crate) fn parse(request: Value) -> Result<Self, Refusal> {
        let named = request.get("op").and_then(Value::as_str);
        if let Some((op, _)) = OF_SERVICES.iter().find(|(op, _)| named == Some(op)) {
            return of_service(op, request);
        }
        if !OF_OPERATORS.iter().any(|op| named == Some(op)) {
            let all: Vec<&str> = OF_OPERATORS.into_iter().chain(OF_SERVICES.map(|(op, _)| op)).collect();
            return Err(Refusal::bad_request("op", format!("must be one of {}", all.join(", "))));
        }
        serde_json::from_value(request).map_err(|error| Refusal::bad_request("request", error.to_string()))
    }
}

/// The names of those that [`Op`] reads by itself.
const OF_OPERATORS: [&str; 18] = [
    "kick",
    "suspend",
    "unsuspend",
    "connections",
    "pending",
    "logged_as",
    "conversation",
    "find",
    "repair",
    "delete_message",
    "profile",
    "replay",
    "erase",
    "erase_again",
    "hold",
    "job",
    "reports",
    "report_close",
];
fn of_service(op: &str, request: Value) -> Result<Op, Refusal> {
    let service = request.get("as").and_then(Value::as_str).unwrap_or_default();
    let service = UserId::parse_service(service).map_err(|invalid| Refusal::bad_request("as", invalid.to_string()))?;
    Ok(Op::As { service, request: service_request(op, request)? })
}
