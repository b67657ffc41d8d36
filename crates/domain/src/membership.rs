//! A conversation as one of its members has it, and how it moves on.
//!
//! Marks only rise, and never pass the last message. Everything here is a pure function of the row as it was read;
//! the store writes the outcome only if the row is still the same.

use std::ops::RangeInclusive;

use wire::{
    ConversationId, ConversationKind, Kind, LastMessage, Member, MessageId, MutedUntil, Role, Seq, System, Timestamp,
    UserId, When,
};

use crate::audience::Audience;
use crate::cursor::Position;
use crate::group::{GroupInfo, Rules};
use crate::limits::{ACTIVE_AT_STEP, COUNTED_MAX};

/// One member's row for one conversation: membership, chat-list entry, unread counter, marks and pending marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    pub with: With,
    pub end: End,
    /// What the chat list shows.
    pub last: LastEntry,
    /// When the row last moved in the chat list's index: at most [`ACTIVE_AT_STEP`] before the last message.
    pub active_at: Timestamp,
    pub marks: Marks,
    /// When a device last said so of the delivered mark, and of the read mark. For the operator.
    pub delivered_at: Option<Timestamp>,
    pub read_at: Option<Timestamp>,
    pub settings: MemberSettings,
    /// Phones were rung for everything up to here, and the member has not read it since: so they may still show it.
    pub notified_seq: Option<Seq>,
}

/// Who else is in a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum With {
    Peer {
        /// The other member; the member itself in a note to oneself.
        peer_id: UserId,
        /// The peer has blocked this member.
        blocked_by_peer: bool,
    },
    Group(View),
}

/// What a member's row says of a group, up to where it has gone over the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub role: Role,
    /// Below it the member sees nothing.
    pub first_seq: Seq,
    /// The entry with which the member left: the last that they see.
    pub left_seq: Option<Seq>,
    /// The last of others' entries that count.
    pub news: Option<News>,
    /// The last of those that name the member.
    pub mentioned_seq: Option<Seq>,
    /// Known to whoever has read it: it is not in the row, and nor is the next.
    pub group: Option<GroupInfo>,
    pub rules: Option<Rules>,
}

/// Something that phones ring for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    pub seq: Seq,
    pub at: Timestamp,
    pub deleted: bool,
}

/// What a member has set for a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberSettings {
    pub muted_until: Option<MutedUntil>,
    /// Until the next message.
    pub archived: bool,
    /// The peer is blocked.
    pub blocked: bool,
}

/// Where a conversation ends, with whatever entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub seq: Seq,
    pub sent_at: Timestamp,
}

/// The newest entry that counts, as far as the chat list needs it. Silent entries come after it and leave it where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEntry {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender_id: UserId,
    pub kind: Kind,
    /// Empty of one that is deleted.
    pub preview: String,
    pub sent_at: Timestamp,
    pub deleted: bool,
    /// Of a system entry, known to whoever has read it.
    pub system: Option<System>,
}

/// How far a member has come in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// A device of the member holds everything up to here.
    pub delivered_seq: Seq,
    /// The member has read everything up to here. Never above `delivered_seq`.
    pub read_seq: Seq,
    /// Others' messages above `read_seq`: entries that count, and are not deleted.
    pub unread: u64,
    /// Of those, the ones that name the member. In groups only.
    pub mentions: u64,
    /// The first entry that no device has acknowledged, while there is one.
    pub pending_from: Option<Seq>,
}

/// A read mark on its way up: what must be counted to know `unread` once it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    seq: Seq,
    before: Marks,
    last: Seq,
    count: Count,
}

/// What to count. Both ways give the same number; this is the shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Count {
    /// Everything is read.
    Nothing,
    /// Others' messages in this range are all that is unread.
    Remaining(RangeInclusive<u64>),
    /// Others' messages in this range are no longer unread.
    NoLonger(RangeInclusive<u64>),
}

