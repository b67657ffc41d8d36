//! `send`: appends a message to a conversation, then tells whoever is connected.
//!
//! Durable before delivered: no frame leaves and no answer is given before the transaction has committed. After it, nothing
//! may fail the request: what does not arrive is pending.

use actions::{SendLimits, append, conversation_for, tell_appended};
use deliver::Fanout;
use domain::Failure;
use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, Event, EventLine, Limiter, Response, answer, count, env,
    millis_between, rate, sdk_config,
};
use store::{Store, WarmTable, warm_up};
use wire::{Action, Refusal, Reply, SendRequest, SendResult};

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
        let limits = SendLimits { sends: rate("SEND_RATE", env)?, first_messages: rate("FIRST_MESSAGE_RATE", env)? };
        let fanout = Fanout::new(store.clone(), connections);
        tokio::join!(warm_up(&store, WarmTable::Inbox), fanout.warm_up());
        Ok(Self { store, fanout, limiter, limits, clock: Clock::system() })
    }
}

/// Answers one event on the route `send`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        Action::Send(request) => send(deps, caller, request, line).await,
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}

async fn send(deps: &Deps, caller: &Caller, request: SendRequest, line: &mut EventLine) -> Result<Reply, Failure> {
    line.conversation_id = Some(conversation_for(&caller.user, &request.target));
    let started = deps.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let appended = append(&deps.store, &deps.limits, || deps.clock.now(), &caller.user, request, conflicts).await?;
    let stored_at = deps.clock.now();
    // A duplicate is told again: the first run may have died right after its commit.
    let delivered = tell_appended(&deps.fanout, stored_at, &appended, Some(&caller.connection)).await;

    let place = &appended.message.place;
    line.seq = Some(place.seq);
    line.measures.store_ms = Some(millis_between(started, stored_at));
    line.measures.fanout_ms = Some(millis_between(stored_at, deps.clock.now()));
    let left = delivered.iter().filter(|to| to.user != caller.user && to.frames.posted == 0).count();
    line.measures.left_pending = Some(left as u64);
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(SendResult {
        conversation_id: appended.message.conversation_id.clone(),
        seq: place.seq,
        message_id: place.message_id.clone(),
        sent_at: place.sent_at,
        duplicate: appended.duplicate,
    }
    .into())
}
