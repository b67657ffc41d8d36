//! How many requests of a user a process takes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::limits::REMEMBERED_MAX;
use domain::{Filled, Rate, error_chain};
use wire::{Refusal, Timestamp, UserId};

use crate::connections_api::ConnectionsApi;
use crate::env::BadVariable;
use crate::websocket::Caller;

/// How long a client that was refused is to wait.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// A user who goes on so many times within [`RETRY_AFTER`] of a refusal has the socket closed. Each time that they wait takes one back, and
/// no more: who pauses now and then floods too.
const STRIKES_MAX: u32 = 20;
/// And then each further one that goes on, until nothing was refused for so long: who is closed may come back at once.
const STRUCK_OUT_FOR: Duration = Duration::from_secs(10);
/// What comes so soon after a strike may have been under way already, and is none.
const STRIKE_PAUSE: Duration = Duration::from_millis(100);

/// Counts requests in the memory of one process: at no cost, and without a word to the other processes. So the budget is small, and
/// it is the closing of the socket that ends a flood for all of them.
#[derive(Debug)]
pub struct Limiter {
    rate: Rate,
    connections: ConnectionsApi,
    seen: Mutex<Seen>,
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

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Admitted,
    Refused,
    /// Refused, and this user did not wait so often that the connection is closed.
    Closed,
}

impl Limiter {
    pub fn new(rate: Rate, connections: ConnectionsApi) -> Self {
        Self { rate, connections, seen: Mutex::default() }
    }

    /// With the rate that `REQUEST_RATE` names.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub fn from_env(
        connections: ConnectionsApi,
        env: impl Fn(&'static str) -> Result<String, BadVariable>,
    ) -> Result<Self, BadVariable> {
        Ok(Self::new(crate::env::rate("REQUEST_RATE", env)?, connections))
    }

    /// Counts a request, and closes the caller's socket where that is due.
    pub(crate) async fn admit(&self, caller: &Caller, now: Timestamp) -> Result<(), Refusal> {
        let verdict = self.seen().judge(&self.rate, &caller.user, now);
        if verdict == Verdict::Closed {
            tracing::warn!("a connection that sends without end is closed");
            if let Err(error) = self.connections.close(&caller.connection).await {
                tracing::warn!(error = error_chain(&*error), "a connection that sends without end was not closed");
            }
        }
        if verdict == Verdict::Admitted { Ok(()) } else { Err(Refusal::rate_limited(RETRY_AFTER)) }
    }

    /// Never held across an await. What somebody who panicked left behind is still a count.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        // Who has waited is as everybody else.
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
