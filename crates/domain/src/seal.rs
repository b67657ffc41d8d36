//! A sealed group: the epoch that its log has come to, and what may be written in it.

use wire::limits::REMOVES_MAX;
use wire::{Refusal, Role, System, UserId};

use crate::draft::{Content, GroupChange, NewCommit};
use crate::encryption::Encryption;
use crate::entry::{Body, Entry};
use crate::group::{Head, moderates};

/// The encryption of a group, as its log has it up to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// The group takes nothing in the clear: since its first commit, or from its start.
    pub encrypted: bool,
    /// The number of commits.
    pub epoch: u64,
    /// The users who left, and whom no commit has named since. Their devices may still have the keys.
    pub unnamed: Vec<UserId>,
}

impl Seal {
    /// Returns the seal after this entry.
    #[must_use]
    pub(crate) fn after(&self, entry: &Entry) -> Self {
        let mut seal = self.clone();
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
                    | System::InfoChanged { .. }
                    | System::Later(_) => &[],
                };
                seal.unnamed.retain(|user| !left.contains(user));
                if let Some(keys) = &system.keys {
                    seal.epoch = keys.epoch;
                } else if seal.epoch > 0 {
                    seal.unnamed.extend_from_slice(left);
                }
            }
            Body::Message(_) | Body::Edit { .. } | Body::Delete { .. } | Body::Reaction { .. } | Body::Other { .. } => {
            }
        }
        seal
    }

    fn check_named(&self) -> Result<(), Refusal> {
        if self.unnamed.is_empty() { Ok(()) } else { Err(self.rekey_required()) }
    }

    fn rekey_required(&self) -> Refusal {
        // As many as a commit can name.
        Refusal::RekeyRequired { members: self.unnamed.iter().take(REMOVES_MAX).cloned().collect() }
    }
}

impl Head {
    /// Checks whether the user may write in the clear here.
    ///
    /// # Errors
    /// `encryption_required`
    pub fn check_clear(&self, encryption: Encryption, user: &UserId) -> Result<(), Refusal> {
        if self.seal.encrypted { Err(Refusal::EncryptionRequired) } else { encryption.check_clear(user, 0) }
    }

    /// Checks a sealed message, or a commit, of a member with this role. The first commit is for those who may change
    /// the group.
    ///
    /// # Errors
    /// `forbidden`, `stale_epoch` or `rekey_required`
    pub fn check_sealed(&self, role: Role, content: &Content) -> Result<(), Refusal> {
        self.check_message(role, &[])?;
        match content {
            Content::Sealed { epoch, .. } => self.check_epoch(*epoch).and_then(|()| self.seal.check_named()),
            Content::Commit(_) if self.seal.epoch == 0 && !moderates(role) => Err(Refusal::Forbidden),
            Content::Commit(commit) => self.check_epoch(commit.epoch),
            Content::Message { .. } | Content::Change { .. } | Content::Group(_) => Ok(()),
        }
    }

    fn check_epoch(&self, epoch: u64) -> Result<(), Refusal> {
        if epoch == self.seal.epoch {
            return Ok(());
        }
        Err(Refusal::StaleEpoch {
            conversation_id: Some(self.conversation_id.clone()),
            epoch: self.seal.epoch,
            last_seq: self.end.seq,
        })
    }
}

impl GroupChange {
    /// The commit of an addition or a removal.
    pub fn keys(&self) -> Option<&NewCommit> {
        match self {
            Self::Add { keys, .. } | Self::Remove { keys, .. } => keys.as_deref(),
            Self::Create { .. } | Self::Leave | Self::Return | Self::Role { .. } | Self::Update { .. } => None,
        }
    }

    /// Checks the commit of a change that may be made otherwise. `joining`: the number of users who join with it.
    ///
    /// # Errors
    /// `forbidden`, `encryption_required`, `stale_epoch` or `rekey_required`
    pub(crate) fn check_keys(&self, head: &Head, joining: usize) -> Result<(), Refusal> {
        let stale = || self.keys().map_or(Ok(()), |keys| head.check_epoch(keys.epoch));
        let Self::Add { members, keys } = self else { return stale() };
        // The commit adds all of them, and the entry names the same.
        let is_partial = keys.is_some() && joining < members.len();
        if is_partial || (head.seal.encrypted && members.iter().any(UserId::is_service)) {
            return Err(Refusal::Forbidden);
        }
        if head.seal.epoch > 0 && keys.is_none() {
            return Err(Refusal::EncryptionRequired);
        }
        stale()?;
        if members.iter().any(|user| head.seal.unnamed.contains(user)) {
            return Err(head.seal.rekey_required());
        }
        Ok(())
    }
}
