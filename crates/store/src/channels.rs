//! Members' rows of channels in `inbox`, and the index of a channel's members in `members`.
//!
//! The row is the membership: a user without a row is no member. Neither index of `inbox` contains it, and a post
//! writes only the poster's own row. The member index lists candidates. Joins write it before the row, and leaves
//! delete it after the row, so it can name a user who is no member.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, Select, TransactWriteItem, Update,
};
use domain::{ChannelRow, Head, Mention, Place, RosterRow};
use futures_util::future::try_join_all;
use wire::{ConversationId, ConversationSettings, MutedUntil, Role, Seq, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::inbox::{MemberRows, get_item, key, member_rows, muted_until, row};
use crate::item::{Item, Reader, VERSION, Value, number, readable, text, version};
use crate::pinned::Pins;
use crate::roster::{restricted_until, role};
use crate::settings::{self, Set};
use crate::transaction::{Outcome, delete, put, update};
use crate::{Error, Store, batch, roster, transaction};

/// Which row is one of a channel.
const IS_MEMBER: &str = "attribute_exists(read_counted)";
const IS_NONE: &str = "attribute_not_exists(read_counted)";
/// Which row of the directory is not of a user whom an admin removed.
const NOT_REMOVED: &str = "attribute_not_exists(removed_seq)";
/// Which of these rows is not of a user who left while an admin had restricted them.
const NOT_RESTRICTED: &str = "attribute_not_exists(restricted_until)";

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
    let items = batch::all(store, table, users.iter().map(|user| key(user, channel)).collect(), true).await?;
    Ok(readable(items.iter().map(|item| read(table, item))))
}

/// The same, where the others don't wait for one who can't be read.
pub async fn find_members(
    store: &Store,
    channel: &ConversationId,
    users: &[UserId],
) -> Result<MemberRows<ChannelRow>, Error> {
    member_rows(store, channel, users, true, |table, item| read(table, item).map(Some)).await
}

/// A page of the user's channels, in the order of their ids.
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

/// How many channels a user is a member of.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Channels that the user joined or created.
    pub own: usize,
    /// Channels to which other users added the user.
    pub added: usize,
}

pub async fn count(store: &Store, user: &UserId) -> Result<Count, Error> {
    let table = &store.tables.inbox;
    let query = query(store, user).select(Select::Count).filter_expression("attribute_exists(is_added)");
    let found = query.send().await.of_call("Query", table)?;
    let [all, added] = [found.scanned_count(), found.count()].map(|count| usize::try_from(count).unwrap_or_default());
    Ok(Count { own: all.saturating_sub(added), added })
}

/// Returns the pinned ones of these channels, in their order, as one page. The user has no row of a channel that they left.
pub async fn pinned(store: &Store, user: &UserId, channels: &[ConversationId]) -> Result<Page, Error> {
    let table = &store.tables.inbox;
    let items = batch::all(store, table, channels.iter().map(|id| key(user, id)).collect(), true).await?;
    let (mut rows, unreadable) = readable(items.iter().map(|item| read(table, item)));
    rows.retain(|row| row.pinned);
    rows.sort_by_key(|row| channels.iter().position(|id| *id == row.conversation_id));
    Ok(Page { rows, unreadable, next: None })
}

fn query(store: &Store, user: &UserId) -> QueryFluentBuilder {
    let query = store.client.query().table_name(&store.tables.inbox).consistent_read(true);
    query
        .key_condition_expression("user_id = :user AND begins_with(conversation_id, :channel)")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":channel", text(ConversationId::CHANNEL_PREFIX))
}

/// The outcome of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The user is a member, now or before.
    Done,
    /// An admin removed them.
    Removed,
    /// The user left while an admin had restricted them until then, and the row lacks that.
    Restricted(MutedUntil),
    /// Another write was under way.
    Busy,
}

