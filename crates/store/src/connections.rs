//! `connections`: a row per socket of a user, so that a late `$disconnect` of an old socket can't remove a new one. The
//! TTL or a 410 removes the row of a socket that was never closed; expired rows are skipped.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, ReturnValue, TransactWriteItem, Update};
use domain::{ConnectionId, Floods, Observers, Origin, window};
use wire::{ConversationId, DeviceId, Timestamp, UserId};

use crate::error::{CallResult as _, written};
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::{Error, Store, Written, transaction};

/// API Gateway ends every socket after 2 hours; the rest is for clocks that differ.
pub const CONNECTION_TTL: Duration = Duration::from_mins(2 * 60 + 5);
/// A device has two sockets while it replaces one. An older one broke without a close. API Gateway accepts frames for
/// it until it notices, up to ten minutes later, and each of them is billed.
pub const CONNECTIONS_PER_DEVICE_MAX: usize = 2;

/// A socket that was open when its row was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub id: ConnectionId,
    pub connected_at: Timestamp,
    /// With the token that opened it, and with API Gateway's longest life of a socket. Nothing is posted to it after
    /// that.
    pub ends_at: Timestamp,
}

impl Connection {
    pub fn new(id: ConnectionId, connected_at: Timestamp, token_expires_at: Timestamp) -> Self {
        Self { id, connected_at, ends_at: connected_at.plus(CONNECTION_TTL).min(token_expires_at) }
    }
}

/// Where a user is connected.
#[derive(Debug)]
pub struct Connections {
    /// Newest first.
    pub open: Vec<Open>,
    /// Connections that have expired, by token or by age. Their sockets may still be open.
    pub ended: Vec<Connection>,
    /// The user can't connect before this time.
    pub suspended_until: Option<Timestamp>,
    /// When the user last opened or closed a connection, where that is kept.
    pub last_seen_at: Option<Timestamp>,
    /// The connections that watch the user's presence.
    pub observers: Observers,
    /// A block exists between the user and another one. The rows of `inbox` have the other user.
    pub has_blocks: bool,
    per_user_max: usize,
}

#[derive(Debug)]
pub struct Open {
    pub connection: Connection,
    /// The one that the client named, or the connection's own id.
    pub device: String,
}

impl Open {
    /// Returns whether a request came from here.
    pub fn is(&self, origin: Option<&Origin>) -> bool {
        origin.is_some_and(|origin| origin.is(&self.connection.id, &self.device))
    }
}

impl Connections {
    /// Where frames go: each device at its newest connections, [`CONNECTIONS_PER_DEVICE_MAX`] at most; and nowhere
    /// while the user is suspended.
    pub fn reachable(&self) -> Vec<&Open> {
        self.within().collect()
    }

    /// Where frames go to this device.
    pub fn reachable_of(&self, device: &DeviceId) -> Vec<Connection> {
        let of_device = self.within().filter(|open| open.device == device.as_str());
        of_device.map(|open| open.connection.clone()).collect()
    }

    fn within(&self) -> impl Iterator<Item = &Open> {
        let mut of_device = HashMap::<_, usize>::new();
        self.open.iter().take(self.per_user_max).filter(move |open| {
            let newer = of_device.entry(&open.device).or_default();
            *newer += 1;
            *newer <= CONNECTIONS_PER_DEVICE_MAX && self.suspended_until.is_none()
        })
    }

    /// The oldest ones, above what a user may have, newest first.
    pub fn over_limit(&self) -> Vec<Connection> {
        self.open.iter().skip(self.per_user_max).map(|open| open.connection.clone()).collect()
    }
}

