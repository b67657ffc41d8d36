//! The transaction that appends a message: the message, its idempotency row and both members' inbox rows, all or nothing.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{
    CancellationReason, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use domain::limits::IDEMPOTENCY_TTL;
use domain::{Conversation, Marks, Message, MessageId, Seq, Timestamp, UserId};
use sha2::{Digest, Sha256};

use crate::item::{Item, Reader, number, text};
use crate::{Error, Store, messages};

/// A message in the place that follows from the sender's row as it was read.
#[derive(Debug)]
pub struct Append<'a> {
    pub message: &'a Message,
    pub recipient: &'a UserId,
    /// The sender's row before, `None` for the first message. A stale one is caught: every write is conditional on it.
    pub previous: Option<&'a Conversation>,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Appended {
    Stored,
    /// The same `client_msg_id` and body were stored before, as this.
    Duplicate {
        seq: Seq,
        message_id: MessageId,
        sent_at: Timestamp,
    },
    /// The same `client_msg_id` was stored before with another body.
    IdReused,
    /// The place was taken meanwhile, or someone was just taking it. Nothing was written.
    Taken,
}

/// Appends the message, if its place is still free and its idempotency key unused.
pub async fn append(store: &Store, append: &Append<'_>) -> Result<Appended, Error> {
    let Append { message, .. } = append;
    let writes = writes(store, append).map_err(|error| Error::Call {
        operation: "TransactWriteItems",
        table: store.tables.messages.clone(),
        cause: error.to_string(),
    })?;
    match store.client.transact_write_items().set_transact_items(Some(writes)).send().await {
        Ok(_) => Ok(Appended::Stored),
        Err(error) => cancelled(store, message, &error),
    }
}

/// The place of the idempotency row among the writes, and so among the reasons for a cancellation.
const IDEMPOTENCY: usize = 1;

fn writes(store: &Store, append: &Append<'_>) -> Result<Vec<TransactWriteItem>, BuildError> {
    let put = |put: PutBuilder| put.build().map(|put| TransactWriteItem::builder().put(put).build());
    let update =
        |update: UpdateBuilder| update.build().map(|update| TransactWriteItem::builder().update(update).build());
    let message = append.message;
    let mut writes = vec![
        put(message_put(store, message))?,
        put(idempotency_put(store, message))?,
        update(own_row_update(store, append))?,
    ];
    // A note to oneself is one row.
    if message.sender_id != *append.recipient {
        writes.push(update(recipient_row_update(store, append))?);
    }
    Ok(writes)
}

/// Reasons come by position, in the order of the writes. The idempotency row's is looked at first: a retry must get its
/// first answer, whoever else wrote meanwhile.
fn cancelled<R: std::fmt::Debug + 'static>(
    store: &Store,
    message: &Message,
    error: &SdkError<TransactWriteItemsError, R>,
) -> Result<Appended, Error> {
    let failed = || Error::call("TransactWriteItems", &store.tables.messages, error);
    let reasons = match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled.cancellation_reasons(),
        _ => return Err(failed()),
    };
    let is = |reason: &CancellationReason, code: &str| reason.code() == Some(code);
    if let Some(reason) = reasons.get(IDEMPOTENCY).filter(|reason| is(reason, "ConditionalCheckFailed")) {
        return first_answer(store, message, reason.item());
    }
    let lost = |reason| is(reason, "ConditionalCheckFailed") || is(reason, "TransactionConflict");
    if reasons.iter().any(lost) { Ok(Appended::Taken) } else { Err(failed()) }
}

fn first_answer(store: &Store, message: &Message, item: Option<&Item>) -> Result<Appended, Error> {
    let table = &store.tables.idempotency;
    let item = item.ok_or_else(|| Error::Item { table: table.clone(), attribute: "body_hash" })?;
    let row = Reader { item, table };
    if row.text("body_hash")? != body_hash(message) {
        return Ok(Appended::IdReused);
    }
    Ok(Appended::Duplicate {
        seq: row.seq("seq")?,
        message_id: MessageId::stored(row.text("message_id")?),
        sent_at: row.time("sent_at")?,
    })
}

fn message_put(store: &Store, message: &Message) -> PutBuilder {
    Put::builder()
        .table_name(&store.tables.messages)
        .set_item(Some(messages::item(message)))
        .condition_expression("attribute_not_exists(seq)")
}

