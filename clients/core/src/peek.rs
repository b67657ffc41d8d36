//! A look at encrypted entries that the client has not taken, for a notification.

use pigeonhole_sealing::{Keyring, Shown};
use wire::{ConversationId, DeviceId, Message, Seq, Timestamp, UserId};

use crate::{Error, Keys, Saved};

/// The encryption of a device as the client last saved it, in another process than the client's.
///
/// A peek opens entries and forgets what that changes. The client opens the same entries itself later, with the same keys.
#[derive(Debug)]
pub struct Peek(Box<Keyring>);

impl Peek {
    /// Opens what a store has [saved](Saved). `device_id`: the client's.
    ///
    /// # Errors
    /// As those of [`Keys::keyring`].
    pub fn open(keys: &Keys, me: &UserId, device_id: DeviceId, mut saved: Saved) -> Result<Self, Error> {
        Ok(Self(keys.keyring(me, device_id, &mut saved)?))
    }

    /// Returns the entry up to which the client has opened a conversation. A page of `history` begins behind it. `None`:
    /// the device has no part in the encryption yet.
    #[must_use]
    pub fn position(&self, conversation_id: &ConversationId) -> Option<Seq> {
        self.0.position(conversation_id)
    }

    /// Opens the entries of such a page, in their order. Returns those that have a text, or another content that is shown.
    #[must_use]
    pub fn opened(mut self, page: &[Message], now: Timestamp) -> Vec<Message> {
        let now_ms = u64::try_from(now.millis()).unwrap_or_default();
        let shown = page.iter().map(|entry| self.0.take(entry, now_ms).shown);
        shown.filter_map(|shown| if let Shown::Plain { message, .. } = shown { Some(*message) } else { None }).collect()
    }
}
