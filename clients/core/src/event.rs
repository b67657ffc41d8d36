//! The events that the client gives to the app, and its requests for tokens.

use pigeonhole_sealing::Notice;
use wire::{ClientMsgId, Conversation, ConversationId, Message, Presence, Receipt, Seq, Settings, Timestamp, UserId};

use crate::saved::Queued;
use crate::unreadable::Unreadable;
use crate::{Error, Moment};

/// Something the app should know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "most events are messages, and each is handed on once")]
pub enum Event {
    /// The next entry of its conversation, in the order of `seq`, each once: a message, a system entry or a change
    /// entry. A change entry changes another message and has nothing to show by itself
    /// ([`Kind::counts`](wire::Kind::counts)).
    ///
    /// The user's own entries come too, once they are stored, with their `client_msg_id`. An own entry of a group can
    /// come behind later entries, if the user was removed and added again after it. A [`Timeline`](crate::Timeline)
    /// then removes it from the unsent messages and does not show it.
    Message {
        /// The entry.
        message: Message,
        /// True if another user or device created the entry while this device was not connected.
        missed: bool,
    },
    /// The mark of a member of a conversation; of the user too, if the user has read on another device. A late event
    /// can be below an earlier one: only the highest mark counts.
    Receipt {
        /// Whether the member has received it or read it.
        kind: ReceiptKind,
        /// Who, where, and up to which message.
        receipt: Receipt,
    },
    /// A row of the chat list, read after a connect. The conversation has a new entry, or another device has read some
    /// of it. This event may come without a change.
    ConversationChanged(Conversation),
    /// The server has stored the user's new settings, from this or another device. A field that is left out keeps its
    /// value. For changes that another device made while this device was not connected, request
    /// `Client::inbox`.
    SettingsChanged(Settings),
    /// The first event, if the store of an earlier run was damaged. A copy of the file is at this path for 7 days. The
    /// client continues with the requests of the outbox that could be read, and requests everything else again.
    StorageSetAside(String),
    /// How the connection is doing.
    State(State),
    /// Another member is typing, for the next [`TYPING_SHOWN_MS`](wire::limits::TYPING_SHOWN_MS). No event reports the
    /// end if the member sends the message: the message itself is the sign.
    Typing {
        /// Where.
        conversation_id: ConversationId,
        /// Who.
        user_id: UserId,
        /// When the server heard of it.
        at: Timestamp,
        /// The text so far, of a service alone.
        text: Option<String>,
    },
    /// A user whom the app watches with `Client::watch_presence` has come or gone. Also comes when the client renews the
    /// watch, then perhaps without a change.
    PresenceChanged(Presence),
    /// The upload progress of a message's file, for [`Timeline::uploading`](crate::Timeline::uploading). The number can
    /// fall when the client must upload a part again.
    Uploading {
        /// The message.
        client_msg_id: ClientMsgId,
        /// Uploaded bytes.
        done: u64,
        /// All bytes of the file.
        bytes: u64,
    },
    /// The server has applied the user's change of a message, for [`Timeline::reacted`](crate::Timeline::reacted), and
    /// no [`Event::Message`] reports it. Two changes are such: a reaction in a channel, where it is no entry, and a
    /// former member's delete of an own message.
    Reacted {
        /// The change.
        queued: Queued,
    },
    /// The subscription to a channel has ended: the server refused it, mostly because the user is not a member
    /// (`not_member`).
    Unwatched {
        /// The channel.
        conversation_id: ConversationId,
        /// Why.
        error: Error,
    },
    /// A message that this device can't read. No [`Event::Message`] follows. The store and the views have its place.
    Unreadable {
        /// Where.
        conversation_id: ConversationId,
        /// The entry.
        seq: Seq,
        /// The author.
        sender_id: UserId,
        /// Why.
        why: Unreadable,
    },
    /// News of the end-to-end encryption: of the keys of another user, or of the user's own devices.
    Security(Notice),
    /// The server refused a message or a change for good, and the client removed it from the outbox.
    Failed {
        /// The message or the change.
        queued: Queued,
        /// Why it was refused.
        error: Error,
    },
}

/// The meaning of an [`Event::Receipt`]: the member has received, or has read, everything up to the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptKind {
    /// A device of the member has received it: two grey ticks.
    Delivered,
    /// The member has read it, and so received it: blue ticks.
    Read,
}

/// How the connection is doing. A socket that is replaced before its end changes nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A connection is being opened.
    Connecting,
    /// The connection is open, and the client is requesting what it missed.
    Online,
    /// The app has got every event that it missed.
    CaughtUp,
    /// The client has no connection.
    Offline {
        /// Why.
        why: Why,
        /// When the next one is tried.
        retry_at: Moment,
    },
    /// The server has closed the connection, because the user has opened too many newer ones. Only
    /// `Client::wake` opens the next one: devices that reconnected by themselves would replace
    /// each other without end.
    Replaced,
}

/// The reason why the client has no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The connection broke.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The server owes a reply and has sent no frame for too long.
    #[error("the server has stopped answering")]
    Silent,
    /// The store can't be written, so the client sends and acknowledges nothing until it can.
    #[error("the store can't be written: {0}")]
    Store(String),
    /// The server can't be reached.
    #[error("can't reach the server: {0}")]
    Unreachable(String),
    /// The server refused the connection.
    #[error("the server refused the connection (HTTP {status})")]
    Refused {
        /// HTTP's status code.
        status: u16,
    },
    /// The server refused the token, and a new one too.
    #[error("the server refused the token (HTTP {status})")]
    TokenRefused {
        /// HTTP's status code: 401 or 403.
        status: u16,
    },
    /// The token has expired; the client requests a new one for the next try.
    #[error("the token has expired")]
    TokenExpired,
    /// The app's token callback failed with this error.
    #[error("{0}")]
    NoToken(String),
    /// The app's token is for another user (its `sub`) than `Config::user_id`, so the client
    /// does not connect with it. The text names both users.
    #[error("{0}")]
    WrongUser(String),
}

/// The reason why the client requests a token from the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenNeed {
    /// For a new connection: a cached token will do.
    Connect,
    /// The server refused the last token with this HTTP status. Get a new one.
    Refused(u16),
    /// The last token has expired, or is about to. Get a new one.
    Expired,
}
