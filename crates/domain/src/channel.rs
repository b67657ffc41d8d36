//! Channels: a member's row, and the state that follows from it and the channel's head. A post writes no member's row.

use wire::limits::{POLL_MAX_MS, POLL_MS};
use wire::{
    Channel, ConversationId, ConversationKind, HistoryFrom, LastMessage, MutedUntil, Role, Seq, Timestamp, UserId,
};

use crate::entry::LastEntry;
use crate::group::{Head, RosterRow};

/// Requests per second for the history of a channel by all clients without a subscription. One item takes 3,000 reads
/// per second, of these clients and of all others.
const POLLS_A_SECOND_MAX: u64 = 250;

/// A member's row, which is the membership. A former member has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelRow {
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    pub role: Role,
    /// The newest entry when they joined.
    pub joined_seq: Seq,
    /// Distinguishes this membership from an earlier or later one.
    pub joined_at: Timestamp,
    /// Below it they see nothing.
    pub first_seq: Seq,
    pub read_seq: Seq,
    /// How many messages there are up to `read_seq`. None of those above it is the member's own, since who posts has
    /// read.
    pub read_counted: u64,
    /// When a device raised the read mark.
    pub read_at: Option<Timestamp>,
    pub muted_until: Option<MutedUntil>,
    /// Archived as long as there are no more messages than this.
    pub archived_counted: Option<u64>,
    /// The member has marked it as unread, and has read nothing since.
    pub marked_unread: bool,
    /// Among the pinned channels.
    pub pinned: bool,
    /// The last message that mentions the member.
    pub mention: Option<Mention>,
    /// Phones have a push up to here.
    pub notified_seq: Option<Seq>,
    /// Another user added them.
    pub is_added: bool,
    /// Until then they may only read.
    pub restricted_until: Option<MutedUntil>,
}

/// A message of a channel that mentions a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention {
    pub seq: Seq,
    pub at: Timestamp,
    /// The owner, an admin or a service wrote the message, so it sends a push although the channel is muted.
    pub is_loud: bool,
}

impl ChannelRow {
    /// Whether the channel is muted for this mention.
    pub fn is_quiet(&self, mention: Mention, now: Timestamp) -> bool {
        !mention.is_loud && self.muted_until.is_some_and(|until| until.is_after(now))
    }

    /// Returns the row of a user who joins, which is no entry.
    pub fn joining(user_id: UserId, head: &Head, joined_at: Timestamp) -> Self {
        let (joined_seq, role) = (head.end.seq, Role::Member);
        let from_seq = match head.rules.history {
            HistoryFrom::Joined => joined_seq.next(),
            HistoryFrom::All => Seq::FIRST,
        };
        let row = RosterRow { from_seq, ..RosterRow::joined(user_id, role, joined_seq, head.rules.history) };
        let by = row.user_id.clone();
        Self { read_seq: joined_seq, ..Self::added(&row, head, joined_at, &by) }
    }

    /// Returns the row of a user added by an entry of `by`; `head` includes that entry.
    pub fn added(row: &RosterRow, head: &Head, joined_at: Timestamp, by: &UserId) -> Self {
        Self {
            is_added: row.user_id != *by,
            user_id: row.user_id.clone(),
            conversation_id: head.conversation_id.clone(),
            role: row.role,
            joined_seq: row.joined_seq,
            joined_at,
            first_seq: row.from_seq,
            read_seq: row.joined_seq.previous(),
            read_counted: head.counted,
            read_at: None,
            muted_until: None,
            archived_counted: None,
            marked_unread: false,
            pinned: false,
            mention: None,
            notified_seq: None,
            restricted_until: None,
        }
    }

    /// As one of a roster, by which it is decided who may what.
    pub fn as_member(&self) -> RosterRow {
        let Self { user_id, role, joined_seq, first_seq: from_seq, restricted_until, .. } = self.clone();
        RosterRow { user_id, role, joined_seq, from_seq, left_seq: None, leaves: 0, restricted_until }
    }

    /// Returns the number of unread messages, by the log head's count.
    pub fn unread(&self, head: &Head) -> u64 {
        head.counted.saturating_sub(self.read_counted)
    }

