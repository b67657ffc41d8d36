//! The read mark of a member of a channel.

use deliver::Delivered;
use domain::{ChannelRow, Failure, Head, Origin};
use store::channels::{self, Marked};
use store::settings::Set;
use store::{Store, heads, messages};
use wire::{ConversationId, ReadResult, Receipt, Refusal, Seq, ServerEvent, Timestamp, UserId};

use crate::Actions;
use crate::retry::{Attempt, retry};
use crate::tell;

/// Raises the read mark, and sends it to the user's other connections. A repetition sends it again under the same
/// conditions as in other conversations.
pub(crate) async fn read(
    actions: &Actions,
    user: &UserId,
    from: Option<&Origin>,
    channel: &ConversationId,
    seq: Seq,
) -> Result<(ReadResult, Vec<Delivered>), Failure> {
    let now = actions.now();
    let Read { row, head, rose } = raise(&actions.store, now, user, channel, seq).await?;
    let result = ReadResult { unread: row.unread(&head), mentions: None };
    // The author's own post raises the mark too.
    let raised_at = row.read_at.max((row.read_seq >= head.end.seq).then_some(head.end.sent_at));
    if !rose && !actions.repeats.admit_again(user, channel, raised_at, now) {
        return Ok((result, vec![]));
    }
    let receipt = Receipt { conversation_id: channel.clone(), user_id: user.clone(), seq: row.read_seq, at: now };
    let delivered = tell::own(actions, user, ServerEvent::ReceiptRead(receipt), from).await;
    Ok((result, delivered))
}

/// A read mark at the requested place or above.
struct Read {
    row: ChannelRow,
    head: Head,
    /// This request raised the mark.
    rose: bool,
}

async fn raise(
    store: &Store,
    now: Timestamp,
    user: &UserId,
    channel: &ConversationId,
    seq: Seq,
) -> Result<Read, Failure> {
    retry(&mut 0, async || {
        let head = heads::get(store, channel).await?.ok_or(Refusal::NotMember)?;
        let seq = seq.min(head.end.seq);
        let counted = if seq == head.end.seq { head.counted } else { messages::counted(store, channel, seq).await? };
        match channels::mark_read(store, user, channel, seq, counted, now).await? {
            Marked::Raised(row) => Ok(Attempt::Done(Read { row, head, rose: true })),
            Marked::Unchanged(row) if row.marked_unread => match channels::unmark(store, user, channel).await? {
                Set::Done => Ok(Attempt::Done(Read { row, head, rose: false })),
                Set::NotMember => Err(Refusal::NotMember.into()),
                Set::Busy => Ok(Attempt::AgainAfterPause),
            },
            Marked::Unchanged(row) => Ok(Attempt::Done(Read { row, head, rose: false })),
            Marked::NotMember => Err(Refusal::NotMember.into()),
            Marked::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}
