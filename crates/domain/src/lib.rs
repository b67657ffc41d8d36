//! The rules of Pigeonhole: how a conversation moves on, whom an entry concerns, what a page holds.
//!
//! This crate knows no AWS, no clock, no randomness and no I/O: time and random bytes come in as arguments, so every rule can be
//! tested as a function. What clients see is in `wire`.

mod audience;
mod change;
mod channel;
mod chat_list;
mod cursor;
mod device;
mod error_chain;
mod failure;
mod fold;
mod frames;
mod group;
mod ids;
pub mod limits;
mod media;
mod membership;
mod message;
mod notification;
mod page;
mod rate;
mod roster;

pub use audience::Audience;
pub use change::{Change, Rights};
pub use channel::{ChannelRow, ReactionTally};
pub use chat_list::ChatList;
pub use cursor::{Cursor, Position};
pub use device::Device;
pub use error_chain::error_chain;
pub use failure::{Failure, ServiceError};
pub use fold::{Logged, Moved, fold, names};
pub use frames::Frames;
pub use group::{Decided, GroupChange, GroupInfo, Head, RosterRow, Rules, moderates};
pub use ids::{ConnectionId, channel_id, direct_conversation_id, group_id, message_id};
pub use media::{
    MediaRow, PartOf, Parts, check_parts, disposition, media_id, object_key, parts_of, puts_end, served_as, url_ttl,
};
pub use membership::{Counted, End, LastEntry, Marks, MemberSettings, Membership, News, Reading, View, With};
pub use message::{Aside, Content, Deleted, Draft, Follows, Place, StoredMessage, preview};
pub use notification::Notification;
pub use page::{Backlog, drain_page, fit, fit_last, split};
pub use rate::{Filled, InvalidRate, Rate};
pub use roster::LoggedRoster;
