//! The rules for commits. All members judge by the log and the trees alone, so that all judge alike. A commit that one
//! member accepts and another refuses is a fork.

use std::collections::BTreeSet;

use mls_rs::group::proposal::Proposal;
use mls_rs::group::{CommitEffect, CommitMessageDescription};
use wire::{ClientMsgId, UserId};

use crate::conversation::{Conversation, Entry};
use crate::error::{Error, Result, ensure};
use crate::identity::{Credential, Device};
use crate::tree::{Leaf, Source, Tree};

/// The kinds of commits. Each does one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A member added devices.
    Add,
    /// A member removed devices.
    Remove,
    /// A member renewed its keys.
    Update,
    /// A device joined by itself.
    Join,
}

/// The devices that a commit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind.
    pub kind: Kind,
    /// The member or joiner who made it.
    pub by: Credential,
    /// The devices that are new.
    pub added: Vec<Credential>,
    /// The devices that are gone.
    pub removed: Vec<Credential>,
    /// The author's idempotency key, of a commit of another.
    pub client_msg_id: Option<ClientMsgId>,
}

/// The users that an entry of a group names.
#[derive(Clone, Copy, Debug)]
pub enum Named<'a> {
    /// A system entry.
    System {
        /// The users who were added.
        added: &'a BTreeSet<UserId>,
        /// The users who were removed.
        removed: &'a BTreeSet<UserId>,
    },
    /// A commit.
    Commit {
        /// The former members whose devices it removes.
        removes: &'a BTreeSet<UserId>,
    },
}

/// Checks the tree of a birth: the leaves are of members.
pub(crate) fn birth(tree: &Tree, conversation: &Conversation) -> Result<()> {
    tree.check()?;
    Tree::verify(tree.leaves.values())?;
    ensure(tree.strangers(conversation).is_empty(), Error::Profile("a leaf is of no member"))
}

/// Checks the tree that a device joins. A group may still have the leaf of a user who left, until the next commit. So may
/// a birth, whose author did not know it yet. A later device does not see the members of a birth.
pub(crate) fn join(tree: &Tree, conversation: &Conversation) -> Result<()> {
    if conversation.is_direct() {
        return birth(tree, conversation);
    }
    tree.check()?;
    Tree::verify(tree.leaves.values())
}

/// Checks the tree of a birth that ends an epoch in which the device has a part. Such a device has the log, and knows who
/// is a member and who was one. Behind its list of members it does not: a user may have left in between.
pub(crate) fn reset(before: &Tree, after: &Tree, conversation: &Conversation) -> Result<()> {
    let may_have_left = |user: &UserId| conversation.has_lost(user) || conversation.is_behind_list();
    let was_member = |leaf: &Leaf| !conversation.is_direct() && may_have_left(&leaf.credential.user);
    are_members(after.leaves.values().filter(|leaf| !was_member(leaf)), before, conversation)
}

/// A device that joined later may not know of a member, whose leaf it sees.
fn are_members<'a>(
    leaves: impl IntoIterator<Item = &'a Leaf>,
    before: &Tree,
    conversation: &Conversation,
) -> Result<()> {
    let is_member = |user: &UserId| {
        conversation.has(user) || (!conversation.is_direct() && !conversation.has_lost(user) && before.has_user(user))
    };
    let are_members = leaves.into_iter().all(|leaf| is_member(&leaf.credential.user));
    ensure(are_members, Error::Profile("the commit adds a stranger"))
}

/// Checks that a leaf is this device's.
pub(crate) fn own_leaf(tree: &Tree, place: u32, device: &Device) -> Result<()> {
    let leaf = tree.leaves.get(&place).ok_or(Error::NotForUs)?;
    let is_own = leaf.credential == *device.member() && leaf.signature_key == device.leaf_key();
    ensure(is_own, Error::Profile("the own leaf is another"))
}

/// Returns the kind of a commit by its proposals, or `None` if it removed this device.
pub(crate) fn kind(commit: &CommitMessageDescription) -> Result<Option<Kind>> {
    let (epoch, ours) = match &commit.effect {
        CommitEffect::NewEpoch(epoch) => (epoch, true),
        CommitEffect::Removed { new_epoch, .. } => (new_epoch, false),
        CommitEffect::ReInit(_) => return Err(Error::Profile("the commit ends the group")),
    };
    let (mut adds, mut removes, mut joins) = (0, 0, 0);
    for info in epoch.applied_proposals() {
        match &info.proposal {
            Proposal::Add(_) => adds += 1,
            Proposal::Remove(_) => removes += 1,
            Proposal::ExternalInit(_) => joins += 1,
            // Extensions, ReInit, and what later versions of the library have.
            _ => return Err(Error::Profile("a proposal that no commit has")),
        }
    }
    let kind = match (commit.is_external, adds, removes, joins) {
        (true, 0, 0 | 1, 1) => Kind::Join,
        (false, 1.., 0, 0) => Kind::Add,
        (false, 0, 1.., 0) => Kind::Remove,
        (false, 0, 0, 0) => Kind::Update,
        _ => return Err(Error::Profile("the commit does two things")),
    };
    Ok(ours.then_some(kind))
}

