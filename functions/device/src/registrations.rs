//! How often users register, as far as one process can count. SNS takes some thirty registrations a second of all users together:
//! nobody may take them from the others by ever new tokens.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::Rate;
use wire::{Refusal, Timestamp, UserId};

/// A phone registers at each start, which asks SNS once a week, and when its token changes.
const RATE: Rate = Rate { burst: 8, pause: Duration::from_secs(10) };
/// Users who are remembered; with one more it begins anew. Some 200 bytes each.
const REMEMBERED_MAX: usize = 1_000;

/// Until when the registrations of a user fill the rate.
#[derive(Debug, Default)]
pub struct Registrations(Mutex<HashMap<UserId, Timestamp>>);

impl Registrations {
    /// Counts one that SNS is to be asked for, if that is within the rate.
    pub(crate) fn count(&self, user: &UserId, now: Timestamp) -> Result<(), Refusal> {
        let mut filled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = RATE.take(filled.get(user).copied(), now).map_err(|wait| Refusal::RateLimited {
            retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        })?;
        if filled.len() >= REMEMBERED_MAX && !filled.contains_key(user) {
            filled.clear();
        }
        filled.insert(user.clone(), until);
        Ok(())
    }
}
