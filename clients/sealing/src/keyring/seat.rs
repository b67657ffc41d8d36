//! The place of the device in one conversation.

use std::collections::BTreeSet;

use wire::{ClientMsgId, ConversationId, UserId};

use super::files::Files;
use super::roster::{Pages, Roster};
use super::rows::{self, Aim, PendingRow, SeatRow, Waiting, Work};
use super::{DAY_MS, OWN_MESSAGES, REFUSED_MS};
use crate::error::{Error, Result};
use crate::group::Group;

#[derive(Default)]
pub(super) struct Seat {
    /// Without the state, which is the group's.
    pub(super) row: SeatRow,
    pub(super) group: Option<Group>,
    pub(super) pending: Option<Waiting>,
    /// The members of a group, once they are loaded.
    pub(super) roster: Option<Roster>,
    pub(super) pages: Pages,
    /// The users with a leaf who are no members. While there is one, nothing is sealed.
    pub(super) strangers: BTreeSet<UserId>,
    /// The files that the next step needs.
    pub(super) files: Files,
    /// The server's refusal of the `add` with this id, and of which users.
    pub(super) not_added: Option<(ClientMsgId, String, Vec<UserId>)>,
    /// The code of the server's refusal, and its end.
    pub(super) refused: Option<(String, u64)>,
    /// The last entry that ended a refusal, since the user came in with it.
    pub(super) let_in: u64,
    /// The next request waits until then.
    pub(super) not_before: u64,
    /// The user writes: a commit removes who left before.
    pub(super) rekeys: bool,
    /// Until then, the device waits for the first commit of a member who may make it.
    pub(super) unborn_until: u64,
    /// How often in a row a join or a birth was stale.
    tries: u32,
    /// How often in a row the `remove` of a member was stale.
    pub(super) outrun: u32,
}

impl Seat {
    pub(super) fn read(
        mut row: SeatRow,
        tree: Option<&Vec<u8>>,
        pending: Option<&Vec<u8>>,
        roster: Option<&Vec<u8>>,
    ) -> Result<Self> {
        let group = match (row.state.take(), tree) {
            (Some(state), Some(tree)) => Some(Group::from_stored(state.as_slice().to_vec(), tree.clone())?),
            (None, _) => None,
            (Some(_), None) => return Err(Error::State("tree")),
        };
        let pending = pending.map(|bytes| rows::read::<PendingRow>(bytes)).transpose()?;
        let pending = pending.map(PendingRow::waiting).transpose()?;
        // Without a part in the conversation, the device may have missed entries.
        let roster = roster.filter(|_| group.is_some()).map(|bytes| rows::read::<Roster>(bytes)).transpose()?;
        let roster = roster.map(|roster| roster.from(row.position));
        let mut seat = Self { row, group, pending, roster, ..Self::default() };
        seat.count_strangers();
        Ok(seat)
    }

    /// The place of a device that is new: it knows that the conversation is sealed.
    pub(super) fn outside(row: SeatRow) -> Self {
        let SeatRow { peer, encrypted, sealed_from, reset_at_ms, .. } = row;
        Self { row: SeatRow { peer, encrypted, sealed_from, reset_at_ms, ..SeatRow::default() }, ..Self::default() }
    }

    pub(super) fn row(&self) -> SeatRow {
        SeatRow { state: self.group.as_ref().map(|group| group.state().to_vec().into()), ..self.row.clone() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.row.work == Work::Idle
    }

    /// Nothing is under way, and the position is where the known log ends.
    pub(super) fn is_current(&self) -> bool {
        self.group.is_some() && self.is_idle() && self.row.position >= self.row.due
    }

    /// A message can be sealed.
    pub(super) fn is_ready(&self) -> bool {
        self.is_current() && !self.has_left_over()
    }

    /// The members of a group are not loaded, and a refusal does not say why.
    pub(super) fn lacks_roster(&self, id: &ConversationId) -> bool {
        let is_whole = self.roster.as_ref().is_some_and(|roster| !roster.lags);
        id.is_group() && !is_whole && !self.row.removed && self.refused.is_none()
    }

    /// A commit is due that removes who left.
    pub(super) fn has_left_over(&self) -> bool {
        !self.strangers.is_empty() || !self.row.unnamed.is_empty()
    }

    /// Finds the users with a leaf who are no members, after a change of either.
    pub(super) fn count_strangers(&mut self) {
        self.strangers.clear();
        let (Some(roster), Some(group)) = (&mut self.roster, &self.group) else { return };
        let users: BTreeSet<UserId> =
            group.members().unwrap_or_default().into_iter().map(|member| member.user).collect();
        self.strangers = users.iter().filter(|user| !roster.has(user)).cloned().collect();
        self.row.unnamed.retain(|user| !roster.has(user));
    }

    /// Nothing is to be done before the next input.
    pub(super) fn is_settled(&self) -> bool {
        if self.files.are_missing() {
            return false;
        }
        let is_outside = self.row.sealed_from == 0 || self.row.removed;
        self.is_idle() && (self.group.is_some() || is_outside) && !self.row.renew && self.row.remove.is_empty()
    }

    /// The device does not know yet where the birth is, or whether there is one, so it judges no entry.
    pub(super) fn is_looking(&self) -> bool {
        let looks = match self.row.work {
            Work::Look { aim, looked } => !looked && matches!(aim, Aim::Join | Aim::Write),
            Work::Birth { .. } => true,
            Work::Idle | Work::Claim { .. } | Work::ClaimNew { .. } | Work::Commit { .. } => false,
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
            Work::Look { .. }
            | Work::Birth { .. }
            | Work::Claim { .. }
            | Work::ClaimNew { .. }
            | Work::Commit { .. } => {}
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
        self.unborn_until = 0;
    }

    pub(super) fn wake_at(&self) -> Option<u64> {
        let repair = || self.row.reset_at_ms.filter(|_| self.row.broken && self.is_idle()).map(|at| at + DAY_MS);
        let refused = self.refused.as_ref().map(|(_, until)| *until);
        let waits = refused.or_else(|| (self.not_before > 0).then_some(self.not_before)).or_else(repair);
        let unborn = (self.unborn_until > 0).then_some(self.unborn_until);
        waits.into_iter().chain(unborn).chain(self.files.wake_at()).min()
    }

    /// Forgets what no longer holds anything up.
    pub(super) fn tick(&mut self, now_ms: u64) {
        self.files.tick(now_ms);
        self.refused.take_if(|(_, until)| *until <= now_ms);
        if self.not_before <= now_ms {
            self.not_before = 0;
        }
        if self.unborn_until <= now_ms {
            self.unborn_until = 0;
        }
    }

    /// The lost devices of `remove` that still have a leaf.
    pub(super) fn keep_to_remove(&mut self, own: &BTreeSet<&wire::DeviceId>) {
        self.row.remove.retain(|device| own.contains(device));
    }
}
