//! "This device holds everything up to here": raises delivered marks, which ends pending, and tells the other members.

use actions::{Mark, Raised, raise, tell_delivered};
use domain::{Failure, error_chain};
use futures_util::future::join_all;
use lambda::{Caller, EventLine, UpTo};
use wire::{AckEntry, AckRequest, AckResult, Reply};

use crate::Deps;

pub(crate) async fn ack(
    deps: &Deps,
    caller: &Caller,
    request: &AckRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let Acked { raised, outcome } = raise_all(deps, caller, &request.up_to, line).await;
    let delivered = tell_delivered(&deps.store, &deps.fanout, deps.clock.now(), &raised).await;
    line.frames(delivered.iter().map(|to| to.frames));
    outcome.map(|()| AckResult {}.into())
}

/// What came of a list of entries.
pub(crate) struct Acked {
    /// Those that stand.
    pub(crate) raised: Vec<Raised>,
    /// The first failure, in the order of the entries.
    pub(crate) outcome: Result<(), Failure>,
}

/// Raises the marks side by side, one for each conversation: of several entries about one, the highest says what the others do. If any
/// is refused the answer is that error, and the others stand. A row that can't be read is passed over: the device asks again for as long as it is refused, and would get nothing else.
pub(crate) async fn raise_all(deps: &Deps, caller: &Caller, entries: &[AckEntry], line: &mut EventLine) -> Acked {
    let now = deps.clock.now();
    let mut marks: Vec<AckEntry> = vec![];
    for entry in entries {
        match marks.iter_mut().find(|mark| mark.conversation_id == entry.conversation_id) {
            Some(mark) => mark.seq = mark.seq.max(entry.seq),
            None => marks.push(entry.clone()),
        }
    }
    let each = marks.iter().map(|AckEntry { conversation_id, seq }| {
        raise(&deps.store, &deps.fanout, now, &caller.user, conversation_id, *seq, Mark::Delivered)
    });
    let (mut acked, mut unreadable) = (Acked { raised: vec![], outcome: Ok(()) }, 0);
    for result in join_all(each).await {
        match result {
            Ok(raised) => acked.raised.push(raised),
            Err(Failure::Unreadable(error)) => {
                tracing::error!(error = error_chain(&*error), "an acknowledged row can't be read; it is passed over");
                unreadable += 1;
            }
            Err(failure) => acked.outcome = acked.outcome.and(Err(failure)),
        }
    }
    line.unreadable(unreadable);
    let up_to = |Raised { row, .. }: &Raised| UpTo {
        conversation_id: row.conversation_id.clone(),
        seq: row.marks.delivered_seq,
    };
    line.acked = acked.raised.iter().map(up_to).collect();
    acked
}
