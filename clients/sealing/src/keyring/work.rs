//! The work of the seats: look, join, begin, renew, remove.

use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::{
    Action, Carried, ClaimKeysRequest, ClaimKeysResult, ClaimedDevice, ClaimedUser, CommitRequest, CommitResult,
    ConversationId, GroupInfoRequest, GroupInfoResult, HistoryRequest, HistoryResult, Kind, Message, Problem,
    SendResult, Seq, Side, Target, UserId,
};

use super::rows::{Aim, Claim, PendingKind, Work};
use super::said::RequestKey;
use super::{Keyring, rows};
use crate::commit::{Pending, Step};
use crate::error::{Error, Result};
use crate::identity::PublicKey;
use crate::package::{Asked, Checked};

/// The code for a conversation whose other user has no usable package.
const NO_KEYS: &str = "no_keys";
/// The code for bytes that this device can't use.
const BROKEN: &str = "broken";

impl Keyring {
    /// Begins anew with a user: with new keys, and with the devices that the directory has now.
    pub fn reset(&mut self, peer: &UserId, now_ms: u64) {
        let id = self.seat_of(peer);
        if let Some(seat) = self.seats.get_mut(&id)
            && !matches!(seat.row.work, Work::Commit { .. })
        {
            seat.refused = None;
            seat.row.work = Work::Look { aim: Aim::Reset, looked: true };
            self.touch(&id);
        }
        self.advance(&id, now_ms);
    }

    /// Begins what is due in a conversation.
    pub(super) fn advance(&mut self, id: &ConversationId, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.tick(now_ms);
        let is_asleep = seat.refusal(now_ms).is_some();
        if seat.is_idle() && !is_asleep {
            if seat.is_ready() {
                self.change(id, now_ms);
            } else if seat.group.is_none() && seat.row.sealed_from > 0 && !seat.row.removed {
                if !seat.row.broken {
                    seat.look(Aim::Join);
                    self.touch(id);
                } else if seat.may_repair(now_ms) {
                    seat.row.work = Work::Look { aim: Aim::Repair, looked: true };
                    self.touch(id);
                }
            }
        }
        let Some(seat) = self.seats.get(id) else { return };
        if seat.is_settled() && seat.row.position >= seat.row.due && seat.wake_at().is_none() {
            self.busy.remove(id);
        } else {
            self.busy.insert(id.clone());
        }
    }

    /// Removes lost devices, or renews the keys of this one, when no own message is under way.
    fn change(&mut self, id: &ConversationId, now_ms: u64) {
        let is_sending = self.sealed.values().any(|row| row.conversation_id == *id && row.seq.is_none());
        let Some(seat) = self.seats.get(id) else { return };
        if is_sending || (seat.row.remove.is_empty() && !seat.row.renew) {
            return;
        }
        let (Some(conversation), Some(group)) = (self.conversation(id), seat.group.clone()) else { return };
        let me = self.me().clone();
        let lost: Vec<_> = seat.row.remove.iter().map(|device| (&me, device)).collect();
        let lost: Vec<_> = lost.into_iter().map(|(user, device)| (user.clone(), device.clone())).collect();
        let lost: Vec<_> = lost.iter().map(|(user, device)| (user, device)).collect();
        let step = if lost.is_empty() { Step::Update } else { Step::Remove(&lost) };
        let Ok(client_msg_id) = self.next_id() else { return };
        let made = group.commit(&conversation, &client_msg_id, step, now_ms / 1_000);
        let Some(seat) = self.seats.get_mut(id) else { return };
        match made {
            Ok((moved, pending)) => {
                seat.group = Some(moved);
                self.begin(id, PendingKind::Change, pending);
            }
            Err(_) => seat.refuse(BROKEN, now_ms),
        }
    }

