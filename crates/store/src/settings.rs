//! Settings of users for conversations and for each other, in the rows of `inbox`.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, TransactWriteItem, Update};
use domain::{Look, Wanted};
use wire::{ConversationId, ConversationSettings, Timestamp, UserId};

use crate::inbox::{get_item, key};
use crate::item::{Reader, VERSION, Value, text, version};
use crate::message_append::{FirstMessage, first_messages_update};
use crate::pinned::{Pins, list_update};
use crate::transaction::{self, Outcome};
use crate::{Error, Store, connections};

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Done,
    /// There is no such conversation for this user.
    NotMember,
    /// A concurrent write of the row.
    Busy,
}

/// Sets these fields of a conversation, in the user's own row. `pins`: if it is pinned, or no longer.
pub async fn set_conversation(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    set: &ConversationSettings,
    now: Timestamp,
    pins: Option<&Pins>,
) -> Result<Set, Error> {
    // No badge counts a muted conversation.
    let look = set.muted_until.map_or(Value::Left, |_| Value::Set(text(Look::new(Wanted::Badge, now).stored())));
    let attributes = [
        ("muted_until", muted_until(set)),
        ("mute_mentions", flag(set.mute_mentions)),
        ("archived", flag(set.archived)),
        ("marked_unread", flag(set.unread)),
        ("pinned", flag(set.pinned)),
        ("look", look),
    ];
    set_attributes(store, user, conversation, "attribute_exists(last_seq)", attributes, pins).await
}

/// A setting that is there while it is set.
pub(crate) fn flag(is_set: Option<bool>) -> Value {
    is_set.map_or(Value::Left, |is_set| Value::of(is_set.then_some(AttributeValue::Bool(true))))
}

pub(crate) fn muted_until(set: &ConversationSettings) -> Value {
    set.muted_until.map_or(Value::Left, |until| Value::of(until.map(|until| text(until.to_string()))))
}

/// Sets those that have a value, removes those that have none, and leaves the others, in a row for which `condition`
/// holds. The list of what is pinned changes with it.
pub(crate) async fn set_attributes<const N: usize>(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    condition: &str,
    attributes: [(&str, Value); N],
    pins: Option<&Pins>,
) -> Result<Set, Error> {
    let (table, mut values) = (&store.tables.inbox, HashMap::new());
    let (mut sets, mut removes) = (vec![], vec![]);
    for (name, value) in attributes {
        match value {
            Value::Set(value) => {
                sets.push(format!("{name} = :{name}"));
                values.insert(format!(":{name}"), value);
            }
            Value::Removed => removes.push(name.to_owned()),
            Value::Left => {}
        }
    }
    let clause = |word: &str, parts: &[String]| match parts {
        [] => String::new(),
        parts => format!("{word} {} ", parts.join(", ")),
    };
    let update = (clause("SET", &sets) + &clause("REMOVE", &removes)).trim_end().to_owned();
    let values = Some(values).filter(|values| !values.is_empty());
    if let Some(pins) = pins {
        let row = Update::builder().table_name(table).set_key(Some(key(user, conversation)));
        let row = row.update_expression(update).condition_expression(condition);
        let writes = [row.set_expression_attribute_values(values), list_update(store, user, pins)];
        return match transaction::write(store, table, writes.into_iter().map(transaction::update).collect()).await? {
            Outcome::Written => Ok(Set::Done),
            Outcome::Cancelled(cancelled) if cancelled.refused(0).is_some() => Ok(Set::NotMember),
            Outcome::Cancelled(cancelled) if cancelled.is_lost() => Ok(Set::Busy),
            Outcome::Cancelled(cancelled) => Err(cancelled.into()),
        };
    }
    let write = store.client.update_item().table_name(table).set_key(Some(key(user, conversation)));
    let write = write.update_expression(update).condition_expression(condition);
    match write.set_expression_attribute_values(values).send().await {
        Ok(_) => Ok(Set::Done),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(Set::NotMember),
            Some(UpdateItemError::TransactionConflictException(_)) => Ok(Set::Busy),
            _ => Err(Error::call("UpdateItem", table, error)),
        },
    }
}

/// The relation of a user to another, as read from the user's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an attribute of the row, set for itself")]
pub struct Relation {
    /// Something was written: the rows are a conversation's.
    pub has_conversation: bool,
    /// The user blocks the other.
    pub blocked: bool,
    /// The block is in both users' counts of blocks, unless the version before wrote it.
    counted: bool,
    /// The other blocks the user.
    blocked_by_peer: bool,
    /// The other was erased: the row has the id that replaces theirs.
    pub is_gone: bool,
}

impl Relation {
    /// Reports whether the row has this value already, so that nothing must be written.
    pub fn is_set(self, blocked: bool) -> bool {
        self.blocked == blocked && self.counted == blocked
    }

