//! The cryptography of the profile: suite 0x0001 alone, without keys of a small order.
//!
//! X25519 and Ed25519 are used directly. The library's own choice between curves would bring P-256 and P-384 into the
//! WebAssembly. The crate's only source of randomness is `getrandom`. `mls-rs` takes none from its caller.

use ed25519_dalek::{Signature, Signer, SigningKey, Verifier, VerifyingKey};
use mls_rs::crypto::{HpkeCiphertext, HpkePsk, HpkePublicKey, HpkeSecretKey, SignaturePublicKey, SignatureSecretKey};
use mls_rs::error::IntoAnyError;
use mls_rs::{CipherSuite, CipherSuiteProvider, CryptoProvider};
use mls_rs_crypto_hpke::dhkem::DhKem;
use mls_rs_crypto_rustcrypto::aead::Aead;
use mls_rs_crypto_rustcrypto::kdf::Kdf;
use mls_rs_crypto_rustcrypto::{RustCryptoCipherSuite, RustCryptoError};
use mls_rs_crypto_traits::{DhType, KemId, SamplingMethod};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// X25519, AES-128-GCM, SHA-256, Ed25519.
pub(crate) const SUITE: CipherSuite = CipherSuite::CURVE25519_AES128;

/// The bytes of a key of X25519.
pub(crate) const KEY_BYTES: usize = 32;

/// The points of a small order (<https://cr.yp.to/ecdh.html#validate>), with the highest bit 0. A secret shared with such
/// a key is zero, which is no secret.
const SMALL_ORDER: [[u8; KEY_BYTES]; 7] = {
    const fn with(first: u8, middle: u8, last: u8) -> [u8; KEY_BYTES] {
        let mut point = [middle; KEY_BYTES];
        point[0] = first;
        point[KEY_BYTES - 1] = last;
        point
    }
    [
        with(0, 0, 0),
        with(1, 0, 0),
        [
            0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09,
            0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
        ],
        [
            0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44,
            0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
        ],
        with(0xec, 0xff, 0x7f),
        with(0xed, 0xff, 0x7f),
        with(0xee, 0xff, 0x7f),
    ]
};

