//! The changes of a group: births, joins, and commits by this device and by other members.

use std::time::Duration;

use mls_rs::ExtensionList;
use mls_rs::MlsMessage;
use mls_rs::group::ReceivedMessage;
use mls_rs::time::MlsTime;
use wire::{ClientMsgId, DeviceId, UserId};
use zeroize::Zeroizing;

use crate::conversation::{Conversation, Entry, NO_MARK, authenticated};
use crate::error::{Error, Result, ensure};
use crate::framing::Framed;
use crate::group::{Group, check_framing, epoch, mark};
use crate::identity::{Credential, Device};
use crate::judge::{self, Change, Named};
use crate::mls::{self, MlsGroup, Store, client};
use crate::package::{self, Checked};
use crate::tree::Tree;

/// A commit by this device, from its making until its entry is in the log.
///
/// A client stores all of it before it sends the request. If another commit is first, the client deletes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The request's idempotency key.
    pub client_msg_id: ClientMsgId,
    /// The epoch that the commit ends, as the request has it.
    pub epoch: u64,
    /// The commit. A birth has none.
    pub commit: Option<Vec<u8>>,
    /// The Welcome, where devices are added.
    pub welcome: Option<Vec<u8>>,
    /// The data that a device needs to join by itself.
    pub group_info: Vec<u8>,
    /// The group of the epoch that begins, with the tree that the request has.
    pub next: Group,
}

/// The change by a member's commit. A commit makes one.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Adds the devices of these packages.
    Add(&'a [Checked]),
    /// Removes these devices.
    Remove(&'a [(&'a UserId, &'a DeviceId)]),
    /// Renews the own keys.
    Update,
}

/// The outcome of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The group is in the next epoch.
    Changed(Group, Change),
    /// The commit removed this device, which has no part in the next epoch.
    Removed,
}

impl Device {
    /// Begins a group, in a conversation whose epoch is `epoch`. Later epochs than 0 are a reset.
    pub fn birth(
        &self,
        conversation: &Conversation,
        client_msg_id: &ClientMsgId,
        epoch: u64,
        packages: &[Checked],
        now_s: u64,
    ) -> Result<Pending> {
        let (group_info, welcome, next) = self.found(conversation, epoch, packages, now_s)?;
        let tree = Tree::read(next.tree())?;
        judge::birth(&tree, conversation)?;
        Ok(Pending { client_msg_id: client_msg_id.clone(), epoch, commit: None, welcome, group_info, next })
    }

    /// Makes a group of MLS epoch 1, so that a conversation's epoch is always that before the birth and MLS's, together.
    pub(crate) fn found(
        &self,
        conversation: &Conversation,
        epoch: u64,
        packages: &[Checked],
        now_s: u64,
    ) -> Result<(Vec<u8>, Option<Vec<u8>>, Group)> {
        let store = Store::default();
        let client = client(&store, Some(self), Duration::from_secs(package::PACKAGE_LIFETIME_S));
        let none = ExtensionList::new;
        let now = MlsTime::from(now_s);
        let mut group = client.create_group_with_id(conversation.group_id(epoch), none(), none(), Some(now))?;
        let mut commit = group.commit_builder().commit_time(now);
        for package in packages {
            commit = commit.add_member(package.message.clone())?;
        }
        let welcome = welcome(commit.build()?.welcome_messages())?;
        group.apply_pending_commit()?;
        Ok((group_info(&group)?, welcome, Group::new(&store, &mut group)?))
    }

