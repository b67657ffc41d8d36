//! The work of the seats: look, join, begin, renew, remove.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::limits::{CLAIM_USERS_MAX, GROUP_CHANGE_MEMBERS_MAX};
use wire::{
    Action, Carried, ClaimKeysRequest, ClaimKeysResult, ClaimedDevice, ClaimedUser, CommitRequest, CommitResult,
    ConversationId, GroupInfoRequest, GroupInfoResult, HistoryRequest, HistoryResult, Kind, Message, Problem,
    SendResult, Seq, Side, Target, UserId,
};

use super::rows::{Aim, Claim, Part, PendingKind, SealedRow, Waiting, Work};
use super::said::{Notice, Party, RequestKey};
use super::{Keyring, members, rows};
use crate::commit::{Pending, Step};
use crate::error::{Error, Result, ensure};
use crate::identity::{Credential, PublicKey};
use crate::package::{Asked, Checked};

/// The code for a conversation whose other user has no usable package.
pub(super) const NO_KEYS: &str = "no_keys";
/// A group has at most this number of devices.
pub(super) const LEAVES_MAX: usize = 200;
/// The problem of a group with too many devices, and the code for it.
pub(super) const TOO_MANY: &str = "too many devices";
pub(super) const LIMIT_REACHED: &str = "limit_reached";
/// After this time, a member who may not begin a group looks again whether it has begun.
const UNBORN_MS: u64 = 10_000;
/// The time in which the log comes that shows who left.
const BEHIND_MS: u64 = 1_000;
/// The code for bytes that this device can't use.
pub(super) const BROKEN: &str = "broken";