/// Returns whether the bytes are a key of X25519 that shares secrets.
pub(crate) fn is_key(key: &[u8]) -> bool {
    let Ok(mut point) = <[u8; KEY_BYTES]>::try_from(key) else { return false };
    // X25519 ignores the bit.
    point[KEY_BYTES - 1] &= 0x7f;
    !SMALL_ORDER.contains(&point)
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CryptoError {
    #[error("the key has a small order")]
    SmallOrder,
    #[error("the bytes are no key")]
    Key,
    #[error("the signature is not by the key")]
    Signature,
    #[error("the system has no randomness")]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    RustCrypto(#[from] RustCryptoError),
}

impl IntoAnyError for CryptoError {
    fn into_dyn_error(self) -> Result<Box<dyn std::error::Error + Send + Sync>, Self> {
        Ok(self.into())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Provider;

impl CryptoProvider for Provider {
    type CipherSuiteProvider = Suite;

    fn supported_cipher_suites(&self) -> Vec<CipherSuite> {
        vec![SUITE]
    }

    fn cipher_suite_provider(&self, suite: CipherSuite) -> Option<Suite> {
        if suite != SUITE {
            return None;
        }
        let (kdf, kem) = (Kdf::new(SUITE)?, KemId::new(SUITE)?);
        let kem = DhKem::new(X25519, kdf, kem as u16, kem.n_secret());
        Some(Suite(Inner::new(SUITE, kem, kdf, Aead::new(SUITE)?)?))
    }
}

type Done<T> = Result<T, CryptoError>;

/// The Diffie-Hellman of the suite. A key of a small order shares no secret.
#[derive(Clone, Copy)]
pub(crate) struct X25519;

impl DhType for X25519 {
    type Error = CryptoError;

    fn dh(&self, secret: &HpkeSecretKey, public: &HpkePublicKey) -> Done<Vec<u8>> {
        self.public_key_validate(public)?;
        let public: [u8; KEY_BYTES] = bytes(public)?;
        Ok(x25519(secret)?.diffie_hellman(&PublicKey::from(public)).to_bytes().to_vec())
    }

    fn generate(&self) -> Done<(HpkeSecretKey, HpkePublicKey)> {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *seed)?;
        let secret = HpkeSecretKey::from(seed.to_vec());
        let public = self.to_public(&secret)?;
        Ok((secret, public))
    }

    fn to_public(&self, secret: &HpkeSecretKey) -> Done<HpkePublicKey> {
        Ok(PublicKey::from(&x25519(secret)?).to_bytes().to_vec().into())
    }

    fn bitmask_for_rejection_sampling(&self) -> SamplingMethod {
        SamplingMethod::HpkeWithoutBitmask
    }

    fn secret_key_size(&self) -> usize {
        KEY_BYTES
    }

    fn public_key_size(&self) -> usize {
        KEY_BYTES
    }

    fn public_key_validate(&self, key: &HpkePublicKey) -> Done<()> {
        if is_key(key) { Ok(()) } else { Err(CryptoError::SmallOrder) }
    }
}

fn x25519(secret: &[u8]) -> Done<StaticSecret> {
    Ok(StaticSecret::from(bytes::<KEY_BYTES>(secret)?))
}

fn bytes<const LENGTH: usize>(key: &[u8]) -> Done<[u8; LENGTH]> {
    key.try_into().map_err(|_| CryptoError::Key)
}

#[derive(Clone)]
pub(crate) struct Suite(Inner);

type Inner = RustCryptoCipherSuite<DhKem<X25519, Kdf>, Kdf, Aead>;

impl CipherSuiteProvider for Suite {
    type Error = CryptoError;
    type HpkeContextS = <Inner as CipherSuiteProvider>::HpkeContextS;
    type HpkeContextR = <Inner as CipherSuiteProvider>::HpkeContextR;

    fn cipher_suite(&self) -> CipherSuite {
        SUITE
    }

    fn hash(&self, data: &[u8]) -> Done<Vec<u8>> {
        Ok(self.0.hash(data)?)
    }

    fn mac(&self, key: &[u8], data: &[u8]) -> Done<Vec<u8>> {
        Ok(self.0.mac(key, data)?)
    }

    fn aead_seal(&self, key: &[u8], data: &[u8], aad: Option<&[u8]>, nonce: &[u8]) -> Done<Vec<u8>> {
        Ok(self.0.aead_seal(key, data, aad, nonce)?)
    }

    fn aead_open(&self, key: &[u8], sealed: &[u8], aad: Option<&[u8]>, nonce: &[u8]) -> Done<Zeroizing<Vec<u8>>> {
        Ok(self.0.aead_open(key, sealed, aad, nonce)?)
    }

    fn aead_key_size(&self) -> usize {
        self.0.aead_key_size()
    }

    fn aead_nonce_size(&self) -> usize {
        self.0.aead_nonce_size()
    }

    fn kdf_extract(&self, salt: &[u8], ikm: &[u8]) -> Done<Zeroizing<Vec<u8>>> {
        Ok(self.0.kdf_extract(salt, ikm)?)
    }

    fn kdf_expand(&self, prk: &[u8], info: &[u8], length: usize) -> Done<Zeroizing<Vec<u8>>> {
        Ok(self.0.kdf_expand(prk, info, length)?)
    }

    fn kdf_extract_size(&self) -> usize {
        self.0.kdf_extract_size()
    }

    fn hpke_seal(&self, key: &HpkePublicKey, info: &[u8], aad: Option<&[u8]>, plain: &[u8]) -> Done<HpkeCiphertext> {
        Ok(self.0.hpke_seal(key, info, aad, plain)?)
    }

    fn hpke_seal_psk(
        &self,
        key: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
        plain: &[u8],
        psk: HpkePsk<'_>,
    ) -> Done<HpkeCiphertext> {
        Ok(self.0.hpke_seal_psk(key, info, aad, plain, psk)?)
    }

    fn hpke_open(
        &self,
        sealed: &HpkeCiphertext,
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
        aad: Option<&[u8]>,
    ) -> Done<Zeroizing<Vec<u8>>> {
        Ok(self.0.hpke_open(sealed, secret, public, info, aad)?)
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
        Ok(self.0.hpke_open_psk(sealed, secret, public, info, aad, psk)?)
    }

    fn hpke_setup_s(&self, key: &HpkePublicKey, info: &[u8]) -> Done<(Vec<u8>, Self::HpkeContextS)> {
        Ok(self.0.hpke_setup_s(key, info)?)
    }

    fn hpke_setup_r(
        &self,
        kem_output: &[u8],
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
    ) -> Done<Self::HpkeContextR> {
        Ok(self.0.hpke_setup_r(kem_output, secret, public, info)?)
    }

    fn kem_derive(&self, ikm: &[u8]) -> Done<(HpkeSecretKey, HpkePublicKey)> {
        Ok(self.0.kem_derive(ikm)?)
    }

    fn kem_generate(&self) -> Done<(HpkeSecretKey, HpkePublicKey)> {
        Ok(self.0.kem_generate()?)
    }

    fn kem_public_key_validate(&self, key: &HpkePublicKey) -> Done<()> {
        Ok(self.0.kem_public_key_validate(key)?)
    }

    fn random_bytes(&self, out: &mut [u8]) -> Done<()> {
        Ok(self.0.random_bytes(out)?)
    }

    fn sign(&self, secret: &SignatureSecretKey, data: &[u8]) -> Done<Vec<u8>> {
        Ok(ed25519(secret)?.sign(data).to_bytes().to_vec())
    }

    fn verify(&self, public: &SignaturePublicKey, signature: &[u8], data: &[u8]) -> Done<()> {
        let key = VerifyingKey::from_bytes(&bytes(public)?).map_err(|_| CryptoError::Key)?;
        let signature = Signature::from_slice(signature).map_err(|_| CryptoError::Signature)?;
        key.verify(data, &signature).map_err(|_| CryptoError::Signature)
    }

    fn signature_key_generate(&self) -> Done<(SignatureSecretKey, SignaturePublicKey)> {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *seed)?;
        let key = SigningKey::from_bytes(&seed);
        Ok((key.to_keypair_bytes().to_vec().into(), key.verifying_key().to_bytes().to_vec().into()))
    }

    fn signature_key_derive_public(&self, secret: &SignatureSecretKey) -> Done<SignaturePublicKey> {
        Ok(ed25519(secret)?.verifying_key().to_bytes().to_vec().into())
    }
}

/// Reads the private key and the public key, in one.
fn ed25519(secret: &[u8]) -> Done<SigningKey> {
    SigningKey::from_keypair_bytes(&bytes(secret)?).map_err(|_| CryptoError::Key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_small_order_is_none() {
        let (secret, public) = X25519.generate().unwrap();
        assert!(is_key(&public));
        let of_us = x25519(&secret).unwrap();
        for point in SMALL_ORDER {
            // The proof that the list is right: no secret is shared.
            assert_eq!(of_us.diffie_hellman(&PublicKey::from(point)).to_bytes(), [0; KEY_BYTES]);
            let mut twin = point;
            twin[KEY_BYTES - 1] |= 0x80;
            assert!(!is_key(&point) && !is_key(&twin));
            assert!(X25519.dh(&secret, &point.to_vec().into()).is_err());
        }
        assert!(!is_key(&[9; 31]) && !is_key(&[]));
    }

    /// The library's provider has the same outcomes, key by key.
    #[test]
    fn the_suite_is_as_the_library_has_it() {
        let provider = mls_rs_crypto_rustcrypto::RustCryptoProvider::with_enabled_cipher_suites(vec![SUITE]);
        let (theirs, ours) =
            (provider.cipher_suite_provider(SUITE).unwrap(), Provider.cipher_suite_provider(SUITE).unwrap());
        let (secret, public) = ours.kem_derive(b"seed of 32 bytes, or any other..").unwrap();
        let derived = theirs.kem_derive(b"seed of 32 bytes, or any other..").unwrap();
        assert_eq!((secret.as_ref(), public.as_ref()), (derived.0.as_ref(), derived.1.as_ref()));
        let sealed = ours.hpke_seal(&public, b"info", Some(b"aad"), b"text").unwrap();
        assert_eq!(*theirs.hpke_open(&sealed, &secret, &public, b"info", Some(b"aad")).unwrap(), b"text");
        let sealed = theirs.hpke_seal(&public, b"info", None, b"text").unwrap();
        assert_eq!(*ours.hpke_open(&sealed, &secret, &public, b"info", None).unwrap(), b"text");
        let (secret, public) = ours.signature_key_generate().unwrap();
        assert_eq!(theirs.signature_key_derive_public(&secret).unwrap(), public);
        assert_eq!(ours.signature_key_derive_public(&secret).unwrap(), public);
        let signature = ours.sign(&secret, b"data").unwrap();
        assert_eq!(signature, theirs.sign(&secret, b"data").unwrap());
        theirs.verify(&public, &signature, b"data").unwrap();
        ours.verify(&public, &signature, b"data").unwrap();
        assert!(ours.verify(&public, &signature, b"date").is_err());
    }
}
