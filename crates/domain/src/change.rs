//! Later changes of a message: edit, delete, reaction, pin. Each is a change entry of its own.

use wire::limits::{EDITS_MAX, PINS_MAX, REACTORS_MAX};
use wire::{Kind, Refusal, Seq, UserId};

use crate::draft::Change;
use crate::entry::{Entry, Follows, MessageEntry};

/// A user's rights, besides those on the user's own messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights<'a> {
    /// A block exists between the two users, or the member may only read.
    pub blocked: bool,
    /// The user may delete messages of other users.
    pub moderates: bool,
    /// The conversation takes nothing in the clear.
    pub encrypted: bool,
    /// The pinned messages, if the user may pin.
    pub pins: Option<&'a [Seq]>,
}

impl Change {
    /// Checks whether `user` may make this change to the target's current form. Returns the existing target.
    ///
    /// # Errors
    /// The first reason, in the protocol's order. A deleted target, a missing one and an entry that is no message give
    /// the same error.
    pub fn check<'a>(
        &self,
        user: &UserId,
        target: Option<&'a Entry>,
        rights: Rights<'_>,
    ) -> Result<MessageEntry<'a>, Refusal> {
        let pins = rights.pins.unwrap_or_default();
        let is_pinned = target.is_some_and(|target| pins.contains(&target.place.seq));
        // The pin of a message stays when the message is deleted.
        let takes_off = is_pinned && *self == Self::Pin { pinned: false };
        let target = target.and_then(Entry::message);
        let target = target.filter(|target| target.message.deleted.is_none() || takes_off);
        let target = target.ok_or(Refusal::Gone)?;
        let MessageEntry { entry, message } = target;
        // A silent message can be deleted, and no more.
        if !message.counts() && message.kind != Kind::Sealed && *self != Self::Delete {
            return Err(Refusal::Gone);
        }
        if matches!(self, Self::Edit { body, .. } if body.is_empty()) && message.kind == Kind::Text {
            return Err(Refusal::bad_request("body", "must not be empty"));
        }
        if let Self::Edit { body, data } = self {
            let data = data.as_ref().map_or(message.data.as_ref(), Option::as_ref);
            if data.is_none() && matches!(message.kind, Kind::Own(_)) {
                return Err(Refusal::bad_request("data", "must not be null: the kind is the app's own"));
            }
            data.map_or(Ok(()), |data| data.check(body))?;
        }
        let is_author = entry.sender_id == *user;
        let (forbidden, limit_reached) = match self {
            Self::Edit { .. } => (rights.blocked || !is_author, message.version_number() > EDITS_MAX),
            // Also despite a block: a user can always delete an own message.
            Self::Delete => (!is_author && !rights.moderates, false),
            Self::React { emoji } => {
                let is_one_more = emoji.is_some() && !message.reactions.contains_key(user);
                (rights.blocked, is_one_more && message.reactions.len() >= REACTORS_MAX)
            }
            Self::Pin { pinned } => {
                let is_one_more = *pinned && !is_pinned;
                (rights.blocked || rights.pins.is_none(), is_one_more && pins.len() >= PINS_MAX)
            }
        };
        // A reaction that is removed shows nothing.
        let is_clear = matches!(self, Self::Edit { .. } | Self::React { emoji: Some(_) });
        if forbidden {
            Err(Refusal::Forbidden)
        } else if rights.encrypted && is_clear {
            Err(Refusal::EncryptionRequired)
        } else if limit_reached {
            Err(Refusal::LimitReached)
        } else {
            Ok(target)
        }
    }

    /// Returns the parts of the target that the change entry of `user` needs.
    pub fn follows(&self, user: &UserId, target: MessageEntry<'_>) -> Follows {
        match self {
            Self::Edit { .. } => Follows {
                version: Some(target.message.version_number() + 1),
                data: target.message.data.clone(),
                emoji_before: None,
            },
            Self::Delete | Self::Pin { .. } => Follows::default(),
            Self::React { .. } => {
                Follows { emoji_before: target.message.reactions.get(user).cloned(), ..Follows::default() }
            }
        }
    }
}

