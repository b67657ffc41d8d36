//! A message of a direct conversation, changed: edited, deleted or reacted to by a member, or deleted by an operator.

use domain::{Audience, Change, Content, Draft, Failure, Follows, Membership, Place, Rights};
use futures_util::future::try_join_all;
use store::message_append::{self, NewEntry};
use store::message_change::{self, Alter};
use store::{Store, inbox, messages};
use wire::{ConversationId, Refusal, Seq, UserId};

use crate::Actions;
use crate::entry::{Appended, Concerned, attempted, changeable, finished, random_bytes};
use crate::hook::{Judgement, judge};
use crate::retry::{Attempt, retry};
use crate::sends::take;

/// Reads the user's row, then the message, and writes the change, until no other writer did in between.
///
/// An operator is no member, and writes by a member's row.
pub(crate) async fn change(
    actions: &Actions,
    mut draft: Draft,
    target: Seq,
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let Actions { store, limits, .. } = actions;
    let (user, by_operator) = (&draft.sender_id.clone(), draft.is_by_operator());
    let mut is_judged = false;
    let (owner, absent) = if by_operator {
        (a_member(store, &draft.conversation_id, target).await?, Refusal::Gone)
    } else {
        (user.clone(), Refusal::NotMember)
    };
    let written = retry(conflicts, async || {
        let now = actions.now();
        let standing = inbox::standing(store, &owner, &draft.conversation_id).await?;
        let previous = standing.membership.as_ref().ok_or(absent.clone())?;
        let members = previous.audience();
        let audience = if by_operator { members.seen_from_outside(user.clone()) } else { members };
        // Only now: a user who changes the message after the row was read moves the end of the conversation.
        let (found, others) =
            tokio::try_join!(changeable(store, &draft.conversation_id, target), others(store, &audience, &draft))?;
        let place = Place::following(Some(previous.end), now, random_bytes());
        let mut follows = Follows::default();
        // A service reads nothing.
        let blocked = standing.blocked || audience.others().iter().any(UserId::is_service);
        let encrypted = limits.encryption.check_clear(user, previous.epoch).is_err();
        let (blocked, pins) = (blocked && !by_operator, Some(&*previous.pins));
        let rights = Rights { blocked, moderates: by_operator, encrypted, pins };
        let allowed = wanted(&draft)?.check(user, found.as_ref(), rights);
        let appended = match allowed.and_then(|found| Ok((found, take(&limits.sends, standing.sends_until, now)?))) {
            Ok((target, sends_until)) => {
                let peer = audience.others().first().unwrap_or(user);
                match judge(actions, &mut is_judged, &mut draft, (Some(peer), Some(target.message))).await? {
                    Judgement::Write => {}
                    Judgement::ReadAgain => return Ok(Attempt::Anew),
                    Judgement::Stored(first) => {
                        return attempted(first, place, follows, Concerned::Audience(audience, None));
                    }
                }
                let change = wanted(&draft)?;
                let kept_until = (!limits.kept_for.is_zero()).then(|| place.sent_at.plus(limits.kept_for));
                follows = change.follows(user, target);
                let entry = NewEntry {
                    draft: &draft,
                    place: &place,
                    audience: &audience,
                    sends_until,
                    follows: follows.clone(),
                };
                let alter = Alter { entry, change, previous, target, others: &others, kept_until };
                message_change::change(store, &alter).await?
            }
            // A stored entry keeps its reply.
            Err(refusal) => message_append::find(store, &draft).await?.ok_or(refusal)?,
        };
        attempted(appended, place, follows, Concerned::Audience(audience, None))
    })
    .await?;
    finished(store, draft, written).await
}

/// Returns the change that the draft is.
fn wanted(draft: &Draft) -> Result<&Change, Refusal> {
    if let Content::Change { change, .. } = &draft.content { Ok(change) } else { Err(Refusal::Gone) }
}

/// Returns a member who has a row of the message's conversation.
async fn a_member(store: &Store, conversation: &ConversationId, target: Seq) -> Result<UserId, Failure> {
    let found = messages::get(store, conversation, target).await?.ok_or(Refusal::Gone)?;
    let recipient = found.message().and_then(|target| target.message.recipient.clone());
    Ok(recipient.unwrap_or(found.sender_id))
}

/// Reads the rows of the other members, whose unread counts a delete may lower. A row that can't be read keeps its count.
async fn others(store: &Store, audience: &Audience, draft: &Draft) -> Result<Vec<Membership>, Failure> {
    if !matches!(draft.content, Content::Change { change: Change::Delete, .. }) {
        return Ok(vec![]);
    }
    let rows = audience.others().iter().filter(|other| !other.is_service()).map(async |other| {
        let row = inbox::get(store, other, &draft.conversation_id).await;
        store::if_readable(row, "the row of a member who may not have read a message")
    });
    Ok(try_join_all(rows).await?.into_iter().flatten().flatten().collect())
}
