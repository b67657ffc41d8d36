//! `messages`: the history. [`crate::message_append`] writes an entry once. [`crate::message_change`] writes later
//! changes into the message's own row, and nowhere else, so that no copy of a deleted text remains.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Select};
use domain::limits::PAGE_BYTES_MAX;
use domain::{
    Body, CommitBody, Counted, Deleted, Entry, ErasedBody, GroupInfo, MessageBody, MessageEntry, Origin, Place,
    ReactionTally, SystemBody, Target, names,
};
use futures_util::future::try_join_all;
use wire::{Bytes, Carried, ClientMsgId, ConversationId, Data, Emoji, HistoryFrom, Kind, MessageId, Seq, Side, UserId};

use crate::batch::{self, READS_MAX};
use crate::error::CallResult as _;
use crate::item::{Item, Reader, VERSION, binary, carried, number, readable, text, users, version};
use crate::{Error, Store, if_readable};

/// A part of a history.
#[derive(Debug)]
pub struct Listed {
    /// In order.
    pub messages: Vec<Entry>,
    /// The places of those that can't be read, in order.
    pub unreadable: Vec<Seq>,
    /// The first place without an entry, below the last that was read. A log is dense, so an entry is lost.
    pub missing: Option<Seq>,
}

/// As many messages as are read before their size is known.
const FIRST_STEP: usize = 16;
/// Minimum of a message's bytes in a page besides its body, which bounds the number of messages to read.
const ENVELOPE_BYTES: usize = 190;

/// The entry at this seq as it is now, if there is one.
pub async fn get(store: &Store, conversation: &ConversationId, seq: Seq) -> Result<Option<Entry>, Error> {
    let entry = get_item(store, conversation, seq).await?;
    let listed = Listed { messages: entry.into_iter().collect(), unreadable: vec![], missing: None };
    Ok(with_targets(store, conversation, listed).await?.messages.pop())
}

async fn get_item(store: &Store, conversation: &ConversationId, seq: Seq) -> Result<Option<Entry>, Error> {
    let table = &store.tables.messages;
    let get = store
        .client
        .get_item()
        .table_name(table)
        .consistent_read(true)
        .key("conversation_id", text(conversation.as_str()))
        .key("seq", number(seq));
    get.send().await.of_call("GetItem", table)?.item().map(|item| read(table, item)).transpose()
}

/// Adds the current text of their targets to edits. Reads the targets that are not listed themselves. An edit whose
/// target can't be read counts as unreadable.
async fn with_targets(store: &Store, conversation: &ConversationId, listed: Listed) -> Result<Listed, Error> {
    let edited = |entry: &Entry| match &entry.body {
        Body::Edit { target, .. } => Some(target.seq),
        Body::Message(_)
        | Body::Delete { .. }
        | Body::Reaction { .. }
        | Body::Pin { .. }
        | Body::System(_)
        | Body::Commit(_)
        | Body::Erased(_)
        | Body::Other { .. } => None,
    };
    let wanted: BTreeSet<Seq> = listed.messages.iter().filter_map(edited).collect();
    if wanted.is_empty() {
        return Ok(listed);
    }
    let mut targets: BTreeMap<Seq, Option<Entry>> = BTreeMap::new();
    for entry in listed.messages.iter().filter(|entry| wanted.contains(&entry.place.seq)) {
        targets.insert(entry.place.seq, Some(entry.clone()));
    }
    let read = async |seq: Seq| {
        let target = if_readable(get_item(store, conversation, seq).await, "an edited message")?;
        Ok::<_, Error>(target.map(|target| (seq, target)))
    };
    let missing = wanted.iter().filter(|seq| !targets.contains_key(seq));
    let found = try_join_all(missing.map(|seq| read(*seq))).await?;
    targets.extend(found.into_iter().flatten());
    let Listed { messages, mut unreadable, missing } = listed;
    let mut shown = Vec::with_capacity(messages.len());
    for entry in messages {
        match edited(&entry).map(|target| targets.get(&target)) {
            None => shown.push(entry),
            Some(Some(target)) => shown.push(entry.of_target(target.as_ref())),
            Some(None) => unreadable.push(entry.place.seq),
        }
    }
    unreadable.sort_unstable();
    Ok(Listed { messages: shown, unreadable, missing })
}

