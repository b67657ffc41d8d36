//! The users whom a change brings into a group or a channel.

use std::collections::HashMap;

use domain::{Failure, Head, Newcomer, RosterRow};
use futures_util::future::try_join_all;
use store::inbox::Acquaintance;
use store::message_append::FirstMessage;
use store::{Store, channels, inbox, views};
use wire::limits::{CHANNELS_ADDED_MAX, CHANNELS_PER_USER_MAX};
use wire::{ConversationId, ConversationKind, NotAdded, Refusal, Role, Timestamp, UserId};

use crate::sends::SendLimits;

/// Reads what decides on each user to be added. A user who left a group is in its member list until the own row records
/// the leave.
pub(crate) async fn known(
    store: &Store,
    head: &Head,
    subjects: &[RosterRow],
    users: Vec<UserId>,
) -> Result<Vec<Newcomer>, Failure> {
    let conversation = &head.conversation_id;
    match conversation.kind() {
        ConversationKind::Channel => {
            let removed = channels::removed(store, conversation, &users).await?;
            of_channel(store, users, &removed).await
        }
        ConversationKind::Direct | ConversationKind::Group => of_group(store, conversation, subjects, users).await,
    }
}

async fn of_group(
    store: &Store,
    group: &ConversationId,
    subjects: &[RosterRow],
    users: Vec<UserId>,
) -> Result<Vec<Newcomer>, Failure> {
    let listed: HashMap<&UserId, u64> = subjects.iter().map(|row| (&row.user_id, row.leaves)).collect();
    let listed = |user: &UserId| listed.get(user).copied();
    let others: Vec<UserId> = users.iter().filter(|user| listed(user).is_none()).cloned().collect();
    let others = views::leaves(store, group, &others).await?;
    let leaves = |user: &UserId| listed(user).or_else(|| others.get(user).copied()).unwrap_or_default();
    Ok(users.into_iter().map(|user| Newcomer { leaves: leaves(&user), ..Newcomer::of(user) }).collect())
}

/// Reads the same for a channel, from which an admin has `removed` these users.
pub(crate) async fn of_channel(
    store: &Store,
    users: Vec<UserId>,
    removed: &[UserId],
) -> Result<Vec<Newcomer>, Failure> {
    let of = async |user_id: UserId| {
        let is_full = channels::count(store, &user_id).await?.added >= CHANNELS_ADDED_MAX;
        let is_removed = removed.contains(&user_id);
        Ok(Newcomer { is_removed, is_full, ..Newcomer::of(user_id) })
    };
    try_join_all(users.into_iter().map(of)).await
}

/// Those whom a member with that role can't add, and the others.
pub(crate) fn barred(newcomers: &[Newcomer], role: Role) -> (Vec<NotAdded>, Vec<UserId>) {
    let joining = newcomers.iter().filter(|newcomer| newcomer.barred(role).is_none());
    let joining = joining.map(|newcomer| newcomer.user_id.clone()).collect();
    (newcomers.iter().filter_map(|newcomer| newcomer.barred(role)).collect(), joining)
}

/// Checks whether the user may join or create another channel. Channels to which others added the user count
/// separately.
pub(crate) async fn has_room(store: &Store, user: &UserId) -> Result<(), Failure> {
    let count = channels::count(store, user).await?.own;
    if count < CHANNELS_PER_USER_MAX { Ok(()) } else { Err(Refusal::LimitReached.into()) }
}

/// Reads how the user stands with the users to add, and refuses if a block exists. The transaction has no condition on
/// it. A condition for each new member would cost as much as the member does, and fifty would make it too long. A block
/// between this read and the commit is equal to a block just after it, since nothing of the group moved in between.
pub(crate) async fn meet(
    store: &Store,
    limits: &SendLimits,
    user: &UserId,
    newcomers: &[UserId],
) -> Result<Option<Acquaintance>, Failure> {
    // A service has no conversations, and no user can block it.
    if user.is_service() {
        return Ok(None);
    }
    // Only the owner of a service decides what the service reads.
    if newcomers.iter().any(UserId::is_service) {
        return Err(Refusal::Forbidden.into());
    }
    let others: Vec<&UserId> = newcomers.iter().filter(|other| *other != user).collect();
    let met = inbox::acquaintance(store, user, &others, !limits.first_messages.is_unlimited()).await?;
    if met.blocked { Err(Refusal::Forbidden.into()) } else { Ok(Some(met)) }
}

/// Counts strangers in a new group as first messages of the user to them.
pub(crate) fn first_messages(
    limits: &SendLimits,
    user: &UserId,
    met: Option<Acquaintance>,
    now: Timestamp,
) -> Result<Option<FirstMessage>, Refusal> {
    let Some(Acquaintance { strangers: strangers @ 1.., first_messages_until: was_until, .. }) = met else {
        return Ok(None);
    };
    limits.take_first(user, was_until, now, strangers)
}
