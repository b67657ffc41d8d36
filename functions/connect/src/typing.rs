//! `typing`: sends the event that a user is writing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::{Failure, Filled, Rate};
use lambda::{Caller, EventLine};
use wire::limits::TYPING_PAUSE_MS;
use wire::{ConversationId, Timestamp, TypingRequest, UserId};

use crate::Deps;

/// A request that comes sooner after the last one is dropped. The pause is shorter than that of clients, because some
/// of their requests arrive a little early.
const RATE: Rate = Rate { burst: 1, pause: Duration::from_millis(TYPING_PAUSE_MS - 500) };

/// The time until which this process has announced each user as typing in a conversation.
#[derive(Debug, Default)]
pub struct Typing(Mutex<Filled<(UserId, ConversationId)>>);

impl Typing {
    fn admit(&self, user: &UserId, conversation: &ConversationId, now: Timestamp) -> bool {
        // The times are still valid after another request has panicked.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.count(&RATE, &(user.clone(), conversation.clone()), now).is_ok()
    }
}

/// Sends `typing` to the other members' connections. Nothing is stored.
pub(crate) async fn typing(
    deps: &Deps,
    caller: &Caller,
    request: TypingRequest,
    line: &mut EventLine,
) -> Result<(), Failure> {
    let conversation_id = line.conversation_id.insert(request.conversation_id);
    let now = deps.actions.clock.now();
    if !deps.typing.admit(&caller.user, conversation_id, now) {
        return Ok(());
    }
    let delivered = deps.actions.tell_typing(&caller.user, conversation_id, caller.origin.as_ref()).await?;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(())
}
