//! The commits of the log: those that this device follows, its own, and those by which it comes and goes.

use wire::{ConversationId, Message, Seq};

use super::rows::{self, Aim, PendingKind, Work};
use super::said::{Notice, Shown, Why};
use super::take::entry;
use super::{Keyring, members};
use crate::commit::Followed;
use crate::error::{Error, ensure};
use crate::group::Group;

impl Keyring {
    pub(super) fn commit(&mut self, message: &Message, now_ms: u64) -> Shown {
        let id = &message.conversation_id;
        let seq = message.seq.value();
        let me = self.device.member().clone();
        let (conversation, epoch) = (self.conversation(id), message.epoch.unwrap_or_default());
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        if seat.group.is_some() && epoch <= seat.row.epoch {
            // No commit begins an epoch that has begun.
            self.passed(id, seq);
            return Shown::Unreadable(Why::Forged);
        }
        let Some(conversation) = conversation else {
            if seat.is_idle() {
                seat.look(Aim::Join);
            }
            return self.outside(message);
        };
        let entry = entry(&conversation, message, epoch);
        let (commit, welcome) = (message.commit.as_ref(), message.welcome.as_ref());
        let bytes = |part: Option<&Box<wire::Carried>>| part.and_then(|part| part.here()).map(<[u8]>::to_vec);
        let (commit, welcome) = (bytes(commit), bytes(welcome));
        if let Some((kind, pending)) = seat.pending.take_if(|(_, pending)| pending.epoch < epoch) {
            // The commit of this epoch is there: it is this device's, or the device has lost the race.
            self.changed.insert(format!("{}{id}", rows::PENDING));
            if let Ok(group) = pending.merge(&me, entry, commit.as_deref(), welcome.as_deref()) {
                self.own_commit(id, kind, group, seq, now_ms);
                return Shown::Nothing;
            }
            self.lost(id, kind, commit.is_none());
        }
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        let group = seat.group.clone();
        if let (Some(group), Some(commit)) = (&group, &commit) {
            match group.follow(entry, commit, None) {
                Ok(Followed::Changed(next, _)) => self.install(id, next, epoch, seq),
                Ok(Followed::Removed) => self.removed(id, seq),
                Err(_) => self.broken(id, seq),
            }
            return Shown::Nothing;
        }
        match self.welcomed(message, now_ms) {
            Ok(()) => return Shown::Nothing,
            Err(Error::NotForUs) => {}
            Err(_) if group.is_some() || commit.is_none() => {
                self.broken(id, seq);
                return Shown::Nothing;
            }
            Err(_) => {}
        }
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        let looked = commit.is_none();
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
        let conversation = self.conversation(id).ok_or(Error::NotForUs)?;
        let (Some(welcome), Some(tree)) = (&message.welcome, &message.tree) else { return Err(Error::NotForUs) };
        let (Some(welcome), Some(tree)) = (welcome.here(), tree.here()) else { return Err(Error::NotForUs) };
        let private = self.private_parts();
        let epoch = message.epoch.unwrap_or_default();
        // The private part of a last resort stays for two days: an epoch in which the device had a part never comes back.
        let is_new = self.seats.get(id).is_some_and(|seat| epoch > seat.row.epoch);
        ensure(is_new, Error::NotForUs)?;
        let entry = entry(&conversation, message, epoch);
        let is_birth = message.commit.is_none();
        let joined = self.device.join_by_welcome(entry, is_birth, welcome, tree, &private)?;
        let (group, used) = joined;
        let is_reset = is_birth && self.seats.get(id).is_some_and(|seat| seat.group.is_some());
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
    pub(super) fn own_commit(&mut self, id: &ConversationId, kind: PendingKind, group: Group, seq: u64, now_ms: u64) {
        let Some(epoch) = self.conversation(id).and_then(|conversation| group.epoch(&conversation).ok()) else {
            return;
        };
        self.install(id, group, epoch, seq);
        let me = self.me().clone();
        let Some(seat) = self.seats.get_mut(id) else { return };
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
            PendingKind::Birth | PendingKind::Reset { .. } | PendingKind::Change => Work::Idle,
        };
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
        if seat.group.is_none() {
            seat.row.joined_at = seq;
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
            Work::Idle | Work::Birth { .. } | Work::Commit { .. } => false,
        };
        seat.row.work = if is_wanted { Work::Look { aim: Aim::Reset, looked: true } } else { Work::Idle };
        let own = after.iter().filter(|member| member.user == *self.identity.user()).map(|member| &member.device);
        seat.keep_to_remove(&own.collect());
        for row in [rows::TREE, rows::PENDING] {
            self.changed.insert(format!("{row}{id}"));
        }
        self.touch(id);
        self.observe(id, &before, &after);
    }
}
