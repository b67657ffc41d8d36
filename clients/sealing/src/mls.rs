//! The library, as the profile wants it: no tree in a Welcome, private handshakes, no padding, one suite, bytes as storage.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mls_rs::client_builder::{
    BaseConfig, WithCryptoProvider, WithGroupStateStorage, WithIdentityProvider, WithKeyPackageRepo, WithMlsRules,
};
use mls_rs::error::IntoAnyError;
use mls_rs::group::ExportedTree;
use mls_rs::identity::basic::BasicCredential;
use mls_rs::identity::{CredentialType, SigningIdentity};
use mls_rs::mls_rs_codec::MlsDecode;
use mls_rs::mls_rules::{CommitOptions, DefaultMlsRules, EncryptionOptions};
use mls_rs::storage_provider::KeyPackageData;
use mls_rs::{ExtensionList, GroupStateStorage, IdentityProvider, KeyPackageStorage};
use zeroize::Zeroizing;

use crate::error::{Error, Result};
use crate::identity::{Credential, Device};
use crate::provider::{Provider, SUITE};

pub(crate) type Config = WithKeyPackageRepo<
    Store,
    WithGroupStateStorage<
        Store,
        WithIdentityProvider<Names, WithMlsRules<DefaultMlsRules, WithCryptoProvider<Provider, BaseConfig>>>,
    >,
>;
pub(crate) type Client = mls_rs::Client<Config>;
pub(crate) type MlsGroup = mls_rs::Group<Config>;

/// Makes a client for one call. `lifetime` counts for new packages.
pub(crate) fn client(store: &Store, device: Option<&Device>, lifetime: Duration) -> Client {
    let options = CommitOptions::new().with_ratchet_tree_extension(false);
    // The plaintext is padded already.
    let encryption = EncryptionOptions::new(true, mls_rs::client_builder::PaddingMode::None);
    let rules = DefaultMlsRules::new().with_commit_options(options).with_encryption_options(encryption);
    let builder = mls_rs::Client::builder()
        .crypto_provider(Provider)
        .mls_rules(rules)
        .identity_provider(Names)
        .group_state_storage(store.clone())
        .key_package_repo(store.clone())
        .key_package_lifetime(lifetime);
    let Some(device) = device else { return builder.build() };
    let identity = SigningIdentity::new(
        BasicCredential::new(device.credential().to_vec()).into_credential(),
        device.leaf_key().to_vec().into(),
    );
    builder.signing_identity(identity, device.keypair().to_vec().into(), SUITE).build()
}

/// Reads a tree, and refuses bytes behind it.
pub(crate) fn tree(bytes: &[u8]) -> Result<ExportedTree<'static>> {
    ExportedTree::mls_decode_exhaustive(bytes).map_err(|_| Error::Malformed("ratchet tree"))
}

/// The storage of one call. The caller sets the input before the call, and takes the output after it.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    state: Option<Zeroizing<Vec<u8>>>,
    packages: Vec<(Vec<u8>, KeyPackageData)>,
}

impl Store {
    pub(crate) fn with_state(state: &[u8]) -> Self {
        let store = Self::default();
        store.stored().state = Some(Zeroizing::new(state.to_vec()));
        store
    }

    pub(crate) fn with_packages(packages: Vec<(Vec<u8>, KeyPackageData)>) -> Self {
        let store = Self::default();
        store.stored().packages = packages;
        store
    }

    pub(crate) fn take_state(&self) -> Result<Zeroizing<Vec<u8>>> {
        self.stored().state.take().ok_or(Error::State("group"))
    }

    pub(crate) fn take_packages(&self) -> Vec<(Vec<u8>, KeyPackageData)> {
        std::mem::take(&mut self.stored().packages)
    }

    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GroupStateStorage for Store {
    type Error = Infallible;

    fn state(&self, _group_id: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>, Infallible> {
        Ok(self.stored().state.clone())
    }

    fn epoch(&self, _group_id: &[u8], _epoch: u64) -> Result<Option<Zeroizing<Vec<u8>>>, Infallible> {
        Ok(None)
    }

    fn write(
        &mut self,
        state: mls_rs_core::group::GroupState,
        _inserts: Vec<mls_rs_core::group::EpochRecord>,
        _updates: Vec<mls_rs_core::group::EpochRecord>,
    ) -> Result<(), Infallible> {
        self.stored().state = Some(state.data);
        Ok(())
    }

    fn max_epoch_id(&self, _group_id: &[u8]) -> Result<Option<u64>, Infallible> {
        Ok(None)
    }
}

impl KeyPackageStorage for Store {
    type Error = Infallible;

    fn delete(&mut self, id: &[u8]) -> Result<(), Infallible> {
        self.stored().packages.retain(|(stored, _)| stored != id);
        Ok(())
    }

    fn insert(&mut self, id: Vec<u8>, package: KeyPackageData) -> Result<(), Infallible> {
        self.stored().packages.push((id, package));
        Ok(())
    }

    fn get(&self, id: &[u8]) -> Result<Option<KeyPackageData>, Infallible> {
        Ok(self.stored().packages.iter().find(|(stored, _)| stored == id).map(|(_, package)| package.clone()))
    }
}

/// Reads the names in credentials. The identity's signature is verified on the outcome, by [`Tree::verify`].
///
/// [`Tree::verify`]: crate::tree::Tree::verify
#[derive(Clone, Copy)]
pub(crate) struct Names;

impl IntoAnyError for Error {
    fn into_dyn_error(self) -> Result<Box<dyn std::error::Error + Send + Sync>, Self> {
        Ok(self.into())
    }
}

fn read(identity: &SigningIdentity) -> Result<Credential> {
    let basic = identity.credential.as_basic().ok_or(Error::Profile("the credential is not basic"))?;
    Ok(Credential::read(basic.identifier())?.credential)
}

impl IdentityProvider for Names {
    type Error = Error;

    fn validate_member(
        &self,
        identity: &SigningIdentity,
        _time: Option<mls_rs::time::MlsTime>,
        _context: mls_rs_core::identity::MemberValidationContext<'_>,
    ) -> Result<()> {
        read(identity).map(|_| ())
    }

    fn validate_external_sender(
        &self,
        _identity: &SigningIdentity,
        _time: Option<mls_rs::time::MlsTime>,
        _extensions: Option<&ExtensionList>,
    ) -> Result<()> {
        Err(Error::Profile("an external sender"))
    }

    fn identity(&self, identity: &SigningIdentity, _extensions: &ExtensionList) -> Result<Vec<u8>> {
        let Credential { user, device, .. } = read(identity)?;
        Ok([user.as_str(), device.as_str()].join("\0").into_bytes())
    }

    fn valid_successor(
        &self,
        predecessor: &SigningIdentity,
        successor: &SigningIdentity,
        _extensions: &ExtensionList,
    ) -> Result<bool> {
        Ok(read(predecessor)? == read(successor)?)
    }

    fn supported_types(&self) -> Vec<CredentialType> {
        vec![CredentialType::BASIC]
    }
}

/// Returns whose leaf this is.
pub(crate) fn member(group: &MlsGroup, place: u32) -> Result<Credential> {
    let member = group.member_at_index(place).ok_or(Error::Profile("the sender has no leaf"))?;
    read(&member.signing_identity)
}
