//! The connections: when the client opens one, which one carries requests, and when the client closes one.
//!
//! Usually there is one connection. Before API Gateway closes it, the client opens a second one, drains there, and
//! closes the first. The client handles the frames of both meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use super::requests::Requests;
use super::{Core, LinkId, Output, jitter};
use crate::{Moment, State, TokenNeed, Why};

/// The client replaces a connection this long before its token expires.
const TOKEN_MARGIN: Duration = Duration::from_secs(60);
/// Up to this part of the token's time earlier, at random: many tokens may be made at the same moment.
const TOKEN_JITTER: f64 = 0.1;
/// The client requests the first replacement of an expiring token within this time, each further one within twice the
/// previous time.
const STALE_TOKEN_PAUSE: Duration = Duration::from_secs(30);
/// The number of requests to the app that may return the same token.
const STALE_TOKENS_MAX: u32 = 3;

pub(super) struct Links {
    open: BTreeMap<LinkId, Link>,
    dialing: Option<LinkId>,
    dial_at: Option<Moment>,
    need: TokenNeed,
    /// The server refused a token, and the client has requested another one.
    fresh_asked: bool,
    /// Tries to connect since the server last served.
    attempt: u32,
    /// Connections in a row whose token was about to end.
    stale_tokens: u32,
    opened: u64,
    last_id: LinkId,
    pub(super) told_caught_up: bool,
}

struct Link {
    last_frame_at: Moment,
    replace_at: Moment,
    /// The kind of token to request at the replacement.
    replace_need: TokenNeed,
}

impl Default for Links {
    /// The first connection is due.
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            dialing: None,
            dial_at: Some(Moment::default()),
            need: TokenNeed::Connect,
            fresh_asked: false,
            attempt: 0,
            stale_tokens: 0,
            opened: 0,
            last_id: 0,
            told_caught_up: false,
        }
    }
}

impl Links {
    /// The one for new requests: the newest.
    pub(super) fn current(&self) -> Option<LinkId> {
        self.open.last_key_value().map(|(id, _)| *id)
    }

    /// When the next connection is to be opened.
    pub(super) fn next_dial(&self) -> Option<Moment> {
        if self.dialing.is_some() {
            return None;
        }
        self.dial_at.or_else(|| self.open.last_key_value().map(|(_, newest)| newest.replace_at))
    }

    /// None is open, being opened or planned: this device is one too many, and waits for its user.
    fn is_replaced(&self) -> bool {
        self.open.is_empty() && self.dialing.is_none() && self.dial_at.is_none()
    }

    /// Returns when a silent connection has owed a reply for too long.
    pub(super) fn next_silence(&self, requests: &Requests, silence_max: Duration) -> Option<Moment> {
        let silent =
            |(id, link): (&LinkId, &Link)| Some(requests.owed_since(*id)?.max(link.last_frame_at) + silence_max);
        self.open.iter().filter_map(silent).min()
    }
}

impl Core {
    /// `token_left`: how long the token is valid, as far as can be read from it.
    pub(super) fn opened(&mut self, link: LinkId, token_left: Option<Duration>, now: Moment) {
        if self.links.dialing != Some(link) {
            self.outputs.push(Output::Close { link });
            return;
        }
        let (age, replace_need) = self.replacement(token_left);
        let first = self.links.open.is_empty();
        self.links.open.insert(link, Link { last_frame_at: now, replace_at: now + age, replace_need });
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
        self.watch_again();
        self.presence_again(now);
        self.keyring_connected(now);
    }

    /// At which age a connection is replaced, and by one with which token.
    fn replacement(&mut self, token_left: Option<Duration>) -> (Duration, TokenNeed) {
        let early = self.timing.lifetime_jitter.mul_f64(self.rng.f64());
        let lifetime = self.timing.lifetime.saturating_sub(early).max(self.timing.lifetime / 2);
        let Some(left) = token_left else { return (lifetime, TokenNeed::Connect) };
        let age = match left.checked_sub(TOKEN_MARGIN).filter(|usable| !usable.is_zero()) {
            Some(usable) => {
                self.links.stale_tokens = 0;
                usable.mul_f64(1.0 - TOKEN_JITTER * self.rng.f64())
            }
            // The app may have no newer token: the client requests one a few more times, and then the server closes the
            // connection.
            None if self.links.stale_tokens < STALE_TOKENS_MAX => {
                let pause = jitter(&mut self.rng, STALE_TOKEN_PAUSE, Duration::MAX, self.links.stale_tokens);
                self.links.stale_tokens += 1;
                pause
            }
            None => lifetime,
        };
        if age < lifetime { (age, TokenNeed::Expired) } else { (lifetime, TokenNeed::Connect) }
    }

    /// Handles a connection that could not be opened, or has ended and was not closed here.
    pub(super) fn ended(&mut self, link: LinkId, why: Why, now: Moment) {
        if self.links.dialing == Some(link) {
            self.dial_failed(why, now);
        } else {
            self.lost(link, why, now);
        }
    }

