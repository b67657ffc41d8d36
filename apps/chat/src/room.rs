//! What of all that the client tells belongs to the conversation on the screen.
//!
//! Nothing here does I/O: in go the client's events and what was asked for, out come [`News`] and [`Ask`]s. The order of the
//! messages, ticks and gaps are the [`Timeline`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use pigeonhole_client::{
    AddResult, Channel, ChannelsResult, ClientMsgId, Conversation, ConversationId, Draft, Error, Event, HistoryResult,
    InboxResult, LeaveResult, MembersResult, Message, MutedUntil, Outgoing, Platform, Presence, Queued, Receipt,
    ReceiptKind, ReceiptsResult, Registration, Seq, Settings, Side, State, System, Target, Tick, Timeline,
    TimelineEntry, Timestamp, UserId, When,
};

use crate::command::{COMMANDS, Change, Command, Setting};
use crate::group::{self, Act, Members, Question};
use crate::media;

/// How much of the conversation is shown at the start, and how much more each time that the user looks back beyond it.
const HISTORY_AT_ONCE: u64 = 50;

#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and none is kept")]
pub(crate) enum News {
    Connecting,
    Online,
    Offline {
        why: String,
        retry_at: Instant,
    },
    /// This is one connection too many, and waits for its user.
    Replaced,
    /// Another conversation is open now, of this name.
    Opened(String),
    /// The open group has this name now.
    Named(String),
    /// What is set for the open conversation now, in words; nothing, if nothing is.
    Settings(String),
    /// The next entry of the open conversation, silent ones too. `missed`: it came while this user had no connection.
    Message {
        message: Message,
        missed: bool,
    },
    /// The peer's devices hold everything up to here.
    Delivered {
        up_to: Seq,
    },
    /// The peer has read everything up to here, and so holds it.
    Read {
        up_to: Seq,
    },
    /// The newest of `count` messages in a conversation that is not the open one.
    Elsewhere {
        /// Of a group, its name.
        title: Option<String>,
        sender_id: UserId,
        body: String,
        count: usize,
    },
    /// An own message or change that will never be stored. `what` that means; `in_timeline`: it is shown there.
    Failed {
        what: String,
        why: String,
        in_timeline: bool,
    },
    /// Something the user should know and can't do anything about.
    Notice(String),
    /// What the user has asked for.
    Told(String),
    /// Everything that was waiting on the server has been shown.
    UpToDate,
}

/// What the room wants to know from the server, or the server from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    Inbox {
        cursor: Option<String>,
    },
    History {
        conversation_id: ConversationId,
        side: Side,
        limit: u64,
    },
    Read {
        conversation_id: ConversationId,
        seq: Seq,
    },
    Settings(Settings),
    Presence(UserId),
    /// Pages of the open group.
    Members {
        conversation_id: ConversationId,
        cursor: Option<UserId>,
    },
    Receipts {
        conversation_id: ConversationId,
        cursor: Option<UserId>,
    },
    /// A page of the chat list, for the user.
    List {
        cursor: Option<String>,
    },
    /// A page of the list of channels.
    Channels(Listing, Option<ConversationId>),
    Join(ConversationId),
    /// The open channel's entries, above this one.
    Watch {
        conversation_id: ConversationId,
        after: Seq,
    },
    Unwatch(ConversationId),
    Ring(Option<Registration>),
    /// What waits to be sent.
    Outbox,
}

/// What the list of channels is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Listing {
    /// The user wants to see it.
    Told,
    /// The open channel's row.
    Open,
}

/// With whom a conversation is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum With {
    Peer(UserId),
    /// A group or a channel.
    Group(ConversationId),
}

impl With {
    /// A user's id, or that of a group or a channel.
    pub(crate) fn parse(text: &str) -> Result<Self, pigeonhole_client::InvalidId> {
        match ConversationId::parse(text) {
            Ok(id) if id.has_members() => Ok(Self::Group(id)),
            Ok(_) | Err(_) => UserId::parse(text).map(Self::Peer),
        }
    }
}

/// What the user's line comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    Change(ConversationId, Seq, Change),
    Send(PathBuf, String),
    Cancel(ClientMsgId),
    Save(Box<Message>, PathBuf),
    Group(Option<ConversationId>, Act),
    Open(With),
}

/// What stands before the line that the user writes.
const PROMPT: &str = "> ";
const PROMPT_READ_ONLY: &str = "(read only) > ";
/// Why not.
const READ_ONLY: &str = "what a service tells is only read";

/// What a drain brought for one other conversation.
struct Digest {
    sender_id: UserId,
    body: String,
    count: usize,
}

/// What is set for the open conversation and the peer.
#[derive(Clone, Default, PartialEq)]
struct Standing {
    muted_until: Option<MutedUntil>,
    archived: bool,
    blocked: bool,
}

impl Standing {
    fn in_words(&self) -> String {
        let muted = self.muted_until.map(|until| match until {
            MutedUntil::Forever => "muted".to_owned(),
            MutedUntil::At(at) => format!("muted until {at}"),
        });
        let archived = self.archived.then(|| "archived".to_owned());
        let blocked = self.blocked.then(|| "blocked".to_owned());
        muted.into_iter().chain(archived).chain(blocked).collect::<Vec<_>>().join(", ")
    }
}

