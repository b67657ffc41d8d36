//! `inbox`: a row per user and conversation. It is the membership, the chat-list entry, the unread counter, the
//! marks and the pending marker in one, so that one write keeps them true together.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{KeysAndAttributes, ReturnValue, ReturnValuesOnConditionCheckFailure, Select};
use domain::limits::ACTIVE_AT_STEP;
use domain::{End, LastEntry, Marks, MemberSettings, Membership, Position, With, direct_conversation_id};
use wire::{ConversationId, Kind, MessageId, MutedUntil, Seq, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, number, readable, text};
use crate::{Error, Store, batch, views};

/// Which mark a client raises. Reading implies having.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Delivered,
    Read,
}

/// What came of a conditional write.
#[derive(Debug, PartialEq, Eq)]
pub enum Update {
    /// Written; this is the row now.
    Done(Membership),
    /// The condition did not hold, and nothing was written; this is the row, if there is one.
    Refused(Option<Membership>),
    /// A transaction was writing the row.
    Busy,
}

/// A user's row as whoever writes in the conversation must know it: there is one, too, where one of the two blocked the other
/// before the first message.
#[derive(Debug, PartialEq, Eq)]
pub struct Standing {
    /// `None`: nothing was written yet, or the user is no member.
    pub membership: Option<Membership>,
    /// One of the two blocks the other.
    pub blocked: bool,
    /// Until when what the user sent fills the rate.
    pub sends_until: Option<Timestamp>,
}

/// One page of rows.
#[derive(Debug)]
pub struct Page {
    pub memberships: Vec<Membership>,
    /// How many rows of the page can't be read; they are not among the others.
    pub unreadable: u64,
    /// Where the next page begins, if there is more.
    pub next: Option<Position>,
}

