//! Key packages, by which members add a device while it is offline.

use std::time::Duration;

use mls_rs::mls_rs_codec::{MlsDecode, MlsEncode};
use mls_rs::storage_provider::KeyPackageData;
use mls_rs::time::MlsTime;
use mls_rs::{ExtensionList, MlsMessage};
use zeroize::Zeroizing;

use crate::conversation::Conversation;
use crate::error::{Error, Result, ensure};
use crate::identity::{Credential, Device};
use crate::mls::{Store, client};
use crate::provider::is_key;
use crate::reader::Reader;
use crate::tree::{Leaf, Source};

const DAY_S: u64 = 86_400;
/// The lifetime of a package that one claim takes.
pub const PACKAGE_LIFETIME_S: u64 = 90 * DAY_S;
/// The lifetime of the package that claims get when no other is left.
pub const LAST_RESORT_LIFETIME_S: u64 = 400 * DAY_S;
/// The library begins a lifetime an hour early, since clocks differ.
const EARLY_S: u64 = 3_600;
/// The first bytes of a package: version, wire format, version and suite.
const HEAD: [u8; 8] = [0, 1, 0, 5, 0, 1, 0, 1];

/// A new package.
#[derive(Clone)]
pub struct Package {
    /// The public part, for the keys directory.
    pub data: Vec<u8>,
    /// The name of the package, under which the device stores the private part.
    pub reference: Vec<u8>,
    /// The private part. The device deletes it when [`Device::join_by_welcome`] has used the package.
    pub private: Zeroizing<Vec<u8>>,
    /// The end of the lifetime, in seconds since 1970.
    pub expires_at_s: u64,
}

/// A claimed package of another device that [`Device::check_package`] found good.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The device that the package adds.
    pub member: Credential,
    pub(crate) message: MlsMessage,
}

/// The request of a claim, and what the server said of the result.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The user.
    pub user: &'a wire::UserId,
    /// The device.
    pub device: &'a wire::DeviceId,
    /// The user's pinned identity. Without a pin, the client pins that of [`Checked::member`].
    pub key: Option<&'a crate::identity::PublicKey>,
    /// The server calls the package a last resort.
    pub last_resort: bool,
}

impl Device {
    /// Makes packages for the keys directory. `last_resort`: with the longer lifetime.
    pub fn new_packages(&self, count: usize, last_resort: bool, now_s: u64) -> Result<Vec<Package>> {
        let store = Store::default();
        let client = client(&store, Some(self), Duration::from_secs(lifetime(last_resort)));
        (0..count)
            .map(|_| {
                let message = client.generate_key_package_message(
                    ExtensionList::new(),
                    ExtensionList::new(),
                    Some(MlsTime::from(now_s)),
                )?;
                let (reference, private) = store.take_packages().pop().ok_or(Error::State("package"))?;
                Ok(Package {
                    data: message.to_bytes()?,
                    reference,
                    expires_at_s: private.expiration,
                    private: Zeroizing::new(private.mls_encode_to_vec().map_err(|_| Error::State("package"))?),
                })
            })
            .collect()
    }

    /// Checks a claimed package before it is used: device, identity, signatures, lifetime, suite and capabilities.
    ///
    /// A package that fails is left out, and its device is not added.
    pub fn check_package(&self, data: &[u8], asked: Asked<'_>, now_s: u64) -> Result<Checked> {
        let leaf = read(data)?;
        let member = &leaf.credential;
        let is_asked = member.user == *asked.user && member.device == *asked.device;
        ensure(is_asked, Error::Misplaced("the package is of another device"))?;
        ensure(asked.key.is_none_or(|key| *key == member.key), Error::Misplaced("the identity is another"))?;
        leaf.verify()?;
        let Source::KeyPackage { not_before, not_after } = leaf.source else {
            return Err(Error::Profile("the leaf is from a commit"));
        };
        let lives_for = not_after.saturating_sub(not_before);
        ensure(lives_for <= lifetime(asked.last_resort) + EARLY_S, Error::Profile("the package lives for too long"))?;
        let checked = Checked { member: leaf.credential, message: MlsMessage::from_bytes(data)? };
        // The library verifies the signatures and the lifetime when it adds a package, here to a scratch group.
        let scratch = Conversation::direct(asked.user, &self.member().user);
        self.found(&scratch, 0, std::slice::from_ref(&checked), now_s)?;
        Ok(checked)
    }
}

fn lifetime(last_resort: bool) -> u64 {
    if last_resort { LAST_RESORT_LIFETIME_S } else { PACKAGE_LIFETIME_S }
}

fn read(data: &[u8]) -> Result<Leaf> {
    let mut reader = Reader::new(data, "key package");
    ensure(reader.take(HEAD.len())? == HEAD, Error::Malformed("key package"))?;
    let init_key = reader.vector()?;
    let leaf = Leaf::read(&mut reader)?;
    ensure(is_key(init_key) && leaf.has_key(), Error::Profile("an encryption key has a small order"))?;
    ensure(reader.vector()?.is_empty(), Error::Profile("the package has extensions"))?;
    reader.vector()?;
    reader.end()?;
    Ok(leaf)
}

/// Reads the private parts that a device has stored, by their references.
pub(crate) fn stored(private: &[(Vec<u8>, Zeroizing<Vec<u8>>)]) -> Result<Store> {
    let packages = private.iter().map(|(reference, bytes)| {
        let data = KeyPackageData::mls_decode_exhaustive(bytes).map_err(|_| Error::State("package"))?;
        Ok((reference.clone(), data))
    });
    Ok(Store::with_packages(packages.collect::<Result<_>>()?))
}
