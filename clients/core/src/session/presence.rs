//! Keeps the watch of other users' presence, for the users of the app's last `presence` with `watch`. On the server a watch
//! belongs to a connection and ends after ten minutes, so the client renews it: on each connection, and in time.

use std::time::Duration;

use wire::limits::PRESENCE_WATCH_MS;
use wire::{PresenceRequest, PresenceResult};

use super::Core;
use super::requests::Errand;
use crate::{Event, Moment};

/// The time from a reply to the renewal.
const RENEWED_AFTER: Duration = Duration::from_millis(PRESENCE_WATCH_MS - 60_000);

#[derive(Default)]
pub(super) struct Presences(Option<Watch>);

struct Watch {
    request: PresenceRequest,
    /// When to renew. `None`: a renewal is unanswered.
    next: Option<Moment>,
}

impl Presences {
    pub(super) fn next(&self) -> Option<Moment> {
        self.0.as_ref()?.next
    }
}

impl Core {
    /// The server has replied to the app's request.
    pub(super) fn presence_answered(&mut self, request: &PresenceRequest, now: Moment) {
        if request.watch {
            self.presences.0 = Some(Watch { request: request.clone(), next: Some(now + RENEWED_AFTER) });
        }
    }

    /// The app shows none of the watched users any more. The watch ends on the server by itself.
    pub(super) fn forget_presence(&mut self) {
        self.presences.0 = None;
    }

    /// Handles a new connection, which does not watch yet, and the loss of a renewal.
    pub(super) fn presence_again(&mut self, now: Moment) {
        if let Some(watch) = &mut self.presences.0 {
            watch.next = Some(now);
        }
    }

    pub(super) fn presence_due(&mut self, now: Moment) {
        let Some(watch) = &mut self.presences.0 else { return };
        if watch.next.take_if(|next| *next <= now).is_some() {
            let request = watch.request.clone();
            self.ask(Errand::Presence(request), now);
        }
    }

    pub(super) fn presence_came(&mut self, request: &PresenceRequest, result: PresenceResult, now: Moment) {
        if let Some(watch) = self.presences.0.as_mut().filter(|watch| watch.request == *request) {
            watch.next = Some(now + RENEWED_AFTER);
        }
        for presence in result.users {
            self.tell(Event::PresenceChanged(presence));
        }
    }

    pub(super) fn presence_refused(&mut self, request: &PresenceRequest) {
        self.presences.0.take_if(|watch| watch.request == *request);
    }
}
