//! Sends `typing` from time to time while the client has a connection, and never repeats it.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::limits::TYPING_PAUSE_MS;
use wire::{Action, ConversationId, TypingRequest};

use super::Core;
use crate::Moment;

/// The time of the last `typing` of each conversation, while it is recent enough to count.
#[derive(Default)]
pub(super) struct Typing(BTreeMap<ConversationId, Moment>);

impl Core {
    /// The user is typing there.
    pub(super) fn typing(&mut self, conversation_id: ConversationId, now: Moment) {
        self.typed(&conversation_id, now);
        self.typing.0.retain(|_, said| now < *said + Duration::from_millis(TYPING_PAUSE_MS));
        if self.typing.0.contains_key(&conversation_id) {
            return;
        }
        if self.say(Action::Typing(TypingRequest { conversation_id: conversation_id.clone() })) {
            self.typing.0.insert(conversation_id, now);
        }
    }
}
