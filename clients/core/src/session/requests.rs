//! Requests without a reply yet.

use std::collections::BTreeMap;
use std::time::Duration;

use pigeonhole_sealing::{RequestKey, Sealed};
use serde_json::Value;
use wire::{
    AckEntry, AckRequest, Action, ClientMsgId, ConversationId, DownloadRequest, DrainRequest, HistoryRequest,
    InboxRequest, MediaId, PingRequest, PingResult, PresenceRequest, Problem, ReadRequest, ReadResult, Rekeyed,
    Request, RequestId, Seq, UnwatchRequest, UnwatchResult, UploadRequest, UploadedRequest, UploadedResult,
    WatchRequest,
};

use super::own_entries;
use super::reading::{read_inbox, readable};
use super::{AskId, Core, LinkId, Output, jitter};
use crate::media::CarryId;
use crate::saved::Queued;
use crate::turn::Keeper;
use crate::{Error, Moment, Timing};

/// The upper bound on the server's `retry_after_ms`. The server accepts one first message to a stranger in 3 minutes.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5 * 60);

/// The server carries out no try for longer: API Gateway waits 29 s for a function.
pub(super) const TRY_MAX: Duration = Duration::from_secs(30);

/// The refusal of what was sealed for another epoch than the conversation's.
const STALE_EPOCH: &str = "stale_epoch";
/// The code for a message in the clear to an encrypted conversation.
const ENCRYPTION_REQUIRED: &str = "encryption_required";
/// The code for a sealed message while a user who left can still open it.
pub(super) const REKEY_REQUIRED: &str = "rekey_required";

/// The wait for a reply grows from 5 s to 40 s.
const ANSWER_WAIT_DOUBLINGS_MAX: u32 = 3;

#[derive(Default)]
pub(super) struct Requests {
    asked: BTreeMap<u64, Asked>,
    last_id: u64,
}

struct Asked {
    errand: Errand,
    link: LinkId,
    since: Moment,
    retry_at: Moment,
    attempts: u32,
    /// Postponed: the server owes no reply until the request is sent again.
    is_put_off: bool,
    /// The last try went over HTTP.
    is_posted: bool,
    /// The time of the last try, and the number of tries without a reply.
    sent_at: Moment,
    unanswered: u32,
    /// The server can carry out a try whose reply is lost until then.
    lost_until: Option<Moment>,
}

impl Asked {
    fn new(errand: Errand, link: LinkId, is_posted: bool, retry_at: Moment, now: Moment) -> Self {
        let (attempts, is_put_off, unanswered, lost_until) = (0, false, 1, None);
        let (since, sent_at) = (now, now);
        Self { errand, link, since, retry_at, attempts, is_put_off, is_posted, sent_at, unanswered, lost_until }
    }