/// Lists up to `limit` messages on one side of a seq, in order, and no more than a page can hold. With large messages a
/// query would read a megabyte for it. Small ones take two queries at most. Consistent: a stored message is in the
/// history.
pub async fn list(store: &Store, conversation: &ConversationId, side: Side, limit: usize) -> Result<Listed, Error> {
    let mut step = limit.min(FIRST_STEP);
    let mut listed = query_side(store, conversation, side, step).await?;
    let (mut read, mut room) = (step, PAGE_BYTES_MAX.checked_sub(bytes(&listed.messages)));
    // The size of the last messages shows the room for more.
    let mut each = bytes(&listed.messages) / step.max(1);
    while let Some(left) = room.filter(|_| listed.missing.is_none() && listed.seqs().count() == read && read < limit) {
        step = (left / each.max(ENVELOPE_BYTES) + 1).min(limit - read);
        let more = query_side(store, conversation, beyond(&listed, side), step).await?;
        (read, room, each) = (read + step, left.checked_sub(bytes(&more.messages)), bytes(&more.messages) / step);
        listed = if matches!(side, Side::After(_)) { listed.then(more) } else { more.then(listed) };
    }
    Ok(listed)
}

/// Lists up to `limit` entries behind a seq, in order, without texts and media, which a replay of the log does not
/// need. The table reads a megabyte at most, so there can be fewer.
pub async fn outlines(
    store: &Store,
    conversation: &ConversationId,
    behind: Seq,
    limit: usize,
) -> Result<Listed, Error> {
    let outline = "conversation_id, seq, message_id, sender_id, kind, sent_at, target_seq, mentions, #system, \
                   target_sender, history_from, silent, uncounted, epoch";
    let query = query(store)
        .key_condition_expression("conversation_id = :conversation AND seq >= :seq")
        .set_expression_attribute_values(Some(values(conversation, Some(behind.next()))))
        .projection_expression(outline)
        .expression_attribute_names("#system", "system")
        .limit(i32::try_from(limit).unwrap_or(i32::MAX));
    let table = &store.tables.messages;
    let mut found = query.send().await.of_call("Query", table)?.items.unwrap_or_default();
    for item in &mut found {
        item.insert("body".to_owned(), text(""));
    }
    listed(table, &found)
}

/// All entries of a range, in order, whatever their size.
pub async fn range(store: &Store, conversation: &ConversationId, range: &RangeInclusive<u64>) -> Result<Listed, Error> {
    let pages = query(store)
        .key_condition_expression("conversation_id = :conversation AND seq BETWEEN :from AND :to")
        .expression_attribute_values(":conversation", text(conversation.as_str()))
        .expression_attribute_values(":from", number(range.start()))
        .expression_attribute_values(":to", number(range.end()))
        .into_paginator()
        .items()
        .send();
    let table = &store.tables.messages;
    let found = pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)?;
    with_targets(store, conversation, listed(table, &found)?).await
}

fn listed(table: &str, items: &[Item]) -> Result<Listed, Error> {
    let mut listed = Listed { messages: vec![], unreadable: vec![], missing: None };
    for item in items {
        match read(table, item) {
            Ok(message) => listed.messages.push(message),
            Err(error) => {
                tracing::error!(%error, "skipped an unreadable message");
                listed.unreadable.push(Reader { item, table }.seq("seq")?);
            }
        }
    }
    Ok(listed)
}

