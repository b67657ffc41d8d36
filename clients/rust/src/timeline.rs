//! The ordered view of one conversation, without I/O and clock: the app puts in what the client tells, and draws the entries.

mod changes;
mod members;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use wire::limits::TYPING_SHOWN_MS;
use wire::{
    Channel, ClientMsgId, Conversation, ConversationKind, HistoryResult, Kind, Message, ReceiptsResult, Role, Seq,
    Side, System, Timestamp, UserId,
};

use crate::ReceiptKind;
use crate::group::{EVERYBODY, Turn, turn_of};
use crate::storage::{Outgoing, Queued};
use changes::{Changes, foresee, keep_text};
pub use members::Readers;
use members::{Marks, Members};

/// The ordered view of one conversation: the messages that are stored, by `seq`, as they are by now, then those that are not
/// stored yet.
///
/// Put in what the client tells of this conversation, in any order and as often as it comes: no message is shown twice, and no
/// tick falls. Silent entries are not shown; the messages that they are about have another text then, or none, or reactions. The
/// user's own changes are shown at once. What happened to a group is shown, as entries of a kind of their own. The app keeps one of
/// these for each conversation.
///
/// ```
/// use pigeonhole_client::{ClientMsgId, Outgoing, Queued, Target, Timeline, TimelineEntry, Timestamp, UserId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timeline = Timeline::new(UserId::parse("alice")?);
/// // `sent.queued()`, after `client.send(…)`; later `timeline.message(…)` with the same id takes its place.
/// let target = Target::User(UserId::parse("bob")?);
/// let outgoing = Outgoing::Message { target, body: "hi".into(), reply_to: None, mentions: vec![], media: None };
/// let queued = Queued { client_msg_id: ClientMsgId::parse("7b0e")?, outgoing };
/// timeline.queued(queued, Timestamp::from_millis(1_763_632_800_000));
///
/// for entry in timeline.entries(|at| at.to_string()[..10].to_owned()) {
///     match entry {
///         TimelineEntry::Day(day) => println!("== {day} =="),
///         TimelineEntry::Unread(count) => println!("-- {count} new --"),
///         TimelineEntry::Gap { .. } => println!("…"),
///         TimelineEntry::System { message, system } => println!("{}: {system:?}", message.sender_id),
///         TimelineEntry::Message { message, .. } if message.deleted_at.is_some() => println!("(deleted)"),
///         TimelineEntry::Message { message, tick: Some(tick), .. } => println!("{} {tick:?}", message.body),
///         TimelineEntry::Message { message, tick: None, .. } => println!("{}: {}", message.sender_id, message.body),
///         TimelineEntry::Unsent { body, tick, .. } => println!("{body} {tick:?}"),
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
    /// All that has a seq: messages as they are by now, and silent entries without what they say.
    held: BTreeMap<Seq, Message>,
    /// What silent entries say, by the message that they are about, held or not.
    changes: BTreeMap<Seq, Changes>,
    unsent: Vec<Unsent>,
    /// The ids of own messages and changes that are stored.
    stored: BTreeSet<ClientMsgId>,
    marks: BTreeMap<UserId, Marks>,
    kind: ConversationKind,
    /// Somebody asked how far the members of this group are, so ticks can be told.
    has_receipts: bool,
    /// Of a group: below it nothing is shown, and where the conversation ended when this was said.
    first: (Seq, Seq),
    /// The newest entry that is known of, held or not.
    last_seq: Seq,
    row: Option<Row>,
    /// The server has said how far the conversation goes.
    is_known: bool,
    opened: Option<Opened>,
    writing: BTreeMap<UserId, Writing>,
}

