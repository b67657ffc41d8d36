//! The ordered view of one conversation, without I/O and clock: the app passes in the client's events, and draws the
//! entries.

pub(crate) mod changes;
mod members;
mod pins;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use wire::limits::TYPING_SHOWN_MS;
use wire::{
    Action, Channel, ClientMsgId, Conversation, ConversationKind, DeleteRequest, HistoryResult, Kind, Message,
    ReactRequest, ReceiptsResult, Role, Seq, Side, System, Timestamp, UserId,
};

use crate::group::{Draft, EVERYBODY, Turn, turn_of};
use crate::saved::{Outgoing, Queued};
use crate::store::{Span, Window, counts, is_target};
use crate::unreadable::Unreadable;
use crate::{Error, Moment, ReceiptKind};
use changes::{Changes, foresee, keep_text};
pub use members::Readers;
use members::{Marks, Members};
use pins::Pins;

/// The ordered view of one conversation: the stored messages in their current state, by `seq`, then the messages that
/// are not stored yet.
///
/// Pass in the client's events and results about this conversation, in any order and any number of times. No message
/// appears twice, and no tick falls. Change entries are not shown themselves; they change the text or reactions of
/// their target. The user's own changes show immediately. System entries have an entry type of their own. The app keeps
/// one timeline per conversation.
///
/// ```
/// use pigeonhole_core::{Outgoing, Queued, Timeline, TimelineEntry};
/// use wire::{ClientMsgId, Target, Timestamp, UserId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timeline = Timeline::new(UserId::parse("alice")?);
/// // `sent.queued()`, after `client.send(…)`; later `timeline.message(…)` with the same id takes its place.
/// let target = Target::User(UserId::parse("bob")?);
/// let outgoing = Outgoing::message(target, "hi".into(), None);
/// let made_at = Timestamp::from_millis(1_763_632_800_000);
/// timeline.queued(Queued { client_msg_id: ClientMsgId::parse("7b0e")?, outgoing, made_at });
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
///         TimelineEntry::Unreadable { message, why } => println!("{}: ({why:?})", message.sender_id),
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
    /// Entries by `seq`: messages in their current state, and change entries without their content. Change entries that
    /// only a message store has had are not here.
    held: BTreeMap<Seq, Message>,
    /// The ranges of `seq` without a gap: all entries that have come here, or to the message store.
    spans: Vec<Span>,
    /// Change entries, by their target, received or not.
    changes: BTreeMap<Seq, Changes>,
    unsent: Vec<Unsent>,
    /// The ids of own messages and changes that are stored.
    stored: BTreeSet<ClientMsgId>,
    marks: BTreeMap<UserId, Marks>,
    kind: ConversationKind,
    /// The marks of this group's members are known, so ticks can be shown.
    has_receipts: bool,
    /// In a group: the first entry that the user may see, and the last `seq` when the server reported it.
    first: (Seq, Seq),
    /// The newest known entry, received or not.
    last_seq: Seq,
    row: Option<Row>,
    /// The server has reported the conversation's last `seq`.
    is_known: bool,
    opened: Option<Opened>,
    writing: BTreeMap<UserId, Writing>,
    pins: Pins,
}

/// One thing to draw.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and none is kept")]
pub enum TimelineEntry<'a, D> {
    /// The day of what follows. Wherever the day changes, and before the first message.
    Day(D),
    /// The number of unread messages when the user opened the conversation; the first of them follows.
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
        /// The change of the group.
        system: &'a System,
    },
    /// A stored message.
    Message {
        /// The message in its current state, with own changes that are not stored yet. An edited message has a
        /// `version`. A deleted message has `deleted_at`, and neither text nor reactions.
        message: Cow<'a, Message>,
        /// The user wrote it, on any device.
        own: bool,
        /// How far an own message has come; others' have none.
        tick: Option<Tick>,
        /// The message that this one replies to, in its current state, perhaps deleted. With `reply_to` set, `None`
        /// means that it has not been received.
        quote: Option<Cow<'a, Message>>,
        /// Own changes of the message have no reply yet.
        changing: bool,
        /// The last own change of it that was refused for good, until it is dismissed.
        refused: Option<&'a Unsent>,
    },
    /// An encrypted message that this device can't read.
    Unreadable {
        /// Its place in the conversation, without the text.
        message: &'a Message,
        /// Why.
        why: Unreadable,
    },
    /// An own message that is not stored.
    Unsent {
        /// The message.
        unsent: &'a Unsent,
        /// The text.
        body: &'a str,
        /// [`Tick::Waiting`] or [`Tick::Failed`].
        tick: Tick,
        /// The message that this one replies to.
        quote: Option<Cow<'a, Message>>,
    },
}

