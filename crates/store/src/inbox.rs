//! `inbox`: a row per user and conversation. The row is the membership, the chat-list entry, the unread count, the
//! marks and the pending marker, so that one write keeps them consistent.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure, Select};
use domain::limits::ACTIVE_AT_STEP;
use domain::{End, LastEntry, Look, Marks, MemberSettings, Membership, Position, Wanted, With};
use wire::{ConversationId, Kind, MessageId, MutedUntil, Seq, Timestamp, UserId, direct_conversation_id};

use crate::error::CallResult as _;
use crate::item::{Item, Reader, number, readable, text};
use crate::{Error, Store, batch, view};

/// Which mark a client raises. Reading implies having.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Delivered,
    Read,
}

/// The outcome of a conditional write.
#[derive(Debug, PartialEq, Eq)]
pub enum Update {
    /// Written; this is the row now.
    Done(Membership),
    /// The condition did not hold, and nothing was written; this is the row, if there is one.
    Refused(Option<Membership>),
    /// A transaction was writing the row.
    Busy,
}

/// A user's row, as a write in the conversation needs it. A block before the first message has a row too.
#[derive(Debug, PartialEq, Eq)]
pub struct Standing {
    /// `None`: nothing was written yet, or the user is no member.
    pub membership: Option<Membership>,
    /// A block exists between the two users.
    pub blocked: bool,
    /// The row is of a user who is being erased.
    pub erased: bool,
    /// Until when what the user sent fills the rate.
    pub sends_until: Option<Timestamp>,
    /// Until when the user's commits fill their rate, and the births among them.
    pub commits_until: Option<Timestamp>,
    pub births_until: Option<Timestamp>,
}

/// One page of rows.
#[derive(Debug)]
pub struct Page {
    pub memberships: Vec<Membership>,
    /// How many rows of the page can't be read; they are not among the others.
    pub unreadable: u64,
    /// Rows that have moved in the index since it was read.
    pub moved: BTreeSet<ConversationId>,
    /// Where the next page begins, if there is more.
    pub next: Option<Position>,
}

