//! `ingest`: delivers messages from a team's own servers to its users.
//!
//! The function processes messages of one conversation in order, and different conversations concurrently. Lambda
//! delivers the messages in the reply again; a stored one is a duplicate then. An unacceptable message goes to the
//! queue of dead letters, with the reason, and delays nothing. So does a message that failed too often, alone: the
//! messages behind it have their own tries.

use std::collections::HashSet;
use std::time::Duration;

use actions::{Actions, SendLimits, Writer, WrittenAt, conversation_for};
use domain::Failure;
use futures_util::future::join_all;
use lambda::{
    BadVariable, BatchResponse, Diagnostic, EventLine, LambdaEvent, actions_from_env, env, profiles, sdk_config,
};
use queue::{Batch, DeadLetters, Record};
use store::WarmTable;
use tokio::time::{Instant, timeout, timeout_at};
use wire::{Queued, SendRequest, ServiceMessage, Target};

/// After this time of a batch, no further message is begun: it comes again.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for one message. Then others of its group are begun.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout for dead letters of a batch: before Lambda would end all of it.
const BATCH_TIMEOUT: Duration = Duration::from_millis(9_500);
/// Deliveries of a message before it fails for good. The queue also counts failures before the message, and does not
/// distinguish them. So the first message of its conversation fails at each multiple.
const RECEIVES_MAX: u32 = 20;

/// The function's clients and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    /// Without limits: a service may write what its owner likes.
    pub actions: Actions,
    pub dead_letters: DeadLetters,
}

/// Starts the process with the connections open that the first batch needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let sdk = sdk_config().await;
    let mut limits = SendLimits::default();
    limits.profiles = profiles()?;
    let actions = actions_from_env(&sdk, limits)?;
    let dead_letters = DeadLetters::from_sdk(&sdk, env("DEAD_LETTERS_URL")?);
    actions.warm_up(WarmTable::Inbox).await;
    Ok(Deps { actions, dead_letters })
}

/// Handles one batch.
///
/// # Errors
/// None: the reply lists the failed records.
pub async fn handle(deps: &Deps, event: LambdaEvent<Batch>) -> Result<BatchResponse, Diagnostic> {
    let began = Instant::now();
    let request_id = &event.context.request_id;
    let groups = event.payload.groups();
    let again = join_all(groups.iter().map(|group| in_order(deps, request_id, began, group))).await;
    Ok(BatchResponse::again(again.into_iter().flatten().map(|record| record.message_id.as_str())))
}

/// Processes the messages of a group in order. Returns those to deliver again: the failed ones, and those behind them
/// in the same conversation, which must not be stored first.
async fn in_order<'a>(deps: &Deps, request_id: &str, began: Instant, group: &[&'a Record]) -> Vec<&'a Record> {
    let (mut again, mut stopped, mut given_up) = (vec![], HashSet::new(), HashSet::new());
    for record in group {
        let conversation = target_of(record);
        if began.elapsed() >= BEGIN_TIMEOUT || conversation.as_ref().is_some_and(|of| stopped.contains(of)) {
            again.push(*record);
            continue;
        }
        // Behind a message that fails for good now, this one has just had its first try.
        let is_last = record.receives() > 0
            && record.receives().is_multiple_of(RECEIVES_MAX)
            && conversation.as_ref().is_none_or(|of| !given_up.contains(of));
        match take(deps, request_id, began, record, is_last).await {
            Taken::Done => {}
            Taken::GivenUp => given_up.extend(conversation),
            Taken::Again => {
                again.push(*record);
                stopped.extend(conversation);
            }
        }
    }
    again
}

/// Returns what the message changes: a conversation, or a user's profile. `None` of a message that can't be accepted.
fn target_of(record: &Record) -> Option<String> {
    Some(match Queued::parse(&record.body).ok()? {
        Queued::Message(message) => conversation_for(&message.from, &Target::User(message.to)).to_string(),
        Queued::Profile { user_id, .. } => format!("profile {user_id}"),
    })
}

/// The outcome of a message.
enum Taken {
    /// The message is stored, or unacceptable.
    Done,
    /// The message failed for the last time.
    GivenUp,
    Again,
}

async fn take(deps: &Deps, request_id: &str, began: Instant, record: &Record, is_last: bool) -> Taken {
    let mut line = EventLine::of(request_id, "ingest", deps.actions.clock.now());
    let work = timeout(MESSAGE_TIMEOUT, store(deps, record, &mut line)).await;
    let mut outcome = work.unwrap_or_else(|elapsed| Err(Failure::Unavailable(elapsed.into())));
    let mut taken = Taken::Done;
    if let Err(failure) = &outcome {
        let refusal = failure.refusal();
        // The message would be refused again, or has failed too often.
        let detail = match refusal.retryable() {
            false => Some(refusal.to_string()),
            true if is_last => Some(format!("not stored in {RECEIVES_MAX} tries: {refusal}")),
            true => None,
        };
        taken = match (&detail, refusal.retryable()) {
            (None, _) => Taken::Again,
            (Some(_), true) => Taken::GivenUp,
            (Some(_), false) => Taken::Done,
        };
        if let Some(detail) = detail {
            let put = timeout_at(began + BATCH_TIMEOUT, deps.dead_letters.put(record, refusal.code(), &detail)).await;
            if let Err(error) = put.unwrap_or_else(|elapsed| Err(Failure::Unavailable(elapsed.into()))) {
                (taken, outcome) = (Taken::Again, Err(error));
            }
        }
    }
    line.write(&outcome, deps.actions.clock.now());
    taken
}

async fn store(deps: &Deps, record: &Record, line: &mut EventLine) -> Result<(), Failure> {
    match Queued::parse(&record.body)? {
        Queued::Message(message) => send(deps, *message, line).await,
        Queued::Profile { user_id, set } => {
            let user = line.user_id.insert(user_id);
            let at = record.sent_at().map_or(WrittenAt::Now, WrittenAt::Sent);
            deps.actions.change_profile(user, &set, at).await.map(drop)
        }
    }
}

/// Stores the message, and sends the events. A duplicate gets its events again: the run that stored it may have died
/// right after.
async fn send(deps: &Deps, message: ServiceMessage, line: &mut EventLine) -> Result<(), Failure> {
    let ServiceMessage { from, to, client_msg_id, kind, body, data } = message;
    let request = SendRequest {
        target: Target::User(to),
        client_msg_id,
        kind,
        body,
        media: None,
        data,
        reply_to: None,
        read: None,
        mentions: vec![],
        epoch: None,
        silent: false,
        frank: None,
    };
    line.conversation_id = Some(conversation_for(&from, &request.target));
    line.user_id = Some(from.clone());
    let started = deps.actions.clock.now();
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: &from, origin: None };
    let appended = deps.actions.append(writer, request, conflicts).await?;
    let delivered = line.tell(&deps.actions, started, &appended, None).await;
    let left = delivered.iter().filter(|to| to.frames.posted == 0).count();
    line.measures.left_pending = Some(left as u64);
    Ok(())
}
