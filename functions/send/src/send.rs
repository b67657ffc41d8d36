//! A message for a conversation.

use actions::{Writer, append, conversation_for};
use domain::Failure;
use lambda::{Caller, EventLine};
use wire::{Reply, SendRequest};

use crate::{Deps, tell};

/// Appends it, and tells whoever is connected.
pub(crate) async fn send(
    deps: &Deps,
    caller: &Caller,
    request: SendRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    line.conversation_id = Some(conversation_for(&caller.user, &request.target));
    let started = deps.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: &caller.user, connection: Some(&caller.connection) };
    let appended = append(&deps.store, &deps.limits, || deps.clock.now(), writer, request, conflicts).await?;
    Ok(tell(deps, caller, started, appended, line).await.into())
}