    /// Records one more try.
    fn sent(&mut self, now: Moment) {
        if now >= self.sent_at + TRY_MAX {
            self.unanswered = 0;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.sent_at = now;
    }

    /// Records that no reply comes any more on the connection that sent the request.
    fn lose_answers(&mut self) {
        self.lost_until = self.runs_until();
        self.unanswered = 0;
    }

    /// The connection owes a reply.
    fn is_owed_on(&self, link: LinkId) -> bool {
        self.link == link && !self.is_put_off && !self.is_posted
    }

    /// Returns until when the server can carry out a try without a reply.
    fn runs_until(&self) -> Option<Moment> {
        self.lost_until.max((self.unanswered > 0).then(|| self.sent_at + TRY_MAX))
    }
}

/// A request of the app, and the app's id for the reply.
#[derive(Debug)]
pub(super) struct Call {
    pub action: Action,
    pub ask: AskId,
}

/// A request of the outbox on its way.
#[derive(Debug)]
pub(super) struct Sending {
    pub queued: Queued,
    /// The bytes that leave in place of the content, the same at each try.
    pub sealed: Option<Sealed>,
    /// The commit of a change of a group's members, the same at each try.
    pub keys: Option<Box<Rekeyed>>,
    /// The read mark that a message takes along.
    pub read: Option<Seq>,
}

/// A request, with everything that handling its reply needs. Each match on it names every kind, so a new one does not
/// compile before its reply, its refusal and its loss are handled.
#[derive(Debug)]
pub(super) enum Errand {
    /// A request of the outbox.
    Send(Box<Sending>),
    Ack(AckRequest),
    /// After the reply, the server counts the conversation as acknowledged up to `covers`.
    Read {
        request: ReadRequest,
        covers: Seq,
    },
    Drain(DrainRequest),
    Ping,
    /// The chat list, after a connect.
    Listing(InboxRequest),
    /// A request for a conversation's missing entries.
    Repair(HistoryRequest),
    /// The announcement of a file in the outbox.
    Upload(ClientMsgId, Box<UploadRequest>),
    Uploaded(ClientMsgId, MediaId),
    Watch(ConversationId),
    Unwatch(ConversationId),
    /// A request for the missing entries of a channel, while the app is subscribed.
    Page(HistoryRequest),
    /// The renewal of a watch of users' presence.
    Presence(PresenceRequest),
    /// A request of the keyring.
    Keyring(RequestKey, Box<Action>),
    /// A request for the server's list of features.
    Features,
    /// A page of the chat list, for the rows of new groups.
    Rows(InboxRequest),
    /// A request for entries that the keyring has not taken, although the app has passed them.
    Open(HistoryRequest),
    /// A request about a file of a commit.
    Carry(CarryId, Box<Leg>),
    Call(Box<Call>),
}

/// A request about a file.
#[derive(Debug)]
pub(super) enum Leg {
    Announce(UploadRequest),
    /// All bytes are put.
    Complete(MediaId),
    /// Where the bytes are.
    Locate(MediaId),
}

impl Leg {
    pub(super) fn action(&self) -> Action {
        match self {
            Self::Announce(request) => Action::Upload(request.clone()),
            Self::Complete(media_id) => Action::Uploaded(UploadedRequest { media_id: media_id.clone() }),
            Self::Locate(media_id) => Action::Download(DownloadRequest { media_ids: vec![media_id.clone()] }),
        }
    }
}

impl Errand {
    fn action(&self) -> Action {
        match self {
            Self::Send(sending) => {
                let Sending { queued, sealed, keys, read } = &**sending;
                own_entries::action(queued, sealed.as_ref(), keys.as_deref(), *read)
            }
            Self::Ack(request) => Action::Ack(request.clone()),
            Self::Read { request, .. } => Action::Read(request.clone()),
            Self::Drain(request) => Action::Drain(request.clone()),
            Self::Ping => Action::Ping(PingRequest { features: false }),
            Self::Features => Action::Ping(PingRequest { features: true }),
            Self::Listing(request) | Self::Rows(request) => Action::Inbox(request.clone()),
            Self::Repair(request) | Self::Page(request) | Self::Open(request) => Action::History(request.clone()),
            Self::Keyring(_, action) => (**action).clone(),
            Self::Upload(_, request) => Action::Upload((**request).clone()),
            Self::Carry(_, leg) => leg.action(),
            Self::Uploaded(_, media_id) => Action::Uploaded(UploadedRequest { media_id: media_id.clone() }),
            Self::Watch(id) => Action::Watch(WatchRequest { conversation_id: id.clone() }),
            Self::Unwatch(id) => Action::Unwatch(UnwatchRequest { conversation_id: id.clone() }),
            Self::Presence(request) => Action::Presence(request.clone()),
            Self::Call(call) => call.action.clone(),
        }
    }
}

/// The text of a request. Its id is a decimal number, which always is a valid id.
pub(super) fn frame(id: u64, action: Action) -> String {
    Request { id: RequestId::parse(&id.to_string()).ok(), action }.to_frame()
}

impl Requests {
    pub(super) fn owed_since(&self, link: LinkId) -> Option<Moment> {
        self.asked.values().filter(|asked| asked.is_owed_on(link)).map(|asked| asked.since).min()
    }

    pub(super) fn next_retry(&self) -> Option<Moment> {
        self.asked.values().map(|asked| asked.retry_at).min()
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.asked
            .values()
            .filter_map(|asked| if let Errand::Call(call) = &asked.errand { Some(&**call) } else { None })
    }

