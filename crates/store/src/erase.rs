//! The rows of a user who is erased, in all tables. Each function can be repeated: a row that is done has the user's new
//! id, or is gone.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use domain::{Draft, Entry, Follows, Membership, Place};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use wire::{Attached, ConversationId, Kind, MediaId, Seq, Timestamp, UserId};

use crate::error::{CallResult as _, written};
use crate::item::{Item, Reader, number, text};
use crate::message_append::{AppendOutcome, PENDING, SILENT, begin, commit};
use crate::{Error, Store, Written, connections, inbox, media, profiles, transaction};

/// Rows that one step reads.
pub const PAGE: i32 = 100;
/// Rows of a page that are written concurrently.
const AT_ONCE_MAX: usize = 8;
/// Reads of a row that others change meanwhile.
const LOOKS_MAX: u32 = 5;

/// The user who is erased, and the id that takes the place of theirs.
#[derive(Clone, Copy, Debug)]
pub struct Erasing<'a> {
    pub user: &'a UserId,
    pub gone: &'a UserId,
    pub now: Timestamp,
}

/// A user's row of `inbox`, by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRow {
    pub key: String,
    /// The other member of a direct conversation. In a note, that is the user.
    pub peer: Option<UserId>,
    /// Something was written there.
    pub is_written: bool,
}

/// Returns the user's first row behind that key.
pub async fn next_row(store: &Store, user: &UserId, behind: &str) -> Result<Option<OwnRow>, Error> {
    let table = &store.tables.inbox;
    let query = query(store, table).limit(1);
    let query = match behind {
        "" => query.key_condition_expression("user_id = :user"),
        behind => query
            .key_condition_expression("user_id = :user AND conversation_id > :behind")
            .expression_attribute_values(":behind", text(behind)),
    };
    let found = query.expression_attribute_values(":user", text(user.as_str())).send().await.of_call("Query", table)?;
    let own = |item: &Item| {
        let row = Reader { item, table };
        Ok(OwnRow {
            key: row.text("conversation_id")?.to_owned(),
            peer: row.optional("peer_id", |row, name| row.parsed(name, UserId::parse))?,
            is_written: item.contains_key("last_seq"),
        })
    };
    found.items().first().map(own).transpose()
}

/// Closes a direct conversation for both members. Their own rows are a condition of all that they write.
pub async fn close(
    store: &Store,
    Erasing { user, .. }: Erasing<'_>,
    peer: &UserId,
    conversation: &ConversationId,
) -> Result<(), Error> {
    let closed = |owner: &UserId, sets: &str| {
        inbox::row(store, owner, conversation)
            .update_expression(format!("SET {sets}"))
            .condition_expression("attribute_exists(conversation_id)")
            .expression_attribute_values(":yes", AttributeValue::Bool(true))
    };
    let table = &store.tables.inbox;
    let own = closed(user, "blocked = :yes, erased = :yes");
    refused_or(own.send().await.of_call("UpdateItem", table))?;
    if peer != user && !peer.is_service() {
        refused_or(closed(peer, "blocked_by_peer = :yes").send().await.of_call("UpdateItem", table))?;
    }
    Ok(())
}

/// A condition that does not hold means that there is no such row.
fn refused_or<T>(result: Result<T, Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.is_refused() => Ok(()),
        result => result.map(drop),
    }
}

/// A page of a log that was gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Through {
    /// The last entry of the page; `None`: the log has ended.
    pub last: Option<Seq>,
    /// The rows that were written.
    pub written: u64,
}

/// Takes the user out of the next entries of a log: empties what they wrote, removes its media and their reactions, and
/// replaces their id.
pub async fn empty(
    store: &Store,
    who: Erasing<'_>,
    conversation: &ConversationId,
    behind: Seq,
) -> Result<Through, Error> {
    let items = entries(store, conversation, behind).await?;
    let work = items.iter().map(|item| empty_one(store, who, item));
    let changed: Vec<bool> = stream::iter(work).buffer_unordered(AT_ONCE_MAX).try_collect().await?;
    through(store, &items, changed.iter().filter(|changed| **changed).count())
}

