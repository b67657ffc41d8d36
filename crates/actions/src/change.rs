//! A message, changed: edited, deleted, reacted to.

use domain::{Audience, Change, Content, Draft, Failure, Follows, Membership, Place, Rights};
use futures_util::future::try_join_all;
use store::message_append::{self, Entry};
use store::message_change::{self, Alter};
use store::{Store, inbox, messages};
use wire::{ClientMsgId, ConversationId, Refusal, Seq, Timestamp, UserId};

use crate::append::{Appended, attempted, finished, random_bytes};
use crate::channel::react;
use crate::group::{Writer, append_to_group};
use crate::retry::retry;
use crate::sends::{SendLimits, take};

/// What a user wants changed.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub conversation_id: ConversationId,
    /// The message.
    pub target: Seq,
    pub client_msg_id: ClientMsgId,
    pub change: Change,
}

/// Reads the user's row, then the message, and writes what follows, until nobody else wrote in between: `conflicts` counts how often
/// somebody did.
pub async fn change(
    store: &Store,
    limits: &SendLimits,
    now: impl Fn() -> Timestamp,
    writer: Writer<'_>,
    wanted: Wanted,
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let user = writer.user;
    let Wanted { conversation_id, target, client_msg_id, change } = wanted;
    let content = Content::Change { target, change: change.clone() };
    let draft = Draft { conversation_id, sender_id: user.clone(), client_msg_id, content };
    if draft.conversation_id.is_channel()
        && let Change::React { emoji } = &change
    {
        return react(store, limits, now, draft, target, emoji.as_ref(), conflicts).await;
    }
    if draft.conversation_id.has_members() {
        let appended = append_to_group(store, limits, now, writer, draft, conflicts).await?;
        return appended.ok_or_else(|| Refusal::NotMember.into());
    }
    let written = retry(conflicts, async || {
        let now = now();
        let standing = inbox::standing(store, user, &draft.conversation_id).await?;
        let previous = standing.membership.as_ref().ok_or(Refusal::NotMember)?;
        let audience = previous.audience();
        // Only now: whoever changes it after the row was read moves the end of the conversation.
        let (found, others) = tokio::try_join!(
            async { messages::get(store, &draft.conversation_id, target).await.map_err(Failure::from) },
            others(store, &audience, &draft)
        )?;
        let place = Place::following(Some(previous.end), now, random_bytes());
        let mut follows = Follows::default();
        // Nobody reads what a service is told.
        let blocked = standing.blocked || audience.others().iter().any(UserId::is_service);
        let allowed = change.check(user, found.as_ref(), Rights { blocked, moderates: false });
        let appended = match allowed.and_then(|found| Ok((found, take(&limits.sends, standing.sends_until, now)?))) {
            Ok((target, sends_until)) => {
                let kept_until = (!limits.kept_for.is_zero()).then(|| place.sent_at.plus(limits.kept_for));
                follows = change.follows(user, target);
                let entry =
                    Entry { draft: &draft, place: &place, audience: &audience, sends_until, follows: follows.clone() };
                let alter = Alter { entry, change: &change, previous, target, others: &others, kept_until };
                message_change::change(store, &alter).await?
            }
            // What was stored before keeps its answer.
            Err(refusal) => message_append::find(store, &draft).await?.ok_or(refusal)?,
        };
        attempted(appended, place, follows, audience)
    })
    .await?;
    finished(store, draft, written).await
}

/// The rows of those for whom a message may be unread no more: nothing else asks for them.
async fn others(store: &Store, audience: &Audience, draft: &Draft) -> Result<Vec<Membership>, Failure> {
    if !matches!(draft.content, Content::Change { change: Change::Delete, .. }) {
        return Ok(vec![]);
    }
    let rows = audience.others().iter().map(|other| inbox::get(store, other, &draft.conversation_id));
    Ok(try_join_all(rows).await?.into_iter().flatten().collect())
}
