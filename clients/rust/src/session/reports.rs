//! What the server is told: what this device holds, and what the user has read.

use std::collections::BTreeMap;
use std::time::Instant;

use super::requests::Purpose;
use super::{Answer, Session, Ticket};
use crate::protocol::{ACK_MARKS_MAX, Mark, ReceiptFrame, Request};
use crate::{Error, Event, Receipt, ReceiptKind};

#[derive(Default)]
pub(super) struct Reports {
    /// Held, and not acknowledged to the server yet: one mark per conversation, however many messages.
    unacked: BTreeMap<String, u64>,
    ack_from: Option<Instant>,
    reads: BTreeMap<String, Read>,
}

/// How far the user has read a conversation. Gone a while after the server knows.
struct Read {
    seq: u64,
    asked: Option<u64>,
    answered: u64,
    from: Option<Instant>,
    waiting: Vec<(u64, Ticket)>,
}

impl Reports {
    pub(super) fn acknowledge(&mut self, conversation_id: &str, seq: u64) {
        // To have read it is to hold it.
        if self.reads.get(conversation_id).is_some_and(|read| read.seq >= seq && read.answered < seq) {
            return;
        }
        let mark = self.unacked.entry(conversation_id.to_owned()).or_default();
        *mark = (*mark).max(seq);
    }

    pub(super) fn hurry(&mut self, now: Instant) {
        self.ack_from = None;
        self.reads.values_mut().for_each(|read| read.from = read.from.map(|from| from.min(now)));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let ack = self.ack_from.filter(|_| !self.unacked.is_empty());
        let reads = self.reads.values().filter(|read| read.asked.is_none()).filter_map(|read| read.from);
        reads.chain(ack).min()
    }

    /// As many marks as one request may carry.
    pub(super) fn take(&mut self) -> Vec<Mark> {
        let mut up_to = Vec::new();
        while up_to.len() < ACK_MARKS_MAX
            && let Some((conversation_id, seq)) = self.unacked.pop_first()
        {
            up_to.push(Mark { conversation_id, seq });
        }
        up_to
    }

    fn is_ack_due(&self, now: Instant) -> bool {
        let enough = self.unacked.len() >= ACK_MARKS_MAX;
        enough || (!self.unacked.is_empty() && self.ack_from.is_none_or(|from| from <= now))
    }
}

impl Session {
    /// The user has read everything up to here.
    pub(crate) fn read(&mut self, conversation_id: &str, seq: u64, ticket: Ticket, now: Instant) {
        let request = Request::Read { conversation_id: conversation_id.to_owned(), seq };
        if let Err(error) = request.check_size() {
            self.answer(Some(ticket), Err(error));
            return;
        }
        let read = self.reports.reads.entry(conversation_id.to_owned()).or_insert_with(|| Read {
            seq,
            asked: None,
            answered: 0,
            from: None,
            waiting: Vec::new(),
        });
        read.seq = read.seq.max(seq);
        read.waiting.push((seq, ticket));
        self.settle(now);
    }

    pub(super) fn report(&mut self, now: Instant) {
        self.report_reads(now);
        while self.reports.is_ack_due(now) {
            let up_to = self.reports.take();
            self.reports.ack_from = Some(now + self.timing.ack_every);
            self.ask(Request::Ack { up_to }, Purpose::Ack, now);
        }
    }

    fn report_reads(&mut self, now: Instant) {
        let is_due = |read: &Read| read.asked.is_none() && read.from.is_none_or(|from| from <= now);
        let due = self.reports.reads.iter().filter(|(_, read)| is_due(read));
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        for conversation_id in due {
            let Some(read) = self.reports.reads.get_mut(&conversation_id) else { continue };
            if read.waiting.is_empty() && read.seq <= read.answered {
                self.reports.reads.remove(&conversation_id);
                continue;
            }
            let seq = read.seq;
            read.asked = Some(seq);
            read.from = Some(now + self.timing.ack_every);
            self.reports.unacked.retain(|id, mark| *id != conversation_id || *mark > seq);
            // What was shown exists, so the server can't have cut the mark to less than that.
            let covers = seq.min(self.conversations.shown(&conversation_id));
            self.ask(Request::Read { conversation_id, seq }, Purpose::Read { covers }, now);
        }
    }

    pub(super) fn read_answered(&mut self, conversation_id: &str, seq: u64, unread: u64) {
        let Some(read) = self.reports.reads.get_mut(conversation_id) else { return };
        read.asked = None;
        read.answered = read.answered.max(seq);
        let (done, waiting) = std::mem::take(&mut read.waiting).into_iter().partition(|(wanted, _)| *wanted <= seq);
        read.waiting = waiting;
        let done: Vec<(u64, Ticket)> = done;
        for (_, ticket) in done {
            self.answer(Some(ticket), Ok(Answer::Unread(unread)));
        }
        self.acknowledge_again(conversation_id);
    }

    pub(super) fn read_lost(&mut self, conversation_id: &str) {
        if let Some(read) = self.reports.reads.get_mut(conversation_id) {
            read.asked = None;
            read.from = None;
        }
    }

    pub(super) fn read_refused(&mut self, conversation_id: &str, error: &Error) {
        let Some(read) = self.reports.reads.remove(conversation_id) else { return };
        for (_, ticket) in read.waiting {
            self.answer(Some(ticket), Err(error.clone()));
        }
        self.acknowledge_again(conversation_id);
    }

    pub(super) fn acknowledged(&mut self, up_to: &[Mark]) {
        for Mark { conversation_id, seq } in up_to {
            self.conversations.raise_acked(conversation_id, *seq);
        }
    }

    pub(super) fn ack_lost(&mut self, up_to: Vec<Mark>) {
        for Mark { conversation_id, .. } in up_to {
            self.acknowledge_again(&conversation_id);
        }
    }

    pub(super) fn receipt(&mut self, receipt: ReceiptFrame, read: bool) {
        let kind = if read { ReceiptKind::Read } else { ReceiptKind::Delivered };
        let ReceiptFrame { conversation_id, user_id, seq, at } = receipt;
        self.tell(Event::Receipt(Receipt { kind, conversation_id, user_id, seq, at }));
    }
}
