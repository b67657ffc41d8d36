//! Outcomes of frames to connections.

use std::iter::Sum;

/// How many frames came to which end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// API Gateway accepted these frames. Only an `ack` shows that a device received them.
    pub posted: u64,
    /// Their connections are gone.
    pub gone: u64,
    pub failed: u64,
    /// Frames that were skipped, since the process had too many posts.
    pub paced: u64,
}

impl Sum for Frames {
    fn sum<I: Iterator<Item = Self>>(frames: I) -> Self {
        frames.fold(Self::default(), |sum, more| Self {
            posted: sum.posted + more.posted,
            gone: sum.gone + more.gone,
            failed: sum.failed + more.failed,
            paced: sum.paced + more.paced,
        })
    }
}
