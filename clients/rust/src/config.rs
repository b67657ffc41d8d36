//! Where to connect, as which user, and how long to wait for what.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pigeonhole_core::{Keeper, Keys, Timing, TokenNeed};
use pigeonhole_store::MESSAGES_MAX;

/// The error of a token callback that has no token.
pub type TokenError = Box<dyn StdError + Send + Sync>;

pub(crate) type TokenSource = Arc<dyn Fn(TokenNeed) -> BoxFuture<'static, Result<String, TokenError>> + Send + Sync>;

/// Where to connect, as which user, and what to keep where.
#[non_exhaustive]
pub struct Config {
    /// The WebSocket API, its stage included: `wss://….amazonaws.com/v1`.
    pub url: String,
    /// The user that the tokens are for (their `sub`).
    pub user_id: String,
    /// Sets the device id: 1 to 64 of `A-Za-z0-9_-`, different for each installation. Default: a random id for the life
    /// of this client.
    pub device_id: String,
    /// The file with the data that survives the client. `None`: no data survives.
    pub file: Option<PathBuf>,
    /// Where received messages are kept: in the file, or in the app.
    pub keeper: Keeper,
    /// The number of messages that the store keeps. Beyond it, the client removes old ones that the user has read, but not
    /// the newest 200 of a conversation. A view requests them again. Default: 100,000.
    pub messages_max: usize,
    /// The user's identity for end-to-end encryption. `None`: all messages leave in the clear.
    pub keys: Option<Keys>,
    /// The server's URL for requests over HTTP. `None`: the connections carry all requests.
    pub(crate) http_url: Option<String>,
    /// How long the client waits for what.
    pub timing: Timing,
    pub(crate) token: TokenSource,
}

impl Config {
    /// Creates a configuration. The client calls `token` before it opens each connection; [`TokenNeed`] tells the
    /// callback whether a cached token is enough.
    ///
    /// If the token is a JWT, the client reads two claims. The client replaces the connection before `exp`, and `sub`
    /// must be `user_id` ([`Why::WrongUser`](crate::Why::WrongUser)).
    pub fn new<F, T>(url: impl Into<String>, user_id: impl Into<String>, token: F) -> Self
    where
        F: Fn(TokenNeed) -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, TokenError>> + Send + 'static,
    {
        Self {
            url: url.into(),
            user_id: user_id.into(),
            device_id: uuid::Uuid::new_v4().to_string(),
            file: None,
            keeper: Keeper::App,
            messages_max: MESSAGES_MAX,
            keys: None,
            http_url: None,
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

    /// Keeps messages, chat list, outbox and marks in a message store, for an app with a screen. After a start, the app
    /// has all of them without a network. The client acknowledges a message once the store has it on the disk.
    ///
    /// `path` with `.lock`, `-wal`, `-shm`, `.broken` and `-media` at its end belong to the store. On unix, only the user of the
    /// program may read the messages.
    #[must_use]
    pub fn store(mut self, path: impl Into<PathBuf>) -> Self {
        (self.file, self.keeper) = (Some(path.into()), Keeper::Store);
        self
    }

    /// Keeps the outbox and the marks in a file, and no messages, for a bot. The client acknowledges a message once the
    /// app has [finished](crate::Events) with it. After a crash, an unfinished message comes again.
    #[must_use]
    pub fn outbox(mut self, path: impl Into<PathBuf>) -> Self {
        (self.file, self.keeper) = (Some(path.into()), Keeper::App);
        self
    }

    /// Encrypts direct conversations and new groups from end to end. Needs a [`store`](Self::store), and a
    /// [`device_id`](Self::device_id) that stays the same for the life of the store. The store then keeps all messages,
    /// since no server can return their texts.
    ///
    /// A message to another user or to an encrypted group leaves encrypted or not at all. Groups that were made in the
    /// clear, channels and services stay as they are.
    #[must_use]
    pub fn encrypted(mut self, keys: Keys) -> Self {
        (self.keys, self.messages_max) = (Some(keys), usize::MAX);
        self
    }

    /// Sends requests over HTTP while HTTP works, for a server whose `HttpApi` is on: they cost less. `url` is the stack's
    /// `HttpUrl`. After a failure or 5 s without a reply, the client uses its socket for a minute, then two, up to ten.
    /// Events come by the socket alone.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn http(mut self, url: impl Into<String>) -> Self {
        self.http_url = Some(url.into());
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
        let Self { url, user_id, device_id, file, keeper, messages_max, keys, http_url, timing, .. } = self;
        f.debug_struct("Config")
            .field("url", url)
            .field("user_id", user_id)
            .field("device_id", device_id)
            .field("file", file)
            .field("keeper", keeper)
            .field("messages_max", messages_max)
            .field("keys", keys)
            .field("http_url", http_url)
            .field("timing", timing)
            .finish_non_exhaustive()
    }
}
