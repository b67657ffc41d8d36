//! Identifiers, each its own type: a conversation can't be read by a message's id, nor a user taken for a device.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::limits::{
    CLIENT_MSG_ID_CHARS_MAX, CONVERSATION_ID_CHARS_MAX, DEVICE_ID_CHARS_MAX, DEVICE_TOKEN_CHARS_MAX,
    MEDIA_ID_CHARS_MAX, REPORT_ID_CHARS_MAX, REQUEST_ID_CHARS_MAX, SEQ_MAX, USER_ID_CHARS_MAX,
};

/// Why a text is not an id. Says what would be one, for the client's developer.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidId(String);

impl InvalidId {
    pub(crate) fn new(form: String) -> Self {
        Self(form)
    }
}

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

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }
    };
}

text_id! {
    /// Who: the `sub` of the token, as any issuer writes it.
    UserId, USER_ID_CHARS_MAX, |c| c.is_ascii_graphic(), "^[!-~]+$", "printable ASCII characters without spaces"
}

/// The first character of each service's id. No token has such a `sub`.
const SERVICE: char = '@';
/// The first characters of the id that an erased user has in what others keep.
const GONE: &str = "@gone-";
/// The id in `deleted_by` of messages of an erased user.
const ERASED: &str = "@erased";
/// Ids that look like a service's, and belong to none.
const RESERVED: [&str; 2] = [ERASED, "@expired"];
/// The sender of a service's message that names no service.
pub const SERVICE_DEFAULT: &str = "@system";

impl UserId {
    /// Whether the id belongs to a service, a team's own server. A service has no connections and no chat list.
    pub fn is_service(&self) -> bool {
        self.as_str().starts_with(SERVICE)
    }

    /// A service's id.
    ///
    /// # Errors
    /// [`InvalidId`] says what the form is.
    pub fn parse_service(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId(format!("must be a service's id: {SERVICE} and what it is called"));
        let is_free = |id: &Self| id.as_str().len() > 1 && !id.is_gone() && !RESERVED.contains(&id.as_str());
        Self::parse(text).ok().filter(|id| id.is_service() && is_free(id)).ok_or_else(invalid)
    }

    /// Whether the id is that of an erased user. No request can reach the user by it: the id is no user's and no service's.
    pub fn is_gone(&self) -> bool {
        self.as_str().starts_with(GONE)
    }

    /// Makes the id that an erased user has from then on, of 10 random bytes.
    pub fn gone(random: [u8; 10]) -> Self {
        let letters = data_encoding::BASE32_NOPAD.encode(&random).to_lowercase();
        Self(format!("{GONE}{letters}"))
    }

    /// Returns the id in `deleted_by` of messages of an erased user.
    pub fn erased() -> Self {
        Self(ERASED.to_owned())
    }

    /// The service that is meant where none is named.
    pub fn service_default() -> Self {
        Self(SERVICE_DEFAULT.to_owned())
    }
}

text_id! {
    /// The id of a conversation. Only its prefix has a meaning.
    ConversationId, CONVERSATION_ID_CHARS_MAX, |c| c.is_ascii_graphic(), "^[!-~]+$", "printable ASCII characters without spaces"
}

/// The kind of a conversation. More kinds will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ConversationKind {
    // Two users, or one user in a note.
    Direct,
    // Any number of members, of whom some may do more than others.
    Group,
    // Any number of members, who read it on demand. Not in the chat list.
    Channel,
}

impl ConversationKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    pub(crate) fn is_group(&self) -> bool {
        *self == Self::Group
    }
}

impl ConversationId {
    /// The prefix of the id of a direct conversation or a note.
    pub const DIRECT_PREFIX: &str = "dm_";
    /// The prefix of a group's id.
    pub const GROUP_PREFIX: &str = "gr_";
    /// The prefix of a channel's id.
    pub const CHANNEL_PREFIX: &str = "ch_";

    /// Returns the kind that the id names, if there is such a conversation.
    pub fn kind(&self) -> ConversationKind {
        if self.as_str().starts_with(Self::GROUP_PREFIX) {
            ConversationKind::Group
        } else if self.as_str().starts_with(Self::CHANNEL_PREFIX) {
            ConversationKind::Channel
        } else {
            ConversationKind::Direct
        }
    }

    /// Whether the id is a group's.
    pub fn is_group(&self) -> bool {
        match self.kind() {
            ConversationKind::Group => true,
            ConversationKind::Direct | ConversationKind::Channel => false,
        }
    }

    /// Whether the id is a channel's.
    pub fn is_channel(&self) -> bool {
        match self.kind() {
            ConversationKind::Channel => true,
            ConversationKind::Direct | ConversationKind::Group => false,
        }
    }

