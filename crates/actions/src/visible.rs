//! Which entries of a conversation a user may see.

use std::ops::RangeInclusive;

use domain::{Failure, Membership};
use store::{Store, channels, heads, inbox, roster};
use wire::{ConversationId, Refusal, Seq, UserId};

/// From where on, and up to which entry, a member sees the conversation, or somebody who was one.
///
/// # Errors
/// Who never was a member is told the same as of a conversation that there is not.
pub async fn visible(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
) -> Result<RangeInclusive<Seq>, Failure> {
    if !conversation.has_members() {
        let row = inbox::get(store, user, conversation).await?.ok_or(Refusal::NotMember)?;
        return Ok(Seq::FIRST..=row.end.seq);
    }
    // The head first: who is a member after that may see everything up to there.
    let head = heads::get(store, conversation).await?.ok_or(Refusal::NotMember)?;
    if conversation.is_channel() {
        let own = channels::get(store, user, conversation).await?.ok_or(Refusal::NotMember)?;
        return Ok(own.first_seq..=head.end.seq);
    }
    if let Some(own) = roster::get(store, conversation, user).await? {
        return Ok(own.from_seq..=own.left_seq.unwrap_or(head.end.seq));
    }
    // Who left has a row that says so, once they are not in the roster any more.
    let row = inbox::get(store, user, conversation).await?;
    let view = row.as_ref().and_then(Membership::view);
    let interval = view.and_then(|view| Some(view.first_seq..=view.left_seq?));
    interval.ok_or_else(|| Refusal::NotMember.into())
}
