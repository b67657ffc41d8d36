//! The rules of Pigeonhole: what a request may say, what an answer looks like, how a conversation moves on.
//!
//! This crate knows no AWS, no clock, no randomness and no I/O: time and random bytes come in as arguments, so every rule
//! can be tested as a function. Each input is parsed once into a type with a private field ([`UserId`], [`Request`]);
//! whoever holds one need not check it again. What a client did wrong is a [`Refusal`].

mod chain;
mod conversation;
mod cursor;
mod event;
mod frame;
mod ids;
pub mod limits;
mod message;
mod page;
mod refusal;
mod request;
mod retry;
mod time;

pub use chain::error_chain;
pub use conversation::{Conversation, LastMessage, Marks, Unread};
pub use cursor::Cursor;
pub use event::Event;
pub use frame::{ErrorFrame, Member, Reply, error as frame_error, reply};
pub use ids::{ClientMsgId, ConnectionId, ConversationId, DeviceId, InvalidId, MessageId, RequestId, Seq, UserId};
pub use message::{Kind, Message, body_fits};
pub use page::{Backlog, drain_page, fit, fit_last};
pub use refusal::Refusal;
pub use request::{
    AckEntry, Action, HistoryRequest, InboxRequest, ReadRequest, Rejected, Request, SendRequest, Side, Target,
};
pub use retry::retry_delay;
pub use time::Timestamp;
