//! Reactions to messages of a channel. The message's row has the count of each emoji. A row of `idempotency` has each
//! member's reaction, so that it counts once. Reactions are no entries.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use domain::{Draft, Entry, MessageEntry};
use wire::{ConversationId, Emoji, Seq, UserId};

use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::message_append::{AppendOutcome, commit_behind, idempotency_put};
use crate::transaction::{put, update};
use crate::{Error, Store, batch};

/// Adds the user's own reactions to these messages' counts. A message without reactions needs no read. Returns the
/// number of the user's reactions that this version can't read; a count skips them.
pub async fn with_own(store: &Store, user: &UserId, entries: &mut [Entry]) -> Result<u64, Error> {
    let table = &store.tables.idempotency;
    let keys: Vec<Item> = entries
        .iter()
        .filter_map(Entry::message)
        .filter(|target| !target.message.tally.counts.is_empty())
        .map(|target| key(&target.entry.conversation_id, user, target.entry.place.seq))
        .collect();
    if keys.is_empty() {
        return Ok(0);
    }
    let items = batch::all(store, table, keys, true).await?;
    let (own, unreadable) = readable(items.iter().map(|item| {
        let row = Reader { item, table };
        Ok((row.seq("seq")?, row.optional("emoji", Reader::text)?.map(Emoji::stored)))
    }));
    for (seq, emoji) in own {
        if let Some(message) = entries.iter_mut().find(|entry| entry.place.seq == seq).and_then(Entry::message_mut) {
            message.tally.own = emoji;
        }
    }
    Ok(unreadable)
}

/// Counts the reaction in the place of the one before, as both were read. `target` has the tally as it was.
pub async fn react(
    store: &Store,
    draft: &Draft,
    target: MessageEntry<'_>,
    emoji: Option<&Emoji>,
) -> Result<AppendOutcome, Error> {
    commit_behind(store, draft, 0, writes(store, draft, target, emoji)).await
}

fn writes(
    store: &Store,
    draft: &Draft,
    target: MessageEntry<'_>,
    emoji: Option<&Emoji>,
) -> Result<Vec<TransactWriteItem>, BuildError> {
    let mut writes = vec![put(idempotency_put(store, draft, &target.entry.place, None))?];
    if target.message.tally.own.as_ref() != emoji {
        writes.push(update(counts_update(store, target, emoji))?);
        writes.push(put(own_put(store, draft, target, emoji))?);
    }
    Ok(writes)
}

/// Removes a count that reaches zero, because each emoji in the row counts against the maximum.
fn counts_update(store: &Store, target: MessageEntry<'_>, emoji: Option<&Emoji>) -> UpdateBuilder {
    let counts = &target.message.tally.counts;
    let mut update = Update::builder()
        .table_name(&store.tables.messages)
        .key("conversation_id", text(target.entry.conversation_id.as_str()))
        .key("seq", number(target.entry.place.seq));
    let mut conditions = vec!["attribute_exists(seq)".to_owned(), "attribute_not_exists(deleted_at)".to_owned()];
    conditions.push("attribute_not_exists(emptied_at)".to_owned());
    let (mut sets, mut removes) = (vec![], vec![]);
    let own = target.message.tally.own.as_ref().and_then(|own| Some((own, *counts.get(own)?)));
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

fn own_put(store: &Store, draft: &Draft, target: MessageEntry<'_>, emoji: Option<&Emoji>) -> PutBuilder {
    let put = Put::builder()
        .table_name(&store.tables.idempotency)
        .set_item(Some(key(&draft.conversation_id, &draft.sender_id, target.entry.place.seq)))
        .item("seq", number(target.entry.place.seq))
        .item(VERSION, version());
    let put = match emoji {
        Some(emoji) => put.item("emoji", text(emoji.as_str())),
        None => put,
    };
    match &target.message.tally.own {
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