    /// Drops the upload's requests, whose replies nothing awaits. A postponed one would be sent later, and count.
    pub(super) fn withdraw_upload(&mut self, client_msg_id: &ClientMsgId) {
        self.asked.retain(|_, asked| match &asked.errand {
            Errand::Upload(id, _) | Errand::Uploaded(id, _) => id != client_msg_id,
            _ => true,
        });
    }

    pub(super) fn of_keyring(&self) -> usize {
        self.asked.values().filter(|asked| matches!(asked.errand, Errand::Keyring(..))).count()
    }

    /// Returns whether entries of this conversation are on their way to the keyring.
    pub(super) fn is_opening(&self, id: &ConversationId) -> bool {
        self.asked
            .values()
            .any(|asked| matches!(&asked.errand, Errand::Open(request) if request.conversation_id == *id))
    }

    pub(super) fn repairs(&self) -> usize {
        self.asked.values().filter(|asked| matches!(asked.errand, Errand::Repair(_))).count()
    }
}

impl Core {
    /// Sends a request that has no reply, if the client has a connection.
    pub(super) fn say(&mut self, action: Action) -> bool {
        let Some(link) = self.links.current() else { return false };
        self.outputs.push(Output::Send { link, text: Request { id: None, action }.to_frame() });
        true
    }

    /// Sends a request, only while the client has a connection.
    pub(super) fn ask(&mut self, errand: Errand, now: Moment) {
        let Some(link) = self.links.current() else { return };
        // After these, the server may forget entries that the store has. The app keeps its entries itself.
        let forgets = matches!(&errand, Errand::Ack(_) | Errand::Read { .. })
            || matches!(&errand, Errand::Send(sending) if sending.read.is_some())
            || matches!(&errand, Errand::Drain(DrainRequest { ack }) if !ack.is_empty());
        self.lasting |= forgets && self.keeper == Keeper::Store;
        self.requests.last_id += 1;
        let id = self.requests.last_id;
        let is_posted = self.put_out(link, id, errand.action(), now);
        let asked = Asked::new(errand, link, is_posted, now + self.timing.answer_wait, now);
        self.requests.asked.insert(id, asked);
    }

    /// Sends a request over HTTP, or on the connection. Returns whether it went over HTTP.
    fn put_out(&mut self, link: LinkId, id: u64, action: Action, now: Moment) -> bool {
        let name = action.name();
        let (is_posted, text) = (self.posting.takes(name, now), frame(id, action));
        self.outputs.push(if is_posted {
            Output::Post { link, request: id, action: name, text }
        } else {
            Output::Send { link, text }
        });
        is_posted
    }

    /// Sends a request of the outbox. The server may carry out an earlier try until `lost_until`.
    pub(super) fn ask_to_store(&mut self, sending: Sending, lost_until: Option<Moment>, now: Moment) {
        self.ask(Errand::Send(Box::new(sending)), now);
        if let Some(asked) = self.requests.asked.get_mut(&self.requests.last_id) {
            asked.lost_until = lost_until;
        }
    }

    pub(super) fn resend_due(&mut self, now: Moment) {
        let Some(current) = self.links.current() else { return };
        let mut asked_of = std::mem::take(&mut self.requests.asked);
        for (id, asked) in asked_of.iter_mut().filter(|(_, asked)| asked.retry_at <= now) {
            if asked.is_posted && !asked.is_put_off {
                self.posting.failed(now);
            }
            asked.attempts = asked.attempts.saturating_add(1);
            asked.retry_at = now + answer_wait(&self.timing, asked.attempts);
            if asked.link != current {
                asked.lose_answers();
            }
            asked.sent(now);
            let was_posted = asked.is_posted;
            asked.is_posted = self.put_out(current, *id, asked.errand.action(), now);
            if asked.link != current || asked.is_put_off || was_posted {
                asked.link = current;
                asked.since = now;
                asked.is_put_off = false;
            }
            if matches!(asked.errand, Errand::Send(_)) {
                self.stats.resent += 1;
            }
        }
        self.requests.asked = asked_of;
    }

