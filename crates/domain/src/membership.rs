//! A member's view of a conversation, and its next states.
//!
//! Marks only rise, and never pass the last message. Everything here is a pure function of the row as it was read. The
//! store writes the result only if the row is still the same.

use std::ops::RangeInclusive;

use wire::limits::PREVIEW_CHARS_MAX;
use wire::{
    ConversationId, ConversationKind, Kind, LastMessage, Member, MutedUntil, Role, Seq, Timestamp, UserId, When,
};

use crate::audience::Audience;
use crate::cursor::Position;
use crate::draft::Rules;
use crate::entry::{End, GroupInfo, LastEntry, Sight};
use crate::limits::{ACTIVE_AT_STEP, COUNTED_MAX};
use crate::look::Look;

/// One member's row for one conversation: membership, chat-list entry, unread counter, marks and pending marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    pub with: With,
    pub end: End,
    /// The chat list's last message.
    pub last: LastEntry,
    /// When the row last moved in the chat list's index: at most [`ACTIVE_AT_STEP`] before the last message. The row of
    /// a group that came to the message late moved when it came.
    pub active_at: Timestamp,
    pub marks: Marks,
    /// When a device raised the delivered mark, and the read mark.
    pub delivered_at: Option<Timestamp>,
    pub read_at: Option<Timestamp>,
    pub settings: MemberSettings,
    /// The number of commits of the conversation. 0: the conversation is plain.
    pub epoch: u64,
    /// Direct conversations only: the pinned messages, the last pinned first.
    pub pins: Vec<Seq>,
    /// Pushes were sent up to here, and the member has not read that message since: phones may still show it.
    pub notified_seq: Option<Seq>,
    /// A badge on a phone counts this conversation, though phones show nothing of it.
    pub is_badged: bool,
    /// The retry for `notify` that this step writes. A row that was read has none.
    pub look: Option<Look>,
}

/// The other members of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum With {
    Peer {
        /// The other member; the member itself in a note to self.
        peer_id: UserId,
        /// The peer has blocked this member.
        blocked_by_peer: bool,
        /// This member has written to the peer.
        wrote: bool,
        /// The peer has written to this member. Until then the member is a stranger to the peer.
        peer_wrote: bool,
    },
    Group(View),
}

/// A member's view of a group, up to the last applied entry.
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
    /// How often the member left by themselves since they last came by themselves.
    pub leaves: u64,
    /// Until then the member may only read. A former member keeps it, for a return.
    pub restricted_until: Option<MutedUntil>,
    /// For each earlier membership with pending entries at the next join: the first and last of them, in order.
    pub earlier: Vec<(Seq, Seq)>,
    /// The stream record for which `fanout` moved the row last; `None` for another run.
    pub moved_by: Option<u64>,
    /// Known only after a read of the log head: the row has neither this nor the rules.
    pub group: Option<GroupInfo>,
    pub rules: Option<Rules>,
    /// The group takes nothing in the clear. Known with the rules.
    pub encrypted: bool,
}

/// A message for which phones get a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    pub seq: Seq,
    pub at: Timestamp,
    pub deleted: bool,
}

/// A member's settings for a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is set for itself")]
pub struct MemberSettings {
    pub muted_until: Option<MutedUntil>,
    /// While the conversation is muted, mentions cause no push either.
    pub mute_mentions: bool,
    /// Until the next message.
    pub archived: bool,
    /// Shown as unread until the next read.
    pub marked_unread: bool,
    /// Among the pinned conversations.
    pub pinned: bool,
    /// The peer is blocked.
    pub blocked: bool,
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
    /// Unread messages that mention the member. Groups only.
    pub mentions: u64,
    /// The first entry that no device has acknowledged, while there is one.
    pub pending_from: Option<Seq>,
}

impl Marks {
    /// Returns the author's marks with an entry of the author at `seq`, right behind `end`. A mark follows if it is at
    /// `end`: a user who has not caught up must still be able to drain. If the author had read all before it, both do.
    #[must_use]
    pub fn with_own(self, end: Seq, seq: Seq, read_all: bool) -> Self {
        let follow = |mark: Seq| if read_all || mark == end { seq } else { mark };
        let (delivered_seq, read_seq) = (follow(self.delivered_seq), follow(self.read_seq));
        if read_all {
            return Self { delivered_seq, read_seq, unread: 0, mentions: 0, pending_from: None };
        }
        Self { delivered_seq, read_seq, ..self }
    }
}

/// A read mark on its way up: what must be counted to know `unread` once it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    seq: Seq,
    before: Marks,
    last: Seq,
    count: Count,
}

