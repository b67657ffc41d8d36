//! `members`: the members of each group. Permissions depend on these rows; a member's row of `inbox` is only a view of
//! the log. A former member's row remains until the inbox row has the leave.

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::builders::PutBuilder;
use aws_sdk_dynamodb::types::{Delete, Put};
use domain::{Head, RosterRow};
use wire::{ConversationId, MutedUntil, Role, Seq, UserId};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::transaction::{self, Outcome};
use crate::{Error, Store, batch, heads};

/// Rows that one transaction writes in addition to its check of the head.
const RESTORED_AT_ONCE_MAX: usize = 99;

/// The user's row, if they are a member, or were a moment ago.
pub async fn get(store: &Store, conversation: &ConversationId, user: &UserId) -> Result<Option<RosterRow>, Error> {
    let table = &store.tables.members;
    let key = Some(key(conversation, user));
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(key);
    get.send().await.of_call("GetItem", table)?.item().map(|item| read(table, item)).transpose()
}

/// The rows of those of these users who have one.
pub async fn get_many(store: &Store, conversation: &ConversationId, users: &[UserId]) -> Result<Vec<RosterRow>, Error> {
    if users.is_empty() {
        return Ok(vec![]);
    }
    let table = &store.tables.members;
    let keys = users.iter().map(|user| key(conversation, user)).collect();
    batch::all(store, table, keys, true).await?.iter().map(|item| read(table, item)).collect()
}

/// The user's rows in those of these groups that have one. `consistent`: by a consistent read.
pub async fn of_user(
    store: &Store,
    user: &UserId,
    groups: &[ConversationId],
    consistent: bool,
) -> Result<Vec<(ConversationId, RosterRow)>, Error> {
    let table = &store.tables.members;
    let keys = groups.iter().map(|group| key(group, user)).collect();
    let (rows, _) = readable(batch::all(store, table, keys, consistent).await?.iter().map(|item| {
        let group = Reader { item, table }.parsed("conversation_id", ConversationId::parse)?;
        Ok((group, read(table, item)?))
    }));
    Ok(rows)
}

/// Lists all rows, including former members whose inbox row is behind, and counts the unreadable ones. `consistent`: by
/// a consistent read.
pub async fn list(
    store: &Store,
    conversation: &ConversationId,
    consistent: bool,
) -> Result<(Vec<RosterRow>, u64), Error> {
    let table = &store.tables.members;
    let pages = query(store, conversation).consistent_read(consistent).into_paginator().items().send();
    let items = pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)?;
    Ok(readable(items.iter().map(|item| read(table, item))))
}

/// A page of the members, in the order of their ids, behind this one.
#[derive(Debug)]
pub struct Page {
    pub members: Vec<RosterRow>,
    pub unreadable: u64,
    /// Behind whom the next page begins, if there may be more.
    pub next: Option<UserId>,
}

/// Returns a page of the members behind `behind`.
pub async fn page(
    store: &Store,
    conversation: &ConversationId,
    limit: usize,
    behind: Option<&UserId>,
) -> Result<Page, Error> {
    let table = &store.tables.members;
    let start = behind.map(|user| key(conversation, user));
    let query = query(store, conversation)
        .consistent_read(true)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX))
        .set_exclusive_start_key(start);
    let found = query.send().await.of_call("Query", table)?;
    let (mut members, unreadable) = readable(found.items().iter().map(|item| read(table, item)));
    members.retain(RosterRow::is_member);
    let next = found.last_evaluated_key().map(|item| Reader { item, table }.parsed("user_id", UserId::parse));
    Ok(Page { members, unreadable, next: next.transpose()? })
}

/// Returns a page of the user ids behind `behind`, whatever their rows contain. More may follow.
pub(crate) async fn user_ids(
    store: &Store,
    conversation: &ConversationId,
    limit: usize,
    behind: Option<&UserId>,
) -> Result<(Vec<UserId>, Option<UserId>), Error> {
    let table = &store.tables.members;
    let query = query(store, conversation)
        .consistent_read(true)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX))
        .set_exclusive_start_key(behind.map(|user| key(conversation, user)));
    let found = query.send().await.of_call("Query", table)?;
    let id = |item: &Item| Reader { item, table }.parsed("user_id", UserId::parse);
    let next = found.last_evaluated_key().map(id).transpose()?;
    Ok((found.items().iter().map(id).collect::<Result<_, _>>()?, next))
}

