//! A conversation, as the chat list shows it to one of its members.

use serde::{Deserialize, Serialize};

use crate::actions::MutedUntil;
use crate::group::{AllowedTo, HistoryFrom, JoinBy, Role, System};
use crate::ids::{ConversationId, Seq, UserId};
use crate::message::Kind;
use crate::time::Timestamp;

/// A conversation, as the chat list shows it to one of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conversation {
    pub conversation_id: ConversationId,
    pub kind: ConversationKind,
    /// Of a direct conversation, the other member; the member itself in a note to oneself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_id: Option<UserId>,
    /// Of a group, and so are the next three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the member may do; `none`: they were removed, or have left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_count: Option<u64>,
    /// Below it nothing is shown, and nothing is a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub first_seq: Option<Seq>,
    /// Of a group, as long as the member is one: from where on those who join see what was said, who may write messages, and
    /// who may add members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryFrom>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<AllowedTo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<AllowedTo>,
    pub last_message: LastMessage,
    /// How many of others' messages are above `read_seq`.
    pub unread: u64,
    /// Of a group: how many of those name the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<u64>,
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

/// A channel, as the list of channels shows it to one of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Channel {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["channel"])))]
    pub kind: ConversationKind,
    pub title: String,
    /// What the member may do.
    pub role: Role,
    /// Below it nothing is shown, and nothing is a gap. One above `last_seq` as long as nothing was written since the member joined.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub first_seq: Seq,
    /// From where on those who join see what was said.
    pub history: HistoryFrom,
    /// Who may write messages.
    pub post: AllowedTo,
    /// Who may add members.
    pub add: AllowedTo,
    /// Who of those who know its id may join it.
    pub join: JoinBy,
    /// Left out if the member sees none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message: Option<LastMessage>,
    /// How many messages are above `read_seq`. One that was deleted counts until it is read.
    pub unread: u64,
    /// The member has read everything up to here.
    pub read_seq: Seq,
    /// The newest entry's `seq`, which can be one that the list does not show.
    pub last_seq: Seq,
    /// What the member has set, each only where it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<MutedUntil>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

/// What a conversation is between. More will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ConversationKind {
    // Two users, or one in a note to oneself.
    Direct,
    // Any number of members, of whom some may do more than others.
    Group,
    // Any number of members, who read it on demand. Not in the chat list.
    Channel,
}

impl ConversationKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    pub(crate) fn is_group(&self) -> bool {
        *self == Self::Group
    }
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
    /// Of a system entry: what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
}
