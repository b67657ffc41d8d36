//! Somebody is writing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actions::tell_typing;
use domain::{Failure, Filled, Rate};
use lambda::{Caller, EventLine};
use wire::limits::TYPING_PAUSE_MS;
use wire::{ConversationId, Timestamp, TypingRequest, UserId};

use crate::Deps;

/// What comes sooner after the last one is dropped. A client that keeps the pause is not always a full pause late.
const RATE: Rate = Rate { burst: 1, pause: Duration::from_millis(TYPING_PAUSE_MS - 500) };

/// Until when each user has been told to be writing in a conversation, by this process.
#[derive(Debug, Default)]
pub struct Typing(Mutex<Filled<(UserId, ConversationId)>>);

impl Typing {
    fn admit(&self, user: &UserId, conversation: &ConversationId, now: Timestamp) -> bool {
        // What somebody who panicked left behind is still a list of times.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.count(&RATE, &(user.clone(), conversation.clone()), now).is_ok()
    }
}

/// Tells those of the other members who are connected. Nothing is stored.
pub(crate) async fn typing(
    deps: &Deps,
    caller: &Caller,
    request: TypingRequest,
    line: &mut EventLine,
) -> Result<(), Failure> {
    let conversation_id = line.conversation_id.insert(request.conversation_id);
    let now = deps.clock.now();
    if !deps.typing.admit(&caller.user, conversation_id, now) {
        return Ok(());
    }
    let (user, connection) = (&caller.user, &caller.connection);
    let delivered = tell_typing(&deps.store, &deps.fanout, now, user, conversation_id, connection).await?;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(())
}
