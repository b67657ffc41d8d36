//! The client's state, independent of connections: the outbox, the received entries and the outstanding requests.
//!
//! This module has no I/O and reads no clock. A [`turn`](Core::turn) takes [`Input`]s and the time, and returns writes of
//! the store and [`Output`]s. Four rules explain most of the code:
//!
//! * A request stays in `asked` until the server replies, and the client repeats it unchanged after a timeout. Every
//!   action of the protocol may be repeated, so a lost reply needs no extra code.
//! * An entry waits in its conversation's buffer until all earlier entries have come. The app then gets it once, in the
//!   order of `seq`.
//! * Only the oldest message to each conversation is on its way. The server could store two concurrent messages in the
//!   wrong order.
//! * The client acknowledges an entry once the store or the app keeps it. A store is committed before the acknowledgement
//!   leaves. An app reports that it has finished with the entry.
//!
//! The web client's session works in the same way, and both pass the scripts in conformance/.

mod calls;
mod carrying;
mod catch_up;
mod conversations;
mod links;
mod outbox;
mod own_entries;
mod posting;
mod presence;
mod proving;
mod reading;
mod reports;
mod requests;
mod sealing;
mod typing;
mod uploads;
mod views;
mod waiting;
mod watching;

use std::mem;
use std::time::Duration;

use pigeonhole_sealing::{Keyring, Lock};
use wire::{Kind, Member, Message, Receipt, Reply, Seq, ServerEvent, ServerFrame, Settings, Target, Timestamp, UserId};

use calls::Calls;
use carrying::Carrying;
use catch_up::CatchUp;
use conversations::Conversations;
use links::Links;
use outbox::Outbox;
use own_entries::plaintext;
use posting::Posting;
use presence::Presences;
use proving::Proving;
use reading::read_frame;
use reports::Reports;
use requests::Requests;
use sealing::Sealing;
use typing::Typing;
use watching::Watching;

use crate::chat::{Views, is_of_view};
use crate::media::PutNews;
use crate::saved::{Queued, StorageChange};
use crate::turn::{Ask, AskId, Input, Keeper, LinkId, Output, Setup, Step};
use crate::unreadable::Unreadable;
use crate::{Error, Event, Moment, ReceiptKind, State, Stats, Timing, Write};

/// The state machine of a client. Each [`turn`](Self::turn) takes inputs and returns what follows from them.
pub struct Core {
    me: UserId,
    timing: Timing,
    keeper: Keeper,
    rng: fastrand::Rng,
    links: Links,
    requests: Requests,
    posting: Posting,
    calls: Calls,
    outbox: Outbox,
    conversations: Conversations,
    catch_up: CatchUp,
    reports: Reports,
    typing: Typing,
    watching: Watching,
    presences: Presences,
    views: Views,
    keyring: Option<Box<Keyring>>,
    sealing: Sealing,
    carrying: Carrying,
    proving: Proving,
    /// Requests that the server refused for good, which the user has not seen to yet.
    refused: Vec<(Queued, String)>,
    stats: Stats,
    // The times of the current turn.
    now: Moment,
    wall: Timestamp,
    // The result of the current turn.
    writes: Vec<Write>,
    lasting: bool,
    outputs: Vec<Output>,
}