fn through(store: &Store, items: &[Item], written: usize) -> Result<Through, Error> {
    let table = &store.tables.messages;
    let last = items.last().map(|item| Reader { item, table }.seq("seq")).transpose()?;
    Ok(Through { last, written: written as u64 })
}

async fn entries(store: &Store, conversation: &ConversationId, behind: Seq) -> Result<Vec<Item>, Error> {
    let table = &store.tables.messages;
    let query = query(store, table)
        .key_condition_expression("conversation_id = :conversation AND seq > :behind")
        .expression_attribute_values(":conversation", text(conversation.as_str()))
        .expression_attribute_values(":behind", number(behind))
        .limit(PAGE);
    Ok(query.send().await.of_call("Query", table)?.items.unwrap_or_default())
}

/// Returns whether the entry was written. Others may change it meanwhile: then it is read again.
async fn empty_one(store: &Store, who: Erasing<'_>, item: &Item) -> Result<bool, Error> {
    let table = &store.tables.messages;
    let mut current = item.clone();
    for _ in 0..LOOKS_MAX {
        let Some(rewrite) = Rewrite::of(&current, who) else { return Ok(false) };
        // First the media: without the message, nothing would name it.
        if let Some(media_id) = &rewrite.media {
            delete(store, &store.tables.media, media::key(media_id)).await?;
        }
        let key = key_of(&current, &["conversation_id", "seq"]);
        if rewrite.write(store, key.clone()).await? == Written::Done {
            return Ok(true);
        }
        let Some(again) = entry(store, key).await? else { return Ok(false) };
        current = again;
    }
    Err(Error::Call { operation: "UpdateItem", table: table.clone(), source: "an entry changes all the time".into() })
}

async fn entry(store: &Store, key: Item) -> Result<Option<Item>, Error> {
    let table = &store.tables.messages;
    let values = key.into_iter().map(|(name, value)| (format!(":{name}"), value)).collect();
    let query = query(store, table)
        .key_condition_expression("conversation_id = :conversation_id AND seq = :seq")
        .set_expression_attribute_values(Some(values));
    Ok(query.send().await.of_call("Query", table)?.items.unwrap_or_default().pop())
}

/// Attributes of what a message says, and of who says it.
const OF_MESSAGE: [&str; 12] = [
    "media",
    "data",
    "reactions",
    "reactions_seq",
    "reaction_counts",
    "reply_to",
    "version",
    "edited_at",
    "edited_seq",
    "frank",
    "client_msg_id",
    "origin",
];
/// Such attributes of all other entries.
const OF_ENTRY: [&str; 4] = ["emoji", "emoji_before", "client_msg_id", "origin"];

/// The writes of an entry.
struct Rewrite {
    sets: HashMap<&'static str, AttributeValue>,
    removes: Vec<&'static str>,
    /// The user's own reaction to what another one wrote.
    reaction: Option<String>,
    media: Option<MediaId>,
    /// As it was read.
    sender: String,
}