/// Checks the outcome of a commit of this kind, by the leaf at this place.
pub(crate) fn commit(before: &Tree, after: &Tree, kind: Kind, by: u32, conversation: &Conversation) -> Result<Change> {
    after.check()?;
    let places = before.changed(after);
    let place = by;
    let by = after.leaves.get(&place).ok_or(Error::Profile("the author has no leaf"))?;
    let (gone, fresh): (Vec<&Leaf>, Vec<&Leaf>) = if kind == Kind::Join {
        external(before, after, place)?
    } else {
        let own = before.leaves.get(&place).ok_or(Error::Profile("the author has no leaf"))?;
        let is_renewed = by.renews(own);
        let is_right = if kind == Kind::Add { own == by } else { is_renewed };
        ensure(is_right, Error::Profile("the author's leaf is not as this commit leaves it"))?;
        let others = || places.iter().filter(|other| **other != place);
        let gone: Vec<_> = others().filter_map(|place| before.leaves.get(place)).collect();
        let fresh: Vec<_> = others().filter_map(|place| after.leaves.get(place)).collect();
        let is_one_thing = match kind {
            Kind::Add => gone.is_empty() && !fresh.is_empty(),
            Kind::Remove => !gone.is_empty() && fresh.is_empty(),
            Kind::Update | Kind::Join => gone.is_empty() && fresh.is_empty(),
        };
        ensure(is_one_thing, Error::Profile("the commit changes the leaf of another"))?;
        let are_packages = fresh.iter().all(|leaf| matches!(leaf.source, Source::KeyPackage { .. }));
        ensure(are_packages, Error::Profile("an added leaf is from no package"))?;
        (gone, fresh)
    };
    Tree::verify(fresh.iter().copied())?;
    are_members(fresh.iter().copied(), before, conversation)?;
    let names = |leaves: Vec<&Leaf>| leaves.into_iter().map(|leaf| leaf.credential.clone()).collect();
    let by = by.credential.clone();
    Ok(Change { kind, by, added: names(fresh), removed: names(gone), client_msg_id: None })
}

/// Checks the outcome of an external join: of a checked tree, or with own new keys. Returns the leaf that is gone and the one that is new.
pub(crate) fn external<'a>(before: &'a Tree, after: &'a Tree, by: u32) -> Result<(Vec<&'a Leaf>, Vec<&'a Leaf>)> {
    let fresh = after.leaves.get(&by).ok_or(Error::Profile("the author has no leaf"))?;
    let places = before.changed(after);
    let is_alone = places.iter().all(|place| *place == by || !after.leaves.contains_key(place));
    ensure(is_alone, Error::Profile("the join changes the leaf of another"))?;
    let gone: Vec<_> = places.iter().filter_map(|place| before.leaves.get(place)).collect();
    let is_own = gone.iter().all(|leaf| leaf.credential.is_device(&fresh.credential));
    ensure(is_own && gone.len() <= 1, Error::Profile("the join removes another device"))?;
    // Else the server could let a device of its own in, as a member's with another identity.
    let is_known = before
        .leaves
        .values()
        .any(|leaf| leaf.credential.user == fresh.credential.user && leaf.credential.key == fresh.credential.key);
    ensure(is_known, Error::Profile("no leaf has the joiner's identity"))?;
    Ok((gone, vec![fresh]))
}

/// Checks that the entry says what its commit does.
pub(crate) fn entry(
    before: &Tree,
    after: &Tree,
    change: &Change,
    entry: Entry<'_>,
    named: Option<Named<'_>>,
) -> Result<()> {
    check_sender(&change.by.user, before, after, entry)?;
    match named {
        None => Ok(()),
        Some(Named::System { added, removed }) => {
            let are_named = |devices: &[Credential], users: &BTreeSet<UserId>| {
                devices.iter().all(|leaf| users.contains(&leaf.user))
            };
            let is_said = are_named(&change.added, added) && are_named(&change.removed, removed);
            ensure(is_said, Error::Misplaced("the entry does not name whom the commit adds or removes"))?;
            let is_done =
                removed.iter().all(|user| !after.has_user(user)) && added.iter().all(|user| after.has_user(user));
            ensure(is_done, Error::Misplaced("the commit does not do what the entry names"))
        }
        Some(Named::Commit { removes }) => {
            let may_go = |leaf: &Credential| may_go(&leaf.user, &change.by.user, removes, entry);
            ensure(change.removed.iter().all(may_go), Error::Misplaced("the commit removes a member"))?;
            let are_gone = removes.iter().all(|user| !after.has_user(user));
            ensure(are_gone, Error::Misplaced("the commit does not remove whom its entry names"))
        }
    }
}

/// A commit without a system entry removes lost devices of its author, and former members whom it names.
fn may_go(user: &UserId, by: &UserId, removes: &BTreeSet<UserId>, entry: Entry<'_>) -> bool {
    user == by || (removes.contains(user) && !entry.conversation.has(user))
}

/// Checks a commit that removed this device, which does not see the outcome. `own`: the place of the device's leaf.
pub(crate) fn removal(
    before: &Tree,
    commit: &CommitMessageDescription,
    own: u32,
    entry: Entry<'_>,
    named: Option<Named<'_>>,
) -> Result<()> {
    // The library lets a join remove a leaf of the same device only.
    let place = if commit.is_external { own } else { commit.committer };
    let by = before.leaves.get(&place).ok_or(Error::Profile("the author has no leaf"))?;
    check_sender(&by.credential.user, before, before, entry)?;
    let me = &before.leaves.get(&own).ok_or(Error::Profile("the own leaf is another"))?.credential.user;
    let is_said = match named {
        None => true,
        Some(Named::System { removed, .. }) => removed.contains(me),
        Some(Named::Commit { removes }) => may_go(me, &by.credential.user, removes, entry),
    };
    ensure(is_said, Error::Misplaced("the commit removes a member"))
}

/// An erased user's entry has a new sender, who has no leaf, and keeps its bytes.
fn check_sender(by: &UserId, before: &Tree, after: &Tree, entry: Entry<'_>) -> Result<()> {
    let is_erased = !before.has_user(entry.sender_id) && !after.has_user(entry.sender_id);
    let is_sender = by == entry.sender_id || is_erased;
    ensure(is_sender, Error::Misplaced("the commit is of another sender"))
}