impl Core {
    /// Continues from what an earlier run saved. The first turn dials. `seed` decides the random waits.
    pub fn new(setup: Setup, seed: u64) -> Self {
        let Setup { me, timing, keeper, saved, keyring } = setup;
        let encrypted_of = keyring.as_ref().map(|_| me.clone());
        // The bytes of what may have left were kept.
        let is_unsent = |queued: &Queued| match (&keyring, queued.outgoing.target()) {
            (Some(keyring), Some(Target::User(peer))) => keyring.sealed(&peer, &queued.client_msg_id).is_none(),
            (Some(keyring), Some(Target::Conversation(id))) if keyring.lock(&id) != Lock::Plain => {
                plaintext(&queued.outgoing).is_some() && keyring.sealed(&id, &queued.client_msg_id).is_none()
            }
            _ => false,
        };
        Self {
            views: Views::new(me.clone(), saved.listed),
            me,
            timing,
            keeper,
            rng: fastrand::Rng::with_seed(seed),
            links: Links::default(),
            requests: Requests::default(),
            posting: Posting::default(),
            calls: Calls::default(),
            outbox: Outbox::new(saved.outbox, is_unsent, encrypted_of),
            conversations: Conversations::new(saved.held),
            catch_up: CatchUp::new(saved.caught_up),
            reports: Reports::new(saved.reads),
            typing: Typing::default(),
            watching: Watching::default(),
            presences: Presences::default(),
            keyring,
            sealing: Sealing::default(),
            carrying: Carrying::default(),
            proving: Proving::default(),
            refused: saved.refused,
            stats: Stats::default(),
            now: Moment::default(),
            wall: Timestamp::default(),
            writes: Vec::new(),
            lasting: false,
            outputs: Vec::new(),
        }
    }

    /// Takes the inputs in their order, and does what is due. Without an input, a turn does what its time has come for.
    /// `now` is never before the time of the last turn. `wall` is the time of day by this device's clock.
    pub fn turn(&mut self, inputs: Vec<Input>, now: Moment, wall: Timestamp) -> Step {
        (self.now, self.wall) = (now, wall);
        self.start_keyring();
        for input in inputs {
            self.take(input, now);
        }
        self.close_silent(now);
        self.resend_due(now);
        self.ping_due(now);
        self.serve_views();
        self.send_due(now);
        // A view can need more, because of an event of this turn.
        if self.serve_views() {
            self.send_due(now);
        }
        self.show_views();
        // A shown user can lack a name.
        if self.serve_views() {
            self.send_due(now);
        }
        self.write_keyring();
        Step {
            writes: mem::take(&mut self.writes),
            lasting: mem::take(&mut self.lasting),
            outputs: mem::take(&mut self.outputs),
            wake_at: self.wake_at(),
        }
    }

    fn take(&mut self, input: Input, now: Moment) {
        match input {
            Input::Opened { link, token_left } => self.opened(link, token_left, now),
            Input::Ended { link, why } => self.ended(link, why, now),
            Input::Frame { link, text } => self.received(link, &text, now),
            Input::Wake => {
                self.dial_soon(now);
                self.ping_soon(now);
            }
            // Nothing waits for a POST any more.
            Input::Closing => {
                self.posting.set_on(false);
                self.reports.flush(now);
            }
            Input::Http => self.posting.set_on(true),
            Input::Posted { link, request, status, body } => self.posted(link, request, status, &body, now),
            Input::Put { client_msg_id, news: PutNews::Sent(bytes) } => self.put_progress(&client_msg_id, bytes),
            Input::Put { client_msg_id, news: PutNews::Ended(end) } => self.put_ended(&client_msg_id, end, now),
            Input::Carried { carry, bytes } => self.carried(carry, bytes, now),
            Input::Ask { ask, what } => match what {
                Ask::Question(action) => self.call(action, ask),
                Ask::Keep(queued) => self.keep(queued, ask),
                Ask::Read { conversation_id, seq } => self.read(&conversation_id, seq, Some(ask)),
                Ask::Watch { conversation_id, after } => self.watch(&conversation_id, after, ask, now),
                Ask::Again(client_msg_id) => self.again(&client_msg_id, ask),
                Ask::Cancel(client_msg_id) => {
                    let in_time = self.cancel(&client_msg_id);
                    self.outputs.push(Output::Cancelled { ask, in_time });
                }
            },
            Input::Handled { conversation_id, seq } => {
                if self.keeper == Keeper::App {
                    self.held(&conversation_id, seq);
                }
            }
            Input::Typing(conversation_id) => self.typing(conversation_id, now),
            Input::Unwatch(conversation_id) => self.unwatch(&conversation_id),
            Input::Open { view, of } => self.open_view(view, of),
            Input::Act { view, act } => self.views.act(view, act),
            Input::Close(view) => {
                self.views.close(view);
                self.reports.stop_waiting();
            }
            Input::Loaded { load, found } => self.loaded(load, *found),
            Input::ReadAll(conversation_id) => self.views.read_all(&conversation_id),
            Input::Draft { target, draft } => self.draft(target, draft),
            Input::Place { conversation_id, seq, path } => self.place(conversation_id, seq, path),
            Input::Dismiss(client_msg_id) => self.dismiss(&client_msg_id),
            Input::Trust(trust) => self.trust(trust),
            Input::Zone(zone) => self.views.set_zone(zone),
            Input::Names => self.views.show_names(),
        }
    }

