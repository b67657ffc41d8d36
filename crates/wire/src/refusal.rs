//! Refusals: the errors of requests that can't be served.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::ids::{ConversationId, Seq, UserId};

/// Every reason, with a stable code. The texts are for the client's developer: they name the field and the limit, and
/// carry nothing of the request's content and no internal details.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ErrorCode", tag = "code", rename_all = "snake_case"))]
pub enum Refusal {
    /// Not JSON, not an object, a missing field, a wrong type, a value out of its limits.
    BadRequest { field: String, problem: String },
    /// A frame, a body, mentions, or what a message carries, over its limit.
    TooLarge { field: &'static str, problem: Cow<'static, str> },
    /// No such action.
    UnknownAction,
    /// The token that opened the socket has expired: reconnect with a fresh one.
    TokenExpired,
    /// Not a member, or no such conversation: the two look alike from outside.
    NotMember,
    /// The `client_msg_id` was used for something else: other fields, or another action.
    IdReused,
    /// The caller may not do this. The reason is a block between the two users, the message of another user, the role,
    /// or the channel. A request towards a service and a first message to a suspended user fail with this code too.
    Forbidden,
    /// The target is deleted, never existed, is no message, or is another user's upload. The code does not tell them
    /// apart.
    Gone,
    /// The file is not uploaded yet, or other bytes are.
    NotReady,
    /// The team's own filter does not allow it. The reason is the filter's, for the user.
    Rejected { reason: String },
    /// A maximum is reached: the edits or reactors of a message, the members of a group, or the conversations or
    /// channels of a user.
    LimitReached,
    /// The connection has no `device_id`.
    DeviceRequired,
    /// None of these users has a device with keys.
    NoKeys { users: Vec<UserId> },
    /// Ten devices of the user have keys.
    DeviceLimit,
    /// Content in the clear for a sealed conversation, or where the deployment requires encryption.
    EncryptionRequired,
    /// The conversation, if there is one, has another epoch, and ends with `last_seq`.
    StaleEpoch { conversation_id: Option<ConversationId>, epoch: u64, last_seq: Seq },
    /// These users left, and no commit has named them since.
    RekeyRequired { members: Vec<UserId> },
    /// Too many requests, messages, first messages to strangers or uploads of this user. Accepted again after `retry_after_ms`.
    RateLimited { retry_after_ms: u64 },
    /// Others wrote the same at every one of the server's tries, or a `read` has only come a part of its way.
    Conflict,
    /// A service failed. Nothing is known to have been written.
    Unavailable,
}

impl Refusal {
    pub fn bad_request(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::BadRequest { field: field.into(), problem: problem.into() }
    }

    /// Accepted again after this wait.
    pub fn rate_limited(wait: Duration) -> Self {
        Self::RateLimited { retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::BadRequest { .. } => "bad_request",
            Self::TooLarge { .. } => "too_large",
            Self::UnknownAction => "unknown_action",
            Self::TokenExpired => "token_expired",
            Self::NotMember => "not_member",
            Self::IdReused => "id_reused",
            Self::Forbidden => "forbidden",
            Self::Gone => "gone",
            Self::NotReady => "not_ready",
            Self::Rejected { .. } => "rejected",
            Self::LimitReached => "limit_reached",
            Self::DeviceRequired => "device_required",
            Self::NoKeys { .. } => "no_keys",
            Self::DeviceLimit => "device_limit",
            Self::EncryptionRequired => "encryption_required",
            Self::StaleEpoch { .. } => "stale_epoch",
            Self::RekeyRequired { .. } => "rekey_required",
            Self::RateLimited { .. } => "rate_limited",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether the same request may succeed if it is sent again.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::Unavailable | Self::RateLimited { .. } | Self::NotReady)
    }

    /// The users whom the code is about.
    pub fn users(&self) -> &[UserId] {
        if let Self::NoKeys { users } = self { users } else { &[] }
    }

    /// The users who left, for `rekey_required`.
    pub fn members(&self) -> &[UserId] {
        if let Self::RekeyRequired { members } = self { members } else { &[] }
    }

    /// The reason of the team's filter, which may be empty.
    pub fn reason(&self) -> Option<&str> {
        if let Self::Rejected { reason } = self { Some(reason) } else { None }
    }

    /// The conversation whose epoch is another one.
    pub fn conversation_id(&self) -> Option<&ConversationId> {
        if let Self::StaleEpoch { conversation_id, .. } = self { conversation_id.as_ref() } else { None }
    }

    /// The epoch of that conversation, and the `seq` of its last entry: 0 and 0 if it does not exist.
    pub fn epoch(&self) -> Option<(u64, Seq)> {
        if let Self::StaleEpoch { epoch, last_seq, .. } = self { Some((*epoch, *last_seq)) } else { None }
    }

    /// How long to wait before that, where waiting helps.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::RateLimited { retry_after_ms } => Some(*retry_after_ms),
            Self::Conflict => Some(100),
            Self::Unavailable | Self::NotReady => Some(1000),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRequest { field, problem } => write!(f, "{field}: {problem}"),
            Self::TooLarge { field, problem } => write!(f, "{field}: {problem}"),
            Self::UnknownAction => f.write_str("action: no such action"),
            Self::TokenExpired => f.write_str("the token has expired; reconnect with a fresh one"),
            Self::NotMember => f.write_str("conversation_id: you are not a member of this conversation"),
            Self::IdReused => f.write_str("client_msg_id: already used for another message in this conversation"),
            Self::Forbidden => {
                f.write_str("forbidden by a block, a role, the author or the channel; do not send it again")
            }
            Self::Gone => f.write_str("the message or upload does not exist; do not send it again"),
            Self::NotReady => {
                f.write_str("media_id: the upload is not complete; upload the bytes, and send the same request again")
            }
            Self::Rejected { .. } => f.write_str("the team's filter does not allow it; do not send it again"),
            Self::LimitReached => {
                f.write_str("a maximum of edits, reactors, members or conversations is reached; do not send it again")
            }
            Self::DeviceRequired => f.write_str("device_id: must be set at connect"),
            Self::NoKeys { .. } => f.write_str("users: none of the named users has a device with keys"),
            Self::DeviceLimit => f.write_str("ten devices have keys; remove the keys of one with remove_keys"),
            Self::EncryptionRequired => f.write_str("kind: the conversation takes encrypted messages only"),
            Self::StaleEpoch { .. } => {
                f.write_str("epoch: not the conversation's; read history first, then encrypt again")
            }
            Self::RekeyRequired { .. } => f.write_str("members have left; commit first, with their ids in removes"),
            Self::RateLimited { .. } => f.write_str("too many requests; send the same request again later"),
            Self::Conflict => {
                f.write_str("the request did not finish in the server's tries; send the same request again")
            }
            Self::Unavailable => f.write_str("a service failed; send the same request again"),
        }
    }
}

impl std::error::Error for Refusal {}
