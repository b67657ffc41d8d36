//! The ordered view of one conversation, without I/O and clock: the app puts in what the client tells, and draws the entries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use wire::{ClientMsgId, Conversation, HistoryResult, Message, Seq, Side, Timestamp, UserId};

use crate::ReceiptKind;

/// The ordered view of one conversation: what is stored, by `seq`, then what is not stored yet.
///
/// Put in what the client tells of this conversation, in any order and as often as it comes: no message is shown twice, and no
/// tick falls. It does not look at the conversation's id, so the app keeps one for each conversation.
///
/// ```
/// use pigeonhole_client::{ClientMsgId, Tick, Timeline, TimelineEntry, Timestamp, UserId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timeline = Timeline::new(UserId::parse("alice")?);
/// // After `client.send(…)`; later `timeline.message(…)` with the same id takes its place.
/// timeline.queued(ClientMsgId::parse("7b0e")?, "hi", Timestamp::from_millis(1_763_632_800_000));
///
/// for entry in timeline.entries(|at| at.to_string()[..10].to_owned()) {
///     match entry {
///         TimelineEntry::Day(day) => println!("== {day} =="),
///         TimelineEntry::Unread(count) => println!("-- {count} new --"),
///         TimelineEntry::Gap { .. } => println!("…"),
///         TimelineEntry::Message { message, tick: Some(tick), .. } => println!("{} {tick:?}", message.body),
///         TimelineEntry::Message { message, tick: None, .. } => println!("{}: {}", message.sender_id, message.body),
///         TimelineEntry::Unsent { unsent, tick } => println!("{} {tick:?}", unsent.body),
///     }
/// }
/// // What `client.history(…)` has to bring for the view to be whole, and what to report with `client.read(…)`.
/// assert_eq!((timeline.missing(), timeline.read_up_to()), (None, None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timeline {
    user_id: UserId,
    messages: BTreeMap<Seq, Message>,
    unsent: Vec<Unsent>,
    /// The ids of own messages that are stored.
    stored: BTreeSet<ClientMsgId>,
    marks: BTreeMap<UserId, Marks>,
    /// The newest message that is known of, held or not.
    last_seq: Seq,
    row: Option<Conversation>,
    /// The server has said how far the conversation goes.
    is_known: bool,
    opened: Option<Opened>,
}

/// One thing to draw.
#[derive(Clone, Debug, PartialEq)]
pub enum TimelineEntry<'a, D> {
    /// The day of what follows. Wherever the day changes, and before the first message.
    Day(D),
    /// So many messages were unread when the user opened the conversation; the first of them follows.
    Unread(u64),
    /// Messages between these two are missing.
    Gap {
        /// The last one before the gap.
        after_seq: Seq,
        /// The first one behind it.
        before_seq: Seq,
    },
    /// A stored message. One of a [`Kind`](crate::Kind) that the app does not know is drawn as nothing.
    Message {
        /// The message.
        message: &'a Message,
        /// The user wrote it, on any device.
        own: bool,
        /// How far an own message has come; others' have none.
        tick: Option<Tick>,
    },
    /// An own message that is not stored.
    Unsent {
        /// The message.
        unsent: &'a Unsent,
        /// [`Tick::Waiting`] or [`Tick::Failed`].
        tick: Tick,
    },
}

/// How far an own message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tick {
    /// It will never be stored.
    Failed,
    /// It is not stored yet.
    Waiting,
    /// The server has it.
    Stored,
    /// A device of each other member has it.
    Delivered,
    /// Each other member has read it.
    Read,
}

/// An own message that is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The id that [`Sent::client_msg_id`](crate::Sent::client_msg_id) gave.
    pub client_msg_id: ClientMsgId,
    /// What it says.
    pub body: String,
    /// When the user wrote it.
    pub at: Timestamp,
    /// Why it will never be stored.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    delivered: Seq,
    read: Seq,
}

/// Where the unread separator is: before the first message of others above this mark.
#[derive(Clone, Debug)]
struct Opened {
    mark: Seq,
    count: u64,
    /// The server had said by then how far the user has read.
    is_sure: bool,
}

/// Input.
impl Timeline {
    /// Empty, as this user sees it.
    pub fn new(user_id: UserId) -> Self {
        Self {
            user_id,
            messages: BTreeMap::new(),
            unsent: Vec::new(),
            stored: BTreeSet::new(),
            marks: BTreeMap::new(),
            last_seq: Seq::ZERO,
            row: None,
            is_known: false,
            opened: None,
        }
    }

