//! What the app asks for itself: pages of the chat list and of conversations.

use std::collections::VecDeque;
use std::time::Instant;

use super::requests::Purpose;
use super::{Session, Ticket};
use crate::protocol::Request;

#[derive(Default)]
pub(super) struct Calls {
    /// Asked once there is a connection.
    waiting: VecDeque<(Ticket, Request)>,
}

impl Calls {
    pub(super) fn again(&mut self, ticket: Ticket, request: Request) {
        self.waiting.push_front((ticket, request));
    }
}

impl Session {
    /// Asks, now or once there is a connection.
    pub(crate) fn call(&mut self, ticket: Ticket, request: Request, now: Instant) {
        if let Err(error) = request.check_size() {
            self.answer(Some(ticket), Err(error));
            return;
        }
        self.calls.waiting.push_back((ticket, request));
        self.settle(now);
    }

    pub(super) fn ask_calls(&mut self, now: Instant) {
        for (ticket, request) in std::mem::take(&mut self.calls.waiting) {
            self.ask(request, Purpose::Call(ticket), now);
        }
    }
}