/// Returns the pinned messages after this pin, the last pinned first.
pub fn pins_after(pins: &[Seq], target: Seq, pinned: bool) -> Vec<Seq> {
    let others = pins.iter().copied().filter(|seq| *seq != target);
    pinned.then_some(target).into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use wire::{ConversationId, Emoji, Timestamp};

    use super::*;
    use crate::entry::{Body, Deleted, MessageBody, Place, Target};

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn target() -> Entry {
        with(Body::Message(Box::new(MessageBody::new(Kind::Text, "hi".to_owned()))))
    }

    fn with(body: Body) -> Entry {
        Entry {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            place: Place::following(None, Timestamp::from_millis(5), [0; 10]),
            sender_id: user("alice"),
            client_msg_id: None,
            origin: None,
            read_all: false,
            counted: None,
            body,
        }
    }

    fn edit() -> Change {
        Change::Edit { body: "hello".to_owned(), data: None }
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
        let (empty, alice) = (Change::Edit { body: String::new(), data: None }, user("alice"));
        let refused = empty.check(&alice, Some(&target()), Rights::default()).err();
        assert_eq!(refused, Some(Refusal::bad_request("body", "must not be empty")));
        let image = with(Body::Message(Box::new(MessageBody::new(Kind::Image, "hi".to_owned()))));
        assert!(empty.check(&alice, Some(&image), Rights::default()).is_ok());
    }

    #[test]
    fn who_moderates_deletes_what_others_wrote_and_edits_none_of_it() {
        let (target, rights) = (target(), Rights { moderates: true, ..Rights::default() });
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
    fn where_nothing_is_in_the_clear_a_delete_and_a_removed_reaction_are_left() {
        let (mut target, required) = (target(), Some(Refusal::EncryptionRequired));
        target.message_mut().unwrap().version = Some(EDITS_MAX + 1);
        let rights = Rights { encrypted: true, ..Rights::default() };
        for (who, change, refused) in [
            ("alice", edit(), required.clone()),
            ("bob", edit(), Some(Refusal::Forbidden)),
            ("bob", react(), required),
            ("bob", Change::React { emoji: None }, None),
            ("alice", Change::Delete, None),
        ] {
            assert_eq!(change.check(&user(who), Some(&target), rights).err(), refused, "{who}: {change:?}");
        }
    }

    #[test]
    fn what_is_deleted_no_message_or_not_there_is_gone_for_everybody() {
        let mut deleted = target();
        let by = user("alice");
        deleted.message_mut().unwrap().deleted = Some(Deleted { at: Timestamp::from_millis(6), by });
        let target = Target { seq: Seq::FIRST, sender_id: None };
        let silent = with(Body::Reaction { target, emoji: None, emoji_before: None });
        let message = Box::new(MessageBody::new(Kind::stored("hologram"), "hi".to_owned()));
        let later = with(Body::Other { target_seq: None, message });
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
    fn who_may_pin_pins_twenty_messages_and_takes_the_pin_off_a_deleted_one() {
        let pin = |pinned| Change::Pin { pinned };
        let refused = |change: Change, target: &Entry, pins: Option<&[Seq]>, blocked| {
            let rights = Rights { blocked, pins, ..Rights::default() };
            change.check(&user("bob"), Some(target), rights).err()
        };
        let (mut target, first, others) = (target(), [Seq::FIRST], (2..22).filter_map(Seq::new).collect::<Vec<_>>());
        assert_eq!(refused(pin(true), &target, None, false), Some(Refusal::Forbidden));
        assert_eq!(refused(pin(true), &target, Some(&[]), true), Some(Refusal::Forbidden));
        assert_eq!(refused(pin(true), &target, Some(&others[1..]), false), None);
        assert_eq!(refused(pin(true), &target, Some(&others), false), Some(Refusal::LimitReached));
        assert_eq!(refused(pin(false), &target, Some(&others), false), None, "an entry without effect");
        let full: Vec<Seq> = first.iter().chain(&others[1..]).copied().collect();
        assert_eq!(refused(pin(true), &target, Some(&full), false), None, "one more time");
        let by = user("alice");
        target.message_mut().unwrap().deleted = Some(Deleted { at: Timestamp::from_millis(6), by });
        assert_eq!(refused(pin(false), &target, Some(&first), false), None);
        assert_eq!(refused(pin(false), &target, Some(&[]), false), Some(Refusal::Gone));
        assert_eq!(refused(pin(true), &target, Some(&first), false), Some(Refusal::Gone));
        let vote = with(Body::Message(Box::new(MessageBody::new(Kind::stored("xs-vote"), String::new()))));
        assert_eq!(refused(pin(true), &vote, Some(&[]), false), Some(Refusal::Gone));
    }

    #[test]
    fn the_last_pinned_message_is_the_first() {
        let seqs = |values: &[u64]| values.iter().filter_map(|value| Seq::new(*value)).collect::<Vec<_>>();
        let after = |pins: &[u64], target, pinned| pins_after(&seqs(pins), Seq::new(target).unwrap(), pinned);
        assert_eq!(after(&[2, 1], 3, true), seqs(&[3, 2, 1]));
        assert_eq!(after(&[3, 2, 1], 1, true), seqs(&[1, 3, 2]));
        assert_eq!(after(&[3, 2, 1], 2, false), seqs(&[3, 1]));
        assert_eq!(after(&[3], 2, false), seqs(&[3]));
    }

    #[test]
    fn a_message_has_so_many_edits_and_so_many_reactors() {
        let mut target = target();
        target.message_mut().unwrap().version = Some(EDITS_MAX);
        assert!(edit().check(&user("alice"), Some(&target), Rights::default()).is_ok());
        target.message_mut().unwrap().version = Some(EDITS_MAX + 1);
        assert_eq!(edit().check(&user("alice"), Some(&target), Rights::default()).err(), Some(Refusal::LimitReached));
        assert_eq!(
            edit().check(&user("bob"), Some(&target), Rights::default()).err(),
            Some(Refusal::Forbidden),
            "this is told first"
        );
        for number in 0..REACTORS_MAX {
            assert!(react().check(&user("bob"), Some(&target), Rights::default()).is_ok());
            let reactions = &mut target.message_mut().unwrap().reactions;
            reactions.insert(user(&format!("u{number}")), Emoji::parse("👍").unwrap());
        }
        assert_eq!(react().check(&user("bob"), Some(&target), Rights::default()).err(), Some(Refusal::LimitReached));
        assert!(react().check(&user("u7"), Some(&target), Rights::default()).is_ok(), "in the place of their own");
        assert!(Change::React { emoji: None }.check(&user("bob"), Some(&target), Rights::default()).is_ok());
    }
}