/// Lists `limit` entries behind that one, in one query, for a caller that knows the room.
pub async fn next(store: &Store, conversation: &ConversationId, behind: Seq, limit: usize) -> Result<Listed, Error> {
    query_side(store, conversation, Side::After(behind), limit).await
}

/// Returns the minimum of the messages' bytes in a page.
fn bytes(messages: &[Entry]) -> usize {
    messages.iter().map(|message| message.written_bytes() + ENVELOPE_BYTES).sum()
}

/// Returns the first hole: between two entries, or between one and where the page begins.
fn missing(listed: &Listed, side: Side) -> Option<Seq> {
    let found: BTreeSet<Seq> = listed.seqs().collect();
    let mut expected = match side {
        Side::After(seq) => seq.next(),
        Side::Newest | Side::Before(_) => *found.first()?,
    };
    for seq in found {
        if seq != expected {
            return Some(expected);
        }
        expected = seq.next();
    }
    None
}

/// Where to read on.
fn beyond(listed: &Listed, side: Side) -> Side {
    let next = match side {
        Side::After(_) => listed.seqs().max().map(Side::After),
        Side::Newest | Side::Before(_) => listed.seqs().min().map(Side::Before),
    };
    next.unwrap_or(side)
}

impl Listed {
    /// Whether one frame may hold them all.
    pub fn fits(&self) -> bool {
        bytes(&self.messages) <= PAGE_BYTES_MAX
    }

    /// Returns the places of all, first of those that can be read.
    fn seqs(&self) -> impl Iterator<Item = Seq> {
        self.messages.iter().map(|message| message.place.seq).chain(self.unreadable.iter().copied())
    }

    fn then(mut self, later: Self) -> Self {
        self.messages.extend(later.messages);
        self.unreadable.extend(later.unreadable);
        self.missing = self.missing.or(later.missing);
        self
    }
}

/// Reads once more if an entry is missing: of two transactions, a query can show the later one alone.
async fn query_side(store: &Store, conversation: &ConversationId, side: Side, limit: usize) -> Result<Listed, Error> {
    let listed = query_once(store, conversation, side, limit).await?;
    if listed.missing.is_none() { Ok(listed) } else { query_once(store, conversation, side, limit).await }
}

async fn query_once(store: &Store, conversation: &ConversationId, side: Side, limit: usize) -> Result<Listed, Error> {
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
    let found = query.send().await.of_call("Query", table)?;
    let mut listed = listed(table, found.items())?;
    if !forward {
        listed.messages.reverse();
        listed.unreadable.reverse();
    }
    listed.missing = missing(&listed, side);
    with_targets(store, conversation, listed).await
}

/// How many entries in the range count as unread for `user`: those of others that are not deleted. Costs a read of the
/// range, whatever it counts.
pub async fn count_by_others(
    store: &Store,
    conversation: &ConversationId,
    range: &RangeInclusive<u64>,
    user: &UserId,
) -> Result<u64, Error> {
    let pages = by_others(store, conversation, range, user).select(Select::Count).into_paginator().send();
    let table = &store.tables.messages;
    let pages = pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)?;
    Ok(pages.iter().map(|page| u64::try_from(page.count()).unwrap_or(0)).sum())
}

/// Entries among which the newest is looked for.
const NEWEST_AMONG_MAX: i32 = 100;

/// The newest message of others in the range that is not deleted, if it is among the range's last hundred entries.
pub async fn newest_by_others(
    store: &Store,
    conversation: &ConversationId,
    range: &RangeInclusive<u64>,
    user: &UserId,
) -> Result<Option<Entry>, Error> {
    let table = &store.tables.messages;
    let query = by_others(store, conversation, range, user).scan_index_forward(false).limit(NEWEST_AMONG_MAX);
    let found = query.send().await.of_call("Query", table)?;
    Ok(readable(found.items().iter().map(|item| read(table, item))).0.into_iter().next())
}