impl Keyring {
    /// Begins a conversation anew: with new keys, and with the devices that the directory has now.
    pub fn reset(&mut self, with: impl Into<Party>, now_ms: u64) {
        let id = self.seat_of(with.into());
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
        if seat.is_idle() && !is_asleep && !seat.lacks_roster(id) {
            if seat.is_current() {
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
        let is_over = seat.is_settled() && seat.row.position >= seat.row.due && seat.wake_at().is_none();
        if is_over && !seat.lacks_roster(id) {
            self.busy.remove(id);
        } else {
            self.busy.insert(id.clone());
        }
    }

    /// Removes lost devices and former members, or renews the keys of this device, when no own message is under way.
    fn change(&mut self, id: &ConversationId, now_ms: u64) {
        let is_sent = |row: &SealedRow| row.conversation_id == *id && row.seq.is_none() && !row.refused;
        let is_sending = self.sealed.values().any(is_sent);
        let Some(seat) = self.seats.get(id) else { return };
        let rekeys = seat.rekeys && seat.has_left_over();
        if is_sending || (seat.row.remove.is_empty() && !seat.row.renew && !rekeys) {
            return;
        }
        let (Some(conversation), Some(group)) = (self.conversation(id), seat.group.clone()) else { return };
        let me = self.me().clone();
        let removes: BTreeSet<UserId> =
            seat.strangers.union(&seat.row.unnamed).take(GROUP_CHANGE_MEMBERS_MAX).cloned().collect();
        let is_lost = |member: &Credential| {
            (member.user == me && seat.row.remove.contains(&member.device)) || removes.contains(&member.user)
        };
        let lost: Vec<Credential> = members(Some(&group)).into_iter().filter(is_lost).collect();
        let lost: Vec<_> = lost.iter().map(|member| (&member.user, &member.device)).collect();
        let step = if lost.is_empty() { Step::Update } else { Step::Remove(&lost) };
        let Ok(client_msg_id) = self.next_id() else { return };
        let made = group.commit(&conversation, &client_msg_id, step, now_ms / 1_000);
        let Some(seat) = self.seats.get_mut(id) else { return };
        match made {
            Ok((moved, pending)) => {
                seat.group = Some(moved);
                self.begin(id, Waiting { removes, ..Waiting::new(PendingKind::Change, pending) });
            }
            Err(_) => seat.refuse(BROKEN, now_ms),
        }
    }

    /// The server takes nothing before a commit that names these users. The log may not have come that far.
    pub(super) fn must_rekey(&mut self, id: &ConversationId, left: &[UserId], now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        let is_member = |user: &&UserId| seat.roster.as_ref().is_some_and(|roster| roster.has(user));
        let gone: BTreeSet<UserId> = left.iter().filter(|user| !is_member(user)).cloned().collect();
        if gone.is_empty() {
            seat.not_before = now_ms.saturating_add(BEHIND_MS);
        }
        seat.row.unnamed.extend(gone);
        seat.rekeys = true;
        self.touch(id);
    }

    /// The commit is a row, and then a request.
    pub(super) fn begin(&mut self, id: &ConversationId, waiting: Waiting) {
        if let Some(seat) = self.seats.get_mut(id) {
            seat.row.work = Work::Commit { landed: None, stale: false };
            seat.pending = Some(waiting);
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
        if seat.not_before > now_ms || seat.files.are_missing() {
            return None;
        }
        if seat.lacks_roster(id) {
            return self.members_request(id);
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
            Work::Claim { claims, .. } | Work::ClaimNew { claims, .. } => {
                let claim = claims.iter().find(|claim| claim.found.is_none())?;
                // A claim in a group is for its members: a block does not count.
                let is_of_group = id.is_group() && matches!(seat.row.work, Work::Claim { .. });
                let conversation_id = is_of_group.then(|| id.clone());
                let (claim_id, users) = (claim.id.clone(), claim.users.clone());
                let request = ClaimKeysRequest { claim_id, users, conversation_id };
                Some((RequestKey::Claim(id.clone(), claim.id.clone()), Action::ClaimKeys(request)))
            }
            Work::Commit { landed: None, stale: false } => {
                let waiting = seat.pending.as_ref().filter(|waiting| waiting.is_uploaded())?;
                if matches!(waiting.kind, PendingKind::Add | PendingKind::Remove) {
                    // The app's own request has it.
                    return None;
                }
                let pending = &waiting.commit;
                let request = CommitRequest {
                    target: target(),
                    client_msg_id: pending.client_msg_id.clone(),
                    epoch: pending.epoch,
                    commit: waiting.carried(Part::Commit).map(Box::new),
                    welcome: waiting.carried(Part::Welcome).map(Box::new),
                    group_info: pending.group_info.clone().into(),
                    tree: Box::new(waiting.carried(Part::Tree)?),
                    removes: waiting.removes.iter().cloned().collect(),
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
            RequestKey::Members(..) => self.listed_members(id, read(result), now_ms),
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
                let waits = aim == Aim::Write && seat.roster.as_ref().is_some_and(|roster| !roster.leads());
                if waits {
                    // A member who may change the group begins it.
                    seat.unborn_until = now_ms.saturating_add(UNBORN_MS);
                    // By then, this user may be such a member.
                    self.drop_roster(id);
                } else if aim != Aim::Join {
                    // The conversation is plain. A device begins when its user writes.
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
        let Ok(Some(tree)) = self.bytes_of(id, Some(&info.tree)) else { return };
        self.find_peer(id, &[], Some(&tree));
        let (Some(conversation), Some(seat)) = (self.conversation(id), self.seats.get_mut(id)) else { return };
        if matches!(aim, Aim::Reset | Aim::Repair) {
            return self.claim(id, info.epoch, aim == Aim::Repair, now_ms);
        }
        if !looked {
            seat.row.work = Work::Birth { aim, seq: birth };
            return;
        }
        let Ok(client_msg_id) = self.next_id() else { return };
        let bytes = info.group_info.as_slice();
        let joins = self.device.join_external(&conversation, &client_msg_id, info.epoch, bytes, &tree);
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.files.clear();
        if let Ok(pending) = joins {
            self.begin(id, Waiting::new(PendingKind::Join, pending));
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
        let is_birth = |message: &&Message| message.seq.value() == seq && message.kind == Kind::Commit;
        let birth = history.messages.iter().find(is_birth);
        let birth = birth.filter(|birth| birth.conversation_id == *id && birth.commit.is_none());
        let birth = birth.map(|birth| self.carried_in(birth, false)).transpose();
        // The birth comes again, once its files are there.
        let (Ok(birth), Some(seat)) = (birth, self.seats.get_mut(id)) else { return };
        // Without a Welcome for it, the device joins by itself.
        seat.row.work = Work::Look { aim, looked: true };
        seat.files.clear();
        if let Some(birth) = birth {
            let _ = self.welcomed(&birth, now_ms);
        }
    }

    // -- Births -------------------------------------------------------------------------------------------------------

    /// Claims the packages for a birth that ends this epoch.
    fn claim(&mut self, id: &ConversationId, epoch: u64, by_itself: bool, now_ms: u64) {
        let me = self.me().clone();
        let Some(seat) = self.seats.get(id) else { return };
        let users: Vec<UserId> = match (&seat.row.peer, &seat.roster) {
            (Some(peer), _) if *peer == me => vec![me],
            (Some(peer), _) => vec![peer.clone(), me],
            (None, Some(roster)) => roster.users().cloned().collect(),
            (None, None) => return,
        };
        let claims = self.claims(&users);
        let Some(seat) = self.seats.get_mut(id) else { return };
        match claims {
            Ok(claims) => seat.row.work = Work::Claim { epoch, by_itself, claims },
            Err(_) => seat.refuse(BROKEN, now_ms),
        }
        self.touch(id);
    }

    pub(super) fn claims(&mut self, users: &[UserId]) -> Result<Vec<Claim>> {
        let claim = |users: &[UserId]| Ok(Claim { id: self.next_id()?, users: users.to_vec(), found: None });
        users.chunks(CLAIM_USERS_MAX).map(claim).collect()
    }

    fn claimed(&mut self, id: &ConversationId, result: Answer<ClaimKeysResult>, now_ms: u64) {
        let next = self.next_id();
        let Some(seat) = self.seats.get_mut(id) else { return };
        let is_birth = matches!(seat.row.work, Work::Claim { .. });
        let (Work::Claim { claims, .. } | Work::ClaimNew { claims, .. }) = &mut seat.row.work else { return };
        let Some(claim) = claims.iter_mut().find(|claim| claim.found.is_none()) else { return };
        let is_asked = |user: &UserId| claim.users.contains(user);
        match (result, next) {
            (Ok(result), Ok(next)) => {
                let found: Vec<ClaimedUser> = result.users.into_iter().filter(|user| is_asked(&user.user_id)).collect();
                let left: Vec<UserId> = result.left.into_iter().filter(is_asked).collect();
                // The first of a claim is never left.
                let goes_on = !found.is_empty() && !left.is_empty();
                claim.found = Some(found);
                if goes_on {
                    claims.push(Claim { id: next, users: left, found: None });
                }
            }
            (Err(problem), Ok(next)) if problem.code == NO_KEYS && id.is_group() && is_birth => {
                // The others of the group begin without them.
                let without: Vec<UserId> = problem.users.into_iter().filter(is_asked).collect();
                claim.users.retain(|user| !without.contains(user));
                claim.id = next;
                if claim.users.is_empty() || without.is_empty() {
                    claim.found = Some(Vec::new());
                }
                self.notices.push(Notice::WithoutKeys { conversation_id: id.clone(), users: without });
            }
            (Err(problem), _) => return self.not_claimed(id, *problem, now_ms),
            (_, Err(_)) => return seat.refuse(BROKEN, now_ms),
        }
        self.all_claimed(id, now_ms);
    }

    fn not_claimed(&mut self, id: &ConversationId, problem: Problem, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        match &seat.row.work {
            Work::ClaimNew { adds, .. } => {
                seat.not_added = Some((adds.clone(), problem.code, problem.users));
                seat.row.work = Work::Idle;
            }
            _ if id.is_group() && problem.code == "gone" => {
                // A user of the claim is no longer a member.
                seat.row.work = Work::Idle;
                seat.wait(now_ms);
                self.drop_roster(id);
            }
            _ => seat.refuse(problem.code, now_ms),
        }
    }

    /// Begins the conversation, or keeps the packages for an `add`, once all claims have their answers.
    fn all_claimed(&mut self, id: &ConversationId, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        let (Work::Claim { claims, .. } | Work::ClaimNew { claims, .. }) = &seat.row.work else { return };
        if claims.iter().any(|claim| claim.found.is_none()) {
            return;
        }
        let found = claims.iter().filter_map(|claim| claim.found.clone()).flatten().collect();
        let (epoch, by_itself) = match &seat.row.work {
            Work::Claim { epoch, by_itself, .. } => (*epoch, *by_itself),
            Work::ClaimNew { adds, .. } => {
                seat.row.claimed = Some((adds.clone(), found));
                seat.row.work = Work::Idle;
                return;
            }
            Work::Idle | Work::Look { .. } | Work::Birth { .. } | Work::Commit { .. } => return,
        };
        let birth = self.birth(id, epoch, found, now_ms);
        let Some(seat) = self.seats.get_mut(id) else { return };
        let pending = match birth {
            Ok(pending) => pending,
            Err(Error::Profile(TOO_MANY)) => return seat.refuse(LIMIT_REACHED, now_ms),
            Err(_) => return seat.refuse(NO_KEYS, now_ms),
        };
        let kind = if epoch == 0 { PendingKind::Birth } else { PendingKind::Reset { by_itself } };
        // At epoch 0 no user has left.
        let removes =
            if epoch == 0 { BTreeSet::new() } else { seat.strangers.union(&seat.row.unnamed).cloned().collect() };
        self.begin(id, Waiting { removes, ..Waiting::new(kind, pending) });
    }

    fn birth(&mut self, id: &ConversationId, epoch: u64, found: Vec<ClaimedUser>, now_ms: u64) -> Result<Pending> {
        let conversation = self.conversation(id).ok_or(Error::State("peer"))?;
        let me = self.me().clone();
        let mut packages = self.packages(found, now_ms);
        // A user may have left since the claim.
        packages.retain(|package| conversation.has(&package.member.user));
        let is_there = |user: &UserId| packages.iter().any(|package| package.member.user == *user);
        let Some(seat) = self.seats.get(id) else { return Err(Error::State("seat")) };
        let has_all = match (&seat.row.peer, &seat.roster) {
            (Some(peer), _) => *peer == me || is_there(peer),
            // In a group, one other user is enough: a user without keys comes later.
            (None, Some(roster)) => {
                roster.users().all(|user| *user == me) || roster.users().any(|user| *user != me && is_there(user))
            }
            (None, None) => false,
        };
        ensure(has_all, Error::NotForUs)?;
        ensure(packages.len() < LEAVES_MAX, Error::Profile(TOO_MANY))?;
        let client_msg_id = self.next_id()?;
        self.device.birth(&conversation, &client_msg_id, epoch, &packages, now_ms / 1_000)
    }

    /// Returns the packages of claims that can be used.
    pub(super) fn packages(&self, found: Vec<ClaimedUser>, now_ms: u64) -> Vec<Checked> {
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
        packages
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
        let waiting = seat.pending.as_ref()?;
        let (kind, pending) = (waiting.kind, &waiting.commit);
        match result {
            Ok(result) => {
                let seq = result.entry.seq.value();
                let is_ours = result.entry.conversation_id == *id && result.epoch == pending.epoch + 1;
                if !is_ours || (seat.group.is_some() && seq <= seat.row.position) {
                    self.withdraw(id, BROKEN, now_ms);
                    return None;
                }
                let entry = own_entry(me, waiting, result);
                self.landed(id, seq, now_ms);
                return Some(Box::new(entry));
            }
            Err(problem) if problem.code == "stale_epoch" => self.stale_commit(id, kind, &problem, now_ms),
            Err(problem) => self.withdraw(id, &problem.code, now_ms),
        }
        None
    }

    /// The own commit is stored at this place.
    pub(super) fn landed(&mut self, id: &ConversationId, seq: u64, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.row.work = Work::Commit { landed: Some(seq), stale: false };
        seat.row.due = seat.row.due.max(seq);
        self.touch(id);
        self.settle(id, now_ms);
    }

    pub(super) fn stale_commit(&mut self, id: &ConversationId, kind: PendingKind, problem: &Problem, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        let last_seq = problem.last_seq.map_or(0, Seq::value);
        seat.is_behind(problem.epoch.unwrap_or_default(), last_seq);
        // A device with a part sees in the log whose commit it is. Another looks again.
        if seat.group.is_some() && last_seq > seat.row.position {
            seat.row.work = Work::Commit { landed: None, stale: true };
            return;
        }
        seat.wait(now_ms);
        seat.pending = None;
        seat.row.work = match kind {
            PendingKind::Birth => Work::Look { aim: Aim::Write, looked: false },
            PendingKind::Join => Work::Look { aim: Aim::Join, looked: true },
            PendingKind::Reset { by_itself: false } => Work::Look { aim: Aim::Reset, looked: true },
            PendingKind::Reset { by_itself: true } | PendingKind::Change | PendingKind::Add | PendingKind::Remove => {
                Work::Idle
            }
        };
        self.changed.insert(format!("{}{id}", rows::PENDING));
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

fn own_entry(me: UserId, waiting: &Waiting, result: CommitResult) -> Message {
    let pending = &waiting.commit;
    let SendResult { conversation_id, seq, message_id, sent_at, .. } = result.entry;
    let mut message = Message::text(conversation_id, seq, message_id, me, String::new(), sent_at);
    message.kind = Kind::Commit;
    message.silent = true;
    message.epoch = Some(result.epoch);
    message.client_msg_id = Some(pending.client_msg_id.clone());
    let bytes = |part| Some(Box::new(Carried::Bytes(waiting.part(part)?.to_vec().into())));
    message.commit = bytes(Part::Commit);
    message.welcome = bytes(Part::Welcome);
    message.tree = message.welcome.as_ref().and_then(|_| bytes(Part::Tree));
    let removes: Vec<UserId> = waiting.removes.iter().cloned().collect();
    message.removes = (!removes.is_empty()).then(|| Box::new(removes));
    message
}

pub(super) type Answer<T> = Result<T, Box<Problem>>;

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
        members: Vec::new(),
        reason: None,
    };
    serde_json::from_value(result?).map_err(unreadable).map_err(Box::new)
}
