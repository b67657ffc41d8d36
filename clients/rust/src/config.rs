//! Where to connect, as which user, and how long to wait for what.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::storage::{MemoryStorage, Storage};

const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Why the app is asked for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenNeed {
    /// For a new connection: a cached token will do.
    Connect,
    /// The server refused the last token with this HTTP status. Get a new one.
    Refused(u16),
    /// The last token has expired, or is about to. Get a new one.
    Expired,
}

/// What a token callback says when it has none.
pub type TokenError = Box<dyn StdError + Send + Sync>;

pub(crate) type TokenSource = Arc<dyn Fn(TokenNeed) -> BoxFuture<'static, Result<String, TokenError>> + Send + Sync>;

/// Where to connect, as which user, and what to keep where.
#[non_exhaustive]
pub struct Config {
    /// The WebSocket API, its stage included: `wss://….amazonaws.com/v1`.
    pub url: String,
    /// The user that the tokens are for (their `sub`).
    pub user_id: String,
    /// 1 to 64 of `A-Za-z0-9_-`, one per installation. A random one for as long as this client lives, unless another is set.
    pub device_id: String,
    /// Where the outbox and the marks are kept. In memory, unless another is set.
    pub storage: Box<dyn Storage>,
    /// How long the client waits for what.
    pub timing: Timing,
    pub(crate) token: TokenSource,
}

impl Config {
    /// `token` is asked for a token before each connection is opened, and is told in [`TokenNeed`] whether a cached one
    /// will do. Where the token is a JWT, its `exp` says when the connection has to be replaced; nothing else in it is read.
    pub fn new<F, T>(url: impl Into<String>, user_id: impl Into<String>, token: F) -> Self
    where
        F: Fn(TokenNeed) -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, TokenError>> + Send + 'static,
    {
        Self {
            url: url.into(),
            user_id: user_id.into(),
            device_id: uuid::Uuid::new_v4().to_string(),
            storage: Box::new(MemoryStorage::default()),
            timing: Timing::default(),
            token: Arc::new(move |need| token(need).boxed()),
        }
    }

    /// With the name of this installation: a new connection with it takes the place of the old one on the server.
    #[must_use]
    pub fn device_id(mut self, device_id: impl Into<String>) -> Self {
        self.device_id = device_id.into();
        self
    }

    /// With an outbox that outlives the process, such as a [`FileStorage`](crate::FileStorage).
    #[must_use]
    pub fn storage(mut self, storage: impl Storage) -> Self {
        self.storage = Box::new(storage);
        self
    }

    /// With other times than the usual ones.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, user_id, device_id, timing, .. } = self;
        f.debug_struct("Config")
            .field("url", url)
            .field("user_id", user_id)
            .field("device_id", device_id)
            .field("timing", timing)
            .finish_non_exhaustive()
    }
}

/// Every time the client waits for. The default is what the protocol asks for; tests wait less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A request without an answer is sent again after this, then after twice as long each time, up to eight times. 5 s.
    pub answer_wait: Duration,
    /// The first retry after an error that may pass waits up to this, each further one up to twice the one before, and at
    /// most `answer_wait`. 200 ms.
    pub retry_first: Duration,
    /// Nothing at all from the server for so long, while it owes an answer: the connection counts as dead. 15 s.
    pub silence_max: Duration,
    /// How often the server is asked whether something is pending. Less than 10 min, when API Gateway ends idle sockets. 5 min.
    pub ping_every: Duration,
    /// The least time between two acknowledgements, and between two reports of having read the same conversation. 1 s.
    pub ack_every: Duration,
    /// How long a message that is out of turn waits for those before it, until `history` is asked for them. 200 ms.
    pub gap_wait: Duration,
    /// How long until it is asked again for what it did not have; each further time up to twice as long. 1 s.
    pub gap_retry: Duration,
    /// The first reconnect waits up to this, each further one up to twice the one before. 500 ms.
    pub reconnect_first: Duration,
    /// No reconnect waits longer, as long as the server is not overloaded. 30 s.
    pub reconnect_max: Duration,
    /// No reconnect waits longer, after the server has answered 429 or 5xx. 5 min.
    pub reconnect_busy_max: Duration,
    /// How long opening a connection may take. 10 s.
    pub dial_wait: Duration,
    /// How long a frame may take to go out. 10 s.
    pub write_wait: Duration,
    /// How long closing a connection may take. 1 s.
    pub close_wait: Duration,
    /// A connection is replaced when it is that old, or a minute before its token ends. API Gateway ends it at 2 h. 1 h 55 min.
    pub lifetime: Duration,
    /// Up to this much earlier, at random, so that devices that have connected at once don't do so again. 55 min.
    pub lifetime_jitter: Duration,
}

impl Timing {
    /// With times as long as "never" cut down to what an [`Instant`](std::time::Instant) can be moved by.
    pub(crate) fn bounded(&self) -> Self {
        let bounded = |wait: Duration| wait.min(NEVER);
        Self {
            answer_wait: bounded(self.answer_wait),
            retry_first: bounded(self.retry_first),
            silence_max: bounded(self.silence_max),
            ping_every: bounded(self.ping_every),
            ack_every: bounded(self.ack_every),
            gap_wait: bounded(self.gap_wait),
            gap_retry: bounded(self.gap_retry),
            reconnect_first: bounded(self.reconnect_first),
            reconnect_max: bounded(self.reconnect_max),
            reconnect_busy_max: bounded(self.reconnect_busy_max),
            dial_wait: bounded(self.dial_wait),
            write_wait: bounded(self.write_wait),
            close_wait: bounded(self.close_wait),
            lifetime: bounded(self.lifetime),
            lifetime_jitter: bounded(self.lifetime_jitter),
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            answer_wait: Duration::from_secs(5),
            retry_first: Duration::from_millis(200),
            silence_max: Duration::from_secs(15),
            ping_every: Duration::from_secs(5 * 60),
            ack_every: Duration::from_secs(1),
            gap_wait: Duration::from_millis(200),
            gap_retry: Duration::from_secs(1),
            reconnect_first: Duration::from_millis(500),
            reconnect_max: Duration::from_secs(30),
            reconnect_busy_max: Duration::from_secs(5 * 60),
            dial_wait: Duration::from_secs(10),
            write_wait: Duration::from_secs(10),
            close_wait: Duration::from_secs(1),
            lifetime: Duration::from_secs(115 * 60),
            lifetime_jitter: Duration::from_secs(55 * 60),
        }
    }
}