/// Makes the user a member and names them in the directory, unless an admin removed them.
pub async fn join(store: &Store, row: &ChannelRow) -> Result<Joined, Error> {
    let listed = Put::builder()
        .table_name(&store.tables.members)
        .set_item(Some(listed_item(&row.conversation_id, &row.user_id, row.joined_at)))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let listed = match row.restricted_until {
        None => listed.condition_expression(format!("{NOT_REMOVED} AND {NOT_RESTRICTED}")),
        Some(until) => listed
            .condition_expression("restricted_until = :until")
            .expression_attribute_values(":until", text(until.to_string())),
    };
    let member =
        Put::builder().table_name(&store.tables.inbox).set_item(Some(row_item(row))).condition_expression(IS_NONE);
    let writes = [put(listed), put(member)].into_iter().collect();
    match transaction::write(store, &store.tables.inbox, writes).await? {
        Outcome::Written => Ok(Joined::Done),
        // Another one of the user's devices was faster, or a member who added them.
        Outcome::Cancelled(cancelled) if cancelled.refused(1).is_some() => Ok(Joined::Done),
        Outcome::Cancelled(cancelled) => {
            let Some(refused) = cancelled.refused(0) else {
                return if cancelled.is_conflict() { Ok(Joined::Busy) } else { Err(cancelled.into()) };
            };
            let item = refused.item().cloned().unwrap_or_default();
            if item.contains_key("removed_seq") {
                return Ok(Joined::Removed);
            }
            let until = restricted_until(&Reader { item: &item, table: &store.tables.members })?;
            Ok(until.filter(|_| row.restricted_until.is_none()).map_or(Joined::Busy, Joined::Restricted))
        }
    }
}

/// Returns those of these users whom an admin removed from the channel.
pub async fn removed(store: &Store, channel: &ConversationId, users: &[UserId]) -> Result<Vec<UserId>, Error> {
    if users.is_empty() {
        return Ok(vec![]);
    }
    let table = &store.tables.members;
    let keys = users.iter().map(|user| roster::key(channel, user)).collect();
    let rows = batch::all(store, table, keys, true).await?;
    let removed = rows.iter().filter(|item| item.contains_key("removed_seq"));
    removed.map(|item| Reader { item, table }.parsed("user_id", UserId::parse)).collect()
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
        let put = store.client.put_item().table_name(table).set_item(Some(listed_item(channel, user, joined_at)));
        put.send().await.of_call("PutItem", table)
    });
    try_join_all(puts).await.map(drop)
}

fn listed_item(channel: &ConversationId, user: &UserId, joined_at: Timestamp) -> Item {
    let mut item = roster::key(channel, user);
    item.extend([("joined_at", number(joined_at.millis())), (VERSION, version())].map(|(k, v)| (k.to_owned(), v)));
    item
}

/// The directory's row of a user whom an admin removes: `join` refuses them until an admin adds them again.
pub(crate) fn removed_put(store: &Store, channel: &ConversationId, user: &UserId, removed: Seq) -> PutBuilder {
    Put::builder()
        .table_name(&store.tables.members)
        .set_item(Some(roster::key(channel, user)))
        .item("removed_seq", number(removed))
        .item(VERSION, version())
}

/// Removes a former member from the index, by the time of the join.
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
        // The user has joined again.
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

/// The outcome of a leave.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    Done(ChannelRow),
    /// The user was no member.
    NotMember,
    /// The user is the owner, who can't leave.
    Owner,
    /// An admin has restricted the user until then, which must outlive the membership.
    Restricted(MutedUntil),
    /// Another write was under way.
    Busy,
}

/// Ends a membership, but the owner's and a restricted member's.
pub async fn leave(store: &Store, user: &UserId, channel: &ConversationId) -> Result<Left, Error> {
    let is_member = format!("{IS_MEMBER} AND member_role <> :owner AND {NOT_RESTRICTED}");
    end(store, user, channel, |delete| {
        delete.condition_expression(is_member).expression_attribute_values(":owner", text(Role::Owner.as_str()))
    })
    .await
}