    /// The commit is a row, and then a request.
    fn begin(&mut self, id: &ConversationId, kind: PendingKind, pending: Pending) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.row.work = Work::Commit { landed: None, stale: false };
            seat.pending = Some((kind, pending));
            self.changed.insert(format!("{}{id}", rows::PENDING));
            self.touch(id);
        }
    }

    /// Returns the request that a seat waits for.
    pub(super) fn seat_request(&self, id: &ConversationId, now_ms: u64) -> Option<(RequestKey, Action)> {
        let seat = self.seats.get(id)?;
        let target = || match &seat.row.peer {
            Some(peer) => Target::User(peer.clone()),
            None => Target::Conversation(id.clone()),
        };
        if seat.not_before > now_ms {
            return None;
        }
        match &seat.row.work {
            Work::Look { .. } => {
                let request = GroupInfoRequest { target: target() };
                Some((RequestKey::GroupInfo(id.clone()), Action::GroupInfo(request)))
            }
            Work::Birth { seq, .. } => {
                let seq = Seq::new(*seq)?;
                let side = Side::After(seq.previous());
                let request = HistoryRequest { conversation_id: id.clone(), side, limit: 1 };
                Some((RequestKey::Birth(id.clone(), seq), Action::History(request)))
            }
            Work::Claim { claims, .. } => {
                let claim = claims.iter().find(|claim| claim.found.is_none())?;
                let (claim_id, users) = (claim.id.clone(), claim.users.clone());
                let request = ClaimKeysRequest { claim_id, users, conversation_id: None };
                Some((RequestKey::Claim(id.clone(), claim.id.clone()), Action::ClaimKeys(request)))
            }
            Work::Commit { landed: None, stale: false } => {
                let (_, pending) = seat.pending.as_ref()?;
                let carried = |bytes: Vec<u8>| Box::new(Carried::Bytes(bytes.into()));
                let request = CommitRequest {
                    target: target(),
                    client_msg_id: pending.client_msg_id.clone(),
                    epoch: pending.epoch,
                    commit: pending.commit.clone().map(carried),
                    welcome: pending.welcome.clone().map(carried),
                    group_info: pending.group_info.clone().into(),
                    tree: carried(pending.next.tree().to_vec()),
                    removes: vec![],
                };
                Some((RequestKey::Commit(id.clone(), pending.client_msg_id.clone()), Action::Commit(request)))
            }
            Work::Commit { .. } | Work::Idle => None,
        }
    }

    /// Takes an answer, if the seat still waits for it.
    pub(super) fn seat_answered(
        &mut self,
        id: &ConversationId,
        key: &RequestKey,
        result: Result<Value, Problem>,
        now_ms: u64,
    ) -> Option<Box<Message>> {
        let is_waited_for = self.seat_request(id, u64::MAX).is_some_and(|(wanted, _)| wanted == *key);
        if !is_waited_for {
            return None;
        }
        self.touch(id);
        match key {
            RequestKey::GroupInfo(_) => self.looked(id, read(result), now_ms),
            RequestKey::Birth(..) => self.found_birth(id, read(result), now_ms),
            RequestKey::Claim(..) => self.claimed(id, read(result), now_ms),
            RequestKey::Commit(..) => return self.committed(id, read(result), now_ms),
            RequestKey::ListKeys | RequestKey::PublishKeys | RequestKey::RemoveKeys(_) => {}
        }
        None
    }

    fn looked(&mut self, id: &ConversationId, result: Answer<GroupInfoResult>, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        let Work::Look { aim, looked } = seat.row.work else { return };
        let info = match result {
            Ok(info) => info,
            Err(problem) if matches!(problem.code.as_str(), "gone" | "not_member") && seat.row.sealed_from == 0 => {
                seat.row.work = Work::Idle;
                // The conversation is plain. A device begins when its user writes.
                if aim != Aim::Join {
                    self.claim(id, 0, false, now_ms);
                }
                return;
            }
            // The device knows by itself that the conversation is sealed.
            Err(problem) => return seat.refuse(problem.code, now_ms),
        };
        if info.conversation_id != *id || info.epoch < seat.row.epoch {
            return seat.refuse(BROKEN, now_ms);
        }
        let (birth, sealed_from) = (info.birth_seq.value(), seat.row.sealed_from);
        seat.row.sealed_from = if sealed_from == 0 { birth } else { sealed_from.min(birth) };
        self.find_peer(id, &[], info.tree.here());
        let (Some(conversation), Some(seat)) = (self.conversation(id), self.seats.get_mut(id)) else { return };
        if matches!(aim, Aim::Reset | Aim::Repair) {
            return self.claim(id, info.epoch, aim == Aim::Repair, now_ms);
        }
        if !looked {
            seat.row.work = Work::Birth { aim, seq: birth };
            return;
        }
        let Ok(client_msg_id) = self.next_id() else { return };
        let (bytes, tree) = (info.group_info.as_slice(), info.tree.here().unwrap_or_default());
        let joins = self.device.join_external(&conversation, &client_msg_id, info.epoch, bytes, tree);
        let Some(seat) = self.seats.get_mut(id) else { return };
        if let Ok(pending) = joins {
            self.begin(id, PendingKind::Join, pending);
        } else if aim == Aim::Write && seat.may_repair(now_ms) {
            // The device can't join by these bytes, or not with its identity.
            self.claim(id, info.epoch, true, now_ms);
        } else {
            seat.refuse(BROKEN, now_ms);
        }
    }

    fn found_birth(&mut self, id: &ConversationId, result: Answer<HistoryResult>, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        let Work::Birth { aim, seq } = seat.row.work else { return };
        let history = match result {
            Ok(history) => history,
            Err(problem) => return seat.refuse(problem.code, now_ms),
        };
        // Without a Welcome for it, the device joins by itself.
        seat.row.work = Work::Look { aim, looked: true };
        let is_birth = |message: &&Message| message.seq.value() == seq && message.kind == Kind::Commit;
        let birth = history.messages.iter().find(is_birth);
        if let Some(birth) = birth.filter(|birth| birth.conversation_id == *id && birth.commit.is_none()) {
            let _ = self.welcomed(birth, now_ms);
        }
    }

    // -- Births -------------------------------------------------------------------------------------------------------

    /// Claims the packages for a birth that ends this epoch.
    fn claim(&mut self, id: &ConversationId, epoch: u64, by_itself: bool, now_ms: u64) {
        let me = self.me().clone();
        let Some(peer) = self.seats.get(id).and_then(|seat| seat.row.peer.clone()) else { return };
        let users = if peer == me { vec![me] } else { vec![peer, me] };
        let claim = self.next_id().map(|id| Claim { id, users, found: None });
        let Some(seat) = self.seats.get_mut(id) else { return };
        match claim {
            Ok(claim) => seat.row.work = Work::Claim { epoch, by_itself, claims: vec![claim] },
            Err(_) => seat.refuse(BROKEN, now_ms),
        }
        self.touch(id);
    }

    fn claimed(&mut self, id: &ConversationId, result: Answer<ClaimKeysResult>, now_ms: u64) {
        let next = self.next_id();
        let Some(seat) = self.seats.get_mut(id) else { return };
        let result = match result {
            Ok(result) => result,
            Err(problem) => return seat.refuse(problem.code, now_ms),
        };
        let Work::Claim { epoch, by_itself, claims } = &mut seat.row.work else { return };
        if let Some(claim) = claims.iter_mut().find(|claim| claim.found.is_none()) {
            let is_asked = |user: &UserId| claim.users.contains(user);
            let found: Vec<ClaimedUser> = result.users.into_iter().filter(|user| is_asked(&user.user_id)).collect();
            let left: Vec<UserId> = result.left.into_iter().filter(is_asked).collect();
            // The first of a claim is never left.
            let goes_on = !found.is_empty() && !left.is_empty();
            claim.found = Some(found);
            if let (true, Ok(id)) = (goes_on, next) {
                claims.push(Claim { id, users: left, found: None });
                return;
            }
        }
        let (epoch, by_itself) = (*epoch, *by_itself);
        let found = claims.iter().filter_map(|claim| claim.found.clone()).flatten().collect();
        let birth = self.birth(id, epoch, found, now_ms);
        let Some(seat) = self.seats.get_mut(id) else { return };
        let Ok(pending) = birth else { return seat.refuse(NO_KEYS, now_ms) };
        let kind = if epoch == 0 { PendingKind::Birth } else { PendingKind::Reset { by_itself } };
        self.begin(id, kind, pending);
    }

    fn birth(&mut self, id: &ConversationId, epoch: u64, found: Vec<ClaimedUser>, now_ms: u64) -> Result<Pending> {
        let conversation = self.conversation(id).ok_or(Error::State("peer"))?;
        let me = self.me().clone();
        let mut packages: Vec<Checked> = Vec::new();
        for ClaimedUser { user_id, devices } in found {
            let key =
                if user_id == me { Some(self.identity.key()) } else { self.pins.get(&user_id).map(|pin| *pin.now()) };
            let mut checked = self.checked(&user_id, &devices, key.as_ref(), now_ms);
            if checked.is_empty() && user_id != me {
                // The user has another identity: a notice tells it, and messages to a verified user wait.
                checked = self.checked(&user_id, &devices, None, now_ms);
                let first = checked.first().map(|package| package.member.key);
                checked.retain(|package| Some(package.member.key) == first);
            }
            for package in checked {
                if !packages.iter().any(|other| other.member.is_device(&package.member)) {
                    packages.push(package);
                }
            }
        }
        let is_there = |user: &UserId| packages.iter().any(|package| package.member.user == *user);
        let has_all = self
            .seats
            .get(id)
            .and_then(|seat| seat.row.peer.as_ref())
            .is_some_and(|peer| *peer == me || is_there(peer));
        crate::error::ensure(has_all, Error::NotForUs)?;
        let client_msg_id = self.next_id()?;
        self.device.birth(&conversation, &client_msg_id, epoch, &packages, now_ms / 1_000)
    }

    /// Returns the packages that can be used. A device whose package can't is left out.
    fn checked(&self, user: &UserId, devices: &[ClaimedDevice], key: Option<&PublicKey>, now_ms: u64) -> Vec<Checked> {
        let own = self.device.member();
        let others = devices.iter().filter(|device| *user != own.user || device.device_id != own.device);
        let check = |claimed: &ClaimedDevice| {
            let asked = Asked { user, device: &claimed.device_id, key, last_resort: claimed.last_resort };
            self.device.check_package(claimed.key_package.as_slice(), asked, now_ms / 1_000).ok()
        };
        others.filter_map(check).collect()
    }

    // -- Commits ------------------------------------------------------------------------------------------------------

    fn committed(&mut self, id: &ConversationId, result: Answer<CommitResult>, now_ms: u64) -> Option<Box<Message>> {
        let me = self.me().clone();
        let seat = self.seats.get_mut(id)?;
        let (kind, pending) = seat.pending.as_ref()?;
        let kind = *kind;
        match result {
            Ok(result) => {
                let seq = result.entry.seq.value();
                let is_ours = result.entry.conversation_id == *id && result.epoch == pending.epoch + 1;
                if !is_ours || (seat.group.is_some() && seq <= seat.row.position) {
                    self.withdraw(id, BROKEN, now_ms);
                    return None;
                }
                let entry = own_entry(me, pending, result);
                seat.row.work = Work::Commit { landed: Some(seq), stale: false };
                seat.row.due = seat.row.due.max(seq);
                self.settle(id, now_ms);
                return Some(Box::new(entry));
            }
            Err(problem) if problem.code == "stale_epoch" => {
                let last_seq = problem.last_seq.map_or(0, Seq::value);
                seat.is_behind(problem.epoch.unwrap_or_default(), last_seq);
                // A device with a part sees in the log whose commit it is. Another looks again.
                if seat.group.is_some() && last_seq > seat.row.position {
                    seat.row.work = Work::Commit { landed: None, stale: true };
                    return None;
                }
                seat.wait(now_ms);
                seat.pending = None;
                seat.row.work = match kind {
                    PendingKind::Birth => Work::Look { aim: Aim::Write, looked: false },
                    PendingKind::Join => Work::Look { aim: Aim::Join, looked: true },
                    PendingKind::Reset { by_itself: false } => Work::Look { aim: Aim::Reset, looked: true },
                    PendingKind::Reset { by_itself: true } | PendingKind::Change => Work::Idle,
                };
                self.changed.insert(format!("{}{id}", rows::PENDING));
            }
            Err(problem) => self.withdraw(id, &problem.code, now_ms),
        }
        None
    }

    fn withdraw(&mut self, id: &ConversationId, code: &str, now_ms: u64) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.pending = None;
            seat.refuse(code, now_ms);
            self.changed.insert(format!("{}{id}", rows::PENDING));
            self.touch(id);
        }
    }
}

