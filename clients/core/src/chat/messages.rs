//! The messages of one conversation, as an interface shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use wire::{Attached, ConversationId, HistoryResult, Kind, Message, Seq, Side, Timestamp, UserId};

use super::item::{Content, Item, MessageItem, Progress, Refused, Reply, Run, Signal, can_help};
use super::kept;
use super::window::{At, PAGE, Window};
use super::zone::Zone;
use crate::group::Draft;
use crate::saved::Queued;
use crate::timeline::Place;
use crate::{Event, Moment, Tick, Timeline, Unsent, store};

/// The view of one conversation's messages.
///
/// Pass in the client's events, and carry out the [`Request`]s; then draw the [`Snapshot`]. The order of the inputs does
/// not matter, and an input may come again.
///
/// ```
/// use pigeonhole_core::chat::{At, Content, Messages, Zone};
/// use pigeonhole_core::{Outgoing, Queued};
/// use wire::{ClientMsgId, ConversationId, Target, Timestamp, UserId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (me, id) = (UserId::parse("alice")?, ConversationId::parse("dm_ab")?);
/// let mut view = Messages::new(me, id, At::FirstUnread, Zone::default());
/// // With a store: `view.timeline_mut().row(…)`, and `queued(…)` for each request of the outbox.
/// let target = Target::User(UserId::parse("bob")?);
/// let outgoing = Outgoing::message(target, "hi".into(), None);
/// let made_at = Timestamp::from_millis(1_763_632_800_000);
/// view.timeline_mut().queued(Queued { client_msg_id: ClientMsgId::parse("7b0e")?, outgoing, made_at });
///
/// for request in view.requests() {
///     // Read the store or ask the server, then `view.loaded(…)`, `view.page(…)` or `view.lost(…)`.
/// }
/// let keys: Vec<&str> = view.snapshot().items.iter().map(|item| &*item.key).collect();
/// assert_eq!(keys, ["d2025-11-20", "c7b0e"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Messages {
    me: UserId,
    conversation_id: ConversationId,
    timeline: Timeline,
    zone: Zone,
    at: At,
    /// `None`: nothing is known yet of where the view opens.
    window: Option<Window>,
    asked: Vec<(Side, Stage)>,
    /// The files of attachments on this device.
    places: BTreeMap<Seq, String>,
    snapshot: Snapshot,
}

/// All that an interface draws.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Rises with each change of the rest.
    pub version: u64,
    /// Everything to draw, in order. An item that did not change is the same object as in the snapshot before.
    pub items: Vec<Arc<Item>>,
    /// [`Messages::older`] brings more.
    pub has_older: bool,
    /// [`Messages::newer`] brings more: the window has left the end, and new messages are not among the items.
    pub has_newer: bool,
    /// The number of unread messages, for the arrow that leads to the end.
    pub unread: u64,
    /// The pinned messages that are not deleted, the last pinned first. Without a message, the view has not received it:
    /// [`Messages::jump`] leads there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<Reply>,
}

/// A request of the view, which is made once. The method that it names ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Read [`PAGE`] messages of this side from the message store, and pass them to [`Messages::loaded`]. Without a
    /// store, pass an empty window.
    Load(Side),
    /// Request [`PAGE`] entries of this side with `history`, and pass them to [`Messages::page`]; after an error, call
    /// [`Messages::lost`].
    History(Side),
}

/// The requests for one side of the conversation: the store first, then the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Loading,
    Loaded,
    Asking,
    /// The server's page was no help. The view repeats the request after the next reconnect.
    Stuck,
}

/// The limit of concurrent `history` requests of a view.
const HISTORY_REQUESTS_MAX: usize = 2;

/// Input from the client.
impl Messages {
    /// Opens a view, in this time zone. The unread separator stays where it is until the view is dropped.
    pub fn new(me: UserId, conversation_id: ConversationId, at: At, zone: Zone) -> Self {
        let mut timeline = Timeline::new(me.clone());
        timeline.open();
        let (asked, places, snapshot) = (Vec::new(), BTreeMap::new(), Snapshot::default());
        Self { me, conversation_id, timeline, zone, at, window: None, asked, places, snapshot }
    }

    /// Returns the timeline, for inputs that no event has: rows, marks of members, requests of the outbox, dismissals.
    /// The caller passes those of this conversation.
    pub fn timeline_mut(&mut self) -> &mut Timeline {
        &mut self.timeline
    }

