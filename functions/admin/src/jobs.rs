//! Jobs of an operator: users to erase, and what must be kept from it. The function `jobs` does them.

use std::collections::BTreeMap;

use actions::random_bytes;
use domain::{Failure, message_id};
use serde_json::{Value, json};
use store::Written;
use store::jobs::{self, Erased, Job, State};
use wire::{ConversationId, Refusal, Timestamp, UserId};

use crate::Deps;

/// Maximum of characters of a reason.
const REASON_CHARS_MAX: usize = 200;

/// Begins the erasure of a user. Repeated, it is the same job, which begins again if it has left something.
pub(crate) async fn erase(deps: &Deps, user: UserId, reason: Option<&str>, now: Timestamp) -> Result<Value, Failure> {
    let store = &deps.actions.store;
    if user.is_service() {
        return Err(Refusal::bad_request("user_id", "must be the id of a user, not of a service").into());
    }
    if reason.is_some_and(|reason| !(1..=REASON_CHARS_MAX).contains(&reason.chars().count())) {
        let problem = format!("must have 1 to {REASON_CHARS_MAX} characters");
        return Err(Refusal::bad_request("reason", problem).into());
    }
    if jobs::holds(store).await?.has_user(&user) {
        return Err(Refusal::Forbidden.into());
    }
    let job = fresh(user.clone(), now);
    let (job_id, gone) = match jobs::begin(store, &job, reason).await? {
        Written::Done => (job.id, job.gone),
        Written::Lost => {
            let Erased { job_id, gone } = jobs::erased(store, &user).await?.ok_or(Refusal::Conflict)?;
            let before = jobs::get(store, &job_id).await?;
            if let Some(before) = before.filter(|before| before.state == State::Done && before.complete_at.is_none()) {
                restart(deps, before, now).await?;
            }
            (job_id, gone)
        }
    };
    Ok(json!({ "job_id": job_id, "erased_id": gone }))
}

fn fresh(user: UserId, now: Timestamp) -> Job {
    Job {
        id: format!("j_{}", message_id(now, random_bytes()).as_str()),
        user,
        gone: UserId::gone(random_bytes()),
        state: State::Queued,
        step: 0,
        cursor: String::new(),
        counts: BTreeMap::new(),
        saved_at: now,
        complete_at: None,
    }
}

/// Has a job begin at its beginning.
async fn restart(deps: &Deps, before: Job, now: Timestamp) -> Result<(), Failure> {
    let step = before.step;
    let (cursor, counts) = (String::new(), BTreeMap::new());
    let job = Job { state: State::Queued, cursor, counts, saved_at: now, complete_at: None, ..before };
    // Lost: the job moves.
    jobs::save(&deps.actions.store, &job, step).await?;
    Ok(())
}

/// Begins the jobs again that had not ended by `since`, the time of which the tables are.
pub(crate) async fn erase_again(deps: &Deps, since: Timestamp, now: Timestamp) -> Result<Value, Failure> {
    let store = &deps.actions.store;
    let mut begun = 0;
    for Erased { job_id, .. } in jobs::ledger(store).await? {
        // The row of a job that has ended for 90 days is gone: no backup is as old.
        let Some(job) = jobs::get(store, &job_id).await? else { continue };
        if job.state == State::Done && job.saved_at < since {
            continue;
        }
        restart(deps, job, now).await?;
        begun += 1;
    }
    Ok(json!({ "jobs": begun }))
}

/// Holds the conversations of a user, or one conversation.
pub(crate) async fn hold(
    deps: &Deps,
    of: (Option<UserId>, Option<ConversationId>),
    on: bool,
    now: Timestamp,
) -> Result<Value, Failure> {
    let of = match &of {
        (Some(user), None) => user.as_str(),
        (None, Some(conversation)) => conversation.as_str(),
        (None, None) | (Some(_), Some(_)) => {
            return Err(Refusal::bad_request("user_id", "must be set, or conversation_id instead").into());
        }
    };
    jobs::hold(&deps.actions.store, of, on, now).await?;
    Ok(json!({}))
}

/// Returns how far a job is. `again`: a job that failed goes on where it failed.
pub(crate) async fn job(deps: &Deps, id: &str, again: bool, now: Timestamp) -> Result<Value, Failure> {
    let store = &deps.actions.store;
    let mut job = jobs::get(store, id).await?.ok_or(Refusal::Gone)?;
    if again && job.state == State::Failed {
        jobs::forget_tries(store, id).await?;
        let queued = Job { state: State::Queued, saved_at: now, ..job.clone() };
        if jobs::save(store, &queued, job.step).await? == Written::Lost {
            return Err(Refusal::Conflict.into());
        }
        job = queued;
    }
    let mut answer = json!({ "op": "erase", "state": job.state.as_str(), "counts": job.counts });
    if let (Some(fields), Some(at)) = (answer.as_object_mut(), job.complete_at) {
        fields.insert("complete_at".to_owned(), json!(at));
    }
    Ok(answer)
}
