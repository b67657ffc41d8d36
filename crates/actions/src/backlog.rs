//! What no device of a user has acknowledged, a page at a time.

use domain::limits::{DRAIN_MESSAGES_MAX, DRAIN_MESSAGES_PER_CONVERSATION_MIN};
use domain::{Failure, Membership, StoredMessage, drain_page};
use futures_util::future::try_join_all;
use store::{Store, inbox, messages};
use wire::limits::ACK_ENTRIES_MAX;
use wire::{Message, Side};

/// A page of it.
#[derive(Debug)]
pub struct DrainPage {
    pub messages: Vec<Message>,
    pub more: bool,
    /// How many rows can't be read. What they have, and what comes after, stays pending.
    pub unreadable: u64,
}

/// The oldest of what is pending, as much as fits a frame.
pub async fn backlog(store: &Store, user: &wire::UserId) -> Result<DrainPage, Failure> {
    // No more conversations than the ack of this page can name.
    let pending = inbox::pending(store, user, ACK_ENTRIES_MAX).await?;
    let share = DRAIN_MESSAGES_MAX / pending.memberships.len().max(1);
    let limit = share.max(DRAIN_MESSAGES_PER_CONVERSATION_MIN);
    let parts = try_join_all(pending.memberships.iter().map(|row| part(store, row, limit))).await?;
    let unreadable = pending.unreadable + parts.iter().map(|(_, unreadable)| unreadable).sum::<u64>();
    let found = parts.iter().any(|(part, _)| !part.messages.is_empty());
    let (messages, left_out) = drain_page(parts.into_iter().map(|(part, _)| part).collect());
    // Whoever is told "more" asks again at once, so an empty page is the last.
    Ok(DrainPage { messages, more: found && (left_out || pending.more), unreadable })
}

/// What one conversation brings, and how many of its messages can't be read: the first of them ends it, since what comes after
/// would leave a hole.
async fn part(store: &Store, row: &Membership, limit: usize) -> Result<(domain::Backlog, u64), Failure> {
    let after = Side::After(row.marks.delivered_seq);
    let listed = messages::list(store, &row.conversation_id, after, limit).await?;
    let end = listed.unreadable.first();
    let readable = listed.messages.iter().filter(|message| end.is_none_or(|end| message.place.seq < *end));
    // Of a group, what the row has not come to yet may not be for this member any more.
    let is_theirs = |message: &&StoredMessage| row.view().is_none() || message.place.seq <= row.end.seq;
    let seen = |message: &StoredMessage| message.seen_by(&row.user_id, row.first_seq());
    let messages: Vec<Message> = readable.filter(is_theirs).map(seen).collect();
    let more = end.is_none() && messages.last().is_some_and(|last| last.seq < row.end.seq);
    Ok((domain::Backlog { messages, more }, listed.unreadable.len() as u64))
}
