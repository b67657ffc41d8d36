//! The commits of the log: those that this device follows, its own, and those by which it comes and goes.

use std::collections::BTreeSet;

use wire::{ConversationId, Kind, Message, Seq, UserId};

use super::roster::{self, Pages};
use super::rows::{self, Aim, PendingKind, Repeated, Waiting, Work};
use super::said::{Notice, Shown, Why};
use super::take::entry;
use super::{Keyring, files, members};
use crate::commit::Followed;
use crate::error::{Error, ensure};
use crate::group::Group;
use crate::judge::{self, Named};
use crate::tree::Tree;

impl Keyring {
    pub(super) fn commit(&mut self, message: &Message, now_ms: u64) -> Shown {
        let id = &message.conversation_id;
        let seq = message.seq.value();
        let me = self.device.member().clone();
        let (conversation, epoch) = (self.conversation_at(id, seq), message.epoch.unwrap_or_default());
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        if seat.group.is_some() && epoch <= seat.row.epoch {
            // No commit begins an epoch that has begun.
            self.passed(id, seq);
            return Shown::Unreadable(Why::Forged);
        }
        let Some(conversation) = conversation else {
            if seat.is_idle() && !seat.row.removed && seat.refusal(now_ms).is_none() {
                seat.look(Aim::Join);
            }
            return self.outside(message);
        };
        let entry = entry(&conversation, message, epoch);
        let (commit, welcome) = (files::here(message.commit.as_deref()), files::here(message.welcome.as_deref()));
        if let Some(waiting) = seat.pending.take_if(|waiting| waiting.commit.epoch < epoch) {
            // The commit of this epoch is there: it is this device's, or the device has lost the race.
            self.changed.insert(format!("{}{id}", rows::PENDING));
            // The file of an own Welcome is not downloaded again.
            let own_welcome =
                if message.welcome.is_some() { welcome.or(waiting.commit.welcome.as_deref()) } else { None };
            if waiting.commit.merge(&me, entry, commit, own_welcome).is_ok() {
                self.own_commit(id, waiting, seq, now_ms);
                return Shown::Nothing;
            }
            self.lost(id, waiting.kind, commit.is_none());
        }
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        let group = seat.group.clone();
        if let (Some(group), Some(commit)) = (&group, commit) {
            let (added, gone) = roster::named(message);
            let removes: BTreeSet<UserId> = message.removes.iter().flat_map(|users| users.iter()).cloned().collect();
            let named = match message.kind {
                _ if !id.is_group() => None,
                Kind::System => Some(Named::System { added: &added, removed: &gone }),
                _ => Some(Named::Commit { removes: &removes }),
            };
            match group.follow(entry, commit, named) {
                Ok(Followed::Changed(next, _)) => {
                    seat.row.unnamed.retain(|user| !removes.contains(user));
                    self.install(id, next, epoch, seq);
                }
                Ok(Followed::Removed) => self.removed(id, seq),
                Err(_) => self.broken(id, seq),
            }
            return Shown::Nothing;
        }
        match self.welcomed(message, now_ms) {
            Ok(()) => return Shown::Nothing,
            Err(Error::NotForUs) => {}
            Err(_) if group.is_some() || message.commit.is_none() => {
                self.broken(id, seq);
                return Shown::Nothing;
            }
            Err(_) => {}
        }
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        let looked = message.commit.is_none();
        if looked {
            // The birth has nothing for this device, which joins by itself.
            self.leave(id, seq);
            if let Some(seat) = self.seats.get_mut(id) {
                seat.row.work = Work::Look { aim: Aim::Join, looked };
            }
        } else if seat.is_idle() && !seat.row.removed && !seat.row.broken && seat.refusal(now_ms).is_none() {
            seat.look(Aim::Join);
        }
        self.touch(id);
        self.outside(message)
    }

