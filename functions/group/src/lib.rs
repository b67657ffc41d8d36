//! `create`, `add`, `remove`, `join`, `leave`, `role` and `update`: what a group or a channel is, and who is in it; `members`, `receipts` and `reactions`:
//! who they are, and how far they have come. A file for what changes a group, and one for what is looked up.
//!
//! Each change is an entry of the group's log, but for who joins or leaves a channel by themselves, and is permitted by what the log says just
//! before it.

mod change;
mod look;

use std::time::Duration;

use actions::{SendLimits, creation, join, leave};
use change::{add, change};
use deliver::Fanout;
use domain::{Failure, GroupChange};
use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, EventLine, InvocationEvent, Limiter, Response, answer,
    count, env, rate, sdk_config,
};
use store::{Store, WarmTable, warm_up};
use wire::{
    Action, CreateResult, JoinRequest, JoinResult, LeaveRequest, LeaveResult, Refusal, RemoveRequest, RemoveResult,
    Reply, RoleRequest, RoleResult, UpdateRequest, UpdateResult,
};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    pub limiter: Limiter,
    pub limits: SendLimits,
    pub clock: Clock,
}

impl Deps {
    /// From the environment, with the connections open that the first event needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let connections = ConnectionsApi::from_env(&sdk, env)?;
        let limiter = Limiter::from_env(connections.clone(), env)?;
        let members_max = u64::try_from(count("GROUP_MEMBERS_MAX")?).unwrap_or(u64::MAX);
        let (sends, first_messages) = (rate("SEND_RATE", env)?, rate("FIRST_MESSAGE_RATE", env)?);
        let limits = SendLimits::new(sends, first_messages, Duration::ZERO, members_max);
        let fanout = Fanout::new(store.clone(), connections);
        tokio::join!(warm_up(&store, WarmTable::Conversations), fanout.warm_up());
        Ok(Self { store, fanout, limiter, limits, clock: Clock::system() })
    }
}

/// Answers one event on its routes.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: InvocationEvent) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| act(deps, caller, action, line).await;
    answer(&deps.clock, &deps.limiter, event, act).await
}

async fn act(deps: &Deps, caller: &Caller, action: Action, line: &mut EventLine) -> Result<Reply, Failure> {
    Ok(match action {
        Action::Create(request) => {
            let (key, create) = creation(&caller.user, request)?;
            CreateResult(change(deps, caller, key, create, line).await?).into()
        }
        Action::Add(request) => add(deps, caller, request, line).await?.into(),
        Action::Remove(RemoveRequest { conversation_id, client_msg_id, user_id: user }) => {
            let key = (conversation_id, client_msg_id);
            RemoveResult(change(deps, caller, key, GroupChange::Remove { user }, line).await?).into()
        }
        Action::Leave(LeaveRequest { conversation_id, .. }) if conversation_id.is_channel() => {
            leave(&deps.store, &caller.user, line.conversation_id.insert(conversation_id)).await?;
            LeaveResult { entry: None }.into()
        }
        Action::Leave(LeaveRequest { conversation_id, client_msg_id }) => {
            let client_msg_id = client_msg_id.ok_or_else(|| Refusal::bad_request("client_msg_id", "is missing"))?;
            let key = (conversation_id, client_msg_id);
            LeaveResult { entry: Some(change(deps, caller, key, GroupChange::Leave, line).await?) }.into()
        }
        Action::Join(JoinRequest { conversation_id }) => {
            let channel = line.conversation_id.insert(conversation_id);
            JoinResult { last_seq: join(&deps.store, deps.clock.now(), &caller.user, channel).await? }.into()
        }
        Action::Role(RoleRequest { conversation_id, client_msg_id, user_id: user, role }) => {
            let key = (conversation_id, client_msg_id);
            RoleResult(change(deps, caller, key, GroupChange::Role { user, role }, line).await?).into()
        }
        Action::Update(UpdateRequest { conversation_id, client_msg_id, info }) => {
            let key = (conversation_id, client_msg_id);
            UpdateResult(change(deps, caller, key, GroupChange::Update { info }, line).await?).into()
        }
        Action::Members(request) => look::members(deps, caller, request, line).await?.into(),
        Action::Receipts(request) => look::receipts(deps, caller, request, line).await?.into(),
        Action::Reactions(request) => look::reactions(deps, caller, request, line).await?.into(),
        _ => return Err(Refusal::UnknownAction.into()),
    })
}