impl Rewrite {
    /// `None`: the entry has nothing of the user.
    fn of(item: &Item, who: Erasing<'_>) -> Option<Self> {
        let Erasing { user, gone, now } = who;
        let value = |name: &str| item.get(name).and_then(|value| value.as_s().ok());
        let sender = value("sender_id")?;
        let (mut sets, mut removes, mut media) = (HashMap::new(), vec![], None);
        if sender == user.as_str() {
            sets.insert("sender_id", text(gone.as_str()));
            let kind = Kind::stored(value("kind").map(String::as_str).unwrap_or_default());
            let is_empty = item.contains_key("deleted_at") || item.contains_key("emptied_at");
            let own: &[&'static str] = if is_of_content(&kind) { &OF_MESSAGE } else { &OF_ENTRY };
            removes.extend(own.iter().filter(|name| item.contains_key(**name)));
            if is_of_content(&kind) {
                media = media_of(item);
                sets.insert("body", text(""));
                if !is_empty {
                    sets.insert("emptied_at", number(now.millis()));
                    sets.insert("emptied_by", text(UserId::erased().as_str()));
                }
            }
        }
        for name in ["deleted_by", "target_sender", "recipient"] {
            if value(name).is_some_and(|value| value == user.as_str()) {
                sets.insert(name, text(gone.as_str()));
            }
        }
        for name in ["mentions", "removes"] {
            let list = item.get(name).and_then(|list| list.as_l().ok());
            if list.is_some_and(|list| list.contains(&text(user.as_str()))) {
                let replaced = |id: &AttributeValue| match id {
                    AttributeValue::S(id) if id == user.as_str() => text(gone.as_str()),
                    other => other.clone(),
                };
                let list = list.map(|list| list.iter().map(replaced).collect()).unwrap_or_default();
                sets.insert(name, AttributeValue::L(list));
            }
        }
        for name in ["system", "not_added"] {
            if let Some(replaced) = value(name).and_then(|json| with_new_id(json, who)) {
                sets.insert(name, text(replaced));
            }
        }
        let reactions = item.get("reactions").and_then(|map| map.as_m().ok());
        let is_whole = removes.contains(&"reactions");
        let reaction = reactions.filter(|map| !is_whole && map.contains_key(user.as_str()));
        let reaction = reaction.map(|_| user.as_str().to_owned());
        if sets.is_empty() && removes.is_empty() && reaction.is_none() {
            return None;
        }
        Some(Self { sets, removes, reaction, media, sender: sender.clone() })
    }

    async fn write(self, store: &Store, key: Item) -> Result<Written, Error> {
        let table = &store.tables.messages;
        let mut update = store.client.update_item().table_name(table).set_key(Some(key));
        let mut condition = "sender_id = :sender".to_owned();
        update = update.expression_attribute_values(":sender", text(self.sender));
        let (mut sets, mut removes) = (vec![], vec![]);
        for (name, value) in self.sets {
            sets.push(format!("#{name} = :{name}"));
            update = update.expression_attribute_names(format!("#{name}"), name);
            update = update.expression_attribute_values(format!(":{name}"), value);
        }
        for name in self.removes {
            removes.push(format!("#{name}"));
            update = update.expression_attribute_names(format!("#{name}"), name);
        }
        if let Some(user) = self.reaction {
            removes.push("reactions.#user".to_owned());
            // A delete takes the map away, and a path into nothing is an error.
            condition.push_str(" AND attribute_exists(reactions.#user)");
            update = update.expression_attribute_names("#user", user);
        }
        let clause = |word: &str, parts: Vec<String>| match parts.as_slice() {
            [] => String::new(),
            parts => format!("{word} {} ", parts.join(", ")),
        };
        let expression = clause("SET", sets) + &clause("REMOVE", removes);
        let update = update.update_expression(expression.trim_end()).condition_expression(condition);
        written(update.send().await.of_call("UpdateItem", table))
    }
}

fn media_of(item: &Item) -> Option<MediaId> {
    let media: Attached = serde_json::from_str(item.get("media")?.as_s().ok()?).ok()?;
    Some(media.media_id().clone())
}

/// Whether what its author wrote is in the entry. A commit has keys that the others still need.
fn is_of_content(kind: &Kind) -> bool {
    match kind {
        Kind::Text | Kind::Image | Kind::File | Kind::Voice | Kind::Sealed | Kind::Own(_) | Kind::Other(_) => true,
        Kind::Edit | Kind::Delete | Kind::Reaction | Kind::Pin | Kind::System | Kind::Commit | Kind::Erased => false,
    }
}

/// Returns the JSON of an event of a group with the user's new id; `None`: the event does not name the user.
fn with_new_id(json: &str, Erasing { user, gone, .. }: Erasing<'_>) -> Option<String> {
    fn replace(value: &mut Value, name: &str, (from, to): (&str, &str)) -> bool {
        match value {
            // A title can be the same text.
            Value::String(id) if id == from && ["user_id", "members"].contains(&name) => {
                to.clone_into(id);
                true
            }
            Value::Array(values) => {
                values.iter_mut().fold(false, |found, value| replace(value, name, (from, to)) | found)
            }
            Value::Object(fields) => {
                fields.iter_mut().fold(false, |found, (name, value)| replace(value, name, (from, to)) | found)
            }
            _ => false,
        }
    }
    let mut event = serde_json::from_str(json).ok()?;
    replace(&mut event, "", (user.as_str(), gone.as_str())).then(|| event.to_string())
}

/// Removes the next entries of a log that is no member's any more, with their media.
pub async fn remove(store: &Store, conversation: &ConversationId) -> Result<Through, Error> {
    let items = entries(store, conversation, Seq::ZERO).await?;
    let table = &store.tables.messages;
    let work = items.iter().map(async |item| {
        if let Some(media_id) = media_of(item) {
            delete(store, &store.tables.media, media::key(&media_id)).await?;
        }
        delete(store, table, key_of(item, &["conversation_id", "seq"])).await
    });
    let done: Vec<()> = stream::iter(work).buffer_unordered(AT_ONCE_MAX).try_collect().await?;
    through(store, &items, done.len())
}

/// Removes the earlier texts and the idempotency rows of the user in a conversation, or those of all members with its keys.
pub async fn remove_traces(store: &Store, conversation: &ConversationId, of: Option<&UserId>) -> Result<(), Error> {
    let (audit, idempotency) = (&store.tables.audit, &store.tables.idempotency);
    let texts = query(store, audit)
        .key_condition_expression("conversation_id = :conversation")
        .expression_attribute_values(":conversation", text(conversation.as_str()));
    let texts = match of {
        Some(user) => {
            texts.filter_expression("sender_id = :user").expression_attribute_values(":user", text(user.as_str()))
        }
        None => texts,
    };
    remove_found(store, audit, texts, ["conversation_id", "seq_version"]).await?;
    let keys = query(store, idempotency).expression_attribute_values(":conversation", text(conversation.as_str()));
    let keys = match of {
        // A space joins the sender to the key: another id may begin with this one.
        Some(user) => keys
            .key_condition_expression("conversation_id = :conversation AND begins_with(sender_key, :user)")
            .expression_attribute_values(":user", text(format!("{user} "))),
        None => keys.key_condition_expression("conversation_id = :conversation"),
    };
    remove_found(store, idempotency, keys, ["conversation_id", "sender_key"]).await?;
    if of.is_none() {
        let key = Item::from([("conversation_id".to_owned(), text(conversation.as_str()))]);
        delete(store, &store.tables.epochs, key).await?;
    }
    Ok(())
}

/// Deletes all that the query finds.
async fn remove_found(store: &Store, table: &str, query: QueryFluentBuilder, keys: [&str; 2]) -> Result<(), Error> {
    let mut pages = query.projection_expression(keys.join(", ")).into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.of_call("Query", table)?;
        let work = page.items().iter().map(|item| delete(store, table, key_of(item, &keys)));
        let _done: Vec<()> = stream::iter(work).buffer_unordered(AT_ONCE_MAX).try_collect().await?;
    }
    Ok(())
}

