//! A group as bytes, and the messages of its members.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mls_rs::MlsMessage;
use mls_rs::group::ReceivedMessage;
use sha2::{Digest, Sha256};
use wire::{ClientMsgId, UserId};
use zeroize::Zeroizing;

use crate::conversation::{Conversation, Entry, Mark, authenticated};
use crate::error::{Error, Result, ensure};
use crate::framing::{Framed, Framing};
use crate::identity::Credential;
use crate::mls::{self, MlsGroup, Store, client};
use crate::tree::Tree;

/// The version of a stored state.
const VERSION: u8 = 1;
const MARK_LABEL: &[u8] = b"pigeonhole mark 1";

/// A device's state of a group, between two calls.
///
/// The state changes with every message, the tree with commits only. A client stores both, the tree apart: with 200 leaves
/// it has 70 KB, the state less than 1 KB. When a call returns a new state, the client deletes the old one: forward secrecy
/// needs the deletion.
#[derive(Clone, PartialEq, Eq)]
pub struct Group {
    state: Arc<Zeroizing<Vec<u8>>>,
    tree: Arc<Vec<u8>>,
}

/// A member's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The member whose leaf sealed the message: the entry's sender.
    pub by: Credential,
    /// The author's idempotency key.
    pub client_msg_id: ClientMsgId,
    /// The plaintext with its padding. [`Envelope::read`](crate::Envelope::read) reads it.
    pub plaintext: Vec<u8>,
}

impl Group {
    /// Reads a state and its tree from the storage.
    pub fn from_stored(state: Vec<u8>, tree: Vec<u8>) -> Result<Self> {
        let group = Self { state: Arc::new(Zeroizing::new(state)), tree: Arc::new(tree) };
        group.snapshot()?;
        Ok(group)
    }

    /// Returns the state, for the storage.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Returns the tree, for the storage, and for an entry with a Welcome.
    pub fn tree(&self) -> &[u8] {
        &self.tree
    }

    /// Returns the conversation's epoch: how many commits it has.
    pub fn epoch(&self, conversation: &Conversation) -> Result<u64> {
        epoch(conversation, &self.load()?)
    }

    /// Returns the devices of the group.
    pub fn members(&self) -> Result<Vec<Credential>> {
        Ok(Tree::read(&self.tree)?.leaves.into_values().map(|leaf| leaf.credential).collect())
    }

    /// Returns the users with a device in the group who are no members. While there is one, nothing is sealed.
    pub fn strangers(&self, conversation: &Conversation) -> Result<BTreeSet<UserId>> {
        Ok(Tree::read(&self.tree)?.strangers(conversation))
    }

    /// Returns the epoch's authenticator, which two devices have in common exactly if they share the epoch.
    pub fn authenticator(&self) -> Result<Vec<u8>> {
        Ok(self.load()?.epoch_authenticator()?.as_bytes().to_vec())
    }

    /// Returns the mark of the epoch.
    pub fn mark(&self) -> Result<Mark> {
        mark(&self.load()?)
    }

    /// Seals a plaintext. The client stores the result and the state in one write before it sends, and sends the same bytes
    /// until the server replies.
    pub fn seal(
        &self,
        conversation: &Conversation,
        client_msg_id: &ClientMsgId,
        plaintext: &[u8],
    ) -> Result<(Self, Vec<u8>)> {
        ensure(self.strangers(conversation)?.is_empty(), Error::Profile("a leaf is of no member"))?;
        let (store, mut group) = self.load_in()?;
        epoch(conversation, &group)?;
        let data = authenticated(conversation.id(), client_msg_id, mark(&group)?);
        let sealed = group.encrypt_application_message(plaintext, data)?.to_bytes()?;
        Ok((self.moved(&store, &mut group)?, sealed))
    }

    /// Opens the body of an entry. The key is gone from the new state.
    pub fn open(&self, entry: Entry<'_>, body: &[u8]) -> Result<(Self, Opened)> {
        let (store, mut group) = self.load_in()?;
        let (client_msg_id, own_mark) = check_framing(&group, entry, body, &[Framed::Application])?;
        let unopened = |source| Error::Unopened { own_mark, source: Box::new(source) };
        // On an error the library has used up the key already. Only `group`, a copy, has lost it.
        let received = MlsMessage::from_bytes(body).and_then(|message| group.process_incoming_message(message));
        let ReceivedMessage::ApplicationMessage(message) = received.map_err(unopened)? else {
            return Err(Error::Malformed("message"));
        };
        let by = mls::member(&group, message.sender_index)?;
        ensure(by.user == *entry.sender_id, Error::Misplaced("the message is of another sender"))?;
        ensure(own_mark, Error::Profile("the mark is of another epoch"))?;
        let opened = Opened { by, client_msg_id, plaintext: message.data().to_vec() };
        Ok((self.moved(&store, &mut group)?, opened))
    }

