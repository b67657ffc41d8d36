//! What of all that the client tells belongs to the conversation on the screen, and in which order it is shown.
//!
//! Nothing here does I/O: in go the client's events and what was asked for, out come [`News`] and [`Ask`]s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pigeonhole_client as client;
use pigeonhole_client::{Error, History, Inbox, Message, Receipt, ReceiptKind, Side, State};

/// How much of the conversation is shown at the start.
const HISTORY_AT_START: u32 = 50;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    Connecting,
    Online,
    Offline { why: String, retry_at: Instant },
    Event(Event),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The user's own message, before the server has answered.
    Waiting { client_msg_id: String, body: String },
    /// The next message of the open conversation. `missed`: it came while this user had no connection.
    Message { message: Message, missed: bool },
    /// The peer's devices hold everything up to here.
    Delivered { up_to: u64 },
    /// The peer has read everything up to here, and so holds it.
    Read { up_to: u64 },
    /// The newest of `count` messages in a conversation that is not the open one.
    Elsewhere { sender_id: String, body: String, count: usize },
    /// An own message that will never be stored.
    Failed { client_msg_id: String, body: String, why: String },
    /// Something the user should know and can't do anything about.
    Notice(String),
    /// Everything that was waiting on the server has been shown.
    UpToDate,
}

/// What the room wants to know from the server, or the server from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    Inbox { cursor: Option<String> },
    History { conversation_id: String, side: Side, limit: u32 },
    Read { conversation_id: String, seq: u64 },
}

/// What a drain brought for one other conversation.
struct Digest {
    sender_id: String,
    body: String,
    count: usize,
}

pub(crate) struct Room {
    me: String,
    peer: String,
    /// The direct conversation with the peer, once it is known.
    id: Option<String>,
    /// From a connect until history has answered.
    catching_up: bool,
    history_asked: bool,
    /// The last seq shown; `None` until the first history says where the conversation stands.
    shown: Option<u64>,
    /// What came before that.
    early: BTreeMap<u64, (Message, bool)>,
    /// Own messages that are not stored yet.
    said: BTreeSet<String>,
    digests: BTreeMap<String, Digest>,
    /// The newest shown message of somebody else, and what the server was told of it.
    shown_others: u64,
    read: u64,
    peer_delivered: u64,
    peer_read: u64,
    news: Vec<News>,
    asks: Vec<Ask>,
}

