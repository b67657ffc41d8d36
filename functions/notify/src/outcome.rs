//! The outcome of a job.

use std::error::Error;
use std::ops::AddAssign;

/// Why something failed.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// The outcome of a job.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The outcome of the job's push, if it had one.
    pub(crate) ring: Option<Rang>,
    pub(crate) pushed: Sent,
    pub(crate) cleared: Sent,
    /// From the message to its notification.
    pub(crate) age_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rang {
    Yes,
    /// An earlier run of the batch has sent the push, or the conversation is gone.
    Past,
    /// Read, taken in time, or deleted.
    Spared,
    Muted,
    NoDevice,
    /// The member is connected, and has time left.
    Waits,
}

/// The outcome of the pushes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) accepted: u64,
    /// Dead tokens, whose devices are forgotten.
    pub(crate) gone: u64,
    /// On platforms that take nothing of this server's any more.
    pub(crate) refused: u64,
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.gone += other.gone;
        self.refused += other.refused;
    }
}