impl Membership {
    /// The members of a direct conversation. Of a group only this one: the others are in its roster.
    pub fn audience(&self) -> Audience {
        let own = || self.user_id.clone();
        match &self.with {
            With::Peer { peer_id, .. } => Audience::direct(own(), peer_id.clone()),
            With::Group(_) => Audience::direct(own(), own()),
        }
    }

    /// Who is told of this member's marks: nobody else while one of the two blocks the other, and no service.
    pub fn told_of_marks(&self) -> Audience {
        let is_of_service = matches!(&self.with, With::Peer { peer_id, .. } if peer_id.is_service());
        let is_own_affair = self.is_blocked() || is_of_service;
        if is_own_affair { Audience::direct(self.user_id.clone(), self.user_id.clone()) } else { self.audience() }
    }

    /// Of a group.
    pub fn view(&self) -> Option<&View> {
        match &self.with {
            With::Peer { .. } => None,
            With::Group(view) => Some(view),
        }
    }

    /// Below it the member sees nothing.
    pub fn first_seq(&self) -> Seq {
        self.view().map_or(Seq::FIRST, |view| view.first_seq)
    }

    /// Whether the conversation goes on for this member: not once they have left.
    pub fn is_open(&self) -> bool {
        self.view().is_none_or(|view| view.left_seq.is_none())
    }

    /// Whether a phone that rings for such messages is to ring for the one at `seq`, as far as the member's marks say.
    pub fn awaits(&self, seq: Seq, when: When) -> bool {
        self.mark(when) < seq
    }

    fn mark(&self, when: When) -> Seq {
        match when {
            When::Pending => self.marks.delivered_seq,
            When::Unread => self.marks.read_seq,
        }
    }

    /// How many are unread once the message at `seq`, by somebody else, is deleted; `None` if it was read.
    pub fn unread_without(&self, seq: Seq) -> Option<u64> {
        (seq > self.marks.read_seq).then(|| self.marks.unread.saturating_sub(1))
    }

    /// What phones ring for: the last of others' entries that count, and whether it is deleted. Of a direct conversation it is taken to
    /// be the line, which may also be one's own.
    fn news(&self) -> Option<(Seq, bool)> {
        match &self.with {
            With::Peer { .. } => Some((self.last.seq, self.last.deleted)),
            With::Group(view) => view.news.map(|news| (news.seq, news.deleted)),
        }
    }

    /// Whether that is all that a phone could ring for up to `seq`, and is deleted.
    pub fn has_taken_back(&self, seq: Seq) -> bool {
        let is_deleted = self.news().is_some_and(|(last, deleted)| deleted && last == seq);
        self.marks.unread == 0 || (is_deleted && self.marks.delivered_seq.next() >= seq)
    }

    /// Up to where a phone is rung that is to ring for the message at `seq`: as far as there is something to ring for.
    pub fn rings_up_to(&self, seq: Seq) -> Seq {
        let is_own_line = self.view().is_none() && self.last.sender_id == self.user_id;
        match self.news().filter(|_| !is_own_line) {
            None => seq,
            // What rings is before it.
            Some((last, true)) => last.previous(),
            Some((last, false)) => last,
        }
    }

    /// Whether phones were rung for the message at `seq`.
    pub fn has_rung(&self, seq: Seq) -> bool {
        self.notified_seq.is_some_and(|notified| notified >= seq)
    }

    /// Whether nothing of the conversation rings on a phone that rings for such messages. A mention does, once.
    pub fn is_quiet(&self, when: When, now: Timestamp) -> bool {
        let rung = self.notified_seq.unwrap_or_default().max(self.mark(when));
        let is_called = self.view().and_then(|view| view.mentioned_seq).is_some_and(|mentioned| mentioned > rung);
        let is_muted = self.settings.muted_until.is_some_and(|until| until.is_after(now));
        self.is_blocked() || (is_muted && !is_called)
    }

    /// One of the two blocks the other.
    fn is_blocked(&self) -> bool {
        matches!(self.with, With::Peer { blocked_by_peer: true, .. }) || self.settings.blocked
    }