    /// Takes any event of the client. Events of other conversations change nothing.
    pub fn event(&mut self, event: &Event, now: Moment) {
        match event {
            Event::Message { message, .. } if message.conversation_id == self.conversation_id => {
                self.timeline.message(message.clone());
            }
            Event::Receipt { kind, receipt } if receipt.conversation_id == self.conversation_id => {
                self.timeline.receipt(*kind, &receipt.user_id, receipt.seq);
            }
            Event::ConversationChanged(row) if row.conversation_id == self.conversation_id => self.timeline.row(row),
            Event::Typing { conversation_id, user_id, text, .. } if *conversation_id == self.conversation_id => {
                self.timeline.typing(user_id, text.as_deref(), now);
            }
            Event::Uploading { client_msg_id, done, .. } => self.timeline.uploading(client_msg_id, *done),
            Event::Reacted { queued } if self.is_here(queued) => self.timeline.reacted(queued),
            Event::Failed { queued, error } => self.timeline.failed_for(queued, error),
            Event::State(crate::State::CaughtUp) => self.retry(),
            // Events of other conversations, and those that no message shows.
            _ => {}
        }
    }

    /// A message or a change of this conversation is not in the timeline of another one.
    fn is_here(&self, queued: &Queued) -> bool {
        queued.outgoing.target() == Some(wire::Target::Conversation(self.conversation_id.clone()))
    }

    /// Takes messages of the store: the reply to [`Request::Load`].
    pub fn loaded(&mut self, side: Side, window: store::Window) {
        self.timeline.stored(window, side, PAGE);
        self.set_stage(side, Stage::Loading, Some(Stage::Loaded));
    }

    /// Takes the file of a message's attachment, or `None`: it no longer exists.
    pub fn place(&mut self, seq: Seq, path: Option<&str>) {
        match path {
            Some(path) => self.places.insert(seq, path.to_owned()),
            None => self.places.remove(&seq),
        };
    }

    /// Takes a page of the server: the reply to [`Request::History`].
    pub fn page(&mut self, side: Side, page: HistoryResult) {
        let before = (self.timeline.is_known(), self.timeline.spans().to_vec());
        self.timeline.history(page);
        let is_help = before != (self.timeline.is_known(), self.timeline.spans().to_vec());
        self.set_stage(side, Stage::Asking, if is_help { None } else { Some(Stage::Stuck) });
    }

    /// The conversation does not exist yet.
    pub fn empty(&mut self, side: Side) {
        let (last_seq, messages, members, pins) = (Seq::ZERO, vec![], vec![], vec![]);
        self.page(side, HistoryResult { messages, more: false, last_seq, first_seq: None, members, pins });
    }

    /// The server has not sent the page.
    pub fn lost(&mut self, side: Side) {
        self.set_stage(side, Stage::Asking, Some(Stage::Stuck));
    }

    fn set_stage(&mut self, side: Side, from: Stage, to: Option<Stage>) {
        self.asked.retain(|asked| *asked != (side, from));
        self.asked.extend(to.map(|to| (side, to)));
    }

    /// Requests again what the server could not send.
    fn retry(&mut self) {
        self.asked.retain(|(_, stage)| *stage != Stage::Stuck);
    }
}

/// Input from the user.
impl Messages {
    /// Sets the time zone again, after a journey or a change of its offsets.
    pub fn set_zone(&mut self, zone: Zone) {
        self.zone = zone;
    }

    /// Shows older messages: the user has come near the first item.
    pub fn older(&mut self) {
        self.grow();
        self.retry();
        if let Some(window) = &mut self.window {
            window.load_older();
        }
    }

    /// Shows newer messages: the user has come near the last item.
    pub fn newer(&mut self) {
        self.grow();
        self.retry();
        if let Some(window) = &mut self.window {
            window.load_newer();
        }
    }

    /// Shows another part of the conversation.
    pub fn jump(&mut self, at: At) {
        self.retry();
        (self.at, self.window) = (at, None);
    }

    /// Takes note that the item with this key was on the screen, with all unread messages before it. Returns the mark to
    /// report with `read`, if it rises. The mark does not pass a gap, since the user can't have seen what is missing.
    ///
    /// Call it for each item that was visible for 300 ms while the app was in the foreground. Half of the item counts,
    /// and so does an item that fills half of the screen.
    pub fn seen(&mut self, key: &str) -> Option<Seq> {
        let item = self.snapshot.items.iter().find(|item| item.key == key)?;
        let seq = match &item.content {
            Content::Message(message) => message.seq?,
            Content::System { seq, .. } | Content::Unreadable { seq, .. } => *seq,
            Content::Day { .. } | Content::Unread { .. } | Content::Gap { .. } => return None,
        };
        let mark = self.timeline.read_by_seeing(seq);
        self.read(mark)
    }

