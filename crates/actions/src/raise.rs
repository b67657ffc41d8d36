//! A mark, raised: an ack raises the delivered mark, a read both.

use domain::{Failure, Marks, Membership};
use store::inbox::{self, Mark, Update};
use store::{Store, messages};
use wire::{ConversationId, Refusal, Seq, Timestamp, UserId};

use crate::retry::{Attempt, retry};

/// One conditional write where the mark goes to the last message, as it nearly always does; else the row as it is says what to
/// count and to write. Returns the row as it is then, also if there was nothing to raise: this may be the retry of a request
/// whose run died before it told anyone, and the mark may have gone on since, with the user's own next message.
pub async fn raise(
    store: &Store,
    now: Timestamp,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
    mark: Mark,
) -> Result<Membership, Failure> {
    let mut known = None;
    retry(&mut 0, async || {
        let update = match known.take() {
            None => inbox::catch_up(store, user, conversation, seq, mark, now).await?,
            Some(row) => match marks_after(store, &row, seq, mark).await? {
                Some(marks) => inbox::advance(store, user, &row, &marks, now).await?,
                None => return Ok(Attempt::Done(row)),
            },
        };
        match update {
            Update::Done(row) => Ok(Attempt::Done(row)),
            Update::Refused(None) => Err(Refusal::NotMember.into()),
            Update::Refused(row) => {
                known = row;
                Ok(Attempt::Again)
            }
            Update::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}

/// `None` if the mark stands there already, or above.
async fn marks_after(store: &Store, row: &Membership, seq: Seq, mark: Mark) -> Result<Option<Marks>, Failure> {
    if mark == Mark::Delivered {
        return Ok(row.acked(seq));
    }
    let Some(reading) = row.reading(seq) else { return Ok(None) };
    let others = match reading.range() {
        None => 0,
        Some(range) => messages::count_by_others(store, &row.conversation_id, range, &row.user_id).await?,
    };
    Ok(Some(reading.marks(others)))
}
