//! What users set for conversations and for each other, in the rows of `inbox`.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use wire::{ConversationId, ConversationSettings, UserId};

use crate::item::{VERSION, Value, text, version};
use crate::transaction::{self, Outcome};
use crate::{Error, Store};

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Done,
    /// There is no such conversation for this user.
    NotMember,
    /// Somebody else was just writing the row.
    Busy,
}

/// Sets what is given for a conversation, in the user's own row.
pub async fn set_conversation(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    set: &ConversationSettings,
) -> Result<Set, Error> {
    let archived = |archived: bool| Value::of(archived.then_some(AttributeValue::Bool(true)));
    let attributes = [("muted_until", muted_until(set)), ("archived", set.archived.map_or(Value::Left, archived))];
    set_attributes(store, user, conversation, "attribute_exists(last_seq)", attributes).await
}

pub(crate) fn muted_until(set: &ConversationSettings) -> Value {
    set.muted_until.map_or(Value::Left, |until| Value::of(until.map(|until| text(until.to_string()))))
}

/// Sets those that have a value, removes those that have none, and leaves the others, in a row for which `condition` holds.
pub(crate) async fn set_attributes(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    condition: &str,
    attributes: [(&str, Value); 2],
) -> Result<Set, Error> {
    let table = &store.tables.inbox;
    let mut write = store
        .client
        .update_item()
        .table_name(table)
        .key("user_id", text(user.as_str()))
        .key("conversation_id", text(conversation.as_str()))
        .condition_expression(condition);
    let (mut sets, mut removes) = (vec![], vec![]);
    for (name, value) in attributes {
        match value {
            Value::Set(value) => {
                sets.push(format!("{name} = :{name}"));
                write = write.expression_attribute_values(format!(":{name}"), value);
            }
            Value::Removed => removes.push(name.to_owned()),
            Value::Left => {}
        }
    }
    let clause = |word: &str, parts: &[String]| match parts {
        [] => String::new(),
        parts => format!("{word} {} ", parts.join(", ")),
    };
    let update = clause("SET", &sets) + &clause("REMOVE", &removes);
    match write.update_expression(update.trim_end()).send().await {
        Ok(_) => Ok(Set::Done),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(Set::NotMember),
            Some(UpdateItemError::TransactionConflictException(_)) => Ok(Set::Busy),
            _ => Err(Error::call("UpdateItem", table, error)),
        },
    }
}

/// Blocks `peer`, or no longer: in the rows of both, so that each one's own row says whether they may write, and whom their ticks
/// are for. The rows are made where there are none yet.
pub async fn set_blocked(
    store: &Store,
    user: &UserId,
    peer: &UserId,
    conversation: &ConversationId,
    blocked: bool,
) -> Result<Set, Error> {
    let table = &store.tables.inbox;
    let rows = [(user, peer, "blocked"), (peer, user, "blocked_by_peer")];
    let writes = rows
        .into_iter()
        .map(|(owner, peer, attribute)| {
            let update = Update::builder()
                .table_name(table)
                .key("user_id", text(owner.as_str()))
                .key("conversation_id", text(conversation.as_str()))
                .expression_attribute_values(":peer", text(peer.as_str()))
                .expression_attribute_values(":v", version());
            let row = format!("SET peer_id = :peer, {VERSION} = if_not_exists({VERSION}, :v)");
            let update = if blocked {
                let yes = AttributeValue::Bool(true);
                update.update_expression(format!("{row}, {attribute} = :yes")).expression_attribute_values(":yes", yes)
            } else {
                update.update_expression(format!("{row} REMOVE {attribute}"))
            };
            transaction::update(update)
        })
        .collect();
    match transaction::write(store, table, writes).await? {
        Outcome::Written => Ok(Set::Done),
        Outcome::Cancelled(cancelled) if cancelled.is_conflict() => Ok(Set::Busy),
        Outcome::Cancelled(cancelled) => Err(cancelled.into()),
    }
}