    fn received(&mut self, link: LinkId, text: &str, now: Moment) {
        let frame = read_frame(text);
        self.frame_arrived(link, is_service(&frame), now);
        self.take_frame(link, frame, now);
    }

    fn take_frame(&mut self, link: LinkId, frame: ServerFrame, now: Moment) {
        match frame {
            ServerFrame::Reply { id, result } => self.answered(id.as_deref(), result, now),
            ServerFrame::Error { error, .. } if error.code == "token_expired" => self.token_expired(link, now),
            ServerFrame::Error { id, error } => self.refused(id.as_deref(), error, now),
            ServerFrame::Event(event) => self.on_event(link, event, now),
            // This frame does not name its request, so all of them are repeated.
            ServerFrame::Gateway => self.retry_all_soon(link, now),
            ServerFrame::Unknown => {}
        }
    }

    fn on_event(&mut self, link: LinkId, event: ServerEvent, now: Moment) {
        match event {
            ServerEvent::MessagesNew { conversation_id, messages, marks } => {
                let at = messages.last().map_or(self.wall, |message| message.sent_at);
                for message in messages {
                    if message.conversation_id.is_channel() {
                        self.channel_entry(message, now);
                    } else {
                        self.arrived(message, false, now);
                    }
                }
                for Member { user_id, read_seq: seq, .. } in marks {
                    let conversation_id = conversation_id.clone();
                    self.receipt(ReceiptKind::Read, Receipt { conversation_id, user_id, seq, at });
                }
            }
            ServerEvent::ReceiptDelivered(receipt) => self.receipt(ReceiptKind::Delivered, receipt),
            ServerEvent::ReceiptRead(receipt) => self.receipt(ReceiptKind::Read, receipt),
            ServerEvent::Settings(settings) => self.settings(settings),
            ServerEvent::Typing { conversation_id, user_id, at, text } => {
                self.tell(Event::Typing { conversation_id, user_id, at, text });
            }
            ServerEvent::Presence(presence) => self.tell(Event::PresenceChanged(presence)),
            ServerEvent::Profile(_) => self.views.own_name_changed(),
            ServerEvent::KeysLow { left } => {
                if let Some(keyring) = &mut self.keyring {
                    keyring.keys_low(left);
                }
            }
            ServerEvent::ConnectionReplaced {} => self.connection_replaced(link, now),
        }
    }

    fn receipt(&mut self, kind: ReceiptKind, receipt: Receipt) {
        let read_seq = if kind == ReceiptKind::Read { receipt.seq } else { Seq::ZERO };
        let member = Member { user_id: receipt.user_id.clone(), delivered_seq: receipt.seq, read_seq };
        let conversation_id = receipt.conversation_id.clone();
        self.store(|| Write::Marks { conversation_id, members: vec![member] });
        self.tell(Event::Receipt { kind, receipt });
    }

    /// The server has stored settings of the user.
    fn settings(&mut self, settings: Settings) {
        self.store(|| Write::Settings(settings.clone()));
        self.tell(Event::SettingsChanged(settings));
    }

