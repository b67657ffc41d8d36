//! `inbox`: a row per user and conversation. It is the membership, the chat-list entry, the unread counter, the
//! watermarks and the pending marker in one, so that one write keeps them true together.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure, Select};
use domain::limits::ACTIVE_AT_STEP;
use domain::{Conversation, ConversationId, Cursor, Kind, LastMessage, Marks, MessageId, Seq, Timestamp, UserId};

use crate::item::{Item, Reader, number, text};
use crate::{Error, Store};

/// Which watermark a client raises. Reading implies having.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Delivered,
    Read,
}

/// What came of a conditional write.
#[derive(Debug, PartialEq, Eq)]
pub enum Update {
    /// Written; this is the row now.
    Done(Conversation),
    /// The condition did not hold, and nothing was written; this is the row, if there is one.
    Refused(Option<Conversation>),
    /// A transaction was writing the row.
    Busy,
}

/// One page of rows, and whether there are more behind it.
#[derive(Debug)]
pub struct Page {
    pub conversations: Vec<Conversation>,
    pub more: bool,
}

/// A user's row for a conversation: `None` means that they are not a member, or that there is none.
pub async fn get(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Option<Conversation>, Error> {
    let table = &store.tables.inbox;
    let get = store
        .client
        .get_item()
        .table_name(table)
        .consistent_read(true)
        .key("user_id", text(user.as_str()))
        .key("conversation_id", text(conversation.as_str()));
    let got = get.send().await.map_err(|error| Error::call("GetItem", table, &error))?;
    got.item().map(|item| read(table, item)).transpose()
}

/// The chat list from its most recently active end, after `cursor`, and only what was active `since`. In the order of the
/// messages' own times within a page, and of `active_at`, which is at most [`ACTIVE_AT_STEP`] older, between pages.
pub async fn recent(
    store: &Store,
    user: &UserId,
    limit: u64,
    cursor: Option<&Cursor>,
    since: Option<Timestamp>,
) -> Result<Page, Error> {
    let table = &store.tables.inbox;
    let start = cursor.map(|cursor| {
        Item::from([
            ("user_id".to_owned(), text(user.as_str())),
            ("conversation_id".to_owned(), text(cursor.conversation_id.as_str())),
            ("active_at".to_owned(), number(cursor.active_at.millis())),
        ])
    });
    let from = since.map_or(0, |since| since.minus(ACTIVE_AT_STEP).millis());
    let query = store
        .client
        .query()
        .table_name(table)
        .index_name("recency")
        .consistent_read(true)
        .select(Select::AllAttributes)
        .key_condition_expression("user_id = :user AND active_at >= :from")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":from", number(from))
        .scan_index_forward(false)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX))
        .set_exclusive_start_key(start);
    let page = query.send().await.map_err(|error| Error::call("Query", table, &error))?;
    let conversations = page.items().iter().map(|item| read(table, item)).collect::<Result<_, _>>()?;
    Ok(Page { conversations, more: page.last_evaluated_key().is_some() })
}

/// Conversations with something that no device of `user` has acknowledged, those that have waited longest first.
/// Consistent: see [`crate::connections::Freshness`].
pub async fn pending(store: &Store, user: &UserId, limit: usize) -> Result<Page, Error> {
    let table = &store.tables.inbox;
    let query = store
        .client
        .query()
        .table_name(table)
        .index_name("pending")
        .consistent_read(true)
        .select(Select::AllAttributes)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .limit(i32::try_from(limit).unwrap_or(i32::MAX));
    let page = query.send().await.map_err(|error| Error::call("Query", table, &error))?;
    let conversations = page.items().iter().map(|item| read(table, item)).collect::<Result<_, _>>()?;
    Ok(Page { conversations, more: page.last_evaluated_key().is_some() })
}

/// Whether anything waits for `user`. Reads one index entry and no row.
pub async fn has_pending(store: &Store, user: &UserId) -> Result<bool, Error> {
    let table = &store.tables.inbox;
    let query = store
        .client
        .query()
        .table_name(table)
        .index_name("pending")
        .consistent_read(true)
        .select(Select::Count)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .limit(1);
    let page = query.send().await.map_err(|error| Error::call("Query", table, &error))?;
    Ok(page.count() > 0)
}

