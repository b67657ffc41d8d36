//! A server by the rules of the protocol, and clients that carry between it and a [`Keyring`].

#![allow(dead_code, reason = "each test uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::result_large_err,
    clippy::too_many_lines,
    reason = "a test"
)]

mod client;
mod server;

pub(crate) use client::Client;
pub(crate) use server::Server;

use wire::{ConversationId, UserId, direct_conversation_id};

/// A time long ago: a look at the clock of the machine, instead of this time, would fail.
pub(crate) const NOW_MS: u64 = 1_000_000_000_000;
pub(crate) const DAY_MS: u64 = 86_400_000;

pub(crate) fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

pub(crate) fn conversation() -> ConversationId {
    direct_conversation_id(&user("alice"), &user("bob"))
}

pub(crate) fn seed(random: &mut fastrand::Rng) -> [u8; 32] {
    std::array::from_fn(|_| random.u8(..))
}
