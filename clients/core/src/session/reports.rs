//! Reports to the server: the marks that this device has saved, and those that the user has read. A message takes a read
//! mark along, if it can: then the mark needs no request of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::limits::{ACK_ENTRIES_MAX, READ_WAIT_MS};
use wire::{AckEntry, AckRequest, ConversationId, ReadRequest, ReadResult, SendResult, Seq};

use super::requests::Errand;
use super::{AskId, Core};
use crate::saved::StorageChange;
use crate::turn::Keeper;
use crate::{Error, Moment, Write};

#[derive(Default)]
pub(super) struct Reports {
    /// Saved, and not acknowledged to the server yet: one mark per conversation, however many messages.
    unacked: BTreeMap<ConversationId, Seq>,
    ack_from: Option<Moment>,
    reads: BTreeMap<ConversationId, Read>,
    /// Whether the server takes a read mark with a message, once it has said so on this connection.
    fuses: Option<bool>,
    /// The user's last key in each conversation.
    typed: BTreeMap<ConversationId, Moment>,
}

/// The time after a key in which the user is writing.
const WRITES_FOR: Duration = Duration::from_secs(5);

/// How far the user has read a conversation. Dropped some time after the server knows.
struct Read {
    seq: Seq,
    asked: bool,
    answered: Seq,
    from: Option<Moment>,
    /// When it could have been sent first: it waits for a message from then on.
    since: Option<Moment>,
    waiting: Vec<(Seq, AskId)>,
}

impl Read {
    fn new(seq: Seq) -> Self {
        Self { seq, asked: false, answered: Seq::ZERO, from: None, since: None, waiting: Vec::new() }
    }
}

impl Reports {
    /// Begins with the marks that an earlier run could not report.
    pub(super) fn new(reads: BTreeMap<ConversationId, Seq>) -> Self {
        let reads = reads.into_iter().map(|(id, seq)| (id, Read::new(seq))).collect();
        Self { reads, ..Self::default() }
    }

    pub(super) fn acknowledge(&mut self, conversation_id: &ConversationId, seq: Seq) {
        // A read mark counts as a delivered one.
        if self.reads.get(conversation_id).is_some_and(|read| read.seq >= seq && read.answered < seq) {
            return;
        }
        let mark = self.unacked.entry(conversation_id.clone()).or_default();
        *mark = (*mark).max(seq);
    }

    /// Makes every report due that waits for its time.
    pub(super) fn flush(&mut self, now: Moment) {
        self.ack_from = None;
        self.stop_waiting();
        self.reads.values_mut().for_each(|read| read.from = read.from.map(|from| from.min(now)));
    }

    pub(super) fn next(&self) -> Option<Moment> {
        let ack = if self.unacked.is_empty() { None } else { self.ack_from };
        let waits = |(id, read): (&ConversationId, &Read)| read.from.max(self.waits_until(id, read));
        let reads = self.reads.iter().filter(|(_, read)| !read.asked).filter_map(waits);
        reads.chain(ack).min()
    }

    /// Takes whether the server accepts a read mark with a message. `None`: the connection has ended.
    pub(super) fn set_fuses(&mut self, fuses: Option<bool>) {
        self.fuses = fuses;
    }

    /// Sends the marks that wait for a message with the next turn.
    pub(super) fn stop_waiting(&mut self) {
        self.typed.clear();
    }

    /// Returns until when the mark waits for a message of its user, who is writing there.
    fn waits_until(&self, id: &ConversationId, read: &Read) -> Option<Moment> {
        let typed = self.typed.get(id).filter(|_| self.fuses == Some(true))?;
        Some((*typed + WRITES_FOR).min(read.since? + Duration::from_millis(READ_WAIT_MS)))
    }

    /// As many marks as one request may carry.
    pub(super) fn take(&mut self) -> Vec<AckEntry> {
        let mut up_to = Vec::new();
        while up_to.len() < ACK_ENTRIES_MAX
            && let Some((conversation_id, seq)) = self.unacked.pop_first()
        {
            up_to.push(AckEntry { conversation_id, seq });
        }
        up_to
    }

    fn is_ack_due(&self, now: Moment) -> bool {
        let enough = self.unacked.len() >= ACK_ENTRIES_MAX;
        enough || (!self.unacked.is_empty() && self.ack_from.is_none_or(|from| from <= now))
    }
}

impl Core {
    /// The user has read everything up to here.
    pub(super) fn read(&mut self, conversation_id: &ConversationId, seq: Seq, ask: Option<AskId>) {
        self.views.read(conversation_id, seq);
        let read = self.reports.reads.entry(conversation_id.clone()).or_insert_with(|| Read::new(Seq::ZERO));
        let rises = read.seq < seq;
        read.seq = read.seq.max(seq);
        read.waiting.extend(ask.map(|ask| (seq, ask)));
        if rises {
            read.since = read.since.or(Some(self.now));
        }
        if rises && self.keeper == Keeper::Store {
            self.save(StorageChange::Read { conversation_id: conversation_id.clone(), seq });
        }
    }

    pub(super) fn report(&mut self, now: Moment) {
        self.report_reads(now);
        while self.reports.is_ack_due(now) {
            let up_to = self.reports.take();
            self.reports.ack_from = Some(now + self.timing.ack_every);
            self.ask(Errand::Ack(AckRequest { up_to }), now);
        }
    }

