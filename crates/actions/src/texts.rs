//! The pause between two texts of services in a conversation.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::{Filled, Rate};
use wire::{ConversationId, Timestamp};

/// Each text has all so far, so the next one makes up for a text that is dropped.
const RATE: Rate = Rate { burst: 1, pause: Duration::from_millis(200) };

/// The time until which this process sends no other text in a conversation.
#[derive(Debug, Default)]
pub(crate) struct Texts(Mutex<Filled<ConversationId>>);

impl Texts {
    pub(crate) fn admit(&self, conversation: &ConversationId, now: Timestamp) -> bool {
        // The times are still valid after another request has panicked.
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.count(&RATE, conversation, now).is_ok()
    }
}