    /// Handles a POST without a reply. The request is repeated on the connection.
    pub(super) fn post_failed(&mut self, id: u64, now: Moment) {
        if let Some(asked) = self.requests.asked.get_mut(&id)
            && asked.is_posted
            && !asked.is_put_off
        {
            asked.retry_at = now;
        }
    }

    pub(super) fn retry_all_soon(&mut self, link: LinkId, now: Moment) {
        for asked in self.requests.asked.values_mut().filter(|asked| asked.is_owed_on(link)) {
            let wait = jitter(&mut self.rng, self.timing.retry_first, self.timing.answer_wait, asked.attempts);
            asked.retry_at = asked.retry_at.min(now + wait);
        }
    }

    /// Handles the end of a connection, on which no reply will come. Each errand is repeated if it is still needed.
    pub(super) fn forget_asked_on(&mut self, link: LinkId, now: Moment) {
        // Another server may be behind the next connection, and marks don't wait for it.
        self.reports.set_fuses(None);
        self.views.set_has_profiles(None);
        self.reports.stop_waiting();
        let all = std::mem::take(&mut self.requests.asked);
        // A message also waits for its time on the next connection. All other errands are sent again there.
        let waits = |asked: &Asked| asked.is_put_off && matches!(asked.errand, Errand::Send(_));
        let (gone, kept): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|(_, asked)| asked.link == link && !waits(asked));
        self.requests.asked = kept;
        // In reverse, because calls are put back at the front of their queue.
        for asked in gone.into_values().rev() {
            let runs_until = asked.runs_until().unwrap_or(now);
            match asked.errand {
                Errand::Send(sending) => {
                    self.fuse_lost(&sending);
                    self.send_lost(&sending.queued, runs_until);
                }
                Errand::Ack(AckRequest { up_to }) => self.ack_lost(&up_to),
                Errand::Read { request, .. } => self.read_lost(&request.conversation_id),
                Errand::Drain(DrainRequest { ack }) => self.drain_lost(&ack, now),
                Errand::Ping => self.ping_ended(),
                Errand::Listing(_) => self.listing_lost(now),
                Errand::Repair(HistoryRequest { conversation_id, .. }) => self.repair_lost(&conversation_id, now),
                Errand::Upload(id, _) | Errand::Uploaded(id, _) => self.upload_lost(&id),
                // Another connection requests the features, and `watch_again` and `presence_again` subscribe on it.
                Errand::Watch(_) | Errand::Unwatch(_) | Errand::Presence(_) | Errand::Features => {}
                Errand::Page(HistoryRequest { conversation_id, .. }) => self.page_lost(&conversation_id, now),
                Errand::Keyring(key, action) => self.sealing.again.push((key, *action)),
                Errand::Carry(carry, _) => self.carry_failed(carry, now),
                Errand::Rows(_) => self.rows_lost(),
                Errand::Open(HistoryRequest { conversation_id, .. }) => self.open_lost(conversation_id),
                Errand::Call(call) => self.calls.again(*call),
            }
        }
    }

    pub(super) fn answered(&mut self, id: Option<&str>, result: Value, now: Moment) {
        // A second reply to a request that was sent twice.
        let Some(id) = id.and_then(|id| id.parse().ok()) else { return };
        let Some(asked) = self.requests.asked.remove(&id) else { return };
        let retry_at = now + answer_wait(&self.timing, asked.attempts);
        let Asked { errand, link, since, attempts, is_put_off, is_posted, sent_at, unanswered, lost_until, .. } = asked;
        if let Err(errand) = self.apply(errand, result, now) {
            let asked = Asked {
                errand,
                link,
                since,
                retry_at,
                attempts,
                is_put_off,
                is_posted,
                sent_at,
                unanswered: unanswered.saturating_sub(1),
                lost_until,
            };
            self.requests.asked.insert(id, asked);
        }
    }

