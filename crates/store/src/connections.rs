//! `connections`: where is this user? A row per socket, so that a late `$disconnect` of an old socket can't remove a new
//! one. Rows of sockets that nobody closed fall to the TTL, to a 410, or are passed over once expired.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use domain::ConnectionId;
use domain::limits::{CONNECTION_TTL, CONNECTIONS_PER_DEVICE_MAX};
use wire::{ConversationId, DeviceId, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::{Error, Store};

/// A socket that was open when its row was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub id: ConnectionId,
    pub connected_at: Timestamp,
    /// With the token that opened it, and with API Gateway's longest life of a socket. Nothing is posted to it after that.
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
    /// Those that have ended, with their token or by age. Their sockets may still be open.
    pub ended: Vec<Connection>,
    /// Nobody may connect as this user until then.
    pub suspended_until: Option<Timestamp>,
    /// When the user last opened or closed a connection, where that is kept.
    pub last_seen_at: Option<Timestamp>,
    per_user_max: usize,
}

#[derive(Debug)]
pub struct Open {
    pub connection: Connection,
    /// The one that the client named, or the connection's own id.
    pub device: String,
}

impl Connections {
    /// Where frames go: each device at its newest connections, [`CONNECTIONS_PER_DEVICE_MAX`] at most; and nowhere while the user
    /// is suspended.
    pub fn reachable(&self) -> Vec<Connection> {
        let mut of_device = HashMap::<_, usize>::new();
        let within = self.open.iter().take(self.per_user_max).filter(|open| {
            let newer = of_device.entry(&open.device).or_default();
            *newer += 1;
            *newer <= CONNECTIONS_PER_DEVICE_MAX && self.suspended_until.is_none()
        });
        within.map(|open| open.connection.clone()).collect()
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

/// A row outlives its connection for so long, so that whoever lists it can close the socket.
pub(crate) const KEPT_AFTER_END: Duration = Duration::from_mins(10);

/// Which connections a list must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// All. A sender who has committed sees every connection that was written before its owner drained, so one of the two
    /// always finds the message.
    Strong,
    /// All but those of the last instant, perhaps; at half the price.
    Eventual,
}

/// Where `user` is connected, to this API: what is posted to another one's connections would look as if they were gone. One page of
/// rows, which is a thousand times what a user may have.
pub async fn list(store: &Store, user: &UserId, now: Timestamp, freshness: Freshness) -> Result<Connections, Error> {
    let table = &store.tables.connections;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(freshness == Freshness::Strong)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .projection_expression("connection_id, device_id, api, connected_at, ends_at, suspended_until, last_seen_at");
    let found = query.send().await.of_call("Query", table)?;
    let (suspensions, rows): (Vec<_>, Vec<_>) = found.items().iter().partition(|item| is_row(SUSPENSION, item));
    // Where this can't be read, nobody is let in and nothing is posted.
    let suspension = suspensions.first().map(|item| Reader { item, table }.time("suspended_until")).transpose()?;
    let (seen, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|item| is_row(LAST_SEEN, item));
    let (last_seen_at, _) = readable(seen.into_iter().map(|item| Reader { item, table }.time("last_seen_at")));
    let own = rows.into_iter().filter(|item| is_of(&store.api, item));
    let (rows, _) = readable(own.map(|item| read(table, item)));
    let (mut open, ended): (Vec<Open>, Vec<Open>) = rows.into_iter().partition(|row| row.connection.ends_at > now);
    // Of two in the same millisecond everybody takes the same one for the newer: rows come in the order of their ids.
    open.sort_by_key(|row| Reverse(row.connection.connected_at));
    Ok(Connections {
        open,
        ended: ended.into_iter().map(|row| row.connection).collect(),
        suspended_until: suspension.filter(|until| *until > now),
        last_seen_at: last_seen_at.first().copied(),
        per_user_max: store.connections_per_user_max,
    })
}

/// Whether it is the row with this sort key.
fn is_row(key: &str, item: &Item) -> bool {
    item.get("connection_id").and_then(|id| id.as_s().ok()).is_some_and(|id| id == key)
}

/// A row of the version before doesn't say, and is this one's.
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
pub async fn suspended_until(store: &Store, user: &UserId, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let table = &store.tables.connections;
    let get = store
        .client
        .get_item()
        .table_name(table)
        .consistent_read(true)
        .key("user_id", text(user.as_str()))
        .key("connection_id", text(SUSPENSION));
    let got = get.send().await.of_call("GetItem", table)?;
    let until = got.item().map(|item| Reader { item, table }.time("suspended_until")).transpose()?;
    Ok(until.filter(|until| *until > now))
}

/// Nobody may connect as `user` from now on: whoever opens a socket lists this row with the others.
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
        .item("expires_at", number(until.seconds()));
    put.send().await.of_call("PutItem", table)?;
    Ok(())
}

/// They may connect again.
pub async fn unsuspend(store: &Store, user: &UserId) -> Result<(), Error> {
    forget(store, user, &ConnectionId::new(SUSPENSION)).await.map(drop)
}

/// The sort key of the row that says so: no connection's id has a space.
const SUSPENSION: &str = " suspension";

/// Notes that `user` was there now.
pub async fn seen(store: &Store, user: &UserId, now: Timestamp) -> Result<(), Error> {
    let table = &store.tables.connections;
    let put = store
        .client
        .put_item()
        .table_name(table)
        .item("user_id", text(user.as_str()))
        .item("connection_id", text(LAST_SEEN))
        // The version before this one passes over what is of another API.
        .item("api", text(LAST_SEEN))
        .item("last_seen_at", number(now.millis()))
        .item(VERSION, version());
    put.send().await.of_call("PutItem", table)?;
    Ok(())
}

/// The sort key of the row that says so. It never ends.
const LAST_SEEN: &str = " last seen";

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
    let watched = old.get(WATCHING).and_then(|value| value.as_ss().ok()).map(Vec::as_slice).unwrap_or_default();
    Ok(watched.iter().filter_map(|id| ConversationId::parse(id).ok()).collect())
}

/// The channels that a connection watches, so that they are known when it ends.
const WATCHING: &str = "watching";

/// Notes that a connection watches the channel. Not if it is gone, or if it watches so many others.
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
    store
        .client
        .update_item()
        .table_name(&store.tables.connections)
        .key("user_id", text(user.as_str()))
        .key("connection_id", text(connection.as_str()))
        .expression_attribute_values(":watched", watched)
}
