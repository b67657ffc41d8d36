//! A part of a conversation.

use domain::{Failure, Membership, Sight, fit, fit_last};
use futures_util::future::try_join_all;
use lambda::{Core, EventLine};
use store::messages::Listed;
use store::{channel_reactions, inbox, messages};
use wire::{
    ConversationId, ConversationKind, HistoryRequest, HistoryResult, Message, Refusal, Reply, Seq, Side, UserId,
};

pub(crate) async fn history(
    core: &Core,
    user: &UserId,
    request: HistoryRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let conversation_id = line.conversation_id.insert(request.conversation_id.clone());
    let unreadable = &mut line.measures.unreadable;
    let result = match conversation_id.kind() {
        ConversationKind::Direct => direct(core, user, conversation_id, &request, unreadable).await?,
        ConversationKind::Group => group(core, user, conversation_id, &request, unreadable).await?,
        ConversationKind::Channel => channel(core, user, conversation_id, &request, unreadable).await?,
    };
    line.measures.messages = Some(result.messages.len() as u64);
    Ok(result.into())
}

async fn direct(
    core: &Core,
    user: &UserId,
    conversation_id: &ConversationId,
    request: &HistoryRequest,
    unreadable: &mut Option<u64>,
) -> Result<HistoryResult, Failure> {
    let own = inbox::get(&core.actions.store, user, conversation_id).await?.ok_or(Refusal::NotMember)?;
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let audience = own.told_of_marks();
    let others = audience.others().iter().map(async |other| {
        let row = inbox::get(&core.actions.store, other, conversation_id).await;
        store::if_readable(row, "another member's row")
    });
    let (listed, others) =
        tokio::join!(messages::list(&core.actions.store, conversation_id, request.side, limit), try_join_all(others));
    let (listed, others) = (whole(listed?, &Sight::WHOLE)?, others?);

    *unreadable = passed_over(&listed, others.iter().filter(|row| row.is_none()).count() as u64);
    let rows: Vec<_> = std::iter::once(own).chain(others.into_iter().flatten().flatten()).collect();
    // The rows were read one after another, and entries may have arrived between: the newest of what was read is the end.
    let ends = rows.iter().map(|row| row.end.seq).chain(listed.messages.last().map(|last| last.place.seq));
    let last_seq = ends.max().unwrap_or_default();
    let pins = pins(core, user, conversation_id, &rows, last_seq).await?;
    let (messages, more) = page(user, &listed, request.side, &Sight::WHOLE, last_seq);
    let members = rows.iter().map(Membership::member).collect();
    Ok(HistoryResult { messages, more, last_seq, first_seq: None, members, pins })
}

/// Returns the pinned messages of a direct conversation, as they are at `last_seq` or later. A client applies the pins of
/// later entries again, with the same result.
async fn pins(
    core: &Core,
    user: &UserId,
    conversation_id: &ConversationId,
    rows: &[Membership],
    last_seq: Seq,
) -> Result<Vec<Seq>, Failure> {
    if let Some(row) = rows.iter().find(|row| row.end.seq == last_seq) {
        return Ok(row.pins.clone());
    }
    let own = inbox::get(&core.actions.store, user, conversation_id).await?;
    Ok(own.map(|row| row.pins).unwrap_or_default())
}

async fn group(
    core: &Core,
    user: &UserId,
    group: &ConversationId,
    request: &HistoryRequest,
    unreadable: &mut Option<u64>,
) -> Result<HistoryResult, Failure> {
    let (mut seen, pins) = core.actions.visible_with_pins(user, group).await?;
    let last_seq = seen.last;
    if let Side::After(seq) = request.side
        && seq < seen.first.previous()
        && let Some((first, last)) = owed(core, user, group, seq, seen.first).await?
    {
        seen = Sight { first, last, has_left: true };
    }
    let (side, listed) = list(core, group, request, (&seen, last_seq)).await?;
    *unreadable = passed_over(&listed, 0);
    Ok(HistoryResult { pins, ..shown(core, user, group, (side, &listed), (seen, last_seq)).await? })
}

