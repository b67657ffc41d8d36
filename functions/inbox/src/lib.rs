//! `inbox` and `history`: the chat list, and what was said.

use domain::{
    Action, Cursor, HistoryRequest, InboxRequest, Member, Message, Refusal, Reply, Seq, Side, UserId, fit, fit_last,
};
use lambda::{Call, Clock, Diagnostic, Event, Failure, Response};
use store::{Store, inbox, messages};
use tracing::{Instrument, Span};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub clock: Clock,
}

/// Answers one event on the routes `inbox` and `history`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let (call, asked) = Call::open(&event, deps.clock.now())?;
    let answer = async {
        match asked? {
            Action::Inbox(request) => chat_list(deps, &call.caller.user, &request).await,
            Action::History(request) => history(deps, &call.caller.user, &request).await,
            _ => Err(Refusal::UnknownAction.into()),
        }
    };
    let outcome = answer.instrument(call.span()).await;
    Ok(call.close(outcome, deps.clock.now()))
}

async fn chat_list(deps: &Deps, user: &UserId, request: &InboxRequest) -> Result<Reply, Failure> {
    let InboxRequest { limit, cursor, since } = request;
    let page = inbox::recent(&deps.store, user, *limit, cursor.as_ref(), *since).await.map_err(Failure::unavailable)?;
    let found = page.conversations.len();
    // In the index's order first: the next page begins after the last row that fits this one.
    let mut conversations = fit(page.conversations);
    let more = page.more || conversations.len() < found;
    let next_cursor = conversations
        .last()
        .filter(|_| more)
        .map(|row| Cursor { active_at: row.active_at, conversation_id: row.conversation_id.clone() }.to_text(user));
    conversations.retain(|row| since.is_none_or(|since| row.last.sent_at >= since));
    conversations.sort_by_key(|row| std::cmp::Reverse(row.last.sent_at));
    Ok(Reply::Inbox { conversations, next_cursor })
}

async fn history(deps: &Deps, user: &UserId, request: &HistoryRequest) -> Result<Reply, Failure> {
    let HistoryRequest { conversation_id, side, limit } = request;
    Span::current().record("conversation_id", conversation_id.as_str());
    let own = inbox::get(&deps.store, user, conversation_id).await.map_err(Failure::unavailable)?;
    let own = own.ok_or(Refusal::NotMember)?;
    let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
    let (listed, peer) = tokio::join!(
        messages::list(&deps.store, conversation_id, *side, limit),
        inbox::get(&deps.store, &own.peer_id, conversation_id),
    );
    let (listed, peer) = (listed.map_err(Failure::unavailable)?, peer.map_err(Failure::unavailable)?);

    let messages: Vec<Message> = listed.into_iter().map(|message| message.seen_by(user)).collect();
    let messages = if matches!(side, Side::After(_)) { fit(messages) } else { fit_last(messages) };
    // A message may have arrived between the two reads.
    let last_seq = messages.last().map_or(own.last.seq, |last| last.seq.max(own.last.seq));
    let more = more(*side, &messages, last_seq);
    Span::current().record("messages", messages.len());

    let member = |user: &UserId, row: &domain::Conversation| Member {
        user_id: user.clone(),
        delivered_seq: row.marks.delivered_seq,
        read_seq: row.marks.read_seq,
    };
    let mut members = vec![member(user, &own)];
    members.extend(peer.filter(|_| own.peer_id != *user).map(|row| member(&own.peer_id, &row)));
    Ok(Reply::History { messages, more, last_seq, members })
}

/// Whether there is more on that side. Seqs have no holes, so the numbers say it.
fn more(side: Side, messages: &[Message], last_seq: Seq) -> bool {
    match side {
        Side::After(seq) => messages.last().map_or(seq, |last| last.seq) < last_seq,
        Side::Newest | Side::Before(_) => messages.first().is_some_and(|first| first.seq > Seq::ZERO.next()),
    }
}
