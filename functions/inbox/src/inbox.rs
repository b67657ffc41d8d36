//! The chat list, a page at a time.

use std::cmp::Reverse;

use domain::{Cursor, Failure, Membership, fit};
use lambda::EventLine;
use store::inbox;
use wire::limits::INBOX_LIMIT_MAX;
use wire::{Conversation, InboxRequest, InboxResult, Refusal, Reply, Timestamp, UserId};

use crate::Deps;

pub(crate) async fn inbox(
    deps: &Deps,
    user: &UserId,
    request: InboxRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let InboxRequest { limit, cursor, since } = request;
    let mut cursor = cursor.map(|text| own_cursor(user, &text)).transpose()?;
    let (mut read_at_once, mut unreadable) = (limit, 0);
    let (rows, next) = loop {
        let page = inbox::recent(&deps.store, user, read_at_once, cursor.as_ref(), since).await?;
        unreadable += page.unreadable;
        let rows: Vec<Membership> = page.memberships.into_iter().filter(|row| is_shown(row, since)).collect();
        // A page with nothing to show would only make the client ask for the next one.
        if !rows.is_empty() || page.next.is_none() {
            break (rows, page.next);
        }
        // In large steps, so that a small limit does not make many reads of it.
        (cursor, read_at_once) = (page.next, INBOX_LIMIT_MAX);
    };
    line.unreadable(unreadable);
    Ok(page(user, &rows, limit, next.as_ref()).into())
}

fn own_cursor(user: &UserId, text: &str) -> Result<Cursor, Refusal> {
    let problem = "must be a next_cursor that this user was given, or left out";
    Cursor::parse(user, text).ok_or_else(|| Refusal::bad_request("cursor", problem))
}

/// The index's order is up to a step behind the messages' own times, so it brings some that are older than what was asked for.
fn is_shown(row: &Membership, since: Option<Timestamp>) -> bool {
    since.is_none_or(|since| row.last.sent_at >= since)
}

/// As many rows as were asked for and a frame holds, and where the next page begins: behind the last row of this one, in the index's
/// order, or at `next`.
fn page(user: &UserId, rows: &[Membership], limit: u64, next: Option<&Cursor>) -> InboxResult {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut conversations: Vec<Conversation> = fit(rows.iter().take(limit).cloned().map(Conversation::from).collect());
    let next_cursor = match rows.get(..conversations.len()) {
        Some([.., last]) if conversations.len() < rows.len() => Some(last.cursor().to_text(user)),
        _ => next.map(|next| next.to_text(user)),
    };
    conversations.sort_by_key(|conversation| Reverse(conversation.last_message.sent_at));
    InboxResult { conversations, next_cursor }
}
