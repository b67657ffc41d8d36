//! `admin`: requests of operators, and those requests of a team's own server that need a reply. The function has no
//! route: a caller with the IAM permission to invoke it may do all of it.
//!
//! No reply contains message texts, but that to `reports`.

mod jobs;
mod look;
mod op;
mod repair;
mod replay;
mod reports;

use actions::{Actions, SendLimits, WrittenAt};
use domain::{Failure, Rate};
use lambda::{
    BadVariable, Diagnostic, EventLine, LambdaEvent, LogKey, act_as_service, actions_from_env, group_members_max,
    kept_for, optional, profiles, sdk_config,
};
use op::Op;
use serde_json::{Value, json};
use store::connections;
use store::{WarmTable, Written, warm_up};
use wire::{ConversationId, ProfileChange, ProfileResult, Refusal, Seq, Timestamp, UserId, direct_conversation_id};

/// The function's clients and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    /// Without rates: a service may write what its owner likes.
    pub actions: Actions,
    pub log_key: LogKey,
}

/// Starts the process.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let mut limits = SendLimits::new(Rate::UNLIMITED, Rate::UNLIMITED, kept_for()?, group_members_max()?);
    limits.profiles = profiles()?;
    limits.published = optional("EVENTS_TO").is_some();
    let actions = actions_from_env(&sdk_config().await, limits)?;
    warm_up(&actions.store, WarmTable::Connections).await;
    Ok(Deps { actions, log_key: LogKey::from_env()? })
}

/// Handles one request: `{"result": …}`, or `{"error": {"code", "message"}}` with the protocol's codes.
///
/// # Errors
/// None: a failure is in the reply.
pub async fn handle(deps: &Deps, event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    let started = deps.actions.clock.now();
    let mut line = EventLine::of(&event.context.request_id, "admin", started);
    let outcome = match Op::parse(event.payload) {
        Ok(op) => {
            line.user_id = op.user().cloned();
            run(deps, op, started, &mut line).await
        }
        Err(refusal) => Err(refusal.into()),
    };
    line.write(&outcome, deps.actions.clock.now());
    Ok(match outcome {
        Ok(result) => json!({ "result": result }),
        Err(failure) => {
            let refusal = failure.refusal();
            json!({"error": {"code": refusal.code(), "message": refusal.to_string()}})
        }
    })
}

async fn run(deps: &Deps, op: Op, now: Timestamp, line: &mut EventLine) -> Result<Value, Failure> {
    match op {
        Op::Kick { user_id } => kick(deps, &user_id).await,
        Op::Suspend { user_id, until } => {
            // First: of a connection that opens meanwhile, either it sees this row, or it is seen by the kick.
            connections::suspend(&deps.actions.store, &user_id, until).await?;
            deps.actions.unwatch_all(&user_id).await?;
            kick(deps, &user_id).await
        }
        Op::Unsuspend { user_id } => match connections::unsuspend(&deps.actions.store, &user_id).await? {
            Written::Done => Ok(json!({})),
            Written::Lost => Err(Refusal::Gone.into()),
        },
        Op::Connections { user_id } => look::connections(deps, &user_id, now).await,
        Op::Pending { user_id } => look::pending(deps, &user_id).await,
        Op::LoggedAs { id } => Ok(json!({ "logged_as": deps.log_key.logged_as(&id) })),
        Op::Conversation { user_ids: [one, other] } => {
            let conversation_id = direct_conversation_id(&one, &other);
            look::conversation(deps, &[one, other], &conversation_id).await
        }
        Op::Find { user_ids: Some([one, other]), conversation_id: None, at } => {
            look::find(deps, &direct_conversation_id(&one, &other), at).await
        }
        Op::Find { user_ids: None, conversation_id: Some(conversation_id), at } => {
            look::find(deps, &conversation_id, at).await
        }
        Op::Find { .. } => Err(Refusal::bad_request("user_ids", "must be set, or conversation_id instead").into()),
        Op::Repair { conversation_id: Some(group), log, .. } => repair::one(deps, &group, log, line).await,
        Op::As { service, request } => act_as_service(&deps.actions, &service, request, line).await,
        Op::DeleteMessage { conversation_id, seq } => delete_message(deps, (conversation_id, seq), line).await,
        Op::Profile { user_id, set } => {
            let set = ProfileChange::of(&set)?;
            let ProfileResult { version } = deps.actions.change_profile(&user_id, &set, WrittenAt::Now).await?;
            Ok(json!({ "version": version }))
        }
        Op::Replay { conversation_id, from_seq, to_seq } => {
            replay::begin(deps, conversation_id, from_seq, to_seq, line).await
        }
        Op::Erase { user_id, reason } => jobs::erase(deps, user_id, reason.as_deref(), now).await,
        Op::EraseAgain { since } => jobs::erase_again(deps, since, now).await,
        Op::Hold { user_id, conversation_id, on } => jobs::hold(deps, (user_id, conversation_id), on, now).await,
        Op::Job { job_id, again } => jobs::job(deps, &job_id, again, now).await,
        Op::Reports { month, cursor } => reports::list(deps, &month, cursor.as_ref()).await,
        Op::ReportClose { month, report_id, outcome } => reports::close(deps, &month, &report_id, &outcome, now).await,
        Op::Repair { conversation_id: None, since, behind, .. } => repair::all(deps, since, behind, line).await,
    }
}

/// Deletes a message of any author.
async fn delete_message(deps: &Deps, message: (ConversationId, Seq), line: &mut EventLine) -> Result<Value, Failure> {
    line.conversation_id = Some(message.0.clone());
    let conflicts = line.measures.conflicts.insert(0);
    let appended = deps.actions.delete_message(message, conflicts).await?;
    line.tell(&deps.actions, line.started, &appended, None).await;
    serde_json::to_value(appended.into_result()).map_err(|error| Failure::Unavailable(error.into()))
}

/// Closes all sockets of a user.
async fn kick(deps: &Deps, user: &UserId) -> Result<Value, Failure> {
    Ok(json!({ "closed": deps.actions.disconnect(user).await? }))
}