/// The sort key's parts can hold any printable character, so they are parted by one that they can't hold.
fn idempotency_put(store: &Store, message: &Message) -> PutBuilder {
    let client_msg_id = message.client_msg_id.as_ref().map_or("", |id| id.as_str());
    Put::builder()
        .table_name(&store.tables.idempotency)
        .item("conversation_id", text(message.conversation_id.as_str()))
        .item("sender_key", text(format!("{} {client_msg_id}", message.sender_id)))
        .item("seq", number(message.seq))
        .item("message_id", text(message.message_id.as_str()))
        .item("sent_at", number(message.sent_at.millis()))
        .item("body_hash", text(body_hash(message)))
        .item("expires_at", number(message.sent_at.plus(IDEMPOTENCY_TTL).seconds()))
        .condition_expression("attribute_not_exists(sender_key)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// The sender's watermarks follow only if they stood at the previous message: someone who has not caught up must still
/// be able to drain. One that does not follow is not written at all: an ack or a read may be raising it right now.
fn own_row_update(store: &Store, append: &Append) -> UpdateBuilder {
    let Append { message, recipient, previous } = append;
    let mut expression = format!("{LAST_MESSAGE}, unread = if_not_exists(unread, :none)");
    let stood_at_the_end = |mark: fn(&Marks) -> Seq| previous.is_none_or(|row| mark(&row.marks) == row.last.seq);
    for (attribute, follows) in [
        ("delivered_seq", stood_at_the_end(|marks| marks.delivered_seq)),
        ("read_seq", stood_at_the_end(|marks| marks.read_seq)),
    ] {
        if follows {
            expression = format!("{expression}, {attribute} = :seq");
        }
    }
    last_message_update(store, append, &message.sender_id, recipient).update_expression(expression)
}

fn recipient_row_update(store: &Store, append: &Append) -> UpdateBuilder {
    let Append { message, recipient, .. } = append;
    last_message_update(store, append, recipient, &message.sender_id)
        .update_expression(format!(
            "{LAST_MESSAGE}, unread = if_not_exists(unread, :none) + :one, \
             delivered_seq = if_not_exists(delivered_seq, :none), read_seq = if_not_exists(read_seq, :none), \
             pending_from = if_not_exists(pending_from, :seq), pending_since = if_not_exists(pending_since, :at)"
        ))
        .expression_attribute_values(":one", number(1))
}

const LAST_MESSAGE: &str = "SET peer_id = :peer, last_seq = :seq, last_message_id = :id, last_at = :at, \
                            last_sender_id = :sender, last_kind = :kind, last_preview = :preview, active_at = :active";

/// What both rows have in common, if the conversation still ends where the sender saw it end.
fn last_message_update(store: &Store, append: &Append, owner: &UserId, peer: &UserId) -> UpdateBuilder {
    let Append { message, previous, .. } = append;
    let active_at = Conversation::active_at_after(*previous, message.sent_at);
    let update = Update::builder()
        .table_name(&store.tables.inbox)
        .key("user_id", text(owner.as_str()))
        .key("conversation_id", text(message.conversation_id.as_str()))
        .expression_attribute_values(":peer", text(peer.as_str()))
        .expression_attribute_values(":seq", number(message.seq))
        .expression_attribute_values(":id", text(message.message_id.as_str()))
        .expression_attribute_values(":at", number(message.sent_at.millis()))
        .expression_attribute_values(":sender", text(message.sender_id.as_str()))
        .expression_attribute_values(":kind", text(message.kind.as_str()))
        .expression_attribute_values(":preview", text(message.preview()))
        .expression_attribute_values(":active", number(active_at.millis()))
        .expression_attribute_values(":none", number(0));
    match previous {
        None => update.condition_expression("attribute_not_exists(last_seq)"),
        Some(row) => update
            .condition_expression("last_seq = :previous")
            .expression_attribute_values(":previous", number(row.last.seq)),
    }
}

fn body_hash(message: &Message) -> String {
    let digest = Sha256::new().chain_update(message.kind.as_str()).chain_update([0]).chain_update(&message.body);
    data_encoding::HEXLOWER.encode(&digest.finalize())
}