/// Messages of others in the range that are not deleted.
fn by_others(
    store: &Store,
    conversation: &ConversationId,
    range: &RangeInclusive<u64>,
    user: &UserId,
) -> QueryFluentBuilder {
    of_messages(query(store))
        .key_condition_expression("conversation_id = :conversation AND seq BETWEEN :from AND :to")
        .filter_expression(format!("sender_id <> :user AND {COUNTS} AND attribute_not_exists(deleted_at)"))
        .expression_attribute_values(":conversation", text(conversation.as_str()))
        .expression_attribute_values(":from", number(range.start()))
        .expression_attribute_values(":to", number(range.end()))
        .expression_attribute_values(":user", text(user.as_str()))
}

/// The same count in a group, as of where a member's row stands in the log: what an entry behind that deletes still
/// counts.
pub async fn count_in_view(
    store: &Store,
    conversation: &ConversationId,
    range: &RangeInclusive<u64>,
    user: &UserId,
    end: Seq,
) -> Result<Counted, Error> {
    let pages = of_messages(query(store))
        .key_condition_expression("conversation_id = :conversation AND seq BETWEEN :from AND :to")
        .filter_expression(format!(
            "sender_id <> :user AND {COUNTS} AND (attribute_not_exists(deleted_seq) OR deleted_seq > :end)"
        ))
        .expression_attribute_values(":conversation", text(conversation.as_str()))
        .expression_attribute_values(":from", number(range.start()))
        .expression_attribute_values(":to", number(range.end()))
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":end", number(end))
        .projection_expression("mentions")
        .into_paginator()
        .items()
        .send();
    let table = &store.tables.messages;
    let items = pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)?;
    let is_named = |item: &&Item| {
        let row = Reader { item, table };
        row.optional("mentions", mentions).is_ok_and(|mentions| names(&mentions.unwrap_or_default(), user))
    };
    Ok(Counted { messages: items.len() as u64, mentions: items.iter().filter(is_named).count() as u64 })
}

/// Messages: the kinds that count. A sealed entry can be silent.
const COUNTS: &str =
    "(kind IN (:text, :image, :file, :voice, :sealed) OR begins_with(kind, :own)) AND attribute_not_exists(silent)";

fn of_messages(query: QueryFluentBuilder) -> QueryFluentBuilder {
    Kind::MESSAGES
        .iter()
        .fold(query, |query, kind| query.expression_attribute_values(format!(":{kind}"), text(kind.as_str())))
        .expression_attribute_values(":own", text("x-"))
}

/// Lists the authors of the newest entries of a range, newest first, by an eventually consistent read.
pub async fn authors(
    store: &Store,
    conversation: &ConversationId,
    range: &RangeInclusive<u64>,
    limit: usize,
) -> Result<Vec<UserId>, Error> {
    let table = &store.tables.messages;
    let query = store
        .client
        .query()
        .table_name(table)
        .key_condition_expression("conversation_id = :conversation AND seq BETWEEN :from AND :to")
        .expression_attribute_values(":conversation", text(conversation.as_str()))
        .expression_attribute_values(":from", number(range.start()))
        .expression_attribute_values(":to", number(range.end()))
        .projection_expression("sender_id")
        .scan_index_forward(false)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX));
    let found = query.send().await.of_call("Query", table)?;
    let authors = found.items().iter().map(|item| Reader { item, table }.parsed("sender_id", UserId::parse));
    Ok(readable(authors).0)
}

/// How many messages of a channel there are up to this entry.
pub async fn counted(store: &Store, channel: &ConversationId, seq: Seq) -> Result<u64, Error> {
    let table = &store.tables.messages;
    let get = store
        .client
        .get_item()
        .table_name(table)
        .consistent_read(true)
        .key("conversation_id", text(channel.as_str()))
        .key("seq", number(seq))
        .projection_expression("counted");
    let item = get.send().await.of_call("GetItem", table)?.item.unwrap_or_default();
    Reader { item: &item, table }.count("counted")
}

