//! `create`, `add`, `remove`, `join`, `leave`, `role`, `restrict` and `update` change a group or a channel, or its members.
//! `members`, `receipts` and `reactions` look up its members, their marks and their reactions. One file has the
//! changes, another the lookups, the third `profile`: a user's own name.
//!
//! Each change is an entry of the group's log, and the state of the log just before it permits it. A user who joins or
//! leaves a channel writes no entry.

mod change;
mod look;
mod profile;

use std::time::Duration;

use actions::commit_of;
use change::{add, change, create, join, leave};
use domain::{Failure, GroupChange};
use lambda::{
    BadVariable, Caller, Core, Diagnostic, EventLine, InvocationEvent, Response, answer, encryption, env, profiles,
    rate, sdk_config, send_limits,
};
use store::WarmTable;
use wire::{
    GroupAction, JoinRequest, RemoveRequest, RemoveResult, Reply, RestrictRequest, RestrictResult, RoleRequest,
    RoleResult, UpdateRequest, UpdateResult,
};

/// Starts the process with the connections open that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Core, BadVariable> {
    let mut limits = send_limits(Duration::ZERO)?;
    (limits.encryption, limits.commits) = (encryption()?, rate("COMMIT_RATE", env)?);
    limits.profiles = profiles()?;
    let sdk = sdk_config().await;
    let mut core = Core::from_env(&sdk, limits)?;
    core.actions.hook = hook::from_env(&sdk)?;
    core.actions.warm_up(WarmTable::Conversations).await;
    Ok(core)
}

/// Handles one event on its routes.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(core: &Core, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| {
        let reply = act(core, caller, action, line).await;
        line.asked(&core.actions);
        reply
    };
    answer(&core.actions.clock, &core.limiter, event, act).await
}

async fn act(core: &Core, caller: &Caller, action: GroupAction, line: &mut EventLine) -> Result<Reply, Failure> {
    Ok(match action {
        GroupAction::Create(request) => create(core, caller, request, line).await?.into(),
        GroupAction::Add(request) => add(core, caller, request, line).await?.into(),
        GroupAction::Remove(RemoveRequest { conversation_id, client_msg_id, user_id: user, keys }) => {
            let key = (conversation_id, client_msg_id);
            let remove = GroupChange::Remove { user, keys: commit_of(keys) };
            RemoveResult(change(core, caller, key, remove, line).await?).into()
        }
        GroupAction::Leave(request) => leave(core, caller, request, line).await?.into(),
        GroupAction::Join(JoinRequest { conversation_id }) => join(core, caller, conversation_id, line).await?.into(),
        GroupAction::Role(RoleRequest { conversation_id, client_msg_id, user_id: user, role }) => {
            let key = (conversation_id, client_msg_id);
            RoleResult(change(core, caller, key, GroupChange::Role { user, role }, line).await?).into()
        }
        GroupAction::Restrict(RestrictRequest { conversation_id, client_msg_id, user_id: user, until }) => {
            let key = (conversation_id, client_msg_id);
            RestrictResult(change(core, caller, key, GroupChange::Restrict { user, until }, line).await?).into()
        }
        GroupAction::Update(UpdateRequest { conversation_id, client_msg_id, info }) => {
            let key = (conversation_id, client_msg_id);
            UpdateResult(change(core, caller, key, GroupChange::Update { info }, line).await?).into()
        }
        GroupAction::Members(request) => look::members(core, caller, request, line).await?.into(),
        GroupAction::Receipts(request) => look::receipts(core, caller, request, line).await?.into(),
        GroupAction::Reactions(request) => look::reactions(core, caller, request, line).await?.into(),
        GroupAction::Profile(request) => profile::profile(core, caller, &request, line).await?.into(),
    })
}
