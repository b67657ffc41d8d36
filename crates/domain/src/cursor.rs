//! Where the next page of the chat list begins.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};
use wire::{ConversationId, Timestamp, UserId};

/// The last row of the page before. Opaque to clients. It carries a digest of its owner and content, so that a cursor
/// that was cut, mixed up or taken from another user is refused instead of leading somewhere odd. That is no secret and
/// no protection: a cursor only ever points into its bearer's own rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub active_at: Timestamp,
    pub conversation_id: ConversationId,
}

const DIGEST_BYTES: usize = 8;
const TIME_BYTES: usize = 8;

impl Cursor {
    pub fn to_text(&self, owner: &UserId) -> String {
        let mut bytes = self.digest(owner);
        bytes.extend(self.active_at.millis().to_be_bytes());
        bytes.extend(self.conversation_id.as_str().bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// `None` unless `text` is a cursor that this user was given.
    pub fn parse(owner: &UserId, text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (digest, rest) = bytes.split_at_checked(DIGEST_BYTES)?;
        let (time, id) = rest.split_at_checked(TIME_BYTES)?;
        let cursor = Self {
            active_at: Timestamp::from_millis(i64::from_be_bytes(time.try_into().ok()?)),
            conversation_id: ConversationId::parse(std::str::from_utf8(id).ok()?).ok()?,
        };
        (cursor.digest(owner) == digest).then_some(cursor)
    }

    fn digest(&self, owner: &UserId) -> Vec<u8> {
        let digest = Sha256::new()
            .chain_update(owner.as_str())
            .chain_update([0])
            .chain_update(self.active_at.millis().to_be_bytes())
            .chain_update(self.conversation_id.as_str())
            .finalize();
        digest.into_iter().take(DIGEST_BYTES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    proptest! {
        #[test]
        fn a_cursor_is_read_back_by_its_owner_alone(at: i64, id in "[!-~]{1,128}") {
            let cursor = Cursor { active_at: Timestamp::from_millis(at), conversation_id: ConversationId::parse(&id).unwrap() };
            let text = cursor.to_text(&user("alice"));
            prop_assert_eq!(Cursor::parse(&user("alice"), &text), Some(cursor));
            prop_assert_eq!(Cursor::parse(&user("bob"), &text), None);
        }

        #[test]
        fn a_changed_cursor_is_refused(at: i64, place in 0usize..30, with in "[A-Za-z0-9_-]") {
            let cursor = Cursor { active_at: Timestamp::from_millis(at), conversation_id: ConversationId::parse("dm_abcdef").unwrap() };
            let text = cursor.to_text(&user("alice"));
            let mut changed = text.clone();
            changed.replace_range(place..=place, &with);
            prop_assume!(changed != text);
            prop_assert_eq!(Cursor::parse(&user("alice"), &changed), None);
        }

        #[test]
        fn nonsense_is_refused(text in ".*") {
            prop_assert_eq!(Cursor::parse(&user("alice"), &text), None);
        }
    }
}