/// A user's row for a conversation: `None` means that they are not a member, or that there is none.
pub async fn get(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Option<Membership>, Error> {
    let item = get_item(store, user, conversation.as_str()).await?;
    item.map_or(Ok(None), |item| read_if_written(&store.tables.inbox, &item))
}

/// The same row, as whoever writes in the conversation must know it.
pub async fn standing(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Standing, Error> {
    let table = &store.tables.inbox;
    let item = get_item(store, user, conversation.as_str()).await?.unwrap_or_default();
    let row = Reader { item: &item, table };
    Ok(Standing {
        membership: read_if_written(table, &item)?,
        blocked: row.flag("blocked")? || row.flag("blocked_by_peer")?,
        sends_until: row.optional("sends_until", Reader::time)?,
    })
}

/// Rows of many members.
#[derive(Debug)]
pub struct Rows {
    pub memberships: Vec<Membership>,
    /// How many rows can't be read; they are not among the others.
    pub unreadable: u64,
    /// What the table did not take at the moment.
    pub left: Vec<(UserId, ConversationId)>,
}

/// As many rows as `DynamoDB` reads in one call.
pub const ROWS_MAX: usize = 100;

/// The rows of these members that there are, [`ROWS_MAX`] at most, each asked for once.
pub async fn get_many(store: &Store, members: &[(UserId, ConversationId)]) -> Result<Rows, Error> {
    let table = &store.tables.inbox;
    let keys = members.iter().map(|(user, conversation)| key(user, conversation)).collect();
    let keys = KeysAndAttributes::builder().consistent_read(true).set_keys(Some(keys)).build();
    let keys =
        keys.map_err(|error| Error::Call { operation: "BatchGetItem", table: table.clone(), source: error.into() })?;
    let found = store.client.batch_get_item().request_items(table, keys).send().await.of_call("BatchGetItem", table)?;
    let items = found.responses().and_then(|tables| tables.get(table)).map(Vec::as_slice).unwrap_or_default();
    let (rows, unreadable) = readable(items.iter().map(|item| read_if_written(table, item)));
    let left = found.unprocessed_keys().and_then(|tables| tables.get(table)).map(KeysAndAttributes::keys);
    let left = left.unwrap_or_default().iter().map(|item| {
        let key = Reader { item, table };
        Ok((key.parsed("user_id", UserId::parse)?, key.parsed("conversation_id", ConversationId::parse)?))
    });
    Ok(Rows {
        memberships: rows.into_iter().flatten().collect(),
        unreadable,
        left: left.collect::<Result<_, Error>>()?,
    })
}

pub(crate) fn key(user: &UserId, conversation: &ConversationId) -> Item {
    Item::from([
        ("user_id".to_owned(), text(user.as_str())),
        ("conversation_id".to_owned(), text(conversation.as_str())),
    ])
}

/// How many messages `user` has not read, of conversations that are not muted: those of one page of rows, which is well over a
/// thousand.
pub async fn unread(store: &Store, user: &UserId, now: Timestamp) -> Result<u64, Error> {
    let table = &store.tables.inbox;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .projection_expression("unread, muted_until");
    let found = query.send().await.of_call("Query", table)?;
    let counted = found.items().iter().map(|item| {
        let row = Reader { item, table };
        let muted = muted_until(&row)?.is_some_and(|until| until.is_after(now));
        Ok(if muted { 0 } else { row.optional("unread", Reader::count)?.unwrap_or_default() })
    });
    Ok(readable(counted).0.into_iter().sum())
}

/// What came of noting that phones were rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    Done,
    /// It was read or deleted meanwhile.
    Read,
    /// Phones were rung for a later one, or the row is gone.
    Passed,
    /// A transaction was writing the row.
    Busy,
}

/// Notes that phones were rung for everything up to `seq`, unless the user has read that, or it is deleted.
pub async fn mark_notified(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
) -> Result<Marked, Error> {
    let table = &store.tables.inbox;
    let write = row(store, user, conversation)
        .return_values(ReturnValue::None)
        .update_expression("SET notified_seq = :seq")
        .condition_expression(
            "read_seq < :seq AND (attribute_not_exists(deleted_seq) OR deleted_seq <> :seq) \
             AND (attribute_not_exists(notified_seq) OR notified_seq < :seq)",
        )
        .expression_attribute_values(":seq", number(seq));
    let Err(error) = write.send().await else { return Ok(Marked::Done) };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
            let Some(item) = refused.item() else { return Ok(Marked::Passed) };
            let row = Reader { item, table };
            let is_over = row.seq("read_seq")? >= seq || row.optional("deleted_seq", Reader::seq)? == Some(seq);
            Ok(if is_over { Marked::Read } else { Marked::Passed })
        }
        Some(UpdateItemError::TransactionConflictException(_)) => Ok(Marked::Busy),
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

/// Until when the first messages that `user` wrote to others fill their rate. It is kept in a row of its own.
pub async fn first_messages_until(store: &Store, user: &UserId) -> Result<Option<Timestamp>, Error> {
    let item = get_item(store, user, FIRST_MESSAGES).await?.unwrap_or_default();
    Reader { item: &item, table: &store.tables.inbox }.optional("sends_until", Reader::time)
}

/// The key of that row: no conversation has it, since their ids have no space.
pub(crate) const FIRST_MESSAGES: &str = " first messages";

pub(crate) async fn get_item(store: &Store, user: &UserId, conversation: &str) -> Result<Option<Item>, Error> {
    let table = &store.tables.inbox;
    let get = store
        .client
        .get_item()
        .table_name(table)
        .consistent_read(true)
        .key("user_id", text(user.as_str()))
        .key("conversation_id", text(conversation));
    Ok(get.send().await.of_call("GetItem", table)?.item)
}

/// The chat list's index from its most recently active end, behind a position; only what was active `until` then, and has been
/// written to `since`. It is in the order of `active_at`, which is at most [`ACTIVE_AT_STEP`] older than the last message.
pub async fn recent(
    store: &Store,
    user: &UserId,
    limit: u64,
    behind: Option<&Position>,
    until: Option<Timestamp>,
    since: Option<Timestamp>,
) -> Result<Page, Error> {
    let table = &store.tables.inbox;
    let start = behind.map(|behind| {
        Item::from([
            ("user_id".to_owned(), text(user.as_str())),
            ("conversation_id".to_owned(), text(behind.conversation_id.as_str())),
            ("active_at".to_owned(), number(behind.active_at.millis())),
        ])
    });
    let from = since.map_or(0, |since| since.minus(ACTIVE_AT_STEP).millis());
    let until = until.map_or(i64::MAX, Timestamp::millis);
    // Another `since` with the same cursor: DynamoDB would refuse a range that ends before it begins, and a start outside it.
    if from > until || behind.is_some_and(|behind| !(from..=until).contains(&behind.active_at.millis())) {
        return Ok(Page { memberships: vec![], unreadable: 0, next: None });
    }
    let query = store
        .client
        .query()
        .table_name(table)
        .index_name("recency")
        .consistent_read(true)
        .select(Select::AllAttributes)
        .key_condition_expression("user_id = :user AND active_at BETWEEN :from AND :until")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":from", number(from))
        .expression_attribute_values(":until", number(until))
        .scan_index_forward(false)
        .limit(i32::try_from(limit).unwrap_or(i32::MAX))
        .set_exclusive_start_key(start);
    let found = query.send().await.of_call("Query", table)?;
    let (memberships, unreadable) = readable(found.items().iter().map(|item| read(table, item)));
    Ok(Page { memberships, unreadable, next: found.last_evaluated_key().map(|key| position(table, key)).transpose()? })
}

