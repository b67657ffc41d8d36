//! The whole encryption of one device: its keys, its conversations and the identities of others.

mod commits;
mod directory;
mod files;
mod people;
mod roll;
mod roster;
mod rows;
mod said;
mod seat;
mod take;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use wire::{Action, Bytes, ClientMsgId, ConversationId, DeviceId, Kind, Problem, Seq, UserId};
use zeroize::Zeroizing;

pub use said::{
    Answered, Fetch, Lock, Notice, OwnDevice, Part, Party, Prepared, Readiness, RequestKey, Roll, Sealed, Shown, Taken,
    Upload, Why,
};

use crate::conversation::Conversation;
use crate::envelope::Envelope;
use crate::error::{Error, Result, ensure};
use crate::group::Group;
use crate::identity::{Device, Identity, SEED_BYTES};
use rows::{DeviceRow, PackageRow, PinRow, SealedRow, SeatRow};
use seat::Seat;

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// The time after which a refused conversation begins again.
const REFUSED_MS: u64 = 5 * MINUTE_MS;
/// The requests of conversations that are under way together: a device with many conversations joins them by and by.
const UNDER_WAY: usize = 8;
/// The own messages after which a device renews its keys.
const OWN_MESSAGES: u32 = 100;

/// One device of one user, without I/O.
///
/// A keyring gets the log, the replies of the server and the wishes of the app, and returns requests, opened messages and
/// notices. All decisions about encryption are made here, so that each client makes the same.
///
/// The state is a table of rows. A client writes [`take_changes`](Self::take_changes) in the transaction of the turn, before
/// it tells the app and before a request leaves. After a crash, [`open`](Self::open) goes on from the rows of the last
/// transaction: pending requests leave again with the same ids and bytes.
#[expect(clippy::struct_excessive_bools, reason = "each is set for itself")]
pub struct Keyring {
    identity: Identity,
    device: Device,
    row: DeviceRow,
    packages: BTreeMap<String, PackageRow>,
    pins: BTreeMap<UserId, PinRow>,
    seats: BTreeMap<ConversationId, Seat>,
    sealed: BTreeMap<String, SealedRow>,
    /// The names of the rows that changed.
    changed: BTreeSet<String>,
    /// The seats that have something to do.
    busy: BTreeSet<ConversationId>,
    /// The requests without an answer.
    asked: BTreeSet<RequestKey>,
    /// The requests that wait, and until when.
    later: BTreeMap<RequestKey, u64>,
    list_due: bool,
    publish_due: bool,
    /// The packages that claims can get, by the directory.
    left: Option<u64>,
    listed: Vec<OwnDevice>,
    told: BTreeSet<DeviceId>,
    notices: Vec<Notice>,
    is_franking: bool,
    carries_files: bool,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Keyring {
    /// Opens the keyring of a device. `rows`: what [`take_changes`](Self::take_changes) returned in earlier runs.
    ///
    /// `seed`: 32 random bytes, for the key of a new device. The keyring replaces the rows of another device or identity.
    /// For the same user, the pinned identities and the list of sealed conversations stay.
    pub fn open(
        identity: &Identity,
        device: DeviceId,
        mut rows: BTreeMap<String, Vec<u8>>,
        seed: &[u8; SEED_BYTES],
    ) -> Result<Self> {
        let wanted = identity.device(device, seed);
        let stored: Option<DeviceRow> = rows.get(rows::DEVICE).map(|row| rows::read(row)).transpose()?;
        let of = |row: &DeviceRow| Device::from_bytes(row.device.as_slice());
        let old = stored.as_ref().map(of).transpose()?;
        let is_same = old.as_ref().is_none_or(|old| old.member() == wanted.member());
        let mut changed = BTreeSet::new();
        if !is_same {
            let is_user = old.is_some_and(|old| old.member().user == wanted.member().user);
            let stays = |name: &str| is_user && (name.starts_with(rows::PIN) || name.starts_with(rows::SEAT));
            changed.extend(rows.keys().cloned());
            rows.retain(|name, _| stays(name));
        }
        let (device, row) = match stored {
            Some(row) if is_same => (of(&row)?, row),
            _ => {
                changed.insert(rows::DEVICE.to_owned());
                let device = Bytes::from(wanted.to_bytes().to_vec());
                (wanted, DeviceRow { device, ids: 0, removing: BTreeSet::new() })
            }
        };
        let mut keyring = Self {
            identity: identity.clone(),
            device,
            row,
            packages: BTreeMap::new(),
            pins: BTreeMap::new(),
            seats: BTreeMap::new(),
            sealed: BTreeMap::new(),
            changed,
            busy: BTreeSet::new(),
            asked: BTreeSet::new(),
            later: BTreeMap::new(),
            list_due: false,
            publish_due: false,
            left: None,
            listed: Vec::new(),
            told: BTreeSet::new(),
            is_franking: false,
            carries_files: false,
            notices: Vec::new(),
        };
        keyring.read(&rows, is_same)?;
        Ok(keyring)
    }

    fn read(&mut self, rows: &BTreeMap<String, Vec<u8>>, is_same: bool) -> Result<()> {
        for (name, bytes) in rows {
            if let Some(reference) = name.strip_prefix(rows::PACKAGE) {
                self.packages.insert(reference.to_owned(), rows::read(bytes)?);
            } else if let Some(user) = name.strip_prefix(rows::PIN) {
                let user = UserId::parse(user).map_err(|_| Error::State("pin"))?;
                self.pins.insert(user, rows::read(bytes)?);
            } else if name.starts_with(rows::SEALED) {
                self.sealed.insert(name.clone(), rows::read(bytes)?);
            } else if let Some(id) = name.strip_prefix(rows::SEAT) {
                let tree = rows.get(&format!("{}{id}", rows::TREE));
                let pending = rows.get(&format!("{}{id}", rows::PENDING));
                let roster = rows.get(&format!("{}{id}", rows::ROSTER));
                let row: SeatRow = rows::read(bytes)?;
                let seat = if is_same { Seat::read(row, tree, pending, roster)? } else { Seat::outside(row) };
                let id = ConversationId::parse(id).map_err(|_| Error::State("seat"))?;
                self.busy.insert(id.clone());
                self.seats.insert(id, seat);
            }
        }
        Ok(())
    }

    /// Returns the rows that changed since the last call, with `None` for a deleted one.
    pub fn take_changes(&mut self) -> Vec<(String, Option<Zeroizing<Vec<u8>>>)> {
        let names = std::mem::take(&mut self.changed);
        names.into_iter().map(|name| self.row_of(&name).map_or((name.clone(), None), |row| (name, Some(row)))).collect()
    }

    fn row_of(&self, name: &str) -> Option<Zeroizing<Vec<u8>>> {
        let seat = |id: &str| self.seats.get(&ConversationId::parse(id).ok()?);
        if name == rows::DEVICE {
            return Some(rows::write(&self.row));
        }
        if let Some(reference) = name.strip_prefix(rows::PACKAGE) {
            return self.packages.get(reference).map(rows::write);
        }
        if let Some(user) = name.strip_prefix(rows::PIN) {
            return self.pins.get(&UserId::parse(user).ok()?).map(rows::write);
        }
        if let Some(id) = name.strip_prefix(rows::SEAT) {
            return Some(rows::write(&seat(id)?.row()));
        }
        if let Some(id) = name.strip_prefix(rows::TREE) {
            return Some(Zeroizing::new(seat(id)?.group.as_ref()?.tree().to_vec()));
        }
        if let Some(id) = name.strip_prefix(rows::PENDING) {
            return Some(rows::write(&rows::PendingRow::of(seat(id)?.pending.as_ref()?)));
        }
        if let Some(id) = name.strip_prefix(rows::ROSTER) {
            return Some(rows::write(seat(id)?.roster.as_ref()?));
        }
        self.sealed.get(name).map(rows::write)
    }

    // -- The server ---------------------------------------------------------------------------------------------------

    /// Begins what a new connection needs: `list_keys`, and what was refused before.
    pub fn connected(&mut self) {
        self.list_due = true;
        self.later.clear();
        for (id, seat) in &mut self.seats {
            seat.refused = None;
            seat.not_before = 0;
            if !seat.is_settled() {
                self.busy.insert(id.clone());
            }
        }
    }

    /// Returns the requests that are due, each once. The caller repeats a request, unchanged, until it has an answer.
    pub fn requests(&mut self, now_ms: u64) -> Vec<(RequestKey, Action)> {
        for id in self.busy.clone() {
            self.advance(&id, now_ms);
        }
        let mut due = self.directory_requests(now_ms);
        let is_free = |key: &RequestKey| !self.asked.contains(key) && !self.waits(key, now_ms);
        due.retain(|(key, _)| is_free(key));
        let under_way = self.asked.iter().filter(|key| key.conversation().is_some()).count();
        let seats = self.busy.iter().filter_map(|id| self.seat_request(id, now_ms));
        due.extend(seats.filter(|(key, _)| is_free(key)).take(UNDER_WAY.saturating_sub(under_way)));
        self.asked.extend(due.iter().map(|(key, _)| key.clone()));
        due
    }

    fn waits(&self, key: &RequestKey, now_ms: u64) -> bool {
        self.later.get(key).is_some_and(|until| *until > now_ms)
    }

    /// Takes the answer to a request. After a retryable problem, the request is due again later.
    pub fn answered(&mut self, key: &RequestKey, result: Result<Value, Problem>, now_ms: u64) -> Answered {
        self.asked.remove(key);
        self.later.remove(key);
        if let Err(problem) = &result
            && problem.retryable
        {
            self.later.insert(key.clone(), now_ms.saturating_add(problem.retry_after_ms.unwrap_or(1_000)));
            return Answered::default();
        }
        let mut entry = None;
        match key {
            RequestKey::ListKeys | RequestKey::PublishKeys | RequestKey::RemoveKeys(_) => {
                self.directory_answered(key, result, now_ms);
            }
            RequestKey::GroupInfo(id)
            | RequestKey::Birth(id, _)
            | RequestKey::Claim(id, _)
            | RequestKey::Commit(id, _)
            | RequestKey::Members(id, _) => {
                entry = self.seat_answered(id, key, result, now_ms);
                self.advance(id, now_ms);
            }
        }
        Answered { notices: std::mem::take(&mut self.notices), entry }
    }

    /// Returns the time at which [`requests`](Self::requests) has something new, without an input before.
    pub fn wake_at(&self) -> Option<u64> {
        let seats = self.busy.iter().filter_map(|id| self.seats.get(id)?.wake_at());
        self.later.values().copied().chain(seats).min()
    }

    // -- Sending ------------------------------------------------------------------------------------------------------

    /// Takes part in a sealed conversation of the chat list. The caller paces the calls.
    pub fn met(&mut self, with: impl Into<Party>, now_ms: u64) {
        let id = self.seat_of(with.into());
        if let Some(seat) = self.seats.get_mut(&id)
            && seat.group.is_none()
            && !seat.row.removed
            && !seat.row.broken
        {
            seat.look(rows::Aim::Join);
            self.touch(&id);
        }
        self.advance(&id, now_ms);
    }

    /// Takes that this group was created encrypted: it takes nothing in the clear, and begins with its first message.
    pub fn created(&mut self, group: &ConversationId) {
        let seat = self.seats.entry(group.clone()).or_default();
        if !std::mem::replace(&mut seat.row.encrypted, true) {
            self.changed.insert(format!("{}{group}", rows::SEAT));
        }
    }

    /// Returns whether a message in this conversation can be sealed, and begins what is missing.
    pub fn prepare(&mut self, with: impl Into<Party>, now_ms: u64) -> Readiness {
        let id = self.seat_of(with.into());
        if let Some(user) = self.held_in(&id) {
            return Readiness::Held(user);
        }
        let Some(seat) = self.seats.get_mut(&id) else { return Readiness::Waits };
        if let Some(code) = seat.refusal(now_ms) {
            return Readiness::Refused(code);
        }
        if self.is_too_large(&id) {
            return Readiness::Refused(work::LIMIT_REACHED.to_owned());
        }
        let Some(seat) = self.seats.get_mut(&id) else { return Readiness::Waits };
        if seat.group.is_none() && seat.row.broken {
            // A join would trust the bytes of the commit that can't be followed.
            if seat.is_idle() && !seat.may_repair(now_ms) {
                return Readiness::Refused("broken".to_owned());
            }
        } else if seat.unborn_until > now_ms {
            return Readiness::Waits;
        } else if seat.group.is_none() {
            seat.row.removed = false;
            seat.look(rows::Aim::Write);
            self.touch(&id);
        } else if seat.has_left_over() {
            seat.rekeys = true;
            self.touch(&id);
        } else if !seat.row.renew && seat.is_old(now_ms) {
            seat.row.renew = true;
            self.touch(&id);
        }
        self.advance(&id, now_ms);
        let is_ready = self.seats.get(&id).is_some_and(|seat| seat.is_ready() && !seat.lacks_roster(&id));
        if is_ready { Readiness::Ready } else { Readiness::Waits }
    }

    /// Returns the bytes that this message has already. The client sends them unchanged, whatever
    /// [`prepare`](Self::prepare) returns. After `rekey_required` they wait for the commit.
    pub fn sealed(&self, with: impl Into<Party>, client_msg_id: &ClientMsgId) -> Option<Sealed> {
        let row = self.sealed.get(&sealed_name(&self.id_of(&with.into()), client_msg_id));
        row.filter(|row| !row.refused).map(|row| row.sealed.clone())
    }

    /// This client uploads what a frame has no room for: see [`uploads`](Self::uploads). Without, a larger group is refused
    /// with `limit_reached`.
    pub fn carry_files(&mut self) {
        self.carries_files = true;
    }

    /// A commit has no room in a frame.
    fn is_too_large(&self, id: &ConversationId) -> bool {
        let waiting = self.seats.get(id).and_then(|seat| seat.pending.as_ref());
        !self.carries_files && waiting.is_some_and(|waiting| !waiting.is_uploaded())
    }

    /// Takes whether the server's features have `encryption.report`. Each message then has a digest for a report.
    pub fn set_franking(&mut self, is_franking: bool) {
        self.is_franking = is_franking;
    }

    /// Seals a message, after [`Readiness::Ready`], or returns the bytes that it has already.
    pub fn seal(&mut self, with: impl Into<Party>, client_msg_id: &ClientMsgId, envelope: &Envelope) -> Result<Sealed> {
        let id = self.id_of(&with.into());
        let name = sealed_name(&id, client_msg_id);
        if let Some(row) = self.sealed.get_mut(&name) {
            // The server may have stored the bytes: only `stale_epoch` ends them.
            row.refused = false;
            self.changed.insert(name);
            return Ok(row.sealed.clone());
        }
        ensure(self.held_in(&id).is_none(), Error::State("the identity of a verified user changed"))?;
        let conversation = self.conversation(&id).ok_or(Error::State("not ready"))?;
        let seat = self.seats.get_mut(&id).filter(|seat| seat.is_ready()).ok_or(Error::State("not ready"))?;
        let group = seat.group.as_ref().ok_or(Error::State("not ready"))?;
        let epoch = group.epoch(&conversation)?;
        let (plaintext, frank) = if self.is_franking {
            // Each sealing has its own key: a second text under one key would take the proof from the first.
            let mut key = Zeroizing::new([0; 32]);
            getrandom::fill(&mut *key).map_err(|_| Error::State("no randomness"))?;
            let (plaintext, frank) = envelope.write_franked(&key);
            (plaintext, Some(Bytes::from(frank.to_vec())))
        } else {
            (envelope.write(), None)
        };
        let (moved, body) = group.seal(&conversation, client_msg_id, &plaintext)?;
        ensure(body.len() <= wire::limits::SEALED_BYTES_MAX, Error::Malformed("the message is too long"))?;
        seat.group = Some(moved);
        seat.row.own = seat.row.own.saturating_add(1);
        let media_id = envelope.media_id();
        let silent = !Kind::stored(&envelope.kind).counts();
        let sealed = Sealed { epoch, body: Bytes::from(body).to_text(), silent, frank, media_id };
        let row = SealedRow {
            conversation_id: id.clone(),
            client_msg_id: client_msg_id.clone(),
            sealed: sealed.clone(),
            seq: None,
            refused: false,
        };
        self.sealed.insert(name.clone(), row);
        self.changed.insert(name);
        self.touch(&id);
        Ok(sealed)
    }

    /// Takes `stale_epoch`: the message was not stored, and its bytes go. The log is due up to `last_seq`.
    pub fn stale(
        &mut self,
        with: impl Into<Party>,
        client_msg_id: &ClientMsgId,
        epoch: u64,
        last_seq: Seq,
        now_ms: u64,
    ) {
        let id = self.seat_of(with.into());
        self.drop_sealed(&sealed_name(&id, client_msg_id));
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.is_behind(epoch, last_seq.value());
            self.touch(&id);
        }
        self.advance(&id, now_ms);
    }