    /// Whether the conversation has a list of members that changes, for clients.
    pub fn has_members(&self) -> bool {
        match self.kind() {
            ConversationKind::Group | ConversationKind::Channel => true,
            ConversationKind::Direct => false,
        }
    }
}

text_id! {
    /// The idempotency key of a `send`, unique per sender and conversation.
    ClientMsgId, CLIENT_MSG_ID_CHARS_MAX, |c| c.is_ascii_graphic(), "^[!-~]+$", "printable ASCII characters without spaces"
}

impl ClientMsgId {
    /// The prefix of the idempotency keys of an operator's deletes. An operator writes as a service does.
    pub const OPERATOR_PREFIX: &str = "operator:";

    /// The key of what a service writes, which must be none of an operator's: else it could keep one from deleting its message.
    ///
    /// # Errors
    /// [`InvalidId`] says what the form is.
    pub fn of_service(text: &str) -> Result<Self, InvalidId> {
        let key = Self::parse(text)?;
        let is_operators = text.starts_with(Self::OPERATOR_PREFIX);
        if is_operators { Err(InvalidId(format!("must not begin with {}", Self::OPERATOR_PREFIX))) } else { Ok(key) }
    }
}

text_id! {
    /// One installation of an app.
    DeviceId, DEVICE_ID_CHARS_MAX, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-', "^[A-Za-z0-9_-]+$",
    "characters of A-Z a-z 0-9 _ -"
}

text_id! {
    /// The id of an upload, made by the server.
    MediaId, MEDIA_ID_CHARS_MAX, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-', "^[A-Za-z0-9_-]+$",
    "characters of A-Z a-z 0-9 _ -"
}

text_id! {
    /// The id of a report, made by the server.
    ReportId, REPORT_ID_CHARS_MAX, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-', "^[A-Za-z0-9_-]+$",
    "characters of A-Z a-z 0-9 _ -"
}

impl ReportId {
    pub(crate) fn made(text: String) -> Self {
        Self(text)
    }
}

text_id! {
    /// The push service's id of an installation. Never logged, because its holder can start and stop the device's
    /// notifications.
    DeviceToken, DEVICE_TOKEN_CHARS_MAX, |c| c.is_ascii_graphic(), "^[!-~]+$", "printable ASCII characters without spaces"
}

text_id! {
    /// The client's id of a request. The reply repeats it.
    RequestId, REQUEST_ID_CHARS_MAX, |_| true, "", "characters"
}

/// A message's id: a UUIDv7 (RFC 9562) whose time is the message's `sent_at`, so that ids sort as time does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent, extend("format" = "uuid")))]
pub struct MessageId(String);

impl MessageId {
    /// As the server wrote it.
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
    /// The `seq` of a conversation's first entry.
    pub const FIRST: Self = Self(1);
    /// No conversation gets there.
    pub const MAX: Self = Self(SEQ_MAX);

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

impl<'de> Deserialize<'de> for Seq {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(deserializer)?).ok_or_else(|| de::Error::custom("must be at most 2^53 - 1"))
    }
}

impl PartialEq<u64> for Seq {
    fn eq(&self, other: &u64) -> bool {
        self.0 == *other
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
        for bad in ["alice", "@", "@a b", "", "a@b"] {
            assert!(UserId::parse_service(bad).is_err(), "{bad:?}");
        }
        // The ids of what was erased or has expired.
        let gone = UserId::gone([7; 10]);
        for reserved in [gone.as_str(), "@gone-x", "@erased", "@expired"] {
            assert!(UserId::parse_service(reserved).is_err(), "{reserved:?}");
        }
        assert!(gone.is_gone() && gone.is_service() && UserId::parse(gone.as_str()).is_ok());
        assert_eq!(gone.as_str().len(), GONE.len() + 16);
        assert_ne!(UserId::gone([7; 10]), UserId::gone([8; 10]));
        assert!(UserId::parse_service("@orders").unwrap().is_service() && UserId::service_default().is_service());
        assert!(!UserId::parse("alice@example.com").unwrap().is_service());
        assert!(DeviceId::parse("phone_1-A").is_ok());
        assert!(DeviceId::parse("phone.1").is_err());
    }

    proptest! {
        #[test]
        fn parsing_an_id_never_panics(text in "\\PC*|.*") {
            prop_assert_eq!(UserId::parse(&text).is_ok(), (1..=128).contains(&text.len()) && text.bytes().all(|b| (0x21..0x7f).contains(&b)));
        }
    }
}
