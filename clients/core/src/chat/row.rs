//! The rows of the chat list.

use std::collections::BTreeMap;

use pigeonhole_sealing::Lock;
use serde::Serialize;
use wire::{ConversationId, ConversationKind, Kind, MutedUntil, Presence, Role, Seq, System, Timestamp, UserId};

use super::item::Progress;
use super::rules::Rules;
use crate::Draft;

/// One conversation of the chat list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each of them is drawn, independently of the others")]
pub struct ChatRow {
    /// An opaque text that names the conversation for as long as the list exists, before and after it has an id.
    pub key: String,
    /// `None` until the server has stored the first message or the new group.
    pub conversation_id: Option<ConversationId>,
    /// Direct, a group or a channel.
    pub kind: ConversationKind,
    /// The other user of a direct conversation.
    pub peer_id: Option<UserId>,
    /// The title of a group or a channel.
    pub title: Option<String>,
    /// The user's role in a group or a channel.
    pub role: Option<Role>,
    /// The rules of a group or a channel.
    pub rules: Rules,
    /// The number of members of a group, once known.
    pub member_count: Option<u64>,
    /// Until then the user may only read in the group or channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restricted_until: Option<MutedUntil>,
    /// The user was removed or has left, and can't write.
    pub is_closed: bool,
    /// The server refused to create the group, with this code.
    pub failed: Option<String>,
    /// The last message.
    pub line: Option<Line>,
    /// The number of unread messages.
    pub unread: u64,
    /// The number of unread messages that mention the user.
    pub mentions: u64,
    /// The conversation is muted now.
    pub is_muted: bool,
    /// The end of the mute. `None`: not muted.
    pub muted_until: Option<MutedUntil>,
    /// While the group is muted, mentions send no push either.
    pub mutes_mentions: bool,
    /// The user has pinned it.
    pub is_pinned: bool,
    /// The user has archived it, and no message has come since.
    pub is_archived: bool,
    /// The user has marked it as unread, and has read nothing since.
    pub is_marked_unread: bool,
    /// The user has blocked the peer.
    pub is_blocked: bool,
    /// The text that the user has begun.
    pub draft: Option<Draft>,
    /// The other users who are typing, in the order of their ids.
    pub typing: Vec<UserId>,
    /// The texts that services are writing, as far as they are.
    pub texts: BTreeMap<UserId, String>,
    /// Whether the peer is online, if the app has requested it.
    pub presence: Option<Presence>,
    /// Whether the conversation or the group is encrypted.
    #[serde(skip_serializing_if = "is_plain")]
    pub lock: Lock,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "Serde passes a reference")]
fn is_plain(lock: &Lock) -> bool {
    *lock == Lock::Plain
}

/// The last message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `None`: the message is not stored.
    pub seq: Option<Seq>,
    /// The author, or the user who caused the event.
    pub sender_id: UserId,
    /// When it was stored or written.
    pub at: Timestamp,
    /// A text, what is attached, or an event of the group.
    pub kind: Kind,
    /// The first characters of the text.
    pub text: String,
    /// The message is deleted, and the text is empty.
    pub is_deleted: bool,
    /// The event of a system entry.
    pub event: Option<System>,
    /// How far an own message has come.
    pub progress: Option<Progress>,
}