/// What the room waits for.
#[derive(Default)]
struct Asked {
    history: bool,
    /// Of a group: who is in it. Until that is known, nobody can be named.
    members: bool,
}

pub(crate) struct Room {
    me: UserId,
    with: With,
    /// The conversation, once it is known.
    id: Option<ConversationId>,
    /// Of a group: what it is called, and who is in it.
    title: Option<String>,
    members: Members,
    /// The user has asked, and the answer is not there.
    questions: Vec<Question>,
    /// The names of groups, by their rows; and the chat list as the user was told it.
    titles: BTreeMap<ConversationId, String>,
    list: Vec<With>,
    timeline: Timeline,
    standing: Standing,
    replaced: bool,
    /// From the loss of a connection until history has answered on the next one.
    catching_up: bool,
    /// The client has said that nothing is missing: what a room needs can be asked for.
    caught_up: bool,
    asked: Asked,
    /// The last message told in the news; `None` until the first history says where the conversation is.
    shown: Option<Seq>,
    /// Own messages that are not stored yet, and those that never will be.
    waiting: BTreeSet<ClientMsgId>,
    /// Of the user's messages and changes, those of this conversation: the timeline has them.
    said_here: BTreeSet<ClientMsgId>,
    failed: Vec<ClientMsgId>,
    digests: BTreeMap<ConversationId, Digest>,
    peer_delivered: Seq,
    peer_read: Seq,
    news: Vec<News>,
    asks: Vec<Ask>,
}

impl Room {
    pub(crate) fn new(me: UserId, with: With) -> Self {
        let id = match &with {
            With::Peer(_) => None,
            With::Group(id) => Some(id.clone()),
        };
        Self {
            timeline: Timeline::new(me.clone()),
            me,
            with,
            id,
            title: None,
            members: Members::new(),
            questions: Vec::new(),
            titles: BTreeMap::new(),
            list: Vec::new(),
            standing: Standing::default(),
            replaced: false,
            catching_up: true,
            caught_up: false,
            asked: Asked::default(),
            shown: None,
            waiting: BTreeSet::new(),
            said_here: BTreeSet::new(),
            failed: Vec::new(),
            digests: BTreeMap::new(),
            peer_delivered: Seq::ZERO,
            peer_read: Seq::ZERO,
            news: Vec::new(),
            asks: Vec::new(),
        }
    }

    /// Another conversation takes the place of this one.
    pub(crate) fn open_other(&mut self, with: With) {
        let mut other = Self::new(self.me.clone(), with);
        other.asks.extend(self.channel().map(Ask::Unwatch));
        other.asks.splice(0..0, std::mem::take(&mut self.asks));
        std::mem::swap(self, &mut other);
        (self.titles, self.list, self.waiting) = (other.titles, other.list, other.waiting);
        self.news = other.news;
        (self.replaced, self.digests, self.caught_up) = (other.replaced, other.digests, other.caught_up);
        self.title = self.id.as_ref().and_then(|id| self.titles.get(id)).cloned();
        self.news.push(News::Opened(self.name()));
        self.asks.push(Ask::Outbox);
        // Before that, what the room needs is asked for at the end of it.
        if self.caught_up {
            self.look();
        }
    }

    pub(crate) fn with(&self) -> &With {
        &self.with
    }

    /// What the user asked for is there: it is opened, unless they have turned to another conversation since.
    pub(crate) fn open_from(&mut self, from: &With, id: ConversationId) {
        if self.with == *from {
            self.open_other(With::Group(id));
        } else {
            self.news.push(News::Told(format!("/open {id} has what you made or joined")));
        }
    }

    /// With whom it is, in words.
    pub(crate) fn name(&self) -> String {
        match &self.with {
            With::Peer(peer) => peer.to_string(),
            With::Group(id) => self.title.clone().unwrap_or_else(|| id.to_string()),
        }
    }

    fn peer(&self) -> Option<&UserId> {
        match &self.with {
            With::Peer(peer) => Some(peer),
            With::Group(_) => None,
        }
    }

    /// The open channel, if it is one.
    fn channel(&self) -> Option<ConversationId> {
        self.id.clone().filter(ConversationId::is_channel)
    }

    fn is_peer(&self, user_id: &UserId) -> bool {
        self.peer() == Some(user_id)
    }

    /// Whether nothing can be written in it: with a service nobody talks.
    pub(crate) fn is_read_only(&self) -> bool {
        self.peer().is_some_and(UserId::is_service)
    }

