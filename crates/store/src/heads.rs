//! `conversations`: the log head of each group and channel. Every transaction that writes an entry moves the head, and
//! the table's stream invokes `fanout`.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::builders::{ConditionCheckBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, ReturnValuesOnConditionCheckFailure, Update};
use domain::{End, GroupInfo, Head, LastEntry, Rules, Seal};
use wire::{AllowedTo, ConversationId, HistoryFrom, JoinBy, Kind, MediaId, MessageId, Rings, Seq, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, Value, number, readable, seqs, text, users, version};
use crate::profiles::is_conversation;
use crate::{Error, Store, batch};

/// The group, if there is one.
pub async fn get(store: &Store, conversation: &ConversationId) -> Result<Option<Head>, Error> {
    get_item(store, conversation, true).await
}

/// The same, perhaps as it was a moment ago, at half the price.
pub async fn glance(store: &Store, conversation: &ConversationId) -> Result<Option<Head>, Error> {
    get_item(store, conversation, false).await
}

async fn get_item(store: &Store, conversation: &ConversationId, consistent: bool) -> Result<Option<Head>, Error> {
    let table = &store.tables.conversations;
    let get = store.client.get_item().table_name(table).consistent_read(consistent).set_key(Some(key(conversation)));
    get.send().await.of_call("GetItem", table)?.item().map(|item| read(table, item)).transpose()
}

/// Returns the existing heads of these groups, and the number of unreadable ones.
pub async fn get_many(store: &Store, conversations: &[ConversationId]) -> Result<(Vec<Head>, u64), Error> {
    let table = &store.tables.conversations;
    let items = batch::all(store, table, conversations.iter().map(key).collect(), true).await?;
    Ok(readable(items.iter().map(|item| read(table, item))))
}

/// Some of all groups, in no order.
#[derive(Debug)]
pub struct Page {
    pub heads: Vec<Head>,
    pub unreadable: u64,
    /// Behind which row the next page begins, if there may be more: not always a group's.
    pub next: Option<String>,
}

/// Returns a page of all groups.
pub async fn page(store: &Store, limit: usize, behind: Option<&str>) -> Result<Page, Error> {
    let table = &store.tables.conversations;
    #[expect(clippy::disallowed_methods, reason = "an operator's repair looks at all groups, and at their heads only")]
    let scan = store.client.scan().table_name(table).limit(i32::try_from(limit).unwrap_or(i32::MAX));
    let found = scan.set_exclusive_start_key(behind.map(of_key)).send().await.of_call("Scan", table)?;
    let groups = found.items().iter().filter(|item| {
        let key = Reader { item, table }.text("conversation_id");
        key.map_or(true, is_conversation)
    });
    let (heads, unreadable) = readable(groups.map(|item| read(table, item)));
    let next = |item| Reader { item, table }.text("conversation_id").map(str::to_owned);
    Ok(Page { heads, unreadable, next: found.last_evaluated_key().map(next).transpose()? })
}

/// The outcome of a request to deliver a group again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Noted,
    /// Its log has gone on, and the stream with it.
    GoesOn,
    /// The group was already delivered again for this end.
    Twice,
}

/// Makes the stream deliver the group once more, if its log still ends there. The write happens once for each end.
pub async fn hand_on_again(store: &Store, conversation: &ConversationId, end: Seq) -> Result<Again, Error> {
    let table = &store.tables.conversations;
    let write = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(conversation)))
        .update_expression("SET again_seq = :last")
        .condition_expression("last_seq = :last AND (attribute_not_exists(again_seq) OR again_seq < :last)")
        .expression_attribute_values(":last", number(end))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let Err(error) = write.send().await else { return Ok(Again::Noted) };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
            let last = refused.item().map(|item| Reader { item, table }.seq("last_seq")).transpose()?;
            Ok(if last == Some(end) { Again::Twice } else { Again::GoesOn })
        }
        // An entry is just being written.
        Some(UpdateItemError::TransactionConflictException(_)) => Ok(Again::GoesOn),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

/// Checks that the group's log still ends there.
pub(crate) fn head_check(store: &Store, head: &Head) -> ConditionCheckBuilder {
    ConditionCheck::builder()
        .table_name(&store.tables.conversations)
        .set_key(Some(key(&head.conversation_id)))
        .condition_expression("last_seq = :last")
        .expression_attribute_values(":last", number(head.end.seq))
}

fn key(conversation: &ConversationId) -> Item {
    of_key(conversation.as_str())
}

fn of_key(key: &str) -> Item {
    Item::from([("conversation_id".to_owned(), text(key))])
}

