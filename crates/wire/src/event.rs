//! Events: the frames that the server sends without a request.

use serde::{Deserialize, Serialize};

use crate::actions::{Member, Presence, ProfileResult, Settings};
use crate::ids::{ConversationId, Seq, UserId};
use crate::json::to_json;
use crate::message::Message;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ServerEvent {
    /// Stored messages, for each member's connections except the sending one; of a channel, for its subscribers.
    #[serde(rename = "messages.new")]
    MessagesNew {
        conversation_id: ConversationId,
        /// At least one entry, in the order of `seq` and without a gap.
        #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
        messages: Vec<Message>,
        /// The marks that a `send` with `read` moved: its sender's, which count as receipts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        marks: Vec<Member>,
    },
    /// A device of `user_id` has everything up to `seq`: two grey ticks.
    #[serde(rename = "receipt.delivered")]
    ReceiptDelivered(Receipt),
    /// `user_id` has read everything up to `seq`: blue ticks, and their other devices clear the badge.
    #[serde(rename = "receipt.read")]
    ReceiptRead(Receipt),
    /// `user_id` is writing, for a few seconds from now on.
    #[serde(rename = "typing")]
    Typing {
        conversation_id: ConversationId,
        user_id: UserId,
        at: Timestamp,
        /// The text so far, of a service alone. Shown until the service's next entry, and not stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::TYPING_TEXT_BYTES_MAX)))]
        text: Option<String>,
    },
    /// A user whom this connection watches has come or gone.
    #[serde(rename = "presence")]
    Presence(Presence),
    /// The user changed settings on another of their connections.
    #[serde(rename = "settings")]
    Settings(Settings),
    /// The user changed their profile on another of their connections.
    #[serde(rename = "profile")]
    Profile(ProfileResult),
    /// Few key packages of this device are left: publish more.
    #[serde(rename = "keys.low")]
    KeysLow { left: u64 },
    /// The user has opened too many connections, and this was the oldest: it is closed now.
    #[serde(rename = "connection.replaced")]
    ConnectionReplaced {},
}

/// How far a member has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Receipt {
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    pub at: Timestamp,
}

impl ServerEvent {
    /// One new message.
    pub fn messages_new(message: Message) -> Self {
        Self::MessagesNew { conversation_id: message.conversation_id.clone(), messages: vec![message], marks: vec![] }
    }

    pub fn to_frame(&self) -> String {
        to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ClientMsgId, MessageId};
    use insta::assert_snapshot;

    #[test]
    fn events_have_a_type_and_the_fields_of_the_protocol() {
        let conversation_id = ConversationId::parse("dm_x").unwrap();
        let message = Message {
            client_msg_id: Some(ClientMsgId::parse("7b0e").unwrap()),
            ..Message::text(
                conversation_id.clone(),
                Seq::new(1).unwrap(),
                MessageId::stored("0198"),
                UserId::parse("alice").unwrap(),
                "hi".to_owned(),
                Timestamp::from_millis(0),
            )
        };
        let theirs = Message { client_msg_id: None, ..message.clone() };
        assert_snapshot!(ServerEvent::messages_new(message).to_frame(), @r#"{"type":"messages.new","conversation_id":"dm_x","messages":[{"conversation_id":"dm_x","seq":1,"message_id":"0198","sender_id":"alice","kind":"text","body":"hi","sent_at":"1970-01-01T00:00:00.000Z","client_msg_id":"7b0e"}]}"#);
        assert_snapshot!(ServerEvent::messages_new(theirs).to_frame(), @r#"{"type":"messages.new","conversation_id":"dm_x","messages":[{"conversation_id":"dm_x","seq":1,"message_id":"0198","sender_id":"alice","kind":"text","body":"hi","sent_at":"1970-01-01T00:00:00.000Z"}]}"#);
        let user_id = UserId::parse("bob").unwrap();
        let receipt = Receipt { conversation_id, user_id, seq: Seq::new(7).unwrap(), at: Timestamp::from_millis(0) };
        assert_snapshot!(ServerEvent::ReceiptDelivered(receipt.clone()).to_frame(), @r#"{"type":"receipt.delivered","conversation_id":"dm_x","user_id":"bob","seq":7,"at":"1970-01-01T00:00:00.000Z"}"#);
        assert_snapshot!(ServerEvent::ReceiptRead(receipt).to_frame(), @r#"{"type":"receipt.read","conversation_id":"dm_x","user_id":"bob","seq":7,"at":"1970-01-01T00:00:00.000Z"}"#);
    }
}
