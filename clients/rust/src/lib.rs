//! A client for Pigeonhole: each chat message arrives once and in order, across reconnects.
//!
//! ```no_run
//! use pigeonhole_client::{At, Client, Config, Content, TokenNeed};
//!
//! # async fn token_from_my_backend(fresh: bool) -> Result<String, Box<dyn std::error::Error + Send + Sync>> { todo!() }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // A fresh one, unless one from the cache will do.
//! let token = |need| token_from_my_backend(need != TokenNeed::Connect);
//! let config = Config::new("wss://example.execute-api.eu-west-1.amazonaws.com/v1", "alice", token)
//!     .device_id("alices-phone")
//!     .store("alice.store");
//! let (client, _events) = Client::connect(config).await?;
//!
//! // Now it is in the outbox, with or without a network; a restart does not lose it.
//! let bob = client.direct("bob")?;
//! let sent = bob.send("hi").await?;
//! tokio::spawn(async move {
//!     match sent.stored().await {
//!         Ok(stored) => println!("✓ number {} in {}", stored.seq, stored.conversation_id),
//!         Err(error) => println!("not sent: {error}"),
//!     }
//! });
//!
//! // The view has the last run's messages at once, and follows everything that happens.
//! let mut view = bob.messages(At::FirstUnread)?;
//! loop {
//!     let screen = view.changed().await?;
//!     for item in &screen.messages.items {
//!         if let Content::Message(message) = &item.content {
//!             println!("{}: {} {:?}", message.sender_id, message.body, message.progress);
//!         }
//!         // It was on the screen, so it is read.
//!         view.seen(&item.key);
//!     }
//! }
//! # }
//! ```
//!
//! # Promises
//!
//! * The client repeats each [`Client::send`], [`edit`](Client::edit), [`delete`](Client::delete) or
//!   [`react`](Client::react) until the server has replied. The client does so across reconnects and, with a
//!   file, restarts. The server stores each request once, and requests of one conversation in the order of
//!   the calls.
//! * To keep this order, name a direct conversation always by its user or always by its id. After a restart, the client
//!   knows only from the server's replies that both are the same conversation.
//! * The server recognises a repetition for 7 days. A message that waits longer after a lost reply can be stored twice.
//! * The app gets each entry of a conversation, a message or a change entry, once, in the order of `seq`, and without a
//!   gap. The entries of a channel come while the app is [subscribed](Client::watch). A new device starts at the marks
//!   of the user's other devices.
//! * With [`Config::store`], the client acknowledges a message after its store has the message on the disk. In any other
//!   client, the app acknowledges the message when it requests the next event, and after a crash an unfinished message
//!   comes again. See [`Events`].
//! * If the store can't be written, the client sends and acknowledges nothing, and reports [`Why::Store`]. The
//!   client closes its connections, refuses new messages, and repeats the write after 500 ms to 30 s.
//!
//! # Layout
//!
//! `pigeonhole-core` is the whole client without I/O and clock. `driver` carries out its outputs, `dial` is one
//! connection, and `client` is the public API.

#![warn(missing_docs)]

#[cfg(feature = "media")]
mod attachment;
mod chat;
mod client;
mod clock;
mod config;
mod dial;
mod driver;
mod kept;
#[cfg(feature = "http")]
mod poster;
#[cfg(not(feature = "http"))]
#[path = "poster_off.rs"]
mod poster;
#[cfg(feature = "media")]
mod private;
#[cfg(feature = "media")]
mod transfer;

#[cfg(feature = "media")]
pub use attachment::Attachment;
pub use chat::{Chat, View};
pub use client::{Client, Events, Report, Sent};
pub use clock::now;
pub use config::{Config, TokenError};
pub use pigeonhole_core::chat::{
    At, ChatRow, Content, Filter, Item, Line, ListSnapshot, MemberRow, MessageItem, Progress, Refused, RosterSnapshot,
    Run, Screen, Signal, Snapshot, Zone,
};
pub use pigeonhole_core::{
    About, Draft, EVERYBODY, Edited, Error, Event, Keeper, Keys, Lock, Moment, NewGroup, Notice, Outgoing, OwnDevice,
    Peek, Queued, Readers, ReceiptKind, SafetyNumber, Source, Span, State, Stats, Tick, Timeline, TimelineEntry,
    Timing, TokenNeed, Unreadable, Unsent, Upload, Why, Window,
};
pub use wire::limits;
pub use wire::{
    Action, AddRequest, AddResult, AllowedTo, Channel, ChannelsResult, ClientMsgId, Conversation, ConversationId,
    ConversationKind, ConversationProfile, ConversationSettings, CreateRequest, Data, DeleteRequest, DeviceId,
    DeviceToken, Digest, Download, DownloadResult, EditRequest, Emoji, FileName, GroupMember, HistoryFrom,
    HistoryResult, InboxResult, Info, InvalidId, JoinBy, JoinResult, Kind, LastMessage, LeaveRequest, LeaveResult,
    Media, MediaId, Member, MembersResult, Message, MessageId, MimeType, MutedUntil, NotAdded, PinRequest, Platform,
    Presence, PresenceResult, Profile, ProfileChange, ProfileOf, ProfilesResult, Quiet, ReactRequest, Reaction,
    ReactionsResult, Reactor, ReadResult, Receipt, ReceiptsResult, Registration, RemoveRequest, ReportReason,
    ReportRequest, ReportResult, RestrictRequest, Rings, Role, RoleRequest, SendResult, Seq, Settings, Side, System,
    Target, Thumbhash, Timestamp, Title, UpdateRequest, UserId, UserSettings, WatchResult, Waveform, When,
};

/// The README's example, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The example in the repository's README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct RepositoryReadme;