/// These entries, as they are now; those that can't be read, or not at the moment, are left out.
pub async fn get_many(store: &Store, entries: &[(ConversationId, Seq)]) -> Result<Vec<Entry>, Error> {
    let table = &store.tables.messages;
    let keys: Vec<Item> = entries.iter().map(key).collect();
    let items = batch::rows(store, table, &keys, true, READS_MAX).await?.found;
    Ok(readable(items.iter().map(|item| read(table, item))).0)
}

/// Returns the seq of a conversation's last entry, if it has any.
pub async fn last_seq(store: &Store, conversation: &ConversationId) -> Result<Option<Seq>, Error> {
    let query = query(store)
        .key_condition_expression("conversation_id = :conversation")
        .set_expression_attribute_values(Some(values(conversation, None)))
        .projection_expression("seq")
        .scan_index_forward(false)
        .limit(1);
    let table = &store.tables.messages;
    let found = query.send().await.of_call("Query", table)?;
    found.items().first().map(|item| Reader { item, table }.seq("seq")).transpose()
}

/// Entries for a team's own servers.
#[derive(Debug, Default)]
pub struct Current {
    pub entries: BTreeMap<(ConversationId, Seq), Entry>,
    /// The keys of rows that can't be read.
    pub unreadable: BTreeSet<(ConversationId, Seq)>,
}

/// Returns these entries as they are now. An entry that no longer exists is left out.
///
/// # Errors
/// Also if the table does not process all keys.
pub async fn current(store: &Store, keys: impl IntoIterator<Item = (ConversationId, Seq)>) -> Result<Current, Error> {
    let table = &store.tables.messages;
    let keys = keys.into_iter().map(|entry| key(&entry)).collect();
    let mut current = Current::default();
    for item in batch::all(store, table, keys, true).await? {
        let row = Reader { item: &item, table };
        let key = (row.parsed("conversation_id", ConversationId::parse)?, row.seq("seq")?);
        match if_readable(read(table, &item), "an entry to publish")? {
            Some(entry) => drop(current.entries.insert(key, entry)),
            None => drop(current.unreadable.insert(key)),
        }
    }
    Ok(current)
}

fn key((conversation, seq): &(ConversationId, Seq)) -> Item {
    let conversation = ("conversation_id".to_owned(), text(conversation.as_str()));
    Item::from([conversation, ("seq".to_owned(), number(seq))])
}

fn query(store: &Store) -> QueryFluentBuilder {
    store.client.query().table_name(&store.tables.messages).consistent_read(true)
}

fn values(conversation: &ConversationId, seq: Option<Seq>) -> Item {
    let mut values = Item::from([(":conversation".to_owned(), text(conversation.as_str()))]);
    values.extend(seq.map(|seq| (":seq".to_owned(), number(seq))));
    values
}

