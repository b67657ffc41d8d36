//! A message for a conversation.

use actions::{Writer, conversation_for};
use domain::Failure;
use lambda::{Caller, Core, EventLine};
use wire::{Reply, SendRequest};

use crate::tell;

/// Appends the message, and posts it to all connections of its users.
pub(crate) async fn send(
    core: &Core,
    caller: &Caller,
    request: SendRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    line.conversation_id = Some(conversation_for(&caller.user, &request.target));
    let started = core.actions.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: &caller.user, origin: caller.origin.as_ref() };
    let appended = core.actions.append(writer, request, conflicts).await?;
    Ok(tell(core, caller, started, appended, line).await.into())
}
