//! `messages`: the history. A message is written once, by [`crate::message_append`], and never changed.

use std::ops::RangeInclusive;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::Select;
use domain::{ClientMsgId, ConversationId, Kind, Message, MessageId, Seq, Side, UserId};

use crate::item::{Item, Reader, number, text};
use crate::{Error, Store};

/// Up to `limit` messages on one side of a seq, in order. Consistent: what was answered is in the history.
pub async fn list(
    store: &Store,
    conversation: &ConversationId,
    side: Side,
    limit: usize,
) -> Result<Vec<Message>, Error> {
    let (condition, seq, forward) = match side {
        Side::Newest => ("conversation_id = :conversation", None, false),
        Side::Before(seq) => ("conversation_id = :conversation AND seq < :seq", Some(seq), false),
        Side::After(seq) => ("conversation_id = :conversation AND seq > :seq", Some(seq), true),
    };
    let query = query(store)
        .key_condition_expression(condition)
        .set_expression_attribute_values(Some(values(conversation, seq)))
        .scan_index_forward(forward)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX));
    let table = &store.tables.messages;
    let page = query.send().await.map_err(|error| Error::call("Query", table, &error))?;
    let mut messages: Vec<Message> = page.items().iter().map(|item| read(table, item)).collect::<Result<_, _>>()?;
    if !forward {
        messages.reverse();
    }
    Ok(messages)
}

/// How many messages in the range are not by `user`. Costs a read of the range, whatever it counts.
pub async fn count_by_others(
    store: &Store,
    conversation: &ConversationId,
    range: &RangeInclusive<u64>,
    user: &UserId,
) -> Result<u64, Error> {
    let pages = query(store)
        .key_condition_expression("conversation_id = :conversation AND seq BETWEEN :from AND :to")
        .filter_expression("sender_id <> :user")
        .expression_attribute_values(":conversation", text(conversation.as_str()))
        .expression_attribute_values(":from", number(range.start()))
        .expression_attribute_values(":to", number(range.end()))
        .expression_attribute_values(":user", text(user.as_str()))
        .select(Select::Count)
        .into_paginator()
        .send();
    let table = &store.tables.messages;
    let pages = pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| Error::call("Query", table, &error))?;
    Ok(pages.iter().map(|page| u64::try_from(page.count()).unwrap_or(0)).sum())
}

fn query(store: &Store) -> QueryFluentBuilder {
    store.client.query().table_name(&store.tables.messages).consistent_read(true)
}

fn values(conversation: &ConversationId, seq: Option<Seq>) -> Item {
    let mut values = Item::from([(":conversation".to_owned(), text(conversation.as_str()))]);
    values.extend(seq.map(|seq| (":seq".to_owned(), number(seq))));
    values
}

pub(crate) fn item(message: &Message) -> Item {
    let mut item = Item::from([
        ("conversation_id".to_owned(), text(message.conversation_id.as_str())),
        ("seq".to_owned(), number(message.seq)),
        ("message_id".to_owned(), text(message.message_id.as_str())),
        ("sender_id".to_owned(), text(message.sender_id.as_str())),
        ("kind".to_owned(), text(message.kind.as_str())),
        ("body".to_owned(), text(&message.body)),
        ("sent_at".to_owned(), number(message.sent_at.millis())),
    ]);
    item.extend(message.client_msg_id.as_ref().map(|id| ("client_msg_id".to_owned(), text(id.as_str()))));
    item
}

fn read(table: &str, item: &Item) -> Result<Message, Error> {
    let row = Reader { item, table };
    Ok(Message {
        conversation_id: row.parsed("conversation_id", ConversationId::parse)?,
        seq: row.seq("seq")?,
        message_id: MessageId::stored(row.text("message_id")?),
        sender_id: row.parsed("sender_id", UserId::parse)?,
        kind: row.parsed("kind", |kind| Kind::parse(kind).ok_or(()))?,
        body: row.text("body")?.to_owned(),
        sent_at: row.time("sent_at")?,
        client_msg_id: row.optional("client_msg_id", |row, name| row.parsed(name, ClientMsgId::parse))?,
    })
}