/// Notes that `user` can be reached at `connection`. `device` where the client named one.
pub async fn put(
    store: &Store,
    user: &UserId,
    connection: &Connection,
    device: Option<&DeviceId>,
) -> Result<(), Error> {
    let table = &store.tables.connections;
    let device = device.map_or(connection.id.as_str(), DeviceId::as_str);
    let put = store
        .client
        .put_item()
        .table_name(table)
        .item("user_id", text(user.as_str()))
        .item("connection_id", text(connection.id.as_str()))
        .item("device_id", text(device))
        .item("api", text(&store.api))
        .item("connected_at", number(connection.connected_at.millis()))
        .item("ends_at", number(connection.ends_at.millis()))
        .item(VERSION, version())
        .item("expires_at", number(connection.ends_at.plus(KEPT_AFTER_END).seconds()));
    put.send().await.of_call("PutItem", table)?;
    Ok(())
}

/// A row outlives its connection by this time, so that a listing can close the socket.
pub(crate) const KEPT_AFTER_END: Duration = Duration::from_mins(10);

/// Which connections a list must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// All. A sender who has committed sees every connection that was written before its owner drained, so one of the
    /// two always finds the message.
    Strong,
    /// All but those of the last instant, perhaps; at half the price.
    Eventual,
}

/// Lists the user's connections to this API: posts to another API's connections would fail as if they were gone. Reads
/// a single page of rows, which is a thousand times the maximum of a user.
pub async fn list(store: &Store, user: &UserId, now: Timestamp, freshness: Freshness) -> Result<Connections, Error> {
    let table = &store.tables.connections;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(freshness == Freshness::Strong)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .projection_expression(
            "connection_id, device_id, api, connected_at, ends_at, suspended_until, last_seen_at, observers",
        );
    let found = query.send().await.of_call("Query", table)?;
    let (suspensions, rows): (Vec<_>, Vec<_>) = found.items().iter().partition(|item| is_row(SUSPENSION, item));
    // If this is unreadable, no connect and no post succeeds.
    let suspension = suspensions.first().map(|item| Reader { item, table }.time("suspended_until")).transpose()?;
    let (seen, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|item| is_row(LAST_SEEN, item));
    let observers = seen.first().map(|item| observers(item)).unwrap_or_default();
    let (last_seen_at, _) = readable(seen.into_iter().map(|item| Reader { item, table }.time("last_seen_at")));
    let (blocks, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|item| is_row(BLOCKS, item));
    let own = rows.into_iter().filter(|item| is_of(&store.api, item));
    let (rows, _) = readable(own.map(|item| read(table, item)));
    let (mut open, ended): (Vec<Open>, Vec<Open>) = rows.into_iter().partition(|row| row.connection.ends_at > now);
    // Every process must pick the same newest connection of a millisecond: rows come in the order
    // of their ids.
    open.sort_by_key(|row| Reverse(row.connection.connected_at));
    Ok(Connections {
        open,
        ended: ended.into_iter().map(|row| row.connection).collect(),
        suspended_until: suspension.filter(|until| *until > now),
        last_seen_at: last_seen_at.first().copied(),
        observers,
        has_blocks: !blocks.is_empty(),
        per_user_max: store.connections_per_user_max,
    })
}

/// Whether it is the row with this sort key.
fn is_row(key: &str, item: &Item) -> bool {
    item.get("connection_id").and_then(|id| id.as_s().ok()).is_some_and(|id| id == key)
}

/// A row of the version before has no API, and belongs to this one.
fn is_of(api: &str, item: &Item) -> bool {
    item.get("api").and_then(|of| of.as_s().ok()).is_none_or(|of| of == api)
}

fn read(table: &str, item: &Item) -> Result<Open, Error> {
    let row = Reader { item, table };
    let connected_at = row.time("connected_at")?;
    // A row of the version before has none: it ends by its age.
    let ends_at = row.optional("ends_at", Reader::time)?.unwrap_or_else(|| connected_at.plus(CONNECTION_TTL));
    let connection = Connection { id: ConnectionId::new(row.text("connection_id")?), connected_at, ends_at };
    Ok(Open { connection, device: row.text("device_id")?.to_owned() })
}

/// Until when `user` may not connect, if they may not now.
pub async fn suspended_until(
    store: &Store,
    user: &UserId,
    now: Timestamp,
    freshness: Freshness,
) -> Result<Option<Timestamp>, Error> {
    let item = suspension(store, user, freshness).await?;
    let table = &store.tables.connections;
    let until = item.map(|item| Reader { item: &item, table }.time("suspended_until")).transpose()?;
    Ok(until.filter(|until| *until > now))
}

