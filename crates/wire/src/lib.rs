//! What clients see: requests, results, events, refusals and limits, as types.
//!
//! The functions, the Rust client and the contract use these very types. Nothing here does I/O, knows AWS, or decides anything.
//! Each input is parsed once into a type with a private field ([`UserId`], [`Seq`]); whoever holds one need not check it again.
//!
//! [`ACTIONS`] lists every action once: its name, the function that serves it, its request, its result and an example. A
//! file in `actions/` has the types of each.

pub mod actions;
mod conversation;
mod event;
mod fields;
mod frame;
mod group;
mod ids;
pub mod limits;
mod media;
mod message;
mod refusal;
mod registry;
mod request;
mod service;
mod time;

pub use actions::ack::{AckEntry, AckRequest, AckResult};
pub use actions::add::{AddRequest, AddResult};
pub use actions::channels::{ChannelsRequest, ChannelsResult};
pub use actions::create::{CreateRequest, CreateResult};
pub use actions::delete::{DeleteRequest, DeleteResult};
pub use actions::device::{DeviceRequest, DeviceResult, Platform, Registration, When};
pub use actions::download::{Download, DownloadRequest, DownloadResult};
pub use actions::drain::{DrainRequest, DrainResult};
pub use actions::edit::{EditRequest, EditResult};
pub use actions::history::{HistoryRequest, HistoryResult, Member, Side};
pub use actions::inbox::{InboxRequest, InboxResult};
pub use actions::join::{JoinRequest, JoinResult};
pub use actions::leave::{LeaveRequest, LeaveResult};
pub use actions::members::{GroupMember, MembersRequest, MembersResult};
pub use actions::ping::{PingRequest, PingResult};
pub use actions::presence::{Presence, PresenceRequest, PresenceResult};
pub use actions::react::{ReactRequest, ReactResult};
pub use actions::reactions::{ReactionsRequest, ReactionsResult, Reactor};
pub use actions::read::{ReadRequest, ReadResult};
pub use actions::receipts::{ReceiptsRequest, ReceiptsResult};
pub use actions::remove::{RemoveRequest, RemoveResult};
pub use actions::role::{RoleRequest, RoleResult};
pub use actions::send::{SendRequest, SendResult, Target};
pub use actions::settings::{ConversationSettings, MutedUntil, Settings, SettingsResult, UserSettings};
pub use actions::typing::TypingRequest;
pub use actions::unwatch::{UnwatchRequest, UnwatchResult};
pub use actions::update::{UpdateRequest, UpdateResult};
pub use actions::upload::{CopyOf, NewUpload, Part, UploadRequest, UploadResult};
pub use actions::uploaded::{UploadedRequest, UploadedResult};
pub use actions::watch::{WatchRequest, WatchResult};
pub use conversation::{Channel, Conversation, ConversationKind, LastMessage};
pub use event::{Receipt, ServerEvent};
pub use frame::{ErrorFrame, Problem, ServerFrame, error_frame, reply_frame};
pub use group::{AllowedTo, HistoryFrom, Info, JoinBy, Role, System, Title};
pub use ids::{
    ClientMsgId, ConversationId, DeviceId, DeviceToken, Emoji, InvalidId, MediaId, MessageId, RequestId,
    SERVICE_DEFAULT, Seq, UserId,
};
pub use media::{Digest, FileName, Media, MimeType, Thumbhash, Waveform};
pub use message::{Kind, Message, Reaction, body_fits, mentions_fit};
pub use refusal::Refusal;
pub use registry::{ACTIONS, Action, ActionSpec, Reply};
pub use request::{Rejected, Request};
pub use service::ServiceMessage;
pub use time::Timestamp;
