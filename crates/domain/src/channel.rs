//! Channels: a member's row, and what follows from it and the channel's head. Nothing is written for a member when somebody posts.

use std::collections::BTreeMap;

use wire::limits::CHANNEL_REACTIONS_MAX;
use wire::{
    Channel, ConversationId, ConversationKind, Emoji, HistoryFrom, LastMessage, MutedUntil, Refusal, Role, Seq,
    Timestamp, UserId,
};

use crate::group::{Head, RosterRow};
use crate::membership::LastEntry;

/// A member's row: it is the membership. Who leaves has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRow {
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    pub role: Role,
    /// The newest entry when they joined.
    pub joined_seq: Seq,
    /// Tells this time as a member from another one.
    pub joined_at: Timestamp,
    /// Below it they see nothing.
    pub first_seq: Seq,
    pub read_seq: Seq,
    /// How many messages there are up to `read_seq`. None of those above it is the member's own, since who posts has read.
    pub read_counted: u64,
    pub muted_until: Option<MutedUntil>,
    /// Archived as long as there are no more messages than this.
    pub archived_counted: Option<u64>,
}

impl ChannelRow {
    /// Of somebody who joins by themselves, which is no entry.
    pub fn joining(user_id: UserId, head: &Head, joined_at: Timestamp) -> Self {
        let (joined_seq, role) = (head.end.seq, Role::Member);
        let from_seq = match head.rules.history {
            HistoryFrom::Joined => joined_seq.next(),
            HistoryFrom::All => Seq::FIRST,
        };
        let row = RosterRow { user_id, role, joined_seq, from_seq, left_seq: None };
        Self { read_seq: joined_seq, ..Self::added(&row, head, joined_at) }
    }

    /// Of somebody who joins by an entry, with which the head is this.
    pub fn added(row: &RosterRow, head: &Head, joined_at: Timestamp) -> Self {
        Self {
            user_id: row.user_id.clone(),
            conversation_id: head.conversation_id.clone(),
            role: row.role,
            joined_seq: row.joined_seq,
            joined_at,
            first_seq: row.from_seq,
            read_seq: row.joined_seq.previous(),
            read_counted: head.counted,
            muted_until: None,
            archived_counted: None,
        }
    }

    /// As one of a roster, by which it is decided who may what.
    pub fn as_member(&self) -> RosterRow {
        let Self { user_id, role, joined_seq, first_seq, .. } = self.clone();
        RosterRow { user_id, role, joined_seq, from_seq: first_seq, left_seq: None }
    }

    /// How many messages are unread by what the head says.
    pub fn unread(&self, head: &Head) -> u64 {
        head.counted.saturating_sub(self.read_counted)
    }

    /// As the list of channels shows it. The line may be from before the member joined: then it is not theirs.
    pub fn shown(self, head: &Head) -> Channel {
        let LastEntry { seq, sender_id, kind, preview, sent_at, deleted, system, .. } = head.line.clone();
        let last_message = LastMessage { seq, sender_id, kind, preview, sent_at, deleted, system };
        Channel {
            unread: self.unread(head),
            conversation_id: self.conversation_id,
            kind: ConversationKind::Channel,
            title: head.group.title.clone(),
            role: self.role,
            first_seq: self.first_seq,
            history: head.rules.history,
            post: head.rules.post,
            add: head.rules.add,
            join: head.rules.join.unwrap_or_default(),
            last_message: (seq >= self.first_seq).then_some(last_message),
            // The head may be from before the row.
            read_seq: self.read_seq.min(head.end.seq),
            last_seq: head.end.seq,
            muted_until: self.muted_until,
            archived: self.archived_counted.is_some_and(|counted| counted >= head.counted),
        }
    }
}

/// How often members of a channel reacted with what, and what one of them did. Nobody knows who the others were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReactionTally {
    pub counts: BTreeMap<Emoji, u64>,
    pub own: Option<Emoji>,
}

