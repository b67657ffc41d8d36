//! An entry in its states: a draft, what is stored, and, in `wire`, what a viewer sees.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wire::limits::{PREVIEW_CHARS_MAX, REACTIONS_SHOWN_MAX};
use wire::{
    ClientMsgId, ConversationId, Emoji, HistoryFrom, Kind, Media, Message, MessageId, Reaction, SERVICE_DEFAULT, Seq,
    System, Timestamp, UserId,
};

use crate::change::Change;
use crate::channel::ReactionTally;
use crate::group::{GroupChange, GroupInfo};
use crate::ids::{ConnectionId, message_id};
use crate::membership::End;

/// What a sender wants stored. It has no place yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub conversation_id: ConversationId,
    pub sender_id: UserId,
    /// The idempotency key.
    pub client_msg_id: ClientMsgId,
    pub content: Content,
}

/// What an entry is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Message {
        kind: Kind,
        body: String,
        /// What it carries: then its row is written too.
        media: Option<Box<Media>>,
        reply_to: Option<Seq>,
        /// Whom it names. In groups only.
        mentions: Vec<UserId>,
    },
    /// A silent entry, about the message at `target`.
    Change { target: Seq, change: Change },
    /// Of a group. What comes of it, a system entry says.
    Group(GroupChange),
}

/// Where and when an entry stands in its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sent_at: Timestamp,
}

/// An entry as it is stored. Of a message, as it is now; of an edit, with what its target says now: content is in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    pub conversation_id: ConversationId,
    pub place: Place,
    pub sender_id: UserId,
    pub kind: Kind,
    pub body: String,
    pub media: Option<Box<Media>>,
    /// The sender's idempotency key; a message of a later version may have none.
    pub client_msg_id: Option<ClientMsgId>,
    pub reply_to: Option<Seq>,
    /// The first version has no number.
    pub version: Option<u64>,
    pub edited_at: Option<Timestamp>,
    pub deleted: Option<Deleted>,
    /// What each member reacted with, last. Not in a channel, of whose messages there is a tally.
    pub reactions: BTreeMap<UserId, Emoji>,
    pub tally: ReactionTally,
    /// The last reaction entry that is about it.
    pub reactions_seq: Option<Seq>,
    /// Of a silent entry: the message that it is about.
    pub target_seq: Option<Seq>,
    pub emoji: Option<Emoji>,
    /// Of a reaction: what its sender had reacted with until then.
    pub emoji_before: Option<Emoji>,
    /// Whom it names; of an entry that deletes, whom its target named.
    pub mentions: Vec<UserId>,
    /// What a member's row must know of an entry, and nobody is told.
    pub aside: Aside,
    pub system: Option<System>,
}

/// What an entry takes from the message that it changes, as that was just before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follows {
    /// Of an edit: which version of the text it makes.
    pub version: Option<u64>,
    /// Of a reaction: what its sender had reacted with until then.
    pub emoji_before: Option<Emoji>,
}

/// What is stored of an entry of a group for those who go over the log, and never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aside {
    /// Whose message it is about.
    pub target_sender: Option<UserId>,
    /// With a join: from where on the new members see what was said.
    pub history: Option<HistoryFrom>,
    /// When somebody leaves: what the group was then.
    pub group: Option<GroupInfo>,
    /// The connection that sent it, which gets no copy.
    pub origin: Option<ConnectionId>,
    /// Of a message of a group that is deleted: by which entry.
    pub deleted_seq: Option<Seq>,
    /// Of an entry of a channel: how many messages there are up to it.
    pub counted: Option<u64>,
    /// Of a service's message: whom it is for. Nothing else says whose row is to be written if it is deleted.
    pub recipient: Option<UserId>,
}

/// When and by whom a message was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    pub at: Timestamp,
    pub by: UserId,
}

/// What the chat list shows of a body.
pub fn preview(body: &str) -> String {
    body.chars().take(PREVIEW_CHARS_MAX).collect()
}

impl Content {
    pub fn kind(&self) -> &Kind {
        match self {
            Self::Message { kind, .. } => kind,
            Self::Change { change, .. } => change.kind(),
            Self::Group(_) => &Kind::System,
        }
    }

    /// What a message carries.
    pub fn media(&self) -> Option<&Media> {
        match self {
            Self::Message { media, .. } => media.as_deref(),
            Self::Change { .. } | Self::Group(_) => None,
        }
    }
}

