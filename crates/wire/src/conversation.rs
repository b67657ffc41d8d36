//! A conversation, as the chat list shows it to one of its members.

use serde::{Deserialize, Serialize};

use crate::actions::MutedUntil;
use crate::group::{AllowedTo, HistoryFrom, JoinBy, Rings, Role, System};
use crate::ids::{ConversationId, ConversationKind, Seq, UserId};
use crate::kind::Kind;
use crate::time::Timestamp;

/// A conversation, as the chat list shows it to one of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "the fields of a frame")]
pub struct Conversation {
    pub conversation_id: ConversationId,
    pub kind: ConversationKind,
    /// The other member of a direct conversation; in a note, the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_id: Option<UserId>,
    /// The title of a group. `title` and the next three fields are present in groups only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The member's role. `none`: the user was removed or has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_count: Option<u64>,
    /// The first entry that the member may see. Missing entries below it are no gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub first_seq: Option<Seq>,
    /// `history`, `post` and `add` are the rules of a group, as long as the user is a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryFrom>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<AllowedTo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<AllowedTo>,
    pub last_message: LastMessage,
    /// How many of others' messages are above `read_seq`.
    pub unread: u64,
    /// In a group, the number of unread messages that mention the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<u64>,
    /// A device of the member holds everything up to here.
    pub delivered_seq: Seq,
    /// The member has read everything up to here.
    pub read_seq: Seq,
    /// The newest entry's `seq`, which can be one that the chat list does not show.
    pub last_seq: Seq,
    /// The member's settings. A setting that is not set is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<MutedUntil>,
    /// While the group is muted, mentions send no push either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mute_mentions: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The member has marked it as unread, whatever `unread` is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marked_unread: bool,
    /// The member has pinned it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Until then the member may only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restricted_until: Option<MutedUntil>,
    /// In a group, the last entry that set the title or the look. Present once there was one since the creation, or a look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub info_seq: Option<Seq>,
    /// The member has blocked `peer_id`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
    /// The conversation is sealed: it takes encrypted messages only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// The number of commits of a sealed conversation. A group that was created so begins with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = crate::limits::EPOCH_MAX)))]
    pub epoch: Option<u64>,
}

/// A channel, as the list of channels shows it to one of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Channel {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = ["channel"])))]
    pub kind: ConversationKind,
    pub title: String,
    /// The member's role.
    pub role: Role,
    /// The first entry that the member may see. Missing entries below it are no gap. One above `last_seq` while the
    /// member sees no entry yet.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub first_seq: Seq,
    /// The entries that a new member sees: those from the join on, or all.
    pub history: HistoryFrom,
    /// The members who may write messages.
    pub post: AllowedTo,
    /// The members who may add others.
    pub add: AllowedTo,
    /// The users who may join, of those who know the id.
    pub join: JoinBy,
    /// Whether its messages send push notifications. Left out: `off`.
    #[serde(default, skip_serializing_if = "Rings::is_off")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "off")))]
    pub rings: Rings,
    /// Left out if the member sees none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message: Option<LastMessage>,
    /// The number of messages above `read_seq`. A deleted message counts until it is read.
    pub unread: u64,
    /// The member has read everything up to here.
    pub read_seq: Seq,
    /// The newest entry's `seq`, which can be one that the list does not show.
    pub last_seq: Seq,
    /// The last message that mentions the member, until the member has read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub mentioned_seq: Option<Seq>,
    /// The member's settings. A setting that is not set is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<MutedUntil>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// The member has marked it as unread, whatever `unread` is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marked_unread: bool,
    /// The member has pinned it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Until then the member may only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restricted_until: Option<MutedUntil>,
    /// The last entry that set the title or the look. Present once there was one since the creation, or a look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub info_seq: Option<Seq>,
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
    /// The event of a system entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
}