    /// Joins by the Welcome of an entry, with the tree of the entry and the private parts of this device's packages, by
    /// reference. `is_birth`: the entry has no commit.
    ///
    /// Returns the group and the reference of the package that it used, whose private part the caller deletes with the same
    /// write. The private part of a last resort stays for two more days.
    pub fn join_by_welcome(
        &self,
        entry: Entry<'_>,
        is_birth: bool,
        bytes: &[u8],
        tree: &[u8],
        private: &[(Vec<u8>, Zeroizing<Vec<u8>>)],
    ) -> Result<(Group, Vec<u8>)> {
        let store = package::stored(private)?;
        let client = client(&store, Some(self), Duration::ZERO);
        let message = MlsMessage::from_bytes(bytes).map_err(|_| Error::Malformed("welcome"))?;
        // Without a time: lifetimes count at the claim. A phone that was offline for longer still joins.
        let (mut group, info) = match client.join_group(Some(mls::tree(tree)?), &message, None) {
            Ok(joined) => joined,
            Err(mls_rs::error::MlsError::WelcomeKeyPackageNotFound) => return Err(Error::NotForUs),
            Err(source) => return Err(Error::Unopened { own_mark: false, source: Box::new(source) }),
        };
        ensure(info.group_info_extensions.is_empty(), Error::Profile("the Welcome has extensions"))?;
        let ours = epoch(entry.conversation, &group)?;
        ensure(ours == entry.epoch, Error::Epoch { ours, theirs: entry.epoch })?;
        ensure(!is_birth || group.current_epoch() == 1, Error::Profile("the birth is no birth"))?;
        let sender = mls::member(&group, info.sender)?;
        ensure(sender.user == *entry.sender_id, Error::Misplaced("the Welcome is of another sender"))?;
        let joined = Group::new(&store, &mut group)?;
        let tree = Tree::read(joined.tree())?;
        judge::join(&tree, entry.conversation)?;
        // Else a user who left could begin the group anew, with the server's help.
        let is_member = !is_birth || !entry.conversation.has_lost(entry.sender_id);
        ensure(is_member, Error::Misplaced("the birth is of no member"))?;
        judge::own_leaf(&tree, group.current_member_index(), self)?;
        let left = store.take_packages();
        let used = private.iter().find(|(reference, _)| left.iter().all(|(other, _)| other != reference));
        Ok((joined, used.ok_or(Error::NotForUs)?.0.clone()))
    }

    /// Joins by itself, with what the action `group_info` returned for this epoch. The old leaf of the device is removed.
    ///
    /// The server can return a group that no member has. The device has joined when another member's message or commit
    /// has opened, and not before. No time comes in: lifetimes count at the claim, and the new leaf has none.
    pub fn join_external(
        &self,
        conversation: &Conversation,
        client_msg_id: &ClientMsgId,
        epoch_now: u64,
        bytes: &[u8],
        tree: &[u8],
    ) -> Result<Pending> {
        let before = Tree::read(tree)?;
        judge::join(&before, conversation)?;
        let message = MlsMessage::from_bytes(bytes).map_err(|_| Error::Malformed("group info"))?;
        let store = Store::default();
        let client = client(&store, Some(self), Duration::from_secs(package::PACKAGE_LIFETIME_S));
        let mut builder = client
            .external_commit_builder()?
            .with_tree_data(mls::tree(tree)?)
            .with_authenticated_data(authenticated(conversation.id(), client_msg_id, NO_MARK));
        if let Some(old) = before.find(&self.member().user, &self.member().device) {
            builder = builder.with_removal(old);
        }
        let (mut group, commit) = builder.build(message)?;
        let begins = epoch(conversation, &group)?;
        ensure(begins == epoch_now.saturating_add(1), Error::Epoch { ours: epoch_now, theirs: begins })?;
        let commit = Some(commit.to_bytes()?);
        let group_info = group_info(&group)?;
        let by = group.current_member_index();
        let next = Group::new(&store, &mut group)?;
        let after = Tree::read(next.tree())?;
        judge::own_leaf(&after, by, self)?;
        judge::external(&before, &after, by)?;
        Ok(Pending { client_msg_id: client_msg_id.clone(), epoch: epoch_now, commit, welcome: None, group_info, next })
    }
}

