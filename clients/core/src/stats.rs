//! Counters of the client's work.

/// Counters since `Client::connect`. The values never fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Messages and changes that went out, each counted once.
    pub sent: u64,
    /// Messages and changes that the server has stored.
    pub answered: u64,
    /// Messages and changes that went out again.
    pub resent: u64,
    /// Messages and changes that the server refused for good.
    pub failed: u64,
    /// Entries of other users and of the user's other devices, delivered to the app.
    pub received: u64,
    /// Entries that came again and were dropped.
    pub duplicates_dropped: u64,
    /// Times that `history` brought what was missing.
    pub gaps_repaired: u64,
    /// Encrypted messages that this device can't read.
    pub unreadable: u64,
    /// Connections after the first.
    pub reconnects: u64,
}
