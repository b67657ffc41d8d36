//! `watchers`: the connections that get a channel's entries. The rows are in several parts, so that neither many new
//! subscribers nor the posts of an entry wait for a single partition. An interrupted fan-out continues at the next
//! part.

use std::time::Duration;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnValue, Select};
use domain::ConnectionId;
use sha2::{Digest as _, Sha256};
use wire::limits::WATCHERS_MAX;
use wire::{ConversationId, Seq, Timestamp, UserId};

use crate::connections::CONNECTION_TTL;
use crate::connections::{Connection, KEPT_AFTER_END};
use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::{Error, Store};

/// Parts of a channel's watchers.
pub const PARTS: u8 = 8;
/// Watchers in one of them.
pub const WATCHERS_OF_PART_MAX: usize = WATCHERS_MAX / PARTS as usize;
/// The sort key of the row with the last entry that a part got: no connection's id has a space.
const TOLD: &str = " told";

/// A connection that subscribes to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watcher {
    pub connection: ConnectionId,
    pub user: UserId,
    /// Entries up to here were there before, and are in the history.
    pub from_seq: Seq,
    /// Nothing is posted later: with the connection.
    pub ends_at: Timestamp,
}

/// A part of them.
#[derive(Debug)]
pub struct WatcherPart {
    pub number: u8,
    /// All connections of the part got the entries up to here.
    pub told_seq: Seq,
    /// When that was.
    pub told_at: Option<Timestamp>,
    pub watchers: Vec<Watcher>,
    pub unreadable: u64,
}

/// Posts what comes after `from_seq` to the connection, from now on and until it ends.
pub async fn put(
    store: &Store,
    channel: &ConversationId,
    user: &UserId,
    connection: &Connection,
    from_seq: Seq,
) -> Result<(), Error> {
    let table = &store.tables.watchers;
    let put = store
        .client
        .put_item()
        .table_name(table)
        .set_item(Some(key(channel, part_of(&connection.id), connection.id.as_str())))
        .item("user_id", text(user.as_str()))
        .item("api", text(&store.api))
        .item("from_seq", number(from_seq))
        .item("ends_at", number(connection.ends_at.millis()))
        .item("expires_at", number(connection.ends_at.plus(KEPT_AFTER_END).seconds()))
        .item(VERSION, version());
    put.send().await.of_call("PutItem", table)?;
    Ok(())
}

/// Posts nothing more to it.
pub async fn remove(store: &Store, channel: &ConversationId, connection: &ConnectionId) -> Result<(), Error> {
    let table = &store.tables.watchers;
    let key = Some(key(channel, part_of(connection), connection.as_str()));
    store.client.delete_item().table_name(table).set_key(key).send().await.of_call("DeleteItem", table)?;
    Ok(())
}

/// Whether the part of this connection has more watchers than it may.
pub async fn is_crowded(
    store: &Store,
    channel: &ConversationId,
    connection: &ConnectionId,
    now: Timestamp,
) -> Result<bool, Error> {
    let table = &store.tables.watchers;
    let query = query(store, channel, part_of(connection))
        .filter_expression("ends_at > :now")
        .expression_attribute_values(":now", number(now.millis()))
        .select(Select::Count);
    let found = query.send().await.of_call("Query", table)?;
    Ok(usize::try_from(found.count()).unwrap_or_default() > WATCHERS_OF_PART_MAX)
}