/// Suspends the user: each new socket lists this row with the others.
pub async fn suspend(store: &Store, user: &UserId, until: Timestamp) -> Result<(), Error> {
    let table = &store.tables.connections;
    let put = store
        .client
        .put_item()
        .table_name(table)
        .item("user_id", text(user.as_str()))
        .item("connection_id", text(SUSPENSION))
        .item("suspended_until", number(until.millis()))
        .item(VERSION, version())
        .item("expires_at", number(until.seconds()))
        .condition_expression(NOT_BARRED);
    match put.send().await.of_call("PutItem", table) {
        // For longer than any suspension.
        Err(error) if error.is_refused() => Ok(()),
        written => written.map(drop),
    }
}

/// Ends a suspension. `Lost`: the user was erased, and is barred without an end.
pub async fn unsuspend(store: &Store, user: &UserId) -> Result<Written, Error> {
    let table = &store.tables.connections;
    let delete = store
        .client
        .delete_item()
        .table_name(table)
        .key("user_id", text(user.as_str()))
        .key("connection_id", text(SUSPENSION))
        .condition_expression(NOT_BARRED);
    written(delete.send().await.of_call("DeleteItem", table))
}

/// Bars an erased user: a suspension without an end.
pub async fn bar(store: &Store, user: &UserId) -> Result<(), Error> {
    let write = row_of(store, user, SUSPENSION)
        .update_expression("SET suspended_until = :end, barred = :yes, v = if_not_exists(v, :v) REMOVE expires_at")
        .expression_attribute_values(":end", number(NEVER_ENDS_MS))
        .expression_attribute_values(":yes", AttributeValue::Bool(true))
        .expression_attribute_values(":v", version());
    write.send().await.of_call("UpdateItem", &store.tables.connections).map(drop)
}

/// Whether the user was erased.
pub async fn is_barred(store: &Store, user: &UserId) -> Result<bool, Error> {
    let item = suspension(store, user, Freshness::Strong).await?.unwrap_or_default();
    Reader { item: &item, table: &store.tables.connections }.flag("barred")
}

async fn suspension(store: &Store, user: &UserId, freshness: Freshness) -> Result<Option<Item>, Error> {
    let table = &store.tables.connections;
    let get = store
        .client
        .get_item()
        .table_name(table)
        .consistent_read(freshness == Freshness::Strong)
        .key("user_id", text(user.as_str()))
        .key("connection_id", text(SUSPENSION));
    Ok(get.send().await.of_call("GetItem", table)?.item)
}

/// The end of the year 9999, the last that a time can have.
const NEVER_ENDS_MS: i64 = 253_402_300_799_000;
pub(crate) const NOT_BARRED: &str = "attribute_not_exists(barred)";

/// The sort key of the row of a suspension: no connection's id has a space.
const SUSPENSION: &str = " suspension";

/// Notes that `user` was there now. Returns the connections that watch the user.
pub async fn seen(store: &Store, user: &UserId, now: Timestamp) -> Result<Observers, Error> {
    let write = row_of(store, user, LAST_SEEN)
        .return_values(ReturnValue::AllNew)
        .update_expression(format!("SET api = :api, last_seen_at = :now, {VERSION} = if_not_exists({VERSION}, :v)"))
        // The version before this one passes over what is of another API.
        .expression_attribute_values(":api", text(LAST_SEEN))
        .expression_attribute_values(":now", number(now.millis()))
        .expression_attribute_values(":v", version());
    let written = write.send().await.of_call("UpdateItem", &store.tables.connections)?;
    Ok(written.attributes().map(observers).unwrap_or_default())
}

