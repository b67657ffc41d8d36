//! A message in its states: a draft, what is stored, and, in `wire`, what a viewer sees.

use wire::limits::PREVIEW_CHARS_MAX;
use wire::{ClientMsgId, ConversationId, Kind, Message, MessageId, Seq, Timestamp, UserId};

use crate::ids::message_id;
use crate::membership::Membership;

/// What a sender wants stored. It has no place yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub conversation_id: ConversationId,
    pub sender_id: UserId,
    /// The idempotency key.
    pub client_msg_id: ClientMsgId,
    pub kind: Kind,
    pub body: String,
}

/// Where and when a message stands in its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sent_at: Timestamp,
}

/// A message as it is stored. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    pub conversation_id: ConversationId,
    pub place: Place,
    pub sender_id: UserId,
    pub kind: Kind,
    pub body: String,
    /// The sender's idempotency key; a message of a later version may have none.
    pub client_msg_id: Option<ClientMsgId>,
}

impl Draft {
    /// What the chat list shows of it.
    pub fn preview(&self) -> String {
        self.body.chars().take(PREVIEW_CHARS_MAX).collect()
    }

    /// The message, once it has its place.
    #[must_use]
    pub fn stored(self, place: Place) -> StoredMessage {
        let Self { conversation_id, sender_id, client_msg_id, kind, body } = self;
        StoredMessage { conversation_id, place, sender_id, kind, body, client_msg_id: Some(client_msg_id) }
    }
}

impl Place {
    /// The place after `previous`, which is a member's row or nothing before the first message. Times rise strictly within a
    /// conversation, so that message ids sort as seqs do, whatever the clocks of the machines say.
    pub fn following(previous: Option<&Membership>, now: Timestamp, random: [u8; 10]) -> Self {
        let (seq, sent_at) = match previous {
            None => (Seq::ZERO.next(), now),
            Some(row) => (row.last.seq.next(), now.max(Timestamp::from_millis(row.last.sent_at.millis() + 1))),
        };
        Self { seq, message_id: message_id(sent_at, random), sent_at }
    }
}

impl StoredMessage {
    /// The message as `viewer` may see it: the idempotency key is the sender's own affair.
    pub fn seen_by(&self, viewer: &UserId) -> Message {
        let Self { conversation_id, place, sender_id, kind, body, client_msg_id } = self.clone();
        let Place { seq, message_id, sent_at } = place;
        let client_msg_id = if sender_id == *viewer { client_msg_id } else { None };
        Message { conversation_id, seq, message_id, sender_id, kind, body, sent_at, client_msg_id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::row;
    use proptest::prelude::*;

    fn draft(body: &str) -> Draft {
        Draft {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            sender_id: UserId::parse("alice").unwrap(),
            client_msg_id: ClientMsgId::parse("m1").unwrap(),
            kind: Kind::Text,
            body: body.to_owned(),
        }
    }

    #[test]
    fn the_first_message_is_number_one_and_time_never_goes_back() {
        let place = |previous: Option<&Membership>, now| {
            let Place { seq, sent_at, .. } = Place::following(previous, now, [0; 10]);
            (seq.value(), sent_at)
        };
        let now = Timestamp::from_millis(5);
        assert_eq!(place(None, now), (1, now));
        let row = row(7, 7, 7, 0, None);
        // A clock that is behind, or a message in the same millisecond, comes out one millisecond later.
        assert_eq!(place(Some(&row), now), (8, Timestamp::from_millis(1_000_001)));
        assert_eq!(place(Some(&row), row.last.sent_at), (8, Timestamp::from_millis(1_000_001)));
        let later = Timestamp::from_millis(2_000_000);
        assert_eq!(place(Some(&row), later), (8, later));
    }

    #[test]
    fn the_idempotency_key_is_for_its_sender_alone() {
        let message = draft("hi").stored(Place::following(None, Timestamp::from_millis(5), [0; 10]));
        let [alice, bob] = ["alice", "bob"].map(|id| UserId::parse(id).unwrap());
        assert_eq!(message.seen_by(&alice).client_msg_id, message.client_msg_id);
        assert_eq!(message.seen_by(&bob).client_msg_id, None);
    }

    proptest! {
        #[test]
        fn a_preview_is_the_first_hundred_characters(body in "\\PC{0,300}") {
            let preview = draft(&body).preview();
            prop_assert!(body.starts_with(&preview));
            prop_assert_eq!(preview.chars().count(), body.chars().count().min(100));
        }
    }
}