/// Counts a connection that is turned away since its part is full: how many were in the last `TURNED_AWAY_FOR`, in all
/// parts, about. Each comes back after its next connect, at the latest after a connection's longest life.
pub async fn turned_away(
    store: &Store,
    channel: &ConversationId,
    connection: &ConnectionId,
    now: Timestamp,
) -> Result<u64, Error> {
    let table = &store.tables.watchers;
    let key = Item::from([
        ("channel_part".to_owned(), text(format!("{channel} {} turned away", part_of(connection)))),
        ("connection_id".to_owned(), text(TURNED_AWAY)),
    ]);
    let write = store.client.update_item().table_name(table).set_key(Some(key));
    let ends_at = now.plus(TURNED_AWAY_FOR);
    let end = |write: UpdateItemFluentBuilder| {
        let ends = [(":ends", number(ends_at.millis())), (":expires", number(ends_at.seconds())), (":v", version())];
        let values = ends.into_iter().chain([(":now", number(now.millis())), (":one", number(1))]);
        values.fold(write, |write, (name, value)| write.expression_attribute_values(name, value))
    };
    let go_on = end(write.clone())
        .update_expression(
            "ADD turned_away :one SET ends_at = if_not_exists(ends_at, :ends), \
             expires_at = if_not_exists(expires_at, :expires), v = if_not_exists(v, :v)",
        )
        .condition_expression("attribute_not_exists(ends_at) OR ends_at > :now")
        .return_values(ReturnValue::AllNew);
    let counted = match go_on.send().await {
        Ok(written) => Reader { item: &written.attributes.unwrap_or_default(), table }.count("turned_away")?,
        Err(error) => match error.as_service_error() {
            // The time of the earlier count is over: it begins again. A concurrent second count may be lost.
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => {
                let anew = "SET turned_away = :one, ends_at = :ends, expires_at = :expires, v = :v";
                let begin = end(write).update_expression(anew).condition_expression("ends_at <= :now");
                match begin.send().await.of_call("UpdateItem", table) {
                    Err(error) if !error.is_refused() => return Err(error),
                    _ => 1,
                }
            }
            _ => return Err(Error::call("UpdateItem", table, error)),
        },
    };
    Ok(counted * u64::from(PARTS))
}

/// The sort key of that count, in a partition of its own: who reads those who watch does not read it.
const TURNED_AWAY: &str = " turned away";
const TURNED_AWAY_FOR: Duration = CONNECTION_TTL;

/// Returns the connections of one part. Consistent: a connection that subscribed before an entry was written is in the
/// result. A page of rows has far more room than the maximum.
pub async fn part(store: &Store, channel: &ConversationId, number: u8) -> Result<WatcherPart, Error> {
    let table = &store.tables.watchers;
    let found = query(store, channel, number).send().await.of_call("Query", table)?;
    let mut part = WatcherPart { number, told_seq: Seq::ZERO, told_at: None, watchers: vec![], unreadable: 0 };
    let is_of_here = |item: &&Item| item.get("api").is_none_or(|api| api.as_s() == Ok(&store.api));
    let (told, watchers): (Vec<&Item>, Vec<&Item>) =
        found.items().iter().filter(is_of_here).partition(|item| item.contains_key("told_seq"));
    if let Some(item) = told.first() {
        let row = Reader { item, table };
        part.told_seq = row.seq("told_seq")?;
        // A row of the version before lacks the attribute.
        part.told_at = row.optional("told_at", Reader::time)?;
    }
    (part.watchers, part.unreadable) = readable(watchers.into_iter().map(|item| read(table, item)));
    Ok(part)
}

/// Records that all connections of a part got the entries up to `seq`, now.
pub async fn told(store: &Store, channel: &ConversationId, part: u8, seq: Seq, now: Timestamp) -> Result<(), Error> {
    let table = &store.tables.watchers;
    let write = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(channel, part, TOLD)))
        .update_expression("SET told_seq = :seq, told_at = :now, v = if_not_exists(v, :v)")
        .condition_expression("attribute_not_exists(told_seq) OR told_seq < :seq")
        .expression_attribute_values(":seq", number(seq))
        .expression_attribute_values(":now", number(now.millis()))
        .expression_attribute_values(":v", version());
    let Err(error) = write.send().await else { return Ok(()) };
    match error.as_service_error() {
        // Another one was faster.
        Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

fn query(store: &Store, channel: &ConversationId, part: u8) -> QueryFluentBuilder {
    let query = store.client.query().table_name(&store.tables.watchers).consistent_read(true);
    query
        .key_condition_expression("channel_part = :part")
        .expression_attribute_values(":part", partition(channel, part))
}

fn key(channel: &ConversationId, part: u8, connection: &str) -> Item {
    Item::from([("channel_part".to_owned(), partition(channel, part)), ("connection_id".to_owned(), text(connection))])
}

fn partition(channel: &ConversationId, part: u8) -> aws_sdk_dynamodb::types::AttributeValue {
    text(format!("{channel} {part}"))
}

/// Returns the part of a connection, the same at any time.
fn part_of(connection: &ConnectionId) -> u8 {
    Sha256::digest(connection.as_str()).first().copied().unwrap_or_default() % PARTS
}

fn read(table: &str, item: &Item) -> Result<Watcher, Error> {
    let row = Reader { item, table };
    Ok(Watcher {
        connection: ConnectionId::new(row.text("connection_id")?),
        user: row.parsed("user_id", UserId::parse)?,
        from_seq: row.seq("from_seq")?,
        ends_at: row.time("ends_at")?,
    })
}
