//! The outcome of a batch.

use lambda::{EventLine, Measures};

use crate::outcome::{Cause, Done, Rang};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rings: u64,
    pub(crate) unreadable: u64,
    spared: u64,
    muted: u64,
    no_device: u64,
    waits: u64,
    /// From a message to its notification, the longest.
    age_ms: Option<u64>,
    pushed: u64,
    cleared: u64,
    gone: u64,
    failed: u64,
    /// Why the first member failed.
    cause: Option<Cause>,
    /// The first record that is to come again, with all behind it.
    first: Option<usize>,
}

impl Tally {
    /// Adds the outcome of one member.
    pub(crate) fn add(&mut self, done: &Done) {
        match done.ring {
            None | Some(Rang::Yes | Rang::Past) => {}
            Some(Rang::Spared) => self.spared += 1,
            Some(Rang::Muted) => self.muted += 1,
            Some(Rang::NoDevice) => self.no_device += 1,
            Some(Rang::Waits) => self.waits += 1,
        }
        self.pushed += done.pushed.accepted;
        self.cleared += done.cleared.accepted;
        self.gone += done.pushed.gone + done.cleared.gone;
        self.failed += done.pushed.refused + done.cleared.refused;
        self.age_ms = self.age_ms.max(done.age_ms);
    }

    /// Counts a failed member, which is retried or has failed for good: no other member waits for it.
    pub(crate) fn leave(&mut self, cause: Cause) {
        self.failed += 1;
        self.cause.get_or_insert(cause);
    }

    /// The record at this place of the batch is to come again, and what is behind it.
    pub(crate) fn fail(&mut self, index: usize, cause: Cause) {
        self.fail_all(index, 1, cause);
    }

    /// Counts a failure of this many members.
    pub(crate) fn fail_all(&mut self, index: usize, members: usize, cause: Cause) {
        self.failed += members as u64;
        self.cause.get_or_insert(cause);
        self.first = Some(self.first.map_or(index, |first| first.min(index)));
    }

    /// The place of the first record that is to come again.
    pub(crate) fn first_failure(&self) -> Option<usize> {
        self.first
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
            waits: Some(self.waits),
            pushed: Some(self.pushed),
            cleared: Some(self.cleared),
            gone: Some(self.gone),
            failed: Some(self.failed),
            age_ms: self.age_ms,
            ..Measures::default()
        };
        match self.cause {
            None => line.info("ok", "answered"),
            Some(cause) => line.error("partial", &*cause, "some of the batch failed"),
        }
    }
}