    fn report_reads(&mut self, now: Moment) {
        let is_due = |(id, read): &(&ConversationId, &Read)| {
            let until = read.from.max(self.reports.waits_until(id, read));
            !read.asked && until.is_none_or(|until| until <= now)
        };
        let due = self.reports.reads.iter().filter(is_due);
        let due: Vec<ConversationId> = due.map(|(id, _)| id.clone()).collect();
        for conversation_id in due {
            let Some(read) = self.reports.reads.get_mut(&conversation_id) else { continue };
            if read.waiting.is_empty() && read.seq <= read.answered {
                self.reports.reads.remove(&conversation_id);
                continue;
            }
            let seq = read.seq;
            self.read_asked(&conversation_id, seq, now);
            // Shown entries exist, so the server can't have reduced the mark below them.
            let covers = seq.min(self.conversations.shown(&conversation_id));
            self.ask(Errand::Read { request: ReadRequest { conversation_id, seq }, covers }, now);
        }
    }

    /// The mark is on its way, by itself or with a message, and counts as an acknowledgement too.
    fn read_asked(&mut self, conversation_id: &ConversationId, seq: Seq, now: Moment) {
        let Some(read) = self.reports.reads.get_mut(conversation_id) else { return };
        (read.asked, read.since) = (true, None);
        read.from = Some(now + self.timing.ack_every);
        self.reports.unacked.retain(|id, mark| id != conversation_id || *mark > seq);
    }

    /// A key in this conversation. While the user is writing, a read mark waits for the message.
    pub(super) fn typed(&mut self, conversation_id: &ConversationId, now: Moment) {
        if !self.views.is_open(conversation_id) {
            return;
        }
        self.reports.typed.insert(conversation_id.clone(), now);
        if self.reports.fuses.is_none() && self.links.current().is_some() {
            self.reports.fuses = Some(false);
            self.ask(Errand::Features, now);
        }
    }

    /// Returns the read mark that the next message of this conversation takes along, and counts it as sent.
    pub(super) fn fuse(&mut self, id: &ConversationId, now: Moment) -> Option<Seq> {
        let read = self.reports.reads.get(id)?;
        let seq = read.seq;
        // No gap lies below, and the app is done with all of it.
        let is_whole = self.conversations.shown(id) >= seq && self.conversations.held(id) >= seq;
        let is_due = !read.asked && seq > read.answered;
        if self.reports.fuses != Some(true) || !self.views.is_open(id) || !is_whole || !is_due {
            return None;
        }
        self.read_asked(id, seq, now);
        Some(seq)
    }

    /// The message with this read mark is stored. If the mark is not where it was to be, a `read` follows: so it does with
    /// a server that does not know the field.
    pub(super) fn fused(&mut self, seq: Seq, stored: &SendResult) {
        let id = &stored.conversation_id;
        if stored.read_seq.is_some_and(|mark| mark >= stored.seq) {
            let covers = seq.min(self.conversations.shown(id));
            self.acknowledged(&[AckEntry { conversation_id: id.clone(), seq: covers }]);
            return self.read_answered(id, seq, &ReadResult { unread: 0, mentions: Some(0) });
        }
        let Some(read) = self.reports.reads.get_mut(id) else { return };
        read.asked = false;
        if stored.read_seq >= Some(seq) && read.waiting.is_empty() {
            read.answered = read.answered.max(seq);
            return self.read_told(id, seq);
        }
        read.from = None;
    }

    pub(super) fn read_answered(&mut self, conversation_id: &ConversationId, seq: Seq, left: &ReadResult) {
        let Some(read) = self.reports.reads.get_mut(conversation_id) else { return };
        read.asked = false;
        read.answered = read.answered.max(seq);
        let (done, waiting) = std::mem::take(&mut read.waiting).into_iter().partition(|(wanted, _)| *wanted <= seq);
        read.waiting = waiting;
        let done: Vec<(Seq, AskId)> = done;
        for (_, ask) in done {
            self.answer(ask, Ok(left.clone().into()));
        }
        let ReadResult { unread, mentions } = left.clone();
        self.store(|| Write::Read { conversation_id: conversation_id.clone(), seq, unread, mentions });
        self.read_told(conversation_id, seq);
        self.acknowledge_again(conversation_id);
    }

    pub(super) fn read_lost(&mut self, conversation_id: &ConversationId) {
        if let Some(read) = self.reports.reads.get_mut(conversation_id) {
            read.asked = false;
            read.from = None;
        }
    }

    pub(super) fn read_refused(&mut self, conversation_id: &ConversationId, error: &Error) {
        let Some(read) = self.reports.reads.remove(conversation_id) else { return };
        for (_, ask) in read.waiting {
            self.answer(ask, Err(error.clone()));
        }
        self.read_told(conversation_id, read.seq);
        self.acknowledge_again(conversation_id);
    }

    /// A restart need not report the mark again.
    fn read_told(&mut self, conversation_id: &ConversationId, seq: Seq) {
        if self.keeper == Keeper::Store {
            self.save(StorageChange::ReadTold { conversation_id: conversation_id.clone(), seq });
        }
    }

    pub(super) fn acknowledged(&mut self, up_to: &[AckEntry]) {
        for AckEntry { conversation_id, seq } in up_to {
            self.conversations.raise_acked(conversation_id, *seq);
        }
    }

    pub(super) fn ack_lost(&mut self, up_to: &[AckEntry]) {
        for AckEntry { conversation_id, .. } in up_to {
            self.acknowledge_again(conversation_id);
        }
    }
}
