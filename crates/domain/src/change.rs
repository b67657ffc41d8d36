//! What becomes of a message later: it is edited, deleted, reacted to. Each change is an entry of its own, and a silent one.

use wire::limits::{EDITS_MAX, REACTORS_MAX};
use wire::{Emoji, Kind, Refusal, UserId};

use crate::message::{Follows, StoredMessage};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Edit {
        body: String,
    },
    Delete,
    /// `None` takes back what the user reacted with.
    React {
        emoji: Option<Emoji>,
    },
}

/// What somebody may, beside what they wrote themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// One of the two blocks the other.
    pub blocked: bool,
    /// They may delete what others wrote.
    pub moderates: bool,
}

impl Change {
    pub fn kind(&self) -> &'static Kind {
        match self {
            Self::Edit { .. } => &Kind::Edit,
            Self::Delete => &Kind::Delete,
            Self::React { .. } => &Kind::Reaction,
        }
    }

    /// Whether `user` may do this to the target, as it is now; then the target, which is there.
    ///
    /// # Errors
    /// The first reason against it, in the order that the protocol names. What is deleted, never was or is no message looks alike.
    pub fn check<'a>(
        &self,
        user: &UserId,
        target: Option<&'a StoredMessage>,
        rights: Rights,
    ) -> Result<&'a StoredMessage, Refusal> {
        let target = target.filter(|target| target.kind.counts() && target.deleted.is_none()).ok_or(Refusal::Gone)?;
        if matches!(self, Self::Edit { body } if body.is_empty()) && target.kind == Kind::Text {
            return Err(Refusal::bad_request("body", "must not be empty"));
        }
        let is_author = target.sender_id == *user;
        let (forbidden, limit_reached) = match self {
            Self::Edit { .. } => (rights.blocked || !is_author, target.edits() >= EDITS_MAX),
            // Also beyond a block: what was said can always be taken back.
            Self::Delete => (!is_author && !rights.moderates, false),
            Self::React { emoji } => {
                let is_one_more = emoji.is_some() && !target.reactions.contains_key(user);
                (rights.blocked, is_one_more && target.reactions.len() >= REACTORS_MAX)
            }
        };
        if forbidden {
            Err(Refusal::Forbidden)
        } else if limit_reached {
            Err(Refusal::LimitReached)
        } else {
            Ok(target)
        }
    }

    /// What its entry takes from the target, if `user` does it.
    pub fn follows(&self, user: &UserId, target: &StoredMessage) -> Follows {
        match self {
            Self::Edit { .. } => Follows { version: Some(target.version_number() + 1), emoji_before: None },
            Self::Delete => Follows::default(),
            Self::React { .. } => Follows { version: None, emoji_before: target.reactions.get(user).cloned() },
        }
    }
}

impl StoredMessage {
    /// The number of the version that it is.
    pub fn version_number(&self) -> u64 {
        self.version.unwrap_or(1)
    }

