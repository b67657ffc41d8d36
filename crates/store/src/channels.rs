//! Members' rows of channels in `inbox`, and the directory of a channel's members in `members`.
//!
//! The row is the membership: who has none is no member. It is in neither index, and no post writes it but the poster's own. The
//! directory says whose rows to look at; it is written before the row and removed after it, so it can name somebody who is none.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{
    Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, Select, TransactWriteItem, Update,
};
use domain::{ChannelRow, Head, Place, RosterRow};
use futures_util::future::try_join_all;
use wire::{ConversationId, ConversationSettings, Role, Seq, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::inbox::{get_item, key, muted_until, row};
use crate::item::{Item, Reader, VERSION, Value, number, readable, text, version};
use crate::roster::role;
use crate::settings::{self, Set};
use crate::transaction::{delete, put, update};
use crate::{Error, Store, batch, roster};

/// Which row is one of a channel.
const IS_MEMBER: &str = "attribute_exists(read_counted)";
const IS_NONE: &str = "attribute_not_exists(read_counted)";

/// The user's row, if they are a member.
pub async fn get(store: &Store, user: &UserId, channel: &ConversationId) -> Result<Option<ChannelRow>, Error> {
    let item = get_item(store, user, channel.as_str()).await?;
    item.map(|item| read(&store.tables.inbox, &item)).transpose()
}

/// The rows of those of these users who are members, and how many can't be read.
pub async fn get_many(
    store: &Store,
    channel: &ConversationId,
    users: &[UserId],
) -> Result<(Vec<ChannelRow>, u64), Error> {
    let table = &store.tables.inbox;
    let keys = users.iter().map(|user| key(user, channel)).collect();
    let items = batch::rows(store, table, keys, true).await?;
    Ok(readable(items.iter().map(|item| read(table, item))))
}

/// So many of the user's channels, in the order of their ids, behind this one.
#[derive(Debug)]
pub struct Page {
    pub rows: Vec<ChannelRow>,
    pub unreadable: u64,
    /// Behind which the next page begins, if there may be more.
    pub next: Option<ConversationId>,
}

pub async fn list(store: &Store, user: &UserId, limit: usize, behind: Option<&ConversationId>) -> Result<Page, Error> {
    let table = &store.tables.inbox;
    let query = query(store, user)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX))
        .set_exclusive_start_key(behind.map(|channel| key(user, channel)));
    let found = query.send().await.of_call("Query", table)?;
    let (rows, unreadable) = readable(found.items().iter().map(|item| read(table, item)));
    let id = |item: &Item| Reader { item, table }.parsed("conversation_id", ConversationId::parse);
    Ok(Page { rows, unreadable, next: found.last_evaluated_key().map(id).transpose()? })
}

/// How many channels the user is a member of.
pub async fn count(store: &Store, user: &UserId) -> Result<usize, Error> {
    let table = &store.tables.inbox;
    let found = query(store, user).select(Select::Count).send().await.of_call("Query", table)?;
    Ok(usize::try_from(found.count()).unwrap_or_default())
}

fn query(store: &Store, user: &UserId) -> QueryFluentBuilder {
    let query = store.client.query().table_name(&store.tables.inbox).consistent_read(true);
    query
        .key_condition_expression("user_id = :user AND begins_with(conversation_id, :channel)")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":channel", text(ConversationId::CHANNEL_PREFIX))
}

/// Makes the user a member, unless they are one. `false`: somebody is just writing there, who may add them, or not.
pub async fn join(store: &Store, row: &ChannelRow) -> Result<bool, Error> {
    list_members(store, &row.conversation_id, std::slice::from_ref(&row.user_id), row.joined_at).await?;
    let table = &store.tables.inbox;
    let put = store.client.put_item().table_name(table).set_item(Some(row_item(row))).condition_expression(IS_NONE);
    let Err(error) = put.send().await else { return Ok(true) };
    match error.as_service_error() {
        // Another one of the user's devices was faster, or somebody who added them.
        Some(PutItemError::ConditionalCheckFailedException(_)) => Ok(true),
        Some(PutItemError::TransactionConflictException(_)) => Ok(false),
        _ => Err(Error::call("PutItem", table, error)),
    }
}

