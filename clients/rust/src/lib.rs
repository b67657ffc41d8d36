//! A client for Pigeonhole: chat that arrives once, in order, over connections that come and go.
//!
//! ```no_run
//! use pigeonhole_client::{Client, Config, Event, FileStorage, TokenNeed};
//!
//! # async fn token_from_my_backend(fresh: bool) -> Result<String, Box<dyn std::error::Error + Send + Sync>> { todo!() }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // A fresh one, unless one from the cache will do.
//! let token = |need| token_from_my_backend(need != TokenNeed::Connect);
//! let config = Config::new("wss://example.execute-api.eu-west-1.amazonaws.com/v1", "alice", token)
//!     .device_id("alices-phone")
//!     .storage(FileStorage::open("alice.outbox")?);
//! let (client, mut events) = Client::connect(config).await?;
//!
//! // Now it is in the outbox, with or without a network; a restart does not lose it.
//! let sent = client.send_to("bob", "hi").await?;
//! tokio::spawn(async move {
//!     match sent.stored().await {
//!         Ok(stored) => println!("✓ number {} in {}", stored.seq, stored.conversation_id),
//!         Err(error) => println!("not sent: {error}"),
//!     }
//! });
//!
//! while let Some(event) = events.next().await {
//!     match event {
//!         // Those that don't count say what became of a message: `Timeline` knows what to show then.
//!         Event::Message { message, .. } if message.kind.counts() => {
//!             println!("{}: {}", message.sender_id, message.body);
//!             // It is on the screen.
//!             client.read(&message.conversation_id, message.seq);
//!         }
//!         Event::Receipt { kind, receipt } => println!("{kind:?} by {} up to {}", receipt.user_id, receipt.seq),
//!         Event::State(state) => println!("{state:?}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! * What [`Client::send`], [`edit`](Client::edit), [`delete`](Client::delete) or [`react`](Client::react) took is sent until the
//!   server has answered, over reconnects and, with a [`FileStorage`], restarts; it is stored once. What is for the same
//!   conversation is stored in the order it was sent. Name a direct one always by its user or always by its id: after a restart it
//!   is the server that says that the two are one.
//!   (The server knows it again for 7 days: one that waits for longer, after a try whose answer was lost, can be
//!   stored twice.)
//! * Each entry of a conversation, a message or a silent one, is handed over once, in the order of `seq`, and none is left out;
//!   of a channel, while it is [watched](Client::watch). A new device begins where the user's others are.
//! * A message is acknowledged when the app asks for the event after it, so what it had not finished with when it crashed
//!   comes again. See [`Events`].
//!
//! # Layout
//!
//! `session` is the whole client without I/O and clock: frames, calls and the time in, frames, events and changes out. `driver`
//! executes those, `dial` is one connection, `client` is what an app uses. `timeline` is apart from all that: the ordered view
//! of one conversation, for drawing it.

#![warn(missing_docs)]

#[cfg(feature = "media")]
mod attachment;
mod client;
mod config;
mod dial;
mod driver;
mod error;
mod event;
mod group;
mod media;
mod session;
mod stats;
mod storage;
mod timeline;
mod token;
#[cfg(feature = "media")]
mod transfer;

#[cfg(feature = "media")]
pub use attachment::Attachment;
pub use client::{Client, Events, Report, Sent};
pub use config::{Config, Timing, TokenError, TokenNeed};
pub use error::Error;
pub use event::{Event, ReceiptKind, State, Why};
pub use group::{Draft, EVERYBODY, NewGroup};
pub use media::{About, Source, Upload};
pub use stats::Stats;
pub use storage::{FileStorage, MemoryStorage, Outgoing, Queued, Saved, Storage, StorageChange};
pub use timeline::{Readers, Tick, Timeline, TimelineEntry, Unsent};
pub use wire::limits;
pub use wire::{
    AddResult, AllowedTo, Channel, ChannelsResult, ClientMsgId, Conversation, ConversationId, ConversationKind,
    ConversationSettings, DeviceToken, Digest, Download, DownloadResult, Emoji, FileName, GroupMember, HistoryFrom,
    HistoryResult, InboxResult, Info, InvalidId, JoinBy, JoinResult, Kind, LastMessage, LeaveResult, Media, MediaId,
    Member, MembersResult, Message, MessageId, MimeType, MutedUntil, Platform, Presence, Reaction, ReactionsResult,
    Reactor, ReadResult, Receipt, ReceiptsResult, Registration, Role, SendResult, Seq, Settings, Side, System, Target,
    Thumbhash, Timestamp, Title, UserId, UserSettings, WatchResult, Waveform, When,
};

/// The README's example, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
