//! Identifiers, each its own type: a connection can't be forgotten by a user's id, nor a conversation read by a message's.

use std::fmt;

use data_encoding::BASE32_NOPAD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::limits::{
    CLIENT_MSG_ID_CHARS_MAX, CONVERSATION_ID_CHARS_MAX, DEVICE_ID_CHARS_MAX, REQUEST_ID_CHARS_MAX, SEQ_MAX,
    USER_ID_CHARS_MAX,
};
use crate::time::Timestamp;

/// Why a text is not an id. Says what would be one, for the client's developer.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidId(String);

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidId {}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $chars_max:expr, $allowed:expr, $pattern:literal, $allowed_text:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent))]
        pub struct $name(
            #[cfg_attr(feature = "schema", schemars(length(min = 1, max = $chars_max), regex(pattern = $pattern)))] String,
        );

        impl $name {
            /// Takes the text if it has the form that the type promises.
            ///
            /// # Errors
            /// [`InvalidId`] says what the form is.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let allowed: fn(char) -> bool = $allowed;
                // Counting stops one past the limit: a long text costs no more than a short one.
                let chars = text.chars().take($chars_max + 1).count();
                if chars == 0 || chars > $chars_max || !text.chars().all(allowed) {
                    return Err(InvalidId(format!("must be 1 to {} {}", $chars_max, $allowed_text)));
                }
                Ok(Self(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// Who: the `sub` of the token, as any issuer writes it.
    UserId, USER_ID_CHARS_MAX, |c| c.is_ascii_graphic(), "^[!-~]+$", "printable ASCII characters without spaces"
}

text_id! {
    /// Which conversation. Opaque.
    ConversationId, CONVERSATION_ID_CHARS_MAX, |c| c.is_ascii_graphic(), "^[!-~]+$", "printable ASCII characters without spaces"
}

text_id! {
    /// The idempotency key of a `send`, unique per sender and conversation.
    ClientMsgId, CLIENT_MSG_ID_CHARS_MAX, |c| c.is_ascii_graphic(), "^[!-~]+$", "printable ASCII characters without spaces"
}

text_id! {
    /// One installation of an app.
    DeviceId, DEVICE_ID_CHARS_MAX, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-', "^[A-Za-z0-9_-]+$",
    "characters of A-Z a-z 0-9 _ -"
}

text_id! {
    /// What a request is called by its client, so that the answer can be told from others.
    RequestId, REQUEST_ID_CHARS_MAX, |_| true, "", "characters"
}

impl ConversationId {
    /// The conversation of two people, or of one with themselves. Either side computes the same id, so no lookup stands
    /// before the first message, and two first messages at once meet in the same conversation.
    pub fn direct(one: &UserId, other: &UserId) -> Self {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        let digest =
            Sha256::new().chain_update(first.as_str()).chain_update([0]).chain_update(second.as_str()).finalize();
        let prefix: Vec<u8> = digest.into_iter().take(20).collect();
        Self(format!("dm_{}", BASE32_NOPAD.encode(&prefix).to_ascii_lowercase()))
    }
}

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

/// A message's id: a UUIDv7 (RFC 9562) whose time is the message's `sent_at`, so that ids sort as time does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent, extend("format" = "uuid")))]
pub struct MessageId(String);

impl MessageId {
    /// The id of a message sent at `sent_at`. The random bytes need be unlikely to repeat within a millisecond, no more.
    pub fn new(sent_at: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(sent_at.millis()).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string())
    }

    /// As it was stored.
    pub fn stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent, inline))]
pub struct Seq(#[cfg_attr(feature = "schema", schemars(range(max = SEQ_MAX)))] u64);

impl Seq {
    pub const ZERO: Self = Self(0);

    /// `None` above 2^53 − 1, which no conversation reaches and not every client can count.
    pub fn new(value: u64) -> Option<Self> {
        (value <= SEQ_MAX).then_some(Self(value))
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The one before; zero stays zero.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// How many messages lie above `other`, up to this one.
    pub fn above(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0)
    }

    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
        let id = ConversationId::direct(&user("alice"), &user("bob"));
        assert_eq!(id, ConversationId::direct(&user("bob"), &user("alice")));
        // Stored ids must survive every later version: this one is pinned.
        assert_eq!(id.as_str(), "dm_cqnezuscwz7if3puu6f3iggubjvdq4gs");
    }

    #[test]
    fn ids_refuse_what_could_break_a_key_a_log_or_a_terminal() {
        for bad in ["", "a b", "a\n", "\u{7f}", "\u{0}", "ü", &"x".repeat(129)] {
            assert!(UserId::parse(bad).is_err(), "{bad:?}");
            assert!(ConversationId::parse(bad).is_err(), "{bad:?}");
            assert!(ClientMsgId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(UserId::parse(&"x".repeat(128)).is_ok());
        assert!(ClientMsgId::parse(&"x".repeat(64)).is_ok());
        assert!(ClientMsgId::parse(&"x".repeat(65)).is_err());
        assert!(UserId::parse("auth0|5f7c8ec7c33c6c004bbafe82").is_ok());
        assert!(DeviceId::parse("phone_1-A").is_ok());
        assert!(DeviceId::parse("phone.1").is_err());
    }

    #[test]
    fn message_ids_are_version_7_and_carry_their_time() {
        let id = MessageId::new(Timestamp::from_millis(1_700_000_000_123), [7; 10]);
        let uuid = uuid::Uuid::parse_str(id.as_str()).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        let (seconds, nanos) = uuid.get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos / 1_000_000), (1_700_000_000, 123));
    }

    proptest! {
        #[test]
        fn message_ids_sort_as_their_times(a in 0i64..4_102_444_800_000, b in 0i64..4_102_444_800_000, r: [u8; 10], s: [u8; 10]) {
            prop_assume!(a != b);
            let (x, y) = (MessageId::new(Timestamp::from_millis(a), r), MessageId::new(Timestamp::from_millis(b), s));
            prop_assert_eq!(a < b, x < y);
        }

        #[test]
        fn different_pairs_have_different_conversations(a in "[!-~]{1,20}", b in "[!-~]{1,20}", c in "[!-~]{1,20}", d in "[!-~]{1,20}") {
            let mut one = [a.clone(), b.clone()];
            let mut two = [c.clone(), d.clone()];
            one.sort();
            two.sort();
            let same = ConversationId::direct(&user(&a), &user(&b)) == ConversationId::direct(&user(&c), &user(&d));
            prop_assert_eq!(one == two, same);
        }

        #[test]
        fn parsing_an_id_never_panics(text in "\\PC*|.*") {
            prop_assert_eq!(UserId::parse(&text).is_ok(), (1..=128).contains(&text.len()) && text.bytes().all(|b| (0x21..0x7f).contains(&b)));
        }
    }
}
