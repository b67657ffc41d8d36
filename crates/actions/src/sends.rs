//! How much users write in groups, as far as one process can count.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::Rate;
use wire::{ConversationId, Refusal, Timestamp, UserId};

/// Writers who are remembered; with one more it begins anew. Some 200 bytes each.
const REMEMBERED_MAX: usize = 1_000;

/// What a user may write.
#[derive(Debug)]
pub struct SendLimits {
    /// Entries in each conversation.
    pub sends: Rate,
    /// First messages to others, and others whom the user brings into a group without ever having written with them.
    pub first_messages: Rate,
    /// How long what a message said before is kept for the operator. Zero: not at all.
    pub kept_for: Duration,
    /// Members of a group.
    pub group_members_max: u64,
    /// Until when what a user wrote in a group fills the rate. In a direct conversation a row that is written anyway says so.
    in_groups: Mutex<HashMap<(UserId, ConversationId), Timestamp>>,
}

impl SendLimits {
    pub fn new(sends: Rate, first_messages: Rate, kept_for: Duration, group_members_max: u64) -> Self {
        Self { sends, first_messages, kept_for, group_members_max, in_groups: Mutex::default() }
    }

    /// Whether one more is within the rate.
    pub(crate) fn admit(&self, user: &UserId, group: &ConversationId, now: Timestamp) -> Result<(), Refusal> {
        let filled_until = self.counted().get(&(user.clone(), group.clone())).copied();
        take(&self.sends, filled_until, now).map(drop)
    }

    /// Counts one that was written.
    pub(crate) fn count(&self, user: &UserId, group: &ConversationId, now: Timestamp) {
        let mut counted = self.counted();
        let writer = (user.clone(), group.clone());
        if let Ok(Some(until)) = take(&self.sends, counted.get(&writer).copied(), now) {
            if counted.len() >= REMEMBERED_MAX && !counted.contains_key(&writer) {
                counted.clear();
            }
            counted.insert(writer, until);
        }
    }

    /// Never held across an await. What somebody who panicked left behind is still a count.
    fn counted(&self) -> MutexGuard<'_, HashMap<(UserId, ConversationId), Timestamp>> {
        self.in_groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is kept of what has no limit.
pub(crate) fn take(rate: &Rate, filled_until: Option<Timestamp>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    take_many(rate, filled_until, now, 1)
}

/// The same of so many at once.
pub(crate) fn take_many(
    rate: &Rate,
    filled_until: Option<Timestamp>,
    now: Timestamp,
    count: u32,
) -> Result<Option<Timestamp>, Refusal> {
    if rate.is_unlimited() {
        return Ok(None);
    }
    let wait_ms = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    rate.take_many(filled_until, now, count)
        .map(Some)
        .map_err(|wait| Refusal::RateLimited { retry_after_ms: wait_ms(wait) })
}