/// Raises a watermark to the conversation's last message, which is what clients do nearly always: one write, nothing read
/// before it. Refused unless `seq` is the last; a watermark that stands there already is written as it is.
pub async fn catch_up(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
    mark: Mark,
) -> Result<Update, Error> {
    let update = match mark {
        Mark::Delivered => "SET delivered_seq = :seq REMOVE pending_from, pending_since",
        Mark::Read => "SET delivered_seq = :seq, read_seq = :seq, unread = :none REMOVE pending_from, pending_since",
    };
    let mut write = row(store, user, conversation)
        .update_expression(update)
        .condition_expression("last_seq = :seq")
        .expression_attribute_values(":seq", number(seq));
    if mark == Mark::Read {
        write = write.expression_attribute_values(":none", number(0));
    }
    outcome(store, write).await
}

/// Writes the marks that follow from `before`, if the row is still as it was. A message, an ack or a read in between
/// would make them wrong: the watermarks could fall, or `unread` lose a message.
pub async fn advance(store: &Store, user: &UserId, before: &Conversation, after: &Marks) -> Result<Update, Error> {
    let update = match after.pending_from {
        Some(_) => "SET delivered_seq = :delivered, read_seq = :read, unread = :unread, pending_from = :pending",
        None => "SET delivered_seq = :delivered, read_seq = :read, unread = :unread REMOVE pending_from, pending_since",
    };
    let mut write = row(store, user, &before.conversation_id)
        .update_expression(update)
        .condition_expression("last_seq = :last AND delivered_seq = :was_delivered AND read_seq = :was_read")
        .expression_attribute_values(":delivered", number(after.delivered_seq))
        .expression_attribute_values(":read", number(after.read_seq))
        .expression_attribute_values(":unread", number(after.unread))
        .expression_attribute_values(":last", number(before.last.seq))
        .expression_attribute_values(":was_delivered", number(before.marks.delivered_seq))
        .expression_attribute_values(":was_read", number(before.marks.read_seq));
    if let Some(from) = after.pending_from {
        write = write.expression_attribute_values(":pending", number(from));
    }
    outcome(store, write).await
}

fn row(store: &Store, user: &UserId, conversation: &ConversationId) -> UpdateItemFluentBuilder {
    store
        .client
        .update_item()
        .table_name(&store.tables.inbox)
        .key("user_id", text(user.as_str()))
        .key("conversation_id", text(conversation.as_str()))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

async fn outcome(store: &Store, write: UpdateItemFluentBuilder) -> Result<Update, Error> {
    let table = &store.tables.inbox;
    let failed = match write.send().await {
        Ok(written) => {
            let item = written.attributes().ok_or(Error::Item { table: table.clone(), attribute: "last_seq" })?;
            return read(table, item).map(Update::Done);
        }
        Err(error) => error,
    };
    match failed.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
            refused.item().map(|item| read(table, item)).transpose().map(Update::Refused)
        }
        Some(UpdateItemError::TransactionConflictException(_)) => Ok(Update::Busy),
        _ => Err(Error::call("UpdateItem", table, &failed)),
    }
}

pub(crate) fn read(table: &str, item: &Item) -> Result<Conversation, Error> {
    let row = Reader { item, table };
    Ok(Conversation {
        conversation_id: row.parsed("conversation_id", ConversationId::parse)?,
        peer_id: row.parsed("peer_id", UserId::parse)?,
        last: LastMessage {
            seq: row.seq("last_seq")?,
            message_id: MessageId::stored(row.text("last_message_id")?),
            sender_id: row.parsed("last_sender_id", UserId::parse)?,
            kind: row.parsed("last_kind", |kind| Kind::parse(kind).ok_or(()))?,
            preview: row.text("last_preview")?.to_owned(),
            sent_at: row.time("last_at")?,
        },
        active_at: row.time("active_at")?,
        marks: Marks {
            delivered_seq: row.seq("delivered_seq")?,
            read_seq: row.seq("read_seq")?,
            unread: row.count("unread")?,
            pending_from: row.optional("pending_from", Reader::seq)?,
        },
    })
}