    fn dial_failed(&mut self, why: Why, now: Moment) {
        self.links.dialing = None;
        if let Why::TokenRefused { status } = why {
            self.links.need = TokenNeed::Refused(status);
            // The token may only be old: the client requests a new one once before it reports the failure.
            if !std::mem::replace(&mut self.links.fresh_asked, true) {
                self.links.dial_at = Some(now);
                return;
            }
        } else if !matches!(why, Why::NoToken(_) | Why::WrongUser(_)) {
            // The client has a token, and nothing is wrong with it.
            self.links.need = TokenNeed::Connect;
        }
        self.dial_later(why, now);
    }

    fn lost(&mut self, link: LinkId, why: Why, now: Moment) {
        let is_newest = self.links.current() == Some(link);
        if self.links.open.remove(&link).is_none() {
            return;
        }
        self.forget_asked_on(link, now);
        if is_newest {
            self.watch_again();
            self.presence_again(now);
        }
        if self.links.dialing.is_some() {
            if self.links.open.is_empty() {
                self.tell_state(State::Connecting);
            }
        } else if self.links.open.is_empty() || self.next_dial_due(now) {
            self.dial_later(why, now);
        }
    }

    pub(super) fn token_expired(&mut self, link: LinkId, now: Moment) {
        if self.links.open.contains_key(&link) {
            self.links.need = TokenNeed::Expired;
            self.outputs.push(Output::Close { link });
        }
        self.lost(link, Why::TokenExpired, now);
    }

    /// The server has sent something on this connection.
    pub(super) fn frame_arrived(&mut self, link: LinkId, is_service: bool, now: Moment) {
        let replacing = self.links.dialing.is_some() || self.links.dial_at.is_some();
        if let Some(link) = self.links.open.get_mut(&link) {
            link.last_frame_at = now;
            // Only a reply on the newest connection resets the back-off: an old connection does not show that a new one
            // can be opened.
            if is_service && !replacing {
                self.links.attempt = 0;
            }
        }
    }

    /// The user has opened too many connections since, and the server closes this one.
    pub(super) fn connection_replaced(&mut self, link: LinkId, now: Moment) {
        if self.links.current() == Some(link) {
            self.close_older(now);
            self.links.dial_at = None;
            if let Some(link) = self.links.dialing.take() {
                self.outputs.push(Output::Close { link });
            }
        }
        if self.links.open.remove(&link).is_none() {
            return;
        }
        self.outputs.push(Output::Close { link });
        self.forget_asked_on(link, now);
        if self.links.is_replaced() {
            self.tell_state(State::Replaced);
        }
    }

    /// Closes all connections but the newest.
    pub(super) fn close_older(&mut self, now: Moment) {
        while self.links.open.len() > 1 {
            let Some((link, _)) = self.links.open.pop_first() else { return };
            self.outputs.push(Output::Close { link });
            self.forget_asked_on(link, now);
        }
    }

    pub(super) fn dial_due(&mut self, now: Moment) {
        if !self.next_dial_due(now) {
            return;
        }
        if self.links.dial_at.is_none()
            && let Some((_, old)) = self.links.open.last_key_value()
        {
            self.links.need = old.replace_need;
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

    /// If the next try waits, for its time or for the user, it is made now.
    pub(super) fn dial_soon(&mut self, now: Moment) {
        self.links.attempt = 0;
        if self.links.is_replaced() {
            self.links.dial_at = Some(now);
        }
        self.links.dial_at = self.links.dial_at.map(|at| at.min(now));
    }

    pub(super) fn close_silent(&mut self, now: Moment) {
        let silence_max = self.timing.silence_max;
        while self.links.next_silence(&self.requests, silence_max).is_some_and(|at| at <= now) {
            let dead = self.links.open.iter().find(|(id, link)| {
                let owed = self.requests.owed_since(**id);
                owed.is_some_and(|owed| owed.max(link.last_frame_at) + silence_max <= now)
            });
            let Some((&link, _)) = dead else { return };
            self.outputs.push(Output::Close { link });
            self.lost(link, Why::Silent, now);
        }
    }

    fn next_dial_due(&self, now: Moment) -> bool {
        self.links.next_dial().is_some_and(|at| at <= now)
    }

    fn dial_later(&mut self, why: Why, now: Moment) {
        let busy = matches!(why, Why::Refused { status: 429 | 500.. });
        let max = if busy { self.timing.reconnect_busy_max } else { self.timing.reconnect_max };
        let first = self.timing.reconnect_first;
        let retry_at = now + jitter(&mut self.rng, first, max, self.links.attempt);
        self.links.attempt = self.links.attempt.saturating_add(1);
        self.links.dial_at = Some(retry_at);
        if self.links.open.is_empty() {
            self.tell_state(State::Offline { why, retry_at });
        }
    }
}
