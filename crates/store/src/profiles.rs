//! Profiles of users, in rows of `conversations`: apart from the user's messages, which a crowd that looks must not slow.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use wire::{Data, Profile, ProfileChange, Timestamp, Title, UserId};

use crate::item::{Item, Reader, VERSION, Value, number, readable, text, version};
use crate::{Error, Store, batch};

/// Before a user's id in the key. No conversation's id has a space.
const PREFIX: &str = "profile ";

/// The outcome of a write.
#[derive(Debug)]
pub enum Put {
    Done,
    /// The row has this version, or a later one. `None`: the row can't be read.
    Newer(Option<Box<Profile>>),
}

/// Returns the profiles of those who have one, perhaps as they were a moment ago, in no order. A row of a later version
/// is left out.
pub async fn get_many(store: &Store, users: &[UserId]) -> Result<Vec<Profile>, Error> {
    let table = &store.tables.conversations;
    let items = batch::all(store, table, users.iter().map(key).collect(), false).await?;
    Ok(readable(items.iter().map(|item| read(table, item))).0)
}

/// Changes a profile, if its version is below that one.
pub async fn put(store: &Store, user: &UserId, set: &ProfileChange, to: Timestamp) -> Result<Put, Error> {
    let table = &store.tables.conversations;
    let ProfileChange { name, data } = set;
    let name = name.as_ref().map(|name| name.as_ref().map(|name| text(name.as_str())));
    let data = data.as_ref().map(|data| data.as_ref().map(|data| text(data.to_text())));
    let mut write = store.client.update_item().table_name(table).set_key(Some(key(user)));
    let mut sets = vec![format!("version = :version, {VERSION} = if_not_exists({VERSION}, :v)")];
    let mut removes = vec![];
    for (attribute, value) in [("#name", name), ("#data", data)] {
        match value.map_or(Value::Left, Value::of) {
            Value::Set(value) => {
                let placeholder = attribute.replace('#', ":");
                sets.push(format!("{attribute} = {placeholder}"));
                write = write.expression_attribute_values(placeholder, value);
            }
            Value::Removed => removes.push(attribute),
            Value::Left => continue,
        }
        write = write.expression_attribute_names(attribute, attribute.trim_start_matches('#'));
    }
    let mut expression = format!("SET {}", sets.join(", "));
    if !removes.is_empty() {
        expression = format!("{expression} REMOVE {}", removes.join(", "));
    }
    let write = write
        .update_expression(expression)
        .condition_expression("attribute_not_exists(version) OR version < :version")
        .expression_attribute_values(":version", number(to.millis()))
        .expression_attribute_values(":v", version())
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let Err(error) = write.send().await else { return Ok(Put::Done) };
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
            let was = refused.item().map(|item| read(table, item));
            Ok(Put::Newer(was.transpose()?.map(Box::new)))
        }
        _ => Err(Error::call("UpdateItem", table, error)),
    }
}

/// Whether the key is a conversation's, and not a profile's.
pub(crate) fn is_conversation(key: &str) -> bool {
    !key.contains(' ')
}

pub(crate) fn key(user: &UserId) -> Item {
    Item::from([("conversation_id".to_owned(), text(format!("{PREFIX}{user}")))])
}

fn read(table: &str, item: &Item) -> Result<Profile, Error> {
    let row = Reader { item, table };
    Ok(Profile {
        user_id: row.parsed("conversation_id", |key| UserId::parse(key.strip_prefix(PREFIX).unwrap_or_default()))?,
        name: row.optional("name", |row, name| row.parsed(name, Title::parse))?,
        data: row.optional("data", |row, name| row.parsed(name, Data::stored))?,
        version: row.count("version")?,
    })
}
