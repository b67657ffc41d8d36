//! `ingest`: what a team's own servers put into the queue, to its users.
//!
//! Messages of one group come one after another, and groups side by side. Lambda hands on again what the answer names; what was stored
//! is then a duplicate. What can't be accepted goes to the queue of dead letters, with the reason, and holds up nothing.

use std::time::Duration;

use actions::{SendLimits, Writer, append, conversation_for, tell_appended};
use deliver::Fanout;
use domain::{Failure, Rate};
use futures_util::future::join_all;
use lambda::{
    BadVariable, BatchResponse, Clock, ConnectionsApi, Diagnostic, EventLine, LambdaEvent, count, env, millis_between,
    sdk_config,
};
use queue::{Batch, DeadLetters, Record};
use store::{Store, WarmTable, warm_up};
use tokio::time::{Instant, timeout_at};
use wire::{SendRequest, ServiceMessage, Target, Timestamp};

/// No message is begun so long after the batch: it comes again.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Whatever is under way then comes again too: before Lambda would end all of it.
const BATCH_TIMEOUT: Duration = Duration::from_secs(9);

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub fanout: Fanout,
    pub dead_letters: DeadLetters,
    pub limits: SendLimits,
    pub clock: Clock,
}

impl Deps {
    /// From the environment, with the connections open that the first batch needs.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub async fn start() -> Result<Self, BadVariable> {
        let sdk = sdk_config().await;
        let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
        let fanout = Fanout::new(store.clone(), ConnectionsApi::from_env(&sdk, env)?);
        let dead_letters = DeadLetters::from_sdk(&sdk, env("DEAD_LETTERS_URL")?);
        tokio::join!(warm_up(&store, WarmTable::Inbox), fanout.warm_up());
        Ok(Self { store, fanout, dead_letters, limits: limits(), clock: Clock::system() })
    }
}

/// A service may write as much as its owner likes. Nothing that a queue can ask for is kept for the operator, or about groups.
pub fn limits() -> SendLimits {
    SendLimits::new(Rate::UNLIMITED, Rate::UNLIMITED, Duration::ZERO, 0)
}

/// Answers one batch.
///
/// # Errors
/// None: what fails is in the answer.
pub async fn handle(deps: &Deps, event: LambdaEvent<Batch>) -> Result<BatchResponse, Diagnostic> {
    let began = Instant::now();
    let request_id = &event.context.request_id;
    let groups = event.payload.groups();
    let again = join_all(groups.iter().map(|group| in_order(deps, request_id, began, group))).await;
    Ok(BatchResponse::again(again.into_iter().flatten().map(|record| record.message_id.as_str())))
}

/// Takes the messages of a group, one after another. Those that are to come again, from the first that failed on: the next ones must
/// not be stored before it.
async fn in_order<'a>(deps: &Deps, request_id: &str, began: Instant, group: &'a [&'a Record]) -> &'a [&'a Record] {
    for (place, record) in group.iter().enumerate() {
        let is_done = began.elapsed() < BEGIN_TIMEOUT && take(deps, request_id, began, record).await;
        if !is_done {
            return group.get(place..).unwrap_or_default();
        }
    }
    &[]
}

/// Whether the message needs nothing more: it is stored, or among the dead letters.
async fn take(deps: &Deps, request_id: &str, began: Instant, record: &Record) -> bool {
    let mut line = EventLine::of(request_id, "ingest", deps.clock.now());
    let work = timeout_at(began + BATCH_TIMEOUT, async {
        match store(deps, record, &mut line).await {
            // It would be refused again.
            Err(Failure::Refused(refusal)) if !refusal.retryable() => {
                deps.dead_letters.put(record, &refusal).await.and(Err(refusal.into()))
            }
            stored => stored,
        }
    });
    let outcome = work.await.unwrap_or_else(|elapsed| Err(Failure::Unavailable(elapsed.into())));
    let is_done = match &outcome {
        Ok(()) => true,
        Err(Failure::Refused(refusal)) => !refusal.retryable(),
        Err(Failure::Unavailable(_) | Failure::Unreadable(_)) => false,
    };
    line.write(&outcome, deps.clock.now());
    is_done
}

/// Stores the message, and tells whoever is connected. One that was stored before is told again: the run that stored it may have died
/// right after.
async fn store(deps: &Deps, record: &Record, line: &mut EventLine) -> Result<(), Failure> {
    let ServiceMessage { from, to, client_msg_id, kind, body } = ServiceMessage::parse(&record.body)?;
    let request = SendRequest {
        target: Target::User(to),
        client_msg_id,
        kind,
        body,
        media: None,
        reply_to: None,
        mentions: vec![],
    };
    line.conversation_id = Some(conversation_for(&from, &request.target));
    line.user_id = Some(from.clone());
    let started = deps.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: &from, connection: None };
    let appended = append(&deps.store, &deps.limits, || deps.clock.now(), writer, request, conflicts).await?;
    let stored_at: Timestamp = deps.clock.now();
    line.seq = Some(appended.place.seq);
    line.measures.store_ms = Some(millis_between(started, stored_at));
    let delivered = tell_appended(&deps.store, &deps.fanout, stored_at, &appended, None).await;
    line.measures.fanout_ms = Some(millis_between(stored_at, deps.clock.now()));
    let left = delivered.iter().filter(|to| to.frames.posted == 0).count();
    line.measures.left_pending = Some(left as u64);
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(())
}
