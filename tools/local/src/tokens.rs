//! Tokens for any user: JWTs signed with a key of this server's own.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use time::OffsetDateTime;

pub(crate) const AUDIENCE: &str = "pigeonhole";
/// The audience of services.
pub(crate) const SERVICE_AUDIENCE: &str = "pigeonhole-services";

pub struct Tokens {
    issuer: String,
    audience: String,
    header: Header,
    key: EncodingKey,
    public: Jwk,
}

impl Tokens {
    /// Signed with a key that ends with the process.
    pub(crate) fn new(issuer: String) -> anyhow::Result<Self> {
        Self::signed_with(&new_key()?, issuer, AUDIENCE.to_owned())
    }

    /// Signed with the key in that file, an Ed25519 key as PKCS#8 in DER. If there is no such file, it is made.
    pub fn with_key_file(file: &Path, issuer: String, audience: String) -> anyhow::Result<Self> {
        let key = match fs::read(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let key = new_key()?;
                let mut options = OpenOptions::new();
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let made = options.write(true).create_new(true).open(file);
                made.and_then(|mut made| made.write_all(&key)).map(|()| key)
            }
            read => read,
        };
        let key = key.with_context(|| format!("the key file {}", file.display()))?;
        Self::signed_with(&key, issuer, audience).with_context(|| format!("the key in {}", file.display()))
    }

    fn signed_with(key: &[u8], issuer: String, audience: String) -> anyhow::Result<Self> {
        let key = EncodingKey::from_ed_der(key);
        let mut public = Jwk::from_encoding_key(&key, Algorithm::EdDSA)?;
        let key_id = public.thumbprint(ThumbprintHash::SHA256)?;
        public.common.key_id = Some(key_id.clone());
        let header = Header { kid: Some(key_id), ..Header::new(Algorithm::EdDSA) };
        Ok(Self { issuer, audience, header, key, public })
    }

    /// The key set (RFC 7517) to publish: it has the public key alone.
    pub fn jwks(&self) -> Value {
        json!({ "keys": [self.public] })
    }

    pub fn issue(&self, user: &str, expires_in_s: u32) -> anyhow::Result<String> {
        let issued_at = OffsetDateTime::now_utc().unix_timestamp();
        let claims = json!({
            "sub": user,
            "iss": self.issuer,
            "aud": if user.starts_with('@') { SERVICE_AUDIENCE } else { &self.audience },
            "iat": issued_at,
            "exp": issued_at + i64::from(expires_in_s),
        });
        jsonwebtoken::encode(&self.header, &claims, &self.key).context("the token cannot be signed")
    }
}

fn new_key() -> anyhow::Result<Vec<u8>> {
    // PKCS#8 version 1: version 2 has the public key in it as well, which jsonwebtoken does not read.
    let document = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(|_| anyhow!("no Ed25519 key"))?;
    Ok(document.as_ref().to_vec())
}
