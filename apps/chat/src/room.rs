//! What of all that the client tells belongs to the conversation on the screen.
//!
//! Nothing here does I/O: in go the client's events and what was asked for, out come [`News`] and [`Ask`]s. The order of the
//! messages, ticks and gaps are the [`Timeline`]'s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pigeonhole_client::{
    ClientMsgId, Conversation, ConversationId, Error, Event, HistoryResult, InboxResult, Message, MutedUntil, Outgoing,
    Platform, Presence, Queued, Receipt, ReceiptKind, Registration, Seq, Settings, Side, State, Timeline,
    TimelineEntry, Timestamp, UserId, When,
};

use crate::command::{Change, Command};

/// How much of the conversation is shown at the start.
const HISTORY_AT_START: u64 = 50;

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
    Inbox { cursor: Option<String> },
    History { conversation_id: ConversationId, side: Side, limit: u64 },
    Read { conversation_id: ConversationId, seq: Seq },
    Settings(Settings),
    Presence(UserId),
    Ring(Option<Registration>),
}

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

pub(crate) struct Room {
    me: UserId,
    peer: UserId,
    /// The direct conversation with the peer, once it is known.
    id: Option<ConversationId>,
    timeline: Timeline,
    standing: Standing,
    replaced: bool,
    /// From the loss of a connection until history has answered on the next one.
    catching_up: bool,
    history_asked: bool,
    /// The last message told in the news; `None` until the first history says where the conversation is.
    shown: Option<Seq>,
    /// Own messages that are not stored yet, and those that never will be.
    waiting: BTreeSet<ClientMsgId>,
    failed: Vec<ClientMsgId>,
    digests: BTreeMap<ConversationId, Digest>,
    peer_delivered: Seq,
    peer_read: Seq,
    news: Vec<News>,
    asks: Vec<Ask>,
}

impl Room {
    pub(crate) fn new(me: UserId, peer: UserId) -> Self {
        Self {
            timeline: Timeline::new(me.clone()),
            me,
            peer,
            id: None,
            standing: Standing::default(),
            replaced: false,
            catching_up: true,
            history_asked: false,
            shown: None,
            waiting: BTreeSet::new(),
            failed: Vec::new(),
            digests: BTreeMap::new(),
            peer_delivered: Seq::ZERO,
            peer_read: Seq::ZERO,
            news: Vec::new(),
            asks: Vec::new(),
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
        !self.catching_up && !self.history_asked && self.waiting.is_empty()
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
        self.timeline.queued(queued, at);
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
    pub(crate) fn command(&mut self, command: Command) -> Option<(ConversationId, Seq, Change)> {
        match command {
            Command::Who => self.asks.push(Ask::Presence(self.peer.clone())),
            Command::Ring(token) => self.asks.push(Ask::Ring(token.map(|token| Registration {
                platform: Platform::Fcm,
                token,
                preview: true,
                badge: false,
                when: When::default(),
            }))),
            Command::Usage(usage) => self.news.push(News::Notice(format!("it is written: {usage}"))),
            Command::Set(setting) => match setting.settings(self.id.as_ref(), &self.peer) {
                Some(settings) => self.asks.push(Ask::Settings(settings)),
                None => self.nothing_yet(),
            },
            Command::Change(change) => match (&self.id, self.target(&change)) {
                (Some(id), Some(seq)) => return Some((id.clone(), seq, change)),
                (Some(_), None) => self.news.push(News::Notice("there is no such message here".to_owned())),
                (None, _) => self.nothing_yet(),
            },
        }
        None
    }

    fn nothing_yet(&mut self) {
        self.news.push(News::Notice("there is no conversation yet: write something first".to_owned()));
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
            | TimelineEntry::Day(())
            | TimelineEntry::Unread(_)
            | TimelineEntry::Gap { .. }
            | TimelineEntry::Unsent { .. } => None,
        });
        shown.find(|(seq, own)| wanted.map_or(*own == own_one, |wanted| wanted == *seq)).map(|(seq, _)| seq)
    }