pub(crate) fn item(entry: &Entry) -> Item {
    let Entry { conversation_id, place, sender_id, client_msg_id, origin, read_all, counted, body } = entry;
    let Place { seq, message_id, sent_at } = place;
    let mut item = Item::from([
        ("conversation_id".to_owned(), text(conversation_id.as_str())),
        ("seq".to_owned(), number(seq)),
        ("message_id".to_owned(), text(message_id.as_str())),
        ("sender_id".to_owned(), text(sender_id.as_str())),
        ("kind".to_owned(), text(entry.kind().as_str())),
        // An edit's text is in its target's row. The version before this one knows of no entry without a body.
        ("body".to_owned(), body_value(entry)),
        ("sent_at".to_owned(), number(sent_at.millis())),
        (VERSION.to_owned(), version()),
    ]);
    let own = match body {
        Body::Message(message) | Body::Other { message, .. } => of_message(message),
        Body::Edit { edited_seq, .. } => vec![("edited_seq", edited_seq.map(number))],
        Body::Delete { uncounted, .. } => vec![("uncounted", uncounted.then_some(AttributeValue::Bool(true)))],
        Body::Reaction { emoji, emoji_before, .. } => vec![
            ("emoji", emoji.as_ref().map(|emoji| text(emoji.as_str()))),
            ("emoji_before", emoji_before.as_ref().map(|emoji| text(emoji.as_str()))),
        ],
        Body::Pin { pinned, .. } => vec![("pinned", Some(AttributeValue::Bool(*pinned)))],
        Body::System(system) => of_system(system),
        Body::Commit(commit) => of_commit(commit),
        Body::Erased(erased) => vec![
            ("erased_id", Some(text(erased.user.as_str()))),
            ("seqs", serde_json::to_string(&erased.seqs).ok().map(text)),
        ],
    };
    let target = entry.target();
    let mentions = entry.mentions().iter().map(|id| text(id.as_str())).collect::<Vec<_>>();
    let common = [
        ("client_msg_id", client_msg_id.as_ref().map(|id| text(id.as_str()))),
        ("target_seq", target.map(|target| number(target.seq))),
        ("target_sender", target.and_then(|target| target.sender_id.as_ref()).map(|id| text(id.as_str()))),
        ("mentions", if mentions.is_empty() { None } else { Some(AttributeValue::L(mentions)) }),
        ("origin", origin.as_ref().map(|origin| text(origin.to_text()))),
        ("read_all", read_all.then_some(AttributeValue::Bool(true))),
        ("counted", counted.map(number)),
    ];
    let optional = common.into_iter().chain(own);
    item.extend(optional.filter_map(|(name, value)| Some((name.to_owned(), value?))));
    item
}