impl Draft {
    /// Whether an operator wants that, who need not be a member.
    pub fn is_by_operator(&self) -> bool {
        let deletes = matches!(self.content, Content::Change { change: Change::Delete, .. });
        deletes && self.sender_id == SERVICE_DEFAULT
    }

    /// The entry, once it has its place.
    #[must_use]
    pub fn stored(self, place: Place, follows: Follows) -> StoredMessage {
        let Follows { version, emoji_before } = follows;
        let Self { conversation_id, sender_id, client_msg_id, content } = self;
        let kind = content.kind().clone();
        let mut mentions = vec![];
        let mut media = None;
        let (body, reply_to, target_seq, emoji) = match content {
            Content::Message { body, media: carried, reply_to, mentions: named, .. } => {
                (mentions, media) = (named, carried);
                (body, reply_to, None, None)
            }
            Content::Change { target, change: Change::Edit { body } } => (body, None, Some(target), None),
            Content::Change { target, change: Change::Delete } => (String::new(), None, Some(target), None),
            Content::Change { target, change: Change::React { emoji } } => (String::new(), None, Some(target), emoji),
            Content::Group(_) => (String::new(), None, None, None),
        };
        let client_msg_id = Some(client_msg_id);
        let edited_at = None;
        StoredMessage {
            conversation_id,
            place,
            sender_id,
            kind,
            body,
            media,
            client_msg_id,
            reply_to,
            version,
            edited_at,
            deleted: None,
            reactions: BTreeMap::new(),
            tally: ReactionTally::default(),
            reactions_seq: None,
            target_seq,
            emoji,
            emoji_before,
            mentions,
            aside: Aside::default(),
            system: None,
        }
    }
}

impl Place {
    /// The place after the end of the conversation, or the first. Times rise strictly within a
    /// conversation, so that message ids sort as seqs do, whatever the clocks of the machines say.
    pub fn following(end: Option<End>, now: Timestamp, random: [u8; 10]) -> Self {
        let (seq, sent_at) = match end {
            None => (Seq::FIRST, now),
            Some(end) => (end.seq.next(), now.max(Timestamp::from_millis(end.sent_at.millis() + 1))),
        };
        Self { seq, message_id: message_id(sent_at, random), sent_at }
    }
}

impl StoredMessage {
    /// The entry as `viewer` may see it: the idempotency key is the sender's own affair, and of what is below `first_seq` nothing is
    /// told but that something became of it.
    pub fn seen_by(&self, viewer: &UserId, first_seq: Seq) -> Message {
        let is_of_hidden = self.target_seq.is_some_and(|target| target < first_seq);
        let reactions = self.shown_reactions(viewer);
        let Self { conversation_id, place, sender_id, kind, body, client_msg_id, .. } = self.clone();
        let Self { reply_to, version, edited_at, deleted, reactions_seq, target_seq, emoji, emoji_before, .. } =
            self.clone();
        let Self { media, mentions, system, .. } = self.clone();
        let media = if deleted.is_none() { media } else { None };
        let (body, version) = if is_of_hidden { (String::new(), None) } else { (body, version) };
        let has_mentions = deleted.is_none() && target_seq.is_none();
        let Place { seq, message_id, sent_at } = place;
        let client_msg_id = if sender_id == *viewer { client_msg_id } else { None };
        let (deleted_at, deleted_by) = deleted.map(|deleted| (deleted.at, deleted.by)).unzip();
        Message {
            conversation_id,
            seq,
            message_id,
            sender_id,
            kind,
            body,
            sent_at,
            client_msg_id,
            media,
            reply_to,
            version,
            edited_at,
            deleted_at,
            deleted_by,
            reactions,
            reactions_seq,
            target_seq,
            emoji,
            emoji_before,
            mentions: if has_mentions { mentions } else { vec![] },
            system,
        }
    }

    /// Of an edit: what its target says now, or nothing of one that is deleted. An edit without a version has nothing to tell.
    #[must_use]
    pub fn of_target(mut self, target: Option<&Self>) -> Self {
        let current = target.filter(|target| target.deleted.is_none());
        self.version = current.and_then(|target| target.version);
        self.body = current.map(|target| target.body.clone()).unwrap_or_default();
        self
    }

