//! A message that is edited, deleted, reacted to or pinned.

use actions::{Wanted, Writer};
use domain::{Change, Failure};
use lambda::{Caller, Core, EventLine};
use wire::{DeleteRequest, EditRequest, PinRequest, ReactRequest, SendResult};

use crate::tell;

pub(crate) fn edit(request: EditRequest) -> Wanted {
    let EditRequest { conversation_id, seq, client_msg_id, body, data } = request;
    Wanted { conversation_id, target: seq, client_msg_id, change: Change::Edit { body, data } }
}

pub(crate) fn delete(request: DeleteRequest) -> Wanted {
    let DeleteRequest { conversation_id, seq, client_msg_id } = request;
    Wanted { conversation_id, target: seq, client_msg_id, change: Change::Delete }
}

pub(crate) fn react(request: ReactRequest) -> Wanted {
    let ReactRequest { conversation_id, seq, client_msg_id, emoji } = request;
    Wanted { conversation_id, target: seq, client_msg_id, change: Change::React { emoji } }
}

pub(crate) fn pin(request: PinRequest) -> Wanted {
    let PinRequest { conversation_id, seq, client_msg_id, pinned } = request;
    Wanted { conversation_id, target: seq, client_msg_id, change: Change::Pin { pinned } }
}

/// Changes the message, and posts the change to all connections of its users.
pub(crate) async fn apply(
    core: &Core,
    caller: &Caller,
    wanted: Wanted,
    line: &mut EventLine,
) -> Result<SendResult, Failure> {
    line.conversation_id = Some(wanted.conversation_id.clone());
    let started = core.actions.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: &caller.user, origin: caller.origin.as_ref() };
    let appended = core.actions.change(writer, wanted, conflicts).await?;
    Ok(tell(core, caller, started, appended, line).await)
}