    fn edits(&self) -> u64 {
        self.version_number().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wire::{ConversationId, Timestamp};

    use super::*;
    use crate::{Aside, Deleted, Place, ReactionTally};

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn target() -> StoredMessage {
        StoredMessage {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            place: Place::following(None, Timestamp::from_millis(5), [0; 10]),
            sender_id: user("alice"),
            kind: Kind::Text,
            body: "hi".to_owned(),
            media: None,
            client_msg_id: None,
            reply_to: None,
            version: None,
            edited_at: None,
            deleted: None,
            reactions: BTreeMap::new(),
            tally: ReactionTally::default(),
            reactions_seq: None,
            target_seq: None,
            emoji: None,
            emoji_before: None,
            mentions: vec![],
            aside: Aside::default(),
            system: None,
        }
    }

    fn edit() -> Change {
        Change::Edit { body: "hello".to_owned() }
    }

    fn react() -> Change {
        Change::React { emoji: Some(Emoji::parse("👍").unwrap()) }
    }

    #[test]
    fn the_author_edits_and_deletes_and_everybody_reacts() {
        let target = target();
        for (who, change, refused) in [
            ("alice", edit(), None),
            ("alice", Change::Delete, None),
            ("alice", react(), None),
            ("bob", edit(), Some(Refusal::Forbidden)),
            ("bob", Change::Delete, Some(Refusal::Forbidden)),
            ("bob", react(), None),
            ("bob", Change::React { emoji: None }, None),
        ] {
            assert_eq!(change.check(&user(who), Some(&target), Rights::default()).err(), refused, "{who}: {change:?}");
        }
    }

    #[test]
    fn a_caption_may_become_empty_and_a_text_may_not() {
        let (empty, alice) = (Change::Edit { body: String::new() }, user("alice"));
        let refused = empty.check(&alice, Some(&target()), Rights::default()).err();
        assert_eq!(refused, Some(Refusal::bad_request("body", "must not be empty")));
        let image = StoredMessage { kind: Kind::Image, ..target() };
        assert!(empty.check(&alice, Some(&image), Rights::default()).is_ok());
    }

    #[test]
    fn who_moderates_deletes_what_others_wrote_and_edits_none_of_it() {
        let (target, rights) = (target(), Rights { moderates: true, blocked: false });
        assert!(Change::Delete.check(&user("bob"), Some(&target), rights).is_ok());
        assert_eq!(edit().check(&user("bob"), Some(&target), rights).err(), Some(Refusal::Forbidden));
    }

    #[test]
    fn beyond_a_block_only_a_delete_is_left() {
        let target = target();
        for (change, refused) in
            [(edit(), Some(Refusal::Forbidden)), (react(), Some(Refusal::Forbidden)), (Change::Delete, None)]
        {
            assert_eq!(
                change.check(&user("alice"), Some(&target), Rights { blocked: true, ..Rights::default() }).err(),
                refused,
                "{change:?}"
            );
        }
    }

    #[test]
    fn what_is_deleted_no_message_or_not_there_is_gone_for_everybody() {
        let deleted =
            StoredMessage { deleted: Some(Deleted { at: Timestamp::from_millis(6), by: user("alice") }), ..target() };
        let silent = StoredMessage { kind: Kind::Reaction, ..target() };
        let later = StoredMessage { kind: Kind::stored("hologram"), ..target() };
        for target in [None, Some(&deleted), Some(&silent), Some(&later)] {
            for change in [edit(), Change::Delete, react()] {
                for who in ["alice", "bob"] {
                    assert_eq!(
                        change.check(&user(who), target, Rights { blocked: true, ..Rights::default() }).err(),
                        Some(Refusal::Gone)
                    );
                }
            }
        }
    }

    #[test]
    fn a_message_has_so_many_edits_and_so_many_reactors() {
        let mut target = target();
        target.version = Some(EDITS_MAX);
        assert!(edit().check(&user("alice"), Some(&target), Rights::default()).is_ok());
        target.version = Some(EDITS_MAX + 1);
        assert_eq!(edit().check(&user("alice"), Some(&target), Rights::default()).err(), Some(Refusal::LimitReached));
        assert_eq!(
            edit().check(&user("bob"), Some(&target), Rights::default()).err(),
            Some(Refusal::Forbidden),
            "this is told first"
        );
        for number in 0..REACTORS_MAX {
            assert!(react().check(&user("bob"), Some(&target), Rights::default()).is_ok());
            target.reactions.insert(user(&format!("u{number}")), Emoji::parse("👍").unwrap());
        }
        assert_eq!(react().check(&user("bob"), Some(&target), Rights::default()).err(), Some(Refusal::LimitReached));
        assert!(react().check(&user("u7"), Some(&target), Rights::default()).is_ok(), "in the place of their own");
        assert!(Change::React { emoji: None }.check(&user("bob"), Some(&target), Rights::default()).is_ok());
    }
}
