//! A message as a viewer sees it, and what may be in it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::group::System;
use crate::ids::{ClientMsgId, ConversationId, Emoji, MessageId, Seq, UserId};
use crate::limits::{BODY_BYTES_MAX, BODY_JSON_BYTES_MAX, MENTIONS_JSON_BYTES_MAX};
use crate::media::Media;
use crate::time::Timestamp;

/// What an entry is. What a later version stored keeps its kind on the way through this one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String", inline))]
pub enum Kind {
    Text,
    /// A picture.
    Image,
    /// Any other file.
    File,
    /// A recording of somebody who speaks.
    Voice,
    /// The message at `target_seq` has another text now.
    Edit,
    /// The message at `target_seq` is deleted.
    Delete,
    /// Somebody reacted to the message at `target_seq`, or took that back.
    Reaction,
    /// Something happened to the group.
    System,
    /// One that this version does not know. Clients show nothing for it.
    Other(String),
}

impl Kind {
    /// The kinds of messages: what a `send` may be, and what counts.
    pub const MESSAGES: [Self; 4] = [Self::Text, Self::Image, Self::File, Self::Voice];

    /// A kind that this version sends.
    pub fn of_request(text: &str) -> Option<Self> {
        Self::MESSAGES.into_iter().find(|kind| kind.as_str() == text)
    }

    /// A kind of message that carries something.
    pub fn of_media(text: &str) -> Option<Self> {
        Self::of_request(text).filter(|kind| *kind != Self::Text)
    }

    /// Any kind, as it was stored.
    pub fn stored(text: &str) -> Self {
        match text {
            "text" => Self::Text,
            "image" => Self::Image,
            "file" => Self::File,
            "voice" => Self::Voice,
            "edit" => Self::Edit,
            "delete" => Self::Delete,
            "reaction" => Self::Reaction,
            "system" => Self::System,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Whether it counts as unread, and rings. What is not known does nothing of that.
    pub fn counts(&self) -> bool {
        match self {
            Self::Text | Self::Image | Self::File | Self::Voice => true,
            Self::Edit | Self::Delete | Self::Reaction | Self::System | Self::Other(_) => false,
        }
    }

    /// Whether it is the chat list's line. What is not known is not.
    pub fn is_listed(&self) -> bool {
        match self {
            Self::Text | Self::Image | Self::File | Self::Voice | Self::System => true,
            Self::Edit | Self::Delete | Self::Reaction | Self::Other(_) => false,
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::File => "file",
            Self::Voice => "voice",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Reaction => "reaction",
            Self::System => "system",
            Self::Other(kind) => kind,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::stored(&String::deserialize(deserializer)?))
    }
}

/// An entry of a conversation, as one of its members sees it: a message, or a change of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Message {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender_id: UserId,
    /// `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `system`, or one that came later: a client shows nothing for a kind that it does not know.
    pub kind: Kind,
    /// Of an edit, the text that its target has now. Of an image, a file or a voice note, the caption. Empty where there is none, or
    /// none any more.
    pub body: String,
    /// Never goes back within a conversation.
    pub sent_at: Timestamp,
    /// Only in what the sender's own devices receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<ClientMsgId>,
    /// Of an image, a file or a voice note that is not deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Box<Media>>,
    /// The message that this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub reply_to: Option<Seq>,
    /// Whom it names, or `*` for all members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::MENTIONS_MAX)))]
    pub mentions: Vec<UserId>,
    /// Which version of the text this is, from 2 on. Of an edit, its target's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 2)))]
    pub version: Option<u64>,
    /// The `sent_at` of the edit that made this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Timestamp>,
    /// The `sent_at` of the entry that deleted it: the body is empty then, and nobody's reaction is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_by: Option<UserId>,
    /// The most frequent ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::REACTIONS_SHOWN_MAX)))]
    pub reactions: Vec<Reaction>,
    /// The last reaction entry that is in `reactions`, or was, if that took one back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub reactions_seq: Option<Seq>,
    /// Of an edit, a delete or a reaction: the message that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub target_seq: Option<Seq>,
    /// Of a reaction: what it is. Left out: it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<Emoji>,
    /// Of a reaction: what stood there before. Left out: nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji_before: Option<Emoji>,
    /// Of a system entry: what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
}

impl Message {
    /// A message with a text, and nothing beside it. Where a field must not be forgotten, all are written out instead.
    pub fn text(
        conversation_id: ConversationId,
        seq: Seq,
        message_id: MessageId,
        sender_id: UserId,
        body: String,
        sent_at: Timestamp,
    ) -> Self {
        Self {
            conversation_id,
            seq,
            message_id,
            sender_id,
            kind: Kind::Text,
            body,
            sent_at,
            client_msg_id: None,
            media: None,
            reply_to: None,
            version: None,
            edited_at: None,
            deleted_at: None,
            deleted_by: None,
            reactions: vec![],
            reactions_seq: None,
            target_seq: None,
            emoji: None,
            emoji_before: None,
            mentions: vec![],
            system: None,
        }
    }
}

/// How many members reacted with the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reaction {
    pub emoji: Emoji,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub count: u64,
    /// The viewer is among them.
    pub mine: bool,
}