/// A user's row for a conversation: `None` means that they are not a member, or that there is none.
pub async fn get(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Option<Membership>, Error> {
    let item = get_item(store, user, conversation.as_str()).await?;
    item.map_or(Ok(None), |item| read_if_written(&store.tables.inbox, &item))
}

/// Returns the same row, with the block and the rate that a write in the conversation must know.
pub async fn standing(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Standing, Error> {
    let table = &store.tables.inbox;
    let item = get_item(store, user, conversation.as_str()).await?.unwrap_or_default();
    let row = Reader { item: &item, table };
    Ok(Standing {
        membership: read_if_written(table, &item)?,
        blocked: row.flag("blocked")? || row.flag("blocked_by_peer")?,
        erased: row.flag("erased")?,
        sends_until: row.optional("sends_until", Reader::time)?,
        commits_until: row.optional("commits_until", Reader::time)?,
        births_until: row.optional("births_until", Reader::time)?,
    })
}

/// Rows of many members.
#[derive(Debug)]
pub struct Rows {
    pub memberships: Vec<Membership>,
    /// How many rows can't be read; they are not among the others.
    pub unreadable: u64,
    /// Keys that the table did not process.
    pub left: Vec<(UserId, ConversationId)>,
}

/// As many rows as `DynamoDB` reads in one call.
pub const ROWS_MAX: usize = batch::KEYS_MAX;

/// Returns the existing rows of these members, at most [`ROWS_MAX`], each requested once.
pub async fn get_many(store: &Store, members: &[(UserId, ConversationId)]) -> Result<Rows, Error> {
    let table = &store.tables.inbox;
    let keys: Vec<Item> = members.iter().map(|(user, conversation)| key(user, conversation)).collect();
    let batch::Rows { found, left } = batch::rows(store, table, &keys, true, 1).await?;
    let (rows, unreadable) = readable(found.iter().map(|item| read_if_written(table, item)));
    let left = left.iter().map(|item| {
        let key = Reader { item, table };
        Ok((key.parsed("user_id", UserId::parse)?, key.parsed("conversation_id", ConversationId::parse)?))
    });
    Ok(Rows {
        memberships: rows.into_iter().flatten().collect(),
        unreadable,
        left: left.collect::<Result<_, Error>>()?,
    })
}

/// Returns the user's rows of those of these conversations that are pinned, in their order, and how many can't be read. A
/// group that the user has left is not pinned.
pub async fn pinned(
    store: &Store,
    user: &UserId,
    conversations: &[ConversationId],
) -> Result<(Vec<Membership>, u64), Error> {
    let table = &store.tables.inbox;
    let items = batch::all(store, table, conversations.iter().map(|id| key(user, id)).collect(), true).await?;
    let (rows, unreadable) = readable(items.iter().map(|item| read_if_written(table, item)));
    let mut rows: Vec<Membership> = rows.into_iter().flatten().collect();
    rows.retain(|row| row.settings.pinned && row.is_open());
    rows.sort_by_key(|row| conversations.iter().position(|id| *id == row.conversation_id));
    Ok((rows, unreadable))
}

/// Rows of some members of one conversation.
#[derive(Debug)]
pub struct MemberRows<R> {
    pub rows: Vec<R>,
    /// The members whose rows can't be read.
    pub unreadable: Vec<UserId>,
    /// The members whose rows the table does not take a read of at the moment.
    pub left: Vec<UserId>,
}

impl<R> Default for MemberRows<R> {
    fn default() -> Self {
        Self { rows: vec![], unreadable: vec![], left: vec![] }
    }
}

/// Maximum of requests for the rows of a conversation's members: the others don't wait for a hot partition.
const MEMBER_READS_MAX: u32 = 2;

/// The rows of those of these members who have one. A row that can't be read leaves the others as they are.
pub(crate) async fn member_rows<R>(
    store: &Store,
    conversation: &ConversationId,
    users: &[UserId],
    consistent: bool,
    read: impl Fn(&str, &Item) -> Result<Option<R>, Error>,
) -> Result<MemberRows<R>, Error> {
    let table = &store.tables.inbox;
    let user = |item: &Item| Reader { item, table }.parsed("user_id", UserId::parse);
    let keys: Vec<Item> = users.iter().map(|user| key(user, conversation)).collect();
    let batch::Rows { found, left } = batch::rows_in_time(store, table, &keys, consistent, MEMBER_READS_MAX).await?;
    let mut of_members = MemberRows { left: left.iter().map(user).collect::<Result<_, _>>()?, ..MemberRows::default() };
    for item in &found {
        match read(table, item) {
            Ok(row) => of_members.rows.extend(row),
            Err(error) => {
                tracing::error!(%error, "skipped an unreadable row");
                of_members.unreadable.push(user(item)?);
            }
        }
    }
    Ok(of_members)
}

pub(crate) fn key(user: &UserId, conversation: &ConversationId) -> Item {
    Item::from([
        ("user_id".to_owned(), text(user.as_str())),
        ("conversation_id".to_owned(), text(conversation.as_str())),
    ])
}

/// The conversations that a badge counts.
#[derive(Debug)]
pub struct Unread {
    /// Messages that the user has not read, of conversations that are not muted.
    pub messages: u64,
    /// The conversations of them of which phones show nothing, and which no badge counted before; each with its number.
    pub unseen: Vec<(ConversationId, u64)>,
}

/// What `user` has not read: that of one page of rows, which is well over a thousand.
pub async fn unread(store: &Store, user: &UserId, now: Timestamp) -> Result<Unread, Error> {
    let table = &store.tables.inbox;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("user_id = :user")
        .expression_attribute_values(":user", text(user.as_str()))
        .projection_expression("conversation_id, unread, muted_until, notified_seq, badged_at");
    let found = query.send().await.of_call("Query", table)?;
    let counted = found.items().iter().map(|item| {
        let row = Reader { item, table };
        let muted = muted_until(&row)?.is_some_and(|until| until.is_after(now));
        let unread = row.optional("unread", Reader::count)?.unwrap_or_default();
        let is_seen = item.contains_key("notified_seq") || item.contains_key("badged_at");
        if muted || unread == 0 {
            return Ok((0, None));
        }
        let unseen = if is_seen { None } else { Some(row.parsed("conversation_id", ConversationId::parse)?) };
        Ok((unread, unseen.map(|conversation| (conversation, unread))))
    });
    let (counted, _) = readable(counted);
    let messages = counted.iter().map(|(unread, _)| unread).sum();
    Ok(Unread { messages, unseen: counted.into_iter().filter_map(|(_, unseen)| unseen).collect() })
}

/// Records that a badge counts this conversation with this number of unread messages. Returns `false` if the number has
/// changed. A read removes the record, and so `notify` sees that the badge is too high.
pub async fn mark_badged(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    unread: u64,
    now: Timestamp,
) -> Result<bool, Error> {
    let table = &store.tables.inbox;
    let write = row(store, user, conversation)
        .return_values(ReturnValue::None)
        .update_expression("SET badged_at = :now")
        .condition_expression("unread = :unread")
        .expression_attribute_values(":now", number(now.millis()))
        .expression_attribute_values(":unread", number(unread));
    match write.send().await.of_call("UpdateItem", table) {
        Err(error) if error.is_refused() => Ok(false),
        written => written.map(|_| true),
    }
}

/// Has the stream bring the row back to `notify`. Nothing is written where the row is gone.
pub async fn look_again(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    look: &Look,
) -> Result<Marked, Error> {
    let table = &store.tables.inbox;
    let write = row(store, user, conversation)
        .return_values(ReturnValue::None)
        .update_expression("SET look = :look")
        // A channel's row has the other one.
        .condition_expression("attribute_exists(last_seq) OR attribute_exists(read_counted)")
        .expression_attribute_values(":look", text(look.stored()));
    match write.send().await {
        Ok(_) => Ok(Marked::Done),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(Marked::Passed),
            Some(UpdateItemError::TransactionConflictException(_)) => Ok(Marked::Busy),
            _ => Err(Error::call("UpdateItem", table, error)),
        },
    }
}

/// The outcome of recording a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    Done,
    /// The user has read it, or it is deleted.
    Read,
    /// A later push is recorded, or the row is gone.
    Passed,
    /// A transaction was writing the row.
    Busy,
}

