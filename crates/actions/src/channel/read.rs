//! The read mark of a member of a channel.

use deliver::Delivered;
use domain::{ConnectionId, Failure};
use store::channels::{self, Marked};
use store::{Store, heads, messages};
use wire::{ConversationId, ReadResult, Receipt, Refusal, Seq, ServerEvent, Timestamp, UserId};

use crate::Actions;
use crate::retry::{Attempt, retry};
use crate::tell;

/// Raises the read mark, and sends it to the user's other connections.
pub(crate) async fn read(
    actions: &Actions,
    user: &UserId,
    from: &ConnectionId,
    channel: &ConversationId,
    seq: Seq,
) -> Result<(ReadResult, Vec<Delivered>), Failure> {
    let (seq, unread) = raise(&actions.store, actions.now(), user, channel, seq).await?;
    let receipt = Receipt { conversation_id: channel.clone(), user_id: user.clone(), seq, at: actions.now() };
    let delivered = tell::own(actions, user, ServerEvent::ReceiptRead(receipt), Some(from)).await;
    Ok((ReadResult { unread, mentions: None }, delivered))
}

/// Raises the read mark. Where it stands then, and how many messages are unread.
async fn raise(
    store: &Store,
    now: Timestamp,
    user: &UserId,
    channel: &ConversationId,
    seq: Seq,
) -> Result<(Seq, u64), Failure> {
    retry(&mut 0, async || {
        let head = heads::get(store, channel).await?.ok_or(Refusal::NotMember)?;
        let seq = seq.min(head.end.seq);
        let counted = if seq == head.end.seq { head.counted } else { messages::counted(store, channel, seq).await? };
        match channels::mark_read(store, user, channel, seq, counted, now).await? {
            Marked::Done(row) => Ok(Attempt::Done((row.read_seq, row.unread(&head)))),
            Marked::NotMember => Err(Refusal::NotMember.into()),
            Marked::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}