impl ReactionTally {
    /// Whether the member may react with this.
    ///
    /// # Errors
    /// `limit_reached`: there are as many different ones.
    pub fn check(&self, emoji: Option<&Emoji>) -> Result<(), Refusal> {
        let Some(emoji) = emoji else { return Ok(()) };
        let is_last = self.own.as_ref().is_some_and(|own| self.counts.get(own) == Some(&1));
        let left = self.counts.len().saturating_sub(usize::from(is_last));
        if self.counts.contains_key(emoji) || left < CHANNEL_REACTIONS_MAX {
            Ok(())
        } else {
            Err(Refusal::LimitReached)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::{ClientMsgId, JoinBy, Title};

    use super::*;
    use crate::change::Change;
    use crate::group::tests::user;
    use crate::group::{GroupChange, Rules};
    use crate::message::{Content, Draft, Place, StoredMessage};

    fn rules(history: HistoryFrom) -> Rules {
        Rules { history, join: Some(JoinBy::Open), ..Rules::default() }
    }

    fn entry(sender: &str, end: Option<crate::End>, content: Content) -> StoredMessage {
        let draft = Draft {
            conversation_id: ConversationId::parse("ch_x").unwrap(),
            sender_id: user(sender),
            client_msg_id: ClientMsgId::parse("m").unwrap(),
            content,
        };
        draft.stored(Place::following(end, Timestamp::from_millis(1), [0; 10]), crate::Follows::default())
    }

    fn channel(history: HistoryFrom) -> Head {
        let title = Title::parse("News").unwrap();
        let create = GroupChange::Create { title: title.clone(), members: vec![], rules: rules(history) };
        let first = entry("ann", None, Content::Group(create));
        Head::first(&first, &GroupChange::create(&user("ann"), &title, &[], rules(history), &first.place))
    }

    fn post(head: &Head, sender: &str) -> StoredMessage {
        let body = "hi".to_owned();
        let kind = wire::Kind::Text;
        entry(sender, Some(head.end), Content::Message { kind, body, media: None, reply_to: None, mentions: vec![] })
    }

    #[test]
    fn who_joins_sees_what_comes_unless_all_is_for_everybody() {
        for (history, first, has_line) in [(HistoryFrom::Joined, 3, false), (HistoryFrom::All, 1, true)] {
            let head = channel(history);
            let head = head.after(&post(&head, "ann"), None);
            let row = ChannelRow::joining(user("bob"), &head, Timestamp::from_millis(5));
            let shown = row.clone().shown(&head);
            assert_eq!((shown.first_seq.value(), shown.unread, shown.read_seq.value()), (first, 0, 2));
            assert_eq!(shown.last_message.is_some(), has_line);
            let next = head.after(&post(&head, "ann"), None);
            let shown = row.shown(&next);
            assert_eq!((shown.unread, shown.last_seq.value(), shown.last_message.is_some()), (1, 3, true));
        }
    }

    #[test]
    fn it_is_archived_until_the_next_message() {
        let head = channel(HistoryFrom::All);
        let mut row = ChannelRow::joining(user("bob"), &head, Timestamp::from_millis(5));
        row.archived_counted = Some(head.counted);
        assert!(row.clone().shown(&head).archived);
        assert!(!row.shown(&head.after(&post(&head, "ann"), None)).archived);
    }

    #[test]
    fn a_message_has_so_many_different_reactions() {
        let emoji = |number: usize| Emoji::parse(&format!("e{number}")).unwrap();
        let mut tally = ReactionTally::default();
        for number in 0..CHANNEL_REACTIONS_MAX {
            assert!(tally.check(Some(&emoji(number))).is_ok());
            tally.counts.insert(emoji(number), 1);
        }
        assert_eq!(tally.check(Some(&emoji(99))), Err(Refusal::LimitReached));
        assert!(tally.check(Some(&emoji(7))).is_ok() && tally.check(None).is_ok());
        tally.own = Some(emoji(3));
        assert!(tally.check(Some(&emoji(99))).is_ok(), "in the place of one that goes");
        tally.counts.insert(emoji(3), 2);
        assert_eq!(tally.check(Some(&emoji(99))), Err(Refusal::LimitReached));
    }

    proptest! {
        /// Whatever is posted, deleted and read, in any order.
        #[test]
        fn unread_is_what_others_wrote_above_the_mark(steps in prop::collection::vec((0u8..5, 0u64..9), 1..60)) {
            let mut head = channel(HistoryFrom::Joined);
            // By seq: how many messages there are up to there, and who wrote it, if it is one.
            let mut log: Vec<(u64, Option<&str>)> = vec![(0, None)];
            let mut row = None::<ChannelRow>;
            for (what, number) in steps {
                let written = match what {
                    0 | 1 => Some((post(&head, "ann"), Some("ann"))),
                    2 if row.is_some() => Some((post(&head, "bob"), Some("bob"))),
                    3 => {
                        let target = Seq::FIRST;
                        Some((entry("ann", Some(head.end), Content::Change { target, change: Change::Delete }), None))
                    }
                    _ => None,
                };
                if let Some((entry, author)) = written {
                    head = head.after(&entry, None);
                    log.push((head.counted, author));
                    if let Some(row) = row.as_mut().filter(|_| author == Some("bob")) {
                        (row.read_seq, row.read_counted) = (head.end.seq, head.counted);
                    }
                } else if let Some(row) = row.as_mut() {
                    let seq = Seq::new(row.read_seq.value() + number).unwrap().min(head.end.seq);
                    (row.read_seq, row.read_counted) = (seq, log[usize::try_from(seq.value()).unwrap() - 1].0);
                } else {
                    row = Some(ChannelRow::joining(user("bob"), &head, Timestamp::from_millis(5)));
                }
                if let Some(row) = &row {
                    let above = log.iter().skip(usize::try_from(row.read_seq.value()).unwrap());
                    let others = above.filter(|(_, author)| author.is_some_and(|author| author != "bob")).count();
                    prop_assert_eq!(row.unread(&head), others as u64);
                }
            }
        }
    }
}
