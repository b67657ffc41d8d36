//! `drain`, `ack` and `ping`: what is pending, and its end.

mod ack;

use deliver::Phones;
use domain::limits::{ACK_ENTRIES_MAX, DRAIN_MESSAGES_MAX, DRAIN_MESSAGES_PER_CONVERSATION_MIN};
use domain::{AckEntry, Action, Backlog, Conversation, Refusal, Reply, Side, UserId, drain_page};
use futures_util::future::try_join_all;
use lambda::{Call, Caller, Clock, Diagnostic, Event, Failure, Response};
use store::{Store, inbox, messages};
use tracing::{Instrument, Span};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub phones: Phones,
    pub clock: Clock,
}

/// Answers one event on the routes `drain`, `ack` and `ping`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let (call, asked) = Call::open(&event, deps.clock.now())?;
    let answer = async {
        match asked? {
            Action::Drain { ack } => drain(deps, &call.caller, &ack).await,
            Action::Ack { up_to } => ack::apply(deps, &call.caller, &up_to).await.map(|()| Reply::Ack {}),
            Action::Ping => ping(deps, &call.caller.user).await,
            _ => Err(Refusal::UnknownAction.into()),
        }
    };
    let outcome = answer.instrument(call.span()).await;
    Ok(call.close(outcome, deps.clock.now()))
}

/// The acknowledgement of the page before, then the next page. The client sets the pace, and a page that was lost on the
/// way comes again, since nothing but an ack ends what is pending.
async fn drain(deps: &Deps, caller: &Caller, page_before: &[AckEntry]) -> Result<Reply, Failure> {
    ack::apply(deps, caller, page_before).await?;
    // No more conversations than the ack of this page can name.
    let pending = inbox::pending(&deps.store, &caller.user, ACK_ENTRIES_MAX).await.map_err(Failure::unavailable)?;
    let share = DRAIN_MESSAGES_MAX / pending.conversations.len().max(1);
    let limit = share.max(DRAIN_MESSAGES_PER_CONVERSATION_MIN);
    let backlogs = pending.conversations.iter().map(|conversation| backlog(deps, &caller.user, conversation, limit));
    let backlogs = try_join_all(backlogs).await?;
    let (messages, left_out) = drain_page(backlogs);
    Span::current().record("messages", messages.len());
    Ok(Reply::Drain { messages, more: left_out || pending.more })
}

async fn backlog(deps: &Deps, user: &UserId, conversation: &Conversation, limit: usize) -> Result<Backlog, Failure> {
    let after = Side::After(conversation.marks.delivered_seq);
    let messages =
        messages::list(&deps.store, &conversation.conversation_id, after, limit).await.map_err(Failure::unavailable)?;
    let more = messages.last().is_some_and(|last| last.seq < conversation.last.seq);
    Ok(Backlog { messages: messages.into_iter().map(|message| message.seen_by(user)).collect(), more })
}

async fn ping(deps: &Deps, user: &UserId) -> Result<Reply, Failure> {
    let pending = inbox::has_pending(&deps.store, user).await.map_err(Failure::unavailable)?;
    Ok(Reply::Ping { pending, server_time: deps.clock.now() })
}
