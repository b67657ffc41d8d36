//! `commit`: changes the keys of a sealed conversation, or begins it; and `group_info`, its newest keys.

use actions::{Writer, check_sealable, conversation_for};
use domain::Failure;
use lambda::{Caller, EventLine};
use store::epochs;
use wire::{CommitRequest, CommitResult, GroupInfoRequest, Refusal, Reply, Target};

use crate::Deps;

/// Appends the commit, and posts it to all connections of its users.
pub(crate) async fn commit(
    deps: &Deps,
    caller: &Caller,
    request: CommitRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    if caller.device.is_none() {
        return Err(Refusal::DeviceRequired.into());
    }
    line.conversation_id = Some(conversation_for(&caller.user, &request.target));
    let started = deps.actions.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: &caller.user, origin: caller.origin.as_ref() };
    let epoch = request.epoch + 1;
    let appended = deps.actions.commit(writer, request, conflicts).await?;
    line.tell(&deps.actions, started, &appended, caller.origin.as_ref()).await;
    // A repeated request names the same epoch.
    Ok(CommitResult { entry: appended.into_result(), epoch }.into())
}

/// Reads the newest epoch, and then the user's own row: whoever is a member after that may have it.
pub(crate) async fn group_info(
    deps: &Deps,
    caller: &Caller,
    request: GroupInfoRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let conversation = line.conversation_id.insert(conversation_for(&caller.user, &request.target));
    check_sealable(conversation)?;
    let store = &deps.actions.store;
    let newest = epochs::get(store, conversation).await?;
    if let Err(refusal) = deps.actions.access(&caller.user, conversation).await?.first_seq() {
        return Err(match request.target {
            Target::User(_) => Refusal::Gone,
            Target::Conversation(_) => refusal,
        }
        .into());
    }
    deps.check_on()?;
    Ok(newest.ok_or(Refusal::Gone)?.into())
}
