//! A user's identity key, and the credential by which it vouches for one device.

use std::fmt;

use data_encoding::BASE64;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use wire::{DeviceId, UserId};
use zeroize::Zeroizing;

use crate::error::{Error, Result, ensure};

/// The bytes of a seed, which is the private part of a key.
pub const SEED_BYTES: usize = 32;
/// The public part of an Ed25519 key.
pub type PublicKey = [u8; 32];

const VERSION: u8 = 1;
const MALFORMED: Error = Error::Malformed("credential");

/// A user's identity: the key that contacts pin and compare by the safety number.
///
/// Another device of the user gets the seed by [`export`](Self::export).
#[derive(Clone)]
pub struct Identity {
    user: UserId,
    key: SigningKey,
}

impl Identity {
    /// Makes the user's identity from 32 random bytes, or from the seed that another device exported.
    pub fn import(user: UserId, seed: &[u8; SEED_BYTES]) -> Self {
        Self { user, key: SigningKey::from_bytes(seed) }
    }

    /// Returns the seed. Its holder is the user.
    pub fn export(&self) -> Zeroizing<[u8; SEED_BYTES]> {
        Zeroizing::new(self.key.to_bytes())
    }

    /// Returns the user.
    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// Returns the public key.
    pub fn key(&self) -> PublicKey {
        self.key.verifying_key().to_bytes()
    }

    /// Makes a device of the user, whose key comes from 32 random bytes. A device that lost its state gets a new seed.
    #[must_use]
    pub fn device(&self, device: DeviceId, seed: &[u8; SEED_BYTES]) -> Device {
        let leaf = SigningKey::from_bytes(seed);
        let signed = signed_bytes(&self.user, &device, &leaf.verifying_key().to_bytes());
        let signature = self.key.sign(&signed).to_bytes();
        let credential = Credential { user: self.user.clone(), device, key: self.key() };
        let bytes = credential.write(&signature);
        Device { credential, bytes, leaf }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("user", &self.user).finish_non_exhaustive()
    }
}

/// One device of a user, with its private key.
#[derive(Clone)]
pub struct Device {
    credential: Credential,
    bytes: Vec<u8>,
    leaf: SigningKey,
}

impl Device {
    /// Returns the device as bytes for its storage, with its private key.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&self.leaf.to_bytes()[..], &self.bytes].concat())
    }

    /// Reads a device from its storage.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (seed, credential) = bytes.split_first_chunk().ok_or(Error::State("device"))?;
        let leaf = SigningKey::from_bytes(seed);
        let bytes = credential.to_vec();
        let credential = Credential::read(&bytes)?.verified(&leaf.verifying_key().to_bytes())?;
        Ok(Self { credential, bytes, leaf })
    }

    /// Returns the credential, as the keys directory takes it.
    pub fn credential(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the user, the device and the identity.
    pub fn member(&self) -> &Credential {
        &self.credential
    }

    /// Returns the private key and the public key, in one as the library takes them.
    pub(crate) fn keypair(&self) -> Zeroizing<[u8; 2 * SEED_BYTES]> {
        Zeroizing::new(self.leaf.to_keypair_bytes())
    }

    pub(crate) fn leaf_key(&self) -> PublicKey {
        self.leaf.verifying_key().to_bytes()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("credential", &self.credential).finish_non_exhaustive()
    }
}

/// The device of a leaf and its user, by the word of the user's identity key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credential {
    /// The user.
    pub user: UserId,
    /// The user's device.
    pub device: DeviceId,
    /// The user's identity key.
    pub key: PublicKey,
}

/// A credential whose signature is not verified yet.
pub(crate) struct Unverified {
    pub(crate) credential: Credential,
    signature: [u8; 64],
}

#[derive(Serialize, Deserialize)]
struct Json {
    v: u8,
    user: UserId,
    device: DeviceId,
    key: String,
    sig: String,
}

impl Credential {
    /// Reads a credential. Each has one form: other bytes that mean the same are refused.
    pub(crate) fn read(bytes: &[u8]) -> Result<Unverified> {
        let Json { user, device, key, sig, .. } = serde_json::from_slice(bytes).map_err(|_| MALFORMED)?;
        let (key, signature) = (decoded(&key)?, decoded(&sig)?);
        let credential = Self { user, device, key };
        ensure(credential.write(&signature) == bytes, MALFORMED)?;
        Ok(Unverified { credential, signature })
    }

    /// Reads a credential of the keys directory and verifies that the identity in it signed this leaf key.
    ///
    /// A device does that for each credential that `list_keys` returns as one of its own user.
    pub fn verify(bytes: &[u8], leaf_key: &PublicKey) -> Result<Self> {
        Self::read(bytes)?.verified(leaf_key)
    }

    /// Returns whether both are the same device of the same user.
    pub(crate) fn is_device(&self, other: &Self) -> bool {
        self.user == other.user && self.device == other.device
    }

    #[expect(clippy::expect_used, reason = "strings and a number become JSON")]
    fn write(&self, signature: &[u8; 64]) -> Vec<u8> {
        let json = Json {
            v: VERSION,
            user: self.user.clone(),
            device: self.device.clone(),
            key: BASE64.encode(&self.key),
            sig: BASE64.encode(signature),
        };
        serde_json::to_vec(&json).expect("it is JSON")
    }
}

impl Unverified {
    pub(crate) fn verified(self, leaf_key: &PublicKey) -> Result<Credential> {
        let signed = signed_bytes(&self.credential.user, &self.credential.device, leaf_key);
        let signature = Signature::from_bytes(&self.signature);
        // `verify_strict` refuses keys of a small order too, which would vouch for anything.
        let verified = VerifyingKey::from_bytes(&self.credential.key)
            .and_then(|identity| identity.verify_strict(&signed, &signature))
            .is_ok();
        ensure(verified, Error::Profile("the identity did not sign the device"))?;
        Ok(self.credential)
    }
}

fn decoded<const LENGTH: usize>(text: &str) -> Result<[u8; LENGTH]> {
    BASE64.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(MALFORMED)
}

/// Returns the bytes that the identity signs. An id has no zero byte, so no two devices have the same bytes.
fn signed_bytes(user: &UserId, device: &DeviceId, leaf_key: &PublicKey) -> Vec<u8> {
    let texts = ["pigeonhole device 1", user.as_str(), device.as_str()];
    let mut bytes: Vec<u8> = texts.iter().flat_map(|text| text.bytes().chain([0])).collect();
    bytes.extend(leaf_key);
    bytes
}