    /// The user has read everything, although some of it may never have come to this device. Returns the mark to report
    /// with `read`, if it rises.
    pub fn read_all(&mut self) -> Option<Seq> {
        let mark = if self.timeline.unread() > 0 { Some(self.timeline.last_seq()) } else { None };
        self.read(mark)
    }

    fn read(&mut self, mark: Option<Seq>) -> Option<Seq> {
        let mark = mark?;
        self.timeline.keep_separator();
        self.timeline.receipt(crate::ReceiptKind::Read, &self.me, mark);
        Some(mark)
    }
}

/// Output.
impl Messages {
    /// Returns what the view needs now and has not requested yet.
    pub fn requests(&mut self) -> Vec<Request> {
        self.grow();
        let missing = self.window.as_ref().map_or(vec![Side::Newest], |window| window.missing(&self.timeline));
        let is_under_way = |stage| matches!(stage, Stage::Loading | Stage::Asking);
        self.asked.retain(|(side, stage)| missing.contains(side) || is_under_way(*stage));
        let mut requests = Vec::new();
        for side in missing {
            let room = self.asked.iter().filter(|(_, stage)| *stage == Stage::Asking).count() < HISTORY_REQUESTS_MAX;
            match self.asked.iter_mut().find(|(asked, _)| *asked == side) {
                None => {
                    self.asked.push((side, Stage::Loading));
                    requests.push(Request::Load(side));
                }
                Some((_, stage @ Stage::Loaded)) if room => {
                    *stage = Stage::Asking;
                    requests.push(Request::History(side));
                }
                Some(_) => {}
            }
        }
        requests
    }

    /// Returns what an interface draws now.
    pub fn snapshot(&mut self) -> &Snapshot {
        self.grow();
        let items = kept(&self.snapshot.items, self.items(), |item| &item.key);
        let window = self.window.as_ref();
        let new = Snapshot {
            version: self.snapshot.version,
            items,
            has_older: window.is_some_and(|window| window.has_older(&self.timeline)),
            has_newer: window.is_some_and(|window| window.bounds().1.is_some()),
            unread: self.timeline.unread(),
            pins: self.pins(),
        };
        if new != self.snapshot {
            self.snapshot = Snapshot { version: new.version + 1, ..new };
        }
        &self.snapshot
    }

    /// Whether no page has the pinned messages, and none is under way.
    pub(crate) fn wants_pins(&self) -> bool {
        !self.timeline.knows_pins() && !self.asked.iter().any(|(_, stage)| *stage == Stage::Asking)
    }

    fn pins(&self) -> Vec<Reply> {
        let pins = self.timeline.pins().into_iter().filter_map(|seq| self.reply(Some(seq)));
        let is_deleted = |pin: &Reply| pin.message.as_ref().is_some_and(|message| message.deleted_at.is_some());
        pins.filter(|pin| !is_deleted(pin)).collect()
    }

