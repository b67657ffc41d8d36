//! The rules of Pigeonhole: the next state of a conversation, the users an entry concerns, the contents of a page.
//!
//! This crate has no clock, no randomness and no I/O. Time and random bytes are arguments, so every rule can be tested
//! as a function. Types that clients see are in `wire`.

mod audience;
mod change;
mod channel;
mod chat_list;
mod cursor;
mod device;
mod digest;
mod draft;
mod encryption;
mod entry;
mod erased;
mod error_chain;
mod failure;
mod fold;
mod frames;
mod group;
mod hook;
mod ids;
mod keys;
pub mod limits;
mod look;
mod media;
mod membership;
mod observers;
mod page;
mod profiles;
mod rate;
mod report;
mod room;
mod roster;
mod seal;
mod weight;

pub use audience::Audience;
pub use change::{Rights, pins_after};
pub use channel::{ChannelRow, Mention, poll_ms};
pub use chat_list::ChatList;
pub use cursor::{Cursor, Position};
pub use device::Device;
pub use draft::{Change, Content, Draft, GroupChange, NewCommit, Rules};
pub use encryption::{Encryption, InvalidEncryption};
pub use entry::{
    Body, CommitBody, Deleted, End, Entry, Follows, GroupInfo, LastEntry, MessageBody, MessageEntry, Place,
    ReactionTally, Sight, SystemBody, Target, preview,
};
pub use erased::ErasedBody;
pub use error_chain::error_chain;
pub use failure::{Failure, ServiceError};
pub use fold::{Logged, Moved, fold, names};
pub use frames::Frames;
pub use group::{Decided, Head, Newcomer, RosterRow, moderates};
pub use hook::{Question, Verdict};
pub use ids::{ConnectionId, Origin, message_id};
pub use keys::{DeviceKeys, Got, LAST_RESORT_LIFE_MAX, PACKAGE_LIFE_MAX, day, midnight};
pub use look::{Look, Wanted};
pub use media::{
    MediaRow, PartOf, Parts, TREE_TTL, check_parts, disposition, media_id, object_key, parts_of, puts_end,
    sealed_bytes, served_as, url_ttl,
};
pub use membership::{Counted, Marks, MemberSettings, Membership, News, Reading, View, With};
pub use observers::{Noted, Observer, Observers};
pub use page::{Backlog, drain_page, fit, fit_last, split};
pub use profiles::{InvalidProfiles, Profiles};
pub use rate::{Filled, InvalidRate, Rate};
pub use report::{REPORTS, is_month, month, reported};
pub use room::{Room, Waiting};
pub use roster::LoggedRoster;
pub use seal::Seal;
pub use weight::{Cost, Floods, SAMPLED, filled_until, is_sampled, window};
