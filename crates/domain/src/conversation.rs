//! A conversation as one of its members has it, and how it moves on.
//!
//! Watermarks only rise, and never pass the last message. Everything here is a pure function of the row as it was read;
//! the store writes the outcome only if the row is still the same.

use std::ops::RangeInclusive;

use serde::{Serialize, Serializer};

use crate::ids::{ConversationId, MessageId, Seq, UserId};
use crate::limits::ACTIVE_AT_STEP;
use crate::message::Kind;
use crate::time::Timestamp;

/// One member's row for one conversation: membership, chat-list entry, unread counter, watermarks and pending marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub conversation_id: ConversationId,
    /// The other member; the member itself in a note to oneself.
    pub peer_id: UserId,
    pub last: LastMessage,
    /// When the row last moved in the chat list's index: at most [`ACTIVE_AT_STEP`] before the last message.
    pub active_at: Timestamp,
    pub marks: Marks,
}

/// The newest message, as far as the chat list and the next message need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastMessage {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender_id: UserId,
    pub kind: Kind,
    pub preview: String,
    pub sent_at: Timestamp,
}

/// How far a member has come in a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// A device of the member holds everything up to here.
    pub delivered_seq: Seq,
    /// The member has read everything up to here. Never above `delivered_seq`.
    pub read_seq: Seq,
    /// Others' messages above `read_seq`.
    pub unread: u64,
    /// The first message that no device has acknowledged, while there is one.
    pub pending_from: Option<Seq>,
}

/// What to count to know `unread` once more is read. Both ways give the same number; this is the shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Everything is read.
    Nothing,
    /// Others' messages in this range are all that is unread.
    Remaining(RangeInclusive<u64>),
    /// Others' messages in this range are no longer unread.
    NoLonger(RangeInclusive<u64>),
}

impl Conversation {
    /// The place and time of the message after `previous`, which is a member's row or nothing before the first message.
    /// Times rise strictly within a conversation, so that message ids sort as seqs do, whatever the clocks of the
    /// machines say.
    pub fn following(previous: Option<&Self>, now: Timestamp) -> (Seq, Timestamp) {
        match previous {
            None => (Seq::ZERO.next(), now),
            Some(row) => (row.last.seq.next(), now.max(Timestamp::from_millis(row.last.sent_at.millis() + 1))),
        }
    }

    /// Where the row stands in the chat list's index after a message at `sent_at`. Moving an index entry costs two
    /// writes, so a busy conversation moves once a step; whoever reads a page sorts it by the messages' own times.
    pub fn active_at_after(previous: Option<&Self>, sent_at: Timestamp) -> Timestamp {
        previous.map(|row| row.active_at).filter(|at| sent_at.since(*at) < ACTIVE_AT_STEP).unwrap_or(sent_at)
    }

    /// The marks once a device holds everything up to `seq`, or `None` if they already say so.
    pub fn acked(&self, seq: Seq) -> Option<Marks> {
        let seq = seq.min(self.last.seq);
        (seq > self.marks.delivered_seq).then(|| self.raised(seq, self.marks.read_seq, self.marks.unread))
    }

    /// What must be counted before [`Self::read`], or `None` if everything up to `seq` was read before.
    pub fn unread_after(&self, seq: Seq) -> Option<Unread> {
        let (last, read, seq) = (self.last.seq, self.marks.read_seq, seq.min(self.last.seq));
        if seq <= read {
            None
        } else if seq == last {
            Some(Unread::Nothing)
        } else if last.above(seq) <= seq.above(read) {
            Some(Unread::Remaining(seq.next().value()..=last.value()))
        } else {
            Some(Unread::NoLonger(read.next().value()..=seq.value()))
        }
    }

    /// The marks once everything up to `seq` is read; `counted` are others' messages in the range of `unread`.
    pub fn read(&self, seq: Seq, unread: &Unread, counted: u64) -> Marks {
        let seq = seq.min(self.last.seq);
        let unread = match unread {
            Unread::Nothing => 0,
            Unread::Remaining(_) => counted,
            Unread::NoLonger(_) => self.marks.unread.saturating_sub(counted),
        };
        self.raised(self.marks.delivered_seq.max(seq), seq, unread)
    }

    fn raised(&self, delivered_seq: Seq, read_seq: Seq, unread: u64) -> Marks {
        let pending = self.marks.pending_from.filter(|_| delivered_seq < self.last.seq);
        Marks { delivered_seq, read_seq, unread, pending_from: pending.map(|from| from.max(delivered_seq.next())) }
    }
}

