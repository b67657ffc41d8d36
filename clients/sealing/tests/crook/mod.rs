//! A member whose client keeps no rule: `mls-rs` itself, with what the profile forbids turned on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::struct_excessive_bools,
    reason = "a test"
)]

use std::sync::{Arc, Mutex};

use mls_rs::client_builder::{
    BaseConfig, PaddingMode, WithCryptoProvider, WithIdentityProvider, WithKeyPackageRepo, WithMlsRules,
};
use mls_rs::crypto::{HpkeCiphertext, HpkePsk, HpkePublicKey, HpkeSecretKey, SignaturePublicKey, SignatureSecretKey};
use mls_rs::extension::ExtensionType;
use mls_rs::group::ExportedTree;
use mls_rs::identity::basic::BasicCredential;
use mls_rs::identity::{CredentialType, SigningIdentity};
use mls_rs::mls_rs_codec::MlsDecode;
use mls_rs::mls_rules::{CommitOptions, DefaultMlsRules, EncryptionOptions};
use mls_rs::storage_provider::KeyPackageData;
use mls_rs::storage_provider::in_memory::InMemoryKeyPackageStorage;
use mls_rs::{CipherSuite, CipherSuiteProvider, CryptoProvider, ExtensionList, IdentityProvider, MlsMessage};
use mls_rs_core::identity::MemberValidationContext;
use mls_rs_crypto_rustcrypto::{RustCryptoError, RustCryptoProvider};
use pigeonhole_sealing::{Device, Error, Group};
use zeroize::Zeroizing;

use crate::world::{self, Content, Logged, NOW_S, World, entry};

pub(crate) const SUITE: CipherSuite = CipherSuite::CURVE25519_AES128;

/// The ways in which the crook differs.
#[derive(Clone, Default)]
pub(crate) struct Ways {
    pub(crate) public: bool,
    pub(crate) extension: bool,
    pub(crate) no_credential_type: bool,
    pub(crate) tree_in_welcome: bool,
    /// The public keys that are generated next, in place of good ones.
    pub(crate) keys: Arc<Mutex<Vec<HpkePublicKey>>>,
}

type Config = WithKeyPackageRepo<
    InMemoryKeyPackageStorage,
    WithMlsRules<DefaultMlsRules, WithIdentityProvider<Anybody, WithCryptoProvider<Crypto, BaseConfig>>>,
>;
pub(crate) type CrookGroup = mls_rs::Group<Config>;
pub(crate) type CrookClient = mls_rs::Client<Config>;

/// The device's keys, as the library takes them.
pub(crate) fn signer(device: &Device) -> (SigningIdentity, SignatureSecretKey) {
    let seed: [u8; 32] = device.to_bytes()[..32].try_into().unwrap();
    let key = ed25519_dalek::SigningKey::from_bytes(&seed);
    let credential = BasicCredential::new(device.credential().to_vec()).into_credential();
    let identity = SigningIdentity::new(credential, key.verifying_key().to_bytes().to_vec().into());
    (identity, key.to_keypair_bytes().to_vec().into())
}

pub(crate) fn client(device: &Device, packages: InMemoryKeyPackageStorage, ways: &Ways) -> CrookClient {
    let options = CommitOptions::new().with_ratchet_tree_extension(ways.tree_in_welcome);
    let rules = DefaultMlsRules::new()
        .with_commit_options(options)
        .with_encryption_options(EncryptionOptions::new(!ways.public, PaddingMode::None));
    let (identity, key) = signer(device);
    let builder = mls_rs::Client::builder()
        .crypto_provider(Crypto(ways.keys.clone()))
        .identity_provider(Anybody(!ways.no_credential_type))
        .mls_rules(rules)
        .key_package_repo(packages)
        .signing_identity(identity, key, SUITE);
    if ways.extension { builder.extension_type(ExtensionType::new(0xf0f0)).build() } else { builder.build() }
}

/// A package of a client that keeps no rule.
pub(crate) fn package(device: &Device, ways: &Ways) -> Vec<u8> {
    let client = client(device, InMemoryKeyPackageStorage::new(), ways);
    let (none, now) = (ExtensionList::new, Some(NOW_S.into()));
    client.generate_key_package_message(none(), none(), now).unwrap().to_bytes().unwrap()
}

/// Alice with one phone and bob with two, of which the last one is the crook's.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) crook: CrookGroup,
    pub(crate) ways: Ways,
}

