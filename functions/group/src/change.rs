//! A group that is made or changed.

use actions::{Appended, Changed, Joined, Writer, added, commit_of, creation};
use domain::{Failure, GroupChange};
use lambda::{Caller, Core, EventLine};
use wire::{
    AddRequest, AddResult, ClientMsgId, ConversationId, CreateRequest, CreateResult, JoinResult, LeaveRequest,
    LeaveResult, SendResult,
};

/// Makes the change, and sends its entry to the members.
pub(crate) async fn change(
    core: &Core,
    caller: &Caller,
    key: (ConversationId, ClientMsgId),
    change: GroupChange,
    line: &mut EventLine,
) -> Result<SendResult, Failure> {
    // Only an addition can come to nothing.
    Ok(apply(core, caller, key, change, line).await?.entry()?.into_result())
}

pub(crate) async fn create(
    core: &Core,
    caller: &Caller,
    request: CreateRequest,
    line: &mut EventLine,
) -> Result<CreateResult, Failure> {
    let (key, create) = creation(&caller.user, request)?;
    let mut appended = apply(core, caller, key, create, line).await?.entry()?;
    let not_added = appended.take_not_added();
    Ok(CreateResult { entry: appended.into_result(), not_added })
}

pub(crate) async fn join(
    core: &Core,
    caller: &Caller,
    conversation: ConversationId,
    line: &mut EventLine,
) -> Result<JoinResult, Failure> {
    let conversation = line.conversation_id.insert(conversation);
    let started = core.actions.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let Joined { last_seq, entry } = core.actions.join(&caller.user, conversation, conflicts).await?;
    if let Some(entry) = &entry {
        line.tell(&core.actions, started, entry, caller.origin.as_ref()).await;
    }
    Ok(JoinResult { last_seq })
}

pub(crate) async fn leave(
    core: &Core,
    caller: &Caller,
    request: LeaveRequest,
    line: &mut EventLine,
) -> Result<LeaveResult, Failure> {
    line.conversation_id = Some(request.conversation_id.clone());
    let started = core.actions.clock.now();
    let writer = Writer { user: &caller.user, origin: caller.origin.as_ref() };
    let conflicts = line.measures.conflicts.insert(0);
    let entry = core.actions.leave(writer, request, conflicts).await?;
    if let Some(entry) = &entry {
        line.tell(&core.actions, started, entry, caller.origin.as_ref()).await;
    }
    Ok(LeaveResult { entry: entry.map(Appended::into_result) })
}

/// Adds members; those who are some already stay as they are.
pub(crate) async fn add(
    core: &Core,
    caller: &Caller,
    request: AddRequest,
    line: &mut EventLine,
) -> Result<AddResult, Failure> {
    let AddRequest { conversation_id, client_msg_id, members, keys } = request;
    let change = GroupChange::Add { members: members.clone(), keys: commit_of(keys) };
    Ok(added(members, apply(core, caller, (conversation_id, client_msg_id), change, line).await?))
}

async fn apply(
    core: &Core,
    caller: &Caller,
    key: (ConversationId, ClientMsgId),
    change: GroupChange,
    line: &mut EventLine,
) -> Result<Changed, Failure> {
    line.conversation_id = Some(key.0.clone());
    let started = core.actions.clock.now();
    let writer = Writer { user: &caller.user, origin: caller.origin.as_ref() };
    let conflicts = line.measures.conflicts.insert(0);
    let changed = core.actions.change_group(writer, key, change, conflicts).await?;
    // After the commit nothing may fail the request any more.
    if let Changed::Entry(appended) = &changed {
        line.tell(&core.actions, started, appended, caller.origin.as_ref()).await;
    }
    Ok(changed)
}
