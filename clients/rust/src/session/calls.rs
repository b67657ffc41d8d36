//! What the app asks for itself: pages of the chat list, of conversations and of who is in them; settings, notifications, presence.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::Value;
use wire::limits::{DOWNLOADS_MAX, FRAME_BYTES_MAX, PRESENCE_USERS_MAX};
use wire::{
    Action, ChannelsRequest, ChannelsResult, DeviceRequest, DeviceResult, DownloadRequest, DownloadResult,
    HistoryRequest, HistoryResult, InboxRequest, InboxResult, JoinRequest, JoinResult, MembersRequest, MembersResult,
    Presence, PresenceRequest, PresenceResult, ReactionsRequest, ReactionsResult, ReceiptsRequest, ReceiptsResult,
    Settings, SettingsResult,
};

use super::reading::{read_channels, read_inbox, readable};
use super::requests::Errand;
use super::{Session, Waiter};
use crate::{Error, Event};

/// A cursor longer than this would close the socket: the frame could become too large. The server's are far shorter.
const CURSOR_BYTES_MAX: usize = FRAME_BYTES_MAX / 8;

/// A request of the app, with the one who waits for its answer.
#[derive(Debug)]
pub(crate) enum Call {
    Inbox(InboxRequest, Waiter<InboxResult>),
    History(HistoryRequest, Waiter<HistoryResult>),
    Settings(Settings, Waiter<()>),
    Device(DeviceRequest, Waiter<()>),
    Presence(PresenceRequest, Waiter<Vec<Presence>>),
    Members(MembersRequest, Waiter<MembersResult>),
    Receipts(ReceiptsRequest, Waiter<ReceiptsResult>),
    Reactions(ReactionsRequest, Waiter<ReactionsResult>),
    Channels(ChannelsRequest, Waiter<ChannelsResult>),
    Join(JoinRequest, Waiter<JoinResult>),
    Download(DownloadRequest, Waiter<DownloadResult>),
}

impl Call {
    pub(super) fn action(&self) -> Action {
        match self {
            Self::Inbox(request, _) => Action::Inbox(request.clone()),
            Self::History(request, _) => Action::History(request.clone()),
            Self::Settings(settings, _) => Action::Settings(settings.clone()),
            Self::Device(request, _) => Action::Device(request.clone()),
            Self::Presence(request, _) => Action::Presence(request.clone()),
            Self::Members(request, _) => Action::Members(request.clone()),
            Self::Receipts(request, _) => Action::Receipts(request.clone()),
            Self::Reactions(request, _) => Action::Reactions(request.clone()),
            Self::Channels(request, _) => Action::Channels(request.clone()),
            Self::Join(request, _) => Action::Join(request.clone()),
            Self::Download(request, _) => Action::Download(request.clone()),
        }
    }

    /// Both set something for the same conversation, for the same user, or for this device.
    fn sets_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Settings(one, _), Self::Settings(other, _)) => match (one, other) {
                (Settings::User { user_id, .. }, Settings::User { user_id: other, .. }) => user_id == other,
                (
                    Settings::Conversation { conversation_id, .. },
                    Settings::Conversation { conversation_id: other, .. },
                ) => conversation_id == other,
                (Settings::User { .. }, Settings::Conversation { .. })
                | (Settings::Conversation { .. }, Settings::User { .. }) => false,
            },
            (Self::Device(..), Self::Device(..)) => true,
            (
                Self::Inbox(..)
                | Self::History(..)
                | Self::Settings(..)
                | Self::Device(..)
                | Self::Presence(..)
                | Self::Members(..)
                | Self::Receipts(..)
                | Self::Reactions(..)
                | Self::Channels(..)
                | Self::Join(..)
                | Self::Download(..),
                _,
            ) => false,
        }
    }
}

#[derive(Default)]
pub(super) struct Calls {
    /// Asked once there is a connection.
    waiting: VecDeque<Call>,
}

impl Calls {
    pub(super) fn again(&mut self, call: Call) {
        self.waiting.push_front(call);
    }
}

fn invalid(field: &'static str, problem: String) -> Error {
    Error::Invalid { field, problem }
}