    pub(crate) fn prompt(&self) -> &'static str {
        if self.is_read_only() { PROMPT_READ_ONLY } else { PROMPT }
    }

    /// The user has written all the same.
    pub(crate) fn refuse(&mut self, line: &str) {
        let what = format!("not sent: {line}");
        self.news.push(News::Failed { what, why: READ_ONLY.to_owned(), in_timeline: false });
    }

    /// A message of the user's for it, which names those who are in it.
    pub(crate) fn draft(&self, body: &str) -> (Target, Draft) {
        match &self.with {
            With::Peer(peer) => (Target::User(peer.clone()), Draft::new(body)),
            With::Group(id) => {
                // In a channel nobody can be named.
                let mentions = if id.is_channel() { vec![] } else { group::mentions(body, &self.members) };
                (Target::Conversation(id.clone()), Draft::new(body).mentions(mentions))
            }
        }
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// How many of the user's messages have no answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the connection waits for the user.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced
    }

    /// Whether everything that is known to come has been told.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.catching_up && !self.asked.history && self.waiting.is_empty()
    }

    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn take_asks(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asks)
    }

    /// The user's own message is in the outbox.
    pub(crate) fn said(&mut self, queued: Queued, at: Timestamp) {
        // Whoever writes on has seen what failed before.
        for failed in self.failed.drain(..) {
            self.timeline.dismiss(&failed);
        }
        self.waiting.insert(queued.client_msg_id.clone());
        self.said_here.insert(queued.client_msg_id.clone());
        self.timeline.queued(queued, at);
    }

    /// What waits to be sent, as `with` was opened: what is of it is shown.
    pub(crate) fn unsent(&mut self, with: &With, outbox: Vec<Queued>, at: Timestamp) {
        if self.with != *with {
            return;
        }
        for queued in outbox {
            let is_here = match (queued.outgoing.target(), with) {
                (Some(Target::User(user)), With::Peer(peer)) => user == *peer,
                (Some(Target::Conversation(id)), With::Group(group)) => id == *group,
                (Some(Target::Conversation(id)), With::Peer(_)) => self.id.as_ref() == Some(&id),
                _ => false,
            };
            if is_here && self.said_here.insert(queued.client_msg_id.clone()) {
                self.timeline.queued(queued, at);
            }
        }
    }

    /// The user's own message did not even get into the outbox.
    pub(crate) fn not_said(&mut self, line: &str, error: &Error) {
        let what = format!("not sent: {line}");
        self.news.push(News::Failed { what, why: error.to_string(), in_timeline: false });
    }

    /// The conversation with the peer, once there is one.
    pub(crate) fn id(&self) -> Option<&ConversationId> {
        self.id.as_ref()
    }

    /// The user wants this; what is to be sent for it, if anything is.
    pub(crate) fn command(&mut self, command: Command) -> Option<Wish> {
        match command {
            Command::Help => self.news.extend(COMMANDS.lines().map(|line| News::Told(line.to_owned()))),
            Command::Who | Command::Send(..) | Command::Change(_) | Command::Set(Setting::Block | Setting::Unblock)
                if self.is_read_only() =>
            {
                self.news.push(News::Notice(READ_ONLY.to_owned()));
            }
            Command::Who => match self.peer().cloned() {
                Some(peer) => self.asks.push(Ask::Presence(peer)),
                None => self.ask(Question::Members),
            },
            Command::List => {
                self.list.clear();
                self.asks.push(Ask::List { cursor: None });
            }
            Command::Send(path, caption) => return Some(Wish::Send(path, caption)),
            Command::Cancel => match self.uploading() {
                Some(client_msg_id) => return Some(Wish::Cancel(client_msg_id)),
                None => self.news.push(News::Notice("nothing is on its way".to_owned())),
            },
            Command::Save(seq, path) => match self.carrier(seq).and_then(|it| Some((media::place(&it)?, it))) {
                Some((place, message)) => return Some(Wish::Save(Box::new(message), path.unwrap_or(place))),
                None => self.news.push(News::Notice("there is nothing to save here".to_owned())),
            },
            Command::Channels => {
                self.list.clear();
                self.asks.push(Ask::Channels(Listing::Told, None));
            }
            Command::Join(id) => self.asks.push(Ask::Join(id)),
            Command::Open(what) => match self.find(&what) {
                Some(with) => return Some(Wish::Open(with)),
                None => self.news.push(News::Notice("there is no such conversation: /list shows them".to_owned())),
            },
            Command::Ask(question) => self.ask(question),
            Command::Group(act @ (Act::Create { .. } | Act::Channel { .. })) => return Some(Wish::Group(None, act)),
            Command::Group(act) => match &self.with {
                With::Group(id) => return Some(Wish::Group(Some(id.clone()), act)),
                With::Peer(_) => self.no_group(),
            },
            Command::Ring(token) => self.asks.push(Ask::Ring(token.map(|token| Registration {
                platform: Platform::Fcm,
                token,
                preview: true,
                badge: false,
                when: When::default(),
            }))),
            Command::Unknown => {
                let text = "not sent: no command is written so. /help has them all; begin a message with //";
                self.news.push(News::Notice(text.to_owned()));
            }
            Command::Usage(usage) => self.news.push(News::Notice(format!("it is written: {usage}"))),
            Command::Set(setting) => match setting.settings(self.id.as_ref(), self.peer()) {
                Some(settings) => self.asks.push(Ask::Settings(settings)),
                None => self.nothing_yet(),
            },
            Command::Change(change) => match (&self.id, self.target(&change)) {
                (Some(id), Some(seq)) => return Some(Wish::Change(id.clone(), seq, change)),
                (Some(_), None) => self.news.push(News::Notice("there is no such message here".to_owned())),
                (None, _) => self.nothing_yet(),
            },
        }
        None
    }

    fn nothing_yet(&mut self) {
        let text = match self.with {
            With::Peer(_) if self.is_read_only() => "there is no conversation yet",
            With::Peer(_) => "there is no conversation yet: write something first",
            With::Group(_) => "that is for a conversation of two",
        };
        self.news.push(News::Notice(text.to_owned()));
    }

    fn no_group(&mut self) {
        self.news.push(News::Notice("this is no group: /group makes one, /open opens one".to_owned()));
    }

    fn ask(&mut self, question: Question) {
        let With::Group(conversation_id) = self.with.clone() else { return self.no_group() };
        if question == Question::Seen && conversation_id.is_channel() {
            return self.news.push(News::Notice("a channel does not say who has read it".to_owned()));
        }
        self.questions.push(question);
        self.asks.push(match question {
            Question::Members => Ask::Members { conversation_id, cursor: None },
            Question::Seen => Ask::Receipts { conversation_id, cursor: None },
        });
    }

    fn answered(&mut self, question: Question) -> bool {
        let asked = self.questions.iter().position(|asked| *asked == question);
        asked.map(|at| self.questions.swap_remove(at)).is_some()
    }

    /// A page of who is in the group.
    pub(crate) fn members(&mut self, of: &ConversationId, page: Result<MembersResult, Error>) {
        match page {
            _ if self.id.as_ref() != Some(of) => {}
            Ok(MembersResult { members, next_cursor }) => {
                self.members.extend(group::of_page(members));
                if next_cursor.is_some() {
                    self.asks.push(Ask::Members { conversation_id: of.clone(), cursor: next_cursor });
                    return;
                }
                if self.answered(Question::Members) {
                    self.news.push(News::Told(group::members_in_words(&self.members)));
                }
                self.members_known();
            }
            Err(error) => {
                self.notice(&error);
                self.members_known();
            }
        }
    }

    fn members_known(&mut self) {
        self.asked.members = false;
        if self.shown.is_some() && !self.asked.history {
            self.caught_up();
            self.report();
        }
    }

    /// A page of how far the others in the group have come.
    pub(crate) fn receipts(&mut self, of: &ConversationId, page: Result<ReceiptsResult, Error>) {
        match page {
            _ if self.id.as_ref() != Some(of) => {}
            Ok(page) => {
                self.timeline.receipts(&page);
                if page.next_cursor.is_some() {
                    self.asks.push(Ask::Receipts { conversation_id: of.clone(), cursor: page.next_cursor });
                } else if self.answered(Question::Seen) {
                    let text = self.seen();
                    self.news.push(News::Told(text));
                }
            }
            Err(error) => self.notice(&error),
        }
    }

    /// Who has read the user's last message, in words.
    fn seen(&self) -> String {
        let entries = self.timeline.entries(|_| ());
        let own = entries.iter().rev().find_map(|entry| match entry {
            TimelineEntry::Message { message, own: true, tick: Some(tick), .. } => Some((message.seq, *tick)),
            _ => None,
        });
        let Some((seq, tick)) = own else { return "there is no message of yours here".to_owned() };
        let readers = self.timeline.readers(seq);
        let names = |ids: Vec<&UserId>| ids.into_iter().map(UserId::to_string).collect::<Vec<_>>().join(", ");
        match (readers.read.is_empty(), readers.delivered.is_empty()) {
            (true, true) => format!("#{seq}: nobody has it yet"),
            (false, true) if tick == Tick::Read => format!("#{seq}: read by all: {}", names(readers.read)),
            (false, true) => format!("#{seq}: read by {}", names(readers.read)),
            (true, false) => format!("#{seq}: received by {}", names(readers.delivered)),
            (false, false) => {
                format!("#{seq}: read by {}; received by {}", names(readers.read), names(readers.delivered))
            }
        }
    }

    /// An addition is stored, or found nobody new.
    pub(crate) fn added(&mut self, client_msg_id: &ClientMsgId, added: Result<AddResult, Error>) {
        let Ok(AddResult { entry, already, .. }) = added else { return };
        if entry.is_none() {
            self.waiting.remove(client_msg_id);
        }
        if !already.is_empty() {
            let names = already.iter().map(UserId::to_string).collect::<Vec<_>>().join(", ");
            self.news.push(News::Told(format!("already in the group: {names}")));
        }
    }

    /// A page of the chat list that the user has asked for.
    pub(crate) fn told_list(&mut self, inbox: Result<InboxResult, Error>) {
        let InboxResult { conversations, next_cursor } = match inbox {
            Ok(page) => page,
            Err(error) => return self.notice(&error),
        };
        if conversations.is_empty() && next_cursor.is_none() && self.list.is_empty() {
            self.news.push(News::Told("there are no conversations yet".to_owned()));
        }
        for row in conversations {
            self.remember_title(&row);
            let (with, name) = match (&row.peer_id, &row.title) {
                (Some(peer), _) => (With::Peer(peer.clone()), peer.to_string()),
                (None, title) => {
                    (With::Group(row.conversation_id.clone()), title.clone().unwrap_or_else(|| "a group".to_owned()))
                }
            };
            self.list.push(with);
            let mentions = row.mentions.filter(|mentions| *mentions > 0);
            let named = mentions.map(|mentions| format!(", {mentions} for you")).unwrap_or_default();
            let unread = if row.unread > 0 { format!(" ({} new{named})", row.unread) } else { String::new() };
            self.news.push(News::Told(format!("{} {name}{unread}", self.list.len())));
        }
        if next_cursor.is_some() {
            self.asks.push(Ask::List { cursor: next_cursor });
        }
    }

    /// A page of the list of channels.
    pub(crate) fn channels(&mut self, listing: Listing, page: Result<ChannelsResult, Error>) {
        let ChannelsResult { conversations, next_cursor } = match page {
            Ok(page) => page,
            Err(error) => return self.notice(&error),
        };
        if listing == Listing::Told && conversations.is_empty() && self.list.is_empty() {
            self.news.push(News::Told("there are no channels yet: /channel makes one, /join joins one".to_owned()));
        }
        for row in conversations {
            self.titles.insert(row.conversation_id.clone(), row.title.clone());
            if self.id.as_ref() == Some(&row.conversation_id) {
                self.found_channel(&row);
            }
            if listing == Listing::Told {
                self.list.push(With::Group(row.conversation_id.clone()));
                let unread = if row.unread > 0 { format!(" ({} new)", row.unread) } else { String::new() };
                let (number, title, id) = (self.list.len(), row.title, row.conversation_id);
                self.news.push(News::Told(format!("{number} {title}{unread}: {id}")));
            }
        }
        if next_cursor.is_some() {
            self.asks.push(Ask::Channels(listing, next_cursor));
        }
    }

    fn found_channel(&mut self, row: &Channel) {
        self.timeline.channel(row);
        self.call(row.title.clone());
        let Channel { muted_until, archived, .. } = *row;
        self.stand(Standing { muted_until, archived, blocked: false });
    }

    /// The user has left a group or a channel: of a channel nothing else says so.
    pub(crate) fn left(&mut self, client_msg_id: &ClientMsgId, left: &LeaveResult) {
        if left.entry.is_none() {
            self.waiting.remove(client_msg_id);
            self.news.push(News::Told("you have left the channel".to_owned()));
        }
    }

    fn remember_title(&mut self, row: &Conversation) {
        if let Some(title) = &row.title {
            self.titles.insert(row.conversation_id.clone(), title.clone());
        }
    }

    /// The conversation that is meant: a number of the list, or somebody's name.
    fn find(&self, what: &str) -> Option<With> {
        let number = what.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let listed = number.and_then(|at| self.list.get(at)).cloned();
        listed.or_else(|| With::parse(what).ok().filter(|_| number.is_none()))
    }

    /// The message that is meant, if it is here.
    fn target(&self, change: &Change) -> Option<Seq> {
        let (wanted, own_one) = match change {
            Change::Edit { seq, .. } | Change::Delete { seq } => (*seq, true),
            Change::React { seq, .. } | Change::Reply { seq, .. } => (*seq, false),
        };
        let entries = self.timeline.entries(|_| ());
        let mut shown = entries.iter().rev().filter_map(|entry| match entry {
            TimelineEntry::Message { message, own, .. } if message.deleted_at.is_none() => Some((message.seq, *own)),
            TimelineEntry::Message { .. }
            | TimelineEntry::System { .. }
            | TimelineEntry::Day(())
            | TimelineEntry::Unread(_)
            | TimelineEntry::Gap { .. }
            | TimelineEntry::Unsent { .. } => None,
        });
        shown.find(|(seq, own)| wanted.map_or(*own == own_one, |wanted| wanted == *seq)).map(|(seq, _)| seq)
    }

    /// The message with this number, or the last one, that carries something.
    fn uploading(&self) -> Option<ClientMsgId> {
        self.timeline.entries(|_| ()).into_iter().rev().find_map(|entry| match entry {
            TimelineEntry::Unsent { unsent, tick: Tick::Waiting, .. } => {
                unsent.queued.outgoing.upload().map(|_| unsent.queued.client_msg_id.clone())
            }
            _ => None,
        })
    }

    fn carrier(&self, seq: Option<Seq>) -> Option<Message> {
        self.timeline.entries(|_| ()).into_iter().rev().find_map(|entry| match entry {
            TimelineEntry::Message { message, .. }
                if message.media.is_some() && seq.is_none_or(|seq| seq == message.seq) =>
            {
                Some(message.into_owned())
            }
            _ => None,
        })
    }

    /// What a message carries is there now, or will not be.
    pub(crate) fn saved(&mut self, place: &Path, saved: Result<(), Error>) {
        match saved {
            Ok(()) => self.news.push(News::Told(format!("saved as {}", place.display()))),
            Err(Error::Refused { code, .. }) if code == "gone" => {
                self.news.push(News::Notice("the message is deleted".to_owned()));
            }
            Err(error) => self.news.push(News::Notice(format!("not saved: {error}"))),
        }
    }

    /// Whether `peer` is there, since the user has asked.
    pub(crate) fn present(&mut self, peer: &UserId, presence: Result<Vec<Presence>, Error>) {
        match presence {
            Ok(users) => {
                let text = match users.into_iter().find(|user| user.user_id == *peer) {
                    Some(Presence { online: true, .. }) => format!("{peer} is online"),
                    Some(Presence { last_seen_at: Some(at), .. }) => format!("{peer} was last seen at {at}"),
                    Some(_) | None => format!("nobody knows when {peer} was here"),
                };
                self.news.push(News::Told(text));
            }
            Err(error) => self.notice(&error),
        }
    }

    /// Whether a phone rings from now on.
    pub(crate) fn rings(&mut self, on: bool, answer: Result<(), Error>) {
        match (answer, on) {
            (Ok(()), true) => self.news.push(News::Told(format!("what {} misses rings a phone", self.me))),
            (Ok(()), false) => self.news.push(News::Told("this phone no longer rings".to_owned())),
            (Err(error), _) => self.notice(&error),
        }
    }

    /// Somebody writes, and it is now.
    pub(crate) fn typing(&mut self, conversation_id: &ConversationId, user_id: &UserId, now: Instant) {
        if self.id.as_ref() == Some(conversation_id) {
            self.timeline.typing(user_id, now);
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Message { message, missed } => self.message(message, missed),
            Event::Receipt { kind, receipt } => self.receipt(kind, &receipt),
            Event::ConversationChanged(row) => self.found(&row),
            Event::SettingsChanged(settings) => self.settings(&settings),
            Event::Uploading { client_msg_id, done, .. } => self.timeline.uploading(&client_msg_id, done),
            Event::Reacted { queued } => {
                self.waiting.remove(&queued.client_msg_id);
                self.timeline.reacted(&queued);
            }
            Event::Unwatched { conversation_id, error } if self.id.as_ref() == Some(&conversation_id) => {
                let why = match error {
                    Error::Refused { code, .. } if code == "not_member" => "you are not in this channel".to_owned(),
                    error => error.to_string(),
                };
                self.news.push(News::Notice(format!("nothing more comes here: {why}")));
            }
            Event::State(state) => self.state(state),
            Event::Failed { queued: Queued { client_msg_id, outgoing }, error } => {
                let (why, what) = (reason(&outgoing, &error), not_done(&outgoing));
                let is_of_timeline = matches!(outgoing, Outgoing::Message { .. }) || outgoing.target_seq().is_some();
                let in_timeline = is_of_timeline && self.said_here.contains(&client_msg_id);
                self.waiting.remove(&client_msg_id);
                self.timeline.failed(&client_msg_id, why.clone());
                if error == Error::Cancelled {
                    self.timeline.dismiss(&client_msg_id);
                    self.news.push(News::Told("not sent".to_owned()));
                    return;
                }
                self.failed.push(client_msg_id);
                self.news.push(News::Failed { what, why, in_timeline });
            }
            _ => {}
        }
    }

    fn state(&mut self, state: State) {
        self.replaced = state == State::Replaced;
        self.caught_up = state == State::CaughtUp;
        match state {
            State::Connecting => self.news.push(News::Connecting),
            State::Online => {
                self.catching_up = true;
                self.timeline.close();
                self.news.push(News::Online);
            }
            State::Offline { why, retry_at } => {
                self.catching_up = true;
                self.news.push(News::Offline { why: why.to_string(), retry_at });
            }
            State::Replaced => {
                self.catching_up = true;
                self.news.push(News::Replaced);
            }
            State::CaughtUp => {
                // What came since the last time stands below a separator.
                self.timeline.open();
                self.tell_digests();
                if self.id.is_some() {
                    self.ask_history();
                    self.ask_group();
                } else {
                    self.asks.push(Ask::Inbox { cursor: None });
                }
            }
        }
    }

    fn tell_digests(&mut self) {
        for (id, Digest { sender_id, body, count }) in std::mem::take(&mut self.digests) {
            let title = self.titles.get(&id).cloned();
            self.news.push(News::Elsewhere { title, sender_id, body, count });
        }
    }

    /// What the room needs to know of its conversation. Of a group, its row says what it is called and what is unread.
    fn look(&mut self) {
        self.timeline.open();
        match self.with {
            With::Peer(_) => {}
            With::Group(_) => self.ask_group(),
        }
        self.asks.push(Ask::Inbox { cursor: None });
    }

    fn ask_group(&mut self) {
        if let With::Group(id) = &self.with {
            let conversation_id = id.clone();
            if id.is_channel() {
                return self.asks.push(Ask::Channels(Listing::Open, None));
            }
            self.members.clear();
            self.asked.members = true;
            self.asks.push(Ask::Members { conversation_id: conversation_id.clone(), cursor: None });
            self.asks.push(Ask::Receipts { conversation_id, cursor: None });
        }
    }

    fn message(&mut self, message: Message, missed: bool) {
        let mine = message.client_msg_id.as_ref().is_some_and(|id| self.waiting.remove(id));
        // The prefix tells a direct conversation from any other kind that both may be members of; that it is a message, from
        // those in which a service has deleted one.
        let is_told = message.kind.counts() && !message.conversation_id.has_members();
        let direct = is_told && self.is_peer(&message.sender_id);
        let mine = mine && !message.conversation_id.has_members();
        if self.id.is_none() && (mine || direct) {
            self.open(&message.conversation_id);
        }
        if self.id.as_ref() != Some(&message.conversation_id) {
            self.elsewhere(message);
            return;
        }
        self.timeline.message(message.clone());
        if let Some(system) = &message.system {
            self.changed(system, &message.sender_id);
        }
        if message.kind.counts() {
            self.stand(Standing { archived: false, ..self.standing.clone() });
        }
        if self.shown.is_some_and(|shown| message.seq > shown) {
            self.show(message, missed);
            self.report();
        }
    }

    /// Something happened to the group on the screen.
    fn changed(&mut self, system: &System, sender: &UserId) {
        group::apply(system, sender, &mut self.members);
        match system {
            System::Created { title, .. } | System::InfoChanged { title: Some(title), .. } => {
                self.call(title.as_str().to_owned());
            }
            _ => {}
        }
    }

    fn call(&mut self, title: String) {
        if self.title.as_ref() != Some(&title) {
            self.titles.extend(self.id.clone().map(|id| (id, title.clone())));
            self.title = Some(title.clone());
            self.news.push(News::Named(title));
        }
    }

    fn elsewhere(&mut self, message: Message) {
        let Message { conversation_id, sender_id, kind, body, system, .. } = message;
        if let Some(System::Created { members, .. } | System::MembersAdded { members }) = &system
            && sender_id != self.me
            && members.contains(&self.me)
        {
            self.news.push(News::Told(format!("{sender_id} added you to a group: /list shows it, /open opens it")));
        }
        if sender_id == self.me || !kind.counts() {
            return;
        }
        if self.catching_up {
            let count = self.digests.get(&conversation_id).map_or(1, |digest| digest.count + 1);
            self.digests.insert(conversation_id, Digest { sender_id, body, count });
        } else {
            let title = self.titles.get(&conversation_id).cloned();
            self.news.push(News::Elsewhere { title, sender_id, body, count: 1 });
        }
    }

    fn found(&mut self, row: &Conversation) {
        self.remember_title(row);
        if self.id.is_none() && row.peer_id.as_ref().is_some_and(|peer| self.is_peer(peer)) {
            self.open(&row.conversation_id);
        }
        if self.id.as_ref() == Some(&row.conversation_id) {
            self.timeline.row(row);
            if let Some(title) = &row.title {
                self.call(title.clone());
            }
            let Conversation { muted_until, archived, blocked, .. } = *row;
            self.stand(Standing { muted_until, archived, blocked });
        }
    }

    fn settings(&mut self, settings: &Settings) {
        let standing = self.standing.clone();
        match settings {
            Settings::Conversation { conversation_id, set } if self.id.as_ref() == Some(conversation_id) => {
                let muted_until = set.muted_until.unwrap_or(standing.muted_until);
                let archived = set.archived.unwrap_or(standing.archived);
                self.stand(Standing { muted_until, archived, ..standing });
            }
            Settings::User { user_id, set } if self.is_peer(user_id) => {
                self.stand(Standing { blocked: set.blocked, ..standing });
            }
            Settings::Conversation { .. } | Settings::User { .. } => {}
        }
    }

    /// Tells what is set, if this changes it.
    fn stand(&mut self, standing: Standing) {
        if self.standing != standing {
            self.news.push(News::Settings(standing.in_words()));
            self.standing = standing;
        }
    }

    fn open(&mut self, conversation_id: &ConversationId) {
        self.id = Some(conversation_id.clone());
        // Now it is known which of what is not sent is about it.
        self.asks.push(Ask::Outbox);
        // While catching up, history follows.
        if !self.catching_up {
            self.ask_history();
        }
    }

    fn ask_history(&mut self) {
        // Later on it is asked for nothing but how far its members are.
        let (side, limit) = self.shown.map_or((Side::Newest, HISTORY_AT_ONCE), |shown| (Side::After(shown), 1));
        self.ask_part(side, limit);
    }

    /// The user wants to see what is older than all that is here.
    pub(crate) fn look_back(&mut self) {
        // Before that, the first history is on its way.
        if self.shown.is_some()
            && let Some(side) = self.timeline.more_before()
        {
            self.ask_part(side, HISTORY_AT_ONCE);
        }
    }

    fn ask_part(&mut self, side: Side, limit: u64) {
        let Some(conversation_id) = self.id.clone() else { return };
        if !std::mem::replace(&mut self.asked.history, true) {
            self.asks.push(Ask::History { conversation_id, side, limit });
        }
    }

    /// A page of the chat list, in search of the peer.
    pub(crate) fn listed(&mut self, inbox: Result<InboxResult, Error>) {
        let InboxResult { conversations, next_cursor } = inbox.unwrap_or_else(|error| {
            self.notice(&error);
            InboxResult { conversations: Vec::new(), next_cursor: None }
        });
        for row in &conversations {
            self.found(row);
        }
        match next_cursor {
            _ if self.id.is_some() => self.ask_history(),
            Some(cursor) => self.asks.push(Ask::Inbox { cursor: Some(cursor) }),
            None => self.caught_up(),
        }
    }

    pub(crate) fn remembered(&mut self, history: Result<HistoryResult, Error>) {
        self.asked.history = false;
        let members = match history {
            Ok(history) => {
                let members = history.members.clone();
                if self.shown.is_none()
                    && let Some(conversation_id) = self.channel()
                {
                    self.asks.push(Ask::Watch { conversation_id, after: history.last_seq });
                }
                self.timeline.history(history);
                members
            }
            Err(error) => {
                self.notice(&error);
                Vec::new()
            }
        };
        if self.shown.is_none() {
            self.show_all();
        }
        // Ticks come after the messages that they are for.
        if let Some(peer) = members.iter().find(|member| self.is_peer(&member.user_id)) {
            self.raise(peer.delivered_seq, peer.read_seq);
        }
        self.caught_up();
        self.report();
    }

    fn show_all(&mut self) {
        self.shown = Some(Seq::ZERO);
        let (mut first, mut missed) = (Vec::new(), false);
        for entry in self.timeline.entries(|_| ()) {
            match entry {
                TimelineEntry::Unread(_) => missed = true,
                TimelineEntry::Message { message, own, .. } => first.push((message.into_owned(), missed && !own)),
                TimelineEntry::System { message, .. } => first.push((message.clone(), false)),
                TimelineEntry::Day(()) | TimelineEntry::Gap { .. } | TimelineEntry::Unsent { .. } => {}
            }
        }
        for (message, missed) in first {
            self.show(message, missed);
        }
    }

    fn show(&mut self, message: Message, missed: bool) {
        self.shown = Some(message.seq);
        self.news.push(News::Message { message, missed });
    }

    /// What has been shown counts as read: the conversation is open.
    fn report(&mut self) {
        // Until history has answered, it isn't known what this user has read on another device.
        if !self.catching_up
            && let Some(seq) = self.timeline.read_up_to()
            && let Some(conversation_id) = self.id.clone()
        {
            self.timeline.receipt(ReceiptKind::Read, &self.me, seq);
            self.asks.push(Ask::Read { conversation_id, seq });
        }
    }

    fn caught_up(&mut self) {
        if !self.asked.members && std::mem::take(&mut self.catching_up) {
            self.tell_digests();
            self.news.push(News::UpToDate);
        }
    }

    fn receipt(&mut self, kind: ReceiptKind, Receipt { conversation_id, user_id, seq, .. }: &Receipt) {
        if self.id.as_ref() != Some(conversation_id) {
            return;
        }
        self.timeline.receipt(kind, user_id, *seq);
        if self.is_peer(user_id) {
            self.raise(*seq, if kind == ReceiptKind::Read { *seq } else { Seq::ZERO });
        }
    }

    fn raise(&mut self, delivered: Seq, read: Seq) {
        let delivered = delivered.max(read);
        if delivered > self.peer_delivered {
            self.peer_delivered = delivered;
            if delivered > read.max(self.peer_read) {
                self.news.push(News::Delivered { up_to: delivered });
            }
        }
        if read > self.peer_read {
            self.peer_read = read;
            self.news.push(News::Read { up_to: read });
        }
    }

    /// Whoever leaves now leaves something unsent behind.
    pub(crate) fn ask_to_stay(&mut self) -> Vec<News> {
        let text = format!(
            "{} of your messages are not sent, and lost if you leave: leave again to do so",
            self.waiting.len()
        );
        self.news.push(News::Notice(text));
        self.take_news()
    }

    /// What was to be cancelled can't be.
    pub(crate) fn too_late(&mut self) {
        self.news.push(News::Notice("it is too late: the file is there".to_owned()));
    }

    pub(crate) fn notice(&mut self, error: &Error) {
        // A client that is being closed is no trouble.
        if *error != Error::Closed {
            self.news.push(News::Notice(format!("the server refused a request: {error}")));
        }
    }
}

