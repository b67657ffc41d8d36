//! Changes of a group's members by the app: the keyring makes the commit for the app's own request.

use wire::{ClientMsgId, ConversationId, Problem, Seq, UserId};

use super::Keyring;
use super::rows::{self, PendingKind, Repeated, Waiting, Work};
use super::said::{Prepared, Readiness, Roll};
use super::work::{BROKEN, LEAVES_MAX, LIMIT_REACHED, NO_KEYS, TOO_MANY};
use crate::commit::Step;
use crate::error::{Error, Result, ensure};
use crate::identity::Credential;

/// After this number of stale tries, a `remove` has no commit: such a one is never stale, so no user stays by commits.
const REMOVES_MAX: u32 = 3;

impl Keyring {
    /// Returns how an `add` or a `remove` leaves, and begins what is missing. With [`Prepared::Ready`], the client sends the
    /// same bytes until the server replies, and then calls [`rolled`](Self::rolled).
    pub fn roll(&mut self, id: &ConversationId, client_msg_id: &ClientMsgId, roll: Roll<'_>, now_ms: u64) -> Prepared {
        let Some(seat) = self.seats.get(id).filter(|seat| seat.row.sealed_from > 0) else { return Prepared::Plain };
        // A repetition has the same bytes.
        match seat.row.rolled.as_ref().filter(|(rolled, _)| rolled == client_msg_id) {
            Some((_, None)) => return Prepared::Plain,
            Some((_, Some(repeated))) => return Prepared::Ready(Box::new(repeated.clone().keys())),
            None => {}
        }
        let prepared = self.form(id, client_msg_id, roll, now_ms);
        if prepared == Prepared::Plain
            && let Some(seat) = self.seats.get_mut(id)
        {
            seat.row.rolled = Some((client_msg_id.clone(), None));
            self.touch(id);
        }
        prepared
    }

    fn form(&mut self, id: &ConversationId, client_msg_id: &ClientMsgId, roll: Roll<'_>, now_ms: u64) -> Prepared {
        if self.is_too_large(id) {
            return Prepared::Refused(LIMIT_REACHED.to_owned(), Vec::new());
        }
        let Some(seat) = self.seats.get(id) else { return Prepared::Plain };
        if let Some(ready) = self.ready(id, client_msg_id) {
            return ready;
        }
        match roll {
            Roll::Remove(user) => {
                let has_leaf = super::members(seat.group.as_ref()).iter().any(|member| member.user == *user);
                if seat.group.is_none() || !has_leaf || seat.outrun >= REMOVES_MAX {
                    return Prepared::Plain;
                }
                if !seat.is_current() || seat.lacks_roster(id) {
                    return Prepared::Waits;
                }
                let made = self.removal(id, client_msg_id, user, now_ms);
                made.map_or(Prepared::Plain, |()| self.ready(id, client_msg_id).unwrap_or(Prepared::Waits))
            }
            Roll::Add(users) => {
                // Users who left before go first.
                match self.prepare(id, now_ms) {
                    Readiness::Ready => {}
                    Readiness::Waits => return self.refused_add(id, client_msg_id).unwrap_or(Prepared::Waits),
                    Readiness::Held(user) => return Prepared::Held(user),
                    Readiness::Refused(code) => return Prepared::Refused(code, Vec::new()),
                }
                self.add_now(id, client_msg_id, users, now_ms)
            }
        }
    }