fn own_entry(me: UserId, pending: &Pending, result: CommitResult) -> Message {
    let SendResult { conversation_id, seq, message_id, sent_at, .. } = result.entry;
    let mut message = Message::text(conversation_id, seq, message_id, me, String::new(), sent_at);
    let carried = |bytes: Vec<u8>| Box::new(Carried::Bytes(bytes.into()));
    message.kind = Kind::Commit;
    message.silent = true;
    message.epoch = Some(result.epoch);
    message.client_msg_id = Some(pending.client_msg_id.clone());
    message.commit = pending.commit.clone().map(carried);
    message.welcome = pending.welcome.clone().map(carried);
    message.tree = pending.welcome.as_ref().map(|_| carried(pending.next.tree().to_vec()));
    message
}

type Answer<T> = Result<T, Box<Problem>>;

/// Reads a result. A malformed one is a refusal.
fn read<T: DeserializeOwned>(result: Result<Value, Problem>) -> Answer<T> {
    let unreadable = |_| Problem {
        code: BROKEN.to_owned(),
        message: String::new(),
        retryable: false,
        retry_after_ms: None,
        users: Vec::new(),
        conversation_id: None,
        epoch: None,
        last_seq: None,
        members: vec![],
    };
    serde_json::from_value(result?).map_err(unreadable).map_err(Box::new)
}
