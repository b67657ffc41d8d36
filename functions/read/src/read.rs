//! How far a user has read.

use actions::{Mark, raise, tell_read};
use domain::Failure;
use lambda::{Caller, EventLine};
use wire::{ReadRequest, ReadResult, Reply};

use crate::Deps;

/// Raises the read mark, and tells the other members and the reader's own devices.
pub(crate) async fn read(
    deps: &Deps,
    caller: &Caller,
    request: ReadRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let ReadRequest { conversation_id, seq } = request;
    line.seq = Some(seq);
    let conversation_id = line.conversation_id.insert(conversation_id);
    let row = raise(&deps.store, deps.clock.now(), &caller.user, conversation_id, seq, Mark::Read).await?;
    let delivered = tell_read(&deps.fanout, deps.clock.now(), &row, Some(&caller.connection)).await;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(ReadResult { unread: row.marks.unread }.into())
}