    /// Returns the app's requests that the server has not stored yet, oldest first.
    pub fn outbox(&self) -> Vec<Queued> {
        self.outbox.waiting()
    }

    /// Returns the keys of the end-to-end encryption.
    pub fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_deref()
    }

    /// Returns the counters of the client.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn wake_at(&self) -> Option<Moment> {
        if self.links.current().is_none() {
            return [self.links.next_dial(), self.views.next()].into_iter().flatten().min();
        }
        [
            self.links.next_dial(),
            self.views.next(),
            self.links.next_silence(&self.requests, self.timing.silence_max),
            self.requests.next_retry(),
            self.catch_up.next(),
            self.reports.next(),
            self.next_repair(),
            self.watching.next(),
            self.presences.next(),
            self.next_upload(),
            self.keyring_wakes(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Sends every request that is due and not under way.
    fn send_due(&mut self, now: Moment) {
        self.dial_due(now);
        if self.links.current().is_none() {
            return;
        }
        self.ask_calls(now);
        self.uploads_due(now);
        // The keyring makes requests for messages that wait to be sealed, so it comes after them.
        self.send_waiting(now);
        self.keyring_due(now);
        self.drain_on(now);
        self.report(now);
        self.watch_due(now);
        self.presence_due(now);
        self.repair_due(now);
        self.finish_catch_up();
    }

    fn tell(&mut self, event: Event) {
        self.views.event(&event, self.now);
        self.outputs.push(Output::Tell(event));
    }

    /// The next entry for the app.
    fn hand_over(&mut self, message: Message, missed: bool) {
        if message.kind == Kind::Commit && self.keyring.is_some() {
            return self.pass(message);
        }
        if let Some(why) = Unreadable::in_entry(&message).filter(|_| self.keyring.is_some()) {
            self.stats.unreadable += 1;
            let Message { conversation_id, seq, sender_id, .. } = message.clone();
            self.pass(message);
            return self.outputs.push(Output::Tell(Event::Unreadable { conversation_id, seq, sender_id, why }));
        }
        self.store(|| Write::Entry(message.clone()));
        self.tell(Event::Message { message, missed });
    }

    /// Takes an entry that is no event for the app.
    fn pass(&mut self, message: Message) {
        self.store(|| Write::Entry(message.clone()));
        self.views.event(&Event::Message { message, missed: false }, self.now);
    }

    fn tell_state(&mut self, state: State) {
        self.links.told_caught_up = state == State::CaughtUp;
        self.tell(Event::State(state));
    }

    fn answer(&mut self, ask: AskId, result: Result<Reply, Error>) {
        if is_of_view(ask) {
            return self.views.answered(ask, result, self.now);
        }
        self.outputs.push(Output::Answer { ask, result });
    }

    fn save(&mut self, change: StorageChange) {
        // The attachment is part of a message's identity: with another id it would be another message.
        self.lasting |= matches!(change, StorageChange::Queued(_) | StorageChange::Uploading { media_id: Some(_), .. });
        self.writes.push(Write::Change(change));
    }

    /// Writes what the store has beyond the session's own data.
    fn store(&mut self, write: impl FnOnce() -> Write) {
        if self.keeper == Keeper::Store {
            self.writes.push(write());
        }
    }
}

/// Returns whether the frame shows that the server works. A server that refuses each request and closes must not be
/// dialled in a tight loop.
fn is_service(frame: &ServerFrame) -> bool {
    match frame {
        ServerFrame::Error { error, .. } => error.code != "token_expired",
        ServerFrame::Reply { .. } | ServerFrame::Event(_) | ServerFrame::Unknown => true,
        ServerFrame::Gateway => false,
    }
}

/// Full jitter: at random between 0 and a maximum that doubles with each attempt.
fn jitter(rng: &mut fastrand::Rng, first: Duration, max: Duration, attempt: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempt)).min(max).mul_f64(rng.f64())
}

#[cfg(test)]
pub(crate) mod conformance;

#[cfg(test)]
mod tests;
