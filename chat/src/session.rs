//! The state of one conversation on one device, whatever connection carries it: what is held, what must be asked.
//!
//! Nothing here does I/O or looks at a clock. In go the frames of the server, the user's messages and the time; out come
//! frames to send and [`Event`]s to show. Three rules carry most of it:
//!
//! * A request stays in `asked` until it is answered, and is sent again, unchanged, when its time is up. Every action of
//!   the protocol may be repeated, so no lost answer needs a case of its own.
//! * Messages wait in `buffer` until everything before them has come, and leave it once, in the order of their `seq`.
//! * Of the user's own messages only the oldest is under way. Two at once could be stored the other way round.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::protocol::{
    ACK_MARKS_MAX, BODY_BYTES_MAX, BODY_JSON_BYTES_MAX, DrainResult, Frame, HISTORY_MESSAGES_MAX, HistoryResult,
    INBOX_CONVERSATIONS_MAX, InboxResult, Mark, Message, PingResult, Receipt, Refusal, Request, SendResult,
};

const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Nothing at all from the server for so long, while it owes an answer: the connection is dead and doesn't know it.
const SILENCE_MAX: Duration = Duration::from_secs(15);
const PING_EVERY: Duration = Duration::from_mins(5);
/// The least time between two frames of `ack` or `read`.
const REPORT_EVERY: Duration = Duration::from_secs(1);
const GAP_RETRY: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_millis(200);
/// How much of the conversation is shown at the start.
const HISTORY_AT_START: u32 = 50;

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

/// What the connection is good for after a frame or a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub(crate) enum Verdict {
    Keep,
    Dead,
    TokenExpired,
}

struct Asked {
    request: Request,
    since: Instant,
    retry_at: Instant,
    attempts: u32,
}

struct Outgoing {
    client_msg_id: String,
    body: String,
}

/// The conversation on the screen.
struct Open {
    id: String,
    /// The last seq shown; `None` until the first history says where the conversation stands.
    shown: Option<u64>,
    buffer: BTreeMap<u64, (Message, bool)>,
    gap_retry_at: Option<Instant>,
    /// The newest shown message of somebody else, and what the server was told of it.
    shown_others: u64,
    read: u64,
    peer_delivered: u64,
    peer_read: u64,
}

/// What a drain brought for one other conversation.
struct Digest {
    sender_id: String,
    body: String,
    count: usize,
}

pub(crate) struct Session {
    me: String,
    peer: String,
    rng: fastrand::Rng,
    online: bool,
    /// From a connect until drain and history have answered.
    catching_up: bool,
    drain_again: bool,
    open: Option<Open>,
    /// Up to where this device holds the other conversations.
    elsewhere: BTreeMap<String, u64>,
    digests: BTreeMap<String, Digest>,
    outbox: VecDeque<Outgoing>,
    asked: BTreeMap<u64, Asked>,
    last_id: u64,
    acks: BTreeMap<String, u64>,
    report_from: Option<Instant>,
    ping_at: Option<Instant>,
    heard_at: Option<Instant>,
    frames: Vec<String>,
    events: Vec<Event>,
}

