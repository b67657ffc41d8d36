//! The events of a group.

use deliver::{Delivered, FAN_OUT_TIMEOUT};
use domain::{Failure, Head, RosterRow, error_chain};
use store::{Store, heads, roster};
use tokio::time::timeout;
use wire::limits::SMALL_GROUP_MEMBERS_MAX;
use wire::{ConversationId, Refusal, Timestamp, UserId};

use crate::Actions;
use crate::entry::{Appended, Commit, FirstTry, Tried};
use crate::group::reconcile::{Earlier, Known, reconcile, tell_again};

/// Brings the members of a small group to the new entry, which sends them its events. In a larger group `fanout` does
/// it, and so it does if this process dies.
///
/// A duplicate does the same, because the first run may have died before. If that run moved rows, it may have died before
/// their posts, so this one repeats the entry for members without an acknowledgement.
pub(crate) async fn tell_appended(
    actions: &Actions,
    appended: &Appended,
    member_count: u64,
    tried: Option<&Tried>,
) -> Vec<Delivered> {
    if member_count > SMALL_GROUP_MEMBERS_MAX {
        return vec![];
    }
    let (commit, first) = match tried {
        Some(Tried::Now(commit)) => (Some(&**commit), None),
        Some(Tried::Before(first)) => (None, Some(first)),
        None => (None, None),
    };
    let known = commit.zip(appended.entry.as_ref());
    let known = known.map(|(Commit { head, roster }, entry)| Known { head, roster: roster.as_deref(), entry });
    let conversation = &appended.conversation_id;
    let told = async {
        let earlier = first.map_or(Earlier::None, |first| Earlier::Try(first.place.seq));
        let mut done = reconcile(actions, conversation, known, earlier).await?;
        if let Some(FirstTry { user, place }) = first
            && !done.untold.is_empty()
            && actions.repeats.admit_again(user, conversation, Some(place.sent_at), actions.now())
        {
            done.delivered.extend(tell_again(actions, conversation, done.untold).await);
        }
        Ok::<_, Failure>(done.delivered)
    };
    match timeout(FAN_OUT_TIMEOUT, told).await {
        Ok(Ok(delivered)) => delivered,
        Ok(Err(failure)) => {
            tracing::warn!(
                error = error_chain(&failure),
                "no event was sent to the members; the stream sends the events"
            );
            vec![]
        }
        Err(_) => {
            tracing::warn!("events to members timed out; the stream sends the rest");
            vec![]
        }
    }
}

/// Returns the users who get `typing`: the other members of a small group.
pub(crate) async fn told_of_typing(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    now: Timestamp,
) -> Result<Vec<UserId>, Failure> {
    let is_small = |head: Head| head.group.member_count <= SMALL_GROUP_MEMBERS_MAX;
    if !heads::glance(store, conversation).await?.is_some_and(is_small) {
        return Ok(vec![]);
    }
    let (members, _) = roster::list(store, conversation, false).await?;
    let is_own = |row: &&RosterRow| row.is_member() && row.user_id == *user;
    let own = members.iter().find(is_own).ok_or(Refusal::NotMember)?;
    if own.check_unrestricted(now).is_err() {
        return Ok(vec![]);
    }
    let others = members.into_iter().filter(|row| row.is_member() && row.user_id != *user);
    Ok(others.map(|row| row.user_id).collect())
}
