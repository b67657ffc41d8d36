//! `send`: appends a message to a conversation, then pushes it to whoever is connected.
//!
//! Durable before delivered: no frame leaves and no answer is given before the transaction has committed. After it, nothing
//! may fail the request: what is not pushed is pending.

use deliver::{Delivery, Phones};
use domain::limits::WRITE_TRIES_MAX;
use domain::{
    Action, Conversation, ConversationId, Event as Pushed, Message, MessageId, Refusal, Reply, SendRequest, Target,
    UserId, retry_delay,
};
use lambda::{Call, Caller, Clock, Diagnostic, Event, Failure, Response};
use store::Store;
use store::inbox;
use store::message_append::{self, Append, Appended};
use tracing::{Instrument, Span};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub phones: Phones,
    pub clock: Clock,
}

/// Answers one event on the route `send`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let (call, asked) = Call::open(&event, deps.clock.now())?;
    let outcome = match asked {
        Ok(Action::Send(request)) => send(deps, &call.caller, request).instrument(call.span()).await,
        Ok(_) => Err(Refusal::UnknownAction.into()),
        Err(failure) => Err(failure),
    };
    Ok(call.close(outcome, deps.clock.now()))
}

async fn send(deps: &Deps, caller: &Caller, request: SendRequest) -> Result<Reply, Failure> {
    let conversation_id = match &request.target {
        Target::User(user) => ConversationId::direct(&caller.user, user),
        Target::Conversation(conversation) => conversation.clone(),
    };
    let started = deps.clock.now();
    let stored = store_message(deps, &caller.user, request, conversation_id).await?;
    let stored_at = deps.clock.now();
    // A duplicate is pushed again: the first run may have died right after its commit.
    let reached = push(deps, caller, &stored).await;
    Span::current()
        .record("store_ms", stored_at.millis() - started.millis())
        .record("push_ms", deps.clock.now().millis() - stored_at.millis())
        .record("left_pending", u8::from(!reached));
    let Stored { message, duplicate, .. } = stored;
    let Message { conversation_id, seq, message_id, sent_at, .. } = message;
    Ok(Reply::Send { conversation_id, seq, message_id, sent_at, duplicate })
}

struct Stored {
    message: Message,
    recipient: UserId,
    duplicate: bool,
}

/// Reads where the conversation ends and writes behind it, until nobody else did in between.
async fn store_message(
    deps: &Deps,
    sender: &UserId,
    request: SendRequest,
    conversation_id: ConversationId,
) -> Result<Stored, Failure> {
    let span = Span::current();
    span.record("conversation_id", conversation_id.as_str());
    let SendRequest { target, client_msg_id, kind, body } = request;
    let mut message = Message {
        conversation_id,
        seq: domain::Seq::ZERO,
        message_id: MessageId::stored(""),
        sender_id: sender.clone(),
        kind,
        body,
        sent_at: deps.clock.now(),
        client_msg_id: Some(client_msg_id),
    };
    for tries in 1..=WRITE_TRIES_MAX {
        let previous = inbox::get(&deps.store, sender, &message.conversation_id).await.map_err(Failure::unavailable)?;
        let recipient = match (&target, &previous) {
            (Target::User(user), _) => user.clone(),
            (Target::Conversation(_), Some(row)) => row.peer_id.clone(),
            (Target::Conversation(_), None) => return Err(Refusal::NotMember.into()),
        };
        (message.seq, message.sent_at) = Conversation::following(previous.as_ref(), deps.clock.now());
        message.message_id = MessageId::new(message.sent_at, random_bytes());
        let append = Append { message: &message, recipient: &recipient, previous: previous.as_ref() };
        let appended = message_append::append(&deps.store, &append).await.map_err(Failure::unavailable)?;
        span.record("conflicts", tries - 1);
        match appended {
            Appended::Stored => {
                span.record("seq", message.seq.value());
                return Ok(Stored { message, recipient, duplicate: false });
            }
            Appended::Duplicate { seq, message_id, sent_at } => {
                span.record("seq", seq.value());
                let message = Message { seq, message_id, sent_at, ..message };
                return Ok(Stored { message, recipient, duplicate: true });
            }
            Appended::IdReused => return Err(Refusal::IdReused.into()),
            Appended::Taken => tokio::time::sleep(retry_delay(tries, fastrand::f64())).await,
        }
    }
    Err(Refusal::Conflict.into())
}

/// To every live connection of the recipient, and to the sender's others. Whether any of the recipient's took it.
async fn push(deps: &Deps, caller: &Caller, stored: &Stored) -> bool {
    let Stored { message, recipient, .. } = stored;
    let frame_for = |viewer| Pushed::MessageNew { message: &message.clone().seen_by(viewer) }.to_frame();
    let own = Delivery { user: &caller.user, frame: frame_for(&caller.user), except: Some(&caller.connection) };
    let mut deliveries = vec![own];
    if *recipient != caller.user {
        deliveries.push(Delivery { user: recipient, frame: frame_for(recipient), except: None });
    }
    let tallies = deps.phones.deliver(deps.clock.now(), &deliveries).await;
    tallies.last().is_some_and(|recipient| recipient.posted > 0)
}

fn random_bytes() -> [u8; 10] {
    std::array::from_fn(|_| fastrand::u8(..))
}
