//! The connections: when one is opened, which one carries requests, when one is closed.
//!
//! There is one, usually. Before API Gateway ends it a second one is opened; once that one has drained, the first is
//! closed. Frames of both are handled meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::requests::Requests;
use super::{LinkId, Output, Session, jitter};
use crate::config::TokenNeed;
use crate::{State, Why};

pub(super) struct Links {
    open: BTreeMap<LinkId, Link>,
    dialing: Option<LinkId>,
    dial_at: Option<Instant>,
    need: TokenNeed,
    /// A token was refused, and another has been asked for.
    fresh_asked: bool,
    /// Tries to connect since the server last sent anything.
    attempt: u32,
    opened: u64,
    last_id: LinkId,
    pub(super) told_caught_up: bool,
}

struct Link {
    heard_at: Instant,
    replace_at: Instant,
}

impl Links {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            open: BTreeMap::new(),
            dialing: None,
            dial_at: Some(now),
            need: TokenNeed::Connect,
            fresh_asked: false,
            attempt: 0,
            opened: 0,
            last_id: 0,
            told_caught_up: false,
        }
    }

    /// The one for new requests: the newest.
    pub(super) fn current(&self) -> Option<LinkId> {
        self.open.last_key_value().map(|(id, _)| *id)
    }

    /// When the next connection is to be opened.
    pub(super) fn next_dial(&self) -> Option<Instant> {
        if self.dialing.is_some() {
            return None;
        }
        self.dial_at.or_else(|| self.open.last_key_value().map(|(_, newest)| newest.replace_at))
    }

    /// When a connection has owed an answer in silence for too long.
    pub(super) fn next_silence(&self, requests: &Requests, silence_max: Duration) -> Option<Instant> {
        let silent = |(id, link): (&LinkId, &Link)| Some(requests.owed_since(*id)?.max(link.heard_at) + silence_max);
        self.open.iter().filter_map(silent).min()
    }
}

impl Session {
    pub(crate) fn opened(&mut self, link: LinkId, now: Instant) {
        if self.links.dialing != Some(link) {
            self.outputs.push(Output::Close { link });
            return;
        }
        let early = self.timing.lifetime_jitter.mul_f64(self.rng.f64());
        let replace_at = now + self.timing.lifetime.saturating_sub(early).max(self.timing.lifetime / 2);
        let first = self.links.open.is_empty();
        self.links.open.insert(link, Link { heard_at: now, replace_at });
        self.links.dialing = None;
        self.links.dial_at = None;
        self.links.need = TokenNeed::Connect;
        self.links.fresh_asked = false;
        self.links.opened += 1;
        if self.links.opened > 1 {
            self.stats.reconnects += 1;
        }
        if first {
            self.tell_state(State::Online);
        }
        self.start_catch_up(now);
        self.send_due(now);
    }

    pub(crate) fn dial_failed(&mut self, link: LinkId, why: Why, now: Instant) {
        if self.links.dialing != Some(link) {
            return;
        }
        self.links.dialing = None;
        if let Why::TokenRefused { status } = why {
            self.links.need = TokenNeed::Refused(status);
            // The token may just be old: the app is asked for a new one, once, before the failure is reported.
            if !std::mem::replace(&mut self.links.fresh_asked, true) {
                self.links.dial_at = Some(now);
                self.send_due(now);
                return;
            }
        }
        self.dial_later(why, now);
        self.send_due(now);
    }

    /// The connection has ended, and not because it was closed here.
    pub(crate) fn lost(&mut self, link: LinkId, why: Why, now: Instant) {
        if self.links.open.remove(&link).is_none() {
            return;
        }
        self.forget_asked_on(link, now);
        if self.links.dialing.is_some() {
            if self.links.open.is_empty() {
                self.tell_state(State::Connecting);
            }
        } else if self.links.open.is_empty() || self.next_dial_due(now) {
            self.dial_later(why, now);
        }
        self.send_due(now);
    }

    pub(super) fn token_expired(&mut self, link: LinkId, now: Instant) {
        if self.links.open.contains_key(&link) {
            self.links.need = TokenNeed::Expired;
            self.outputs.push(Output::Close { link });
        }
        self.lost(link, Why::TokenExpired, now);
    }

    /// The server has sent something on this connection.
    pub(super) fn frame_arrived(&mut self, link: LinkId, now: Instant) {
        let replacing = self.links.dialing.is_some() || self.links.dial_at.is_some();
        if let Some(link) = self.links.open.get_mut(&link) {
            link.heard_at = now;
            // The back-off starts again only when the server answers on the newest connection: an old one says nothing about
            // whether a new one can be opened.
            if !replacing {
                self.links.attempt = 0;
            }
        }
    }

    /// Closes all connections but the newest, which has drained.
    pub(super) fn close_replaced(&mut self, now: Instant) {
        while self.links.open.len() > 1 {
            let Some((link, _)) = self.links.open.pop_first() else { return };
            self.outputs.push(Output::Close { link });
            self.forget_asked_on(link, now);
        }
    }

    pub(super) fn dial_due(&mut self, now: Instant) {
        if !self.next_dial_due(now) {
            return;
        }
        self.links.last_id += 1;
        let link = self.links.last_id;
        self.links.dialing = Some(link);
        self.links.dial_at = None;
        if self.links.open.is_empty() {
            self.tell_state(State::Connecting);
        }
        self.outputs.push(Output::Dial { link, need: self.links.need });
    }

    /// If the next try waits, it is made now.
    pub(super) fn dial_soon(&mut self, now: Instant) {
        self.links.attempt = 0;
        self.links.dial_at = self.links.dial_at.map(|at| at.min(now));
    }

    pub(super) fn close_silent(&mut self, now: Instant) {
        let silence_max = self.timing.silence_max;
        while self.links.next_silence(&self.requests, silence_max).is_some_and(|at| at <= now) {
            let dead = self.links.open.iter().find(|(id, link)| {
                let owed = self.requests.owed_since(**id);
                owed.is_some_and(|owed| owed.max(link.heard_at) + silence_max <= now)
            });
            let Some((&link, _)) = dead else { return };
            self.outputs.push(Output::Close { link });
            self.lost(link, Why::Silent, now);
        }
    }

    fn next_dial_due(&self, now: Instant) -> bool {
        self.links.next_dial().is_some_and(|at| at <= now)
    }

    fn dial_later(&mut self, why: Why, now: Instant) {
        let (first, max) = (self.timing.reconnect_first, self.timing.reconnect_max);
        let retry_at = now + jitter(&mut self.rng, first, max, self.links.attempt);
        self.links.attempt = self.links.attempt.saturating_add(1);
        self.links.dial_at = Some(retry_at);
        if self.links.open.is_empty() {
            self.tell_state(State::Offline { why, retry_at });
        }
    }
}