    /// Joins by the Welcome of an entry.
    pub(super) fn welcomed(&mut self, message: &Message, now_ms: u64) -> Result<(), Error> {
        let id = &message.conversation_id;
        let conversation = self.conversation_at(id, message.seq.value()).ok_or(Error::NotForUs)?;
        let (welcome, tree) = (files::here(message.welcome.as_deref()), files::here(message.tree.as_deref()));
        let (Some(welcome), Some(tree)) = (welcome, tree) else { return Err(Error::NotForUs) };
        let private = self.private_parts();
        let epoch = message.epoch.unwrap_or_default();
        // The private part of a last resort stays for two days: an epoch in which the device had a part never comes back.
        let is_new = self.seats.get(id).is_some_and(|seat| epoch > seat.row.epoch);
        ensure(is_new, Error::NotForUs)?;
        let entry = entry(&conversation, message, epoch);
        let is_birth = message.commit.is_none();
        let joined = self.device.join_by_welcome(entry, is_birth, welcome, tree, &private)?;
        let (group, used) = joined;
        let before = self.seats.get(id).and_then(|seat| seat.group.as_ref()).filter(|_| is_birth);
        let is_reset = before.is_some();
        if let Some(before) = before {
            judge::reset(&Tree::read(before.tree())?, &Tree::read(group.tree())?, &conversation)?;
        }
        let is_last = self.used_package(&used, now_ms);
        if is_last && self.left.is_some_and(|left| left > 0) {
            self.notices.push(Notice::LastResort { conversation_id: id.clone() });
        }
        if let Some(seat) = self.seats.get_mut(id).filter(|_| is_birth) {
            seat.row.work = Work::Idle;
        }
        self.install(id, group, epoch, message.seq.value());
        if let Some(seat) = self.seats.get_mut(id) {
            seat.row.renew = is_last;
            (seat.row.renewed_at_ms, seat.row.own) = (now_ms, 0);
        }
        if is_reset {
            self.notices.push(Notice::Reset { conversation_id: id.clone(), by: message.sender_id.clone() });
        }
        Ok(())
    }

    /// An own commit begins its epoch.
    pub(super) fn own_commit(&mut self, id: &ConversationId, waiting: Waiting, seq: u64, now_ms: u64) {
        // An answer ends the repetitions.
        let is_answered = |seat: &super::Seat| matches!(seat.row.work, Work::Commit { landed: Some(_), .. });
        let is_asked = self.seats.get(id).is_some_and(|seat| !is_answered(seat));
        let repeated = Repeated::of(&waiting).filter(|_| is_asked);
        let Waiting { kind, commit, removes, users, .. } = waiting;
        let client_msg_id = commit.client_msg_id.clone();
        let epoch = commit.epoch.saturating_add(1);
        let me = self.me().clone();
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.row.unnamed.retain(|user| !removes.contains(user));
        if let Some(roster) = &mut seat.roster
            && !users.is_empty()
        {
            match kind {
                PendingKind::Add => roster.add(&users, seq),
                PendingKind::Remove => roster.remove(&users, seq),
                PendingKind::Birth | PendingKind::Reset { .. } | PendingKind::Join | PendingKind::Change => {}
            }
            self.changed.insert(format!("{}{id}", rows::ROSTER));
        }
        self.install(id, commit.next, epoch, seq);
        let Some(seat) = self.seats.get_mut(id) else { return };
        if matches!(kind, PendingKind::Add | PendingKind::Remove) {
            seat.row.claimed = None;
            seat.outrun = 0;
            seat.row.rolled = repeated.map(|repeated| (client_msg_id, Some(repeated)));
        }
        (seat.row.renewed_at_ms, seat.row.own, seat.row.renew) = (now_ms, 0, false);
        if let PendingKind::Reset { by_itself } = kind {
            seat.row.reset_at_ms = if by_itself { Some(now_ms) } else { seat.row.reset_at_ms };
            self.notices.push(Notice::Reset { conversation_id: id.clone(), by: me });
        }
    }

