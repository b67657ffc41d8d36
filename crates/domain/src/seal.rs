//! The encryption of a group: the epoch that its log has come to, and the users who left since.

use std::collections::BTreeMap;

use wire::limits::REMOVES_MAX;
use wire::{MediaId, Refusal, System, Timestamp, UserId};

use crate::entry::{Body, Entry};

/// The encryption of a group, as its log has it up to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// The group takes nothing in the clear: since its first commit, or from its start.
    pub encrypted: bool,
    /// The number of commits.
    pub epoch: u64,
    /// The users who left, and whom no commit has named since. Their devices may still have the keys.
    pub unnamed: Vec<UserId>,
    /// The file of the newest tree, if no entry has it. The next commit ends it.
    pub loose_tree: Option<MediaId>,
    /// The times until which a user's commits fill their rate, and births among them. No time is in the past.
    pub commits_until: BTreeMap<UserId, Timestamp>,
    pub births_until: BTreeMap<UserId, Timestamp>,
}

impl Seal {
    /// Returns the seal after this entry.
    #[must_use]
    pub(crate) fn after(&self, entry: &Entry) -> Self {
        let mut seal = self.clone();
        for filled in [&mut seal.commits_until, &mut seal.births_until] {
            filled.retain(|_, until| *until > entry.place.sent_at);
        }
        match &entry.body {
            Body::Commit(commit) => {
                (seal.encrypted, seal.epoch) = (true, commit.epoch);
                seal.unnamed.retain(|user| !commit.removes.contains(user));
            }
            Body::System(system) => {
                let left = match &system.system {
                    System::MembersRemoved { members } => members.as_slice(),
                    System::MemberLeft {} => std::slice::from_ref(&entry.sender_id),
                    System::Created { .. }
                    | System::MembersAdded { .. }
                    | System::RoleChanged { .. }
                    | System::MemberRestricted { .. }
                    | System::InfoChanged { .. }
                    | System::Later(_) => &[],
                };
                seal.unnamed.retain(|user| !left.contains(user));
                for user in left {
                    seal.commits_until.remove(user);
                    seal.births_until.remove(user);
                }
                if let Some(keys) = &system.keys {
                    seal.epoch = keys.epoch;
                } else if seal.epoch > 0 {
                    seal.unnamed.extend_from_slice(left);
                }
            }
            Body::Message(_)
            | Body::Edit { .. }
            | Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::Erased(_)
            | Body::Other { .. } => {}
        }
        seal
    }

    pub(crate) fn check_named(&self) -> Result<(), Refusal> {
        if self.unnamed.is_empty() { Ok(()) } else { Err(self.rekey_required()) }
    }

    pub(crate) fn rekey_required(&self) -> Refusal {
        // As many as a commit can name.
        Refusal::RekeyRequired { members: self.unnamed.iter().take(REMOVES_MAX).cloned().collect() }
    }
}
