//! A message, appended to a direct conversation.

use domain::{Audience, Draft, Failure, Follows, Place, error_chain};
use futures_util::future::try_join_all;
use store::inbox::Standing;
use store::message_append::{self, Append, FirstMessage, NewEntry};
use store::{Store, connections, inbox};
use wire::{Refusal, Seq, Target, Timestamp, UserId, direct_conversation_id};

use crate::Actions;
use crate::entry::{Appended, Concerned, attempted, finished, random_bytes};
use crate::retry::retry;
use crate::sends::{SendLimits, take};

/// Reads where the conversation ends and writes behind it, until no other writer did in between.
pub(crate) async fn append(
    actions: &Actions,
    target: &Target,
    draft: Draft,
    reply_to: Option<Seq>,
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let Actions { store, limits, .. } = actions;
    let sender = &draft.sender_id;
    // In a service's conversation only the user has a row, which records the end.
    let owner = match target {
        Target::User(user) if sender.is_service() => user,
        Target::User(_) | Target::Conversation(_) => sender,
    };
    let written = retry(conflicts, async || {
        let now = actions.now();
        let standing = inbox::standing(store, owner, &draft.conversation_id).await?;
        let previous = standing.membership.as_ref();
        let audience = match (target, previous) {
            (Target::User(user), _) => Audience::direct(sender.clone(), user.clone()),
            (Target::Conversation(_), Some(row)) => row.audience(),
            (Target::Conversation(_), None) => return Err(Refusal::NotMember.into()),
        };
        let end = previous.map_or(Seq::ZERO, |row| row.end.seq);
        if reply_to.is_some_and(|reply_to| reply_to > end) {
            return Err(Refusal::bad_request("reply_to", "must be the seq of a message of this conversation").into());
        }
        let place = Place::following(previous.map(|row| row.end), now, random_bytes());
        let appended = match admit(store, limits, &standing, &audience, now).await? {
            Admission::Granted { sends_until, first_message } => {
                let entry = NewEntry {
                    draft: &draft,
                    place: &place,
                    audience: &audience,
                    sends_until,
                    follows: Follows::default(),
                };
                message_append::append(store, &Append { entry, previous, first_message }).await?
            }
            // A stored message keeps its reply.
            Admission::Refused(refusal) => message_append::find(store, &draft).await?.ok_or(refusal)?,
        };
        attempted(appended, place, Follows::default(), Concerned::Audience(audience))
    })
    .await?;
    finished(store, draft, written).await
}

/// Whether the sender may write a message now.
enum Admission {
    /// With what the limits count once the message is sent.
    Granted { sends_until: Option<Timestamp>, first_message: Option<FirstMessage> },
    /// Unless the message was stored before.
    Refused(Refusal),
}

/// Decides whether the sender may write this now, by the sender's own row. A first message to another user also depends
/// on that user's suspension, and on the count of first messages. A service's messages have no limit, and wait for a
/// user who is suspended.
async fn admit(
    store: &Store,
    limits: &SendLimits,
    standing: &Standing,
    audience: &Audience,
    now: Timestamp,
) -> Result<Admission, Failure> {
    if audience.own().is_service() {
        return Ok(Admission::Granted { sends_until: None, first_message: None });
    }
    // A service reads nothing.
    if standing.blocked || audience.others().iter().any(UserId::is_service) {
        return Ok(Admission::Refused(Refusal::Forbidden));
    }
    let is_first = standing.membership.is_none() && !audience.others().is_empty();
    let counted = is_first && !limits.first_messages.is_unlimited();
    if counted {
        // Nothing was stored when the row was read, so no earlier reply exists.
        limits.admit_first(audience.own(), now)?;
    }
    let (suspended, was_until) = tokio::join!(async { is_first && any_suspended(store, audience, now).await }, async {
        if counted { inbox::first_messages_until(store, audience.own()).await } else { Ok(None) }
    },);
    let was_until = was_until?;
    if suspended {
        return Ok(Admission::Refused(Refusal::Forbidden));
    }
    let take = || {
        let sends_until = take(&limits.sends, standing.sends_until, now)?;
        let first_message = if counted { limits.take_first(audience.own(), was_until, now, 1)? } else { None };
        Ok((sends_until, first_message))
    };
    Ok(match take() {
        Ok((sends_until, first_message)) => Admission::Granted { sends_until, first_message },
        Err(refusal) => Admission::Refused(refusal),
    })
}

/// Whether `user` may write to each of these users.
///
/// # Errors
/// `forbidden`, or a row that was not read.
pub(crate) async fn check_reach(actions: &Actions, user: &UserId, others: &[&UserId]) -> Result<(), Failure> {
    let Actions { store, .. } = actions;
    if others.iter().any(|other| other.is_service()) {
        return Err(Refusal::Forbidden.into());
    }
    let now = actions.now();
    let reach = others.iter().map(|other| async move {
        let standing = inbox::standing(store, user, &direct_conversation_id(user, other)).await?;
        let audience = Audience::direct(user.clone(), (*other).clone());
        let is_first = standing.membership.is_none();
        let is_refused = standing.blocked || (is_first && any_suspended(store, &audience, now).await);
        if is_refused { Err(Failure::Refused(Refusal::Forbidden)) } else { Ok(()) }
    });
    try_join_all(reach).await.map(drop)
}

/// Whether a recipient of a first message is suspended. If that can't be read, the message is stored: it waits, as all
/// messages do for a user who can't connect.
async fn any_suspended(store: &Store, audience: &Audience, now: Timestamp) -> bool {
    let looks = audience.others().iter().map(|other| connections::suspended_until(store, other, now));
    match try_join_all(looks).await {
        Ok(until) => until.iter().any(Option::is_some),
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "the suspension of a recipient was not read; the recipient counts as not suspended"
            );
            false
        }
    }
}