async fn channel(
    core: &Core,
    user: &UserId,
    channel: &ConversationId,
    request: &HistoryRequest,
    unreadable: &mut Option<u64>,
) -> Result<HistoryResult, Failure> {
    let (seen, pins) = core.actions.visible_with_pins(user, channel).await?;
    let last_seq = seen.last;
    let (side, mut listed) = list(core, channel, request, (&seen, last_seq)).await?;
    let reactions = channel_reactions::with_own(&core.actions.store, user, &mut listed.messages).await?;
    *unreadable = passed_over(&listed, reactions);
    Ok(HistoryResult { pins, ..shown(core, user, channel, (side, &listed), (seen, last_seq)).await? })
}

/// Reads the entries of a log that the user sees. Returns them with the side in numbers.
async fn list(
    core: &Core,
    conversation: &ConversationId,
    request: &HistoryRequest,
    (seen, last_seq): (&Sight, Seq),
) -> Result<(Side, Listed), Failure> {
    let side = match request.side {
        Side::Newest => Side::Before(last_seq.next()),
        Side::Before(seq) => Side::Before(seq.min(last_seq.next())),
        Side::After(seq) => Side::After(seq.max(seen.first.previous())),
    };
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let mut listed = whole(messages::list(&core.actions.store, conversation, side, limit).await?, seen)?;
    listed.messages.retain(|message| seen.contains(message.place.seq));
    listed.unreadable.retain(|seq| seen.contains(*seq));
    Ok((side, listed))
}

/// Refuses a page that lacks an entry: a client would take the others for all.
fn whole(listed: Listed, seen: &Sight) -> Result<Listed, Failure> {
    match listed.missing.filter(|seq| seen.contains(*seq)) {
        None => Ok(listed),
        Some(seq) => Err(store::Error::Missing { seq }.into()),
    }
}

/// Returns the page. Reads the user's membership again if entries were changed meanwhile.
async fn shown(
    core: &Core,
    user: &UserId,
    conversation: &ConversationId,
    (side, listed): (Side, &Listed),
    (seen, last_seq): (Sight, Seq),
) -> Result<HistoryResult, Failure> {
    let read: Vec<_> = listed.messages.iter().collect();
    let first_seq = seen.first;
    let seen = core.actions.seen_again(user, conversation, seen, &read).await?;
    let (messages, more) = page(user, listed, side, &seen, last_seq);
    Ok(HistoryResult { messages, more, last_seq, first_seq: Some(first_seq), members: vec![], pins: vec![] })
}

/// Returns the pending entries of an earlier membership after `behind`. These come before the entries since the return.
async fn owed(
    core: &Core,
    user: &UserId,
    group: &ConversationId,
    behind: Seq,
    joined: Seq,
) -> Result<Option<(Seq, Seq)>, Failure> {
    let mut row = inbox::get(&core.actions.store, user, group).await?;
    if row.as_ref().is_some_and(|row| row.end.seq < joined) {
        row = core.actions.touch(user, group, row).await?;
    }
    let owed = row.map(|row| row.owed()).unwrap_or_default();
    Ok(owed.into_iter().find(|(_, last)| *last > behind))
}

fn passed_over(listed: &Listed, rows: u64) -> Option<u64> {
    let count = listed.unreadable.len() as u64 + rows;
    (count > 0).then_some(count)
}

/// Returns as many entries as a frame holds, from the requested side, and whether that side has more. A log is dense,
/// so the `seq`s show that.
fn page(user: &UserId, listed: &Listed, side: Side, seen: &Sight, last_seq: Seq) -> (Vec<Message>, bool) {
    let messages: Vec<Message> = listed.messages.iter().map(|message| message.seen_by(user, seen)).collect();
    let found = messages.len();
    let first = listed.unreadable.first().copied().into_iter().chain(messages.first().map(|first| first.seq)).min();
    let last = listed.unreadable.last().copied().into_iter().chain(messages.last().map(|last| last.seq)).max();
    let (messages, beyond) = match side {
        Side::After(seq) => (fit(messages), last.unwrap_or(seq) < last_seq),
        Side::Newest | Side::Before(_) => (fit_last(messages), first.is_some_and(|first| first > seen.first)),
    };
    let cut = messages.len() < found;
    (messages, cut || beyond)
}
