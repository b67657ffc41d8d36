//! The types that clients see: requests, results, events, refusals and limits.
//!
//! The functions, the Rust client and the contract use these very types. Nothing here does I/O, knows AWS, or decides
//! anything. Each input is parsed once into a type with a private field ([`UserId`], [`Seq`]), so no later code checks
//! it again.
//!
//! [`ACTIONS`] lists every action once: its name, the function that serves it, its request, its result and an example. A
//! file in `actions/` has the types of each.

mod actions;
mod bytes;
mod carried;
mod conversation;
mod data;
mod emoji;
mod event;
mod fields;
mod frame;
mod group;
mod ids;
mod json;
mod kind;
pub mod limits;
mod look;
mod made_ids;
mod media;
mod message;
mod refusal;
mod request;
mod service;
mod text;
mod time;

pub use actions::*;
pub use bytes::Bytes;
pub use carried::Carried;
pub use conversation::{Channel, Conversation, LastMessage};
pub use data::Data;
pub use emoji::Emoji;
pub use event::{Receipt, ServerEvent};
pub use frame::{ErrorFrame, Problem, ServerFrame, error_frame, reply_frame};
pub use group::{AllowedTo, HistoryFrom, Info, JoinBy, Rings, Role, System, Title};
pub use ids::{
    ClientMsgId, ConversationId, ConversationKind, DeviceId, DeviceToken, InvalidId, MediaId, MessageId, ReportId,
    RequestId, SERVICE_DEFAULT, Seq, UserId,
};
pub use kind::Kind;
pub use look::{About, Look};
pub use made_ids::{channel_id, direct_conversation_id, group_id, report_id};
pub use media::{Attached, Digest, FileName, Media, MimeType, SealedMedia, Thumbhash, Waveform};
pub use message::{Message, Reaction, body_fits, mentions_fit};
pub use refusal::Refusal;
pub use request::{Rejected, Request};
pub use service::{Queued, ServiceMessage};
pub use time::Timestamp;
