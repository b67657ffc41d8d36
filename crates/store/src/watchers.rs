//! `watchers`: to which connections a channel's entries are posted as they are written. In so many parts, so that neither a crowd that
//! comes at once nor the posts of an entry wait for a single partition, and so that a fan-out that ends in the middle goes on there.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::Select;
use domain::ConnectionId;
use sha2::{Digest as _, Sha256};
use wire::limits::WATCHERS_MAX;
use wire::{ConversationId, Seq, Timestamp, UserId};

use crate::connections::{Connection, KEPT_AFTER_END};
use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::{Error, Store};

/// Parts of a channel's watchers.
pub const PARTS: u8 = 8;
/// Watchers in one of them.
pub const WATCHERS_OF_PART_MAX: usize = WATCHERS_MAX / PARTS as usize;
/// The sort key of the row that says up to which entry a part was told: no connection's id has a space.
const TOLD: &str = " told";

/// A connection over which its user looks at a channel.
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
    /// Everybody in it was told of the entries up to here.
    pub told_seq: Seq,
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

/// Who is in one part. Consistent: who watches before an entry is written is found behind it. One page of rows is far more than there
/// may be.
pub async fn part(store: &Store, channel: &ConversationId, number: u8) -> Result<WatcherPart, Error> {
    let table = &store.tables.watchers;
    let found = query(store, channel, number).send().await.of_call("Query", table)?;
    let mut part = WatcherPart { number, told_seq: Seq::ZERO, watchers: vec![], unreadable: 0 };
    let is_of_here = |item: &&Item| item.get("api").is_none_or(|api| api.as_s() == Ok(&store.api));
    let (told, watchers): (Vec<&Item>, Vec<&Item>) =
        found.items().iter().filter(is_of_here).partition(|item| item.contains_key("told_seq"));
    if let Some(item) = told.first() {
        part.told_seq = Reader { item, table }.seq("told_seq")?;
    }
    (part.watchers, part.unreadable) = readable(watchers.into_iter().map(|item| read(table, item)));
    Ok(part)
}

/// Notes that everybody in a part was told of the entries up to `seq`.
pub async fn told(store: &Store, channel: &ConversationId, part: u8, seq: Seq) -> Result<(), Error> {
    let table = &store.tables.watchers;
    let write = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(channel, part, TOLD)))
        .update_expression("SET told_seq = :seq, v = if_not_exists(v, :v)")
        .condition_expression("attribute_not_exists(told_seq) OR told_seq < :seq")
        .expression_attribute_values(":seq", number(seq))
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

/// The same for a connection at any time.
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