/// Whether a body is within both its limits, see [`crate::limits`].
pub fn body_fits(body: &str) -> bool {
    body.len() <= BODY_BYTES_MAX && json_bytes(body) <= BODY_JSON_BYTES_MAX
}

/// Whether a list of mentions leaves room for the largest body.
pub fn mentions_fit(mentions: &[UserId]) -> bool {
    mentions.iter().map(|id| json_bytes(id.as_str()) + 1).sum::<usize>() <= MENTIONS_JSON_BYTES_MAX
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
    use crate::ServerEvent;
    use crate::limits::{EMOJI_BYTES_MAX, FRAME_BYTES_MAX, MEDIA_BYTES_MAX, REACTIONS_SHOWN_MAX, SEQ_MAX};
    use crate::{Digest, FileName, MediaId, MimeType, Thumbhash, Waveform};
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
        let emoji = Emoji::parse(&longest(EMOJI_BYTES_MAX)).unwrap();
        let reaction = Reaction { emoji: emoji.clone(), count: u64::MAX, mine: false };
        let message = Message {
            conversation_id: ConversationId::parse(&longest(128)).unwrap(),
            seq: Seq::new(SEQ_MAX).unwrap(),
            message_id: MessageId::stored("0198c2a4-0000-7000-8000-000000000000"),
            sender_id: UserId::parse(&longest(128)).unwrap(),
            kind: Kind::Text,
            body: "\u{1}".repeat(BODY_JSON_BYTES_MAX / 6 - 1),
            sent_at: Timestamp::from_millis(1),
            client_msg_id: Some(ClientMsgId::parse(&longest(64)).unwrap()),
            media: None,
            reply_to: Seq::new(SEQ_MAX),
            version: Some(u64::MAX),
            edited_at: Some(Timestamp::from_millis(1)),
            deleted_at: Some(Timestamp::from_millis(1)),
            deleted_by: Some(UserId::parse(&longest(128)).unwrap()),
            reactions: vec![reaction; REACTIONS_SHOWN_MAX],
            reactions_seq: Seq::new(SEQ_MAX),
            target_seq: Seq::new(SEQ_MAX),
            emoji: Some(emoji.clone()),
            emoji_before: Some(emoji),
            mentions: (10..21).map(|n| UserId::parse(&format!("{n}{}", longest(126))).unwrap()).collect(),
            system: None,
        };
        assert!(body_fits(&message.body));
        assert!(mentions_fit(&message.mentions));
        let event = ServerEvent::messages_new(message.clone());
        assert!(event.to_frame().len() <= FRAME_BYTES_MAX);
        // What is deleted carries nothing, and what carries something is about nothing.
        let (deleted_at, deleted_by, target_seq, emoji) = (None, None, None, None);
        let media = Some(Box::new(largest_media()));
        let with_media = Message { media, deleted_at, deleted_by, target_seq, emoji, ..message };
        let event = ServerEvent::messages_new(with_media);
        assert!(event.to_frame().len() <= FRAME_BYTES_MAX, "{}", event.to_frame().len());
    }

    fn largest_media() -> Media {
        Media {
            media_id: MediaId::parse(&"m".repeat(64)).unwrap(),
            mime: MimeType::parse(&format!("x/{}", "y".repeat(98))).unwrap(),
            bytes: MEDIA_BYTES_MAX,
            sha256: Digest::parse(&format!("{}=", "A".repeat(43))).unwrap(),
            name: Some(FileName::parse(&"\"".repeat(255)).unwrap()),
            width: Some(65_535),
            height: Some(65_535),
            duration_ms: Some(86_400_000),
            thumbhash: Some(Thumbhash::parse(&"A".repeat(44)).unwrap()),
            waveform: Some(Waveform::parse(&"A".repeat(100)).unwrap()),
        }
    }

    #[test]
    fn a_kind_that_is_not_known_is_kept() {
        let kind: Kind = serde_json::from_str("\"hologram\"").unwrap();
        assert_eq!(kind, Kind::Other("hologram".to_owned()));
        assert_eq!(serde_json::to_string(&kind).unwrap(), "\"hologram\"");
        assert_eq!(Kind::of_request("hologram"), None);
    }

    proptest! {
        #[test]
        fn json_length_is_what_serde_json_writes(text: String) {
            prop_assert_eq!(json_bytes(&text), serde_json::to_string(&text).unwrap().len());
        }
    }
}
