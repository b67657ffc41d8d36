//! How far a user has read.

use actions::{Mark, raise, read_channel, tell_own, tell_read};
use domain::{Failure, Marks};
use lambda::{Caller, EventLine};
use wire::{ReadRequest, ReadResult, Receipt, Reply, ServerEvent};

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
    let now = deps.clock.now();
    if conversation_id.is_channel() {
        let (seq, unread) = read_channel(&deps.store, now, &caller.user, conversation_id, seq).await?;
        let now = deps.clock.now();
        let receipt = Receipt { conversation_id: conversation_id.clone(), user_id: caller.user.clone(), seq, at: now };
        let event = ServerEvent::ReceiptRead(receipt);
        let delivered = tell_own(&deps.fanout, now, &caller.user, event, Some(&caller.connection)).await;
        line.frames(delivered.iter().map(|to| to.frames));
        return Ok(ReadResult { unread, mentions: None }.into());
    }
    let raised = raise(&deps.store, &deps.fanout, now, &caller.user, conversation_id, seq, Mark::Read).await?;
    let now = deps.clock.now();
    let delivered = tell_read(&deps.store, &deps.fanout, now, &raised, Some(&caller.connection)).await;
    line.frames(delivered.iter().map(|to| to.frames));
    let Marks { unread, mentions, .. } = raised.row.marks;
    Ok(ReadResult { unread, mentions: raised.row.view().map(|_| mentions) }.into())
}