/// The place of a row in the chat list.
fn position(table: &str, key: &Item) -> Result<Position, Error> {
    let key = Reader { item: key, table };
    let conversation_id = key.parsed("conversation_id", ConversationId::parse)?;
    Ok(Position { active_at: key.time("active_at")?, conversation_id })
}

/// Conversations that have something pending.
#[derive(Debug)]
pub struct Pending {
    pub memberships: Vec<Membership>,
    /// How many rows can't be read; what they have stays pending.
    pub unreadable: u64,
    /// There are others behind these.
    pub more: bool,
}

/// Conversations with something that no device of `user` has acknowledged, those that have waited longest first: at least one, if
/// there is any that can be read. Consistent: see [`crate::connections::Freshness`].
pub async fn pending(store: &Store, user: &UserId, limit: usize) -> Result<Pending, Error> {
    let table = &store.tables.inbox;
    let (mut start, mut unreadable) = (None, 0);
    loop {
        let query = pending_query(store, user)
            .select(Select::AllAttributes)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start);
        let found = query.send().await.of_call("Query", table)?;
        let (memberships, passed_over) = readable(found.items().iter().map(|item| read(table, item)));
        unreadable += passed_over;
        start = found.last_evaluated_key;
        if !memberships.is_empty() || start.is_none() {
            return Ok(Pending { memberships, unreadable, more: start.is_some() });
        }
    }
}

/// Whether anything waits for `user`. Reads one index entry and no row.
pub async fn has_pending(store: &Store, user: &UserId) -> Result<bool, Error> {
    let table = &store.tables.inbox;
    let found = pending_query(store, user).select(Select::Count).limit(1).send().await.of_call("Query", table)?;
    Ok(found.count() > 0)
}

fn pending_query(store: &Store, user: &UserId) -> QueryFluentBuilder {
    let query = store.client.query().table_name(&store.tables.inbox).index_name("pending").consistent_read(true);
    query.key_condition_expression("user_id = :user").expression_attribute_values(":user", text(user.as_str()))
}

/// Raises a mark to the conversation's last message, which is what clients do nearly always: one write, nothing read
/// before it. Refused unless `seq` is the last; a mark that stands there already is written as it is. Done, it says how the row
/// was before.
pub async fn catch_up(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
    mark: Mark,
    now: Timestamp,
) -> Result<Update, Error> {
    let update = match mark {
        Mark::Delivered => "SET delivered_seq = :seq, delivered_at = :now REMOVE pending_from, pending_since",
        Mark::Read => {
            "SET delivered_seq = :seq, read_seq = :seq, read_at = :now, unread = :none \
             REMOVE pending_from, pending_since, notified_seq, mentions"
        }
    };
    let mut write = row(store, user, conversation)
        .return_values(ReturnValue::AllOld)
        .update_expression(update)
        .condition_expression("last_seq = :seq")
        .expression_attribute_values(":now", number(now.millis()))
        .expression_attribute_values(":seq", number(seq));
    if mark == Mark::Read {
        write = write.expression_attribute_values(":none", number(0));
    }
    outcome(store, write).await
}

