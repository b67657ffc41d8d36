//! Replays: entries that the team's own servers want again. Each write of a replay's row is a record of its stream, so
//! a step that notes its end begins the next one.

use std::collections::BTreeMap;

use domain::Failure;
use store::if_readable;
use store::replays::{self, Replay};
use wire::Seq;

use crate::event::Event;
use crate::read::{Read, of_entries};
use crate::{Deps, Sent, put};

/// Entries of a step: as many as one read has.
const STEP: u64 = 100;

/// Sends the next entries of a replay. A step that another run has noted meanwhile was sent twice, and does not go on.
pub(crate) async fn step(deps: &Deps, job_id: &str, place: usize) -> Sent {
    match take(deps, job_id, place).await {
        Ok(sent) => sent,
        Err(failure) => Sent::failed_from(place, failure),
    }
}

async fn take(deps: &Deps, job_id: &str, place: usize) -> Result<Sent, Failure> {
    let Some(replay) = if_readable(replays::get(&deps.store, job_id).await, "a replay")? else {
        return Ok(Sent { unreadable: 1, ..Sent::default() });
    };
    // The replay has ended, or expired.
    let Some(replay) = replay else { return Ok(Sent::default()) };
    let Replay { conversation_id, next_seq, to_seq, .. } = &replay;
    let end = to_seq.value().min(next_seq.value().saturating_add(STEP - 1));
    let seqs = (next_seq.value()..=end).filter_map(Seq::new);
    let places: BTreeMap<_, _> = seqs.map(|seq| ((conversation_id.clone(), seq), place)).collect();
    let Read { mut events, unreadable } = of_entries(deps, &places).await?;
    for Event { job_id, .. } in &mut events {
        *job_id = Some(replay.job_id.clone());
    }
    let sent = Sent { unreadable, ..put(deps, &events).await };
    if sent.failed.is_none() {
        let next = Seq::new(end).unwrap_or(*to_seq).next();
        replays::advance(&deps.store, &replay, next).await?;
    }
    Ok(sent)
}
