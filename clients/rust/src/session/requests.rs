//! What was asked and not answered yet.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Answer;
use super::{LinkId, Output, Session, Ticket, jitter};
use crate::Error;
use crate::protocol::{Mark, PingResult, ReadResult, Refusal, Request};

/// A server that asks for more patience than this is not believed.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// The wait for an answer grows from 5 s to 40 s.
const ANSWER_WAIT_DOUBLINGS_MAX: u32 = 3;

#[derive(Default)]
pub(super) struct Requests {
    asked: BTreeMap<u64, Asked>,
    last_id: u64,
}

struct Asked {
    request: Request,
    purpose: Purpose,
    link: LinkId,
    since: Instant,
    retry_at: Instant,
    attempts: u32,
}

/// Whom the answer is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Purpose {
    Send,
    Ack,
    /// What of the conversation the server holds acknowledged, once it has answered.
    Read {
        covers: u64,
    },
    Drain,
    Ping,
    /// The chat list, after a connect.
    Listing,
    /// What a conversation lacks.
    Repair,
    Call(Ticket),
}

impl Requests {
    pub(super) fn owed_since(&self, link: LinkId) -> Option<Instant> {
        self.asked.values().filter(|asked| asked.link == link).map(|asked| asked.since).min()
    }

    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.asked.values().map(|asked| asked.retry_at).min()
    }

    pub(super) fn count(&self, purpose: &Purpose) -> usize {
        self.asked.values().filter(|asked| asked.purpose == *purpose).count()
    }
}

impl Session {
    /// Only while there is a connection.
    pub(super) fn ask(&mut self, request: Request, purpose: Purpose, now: Instant) {
        let Some(link) = self.links.current() else { return };
        self.requests.last_id += 1;
        let id = self.requests.last_id;
        self.outputs.push(Output::Frame { link, text: request.frame(id) });
        let retry_at = now + self.timing.answer_wait;
        self.requests.asked.insert(id, Asked { request, purpose, link, since: now, retry_at, attempts: 0 });
    }

    pub(super) fn resend_due(&mut self, now: Instant) {
        let Some(current) = self.links.current() else { return };
        for (id, asked) in self.requests.asked.iter_mut().filter(|(_, asked)| asked.retry_at <= now) {
            asked.attempts = asked.attempts.saturating_add(1);
            // Longer each time: were it the same, servers that are slow because they are busy would get busier, for ever.
            let doublings = asked.attempts.min(ANSWER_WAIT_DOUBLINGS_MAX);
            asked.retry_at = now + self.timing.answer_wait.saturating_mul(1 << doublings);
            if asked.link != current {
                asked.link = current;
                asked.since = now;
            }
            if asked.purpose == Purpose::Send {
                self.stats.resent += 1;
            }
            self.outputs.push(Output::Frame { link: current, text: asked.request.frame(*id) });
        }
    }

    pub(super) fn retry_all_soon(&mut self, link: LinkId, now: Instant) {
        for asked in self.requests.asked.values_mut().filter(|asked| asked.link == link) {
            let wait = jitter(&mut self.rng, self.timing.retry_first, self.timing.answer_wait, asked.attempts);
            asked.retry_at = asked.retry_at.min(now + wait);
        }
    }

    /// Answers on this connection will not come any more. Whatever asked sees to it that it is asked again.
    pub(super) fn forget_asked_on(&mut self, link: LinkId, now: Instant) {
        let mut gone = Vec::new();
        self.requests.asked.retain(|_, asked| {
            let keep = asked.link != link;
            if !keep {
                gone.push((asked.request.clone(), asked.purpose.clone()));
            }
            keep
        });
        // Backwards, because calls go back to where they stood: at the front.
        for (request, purpose) in gone.into_iter().rev() {
            match (purpose, request) {
                (Purpose::Send, Request::Send { target, client_msg_id, .. }) => self.send_lost(&target, &client_msg_id),
                (Purpose::Ack, Request::Ack { up_to }) => self.ack_lost(up_to),
                (Purpose::Drain, Request::Drain { ack }) => self.drain_lost(ack, now),
                (Purpose::Read { .. }, Request::Read { conversation_id, .. }) => self.read_lost(&conversation_id),
                (Purpose::Listing, _) => self.listing_lost(now),
                (Purpose::Repair, Request::History { conversation_id, .. }) => self.repair_lost(&conversation_id, now),
                (Purpose::Call(ticket), request) => self.calls.again(ticket, request),
                // It was about that connection only.
                _ => {}
            }
        }
    }