/// Attributes that an entry may have.
type Attributes = Vec<(&'static str, Option<AttributeValue>)>;

/// Returns the attributes of a new message. Later changes write the others.
fn of_message(message: &MessageBody) -> Attributes {
    vec![
        ("media", message.media.as_ref().and_then(|media| serde_json::to_string(media).ok()).map(text)),
        ("frank", message.frank.as_deref().map(binary)),
        ("data", message.data.as_ref().map(|data| text(data.to_text()))),
        ("reply_to", message.reply_to.map(number)),
        ("recipient", message.recipient.as_ref().map(|id| text(id.as_str()))),
        ("epoch", message.epoch.map(number)),
        ("silent", message.silent.then_some(AttributeValue::Bool(true))),
    ]
}

/// Returns the body of a new entry. A sealed message is bytes: a text would take a third more.
fn body_value(entry: &Entry) -> AttributeValue {
    let Some(MessageEntry { message, .. }) = entry.message() else { return text("") };
    let sealed = if message.kind == Kind::Sealed { Bytes::parse(&message.text) } else { None };
    sealed.map_or_else(|| text(&message.text), |bytes| binary(&bytes))
}

fn of_commit(body: &CommitBody) -> Attributes {
    let CommitBody { epoch, commit, welcome, tree, removes } = body;
    let part = |part: &Option<Carried>| part.as_ref().and_then(carried);
    vec![
        ("epoch", Some(number(epoch))),
        ("commit", part(commit)),
        ("welcome", part(welcome)),
        ("tree", part(tree)),
        ("removes", if removes.is_empty() { None } else { Some(users(removes)) }),
    ]
}

fn of_system(body: &SystemBody) -> Attributes {
    let SystemBody { system, history, not_added, group, keys } = body;
    let mut attributes = vec![
        ("system", serde_json::to_string(system).ok().map(text)),
        ("history_from", history.map(|history| text(history.as_str()))),
        ("not_added", if not_added.is_empty() { None } else { serde_json::to_string(not_added).ok().map(text) }),
        ("group_title", group.as_ref().map(|group| text(&group.title))),
        ("group_count", group.as_ref().map(|group| number(group.member_count))),
    ];
    attributes.extend(keys.iter().flat_map(of_commit));
    attributes
}

fn read(table: &str, item: &Item) -> Result<Entry, Error> {
    let row = Reader { item, table };
    Ok(Entry {
        conversation_id: row.parsed("conversation_id", ConversationId::parse)?,
        place: Place {
            seq: row.seq("seq")?,
            message_id: MessageId::stored(row.text("message_id")?),
            sent_at: row.time("sent_at")?,
        },
        sender_id: row.parsed("sender_id", UserId::parse)?,
        client_msg_id: row.optional("client_msg_id", |row, name| row.parsed(name, ClientMsgId::parse))?,
        origin: row.optional("origin", Reader::text)?.map(Origin::of_text),
        read_all: row.flag("read_all")?,
        counted: row.optional("counted", Reader::count)?,
        body: body(&row)?,
    })
}

fn body(row: &Reader) -> Result<Body, Error> {
    let target = || -> Result<Target, Error> {
        let sender_id = row.optional("target_sender", |row, name| row.parsed(name, UserId::parse))?;
        Ok(Target { seq: row.seq("target_seq")?, sender_id })
    };
    Ok(match Kind::stored(row.text("kind")?) {
        kind @ (Kind::Text | Kind::Image | Kind::File | Kind::Voice | Kind::Sealed | Kind::Own(_)) => {
            Body::Message(Box::new(message(row, kind)?))
        }
        Kind::Edit => Body::Edit {
            target: target()?,
            text: row.text("body")?.to_owned(),
            data: None,
            version: row.optional("version", Reader::count)?,
            edited_seq: row.optional("edited_seq", Reader::seq)?,
        },
        Kind::Delete => Body::Delete {
            target: target()?,
            mentions: row.optional("mentions", mentions)?.unwrap_or_default(),
            uncounted: row.flag("uncounted")?,
        },
        Kind::Reaction => Body::Reaction {
            target: target()?,
            emoji: row.optional("emoji", emoji)?,
            emoji_before: row.optional("emoji_before", emoji)?,
        },
        Kind::Pin => Body::Pin { target: target()?, pinned: row.flag("pinned")? },
        Kind::System => Body::System(Box::new(system(row)?)),
        Kind::Commit => Body::Commit(Box::new(commit(row, "epoch")?)),
        Kind::Erased => Body::Erased(Box::new(ErasedBody {
            user: row.parsed("erased_id", UserId::parse)?,
            seqs: row.parsed("seqs", serde_json::from_str)?,
        })),
        kind @ Kind::Other(_) => {
            Body::Other { target_seq: row.optional("target_seq", Reader::seq)?, message: Box::new(message(row, kind)?) }
        }
    })
}

fn message(row: &Reader, kind: Kind) -> Result<MessageBody, Error> {
    let deleted =
        |row: &Reader, name| Ok(Deleted { at: row.time(name)?, by: row.parsed("deleted_by", UserId::parse)? });
    Ok(MessageBody {
        media: row.optional("media", |row, name| row.parsed(name, serde_json::from_str))?,
        frank: row.optional("frank", Reader::bytes)?.map(Box::new),
        data: row.optional("data", |row, name| row.parsed(name, Data::stored))?,
        reply_to: row.optional("reply_to", Reader::seq)?,
        mentions: row.optional("mentions", mentions)?.unwrap_or_default(),
        version: row.optional("version", Reader::count)?,
        edited_at: row.optional("edited_at", Reader::time)?,
        edited_seq: row.optional("edited_seq", Reader::seq)?,
        deleted: row.optional("deleted_at", deleted)?.map_or_else(|| emptied(row), |deleted| Ok(Some(deleted)))?,
        deleted_seq: row.optional("deleted_seq", Reader::seq)?,
        reactions: row.optional("reactions", reactions)?.unwrap_or_default(),
        tally: ReactionTally { counts: row.optional("reaction_counts", counts)?.unwrap_or_default(), own: None },
        reactions_seq: row.optional("reactions_seq", Reader::seq)?,
        recipient: row.optional("recipient", |row, name| row.parsed(name, UserId::parse))?,
        epoch: row.optional("epoch", Reader::count)?,
        silent: row.flag("silent")?,
        ..MessageBody::new(kind, body_text(row)?)
    })
}

/// A message that was emptied looks deleted. Counts of unread messages still have it, so the row has other attributes.
fn emptied(row: &Reader) -> Result<Option<Deleted>, Error> {
    let emptied =
        |row: &Reader, name| Ok(Deleted { at: row.time(name)?, by: row.parsed("emptied_by", UserId::parse)? });
    row.optional("emptied_at", emptied)
}

/// A deleted message has no bytes left, and an empty text.
fn body_text(row: &Reader) -> Result<String, Error> {
    row.bytes("body").map(|bytes| bytes.to_text()).or_else(|_| row.text("body").map(str::to_owned))
}

fn system(row: &Reader) -> Result<SystemBody, Error> {
    Ok(SystemBody {
        system: row.parsed("system", serde_json::from_str)?,
        history: row.optional("history_from", |row, name| row.parsed(name, |t| HistoryFrom::parse(t).ok_or(())))?,
        not_added: row.optional("not_added", |row, name| row.parsed(name, serde_json::from_str))?.unwrap_or_default(),
        group: row.optional("group_title", group)?,
        keys: row.optional("epoch", commit)?,
    })
}

fn commit(row: &Reader, epoch: &'static str) -> Result<CommitBody, Error> {
    Ok(CommitBody {
        epoch: row.count(epoch)?,
        commit: row.optional("commit", Reader::carried)?,
        welcome: row.optional("welcome", Reader::carried)?,
        tree: row.optional("tree", Reader::carried)?,
        removes: row.optional("removes", Reader::users)?.unwrap_or_default(),
    })
}

fn group(row: &Reader, attribute: &'static str) -> Result<GroupInfo, Error> {
    let (title, member_count) = (row.text(attribute)?.to_owned(), row.count("group_count")?);
    Ok(GroupInfo { title, member_count, info_seq: None })
}

/// Another form is of a later version, and mentions no user here.
fn mentions(row: &Reader, attribute: &'static str) -> Result<Vec<UserId>, Error> {
    let list = row.item.get(attribute).and_then(|value| value.as_l().ok()).ok_or_else(|| row.unusable(attribute))?;
    Ok(list.iter().filter_map(|id| UserId::parse(id.as_s().ok()?).ok()).collect())
}

/// An entry's, of whichever spelling it was stored in.
fn emoji(row: &Reader, attribute: &'static str) -> Result<Emoji, Error> {
    Ok(Emoji::stored(row.text(attribute)?).canonical())
}

/// Returns each member's reaction. Another form is of a later version, and skipped.
fn reactions(row: &Reader, attribute: &'static str) -> Result<BTreeMap<UserId, Emoji>, Error> {
    let map = row.item.get(attribute).and_then(|value| value.as_m().ok()).ok_or_else(|| row.unusable(attribute))?;
    let readable = map
        .iter()
        .filter_map(|(user, emoji)| Some((UserId::parse(user).ok()?, Emoji::stored(emoji.as_s().ok()?).canonical())));
    Ok(readable.collect())
}

/// How often members of a channel reacted with what, in the spelling that is counted.
fn counts(row: &Reader, attribute: &'static str) -> Result<BTreeMap<Emoji, u64>, Error> {
    let map = row.item.get(attribute).and_then(|value| value.as_m().ok()).ok_or_else(|| row.unusable(attribute))?;
    let readable =
        map.iter().filter_map(|(emoji, count)| Some((Emoji::stored(emoji), count.as_n().ok()?.parse().ok()?)));
    Ok(readable.collect())
}