impl Scene {
    pub(crate) fn new(ways: Ways) -> Self {
        let mut world = World::direct(1, 2);
        let packages = InMemoryKeyPackageStorage::new();
        for (_, reference, private) in &world.phones[2].packages {
            packages.insert(reference.clone(), KeyPackageData::mls_decode(&mut &***private).unwrap());
        }
        world.begin();
        let Content::Commit { welcome: Some((welcome, tree)), .. } = &world.log[0].content else { panic!() };
        let client = client(&world.phones[2].device, packages, &ways);
        let tree = ExportedTree::from_bytes(tree).unwrap();
        let (crook, _) = client.join_group(Some(tree), &MlsMessage::from_bytes(welcome).unwrap(), None).unwrap();
        Self { world, crook, ways }
    }

    /// The data that a commit of this epoch authenticates.
    pub(crate) fn data(&self) -> Vec<u8> {
        let mark = self.world.phones[0].group.as_ref().unwrap().mark().unwrap();
        authenticated(self.world.conversation.id().as_str(), "crook", mark)
    }

    /// Returns the entry around the bytes, with this phone as the sender.
    pub(crate) fn logged(&self, by: usize) -> Logged {
        let content = Content::Commit { commit: None, welcome: None };
        let by = self.world.phones[by].member().clone();
        Logged { by, client_msg_id: world::id("crook"), epoch: self.world.epoch + 1, content }
    }

    pub(crate) fn group(&self, phone: usize) -> &Group {
        self.world.phones[phone].group.as_ref().unwrap()
    }

    /// Both honest phones refuse the crook's commit for the same reason, and lose nothing by it. Returns the reason.
    pub(crate) fn refused(&mut self, commit: &MlsMessage) -> String {
        self.refused_bytes(&commit.to_bytes().unwrap(), 2)
    }

    pub(crate) fn refused_bytes(&mut self, commit: &[u8], by: usize) -> String {
        let logged = self.logged(by);
        let reasons: Vec<String> = (0..2)
            .map(|phone| {
                let error = self.group(phone).follow(entry(&self.world.conversation, &logged), commit, None);
                reason(&error.expect_err("the commit is taken"))
            })
            .collect();
        assert_eq!(reasons[0], reasons[1]);
        self.world.say(0);
        self.world.catch_up(1, self.world.log.len());
        reasons[0].clone()
    }
}

/// The whole chain of an error.
pub(crate) fn reason(error: &Error) -> String {
    let chain = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) fn authenticated(conversation: &str, client_msg_id: &str, mark: [u8; 8]) -> Vec<u8> {
    [conversation.as_bytes(), &[0], client_msg_id.as_bytes(), &[0], &mark].concat()
}

/// Accepts each identity, and each removal.
#[derive(Clone)]
pub(crate) struct Anybody(bool);

impl IdentityProvider for Anybody {
    type Error = std::convert::Infallible;

    fn validate_member(
        &self,
        _: &SigningIdentity,
        _: Option<mls_rs::time::MlsTime>,
        _: MemberValidationContext<'_>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    fn validate_external_sender(
        &self,
        _: &SigningIdentity,
        _: Option<mls_rs::time::MlsTime>,
        _: Option<&ExtensionList>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    fn identity(&self, identity: &SigningIdentity, _: &ExtensionList) -> Result<Vec<u8>, Self::Error> {
        Ok(identity.signature_key.to_vec())
    }

    fn valid_successor(
        &self,
        _: &SigningIdentity,
        _: &SigningIdentity,
        _: &ExtensionList,
    ) -> Result<bool, Self::Error> {
        Ok(true)
    }

    fn supported_types(&self) -> Vec<CredentialType> {
        let other = CredentialType::new(0xf0f0);
        vec![if self.0 { CredentialType::BASIC } else { other }]
    }
}

type Inner = <RustCryptoProvider as CryptoProvider>::CipherSuiteProvider;
type Done<T> = Result<T, RustCryptoError>;
type Keys = Arc<Mutex<Vec<HpkePublicKey>>>;

#[derive(Clone)]
pub(crate) struct Crypto(Keys);

impl CryptoProvider for Crypto {
    type CipherSuiteProvider = Suite;

    fn supported_cipher_suites(&self) -> Vec<CipherSuite> {
        vec![SUITE]
    }

    fn cipher_suite_provider(&self, suite: CipherSuite) -> Option<Suite> {
        Some(Suite(RustCryptoProvider::new().cipher_suite_provider(suite)?, self.0.clone()))
    }
}

#[derive(Clone)]
pub(crate) struct Suite(Inner, Keys);

impl CipherSuiteProvider for Suite {
    type Error = RustCryptoError;
    type HpkeContextS = <Inner as CipherSuiteProvider>::HpkeContextS;
    type HpkeContextR = <Inner as CipherSuiteProvider>::HpkeContextR;

