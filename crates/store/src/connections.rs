//! `connections`: where is this user? A row per socket, so that a late `$disconnect` of an old socket can't remove a new
//! one. Rows of sockets that nobody closed fall to the TTL, to a 410, or are passed over once expired.

use std::cmp::Reverse;
use std::collections::HashMap;

use domain::ConnectionId;
use domain::limits::{CONNECTION_TTL, CONNECTIONS_PER_DEVICE_MAX};
use wire::{DeviceId, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::{Error, Store};

/// A socket that was open when its row was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub id: ConnectionId,
    pub connected_at: Timestamp,
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
        .item("connected_at", number(connection.connected_at.millis()))
        .item(VERSION, version())
        .item("expires_at", number(connection.connected_at.plus(CONNECTION_TTL).seconds()));
    put.send().await.of_call("PutItem", table)?;
    Ok(())
}

/// Which connections a list must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// All. A sender who has committed sees every connection that was written before its owner drained, so one of the two
    /// always finds the message.
    Strong,
    /// All but those of the last instant, perhaps; at half the price.
    Eventual,
}

/// Where `user` can be reached: each device at its newest connections, [`CONNECTIONS_PER_DEVICE_MAX`] at most.
pub async fn list(
    store: &Store,
    user: &UserId,
    now: Timestamp,
    freshness: Freshness,
) -> Result<Vec<Connection>, Error> {
    let table = &store.tables.connections;
    let pages = store
        .client
        .query()
        .table_name(table)
        .consistent_read(freshness == Freshness::Strong)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .projection_expression("connection_id, device_id, connected_at, expires_at")
        .into_paginator()
        .items()
        .send();
    let items = pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)?;
    let (rows, _) = readable(items.iter().map(|item| read(table, item)));
    // DynamoDB deletes expired rows when it gets to it, hours later.
    let mut open: Vec<Row> = rows.into_iter().filter(|row| row.expires_at > now.seconds()).collect();
    open.sort_by_key(|row| Reverse(row.connection.connected_at));
    let mut of_device = HashMap::<_, usize>::new();
    open.retain(|row| {
        let newer = of_device.entry(row.device).or_default();
        *newer += 1;
        *newer <= CONNECTIONS_PER_DEVICE_MAX
    });
    Ok(open.into_iter().map(|row| row.connection).collect())
}

struct Row<'a> {
    connection: Connection,
    device: &'a str,
    /// Unix seconds.
    expires_at: i64,
}

fn read<'a>(table: &'a str, item: &'a Item) -> Result<Row<'a>, Error> {
    let row = Reader { item, table };
    let connection =
        Connection { id: ConnectionId::new(row.text("connection_id")?), connected_at: row.time("connected_at")? };
    Ok(Row { connection, device: row.text("device_id")?, expires_at: row.number("expires_at")? })
}

/// Removes a connection that is gone. Nothing happens if its row is gone too.
pub async fn forget(store: &Store, user: &UserId, connection: &ConnectionId) -> Result<(), Error> {
    let table = &store.tables.connections;
    let delete = store
        .client
        .delete_item()
        .table_name(table)
        .key("user_id", text(user.as_str()))
        .key("connection_id", text(connection.as_str()));
    delete.send().await.of_call("DeleteItem", table)?;
    Ok(())
}