/// One thing to draw.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and none is kept")]
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
    /// Something that happened to the group, of those events that are known.
    System {
        /// The entry: `sender_id` did it.
        message: &'a Message,
        /// What it was.
        system: &'a System,
    },
    /// A stored message.
    Message {
        /// As it is by now, own changes that wait included. One with a `version` is edited; one with a `deleted_at` is deleted,
        /// and has neither text nor reactions.
        message: Cow<'a, Message>,
        /// The user wrote it, on any device.
        own: bool,
        /// How far an own message has come; others' have none.
        tick: Option<Tick>,
        /// What it answers, as that is by now, deleted perhaps. `None` where `reply_to` is: it is not held.
        quote: Option<Cow<'a, Message>>,
        /// Own changes of it wait for the server's answer.
        changing: bool,
        /// The last own change of it that was refused for good, until it is dismissed.
        refused: Option<&'a Unsent>,
    },
    /// An own message that is not stored.
    Unsent {
        /// The message.
        unsent: &'a Unsent,
        /// What it says.
        body: &'a str,
        /// [`Tick::Waiting`] or [`Tick::Failed`].
        tick: Tick,
        /// What it answers.
        quote: Option<Cow<'a, Message>>,
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

/// An own message or change that is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// What it is. Its id is the one that [`Sent::client_msg_id`](crate::Sent::client_msg_id) gave.
    pub queued: Queued,
    /// When the user made it.
    pub at: Timestamp,
    /// Of a message whose file is being uploaded, how many of the [`Upload`](crate::Upload)'s bytes are there.
    pub uploaded: Option<u64>,
    /// Why it will never be stored.
    pub error: Option<String>,
}

impl Unsent {
    fn is(&self, client_msg_id: &ClientMsgId) -> bool {
        self.queued.client_msg_id == *client_msg_id
    }
}

/// Somebody writes.
#[derive(Clone, Copy, Debug)]
struct Writing {
    until: Instant,
    /// Where the conversation ended when this was heard of.
    last_seq: Seq,
}