/// Records pushes up to `seq`, unless the user has read that message, or it is deleted.
pub async fn mark_notified(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
) -> Result<Marked, Error> {
    let table = &store.tables.inbox;
    let write = row(store, user, conversation)
        .return_values(ReturnValue::None)
        .update_expression("SET notified_seq = :seq REMOVE look")
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

/// Returns the time until which `user`'s first messages to strangers fill their rate, from a row of its own.
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

/// Reads the chat list's index from the most recent end, behind a position: only rows that were active `until` then,
/// back to `since`. The order is that of `active_at`, which is at most [`ACTIVE_AT_STEP`] older than
/// [`Membership::moved_up_at`].
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
    // Another `since` with the same cursor: DynamoDB would refuse a range that ends before it begins, and a start
    // outside it.
    if from > until || behind.is_some_and(|behind| !(from..=until).contains(&behind.active_at.millis())) {
        return at(store, user, &[], None).await;
    }
    let is_first = behind.is_none() && until == i64::MAX && since.is_none();
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let looked_at = if is_first { wanted.max(FEW_MAX + 1) } else { wanted };
    let query = store
        .client
        .query()
        .table_name(table)
        .index_name("recency")
        .consistent_read(true)
        .select(Select::AllProjectedAttributes)
        .key_condition_expression("user_id = :user AND active_at BETWEEN :from AND :until")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":from", number(from))
        .expression_attribute_values(":until", number(until))
        .scan_index_forward(false)
        .limit(i32::try_from(looked_at).unwrap_or(i32::MAX))
        .set_exclusive_start_key(start);
    let found = query.send().await.of_call("Query", table)?;
    let is_whole = is_first && found.last_evaluated_key().is_none();
    let mut places = found.items().iter().map(|key| position(table, key)).collect::<Result<Vec<_>, _>>()?;
    if is_whole
        && !places.is_empty()
        && let Some(page) = few(store, user).await?
    {
        return Ok(page);
    }
    let is_cut = places.len() > wanted;
    places.truncate(wanted);
    let next = if is_cut { places.last().cloned() } else { None };
    let next = next.map_or_else(
        || found.last_evaluated_key().map(|key| position(table, key)).transpose(),
        |next| Ok(Some(next)),
    )?;
    at(store, user, &places, next).await
}

/// Maximum of conversations that one query reads, for about five read units. The index shows with one more whether
/// others exist.
const FEW_MAX: usize = 48;

/// All conversations of a user who has few, in the order of the index; `None`: there are more rows than were read. The
/// rows lie side by side, so their sum is rounded up to a unit, and not each of them.
async fn few(store: &Store, user: &UserId) -> Result<Option<Page>, Error> {
    let table = &store.tables.inbox;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        // Behind the rows of channels, and those that are about no conversation.
        .key_condition_expression("user_id = :user AND conversation_id >= :first")
        .expression_attribute_values(":user", text(user.as_str()))
        .expression_attribute_values(":first", text("dm_"))
        .limit(i32::try_from(FEW_MAX + 5).unwrap_or(i32::MAX));
    let found = query.send().await.of_call("Query", table)?;
    if found.last_evaluated_key().is_some() {
        return Ok(None);
    }
    // A row outside the index is a setting before the first message.
    let listed = found.items().iter().filter(|item| item.contains_key("active_at"));
    let (mut memberships, unreadable) = readable(listed.map(|item| read(table, item)));
    memberships.sort_by_key(|row| Reverse((row.active_at, row.conversation_id.clone())));
    Ok(Some(Page { memberships, unreadable, moved: BTreeSet::new(), next: None }))
}