    pub(super) fn answered(&mut self, id: Option<&str>, result: Value, now: Instant) {
        // No such request: the second answer to one that was sent twice.
        let Some(id) = id.and_then(|id| id.parse().ok()) else { return };
        let Some(mut asked) = self.requests.asked.remove(&id) else { return };
        if self.apply(&asked.request, &asked.purpose, result, now).is_err() {
            if let Purpose::Call(ticket) = asked.purpose {
                self.answer(Some(ticket), Err(Error::Unreadable));
                return;
            }
            asked.retry_at = now + self.timing.answer_wait;
            self.requests.asked.insert(id, asked);
        }
    }

    fn apply(&mut self, request: &Request, purpose: &Purpose, result: Value, now: Instant) -> serde_json::Result<()> {
        match (purpose, request) {
            (Purpose::Send, Request::Send { target, client_msg_id, .. }) => {
                self.stored(target, client_msg_id, serde_json::from_value(result)?, now);
            }
            (Purpose::Ack, Request::Ack { up_to }) => self.acknowledged(up_to),
            (Purpose::Read { covers }, Request::Read { conversation_id, seq }) => {
                let ReadResult { unread } = serde_json::from_value(result)?;
                self.acknowledged(&[Mark { conversation_id: conversation_id.clone(), seq: *covers }]);
                self.read_answered(conversation_id, *seq, unread);
            }
            (Purpose::Drain, Request::Drain { ack }) => {
                let page = serde_json::from_value(result)?;
                self.acknowledged(ack);
                self.drained(page, now);
            }
            (Purpose::Ping, _) => {
                let PingResult { pending } = serde_json::from_value(result)?;
                if pending {
                    self.drain_again();
                }
            }
            (Purpose::Listing, _) => self.listed(serde_json::from_value(result)?, now),
            (Purpose::Repair, Request::History { conversation_id, after_seq, .. }) => {
                self.repaired(conversation_id, *after_seq, serde_json::from_value(result)?, now);
            }
            (Purpose::Call(ticket), Request::Inbox { .. }) => {
                let inbox = serde_json::from_value(result)?;
                self.answer(Some(*ticket), Ok(Answer::Inbox(inbox)));
            }
            (Purpose::Call(ticket), _) => {
                let history = serde_json::from_value(result)?;
                self.answer(Some(*ticket), Ok(Answer::History(history)));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn refused(&mut self, id: Option<&str>, refusal: Refusal, now: Instant) {
        let Some(id) = id.and_then(|id| id.parse().ok()) else { return };
        let Refusal { code, message, retryable, retry_after_ms } = refusal;
        if retryable {
            if let Some(asked) = self.requests.asked.get_mut(&id) {
                let wait = jitter(&mut self.rng, self.timing.retry_first, self.timing.answer_wait, asked.attempts);
                asked.retry_at =
                    now + wait.max(Duration::from_millis(retry_after_ms.unwrap_or(0)).min(RETRY_AFTER_MAX));
            }
            return;
        }
        let Some(Asked { request, purpose, .. }) = self.requests.asked.remove(&id) else { return };
        let error = Error::Refused { code, message };
        match (purpose, request) {
            (Purpose::Send, Request::Send { target, client_msg_id, .. }) => {
                self.send_refused(&target, &client_msg_id, error);
            }
            // It would be refused again. The entries that were not at fault stand.
            (Purpose::Ack, Request::Ack { up_to }) => self.acknowledged(&up_to),
            (Purpose::Read { .. }, Request::Read { conversation_id, .. }) => {
                self.read_refused(&conversation_id, &error);
            }
            (Purpose::Drain, Request::Drain { ack }) => self.drain_refused(&ack, now),
            (Purpose::Listing, _) => self.listing_refused(),
            (Purpose::Repair, Request::History { conversation_id, .. }) => self.repair_refused(&conversation_id, now),
            (Purpose::Call(ticket), _) => self.answer(Some(ticket), Err(error)),
            _ => {}
        }
    }
}
