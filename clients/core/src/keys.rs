//! The identity of a user for end-to-end encryption, which the app keeps.

use std::fmt;

use pigeonhole_sealing::{Identity, Keyring, SEED_BYTES};
use wire::{DeviceId, UserId};
use zeroize::Zeroizing;

use crate::{Error, Saved};

/// The private key of a user's identity. Its holder is the user, so an app keeps it in the key storage of the system.
///
/// All devices of a user have the same. A user without any of them has a new identity, of which the contacts learn.
#[derive(Clone)]
pub struct Keys(Zeroizing<[u8; SEED_BYTES]>);

impl Keys {
    /// Makes a new identity.
    ///
    /// # Errors
    /// [`Error::Config`]: the system has no random numbers.
    pub fn generate() -> Result<Self, Error> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        getrandom::fill(&mut *seed).map_err(|error| Error::Config(format!("no random numbers: {error}")))?;
        Ok(Self(seed))
    }

    /// Takes what [`export`](Self::export) returned, on this device or on another one.
    pub fn import(seed: &[u8; SEED_BYTES]) -> Self {
        Self(Zeroizing::new(*seed))
    }

    /// Returns the 32 bytes to keep, or to carry to another device of the user.
    pub fn export(&self) -> Zeroizing<[u8; SEED_BYTES]> {
        self.0.clone()
    }

    /// Opens the keyring of this device, from what an earlier run saved. `device_id` must stay the same for the life of
    /// the store.
    ///
    /// # Errors
    /// [`Error::Config`]: the saved rows are of a later version, or the system has no random numbers.
    pub fn keyring(&self, me: &UserId, device_id: DeviceId, saved: &mut Saved) -> Result<Box<Keyring>, Error> {
        let seed = Self::generate()?;
        let rows = std::mem::take(&mut saved.sealing);
        let keyring = Keyring::open(&Identity::import(me.clone(), &self.0), device_id, rows, &seed.0);
        Ok(Box::new(keyring.map_err(|error| Error::Config(format!("the keys of this device can't be used: {error}")))?))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}
