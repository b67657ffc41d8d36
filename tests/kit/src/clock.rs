//! A clock that stands still until a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use wire::Timestamp;

/// Clones show the same time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now_ms: Arc<AtomicI64>,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self { now_ms: Arc::new(AtomicI64::new(now.millis())) }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms.load(Ordering::SeqCst))
    }

    pub fn set(&self, now: Timestamp) {
        self.now_ms.store(now.millis(), Ordering::SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        self.now_ms.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}