/// How a user stands with some others.
#[derive(Clone, Copy, Debug)]
pub struct Acquaintance {
    /// Whether one of them blocks the user.
    pub blocked: bool,
    /// With so many of them there is no conversation.
    pub strangers: u32,
    /// As [`first_messages_until`], if it was wanted.
    pub first_messages_until: Option<Timestamp>,
}

/// How `user` stands with these others, and with `counted` also how much they have written to strangers.
pub async fn acquaintance(
    store: &Store,
    user: &UserId,
    others: &[&UserId],
    counted: bool,
) -> Result<Acquaintance, Error> {
    let table = &store.tables.inbox;
    let mut keys: Vec<Item> = others.iter().map(|other| key(user, &direct_conversation_id(user, other))).collect();
    if counted {
        let row = [("user_id", user.as_str()), ("conversation_id", FIRST_MESSAGES)];
        keys.push(row.map(|(name, value)| (name.to_owned(), text(value))).into());
    }
    let (mut blocked, mut known, mut first_messages_until) = (false, 0, None);
    for item in batch::rows(store, table, keys, true).await? {
        let row = Reader { item: &item, table };
        if row.text("conversation_id")? == FIRST_MESSAGES {
            first_messages_until = row.optional("sends_until", Reader::time)?;
            continue;
        }
        blocked |= row.flag("blocked_by_peer")?;
        known += u32::from(item.contains_key("last_seq"));
    }
    let strangers = u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_sub(known);
    Ok(Acquaintance { blocked, strangers, first_messages_until })
}

/// Writes the marks that follow from `before`, if the row is still as it was. A message, an ack or a read in between
/// would make them wrong: the marks could fall, or `unread` lose a message.
pub async fn advance(
    store: &Store,
    user: &UserId,
    before: &Membership,
    after: &Marks,
    now: Timestamp,
) -> Result<Update, Error> {
    let is_read = after.read_seq > before.marks.read_seq;
    let at = if is_read { "read_at" } else { "delivered_at" };
    let mentions = if before.view().is_some() { ", mentions = :mentions" } else { "" };
    let (pending, mut removes) = match after.pending_from {
        Some(_) => (", pending_from = :pending", vec![]),
        None => ("", vec!["pending_from", "pending_since"]),
    };
    let mut condition = "last_seq = :last AND delivered_seq = :was_delivered AND read_seq = :was_read".to_owned();
    let mut write = row(store, user, &before.conversation_id);
    if is_read {
        match before.notified_seq {
            // A phone that was rung meanwhile would show for ever what is read now.
            None => condition.push_str(" AND attribute_not_exists(notified_seq)"),
            Some(notified) => {
                condition.push_str(" AND notified_seq = :was_notified");
                write = write.expression_attribute_values(":was_notified", number(notified));
                removes.extend((notified <= after.read_seq).then_some("notified_seq"));
            }
        }
    }
    let removes = if removes.is_empty() { String::new() } else { format!(" REMOVE {}", removes.join(", ")) };
    let mut write = write
        .update_expression(format!(
            "SET delivered_seq = :delivered, read_seq = :read, unread = :unread, {at} = :now{mentions}{pending}{removes}"
        ))
        .expression_attribute_values(":now", number(now.millis()))
        .condition_expression(condition)
        .expression_attribute_values(":delivered", number(after.delivered_seq))
        .expression_attribute_values(":read", number(after.read_seq))
        .expression_attribute_values(":unread", number(after.unread))
        .expression_attribute_values(":last", number(before.end.seq))
        .expression_attribute_values(":was_delivered", number(before.marks.delivered_seq))
        .expression_attribute_values(":was_read", number(before.marks.read_seq));
    if before.view().is_some() {
        write = write.expression_attribute_values(":mentions", number(after.mentions));
    }
    if let Some(from) = after.pending_from {
        write = write.expression_attribute_values(":pending", number(from));
    }
    outcome(store, write).await
}