/// Names these users in the directory: before they are members.
pub async fn list_members(
    store: &Store,
    channel: &ConversationId,
    users: &[UserId],
    joined_at: Timestamp,
) -> Result<(), Error> {
    let table = &store.tables.members;
    let puts = users.iter().map(async |user| {
        let put = store
            .client
            .put_item()
            .table_name(table)
            .set_item(Some(roster::key(channel, user)))
            .item("joined_at", number(joined_at.millis()))
            .item(VERSION, version());
        put.send().await.of_call("PutItem", table)
    });
    try_join_all(puts).await.map(drop)
}

/// Takes somebody out of it who was a member since then, and is no longer.
pub async fn unlist_member(
    store: &Store,
    channel: &ConversationId,
    user: &UserId,
    joined_at: Timestamp,
) -> Result<(), Error> {
    let table = &store.tables.members;
    let delete = store
        .client
        .delete_item()
        .table_name(table)
        .set_key(Some(roster::key(channel, user)))
        .condition_expression("joined_at = :joined")
        .expression_attribute_values(":joined", number(joined_at.millis()));
    let Err(error) = delete.send().await else { return Ok(()) };
    match error.as_service_error() {
        // They are back.
        Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(()),
        _ => Err(Error::call("DeleteItem", table, error)),
    }
}

/// A page of the members, in the order of their ids.
pub async fn members(
    store: &Store,
    channel: &ConversationId,
    limit: usize,
    behind: Option<&UserId>,
) -> Result<roster::Page, Error> {
    let (users, next) = roster::user_ids(store, channel, limit, behind).await?;
    let (mut rows, unreadable) = if users.is_empty() { (vec![], 0) } else { get_many(store, channel, &users).await? };
    rows.sort_by(|one, other| one.user_id.cmp(&other.user_id));
    Ok(roster::Page { members: rows.iter().map(ChannelRow::as_member).collect(), unreadable, next })
}

/// What came of leaving.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    Done(ChannelRow),
    /// They were no member.
    NotMember,
    /// They are the owner, who can't.
    Owner,
    /// Another write was under way.
    Busy,
}

/// Ends a membership, but the owner's.
pub async fn leave(store: &Store, user: &UserId, channel: &ConversationId) -> Result<Left, Error> {
    let is_member = format!("{IS_MEMBER} AND member_role <> :owner");
    end(store, user, channel, |delete| {
        delete.condition_expression(is_member).expression_attribute_values(":owner", text(Role::Owner.as_str()))
    })
    .await
}

/// Ends a membership, the owner's too.
pub async fn leave_as_owner(store: &Store, user: &UserId, channel: &ConversationId) -> Result<Left, Error> {
    end(store, user, channel, |delete| delete.condition_expression(IS_MEMBER)).await
}

async fn end(
    store: &Store,
    user: &UserId,
    channel: &ConversationId,
    conditionally: impl FnOnce(DeleteItemFluentBuilder) -> DeleteItemFluentBuilder,
) -> Result<Left, Error> {
    let table = &store.tables.inbox;
    let delete = store
        .client
        .delete_item()
        .table_name(table)
        .set_key(Some(key(user, channel)))
        .return_values(ReturnValue::AllOld)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let error = match conditionally(delete).send().await {
        Ok(deleted) => return read(table, &deleted.attributes.unwrap_or_default()).map(Left::Done),
        Err(error) => error,
    };
    match error.as_service_error() {
        Some(DeleteItemError::ConditionalCheckFailedException(refused)) => {
            Ok(if refused.item().is_some() { Left::Owner } else { Left::NotMember })
        }
        Some(DeleteItemError::TransactionConflictException(_)) => Ok(Left::Busy),
        _ => Err(Error::call("DeleteItem", table, error)),
    }
}

/// What came of a write of a member's row.
#[derive(Debug, PartialEq, Eq)]
pub enum Marked {
    /// This is the row now, whether it was written or said so before.
    Done(ChannelRow),
    NotMember,
    /// A transaction was writing the row.
    Busy,
}