    /// A page of the conversation: any, and pages may overlap.
    pub fn history(&mut self, page: HistoryResult) {
        let HistoryResult { messages, last_seq, members, .. } = page;
        for message in messages {
            self.message(message);
        }
        for member in members {
            self.raise(&member.user_id, member.delivered_seq, member.read_seq);
        }
        self.known(last_seq);
    }

    /// The next message, or any other. An own one takes the place of the unsent one with the same id.
    pub fn message(&mut self, message: Message) {
        if self.is_own(&message)
            && let Some(id) = &message.client_msg_id
        {
            self.stored.insert(id.clone());
            self.unsent.retain(|unsent| unsent.client_msg_id != *id);
        }
        self.last_seq = self.last_seq.max(message.seq);
        self.messages.entry(message.seq).or_insert(message);
    }

    /// An own message that is not stored yet: from `send`, or from the client's `outbox` after a start.
    pub fn queued(&mut self, client_msg_id: ClientMsgId, body: impl Into<String>, at: Timestamp) {
        let is_known = |unsent: &Unsent| unsent.client_msg_id == client_msg_id;
        if !self.stored.contains(&client_msg_id) && !self.unsent.iter().any(is_known) {
            self.unsent.push(Unsent { client_msg_id, body: body.into(), at, error: None });
        }
    }

    /// An own message will never be stored. It stays, marked, until it is dismissed.
    pub fn failed(&mut self, client_msg_id: &ClientMsgId, error: impl Into<String>) {
        if let Some(unsent) = self.unsent.iter_mut().find(|unsent| unsent.client_msg_id == *client_msg_id) {
            unsent.error = Some(error.into());
        }
    }

    /// The user has seen that this message failed, and wants it gone. One that waits stays: it is sent all the same.
    pub fn dismiss(&mut self, client_msg_id: &ClientMsgId) {
        self.unsent.retain(|unsent| unsent.client_msg_id != *client_msg_id || unsent.error.is_none());
    }

    /// A member has everything up to here, or has read it. So has the user, by another device or by this one.
    pub fn receipt(&mut self, kind: ReceiptKind, user_id: &UserId, seq: Seq) {
        let read = if kind == ReceiptKind::Read { seq } else { Seq::ZERO };
        self.raise(user_id, seq, read);
    }

    /// A row of the chat list. One that is older than another changes nothing.
    pub fn row(&mut self, row: &Conversation) {
        let own = self.user_id.clone();
        self.raise(&own, row.delivered_seq, row.read_seq);
        let is_older = |other: &Conversation| row.last_seq < other.last_seq || row.read_seq < other.read_seq;
        if !self.row.as_ref().is_some_and(is_older) {
            self.row = Some(row.clone());
        }
        self.known(row.last_seq);
    }

    /// The user looks at it from now on: where the unread separator is does not change until [`close`](Self::close).
    pub fn open(&mut self) {
        if self.opened.is_none() {
            self.opened = Some(self.separator());
        }
    }

    /// The user looks at something else.
    pub fn close(&mut self) {
        self.opened = None;
    }

    /// A read mark counts as a delivered one.
    fn raise(&mut self, user_id: &UserId, delivered: Seq, read: Seq) {
        let marks = self.marks.entry(user_id.clone()).or_default();
        marks.delivered = marks.delivered.max(delivered).max(read);
        marks.read = marks.read.max(read);
    }

    /// The server has said how far the conversation goes, and how far the user has read it.
    fn known(&mut self, last_seq: Seq) {
        self.last_seq = self.last_seq.max(last_seq);
        self.is_known = true;
        if self.opened.as_ref().is_some_and(|opened| !opened.is_sure) {
            self.opened = Some(self.separator());
        }
    }

    fn separator(&self) -> Opened {
        Opened { mark: self.own_read(), count: self.unread(), is_sure: self.is_known }
    }
}

