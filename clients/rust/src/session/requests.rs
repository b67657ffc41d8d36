//! Requests without an answer yet.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use wire::{
    AckEntry, AckRequest, Action, ClientMsgId, ConversationId, DrainRequest, HistoryRequest, InboxRequest, MediaId,
    PingRequest, PingResult, Problem, ReadRequest, ReadResult, Request, RequestId, Seq, UnwatchRequest, UnwatchResult,
    UploadRequest, UploadedRequest, UploadedResult, WatchRequest,
};

use super::calls::Call;
use super::outbox;
use super::reading::{read_inbox, readable};
use super::{LinkId, Output, Session, jitter};
use crate::storage::Queued;
use crate::{Error, Timing};

/// Upper bound on the server's `retry_after_ms`. Of first messages to strangers it lets one through in 3 minutes.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5 * 60);

/// The wait for an answer grows from 5 s to 40 s.
const ANSWER_WAIT_DOUBLINGS_MAX: u32 = 3;

#[derive(Default)]
pub(super) struct Requests {
    asked: BTreeMap<u64, Asked>,
    last_id: u64,
}

struct Asked {
    errand: Errand,
    link: LinkId,
    since: Instant,
    retry_at: Instant,
    attempts: u32,
    /// Refused for now: no answer is owed until it is sent again.
    is_put_off: bool,
}

/// A request, with all that is needed to handle its answer. Each match on it names every kind, so that a new one does not
/// compile before its answer, its refusal and its loss are handled.
#[derive(Debug)]
pub(super) enum Errand {
    /// What is in the outbox.
    Send(Box<Queued>),
    Ack(AckRequest),
    /// Once it is answered, the server counts the conversation as acknowledged up to `covers`.
    Read {
        request: ReadRequest,
        covers: Seq,
    },
    Drain(DrainRequest),
    Ping,
    /// The chat list, after a connect.
    Listing(InboxRequest),
    /// What is missing in a conversation.
    Repair(HistoryRequest),
    /// What a message in the outbox carries.
    Upload(ClientMsgId, Box<UploadRequest>),
    Uploaded(ClientMsgId, MediaId),
    Watch(ConversationId),
    Unwatch(ConversationId),
    /// What is missing of a channel that is watched.
    Page(HistoryRequest),
    Call(Call),
}

impl Errand {
    fn frame(&self, id: u64) -> String {
        let action = match self {
            Self::Send(queued) => outbox::action(queued),
            Self::Ack(request) => Action::Ack(request.clone()),
            Self::Read { request, .. } => Action::Read(request.clone()),
            Self::Drain(request) => Action::Drain(request.clone()),
            Self::Ping => Action::Ping(PingRequest {}),
            Self::Listing(request) => Action::Inbox(request.clone()),
            Self::Repair(request) | Self::Page(request) => Action::History(request.clone()),
            Self::Upload(_, request) => Action::Upload((**request).clone()),
            Self::Uploaded(_, media_id) => Action::Uploaded(UploadedRequest { media_id: media_id.clone() }),
            Self::Watch(id) => Action::Watch(WatchRequest { conversation_id: id.clone() }),
            Self::Unwatch(id) => Action::Unwatch(UnwatchRequest { conversation_id: id.clone() }),
            Self::Call(call) => call.action(),
        };
        // A number in decimal always is a request id.
        Request { id: RequestId::parse(&id.to_string()).ok(), action }.to_frame()
    }
}

impl Requests {
    pub(super) fn owed_since(&self, link: LinkId) -> Option<Instant> {
        self.asked.values().filter(|asked| asked.link == link && !asked.is_put_off).map(|asked| asked.since).min()
    }

    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.asked.values().map(|asked| asked.retry_at).min()
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.asked.values().filter_map(|asked| if let Errand::Call(call) = &asked.errand { Some(call) } else { None })
    }

    /// Nobody waits for it any more. Put off, it would be sent later, and count.
    pub(super) fn withdraw_upload(&mut self, client_msg_id: &ClientMsgId) {
        self.asked.retain(|_, asked| match &asked.errand {
            Errand::Upload(id, _) | Errand::Uploaded(id, _) => id != client_msg_id,
            _ => true,
        });
    }

    pub(super) fn repairs(&self) -> usize {
        self.asked.values().filter(|asked| matches!(asked.errand, Errand::Repair(_))).count()
    }
}