/// The messages to count. Both ways give the same number; the smaller is chosen.
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
    /// Returns the members of a direct conversation. For a group it has only this member: the member list has the
    /// others.
    pub fn audience(&self) -> Audience {
        let own = || self.user_id.clone();
        match &self.with {
            With::Peer { peer_id, .. } => Audience::direct(own(), peer_id.clone()),
            With::Group(_) => Audience::direct(own(), own()),
        }
    }

    /// Returns the users who get receipts for this member's marks: no other user while a block exists, and no service.
    pub fn told_of_marks(&self) -> Audience {
        let is_of_service = matches!(&self.with, With::Peer { peer_id, .. } if peer_id.is_service());
        let is_own_affair = self.is_blocked() || is_of_service;
        if is_own_affair { Audience::direct(self.user_id.clone(), self.user_id.clone()) } else { self.audience() }
    }

    /// Reports whether the mark may have been raised at this time or later. An acknowledgement or read raises it, or an
    /// own message. Such a message is the last entry then, or a later entry will raise the mark again.
    pub fn is_raised_since(&self, mark: Seq, raised_at: Option<Timestamp>, since: Timestamp) -> bool {
        raised_at.is_some_and(|at| at >= since) || (mark >= self.end.seq && self.end.sent_at >= since)
    }

    /// Returns the users who get `typing` events of this member: as for receipts, but no stranger. Otherwise a user who
    /// never replied would reveal to be online.
    pub fn told_of_typing(&self) -> Audience {
        match self.with {
            With::Peer { wrote: false, .. } => Audience::direct(self.user_id.clone(), self.user_id.clone()),
            With::Peer { wrote: true, .. } | With::Group(_) => self.told_of_marks(),
        }
    }

    /// Whether this member may know if the other is there: once the other has written to them, while neither blocks the
    /// other.
    pub fn sees_peer(&self) -> bool {
        matches!(&self.with, With::Peer { peer_wrote: true, peer_id, .. } if !peer_id.is_service())
            && !self.is_blocked()
    }

    /// Returns the view of a group.
    pub fn view(&self) -> Option<&View> {
        match &self.with {
            With::Peer { .. } => None,
            With::Group(view) => Some(view),
        }
    }

    /// Reports whether a single short text is pending, by the last message. A group's last message is elsewhere.
    pub fn awaits_a_short_text(&self) -> bool {
        let is_one = self.view().is_none() && self.end.seq.above(self.marks.delivered_seq) == 1;
        let is_text = self.last.seq == self.end.seq && self.last.kind == Kind::Text;
        is_one && is_text && self.last.preview.chars().count() < PREVIEW_CHARS_MAX
    }

    /// Below it the member sees nothing.
    pub fn first_seq(&self) -> Seq {
        self.view().map_or(Seq::FIRST, |view| view.first_seq)
    }

    /// Returns the entries that the member sees, up to the last applied one.
    pub fn sight(&self) -> Sight {
        let of_group = |view: &View| Sight {
            first: view.first_seq,
            last: view.left_seq.unwrap_or(self.end.seq),
            has_left: view.left_seq.is_some(),
        };
        self.view().map_or(Sight::WHOLE, of_group)
    }

    /// Returns the pending entries of earlier memberships: first and last of each, in order. `pending_from` is in the
    /// first of them.
    pub fn owed(&self) -> Vec<(Seq, Seq)> {
        let (Some(pending), Some(view)) = (self.marks.pending_from, self.view()) else { return vec![] };
        let owed = view.earlier.iter().filter(|(_, last)| *last >= pending);
        owed.map(|(first, last)| ((*first).max(pending), *last)).collect()
    }

    /// The same, and what waits of the time as a member that the row is about.
    pub fn waiting(&self) -> Vec<(Seq, Seq)> {
        let mut waiting = self.owed();
        if let Some(pending) = self.marks.pending_from.filter(|_| self.marks.delivered_seq < self.end.seq) {
            waiting.push((pending.max(self.marks.delivered_seq.next()), self.end.seq));
        }
        waiting
    }

    /// Whether the conversation goes on for this member: not once they have left.
    pub fn is_open(&self) -> bool {
        self.view().is_none_or(|view| view.left_seq.is_none())
    }

    /// Reports whether the member's marks still allow a push for the message at `seq`, for a phone with this setting.
    pub fn awaits(&self, seq: Seq, when: When) -> bool {
        self.mark(when) < seq
    }

    fn mark(&self, when: When) -> Seq {
        match when {
            When::Pending => self.marks.delivered_seq,
            When::Unread => self.marks.read_seq,
        }
    }

    /// Returns the unread count after a delete of another user's message at `seq`; `None` if it was read.
    pub fn unread_without(&self, seq: Seq) -> Option<u64> {
        (seq > self.marks.read_seq).then(|| self.marks.unread.saturating_sub(1))
    }

    /// Returns the last entry that a push shows, and whether it is deleted: the last counting entry of another user. In
    /// a direct conversation it counts as the last message, which may also be the user's own.
    fn news(&self) -> Option<(Seq, bool)> {
        match &self.with {
            With::Peer { .. } => Some((self.last.seq, self.last.deleted)),
            With::Group(view) => view.news.map(|news| (news.seq, news.deleted)),
        }
    }

    /// Reports whether the only messages that a push could show up to `seq` are deleted.
    pub fn has_taken_back(&self, seq: Seq) -> bool {
        let is_deleted = self.news().is_some_and(|(last, deleted)| deleted && last == seq);
        self.marks.unread == 0 || (is_deleted && self.marks.delivered_seq.next() >= seq)
    }

    /// Returns the last entry of a push for the message at `seq`, up to the last one with content.
    pub fn rings_up_to(&self, seq: Seq) -> Seq {
        let is_own_line = self.view().is_none() && self.last.sender_id == self.user_id;
        match self.news().filter(|_| !is_own_line) {
            None => seq,
            // The push shows an entry before it.
            Some((last, true)) => last.previous(),
            Some((last, false)) => last,
        }
    }

    /// Reports whether a push was sent for the message at `seq`.
    pub fn has_rung(&self, seq: Seq) -> bool {
        self.notified_seq.is_some_and(|notified| notified >= seq)
    }

    /// Reports whether a phone with this setting gets no push of the conversation. A mention causes one push, unless
    /// mentions are muted too.
    pub fn is_quiet(&self, when: When, now: Timestamp) -> bool {
        let rung = self.notified_seq.unwrap_or_default().max(self.mark(when));
        let is_called = self.view().and_then(|view| view.mentioned_seq).is_some_and(|mentioned| mentioned > rung);
        let is_muted = self.settings.muted_until.is_some_and(|until| until.is_after(now));
        self.is_blocked() || (is_muted && (self.settings.mute_mentions || !is_called))
    }

    /// A block exists between the two users.
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

    /// Returns the row's place in the chat list's index after a message at `sent_at`. Moving an index entry costs two
    /// writes, so a busy conversation moves once a step; a reader sorts the page by the messages' own times.
    pub fn active_at_after(previous: Option<&Self>, sent_at: Timestamp) -> Timestamp {
        match previous {
            Some(row) if sent_at.since(row.active_at) < ACTIVE_AT_STEP => row.active_at,
            _ => sent_at,
        }
    }

    /// Returns the place for a row that gets the message only now. A message of the last [`ACTIVE_AT_STEP`] counts from
    /// its own time. An older one counts from now: a device that caught up in between finds the row by a `since` of
    /// that time.
    pub fn active_at_on_arrival(previous: Option<&Self>, sent_at: Timestamp, now: Timestamp) -> Timestamp {
        let is_late = now.since(sent_at) >= ACTIVE_AT_STEP;
        Self::active_at_after(previous, if is_late { now } else { sent_at })
    }

    /// When the conversation moved up for this member: with its last message, or when the row came to that late.
    pub fn moved_up_at(&self) -> Timestamp {
        self.last.sent_at.max(self.active_at)
    }

    /// The marks once a device holds everything, and once the user has read it too.
    pub fn caught_up(&self, is_read: bool) -> Marks {
        let (read_seq, unread) =
            if is_read { (self.end.seq, Counted::default()) } else { (self.marks.read_seq, Counted::of(&self.marks)) };
        raised(&self.marks, self.end.seq, self.end.seq, read_seq, unread)
    }

    /// Returns the marks after a device has saved everything up to `seq`, or `None` if they do not change.
    pub fn acked(&self, seq: Seq) -> Option<Marks> {
        let seq = seq.min(self.end.seq);
        if seq > self.marks.delivered_seq {
            return Some(raised(&self.marks, self.end.seq, seq, self.marks.read_seq, Counted::of(&self.marks)));
        }
        // Something of an earlier time as a member: the mark is above it.
        let (first, _) = self.owed().first().copied().filter(|(first, _)| *first <= seq)?;
        debug_assert!(first <= self.marks.delivered_seq);
        let next = self.waiting().into_iter().find(|(_, last)| *last > seq);
        Some(Marks { pending_from: next.map(|(first, _)| first.max(seq.next())), ..self.marks })
    }

    /// The read mark on its way to `seq`, or `None` if everything up to there was read before. Where more than
    /// [`COUNTED_MAX`] entries would have to be counted, it comes so far.
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

