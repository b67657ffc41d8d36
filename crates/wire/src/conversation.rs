//! A conversation, as the chat list shows it to one of its members.

use serde::{Deserialize, Serialize};

use crate::actions::settings::MutedUntil;
use crate::ids::{ConversationId, Seq, UserId};
use crate::message::Kind;
use crate::time::Timestamp;

/// A conversation, as the chat list shows it to one of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conversation {
    pub conversation_id: ConversationId,
    pub kind: ConversationKind,
    /// The other member; the member itself in a note to oneself.
    pub peer_id: UserId,
    pub last_message: LastMessage,
    /// How many of others' messages are above `read_seq`.
    pub unread: u64,
    /// A device of the member holds everything up to here.
    pub delivered_seq: Seq,
    /// The member has read everything up to here.
    pub read_seq: Seq,
    /// The newest entry's `seq`, which can be one that the chat list does not show.
    pub last_seq: Seq,
    /// What the member has set, each only where it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<MutedUntil>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The member has blocked `peer_id`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
}

/// What a conversation is between. More will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ConversationKind {
    // Two users, or one in a note to oneself.
    Direct,
}

/// The newest message of a conversation, shortened: of its entries the last one that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastMessage {
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    pub sender_id: UserId,
    pub kind: Kind,
    /// The first characters of its body.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::PREVIEW_CHARS_MAX)))]
    pub preview: String,
    pub sent_at: Timestamp,
    /// The message was deleted: the preview is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
}
