//! The request rate of a user: in this process by the cost of each request, and over all processes by samples.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use deliver::ConnectionsApi;
use domain::limits::REMEMBERED_MAX;
use domain::{ConnectionId, Cost, Filled, Floods, Rate, SAMPLED, error_chain, filled_until, is_sampled};
use futures_util::future::{BoxFuture, LocalBoxFuture, join, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use sha2::{Digest as _, Sha256};
use store::connections::{self, Freshness, Samples};
use store::{Error, Store};
use tokio::time::{sleep, timeout};
use wire::{Refusal, Timestamp, UserId};

use crate::caller::Caller;
use crate::env::BadVariable;
use crate::event_line::EventLine;

/// How long a client that was refused is to wait.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Maximum of strikes: requests within [`RETRY_AFTER`] of a refusal. Above it the socket is closed. Each wait cancels a
/// single strike, because a flood with pauses is a flood too.
const STRIKES_MAX: u32 = 20;
/// After that, each further flooding socket is closed, until this time passes without a refusal: a closed client may
/// reconnect immediately.
const STRUCK_OUT_FOR: Duration = Duration::from_secs(10);
/// A request within this time after a strike may have been under way already, and is no strike.
const STRIKE_PAUSE: Duration = Duration::from_millis(100);
/// The longest time that a reply waits for its own sample. One write of one row takes a tenth of it.
const SAMPLE_MAX: Duration = Duration::from_millis(50);
/// The time between two sockets of a flood that the limiter closes. Each close causes a `$disconnect`, and often a new
/// `$connect`. With all of them in one moment, the end of a flood would be a wave itself.
const CLOSE_PAUSE: Duration = Duration::from_millis(25);
/// A socket whose `$connect` is older is open, or is gone.
const SET_UP_WITHIN: Duration = Duration::from_secs(10);

/// Counts the cost of each request in the memory of one process, for free. A user who sends more gets more processes, so
/// some requests are also counted for all processes, in the user's row of samples.
#[derive(Debug)]
pub struct Limiter {
    rate: Rate,
    store: Store,
    connections: ConnectionsApi,
    seen: Mutex<Seen>,
    /// Samples on their way. Lambda freezes a process after its reply, so a sample that is not done by then continues with the next
    /// event. Each ends within the time of a call, so they are few.
    sampling: Mutex<FuturesUnordered<BoxFuture<'static, Option<Flood>>>>,
}

/// A user with too many requests over all processes.
#[derive(Debug)]
struct Flood {
    user: UserId,
    before: Floods,
    windows: Vec<i64>,
    now: Timestamp,
}

/// The start of a request: its cost so far is the difference to this.
#[derive(Debug)]
pub(crate) struct Admitted {
    started: Timestamp,
    posts: u64,
    half_read_units: u64,
    /// Uniform in 0..1, and the same for the same request.
    draw: f64,
    is_sampled: bool,
}

#[derive(Debug, Default)]
struct Seen {
    users: Filled<UserId>,
    refused: HashMap<UserId, Refused>,
}

#[derive(Clone, Copy, Debug)]
struct Refused {
    strikes: u32,
    last_strike_at: Timestamp,
    last_at: Timestamp,
}

/// The decision on a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Admitted,
    Refused,
    /// Refused, and the connection is closed, because the user has ignored the wait too often.
    Closed,
}

impl Limiter {
    pub fn new(rate: Rate, store: Store, connections: ConnectionsApi) -> Self {
        Self { rate, store, connections, seen: Mutex::default(), sampling: Mutex::default() }
    }

    /// With the rate that `REQUEST_RATE` names.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub fn from_env(
        store: Store,
        connections: ConnectionsApi,
        env: impl Fn(&'static str) -> Result<String, BadVariable>,
    ) -> Result<Self, BadVariable> {
        Ok(Self::new(crate::env::rate("REQUEST_RATE", env)?, store, connections))
    }