    /// Opens the body of an entry and leaves the state as it is, for a notification: the app opens it again.
    pub fn peek(&self, entry: Entry<'_>, body: &[u8]) -> Result<Opened> {
        self.open(entry, body).map(|(_, opened)| opened)
    }

    pub(crate) fn load(&self) -> Result<MlsGroup> {
        self.load_in().map(|(_, group)| group)
    }

    /// Makes the library's group of the bytes. No such group survives a call.
    pub(crate) fn load_in(&self) -> Result<(Store, MlsGroup)> {
        let store = Store::with_state(self.snapshot()?);
        let client = client(&store, None, Duration::ZERO);
        let group = client.load_group_with_ratchet_tree(&[], mls::tree(&self.tree)?);
        Ok((store, group.map_err(|_| Error::State("group"))?))
    }

    /// Returns the bytes of a group whose tree is still the same.
    pub(crate) fn moved(&self, store: &Store, group: &mut MlsGroup) -> Result<Self> {
        Self::with_tree(store, group, Arc::clone(&self.tree))
    }

    /// Returns the bytes of a group.
    pub(crate) fn new(store: &Store, group: &mut MlsGroup) -> Result<Self> {
        let tree = group.export_tree().to_bytes()?;
        Self::with_tree(store, group, Arc::new(tree))
    }

    fn with_tree(store: &Store, group: &mut MlsGroup, tree: Arc<Vec<u8>>) -> Result<Self> {
        group.write_to_storage_without_ratchet_tree()?;
        let snapshot = store.take_state()?;
        let state = [&[VERSION][..], &digest(&tree), &digest(&snapshot), &snapshot].concat();
        Ok(Self { state: Arc::new(Zeroizing::new(state)), tree })
    }

    fn snapshot(&self) -> Result<&[u8]> {
        let (version, rest) = self.state.split_first().ok_or(Error::State("group"))?;
        ensure(*version == VERSION, Error::State("a later version wrote the group"))?;
        let (of_tree, rest) = rest.split_first_chunk().ok_or(Error::State("group"))?;
        ensure(*of_tree == digest(&self.tree), Error::State("the tree is of another epoch"))?;
        // A damaged snapshot would let the library panic.
        let (of_snapshot, snapshot) = rest.split_first_chunk().ok_or(Error::State("group"))?;
        ensure(*of_snapshot == digest(snapshot), Error::State("the group is damaged"))?;
        Ok(snapshot)
    }
}

/// Keeps secrets out of logs.
impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(crate) fn mark(group: &MlsGroup) -> Result<Mark> {
    let secret = group.export_secret(MARK_LABEL, b"", size_of::<Mark>())?;
    secret.as_bytes().try_into().map_err(|_| Error::State("mark"))
}

/// Returns the conversation's epoch, and checks what the profile fixes of a group's context.
pub(crate) fn epoch(conversation: &Conversation, group: &MlsGroup) -> Result<u64> {
    let context = group.context();
    ensure(context.extensions().is_empty(), Error::Profile("the group has extensions"))?;
    let before = conversation.epoch_before(context.group_id())?;
    before.checked_add(context.epoch()).ok_or(Error::Profile("the epoch is too high"))
}

/// Checks the outside of a message, before the library sees it. Returns the author's idempotency key, and whether the
/// mark is the epoch's.
pub(crate) fn check_framing(
    group: &MlsGroup,
    entry: Entry<'_>,
    bytes: &[u8],
    kinds: &[Framed],
) -> Result<(ClientMsgId, bool)> {
    let framing = Framing::read(bytes)?;
    ensure(kinds.contains(&framing.kind), Error::Malformed("another kind of message"))?;
    ensure(framing.group_id == group.group_id(), Error::Misplaced("the bytes are of another group"))?;
    let ours = epoch(entry.conversation, group)?;
    let begins = if framing.kind == Framed::Application { ours } else { ours.saturating_add(1) };
    ensure(entry.epoch == begins, Error::Epoch { ours: begins, theirs: entry.epoch })?;
    let theirs = framing.epoch;
    ensure(theirs == group.current_epoch(), Error::Epoch { ours: group.current_epoch(), theirs })?;
    let (client_msg_id, theirs) = entry.check_authenticated(framing.authenticated)?;
    let ours = if framing.kind == Framed::Join { crate::conversation::NO_MARK } else { mark(group)? };
    Ok((client_msg_id, ours == theirs))
}
