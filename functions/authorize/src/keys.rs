//! The issuer's public keys (RFC 7517), kept between events.

use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, CommonParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use lambda::{Clock, EventLine};
use reqwest::{Client, Url, redirect};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use wire::Timestamp;

/// Maximum age of a withdrawn key, while the issuer serves other keys. While the issuer serves none, known keys stay
/// valid: otherwise its failure would lock out every user.
const KEYS_AGE_MAX: Duration = Duration::from_hours(1);
/// Minimum pause between requests caused by unknown key ids: any client can make up key ids.
const REFRESH_PAUSE: Duration = Duration::from_secs(30);
/// Minimum pause while there are no keys at all. Without it, each retry of many clients would occupy a process until
/// the issuer's timeout, and use up the account's concurrency.
const NO_KEYS_PAUSE: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const FETCH_TIMEOUT: Duration = Duration::from_secs(3);
const KEYS_BYTES_MAX: usize = 256 * 1024;

/// Hosts that sign with the same keys for every account there. Examples are Firebase and Google's sign-in, Google's
/// session cookies and IAP, Apple, Microsoft Entra, Facebook and GitHub's actions. So are other sites whose sign-in any
/// app can offer, or whose builds any account can run. Only issuer and audience show the token's app.
const SHARED_HOSTS: &[&str] = &[
    "www.googleapis.com",
    "identitytoolkit.googleapis.com",
    "www.gstatic.com",
    "appleid.apple.com",
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.partner.microsoftonline.cn",
    "login.windows.net",
    "www.facebook.com",
    "limited.facebook.com",
    "token.actions.githubusercontent.com",
    "gitlab.com",
    "slack.com",
    "id.twitch.tv",
    "www.linkedin.com",
    "discord.com",
    "kauth.kakao.com",
    "api.line.me",
    "api.login.yahoo.com",
    "auth.login.yahoo.co.jp",
    "login.salesforce.com",
    "test.salesforce.com",
    "api.paypal.com",
    "www.paypalobjects.com",
    "identity.xero.com",
    "oauth.platform.intuit.com",
    "api.bitbucket.org",
    "agent.buildkite.com",
    "app.terraform.io",
    "oidc.circleci.com",
    "oidc.vercel.com",
];

/// The keys at a URL.
#[derive(Debug)]
pub struct Keys {
    url: Url,
    client: Client,
    /// Never locked during a request to the issuer.
    cached: Mutex<Cached>,
    /// Locked during a request to the issuer: a single request serves all, and only clients without a key wait for it.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Cached {
    keys: Vec<Key>,
    fetched_at: Option<Timestamp>,
    tried_at: Option<Timestamp>,
}

/// A key and the one algorithm that it may verify. The key decides, never the token: a token that names another algorithm
/// for it is an attack (RFC 8725, section 3.1).
#[derive(Clone, Debug)]
pub(crate) struct Key {
    id: Option<String>,
    pub(crate) algorithm: Algorithm,
    pub(crate) decoding: DecodingKey,
}

