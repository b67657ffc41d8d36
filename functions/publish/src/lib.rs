//! `publish`: sends each entry and each report to the bus or the queue of a team's own servers.
//!
//! The streams of `messages` and of `audit` invoke it. A record names an entry and has nothing of its text. The function
//! reads the entry as it is now, so no text leaves after its delete. A late, repeated or unordered record does no harm.
//! Lambda retries a batch from the first record that failed, so an event can come twice; its `id` shows that.

mod event;
mod read;
mod replay;
mod sink;

use std::time::Duration;

use domain::Failure;
pub use event::Content;
use event::Event;
use lambda::{BadVariable, BatchResponse, Clock, Diagnostic, EventLine, LambdaEvent, count, env, sdk_config};
pub use sink::Sink;
use store::Store;
use store::stream::{self, Batch, New};
use tokio::time::timeout;

/// The time after which a batch ends, before Lambda would end it. All of the batch counts as failed.
const BATCH_TIMEOUT: Duration = Duration::from_secs(50);

/// The function's clients and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub store: Store,
    pub sink: Sink,
    pub content: Content,
    /// The stack's name, which each event has.
    pub stack: String,
    pub clock: Clock,
}

/// Starts the process.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let sdk = sdk_config().await;
    let store = Store::from_env(&sdk, env, count("CONNECTIONS_PER_USER_MAX")?)?;
    let sink = Sink::from_sdk(&sdk, &env("EVENTS_TO")?, &env("AWS_ENDPOINT_URL_SQS")?)?;
    let content = Content::parse(&env("EVENTS_CONTENT")?)?;
    Ok(Deps { store, sink, content, stack: env("STACK_NAME")?, clock: Clock::system() })
}

/// Handles one batch.
///
/// # Errors
/// None: the reply names the first record that failed.
pub async fn handle(deps: &Deps, event: LambdaEvent<Batch>) -> Result<BatchResponse, Diagnostic> {
    let mut line = EventLine::of(&event.context.request_id, "publish", deps.clock.now());
    let (records, unreadable) = stream::new(event.payload);
    line.unreadable(unreadable);
    let news: Vec<&New> = records.iter().map(|(new, _)| new).collect();
    let sent = timeout(BATCH_TIMEOUT, Box::pin(publish(deps, &news))).await;
    let sent = sent.unwrap_or_else(|elapsed| Sent::failed_from(0, Failure::Unavailable(elapsed.into())));
    line.unreadable(sent.unreadable);
    (line.measures.posted, line.measures.failed) = (Some(sent.accepted), Some(u64::from(sent.failed.is_some())));
    line.ended(deps.clock.now());
    let again = sent.failed.as_ref().and_then(|(place, _)| records.get(*place));
    let answer = BatchResponse::again(again.map(|(_, number)| number.as_str()));
    match &sent.failed {
        None => line.info("ok", "answered"),
        Some((_, failure)) => line.error("partial", failure, "some of the batch failed"),
    }
    Ok(answer)
}

/// The outcome of a batch.
#[derive(Debug, Default)]
struct Sent {
    /// Events that the bus or the queue took.
    accepted: u64,
    unreadable: u64,
    /// The first record that failed.
    failed: Option<(usize, Failure)>,
}

impl Sent {
    fn failed_from(place: usize, failure: Failure) -> Self {
        Self { failed: Some((place, failure)), ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.unreadable += other.unreadable;
        if let Some((place, _)) = &other.failed
            && self.failed.as_ref().is_none_or(|(first, _)| place < first)
        {
            self.failed = other.failed;
        }
    }
}

/// First what is new, then the steps of replays: a stream has either.
async fn publish(deps: &Deps, news: &[&New]) -> Sent {
    let first = news.iter().position(|new| !matches!(new, New::Replay { .. }));
    let mut sent = match read::events(deps, news).await {
        Ok(read::Read { events, unreadable }) => Sent { unreadable, ..put(deps, &events).await },
        Err(failure) => Sent::failed_from(first.unwrap_or_default(), failure),
    };
    for (place, new) in news.iter().enumerate() {
        if let New::Replay { job_id } = new {
            sent.add(replay::step(deps, job_id, place).await);
        }
    }
    sent
}

/// Sends events, as many in a call as the bus or the queue takes. After a call that failed no other one is made.
async fn put(deps: &Deps, events: &[Event]) -> Sent {
    let mut sent = Sent::default();
    let mut left = events;
    while !left.is_empty() {
        let (now, later) = left.split_at(sink::fitting(left));
        let refused = match deps.sink.put(now).await {
            Ok(refused) => refused,
            Err(failure) => {
                let first = left.iter().map(|event| event.place).min();
                sent.add(Sent::failed_from(first.unwrap_or_default(), failure));
                return sent;
            }
        };
        sent.accepted += (now.len() - refused.len()) as u64;
        for (index, failure) in refused {
            let place = now.get(index).map_or(0, |event| event.place);
            sent.add(Sent::failed_from(place, failure));
        }
        left = later;
    }
    sent
}
