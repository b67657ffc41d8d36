//! A part of a conversation.

use actions::visible;
use domain::{Failure, fit, fit_last};
use futures_util::future::try_join_all;
use lambda::EventLine;
use store::messages::Listed;
use store::{channel_reactions, inbox, messages};
use wire::{ConversationId, HistoryRequest, HistoryResult, Message, Refusal, Reply, Seq, Side, UserId};

use crate::Deps;

pub(crate) async fn history(
    deps: &Deps,
    user: &UserId,
    request: HistoryRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let conversation_id = line.conversation_id.insert(request.conversation_id.clone());
    let result = if conversation_id.has_members() {
        of_group(deps, user, conversation_id, &request, &mut line.measures.unreadable).await?
    } else {
        direct(deps, user, conversation_id, &request, &mut line.measures.unreadable).await?
    };
    line.measures.messages = Some(result.messages.len() as u64);
    Ok(result.into())
}

async fn direct(
    deps: &Deps,
    user: &UserId,
    conversation_id: &ConversationId,
    request: &HistoryRequest,
    unreadable: &mut Option<u64>,
) -> Result<HistoryResult, Failure> {
    let own = inbox::get(&deps.store, user, conversation_id).await?.ok_or(Refusal::NotMember)?;
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let audience = own.told_of_marks();
    let others = audience.others().iter().map(async |other| {
        let row = inbox::get(&deps.store, other, conversation_id).await;
        store::if_readable(row, "another member's row")
    });
    let (listed, others) =
        tokio::join!(messages::list(&deps.store, conversation_id, request.side, limit), try_join_all(others));
    let (listed, others) = (listed?, others?);

    *unreadable = passed_over(&listed, others.iter().filter(|row| row.is_none()).count());
    let rows: Vec<_> = std::iter::once(own).chain(others.into_iter().flatten().flatten()).collect();
    // The rows were read one after another, and entries may have arrived between: the newest of what was read is the end.
    let ends = rows.iter().map(|row| row.end.seq).chain(listed.messages.last().map(|last| last.place.seq));
    let last_seq = ends.max().unwrap_or_default();
    let (messages, more) = page(user, &listed, request.side, Seq::FIRST, last_seq);
    let members = rows.iter().map(domain::Membership::member).collect();
    Ok(HistoryResult { messages, more, last_seq, first_seq: None, members })
}

async fn of_group(
    deps: &Deps,
    user: &UserId,
    group: &ConversationId,
    request: &HistoryRequest,
    unreadable: &mut Option<u64>,
) -> Result<HistoryResult, Failure> {
    let seen = visible(&deps.store, user, group).await?;
    let (first_seq, last_seq) = (*seen.start(), *seen.end());
    let side = match request.side {
        Side::Newest => Side::Before(last_seq.next()),
        Side::Before(seq) => Side::Before(seq.min(last_seq.next())),
        Side::After(seq) => Side::After(seq.max(first_seq.previous())),
    };
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let mut listed = messages::list(&deps.store, group, side, limit).await?;
    listed.messages.retain(|message| seen.contains(&message.place.seq));
    listed.unreadable.retain(|seq| seen.contains(seq));
    *unreadable = passed_over(&listed, 0);
    if group.is_channel() {
        channel_reactions::with_own(&deps.store, user, &mut listed.messages).await?;
    }
    let (messages, more) = page(user, &listed, side, first_seq, last_seq);
    Ok(HistoryResult { messages, more, last_seq, first_seq: Some(first_seq), members: vec![] })
}

fn passed_over(listed: &Listed, rows: usize) -> Option<u64> {
    let count = (listed.unreadable.len() + rows) as u64;
    (count > 0).then_some(count)
}

/// As much as a frame holds, from the side that was asked for; and whether there is more on that side. Seqs have no holes, so the
/// numbers say it.
fn page(user: &UserId, listed: &Listed, side: Side, first_seq: Seq, last_seq: Seq) -> (Vec<Message>, bool) {
    let messages: Vec<Message> = listed.messages.iter().map(|message| message.seen_by(user, first_seq)).collect();
    let found = messages.len();
    let first = listed.unreadable.first().copied().into_iter().chain(messages.first().map(|first| first.seq)).min();
    let last = listed.unreadable.last().copied().into_iter().chain(messages.last().map(|last| last.seq)).max();
    let (messages, beyond) = match side {
        Side::After(seq) => (fit(messages), last.unwrap_or(seq) < last_seq),
        Side::Newest | Side::Before(_) => (fit_last(messages), first.is_some_and(|first| first > first_seq)),
    };
    let cut = messages.len() < found;
    (messages, cut || beyond)
}