    fn cipher_suite(&self) -> CipherSuite {
        self.0.cipher_suite()
    }
    fn hash(&self, data: &[u8]) -> Done<Vec<u8>> {
        self.0.hash(data)
    }
    fn mac(&self, key: &[u8], data: &[u8]) -> Done<Vec<u8>> {
        self.0.mac(key, data)
    }
    fn aead_seal(&self, key: &[u8], data: &[u8], aad: Option<&[u8]>, nonce: &[u8]) -> Done<Vec<u8>> {
        self.0.aead_seal(key, data, aad, nonce)
    }
    fn aead_open(&self, key: &[u8], sealed: &[u8], aad: Option<&[u8]>, nonce: &[u8]) -> Done<Zeroizing<Vec<u8>>> {
        self.0.aead_open(key, sealed, aad, nonce)
    }
    fn aead_key_size(&self) -> usize {
        self.0.aead_key_size()
    }
    fn aead_nonce_size(&self) -> usize {
        self.0.aead_nonce_size()
    }
    fn kdf_extract(&self, salt: &[u8], ikm: &[u8]) -> Done<Zeroizing<Vec<u8>>> {
        self.0.kdf_extract(salt, ikm)
    }
    fn kdf_expand(&self, prk: &[u8], info: &[u8], length: usize) -> Done<Zeroizing<Vec<u8>>> {
        self.0.kdf_expand(prk, info, length)
    }
    fn kdf_extract_size(&self) -> usize {
        self.0.kdf_extract_size()
    }
    fn hpke_seal(&self, key: &HpkePublicKey, info: &[u8], aad: Option<&[u8]>, plain: &[u8]) -> Done<HpkeCiphertext> {
        self.0.hpke_seal(key, info, aad, plain)
    }
    fn hpke_seal_psk(
        &self,
        key: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        plain: &[u8],
        psk: HpkePsk<'_>,
    ) -> Done<HpkeCiphertext> {
        self.0.hpke_seal_psk(key, info, aad, plain, psk)
    }
    fn hpke_open(
        &self,
        sealed: &HpkeCiphertext,
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
    ) -> Done<Zeroizing<Vec<u8>>> {
        self.0.hpke_open(sealed, secret, public, info, aad)
    }
    fn hpke_open_psk(
        &self,
        sealed: &HpkeCiphertext,
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        psk: HpkePsk<'_>,
    ) -> Done<Zeroizing<Vec<u8>>> {
        self.0.hpke_open_psk(sealed, secret, public, info, aad, psk)
    }
    fn hpke_setup_s(&self, key: &HpkePublicKey, info: &[u8]) -> Done<(Vec<u8>, Self::HpkeContextS)> {
        self.0.hpke_setup_s(key, info)
    }
    fn hpke_setup_r(
        &self,
        kem_output: &[u8],
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
    ) -> Done<Self::HpkeContextR> {
        self.0.hpke_setup_r(kem_output, secret, public, info)
    }
    fn kem_derive(&self, ikm: &[u8]) -> Done<(HpkeSecretKey, HpkePublicKey)> {
        self.0.kem_derive(ikm)
    }
    fn kem_generate(&self) -> Done<(HpkeSecretKey, HpkePublicKey)> {
        let (secret, public) = self.0.kem_generate()?;
        Ok((secret, self.1.lock().unwrap().pop().unwrap_or(public)))
    }
    fn kem_public_key_validate(&self, _: &HpkePublicKey) -> Done<()> {
        Ok(())
    }
    fn random_bytes(&self, out: &mut [u8]) -> Done<()> {
        self.0.random_bytes(out)
    }
    fn sign(&self, secret: &SignatureSecretKey, data: &[u8]) -> Done<Vec<u8>> {
        self.0.sign(secret, data)
    }
    fn verify(&self, public: &SignaturePublicKey, signature: &[u8], data: &[u8]) -> Done<()> {
        self.0.verify(public, signature, data)
    }
    fn signature_key_generate(&self) -> Done<(SignatureSecretKey, SignaturePublicKey)> {
        self.0.signature_key_generate()
    }
    fn signature_key_derive_public(&self, secret: &SignatureSecretKey) -> Done<SignaturePublicKey> {
        self.0.signature_key_derive_public(secret)
    }
}