/// Replaces the connections that watch `user`. Returns when the user was last seen then; `None` if another request
/// wrote them meanwhile, or if no time is kept.
pub async fn observe(
    store: &Store,
    user: &UserId,
    before: &Observers,
    after: &Observers,
) -> Result<Option<Timestamp>, Error> {
    let table = &store.tables.connections;
    let write = row_of(store, user, LAST_SEEN)
        .return_values(ReturnValue::AllNew)
        .update_expression("SET observers = :after")
        .expression_attribute_values(":after", text(after.text()));
    let write = if *before == Observers::default() {
        write.condition_expression("attribute_exists(last_seen_at) AND attribute_not_exists(observers)")
    } else {
        write
            .condition_expression("attribute_exists(last_seen_at) AND observers = :before")
            .expression_attribute_values(":before", text(before.text()))
    };
    match write.send().await.of_call("UpdateItem", table) {
        Err(error) if error.is_refused() => Ok(None),
        written => {
            let item = written?.attributes.unwrap_or_default();
            Ok(Some(Reader { item: &item, table }.time("last_seen_at")?))
        }
    }
}

fn observers(item: &Item) -> Observers {
    let text = item.get("observers").and_then(|text| text.as_s().ok());
    text.map(|text| Observers::parse(text)).unwrap_or_default()
}

/// The sort key of the row with the time of the last connect or disconnect, and the connections that watch the user. The
/// row never expires.
const LAST_SEEN: &str = " last seen";

/// The sort key of the row that counts the user's blocks, in either direction. Each listing of the connections reads
/// it.
const BLOCKS: &str = " blocks";

/// In how many blocks `user` is one of the two.
pub async fn blocks(store: &Store, user: &UserId) -> Result<u64, Error> {
    let table = &store.tables.connections;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(blocks_key(user)));
    let got = get.send().await.of_call("GetItem", table)?;
    let count = got.item().map(|item| Reader { item, table }.count("blocks")).transpose()?;
    Ok(count.unwrap_or_default())
}

fn blocks_key(user: &UserId) -> Item {
    Item::from([("user_id".to_owned(), text(user.as_str())), ("connection_id".to_owned(), text(BLOCKS))])
}

/// One more.
pub(crate) fn count_block(store: &Store, user: &UserId) -> Result<TransactWriteItem, BuildError> {
    let update = Update::builder()
        .table_name(&store.tables.connections)
        .set_key(Some(blocks_key(user)))
        // The version before this one passes over what is of another API.
        .update_expression(format!("SET api = :api, {VERSION} = if_not_exists({VERSION}, :v) ADD blocks :one"))
        .expression_attribute_values(":api", text(BLOCKS))
        .expression_attribute_values(":v", version())
        .expression_attribute_values(":one", number(1));
    transaction::update(update)
}

/// Counts one block less than was read. The last one removes the row.
pub(crate) fn uncount_block(store: &Store, user: &UserId, count: u64) -> Result<TransactWriteItem, BuildError> {
    let (table, key) = (&store.tables.connections, Some(blocks_key(user)));
    if count > 1 {
        let update = Update::builder()
            .table_name(table)
            .set_key(key)
            .update_expression("SET blocks = blocks - :one")
            .condition_expression("blocks > :one")
            .expression_attribute_values(":one", number(1));
        return transaction::update(update);
    }
    let delete = Delete::builder()
        .table_name(table)
        .set_key(key)
        .condition_expression("attribute_not_exists(blocks) OR blocks = :one")
        .expression_attribute_values(":one", number(1));
    transaction::delete(delete)
}

/// The samples of a user's requests over all processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// How long those of each window fill their rate.
    pub windows: Vec<(i64, Duration)>,
    pub floods: Floods,
}

