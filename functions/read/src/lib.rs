//! `read` and `settings`: what a user says of a conversation that only their own row keeps.

use actions::{Mark, raise, set, tell_own, tell_read};
use deliver::Fanout;
use domain::Failure;
use lambda::{
    BadVariable, Caller, Clock, ConnectionsApi, Diagnostic, Event, EventLine, Limiter, Response, answer, env,
    sdk_config,
};
use store::{Store, WarmTable, warm_up};
use wire::{Action, ReadRequest, ReadResult, Refusal, Reply, ServerEvent, Settings, SettingsResult};

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    pub limiter: Limiter,
    pub clock: Clock,
}

impl Deps {
    /// From the environment, with the connections open that the first event needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env)?;
        let connections = ConnectionsApi::from_env(&sdk, env)?;
        let limiter = Limiter::from_env(connections.clone(), env)?;
        let fanout = Fanout::new(store.clone(), connections);
        tokio::join!(warm_up(&store, WarmTable::Inbox), fanout.warm_up());
        Ok(Self { store, fanout, limiter, clock: Clock::system() })
    }
}

/// Answers one event on the routes `read` and `settings`.
///
/// # Errors
/// Only for an event that does not come from API Gateway; its client then gets API Gateway's own error frame.
pub async fn handle(deps: &Deps, event: Event) -> Result<Response, Diagnostic> {
    let act = async |caller: &Caller, action, line: &mut EventLine| match action {
        Action::Read(request) => read(deps, caller, request, line).await,
        Action::Settings(request) => settings(deps, caller, request, line).await,
        _ => Err(Refusal::UnknownAction.into()),
    };
    answer(&deps.clock, &deps.limiter, event, act).await
}

/// Raises the read mark, and tells the other members and the reader's own devices.
async fn read(deps: &Deps, caller: &Caller, request: ReadRequest, line: &mut EventLine) -> Result<Reply, Failure> {
    let ReadRequest { conversation_id, seq } = request;
    line.seq = Some(seq);
    let conversation_id = line.conversation_id.insert(conversation_id);
    let row = raise(&deps.store, deps.clock.now(), &caller.user, conversation_id, seq, Mark::Read).await?;
    let delivered = tell_read(&deps.fanout, deps.clock.now(), &row, Some(&caller.connection)).await;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(ReadResult { unread: row.marks.unread }.into())
}

/// Sets it, and tells the user's own devices. Nobody else learns of it.
async fn settings(deps: &Deps, caller: &Caller, request: Settings, line: &mut EventLine) -> Result<Reply, Failure> {
    if let Settings::Conversation { conversation_id, .. } = &request {
        line.conversation_id = Some(conversation_id.clone());
    }
    set(&deps.store, &caller.user, &request).await?;
    let (now, event) = (deps.clock.now(), ServerEvent::Settings(request));
    let delivered = tell_own(&deps.fanout, now, &caller.user, event, Some(&caller.connection)).await;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(SettingsResult {}.into())
}
