//! The rows of a keyring: JSON with a version.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::{Bytes, Carried, ClaimedUser, ClientMsgId, ConversationId, DeviceId, MediaId, Rekeyed, UserId};
use zeroize::Zeroizing;

use crate::commit::Pending;
use crate::error::{Error, Result, ensure};
use crate::group::Group;
use crate::identity::PublicKey;

/// The version of all rows.
const VERSION: u8 = 1;
pub(super) const DEVICE: &str = "device";
pub(super) const PACKAGE: &str = "package/";
pub(super) const PIN: &str = "pin/";
pub(super) const SEAT: &str = "seat/";
pub(super) const TREE: &str = "tree/";
pub(super) const PENDING: &str = "pending/";
/// The members of a group.
pub(super) const ROSTER: &str = "roster/";
pub(super) const SEALED: &str = "sealed/";

/// This device.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct DeviceRow {
    pub(super) device: Bytes,
    /// How many ids this device has made.
    pub(super) ids: u64,
    /// The devices whose keys are to be removed.
    pub(super) removing: BTreeSet<DeviceId>,
}

/// A package of this device.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PackageRow {
    pub(super) private: Bytes,
    /// The public part, until it is published. The last resort keeps it.
    pub(super) data: Option<Bytes>,
    pub(super) last_resort: bool,
    pub(super) made_at_s: u64,
    pub(super) expires_at_s: u64,
    /// A last resort that was used or replaced goes at this time.
    pub(super) drop_at_s: Option<u64>,
}

/// The identity of another user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PinRow {
    pub(super) key: PublicKey,
    pub(super) verified: bool,
    /// The identity that came in the place of a verified one, until the user accepts it.
    pub(super) offered: Option<PublicKey>,
}

impl PinRow {
    /// The identity that the user has now.
    pub(super) fn now(&self) -> &PublicKey {
        self.offered.as_ref().unwrap_or(&self.key)
    }
}

/// A sealed message that has no answer yet.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SealedRow {
    pub(super) conversation_id: ConversationId,
    pub(super) client_msg_id: ClientMsgId,
    #[serde(flatten)]
    pub(super) sealed: super::Sealed,
    /// The place of the message, once it is stored.
    pub(super) seq: Option<u64>,
    /// The server takes nothing before a commit that names who left.
    #[serde(default)]
    pub(super) refused: bool,
}

/// The place of this device in a conversation.
#[derive(Clone, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct SeatRow {
    pub(super) peer: Option<UserId>,
    /// The group was created encrypted, whether it has begun or not.
    #[serde(default)]
    pub(super) encrypted: bool,
    /// The group's state. Left out: the device has no part in the conversation.
    pub(super) state: Option<Bytes>,
    /// The keyring has taken every entry up to this one.
    pub(super) position: u64,
    /// The first entry that was sealed, as far as this device knows. 0: none.
    pub(super) sealed_from: u64,
    /// The entry by which the device joined.
    pub(super) joined_at: u64,
    /// The newest epoch in which the device had a part.
    pub(super) epoch: u64,
    /// The log goes up to here at least.
    pub(super) due: u64,
    /// Another device removed this one, which stays out until the user writes.
    pub(super) removed: bool,
    /// A commit can't be followed.
    pub(super) broken: bool,
    /// The device joined by a package that others may have a copy of.
    pub(super) renew: bool,
    pub(super) renewed_at_ms: u64,
    /// The messages that the device sealed since.
    pub(super) own: u32,
    /// The last reset that the device made by itself.
    pub(super) reset_at_ms: Option<u64>,
    pub(super) wrong_marks: u64,
    /// The lost devices that the next commit removes.
    pub(super) remove: BTreeSet<DeviceId>,
    pub(super) work: Work,
    /// The users who left, by the server, and whom no commit has named.
    #[serde(default)]
    pub(super) unnamed: BTreeSet<UserId>,
    /// The packages for the `add` with this id.
    #[serde(default)]
    pub(super) claimed: Option<(ClientMsgId, Vec<ClaimedUser>)>,
    /// The last change of the members whose form is fixed, for its repetitions.
    #[serde(default)]
    pub(super) rolled: Option<(ClientMsgId, Option<Repeated>)>,
}

/// The bytes of a change of the members that is in the log and has no answer yet. Without keys: those would open the epoch.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Repeated {
    epoch: u64,
    commit: Carried,
    welcome: Option<Carried>,
    group_info: Bytes,
    tree: Carried,
}

impl Repeated {
    pub(super) fn of(waiting: &Waiting) -> Option<Self> {
        Some(Self {
            epoch: waiting.commit.epoch,
            commit: waiting.carried(Part::Commit)?,
            welcome: waiting.carried(Part::Welcome),
            group_info: waiting.commit.group_info.clone().into(),
            tree: waiting.carried(Part::Tree)?,
        })
    }

    pub(super) fn keys(self) -> Rekeyed {
        let Self { epoch, commit, welcome, group_info, tree } = self;
        Rekeyed { epoch, commit, welcome, group_info, tree }
    }
}

/// The work of a seat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Work {
    #[default]
    Idle,
    /// Asks for the newest epoch.
    Look {
        aim: Aim,
        /// The birth has nothing for this device.
        looked: bool,
    },
    /// Asks for the birth.
    Birth { aim: Aim, seq: u64 },
    /// Asks for packages, for a birth that ends this epoch.
    Claim { epoch: u64, by_itself: bool, claims: Vec<Claim> },
    /// Asks for the packages of users whom the `add` with this id adds to a group.
    ClaimNew { adds: ClientMsgId, claims: Vec<Claim> },
    /// The commit of the row `pending/`.
    Commit { landed: Option<u64>, stale: bool },
}

