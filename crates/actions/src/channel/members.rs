//! Joining and leaving a channel, which write no entry.

use domain::{ChannelRow, Failure, error_chain};
use store::channels::{self, Joined, Left};
use store::{Store, heads};
use wire::{ConversationId, JoinBy, Refusal, Seq, Timestamp, UserId};

use crate::log::has_room;
use crate::retry::{Attempt, retry};

/// Members that one read looks for. A single one proves that the channel has members.
const LOOKED_AT_ONCE: usize = 10;

/// Makes the user a member of an open channel, and returns where the channel ends. For a member, nothing changes. A
/// closed channel looks like one that does not exist. A user whom an admin removed is refused until an admin adds them
/// again.
pub(crate) async fn join(
    store: &Store,
    now: Timestamp,
    user: &UserId,
    channel: &ConversationId,
    conflicts: &mut u64,
) -> Result<Seq, Failure> {
    retry(conflicts, async || {
        let head = heads::get(store, channel).await?.ok_or(Refusal::NotMember)?;
        if channels::get(store, user, channel).await?.is_some() {
            return Ok(Attempt::Done(head.end.seq));
        }
        if head.rules.join != Some(JoinBy::Open) {
            return Err(Refusal::NotMember.into());
        }
        has_room(store, user).await?;
        let mut row = ChannelRow::joining(user.clone(), &head, now);
        let mut joined = channels::join(store, &row).await?;
        // A user who left while restricted still is.
        if let Joined::Restricted(until) = joined {
            row.restricted_until = Some(until);
            joined = channels::join(store, &row).await?;
        }
        match joined {
            Joined::Done => Ok(Attempt::Done(head.end.seq)),
            Joined::Removed => Err(Refusal::Forbidden.into()),
            Joined::Restricted(_) | Joined::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}

/// Ends the membership. The reply to a user without a membership is the same, because the request may be a repetition.
/// From then on the user gets no posts, since each post is preceded by a read of the membership.
///
/// An owner hands the channel over first, if it has another member. A user who became the owner, and whom all others
/// have left, can leave as well.
pub(crate) async fn leave(
    store: &Store,
    user: &UserId,
    channel: &ConversationId,
    conflicts: &mut u64,
) -> Result<(), Failure> {
    retry(conflicts, async || {
        let left = match channels::leave(store, user, channel).await? {
            Left::Owner if is_alone(store, user, channel).await? => {
                channels::leave_as_owner(store, user, channel).await?
            }
            left => left,
        };
        match left {
            Left::Done(row) => {
                // A row that stays in the member index does no harm.
                if let Err(error) = channels::unlist_member(store, channel, user, row.joined_at).await {
                    tracing::warn!(
                        error = error_chain(&error),
                        "the member-index row of a former member was not removed"
                    );
                }
                Ok(Attempt::Done(()))
            }
            Left::NotMember => Ok(Attempt::Done(())),
            Left::Owner => Err(Refusal::Forbidden.into()),
            Left::Restricted(until) => {
                let is_done = channels::leave_restricted(store, user, channel, until).await?;
                Ok(if is_done { Attempt::Done(()) } else { Attempt::AgainAfterPause })
            }
            Left::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}

/// Whether the channel has no other member. The member index can list former members, so their own rows decide.
async fn is_alone(store: &Store, user: &UserId, channel: &ConversationId) -> Result<bool, Failure> {
    let mut behind = None;
    loop {
        let page = channels::members(store, channel, LOOKED_AT_ONCE, behind.as_ref()).await?;
        if page.unreadable > 0 || page.members.iter().any(|member| member.user_id != *user) {
            return Ok(false);
        }
        behind = page.next;
        if behind.is_none() {
            return Ok(true);
        }
    }
}