    /// Whether the peer is there, since the user has asked.
    pub(crate) fn present(&mut self, presence: Result<Vec<Presence>, Error>) {
        match presence {
            Ok(users) => {
                let text = match users.into_iter().find(|user| user.user_id == self.peer) {
                    Some(Presence { online: true, .. }) => format!("{} is online", self.peer),
                    Some(Presence { last_seen_at: Some(at), .. }) => format!("{} was last seen at {at}", self.peer),
                    Some(_) | None => format!("nobody knows when {} was here", self.peer),
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
            Event::State(state) => self.state(state),
            Event::Failed { queued: Queued { client_msg_id, outgoing }, error } => {
                let (why, what) = (reason(&error), not_done(&outgoing));
                self.waiting.remove(&client_msg_id);
                self.timeline.failed(&client_msg_id, why.clone());
                self.failed.push(client_msg_id);
                self.news.push(News::Failed { what, why, in_timeline: true });
            }
            _ => {}
        }
    }

    fn state(&mut self, state: State) {
        self.replaced = state == State::Replaced;
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
                for Digest { sender_id, body, count } in std::mem::take(&mut self.digests).into_values() {
                    self.news.push(News::Elsewhere { sender_id, body, count });
                }
                if self.id.is_some() {
                    self.ask_history();
                } else {
                    self.asks.push(Ask::Inbox { cursor: None });
                }
            }
        }
    }

    fn message(&mut self, message: Message, missed: bool) {
        let mine = message.client_msg_id.as_ref().is_some_and(|id| self.waiting.remove(id));
        // The prefix tells a direct conversation from any other kind that both may be members of.
        let direct = message.sender_id == self.peer && message.conversation_id.as_str().starts_with("dm_");
        if self.id.is_none() && (mine || direct) {
            self.open(&message.conversation_id);
        }
        if self.id.as_ref() != Some(&message.conversation_id) {
            self.elsewhere(message);
            return;
        }
        self.timeline.message(message.clone());
        if message.kind.counts() {
            self.stand(Standing { archived: false, ..self.standing.clone() });
        }
        if self.shown.is_some_and(|shown| message.seq > shown) {
            self.show(message, missed);
            self.report();
        }
    }

    fn elsewhere(&mut self, message: Message) {
        let Message { conversation_id, sender_id, kind, body, .. } = message;
        if sender_id == self.me || !kind.counts() {
            return;
        }
        if self.catching_up {
            let count = self.digests.get(&conversation_id).map_or(1, |digest| digest.count + 1);
            self.digests.insert(conversation_id, Digest { sender_id, body, count });
        } else {
            self.news.push(News::Elsewhere { sender_id, body, count: 1 });
        }
    }

    fn found(&mut self, row: &Conversation) {
        if self.id.is_none() && row.peer_id.as_ref() == Some(&self.peer) {
            self.open(&row.conversation_id);
        }
        if self.id.as_ref() == Some(&row.conversation_id) {
            self.timeline.row(row);
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
            Settings::User { user_id, set } if *user_id == self.peer => {
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
        // While catching up, history follows.
        if !self.catching_up {
            self.ask_history();
        }
    }

    fn ask_history(&mut self) {
        let Some(conversation_id) = self.id.clone() else { return };
        if std::mem::replace(&mut self.history_asked, true) {
            return;
        }
        // Later on it is asked for nothing but how far its members are.
        let (side, limit) = self.shown.map_or((Side::Newest, HISTORY_AT_START), |shown| (Side::After(shown), 1));
        self.asks.push(Ask::History { conversation_id, side, limit });
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
        self.history_asked = false;
        let members = match history {
            Ok(history) => {
                let members = history.members.clone();
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
        if let Some(peer) = members.iter().find(|member| member.user_id == self.peer) {
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
        if std::mem::take(&mut self.catching_up) {
            self.news.push(News::UpToDate);
        }
    }

    fn receipt(&mut self, kind: ReceiptKind, Receipt { conversation_id, user_id, seq, .. }: &Receipt) {
        if self.id.as_ref() != Some(conversation_id) {
            return;
        }
        self.timeline.receipt(kind, user_id, *seq);
        if *user_id == self.peer {
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
        Outgoing::Message { body, .. } => format!("not sent: {body}"),
        Outgoing::Edit { seq, .. } => format!("#{seq} not edited"),
        Outgoing::Delete { seq, .. } => format!("#{seq} not deleted"),
        Outgoing::React { seq, .. } => format!("no reaction to #{seq}"),
    }
}

/// Why a message or change will never be stored, in the user's words where they are known.
fn reason(error: &Error) -> String {
    match error {
        Error::Refused { code, .. } if code == "forbidden" => "it can't be delivered".to_owned(),
        Error::Refused { code, .. } if code == "gone" => "the message is deleted".to_owned(),
        Error::Refused { code, .. } if code == "limit_reached" => "there is no room for more".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
