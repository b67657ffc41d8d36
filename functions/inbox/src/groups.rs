//! Groups in the chat list. The title and the last message of a group are in its head, once for all members.

use std::collections::{BTreeSet, HashMap};

use domain::{Entry, Failure, Head, LastEntry, Membership, With, error_chain, preview};
use futures_util::future::join_all;
use lambda::Core;
use store::{heads, messages, roster};
use wire::{ConversationId, Kind, Role, Seq, System, UserId};

/// Adds the state of their groups to the user's rows. A row that lags behind its group catches up first, so no caller
/// waits for the stream. Returns the conversations of these rows, too.
pub(crate) async fn with_heads(
    core: &Core,
    user: &UserId,
    rows: Vec<Membership>,
    unreadable: &mut u64,
) -> Result<(Vec<Membership>, BTreeSet<ConversationId>), Failure> {
    let ids = |is_open| -> Vec<ConversationId> {
        let groups = rows.iter().filter(|row| row.view().is_some() && row.is_open() == is_open);
        groups.map(|row| row.conversation_id.clone()).collect()
    };
    let (mut open, left) = (ids(true), ids(false));
    if open.is_empty() && left.is_empty() {
        return Ok((rows, BTreeSet::new()));
    }
    open.extend(joined_again(core, user, &left).await?);
    let (found, failed) =
        if open.is_empty() { (vec![], 0) } else { heads::get_many(&core.actions.store, &open).await? };
    *unreadable += failed;
    let heads: HashMap<ConversationId, Head> =
        found.into_iter().map(|head| (head.conversation_id.clone(), head)).collect();
    let ends = rows.iter().map(|row| row.end.seq).collect::<Vec<_>>();
    let rows = join_all(rows.into_iter().map(async |row| up_to_date(core, row, &heads).await)).await;
    let stays = rows.iter().filter(|(_, stays)| *stays).map(|(row, _)| row.conversation_id.clone());
    let stays: BTreeSet<ConversationId> = stays.collect();
    *unreadable += stays.len() as u64;
    // A row that stays behind does not show whether its member has left since. The list shows it without the current
    // state of its group.
    let with_head = |(row, stays)| if stays { row } else { with_head(row, &heads) };
    let rows: Vec<Membership> = rows.into_iter().map(with_head).collect();
    let moved = rows.iter().zip(ends).filter(|(row, end)| row.end.seq != *end);
    let moved = moved.map(|(row, _)| row.conversation_id.clone()).collect();
    Ok((with_lines(core, rows, &stays).await?, moved))
}

/// Returns the groups that the user has left, by the inbox rows, and is a member of again.
async fn joined_again(
    core: &Core,
    user: &UserId,
    left: &[ConversationId],
) -> Result<impl Iterator<Item = ConversationId>, Failure> {
    let found = roster::of_user(&core.actions.store, user, left, false).await?;
    Ok(found.into_iter().filter(|(_, row)| row.is_member()).map(|(group, _)| group))
}

/// Returns the row at the end of its group's log. The flag is set if the row could not catch up and is unchanged. The
/// list still has the other conversations.
async fn up_to_date(core: &Core, row: Membership, heads: &HashMap<ConversationId, Head>) -> (Membership, bool) {
    let Some(head) = heads.get(&row.conversation_id).filter(|head| head.end.seq > row.end.seq) else {
        return (row, false);
    };
    match brought_along(core, row.clone(), head).await {
        Ok(row) => (row, false),
        Err(failure) => {
            tracing::error!(
                error = error_chain(&failure),
                "an inbox row is left behind; the chat list may be out of date"
            );
            (row, true)
        }
    }
}

async fn brought_along(core: &Core, row: Membership, head: &Head) -> Result<Membership, Failure> {
    let (user, group) = (row.user_id.clone(), row.conversation_id.clone());
    let moved = core.actions.touch(&user, &group, Some(row.clone())).await?;
    let mut row = moved.unwrap_or(row);
    if let With::Group(view) = &mut row.with
        && view.left_seq.is_none()
        && head.end.seq > row.end.seq
    {
        // The row could not catch up. The head can be of a time when the member had left.
        let own = store::if_readable(roster::get(&core.actions.store, &group, &user).await, "a row of a roster")?;
        if let Some(left_seq) = own.flatten().and_then(|own| own.left_seq) {
            (view.left_seq, view.role) = (Some(left_seq), Role::None);
        }
    }
    Ok(row)
}

/// Adds the group's state to a row. The head's last message is added only if the row is at the same end. A later head
/// can be of a time when the user is no member.
fn with_head(mut row: Membership, heads: &HashMap<ConversationId, Head>) -> Membership {
    let Some(head) = heads.get(&row.conversation_id) else { return row };
    let (is_open, is_there) = (row.is_open(), row.end.seq == head.end.seq);
    if let With::Group(view) = &mut row.with
        && is_open
    {
        view.group = Some(head.group.clone());
        view.rules = Some(head.rules);
        view.encrypted = head.seal.encrypted;
        if is_there && head.line.kind != Kind::System {
            row.last = head.line.clone();
        }
        row.epoch = head.seal.epoch;
    }
    row
}

/// Reads the last messages that no head has: for users who have left, system entries, and for rows that have just
/// caught up.
async fn with_lines(
    core: &Core,
    mut rows: Vec<Membership>,
    without: &BTreeSet<ConversationId>,
) -> Result<Vec<Membership>, Failure> {
    let lacks_line = |row: &Membership| {
        row.view().is_some()
            && row.last.preview.is_empty()
            && row.last.kind != Kind::Sealed
            && !row.last.deleted
            && !without.contains(&row.conversation_id)
    };
    let place = |row: &Membership| (row.conversation_id.clone(), row.last.seq);
    let wanted: Vec<(ConversationId, Seq)> = rows.iter().filter(|row| lacks_line(row)).map(place).collect();
    if wanted.is_empty() {
        return Ok(rows);
    }
    let entries = messages::get_many(&core.actions.store, &wanted).await?;
    let entries: HashMap<(ConversationId, Seq), Entry> =
        entries.into_iter().map(|entry| ((entry.conversation_id.clone(), entry.place.seq), entry)).collect();
    for row in rows.iter_mut().filter(|row| lacks_line(row)) {
        let Some(entry) = entries.get(&place(row)) else { continue };
        let shown = entry.seen_by(&row.user_id, &row.sight());
        row.last = LastEntry {
            preview: preview(&shown.body),
            deleted: shown.deleted_at.is_some(),
            system: shown.system.map(System::listed),
            ..row.last.clone()
        };
        if let (With::Group(view), Some(group)) = (&mut row.with, entry.system().and_then(|body| body.group.as_ref()))
            && view.left_seq.is_some()
        {
            view.group = Some(group.clone());
        }
    }
    Ok(rows)
}