fn query(store: &Store, conversation: &ConversationId) -> QueryFluentBuilder {
    let query = store.client.query().table_name(&store.tables.members);
    query
        .key_condition_expression("conversation_id = :conversation")
        .expression_attribute_values(":conversation", text(conversation.as_str()))
}

/// Deletes the row of a former member, unless the user has joined again.
pub async fn settle(store: &Store, conversation: &ConversationId, user: &UserId, left_seq: Seq) -> Result<(), Error> {
    let table = &store.tables.members;
    let delete = store
        .client
        .delete_item()
        .table_name(table)
        .set_key(Some(key(conversation, user)))
        .condition_expression("left_seq = :left")
        .expression_attribute_values(":left", number(left_seq));
    let Err(error) = delete.send().await else { return Ok(()) };
    match error.as_service_error() {
        // Another process has done so, or the user is back; a concurrent write of the row adds the user.
        Some(
            DeleteItemError::ConditionalCheckFailedException(_) | DeleteItemError::TransactionConflictException(_),
        ) => Ok(()),
        _ => Err(Error::call("DeleteItem", table, error)),
    }
}

/// Makes these users' rows what they must be by the log, `None` being no row, if the log still ends there. `false`: it
/// does not, and some may be written.
pub async fn restore(store: &Store, head: &Head, rows: &[(UserId, Option<RosterRow>)]) -> Result<bool, Error> {
    let table = &store.tables.members;
    let conversation = &head.conversation_id;
    for rows in rows.chunks(RESTORED_AT_ONCE_MAX) {
        let writes = rows.iter().map(|(user, row)| match row {
            Some(row) => transaction::put(row_put(store, conversation, row)),
            None => transaction::delete(Delete::builder().table_name(table).set_key(Some(key(conversation, user)))),
        });
        let check = std::iter::once_with(|| transaction::check(heads::head_check(store, head)));
        match transaction::write(store, table, writes.chain(check).collect()).await? {
            Outcome::Written => {}
            Outcome::Cancelled(cancelled) if cancelled.is_lost() => return Ok(false),
            Outcome::Cancelled(cancelled) => return Err(cancelled.into()),
        }
    }
    Ok(true)
}

pub(crate) fn key(conversation: &ConversationId, user: &UserId) -> Item {
    Item::from([
        ("conversation_id".to_owned(), text(conversation.as_str())),
        ("user_id".to_owned(), text(user.as_str())),
    ])
}

/// Returns the write of a row. The write needs no condition: its transaction also has a conditional write of the head.
pub(crate) fn row_put(store: &Store, conversation: &ConversationId, row: &RosterRow) -> PutBuilder {
    let RosterRow { user_id, role, joined_seq, from_seq, left_seq, leaves, restricted_until } = row;
    let put = Put::builder()
        .table_name(&store.tables.members)
        .set_item(Some(key(conversation, user_id)))
        .item("member_role", text(role.as_str()))
        .item("joined_seq", number(joined_seq))
        .item("from_seq", number(from_seq))
        .item(VERSION, version());
    let optional = [
        ("left_seq", left_seq.map(number)),
        ("leaves", (*leaves > 0).then(|| number(leaves))),
        ("restricted_until", restricted_until.map(|until| text(until.to_string()))),
    ];
    optional.into_iter().fold(put, |put, (name, value)| match value {
        None => put,
        Some(value) => put.item(name, value),
    })
}

fn read(table: &str, item: &Item) -> Result<RosterRow, Error> {
    let row = Reader { item, table };
    Ok(RosterRow {
        user_id: row.parsed("user_id", UserId::parse)?,
        role: role(row.text("member_role")?),
        joined_seq: row.seq("joined_seq")?,
        from_seq: row.seq("from_seq")?,
        left_seq: row.optional("left_seq", Reader::seq)?,
        leaves: row.optional("leaves", Reader::count)?.unwrap_or_default(),
        restricted_until: restricted_until(&row)?,
    })
}

/// A later version may know other ways to restrict: this one then takes the member for restricted.
pub(crate) fn restricted_until(row: &Reader) -> Result<Option<MutedUntil>, Error> {
    let text = row.optional("restricted_until", Reader::text)?;
    Ok(text.map(|text| MutedUntil::parse(text).unwrap_or(MutedUntil::Forever)))
}

/// A role of a later version may do at least as much as a member.
pub(crate) fn role(text: &str) -> Role {
    match text {
        "none" => Role::None,
        text => Role::parse(text).unwrap_or(Role::Member),
    }
}
