//! Reactions to messages of a channel: how often there is which, in the message's row, and what each member did, in a row of
//! `idempotency`, so that nobody counts twice. They are no entries.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use domain::{Draft, StoredMessage};
use wire::{ConversationId, Emoji, Seq, UserId};

use crate::item::{Item, Reader, VERSION, number, text, version};
use crate::message_append::{AppendOutcome, commit_behind, idempotency_put};
use crate::transaction::{put, update};
use crate::{Error, Store, batch};

/// What these messages' tallies do not have: what the user did. Of those that nobody reacted to there is nothing to read.
pub async fn with_own(store: &Store, user: &UserId, messages: &mut [StoredMessage]) -> Result<(), Error> {
    let table = &store.tables.idempotency;
    let keys: Vec<Item> = messages
        .iter()
        .filter(|message| !message.tally.counts.is_empty())
        .map(|message| key(&message.conversation_id, user, message.place.seq))
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    for item in batch::rows(store, table, keys, true).await? {
        let row = Reader { item: &item, table };
        let (seq, emoji) = (row.seq("seq")?, row.optional("emoji", |row, name| row.parsed(name, Emoji::parse))?);
        if let Some(message) = messages.iter_mut().find(|message| message.place.seq == seq) {
            message.tally.own = emoji;
        }
    }
    Ok(())
}

/// Counts the reaction in the place of the one before, as both were read. `target` has the tally as it was.
pub async fn react(
    store: &Store,
    draft: &Draft,
    target: &StoredMessage,
    emoji: Option<&Emoji>,
) -> Result<AppendOutcome, Error> {
    commit_behind(store, draft, 0, writes(store, draft, target, emoji)).await
}

fn writes(
    store: &Store,
    draft: &Draft,
    target: &StoredMessage,
    emoji: Option<&Emoji>,
) -> Result<Vec<TransactWriteItem>, BuildError> {
    let mut writes = vec![put(idempotency_put(store, draft, &target.place, None))?];
    if target.tally.own.as_ref() != emoji {
        writes.push(update(counts_update(store, target, emoji))?);
        writes.push(put(own_put(store, draft, target, emoji))?);
    }
    Ok(writes)
}

/// One that goes to zero is removed: what is there counts against how many there may be.
fn counts_update(store: &Store, target: &StoredMessage, emoji: Option<&Emoji>) -> UpdateBuilder {
    let counts = &target.tally.counts;
    let mut update = Update::builder()
        .table_name(&store.tables.messages)
        .key("conversation_id", text(target.conversation_id.as_str()))
        .key("seq", number(target.place.seq));
    let mut conditions = vec!["attribute_exists(seq)".to_owned(), "attribute_not_exists(deleted_at)".to_owned()];
    let (mut sets, mut removes) = (vec![], vec![]);
    let own = target.tally.own.as_ref().and_then(|own| Some((own, *counts.get(own)?)));
    if let Some((own, count)) = own {
        update = update.expression_attribute_names("#own", own.as_str()).expression_attribute_values(":one", number(1));
        if count > 1 {
            conditions.push("reaction_counts.#own > :one".to_owned());
            sets.push("reaction_counts.#own = reaction_counts.#own - :one".to_owned());
        } else {
            conditions.push("reaction_counts.#own = :one".to_owned());
            removes.push("reaction_counts.#own".to_owned());
        }
    }
    match emoji {
        Some(emoji) if counts.is_empty() => {
            let first = AttributeValue::M(HashMap::from([(emoji.as_str().to_owned(), number(1))]));
            conditions.push("(attribute_not_exists(reaction_counts) OR size(reaction_counts) = :none)".to_owned());
            sets.push("reaction_counts = :first".to_owned());
            update =
                update.expression_attribute_values(":first", first).expression_attribute_values(":none", number(0));
        }
        Some(emoji) => {
            sets.push("reaction_counts.#new = if_not_exists(reaction_counts.#new, :none) + :one".to_owned());
            conditions.push("attribute_exists(reaction_counts)".to_owned());
            update = update
                .expression_attribute_names("#new", emoji.as_str())
                .expression_attribute_values(":none", number(0))
                .expression_attribute_values(":one", number(1));
        }
        None => {}
    }
    let clause = |word: &str, parts: &[String]| match parts {
        [] => String::new(),
        parts => format!("{word} {} ", parts.join(", ")),
    };
    let expression = clause("SET", &sets) + &clause("REMOVE", &removes);
    update.update_expression(expression.trim_end()).condition_expression(conditions.join(" AND "))
}

fn own_put(store: &Store, draft: &Draft, target: &StoredMessage, emoji: Option<&Emoji>) -> PutBuilder {
    let put = Put::builder()
        .table_name(&store.tables.idempotency)
        .set_item(Some(key(&draft.conversation_id, &draft.sender_id, target.place.seq)))
        .item("seq", number(target.place.seq))
        .item(VERSION, version());
    let put = match emoji {
        Some(emoji) => put.item("emoji", text(emoji.as_str())),
        None => put,
    };
    match &target.tally.own {
        None => put.condition_expression("attribute_not_exists(emoji)"),
        Some(own) => put.condition_expression("emoji = :was").expression_attribute_values(":was", text(own.as_str())),
    }
}

/// With two spaces, which no idempotency key has.
fn key(channel: &ConversationId, user: &UserId, seq: Seq) -> Item {
    Item::from([
        ("conversation_id".to_owned(), text(channel.as_str())),
        ("sender_key".to_owned(), text(format!("{user}  {seq}"))),
    ])
}