    /// Returns the tables.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Counts a request as one, and closes the caller's socket where that is due. `request_id` is API Gateway's.
    pub(crate) async fn admit(&self, caller: &Caller, request_id: &str, now: Timestamp) -> Result<Admitted, Refusal> {
        let verdict = self.seen().judge(&self.rate, &caller.user, now);
        if verdict == Verdict::Closed {
            tracing::warn!("closing a connection that ignores rate_limited");
            if let Ok(connection) = caller.connection() {
                self.close(connection).await;
            }
        }
        if verdict != Verdict::Admitted {
            return Err(Refusal::rate_limited(RETRY_AFTER));
        }
        let mut admitted = Admitted {
            started: now,
            posts: self.connections.posts(),
            half_read_units: self.store.half_read_units(),
            draw: draw(request_id),
            is_sampled: false,
        };
        self.sample(caller, &mut admitted, 1.0, now);
        Ok(admitted)
    }

    /// Runs the request, and charges its cost. Concurrently the limiter continues the samples under way, and begins one
    /// for this request if it is expensive. The reply of a sampled request waits for the sample, at most
    /// [`SAMPLE_MAX`]. The process of a flood may get its next event, and with it the outcome, only with the next wave.
    /// If a flood is found, the reply waits for its end.
    pub(crate) async fn charged<T>(
        &self,
        caller: &Caller,
        mut admitted: Option<Admitted>,
        now: impl Fn() -> Timestamp,
        mut act: impl Future<Output = T> + Unpin,
    ) -> T {
        let next = poll_fn(|context| {
            // Each event takes them along, and leaves those that are not done to the next one.
            if let Some(flood) = self.found(context) {
                return Poll::Ready((Some(flood), None));
            }
            let done = act.poll_unpin(context);
            if let Some(admitted) = &mut admitted {
                let now = now();
                self.sample(caller, admitted, self.cost(admitted, now).sampled_weight(), now);
            }
            // A sample begun just now is on its way before the reply.
            match (self.found(context), done) {
                (None, Poll::Pending) => Poll::Pending,
                (flood, Poll::Pending) => Poll::Ready((flood, None)),
                (flood, Poll::Ready(outcome)) => Poll::Ready((flood, Some(outcome))),
            }
        });
        let (mut flood, outcome) = next.await;
        if flood.is_none() && admitted.as_ref().is_some_and(|admitted| admitted.is_sampled) {
            flood = timeout(SAMPLE_MAX, self.sampled()).await.unwrap_or_default();
        }
        let ending = async {
            if let Some(flood) = flood {
                self.end(flood).await;
            }
        };
        let outcome = match outcome {
            Some(outcome) => {
                ending.await;
                outcome
            }
            None => join(act, ending).await.0,
        };
        if let Some(admitted) = admitted {
            let now = now();
            let weight = self.cost(&admitted, now).weight();
            self.seen().users.charge(&self.rate, &caller.user, now, weight);
        }
        outcome
    }

    /// Waits for the samples that are on their way. Returns the first flood that one finds.
    async fn sampled(&self) -> Option<Flood> {
        poll_fn(|context| match self.found(context) {
            None if !self.sampling().is_empty() => Poll::Pending,
            found => Poll::Ready(found),
        })
        .await
    }

