//! The stage's throttle: a rate of requests per route, for all clients together.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use template::Throttle;
use tokio::time::Instant;

/// A bucket of tokens for each route, full at first.
#[derive(Debug, Default)]
pub(crate) struct Throttles {
    buckets: Mutex<HashMap<String, TokenBucket>>,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    tokens: f64,
    filled_at: Instant,
}

impl Throttles {
    /// Whether the route takes one more request now.
    pub(crate) fn admit(&self, throttle: Option<Throttle>, route: &str) -> bool {
        let Some(Throttle { per_second, burst }) = throttle else { return true };
        let (per_second, burst, now) = (f64::from(per_second), f64::from(burst), Instant::now());
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.entry(route.to_owned()).or_insert(TokenBucket { tokens: burst, filled_at: now });
        let filled = (now - bucket.filled_at).as_secs_f64() * per_second;
        *bucket = TokenBucket { tokens: (bucket.tokens + filled).min(burst), filled_at: now };
        let admitted = bucket.tokens >= 1.0;
        if admitted {
            bucket.tokens -= 1.0;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_the_rate_and_each_route_for_itself() {
        let (throttles, throttle) = (Throttles::default(), Some(Throttle { per_second: 10, burst: 3 }));
        let admitted = |route| (0..100).filter(|_| throttles.admit(throttle, route)).count();
        assert_eq!((admitted("send"), admitted("drain"), admitted("send")), (3, 3, 0));
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(admitted("send"), 2);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(admitted("send"), 3);
        assert!((0..100).all(|_| throttles.admit(None, "send")));
    }
}