/// A key set as served. Its entries are read one by one, so that one that can't be read costs none of the others
/// (RFC 7517, section 5).
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    Url(String),
    /// Without the URL, which may contain a secret.
    #[error("the key set was not served")]
    Http(#[source] reqwest::Error),
    #[error("the key set was not served: {0}")]
    Status(reqwest::StatusCode),
    #[error("the key set is larger than {KEYS_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the key set is not a JWKS")]
    Malformed(#[source] serde_json::Error),
    #[error("the key set has no key that can be used")]
    NoKeys,
    #[error("the key set was not served a moment ago")]
    TriedJustNow,
}

impl Keys {
    /// # Errors
    /// [`FetchError::Url`] for what is no http(s) URL.
    pub fn at(url: &str) -> Result<Self, FetchError> {
        let url = Url::parse(url).map_err(|error| FetchError::Url(error.to_string()))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(FetchError::Url("must begin with https://".to_owned()));
        }
        // Keys come from the URL that the deployer named, and from nowhere that it points to.
        let client = Client::builder().redirect(redirect::Policy::none());
        let client = client.connect_timeout(CONNECT_TIMEOUT).timeout(FETCH_TIMEOUT).build();
        let client = client.map_err(|error| FetchError::Url(error.to_string()))?;
        Ok(Self { url, client, cached: Mutex::default(), turn: Mutex::default() })
    }

    /// Whether strangers can have tokens signed with these keys, for their own apps.
    pub(crate) fn are_shared(&self) -> bool {
        // A dot at the end makes it another name and the same host.
        self.url.host_str().is_some_and(|host| SHARED_HOSTS.contains(&host.trim_end_matches('.')))
    }

    /// Fetches the keys now.
    ///
    /// # Errors
    /// [`FetchError`]; what was cached stays.
    pub async fn refresh(&self, clock: &Clock) -> Result<(), FetchError> {
        let _turn = self.turn.lock().await;
        self.ask(clock).await
    }

    /// The key with this id and algorithm, or, for a token that names no key, the only one for its algorithm.
    pub(crate) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        clock: &Clock,
    ) -> Result<Option<Key>, FetchError> {
        let known = self.cached.lock().await.find(id, algorithm).is_some();
        let turn = if known { self.turn.try_lock().ok() } else { Some(self.turn.lock().await) };
        let due = turn.is_some() && self.cached.lock().await.is_due(id, algorithm, clock.now());
        let asked = if due { self.ask(clock).await } else { Ok(()) };
        let cached = self.cached.lock().await;
        match asked {
            // An issuer that is down for a while must not lock out every user: known keys stay valid.
            _ if cached.fetched_at.is_some() => Ok(cached.find(id, algorithm)),
            Err(error) => Err(error),
            Ok(()) => Err(FetchError::TriedJustNow),
        }
    }

    async fn ask(&self, clock: &Clock) -> Result<(), FetchError> {
        let started = clock.now();
        // With a route and an outcome as in an event's line, so that it counts as one and can have an alarm. An
        // operator can repair the issuer while the cached keys still work, before any user is refused.
        let fetched = self.fetch().await.inspect_err(|error| {
            EventLine::of("", "issuer", started).warn("unreachable", error, "the keys were not fetched");
        });
        let mut cached = self.cached.lock().await;
        // A pause begins when the try has ended: one that waited in vain would otherwise have used it up.
        cached.tried_at = Some(clock.now());
        cached.keys = fetched?;
        cached.fetched_at = Some(started);
        Ok(())
    }

    async fn fetch(&self) -> Result<Vec<Key>, FetchError> {
        let http = |error: reqwest::Error| FetchError::Http(error.without_url());
        let mut response = self.client.get(self.url.clone()).send().await.map_err(http)?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(http)? {
            body.extend_from_slice(&chunk);
            if body.len() > KEYS_BYTES_MAX {
                return Err(FetchError::TooLarge);
            }
        }
        let set: KeySet = serde_json::from_slice(&body).map_err(FetchError::Malformed)?;
        let keys: Vec<Key> = set.keys.iter().filter_map(Key::usable).collect();
        // More often a mistake than the end of all sign-ins, so it takes the place of no good one.
        if keys.is_empty() { Err(FetchError::NoKeys) } else { Ok(keys) }
    }
}

impl Cached {
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Key> {
        let mut fitting = self.keys.iter().filter(|key| key.algorithm == algorithm);
        match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)).cloned(),
            None => fitting.next().filter(|_| fitting.next().is_none()).cloned(),
        }
    }

    /// Reports whether a token with this key needs a request to the issuer first.
    fn is_due(&self, id: Option<&str>, algorithm: Algorithm, now: Timestamp) -> bool {
        let stale = self.fetched_at.is_none_or(|at| now.since(at) >= KEYS_AGE_MAX);
        let pause = if self.fetched_at.is_some() { REFRESH_PAUSE } else { NO_KEYS_PAUSE };
        let may_ask = self.tried_at.is_none_or(|at| now.since(at) >= pause);
        may_ask && (stale || self.find(id, algorithm).is_none())
    }
}

impl Key {
    /// `None` for a key that can't be read, or is for something else, such as encryption or another algorithm; sets hold
    /// those too.
    fn usable(entry: &Value) -> Option<Self> {
        // A private key that every client can fetch signs for every user.
        if entry.get("d").is_some_and(|private| !private.is_null()) {
            return None;
        }
        let jwk = Jwk::deserialize(entry).ok()?;
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => Algorithm::RS256,
            AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => Algorithm::ES256,
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
            _ => return None,
        };
        let named = jwk.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
        let decoding = DecodingKey::from_jwk(&jwk).ok()?;
        (named && for_signatures(&jwk.common)).then(|| Self { id: jwk.common.key_id, algorithm, decoding })
    }
}

fn for_signatures(common: &CommonParameters) -> bool {
    let used = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    used && common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}