    fn add_now(&mut self, id: &ConversationId, client_msg_id: &ClientMsgId, users: &[UserId], now_ms: u64) -> Prepared {
        if let Some(refused) = self.refused_add(id, client_msg_id) {
            return refused;
        }
        let Some(seat) = self.seats.get(id) else { return Prepared::Waits };
        let is_new = |user: &&UserId| seat.roster.as_ref().is_some_and(|roster| !roster.has(user));
        let new: Vec<UserId> = users.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return Prepared::Plain;
        }
        let found = seat.row.claimed.as_ref().filter(|(adds, _)| adds == client_msg_id).map(|(_, found)| found.clone());
        let Some(found) = found else {
            let Ok(claims) = self.claims(&new) else { return Prepared::Waits };
            if let Some(seat) = self.seats.get_mut(id) {
                seat.row.work = Work::ClaimNew { adds: client_msg_id.clone(), claims };
                self.touch(id);
            }
            return Prepared::Waits;
        };
        let packages = self.packages(found, now_ms);
        let has_keys = |user: &&UserId| packages.iter().any(|package| package.member.user == **user);
        let without: Vec<UserId> = new.iter().filter(|user| !has_keys(user)).cloned().collect();
        if !without.is_empty() {
            return self.give_up(id, NO_KEYS, without);
        }
        let made = self.change_members(id, client_msg_id, Step::Add(&packages), (PendingKind::Add, &new), now_ms);
        match made {
            Ok(()) => self.ready(id, client_msg_id).unwrap_or(Prepared::Waits),
            Err(Error::Profile(TOO_MANY)) => self.give_up(id, LIMIT_REACHED, Vec::new()),
            Err(_) => self.give_up(id, BROKEN, Vec::new()),
        }
    }

    fn give_up(&mut self, id: &ConversationId, code: &str, users: Vec<UserId>) -> Prepared {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.row.claimed = None;
            self.touch(id);
        }
        Prepared::Refused(code.to_owned(), users)
    }

    fn refused_add(&mut self, id: &ConversationId, client_msg_id: &ClientMsgId) -> Option<Prepared> {
        let refused = self.seats.get_mut(id)?.not_added.take_if(|(adds, ..)| adds == client_msg_id);
        refused.map(|(_, code, users)| Prepared::Refused(code, users))
    }

    fn removal(&mut self, id: &ConversationId, client_msg_id: &ClientMsgId, user: &UserId, now_ms: u64) -> Result<()> {
        let group = self.seats.get(id).and_then(|seat| seat.group.as_ref());
        let devices: Vec<Credential> =
            super::members(group).into_iter().filter(|member| member.user == *user).collect();
        let devices: Vec<_> = devices.iter().map(|member| (&member.user, &member.device)).collect();
        let users = std::slice::from_ref(user);
        self.change_members(id, client_msg_id, Step::Remove(&devices), (PendingKind::Remove, users), now_ms)
    }

    fn change_members(
        &mut self,
        id: &ConversationId,
        client_msg_id: &ClientMsgId,
        step: Step<'_>,
        (kind, users): (PendingKind, &[UserId]),
        now_ms: u64,
    ) -> Result<()> {
        let conversation = self.conversation(id).ok_or(Error::State("members"))?;
        let group = self.seats.get(id).and_then(|seat| seat.group.clone()).ok_or(Error::State("not ready"))?;
        // The entry makes them members.
        let conversation = if kind == PendingKind::Add { conversation.with(users) } else { conversation };
        let (moved, pending) = group.commit(&conversation, client_msg_id, step, now_ms / 1_000)?;
        ensure(pending.next.members()?.len() <= LEAVES_MAX, Error::Profile(TOO_MANY))?;
        if let Some(seat) = self.seats.get_mut(id) {
            seat.group = Some(moved);
        }
        self.begin(id, Waiting { users: users.to_vec(), ..Waiting::new(kind, pending) });
        Ok(())
    }

    /// Returns the commit that this change has, or `None` if it has none.
    fn ready(&self, id: &ConversationId, client_msg_id: &ClientMsgId) -> Option<Prepared> {
        let seat = self.seats.get(id)?;
        let waiting = seat.pending.as_ref().filter(|waiting| waiting.commit.client_msg_id == *client_msg_id)?;
        let is_due = seat.row.work == Work::Commit { landed: None, stale: false } && waiting.is_uploaded();
        let keys = Repeated::of(waiting).filter(|_| is_due).map(Repeated::keys);
        Some(keys.map_or(Prepared::Waits, |keys| Prepared::Ready(Box::new(keys))))
    }

    /// Takes the outcome of an `add` or a `remove` with a commit: its place, or the refusal. After `stale_epoch` and
    /// `rekey_required` the client asks [`roll`](Self::roll) again.
    pub fn rolled(
        &mut self,
        id: &ConversationId,
        client_msg_id: &ClientMsgId,
        result: std::result::Result<Seq, &Problem>,
        now_ms: u64,
    ) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        if seat.row.rolled.take_if(|(rolled, _)| rolled == client_msg_id).is_some() {
            seat.outrun = 0;
            self.touch(id);
        }
        let Some(seat) = self.seats.get_mut(id) else { return };
        let Some(waiting) = seat.pending.as_ref().filter(|waiting| waiting.commit.client_msg_id == *client_msg_id)
        else {
            return;
        };
        let kind = waiting.kind;
        match result {
            Ok(seq) if seq.value() > seat.row.position => self.landed(id, seq.value(), now_ms),
            Err(problem) if problem.code == "stale_epoch" => {
                seat.outrun += u32::from(kind == PendingKind::Remove);
                self.stale_commit(id, kind, problem, now_ms);
            }
            other => {
                seat.pending = None;
                seat.row.work = Work::Idle;
                seat.files.clear();
                self.changed.insert(format!("{}{id}", rows::PENDING));
                match other {
                    Err(problem) if problem.code == "rekey_required" => self.must_rekey(id, &problem.members, now_ms),
                    _ => seat.row.claimed = None,
                }
            }
        }
        self.touch(id);
        self.advance(id, now_ms);
    }
}
