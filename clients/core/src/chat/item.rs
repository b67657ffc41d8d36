//! The items of a conversation's view.

use serde::Serialize;
use wire::{ClientMsgId, Data, Kind, Media, Message, Reaction, Seq, System, Timestamp, UserId};

use crate::media::Upload;
use crate::unreadable::Unreadable;
use crate::{Tick, Unsent};

/// One thing to draw. Its key stays the same wherever the item moves. An own message has the same key before and after
/// the server stores it. No two items of a view have the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// `c` and the `client_msg_id` of an own message; `s` and the `seq` of any other entry. A day has `d` and the day, a
    /// gap `g` and the last `seq` before it, and the unread separator `u`.
    pub key: String,
    /// The thing itself.
    #[serde(flatten)]
    pub content: Content,
}

/// The kinds of items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// A new day.
    Day {
        /// The day of all that follows, such as `2026-11-25`.
        day: String,
    },
    /// The unread separator. The first unread message follows.
    Unread {
        /// The number of unread messages when the view was opened.
        count: u64,
    },
    /// Entries between these two are missing. The view has requested them.
    Gap {
        /// The last one before the gap.
        after_seq: Seq,
        /// The first one behind it.
        before_seq: Seq,
    },
    /// An event of the group.
    System {
        /// The entry's number.
        seq: Seq,
        /// The user who caused it.
        sender_id: UserId,
        /// The time of the event.
        at: Timestamp,
        /// The event.
        event: System,
    },
    /// A message, stored or not.
    Message(Box<MessageItem>),
    /// An encrypted message that this device can't read.
    Unreadable {
        /// The entry's number.
        seq: Seq,
        /// The author.
        sender_id: UserId,
        /// The time of the message.
        at: Timestamp,
        /// Why.
        why: Unreadable,
    },
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageItem {
    /// `None` until the server has stored it.
    pub seq: Option<Seq>,
    /// The idempotency key of an own message.
    pub client_msg_id: Option<ClientMsgId>,
    /// The author.
    pub sender_id: UserId,
    /// When the server stored it; until then, when the user wrote it.
    pub at: Timestamp,
    /// A text, what is attached, or a kind of an app's own. An app that does not know an own kind shows the text, and
    /// nothing if there is none.
    pub kind: Kind,
    /// The text, with the user's latest edit. Empty if the message is deleted.
    pub body: String,
    /// The app's own data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// The silent entries of the app's own kinds that reply to the message, oldest first, as far as the view has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// The attachment of a stored message.
    pub media: Option<Box<Media>>,
    /// The file of the attachment on this device, once it has been downloaded.
    pub path: Option<String>,
    /// The attachment of a message that is not stored.
    pub upload: Option<Box<Upload>>,
    /// The mentioned users.
    pub mentions: Vec<UserId>,
    /// The message that this one replies to.
    pub reply: Option<Reply>,
    /// The time of the last edit.
    pub edited_at: Option<Timestamp>,
    /// The user who deleted it. Text, attachment and reactions are gone.
    pub deleted_by: Option<UserId>,
    /// The reactions, the most frequent first.
    pub reactions: Vec<Reaction>,
    /// The message came encrypted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_sealed: bool,
    /// How far an own message has come. `None`: another user wrote it.
    pub progress: Option<Progress>,
    /// Own changes of it have no reply yet. The item shows them already.
    pub is_changing: bool,
    /// The last own change that the server refused for good, until it is dismissed. The item does not show it.
    pub refused: Option<Refused>,
    /// The place in a run of messages by one user.
    pub run: Run,
}

/// A silent entry of an app's own kind that replies to a message, such as a vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signal {
    /// Its number.
    pub seq: Seq,
    /// The author.
    pub sender_id: UserId,
    /// The kind: `xs-` and the app's name of it.
    pub kind: Kind,
    /// The app's own data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

impl Signal {
    pub(crate) fn of(message: &Message) -> Self {
        let (sender_id, kind, data) = (message.sender_id.clone(), message.kind.clone(), message.data.clone());
        Self { seq: message.seq, sender_id, kind, data }
    }
}

/// The target of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reply {
    /// Its number.
    pub seq: Seq,
    /// The message in its current state, perhaps deleted. `None`: it has not come.
    pub message: Option<Box<Message>>,
}

/// How far an own message has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Progress {
    /// The message waits for the server.
    Waiting,
    /// Its file is being uploaded.
    Uploading {
        /// Uploaded bytes. The number can fall when the client repeats a part.
        done: u64,
        /// All bytes of the file.
        of: u64,
    },
    /// The server has it.
    Stored,
    /// A device of each other member has it.
    Delivered,
    /// Each other member has read it.
    Read,
    /// The server refused it for good. The message stays until it is dismissed.
    Failed {
        /// The protocol's code, or one of [`Error::code`](crate::Error::code).
        code: String,
        /// The same message can succeed at another try. If not, only an edit helps.
        can_help: bool,
    },
}

impl Progress {
    /// Returns that of a stored message.
    pub(super) fn stored(tick: Tick) -> Self {
        match tick {
            Tick::Failed | Tick::Waiting | Tick::Stored => Self::Stored,
            Tick::Delivered => Self::Delivered,
            Tick::Read => Self::Read,
        }
    }

    /// Returns that of a message that is not stored.
    pub(super) fn unsent(unsent: &Unsent) -> Self {
        match (&unsent.error, unsent.uploaded, unsent.queued.outgoing.upload()) {
            (Some(code), _, _) => Self::Failed { code: code.clone(), can_help: can_help(code) },
            (None, Some(done), Some(upload)) => Self::Uploading { done, of: upload.bytes },
            (None, _, _) => Self::Waiting,
        }
    }
}

/// Returns whether the same message or change can succeed later, although the server refused it for good.
pub(super) fn can_help(code: &str) -> bool {
    !matches!(code, "too_large" | "bad_request" | "gone" | "id_reused" | "config")
}

/// A change that the server refused for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The change.
    pub client_msg_id: ClientMsgId,
    /// As in [`Progress::Failed`].
    pub code: String,
    /// As in [`Progress::Failed`].
    pub can_help: bool,
}

/// The place of a message among consecutive ones of the same user, between which nothing else is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The first of them, at which an interface writes the name.
    pub is_first: bool,
    /// The last of them, at which an interface draws the picture.
    pub is_last: bool,
}