    /// Continues the samples that are on their way. Returns the first flood that one finds.
    fn found(&self, context: &mut Context<'_>) -> Option<Flood> {
        let mut sampling = self.sampling();
        while let Poll::Ready(Some(found)) = sampling.poll_next_unpin(context) {
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns a request's cost so far.
    fn cost(&self, admitted: &Admitted, now: Timestamp) -> Cost {
        Cost {
            held: now.since(admitted.started),
            posts: self.connections.posts().saturating_sub(admitted.posts),
            half_read_units: self.store.half_read_units().saturating_sub(admitted.half_read_units),
        }
    }

    /// Counts a request for all processes, if one of this weight is to be, and was not yet.
    fn sample(&self, caller: &Caller, admitted: &mut Admitted, weight: f64, now: Timestamp) {
        let rate = self.rate.of_samples();
        if rate.is_unlimited() || admitted.is_sampled || !is_sampled(admitted.draw, weight) {
            return;
        }
        admitted.is_sampled = true;
        let filled_for = rate.pause.mul_f64((weight / f64::from(SAMPLED)).max(1.0));
        let (store, user) = (self.store.clone(), caller.user.clone());
        let sampling = async move {
            match connections::sampled(&store, &user, filled_for, now).await {
                Ok(Samples { windows, floods }) => {
                    let is_due = rate.is_full(filled_until(&windows), now) && !floods.is_being_ended(now);
                    let windows = windows.into_iter().map(|(window, _)| window).collect();
                    is_due.then_some(Flood { user, before: floods, windows, now })
                }
                Err(error) => {
                    tracing::debug!(error = error_chain(&error), "a request sample was not written");
                    None
                }
            }
        };
        self.sampling().push(sampling.boxed());
    }

    /// Suspends a user with too many requests for a while, and closes all of the user's sockets. If that fails, the
    /// requests still count, so the next ones cause another try.
    fn end(&self, flood: Flood) -> LocalBoxFuture<'_, ()> {
        let ending = async move {
            let Flood { user, before, windows, now } = flood;
            let (floods, until) = before.and_now(now);
            let ended: Result<bool, Error> = async {
                if !connections::flooded(&self.store, &user, before, floods, now).await? {
                    return Ok(false);
                }
                connections::suspend_for_flood(&self.store, &user, until).await?;
                // The list follows the suspension's write. A connection that opens meanwhile lists after it has written its
                // own row, so it finds the suspension.
                let listed = connections::list(&self.store, &user, now, Freshness::Strong).await?;
                let listed = listed.open.iter().map(|open| &open.connection).chain(&listed.ended);
                let closed = join_all(listed.zip(0..).map(async |(connection, place)| {
                    sleep(CLOSE_PAUSE * place).await;
                    let was_there = self.close(&connection.id).await;
                    // A connection that is still opening will be there.
                    was_there || now.since(connection.connected_at) >= SET_UP_WITHIN
                }));
                if closed.await.into_iter().all(|is_closed| is_closed) {
                    connections::forget_samples(&self.store, &user, &windows).await?;
                }
                Ok(true)
            }
            .await;
            let line = EventLine { user_id: Some(user), ..EventLine::of("", "flood", now) };
            match ended {
                Ok(true) => line.info("flood", "a user is suspended for a flood of requests"),
                Ok(false) => {}
                Err(error) => line.error("flood", &error, "a user was not suspended for a flood of requests"),
            }
        };
        // Boxed here: no other caller has it on the stack.
        ending.boxed_local()
    }

    /// Whether it was there.
    async fn close(&self, connection: &ConnectionId) -> bool {
        self.connections.close(connection).await.unwrap_or_else(|error| {
            tracing::warn!(error = error_chain(&*error), "a connection that ignores rate_limited was not closed");
            false
        })
    }

    /// Never held across an await.
    fn sampling(&self) -> MutexGuard<'_, FuturesUnordered<BoxFuture<'static, Option<Flood>>>> {
        self.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never held across an await. After a panic the map is still a count.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Two tries at the same request by API Gateway have the same id.
fn draw(request_id: &str) -> f64 {
    let digest: [u8; 32] = Sha256::digest(request_id).into();
    let [a, b, c, d, ..] = digest;
    f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

impl Seen {
    fn judge(&mut self, rate: &Rate, user: &UserId, now: Timestamp) -> Verdict {
        if self.users.count(rate, user, now).is_ok() {
            return Verdict::Admitted;
        }
        if self.refused.len() >= REMEMBERED_MAX && !self.refused.contains_key(user) {
            self.refused.clear();
        }
        let first = Refused { strikes: 0, last_strike_at: now, last_at: now };
        let refused = self.refused.entry(user.clone()).or_insert(first);
        let waited = now.since(refused.last_at);
        if waited >= STRUCK_OUT_FOR {
            *refused = first;
        } else if waited >= RETRY_AFTER && refused.strikes < STRIKES_MAX {
            refused.strikes = refused.strikes.saturating_sub(1);
            refused.last_strike_at = now;
        } else if now.since(refused.last_strike_at) >= STRIKE_PAUSE {
            refused.strikes += 1;
            refused.last_strike_at = now;
        }
        refused.last_at = now;
        if refused.strikes < STRIKES_MAX { Verdict::Refused } else { Verdict::Closed }
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 30, pause: Duration::from_millis(100) };

    struct Flood {
        seen: Seen,
        user: UserId,
    }

    impl Flood {
        fn new() -> Self {
            Self { seen: Seen::default(), user: UserId::parse("mallory").unwrap() }
        }

        fn at(&mut self, millis: i64) -> Verdict {
            self.seen.judge(&RATE, &self.user, Timestamp::from_millis(millis))
        }
    }

    #[test]
    fn thirty_at_once_then_ten_a_second() {
        let mut flood = Flood::new();
        assert!((0..30).all(|_| flood.at(0) == Verdict::Admitted));
        assert_eq!(flood.at(0), Verdict::Refused);
        assert_eq!(flood.at(99), Verdict::Refused);
        assert_eq!(flood.at(100), Verdict::Admitted);
        assert_eq!(flood.at(100), Verdict::Refused);
    }

    #[test]
    fn who_does_not_wait_is_closed_and_who_was_just_sending_is_not() {
        let mut flood = Flood::new();
        // However many were under way, they are refused, no more.
        assert!((0..500).all(|_| flood.at(0) != Verdict::Closed));
        // Every 2 ms, without end.
        let closed = (1..5000).find(|n| flood.at(n * 2) == Verdict::Closed);
        assert!(closed.is_some_and(|n| (2000..2100).contains(&(n * 2))), "{closed:?}");
    }

    #[test]
    fn who_was_closed_and_comes_back_without_waiting_is_closed_at_once() {
        let mut flood = Flood::new();
        let closed = (0..5000).find(|n| flood.at(n * 2) == Verdict::Closed).unwrap() * 2;
        // Another socket, half a second later: what has come free is admitted, and not a request more.
        assert!((0..5).all(|_| flood.at(closed + 500) == Verdict::Admitted));
        assert_eq!(flood.at(closed + 500), Verdict::Closed);
        // A user who has waited has no strike left.
        assert!((0..30).all(|_| flood.at(closed + 10_500) == Verdict::Admitted));
        assert_eq!(flood.at(closed + 10_500), Verdict::Refused);
    }

    #[test]
    fn who_waits_for_a_second_is_never_closed() {
        let mut flood = Flood::new();
        for second in 0..100 {
            assert!((0..50).all(|_| flood.at(second * 1000) != Verdict::Closed), "in second {second}");
        }
    }

    #[test]
    fn who_pauses_before_each_twentieth_strike_is_closed_all_the_same() {
        let mut flood = Flood::new();
        // 1.9 s of it, and a second of rest, again and again.
        let times = (0..100).flat_map(|round| (0..950).map(move |n| round * 2_900 + n * 2));
        let closed = times.into_iter().find(|at| flood.at(*at) == Verdict::Closed);
        assert!(closed.is_some_and(|at| at < 2 * 2_900), "{closed:?}");
    }

    #[test]
    fn another_user_is_another_count() {
        let mut flood = Flood::new();
        assert!((0..100).any(|_| flood.at(0) == Verdict::Refused));
        flood.user = UserId::parse("bob").unwrap();
        assert_eq!(flood.at(0), Verdict::Admitted);
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let mut flood = Flood::new();
        for n in 0..3 * REMEMBERED_MAX {
            flood.user = UserId::parse(&format!("u{n}")).unwrap();
            assert!((0..31).any(|_| flood.at(0) == Verdict::Refused));
        }
        assert!(flood.seen.users.remembered() <= REMEMBERED_MAX && flood.seen.refused.len() <= REMEMBERED_MAX);
    }
}
