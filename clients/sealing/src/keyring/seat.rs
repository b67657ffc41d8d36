//! The place of the device in one conversation.

use std::collections::BTreeSet;

use super::rows::{self, Aim, PendingKind, PendingRow, SeatRow, Work};
use super::{DAY_MS, OWN_MESSAGES, REFUSED_MS};
use crate::commit::Pending;
use crate::error::{Error, Result};
use crate::group::Group;

#[derive(Default)]
pub(super) struct Seat {
    /// Without the state, which is the group's.
    pub(super) row: SeatRow,
    pub(super) group: Option<Group>,
    pub(super) pending: Option<(PendingKind, Pending)>,
    /// The code of the server's refusal, and its end.
    pub(super) refused: Option<(String, u64)>,
    /// The next request waits until then.
    pub(super) not_before: u64,
    /// How often in a row a join or a birth was stale.
    tries: u32,
}

impl Seat {
    pub(super) fn read(mut row: SeatRow, tree: Option<&Vec<u8>>, pending: Option<&Vec<u8>>) -> Result<Self> {
        let group = match (row.state.take(), tree) {
            (Some(state), Some(tree)) => Some(Group::from_stored(state.as_slice().to_vec(), tree.clone())?),
            (None, _) => None,
            (Some(_), None) => return Err(Error::State("tree")),
        };
        let pending = pending.map(|bytes| rows::read::<PendingRow>(bytes)).transpose()?;
        let pending = pending.map(|row| Ok::<_, Error>((row.kind, row.pending()?))).transpose()?;
        Ok(Self { row, group, pending, ..Self::default() })
    }

    /// The place of a device that is new: it knows that the conversation is sealed.
    pub(super) fn outside(row: SeatRow) -> Self {
        let SeatRow { peer, sealed_from, reset_at_ms, .. } = row;
        Self { row: SeatRow { peer, sealed_from, reset_at_ms, ..SeatRow::default() }, ..Self::default() }
    }

    pub(super) fn row(&self) -> SeatRow {
        SeatRow { state: self.group.as_ref().map(|group| group.state().to_vec().into()), ..self.row.clone() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.row.work == Work::Idle
    }

    /// Nothing is under way, and the position is where the known log ends.
    pub(super) fn is_ready(&self) -> bool {
        self.group.is_some() && self.is_idle() && self.row.position >= self.row.due
    }

    /// Nothing is to be done before the next input.
    pub(super) fn is_settled(&self) -> bool {
        let is_outside = self.row.sealed_from == 0 || self.row.removed;
        self.is_idle() && (self.group.is_some() || is_outside) && !self.row.renew && self.row.remove.is_empty()
    }

    /// The device does not know yet where the birth is, or whether there is one, so it judges no entry.
    pub(super) fn is_looking(&self) -> bool {
        let looks = match self.row.work {
            Work::Look { aim, looked } => !looked && matches!(aim, Aim::Join | Aim::Write),
            Work::Birth { .. } => true,
            Work::Idle | Work::Claim { .. } | Work::Commit { .. } => false,
        };
        looks && self.group.is_none()
    }

    /// An answer decides whether this device can open a sealed entry: its birth or join may have lost to another birth.
    pub(super) fn is_unsettled(&self) -> bool {
        let is_under_way = matches!(self.row.work, Work::Claim { .. } | Work::Commit { .. });
        self.is_looking() || (is_under_way && self.group.is_none())
    }

    /// Begins to look, or looks for more than before.
    pub(super) fn look(&mut self, wanted: Aim) {
        match &mut self.row.work {
            Work::Idle => self.row.work = Work::Look { aim: wanted, looked: false },
            Work::Look { aim, .. } | Work::Birth { aim, .. } if *aim == Aim::Join => *aim = wanted,
            Work::Look { .. } | Work::Birth { .. } | Work::Claim { .. } | Work::Commit { .. } => {}
        }
    }

    /// The server's epoch is another, with a log up to this entry.
    pub(super) fn is_behind(&mut self, epoch: u64, last_seq: u64) {
        if self.group.is_some() {
            self.row.due = self.row.due.max(last_seq);
        } else if epoch > 0 {
            self.row.sealed_from = if self.row.sealed_from == 0 { last_seq } else { self.row.sealed_from };
        }
    }

    /// The keys are 24 hours old, or sealed 100 messages.
    pub(super) fn is_old(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.row.renewed_at_ms) >= DAY_MS || self.row.own >= OWN_MESSAGES
    }

    /// By itself, a device begins anew once a day at most.
    pub(super) fn may_repair(&self, now_ms: u64) -> bool {
        self.row.reset_at_ms.is_none_or(|at| now_ms.saturating_sub(at) >= DAY_MS)
    }

    pub(super) fn refuse(&mut self, code: impl Into<String>, now_ms: u64) {
        self.row.work = Work::Idle;
        self.refused = Some((code.into(), now_ms.saturating_add(REFUSED_MS)));
    }

    pub(super) fn refusal(&self, now_ms: u64) -> Option<String> {
        self.refused.as_ref().filter(|(_, until)| *until > now_ms).map(|(code, _)| code.clone())
    }

    /// A join or a birth was stale: the next one waits longer each time, since the server decides how often that is.
    pub(super) fn wait(&mut self, now_ms: u64) {
        self.tries = (self.tries + 1).min(12);
        if self.tries > 3 {
            self.not_before = now_ms.saturating_add(1_000 << self.tries);
        }
    }

    pub(super) fn joined(&mut self) {
        self.tries = 0;
        self.not_before = 0;
    }

    pub(super) fn wake_at(&self) -> Option<u64> {
        let repair = || self.row.reset_at_ms.filter(|_| self.row.broken && self.is_idle()).map(|at| at + DAY_MS);
        let refused = self.refused.as_ref().map(|(_, until)| *until);
        refused.or_else(|| (self.not_before > 0).then_some(self.not_before)).or_else(repair)
    }

    /// Forgets what no longer holds anything up.
    pub(super) fn tick(&mut self, now_ms: u64) {
        self.refused.take_if(|(_, until)| *until <= now_ms);
        if self.not_before <= now_ms {
            self.not_before = 0;
        }
    }

    /// The lost devices of `remove` that still have a leaf.
    pub(super) fn keep_to_remove(&mut self, own: &BTreeSet<&wire::DeviceId>) {
        self.row.remove.retain(|device| own.contains(device));
    }
}
