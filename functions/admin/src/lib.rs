//! `admin`: what an operator can look up and do, and what a team's own server does that must have its answer. No route leads here: whoever may invoke the function, by IAM, may do all of it.
//!
//! Nothing that is answered holds what people wrote.

mod look;
mod op;
mod repair;
mod service;

use std::time::Duration;

use actions::SendLimits;
use deliver::Fanout;
use domain::{Failure, Rate, direct_conversation_id};
use lambda::{BadVariable, Clock, ConnectionsApi, Diagnostic, EventLine, LambdaEvent, LogKey, count, env, sdk_config};
use op::Op;
use serde_json::{Value, json};
use store::connections::{self, Freshness};
use store::{Store, WarmTable, warm_up};
use wire::{Timestamp, UserId};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    /// Of a service no rate is asked for.
    pub limits: SendLimits,
    pub log_key: LogKey,
    pub clock: Clock,
}

impl Deps {
    /// From the environment.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        warm_up(&store, WarmTable::Connections).await;
        let fanout = Fanout::new(store.clone(), ConnectionsApi::from_env(&sdk, env)?);
        let kept_for = Duration::from_hours(24) * u32::try_from(count("AUDIT_DAYS")?).unwrap_or(u32::MAX);
        let members_max = u64::try_from(count("GROUP_MEMBERS_MAX")?).unwrap_or(u64::MAX);
        let limits = SendLimits::new(Rate::UNLIMITED, Rate::UNLIMITED, kept_for, members_max);
        Ok(Self { store, fanout, limits, log_key: LogKey::from_env()?, clock: Clock::system() })
    }
}

/// Carries out one request: `{"result": …}`, or `{"error": {"code", "message"}}` with the codes of the protocol.
///
/// # Errors
/// None: what fails is answered.
pub async fn handle(deps: &Deps, event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    let started = deps.clock.now();
    let mut line = EventLine::of(&event.context.request_id, "admin", started);
    let outcome = match Op::parse(event.payload) {
        Ok(op) => {
            line.user_id = op.user().cloned();
            run(deps, op, started, &mut line).await
        }
        Err(refusal) => Err(refusal.into()),
    };
    line.write(&outcome, deps.clock.now());
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
        Op::Kick { user_id } => kick(deps, &user_id, now).await,
        Op::Suspend { user_id, until } => {
            // First: of a connection that opens meanwhile, either it sees this row, or it is seen by the kick.
            connections::suspend(&deps.store, &user_id, until).await?;
            kick(deps, &user_id, now).await
        }
        Op::Unsuspend { user_id } => {
            connections::unsuspend(&deps.store, &user_id).await?;
            Ok(json!({}))
        }
        Op::Connections { user_id } => look::connections(deps, &user_id, now).await,
        Op::Pending { user_id } => look::pending(deps, &user_id).await,
        Op::LoggedAs { id } => Ok(json!({ "logged_as": deps.log_key.logged_as(&id) })),
        Op::Conversation { user_ids: [one, other] } => {
            let conversation_id = direct_conversation_id(&one, &other);
            look::conversation(deps, &[one, other], &conversation_id).await
        }
        Op::Repair { conversation_id: Some(group), .. } => repair::one(deps, &group, line).await,
        Op::As { service, action } => service::act(deps, &service, *action, line).await,
        Op::DeleteMessage { conversation_id, seq } => service::delete_message(deps, (conversation_id, seq), line).await,
        Op::Repair { conversation_id: None, since, behind } => repair::all(deps, since, behind, line).await,
    }
}

/// Closes all sockets of a user. What one of them sends meanwhile may still be carried out.
async fn kick(deps: &Deps, user: &UserId, now: Timestamp) -> Result<Value, Failure> {
    let listed = connections::list(&deps.store, user, now, Freshness::Strong).await?;
    let all: Vec<_> = listed.open.into_iter().map(|open| open.connection).chain(listed.ended).collect();
    let closed = deps.fanout.close_all(now, user, &all).await.len();
    if closed < all.len() {
        return Err(Failure::Unavailable(format!("{closed} of {} connections were closed", all.len()).into()));
    }
    Ok(json!({ "closed": closed }))
}