/// What a row of the chat list, or of the list of channels, says.
#[derive(Clone, Copy, Debug)]
struct Row {
    role: Option<Role>,
    unread: u64,
    mentions: Option<u64>,
    read_seq: Seq,
    last_seq: Seq,
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
            held: BTreeMap::new(),
            changes: BTreeMap::new(),
            unsent: Vec::new(),
            stored: BTreeSet::new(),
            marks: BTreeMap::new(),
            kind: ConversationKind::Direct,
            has_receipts: false,
            first: (Seq::ZERO, Seq::FIRST),
            last_seq: Seq::ZERO,
            row: None,
            is_known: false,
            opened: None,
            writing: BTreeMap::new(),
        }
    }

    /// A page of the conversation: any, and pages may overlap.
    pub fn history(&mut self, page: HistoryResult) {
        let HistoryResult { messages, last_seq, members, first_seq, .. } = page;
        self.begins_at(first_seq, last_seq);
        for message in messages {
            self.take(message, true);
        }
        for member in members {
            self.raise(&member.user_id, member.delivered_seq, member.read_seq);
        }
        self.known(last_seq);
    }

    /// A page of how far the other members of the group have come. Until the last one is there, all that is known of an own message is
    /// that it is stored.
    pub fn receipts(&mut self, page: &ReceiptsResult) {
        self.is(ConversationKind::Group);
        self.has_receipts |= page.next_cursor.is_none();
        for member in &page.members {
            self.raise(&member.user_id, member.delivered_seq, member.read_seq);
        }
    }

    /// A channel looks like a group, and a direct conversation like nothing.
    fn is(&mut self, kind: ConversationKind) {
        if self.kind == ConversationKind::Direct || kind == ConversationKind::Channel {
            self.kind = kind;
        }
    }

    fn is_channel(&self) -> bool {
        self.kind == ConversationKind::Channel
    }

    /// Of several, the one that was said last holds: who joins again may see less than before, or more.
    fn begins_at(&mut self, first_seq: Option<Seq>, last_seq: Seq) {
        let Some(first_seq) = first_seq else { return };
        self.is(ConversationKind::Group);
        if self.first.0 <= last_seq {
            let (said_at, before) = std::mem::replace(&mut self.first, (last_seq, first_seq));
            if said_at > Seq::ZERO && first_seq > before {
                self.begun_anew();
            }
            // Should it be shown again, it may have changed meanwhile.
            self.held = self.held.split_off(&first_seq);
            self.changes = self.changes.split_off(&first_seq);
        }
    }

    /// The next entry, or any other. An own one takes the place of the unsent one with the same id.
    pub fn message(&mut self, message: Message) {
        self.take(message, false);
    }

    fn take(&mut self, message: Message, from_page: bool) {
        if self.is_own(&message)
            && let Some(id) = &message.client_msg_id
        {
            self.stored.insert(id.clone());
            self.unsent.retain(|unsent| !unsent.is(id));
        }
        if self.writing.get(&message.sender_id).is_some_and(|writing| writing.last_seq < message.seq) {
            self.writing.remove(&message.sender_id);
        }
        self.last_seq = self.last_seq.max(message.seq);
        if message.conversation_id.is_channel() {
            self.is(ConversationKind::Channel);
        } else if message.conversation_id.is_group() {
            self.is(ConversationKind::Group);
        }
        if self.is_channel() && self.is_own(&message) && message.kind.counts() {
            // Who posts has read everything up to there.
            self.raise(&message.sender_id.clone(), message.seq, message.seq);
        }
        if message.seq <= self.floor() {
            return;
        }
        let was_closed = message.system.is_some() && self.is_closed();
        if message.kind.counts() {
            self.hold(message, from_page);
        } else {
            self.change(message);
        }
        self.reopened(was_closed);
    }

    fn reopened(&mut self, was_closed: bool) {
        if was_closed && !self.is_closed() {
            self.begun_anew();
        }
    }

    /// Who was in a group, and how far, before the user was added to it again, says nothing of who is in it now.
    fn begun_anew(&mut self) {
        self.has_receipts = false;
        self.marks.retain(|user_id, _| *user_id == self.user_id);
    }

    /// A message, as it was when it was read. What is known of it already may be newer.
    fn hold(&mut self, mut message: Message, from_page: bool) {
        let seq = message.seq;
        if let Some(at) = message.deleted_at {
            let by = message.deleted_by.as_ref().unwrap_or(&message.sender_id).clone();
            self.changes.entry(seq).or_default().delete(at, by);
        }
        if let Some(held) = self.held.remove(&seq) {
            keep_text(&mut message, held);
        }
        // What a channel tells as it is written is without reactions. Its pages have them, and the last one holds.
        let has_reactions = !self.is_channel() || from_page || !message.reactions.is_empty();
        let is_named = self.is_named(&message);
        let changes = self.changes.entry(seq).or_default();
        changes.named_viewer |= is_named;
        if has_reactions {
            changes.page(&message);
        }
        changes.apply(&mut message);
        self.held.insert(seq, message);
    }

    /// A silent entry: what it says is kept with the message that it is about, which may come later.
    fn change(&mut self, mut entry: Message) {
        if let Some(target_seq) = entry.target_seq {
            let changes = self.changes.entry(target_seq).or_default();
            changes.add(&entry, &self.user_id);
            if let Some(target) = self.held.get_mut(&target_seq).filter(|target| target.kind.counts()) {
                changes.apply(target);
            }
        }
        entry.body.clear();
        self.held.insert(entry.seq, entry);
    }

    /// An own message or change that is not stored yet: from `send` and the like, or from the client's `outbox` after a start.
    /// Changes of a group are not shown before they are stored.
    pub fn queued(&mut self, queued: Queued, at: Timestamp) {
        let id = &queued.client_msg_id;
        let is_shown = matches!(queued.outgoing, Outgoing::Message { .. }) || queued.outgoing.target_seq().is_some();
        if is_shown && !self.stored.contains(id) && !self.unsent.iter().any(|unsent| unsent.is(id)) {
            self.unsent.push(Unsent { queued, at, uploaded: None, error: None });
        }
    }

    /// The file of an own message is on its way, as [`Event::Uploading`](crate::Event::Uploading) says.
    pub fn uploading(&mut self, client_msg_id: &ClientMsgId, done: u64) {
        if let Some(unsent) = self.unsent.iter_mut().find(|unsent| unsent.is(client_msg_id)) {
            unsent.uploaded = Some(done);
        }
    }

    /// An own message or change will never be stored. The message stays, marked, until it is dismissed; the change is taken
    /// back, and its message is marked.
    pub fn failed(&mut self, client_msg_id: &ClientMsgId, error: impl Into<String>) {
        if let Some(unsent) = self.unsent.iter_mut().find(|unsent| unsent.is(client_msg_id)) {
            unsent.error = Some(error.into());
        }
    }

    /// An own reaction to a message of a channel is counted, as [`Event::Reacted`](crate::Event::Reacted) says.
    pub fn reacted(&mut self, queued: &Queued) {
        self.stored.insert(queued.client_msg_id.clone());
        self.unsent.retain(|unsent| !unsent.is(&queued.client_msg_id));
        if let Outgoing::React { seq, emoji, .. } = &queued.outgoing
            && let Some(message) = self.held.get_mut(seq).filter(|message| message.kind.counts())
        {
            let changes = self.changes.entry(*seq).or_default();
            changes.counted(emoji.as_ref());
            changes.apply(message);
        }
    }

    /// The user has seen that this message or change failed, and wants it gone. One that waits stays: it is sent all the same.
    pub fn dismiss(&mut self, client_msg_id: &ClientMsgId) {
        self.unsent.retain(|unsent| !unsent.is(client_msg_id) || unsent.error.is_none());
    }

    /// A member writes, as [`Event::Typing`](crate::Event::Typing) says, and it is now.
    pub fn typing(&mut self, user_id: &UserId, now: Instant) {
        if *user_id != self.user_id {
            let until = now + Duration::from_millis(TYPING_SHOWN_MS);
            self.writing.insert(user_id.clone(), Writing { until, last_seq: self.last_seq });
        }
    }

    /// A member has everything up to here, or has read it. So has the user, by another device or by this one.
    pub fn receipt(&mut self, kind: ReceiptKind, user_id: &UserId, seq: Seq) {
        let read = if kind == ReceiptKind::Read { seq } else { Seq::ZERO };
        self.raise(user_id, seq, read);
    }

    /// A row of the chat list. One that is older than another changes nothing.
    pub fn row(&mut self, row: &Conversation) {
        let was_closed = self.is_closed();
        self.is(row.kind);
        self.raise(&self.user_id.clone(), row.delivered_seq, row.read_seq);
        let Conversation { role, unread, mentions, read_seq, last_seq, .. } = *row;
        self.listed(Row { role, unread, mentions, read_seq, last_seq }, row.first_seq);
        self.reopened(was_closed);
    }

    /// A row of the list of channels, as [`row`](Self::row).
    pub fn channel(&mut self, row: &Channel) {
        self.is(ConversationKind::Channel);
        let Channel { role, unread, read_seq, last_seq, .. } = *row;
        self.raise(&self.user_id.clone(), read_seq, read_seq);
        self.listed(Row { role: Some(role), unread, mentions: None, read_seq, last_seq }, Some(row.first_seq));
    }

    fn listed(&mut self, row: Row, first_seq: Option<Seq>) {
        self.begins_at(first_seq, row.last_seq);
        let is_older = |other: Row| row.last_seq < other.last_seq || row.read_seq < other.read_seq;
        if !self.row.is_some_and(is_older) {
            self.row = Some(row);
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
        for message in self.above(self.floor()) {
            let before_seq = message.seq;
            if let Some(after_seq) = before.replace(before_seq).filter(|before| before.next() != before_seq) {
                entries.push(TimelineEntry::Gap { after_seq, before_seq });
            }
            if let Some(system) = message.system.as_ref().filter(|system| !matches!(system, System::Later(_))) {
                turn(&mut entries, message.sent_at);
                entries.push(TimelineEntry::System { message, system });
            }
            if !message.kind.counts() {
                continue;
            }
            turn(&mut entries, message.sent_at);
            if let Some((_, count)) = first_unread.filter(|(first, _)| *first == message.seq) {
                entries.push(TimelineEntry::Unread(count));
            }
            let own = self.is_own(message);
            let tick = if own { Some(tick(message.seq, all)) } else { None };
            let (quote, seq) = (self.quote(message.reply_to), message.seq);
            let (changing, refused) = (self.waiting(seq).next().is_some(), self.refused(seq));
            let message = self.foreseen(message);
            entries.push(TimelineEntry::Message { message, own, tick, quote, changing, refused });
        }
        for unsent in &self.unsent {
            let Outgoing::Message { body, reply_to, .. } = &unsent.queued.outgoing else { continue };
            turn(&mut entries, unsent.at);
            let tick = if unsent.error.is_some() { Tick::Failed } else { Tick::Waiting };
            entries.push(TimelineEntry::Unsent { unsent, body, tick, quote: self.quote(*reply_to) });
        }
        entries
    }

    /// Who else writes now, in the order of their ids.
    pub fn writing(&self, now: Instant) -> Vec<&UserId> {
        self.writing.iter().filter(|(_, writing)| now < writing.until).map(|(user_id, _)| user_id).collect()
    }

    /// The user was removed from the group or has left it: what was said until then stays, and nothing may be sent. Of a channel
    /// nothing says so: the server answers that the user is no member.
    pub fn is_closed(&self) -> bool {
        if self.is_channel() {
            return false;
        }
        let by_row = self.row.map(|row| (row.last_seq, row.role == Some(Role::None)));
        let by_entry = self.own_turn().map(|(seq, turn)| (seq, turn == Turn::Leaves));
        by_row.max(by_entry).is_some_and(|(_, is_closed)| is_closed)
    }

    /// Of the other members, as far as known, who has read the message at `seq`, and who has only received it. Not who wrote it.
    pub fn readers(&self, seq: Seq) -> Readers<'_> {
        let writer = self.held.get(&seq).map(|message| &message.sender_id);
        self.members().readers(&self.user_id, seq, writer)
    }

    fn get(&self, seq: Seq) -> Option<Cow<'_, Message>> {
        let message = self.held.get(&seq).filter(|message| message.kind.counts() && seq > self.floor());
        message.map(|message| self.foreseen(message))
    }

    fn quote(&self, reply_to: Option<Seq>) -> Option<Cow<'_, Message>> {
        reply_to.and_then(|seq| self.get(seq))
    }

    fn foreseen<'a>(&'a self, message: &'a Message) -> Cow<'a, Message> {
        let mut foreseen = Cow::Borrowed(message);
        for unsent in self.waiting(message.seq) {
            foresee(foreseen.to_mut(), &unsent.queued.outgoing, unsent.at, &self.user_id);
        }
        foreseen
    }

    /// Own changes of this message that are not stored, oldest first.
    fn own_changes(&self, seq: Seq) -> impl DoubleEndedIterator<Item = &Unsent> {
        self.unsent.iter().filter(move |unsent| unsent.queued.outgoing.target_seq() == Some(seq))
    }

    fn waiting(&self, seq: Seq) -> impl Iterator<Item = &Unsent> {
        self.own_changes(seq).filter(|unsent| unsent.error.is_none())
    }

    fn refused(&self, seq: Seq) -> Option<&Unsent> {
        self.own_changes(seq).rfind(|unsent| unsent.error.is_some())
    }

    /// What to ask `history` for next, so that nothing is missing; `None`: nothing is.
    pub fn missing(&self) -> Option<Side> {
        let held = || self.held.range((Excluded(self.floor()), Unbounded)).map(|(seq, _)| seq);
        let Some(newest) = held().next_back().copied() else {
            return if self.last_seq > self.floor() { Some(Side::Newest) } else { None };
        };
        if newest < self.last_seq {
            return Some(Side::After(newest));
        }
        let above = held().rev();
        let below = held().rev().skip(1);
        below.zip(above).find(|(below, above)| below.next() != **above).map(|(below, _)| Side::After(*below))
    }

    /// What to ask `history` for when the user scrolls up; `None`: nothing is older than what is held.
    pub fn more_before(&self) -> Option<Side> {
        let oldest = self.above(self.floor()).next()?.seq;
        if oldest.previous() > self.floor() { Some(Side::Before(oldest)) } else { None }
    }

    /// How many messages of others the user has not read, and are not deleted except in a channel, as far as known: while some of those are missing,
    /// what the row says and what has come since.
    pub fn unread(&self) -> u64 {
        let mark = self.own_read();
        let of_others = |mark| self.above(mark).filter(|message| self.awaits_reading(message)).count() as u64;
        let held = of_others(mark);
        let missing = self.last_seq.above(mark).saturating_sub(self.above(mark).count() as u64);
        match self.row {
            Some(row) if missing > 0 => {
                // It can be fewer than are held: the row may know of a delete that is missing here.
                let known = row.unread.saturating_sub(self.deleted_since(row.last_seq, mark).count() as u64);
                (known + of_others(mark.max(row.last_seq))).min(held + missing)
            }
            _ => held,
        }
    }

    /// How many of those name the user, as far as known.
    pub fn mentions(&self) -> u64 {
        let mark = self.own_read();
        let naming = |mark| {
            let naming = self.above(mark).filter(|message| self.awaits_reading(message) && self.is_named(message));
            naming.count() as u64
        };
        let held = naming(mark);
        let missing = self.last_seq.above(mark).saturating_sub(self.above(mark).count() as u64);
        match self.row.and_then(|row| Some((row.last_seq, row.mentions?))) {
            Some((last_seq, known)) if missing > 0 => {
                let named = |target: &Seq| self.changes.get(target).is_some_and(|changes| changes.named_viewer);
                let known = known.saturating_sub(self.deleted_since(last_seq, mark).filter(named).count() as u64);
                (known + naming(mark.max(last_seq))).min(held + missing)
            }
            _ => held,
        }
    }

    fn is_named(&self, message: &Message) -> bool {
        message.mentions.iter().any(|id| *id == self.user_id || *id == EVERYBODY)
    }

    /// The messages of others, unread and not above `last_seq`, that were deleted by entries above it.
    fn deleted_since(&self, last_seq: Seq, mark: Seq) -> impl Iterator<Item = Seq> {
        // A channel counts them until they are read.
        let counts_them = self.is_channel();
        // In groups others may delete what one wrote oneself. Whose a target was that is not held is not known: its author's.
        let is_others = move |entry: &&Message| {
            let target = entry.target_seq.and_then(|target| self.held.get(&target));
            !self.is_own(target.unwrap_or(entry))
        };
        let deletes = self.above(last_seq).filter(|entry| entry.kind == Kind::Delete).filter(is_others);
        let targets = deletes.filter_map(|entry| entry.target_seq);
        targets.filter(move |target| *target > mark && *target <= last_seq && !counts_them)
    }

    /// What to report with `read` when the user has seen all that is shown: the last message of others that is not deleted and
    /// has no gap before it, of what is not read yet; `None`: there is nothing to report.
    pub fn read_up_to(&self) -> Option<Seq> {
        let mark = self.own_read();
        let mut last = None;
        let mut before: Option<Seq> = None;
        for message in self.above(self.floor()) {
            let seq = message.seq;
            if before.replace(seq).is_some_and(|before| before.next() != seq) && seq.previous() > mark {
                break;
            }
            if seq > mark && self.awaits_reading(message) {
                last = Some(seq);
            }
        }
        last
    }

    /// Above the own read mark, it is unread.
    fn awaits_reading(&self, message: &Message) -> bool {
        message.kind.counts() && (message.deleted_at.is_none() || self.is_channel()) && !self.is_own(message)
    }

    fn is_own(&self, message: &Message) -> bool {
        message.sender_id == self.user_id
    }

    fn own_read(&self) -> Seq {
        let read = self.marks.get(&self.user_id).map_or(Seq::ZERO, |marks| marks.read);
        // The marks of who joins stand just before that.
        let joined = self.own_turn().filter(|(_, turn)| *turn == Turn::Joins);
        read.max(joined.map_or(Seq::ZERO, |(seq, _)| seq.previous())).max(self.floor())
    }

    /// The last entry that is shown with which the user joined or left.
    fn own_turn(&self) -> Option<(Seq, Turn)> {
        let mut shown = self.held.range((Excluded(self.floor()), Unbounded)).rev();
        shown.find_map(|(seq, entry)| Some((*seq, turn_of(entry, &self.user_id)?)))
    }

    fn members(&self) -> Members<'_> {
        Members::new(&self.marks, self.above(self.floor()))
    }

    /// Up to here nothing is shown.
    fn floor(&self) -> Seq {
        self.first.1.previous()
    }

    fn above(&self, mark: Seq) -> impl Iterator<Item = &Message> {
        self.held.range((Excluded(mark), Unbounded)).map(|(_, message)| message)
    }

    /// The message that the separator is before, once it is certain which one that is, and how many were unread.
    fn first_unread(&self) -> Option<(Seq, u64)> {
        let Opened { mark, count, .. } = self.opened.as_ref().filter(|opened| opened.count > 0)?;
        let mut next = mark.next();
        for message in self.above(*mark) {
            if message.seq != next {
                return None;
            }
            if self.awaits_reading(message) {
                return Some((next, *count));
            }
            next = next.next();
        }
        None
    }

    /// Up to where all others have the conversation, and have read it; `None`: there are no others, or it isn't known.
    fn all_others(&self) -> Option<(Seq, Seq)> {
        if self.kind != ConversationKind::Direct && !self.has_receipts {
            return None;
        }
        self.members().all_others(&self.user_id)
    }
}

fn tick(seq: Seq, all: Option<(Seq, Seq)>) -> Tick {
    match all {
        Some((_, read)) if seq <= read => Tick::Read,
        Some((delivered, _)) if seq <= delivered => Tick::Delivered,
        _ => Tick::Stored,
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod folding;