/// The aim of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Aim {
    /// Takes part, if the conversation is sealed.
    Join,
    /// Takes part, and begins a plain conversation: a message waits.
    Write,
    /// Begins with new keys: the user wants it.
    Reset,
    /// Begins with new keys, by itself.
    Repair,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) id: ClientMsgId,
    pub(super) users: Vec<UserId>,
    pub(super) found: Option<Vec<ClaimedUser>>,
}

/// A commit that waits for its entry.
pub(super) struct Waiting {
    pub(super) kind: PendingKind,
    pub(super) commit: Pending,
    /// The former members whom it names.
    pub(super) removes: BTreeSet<UserId>,
    /// The users whom its system entry adds or removes.
    pub(super) users: Vec<UserId>,
    /// The parts that are uploaded, since they don't fit in the frame.
    pub(super) files: BTreeMap<Part, Option<MediaId>>,
}

/// A part of a commit that can be an uploaded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The commit.
    Commit,
    /// The Welcome.
    Welcome,
    /// The tree.
    Tree,
}

impl Waiting {
    pub(super) fn new(kind: PendingKind, commit: Pending) -> Self {
        let mut waiting = Self { kind, commit, removes: BTreeSet::new(), users: vec![], files: BTreeMap::new() };
        let chars = |bytes: usize| bytes.div_ceil(3) * 4;
        let mut parts: Vec<(usize, Part)> = [Part::Commit, Part::Welcome, Part::Tree]
            .iter()
            .filter_map(|part| Some((chars(waiting.part(*part)?.len()), *part)))
            .collect();
        parts.sort_unstable();
        let mut sum = chars(waiting.commit.group_info.len()) + parts.iter().map(|(chars, _)| chars).sum::<usize>();
        while sum > wire::limits::COMMIT_CHARS_MAX
            && let Some((chars, part)) = parts.pop()
        {
            sum -= chars;
            waiting.files.insert(part, None);
        }
        waiting
    }

    /// Returns the bytes of a part.
    pub(super) fn part(&self, part: Part) -> Option<&[u8]> {
        match part {
            Part::Commit => self.commit.commit.as_deref(),
            Part::Welcome => self.commit.welcome.as_deref(),
            Part::Tree => Some(self.commit.next.tree()),
        }
    }

    /// Returns a part as the request has it, once it is uploaded.
    pub(super) fn carried(&self, part: Part) -> Option<Carried> {
        match self.files.get(&part) {
            None => Some(Carried::Bytes(self.part(part)?.to_vec().into())),
            Some(media_id) => Some(Carried::File { media_id: media_id.clone()?, bytes: None, sha256: None }),
        }
    }

    pub(super) fn is_uploaded(&self) -> bool {
        self.files.values().all(Option::is_some)
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PendingRow {
    kind: PendingKind,
    #[serde(default)]
    removes: BTreeSet<UserId>,
    #[serde(default)]
    users: Vec<UserId>,
    #[serde(default)]
    files: Vec<(Part, Option<MediaId>)>,
    client_msg_id: ClientMsgId,
    epoch: u64,
    commit: Option<Bytes>,
    welcome: Option<Bytes>,
    group_info: Bytes,
    state: Bytes,
    tree: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PendingKind {
    Birth,
    /// A birth where the conversation had a group. `by_itself`: not at the user's wish.
    Reset {
        by_itself: bool,
    },
    Join,
    /// An update or a remove of lost devices and former members.
    Change,
    /// An `add` of members.
    Add,
    /// A `remove` of a member.
    Remove,
}

impl PendingRow {
    pub(super) fn of(waiting: &Waiting) -> Self {
        let bytes = |bytes: &Option<Vec<u8>>| bytes.clone().map(Bytes::from);
        let pending = &waiting.commit;
        Self {
            kind: waiting.kind,
            removes: waiting.removes.clone(),
            users: waiting.users.clone(),
            files: waiting.files.clone().into_iter().collect(),
            client_msg_id: pending.client_msg_id.clone(),
            epoch: pending.epoch,
            commit: bytes(&pending.commit),
            welcome: bytes(&pending.welcome),
            group_info: pending.group_info.clone().into(),
            state: pending.next.state().to_vec().into(),
            tree: pending.next.tree().to_vec().into(),
        }
    }

    pub(super) fn waiting(self) -> Result<Waiting> {
        let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.as_slice().to_vec());
        let (kind, removes, users, files) = (self.kind, self.removes, self.users, self.files.into_iter().collect());
        let commit = Pending {
            client_msg_id: self.client_msg_id,
            epoch: self.epoch,
            commit: bytes(self.commit),
            welcome: bytes(self.welcome),
            group_info: self.group_info.as_slice().to_vec(),
            next: Group::from_stored(self.state.as_slice().to_vec(), self.tree.as_slice().to_vec())?,
        };
        Ok(Waiting { kind, commit, removes, users, files })
    }
}

pub(super) fn write<T: Serialize>(row: &T) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(serde_json::to_vec(&(VERSION, row)).unwrap_or_default())
}

pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let (v, row): (u8, T) = serde_json::from_slice(bytes).map_err(|_| Error::State("row"))?;
    ensure(v == VERSION, Error::State("a later version wrote the row"))?;
    Ok(row)
}
