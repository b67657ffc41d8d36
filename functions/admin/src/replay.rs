//! Events that the team's own servers want again.

use std::time::Duration;

use actions::random_bytes;
use domain::{Failure, message_id};
use lambda::EventLine;
use serde_json::{Value, json};
use store::messages;
use store::replays::{self, Replay};
use wire::{ConversationId, Refusal, Seq};

use crate::Deps;

/// Entries of a replay, at most.
const ENTRIES_MAX: u64 = 1_000;
/// The time after which a replay's row expires. A replay takes a minute, or waits for a bus that refuses.
const KEPT_FOR: Duration = Duration::from_hours(7 * 24);

/// Notes the entries to send again, and returns their number. `publish` sends them.
pub(crate) async fn begin(
    deps: &Deps,
    conversation_id: ConversationId,
    from: Seq,
    to: Seq,
    line: &mut EventLine,
) -> Result<Value, Failure> {
    if from < Seq::FIRST {
        return Err(Refusal::bad_request("from_seq", "must be at least 1").into());
    }
    if to < from || to.above(from) >= ENTRIES_MAX {
        let problem = format!("must be from from_seq on, and at most {ENTRIES_MAX} entries");
        return Err(Refusal::bad_request("to_seq", problem).into());
    }
    let actions = &deps.actions;
    if !actions.limits.published {
        return Err(Refusal::Forbidden.into());
    }
    line.conversation_id = Some(conversation_id.clone());
    let newest = messages::last_seq(&actions.store, &conversation_id).await?.ok_or(Refusal::Gone)?;
    let to_seq = to.min(newest);
    let events = to_seq.next().above(from);
    if events > 0 {
        let now = actions.clock.now();
        let job_id = format!("j_{}", message_id(now, random_bytes()).as_str());
        let replay = Replay { job_id, conversation_id, next_seq: from, to_seq };
        replays::put(&actions.store, &replay, now.plus(KEPT_FOR)).await?;
    }
    Ok(json!({ "events": events }))
}
