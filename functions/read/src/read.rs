//! How far a user has read.

use domain::Failure;
use lambda::{Caller, Core, EventLine};
use wire::{ReadRequest, Reply};

/// Raises the read mark, and sends receipts to the other members and the reader's own devices.
pub(crate) async fn read(
    core: &Core,
    caller: &Caller,
    request: ReadRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let ReadRequest { conversation_id, seq } = request;
    line.seq = Some(seq);
    let conversation_id = line.conversation_id.insert(conversation_id);
    let (result, delivered) = core.actions.read(&caller.user, caller.origin.as_ref(), conversation_id, seq).await?;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(result.into())
}