    /// The row's place in the chat list's index.
    pub fn position(&self) -> Position {
        Position { active_at: self.active_at, conversation_id: self.conversation_id.clone() }
    }

    /// How far this member has come, as other members may see it.
    pub fn member(&self) -> Member {
        let Marks { delivered_seq, read_seq, .. } = self.marks;
        Member { user_id: self.user_id.clone(), delivered_seq, read_seq }
    }

    /// Where the row stands in the chat list's index after a message at `sent_at`. Moving an index entry costs two
    /// writes, so a busy conversation moves once a step; whoever reads a page sorts it by the messages' own times.
    pub fn active_at_after(previous: Option<&Self>, sent_at: Timestamp) -> Timestamp {
        match previous {
            Some(row) if sent_at.since(row.active_at) < ACTIVE_AT_STEP => row.active_at,
            _ => sent_at,
        }
    }

    /// The marks once a device holds everything, and once the user has read it too.
    pub fn caught_up(&self, is_read: bool) -> Marks {
        let (read_seq, unread) =
            if is_read { (self.end.seq, Counted::default()) } else { (self.marks.read_seq, Counted::of(&self.marks)) };
        raised(&self.marks, self.end.seq, self.end.seq, read_seq, unread)
    }

    /// The marks once a device holds everything up to `seq`, or `None` if they already say so.
    pub fn acked(&self, seq: Seq) -> Option<Marks> {
        let seq = seq.min(self.end.seq);
        (seq > self.marks.delivered_seq)
            .then(|| raised(&self.marks, self.end.seq, seq, self.marks.read_seq, Counted::of(&self.marks)))
    }

    /// The read mark on its way to `seq`, or `None` if everything up to there was read before. Where more than [`COUNTED_MAX`]
    /// entries would have to be counted, it comes so far.
    pub fn reading(&self, seq: Seq) -> Option<Reading> {
        let (last, read, seq) = (self.end.seq, self.marks.read_seq, seq.min(self.end.seq));
        let is_far = last.above(seq).min(seq.above(read)) > COUNTED_MAX;
        let seq = if is_far { Seq::new(read.value() + COUNTED_MAX).unwrap_or(seq) } else { seq };
        let count = if seq <= read {
            return None;
        } else if seq == last {
            Count::Nothing
        } else if last.above(seq) <= seq.above(read) {
            Count::Remaining(seq.next().value()..=last.value())
        } else {
            Count::NoLonger(read.next().value()..=seq.value())
        };
        Some(Reading { seq, before: self.marks, last, count })
    }
}

impl Reading {
    /// The messages among which others' must be counted, if any.
    pub fn range(&self) -> Option<&RangeInclusive<u64>> {
        match &self.count {
            Count::Nothing => None,
            Count::Remaining(range) | Count::NoLonger(range) => Some(range),
        }
    }

    /// The marks then; `others` are others' messages in [`Self::range`].
    pub fn marks(&self, others: Counted) -> Marks {
        let Self { seq, before, last, .. } = self;
        let unread = match self.count {
            Count::Nothing => Counted::default(),
            Count::Remaining(_) => others,
            Count::NoLonger(_) => Counted::of(before).without(others),
        };
        raised(before, *last, before.delivered_seq.max(*seq), *seq, unread)
    }
}

/// Messages, and how many of them name the member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub messages: u64,
    pub mentions: u64,
}

impl Counted {
    fn of(marks: &Marks) -> Self {
        Self { messages: marks.unread, mentions: marks.mentions }
    }

    fn without(self, others: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(others.messages),
            mentions: self.mentions.saturating_sub(others.mentions),
        }
    }
}

fn raised(before: &Marks, last: Seq, delivered_seq: Seq, read_seq: Seq, unread: Counted) -> Marks {
    let pending_from = match before.pending_from {
        Some(from) if delivered_seq < last => Some(from.max(delivered_seq.next())),
        _ => None,
    };
    let Counted { messages: unread, mentions } = unread;
    Marks { delivered_seq, read_seq, unread, mentions, pending_from }
}