/// Returns the ranges of the entries that the user wrote, once [`empty`] has gone through the log.
pub async fn own_seqs(store: &Store, gone: &UserId, conversation: &ConversationId) -> Result<Vec<[Seq; 2]>, Error> {
    let table = &store.tables.messages;
    let pages = query(store, table)
        .key_condition_expression("conversation_id = :conversation")
        .filter_expression("sender_id = :gone")
        .expression_attribute_values(":conversation", text(conversation.as_str()))
        .expression_attribute_values(":gone", text(gone.as_str()))
        .projection_expression("seq")
        .into_paginator()
        .items()
        .send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)?;
    let mut ranges: Vec<[Seq; 2]> = vec![];
    for item in &found {
        let seq = Reader { item, table }.seq("seq")?;
        match ranges.last_mut() {
            Some([_, last]) if last.next() == seq => *last = seq,
            _ => ranges.push([seq, seq]),
        }
    }
    Ok(ranges)
}

/// Appends the entry about the erased user to a direct conversation, if these rows still end where they did.
pub async fn append(store: &Store, draft: &Draft, place: &Place, rows: &[Membership]) -> Result<AppendOutcome, Error> {
    let entry = draft.clone().stored(place.clone(), Follows::default());
    let writes = begin(store, draft, &entry).and_then(|mut writes| {
        for row in rows {
            writes.push(transaction::update(row_update(store, &entry, row))?);
        }
        Ok(writes)
    });
    commit(store, draft, place, writes).await
}