    /// A commit by another ended the epoch: what this device made of it goes, and begins anew where it is still wanted.
    fn lost(&mut self, id: &ConversationId, kind: PendingKind, to_birth: bool) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.row.work = match kind {
            PendingKind::Reset { by_itself: false } if !to_birth => Work::Look { aim: Aim::Reset, looked: true },
            PendingKind::Join => Work::Look { aim: Aim::Join, looked: true },
            // Made anew by `advance`, or by the next message.
            PendingKind::Birth
            | PendingKind::Reset { .. }
            | PendingKind::Change
            | PendingKind::Add
            | PendingKind::Remove => Work::Idle,
        };
        seat.files.clear();
        self.touch(id);
    }

    fn removed(&mut self, id: &ConversationId, seq: u64) {
        self.leave(id, seq);
        let me = self.device.member().clone();
        if let Some(seat) = self.seats.get_mut(id) {
            seat.row.removed = true;
            seat.row.work = Work::Idle;
        }
        self.notices.push(Notice::DeviceRemoved { conversation_id: id.clone(), user: me.user, device: me.device });
    }

    /// This device's user is a member no longer: nothing of the group stays.
    pub(super) fn out(&mut self, id: &ConversationId, seq: u64) {
        self.leave(id, seq);
        self.drop_roster(id);
        if let Some(seat) = self.seats.get_mut(id) {
            seat.row.removed = true;
            seat.row.work = Work::Idle;
            seat.row.unnamed.clear();
            seat.row.claimed = None;
        }
    }

    /// The members are loaded again, when they are needed.
    pub(super) fn drop_roster(&mut self, id: &ConversationId) {
        if let Some(seat) = self.seats.get_mut(id) {
            // A device with a part judges the entries by what it has.
            seat.roster.take_if(|_| seat.group.is_none());
            seat.roster.as_mut().into_iter().for_each(|roster| roster.lags = true);
            seat.pages = Pages::default();
            seat.count_strangers();
            self.changed.insert(format!("{}{id}", rows::ROSTER));
            self.touch(id);
        }
    }

    fn broken(&mut self, id: &ConversationId, seq: u64) {
        self.leave(id, seq);
        if let Some(seat) = self.seats.get_mut(id) {
            seat.row.broken = true;
            seat.row.work = Work::Idle;
        }
        if let Some(seq) = Seq::new(seq) {
            self.notices.push(Notice::Broken { conversation_id: id.clone(), seq });
        }
    }

    /// The device has no part in the epoch that this entry begins.
    fn leave(&mut self, id: &ConversationId, seq: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.group = None;
        seat.pending = None;
        seat.row.position = seat.row.position.max(seq);
        for row in [rows::TREE, rows::PENDING] {
            self.changed.insert(format!("{row}{id}"));
        }
        self.touch(id);
    }

    /// Takes the group of the epoch that this entry begins.
    fn install(&mut self, id: &ConversationId, group: Group, epoch: u64, seq: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        let (before, after) = (members(seat.group.as_ref()), members(Some(&group)));
        let is_new = seat.group.is_none();
        if is_new {
            (seat.row.joined_at, seat.refused) = (seq, None);
            if let Some(from_seq) = Seq::new(seq) {
                self.notices.push(Notice::Joined { conversation_id: id.clone(), from_seq });
            }
        }
        seat.group = Some(group);
        seat.pending = None;
        seat.joined();
        seat.row.position = seq;
        seat.row.epoch = epoch;
        seat.row.sealed_from = if seat.row.sealed_from == 0 { seq } else { seat.row.sealed_from.min(seq) };
        (seat.row.broken, seat.row.removed) = (false, false);
        let is_wanted = match seat.row.work {
            Work::Look { aim, .. } => aim == Aim::Reset,
            Work::Claim { epoch: ends, by_itself, .. } => ends > 0 && !by_itself,
            Work::Idle | Work::Birth { .. } | Work::ClaimNew { .. } | Work::Commit { .. } => false,
        };
        // The packages for an `add` serve for every epoch.
        let claims = matches!(seat.row.work, Work::ClaimNew { .. }).then(|| seat.row.work.clone());
        seat.row.work = if let Some(claims) = claims {
            claims
        } else if is_wanted {
            Work::Look { aim: Aim::Reset, looked: true }
        } else {
            Work::Idle
        };
        let own = after.iter().filter(|member| member.user == *self.identity.user()).map(|member| &member.device);
        seat.keep_to_remove(&own.collect());
        seat.rekeys = false;
        if let Some(roster) = &mut seat.roster {
            roster.keep(|user| after.iter().any(|member| member.user == *user));
            // The list has followed entries that come again, or not those before this one.
            roster.lags = is_new && roster.upto != seq && roster.upto + 1 != seq;
            roster.upto = seq;
        }
        seat.count_strangers();
        for row in [rows::TREE, rows::PENDING, rows::ROSTER] {
            self.changed.insert(format!("{row}{id}"));
        }
        self.touch(id);
        self.observe(id, &before, &after);
    }
}