/// Adds to the user's samples, in one write, the time for which requests fill the rate. Returns the samples. A retry of
/// the SDK may add twice: a sample too many does no harm.
pub async fn sampled(store: &Store, user: &UserId, filled_for: Duration, now: Timestamp) -> Result<Samples, Error> {
    let table = &store.tables.connections;
    let current = window(now);
    let past = (current - 2 * WINDOWS_KEPT..current - WINDOWS_KEPT).map(of_window).collect::<Vec<_>>().join(", ");
    let write = row_of(store, user, SAMPLES)
        .return_values(ReturnValue::AllNew)
        .update_expression(format!(
            "SET api = :api, v = if_not_exists(v, :v), expires_at = :expires ADD {} :filled REMOVE {past}",
            of_window(current)
        ))
        // The version before this one passes over what is of another API.
        .expression_attribute_values(":api", text(SAMPLES))
        .expression_attribute_values(":v", version())
        .expression_attribute_values(":expires", number(now.plus(SAMPLES_TTL).seconds()))
        .expression_attribute_values(":filled", number(filled_for.as_millis()));
    let item = write.send().await.of_call("UpdateItem", table)?.attributes.unwrap_or_default();
    let samples = samples(table, &item)?;
    // Each that comes after a pause leaves one behind.
    let is_past = |window: &i64| *window < current - WINDOWS_KEPT;
    let past: Vec<i64> = samples.windows.iter().map(|(window, _)| *window).filter(is_past).collect();
    if past.len() > PAST_MAX {
        forget_samples(store, user, &past).await?;
    }
    Ok(samples)
}

fn samples(table: &str, item: &Item) -> Result<Samples, Error> {
    let row = Reader { item, table };
    let window = |(name, value): (&String, &AttributeValue)| {
        let window = name.strip_prefix(OF_WINDOW)?.parse().ok()?;
        let filled_ms = value.as_n().ok()?.parse().ok()?;
        Some((window, Duration::from_millis(filled_ms)))
    };
    let count = row.optional("floods", Reader::count)?.unwrap_or_default();
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let floods = Floods { count, last_at: row.optional("flooded_at", Reader::time)? };
    Ok(Samples { windows: item.iter().filter_map(window).collect(), floods })
}

/// Removes the samples of these windows.
pub async fn forget_samples(store: &Store, user: &UserId, windows: &[i64]) -> Result<(), Error> {
    let table = &store.tables.connections;
    let names = windows.iter().copied().map(of_window).collect::<Vec<_>>().join(", ");
    let write = row_of(store, user, SAMPLES).update_expression(format!("REMOVE {names}"));
    write.send().await.of_call("UpdateItem", table)?;
    Ok(())
}

/// The attribute with the samples of a window, in milliseconds.
fn of_window(window: i64) -> String {
    format!("{OF_WINDOW}{window}")
}

const OF_WINDOW: &str = "at_";
/// Older samples fill no rate any more, unless they were far too many.
const WINDOWS_KEPT: i64 = 8;
/// Windows that may stay behind, so that the row stays below a KiB.
const PAST_MAX: usize = 16;

/// Notes that a user exceeded the request rate. Returns `false` if another process has noted it meanwhile.
pub async fn flooded(
    store: &Store,
    user: &UserId,
    before: Floods,
    after: Floods,
    now: Timestamp,
) -> Result<bool, Error> {
    let table = &store.tables.connections;
    let write = row_of(store, user, SAMPLES)
        .update_expression("SET flooded_at = :now, floods = :floods, expires_at = :expires")
        .expression_attribute_values(":now", number(now.millis()))
        .expression_attribute_values(":floods", number(after.count))
        .expression_attribute_values(":expires", number(now.plus(SAMPLES_TTL).seconds()));
    let write = match before.last_at {
        None => write.condition_expression("attribute_not_exists(flooded_at)"),
        Some(last) => {
            write.condition_expression("flooded_at = :last").expression_attribute_values(":last", number(last.millis()))
        }
    };
    match write.send().await.of_call("UpdateItem", table) {
        Err(error) if error.is_refused() => Ok(false),
        written => written.map(|_| true),
    }
}

