//! What the client tells the app.

use std::time::Instant;

use wire::{ClientMsgId, Conversation, ConversationId, Message, Receipt, Settings, Timestamp, UserId};

use crate::Error;
use crate::storage::Queued;

/// Something the app should know.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The next entry of its conversation, in the order of `seq`, each once: a message, or a silent one, which says what became
    /// of a message and is nothing to show by itself ([`Kind::counts`](crate::Kind::counts)). The user's own are among them,
    /// once they are stored: `client_msg_id` says which they are. One that was stored in a group before the user was removed from it
    /// and added again can come behind later ones: a [`Timeline`](crate::Timeline) takes it out of what is unsent, and shows it no more.
    Message {
        /// The entry.
        message: Message,
        /// Somebody else made it while this device was not connected.
        missed: bool,
    },
    /// How far a member of a conversation has come; the user themselves, if another device of theirs has read. One that
    /// arrives late can be below an earlier one: only the highest counts.
    Receipt {
        /// Whether they hold it or have read it.
        kind: ReceiptKind,
        /// Who, where, and up to which message.
        receipt: Receipt,
    },
    /// A row of the chat list, as the server had it after a connect: there is something new in the conversation, or another
    /// device has read some of it. May come without a change.
    ConversationChanged(Conversation),
    /// The user has changed settings, here or on another device: the server has them now. What is left out stays as it was.
    /// One that another device changed while this one was not connected is only in the rows of [`inbox`](crate::Client::inbox).
    SettingsChanged(Settings),
    /// The first event, where what an earlier run has stored can't be read. It is set aside, under this name, and this client
    /// begins as on a new device: messages that were not sent yet are only there.
    StorageSetAside(String),
    /// How the connection is doing.
    State(State),
    /// Another member writes, for the next [`TYPING_SHOWN_MS`](crate::limits::TYPING_SHOWN_MS). One that ends the writing by
    /// sending is not told to have ended: their message is.
    Typing {
        /// Where.
        conversation_id: ConversationId,
        /// Who.
        user_id: UserId,
        /// When the server heard of it.
        at: Timestamp,
    },
    /// The file of a message that is being sent: so many of its bytes are uploaded, for
    /// [`Timeline::uploading`](crate::Timeline::uploading). It can go back, where a part has to be put again.
    Uploading {
        /// The message.
        client_msg_id: ClientMsgId,
        /// So many.
        done: u64,
        /// Of so many.
        bytes: u64,
    },
    /// The user's reaction to a message of a channel is counted, for [`Timeline::reacted`](crate::Timeline::reacted). There it is no
    /// entry, so no [`Event::Message`] says it.
    Reacted {
        /// The reaction.
        queued: Queued,
    },
    /// A channel is no longer watched: the server has refused it, mostly because the user is no member (`not_member`).
    Unwatched {
        /// The channel.
        conversation_id: ConversationId,
        /// Why.
        error: Error,
    },
    /// A message or a change that will never be stored: the server refused it for good. It is out of the outbox.
    Failed {
        /// What it was.
        queued: Queued,
        /// Why it was refused.
        error: Error,
    },
}

/// What an [`Event::Receipt`] says: the member has everything up to there, or has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptKind {
    /// A device holds it: two grey ticks.
    Delivered,
    /// The member has read it, and so holds it: blue ticks.
    Read,
}

/// How the connection is doing. A socket that is replaced before its end changes nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A connection is being opened.
    Connecting,
    /// There is one, and what was missed is on its way.
    Online,
    /// Everything that was missed has been handed over.
    CaughtUp,
    /// There is none.
    Offline {
        /// Why.
        why: Why,
        /// When the next one is tried.
        retry_at: Instant,
    },
    /// The server has closed the connection, because the user has opened too many newer ones. The next one is opened by
    /// [`Client::wake`](crate::Client::wake), not before: devices that come back by themselves would take each other's place
    /// without end.
    Replaced,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The connection broke.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The server owes an answer and has sent nothing at all for too long.
    #[error("the server has stopped answering")]
    Silent,
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
    /// The token has expired; the next try asks for a new one.
    #[error("the token has expired")]
    TokenExpired,
    /// The app could not give a token. This is what it said.
    #[error("{0}")]
    NoToken(String),
}