    /// Takes `rekey_required`: users have left, and the message was not stored. Its bytes wait for a commit without them.
    pub fn rekey(&mut self, with: impl Into<Party>, client_msg_id: &ClientMsgId, left: &[UserId], now_ms: u64) {
        let id = self.seat_of(with.into());
        let name = sealed_name(&id, client_msg_id);
        if let Some(row) = self.sealed.get_mut(&name) {
            row.refused = true;
            self.changed.insert(name);
        }
        self.must_rekey(&id, left, now_ms);
        self.advance(&id, now_ms);
    }

    /// Takes the end of a message: stored at this place, or refused for good. The keyring deletes the bytes once its
    /// position is there.
    pub fn sent(&mut self, with: impl Into<Party>, client_msg_id: &ClientMsgId, seq: Option<Seq>, now_ms: u64) {
        let id = self.id_of(&with.into());
        let name = sealed_name(&id, client_msg_id);
        match (seq, self.sealed.get_mut(&name)) {
            (Some(seq), Some(row)) => {
                row.seq = Some(seq.value());
                self.changed.insert(name);
            }
            _ => self.drop_sealed(&name),
        }
        self.settle(&id, now_ms);
        self.advance(&id, now_ms);
    }

    fn drop_sealed(&mut self, name: &str) {
        if self.sealed.remove(name).is_some() {
            self.changed.insert(name.to_owned());
        }
    }