/// Ends the membership of a user whom an admin has restricted until then. The directory's row stays for a later join.
/// Returns `false` if another write came between.
pub async fn leave_restricted(
    store: &Store,
    user: &UserId,
    channel: &ConversationId,
    until: MutedUntil,
) -> Result<bool, Error> {
    let table = &store.tables.inbox;
    let member = Delete::builder()
        .table_name(table)
        .set_key(Some(key(user, channel)))
        .condition_expression(format!("{IS_MEMBER} AND restricted_until = :until"))
        .expression_attribute_values(":until", text(until.to_string()));
    let kept = Put::builder()
        .table_name(&store.tables.members)
        .set_item(Some(roster::key(channel, user)))
        .item("restricted_until", text(until.to_string()))
        .item(VERSION, version());
    match transaction::write(store, table, [delete(member), put(kept)].into_iter().collect()).await? {
        Outcome::Written => Ok(true),
        Outcome::Cancelled(cancelled) if cancelled.is_lost() => Ok(false),
        Outcome::Cancelled(cancelled) => Err(cancelled.into()),
    }
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
            let Some(item) = refused.item() else { return Ok(Left::NotMember) };
            let row = read(table, item)?;
            Ok(match row.restricted_until {
                Some(until) if row.role != Role::Owner => Left::Restricted(until),
                _ => Left::Owner,
            })
        }
        Some(DeleteItemError::TransactionConflictException(_)) => Ok(Left::Busy),
        _ => Err(Error::call("DeleteItem", table, error)),
    }
}

/// The outcome of a write of a member's row.
#[derive(Debug, PartialEq, Eq)]
pub enum Marked {
    /// The row after this write.
    Raised(ChannelRow),
    /// The mark is at this place or above: the row as it is.
    Unchanged(ChannelRow),
    NotMember,
    /// A transaction was writing the row.
    Busy,
}

/// Raises the read mark to `seq`, with the number of messages up to there, unless it is there or above.
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
        .update_expression(
            "SET read_seq = :seq, read_counted = :counted, read_at = :now REMOVE marked_unread, notified_seq, look",
        )
        .condition_expression(format!("{IS_MEMBER} AND read_seq < :seq"))
        .expression_attribute_values(":seq", number(seq))
        .expression_attribute_values(":counted", number(counted))
        .expression_attribute_values(":now", number(now.millis()));
    let error = match write.send().await {
        Ok(written) => return read(table, &written.attributes.unwrap_or_default()).map(Marked::Raised),
        Err(error) => error,
    };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => match refused.item() {
            Some(item) => read(table, item).map(Marked::Unchanged),
            None => Ok(Marked::NotMember),
        },
        Some(UpdateItemError::TransactionConflictException(_)) => Ok(Marked::Busy),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

/// Takes the member's mark as unread away, by a read that raises nothing.
pub async fn unmark(store: &Store, user: &UserId, channel: &ConversationId) -> Result<Set, Error> {
    let attributes = [("marked_unread", Value::Removed)];
    settings::set_attributes(store, user, channel, IS_MEMBER, attributes, None).await
}

/// Sets these fields in the user's own row. An archived channel stays archived until it has more messages than
/// `counted`.
pub async fn set(
    store: &Store,
    user: &UserId,
    channel: &ConversationId,
    set: &ConversationSettings,
    counted: u64,
    pins: Option<&Pins>,
) -> Result<Set, Error> {
    let archived = |archived: bool| Value::of(archived.then(|| number(counted)));
    let archived = set.archived.map_or(Value::Left, archived);
    let attributes = [
        ("muted_until", settings::muted_until(set)),
        ("archived_counted", archived),
        ("marked_unread", settings::flag(set.unread)),
        ("pinned", settings::flag(set.pinned)),
    ];
    settings::set_attributes(store, user, channel, IS_MEMBER, attributes, pins).await
}

/// The outcome of a mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mentioned {
    Done,
    /// The user is no member, has read the message, or a later one mentions them.
    Passed,
    /// A transaction was writing the row.
    Busy,
}

