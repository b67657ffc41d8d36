//! Entries that this device can't read.

use pigeonhole_sealing::Why;
use serde::{Deserialize, Serialize};
use wire::{Kind, Message};

/// Why this device can't read an encrypted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unreadable {
    /// The message was sent before this device joined the conversation.
    BeforeJoin,
    /// The bytes are not what a member sealed here.
    Forged,
    /// The keys of this device don't open it.
    Broken,
    /// The message is not encrypted, although the conversation is.
    PlainBehindBirth,
    /// The message opens once all before it has come.
    Later,
    /// This client has no encryption.
    NotEncrypted,
}

impl Unreadable {
    /// Returns the reason, of an entry that could not be read.
    pub(crate) fn in_entry(message: &Message) -> Option<Self> {
        let is_shown = message.kind == Kind::Sealed && !message.silent;
        is_shown.then(|| Self::deserialize(serde_json::Value::from(&*message.body)).unwrap_or(Self::NotEncrypted))
    }

    /// Puts the reason in the place of the content, where nothing else is.
    pub(crate) fn replace(self, message: &mut Message) {
        *message = self.of(message.clone());
    }

    /// As [`replace`](Self::replace).
    pub(crate) fn of(self, message: Message) -> Message {
        let code = serde_json::to_value(self).ok().and_then(|code| code.as_str().map(str::to_owned));
        let silent = message.silent || !matches!(message.kind, Kind::Sealed) && !message.kind.counts();
        Message {
            kind: Kind::Sealed,
            body: if message.deleted_at.is_some() { String::new() } else { code.unwrap_or_default() },
            silent,
            media: None,
            data: None,
            reply_to: None,
            mentions: vec![],
            reactions: vec![],
            version: None,
            edited_at: None,
            emoji: None,
            ..message
        }
    }
}

impl From<Why> for Unreadable {
    fn from(why: Why) -> Self {
        match why {
            Why::BeforeJoin => Self::BeforeJoin,
            Why::Forged => Self::Forged,
            Why::Broken => Self::Broken,
            Why::PlainBehindBirth => Self::PlainBehindBirth,
        }
    }
}
