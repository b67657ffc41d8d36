//! A message as a viewer sees it, and what may be in it.

use serde::{Deserialize, Serialize};

use crate::actions::Opened;
use crate::bytes::Bytes;
use crate::carried::Carried;
use crate::data::Data;
use crate::emoji::Emoji;
use crate::group::System;
use crate::ids::{ClientMsgId, ConversationId, MessageId, Seq, UserId};
use crate::json::json_bytes;
use crate::kind::Kind;
use crate::limits::{BODY_BYTES_MAX, BODY_JSON_BYTES_MAX, MENTIONS_JSON_BYTES_MAX};
use crate::media::Attached;
use crate::time::Timestamp;

/// An entry of a conversation, as one of its members sees it: a message, or a change of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Message {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender_id: UserId,
    /// `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `pin`, `system`, `sealed`, `commit`, `erased`, an app's own `x-NAME` or `xs-NAME`, or one that came later: a client shows nothing for a kind that it does not know.
    pub kind: Kind,
    /// The text of a message, or the caption of an image, a file or a voice note. An edit has the current text of its
    /// target. A sealed entry has its bytes in base64. Empty if there is no text, or none any more.
    pub body: String,
    /// Never goes back within a conversation.
    pub sent_at: Timestamp,
    /// Only in what the sender's own devices receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_msg_id: Option<ClientMsgId>,
    /// The image, file or voice note of a message that is not deleted. A sealed message has only its id and length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Box<Attached>>,
    /// The app's own object. A deleted message has none. An edit has the data of its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// The message that this one answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub reply_to: Option<Seq>,
    /// The mentioned users, or `*` for all members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::MENTIONS_MAX)))]
    pub mentions: Vec<UserId>,
    /// The version of the text, from 2 on. An edit has the version of its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 2)))]
    pub version: Option<u64>,
    /// The `sent_at` of the edit that made this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<Timestamp>,
    /// The `sent_at` of the entry that deleted the message. A deleted message has an empty body and no reactions.
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
    /// The message that an edit, a delete, a reaction or a pin is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub target_seq: Option<Seq>,
    /// The emoji of a reaction. Left out: the reaction was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<Emoji>,
    /// The user's emoji before this reaction. Left out: the user had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji_before: Option<Emoji>,
    /// Pins only: whether the message at `target_seq` is pinned from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// The event of a system entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// A sealed entry that does not count: no unread message, no push, no last message. A commit is always silent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// The epoch of a sealed entry, or the one that a commit begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::limits::EPOCH_MAX)))]
    pub epoch: Option<u64>,
    /// With this digest of a sealed message, 32 bytes, a member can prove what its sender wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::bytes::DIGEST_PATTERN)))]
    pub frank: Option<Box<Bytes>>,
    /// The bytes of a commit. Left out of a birth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Box<Carried>>,
    /// The welcome of the devices that a commit adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub welcome: Option<Box<Carried>>,
    /// The tree of the epoch that a commit begins, if the commit has a welcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Box<Carried>>,
    /// The users who left and whom a commit removes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removes: Option<Box<Vec<UserId>>>,
    /// Erasures only: the id that the erased user has from now on. No request can name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Box<UserId>>,
    /// Erasures only: the entries of that user, as ranges from the first to the last of each. Perhaps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::ERASED_RANGES_MAX)))]
    pub seqs: Option<Box<Vec<[Seq; 2]>>>,
    /// In a client, of an opened edit or reaction: the `client_msg_id` of the target, as the author names it. No frame
    /// has it.
    #[serde(skip)]
    pub target_id: Option<Box<ClientMsgId>>,
    /// In a client, of an own or an opened edit: the request named no data, so the target keeps what it has. No frame has
    /// it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub keeps_data: bool,
    /// In a client, of an opened message: the proof of its current text for a report. No frame has it.
    #[serde(skip)]
    pub proof: Option<Box<Opened>>,
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
            data: None,
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
            pinned: None,
            mentions: vec![],
            system: None,
            silent: false,
            epoch: None,
            frank: None,
            commit: None,
            welcome: None,
            tree: None,
            target_id: None,
            keeps_data: false,
            proof: None,
            removes: None,
            user_id: None,
            seqs: None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerEvent;
    use crate::limits::{EMOJI_BYTES_MAX, FRAME_BYTES_MAX, MEDIA_BYTES_MAX, REACTIONS_SHOWN_MAX, SEQ_MAX};
    use crate::{Digest, FileName, Media, MediaId, MimeType, Thumbhash, Waveform};
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
            data: None,
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
            pinned: None,
            mentions: (10..21).map(|n| UserId::parse(&format!("{n}{}", longest(126))).unwrap()).collect(),
            system: None,
            silent: true,
            epoch: Some(crate::limits::EPOCH_MAX),
            // Only a sealed message has one, with a shorter body.
            frank: None,
            commit: None,
            welcome: None,
            tree: None,
            target_id: None,
            keeps_data: false,
            proof: None,
            removes: None,
            user_id: None,
            seqs: None,
        };
        assert!(body_fits(&message.body));
        assert!(mentions_fit(&message.mentions));
        let event = ServerEvent::messages_new(message.clone());
        assert!(event.to_frame().len() <= FRAME_BYTES_MAX);
        // A deleted message has no media, and an entry with media has no target.
        let (deleted_at, deleted_by, target_seq, emoji) = (None, None, None, None);
        let media = Some(Box::new(Attached::Clear(largest_media())));
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
            key: None,
            thumbnail: None,
        }
    }

    proptest! {
        #[test]
        fn json_length_is_what_serde_json_writes(text: String) {
            prop_assert_eq!(json_bytes(&text), serde_json::to_string(&text).unwrap().len());
        }
    }
}