/// Raises the read mark to `seq`, up to which there are so many messages, unless it stands there or above.
pub async fn mark_read(
    store: &Store,
    user: &UserId,
    channel: &ConversationId,
    seq: Seq,
    counted: u64,
    now: Timestamp,
) -> Result<Marked, Error> {
    let table = &store.tables.inbox;
    let write = row(store, user, channel)
        .update_expression("SET read_seq = :seq, read_counted = :counted, read_at = :now")
        .condition_expression(format!("{IS_MEMBER} AND read_seq < :seq"))
        .expression_attribute_values(":seq", number(seq))
        .expression_attribute_values(":counted", number(counted))
        .expression_attribute_values(":now", number(now.millis()));
    let error = match write.send().await {
        Ok(written) => return read(table, &written.attributes.unwrap_or_default()).map(Marked::Done),
        Err(error) => error,
    };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => match refused.item() {
            Some(item) => read(table, item).map(Marked::Done),
            None => Ok(Marked::NotMember),
        },
        Some(UpdateItemError::TransactionConflictException(_)) => Ok(Marked::Busy),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

/// Sets what is given, in the user's own row. Archived it stays as long as there are no more messages than `counted`.
pub async fn set(
    store: &Store,
    user: &UserId,
    channel: &ConversationId,
    set: &ConversationSettings,
    counted: u64,
) -> Result<Set, Error> {
    let archived = |archived: bool| Value::of(archived.then(|| number(counted)));
    let archived = set.archived.map_or(Value::Left, archived);
    let attributes = [("muted_until", settings::muted_until(set)), ("archived_counted", archived)];
    settings::set_attributes(store, user, channel, IS_MEMBER, attributes).await
}

/// The row of the poster, who has read everything up to the post; if they are a member.
pub(crate) fn own_post_update(store: &Store, head: &Head, user: &UserId) -> UpdateBuilder {
    Update::builder()
        .table_name(&store.tables.inbox)
        .set_key(Some(key(user, &head.conversation_id)))
        .update_expression("SET read_seq = :seq, read_counted = :counted")
        .condition_expression(IS_MEMBER)
        .expression_attribute_values(":seq", number(head.end.seq))
        .expression_attribute_values(":counted", number(head.counted))
}

/// A member's row as it is from an entry on: made, with another role, or gone.
pub(crate) fn row_write(
    store: &Store,
    head: &Head,
    member: &RosterRow,
    place: &Place,
) -> Result<TransactWriteItem, BuildError> {
    let table = &store.tables.inbox;
    let key = key(&member.user_id, &head.conversation_id);
    if member.left_seq.is_some() {
        return delete(Delete::builder().table_name(table).set_key(Some(key)).condition_expression(IS_MEMBER));
    }
    if member.joined_seq == place.seq {
        let row = ChannelRow::added(member, head, place.sent_at);
        return put(Put::builder().table_name(table).set_item(Some(row_item(&row))).condition_expression(IS_NONE));
    }
    update(
        Update::builder()
            .table_name(table)
            .set_key(Some(key))
            .update_expression("SET member_role = :role")
            .condition_expression(IS_MEMBER)
            .expression_attribute_values(":role", text(member.role.as_str())),
    )
}

fn row_item(row: &ChannelRow) -> Item {
    let mut item = key(&row.user_id, &row.conversation_id);
    let attributes = [
        ("member_role", text(row.role.as_str())),
        ("joined_seq", number(row.joined_seq)),
        ("joined_at", number(row.joined_at.millis())),
        ("from_seq", number(row.first_seq)),
        ("read_seq", number(row.read_seq)),
        ("read_counted", number(row.read_counted)),
        (VERSION, version()),
    ];
    item.extend(attributes.map(|(name, value)| (name.to_owned(), value)));
    item
}

fn read(table: &str, item: &Item) -> Result<ChannelRow, Error> {
    let row = Reader { item, table };
    Ok(ChannelRow {
        user_id: row.parsed("user_id", UserId::parse)?,
        conversation_id: row.parsed("conversation_id", ConversationId::parse)?,
        role: role(row.text("member_role")?),
        joined_seq: row.seq("joined_seq")?,
        joined_at: row.time("joined_at")?,
        first_seq: row.seq("from_seq")?,
        read_seq: row.seq("read_seq")?,
        read_counted: row.count("read_counted")?,
        muted_until: muted_until(&row)?,
        archived_counted: row.optional("archived_counted", Reader::count)?,
    })
}
