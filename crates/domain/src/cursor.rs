//! Where the next page of the chat list begins.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};
use wire::{ConversationId, MessageId, Timestamp, UserId};

/// The rows that earlier pages have shown. Opaque to clients. A cursor contains a digest of its owner and content, so
/// that a damaged or foreign cursor is refused. The digest is no secret and no protection: a cursor only points into
/// its owner's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Everything from here on has been shown: the last row of an exact page.
    pub before: Option<(Timestamp, MessageId)>,
    /// The rows up to here have been shown, in the index's order: the last row of a page that was not exact.
    pub after: Option<Position>,
}

/// A row's place in the index of the chat list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub active_at: Timestamp,
    pub conversation_id: ConversationId,
}

const DIGEST_BYTES: usize = 8;
/// Stands for what there is not. No id is this, and no number.
const NONE: &str = "-";

impl Cursor {
    pub fn to_text(&self, owner: &UserId) -> String {
        let content = self.content();
        let mut bytes = digest(owner, &content);
        bytes.extend(content.bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Returns `None` unless `text` is a cursor of this user.
    pub fn parse(owner: &UserId, text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (own_digest, content) = bytes.split_at_checked(DIGEST_BYTES)?;
        let content = std::str::from_utf8(content).ok().filter(|content| digest(owner, content) == own_digest)?;
        let parts: Vec<&str> = content.split(' ').collect();
        let &[sent_at, message_id, active_at, conversation_id] = parts.as_slice() else { return None };
        let time = |digits: &str| digits.parse().ok().map(Timestamp::from_millis);
        let position = || {
            Some(Position {
                active_at: time(active_at)?,
                conversation_id: ConversationId::parse(conversation_id).ok()?,
            })
        };
        Some(Self {
            before: if sent_at == NONE { None } else { Some((time(sent_at)?, MessageId::stored(message_id))) },
            after: if active_at == NONE { None } else { Some(position()?) },
        })
    }

    /// Four words: ids have no spaces.
    fn content(&self) -> String {
        let none = || (NONE.to_owned(), NONE.to_owned());
        let before = self.before.as_ref().map(|(at, id)| (at.millis().to_string(), id.as_str().to_owned()));
        let after =
            self.after.as_ref().map(|after| (after.active_at.millis().to_string(), after.conversation_id.to_string()));
        let ((sent_at, message_id), (active_at, conversation_id)) =
            (before.unwrap_or_else(none), after.unwrap_or_else(none));
        format!("{sent_at} {message_id} {active_at} {conversation_id}")
    }
}

fn digest(owner: &UserId, content: &str) -> Vec<u8> {
    let digest = Sha256::new().chain_update(owner.as_str()).chain_update([0]).chain_update(content).finalize();
    digest.into_iter().take(DIGEST_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn cursors() -> impl Strategy<Value = Cursor> {
        let before = any::<i64>().prop_map(|at| (Timestamp::from_millis(at), MessageId::stored("0198c2a4-0000-7000")));
        let after = (any::<i64>(), "[!-~]{1,128}").prop_map(|(at, id)| Position {
            active_at: Timestamp::from_millis(at),
            conversation_id: ConversationId::parse(&id).unwrap(),
        });
        (prop::option::of(before), prop::option::of(after)).prop_map(|(before, after)| Cursor { before, after })
    }

    proptest! {
        #[test]
        fn a_cursor_is_read_back_by_its_owner_alone(cursor in cursors()) {
            let text = cursor.to_text(&user("alice"));
            prop_assert_eq!(Cursor::parse(&user("alice"), &text), Some(cursor));
            prop_assert_eq!(Cursor::parse(&user("bob"), &text), None);
        }

        #[test]
        fn a_changed_cursor_is_refused(cursor in cursors(), place in 0usize..15, with in "[A-Za-z0-9_-]") {
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