/// Output.
impl Timeline {
    /// Everything to draw, in order. `day_of` gives the day of a time, in the viewer's time zone and words.
    pub fn entries<D: Clone + PartialEq>(&self, day_of: impl Fn(Timestamp) -> D) -> Vec<TimelineEntry<'_, D>> {
        let mut entries = Vec::new();
        let mut day = None;
        let mut turn = |entries: &mut Vec<_>, at| {
            let next = day_of(at);
            if day.as_ref() != Some(&next) {
                entries.push(TimelineEntry::Day(next.clone()));
                day = Some(next);
            }
        };
        let (first_unread, all) = (self.first_unread(), self.all_others());
        let mut before: Option<Seq> = None;
        for message in self.messages.values() {
            let before_seq = message.seq;
            if let Some(after_seq) = before.replace(before_seq).filter(|before| before.next() != before_seq) {
                entries.push(TimelineEntry::Gap { after_seq, before_seq });
            }
            turn(&mut entries, message.sent_at);
            if let Some((_, count)) = first_unread.filter(|(first, _)| *first == message.seq) {
                entries.push(TimelineEntry::Unread(count));
            }
            let own = self.is_own(message);
            let tick = if own { Some(tick(message.seq, all)) } else { None };
            entries.push(TimelineEntry::Message { message, own, tick });
        }
        for unsent in &self.unsent {
            turn(&mut entries, unsent.at);
            let tick = if unsent.error.is_some() { Tick::Failed } else { Tick::Waiting };
            entries.push(TimelineEntry::Unsent { unsent, tick });
        }
        entries
    }

    /// What to ask `history` for next, so that nothing is missing; `None`: nothing is.
    pub fn missing(&self) -> Option<Side> {
        let Some(newest) = self.messages.keys().next_back().copied() else {
            return if self.last_seq > Seq::ZERO { Some(Side::Newest) } else { None };
        };
        if newest < self.last_seq {
            return Some(Side::After(newest));
        }
        let above = self.messages.keys().rev();
        let below = self.messages.keys().rev().skip(1);
        below.zip(above).find(|(below, above)| below.next() != **above).map(|(below, _)| Side::After(*below))
    }

    /// What to ask `history` for when the user scrolls up; `None`: nothing is older than what is held.
    pub fn more_before(&self) -> Option<Side> {
        let oldest = self.messages.keys().next()?;
        if oldest.previous() > Seq::ZERO { Some(Side::Before(*oldest)) } else { None }
    }

    /// How many messages of others the user has not read, as far as known: while some of those are missing, what the row says
    /// and what has come since.
    pub fn unread(&self) -> u64 {
        let mark = self.own_read();
        let above = self.above(mark).count() as u64;
        let of_others = |mark| self.above(mark).filter(|message| !self.is_own(message)).count() as u64;
        let count = self.last_seq.above(mark);
        match &self.row {
            Some(row) if above != count => (row.unread + of_others(mark.max(row.last_seq))).min(count),
            _ => of_others(mark),
        }
    }

    /// What to report with `read` when the user has seen all that is shown: the last message of others that has no gap before
    /// it, of what is not read yet; `None`: there is nothing to report.
    pub fn read_up_to(&self) -> Option<Seq> {
        let mark = self.own_read();
        let mut last = None;
        let mut before: Option<Seq> = None;
        for message in self.messages.values() {
            let seq = message.seq;
            if before.replace(seq).is_some_and(|before| before.next() != seq) && seq.previous() > mark {
                break;
            }
            if seq > mark && !self.is_own(message) {
                last = Some(seq);
            }
        }
        last
    }

    fn is_own(&self, message: &Message) -> bool {
        message.sender_id == self.user_id
    }

    fn own_read(&self) -> Seq {
        self.marks.get(&self.user_id).map_or(Seq::ZERO, |marks| marks.read)
    }

    fn above(&self, mark: Seq) -> impl Iterator<Item = &Message> {
        self.messages.range((Excluded(mark), Unbounded)).map(|(_, message)| message)
    }

    /// The message that the separator is before, once it is certain which one that is, and how many were unread.
    fn first_unread(&self) -> Option<(Seq, u64)> {
        let Opened { mark, count, .. } = self.opened.as_ref().filter(|opened| opened.count > 0)?;
        let mut next = mark.next();
        for message in self.above(*mark) {
            if message.seq != next {
                return None;
            }
            if !self.is_own(message) {
                return Some((next, *count));
            }
            next = next.next();
        }
        None
    }

    /// How far all others have come; `None`: there are no others.
    fn all_others(&self) -> Option<Marks> {
        let others = self.marks.iter().filter(|(user_id, _)| **user_id != self.user_id).map(|(_, marks)| *marks);
        others.reduce(|one, other| Marks {
            delivered: one.delivered.min(other.delivered),
            read: one.read.min(other.read),
        })
    }
}

fn tick(seq: Seq, all: Option<Marks>) -> Tick {
    match all {
        Some(all) if seq <= all.read => Tick::Read,
        Some(all) if seq <= all.delivered => Tick::Delivered,
        _ => Tick::Stored,
    }
}

#[cfg(test)]
mod tests;