    /// A block exists between the two users.
    pub fn is_blocked(self) -> bool {
        self.blocked || self.blocked_by_peer
    }

    /// Checks that the user's row is unchanged since the read.
    fn unchanged(self) -> String {
        let is = |is: bool, attribute| format!("attribute_{}exists({attribute})", if is { "" } else { "not_" });
        let counted = is(self.counted, COUNTED);
        if self.has_conversation {
            return counted;
        }
        format!("{counted} AND attribute_not_exists(last_seq) AND {}", is(self.blocked_by_peer, "blocked_by_peer"))
    }
}

/// In the row of who blocks: the block is counted.
const COUNTED: &str = "block_counted";

/// How `user` stands with the other member of this conversation, or of one that there may be.
pub async fn relation(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Relation, Error> {
    let item = get_item(store, user, conversation.as_str()).await?.unwrap_or_default();
    let row = Reader { item: &item, table: &store.tables.inbox };
    Ok(Relation {
        has_conversation: item.contains_key("last_seq"),
        blocked: row.flag("blocked")?,
        counted: row.flag(COUNTED)?,
        blocked_by_peer: row.flag("blocked_by_peer")?,
        is_gone: row.optional("peer_id", |row, name| row.parsed(name, UserId::parse))?.is_some_and(|id| id.is_gone()),
    })
}

/// A block, or its end.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pub user: &'a UserId,
    pub peer: &'a UserId,
    pub conversation: &'a ConversationId,
    pub was: Relation,
    /// For a stranger's block, which counts as a first message.
    pub first_message: Option<FirstMessage>,
}

/// Blocks the peer, in the rows of both users, so that each user's own row decides about messages and receipts. Missing
/// rows are created. The connections of both users count the block, so that a post in a group knows when to read these
/// rows.
pub async fn block(store: &Store, block: &Block<'_>) -> Result<Set, Error> {
    let Block { user, peer, conversation, was, first_message } = *block;
    let row = |owner: &UserId, peer: &UserId, sets: &str| {
        Update::builder()
            .table_name(&store.tables.inbox)
            .set_key(Some(key(owner, conversation)))
            .update_expression(format!("SET peer_id = :peer, {VERSION} = if_not_exists({VERSION}, :v), {sets}"))
            .expression_attribute_values(":peer", text(peer.as_str()))
            .expression_attribute_values(":v", version())
            .expression_attribute_values(":yes", AttributeValue::Bool(true))
    };
    let own = row(user, peer, &format!("blocked = :yes, {COUNTED} = :yes")).condition_expression(was.unchanged());
    let mut writes = vec![transaction::update(own), transaction::update(row(peer, user, "blocked_by_peer = :yes"))];
    if !was.counted {
        writes.extend([user, peer].map(|user| connections::count_block(store, user)));
    }
    writes.extend(first_message.map(|first| transaction::update(first_messages_update(store, user, first))));
    commit(store, writes).await
}

/// Ends a block of the peer. Without any message between the two, and without a block by the other user, no row is
/// left.
pub async fn unblock(store: &Store, block: &Block<'_>) -> Result<Set, Error> {
    let Block { user, peer, conversation, was, .. } = *block;
    let table = &store.tables.inbox;
    let mut writes = if was.has_conversation || was.blocked_by_peer {
        let remove = |owner: &UserId, names: &str| {
            let update = Update::builder().table_name(table).set_key(Some(key(owner, conversation)));
            update.update_expression(format!("REMOVE {names}"))
        };
        let own = remove(user, &format!("blocked, {COUNTED}")).condition_expression(was.unchanged());
        vec![transaction::update(own), transaction::update(remove(peer, "blocked_by_peer"))]
    } else {
        let delete = |owner: &UserId| Delete::builder().table_name(table).set_key(Some(key(owner, conversation)));
        let own = delete(user).condition_expression(was.unchanged());
        let peers = "attribute_not_exists(last_seq) AND attribute_not_exists(blocked)";
        vec![transaction::delete(own), transaction::delete(delete(peer).condition_expression(peers))]
    };
    if was.counted {
        for user in [user, peer] {
            let count = connections::blocks(store, user).await?;
            writes.push(connections::uncount_block(store, user, count));
        }
    }
    commit(store, writes).await
}

async fn commit(store: &Store, writes: Vec<Result<TransactWriteItem, BuildError>>) -> Result<Set, Error> {
    match transaction::write(store, &store.tables.inbox, writes.into_iter().collect()).await? {
        Outcome::Written => Ok(Set::Done),
        Outcome::Cancelled(cancelled) if cancelled.is_lost() => Ok(Set::Busy),
        Outcome::Cancelled(cancelled) => Err(cancelled.into()),
    }
}