    // -- Within -------------------------------------------------------------------------------------------------------

    fn me(&self) -> &UserId {
        self.identity.user()
    }

    fn id_of(&self, with: &Party) -> ConversationId {
        match with {
            Party::User(peer) => Conversation::direct(self.me(), peer).id().clone(),
            Party::Conversation(id) => id.clone(),
        }
    }

    /// Returns the conversation, whose place is made if there is none.
    fn seat_of(&mut self, with: Party) -> ConversationId {
        let id = self.id_of(&with);
        let seat = self.seats.entry(id.clone()).or_default();
        if let Party::User(peer) = with {
            seat.row.peer = Some(peer);
        }
        id
    }

    /// Returns an id that this device never made before.
    fn next_id(&mut self) -> Result<ClientMsgId> {
        self.row.ids += 1;
        self.changed.insert(rows::DEVICE.to_owned());
        // Another device of the user, or this one with another key, has another tag.
        let tag = data_encoding::HEXLOWER.encode(self.device.leaf_key().get(..8).unwrap_or_default());
        ClientMsgId::parse(&format!("keys-{tag}-{}", self.row.ids)).map_err(|_| Error::State("id"))
    }

    /// The seat's row changed, and the seat may have something to do.
    fn touch(&mut self, id: &ConversationId) {
        self.changed.insert(format!("{}{id}", rows::SEAT));
        self.busy.insert(id.clone());
    }
}

fn sealed_name(id: &ConversationId, client_msg_id: &ClientMsgId) -> String {
    format!("{}{id}/{client_msg_id}", rows::SEALED)
}

/// Returns the group's devices, or none if there is no group.
fn members(group: Option<&Group>) -> BTreeSet<crate::identity::Credential> {
    group.and_then(|group| group.members().ok()).into_iter().flatten().collect()
}
