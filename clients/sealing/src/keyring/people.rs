//! The identities of others: pinned when they are first seen, told when they change.

use std::collections::BTreeSet;

use wire::{ConversationId, DeviceId, UserId};

use super::rows::{self, PinRow};
use super::said::{Lock, Notice, OwnDevice, Party};
use super::{Keyring, members};
use crate::identity::Credential;
use crate::safety::{SafetyNumber, safety_number};

impl Keyring {
    /// Returns the safety number with a user whose identity is known.
    pub fn safety_number(&self, peer: &UserId) -> Option<SafetyNumber> {
        let pin = self.pins.get(peer)?;
        Some(safety_number((self.me(), &self.identity.key()), (peer, pin.now())))
    }

    /// Returns whether the user has compared the safety number with this user's, whose identity is still the same.
    pub fn is_verified(&self, peer: &UserId) -> bool {
        self.pins.get(peer).is_some_and(|pin| pin.verified && pin.offered.is_none())
    }

    /// The user has compared the safety number with this user, and it is equal. An identity that waited is accepted.
    pub fn verify(&mut self, peer: &UserId) {
        self.pin(peer, true);
    }

    /// The user accepts the identity that a verified user has now, without a comparison.
    pub fn accept(&mut self, peer: &UserId) {
        self.pin(peer, false);
    }

    fn pin(&mut self, peer: &UserId, verified: bool) {
        if let Some(pin) = self.pins.get_mut(peer) {
            *pin = PinRow { key: *pin.now(), verified, offered: None };
            self.changed.insert(format!("{}{peer}", rows::PIN));
        }
    }

    /// Returns a verified user with another identity in this conversation: messages wait for an
    /// [`accept`](Self::accept).
    pub fn held(&self, with: impl Into<Party>) -> Option<UserId> {
        self.held_in(&self.id_of(&with.into()))
    }

    /// Returns this user, if messages to them wait for an [`accept`](Self::accept).
    fn is_held(&self, peer: &UserId) -> Option<UserId> {
        self.pins.get(peer).filter(|pin| pin.offered.is_some()).map(|_| peer.clone())
    }

    /// As [`held`](Self::held).
    pub(super) fn held_in(&self, id: &ConversationId) -> Option<UserId> {
        let seat = self.seats.get(id)?;
        if let Some(peer) = &seat.row.peer {
            return self.is_held(peer);
        }
        let mut held = self.pins.iter().filter(|(_, pin)| pin.offered.is_some()).map(|(user, _)| user).peekable();
        held.peek()?;
        let users: BTreeSet<UserId> = members(seat.group.as_ref()).into_iter().map(|member| member.user).collect();
        held.find(|user| users.contains(user)).cloned()
    }

    /// Returns the state of a conversation.
    pub fn lock(&self, with: impl Into<Party>) -> Lock {
        let id = self.id_of(&with.into());
        let Some(seat) = self.seats.get(&id) else { return Lock::Plain };
        if seat.row.sealed_from == 0 {
            return if seat.row.encrypted { Lock::Sealed } else { Lock::Plain };
        }
        if self.held_in(&id).is_some() {
            return Lock::Changed;
        }
        if seat.group.is_some() { Lock::Sealed } else { Lock::Joining }
    }

    /// Returns the devices of the user, by the last `list_keys`.
    pub fn devices(&self) -> Vec<OwnDevice> {
        self.listed.clone()
    }

    /// Ends the keys of another device of the user, and removes it from each conversation that this device has a part in.
    pub fn remove_device(&mut self, device: &DeviceId, now_ms: u64) {
        if *device == self.device.member().device {
            return;
        }
        self.row.removing.insert(device.clone());
        self.changed.insert(rows::DEVICE.to_owned());
        let is_it = |member: &Credential| member.user == *self.identity.user() && member.device == *device;
        let has_it = |seat: &super::Seat| members(seat.group.as_ref()).iter().any(is_it);
        let seats: Vec<_> = self.seats.iter().filter(|(_, seat)| has_it(seat)).map(|(id, _)| id.clone()).collect();
        for id in seats {
            if let Some(seat) = self.seats.get_mut(&id) {
                seat.row.remove.insert(device.clone());
                self.touch(&id);
                self.advance(&id, now_ms);
            }
        }
    }

    /// Compares the devices of two epochs: pins, and tells.
    pub(super) fn observe(&mut self, id: &ConversationId, before: &BTreeSet<Credential>, after: &BTreeSet<Credential>) {
        let me = self.me().clone();
        for member in after.iter().filter(|member| member.user != me) {
            let pin = self.pins.get(&member.user);
            let new = match pin {
                None => PinRow { key: member.key, verified: false, offered: None },
                Some(pin) if pin.verified && pin.key != member.key => {
                    PinRow { offered: Some(member.key), ..pin.clone() }
                }
                Some(pin) => PinRow { key: member.key, verified: pin.verified, offered: None },
            };
            if pin.is_some_and(|pin| *pin.now() != member.key) {
                self.notices.push(Notice::IdentityChanged { user: member.user.clone() });
            }
            if pin != Some(&new) {
                self.changed.insert(format!("{}{}", rows::PIN, member.user));
                self.pins.insert(member.user.clone(), new);
            }
        }
        if before.is_empty() {
            return;
        }
        // The list of own devices has another now.
        self.list_due |= before.symmetric_difference(after).any(|member| member.user == me);
        let own = self.device.member();
        // In a group, the system entry says who came and left.
        let has = |members: &BTreeSet<Credential>, user: &UserId| members.iter().any(|member| member.user == *user);
        let stays = |user: &UserId| !id.is_group() || (has(before, user) && has(after, user));
        let told = |member: &&Credential| !member.is_device(own) && stays(&member.user);
        let names = |member: &Credential| (id.clone(), member.user.clone(), member.device.clone());
        let added = after
            .difference(before)
            .filter(told)
            .map(names)
            .map(|(conversation_id, user, device)| Notice::DeviceAdded { conversation_id, user, device });
        let removed = before
            .difference(after)
            .filter(told)
            .map(names)
            .map(|(conversation_id, user, device)| Notice::DeviceRemoved { conversation_id, user, device });
        self.notices.extend(added.chain(removed));
    }
}
