//! A client of Pigeonhole without I/O, clock, threads and randomness: the state machine on which the clients stand.
//!
//! [`Core`] is the whole client. The inputs of a [`turn`](Core::turn) are frames, requests of the app and the time. Its
//! result is a [`Step`]: the caller commits the writes in one transaction, and then carries out the outputs.
//! [`Timeline`] is the ordered view of one conversation, and [`chat`] the model that an interface draws. [`apply`] has the
//! rules of a message store, and [`MemStore`] is one in memory.
//!
//! An app uses [`pigeonhole-client`](https://crates.io/crates/pigeonhole-client), which adds sockets, files and Tokio.

#![warn(missing_docs)]

pub mod chat;
mod error;
mod event;
mod group;
mod keys;
mod media;
mod moment;
mod peek;
mod saved;
mod session;
mod stats;
mod store;
mod timeline;
mod timing;
pub mod token;
mod turn;
mod unreadable;
mod words;

pub use error::Error;
pub use event::{Event, ReceiptKind, State, TokenNeed, Why};
pub use group::{Draft, EVERYBODY, Edited, NewGroup, check_users};
pub use keys::Keys;
pub use media::{About, Carry, CarryId, Put, PutEnd, PutNews, SealedFile, SealedPut, Source, Upload, opener_of};
pub use moment::Moment;
pub use peek::Peek;

pub use pigeonhole_sealing::{
    FileDigest, FileOpener, Keyring, Lock, Notice, OwnDevice, SafetyNumber, sealed_file_bytes,
};
pub use saved::{Outgoing, Queued, Saved, StorageChange};
pub use session::Core;
pub use stats::Stats;
pub use store::{Folded, KnownMember, MemStore, Span, Tables, Window, Write, apply, order_of_chats};
pub use timeline::{Readers, Tick, Timeline, TimelineEntry, Unsent};
pub use timing::Timing;
pub use turn::{Ask, AskId, Input, Keeper, LinkId, Output, Setup, Step, Trust};
pub use unreadable::Unreadable;
pub use words::{Query, words};
