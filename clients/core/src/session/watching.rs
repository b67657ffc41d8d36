//! Channels that the app shows: subscriptions on each connection, and requests for missing entries. No mark of them
//! is saved.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::limits::HISTORY_LIMIT_MAX;
use wire::{ConversationId, HistoryRequest, HistoryResult, Message, Seq, Side, WatchResult};

use super::requests::Errand;
use super::{AskId, Core};
use crate::{Error, Event, Moment};

/// The longest interval of history requests, whatever the server sets.
const POLL_MAX: Duration = Duration::from_secs(60 * 60);

#[derive(Default)]
pub(super) struct Watching(BTreeMap<ConversationId, Watch>);

struct Watch {
    stage: WatchState,
    /// The app has unsubscribed: it gets no more events.
    is_ending: bool,
    /// The app has got everything up to here. `None`: the server's reply has the start.
    shown: Option<Seq>,
    /// Entries up to here are older than the newest connection's subscription.
    missed: Seq,
    /// Entries that came out of order.
    buffer: BTreeMap<Seq, Message>,
    is_page_asked: bool,
    poll: Duration,
    poll_at: Moment,
    /// The time of an earlier history request, because an entry is missing.
    gap_at: Option<Moment>,
    /// The last page did not bring what is missing.
    is_stuck: bool,
    asks: Vec<AskId>,
}

/// The second of two requests about the same channel waits: the server could apply concurrent ones in the wrong order.
#[derive(Clone, Copy, PartialEq)]
enum WatchState {
    /// Not subscribed on the newest connection.
    New,
    Asked,
    Watched,
}

impl Watch {
    fn new(shown: Option<Seq>, now: Moment) -> Self {
        Self {
            stage: WatchState::New,
            is_ending: false,
            shown,
            missed: Seq::ZERO,
            buffer: BTreeMap::new(),
            is_page_asked: false,
            poll: POLL_MAX,
            poll_at: now,
            gap_at: None,
            is_stuck: false,
            asks: Vec::new(),
        }
    }

    /// Returns when the next history request is due.
    fn page_at(&self) -> Option<Moment> {
        let may_ask = self.stage == WatchState::Watched && !self.is_ending && !self.is_page_asked;
        may_ask.then(|| self.gap_at.map_or(self.poll_at, |at| at.min(self.poll_at)))
    }

    /// Returns the next entry in order.
    fn next(&mut self) -> Option<Message> {
        loop {
            let shown = self.shown?;
            let first = self.buffer.first_entry().filter(|first| *first.key() <= shown.next())?;
            let message = first.remove();
            if message.seq > shown {
                self.shown = Some(message.seq);
                return Some(message);
            }
        }
    }
}

impl Watching {
    pub(super) fn next(&self) -> Option<Moment> {
        self.0.values().filter_map(Watch::page_at).min()
    }

    fn get(&mut self, id: &ConversationId) -> Option<&mut Watch> {
        self.0.get_mut(id).filter(|watch| !watch.is_ending)
    }
}

impl Core {
    /// The app shows the channel, of which it has everything up to `after`.
    pub(super) fn watch(&mut self, id: &ConversationId, after: Option<Seq>, ask: AskId, now: Moment) {
        let watch = self.watching.0.entry(id.clone()).or_insert_with(|| Watch::new(after, now));
        if watch.is_ending {
            *watch = Watch { stage: watch.stage, ..Watch::new(after, now) };
        }
        if watch.stage == WatchState::Watched {
            watch.stage = WatchState::New;
        }
        watch.asks.push(ask);
    }

    /// The app shows it no longer.
    pub(super) fn unwatch(&mut self, id: &ConversationId) {
        self.unwatch_quietly(id);
        // Without a connection, no subscription is left to end.
        self.watching.0.retain(|_, watch| !watch.is_ending || watch.stage != WatchState::New);
    }

    fn unwatch_quietly(&mut self, id: &ConversationId) {
        let Some(watch) = self.watching.get(id) else { return };
        watch.is_ending = true;
        for ask in std::mem::take(&mut watch.asks) {
            self.answer(ask, Err(Error::Unwatched));
        }
        self.tell_own_left(id);
    }

    /// Handles a new connection, which has no subscription yet, as far as known.
    pub(super) fn watch_again(&mut self) {
        self.watching.0.retain(|_, watch| !watch.is_ending);
        self.watching.0.values_mut().for_each(|watch| watch.stage = WatchState::New);
    }

    pub(super) fn watch_due(&mut self, now: Moment) {
        let mut errands = Vec::new();
        for (id, watch) in &mut self.watching.0 {
            match watch.stage {
                WatchState::New => {
                    watch.stage = WatchState::Asked;
                    errands.push(Errand::Watch(id.clone()));
                }
                WatchState::Watched if watch.is_ending => {
                    watch.stage = WatchState::Asked;
                    errands.push(Errand::Unwatch(id.clone()));
                }
                WatchState::Watched if watch.page_at().is_some_and(|at| at <= now) => {
                    watch.is_page_asked = true;
                    let side = Side::After(watch.shown.unwrap_or_default());
                    let request = HistoryRequest { conversation_id: id.clone(), side, limit: HISTORY_LIMIT_MAX };
                    errands.push(Errand::Page(request));
                }
                WatchState::Asked | WatchState::Watched => {}
            }
        }
        for errand in errands {
            self.ask(errand, now);
        }
    }

