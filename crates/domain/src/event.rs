//! What the server pushes unasked.

use serde::Serialize;

use crate::frame::to_json;
use crate::ids::{ConversationId, Seq, UserId};
use crate::message::Message;
use crate::time::Timestamp;

#[derive(Debug, Serialize)]
#[serde(tag = "type")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Event<'a> {
    /// A message was stored: to the recipient's devices, and to the sender's others.
    #[serde(rename = "message.new")]
    MessageNew { message: &'a Message },
    /// A device of `user_id` has everything up to `seq`: two grey ticks.
    #[serde(rename = "receipt.delivered")]
    Delivered {
        conversation_id: &'a ConversationId,
        user_id: &'a UserId,
        #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
        seq: Seq,
        at: Timestamp,
    },
    /// `user_id` has read everything up to `seq`: blue ticks, and their other devices clear the badge.
    #[serde(rename = "receipt.read")]
    Read {
        conversation_id: &'a ConversationId,
        user_id: &'a UserId,
        #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
        seq: Seq,
        at: Timestamp,
    },
}

impl Event<'_> {
    pub fn to_frame(&self) -> String {
        to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ClientMsgId, MessageId};
    use crate::message::Kind;
    use insta::assert_snapshot;

    #[test]
    fn events_have_a_type_and_the_fields_of_the_protocol() {
        let (conversation, alice, bob) =
            (ConversationId::parse("dm_x").unwrap(), UserId::parse("alice").unwrap(), UserId::parse("bob").unwrap());
        let message = Message {
            conversation_id: conversation.clone(),
            seq: Seq::new(1).unwrap(),
            message_id: MessageId::stored("0198"),
            sender_id: alice.clone(),
            kind: Kind::Text,
            body: "hi".to_owned(),
            sent_at: Timestamp::from_millis(0),
            client_msg_id: Some(ClientMsgId::parse("7b0e").unwrap()),
        };
        let (own, theirs) = (message.clone().seen_by(&alice), message.seen_by(&bob));
        assert_snapshot!(Event::MessageNew { message: &own }.to_frame(), @r#"{"type":"message.new","message":{"conversation_id":"dm_x","seq":1,"message_id":"0198","sender_id":"alice","kind":"text","body":"hi","sent_at":"1970-01-01T00:00:00.000Z","client_msg_id":"7b0e"}}"#);
        assert_snapshot!(Event::MessageNew { message: &theirs }.to_frame(), @r#"{"type":"message.new","message":{"conversation_id":"dm_x","seq":1,"message_id":"0198","sender_id":"alice","kind":"text","body":"hi","sent_at":"1970-01-01T00:00:00.000Z"}}"#);
        let (seq, at) = (Seq::new(7).unwrap(), Timestamp::from_millis(0));
        let delivered = Event::Delivered { conversation_id: &conversation, user_id: &bob, seq, at };
        assert_snapshot!(delivered.to_frame(), @r#"{"type":"receipt.delivered","conversation_id":"dm_x","user_id":"bob","seq":7,"at":"1970-01-01T00:00:00.000Z"}"#);
        let read = Event::Read { conversation_id: &conversation, user_id: &bob, seq, at };
        assert_snapshot!(read.to_frame(), @r#"{"type":"receipt.read","conversation_id":"dm_x","user_id":"bob","seq":7,"at":"1970-01-01T00:00:00.000Z"}"#);
    }
}