/// Records in the member's row that a message mentions them, for `notify` and the list of channels.
pub async fn mention(
    store: &Store,
    user: &UserId,
    channel: &ConversationId,
    mention: Mention,
) -> Result<Mentioned, Error> {
    let table = &store.tables.inbox;
    let write = store.client.update_item().table_name(table).set_key(Some(key(user, channel)));
    let write = write
        .update_expression("SET mentioned_seq = :seq, mentioned_at = :at, mentioned_loud = :loud")
        // A user without a row has read nothing, and is no member.
        .condition_expression("read_seq < :seq AND (attribute_not_exists(mentioned_seq) OR mentioned_seq < :seq)")
        .expression_attribute_values(":seq", number(mention.seq))
        .expression_attribute_values(":at", number(mention.at.millis()))
        .expression_attribute_values(":loud", AttributeValue::Bool(mention.is_loud));
    let Err(error) = write.send().await else { return Ok(Mentioned::Done) };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(Mentioned::Passed),
        Some(UpdateItemError::TransactionConflictException(_)) => Ok(Mentioned::Busy),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

/// The row of the poster, who has read everything up to the post; if they are a member.
pub(crate) fn own_post_update(store: &Store, head: &Head, user: &UserId) -> UpdateBuilder {
    Update::builder()
        .table_name(&store.tables.inbox)
        .set_key(Some(key(user, &head.conversation_id)))
        .update_expression("SET read_seq = :seq, read_counted = :counted REMOVE notified_seq, look")
        .condition_expression(IS_MEMBER)
        .expression_attribute_values(":seq", number(head.end.seq))
        .expression_attribute_values(":counted", number(head.counted))
}

/// A member's row as it is from an entry of `by` on: made, with another role, or gone.
pub(crate) fn row_write(
    store: &Store,
    head: &Head,
    member: &RosterRow,
    place: &Place,
    by: &UserId,
) -> Result<TransactWriteItem, BuildError> {
    let table = &store.tables.inbox;
    let key = key(&member.user_id, &head.conversation_id);
    if member.left_seq.is_some() {
        return delete(Delete::builder().table_name(table).set_key(Some(key)).condition_expression(IS_MEMBER));
    }
    if member.joined_seq == place.seq {
        let row = ChannelRow::added(member, head, place.sent_at, by);
        return put(Put::builder().table_name(table).set_item(Some(row_item(&row))).condition_expression(IS_NONE));
    }
    let write = Update::builder()
        .table_name(table)
        .set_key(Some(key))
        .condition_expression(IS_MEMBER)
        .expression_attribute_values(":role", text(member.role.as_str()));
    update(match member.restricted_until {
        None => write.update_expression("SET member_role = :role REMOVE restricted_until"),
        Some(until) => write
            .update_expression("SET member_role = :role, restricted_until = :until")
            .expression_attribute_values(":until", text(until.to_string())),
    })
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
    item.extend(row.restricted_until.map(|until| ("restricted_until".to_owned(), text(until.to_string()))));
    item.extend(row.is_added.then(|| ("is_added".to_owned(), AttributeValue::Bool(true))));
    item
}

fn mention_of(row: &Reader) -> Result<Option<Mention>, Error> {
    let Some(seq) = row.optional("mentioned_seq", Reader::seq)? else { return Ok(None) };
    Ok(Some(Mention { seq, at: row.time("mentioned_at")?, is_loud: row.flag("mentioned_loud")? }))
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
        read_at: row.optional("read_at", Reader::time)?,
        muted_until: muted_until(&row)?,
        archived_counted: row.optional("archived_counted", Reader::count)?,
        marked_unread: row.flag("marked_unread")?,
        pinned: row.flag("pinned")?,
        mention: mention_of(&row)?,
        notified_seq: row.optional("notified_seq", Reader::seq)?,
        is_added: row.flag("is_added")?,
        restricted_until: restricted_until(&row)?,
    })
}