impl Session {
    /// Asks, now or once there is a connection.
    pub(crate) fn call(&mut self, call: Call, now: Instant) {
        match call {
            Call::Inbox(InboxRequest { cursor: Some(cursor), .. }, waiter) if cursor.len() > CURSOR_BYTES_MAX => {
                self.answer(waiter, Err(invalid("cursor", "is longer than any of the server's".to_owned())));
            }
            // As many as no frame holds would close the socket each time.
            Call::Presence(PresenceRequest { user_ids }, waiter) if user_ids.len() > PRESENCE_USERS_MAX => {
                self.answer(waiter, Err(invalid("user_ids", format!("must have at most {PRESENCE_USERS_MAX}"))));
            }
            Call::Download(DownloadRequest { media_ids }, waiter) if media_ids.len() > DOWNLOADS_MAX => {
                self.answer(waiter, Err(invalid("media_ids", format!("must have at most {DOWNLOADS_MAX}"))));
            }
            call => self.calls.waiting.push_back(call),
        }
        self.send_due(now);
    }

    pub(super) fn ask_calls(&mut self, now: Instant) {
        for call in std::mem::take(&mut self.calls.waiting) {
            // Two of these at once could be applied the other way round.
            if self.requests.calls().any(|asked| asked.sets_the_same(&call)) {
                self.calls.waiting.push_back(call);
            } else {
                self.ask(Errand::Call(call), now);
            }
        }
    }

    pub(super) fn call_answered(&mut self, call: Call, result: Value) {
        match call {
            Call::Inbox(_, waiter) => {
                let page = read_inbox(result).ok_or(Error::Unreadable);
                self.outbox.remember_rows(page.as_ref().map_or(&[], |page| &page.conversations));
                self.answer(waiter, page);
            }
            Call::History(_, waiter) => self.answer(waiter, readable(result).ok_or(Error::Unreadable)),
            Call::Settings(settings, waiter) => match readable(result) {
                Some(SettingsResult {}) => {
                    self.tell(Event::SettingsChanged(settings));
                    self.answer(waiter, Ok(()));
                }
                None => self.answer(waiter, Err(Error::Unreadable)),
            },
            Call::Device(_, waiter) => {
                let read = readable(result).map(|DeviceResult { .. }| ());
                self.answer(waiter, read.ok_or(Error::Unreadable));
            }
            Call::Presence(_, waiter) => {
                let read = readable(result).map(|PresenceResult { users }| users);
                self.answer(waiter, read.ok_or(Error::Unreadable));
            }
            Call::Members(_, waiter) => self.answer(waiter, readable(result).ok_or(Error::Unreadable)),
            Call::Receipts(_, waiter) => self.answer(waiter, readable(result).ok_or(Error::Unreadable)),
            Call::Reactions(_, waiter) => self.answer(waiter, readable(result).ok_or(Error::Unreadable)),
            Call::Channels(_, waiter) => self.answer(waiter, read_channels(result).ok_or(Error::Unreadable)),
            Call::Join(_, waiter) => self.answer(waiter, readable(result).ok_or(Error::Unreadable)),
            Call::Download(_, waiter) => self.answer(waiter, readable(result).ok_or(Error::Unreadable)),
        }
    }

    pub(super) fn call_refused(&mut self, call: Call, error: Error) {
        match call {
            Call::Inbox(_, waiter) => self.answer(waiter, Err(error)),
            Call::History(_, waiter) => self.answer(waiter, Err(error)),
            Call::Settings(_, waiter) | Call::Device(_, waiter) => self.answer(waiter, Err(error)),
            Call::Presence(_, waiter) => self.answer(waiter, Err(error)),
            Call::Members(_, waiter) => self.answer(waiter, Err(error)),
            Call::Receipts(_, waiter) => self.answer(waiter, Err(error)),
            Call::Reactions(_, waiter) => self.answer(waiter, Err(error)),
            Call::Channels(_, waiter) => self.answer(waiter, Err(error)),
            Call::Join(_, waiter) => self.answer(waiter, Err(error)),
            Call::Download(_, waiter) => self.answer(waiter, Err(error)),
        }
    }
}
