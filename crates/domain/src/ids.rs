//! Identifiers that the server makes, and one that clients never see.

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};
use wire::{ClientMsgId, ConversationId, MessageId, Timestamp, UserId};

/// One socket, as API Gateway calls it. Opaque: whatever it hands us, we hand back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(String);

impl ConnectionId {
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the id of a direct conversation, or of a note to self. Either side computes the same id, so the first
/// message needs no lookup, and concurrent first messages meet in the same conversation.
pub fn direct_conversation_id(one: &UserId, other: &UserId) -> ConversationId {
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    made_id(ConversationId::DIRECT_PREFIX, first.as_str(), second.as_str())
}

/// Returns the id of the group that this user creates with this idempotency key. A repetition gets the same id.
pub fn group_id(creator: &UserId, client_msg_id: &ClientMsgId) -> ConversationId {
    made_id(ConversationId::GROUP_PREFIX, creator.as_str(), client_msg_id.as_str())
}

/// The channel that this user makes with it.
pub fn channel_id(creator: &UserId, client_msg_id: &ClientMsgId) -> ConversationId {
    made_id(ConversationId::CHANNEL_PREFIX, creator.as_str(), client_msg_id.as_str())
}

#[expect(clippy::expect_used, reason = "lower-case Base32 is an id")]
fn made_id(prefix: &str, one: &str, other: &str) -> ConversationId {
    let digest = Sha256::new().chain_update(one).chain_update([0]).chain_update(other).finalize();
    let bytes: Vec<u8> = digest.into_iter().take(20).collect();
    let id = format!("{prefix}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase());
    ConversationId::parse(&id).expect("it is an id")
}

/// The id of a message sent at `sent_at`: a UUIDv7 (RFC 9562) of that time, so that ids sort as time does. The random
/// bytes need be unlikely to repeat within a millisecond, no more.
pub fn message_id(sent_at: Timestamp, random: [u8; 10]) -> MessageId {
    let millis = u64::try_from(sent_at.millis()).unwrap_or(0);
    MessageId::stored(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    #[test]
    fn a_direct_conversation_has_one_id_from_both_sides() {
        let id = direct_conversation_id(&user("alice"), &user("bob"));
        assert_eq!(id, direct_conversation_id(&user("bob"), &user("alice")));
        // Stored ids must survive every later version: this one is pinned.
        assert_eq!(id.as_str(), "dm_cqnezuscwz7if3puu6f3iggubjvdq4gs");
    }

    #[test]
    fn a_group_that_is_made_again_has_the_same_id_and_nobody_elses() {
        let key = |id| ClientMsgId::parse(id).unwrap();
        let id = group_id(&user("alice"), &key("c1"));
        assert!(id.is_group() && !direct_conversation_id(&user("alice"), &user("bob")).has_members());
        assert_eq!(id, group_id(&user("alice"), &key("c1")));
        assert_ne!(id, group_id(&user("alice"), &key("c2")));
        assert_ne!(id, group_id(&user("bob"), &key("c1")));
        // Stored ids must survive every later version: this one is pinned.
        assert_eq!(id.as_str(), "gr_55o74ib2hlfhd75gvnl7lyzdv7s5mg5f");
        let channel = channel_id(&user("alice"), &key("c1"));
        assert!(channel.is_channel() && !channel.is_group() && !id.is_channel());
    }

    #[test]
    fn message_ids_are_version_7_and_carry_their_time() {
        let id = message_id(Timestamp::from_millis(1_700_000_000_123), [7; 10]);
        let uuid = uuid::Uuid::parse_str(id.as_str()).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        let (seconds, nanos) = uuid.get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos / 1_000_000), (1_700_000_000, 123));
    }

    proptest! {
        #[test]
        fn message_ids_sort_as_their_times(a in 0i64..4_102_444_800_000, b in 0i64..4_102_444_800_000, r: [u8; 10], s: [u8; 10]) {
            prop_assume!(a != b);
            let (x, y) = (message_id(Timestamp::from_millis(a), r), message_id(Timestamp::from_millis(b), s));
            prop_assert_eq!(a < b, x < y);
        }

        #[test]
        fn different_pairs_have_different_conversations(a in "[!-~]{1,20}", b in "[!-~]{1,20}", c in "[!-~]{1,20}", d in "[!-~]{1,20}") {
            let mut one = [a.clone(), b.clone()];
            let mut two = [c.clone(), d.clone()];
            one.sort();
            two.sort();
            let same = direct_conversation_id(&user(&a), &user(&b)) == direct_conversation_id(&user(&c), &user(&d));
            prop_assert_eq!(one == two, same);
        }
    }
}