fn row_update(store: &Store, entry: &Entry, row: &Membership) -> UpdateBuilder {
    Update::builder()
        .table_name(&store.tables.inbox)
        .set_key(Some(inbox::key(&row.user_id, &row.conversation_id)))
        .update_expression(format!("{SILENT}, {PENDING}"))
        .condition_expression("last_seq = :previous")
        .expression_attribute_values(":seq", number(entry.place.seq))
        .expression_attribute_values(":at", number(entry.place.sent_at.millis()))
        .expression_attribute_values(":shown", number(row.last.seq))
        .expression_attribute_values(":previous", number(row.end.seq))
}

/// Takes the user out of the peer's row. `Lost`: the row has changed since it was read.
pub async fn rewrite_peer(store: &Store, who: Erasing<'_>, row: &Membership) -> Result<Written, Error> {
    let Erasing { user, gone, .. } = who;
    let mut sets = "SET peer_id = :gone".to_owned();
    let mut update = inbox::row(store, &row.user_id, &row.conversation_id)
        .condition_expression("peer_id = :user AND last_seq = :last")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":gone", text(gone.as_str()))
        .expression_attribute_values(":last", number(row.end.seq));
    if row.last.sender_id == *user {
        sets.push_str(", last_sender_id = :gone, last_preview = :nothing, deleted_seq = :shown");
        // The stream has phones remove what they show of it.
        sets.push_str(" REMOVE notified_seq");
        update = update
            .expression_attribute_values(":nothing", text(""))
            .expression_attribute_values(":shown", number(row.last.seq));
    }
    written(update.update_expression(sets).send().await.of_call("UpdateItem", &store.tables.inbox))
}

/// Takes the user out of the row of a peer with whom nothing was ever written.
pub async fn rewrite_stranger(
    store: &Store,
    who: Erasing<'_>,
    peer: &UserId,
    conversation: &ConversationId,
) -> Result<(), Error> {
    let update = inbox::row(store, peer, conversation)
        .update_expression("SET peer_id = :gone")
        .condition_expression("peer_id = :user")
        .expression_attribute_values(":user", text(who.user.as_str()))
        .expression_attribute_values(":gone", text(who.gone.as_str()));
    refused_or(update.send().await.of_call("UpdateItem", &store.tables.inbox))
}

/// Deletes one of the user's own rows of `inbox`.
pub async fn remove_row(store: &Store, user: &UserId, row: &str) -> Result<(), Error> {
    let key = [("user_id", user.as_str()), ("conversation_id", row)];
    delete(store, &store.tables.inbox, key.map(|(name, value)| (name.to_owned(), text(value))).into()).await
}

/// Deletes what else the user has: keys, the profile, the count of uploads, and all that is about the user's connections but
/// the bar.
pub async fn remove_own(store: &Store, user: &UserId) -> Result<(), Error> {
    let by_user = |table: &str| {
        query(store, table)
            .key_condition_expression("user_id = :user")
            .expression_attribute_values(":user", text(user.as_str()))
    };
    let keys = &store.tables.keys;
    remove_found(store, keys, by_user(keys), ["user_id", "key_id"]).await?;
    let table = &store.tables.connections;
    let others = by_user(table).filter_expression(connections::NOT_BARRED);
    remove_found(store, table, others, ["user_id", "connection_id"]).await?;
    let inbox = &store.tables.inbox;
    // No conversation's id begins with a space.
    let settings = query(store, inbox)
        .key_condition_expression("user_id = :user AND conversation_id < :first")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":first", text("!"));
    remove_found(store, inbox, settings, ["user_id", "conversation_id"]).await?;
    delete(store, &store.tables.conversations, profiles::key(user)).await?;
    delete(store, &store.tables.media, media::count_key(user)).await
}

async fn delete(store: &Store, table: &str, key: Item) -> Result<(), Error> {
    store.client.delete_item().table_name(table).set_key(Some(key)).send().await.of_call("DeleteItem", table).map(drop)
}

fn query(store: &Store, table: &str) -> QueryFluentBuilder {
    store.client.query().table_name(table).consistent_read(true)
}

fn key_of(item: &Item, names: &[&str]) -> Item {
    names.iter().filter_map(|name| Some(((*name).to_owned(), item.get(*name)?.clone()))).collect()
}