/// Suspends as [`suspend`] does, unless the user is suspended for longer: an operator's suspension stays.
pub async fn suspend_for_flood(store: &Store, user: &UserId, until: Timestamp) -> Result<(), Error> {
    let table = &store.tables.connections;
    let write = row_of(store, user, SUSPENSION)
        .update_expression("SET suspended_until = :until, v = if_not_exists(v, :v), expires_at = :expires")
        .condition_expression("attribute_not_exists(suspended_until) OR suspended_until < :until")
        .expression_attribute_values(":until", number(until.millis()))
        .expression_attribute_values(":v", version())
        .expression_attribute_values(":expires", number(until.seconds()));
    match write.send().await.of_call("UpdateItem", table) {
        Err(error) if error.is_refused() => Ok(()),
        written => written.map(drop),
    }
}

/// The sort key of the row that has them.
const SAMPLES: &str = " samples";
/// Lifetime of the samples.
const SAMPLES_TTL: Duration = Duration::from_hours(1);

/// Removes a connection that is gone. Nothing happens if its row is gone too. The channels that it watched.
pub async fn forget(store: &Store, user: &UserId, connection: &ConnectionId) -> Result<Vec<ConversationId>, Error> {
    let table = &store.tables.connections;
    let delete = store
        .client
        .delete_item()
        .table_name(table)
        .key("user_id", text(user.as_str()))
        .key("connection_id", text(connection.as_str()))
        .return_values(ReturnValue::AllOld);
    let old = delete.send().await.of_call("DeleteItem", table)?.attributes.unwrap_or_default();
    Ok(channels(&old))
}

/// The channels that a connection watches, so that they are known when it ends.
const WATCHING: &str = "watching";

/// The channels that each of a user's connections watches.
pub async fn watched(store: &Store, user: &UserId) -> Result<Vec<(ConnectionId, Vec<ConversationId>)>, Error> {
    let table = &store.tables.connections;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .projection_expression("connection_id, watching");
    let found = query.send().await.of_call("Query", table)?;
    let watched = found.items().iter().filter(|item| item.contains_key(WATCHING)).map(|item| {
        let connection = ConnectionId::new(Reader { item, table }.text("connection_id")?);
        Ok((connection, channels(item)))
    });
    watched.collect()
}

fn channels(item: &Item) -> Vec<ConversationId> {
    let watched = item.get(WATCHING).and_then(|value| value.as_ss().ok()).map(Vec::as_slice).unwrap_or_default();
    watched.iter().filter_map(|id| ConversationId::parse(id).ok()).collect()
}

/// Records that a connection subscribes to the channel. Fails if the connection is gone, or has too many subscriptions.
pub async fn watching(
    store: &Store,
    user: &UserId,
    connection: &ConnectionId,
    channel: &ConversationId,
    watched_max: usize,
) -> Result<bool, Error> {
    let table = &store.tables.connections;
    let write = row_update(store, user, connection, channel)
        .update_expression("ADD watching :watched")
        .condition_expression(
            "attribute_exists(connection_id) AND (attribute_not_exists(watching) OR contains(watching, :channel) OR \
             size(watching) < :max)",
        )
        .expression_attribute_values(":channel", text(channel.as_str()))
        .expression_attribute_values(":max", number(watched_max));
    let Err(error) = write.send().await else { return Ok(true) };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(false),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

/// Notes that it does no longer.
pub async fn not_watching(
    store: &Store,
    user: &UserId,
    connection: &ConnectionId,
    channel: &ConversationId,
) -> Result<(), Error> {
    let table = &store.tables.connections;
    let write = row_update(store, user, connection, channel)
        .update_expression("DELETE watching :watched")
        .condition_expression("attribute_exists(watching)");
    let Err(error) = write.send().await else { return Ok(()) };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

fn row_update(
    store: &Store,
    user: &UserId,
    connection: &ConnectionId,
    channel: &ConversationId,
) -> UpdateItemFluentBuilder {
    let watched = AttributeValue::Ss(vec![channel.as_str().to_owned()]);
    row_of(store, user, connection.as_str()).expression_attribute_values(":watched", watched)
}

fn row_of(store: &Store, user: &UserId, key: &str) -> UpdateItemFluentBuilder {
    let write = store.client.update_item().table_name(&store.tables.connections);
    write.key("user_id", text(user.as_str())).key("connection_id", text(key))
}