    /// Applies a result, or returns the errand if the result can't be read. The client then repeats the request.
    fn apply(&mut self, errand: Errand, result: Value, now: Moment) -> Result<(), Errand> {
        match errand {
            Errand::Send(sending) => {
                let Some(answer) = own_entries::answer(&sending.queued.outgoing, result) else {
                    return Err(Errand::Send(sending));
                };
                self.stored(*sending, answer, now);
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
            Errand::Carry(carry, leg) => self.carry_answered(carry, &leg, result, now),
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
            Errand::Presence(request) => {
                let Some(answer) = readable(result) else { return Err(Errand::Presence(request)) };
                self.presence_came(&request, answer, now);
            }
            Errand::Keyring(key, _) => self.keyring_answered(&key, Ok(result), now),
            Errand::Features => self.features_came(readable(result)),
            Errand::Rows(_) => self.rows_came(readable(result), now),
            Errand::Open(request) => {
                let Some(page) = readable(result) else { return Err(Errand::Open(request)) };
                self.opened_page(&request.conversation_id, page, now);
            }
            Errand::Call(call) => self.call_answered(*call, result, now),
        }
        Ok(())
    }

    pub(super) fn refused(&mut self, id: Option<&str>, problem: Problem, now: Moment) {
        let Some(id) = id.and_then(|id| id.parse().ok()) else { return };
        if problem.code == "not_ready"
            && let Some(Errand::Uploaded(client_msg_id, _)) = self.requests.asked.get(&id).map(|asked| &asked.errand)
        {
            let client_msg_id = client_msg_id.clone();
            self.requests.asked.remove(&id);
            return self.not_ready(&client_msg_id, &problem, now);
        }
        let (Problem { code, retryable, retry_after_ms, .. }, message) = (problem.clone(), problem.text().to_owned());
        if let Some(asked) = self.requests.asked.get_mut(&id) {
            asked.unanswered = asked.unanswered.saturating_sub(1);
            // The server may still store another try. The reply counts that comes when no try is left.
            let until = asked.runs_until().filter(|until| *until > now);
            // The announcement of the message's file has expired: no other try can have stored the message.
            // The server stores nothing that was sealed for an ended epoch.
            let has_ended = |sending: &Sending| {
                (code == "gone" && sending.queued.outgoing.upload().is_some())
                    || code == STALE_EPOCH
                    || code == REKEY_REQUIRED
            };
            let is_final = !retryable && matches!(&asked.errand, Errand::Send(sending) if !has_ended(sending));
            if let Some(until) = until.filter(|_| is_final) {
                (asked.retry_at, asked.is_put_off) = (until, true);
                return;
            }
        }
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
        if let Errand::Send(sending) = &errand {
            self.fuse_lost(sending);
        }
        match errand {
            Errand::Send(sending)
                if (sending.sealed.is_some() || sending.keys.is_some())
                    && matches!(problem.code.as_str(), STALE_EPOCH | REKEY_REQUIRED) =>
            {
                self.send_stale(&sending.queued, &problem, now);
            }
            // The group was sealed meanwhile.
            Errand::Send(sending) if problem.code == ENCRYPTION_REQUIRED && self.seals_after_all(&sending) => {}
            Errand::Send(sending) => {
                if sending.keys.is_some() {
                    self.rolled(&sending.queued, Err(&problem));
                }
                self.send_refused(&sending.queued, error);
            }
            Errand::Keyring(key, _) => self.keyring_answered(&key, Err(problem), now),
            Errand::Carry(carry, _) => self.carry_failed(carry, now),
            Errand::Features => self.features_came(None),
            Errand::Rows(_) => self.rows_came(None, now),
            Errand::Open(_) => {}
            // The server would refuse it again. The valid entries are applied.
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
            // The app is not subscribed.
            Errand::Unwatch(conversation_id) => self.unwatched(&conversation_id),
            Errand::Presence(request) => self.presence_refused(&request),
            Errand::Call(call) => self.call_refused(*call, error),
        }
    }
}

/// Twice as long each time: at a fixed interval, a slow server would get ever more requests.
fn answer_wait(timing: &Timing, attempts: u32) -> Duration {
    timing.answer_wait.saturating_mul(1 << attempts.min(ANSWER_WAIT_DOUBLINGS_MAX))
}