    pub(super) fn watched(&mut self, id: &ConversationId, answer: &WatchResult, now: Moment) {
        let gap_retry = self.timing.gap_retry;
        let Some(watch) = self.watching.0.get_mut(id) else { return };
        watch.stage = WatchState::Watched;
        watch.missed = answer.last_seq;
        watch.poll = Duration::from_millis(answer.poll_ms).clamp(gap_retry.min(POLL_MAX), POLL_MAX);
        watch.poll_at = now + watch.poll;
        // The app also gets entries that came before the reply.
        let first = watch.buffer.keys().next().map_or(answer.last_seq, |first| first.previous());
        watch.shown.get_or_insert(answer.last_seq.min(first));
        let asks = std::mem::take(&mut watch.asks);
        self.show_watched(id, now);
        if let Some(watch) = self.watching.0.get_mut(id).filter(|watch| watch.shown < Some(answer.last_seq)) {
            watch.gap_at = Some(now);
        }
        for ask in asks {
            self.answer(ask, Ok(answer.clone().into()));
        }
    }

    pub(super) fn unwatched(&mut self, id: &ConversationId) {
        self.watching.0.retain(|known, watch| known != id || !watch.is_ending);
        // Wanted again meanwhile.
        if let Some(watch) = self.watching.0.get_mut(id) {
            watch.stage = WatchState::New;
        }
    }

    /// Ends a subscription for good: the user is not a member.
    pub(super) fn watch_refused(&mut self, id: &ConversationId, error: &Error) {
        self.tell_own_left(id);
        let Some(watch) = self.watching.0.remove(id).filter(|watch| !watch.is_ending) else { return };
        for ask in watch.asks {
            self.answer(ask, Err(error.clone()));
        }
        self.tell(Event::Unwatched { conversation_id: id.clone(), error: error.clone() });
    }

    /// The user has left it.
    pub(super) fn watch_left(&mut self, id: &ConversationId) {
        self.unwatch_quietly(id);
        self.watching.0.remove(id);
    }

    /// Handles an entry of a channel, from any source. Drops it if the app is not subscribed.
    pub(super) fn channel_entry(&mut self, message: Message, now: Moment) {
        let id = message.conversation_id.clone();
        let Some(watch) = self.watching.get(&id) else { return };
        if watch.shown.is_some_and(|shown| message.seq <= shown) || watch.buffer.contains_key(&message.seq) {
            self.stats.duplicates_dropped += 1;
            return;
        }
        watch.buffer.insert(message.seq, message);
        self.show_watched(&id, now);
    }

    /// Delivers an own stored entry: in order with the others if the app is subscribed, otherwise immediately.
    pub(super) fn own_channel_entry(&mut self, message: Message, now: Moment) {
        if self.watching.get(&message.conversation_id).is_some() {
            self.channel_entry(message, now);
        } else {
            self.hand_over(message, false);
        }
    }

    pub(super) fn page_came(&mut self, id: &ConversationId, page: HistoryResult, now: Moment) {
        let gap_retry = self.timing.gap_retry;
        // Otherwise the page belongs to a subscription that has ended.
        let Some(watch) = self.watching.0.get_mut(id).filter(|watch| watch.is_page_asked) else { return };
        watch.is_page_asked = false;
        watch.poll_at = now + watch.poll;
        let before = watch.shown;
        let floor = page.first_seq.unwrap_or_default().previous();
        watch.shown = watch.shown.map(|shown| shown.max(floor));
        for message in page.messages {
            watch.buffer.entry(message.seq).or_insert(message);
        }
        self.show_watched(id, now);
        let Some(watch) = self.watching.0.get_mut(id) else { return };
        let was_stuck = std::mem::take(&mut watch.is_stuck);
        if watch.shown > before {
            let retry_at = (!watch.buffer.is_empty()).then(|| now + gap_retry);
            watch.gap_at = if page.more { Some(now) } else { retry_at };
        } else if was_stuck && let Some(first) = watch.buffer.keys().next() {
            // The server can't read what is missing. All else must not wait for it.
            watch.shown = Some(first.previous());
            self.show_watched(id, now);
        } else if page.more || !watch.buffer.is_empty() {
            watch.is_stuck = true;
            watch.gap_at = Some(now + gap_retry);
        } else {
            watch.gap_at = None;
        }
    }

    pub(super) fn page_lost(&mut self, id: &ConversationId, now: Moment) {
        if let Some(watch) = self.watching.0.get_mut(id).filter(|watch| watch.is_page_asked) {
            watch.is_page_asked = false;
            watch.gap_at = Some(now);
        }
    }

    fn show_watched(&mut self, id: &ConversationId, now: Moment) {
        while let Some(watch) = self.watching.get(id) {
            let Some(message) = watch.next() else {
                let gap_at = watch.gap_at.unwrap_or(now + self.timing.gap_wait);
                watch.gap_at = (!watch.buffer.is_empty()).then_some(gap_at);
                return;
            };
            let is_own = message.sender_id == self.me;
            let missed = message.seq <= watch.missed && !is_own;
            self.stats.received += u64::from(!is_own);
            self.hand_over(message, missed);
        }
    }

    /// Ends a subscription. The app gets the user's own posts although an earlier entry never came.
    fn tell_own_left(&mut self, id: &ConversationId) {
        let Some(watch) = self.watching.0.get_mut(id) else { return };
        let left = std::mem::take(&mut watch.buffer).into_values();
        for message in left.filter(|message| message.sender_id == self.me).collect::<Vec<_>>() {
            self.hand_over(message, false);
        }
    }
}
