//! A part of a conversation.

use domain::{Failure, fit, fit_last};
use futures_util::future::try_join_all;
use lambda::EventLine;
use store::messages::Listed;
use store::{inbox, messages};
use wire::{HistoryRequest, HistoryResult, Message, Refusal, Reply, Seq, Side, UserId};

use crate::Deps;

pub(crate) async fn history(
    deps: &Deps,
    user: &UserId,
    request: HistoryRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let HistoryRequest { conversation_id, side, limit } = request;
    let conversation_id = line.conversation_id.insert(conversation_id);
    let own = inbox::get(&deps.store, user, conversation_id).await?.ok_or(Refusal::NotMember)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let audience = own.told_of_marks();
    let others = audience.others().iter().map(|other| inbox::get(&deps.store, other, conversation_id));
    let (listed, others) =
        tokio::join!(messages::list(&deps.store, conversation_id, side, limit), try_join_all(others));
    let (listed, others) = (listed?, others?);

    let rows: Vec<_> = std::iter::once(own).chain(others.into_iter().flatten()).collect();
    // The rows were read one after another, and entries may have arrived between: the newest of what was read is the end.
    let ends = rows.iter().map(|row| row.end.seq).chain(listed.messages.last().map(|last| last.place.seq));
    let last_seq = ends.max().unwrap_or_default();
    let (messages, more) = page(user, &listed, side, last_seq);
    line.measures.messages = Some(messages.len() as u64);
    line.unreadable(listed.unreadable.len() as u64);
    let members = rows.iter().map(domain::Membership::member).collect();
    Ok(HistoryResult { messages, more, last_seq, members }.into())
}

/// As much as a frame holds, from the side that was asked for; and whether there is more on that side. Seqs have no holes, so the
/// numbers say it.
fn page(user: &UserId, listed: &Listed, side: Side, last_seq: Seq) -> (Vec<Message>, bool) {
    let messages: Vec<Message> = listed.messages.iter().map(|message| message.seen_by(user)).collect();
    let found = messages.len();
    let first = listed.unreadable.first().copied().into_iter().chain(messages.first().map(|first| first.seq)).min();
    let last = listed.unreadable.last().copied().into_iter().chain(messages.last().map(|last| last.seq)).max();
    let (messages, beyond) = match side {
        Side::After(seq) => (fit(messages), last.unwrap_or(seq) < last_seq),
        Side::Newest | Side::Before(_) => (fit_last(messages), first.is_some_and(|first| first > Seq::ZERO.next())),
    };
    let cut = messages.len() < found;
    (messages, cut || beyond)
}