/// What is not so now.
fn not_done(outgoing: &Outgoing) -> String {
    match outgoing {
        Outgoing::Message { body, .. } => {
            format!("not sent: {}", media::with_caption(outgoing.upload().map(media::carries), body))
        }
        Outgoing::Edit { seq, .. } => format!("#{seq} not edited"),
        Outgoing::Delete { seq, .. } => format!("#{seq} not deleted"),
        Outgoing::React { seq, .. } => format!("no reaction to #{seq}"),
        Outgoing::Create(group) => format!("the group “{}” was not made", group.title.as_str()),
        Outgoing::Add { .. } => "nobody was added".to_owned(),
        Outgoing::Remove { user_id, .. } => format!("{user_id} was not removed"),
        Outgoing::Leave { .. } => "you have not left".to_owned(),
        Outgoing::Role { user_id, .. } => format!("{user_id} may do what they could before"),
        Outgoing::Update { .. } => "the group was not changed".to_owned(),
    }
}

/// Why a message or change will never be stored, in the user's words where they are known.
fn reason(outgoing: &Outgoing, error: &Error) -> String {
    let is_of_two = matches!(outgoing.target(), Some(Target::User(_)))
        || matches!(outgoing.target(), Some(Target::Conversation(id)) if !id.has_members());
    match error {
        Error::Refused { code, .. } if code == "forbidden" && is_of_two && outgoing.target_seq().is_none() => {
            "it can't be delivered".to_owned()
        }
        Error::Refused { code, .. } if code == "forbidden" => "you may not do this here".to_owned(),
        Error::Refused { code, .. } if code == "not_member" => "you are not in it".to_owned(),
        Error::Refused { code, .. } if code == "gone" && outgoing.target_seq().is_none() => {
            "they are not in this group".to_owned()
        }
        Error::Refused { code, .. } if code == "gone" => "the message is deleted".to_owned(),
        Error::Refused { code, .. } if code == "limit_reached" => "there is no room for more".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
