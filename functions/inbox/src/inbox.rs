//! The chat list, a page at a time.

use domain::{ChatList, Cursor, Failure, Membership, fit};
use lambda::{Core, EventLine};
use store::inbox;
use store::pinned::{self, List};
use wire::limits::INBOX_LIMIT_MAX;
use wire::{Conversation, InboxRequest, InboxResult, Refusal, Reply, UserId};

use crate::groups;

/// Reads the index until no later row can belong before the page's rows, and returns as many as fit in a frame.
pub(crate) async fn inbox(
    core: &Core,
    user: &UserId,
    request: InboxRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let InboxRequest { limit, cursor, since, pinned } = request;
    if pinned {
        return all_pinned(core, user, line).await;
    }
    let start = cursor.map(|text| own_cursor(user, &text)).transpose()?;
    let mut behind = start.as_ref().and_then(|start| start.after.clone());
    let mut list = ChatList::new(usize::try_from(limit).unwrap_or(usize::MAX), start, since);
    // One row more than the page: in a quiet list, that row shows that none is missing.
    let (mut read_at_once, mut unreadable) = (limit + 1, 0);
    loop {
        let found =
            inbox::recent(&core.actions.store, user, read_at_once, behind.as_ref(), list.active_until(), since).await?;
        unreadable += found.unreadable;
        let (rows, mut moved) = groups::with_heads(core, user, found.memberships, &mut unreadable).await?;
        moved.extend(found.moved);
        list.add(rows, &moved, found.next);
        match list.read_on() {
            // In large steps, so that a small limit does not make many reads of it.
            Some(next) => (behind, read_at_once) = (Some(next.clone()), INBOX_LIMIT_MAX),
            None => break,
        }
    }
    line.unreadable(unreadable);
    let now = core.actions.clock.now();
    let shown = |rows: &[Membership]| -> Vec<Conversation> { rows.iter().cloned().map(|row| row.shown(now)).collect() };
    let (rows, next) = list.page(|rows| fit(shown(rows)).len());
    let conversations = shown(&rows);
    Ok(InboxResult { conversations, next_cursor: next.map(|next| next.to_text(user)) }.into())
}

/// Reads the conversations that the user has pinned, which fit in a frame.
async fn all_pinned(core: &Core, user: &UserId, line: &mut EventLine) -> Result<Reply, Failure> {
    let ids = pinned::get(&core.actions.store, user, List::Chats).await?.ids;
    let (rows, mut unreadable) = inbox::pinned(&core.actions.store, user, &ids).await?;
    let (rows, _) = groups::with_heads(core, user, rows, &mut unreadable).await?;
    line.unreadable(unreadable);
    let now = core.actions.clock.now();
    let conversations = fit(rows.into_iter().map(|row| row.shown(now)).collect());
    Ok(InboxResult { conversations, next_cursor: None }.into())
}

fn own_cursor(user: &UserId, text: &str) -> Result<Cursor, Refusal> {
    let problem = "must be a next_cursor that this user was given, or left out";
    Cursor::parse(user, text).ok_or_else(|| Refusal::bad_request("cursor", problem))
}
