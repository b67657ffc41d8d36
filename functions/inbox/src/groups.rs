//! Groups in the chat list: what they are called, and their line, are with the group, once for all members.

use std::collections::HashMap;

use actions::touch;
use domain::{Failure, Head, LastEntry, Membership, StoredMessage, With, preview};
use futures_util::future::try_join_all;
use store::{heads, messages, roster};
use wire::{ConversationId, Kind, Seq, UserId};

use crate::Deps;

/// The user's rows with what their groups are. One that lags behind its group is brought there first: nobody who looks waits for the stream.
pub(crate) async fn with_heads(
    deps: &Deps,
    user: &UserId,
    rows: Vec<Membership>,
    unreadable: &mut u64,
) -> Result<Vec<Membership>, Failure> {
    let ids = |is_open| -> Vec<ConversationId> {
        let groups = rows.iter().filter(|row| row.view().is_some() && row.is_open() == is_open);
        groups.map(|row| row.conversation_id.clone()).collect()
    };
    let (mut open, left) = (ids(true), ids(false));
    if open.is_empty() && left.is_empty() {
        return Ok(rows);
    }
    open.extend(joined_again(deps, user, &left).await?);
    let (found, failed) = if open.is_empty() { (vec![], 0) } else { heads::get_many(&deps.store, &open).await? };
    *unreadable += failed;
    let heads: HashMap<ConversationId, Head> =
        found.into_iter().map(|head| (head.conversation_id.clone(), head)).collect();
    let rows = try_join_all(rows.into_iter().map(async |row| up_to_date(deps, row, &heads).await)).await?;
    let rows: Vec<Membership> = rows.into_iter().map(|row| with_head(row, &heads)).collect();
    with_lines(deps, rows).await
}

/// Of groups that the user has left by these rows, those of which they are a member all the same.
async fn joined_again(
    deps: &Deps,
    user: &UserId,
    left: &[ConversationId],
) -> Result<impl Iterator<Item = ConversationId>, Failure> {
    let found = roster::of_user(&deps.store, user, left).await?;
    Ok(found.into_iter().filter(|(_, row)| row.is_member()).map(|(group, _)| group))
}

async fn up_to_date(
    deps: &Deps,
    row: Membership,
    heads: &HashMap<ConversationId, Head>,
) -> Result<Membership, Failure> {
    let is_behind = heads.get(&row.conversation_id).is_some_and(|head| head.end.seq > row.end.seq);
    if !is_behind {
        return Ok(row);
    }
    let (user, group) = (row.user_id.clone(), row.conversation_id.clone());
    let moved = touch(&deps.store, &deps.fanout, deps.clock.now(), &user, &group, Some(row.clone())).await?;
    Ok(moved.unwrap_or(row))
}

/// The line is the group's only where the member has come to the same end: else it may be of a time when they are none.
fn with_head(mut row: Membership, heads: &HashMap<ConversationId, Head>) -> Membership {
    let Some(head) = heads.get(&row.conversation_id) else { return row };
    let (is_open, is_there) = (row.is_open(), row.end.seq == head.end.seq);
    if let With::Group(view) = &mut row.with
        && is_open
    {
        view.group = Some(head.group.clone());
        view.rules = Some(head.rules);
        if is_there && head.line.kind != Kind::System {
            row.last = head.line.clone();
        }
    }
    row
}

/// Lines that no head has: of who has left, of system entries, and of rows that were brought along just now.
async fn with_lines(deps: &Deps, mut rows: Vec<Membership>) -> Result<Vec<Membership>, Failure> {
    let lacks_line = |row: &Membership| row.view().is_some() && row.last.preview.is_empty() && !row.last.deleted;
    let place = |row: &Membership| (row.conversation_id.clone(), row.last.seq);
    let wanted: Vec<(ConversationId, Seq)> = rows.iter().filter(|row| lacks_line(row)).map(place).collect();
    if wanted.is_empty() {
        return Ok(rows);
    }
    let entries = messages::get_many(&deps.store, &wanted).await?;
    let entries: HashMap<(ConversationId, Seq), StoredMessage> =
        entries.into_iter().map(|entry| ((entry.conversation_id.clone(), entry.place.seq), entry)).collect();
    for row in rows.iter_mut().filter(|row| lacks_line(row)) {
        let Some(entry) = entries.get(&place(row)) else { continue };
        row.last = LastEntry {
            preview: preview(&entry.body),
            deleted: entry.deleted.is_some(),
            system: entry.system.clone(),
            ..row.last.clone()
        };
        if let (With::Group(view), Some(group)) = (&mut row.with, &entry.aside.group)
            && view.left_seq.is_some()
        {
            view.group = Some(group.clone());
        }
    }
    Ok(rows)
}
