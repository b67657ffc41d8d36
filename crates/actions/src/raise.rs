//! A mark, raised: an ack raises the delivered mark, a read both.

use deliver::Fanout;
use domain::{Counted, Failure, Marks, Membership};
use store::inbox::{self, Mark, Update};
use store::{Store, messages};
use wire::{ConversationId, Refusal, Seq, Timestamp, UserId};

use crate::reconcile::touch;
use crate::retry::{Attempt, retry};

/// Steps of a mark in one request: of a way that is longer, the next request goes on where this one ends.
const STEPS_MAX: u32 = 5;

/// A mark that stands where it was asked to, or above.
#[derive(Clone, Debug)]
pub struct Raised {
    /// The row as it is then.
    pub row: Membership,
    /// Where the mark stood before.
    pub from: Seq,
}

/// Raises the mark to there, or to the end of what the user's row has. Returns the row as it is then, also if there was nothing to raise:
/// this may be the retry of a request whose run died before it told anyone, and the mark may have gone on since, with the user's own
/// next message.
pub async fn raise(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
    mark: Mark,
) -> Result<Raised, Failure> {
    if conversation.is_channel() {
        return Err(Refusal::bad_request("up_to", "must be left out of a channel, where nothing is pending").into());
    }
    let (mut known, mut from) = (None, None);
    for _ in 0..STEPS_MAX {
        let raised = step(store, fanout, now, user, conversation, (seq, mark), known).await?;
        let from = *from.get_or_insert(raised.from);
        if mark_of(&raised.row, mark) >= seq.min(raised.row.end.seq) {
            return Ok(Raised { from, ..raised });
        }
        known = Some(raised.row);
    }
    Err(Refusal::Conflict.into())
}

/// One conditional write where the mark goes to the last message, as it nearly always does; else the row as it is, `known` or told by
/// the refusal, says what to count and to write.
///
/// In a group a device may hold what the user's row has not come to yet: then the row is brought there first. That of somebody who left
/// too, who may have been added again.
async fn step(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    user: &UserId,
    conversation: &ConversationId,
    (seq, mark): (Seq, Mark),
    mut known: Option<Membership>,
) -> Result<Raised, Failure> {
    let mut is_touched = !conversation.is_group();
    retry(&mut 0, async || {
        let before = known.take();
        let update = match &before {
            None => inbox::catch_up(store, user, conversation, seq, mark, now).await?,
            Some(row) => match marks_after(store, row, seq, mark).await? {
                Some(marks) => inbox::advance(store, user, row, &marks, now).await?,
                None => return Ok(Attempt::Done(Raised { row: row.clone(), from: mark_of(row, mark) })),
            },
        };
        match (update, before) {
            // What was there, without reading it before.
            (Update::Done(was), None) => {
                let from = mark_of(&was, mark);
                let marks = was.caught_up(mark == Mark::Read);
                Ok(Attempt::Done(Raised { row: Membership { marks, ..was }, from }))
            }
            (Update::Done(row), Some(was)) => Ok(Attempt::Done(Raised { row, from: mark_of(&was, mark) })),
            (Update::Refused(row), _) => {
                let is_behind = row.as_ref().is_none_or(|row| seq > row.end.seq);
                known = if is_behind && !is_touched {
                    is_touched = true;
                    touch(store, fanout, now, user, conversation, row).await?
                } else {
                    row
                };
                if known.is_some() { Ok(Attempt::Again) } else { Err(Refusal::NotMember.into()) }
            }
            (Update::Busy, _) => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}

fn mark_of(row: &Membership, mark: Mark) -> Seq {
    match mark {
        Mark::Delivered => row.marks.delivered_seq,
        Mark::Read => row.marks.read_seq,
    }
}

/// `None` if the mark stands there already, or above.
async fn marks_after(store: &Store, row: &Membership, seq: Seq, mark: Mark) -> Result<Option<Marks>, Failure> {
    if mark == Mark::Delivered {
        return Ok(row.acked(seq));
    }
    let Some(reading) = row.reading(seq) else { return Ok(None) };
    let others = match reading.range() {
        None => Counted::default(),
        Some(range) if row.view().is_some() => {
            messages::count_in_view(store, &row.conversation_id, range, &row.user_id, row.end.seq).await?
        }
        Some(range) => {
            let messages = messages::count_by_others(store, &row.conversation_id, range, &row.user_id).await?;
            Counted { messages, mentions: 0 }
        }
    };
    Ok(Some(reading.marks(others)))
}