impl Session {
    pub(crate) fn new(me: &str, peer: &str, rng: fastrand::Rng) -> Self {
        Self {
            me: me.to_owned(),
            peer: peer.to_owned(),
            rng,
            online: false,
            catching_up: false,
            drain_again: false,
            open: None,
            elsewhere: BTreeMap::new(),
            digests: BTreeMap::new(),
            outbox: VecDeque::new(),
            asked: BTreeMap::new(),
            last_id: 0,
            acks: BTreeMap::new(),
            report_from: None,
            ping_at: None,
            heard_at: None,
            frames: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(crate) fn connected(&mut self, now: Instant) {
        self.online = true;
        self.catching_up = true;
        self.heard_at = Some(now);
        self.ping_at = Some(now + PING_EVERY);
        if self.open.is_none() {
            self.ask(Request::Inbox { limit: INBOX_CONVERSATIONS_MAX, cursor: None }, now);
        } else {
            self.ask_drain(vec![], now);
        }
        self.settle(now);
    }

    /// Answers to what was asked will not come any more. The outbox stays; all else is found out again at the next
    /// connect: what was not acknowledged is drained again, and history tells how far this user has read.
    pub(crate) fn disconnected(&mut self) {
        self.online = false;
        self.drain_again = false;
        self.asked.clear();
        self.acks.clear();
        self.frames.clear();
        self.digests.clear();
        self.ping_at = None;
        self.report_from = None;
        if let Some(open) = &mut self.open {
            open.gap_retry_at = None;
        }
    }

    pub(crate) fn say(&mut self, client_msg_id: String, body: String, now: Instant) {
        self.events.push(Event::Waiting { client_msg_id: client_msg_id.clone(), body: body.clone() });
        let json_bytes = serde_json::to_string(&body).map_or(usize::MAX, |json| json.len());
        if body.len() > BODY_BYTES_MAX || json_bytes > BODY_JSON_BYTES_MAX {
            let why = format!("too long: a message has at most {} KiB", BODY_BYTES_MAX / 1024);
            self.events.push(Event::Failed { client_msg_id, body, why });
            return;
        }
        self.outbox.push_back(Outgoing { client_msg_id, body });
        self.settle(now);
    }

    pub(crate) fn received(&mut self, text: &str, now: Instant) -> Verdict {
        self.heard_at = Some(now);
        match Frame::parse(text) {
            Some(Frame::Reply { id, result }) => self.answered(id.as_deref(), result, now),
            Some(Frame::Error { id, error }) => {
                if error.code == "token_expired" {
                    return Verdict::TokenExpired;
                }
                self.refused(id.as_deref(), &error, now);
            }
            Some(Frame::MessageNew { message }) => self.pushed(message, now),
            Some(Frame::Delivered(receipt)) => self.receipt(&receipt, false),
            Some(Frame::Read(receipt)) => self.receipt(&receipt, true),
            Some(Frame::Unknown) => {}
            // The gateway's own error doesn't say which request it is about.
            None => self.retry_all_soon(now),
        }
        self.settle(now);
        Verdict::Keep
    }

    pub(crate) fn tick(&mut self, now: Instant) -> Verdict {
        if !self.online {
            return Verdict::Keep;
        }
        let owed = self.asked.values().map(|asked| asked.since).min();
        if let (Some(owed), Some(heard)) = (owed, self.heard_at)
            && now.duration_since(owed.max(heard)) >= SILENCE_MAX
        {
            return Verdict::Dead;
        }
        for (id, asked) in self.asked.iter_mut().filter(|(_, asked)| asked.retry_at <= now) {
            asked.retry_at = now + ANSWER_WAIT;
            asked.attempts += 1;
            self.frames.push(asked.request.frame(*id));
        }
        if self.ping_at.is_some_and(|at| at <= now) {
            self.ping_at = Some(now + PING_EVERY);
            self.ask(Request::Ping, now);
        }
        self.settle(now);
        Verdict::Keep
    }

    /// When `tick` has something to do, if nothing else happens before.
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        let retry = self.asked.values().map(|asked| asked.retry_at).min();
        let gap = self.open.as_ref().filter(|open| !open.buffer.is_empty()).and_then(|open| open.gap_retry_at);
        let report = self.report_from.filter(|_| !self.acks.is_empty() || self.unreported_read().is_some());
        [retry, gap, report, self.ping_at].into_iter().flatten().min()
    }

    /// The last word before the socket is closed: what has been shown is reported, however recent the last report.
    pub(crate) fn leaving(&mut self, now: Instant) {
        self.report_from = None;
        self.settle(now);
    }

    pub(crate) fn take_frames(&mut self) -> Vec<String> {
        std::mem::take(&mut self.frames)
    }

    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    // What must be asked now.

    /// Asks for whatever the state calls for and is not under way. Called after every change.
    fn settle(&mut self, now: Instant) {
        if !self.online {
            return;
        }
        self.send_oldest(now);
        self.fill_gap(now);
        self.report(now);
    }

    fn send_oldest(&mut self, now: Instant) {
        if self.is_asked(|request| matches!(request, Request::Send { .. })) {
            return;
        }
        if let Some(Outgoing { client_msg_id, body }) = self.outbox.front() {
            let (client_msg_id, body) = (client_msg_id.clone(), body.clone());
            self.ask(Request::Send { to: self.peer.clone(), client_msg_id, kind: "text", body }, now);
        }
    }

    /// Messages that wait for one before them: history has it.
    fn fill_gap(&mut self, now: Instant) {
        let Some(open) = &self.open else { return };
        let waits = open.shown.is_some() && !open.buffer.is_empty();
        if waits && !self.catching_up && open.gap_retry_at.is_none_or(|at| at <= now) {
            self.ask_history(now);
        }
    }

    /// Tells the server what is held and what has been read. `read` implies `ack`, so the open conversation needs only
    /// the first.
    fn report(&mut self, now: Instant) {
        if self.report_from.is_some_and(|from| now < from) {
            return;
        }
        let marks: Vec<Mark> = (self.acks.iter())
            .take(ACK_MARKS_MAX)
            .map(|(id, seq)| Mark { conversation_id: id.clone(), seq: *seq })
            .collect();
        for mark in &marks {
            self.acks.remove(&mark.conversation_id);
        }
        if !marks.is_empty() {
            self.report_from = Some(now + REPORT_EVERY);
            self.ask(Request::Ack { up_to: marks }, now);
        }
        if let Some((conversation_id, seq)) = self.unreported_read() {
            if let Some(open) = &mut self.open {
                open.read = seq;
            }
            self.report_from = Some(now + REPORT_EVERY);
            self.ask(Request::Read { conversation_id, seq }, now);
        }
    }

    fn unreported_read(&self) -> Option<(String, u64)> {
        // Until history has answered, it isn't known what this user has read on another device.
        let open = self.open.as_ref().filter(|_| !self.catching_up)?;
        (open.shown_others > open.read).then(|| (open.id.clone(), open.shown_others))
    }

    fn ask(&mut self, request: Request, now: Instant) {
        self.last_id += 1;
        self.frames.push(request.frame(self.last_id));
        self.asked.insert(self.last_id, Asked { request, since: now, retry_at: now + ANSWER_WAIT, attempts: 0 });
    }

    fn is_asked(&self, which: impl Fn(&Request) -> bool) -> bool {
        self.asked.values().any(|asked| which(&asked.request))
    }

    fn ask_drain(&mut self, ack: Vec<Mark>, now: Instant) {
        if self.is_asked(|request| matches!(request, Request::Drain { .. })) {
            // The page under way may have been read before what this drain is for.
            self.drain_again = true;
        } else {
            self.ask(Request::Drain { ack }, now);
        }
    }

    fn ask_history(&mut self, now: Instant) {
        if self.is_asked(|request| matches!(request, Request::History { .. })) {
            return;
        }
        let Some(open) = &mut self.open else { return };
        open.gap_retry_at = None;
        let limit = if open.shown.is_some() { HISTORY_MESSAGES_MAX } else { HISTORY_AT_START };
        let request = Request::History { conversation_id: open.id.clone(), after_seq: open.shown, limit };
        self.ask(request, now);
    }

    // What the server answers.

    fn answered(&mut self, id: Option<&str>, result: Value, now: Instant) {
        // No such request: the second answer to one that was sent twice.
        let Some(id) = id.and_then(|id| id.parse().ok()) else { return };
        let Some(mut asked) = self.asked.remove(&id) else { return };
        if self.apply(&asked.request, result, now).is_err() {
            asked.retry_at = now + ANSWER_WAIT;
            self.asked.insert(id, asked);
            self.events.push(Event::Notice("the server sent an answer that this version can't read".to_owned()));
        }
    }

    fn apply(&mut self, request: &Request, result: Value, now: Instant) -> serde_json::Result<()> {
        match request {
            Request::Send { body, client_msg_id, .. } => {
                self.sent(client_msg_id, body, serde_json::from_value(result)?, now);
            }
            Request::Inbox { .. } => self.listed(serde_json::from_value(result)?, now),
            Request::Drain { .. } => self.drained(serde_json::from_value(result)?, now),
            Request::History { after_seq, .. } => self.remembered(*after_seq, serde_json::from_value(result)?, now),
            Request::Ping => {
                let PingResult { pending } = serde_json::from_value(result)?;
                if pending {
                    self.ask_drain(vec![], now);
                }
            }
            Request::Ack { .. } | Request::Read { .. } => {}
        }
        Ok(())
    }

    fn sent(&mut self, client_msg_id: &str, body: &str, result: SendResult, now: Instant) {
        self.outbox.pop_front();
        let message = Message {
            conversation_id: result.conversation_id,
            seq: result.seq,
            sender_id: self.me.clone(),
            body: body.to_owned(),
            sent_at: result.sent_at,
            client_msg_id: Some(client_msg_id.to_owned()),
        };
        self.open(&message.conversation_id, now);
        self.hold(message, false);
    }

    fn listed(&mut self, inbox: InboxResult, now: Instant) {
        for conversation in inbox.conversations {
            if conversation.peer_id.as_ref() == Some(&self.peer) {
                self.open.get_or_insert_with(|| Open::new(&conversation.conversation_id));
            } else {
                self.elsewhere.insert(conversation.conversation_id, conversation.delivered_seq);
            }
        }
        match inbox.next_cursor {
            Some(cursor) if self.open.is_none() => {
                self.ask(Request::Inbox { limit: INBOX_CONVERSATIONS_MAX, cursor: Some(cursor) }, now);
            }
            _ => self.ask_drain(vec![], now),
        }
    }

    fn drained(&mut self, page: DrainResult, now: Instant) {
        let mut held = BTreeMap::new();
        let done = page.messages.is_empty() && !page.more;
        for message in page.messages {
            held.insert(message.conversation_id.clone(), message.seq);
            if self.is_open(&message, now) {
                let missed = self.catching_up && message.sender_id != self.me;
                self.hold(message, missed);
            } else {
                self.digest(message);
            }
        }
        if done && !std::mem::take(&mut self.drain_again) {
            self.after_drain(now);
            return;
        }
        for (id, seq) in &held {
            let known = self.elsewhere.entry(id.clone()).or_default();
            *known = (*known).max(*seq);
        }
        // What doesn't fit comes again on the next page, and is acknowledged then.
        let ack = held.into_iter().take(ACK_MARKS_MAX);
        self.ask_drain(ack.map(|(conversation_id, seq)| Mark { conversation_id, seq }).collect(), now);
    }

    fn digest(&mut self, message: Message) {
        let known = self.elsewhere.get(&message.conversation_id).copied().unwrap_or(0);
        if message.seq <= known || message.sender_id == self.me {
            return;
        }
        let Message { conversation_id, sender_id, body, .. } = message;
        let count = self.digests.get(&conversation_id).map_or(1, |digest| digest.count + 1);
        self.digests.insert(conversation_id, Digest { sender_id, body, count });
    }

    fn after_drain(&mut self, now: Instant) {
        for Digest { sender_id, body, count } in std::mem::take(&mut self.digests).into_values() {
            self.events.push(Event::Elsewhere { sender_id, body, count });
        }
        if self.open.is_some() {
            self.ask_history(now);
        } else {
            self.caught_up();
        }
    }

    fn caught_up(&mut self) {
        if std::mem::take(&mut self.catching_up) {
            self.events.push(Event::UpToDate);
        }
    }

    fn remembered(&mut self, after_seq: Option<u64>, history: HistoryResult, now: Instant) {
        for member in &history.members {
            if member.user_id == self.me
                && let Some(open) = &mut self.open
            {
                open.read = member.read_seq;
            }
        }
        let last = history.messages.last().map(|message| message.seq);
        for message in history.messages {
            self.hold(message, false);
        }
        let Some(open) = &mut self.open else { return };
        if open.shown.is_none() {
            let first = open.buffer.keys().next().copied();
            open.shown = Some(first.map_or(history.last_seq, |first| first.saturating_sub(1)));
        }
        self.show();
        // Ticks come after the messages that they are for.
        if let Some(member) = history.members.iter().find(|member| member.user_id == self.peer) {
            self.raise(member.delivered_seq, member.read_seq);
        }
        let Some(open) = &mut self.open else { return };
        let progress = after_seq.is_none() || last > after_seq;
        let incomplete = !open.buffer.is_empty() || (after_seq.is_some() && history.more);
        if incomplete && progress {
            self.ask_history(now);
        } else {
            open.gap_retry_at = incomplete.then(|| now + GAP_RETRY);
            self.caught_up();
        }
    }

    fn refused(&mut self, id: Option<&str>, refusal: &Refusal, now: Instant) {
        let id = id.and_then(|id| id.parse().ok()).unwrap_or(0);
        if refusal.retryable {
            let at_least = Duration::from_millis(refusal.retry_after_ms.unwrap_or(0));
            if let Some(asked) = self.asked.get_mut(&id) {
                asked.retry_at = now + at_least.max(jitter(&mut self.rng, RETRY_MIN, ANSWER_WAIT, asked.attempts));
            }
            return;
        }
        let why = format!("{} ({})", refusal.message, refusal.code);
        match self.asked.remove(&id).map(|asked| asked.request) {
            Some(Request::Send { client_msg_id, body, .. }) => {
                self.outbox.pop_front();
                self.events.push(Event::Failed { client_msg_id, body, why });
                return;
            }
            // Catching up goes on without what was refused.
            Some(Request::Inbox { .. }) => self.ask_drain(vec![], now),
            Some(Request::Drain { .. }) => self.after_drain(now),
            Some(Request::History { .. }) => {
                if let Some(open) = &mut self.open {
                    let first = open.buffer.keys().next().copied();
                    open.shown = open.shown.or(first.map(|first| first.saturating_sub(1))).or(Some(0));
                    open.gap_retry_at = Some(now + ANSWER_WAIT);
                }
                self.show();
                self.caught_up();
            }
            _ => {}
        }
        self.events.push(Event::Notice(format!("the server refused a request: {why}")));
    }

    fn retry_all_soon(&mut self, now: Instant) {
        for asked in self.asked.values_mut() {
            let soon = now + jitter(&mut self.rng, RETRY_MIN, ANSWER_WAIT, asked.attempts);
            asked.retry_at = asked.retry_at.min(soon);
        }
    }

    // What the server pushes.

    fn pushed(&mut self, message: Message, now: Instant) {
        if self.is_open(&message, now) {
            self.hold(message, false);
            return;
        }
        let known = self.elsewhere.get(&message.conversation_id).copied().unwrap_or(0);
        if message.seq > known + 1 {
            // To acknowledge this one would be to acknowledge those before it, too. The drain has them all.
            self.ask_drain(vec![], now);
        } else if message.seq == known + 1 {
            self.elsewhere.insert(message.conversation_id.clone(), message.seq);
            self.acks.insert(message.conversation_id, message.seq);
            if message.sender_id != self.me {
                self.events.push(Event::Elsewhere { sender_id: message.sender_id, body: message.body, count: 1 });
            }
        }
    }

    fn receipt(&mut self, receipt: &Receipt, read: bool) {
        let Some(open) = self.open.as_mut().filter(|open| open.id == receipt.conversation_id) else { return };
        if receipt.user_id == self.peer {
            self.raise(receipt.seq, if read { receipt.seq } else { 0 });
        } else if read && receipt.user_id == self.me {
            open.read = open.read.max(receipt.seq);
        }
    }

    fn raise(&mut self, delivered: u64, read: u64) {
        let Some(open) = &mut self.open else { return };
        let delivered = delivered.max(read);
        if delivered > open.peer_delivered {
            open.peer_delivered = delivered;
            if delivered > read.max(open.peer_read) {
                self.events.push(Event::Delivered { up_to: delivered });
            }
        }
        if read > open.peer_read {
            open.peer_read = read;
            self.events.push(Event::Read { up_to: read });
        }
    }

    // What this device holds.

    /// Whether the message belongs to the open conversation. A first message from the peer opens it.
    fn is_open(&mut self, message: &Message, now: Instant) -> bool {
        // The prefix tells a direct conversation from any other kind that both may be members of.
        if self.open.is_none() && message.sender_id == self.peer && message.conversation_id.starts_with("dm_") {
            self.open(&message.conversation_id, now);
        }
        self.open.as_ref().is_some_and(|open| open.id == message.conversation_id)
    }

    fn open(&mut self, conversation_id: &str, now: Instant) {
        if self.open.is_none() {
            self.open = Some(Open::new(conversation_id));
            // While catching up, history follows the drain.
            if !self.catching_up {
                self.ask_history(now);
            }
        }
    }

    fn hold(&mut self, message: Message, missed: bool) {
        let Some(open) = &mut self.open else { return };
        if open.id == message.conversation_id && open.shown.is_none_or(|shown| message.seq > shown) {
            open.buffer.entry(message.seq).or_insert((message, missed));
        }
        self.show();
    }

    /// Hands over what is next in order. What has been handed over counts as read: the conversation is open.
    fn show(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(shown) = &mut open.shown else { return };
        while let Some((message, missed)) = open.buffer.remove(&(*shown + 1)) {
            *shown += 1;
            if message.sender_id != self.me {
                open.shown_others = *shown;
            }
            self.events.push(Event::Message { message, missed });
        }
    }
}

impl Open {
    fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            shown: None,
            buffer: BTreeMap::new(),
            gap_retry_at: None,
            shown_others: 0,
            read: 0,
            peer_delivered: 0,
            peer_read: 0,
        }
    }
}

/// Full jitter: anything from nothing to the ceiling, which doubles with each attempt.
pub(crate) fn jitter(rng: &mut fastrand::Rng, first: Duration, max: Duration, attempt: u32) -> Duration {
    let ceiling = first.saturating_mul(2_u32.saturating_pow(attempt)).min(max);
    ceiling.mul_f64(rng.f64())
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
