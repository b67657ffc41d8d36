//! The cryptography of the profile: suite 0x0001 alone, without keys of a small order.
//!
//! The crate's only source of randomness is here: `getrandom`, inside `RustCrypto`'s HPKE. `mls-rs` takes none from its
//! caller.

use mls_rs::crypto::{HpkeCiphertext, HpkePsk, HpkePublicKey, HpkeSecretKey, SignaturePublicKey, SignatureSecretKey};
use mls_rs::error::IntoAnyError;
use mls_rs::{CipherSuite, CipherSuiteProvider, CryptoProvider};
use mls_rs_crypto_rustcrypto::{RustCryptoError, RustCryptoProvider};
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
        let inner = RustCryptoProvider::with_enabled_cipher_suites(vec![SUITE]).cipher_suite_provider(suite)?;
        Some(Suite(inner))
    }
}

#[derive(Clone)]
pub(crate) struct Suite(Inner);

type Inner = <RustCryptoProvider as CryptoProvider>::CipherSuiteProvider;
type Done<T> = Result<T, CryptoError>;

fn shares(key: &[u8]) -> Done<()> {
    if is_key(key) { Ok(()) } else { Err(CryptoError::SmallOrder) }
}

impl CipherSuiteProvider for Suite {
    type Error = CryptoError;
    type HpkeContextS = <Inner as CipherSuiteProvider>::HpkeContextS;
    type HpkeContextR = <Inner as CipherSuiteProvider>::HpkeContextR;

    fn cipher_suite(&self) -> CipherSuite {
        self.0.cipher_suite()
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
        shares(key)?;
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
        shares(key)?;
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
        shares(&sealed.kem_output)?;
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
        shares(&sealed.kem_output)?;
        Ok(self.0.hpke_open_psk(sealed, secret, public, info, aad, psk)?)
    }

    fn hpke_setup_s(&self, key: &HpkePublicKey, info: &[u8]) -> Done<(Vec<u8>, Self::HpkeContextS)> {
        shares(key)?;
        Ok(self.0.hpke_setup_s(key, info)?)
    }

    fn hpke_setup_r(
        &self,
        kem_output: &[u8],
        secret: &HpkeSecretKey,
        public: &HpkePublicKey,
        info: &[u8],
    ) -> Done<Self::HpkeContextR> {
        shares(kem_output)?;
        Ok(self.0.hpke_setup_r(kem_output, secret, public, info)?)
    }

    fn kem_derive(&self, ikm: &[u8]) -> Done<(HpkeSecretKey, HpkePublicKey)> {
        Ok(self.0.kem_derive(ikm)?)
    }

    fn kem_generate(&self) -> Done<(HpkeSecretKey, HpkePublicKey)> {
        Ok(self.0.kem_generate()?)
    }

    fn kem_public_key_validate(&self, key: &HpkePublicKey) -> Done<()> {
        shares(key)
    }

    fn random_bytes(&self, out: &mut [u8]) -> Done<()> {
        Ok(self.0.random_bytes(out)?)
    }

    fn sign(&self, secret: &SignatureSecretKey, data: &[u8]) -> Done<Vec<u8>> {
        Ok(self.0.sign(secret, data)?)
    }

    fn verify(&self, public: &SignaturePublicKey, signature: &[u8], data: &[u8]) -> Done<()> {
        Ok(self.0.verify(public, signature, data)?)
    }

    fn signature_key_generate(&self) -> Done<(SignatureSecretKey, SignaturePublicKey)> {
        Ok(self.0.signature_key_generate()?)
    }

    fn signature_key_derive_public(&self, secret: &SignatureSecretKey) -> Done<SignaturePublicKey> {
        Ok(self.0.signature_key_derive_public(secret)?)
    }
}

#[cfg(test)]
mod tests {
    use mls_rs_crypto_rustcrypto::ecdh::Ecdh;

    use super::*;

    #[test]
    fn a_key_of_a_small_order_is_none() {
        use mls_rs_crypto_traits::DhType;
        let ecdh = Ecdh::new(SUITE).unwrap();
        let (secret, public) = ecdh.generate().unwrap();
        assert!(is_key(&public));
        for point in SMALL_ORDER {
            // The proof that the list is right: no secret is shared.
            assert_eq!(ecdh.dh(&secret, &point.to_vec().into()).unwrap(), [0; KEY_BYTES]);
            let mut twin = point;
            twin[KEY_BYTES - 1] |= 0x80;
            assert!(!is_key(&point) && !is_key(&twin));
        }
        assert!(!is_key(&[9; 31]) && !is_key(&[]));
    }
}
