//! A mark, raised: an ack raises the delivered mark, a read both.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::{Counted, Failure, Filled, Head, Marks, Membership, Rate};
use store::inbox::{self, Mark, Update};
use store::{Store, messages};
use tokio::time::Instant;
use wire::{ConversationId, ReadResult, Refusal, Seq, Timestamp, UserId};

use crate::Actions;
use crate::retry::{Attempt, retry_until};

/// Steps of a mark in one request: of a way that is longer, the next request goes on where this one ends.
const STEPS_MAX: u32 = 5;

/// The time in which a client without a reply repeats its request, except for its last tries.
pub(crate) const REPEATED_WITHIN: Duration = Duration::from_mins(1);
/// Repetitions of one mark for which one process sends receipts again.
const REPEATS: Rate = Rate { burst: 1, pause: Duration::from_secs(5) };

/// A mark at the requested place or above.
#[derive(Clone, Debug)]
pub struct Raised {
    /// The row as it is then.
    pub row: Membership,
    /// Where the mark stood before.
    pub from: Seq,
    pub mark: Mark,
    /// The head just after, if the user is a member of the group.
    pub head: Option<Head>,
}

impl Raised {
    fn of(row: Membership, from: Seq, mark: Mark) -> Self {
        Self { row, from, mark, head: None }
    }

    /// Returns the reply to `read`.
    pub(crate) fn result(&self) -> ReadResult {
        let Marks { unread, mentions, .. } = self.row.marks;
        ReadResult { unread, mentions: self.row.view().map(|_| mentions) }
    }
}

/// The repeated marks that this process has sent to the other members.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<Filled<(UserId, ConversationId)>>);

impl Repeats {
    /// Whether to send receipts: the mark rose now, or rose a moment ago by a try that may have died before its
    /// receipts.
    pub fn admit(&self, raised: &Raised, now: Timestamp) -> bool {
        let Raised { row, from, mark, .. } = raised;
        let raised_at = match mark {
            Mark::Delivered => row.delivered_at,
            Mark::Read => row.read_at,
        };
        let seq = mark_of(row, *mark);
        seq > *from
            || (row.is_raised_since(seq, raised_at, now.minus(REPEATED_WITHIN))
                && self.count(&row.user_id, &row.conversation_id, now))
    }

    /// As `admit`, for the mark of a channel's member that did not rise now.
    pub(crate) fn admit_again(
        &self,
        user: &UserId,
        channel: &ConversationId,
        raised_at: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        raised_at.is_some_and(|at| at >= now.minus(REPEATED_WITHIN)) && self.count(user, channel, now)
    }

    /// Counts one repetition. Returns false above [`REPEATS`].
    fn count(&self, user: &UserId, conversation: &ConversationId, now: Timestamp) -> bool {
        let key = (user.clone(), conversation.clone());
        // After a panic, the value is still a list of times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(&REPEATS, &key, now).is_ok()
    }
}

/// Raises the mark to `seq`, or to the end of the user's row. `touch` brings a row that is behind to the end of its log.
///
/// Returns the row even if the mark did not rise. An earlier run of the request may have died before it sent the receipt.
/// The user's own next message may have moved the mark since.
pub(crate) async fn raise(
    actions: &Actions,
    user: &UserId,
    conversation: &ConversationId,
    (seq, mark): (Seq, Mark),
    touch: impl AsyncFn(Option<Membership>) -> Result<Option<Membership>, Failure>,
) -> Result<Raised, Failure> {
    let (mut known, mut from, mut until) = (None, None, None);
    for _ in 0..STEPS_MAX {
        let raised = step(actions, user, conversation, (seq, mark), (known, &mut until), &touch).await?;
        let from = *from.get_or_insert(raised.from);
        if mark_of(&raised.row, mark) >= seq.min(raised.row.end.seq) {
            return Ok(Raised { from, ..raised });
        }
        known = Some(raised.row);
    }
    Err(Refusal::Conflict.into())
}

/// Writes once if the mark goes to the last message, as it nearly always does. Otherwise the current row, `known` or
/// returned by the refused write, determines what to count and to write.
///
/// A row that is behind the requested `seq` is touched first, once. All steps of a request share the end of the retries,
/// `until`.
async fn step(
    actions: &Actions,
    user: &UserId,
    conversation: &ConversationId,
    (seq, mark): (Seq, Mark),
    (mut known, until): (Option<Membership>, &mut Option<Instant>),
    touch: &impl AsyncFn(Option<Membership>) -> Result<Option<Membership>, Failure>,
) -> Result<Raised, Failure> {
    let (store, now) = (&actions.store, actions.now());
    let mut is_touched = false;
    retry_until(until, async || {
        let before = known.take();
        let update = match &before {
            None => inbox::catch_up(store, user, conversation, seq, mark, now).await?,
            Some(row) => match marks_after(store, row, seq, mark).await? {
                Some(marks) => inbox::advance(store, user, row, &marks, now).await?,
                None if mark == Mark::Read && row.settings.marked_unread => inbox::unmark(store, user, row).await?,
                None => return Ok(Attempt::Done(Raised::of(row.clone(), mark_of(row, mark), mark))),
            },
        };
        match (update, before) {
            // The write returned the row as it was before.
            (Update::Done(was), None) => {
                let from = mark_of(&was, mark);
                let marks = was.caught_up(mark == Mark::Read);
                Ok(Attempt::Done(Raised::of(Membership { marks, ..was }, from, mark)))
            }
            (Update::Done(row), Some(was)) => Ok(Attempt::Done(Raised::of(row, mark_of(&was, mark), mark))),
            (Update::Refused(row), _) => {
                let is_behind = row.as_ref().is_none_or(|row| seq > row.end.seq);
                known = if is_behind && !is_touched {
                    is_touched = true;
                    touch(row).await?
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
