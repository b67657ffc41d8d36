//! A group that is made or changed.

use actions::{Appended, Writer, added, change_group, tell_appended};
use domain::{Failure, GroupChange};
use lambda::{Caller, EventLine, millis_between};
use wire::{AddRequest, AddResult, ClientMsgId, ConversationId, Refusal, SendResult};

use crate::Deps;

/// Makes the change, and tells the members.
pub(crate) async fn change(
    deps: &Deps,
    caller: &Caller,
    key: (ConversationId, ClientMsgId),
    change: GroupChange,
    line: &mut EventLine,
) -> Result<SendResult, Failure> {
    let appended = apply(deps, caller, key, change, line).await?;
    // Only an addition can come to nothing.
    appended.map(Appended::into_result).ok_or_else(|| Refusal::NotMember.into())
}

/// Adds members; those who are some already stay as they are.
pub(crate) async fn add(
    deps: &Deps,
    caller: &Caller,
    request: AddRequest,
    line: &mut EventLine,
) -> Result<AddResult, Failure> {
    let AddRequest { conversation_id, client_msg_id, members } = request;
    let change = GroupChange::Add { members: members.clone() };
    Ok(added(members, apply(deps, caller, (conversation_id, client_msg_id), change, line).await?))
}

async fn apply(
    deps: &Deps,
    caller: &Caller,
    key: (ConversationId, ClientMsgId),
    change: GroupChange,
    line: &mut EventLine,
) -> Result<Option<Appended>, Failure> {
    line.conversation_id = Some(key.0.clone());
    let started = deps.clock.now();
    let writer = Writer { user: &caller.user, connection: Some(&caller.connection) };
    let conflicts = line.measures.conflicts.insert(0);
    let now = || deps.clock.now();
    let appended = change_group(&deps.store, &deps.limits, now, writer, key, change, conflicts).await?;
    let Some(appended) = appended else { return Ok(None) };
    // After the commit nothing may fail the request any more.
    let stored_at = deps.clock.now();
    let delivered = tell_appended(&deps.store, &deps.fanout, stored_at, &appended, Some(&caller.connection)).await;
    line.seq = Some(appended.place.seq);
    line.measures.store_ms = Some(millis_between(started, stored_at));
    line.measures.fanout_ms = Some(millis_between(stored_at, deps.clock.now()));
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(Some(appended))
}