impl Session {
    /// Asks for what has no answer, if there is a connection.
    pub(super) fn say(&mut self, action: Action) -> bool {
        let Some(link) = self.links.current() else { return false };
        self.outputs.push(Output::Frame { link, text: Request { id: None, action }.to_frame() });
        true
    }

    /// Only while there is a connection.
    pub(super) fn ask(&mut self, errand: Errand, now: Instant) {
        let Some(link) = self.links.current() else { return };
        self.requests.last_id += 1;
        let id = self.requests.last_id;
        self.outputs.push(Output::Frame { link, text: errand.frame(id) });
        let retry_at = now + self.timing.answer_wait;
        let asked = Asked { errand, link, since: now, retry_at, attempts: 0, is_put_off: false };
        self.requests.asked.insert(id, asked);
    }

    pub(super) fn resend_due(&mut self, now: Instant) {
        let Some(current) = self.links.current() else { return };
        for (id, asked) in self.requests.asked.iter_mut().filter(|(_, asked)| asked.retry_at <= now) {
            asked.attempts = asked.attempts.saturating_add(1);
            asked.retry_at = now + answer_wait(&self.timing, asked.attempts);
            if asked.link != current || asked.is_put_off {
                asked.link = current;
                asked.since = now;
                asked.is_put_off = false;
            }
            if matches!(asked.errand, Errand::Send(_)) {
                self.stats.resent += 1;
            }
            self.outputs.push(Output::Frame { link: current, text: asked.errand.frame(*id) });
        }
    }

    pub(super) fn retry_all_soon(&mut self, link: LinkId, now: Instant) {
        for asked in self.requests.asked.values_mut().filter(|asked| asked.link == link && !asked.is_put_off) {
            let wait = jitter(&mut self.rng, self.timing.retry_first, self.timing.answer_wait, asked.attempts);
            asked.retry_at = asked.retry_at.min(now + wait);
        }
    }

