//! Tokens for anybody: JWTs signed with a key that is made anew at each start. For development only.

use anyhow::{Context as _, anyhow};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::Ed25519KeyPair;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

pub(crate) const AUDIENCE: &str = "pigeonhole";

pub(crate) struct Tokens {
    issuer: String,
    header: Header,
    key: EncodingKey,
    public: Jwk,
}

impl Tokens {
    pub(crate) fn new(issuer: String) -> anyhow::Result<Self> {
        // PKCS#8 version 1: version 2 has the public key in it as well, which jsonwebtoken does not read.
        let document = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(|_| anyhow!("no Ed25519 key"))?;
        let key = EncodingKey::from_ed_der(document.as_ref());
        let key_id = Uuid::new_v4().to_string();
        let mut public = Jwk::from_encoding_key(&key, Algorithm::EdDSA)?;
        public.common.key_id = Some(key_id.clone());
        let header = Header { kid: Some(key_id), ..Header::new(Algorithm::EdDSA) };
        Ok(Self { issuer, header, key, public })
    }

    pub(crate) fn jwks(&self) -> Value {
        json!({ "keys": [self.public] })
    }

    pub(crate) fn issue(&self, user: &str, expires_in_s: u32) -> anyhow::Result<String> {
        let issued_at = OffsetDateTime::now_utc().unix_timestamp();
        let claims = json!({
            "sub": user,
            "iss": self.issuer,
            "aud": AUDIENCE,
            "iat": issued_at,
            "exp": issued_at + i64::from(expires_in_s),
        });
        jsonwebtoken::encode(&self.header, &claims, &self.key).context("the token cannot be signed")
    }
}