    /// The most frequent ones; those that are equally frequent in the order of their characters, so that they stay where they are.
    fn shown_reactions(&self, viewer: &UserId) -> Vec<Reaction> {
        let mut counts = BTreeMap::<&Emoji, (u64, bool)>::new();
        for (user, emoji) in &self.reactions {
            let (count, mine) = counts.entry(emoji).or_default();
            *count += 1;
            *mine |= user == viewer;
        }
        let own = self.tally.own.as_ref();
        counts.extend(self.tally.counts.iter().map(|(emoji, count)| (emoji, (*count, own == Some(emoji)))));
        let shown = |(emoji, (count, mine)): (&Emoji, (u64, bool))| Reaction { emoji: emoji.clone(), count, mine };
        let mut reactions: Vec<Reaction> = counts.into_iter().map(shown).collect();
        reactions.sort_by_key(|reaction| Reverse(reaction.count));
        reactions.truncate(REACTIONS_SHOWN_MAX);
        reactions
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
            content: Content::Message {
                kind: Kind::Text,
                body: body.to_owned(),
                media: None,
                reply_to: None,
                mentions: vec![],
            },
        }
    }

    #[test]
    fn the_first_message_is_number_one_and_time_never_goes_back() {
        let place = |end: Option<End>, now| {
            let Place { seq, sent_at, .. } = Place::following(end, now, [0; 10]);
            (seq.value(), sent_at)
        };
        let now = Timestamp::from_millis(5);
        assert_eq!(place(None, now), (1, now));
        let row = row(7, 7, 7, 0, None);
        // A clock that is behind, or a message in the same millisecond, comes out one millisecond later.
        assert_eq!(place(Some(row.end), now), (8, Timestamp::from_millis(1_000_001)));
        assert_eq!(place(Some(row.end), row.end.sent_at), (8, Timestamp::from_millis(1_000_001)));
        let later = Timestamp::from_millis(2_000_000);
        assert_eq!(place(Some(row.end), later), (8, later));
    }

    #[test]
    fn the_idempotency_key_is_for_its_sender_alone() {
        let message =
            draft("hi").stored(Place::following(None, Timestamp::from_millis(5), [0; 10]), Follows::default());
        let [alice, bob] = ["alice", "bob"].map(|id| UserId::parse(id).unwrap());
        assert_eq!(message.seen_by(&alice, Seq::ZERO).client_msg_id, message.client_msg_id);
        assert_eq!(message.seen_by(&bob, Seq::ZERO).client_msg_id, None);
    }

    #[test]
    fn an_edit_says_what_its_target_says_now() {
        let now = Timestamp::from_millis(5);
        let place = || Place::following(None, now, [0; 10]);
        let second = || Follows { version: Some(2), emoji_before: None };
        let mut target = draft("second").stored(place(), second());
        let edit = Content::Change { target: Seq::FIRST, change: Change::Edit { body: "first".to_owned() } };
        let edit = Draft { content: edit, ..draft("") }.stored(place(), second());
        let shown = edit.clone().of_target(Some(&target));
        assert_eq!((shown.body.as_str(), shown.version), ("second", Some(2)));
        target.deleted = Some(Deleted { at: now, by: target.sender_id.clone() });
        for target in [Some(&target), None] {
            let shown = edit.clone().of_target(target);
            assert_eq!((shown.body.as_str(), shown.version), ("", None));
        }
    }

    #[test]
    fn the_most_frequent_reactions_are_shown_and_one_s_own_is_marked() {
        let mut message =
            draft("hi").stored(Place::following(None, Timestamp::from_millis(5), [0; 10]), Follows::default());
        let alice = UserId::parse("alice").unwrap();
        for number in 0..60 {
            let user = if number == 7 { alice.clone() } else { UserId::parse(&format!("u{number}")).unwrap() };
            // Each of thirty twice, and one of them once more.
            message.reactions.insert(user, Emoji::parse(&format!("e{:02}", number % 30)).unwrap());
        }
        message.reactions.insert(UserId::parse("bob").unwrap(), Emoji::parse("e29").unwrap());
        let shown = message.seen_by(&alice, Seq::ZERO).reactions;
        assert_eq!(shown.len(), REACTIONS_SHOWN_MAX);
        assert_eq!((shown[0].emoji.as_str(), shown[0].count, shown[0].mine), ("e29", 3, false));
        assert_eq!((shown[8].emoji.as_str(), shown[8].count, shown[8].mine), ("e07", 2, true));
        assert_eq!(shown.iter().filter(|reaction| reaction.mine).count(), 1);
    }

    proptest! {
        #[test]
        fn a_preview_is_the_first_hundred_characters(body in "\\PC{0,300}") {
            let preview = preview(&body);
            prop_assert!(body.starts_with(&preview));
            prop_assert_eq!(preview.chars().count(), body.chars().count().min(100));
        }
    }
}