    /// The connection is gone, so no answer will come on it. Each errand is asked again, if it still has to be.
    pub(super) fn forget_asked_on(&mut self, link: LinkId, now: Instant) {
        let all = std::mem::take(&mut self.requests.asked);
        // A message waits for its time on the next connection, too. All else is asked anew there.
        let waits = |asked: &Asked| asked.is_put_off && matches!(asked.errand, Errand::Send(_));
        let (gone, kept): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|(_, asked)| asked.link == link && !waits(asked));
        self.requests.asked = kept;
        // In reverse, because calls are put back at the front of their queue.
        for asked in gone.into_values().rev() {
            match asked.errand {
                Errand::Send(queued) => self.send_lost(&queued),
                Errand::Ack(AckRequest { up_to }) => self.ack_lost(&up_to),
                Errand::Read { request, .. } => self.read_lost(&request.conversation_id),
                Errand::Drain(DrainRequest { ack }) => self.drain_lost(&ack, now),
                Errand::Ping => self.ping_ended(),
                Errand::Listing(_) => self.listing_lost(now),
                Errand::Repair(HistoryRequest { conversation_id, .. }) => self.repair_lost(&conversation_id, now),
                Errand::Upload(id, _) | Errand::Uploaded(id, _) => self.upload_lost(&id),
                // `watch_again` has it watched by another connection.
                Errand::Watch(_) | Errand::Unwatch(_) => {}
                Errand::Page(HistoryRequest { conversation_id, .. }) => self.page_lost(&conversation_id, now),
                Errand::Call(call) => self.calls.again(call),
            }
        }
    }

    pub(super) fn answered(&mut self, id: Option<&str>, result: Value, now: Instant) {
        // A second answer to a request that was sent twice.
        let Some(id) = id.and_then(|id| id.parse().ok()) else { return };
        let Some(asked) = self.requests.asked.remove(&id) else { return };
        if let Err(errand) = self.apply(asked.errand, result, now) {
            let retry_at = now + answer_wait(&self.timing, asked.attempts);
            self.requests.asked.insert(id, Asked { errand, retry_at, ..asked });
        }
    }

    /// Gives the errand back if its result can't be read. The request is sent again.
    fn apply(&mut self, errand: Errand, result: Value, now: Instant) -> Result<(), Errand> {
        match errand {
            Errand::Send(queued) => {
                let Some(answer) = outbox::answer(&queued.outgoing, result) else { return Err(Errand::Send(queued)) };
                self.stored(*queued, answer, now);
            }
            Errand::Ack(AckRequest { up_to }) => self.acknowledged(&up_to),
            Errand::Read { request, covers } => {
                let Some(left) = readable::<ReadResult>(result) else {
                    return Err(Errand::Read { request, covers });
                };
                let ReadRequest { conversation_id, seq } = request;
                self.acknowledged(&[AckEntry { conversation_id: conversation_id.clone(), seq: covers }]);
                self.read_answered(&conversation_id, seq, &left);
            }
            Errand::Drain(request) => {
                let Some(page) = readable(result) else { return Err(Errand::Drain(request)) };
                self.acknowledged(&request.ack);
                self.drained(page, now);
            }
            Errand::Ping => {
                let Some(PingResult { pending, .. }) = readable(result) else { return Err(Errand::Ping) };
                self.pinged(pending);
            }
            Errand::Listing(request) => {
                let Some(page) = read_inbox(result) else { return Err(Errand::Listing(request)) };
                self.listed(page, now);
            }
            Errand::Repair(request) => {
                let Some(page) = readable(result) else { return Err(Errand::Repair(request)) };
                self.repaired(&request, page, now);
            }
            Errand::Upload(id, request) => {
                let Some(place) = readable(result) else { return Err(Errand::Upload(id, request)) };
                self.upload_answered(&id, place);
            }
            Errand::Uploaded(id, media_id) => {
                let Some(UploadedResult { .. }) = readable(result) else { return Err(Errand::Uploaded(id, media_id)) };
                self.enter_lane(&id);
            }
            Errand::Watch(id) => {
                let Some(answer) = readable(result) else { return Err(Errand::Watch(id)) };
                self.watched(&id, &answer, now);
            }
            Errand::Unwatch(id) => {
                let Some(UnwatchResult {}) = readable(result) else { return Err(Errand::Unwatch(id)) };
                self.unwatched(&id);
            }
            Errand::Page(request) => {
                let Some(page) = readable(result) else { return Err(Errand::Page(request)) };
                self.page_came(&request.conversation_id, page, now);
            }
            Errand::Call(call) => self.call_answered(call, result),
        }
        Ok(())
    }

    pub(super) fn refused(&mut self, id: Option<&str>, problem: Problem, now: Instant) {
        let Some(id) = id.and_then(|id| id.parse().ok()) else { return };
        if problem.code == "not_ready"
            && let Some(Errand::Uploaded(client_msg_id, _)) = self.requests.asked.get(&id).map(|asked| &asked.errand)
        {
            let client_msg_id = client_msg_id.clone();
            self.requests.asked.remove(&id);
            return self.not_ready(&client_msg_id, &problem, now);
        }
        let Problem { code, message, retryable, retry_after_ms } = problem;
        if retryable {
            if let Some(asked) = self.requests.asked.get_mut(&id) {
                let wait = jitter(&mut self.rng, self.timing.retry_first, self.timing.answer_wait, asked.attempts);
                let retry_after = Duration::from_millis(retry_after_ms.unwrap_or(0)).min(RETRY_AFTER_MAX);
                asked.retry_at = now + wait.max(retry_after);
                asked.is_put_off = true;
            }
            return;
        }
        let Some(Asked { errand, .. }) = self.requests.asked.remove(&id) else { return };
        let error = Error::Refused { code, message };
        match errand {
            Errand::Send(queued) => self.send_refused(&queued, error),
            // It would be refused again. The valid entries are applied.
            Errand::Ack(AckRequest { up_to }) => self.acknowledged(&up_to),
            Errand::Read { request, .. } => self.read_refused(&request.conversation_id, &error),
            Errand::Drain(DrainRequest { ack }) => self.drain_refused(&ack, now),
            Errand::Ping => self.ping_ended(),
            Errand::Listing(_) => self.listing_refused(),
            Errand::Repair(HistoryRequest { conversation_id, .. }) => self.repair_refused(&conversation_id, now),
            Errand::Upload(id, _) | Errand::Uploaded(id, _) => self.upload_refused(&id, error),
            Errand::Watch(conversation_id) | Errand::Page(HistoryRequest { conversation_id, .. }) => {
                self.watch_refused(&conversation_id, &error);
            }
            // Nothing is watched.
            Errand::Unwatch(conversation_id) => self.unwatched(&conversation_id),
            Errand::Call(call) => self.call_refused(call, error),
        }
    }
}

/// Twice as long each time: at a fixed interval, a slow server would get ever more requests.
fn answer_wait(timing: &Timing, attempts: u32) -> Duration {
    timing.answer_wait.saturating_mul(1 << attempts.min(ANSWER_WAIT_DOUBLINGS_MAX))
}