/// One thing to draw of a part of the timeline. A place has no days.
pub(crate) enum Place<'a> {
    /// Entries between these two are missing.
    Gap { after_seq: Seq, before_seq: Seq },
    /// Something that happened to the group.
    System { message: &'a Message, system: &'a System },
    /// A stored message. `unread`: the separator with this number is before it. Only an own one has a tick.
    Message { message: &'a Message, tick: Option<Tick>, unread: Option<u64> },
    /// An encrypted message that this device can't read. `unread`: as of a message.
    Unreadable { message: &'a Message, why: Unreadable, unread: Option<u64> },
    /// An own message that is not stored.
    Unsent { unsent: &'a Unsent, draft: &'a Draft },
}

/// How far an own message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tick {
    /// The server refused the message for good.
    Failed,
    /// The server has not stored the message yet.
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
    /// The request. Its id is the one that `Sent::client_msg_id` returned.
    pub queued: Queued,
    /// For a message whose file is being uploaded, the number of uploaded bytes of its [`Upload`](crate::Upload).
    pub uploaded: Option<u64>,
    /// Why it will never be stored.
    pub error: Option<String>,
}

impl Unsent {
    fn is(&self, client_msg_id: &ClientMsgId) -> bool {
        self.queued.client_msg_id == *client_msg_id
    }
}

/// A user who is typing.
#[derive(Clone, Debug)]
struct Writing {
    until: Moment,
    /// The last `seq` of the conversation when the event came.
    last_seq: Seq,
    /// The text so far, of a service.
    text: Option<String>,
}

/// The fields of a row of the chat list, or of the list of channels.
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
    /// The server had reported the user's read mark by then.
    is_sure: bool,
}

/// Input.
impl Timeline {
    /// Empty, as this user sees it.
    pub fn new(user_id: UserId) -> Self {
        Self {
            user_id,
            held: BTreeMap::new(),
            spans: Vec::new(),
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
            pins: Pins::default(),
        }
    }

    /// A page of the conversation: any, and pages may overlap.
    pub fn history(&mut self, page: HistoryResult) {
        let HistoryResult { messages, last_seq, members, first_seq, pins, .. } = page;
        self.begins_at(first_seq, last_seq);
        self.pins.page(last_seq, pins);
        for message in messages {
            self.take(message, true);
        }
        for member in members {
            self.raise(&member.user_id, member.delivered_seq, member.read_seq);
        }
        self.known(last_seq);
    }

    /// Takes only the pinned messages of a page.
    pub(crate) fn pinned(&mut self, page: HistoryResult) {
        self.pins.page(page.last_seq, page.pins);
    }

    /// Takes messages of a message store, from this side of the conversation, requested with this limit.
    pub fn stored(&mut self, window: Window, side: Side, limit: usize) {
        let covered = window.covered(side, limit);
        let Window { messages, spans } = window;
        for message in messages {
            self.take(message, true);
        }
        let first = self.first.1;
        for span in covered.iter().flat_map(|covered| spans.iter().filter_map(|span| span.within(*covered))) {
            if let Some(span) = span.within(Span { from: first, to: Seq::MAX }) {
                self.last_seq = self.last_seq.max(span.to);
                self.spans = span.joined(&self.spans);
            }
        }
        self.separate();
    }