impl Room {
    pub(crate) fn new(me: &str, peer: &str) -> Self {
        Self {
            me: me.to_owned(),
            peer: peer.to_owned(),
            id: None,
            catching_up: true,
            history_asked: false,
            shown: None,
            early: BTreeMap::new(),
            said: BTreeSet::new(),
            digests: BTreeMap::new(),
            shown_others: 0,
            read: 0,
            peer_delivered: 0,
            peer_read: 0,
            news: Vec::new(),
            asks: Vec::new(),
        }
    }

    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn take_asks(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asks)
    }

    /// The user's own message is in the outbox.
    pub(crate) fn said(&mut self, client_msg_id: &str, body: String) {
        self.said.insert(client_msg_id.to_owned());
        self.tell(Event::Waiting { client_msg_id: client_msg_id.to_owned(), body });
    }

    /// The user's own message did not even get into the outbox.
    pub(crate) fn not_said(&mut self, body: String, error: &Error) {
        self.tell(Event::Waiting { client_msg_id: String::new(), body: body.clone() });
        self.tell(Event::Failed { client_msg_id: String::new(), body, why: error.to_string() });
    }

    pub(crate) fn event(&mut self, event: client::Event) {
        match event {
            client::Event::Message { message, missed } => self.message(message, missed),
            client::Event::Receipt(receipt) => self.receipt(&receipt),
            client::Event::ConversationChanged(row) => self.found(&row),
            client::Event::State(state) => self.state(state),
            client::Event::Failed { client_msg_id, body, error, .. } => {
                self.said.remove(&client_msg_id);
                self.tell(Event::Failed { client_msg_id, body, why: error.to_string() });
            }
            _ => {}
        }
    }

    fn state(&mut self, state: State) {
        match state {
            State::Connecting => self.news.push(News::Connecting),
            State::Online => {
                self.catching_up = true;
                self.news.push(News::Online);
            }
            State::Offline { why, retry_at } => self.news.push(News::Offline { why: why.to_string(), retry_at }),
            State::CaughtUp => {
                for Digest { sender_id, body, count } in std::mem::take(&mut self.digests).into_values() {
                    self.tell(Event::Elsewhere { sender_id, body, count });
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
        let mine = message.client_msg_id.as_ref().is_some_and(|id| self.said.remove(id));
        // The prefix tells a direct conversation from any other kind that both may be members of.
        let direct = message.sender_id == self.peer && message.conversation_id.starts_with("dm_");
        if self.id.is_none() && (mine || direct) {
            self.open(&message.conversation_id);
        }
        if self.id.as_ref() != Some(&message.conversation_id) {
            self.elsewhere(message);
        } else if self.shown.is_none() {
            self.early.insert(message.seq, (message, missed));
        } else {
            self.show(message, missed);
            self.report();
        }
    }

    fn elsewhere(&mut self, message: Message) {
        let Message { conversation_id, sender_id, body, .. } = message;
        if sender_id == self.me {
            return;
        }
        if self.catching_up {
            let count = self.digests.get(&conversation_id).map_or(1, |digest| digest.count + 1);
            self.digests.insert(conversation_id, Digest { sender_id, body, count });
        } else {
            self.tell(Event::Elsewhere { sender_id, body, count: 1 });
        }
    }

    fn found(&mut self, row: &client::Conversation) {
        if row.peer_id.as_ref() == Some(&self.peer) && self.id.is_none() {
            self.open(&row.conversation_id);
        }
    }

    fn open(&mut self, conversation_id: &str) {
        self.id = Some(conversation_id.to_owned());
        // While catching up, history follows.
        if !self.catching_up {
            self.ask_history();
        }
    }

    fn ask_history(&mut self) {
        let Some(id) = self.id.clone().filter(|_| !self.history_asked) else { return };
        self.history_asked = true;
        // Later on it is asked for nothing but how far its members are.
        let (side, limit) = self.shown.map_or((Side::Newest, HISTORY_AT_START), |shown| (Side::After(shown), 1));
        self.asks.push(Ask::History { conversation_id: id, side, limit });
    }

    /// A page of the chat list, in search of the peer.
    pub(crate) fn listed(&mut self, inbox: Result<Inbox, Error>) {
        let Inbox { conversations, next_cursor } = match inbox {
            Ok(inbox) => inbox,
            Err(error) => {
                self.notice(&error);
                Inbox { conversations: Vec::new(), next_cursor: None }
            }
        };
        for row in &conversations {
            self.found(row);
        }
        match next_cursor {
            _ if self.id.is_some() => self.ask_history(),
            Some(cursor) => self.asks.push(Ask::Inbox { cursor: Some(cursor) }),
            None => self.caught_up(),
        }
    }

    pub(crate) fn remembered(&mut self, history: Result<History, Error>) {
        self.history_asked = false;
        let history = history.unwrap_or_else(|error| {
            self.notice(&error);
            History { messages: Vec::new(), more: false, last_seq: 0, members: Vec::new() }
        });
        if let Some(own) = history.members.iter().find(|member| member.user_id == self.me) {
            self.read = self.read.max(own.read_seq);
        }
        if self.shown.is_none() {
            self.begin(history.messages);
        }
        // Ticks come after the messages that they are for.
        if let Some(peer) = history.members.iter().find(|member| member.user_id == self.peer) {
            self.raise(peer.delivered_seq, peer.read_seq);
        }
        self.caught_up();
        self.report();
    }

    fn begin(&mut self, messages: Vec<Message>) {
        let mut first = std::mem::take(&mut self.early);
        for message in messages {
            first.entry(message.seq).or_insert((message, false));
        }
        self.shown = Some(0);
        for (message, missed) in first.into_values() {
            self.show(message, missed);
        }
    }

    /// What has been shown counts as read: the conversation is open.
    fn show(&mut self, message: Message, missed: bool) {
        if self.shown.is_some_and(|shown| message.seq <= shown) {
            return;
        }
        self.shown = Some(message.seq);
        if message.sender_id != self.me {
            self.shown_others = message.seq;
        }
        self.tell(Event::Message { message, missed });
    }

    fn report(&mut self) {
        // Until history has answered, it isn't known what this user has read on another device.
        if self.catching_up || self.shown_others <= self.read {
            return;
        }
        if let Some(conversation_id) = self.id.clone() {
            self.read = self.shown_others;
            self.asks.push(Ask::Read { conversation_id, seq: self.read });
        }
    }

    fn caught_up(&mut self) {
        if std::mem::take(&mut self.catching_up) {
            self.tell(Event::UpToDate);
        }
    }

    fn receipt(&mut self, receipt: &Receipt) {
        if self.id.as_ref() != Some(&receipt.conversation_id) {
            return;
        }
        let read = receipt.kind == ReceiptKind::Read;
        if receipt.user_id == self.peer {
            self.raise(receipt.seq, if read { receipt.seq } else { 0 });
        } else if read && receipt.user_id == self.me {
            self.read = self.read.max(receipt.seq);
        }
    }

    fn raise(&mut self, delivered: u64, read: u64) {
        let delivered = delivered.max(read);
        if delivered > self.peer_delivered {
            self.peer_delivered = delivered;
            if delivered > read.max(self.peer_read) {
                self.tell(Event::Delivered { up_to: delivered });
            }
        }
        if read > self.peer_read {
            self.peer_read = read;
            self.tell(Event::Read { up_to: read });
        }
    }

    pub(crate) fn notice(&mut self, error: &Error) {
        // A client that is being closed is no trouble.
        if *error != Error::Closed {
            self.tell(Event::Notice(format!("the server refused a request: {error}")));
        }
    }

    fn tell(&mut self, event: Event) {
        self.news.push(News::Event(event));
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
