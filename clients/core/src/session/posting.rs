//! Requests over HTTP, which cost less than those on a socket. While HTTP does not work, the socket carries them.
//!
//! The same request may go both ways: the server stores it once. A reply over HTTP is handled as one on the connection.

use std::time::Duration;

use wire::{HTTP_ACTIONS, ServerFrame};

use super::reading::read_frame;
use super::{Core, LinkId};
use crate::Moment;

/// After the first failure, all requests go by the socket for this time; after each further one, for twice as long.
const REST_FIRST: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(10 * 60);

/// Off until the caller can post.
#[derive(Default)]
pub(super) struct Posting {
    is_on: bool,
    rests_until: Moment,
    /// Failures since HTTP last worked.
    failures: u32,
}

impl Posting {
    pub(super) fn set_on(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    /// Returns whether a request of this action goes over HTTP now.
    pub(super) fn takes(&self, action: &str, now: Moment) -> bool {
        self.is_on && now >= self.rests_until && HTTP_ACTIONS.contains(&action)
    }

    /// Records a failure. Requests that fail together count as one.
    pub(super) fn failed(&mut self, now: Moment) {
        if now >= self.rests_until {
            self.rests_until = now + REST_FIRST.saturating_mul(2_u32.saturating_pow(self.failures)).min(REST_MAX);
            self.failures = self.failures.saturating_add(1);
        }
    }

    fn worked(&mut self, now: Moment) {
        if now >= self.rests_until {
            self.failures = 0;
        }
    }
}

impl Core {
    /// Handles the end of a POST. `link` is the connection whose token it had.
    pub(super) fn posted(&mut self, link: LinkId, request: u64, status: Option<u16>, body: &str, now: Moment) {
        let frame = read_frame(body);
        let is_reply = matches!(&frame, ServerFrame::Reply { .. } | ServerFrame::Error { .. });
        if is_reply && status.is_some_and(|status| status < 500) {
            self.posting.worked(now);
        } else {
            self.posting.failed(now);
        }
        if is_reply {
            self.take_frame(link, frame, now);
        } else {
            self.post_failed(request, now);
        }
    }
}