impl Group {
    /// Makes a commit. Returns this epoch's group, which has used a key for it, and the commit.
    pub fn commit(
        &self,
        conversation: &Conversation,
        client_msg_id: &ClientMsgId,
        step: Step<'_>,
        now_s: u64,
    ) -> Result<(Self, Pending)> {
        let before = Tree::read(self.tree())?;
        let (store, mut group) = self.load_in()?;
        let epoch = epoch(conversation, &group)?;
        let data = authenticated(conversation.id(), client_msg_id, mark(&group)?);
        let mut builder = group.commit_builder().authenticated_data(data).commit_time(MlsTime::from(now_s));
        match step {
            Step::Add(packages) => {
                ensure(!packages.is_empty(), Error::Profile("the commit adds no device"))?;
                for package in packages {
                    builder = builder.add_member(package.message.clone())?;
                }
            }
            Step::Remove(devices) => {
                ensure(!devices.is_empty(), Error::Profile("the commit removes no device"))?;
                for (user, device) in devices {
                    let place = before.find(user, device).ok_or(Error::Profile("the device has no leaf"))?;
                    builder = builder.remove_member(place)?;
                }
            }
            Step::Update => {}
        }
        let (output, secrets) = builder.build_detached()?;
        let moved = self.moved(&store, &mut group)?;
        let kind = judge::kind(&group.apply_detached_commit(secrets)?)?
            .ok_or(Error::Profile("a commit removes its author"))?;
        let next = Self::new(&store, &mut group)?;
        judge::commit(&before, &Tree::read(next.tree())?, kind, group.current_member_index(), conversation)?;
        let pending = Pending {
            client_msg_id: client_msg_id.clone(),
            epoch,
            commit: Some(output.commit_message().to_bytes()?),
            welcome: welcome(output.welcome_messages())?,
            group_info: group_info(&group)?,
            next,
        };
        Ok((moved, pending))
    }

    /// Follows another's commit. `named`: the users that the entry names, in a group.
    pub fn follow(&self, entry: Entry<'_>, bytes: &[u8], named: Option<Named<'_>>) -> Result<Followed> {
        let before = Tree::read(self.tree())?;
        let (store, mut group) = self.load_in()?;
        let (client_msg_id, own_mark) = check_framing(&group, entry, bytes, &[Framed::Commit, Framed::Join])?;
        let unopened = |source| Error::Unopened { own_mark, source: Box::new(source) };
        // Without a time, so that all members judge alike, whenever they read the commit. The adder checked the lifetime.
        let received = MlsMessage::from_bytes(bytes).and_then(|message| group.process_incoming_message(message));
        let ReceivedMessage::Commit(commit) = received.map_err(unopened)? else {
            return Err(Error::Malformed("commit"));
        };
        ensure(own_mark, Error::Profile("the mark is of another epoch"))?;
        let Some(kind) = judge::kind(&commit)? else {
            judge::removal(&before, &commit, group.current_member_index(), entry, named)?;
            return Ok(Followed::Removed);
        };
        let next = Self::new(&store, &mut group)?;
        epoch(entry.conversation, &group)?;
        let after = Tree::read(next.tree())?;
        let change = judge::commit(&before, &after, kind, commit.committer, entry.conversation)?;
        judge::entry(&before, &after, &change, entry, named)?;
        Ok(Followed::Changed(next, Change { client_msg_id: Some(client_msg_id), ..change }))
    }
}

impl Pending {
    /// Takes the own commit in, at its place in the log. The entry is known by its bytes.
    pub fn merge(
        &self,
        own: &Credential,
        entry: Entry<'_>,
        commit: Option<&[u8]>,
        welcome: Option<&[u8]>,
    ) -> Result<Group> {
        let is_ours = *entry.sender_id == own.user
            && entry.client_msg_id == Some(&self.client_msg_id)
            && commit == self.commit.as_deref()
            && welcome == self.welcome.as_deref();
        ensure(is_ours, Error::Misplaced("the commit is another"))?;
        let begins = self.next.epoch(entry.conversation)?;
        ensure(entry.epoch == begins, Error::Epoch { ours: begins, theirs: entry.epoch })?;
        Ok(self.next.clone())
    }
}

fn group_info(group: &MlsGroup) -> Result<Vec<u8>> {
    Ok(group.group_info_message_allowing_ext_commit(false)?.to_bytes()?)
}

fn welcome(messages: &[MlsMessage]) -> Result<Option<Vec<u8>>> {
    Ok(messages.first().map(MlsMessage::to_bytes).transpose()?)
}