pub(crate) fn row(store: &Store, user: &UserId, conversation: &ConversationId) -> UpdateItemFluentBuilder {
    store
        .client
        .update_item()
        .table_name(&store.tables.inbox)
        .key("user_id", text(user.as_str()))
        .key("conversation_id", text(conversation.as_str()))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

pub(crate) async fn outcome(store: &Store, write: UpdateItemFluentBuilder) -> Result<Update, Error> {
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
            refused.item().map_or(Ok(None), |item| read_if_written(table, item)).map(Update::Refused)
        }
        Some(UpdateItemError::TransactionConflictException(_)) => Ok(Update::Busy),
        _ => Err(Error::call("UpdateItem", table, failed)),
    }
}

/// A later version may know other ways to mute: this one then takes it for muted.
pub(crate) fn muted_until(row: &Reader) -> Result<Option<MutedUntil>, Error> {
    let text = row.optional("muted_until", Reader::text)?;
    Ok(text.map(|text| MutedUntil::parse(text).unwrap_or(MutedUntil::Forever)))
}

/// `None` where a setting is all that the row holds: nothing was written in the conversation yet.
pub(crate) fn read_if_written(table: &str, item: &Item) -> Result<Option<Membership>, Error> {
    item.contains_key("last_seq").then(|| read(table, item)).transpose()
}

/// Where the conversation ends, and the seq of the entry that the chat list shows. That is the end, unless a silent entry came last.
/// Whoever appends a message does not touch what the last silent entry left here, so it holds as long as that one is the end.
fn end(row: &Reader) -> Result<(End, Seq), Error> {
    let seq = row.seq("last_seq")?;
    if is_silent(row)? {
        Ok((End { seq, sent_at: row.time("silent_at")? }, row.seq("shown_seq")?))
    } else {
        Ok((End { seq, sent_at: row.time("last_at")? }, seq))
    }
}

/// Whether the last entry is a silent one.
pub(crate) fn is_silent(row: &Reader) -> Result<bool, Error> {
    Ok(row.optional("silent_seq", Reader::seq)? == Some(row.seq("last_seq")?))
}

fn read(table: &str, item: &Item) -> Result<Membership, Error> {
    let row = Reader { item, table };
    let (end, shown_seq) = end(&row)?;
    let is_of_group = views::is_of_group(item);
    Ok(Membership {
        user_id: row.parsed("user_id", UserId::parse)?,
        conversation_id: row.parsed("conversation_id", ConversationId::parse)?,
        with: with(&row)?,
        end,
        last: LastEntry {
            seq: shown_seq,
            message_id: MessageId::stored(row.text("last_message_id")?),
            sender_id: row.parsed("last_sender_id", UserId::parse)?,
            kind: Kind::stored(row.text("last_kind")?),
            // Of a group, what the line says is with the group.
            preview: if is_of_group { String::new() } else { row.text("last_preview")?.to_owned() },
            sent_at: row.time("last_at")?,
            deleted: row.optional("deleted_seq", Reader::seq)? == Some(shown_seq),
            system: None,
        },
        active_at: row.time("active_at")?,
        marks: Marks {
            delivered_seq: row.seq("delivered_seq")?,
            read_seq: row.seq("read_seq")?,
            unread: row.count("unread")?,
            mentions: row.optional("mentions", Reader::count)?.unwrap_or_default(),
            pending_from: row.optional("pending_from", Reader::seq)?,
        },
        delivered_at: row.optional("delivered_at", Reader::time)?,
        read_at: row.optional("read_at", Reader::time)?,
        settings: MemberSettings {
            muted_until: muted_until(&row)?,
            archived: row.flag("archived")?,
            blocked: row.flag("blocked")?,
        },
        notified_seq: row.optional("notified_seq", Reader::seq)?,
    })
}

fn with(row: &Reader) -> Result<With, Error> {
    if views::is_of_group(row.item) {
        return views::view(row).map(With::Group);
    }
    Ok(With::Peer { peer_id: row.parsed("peer_id", UserId::parse)?, blocked_by_peer: row.flag("blocked_by_peer")? })
}