/// Reads the rows at these places of the index, in its order. A row that has moved since is named.
async fn at(store: &Store, user: &UserId, places: &[Position], next: Option<Position>) -> Result<Page, Error> {
    if places.is_empty() {
        return Ok(Page { memberships: vec![], unreadable: 0, moved: BTreeSet::new(), next });
    }
    let table = &store.tables.inbox;
    let keys = places.iter().map(|place| key(user, &place.conversation_id)).collect();
    let items = batch::all(store, table, keys, true).await?;
    let (mut memberships, unreadable) = readable(items.iter().map(|item| read(table, item)));
    let place = |row: &Membership| places.iter().position(|place| place.conversation_id == row.conversation_id);
    memberships.sort_by_key(place);
    let is_there = |row: &&Membership| places.contains(&row.position());
    let moved = memberships.iter().filter(|row| !is_there(row)).map(|row| row.conversation_id.clone()).collect();
    Ok(Page { memberships, unreadable, moved, next })
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
    /// Where the others are, if there are any behind these.
    pub next: Option<Behind>,
}

/// A place in the index of what is pending.
#[derive(Debug)]
pub struct Behind(Item);

/// Returns conversations with messages that no device of `user` has acknowledged, the oldest first. At least one, if
/// one behind that place is readable. Consistent: see [`crate::connections::Freshness`].
pub async fn pending(store: &Store, user: &UserId, limit: usize, behind: Option<Behind>) -> Result<Pending, Error> {
    let table = &store.tables.inbox;
    let (mut start, mut unreadable) = (behind.map(|Behind(key)| key), 0);
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
            return Ok(Pending { memberships, unreadable, next: start.map(Behind) });
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

/// The attributes that no longer hold once all is read.
pub(crate) const READ: &str = "pending_from, pending_since, notified_seq, badged_at, look, mentions, marked_unread";

/// Raises a mark to the conversation's last message, the usual case, with one write and no read. Fails unless `seq` is
/// the last, and the mark is below it. The row therefore has the time when the mark rose, and not that of a repetition.
/// Returns the row as it was.
pub async fn catch_up(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
    mark: Mark,
    now: Timestamp,
) -> Result<Update, Error> {
    let (update, condition) = match mark {
        Mark::Delivered => (
            "SET delivered_seq = :seq, delivered_at = :now REMOVE pending_from, pending_since".to_owned(),
            "last_seq = :seq AND delivered_seq < :seq",
        ),
        Mark::Read => (
            format!("SET delivered_seq = :seq, read_seq = :seq, read_at = :now, unread = :none REMOVE {READ}"),
            "last_seq = :seq AND read_seq < :seq",
        ),
    };
    let mut write = row(store, user, conversation)
        .return_values(ReturnValue::AllOld)
        .update_expression(update)
        .condition_expression(condition)
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
    /// With this many of them no conversation exists.
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
    for item in batch::all(store, table, keys, true).await? {
        let row = Reader { item: &item, table };
        if row.text("conversation_id")? == FIRST_MESSAGES {
            first_messages_until = row.optional("sends_until", Reader::time)?;
            continue;
        }
        // If the block is unreadable, the users are kept apart.
        blocked |= row.flag("blocked_by_peer").unwrap_or(true);
        known += u32::from(item.contains_key("last_seq"));
    }
    let strangers = u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_sub(known);
    Ok(Acquaintance { blocked, strangers, first_messages_until })
}

/// Returns the other member of direct conversations, each by one of its members. A peer never changes, so a read at half
/// the price is enough. Such a read can lack a row of the last instant, which is then read again. A row that can't be read is
/// left out.
pub async fn peers(
    store: &Store,
    members: &BTreeMap<ConversationId, UserId>,
) -> Result<BTreeMap<ConversationId, UserId>, Error> {
    let table = &store.tables.inbox;
    let mut peers = BTreeMap::new();
    for consistent in [false, true] {
        let missing = members.iter().filter(|(conversation, _)| !peers.contains_key(*conversation));
        let keys = missing.map(|(conversation, user)| key(user, conversation)).collect();
        let items = batch::all(store, table, keys, consistent).await?;
        let peer = |item: &Item| {
            let row = Reader { item, table };
            Ok((row.parsed("conversation_id", ConversationId::parse)?, row.parsed("peer_id", UserId::parse)?))
        };
        peers.extend(readable(items.iter().map(peer)).0);
    }
    Ok(peers)
}

/// Returns those of these users who have a block with `user`, in either direction.
pub async fn blocked_with(store: &Store, user: &UserId, others: &[UserId]) -> Result<Vec<UserId>, Error> {
    let table = &store.tables.inbox;
    let keys = others.iter().map(|other| key(user, &direct_conversation_id(user, other))).collect();
    let mut blocked = vec![];
    for item in batch::all(store, table, keys, true).await? {
        let row = Reader { item: &item, table };
        if row.flag("blocked")? || row.flag("blocked_by_peer")? {
            blocked.push(row.parsed("peer_id", UserId::parse)?);
        }
    }
    Ok(blocked)
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
    let mut look = "";
    let mut condition = "last_seq = :last AND delivered_seq = :was_delivered AND read_seq = :was_read".to_owned();
    let mut write = row(store, user, &before.conversation_id);
    if is_read {
        match before.notified_seq {
            // A phone with a push from meanwhile would show the read message for ever.
            None => condition.push_str(" AND attribute_not_exists(notified_seq)"),
            Some(notified) => {
                condition.push_str(" AND notified_seq = :was_notified");
                write = write.expression_attribute_values(":was_notified", number(notified));
                if notified <= after.read_seq {
                    removes.extend(["notified_seq", "look"]);
                } else {
                    // Phones show the message as before, and a badge that is too high.
                    look = ", look = :look";
                    write = write.expression_attribute_values(":look", text(Look::new(Wanted::Badge, now).stored()));
                }
            }
        }
        removes.extend(before.is_badged.then_some("badged_at"));
        removes.extend(before.settings.marked_unread.then_some("marked_unread"));
    }
    let removes = if removes.is_empty() { String::new() } else { format!(" REMOVE {}", removes.join(", ")) };
    let mut write = write
        .update_expression(format!(
            "SET delivered_seq = :delivered, read_seq = :read, unread = :unread, {at} = :now{mentions}{pending}{look}{removes}"
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

/// Takes the user's mark as unread away, by a read that raises nothing.
pub async fn unmark(store: &Store, user: &UserId, before: &Membership) -> Result<Update, Error> {
    let write = row(store, user, &before.conversation_id)
        .update_expression("REMOVE marked_unread")
        .condition_expression("attribute_exists(last_seq)");
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

/// Returns the conversation's end, and the seq of the chat list's last message. The two differ if a change entry is
/// last. A new message does not touch the record of the last change entry, so the record counts only while that entry
/// is the end.
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
    let is_of_group = view::is_of_group(item);
    let last_at = row.time("last_at")?;
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
            // A group's last message is with the group.
            preview: if is_of_group { String::new() } else { row.text("last_preview")?.to_owned() },
            sent_at: last_at,
            deleted: row.optional("deleted_seq", Reader::seq)? == Some(shown_seq),
            system: None,
        },
        // Until an entry counts, the row is not in the index.
        active_at: row.optional("active_at", Reader::time)?.unwrap_or(last_at),
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
            mute_mentions: row.flag("mute_mentions")?,
            archived: row.flag("archived")?,
            marked_unread: row.flag("marked_unread")?,
            pinned: row.flag("pinned")?,
            blocked: row.flag("blocked")?,
        },
        epoch: row.optional("epoch", Reader::count)?.unwrap_or_default(),
        pins: row.optional("pins", Reader::seqs)?.unwrap_or_default(),
        notified_seq: row.optional("notified_seq", Reader::seq)?,
        is_badged: item.contains_key("badged_at"),
        look: None,
    })
}

/// The `last_kind` of a row without an entry that counts.
const COMMIT: &str = "commit";

fn with(row: &Reader) -> Result<With, Error> {
    if view::is_of_group(row.item) {
        return view::view(row).map(With::Group);
    }
    let peer_id = row.parsed("peer_id", UserId::parse)?;
    // The version before recorded only the last sender: the other user counts as silent until the next message. A commit
    // is no message.
    let wrote_last = Some(row.text("last_sender_id")?).filter(|_| row.text("last_kind").ok() != Some(COMMIT));
    let wrote = row.flag("wrote")? || wrote_last == Some(row.text("user_id")?);
    let peer_wrote = row.flag("peer_wrote")? || wrote_last == Some(peer_id.as_str());
    Ok(With::Peer { peer_id, blocked_by_peer: row.flag("blocked_by_peer")?, wrote, peer_wrote })
}