    /// As the list of channels shows it. The line may be from before the member joined: then it is not theirs.
    pub fn shown(self, head: &Head, now: Timestamp) -> Channel {
        let LastEntry { seq, sender_id, kind, preview, sent_at, deleted, system, .. } = head.line.clone();
        let last_message = LastMessage { seq, sender_id, kind, preview, sent_at, deleted, system };
        Channel {
            unread: self.unread(head),
            conversation_id: self.conversation_id,
            kind: ConversationKind::Channel,
            title: head.group.title.clone(),
            info_seq: head.group.info_seq,
            role: self.role,
            first_seq: self.first_seq,
            history: head.rules.history,
            post: head.rules.post,
            add: head.rules.add,
            join: head.rules.join.unwrap_or_default(),
            rings: head.rules.rings,
            last_message: (seq >= self.first_seq).then_some(last_message),
            // The head may be from before the row.
            read_seq: self.read_seq.min(head.end.seq),
            last_seq: head.end.seq,
            mentioned_seq: self.mention.map(|mention| mention.seq).filter(|seq| self.read_seq < *seq),
            muted_until: self.muted_until,
            archived: self.archived_counted.is_some_and(|counted| counted >= head.counted),
            marked_unread: self.marked_unread,
            pinned: self.pinned,
            restricted_until: self.restricted_until.filter(|until| until.is_after(now)),
        }
    }
}

/// Returns the interval of requests for a channel's history by a client without a subscription, because too many have
/// one. All such clients together send [`POLLS_A_SECOND_MAX`] requests per second at most, once each has the current
/// number. Each request reads the channel's head, one item.
pub fn poll_ms(turned_away: u64) -> u64 {
    (turned_away.saturating_mul(1_000) / POLLS_A_SECOND_MAX).clamp(POLL_MS, POLL_MAX_MS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::{ClientMsgId, JoinBy, Look, Title};

    #[test]
    fn a_crowd_asks_no_more_often_than_one_item_can_be_read() {
        assert_eq!([0, 1, 2_500, 25_000, u64::MAX].map(poll_ms), [10_000, 10_000, 10_000, 100_000, 600_000]);
        // Clients come one after another, and each gets an interval by the number before.
        let asked: u64 = (1..=100_000).map(|number| 1_000_000_000 / poll_ms(number)).sum();
        assert!(asked / 1_000_000 < 1_200, "{asked} in a million seconds");
    }

    use super::*;
    use crate::draft::{Change, Content, Draft, GroupChange, Rules};
    use crate::entry::{Entry, Place};
    use crate::group::tests::user;

    fn rules(history: HistoryFrom) -> Rules {
        Rules { history, join: Some(JoinBy::Open), ..Rules::default() }
    }

    fn entry(sender: &str, end: Option<crate::End>, content: Content) -> Entry {
        let draft = Draft {
            conversation_id: ConversationId::parse("ch_x").unwrap(),
            sender_id: user(sender),
            client_msg_id: ClientMsgId::parse("m").unwrap(),
            content,
            rewritten_from: None,
        };
        draft.stored(Place::following(end, Timestamp::from_millis(1), [0; 10]), crate::Follows::default())
    }

    fn channel(history: HistoryFrom) -> Head {
        let title = Title::parse("News").unwrap();
        let create = GroupChange::Create {
            title: title.clone(),
            members: vec![],
            rules: rules(history),
            encrypted: false,
            look: Box::default(),
        };
        let first = entry("ann", None, Content::Group(create));
        Head::first(
            &first,
            &GroupChange::create(&user("ann"), (&title, &Look::default()), &[], rules(history), &first.place),
            false,
        )
    }

    fn post(head: &Head, sender: &str) -> Entry {
        let body = "hi".to_owned();
        let kind = wire::Kind::Text;
        entry(
            sender,
            Some(head.end),
            Content::Message { kind, body, media: None, data: None, reply_to: None, mentions: vec![] },
        )
    }

    #[test]
    fn who_joins_sees_what_comes_unless_all_is_for_everybody() {
        for (history, first, has_line) in [(HistoryFrom::Joined, 3, false), (HistoryFrom::All, 1, true)] {
            let head = channel(history);
            let head = head.after(&post(&head, "ann"), None);
            let row = ChannelRow::joining(user("bob"), &head, Timestamp::from_millis(5));
            let shown = row.clone().shown(&head, Timestamp::from_millis(9));
            assert_eq!((shown.first_seq.value(), shown.unread, shown.read_seq.value()), (first, 0, 2));
            assert_eq!(shown.last_message.is_some(), has_line);
            let next = head.after(&post(&head, "ann"), None);
            let shown = row.shown(&next, Timestamp::from_millis(9));
            assert_eq!((shown.unread, shown.last_seq.value(), shown.last_message.is_some()), (1, 3, true));
        }
    }

    #[test]
    fn it_is_archived_until_the_next_message() {
        let head = channel(HistoryFrom::All);
        let mut row = ChannelRow::joining(user("bob"), &head, Timestamp::from_millis(5));
        row.archived_counted = Some(head.counted);
        assert!(row.clone().shown(&head, Timestamp::from_millis(9)).archived);
        assert!(!row.shown(&head.after(&post(&head, "ann"), None), Timestamp::from_millis(9)).archived);
    }

    proptest! {
        /// Posts, deletes and reads in any order.
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
