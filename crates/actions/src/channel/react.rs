//! A reaction to a message of a channel, which writes no entry.

use domain::{Draft, Entry, Failure, MessageEntry};
use store::message_append::{self, AppendOutcome};
use store::{channel_reactions, channels};
use wire::{Emoji, Refusal, Seq};

use crate::Actions;
use crate::entry::{Appended, Concerned, changeable};
use crate::retry::{Attempt, retry_times};

/// Attempts at one reaction: the second has read what the first lacked. All reactions to a message write one row, so
/// thousands of them in a second conflict again and again. Their clients spread them by longer and longer waits, and no
/// function waits.
const REACT_TRIES_MAX: u32 = 2;

/// Counts a reaction in the place of the member's earlier one. A reaction here is no entry, so the reply has the
/// message's place.
pub(crate) async fn react(
    actions: &Actions,
    draft: Draft,
    target: Seq,
    emoji: Option<&Emoji>,
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let Actions { store, limits, .. } = actions;
    let (user, channel) = (&draft.sender_id, &draft.conversation_id);
    let (place, duplicate) = retry_times(REACT_TRIES_MAX, conflicts, async || {
        let now = actions.now();
        let row = channels::get(store, user, channel).await?;
        let sees = |seq: Seq| row.as_ref().is_some_and(|row| seq >= row.first_seq);
        let found = if row.is_some() { changeable(store, channel, target).await? } else { None };
        let is_there = |target: MessageEntry<'_>| target.message.deleted.is_none();
        let found = found.filter(|found| sees(found.place.seq) && found.message().is_some_and(is_there));
        let mut found: Vec<_> = found.into_iter().collect();
        // A reaction that this version can't read can't be replaced by it either.
        if channel_reactions::with_own(store, user, &mut found).await? > 0 {
            found.clear();
        }
        let absent = if row.is_some() { Refusal::Gone } else { Refusal::NotMember };
        let allowed = found.first().and_then(Entry::message).ok_or(absent).and_then(|found| {
            row.as_ref().map_or(Ok(()), |row| row.as_member().check_unrestricted(now))?;
            found.message.tally.check(emoji)?;
            limits.admit(&draft, now)?;
            Ok(found)
        });
        let outcome = match &allowed {
            Ok(found) => channel_reactions::react(store, &draft, *found, emoji).await?,
            // A stored request keeps its reply.
            Err(refusal) => message_append::find(store, &draft).await?.ok_or(refusal.clone())?,
        };
        match (outcome, allowed) {
            (AppendOutcome::Stored, Ok(found)) => {
                limits.count(&draft, now);
                Ok(Attempt::Done((found.entry.place.clone(), false)))
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
    let (concerned, version, read_seq) = (Concerned::Channel, None, None);
    Ok(Appended { conversation_id, place, entry: None, concerned, version, read_seq, is_other: false, duplicate })
}