impl Membership {
    /// Returns the row as the chat list shows it at this time.
    pub fn shown(self, now: Timestamp) -> wire::Conversation {
        let is_open = self.is_open();
        let Membership { conversation_id, with, end, last, marks, settings, epoch, .. } = self;
        let MemberSettings { muted_until, mute_mentions, archived, marked_unread, pinned, blocked } = settings;
        let LastEntry { seq, sender_id, kind, preview, sent_at, deleted, system, .. } = last;
        let (peer_id, view) = match with {
            With::Peer { peer_id, .. } => (Some(peer_id), None),
            With::Group(view) => (None, Some(view)),
        };
        let group = view.as_ref().and_then(|view| view.group.clone());
        let rules = view.as_ref().and_then(|view| view.rules);
        let of_view = view.as_ref();
        let member = of_view.filter(|view| view.left_seq.is_none());
        let restricted_until = member.and_then(|view| view.restricted_until);
        let is_encrypted = epoch > 0 || of_view.is_some_and(|view| view.encrypted);
        wire::Conversation {
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
            mute_mentions,
            archived,
            marked_unread,
            pinned: pinned && is_open,
            restricted_until: restricted_until.filter(|until| until.is_after(now)),
            info_seq: group.and_then(|group| group.info_seq),
            blocked,
            encrypted: is_encrypted,
            epoch: is_encrypted.then_some(epoch),
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

    fn peer(wrote: bool, peer_wrote: bool) -> With {
        With::Peer { peer_id: UserId::parse("bob").unwrap(), blocked_by_peer: false, wrote, peer_wrote }
    }

    pub(crate) fn row(last: u64, delivered: u64, read: u64, unread: u64, pending: Option<u64>) -> Membership {
        Membership {
            user_id: UserId::parse("alice").unwrap(),
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            with: peer(true, true),
            end: End { seq: seq(last), sent_at: Timestamp::from_millis(1_000_000) },
            last: LastEntry {
                seq: seq(last),
                message_id: wire::MessageId::stored("m"),
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
            epoch: 0,
            pins: vec![],
            notified_seq: None,
            is_badged: false,
            look: None,
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
        insta::assert_snapshot!(serde_json::to_string(&row(3, 2, 1, 2, Some(3)).shown(Timestamp::from_millis(0))).unwrap(), @r#"{"conversation_id":"dm_x","kind":"direct","peer_id":"bob","last_message":{"seq":3,"sender_id":"bob","kind":"text","preview":"hi","sent_at":"1970-01-01T00:16:40.000Z"},"unread":2,"delivered_seq":2,"read_seq":1,"last_seq":3}"#);
    }

    #[test]
    fn silent_entries_leave_the_chat_lists_line_where_it_is() {
        let mut row = row(3, 2, 1, 2, Some(3));
        row.end = End { seq: seq(5), sent_at: Timestamp::from_millis(2_000_000) };
        row.last.deleted = true;
        let shown = row.clone().shown(Timestamp::from_millis(0));
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
        assert!(others(&Membership { settings, ..free.clone() }).is_empty(), "{settings:?}");
        let With::Peer { peer_id, wrote, peer_wrote, .. } = free.with.clone() else { panic!() };
        let with = With::Peer { peer_id, blocked_by_peer: true, wrote, peer_wrote };
        let blocked = Membership { with, ..free.clone() };
        assert!(others(&blocked).is_empty() && blocked.told_of_typing().others().is_empty());
        assert!(!blocked.sees_peer() && !Membership { settings, ..free }.sees_peer());
    }

    #[test]
    fn a_stranger_learns_of_marks_and_of_nothing_else() {
        for (wrote, peer_wrote) in [(true, false), (false, true), (true, true)] {
            let row = Membership { with: peer(wrote, peer_wrote), ..row(3, 2, 1, 2, Some(3)) };
            assert_eq!(row.told_of_marks().others().len(), 1);
            assert_eq!((row.told_of_typing().others().len(), row.sees_peer()), (usize::from(wrote), peer_wrote));
        }
    }

    #[test]
    fn a_mention_rings_though_muted_unless_that_is_muted_too() {
        let mut row = row(3, 1, 1, 2, Some(3));
        let view = View {
            role: Role::Member,
            first_seq: Seq::FIRST,
            left_seq: None,
            news: None,
            mentioned_seq: Some(seq(3)),
            leaves: 0,
            restricted_until: None,
            earlier: vec![],
            moved_by: None,
            group: None,
            rules: None,
            encrypted: false,
        };
        row.with = With::Group(view);
        let now = Timestamp::from_millis(1);
        let mut quiet = |muted_until, mute_mentions| {
            row.settings = MemberSettings { muted_until, mute_mentions, ..MemberSettings::default() };
            row.is_quiet(When::Pending, now)
        };
        let forever = Some(MutedUntil::Forever);
        assert_eq!([quiet(None, false), quiet(None, true)], [false, false], "it is not muted");
        assert_eq!([quiet(forever, false), quiet(forever, true)], [false, true]);
    }

    /// A counting entry of another user, one that does not count, or an own one.
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
