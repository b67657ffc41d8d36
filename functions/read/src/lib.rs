//! `read`: raises the read watermark, counts what is left unread, and tells the other member and the reader's own devices.

use std::ops::RangeInclusive;

use deliver::{Delivery, Phones};
use domain::limits::WRITE_TRIES_MAX;
use domain::{
    Action, Conversation, ConversationId, Event as Pushed, Marks, ReadRequest, Refusal, Reply, Seq, Unread, UserId,
    retry_delay,
};
use lambda::{Call, Caller, Clock, Diagnostic, Event, Failure, Response};
use store::inbox::{self, Mark, Update};
use store::{Store, messages};
use tracing::{Instrument, Span};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub phones: Phones,
    pub clock: Clock,
}

/// Answers one event on the route `read`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let (call, asked) = Call::open(&event, deps.clock.now())?;
    let outcome = match asked {
        Ok(Action::Read(request)) => read(deps, &call.caller, &request).instrument(call.span()).await,
        Ok(_) => Err(Refusal::UnknownAction.into()),
        Err(failure) => Err(failure),
    };
    Ok(call.close(outcome, deps.clock.now()))
}

async fn read(deps: &Deps, caller: &Caller, request: &ReadRequest) -> Result<Reply, Failure> {
    let ReadRequest { conversation_id, seq } = request;
    Span::current().record("conversation_id", conversation_id.as_str()).record("seq", seq.value());
    let row = raise(deps, &caller.user, conversation_id, *seq).await?;
    // Even if there was nothing to raise: this may be the retry of a read whose run died before it told anyone, and the
    // watermark may have gone on since, with the user's own next message.
    tell(deps, caller, &row).await;
    Ok(Reply::Read { unread: row.marks.unread })
}

/// One conditional write, where the last message is read, as it nearly always is; else the row as it is says what to count
/// and to write. Returns the row as it is then.
async fn raise(
    deps: &Deps,
    user: &UserId,
    conversation_id: &ConversationId,
    seq: Seq,
) -> Result<Conversation, Failure> {
    let mut known = None;
    for tries in 1..=WRITE_TRIES_MAX {
        let update = match known.take() {
            None => inbox::catch_up(&deps.store, user, conversation_id, seq, Mark::Read).await,
            Some(row) => match marks_once_read(deps, user, &row, seq).await? {
                Some(marks) => inbox::advance(&deps.store, user, &row, &marks).await,
                None => return Ok(row),
            },
        };
        known = match update.map_err(Failure::unavailable)? {
            Update::Done(row) => return Ok(row),
            Update::Refused(None) => return Err(Refusal::NotMember.into()),
            Update::Refused(row) => row,
            Update::Busy => {
                tokio::time::sleep(retry_delay(tries, fastrand::f64())).await;
                None
            }
        };
    }
    Err(Refusal::Conflict.into())
}

/// `None` if everything up to `seq` was read before.
async fn marks_once_read(deps: &Deps, user: &UserId, row: &Conversation, seq: Seq) -> Result<Option<Marks>, Failure> {
    let Some(unread) = row.unread_after(seq) else { return Ok(None) };
    let counted = match &unread {
        Unread::Nothing => 0,
        Unread::Remaining(range) | Unread::NoLonger(range) => by_others(deps, user, row, range).await?,
    };
    Ok(Some(row.read(seq, &unread, counted)))
}

async fn by_others(
    deps: &Deps,
    user: &UserId,
    row: &Conversation,
    range: &RangeInclusive<u64>,
) -> Result<u64, Failure> {
    messages::count_by_others(&deps.store, &row.conversation_id, range, user).await.map_err(Failure::unavailable)
}

/// Blue ticks for the other member, and no badge on the reader's other devices.
async fn tell(deps: &Deps, caller: &Caller, row: &Conversation) {
    let at = deps.clock.now();
    let event =
        Pushed::Read { conversation_id: &row.conversation_id, user_id: &caller.user, seq: row.marks.read_seq, at };
    let own = Delivery { user: &caller.user, frame: event.to_frame(), except: Some(&caller.connection) };
    let mut deliveries = vec![own];
    if row.peer_id != caller.user {
        deliveries.push(Delivery { user: &row.peer_id, frame: event.to_frame(), except: None });
    }
    deps.phones.deliver(at, &deliveries).await;
}
