//! What members of a channel do that is no entry: they join and leave, read, and react.

use domain::{ChannelRow, Draft, Failure};
use store::channels::{self, Left, Marked};
use store::message_append::{self, AppendOutcome};
use store::{Store, channel_reactions, heads, messages};
use wire::{ConversationId, Emoji, JoinBy, Refusal, Seq, Timestamp, UserId};

use crate::append::{Appended, Concerned};
use crate::group::{everybody_has_room, unlist};
use crate::retry::{Attempt, retry};
use crate::sends::SendLimits;

/// Members of a channel that are looked at together. One is enough to know that somebody is there.
const LOOKED_AT_ONCE: usize = 10;

/// Makes the user a member, if the channel takes everybody; where the channel ends. Again: nothing changes.
pub async fn join(store: &Store, now: Timestamp, user: &UserId, channel: &ConversationId) -> Result<Seq, Failure> {
    retry(&mut 0, async || {
        let head = heads::get(store, channel).await?.filter(domain::Head::is_channel).ok_or(Refusal::NotMember)?;
        if channels::get(store, user, channel).await?.is_some() {
            return Ok(Attempt::Done(head.end.seq));
        }
        if head.rules.join != Some(JoinBy::Open) {
            return Err(Refusal::Forbidden.into());
        }
        everybody_has_room(store, std::slice::from_ref(user)).await?;
        let is_there = channels::join(store, &ChannelRow::joining(user.clone(), &head, now)).await?;
        Ok(if is_there { Attempt::Done(head.end.seq) } else { Attempt::AgainAfterPause })
    })
    .await
}

/// Ends the membership. Who has none is answered the same: this may be a repetition. Nothing is posted from then on, since whoever posts
/// looks who is a member.
///
/// The owner hands the channel over first, if there is anybody to hand it to. Somebody who was made its owner and left behind in it must be
/// able to leave as well.
pub async fn leave(store: &Store, user: &UserId, channel: &ConversationId) -> Result<(), Failure> {
    retry(&mut 0, async || {
        let left = match channels::leave(store, user, channel).await? {
            Left::Owner if is_alone(store, user, channel).await? => {
                channels::leave_as_owner(store, user, channel).await?
            }
            left => left,
        };
        match left {
            Left::Done(row) => {
                unlist(store, channel, &[row]).await;
                Ok(Attempt::Done(()))
            }
            Left::NotMember => Ok(Attempt::Done(())),
            Left::Owner => Err(Refusal::Forbidden.into()),
            Left::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}

/// Whether nobody else is a member. Who is in the directory need not be: their rows are looked at.
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

/// Raises the read mark. Where it stands then, and how many messages are unread.
pub async fn read_channel(
    store: &Store,
    now: Timestamp,
    user: &UserId,
    channel: &ConversationId,
    seq: Seq,
) -> Result<(Seq, u64), Failure> {
    retry(&mut 0, async || {
        let head = heads::get(store, channel).await?.ok_or(Refusal::NotMember)?;
        let seq = seq.min(head.end.seq);
        let counted = if seq == head.end.seq { head.counted } else { messages::counted(store, channel, seq).await? };
        match channels::mark_read(store, user, channel, seq, counted, now).await? {
            Marked::Done(row) => Ok(Attempt::Done((row.read_seq, row.unread(&head)))),
            Marked::NotMember => Err(Refusal::NotMember.into()),
            Marked::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}

/// Counts a reaction in the place of the member's own before. It is no entry: what is answered is the message.
pub(crate) async fn react(
    store: &Store,
    limits: &SendLimits,
    now: impl Fn() -> Timestamp,
    draft: Draft,
    target: Seq,
    emoji: Option<&Emoji>,
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let (user, channel) = (&draft.sender_id, &draft.conversation_id);
    let (place, duplicate) = retry(conflicts, async || {
        let now = now();
        let row = channels::get(store, user, channel).await?;
        let sees = |seq: Seq| row.as_ref().is_some_and(|row| seq >= row.first_seq);
        let found = if row.is_some() { messages::get(store, channel, target).await? } else { None };
        let found = found.filter(|found| sees(found.place.seq) && found.kind.counts() && found.deleted.is_none());
        let mut found: Vec<_> = found.into_iter().collect();
        channel_reactions::with_own(store, user, &mut found).await?;
        let absent = if row.is_some() { Refusal::Gone } else { Refusal::NotMember };
        let allowed = found.first().ok_or(absent).and_then(|found| {
            found.tally.check(emoji)?;
            limits.admit(user, channel, now)?;
            Ok(found)
        });
        let outcome = match &allowed {
            Ok(found) => channel_reactions::react(store, &draft, found, emoji).await?,
            // What was answered before keeps its answer.
            Err(refusal) => message_append::find(store, &draft).await?.ok_or(refusal.clone())?,
        };
        match (outcome, allowed) {
            (AppendOutcome::Stored, Ok(found)) => {
                limits.count(user, channel, now);
                Ok(Attempt::Done((found.place.clone(), false)))
            }
            (AppendOutcome::Duplicate(place, _), _) => Ok(Attempt::Done((place, true))),
            (AppendOutcome::IdReused, _) => Err(Refusal::IdReused.into()),
            (AppendOutcome::MediaRefused(refusal), _) => Err(refusal.into()),
            (AppendOutcome::Full, _) => Err(Refusal::LimitReached.into()),
            (AppendOutcome::Stored | AppendOutcome::Taken, _) => Ok(Attempt::AgainAfterPause),
        }
    })
    .await?;
    let conversation_id = draft.conversation_id.clone();
    Ok(Appended { conversation_id, place, entry: None, concerned: Concerned::Channel, version: None, duplicate })
}