    /// Returns the timeline, which knows who is typing, who has read what, and whether the user has left.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn grow(&mut self) {
        if self.window.is_none() {
            self.window = Window::new(self.at, &self.timeline);
        }
        if let Some(window) = &mut self.window {
            window.grow(&self.timeline, |side| self.asked.contains(&(side, Stage::Stuck)));
        }
    }

    fn items(&self) -> Vec<Item> {
        let mut list = List { zone: &self.zone, items: Vec::new(), day: None, keys: BTreeSet::new() };
        let mut signals: BTreeMap<Seq, Vec<Signal>> = BTreeMap::new();
        for (seq, message) in self.timeline.signals() {
            signals.entry(seq).or_default().push(Signal::of(message));
        }
        // Before the window opens, only what is not sent is shown.
        let (from, to) = self.window.as_ref().map_or((Seq::MAX, None), Window::bounds);
        for place in self.timeline.places(from, to) {
            match place {
                Place::Gap { after_seq, before_seq } => {
                    list.push(format!("g{after_seq}"), Content::Gap { after_seq, before_seq });
                }
                Place::System { message, system } => {
                    let Message { seq, sent_at: at, ref sender_id, .. } = *message;
                    list.day(at);
                    let content = Content::System { seq, sender_id: sender_id.clone(), at, event: system.clone() };
                    list.push(format!("s{seq}"), content);
                }
                Place::Message { message, tick, unread } => {
                    list.day(message.sent_at);
                    if let Some(count) = unread {
                        list.push("u".to_owned(), Content::Unread { count });
                    }
                    let item = self.stored(message, tick, signals.remove(&message.seq).unwrap_or_default());
                    let own = item.client_msg_id.as_ref().map(|id| format!("c{id}"));
                    // The server may have stored one id twice, long after each other.
                    let key = own.filter(|key| !list.keys.contains(key)).unwrap_or_else(|| format!("s{}", message.seq));
                    list.push(key, Content::Message(Box::new(item)));
                }
                Place::Unreadable { message, why, unread } => {
                    let Message { seq, sent_at: at, ref sender_id, .. } = *message;
                    list.day(at);
                    if let Some(count) = unread {
                        list.push("u".to_owned(), Content::Unread { count });
                    }
                    let content = Content::Unreadable { seq, sender_id: sender_id.clone(), at, why };
                    list.push(format!("s{seq}"), content);
                }
                Place::Unsent { unsent, draft } => {
                    list.day(unsent.queued.made_at);
                    let item = self.unsent(unsent, draft.clone());
                    list.push(format!("c{}", unsent.queued.client_msg_id), Content::Message(Box::new(item)));
                }
            }
        }
        list.with_runs()
    }

    fn stored(&self, message: &Message, tick: Option<Tick>, signals: Vec<Signal>) -> MessageItem {
        let (seq, refused) = (message.seq, self.timeline.refused(message.seq));
        let message = self.timeline.foreseen(message).into_owned();
        let is_own = tick.is_some();
        MessageItem {
            seq: Some(seq),
            client_msg_id: message.client_msg_id.filter(|_| is_own),
            sender_id: message.sender_id,
            at: message.sent_at,
            kind: message.kind,
            body: message.body,
            data: message.data,
            signals,
            path: message.media.as_ref().and_then(|_| self.places.get(&seq).cloned()),
            media: message.media.as_deref().and_then(Attached::clear).cloned().map(Box::new),
            upload: None,
            mentions: message.mentions,
            reply: self.reply(message.reply_to),
            edited_at: message.edited_at,
            deleted_by: message.deleted_by,
            reactions: message.reactions,
            is_sealed: message.epoch.is_some(),
            progress: tick.map(Progress::stored),
            is_changing: self.timeline.is_changing(seq),
            refused: refused.and_then(|unsent| {
                let (client_msg_id, code) = (unsent.queued.client_msg_id.clone(), unsent.error.clone()?);
                Some(Refused { client_msg_id, can_help: can_help(&code), code })
            }),
            run: Run::default(),
        }
    }

    fn unsent(&self, unsent: &Unsent, draft: Draft) -> MessageItem {
        let Queued { client_msg_id, outgoing, made_at } = &unsent.queued;
        let upload = outgoing.upload();
        MessageItem {
            seq: None,
            client_msg_id: Some(client_msg_id.clone()),
            sender_id: self.me.clone(),
            at: *made_at,
            kind: outgoing.kind().unwrap_or(Kind::Text),
            body: draft.body,
            data: draft.data,
            signals: vec![],
            media: None,
            path: None,
            upload: upload.cloned().map(Box::new),
            mentions: draft.mentions,
            reply: self.reply(draft.reply_to),
            edited_at: None,
            deleted_by: None,
            reactions: vec![],
            is_sealed: false,
            progress: Some(Progress::unsent(unsent)),
            is_changing: false,
            refused: None,
            run: Run::default(),
        }
    }

    fn reply(&self, seq: Option<Seq>) -> Option<Reply> {
        let message = self.timeline.quote(seq).map(|message| Box::new(message.into_owned()));
        seq.map(|seq| Reply { seq, message })
    }
}

/// The items so far.
struct List<'a> {
    zone: &'a Zone,
    items: Vec<Item>,
    day: Option<String>,
    keys: BTreeSet<String>,
}

impl List<'_> {
    fn push(&mut self, key: String, content: Content) {
        self.keys.insert(key.clone());
        self.items.push(Item { key, content });
    }

    /// Opens a later day. The time of an unsent message is by this device's clock, which may be behind the server's.
    fn day(&mut self, at: Timestamp) {
        let day = self.zone.day(at);
        if self.day.as_ref().is_none_or(|before| *before < day) {
            self.day = Some(day.clone());
            self.push(format!("d{day}"), Content::Day { day });
        }
    }

    fn with_runs(mut self) -> Vec<Item> {
        let sender = |item: &Item| {
            if let Content::Message(message) = &item.content { Some(message.sender_id.clone()) } else { None }
        };
        let senders: Vec<Option<UserId>> = self.items.iter().map(sender).collect();
        for (at, item) in self.items.iter_mut().enumerate() {
            if let Content::Message(message) = &mut item.content {
                let is_of_run = |at: Option<usize>| {
                    at.and_then(|at| senders.get(at)).is_some_and(|sender| sender.as_ref() == Some(&message.sender_id))
                };
                message.run = Run { is_first: !is_of_run(at.checked_sub(1)), is_last: !is_of_run(Some(at + 1)) };
            }
        }
        self.items
    }
}
