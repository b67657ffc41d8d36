//! The ratchet tree, read apart from the library: what a commit may be is judged by what it left behind.

use std::collections::{BTreeMap, BTreeSet};

use wire::{DeviceId, UserId};

use crate::conversation::Conversation;
use crate::error::{Error, Result, ensure};
use crate::identity::{Credential, PublicKey, Unverified};
use crate::provider::is_key;
use crate::reader::Reader;

/// The capabilities of each leaf: version mls10, suite 0x0001, no extension, no proposal, basic credentials.
const CAPABILITIES: [u8; 11] = [2, 0, 1, 2, 0, 1, 0, 0, 2, 0, 1];
const BASIC: u16 = 1;

/// A leaf, with all that is compared.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) credential: Credential,
    /// The key that the device signs with.
    pub(crate) signature_key: PublicKey,
    pub(crate) source: Source,
    pub(crate) encryption_key: Vec<u8>,
    pub(crate) credential_bytes: Vec<u8>,
    signature: Vec<u8>,
}

/// Where a leaf is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    KeyPackage { not_before: u64, not_after: u64 },
    Commit,
}

/// The leaves by their index.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) leaves: BTreeMap<u32, Leaf>,
    pub(crate) parent_keys: Vec<Vec<u8>>,
}

impl Tree {
    /// Reads an exported tree.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let mut outer = Reader::new(bytes, "ratchet tree");
        let mut nodes = Reader::new(outer.vector()?, "ratchet tree");
        outer.end()?;
        let mut tree = Self { leaves: BTreeMap::new(), parent_keys: Vec::new() };
        // Leaves have the even places.
        for place in 0_u32.. {
            if nodes.is_empty() {
                break;
            }
            match (nodes.u8()?, place % 2) {
                (0, _) => {}
                (1, 0) if nodes.u8()? == 1 => {
                    tree.leaves.insert(place / 2, Leaf::read(&mut nodes)?);
                }
                (1, 1) if nodes.u8()? == 2 => {
                    tree.parent_keys.push(nodes.vector()?.to_vec());
                    nodes.vector()?;
                    nodes.vector()?;
                }
                _ => return Err(Error::Malformed("ratchet tree")),
            }
        }
        Ok(tree)
    }

    /// Checks what holds for a tree by itself, so that all members judge alike.
    pub(crate) fn check(&self) -> Result<()> {
        let mut encryption_keys: BTreeSet<&[u8]> = BTreeSet::new();
        let leaf_keys = self.leaves.values().map(|leaf| &leaf.encryption_key);
        for key in leaf_keys.chain(&self.parent_keys) {
            ensure(is_key(key), Error::Profile("an encryption key has a small order"))?;
            ensure(encryption_keys.insert(key), Error::Profile("two nodes have one encryption key"))?;
        }
        let mut signature_keys = BTreeSet::new();
        let mut devices: BTreeSet<(&UserId, &DeviceId)> = BTreeSet::new();
        let mut identities: BTreeMap<&UserId, &PublicKey> = BTreeMap::new();
        for leaf in self.leaves.values() {
            let Credential { user, device, key } = &leaf.credential;
            ensure(signature_keys.insert(leaf.signature_key), Error::Profile("two leaves have one signature key"))?;
            ensure(devices.insert((user, device)), Error::Profile("a device has two leaves"))?;
            let is_one = *identities.entry(user).or_insert(key) == key;
            ensure(is_one, Error::Profile("a user has two identities"))?;
        }
        Ok(())
    }

    /// Verifies that identities signed these leaves' devices.
    pub(crate) fn verify<'a>(leaves: impl IntoIterator<Item = &'a Leaf>) -> Result<()> {
        leaves.into_iter().try_for_each(Leaf::verify)
    }

    /// Returns the users with a leaf who are no members.
    pub(crate) fn strangers(&self, conversation: &Conversation) -> BTreeSet<UserId> {
        let users = self.leaves.values().map(|leaf| &leaf.credential.user);
        users.filter(|user| !conversation.has(user)).cloned().collect()
    }

    pub(crate) fn has_user(&self, user: &UserId) -> bool {
        self.leaves.values().any(|leaf| leaf.credential.user == *user)
    }

    /// Returns the leaf of a device.
    pub(crate) fn find(&self, user: &UserId, device: &DeviceId) -> Option<u32> {
        let is_its = |leaf: &Leaf| leaf.credential.user == *user && leaf.credential.device == *device;
        self.leaves.iter().find(|(_, leaf)| is_its(leaf)).map(|(place, _)| *place)
    }

    /// Returns the places whose leaves differ.
    pub(crate) fn changed<'a>(&'a self, after: &'a Self) -> BTreeSet<u32> {
        let places = self.leaves.keys().chain(after.leaves.keys()).copied();
        places.filter(|place| self.leaves.get(place) != after.leaves.get(place)).collect()
    }
}

impl Leaf {
    pub(crate) fn read(nodes: &mut Reader<'_>) -> Result<Self> {
        let encryption_key = nodes.vector()?.to_vec();
        let signature_key = nodes.vector()?.try_into().map_err(|_| Error::Malformed("signature key"))?;
        ensure(nodes.u16()? == BASIC, Error::Profile("the credential is not basic"))?;
        let credential_bytes = nodes.vector()?.to_vec();
        let Unverified { credential, .. } = Credential::read(&credential_bytes)?;
        ensure(nodes.take(CAPABILITIES.len())? == CAPABILITIES, Error::Profile("a leaf has other capabilities"))?;
        let source = match nodes.u8()? {
            1 => Source::KeyPackage { not_before: nodes.u64()?, not_after: nodes.u64()? },
            3 => {
                nodes.vector()?;
                Source::Commit
            }
            _ => return Err(Error::Profile("a leaf is from an update proposal")),
        };
        ensure(nodes.vector()?.is_empty(), Error::Profile("a leaf has extensions"))?;
        let signature = nodes.vector()?.to_vec();
        Ok(Self { credential, signature_key, source, encryption_key, credential_bytes, signature })
    }

    /// Verifies that the identity signed the device. The library verifies the leaf's own signature.
    pub(crate) fn verify(&self) -> Result<()> {
        Credential::verify(&self.credential_bytes, &self.signature_key).map(|_| ())
    }

    pub(crate) fn has_key(&self) -> bool {
        is_key(&self.encryption_key)
    }

    /// Returns whether this is the other leaf with new encryption keys, and nothing else new.
    pub(crate) fn renews(&self, other: &Self) -> bool {
        self.credential_bytes == other.credential_bytes
            && self.signature_key == other.signature_key
            && self.source == Source::Commit
            && self.encryption_key != other.encryption_key
    }
}