/// The row as the chat list shows it.
impl From<Membership> for wire::Conversation {
    fn from(row: Membership) -> Self {
        let Membership { conversation_id, with, end, last, marks, settings, .. } = row;
        let MemberSettings { muted_until, archived, blocked } = settings;
        let LastEntry { seq, sender_id, kind, preview, sent_at, deleted, system, .. } = last;
        let (peer_id, view) = match with {
            With::Peer { peer_id, .. } => (Some(peer_id), None),
            With::Group(view) => (None, Some(view)),
        };
        let group = view.as_ref().and_then(|view| view.group.clone());
        let rules = view.as_ref().and_then(|view| view.rules);
        let of_view = view.as_ref();
        Self {
            conversation_id,
            kind: if of_view.is_some() { ConversationKind::Group } else { ConversationKind::Direct },
            peer_id,
            title: of_view.map(|_| group.as_ref().map(|group| group.title.clone()).unwrap_or_default()),
            role: of_view.map(|view| view.role),
            member_count: of_view.map(|_| group.as_ref().map(|group| group.member_count).unwrap_or_default()),
            first_seq: of_view.map(|view| view.first_seq),
            history: rules.map(|rules| rules.history),
            post: rules.map(|rules| rules.post),
            add: rules.map(|rules| rules.add),
            last_message: LastMessage { seq, sender_id, kind, preview, sent_at, deleted, system },
            unread: marks.unread,
            mentions: of_view.map(|_| marks.mentions),
            delivered_seq: marks.delivered_seq,
            read_seq: marks.read_seq,
            last_seq: end.seq,
            muted_until,
            archived,
            blocked,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Place;
    use proptest::prelude::*;

    fn seq(value: u64) -> Seq {
        Seq::new(value).unwrap()
    }

    pub(crate) fn row(last: u64, delivered: u64, read: u64, unread: u64, pending: Option<u64>) -> Membership {
        Membership {
            user_id: UserId::parse("alice").unwrap(),
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            with: With::Peer { peer_id: UserId::parse("bob").unwrap(), blocked_by_peer: false },
            end: End { seq: seq(last), sent_at: Timestamp::from_millis(1_000_000) },
            last: LastEntry {
                seq: seq(last),
                message_id: MessageId::stored("m"),
                sender_id: UserId::parse("bob").unwrap(),
                kind: Kind::Text,
                preview: "hi".to_owned(),
                sent_at: Timestamp::from_millis(1_000_000),
                deleted: false,
                system: None,
            },
            active_at: Timestamp::from_millis(990_000),
            marks: Marks {
                delivered_seq: seq(delivered),
                read_seq: seq(read),
                unread,
                mentions: 0,
                pending_from: pending.map(seq),
            },
            delivered_at: None,
            read_at: None,
            settings: MemberSettings::default(),
            notified_seq: None,
        }
    }

    #[test]
    fn a_busy_conversation_moves_in_the_chat_list_once_a_minute() {
        let row = row(7, 7, 7, 0, None);
        let at = |millis| Membership::active_at_after(Some(&row), Timestamp::from_millis(millis)).millis();
        assert_eq!(at(1_000_001), 990_000);
        assert_eq!(at(990_000 + 59_999), 990_000);
        assert_eq!(at(990_000 + 60_000), 1_050_000);
        assert_eq!(Membership::active_at_after(None, Timestamp::from_millis(3)).millis(), 3);
    }

    #[test]
    fn an_ack_of_the_last_ends_pending_and_one_below_moves_it() {
        let row = row(9, 3, 2, 6, Some(4));
        assert_eq!(row.acked(seq(9)).unwrap(), Marks { delivered_seq: seq(9), pending_from: None, ..row.marks });
        assert_eq!(
            row.acked(seq(6)).unwrap(),
            Marks { delivered_seq: seq(6), pending_from: Some(seq(7)), ..row.marks }
        );
        // Above the last counts as the last; at or below the mark changes nothing.
        assert_eq!(row.acked(seq(1000)), row.acked(seq(9)));
        assert_eq!(row.acked(seq(3)), None);
    }

    #[test]
    fn unread_is_counted_over_the_shorter_range() {
        let row = row(100, 100, 10, 80, None);
        let range = |upto| row.reading(seq(upto)).map(|reading| reading.range().cloned());
        assert_eq!(range(10), None);
        assert_eq!(range(100), Some(None));
        assert_eq!(range(500), Some(None));
        assert_eq!(range(99), Some(Some(100..=100)));
        assert_eq!(range(12), Some(Some(11..=12)));
    }

    #[test]
    fn the_chat_list_shows_what_the_protocol_says() {
        insta::assert_snapshot!(serde_json::to_string(&wire::Conversation::from(row(3, 2, 1, 2, Some(3)))).unwrap(), @r#"{"conversation_id":"dm_x","kind":"direct","peer_id":"bob","last_message":{"seq":3,"sender_id":"bob","kind":"text","preview":"hi","sent_at":"1970-01-01T00:16:40.000Z"},"unread":2,"delivered_seq":2,"read_seq":1,"last_seq":3}"#);
    }

    #[test]
    fn silent_entries_leave_the_chat_lists_line_where_it_is() {
        let mut row = row(3, 2, 1, 2, Some(3));
        row.end = End { seq: seq(5), sent_at: Timestamp::from_millis(2_000_000) };
        row.last.deleted = true;
        let shown = wire::Conversation::from(row.clone());
        assert_eq!((shown.last_seq.value(), shown.last_message.seq.value()), (5, 3));
        assert!(shown.last_message.deleted);
        // Behind the line is something to acknowledge, and to read.
        assert_eq!(row.acked(seq(9)).unwrap().delivered_seq, 5);
        assert_eq!(row.reading(seq(3)).unwrap().range(), Some(&(4..=5)));
        assert_eq!(row.reading(seq(5)).unwrap().range(), None);
        let next = Place::following(Some(row.end), Timestamp::from_millis(0), [0; 10]);
        assert_eq!((next.seq.value(), next.sent_at.millis()), (6, 2_000_001));
    }

    #[test]
    fn a_long_way_is_read_in_steps() {
        let far = row(5_000, 0, 0, 5_000, Some(1));
        let step = |row: &Membership, to| row.reading(seq(to)).unwrap();
        assert_eq!(step(&far, 3_000).range(), Some(&(1..=1_000)));
        let marks = step(&far, 3_000).marks(Counted { messages: 1_000, mentions: 0 });
        assert_eq!((marks.delivered_seq, marks.read_seq, marks.unread), (seq(1_000), seq(1_000), 4_000));
        assert_eq!(marks.pending_from, Some(seq(1_001)));
        // From one of the ends it is not far.
        assert_eq!(step(&far, 1_000).range(), Some(&(1..=1_000)));
        assert_eq!(step(&far, 4_000).range(), Some(&(4_001..=5_000)));
        assert_eq!(step(&far, 5_000).range(), None);
        assert_eq!(step(&far, 3_999).range(), Some(&(1..=1_000)));
    }

    #[test]
    fn nothing_rings_for_what_was_taken_back() {
        let mut row = row(3, 2, 1, 2, Some(3));
        assert!(!row.has_taken_back(seq(3)));
        row.last.deleted = true;
        assert!(row.has_taken_back(seq(3)));
        // There is another before it that no device holds.
        row.marks.delivered_seq = seq(1);
        assert!(!row.has_taken_back(seq(3)));
        row.marks.unread = 0;
        assert!(row.has_taken_back(seq(3)));
    }

    #[test]
    fn marks_are_told_to_nobody_else_while_one_blocks_the_other() {
        let others = |row: &Membership| row.told_of_marks().others().to_vec();
        let free = row(3, 2, 1, 2, Some(3));
        assert_eq!(others(&free), [UserId::parse("bob").unwrap()]);
        let settings = MemberSettings { blocked: true, ..MemberSettings::default() };
        assert!(others(&Membership { settings, ..free.clone() }).is_empty());
        let with = With::Peer { peer_id: UserId::parse("bob").unwrap(), blocked_by_peer: true };
        assert!(others(&Membership { with, ..free }).is_empty());
    }

    /// An entry of somebody else's that counts, one that does not, or an own one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Wrote {
        Other,
        Silent,
        Own,
    }

    /// A conversation as a list of its entries, and the row that is true of it.
    fn history() -> impl Strategy<Value = (Vec<Wrote>, Membership)> {
        let entry = prop::sample::select(vec![Wrote::Other, Wrote::Silent, Wrote::Own]);
        prop::collection::vec(entry, 1..60).prop_flat_map(|entries| {
            let last = entries.len() as u64;
            (Just(entries), 0..=last).prop_flat_map(move |(entries, delivered)| {
                (Just(entries), Just(delivered), 0..=delivered).prop_map(move |(entries, delivered, read)| {
                    let unread = count(&entries, read + 1, last);
                    let pending = (delivered < last).then_some(delivered + 1);
                    let mut row = row(last, delivered, read, unread, pending);
                    let shown = entries.iter().rposition(|entry| *entry != Wrote::Silent);
                    row.last.seq = seq(shown.map_or(1, |index| index as u64 + 1));
                    (entries, row)
                })
            })
        })
    }

    fn count(entries: &[Wrote], from: u64, to: u64) -> u64 {
        (from..=to).filter(|n| entries[usize::try_from(*n).unwrap() - 1] == Wrote::Other).count() as u64
    }

    proptest! {
        #[test]
        fn reading_keeps_unread_exact_and_marks_rising((entries, row) in history(), upto in 1u64..80) {
            let upto = seq(upto);
            let Some(reading) = row.reading(upto) else {
                prop_assert!(upto.min(row.end.seq) <= row.marks.read_seq);
                return Ok(());
            };
            let others = reading.range().map_or(0, |range| count(&entries, *range.start(), *range.end()));
            let after = reading.marks(Counted { messages: others, mentions: 0 });
            prop_assert_eq!(after.read_seq, upto.min(row.end.seq));
            prop_assert!(after.read_seq > row.marks.read_seq);
            prop_assert_eq!(after.delivered_seq, row.marks.delivered_seq.max(after.read_seq));
            prop_assert_eq!(after.unread, count(&entries, after.read_seq.value() + 1, row.end.seq.value()));
            prop_assert_eq!(after.pending_from, (after.delivered_seq < row.end.seq).then(|| after.delivered_seq.next()));
        }

        #[test]
        fn acks_never_lower_a_mark_nor_pass_the_end((_, row) in history(), upto in 1u64..80) {
            match row.acked(seq(upto)) {
                None => prop_assert!(seq(upto) <= row.marks.delivered_seq || row.marks.delivered_seq == row.end.seq),
                Some(after) => {
                    prop_assert!(after.delivered_seq > row.marks.delivered_seq && after.delivered_seq <= row.end.seq);
                    prop_assert_eq!((after.read_seq, after.unread), (row.marks.read_seq, row.marks.unread));
                    prop_assert_eq!(after.pending_from.is_some(), after.delivered_seq < row.end.seq);
                }
            }
        }

        #[test]
        fn the_index_lags_the_last_message_by_less_than_a_step(gaps in prop::collection::vec(0i64..200_000, 1..40)) {
            let (mut now, mut conversation) = (Timestamp::from_millis(0), None::<Membership>);
            for gap in gaps {
                now = Timestamp::from_millis(now.millis() + gap);
                let Place { seq, sent_at, .. } = Place::following(conversation.as_ref().map(|row| row.end), now, [0; 10]);
                let active_at = Membership::active_at_after(conversation.as_ref(), sent_at);
                prop_assert!(active_at <= sent_at && sent_at.since(active_at) < ACTIVE_AT_STEP);
                let mut moved = row(1, 0, 0, 0, None);
                (moved.end, moved.active_at) = (End { seq, sent_at }, active_at);
                conversation = Some(moved);
            }
        }
    }
}
