//! `ack`: raises delivered marks, which ends pending, and sends receipts to the other members.

use actions::Raised;
use domain::{Failure, error_chain};
use futures_util::future::join_all;
use lambda::{Caller, Core, EventLine, UpTo};
use wire::{AckEntry, AckRequest, AckResult, ConversationKind, Refusal, Reply};

pub(crate) async fn ack(
    core: &Core,
    caller: &Caller,
    request: &AckRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let Acked { raised, outcome } = raise_all(core, caller, ("up_to", &request.up_to), line).await;
    let delivered = core.actions.tell_delivered(raised).await;
    line.frames(delivered.iter().map(|to| to.frames));
    outcome.map(|()| AckResult {}.into())
}

/// The outcome of a list of acknowledgements.
pub(crate) struct Acked {
    /// The marks that are now at the requested `seq` or above it.
    pub(crate) raised: Vec<Raised>,
    /// The first failure, in the order of the entries.
    pub(crate) outcome: Result<(), Failure>,
}

/// Raises one delivered mark per conversation, concurrently. `field` is the request's name for `entries`, for errors.
///
/// If `entries` names a conversation twice, the higher `seq` counts. An entry that fails does not undo the others. A row
/// that this version cannot read is logged and skipped: as an error, it would make the client repeat the request for ever.
pub(crate) async fn raise_all(
    core: &Core,
    caller: &Caller,
    (field, entries): (&str, &[AckEntry]),
    line: &mut EventLine,
) -> Acked {
    let mut marks: Vec<(usize, AckEntry)> = vec![];
    for (index, entry) in entries.iter().enumerate() {
        match marks.iter_mut().find(|(_, mark)| mark.conversation_id == entry.conversation_id) {
            Some((_, mark)) => mark.seq = mark.seq.max(entry.seq),
            None => marks.push((index, entry.clone())),
        }
    }
    let each = marks.iter().map(async |(index, AckEntry { conversation_id, seq })| match conversation_id.kind() {
        ConversationKind::Direct | ConversationKind::Group => {
            core.actions.ack(&caller.user, conversation_id, *seq).await
        }
        ConversationKind::Channel => {
            let field = format!("{field}[{index}].conversation_id");
            Err(Refusal::bad_request(field, "must not be a channel; channels need no ack").into())
        }
    });
    let (mut acked, mut unreadable) = (Acked { raised: vec![], outcome: Ok(()) }, 0);
    for result in join_all(each).await {
        match result {
            Ok(raised) => acked.raised.push(raised),
            Err(Failure::Unreadable(error)) => {
                tracing::error!(error = error_chain(&*error), "skipped an unreadable inbox row");
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
