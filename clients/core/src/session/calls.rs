//! Questions of the app: pages of lists and of conversations, settings, notifications, presence.

use std::collections::VecDeque;

use serde_json::Value;
use wire::limits::FRAME_BYTES_MAX;
use wire::{Action, HistoryRequest, Reply, Settings};

use super::proving::without_proofs;
use super::reading::read_reply;
use super::requests::{Call, Errand, frame};
use super::{AskId, Core};
use crate::{Error, Moment, Write};

#[derive(Default)]
pub(super) struct Calls {
    /// Calls that wait for a connection.
    waiting: VecDeque<Call>,
}

impl Calls {
    pub(super) fn again(&mut self, call: Call) {
        self.waiting.push_front(call);
    }
}

impl Core {
    /// Sends the request now, or when the client has a connection.
    pub(super) fn call(&mut self, action: Action, ask: AskId) {
        if let Some(action) = self.prove(action, ask) {
            self.call_as_it_is(action, ask);
        }
    }

    pub(super) fn call_as_it_is(&mut self, action: Action, ask: AskId) {
        if frame(u64::MAX, action.clone()).len() > FRAME_BYTES_MAX {
            // API Gateway would close the socket, at each try.
            self.answer(ask, Err(Error::TooLarge));
        } else {
            self.calls.waiting.push_back(Call { action, ask });
        }
    }

    pub(super) fn ask_calls(&mut self, now: Moment) {
        self.report_due();
        for call in std::mem::take(&mut self.calls.waiting) {
            // The server could apply two concurrent ones in the other order.
            if self.requests.calls().any(|asked| set_the_same(&asked.action, &call.action)) {
                self.calls.waiting.push_back(call);
            } else {
                self.ask(Errand::Call(Box::new(call)), now);
            }
        }
    }

    pub(super) fn call_answered(&mut self, Call { action, ask }: Call, result: Value, now: Moment) {
        let Some(mut reply) = read_reply(action.name(), result) else {
            return self.answer(ask, Err(Error::Unreadable));
        };
        if let (Action::History(request), Reply::History(page)) = (&action, &mut reply) {
            self.hide_bytes(page, &request.conversation_id, now);
        }
        match (&action, &reply) {
            (_, Reply::Inbox(page)) => {
                self.outbox.remember_rows(&page.conversations);
                for row in &page.conversations {
                    self.meet(row);
                    self.store(|| Write::Row(row.clone()));
                }
            }
            (_, Reply::Channels(page)) => {
                for row in &page.conversations {
                    self.store(|| Write::Channel(row.clone()));
                }
            }
            (Action::History(request), Reply::History(page)) => {
                let HistoryRequest { conversation_id, side, .. } = request.clone();
                self.store(|| Write::Page { conversation_id, side, page: page.clone() });
            }
            (Action::Receipts(request), Reply::Receipts(page)) => {
                let (conversation_id, members) = (request.conversation_id.clone(), page.members.clone());
                self.store(|| Write::Marks { conversation_id, members });
            }
            (Action::Profile(_), _) => self.views.own_name_changed(),
            (Action::Presence(request), _) => self.presence_answered(request, now),
            // The store has nothing of the others.
            _ => {}
        }
        if let Action::Settings(settings) = action {
            self.settings(settings);
        }
        self.answer(ask, Ok(reply));
    }

    pub(super) fn call_refused(&mut self, Call { action, ask }: Call, error: Error) {
        match without_proofs(action, &error) {
            Some(action) => self.call_as_it_is(action, ask),
            None => self.answer(ask, Err(error)),
        }
    }
}

/// Whether both set something for the same conversation, for the same user, or for this device.
fn set_the_same(one: &Action, other: &Action) -> bool {
    match (one, other) {
        (Action::Settings(one), Action::Settings(other)) => match (one, other) {
            (Settings::User { user_id, .. }, Settings::User { user_id: other, .. }) => user_id == other,
            (Settings::Conversation { conversation_id, .. }, Settings::Conversation { conversation_id: other, .. }) => {
                conversation_id == other
            }
            (Settings::User { .. }, Settings::Conversation { .. })
            | (Settings::Conversation { .. }, Settings::User { .. }) => false,
        },
        (Action::Device(_), Action::Device(_)) => true,
        // The others only read.
        _ => false,
    }
}
