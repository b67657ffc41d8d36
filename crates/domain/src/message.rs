//! A message, and what may be in it.

use serde::Serialize;

use crate::ids::{ClientMsgId, ConversationId, MessageId, Seq, UserId};
use crate::limits::{BODY_BYTES_MAX, BODY_JSON_BYTES_MAX, PREVIEW_CHARS_MAX};
use crate::time::Timestamp;

/// What a message is. More will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Kind {
    Text,
}

impl Kind {
    pub fn parse(text: &str) -> Option<Self> {
        (text == "text").then_some(Self::Text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
        }
    }
}

/// A message as it is stored and as clients see it. It never changes once stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Message {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender_id: UserId,
    pub kind: Kind,
    pub body: String,
    /// Never goes back within a conversation.
    pub sent_at: Timestamp,
    /// Only in what the sender's own devices receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<ClientMsgId>,
}

impl Message {
    /// The message as `viewer` may see it: the idempotency key is the sender's own affair.
    #[must_use]
    pub fn seen_by(mut self, viewer: &UserId) -> Self {
        if self.sender_id != *viewer {
            self.client_msg_id = None;
        }
        self
    }

    /// What the chat list shows of it.
    pub fn preview(&self) -> String {
        self.body.chars().take(PREVIEW_CHARS_MAX).collect()
    }
}

/// Whether a body is within both its limits, see [`crate::limits`].
pub fn body_fits(body: &str) -> bool {
    body.len() <= BODY_BYTES_MAX && json_bytes(body) <= BODY_JSON_BYTES_MAX
}

/// The length of a text written as a JSON string, quotes included, as `serde_json` writes it.
fn json_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..=0x1f => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRAME_BYTES_MAX;
    use proptest::prelude::*;

    #[test]
    fn a_body_is_limited_in_bytes_and_in_json() {
        assert!(body_fits(&"x".repeat(BODY_BYTES_MAX)));
        assert!(!body_fits(&"x".repeat(BODY_BYTES_MAX + 1)));
        assert!(!body_fits(&"ü".repeat(BODY_BYTES_MAX / 2 + 1)));
        // 16 KiB of control characters would be 96 KiB of JSON.
        assert!(!body_fits(&"\u{1}".repeat(BODY_BYTES_MAX / 2)));
        assert!(body_fits(&"\u{1}".repeat(BODY_JSON_BYTES_MAX / 6 - 1)));
    }

    #[test]
    fn the_largest_message_fits_a_frame() {
        let longest = |chars: usize| "\"".repeat(chars);
        let message = Message {
            conversation_id: ConversationId::parse(&longest(128)).unwrap(),
            seq: Seq::new(crate::limits::SEQ_MAX).unwrap(),
            message_id: MessageId::new(Timestamp::from_millis(1), [0; 10]),
            sender_id: UserId::parse(&longest(128)).unwrap(),
            kind: Kind::Text,
            body: "\u{1}".repeat(BODY_JSON_BYTES_MAX / 6 - 1),
            sent_at: Timestamp::from_millis(1),
            client_msg_id: Some(ClientMsgId::parse(&longest(64)).unwrap()),
        };
        assert!(body_fits(&message.body));
        assert!(serde_json::to_string(&message).unwrap().len() <= crate::limits::PAGE_BYTES_MAX);
        assert!(crate::Event::MessageNew { message: &message }.to_frame().len() <= FRAME_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn json_length_is_what_serde_json_writes(text: String) {
            prop_assert_eq!(json_bytes(&text), serde_json::to_string(&text).unwrap().len());
        }

        #[test]
        fn a_preview_is_the_first_hundred_characters(body in "\\PC{0,300}") {
            let message = Message {
                conversation_id: ConversationId::parse("dm_x").unwrap(), seq: Seq::ZERO.next(),
                message_id: MessageId::stored("m"), sender_id: UserId::parse("a").unwrap(), kind: Kind::Text,
                body: body.clone(), sent_at: Timestamp::from_millis(0), client_msg_id: None,
            };
            let preview = message.preview();
            prop_assert!(body.starts_with(&preview));
            prop_assert_eq!(preview.chars().count(), body.chars().count().min(100));
        }
    }
}