/// A conversation, as the chat list shows it to one of its members.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Conversation"))]
pub(crate) struct Wire<'a> {
    conversation_id: &'a ConversationId,
    #[cfg_attr(feature = "schema", schemars(extend("const" = "direct")))]
    kind: &'static str,
    /// The other member; the member itself in a note to oneself.
    peer_id: &'a UserId,
    last_message: WireLast<'a>,
    /// How many of others' messages are above `read_seq`.
    unread: u64,
    /// A device of the member holds everything up to here.
    delivered_seq: Seq,
    /// The member has read everything up to here.
    read_seq: Seq,
    /// The newest message's `seq`.
    last_seq: Seq,
}

/// The newest message of a conversation, shortened.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LastMessage"))]
pub(crate) struct WireLast<'a> {
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    seq: Seq,
    sender_id: &'a UserId,
    kind: Kind,
    /// The first characters of its body.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::PREVIEW_CHARS_MAX)))]
    preview: &'a str,
    sent_at: Timestamp,
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LastMessage { seq, sender_id, kind, preview, sent_at, .. } = &self.last;
        Wire {
            conversation_id: &self.conversation_id,
            kind: "direct",
            peer_id: &self.peer_id,
            last_message: WireLast { seq: *seq, sender_id, kind: *kind, preview, sent_at: *sent_at },
            unread: self.marks.unread,
            delivered_seq: self.marks.delivered_seq,
            read_seq: self.marks.read_seq,
            last_seq: *seq,
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seq(value: u64) -> Seq {
        Seq::new(value).unwrap()
    }

    fn row(last: u64, delivered: u64, read: u64, unread: u64, pending: Option<u64>) -> Conversation {
        Conversation {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            peer_id: UserId::parse("bob").unwrap(),
            last: LastMessage {
                seq: seq(last),
                message_id: MessageId::stored("m"),
                sender_id: UserId::parse("bob").unwrap(),
                kind: Kind::Text,
                preview: "hi".to_owned(),
                sent_at: Timestamp::from_millis(1_000_000),
            },
            active_at: Timestamp::from_millis(990_000),
            marks: Marks { delivered_seq: seq(delivered), read_seq: seq(read), unread, pending_from: pending.map(seq) },
        }
    }

    #[test]
    fn the_first_message_is_number_one_and_time_never_goes_back() {
        let now = Timestamp::from_millis(5);
        assert_eq!(Conversation::following(None, now), (seq(1), now));
        let row = row(7, 7, 7, 0, None);
        // A clock that is behind, or a message in the same millisecond, comes out one millisecond later.
        assert_eq!(Conversation::following(Some(&row), now), (seq(8), Timestamp::from_millis(1_000_001)));
        assert_eq!(Conversation::following(Some(&row), row.last.sent_at), (seq(8), Timestamp::from_millis(1_000_001)));
        let later = Timestamp::from_millis(2_000_000);
        assert_eq!(Conversation::following(Some(&row), later), (seq(8), later));
    }

    #[test]
    fn a_busy_conversation_moves_in_the_chat_list_once_a_minute() {
        let row = row(7, 7, 7, 0, None);
        let at = |millis| Conversation::active_at_after(Some(&row), Timestamp::from_millis(millis)).millis();
        assert_eq!(at(1_000_001), 990_000);
        assert_eq!(at(990_000 + 59_999), 990_000);
        assert_eq!(at(990_000 + 60_000), 1_050_000);
        assert_eq!(Conversation::active_at_after(None, Timestamp::from_millis(3)).millis(), 3);
    }

    #[test]
    fn an_ack_of_the_last_ends_pending_and_one_below_moves_it() {
        let row = row(9, 3, 2, 6, Some(4));
        assert_eq!(
            row.acked(seq(9)).unwrap(),
            Marks { delivered_seq: seq(9), pending_from: None, ..row.marks.clone() }
        );
        assert_eq!(
            row.acked(seq(6)).unwrap(),
            Marks { delivered_seq: seq(6), pending_from: Some(seq(7)), ..row.marks.clone() }
        );
        // Above the last counts as the last; at or below the watermark changes nothing.
        assert_eq!(row.acked(seq(1000)), row.acked(seq(9)));
        assert_eq!(row.acked(seq(3)), None);
    }

    #[test]
    fn unread_is_counted_over_the_shorter_range() {
        let row = row(100, 100, 10, 80, None);
        assert_eq!(row.unread_after(seq(10)), None);
        assert_eq!(row.unread_after(seq(100)), Some(Unread::Nothing));
        assert_eq!(row.unread_after(seq(500)), Some(Unread::Nothing));
        assert_eq!(row.unread_after(seq(99)), Some(Unread::Remaining(100..=100)));
        assert_eq!(row.unread_after(seq(12)), Some(Unread::NoLonger(11..=12)));
    }

    #[test]
    fn the_chat_list_shows_what_the_protocol_says() {
        insta::assert_snapshot!(serde_json::to_string(&row(3, 2, 1, 2, Some(3))).unwrap(), @r#"{"conversation_id":"dm_x","kind":"direct","peer_id":"bob","last_message":{"seq":3,"sender_id":"bob","kind":"text","preview":"hi","sent_at":"1970-01-01T00:16:40.000Z"},"unread":2,"delivered_seq":2,"read_seq":1,"last_seq":3}"#);
    }

    /// A conversation as a list of who wrote each message (`true`: the other), and the row that is true of it.
    fn history() -> impl Strategy<Value = (Vec<bool>, Conversation)> {
        prop::collection::vec(any::<bool>(), 1..60).prop_flat_map(|others| {
            let last = others.len() as u64;
            (Just(others), 0..=last).prop_flat_map(move |(others, delivered)| {
                (Just(others), Just(delivered), 0..=delivered).prop_map(move |(others, delivered, read)| {
                    let unread = count(&others, read + 1, last);
                    let pending = (delivered < last).then_some(delivered + 1);
                    (others, row(last, delivered, read, unread, pending))
                })
            })
        })
    }

    fn count(others: &[bool], from: u64, to: u64) -> u64 {
        (from..=to).filter(|n| others[usize::try_from(*n).unwrap() - 1]).count() as u64
    }

    proptest! {
        #[test]
        fn reading_keeps_unread_exact_and_marks_rising((others, row) in history(), upto in 1u64..80) {
            let upto = seq(upto);
            let Some(unread) = row.unread_after(upto) else {
                prop_assert!(upto.min(row.last.seq) <= row.marks.read_seq);
                return Ok(());
            };
            let counted = match &unread {
                Unread::Nothing => 0,
                Unread::Remaining(range) | Unread::NoLonger(range) => count(&others, *range.start(), *range.end()),
            };
            let after = row.read(upto, &unread, counted);
            prop_assert_eq!(after.read_seq, upto.min(row.last.seq));
            prop_assert!(after.read_seq > row.marks.read_seq);
            prop_assert_eq!(after.delivered_seq, row.marks.delivered_seq.max(after.read_seq));
            prop_assert_eq!(after.unread, count(&others, after.read_seq.value() + 1, row.last.seq.value()));
            prop_assert_eq!(after.pending_from, (after.delivered_seq < row.last.seq).then(|| after.delivered_seq.next()));
        }

        #[test]
        fn acks_never_lower_a_mark_nor_pass_the_last((_, row) in history(), upto in 1u64..80) {
            match row.acked(seq(upto)) {
                None => prop_assert!(seq(upto) <= row.marks.delivered_seq || row.marks.delivered_seq == row.last.seq),
                Some(after) => {
                    prop_assert!(after.delivered_seq > row.marks.delivered_seq && after.delivered_seq <= row.last.seq);
                    prop_assert_eq!((after.read_seq, after.unread), (row.marks.read_seq, row.marks.unread));
                    prop_assert_eq!(after.pending_from.is_some(), after.delivered_seq < row.last.seq);
                }
            }
        }

        #[test]
        fn the_index_lags_the_last_message_by_less_than_a_step(gaps in prop::collection::vec(0i64..200_000, 1..40)) {
            let (mut now, mut conversation) = (Timestamp::from_millis(0), None::<Conversation>);
            for gap in gaps {
                now = Timestamp::from_millis(now.millis() + gap);
                let (next, sent_at) = Conversation::following(conversation.as_ref(), now);
                let active_at = Conversation::active_at_after(conversation.as_ref(), sent_at);
                prop_assert!(active_at <= sent_at && sent_at.since(active_at) < ACTIVE_AT_STEP);
                let mut moved = row(1, 0, 0, 0, None);
                (moved.last.seq, moved.last.sent_at, moved.active_at) = (next, sent_at, active_at);
                conversation = Some(moved);
            }
        }
    }
}