    /// Takes a page of the marks of the group's other members. Until the last page has come, an own message shows only
    /// that it is stored.
    pub fn receipts(&mut self, page: &ReceiptsResult) {
        self.is(ConversationKind::Group);
        self.has_receipts |= page.next_cursor.is_none();
        for member in &page.members {
            self.raise(&member.user_id, member.delivered_seq, member.read_seq);
        }
    }

    /// A channel looks like a group, and a direct conversation like nothing.
    pub(crate) fn is(&mut self, kind: ConversationKind) {
        if self.kind == ConversationKind::Direct || kind == ConversationKind::Channel {
            self.kind = kind;
        }
    }

    fn is_channel(&self) -> bool {
        self.kind == ConversationKind::Channel
    }

    /// Sets the first visible entry. The latest report counts, because a new join can show fewer entries than before,
    /// or more.
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
            let shown = Span { from: first_seq, to: Seq::MAX };
            self.spans = self.spans.iter().filter_map(|span| span.within(shown)).collect();
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
        self.is(message.conversation_id.kind());
        if self.is_channel() && self.is_own(&message) && message.kind.counts() {
            // The author of a post has read everything up to it.
            self.raise(&message.sender_id.clone(), message.seq, message.seq);
        }
        if message.seq <= self.floor() {
            return;
        }
        self.spans = Span { from: message.seq, to: message.seq }.joined(&self.spans);
        let was_closed = message.system.is_some() && self.is_closed();
        if is_target(&message) {
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

    /// Forgets the members, marks and pins of a group: after a new join, the earlier ones are out of date.
    fn begun_anew(&mut self) {
        self.has_receipts = false;
        self.pins.forget_page();
        self.marks.retain(|user_id, _| *user_id == self.user_id);
    }

    /// Takes a message as it was when the server read it. The timeline may know a newer state.
    fn hold(&mut self, mut message: Message, from_page: bool) {
        let seq = message.seq;
        if let Some(at) = message.deleted_at {
            let by = message.deleted_by.as_ref().unwrap_or(&message.sender_id).clone();
            self.changes.entry(seq).or_default().delete(at, by);
        }
        if message.kind == Kind::Sealed
            && let Some(held) = self.held.get_mut(&seq).filter(|held| from_page || held.kind != Kind::Sealed)
        {
            // The server has no text of it.
            return self.changes.entry(seq).or_default().apply(held);
        }
        if let Some(held) = self.held.remove(&seq) {
            // A page can lack the id.
            message.client_msg_id = message.client_msg_id.or_else(|| held.client_msg_id.clone());
            keep_text(&mut message, held);
        }
        // A channel's event has no reactions. Its pages have them, and the last page counts.
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

    /// Takes a change entry. Its content is kept with its target, which may come later.
    fn change(&mut self, mut entry: Message) {
        self.pins.entry(&entry);
        if let Some(target_seq) = entry.target_seq {
            let changes = self.changes.entry(target_seq).or_default();
            changes.add(&entry, &self.user_id);
            if let Some(target) = self.held.get_mut(&target_seq).filter(|target| is_target(target)) {
                changes.apply(target);
            }
        }
        entry.body.clear();
        self.held.insert(entry.seq, entry);
    }

    /// Takes an own message or change that is not stored yet: from `send` and the like, or from the client's `outbox`
    /// after a start. Changes of a group are not shown before they are stored.
    pub fn queued(&mut self, queued: Queued) {
        let id = &queued.client_msg_id;
        let is_shown =
            queued.outgoing.kind().is_some_and(|kind| kind.counts()) || queued.outgoing.target_seq().is_some();
        if is_shown && !self.stored.contains(id) && !self.unsent.iter().any(|unsent| unsent.is(id)) {
            self.unsent.push(Unsent { queued, uploaded: None, error: None });
        }
    }

    /// Takes the upload progress of an own message's file, from [`Event::Uploading`](crate::Event::Uploading).
    pub fn uploading(&mut self, client_msg_id: &ClientMsgId, done: u64) {
        if let Some(unsent) = self.unsent.iter_mut().find(|unsent| unsent.is(client_msg_id)) {
            unsent.uploaded = Some(done);
        }
    }

    /// Marks an own message or change as failed for good. The message remains, marked, until the app dismisses it. The
    /// timeline reverts a change and marks its message.
    pub fn failed(&mut self, client_msg_id: &ClientMsgId, error: impl Into<String>) {
        if let Some(unsent) = self.unsent.iter_mut().find(|unsent| unsent.is(client_msg_id)) {
            unsent.error = Some(error.into());
        }
    }

    /// Takes [`Event::Failed`](crate::Event::Failed).
    pub(crate) fn failed_for(&mut self, queued: &Queued, error: &Error) {
        self.failed(&queued.client_msg_id, error.code());
        if !queued.shows_refusal(error) {
            self.dismiss(&queued.client_msg_id);
        }
    }

    /// Takes what another timeline of the conversation has that is not stored.
    pub(crate) fn adopt(&mut self, other: Self) {
        self.unsent
            .extend(other.unsent.into_iter().filter(|unsent| !self.stored.contains(&unsent.queued.client_msg_id)));
    }

    /// Forgets what is read, except for the last message and the events of the group. A chat list needs no more.
    pub(crate) fn trim(&mut self) {
        let last = self.shown().last().unwrap_or_default();
        let floor = self.own_read().min(last.previous());
        self.held.retain(|seq, entry| *seq > floor || entry.system.is_some());
        self.changes.retain(|seq, _| *seq > floor);
        let above = Span { from: floor.next(), to: Seq::MAX };
        self.spans = self.spans.iter().filter_map(|span| span.within(above)).collect();
    }

    /// Applies an own change that has no entry, from [`Event::Reacted`](crate::Event::Reacted).
    pub fn reacted(&mut self, queued: &Queued) {
        self.stored.insert(queued.client_msg_id.clone());
        let wanted =
            self.unsent.iter().find(|unsent| unsent.is(&queued.client_msg_id)).map(|unsent| unsent.queued.made_at);
        self.unsent.retain(|unsent| !unsent.is(&queued.client_msg_id));
        if let Outgoing::Request(Action::React(ReactRequest { seq, emoji, .. })) = &queued.outgoing
            && let Some(message) = self.held.get_mut(seq).filter(|message| counts(message))
        {
            let changes = self.changes.entry(*seq).or_default();
            changes.counted(emoji.as_ref());
            changes.apply(message);
        }
        if let Outgoing::Request(Action::Delete(DeleteRequest { seq, .. })) = &queued.outgoing
            && let Some(message) = self.held.get_mut(seq).filter(|message| is_target(message))
        {
            let changes = self.changes.entry(*seq).or_default();
            changes.delete(wanted.unwrap_or(message.sent_at), self.user_id.clone());
            changes.apply(message);
        }
    }

    /// Removes a failed message or change that the user has seen. A request that is still in the outbox stays, because
    /// the client will send it.
    pub fn dismiss(&mut self, client_msg_id: &ClientMsgId) {
        self.unsent.retain(|unsent| !unsent.is(client_msg_id) || unsent.error.is_none());
    }

    /// The request is stored, and its entry came before.
    pub(crate) fn settled(&mut self, client_msg_id: &ClientMsgId) {
        self.unsent.retain(|unsent| !unsent.is(client_msg_id));
    }

    /// Records that a member is typing now, or a service this text, from [`Event::Typing`](crate::Event::Typing).
    pub fn typing(&mut self, user_id: &UserId, text: Option<&str>, now: Moment) {
        if *user_id != self.user_id {
            let until = now + Duration::from_millis(TYPING_SHOWN_MS);
            self.writing
                .insert(user_id.clone(), Writing { until, last_seq: self.last_seq, text: text.map(str::to_owned) });
        }
    }

    /// A member has everything up to here, or has read it. So has the user, by another device or by this one.
    pub fn receipt(&mut self, kind: ReceiptKind, user_id: &UserId, seq: Seq) {
        let read = if kind == ReceiptKind::Read { seq } else { Seq::ZERO };
        self.raise(user_id, seq, read);
    }

    /// Takes a row of the chat list. An older row than the current one changes nothing.
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
        let Channel { role, unread, read_seq, last_seq, mentioned_seq, .. } = *row;
        // The row has the last one alone.
        let mentions = mentioned_seq.map(|_| 1);
        self.raise(&self.user_id.clone(), read_seq, read_seq);
        self.listed(Row { role: Some(role), unread, mentions, read_seq, last_seq }, Some(row.first_seq));
    }

    fn listed(&mut self, row: Row, first_seq: Option<Seq>) {
        self.begins_at(first_seq, row.last_seq);
        let is_older = |other: Row| row.last_seq < other.last_seq || row.read_seq < other.read_seq;
        if !self.row.is_some_and(is_older) {
            self.row = Some(row);
        }
        self.known(row.last_seq);
    }

    /// Opens the conversation: the unread separator does not move until [`close`](Self::close).
    pub fn open(&mut self) {
        if self.opened.is_none() {
            self.opened = Some(self.separator());
        }
    }

    /// Closes the conversation.
    pub fn close(&mut self) {
        self.opened = None;
    }

    /// A read mark counts as a delivered one.
    fn raise(&mut self, user_id: &UserId, delivered: Seq, read: Seq) {
        let marks = self.marks.entry(user_id.clone()).or_default();
        marks.delivered = marks.delivered.max(delivered).max(read);
        marks.read = marks.read.max(read);
    }

    /// The conversation has entries up to here. The view requests those that have not come.
    pub(crate) fn ends_at(&mut self, last_seq: Seq) {
        self.last_seq = self.last_seq.max(last_seq);
    }

    /// Takes the server's last `seq` and read mark of the conversation.
    fn known(&mut self, last_seq: Seq) {
        self.ends_at(last_seq);
        self.is_known = true;
        self.separate();
    }

    /// Places the separator again, until it is certain.
    fn separate(&mut self) {
        if self.is_known && self.opened.as_ref().is_some_and(|opened| !opened.is_sure) {
            self.opened = Some(self.separator());
        }
    }

    /// The user has seen something: the separator stays where it was until now, although no row has confirmed the mark.
    pub(crate) fn keep_separator(&mut self) {
        if self.opened.as_ref().is_some_and(|opened| !opened.is_sure) {
            self.opened = Some(Opened { is_sure: true, ..self.separator() });
        }
    }

    fn separator(&self) -> Opened {
        Opened { mark: self.own_read(), count: self.unread(), is_sure: self.is_counted() }
    }
}

/// Output.
impl Timeline {
    /// Returns everything to draw, in order. `day_of` returns the day of a time, in the viewer's time zone and words.
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
        for place in self.places(Seq::ZERO, None) {
            match place {
                Place::Gap { after_seq, before_seq } => entries.push(TimelineEntry::Gap { after_seq, before_seq }),
                Place::System { message, system } => {
                    turn(&mut entries, message.sent_at);
                    entries.push(TimelineEntry::System { message, system });
                }
                Place::Message { message, tick, unread } => {
                    turn(&mut entries, message.sent_at);
                    entries.extend(unread.map(TimelineEntry::Unread));
                    let (quote, seq) = (self.quote(message.reply_to), message.seq);
                    let (changing, refused) = (self.is_changing(seq), self.refused(seq));
                    let (own, message) = (tick.is_some(), self.foreseen(message));
                    entries.push(TimelineEntry::Message { message, own, tick, quote, changing, refused });
                }
                Place::Unreadable { message, why, unread } => {
                    turn(&mut entries, message.sent_at);
                    entries.extend(unread.map(TimelineEntry::Unread));
                    entries.push(TimelineEntry::Unreadable { message, why });
                }
                Place::Unsent { unsent, draft: Draft { body, reply_to, .. } } => {
                    turn(&mut entries, unsent.queued.made_at);
                    let tick = if unsent.error.is_some() { Tick::Failed } else { Tick::Waiting };
                    entries.push(TimelineEntry::Unsent { unsent, body, tick, quote: self.quote(*reply_to) });
                }
            }
        }
        entries
    }

