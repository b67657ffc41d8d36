//! `notify`: rings the phones of who did not take a message, and clears what was read elsewhere.
//!
//! It runs on the stream of the inbox table, so nobody who writes or reads waits for it, and a message that is stored is looked at,
//! whoever died since. Lambda hands it a batch of changes, at least once, and again from the first one that failed.

mod clear;
mod phones;
mod ring;
mod tally;

use std::time::Duration;

use lambda::{BadVariable, BatchResponse, Clock, Diagnostic, EventLine, LambdaEvent, count, env, sdk_config};
use push::Phones;
use store::Store;
use store::stream::{self, Batch};
use tally::Tally;
use tokio::time::Instant;

/// Publishing a batch ends so long after it has begun, with what is left as failed: well before Lambda would end all of it.
const BATCH_TIMEOUT: Duration = Duration::from_secs(25);
/// Members whose phones are rung, or looked up, at once.
const AT_ONCE_MAX: usize = 32;

/// What the function works with, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub phones: Phones,
    /// How long somebody who is connected has to acknowledge a message.
    pub grace: Duration,
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
        let grace = Duration::from_secs(u64::try_from(count("PUSH_GRACE_SECONDS")?).unwrap_or(u64::MAX));
        Ok(Self { store, phones: Phones::from_sdk(&sdk), grace, clock: Clock::system() })
    }
}

/// Answers one batch.
///
/// # Errors
/// None: what fails is in the answer.
pub async fn handle(deps: &Deps, event: LambdaEvent<Batch>) -> Result<BatchResponse, Diagnostic> {
    let (started, until) = (deps.clock.now(), Instant::now() + BATCH_TIMEOUT);
    let mut line = EventLine::of(&event.context.request_id, "notify", started);
    let (changes, unreadable) = stream::changes(event.payload);
    let mut tally = Tally::default();
    tally.unreadable = unreadable;
    // First: of a conversation that goes on, only what was read is cleared.
    clear::clear(deps, &changes, until, &mut tally).await;
    ring::ring(deps, &changes, until, &mut tally).await;
    line.ended(deps.clock.now());
    let failed = tally.first_failure().and_then(|index| changes.get(index));
    let answer = BatchResponse::again(failed.map(|change| change.sequence_number.as_str()));
    tally.write(line);
    Ok(answer)
}