/// Writes `head`, if the group's log still ends as in `previous`, or if the group does not exist yet.
pub(crate) fn head_update(store: &Store, previous: Option<&Head>, head: &Head) -> UpdateBuilder {
    let Head { conversation_id, group, rules, end, line, roster_seq, counted, seal, pins } = head;
    let mut update = Update::builder()
        .table_name(&store.tables.conversations)
        .set_key(Some(key(conversation_id)))
        .expression_attribute_values(":v", version());
    let mut sets = vec!["v = if_not_exists(v, :v)".to_owned()];
    let attributes = [
        ("title", text(&group.title)),
        ("member_count", number(group.member_count)),
        ("history_from", text(rules.history.as_str())),
        ("post_by", text(rules.post.as_str())),
        ("add_by", text(rules.add.as_str())),
        ("last_seq", number(end.seq)),
        ("last_at", number(end.sent_at.millis())),
        ("roster_seq", number(roster_seq)),
        ("shown_seq", number(line.seq)),
        ("shown_id", text(line.message_id.as_str())),
        ("shown_sender", text(line.sender_id.as_str())),
        ("shown_kind", text(line.kind.as_str())),
        ("shown_preview", text(&line.preview)),
        ("shown_at", number(line.sent_at.millis())),
    ];
    let of_look = group.info_seq.map(|seq| ("info_seq", number(seq)));
    let of_channel = rules.join.map(|join| [("join_by", text(join.as_str())), ("counted", number(counted))]);
    for (name, value) in attributes.into_iter().chain(of_look).chain(of_channel.into_iter().flatten()) {
        sets.push(format!("{name} = :{name}"));
        update = update.expression_attribute_values(format!(":{name}"), value);
    }
    let mut removes = vec![];
    let had_pins = previous.is_some_and(|previous| !previous.pins.is_empty());
    let of_pinned = sparse((!pins.is_empty()).then(|| seqs(pins)), had_pins);
    let flag = |holds: bool| Value::of(holds.then_some(AttributeValue::Bool(true)));
    let unnamed = if seal.unnamed.is_empty() { None } else { Some(users(&seal.unnamed)) };
    // A plain group has none of these.
    let of_sealed = seal.encrypted.then(|| {
        let loose_tree = Value::of(seal.loose_tree.as_ref().map(|id| text(id.as_str())));
        [
            ("encrypted", flag(true)),
            ("epoch", Value::Set(number(seal.epoch))),
            ("unnamed", Value::of(unnamed)),
            ("loose_tree", loose_tree),
            ("commits_until", times(&seal.commits_until)),
            ("births_until", times(&seal.births_until)),
        ]
    });
    let rang = previous.is_some_and(|previous| previous.rules.rings != Rings::Off);
    let rings = sparse((rules.rings != Rings::Off).then(|| text(rules.rings.as_str())), rang);
    let of_all = [("shown_deleted", flag(line.deleted)), ("pins", of_pinned), ("rings", rings)];
    for (name, value) in of_all.into_iter().chain(of_sealed.into_iter().flatten()) {
        match value {
            Value::Set(value) => {
                sets.push(format!("{name} = :{name}"));
                update = update.expression_attribute_values(format!(":{name}"), value);
            }
            Value::Removed => removes.push(name),
            Value::Left => {}
        }
    }
    let mut expression = format!("SET {}", sets.join(", "));
    if !removes.is_empty() {
        expression = format!("{expression} REMOVE {}", removes.join(", "));
    }
    let update = update.update_expression(expression);
    match previous {
        None => update.condition_expression("attribute_not_exists(last_seq)"),
        Some(previous) => update
            .condition_expression("last_seq = :previous")
            .expression_attribute_values(":previous", number(previous.end.seq)),
    }
}

/// An attribute that most rows lack.
fn sparse(value: Option<AttributeValue>, was_set: bool) -> Value {
    match value {
        Some(value) => Value::Set(value),
        None if was_set => Value::Removed,
        None => Value::Left,
    }
}

fn times(of: &BTreeMap<UserId, Timestamp>) -> Value {
    let times = || of.iter().map(|(user, at)| (user.as_str().to_owned(), number(at.millis()))).collect();
    Value::of((!of.is_empty()).then(|| AttributeValue::M(times())))
}

fn read(table: &str, item: &Item) -> Result<Head, Error> {
    let row = Reader { item, table };
    Ok(Head {
        conversation_id: row.parsed("conversation_id", ConversationId::parse)?,
        group: GroupInfo {
            title: row.text("title")?.to_owned(),
            member_count: row.count("member_count")?,
            info_seq: row.optional("info_seq", Reader::seq)?,
        },
        rules: Rules {
            history: row.parsed("history_from", |text| HistoryFrom::parse(text).ok_or(()))?,
            post: row.parsed("post_by", |text| AllowedTo::parse(text).ok_or(()))?,
            add: row.parsed("add_by", |text| AllowedTo::parse(text).ok_or(()))?,
            join: row.optional("join_by", |row, name| row.parsed(name, |text| JoinBy::parse(text).ok_or(())))?,
            rings: row
                .optional("rings", |row, name| row.parsed(name, |text| Rings::parse(text).ok_or(())))?
                .unwrap_or_default(),
        },
        end: End { seq: row.seq("last_seq")?, sent_at: row.time("last_at")? },
        line: LastEntry {
            seq: row.seq("shown_seq")?,
            message_id: MessageId::stored(row.text("shown_id")?),
            sender_id: row.parsed("shown_sender", UserId::parse)?,
            kind: Kind::stored(row.text("shown_kind")?),
            preview: row.text("shown_preview")?.to_owned(),
            sent_at: row.time("shown_at")?,
            deleted: row.flag("shown_deleted")?,
            system: None,
        },
        roster_seq: row.seq("roster_seq")?,
        counted: row.optional("counted", Reader::count)?.unwrap_or_default(),
        seal: Seal {
            encrypted: row.flag("encrypted")?,
            epoch: row.optional("epoch", Reader::count)?.unwrap_or_default(),
            unnamed: row.optional("unnamed", Reader::users)?.unwrap_or_default(),
            loose_tree: row.optional("loose_tree", |row, name| row.parsed(name, MediaId::parse))?,
            commits_until: row.optional("commits_until", Reader::times)?.unwrap_or_default(),
            births_until: row.optional("births_until", Reader::times)?.unwrap_or_default(),
        },
        pins: row.optional("pins", Reader::seqs)?.unwrap_or_default(),
    })
}