    /// Returns all to draw, in order and without days: the stored entries from `from` to `to`. `None` stands for the
    /// end, where the unsent messages follow.
    pub(crate) fn places(&self, from: Seq, to: Option<Seq>) -> Vec<Place<'_>> {
        let (first_unread, all) = (self.first_unread(), self.all_others());
        let mut places = Vec::new();
        let mut before: Option<Span> = None;
        for span in self.spans.iter().filter_map(|span| span.within(Span { from, to: to.unwrap_or(Seq::MAX) })) {
            if let Some(before) = before.replace(span) {
                places.push(Place::Gap { after_seq: before.to, before_seq: span.from });
            }
            for message in self.held.range(span.from..=span.to).map(|(_, message)| message) {
                let seq = message.seq;
                let unreadable = Unreadable::in_entry(message).filter(|_| message.deleted_at.is_none());
                let unread = first_unread.filter(|(first, _)| *first == seq).map(|(_, count)| count);
                if let Some(system) = shown_event(message) {
                    places.push(Place::System { message, system });
                } else if let Some(why) = unreadable {
                    places.push(Place::Unreadable { message, why, unread });
                } else if counts(message) {
                    let tick = if self.is_own(message) { Some(tick(seq, all)) } else { None };
                    places.push(Place::Message { message, tick, unread });
                }
            }
        }
        for unsent in self.unsent.iter().filter(|_| to.is_none()) {
            if let Outgoing::Message { draft, .. } = &unsent.queued.outgoing {
                places.push(Place::Unsent { unsent, draft });
            }
        }
        places
    }

    /// Returns the silent entries of own kinds that reply to a message, in order, as far as known.
    pub(crate) fn signals(&self) -> impl Iterator<Item = (Seq, &Message)> {
        let is_signal = |message: &&Message| !counts(message) && is_target(message) && message.deleted_at.is_none();
        self.held.values().filter(is_signal).filter_map(|message| Some((message.reply_to?, message)))
    }

    /// Returns the `seq` of each stored entry that [`places`](Self::places) has, in order.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Seq> {
        let is_shown = |message: &&Message| counts(message) || shown_event(message).is_some();
        self.above(self.floor()).filter(is_shown).map(|message| message.seq)
    }

    /// The kind of the conversation, as far as known.
    pub(crate) fn kind(&self) -> ConversationKind {
        self.kind
    }

    /// Returns how far an own message has come.
    pub(crate) fn own_tick(&self, seq: Seq) -> Tick {
        tick(seq, self.all_others())
    }

    /// An own message or change with this id is not stored.
    pub(crate) fn has_unsent(&self, client_msg_id: &ClientMsgId) -> bool {
        self.unsent.iter().any(|unsent| unsent.is(client_msg_id))
    }

    /// The newest known entry, received or not.
    pub(crate) fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// The first entry that the user may see.
    pub(crate) fn first(&self) -> Seq {
        self.first.1
    }

    /// The server has reported the last entry and the user's read mark.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The number of unread messages is certain. Without a row, only the messages themselves show it.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_known && (self.row.is_some() || self.missing_above(self.own_read()) == 0)
    }

    /// Returns the ranges without a gap, in order.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the other users who are typing now, in the order of their ids.
    pub fn writing(&self, now: Moment) -> Vec<&UserId> {
        self.writing.iter().filter(|(_, writing)| now < writing.until).map(|(user_id, _)| user_id).collect()
    }

    /// Returns the texts that services are writing now, as far as they are.
    pub fn texts(&self, now: Moment) -> BTreeMap<&UserId, &str> {
        let current = self.writing.iter().filter(|(_, writing)| now < writing.until);
        current.filter_map(|(user_id, writing)| Some((user_id, writing.text.as_deref()?))).collect()
    }

    /// Returns when the next of them no longer is.
    pub(crate) fn writing_ends(&self, now: Moment) -> Option<Moment> {
        self.writing.values().map(|writing| writing.until).filter(|until| now < *until).min()
    }

    /// Returns whether the user was removed from the group or has left it. Earlier entries remain, and the user may
    /// send nothing. For a channel, only the refusal `not_member` shows this state.
    pub fn is_closed(&self) -> bool {
        if self.is_channel() {
            return false;
        }
        let by_row = self.row.map(|row| (row.last_seq, row.role == Some(Role::None)));
        let by_entry = self.own_turn().map(|(seq, turn)| (seq, turn == Turn::Leaves));
        by_row.max(by_entry).is_some_and(|(_, is_closed)| is_closed)
    }

    /// Returns the other members who have read the message at `seq`, and those who have only received it, as far as
    /// known, without the author.
    pub fn readers(&self, seq: Seq) -> Readers<'_> {
        let writer = self.held.get(&seq).map(|message| &message.sender_id);
        self.members().readers(&self.user_id, seq, writer)
    }

    fn get(&self, seq: Seq) -> Option<Cow<'_, Message>> {
        let is_read = |message: &&Message| message.kind != Kind::Sealed || message.deleted_at.is_some();
        let message = self.held.get(&seq).filter(|message| counts(message) && seq > self.floor()).filter(is_read);
        message.map(|message| self.foreseen(message))
    }

    /// Returns the message that one replies to, in its current state, if it has come.
    pub(crate) fn quote(&self, reply_to: Option<Seq>) -> Option<Cow<'_, Message>> {
        reply_to.and_then(|seq| self.get(seq))
    }

    /// Returns the message with the own changes that are not stored yet.
    pub(crate) fn foreseen<'a>(&'a self, message: &'a Message) -> Cow<'a, Message> {
        let mut foreseen = Cow::Borrowed(message);
        for unsent in self.waiting(message.seq) {
            foresee(foreseen.to_mut(), &unsent.queued.outgoing, unsent.queued.made_at, &self.user_id);
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

    /// Returns whether own changes of the message have no reply yet.
    pub(crate) fn is_changing(&self, seq: Seq) -> bool {
        self.waiting(seq).next().is_some()
    }

    /// Returns the last own change of the message that was refused for good.
    pub(crate) fn refused(&self, seq: Seq) -> Option<&Unsent> {
        self.own_changes(seq).rfind(|unsent| unsent.error.is_some())
    }

    /// Returns the pinned messages that the user sees, the last pinned first. Pages and entries have them, in any order.
    pub fn pins(&self) -> Vec<Seq> {
        let mut pins = self.pins.now();
        pins.retain(|seq| *seq > self.floor());
        pins
    }

    pub(crate) fn knows_pins(&self) -> bool {
        self.pins.is_known()
    }

    /// Returns the next part of the conversation to request with `history`; `None` if no entry is missing.
    pub fn missing(&self) -> Option<Side> {
        let Some(newest) = self.spans.last() else {
            return if self.last_seq > self.floor() { Some(Side::Newest) } else { None };
        };
        let is_whole = newest.to >= self.last_seq;
        let last = if is_whole { self.spans.iter().rev().nth(1)? } else { newest };
        Some(Side::After(last.to))
    }

    /// Returns the part to request with `history` when the user scrolls up; `None` if no older entry exists.
    pub fn more_before(&self) -> Option<Side> {
        let oldest = self.spans.first()?.from;
        if oldest.previous() > self.floor() { Some(Side::Before(oldest)) } else { None }
    }

    /// Returns the number of unread messages of others, as far as known. Deleted messages count only in a channel.
    /// While entries are missing, the number is the row's count and the messages since then.
    pub fn unread(&self) -> u64 {
        let mark = self.own_read();
        let of_others = |mark| self.above(mark).filter(|message| self.awaits_reading(message)).count() as u64;
        let held = of_others(mark);
        let missing = self.missing_above(mark);
        match self.row {
            Some(row) if missing > 0 => {
                // The number can be lower than the received messages: the row may include a delete that is missing
                // here.
                let known = row.unread.saturating_sub(self.deleted_since(row.last_seq, mark).count() as u64);
                (known + of_others(mark.max(row.last_seq))).min(held + missing)
            }
            _ => held,
        }
    }

    /// How many of those name the user, as far as known.
    pub fn mentions(&self) -> u64 {
        // A delete of an unknown message does not contain the mentions. The mentions can't be more than the unread
        // messages.
        self.naming().min(self.unread())
    }

    fn naming(&self) -> u64 {
        let mark = self.own_read();
        let naming = |mark| {
            let naming = self.above(mark).filter(|message| self.awaits_reading(message) && self.is_named(message));
            naming.count() as u64
        };
        let held = naming(mark);
        let missing = self.missing_above(mark);
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
        // In groups, an admin may delete another user's message. An unknown target counts as the own message of the
        // delete's author.
        let is_others = move |entry: &&Message| {
            let target = entry.target_seq.and_then(|target| self.held.get(&target));
            !self.is_own(target.unwrap_or(entry))
        };
        let deletes = self.above(last_seq).filter(|entry| entry.kind == Kind::Delete).filter(is_others);
        let targets = deletes.filter_map(|entry| entry.target_seq);
        targets.filter(move |target| *target > mark && *target <= last_seq && !counts_them)
    }

    /// Returns the number of entries above the mark that have not come.
    fn missing_above(&self, mark: Seq) -> u64 {
        let above = Span { from: mark.next(), to: Seq::MAX };
        let come = self.spans.iter().filter_map(|span| span.within(above)).map(|span| span.to.above(span.from) + 1);
        self.last_seq.above(mark).saturating_sub(come.sum())
    }

    /// Returns the `seq` to report with `read` when the user has seen everything shown. The message there is the last
    /// unread one of others that is not deleted and has no gap before it. `None` if there is nothing to report.
    pub fn read_up_to(&self) -> Option<Seq> {
        let mark = self.own_read();
        let mut spans = self.spans.iter();
        // The oldest entries need nothing before them.
        let first = spans.next()?;
        let gap = spans.find(|span| span.from.previous() > mark);
        let whole = self.spans.iter().take_while(|span| Some(*span) != gap).last().unwrap_or(first);
        self.last_unread(mark, whole.to)
    }

    /// Returns the `seq` to report with `read` when the user has seen the entry at `seen`, and so all that is unread up
    /// to there. The mark doesn't pass a gap, and no entry between the mark and the report is missing.
    pub(crate) fn read_by_seeing(&self, seen: Seq) -> Option<Seq> {
        let mark = self.own_read();
        let next = mark.next();
        let whole = self.spans.iter().find(|span| span.from <= next && next <= span.to)?;
        self.last_unread(mark, whole.to.min(seen))
    }

    /// Returns the last unread message of others above the mark, up to `to`.
    fn last_unread(&self, mark: Seq, to: Seq) -> Option<Seq> {
        let unread = self.above(mark).take_while(|message| message.seq <= to);
        unread.filter(|message| self.awaits_reading(message)).last().map(|message| message.seq)
    }

    /// Above the own read mark, it is unread.
    fn awaits_reading(&self, message: &Message) -> bool {
        counts(message) && (message.deleted_at.is_none() || self.is_channel()) && !self.is_own(message)
    }

    fn is_own(&self, message: &Message) -> bool {
        message.sender_id == self.user_id
    }

    pub(crate) fn own_read(&self) -> Seq {
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
        let next = mark.next();
        let whole = self.spans.iter().find(|span| span.from <= next && next <= span.to)?;
        let mut after = self.above(*mark).take_while(|message| message.seq <= whole.to);
        after.find(|message| self.awaits_reading(message)).map(|message| (message.seq, *count))
    }

    /// Up to where all others have the conversation, and have read it; `None`: there are no others, or it isn't known.
    fn all_others(&self) -> Option<(Seq, Seq)> {
        if self.kind != ConversationKind::Direct && !self.has_receipts {
            return None;
        }
        self.members().all_others(&self.user_id)
    }
}

/// The event of a system entry, if this version knows it.
fn shown_event(message: &Message) -> Option<&System> {
    message.system.as_ref().filter(|system| !matches!(system, System::Later(_)))
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
pub(crate) mod folding;
