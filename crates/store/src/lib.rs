//! The tables: every key, item and expression. One file per table, one for each transaction that spans several.
//!
//! Nothing here decides about permissions. Functions are named noun first: [`inbox::get`], [`connections::forget`]. The
//! SDK retries throttling, timeouts and 5xx. A cancelled transaction or a conflict has no retry there: both are
//! outcomes ([`message_append::AppendOutcome`], [`inbox::Update`]), and the handler decides.

mod batch;
pub mod channel_reactions;
pub mod channels;
pub mod connections;
pub mod devices;
pub mod entry_append;
pub mod epochs;
pub mod erase;
mod error;
pub mod heads;
pub mod inbox;
mod item;
pub mod jobs;
pub mod keys;
pub mod media;
pub mod message_append;
pub mod message_change;
pub mod messages;
pub mod pinned;
pub mod profiles;
mod read_units;
pub mod replays;
pub mod reports;
pub mod roster;
pub mod settings;
pub mod stream;
mod transaction;
mod view;
pub mod views;
pub mod watchers;

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::error_chain;

use error::CallResult as _;
pub use error::{Error, if_readable};
use read_units::ReadUnits;

/// One attempt at one call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// One call with the SDK's own retries.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// The outcome of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Done,
    /// A concurrent write came first, or the row was not as expected: nothing was written.
    Lost,
}

/// The names of the tables, which the deployment chooses.
#[derive(Clone, Debug)]
pub struct Tables {
    pub connections: String,
    pub messages: String,
    pub idempotency: String,
    pub inbox: String,
    pub devices: String,
    pub audit: String,
    pub conversations: String,
    pub members: String,
    pub media: String,
    pub watchers: String,
    pub keys: String,
    pub epochs: String,
}

/// The way to the tables. Cheap to clone; made once per process.
#[derive(Clone, Debug)]
pub struct Store {
    client: Client,
    /// Shared: there are many clones in a process.
    tables: Arc<Tables>,
    api: String,
    connections_per_user_max: usize,
    read_units: ReadUnits,
}

impl Store {
    /// `api`: the API whose connections these are; there may be others on the same tables. `connections_per_user_max`:
    /// how many live connections a user may have.
    pub fn new(client: &Client, tables: Tables, api: impl Into<String>, connections_per_user_max: usize) -> Self {
        let read_units = ReadUnits::default();
        let config = client.config().to_builder().interceptor(read_units.clone()).build();
        let (client, tables) = (Client::from_conf(config), Arc::new(tables));
        Self { client, tables, api: api.into(), connections_per_user_max, read_units }
    }

    /// How many halves of a read unit this process has used.
    pub fn half_read_units(&self) -> u64 {
        self.read_units.halves()
    }

    /// With the tables that the environment names in `CONNECTIONS_TABLE`, `MESSAGES_TABLE`, `IDEMPOTENCY_TABLE`,
    /// `INBOX_TABLE`, `DEVICES_TABLE`, `AUDIT_TABLE`, `CONVERSATIONS_TABLE`, `MEMBERS_TABLE`, `MEDIA_TABLE`,
    /// `WATCHERS_TABLE`, `KEYS_TABLE` and `EPOCHS_TABLE`, and the API in `API_ID`. `connections_per_user_max` as in [`Store::new`], where 0 is no limit.
    ///
    /// # Errors
    /// The error that `env` returns for a missing variable.
    pub fn from_env<E>(
        sdk: &SdkConfig,
        env: impl Fn(&'static str) -> Result<String, E>,
        connections_per_user_max: usize,
    ) -> Result<Self, E> {
        let tables = Tables {
            connections: env("CONNECTIONS_TABLE")?,
            messages: env("MESSAGES_TABLE")?,
            idempotency: env("IDEMPOTENCY_TABLE")?,
            inbox: env("INBOX_TABLE")?,
            devices: env("DEVICES_TABLE")?,
            audit: env("AUDIT_TABLE")?,
            conversations: env("CONVERSATIONS_TABLE")?,
            members: env("MEMBERS_TABLE")?,
            media: env("MEDIA_TABLE")?,
            watchers: env("WATCHERS_TABLE")?,
            keys: env("KEYS_TABLE")?,
            epochs: env("EPOCHS_TABLE")?,
        };
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_TIMEOUT).operation_timeout(CALL_TIMEOUT).build();
        let config = aws_sdk_dynamodb::config::Builder::from(sdk).timeout_config(timeouts).build();
        let per_user_max = if connections_per_user_max == 0 { usize::MAX } else { connections_per_user_max };
        Ok(Self::new(&Client::from_conf(config), tables, env("API_ID")?, per_user_max))
    }
}

/// Opens the connection to DynamoDB by the smallest read, of a missing row, so that the first event after a cold start
/// need not. A failure shows on the first event.
pub async fn warm_up(store: &Store, table: WarmTable) {
    let (table, keys): (_, &[&str]) = match table {
        WarmTable::Connections => (&store.tables.connections, &["user_id", "connection_id"]),
        WarmTable::Inbox => (&store.tables.inbox, &["user_id", "conversation_id"]),
        WarmTable::Devices => (&store.tables.devices, &["user_id", "device_id"]),
        WarmTable::Conversations => (&store.tables.conversations, &["conversation_id"]),
        WarmTable::Media => (&store.tables.media, &["media_id"]),
        WarmTable::Keys => (&store.tables.keys, &["user_id", "key_id"]),
    };
    let key = keys.iter().map(|name| ((*name).to_owned(), AttributeValue::S("-".to_owned()))).collect();
    let read = store.client.get_item().table_name(table).set_key(Some(key));
    if let Err(error) = read.send().await.of_call("GetItem", table) {
        tracing::debug!(error = error_chain(&error), "warm-up failed");
    }
}

/// A table that the function may read with `GetItem`.
#[derive(Clone, Copy, Debug)]
pub enum WarmTable {
    Connections,
    Inbox,
    Devices,
    Conversations,
    Media,
    Keys,
}
