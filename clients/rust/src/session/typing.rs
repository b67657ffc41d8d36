//! That the user writes: said now and then while there is a connection, and never again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use wire::limits::TYPING_PAUSE_MS;
use wire::{Action, ConversationId, TypingRequest};

use super::Session;

/// When it was last said of each conversation. Only what is not over yet is kept.
#[derive(Default)]
pub(super) struct Typing(BTreeMap<ConversationId, Instant>);

impl Session {
    pub(crate) fn typing(&mut self, conversation_id: ConversationId, now: Instant) {
        self.typing.0.retain(|_, said| now < *said + Duration::from_millis(TYPING_PAUSE_MS));
        if self.typing.0.contains_key(&conversation_id) {
            return;
        }
        if self.say(Action::Typing(TypingRequest { conversation_id: conversation_id.clone() })) {
            self.typing.0.insert(conversation_id, now);
        }
    }
}
