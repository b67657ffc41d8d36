//! "This device holds everything up to here": raises the delivered watermark, which ends pending, and tells the senders.

use deliver::Delivery;
use domain::limits::WRITE_TRIES_MAX;
use domain::{AckEntry, Conversation, ConversationId, Event as Pushed, Refusal, Seq, UserId, retry_delay};
use lambda::{Caller, Failure};
use store::inbox::{self, Mark, Update};

use crate::Deps;

/// Applies the entries one by one. If any is refused the answer is that error, and the others stand.
pub(crate) async fn apply(deps: &Deps, caller: &Caller, entries: &[AckEntry]) -> Result<(), Failure> {
    let mut delivered = Vec::with_capacity(entries.len());
    let mut outcome = Ok(());
    for entry in entries {
        match raise(deps, &caller.user, entry).await {
            Ok(receipt) => delivered.push(receipt),
            Err(failure) => outcome = outcome.and(Err(failure)),
        }
    }
    tell_senders(deps, &caller.user, &delivered).await;
    outcome
}

/// What the sender is told.
struct Receipt<'a> {
    conversation_id: &'a ConversationId,
    sender: UserId,
    seq: Seq,
}

/// One conditional write, where the ack is of the last message, as it nearly always is; else the row as it is says what
/// to write.
async fn raise<'a>(deps: &Deps, user: &UserId, entry: &'a AckEntry) -> Result<Receipt<'a>, Failure> {
    let AckEntry { conversation_id, seq } = entry;
    let receipt =
        |row: &Conversation| Receipt { conversation_id, sender: row.peer_id.clone(), seq: row.marks.delivered_seq };
    let mut known = None::<Conversation>;
    for tries in 1..=WRITE_TRIES_MAX {
        let update = match &known {
            None => inbox::catch_up(&deps.store, user, conversation_id, *seq, Mark::Delivered).await,
            Some(row) => match row.acked(*seq) {
                Some(marks) => inbox::advance(&deps.store, user, row, &marks).await,
                // Nothing to raise. This may be the retry of an ack whose run died before it told anyone, and the
                // watermark may have gone on since, with the user's own next message.
                None => return Ok(receipt(row)),
            },
        };
        known = match update.map_err(Failure::unavailable)? {
            Update::Done(row) => return Ok(receipt(&row)),
            Update::Refused(None) => return Err(Refusal::NotMember.into()),
            Update::Refused(row) => row,
            Update::Busy => {
                tokio::time::sleep(retry_delay(tries, fastrand::f64())).await;
                None
            }
        };
    }
    Err(Refusal::Conflict.into())
}

async fn tell_senders(deps: &Deps, user: &UserId, receipts: &[Receipt<'_>]) {
    let at = deps.clock.now();
    let deliveries: Vec<Delivery> = receipts
        .iter()
        // Nobody waits for ticks on a note to oneself.
        .filter(|receipt| receipt.sender != *user)
        .map(|Receipt { conversation_id, sender, seq }| {
            let event = Pushed::Delivered { conversation_id, user_id: user, seq: *seq, at };
            Delivery { user: sender, frame: event.to_frame(), except: None }
        })
        .collect();
    if !deliveries.is_empty() {
        deps.phones.deliver(at, &deliveries).await;
    }
}
