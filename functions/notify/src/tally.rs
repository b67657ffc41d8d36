//! What came of a batch.

use std::error::Error;
use std::time::Duration;

use lambda::{EventLine, Measures};

use crate::phones::Sent;

/// Why something failed that belongs to a record.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rings: u64,
    pub(crate) spared: u64,
    pub(crate) muted: u64,
    pub(crate) no_device: u64,
    pub(crate) unreadable: u64,
    pub(crate) waited: Duration,
    /// From a message to its notification, the longest.
    pub(crate) age_ms: Option<u64>,
    pushed: u64,
    cleared: u64,
    gone: u64,
    failed: u64,
    /// The first record that failed.
    first: Option<(usize, Cause)>,
}

impl Tally {
    pub(crate) fn pushed(&mut self, sent: &Sent) {
        self.pushed += sent.accepted;
        self.lost(sent);
    }

    pub(crate) fn cleared(&mut self, sent: &Sent) {
        self.cleared += sent.accepted;
        self.lost(sent);
    }

    fn lost(&mut self, sent: &Sent) {
        self.gone += sent.gone;
        self.failed += sent.refused;
    }

    /// The record at this place of the batch failed.
    pub(crate) fn fail(&mut self, index: usize, cause: impl Into<Cause>) {
        self.fail_all([index].into_iter(), cause);
    }

    /// These failed, for the same reason.
    pub(crate) fn fail_all(&mut self, indexes: impl Iterator<Item = usize>, cause: impl Into<Cause>) {
        let mut first = self.first.as_ref().map_or(usize::MAX, |(first, _)| *first);
        let before = first;
        for index in indexes {
            self.failed += 1;
            first = first.min(index);
        }
        if first < before {
            self.first = Some((first, cause.into()));
        }
    }

    /// The place of the first record that failed.
    pub(crate) fn first_failure(&self) -> Option<usize> {
        self.first.as_ref().map(|(index, _)| *index)
    }

    /// Writes the batch's line.
    pub(crate) fn write(self, mut line: EventLine) {
        line.unreadable(self.unreadable);
        let Measures { duration_ms, unreadable, .. } = line.measures;
        line.measures = Measures {
            duration_ms,
            unreadable,
            rings: Some(self.rings),
            spared: Some(self.spared),
            muted: Some(self.muted),
            no_device: Some(self.no_device),
            pushed: Some(self.pushed),
            cleared: Some(self.cleared),
            gone: Some(self.gone),
            failed: Some(self.failed),
            waited_ms: Some(u64::try_from(self.waited.as_millis()).unwrap_or(u64::MAX)),
            age_ms: self.age_ms,
            ..Measures::default()
        };
        match self.first {
            None => line.info("ok", "answered"),
            Some((_, cause)) => line.error("partial", &*cause, "some of the batch failed"),
        }
    }
}
