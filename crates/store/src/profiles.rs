//! Profiles of users and the looks of groups, in rows of `conversations`. A user's messages are in other tables, which
//! many lookups must not slow. A look is not in the log head, which each message writes.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{ReturnValuesOnConditionCheckFailure, Update};
use wire::{
    About, ConversationId, ConversationProfile, Data, Look, Profile, ProfileChange, Seq, Timestamp, Title, UserId,
};

use crate::item::{Item, Reader, VERSION, Value, number, readable, text, version};
use crate::{Error, Store, batch};

/// Before a user's id in the key. No conversation's id has a space.
const PREFIX: &str = "profile ";
/// Before the id of a group or a channel in the key of its look.
const LOOK_PREFIX: &str = "info ";

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

/// Returns the existing looks of these groups and channels, perhaps as they were a moment ago, in no order. A row of a
/// later version is left out.
pub async fn looks(store: &Store, conversations: &[ConversationId]) -> Result<Vec<ConversationProfile>, Error> {
    let table = &store.tables.conversations;
    let items = batch::all(store, table, conversations.iter().map(look_key).collect(), false).await?;
    Ok(readable(items.iter().map(|item| read_look(table, item))).0)
}

/// Returns the write of a look, which belongs to the transaction of the entry at `version`.
pub(crate) fn look_update(store: &Store, conversation: &ConversationId, look: &Look, version: Seq) -> UpdateBuilder {
    let Look { about, data } = look;
    let about = about.as_ref().map(|about| about.as_ref().map(|about| text(about.as_str())));
    let data = data.as_ref().map(|data| data.as_ref().map(|data| text(data.to_text())));
    let sets =
        Sets::of([("about", about.map_or(Value::Left, Value::of)), ("data", data.map_or(Value::Left, Value::of))]);
    Update::builder()
        .table_name(&store.tables.conversations)
        .set_key(Some(look_key(conversation)))
        .update_expression(sets.expression)
        .set_expression_attribute_names(sets.names)
        .set_expression_attribute_values(Some(sets.values))
        .expression_attribute_values(":version", number(version))
}

/// The parts of an update that also sets `version`.
struct Sets {
    expression: String,
    names: Option<HashMap<String, String>>,
    values: Item,
}

impl Sets {
    fn of<const N: usize>(attributes: [(&str, Value); N]) -> Self {
        let (mut names, mut values) = (HashMap::new(), Item::from([(":v".to_owned(), version())]));
        let mut sets = vec![format!("version = :version, {VERSION} = if_not_exists({VERSION}, :v)")];
        let mut removes = vec![];
        for (name, value) in attributes {
            match value {
                Value::Set(value) => {
                    sets.push(format!("#{name} = :{name}"));
                    values.insert(format!(":{name}"), value);
                }
                Value::Removed => removes.push(format!("#{name}")),
                Value::Left => continue,
            }
            names.insert(format!("#{name}"), name.to_owned());
        }
        let mut expression = format!("SET {}", sets.join(", "));
        if !removes.is_empty() {
            expression = format!("{expression} REMOVE {}", removes.join(", "));
        }
        Self { expression, names: Some(names).filter(|names| !names.is_empty()), values }
    }
}

/// Changes a profile, if its version is below that one.
pub async fn put(store: &Store, user: &UserId, set: &ProfileChange, to: Timestamp) -> Result<Put, Error> {
    let table = &store.tables.conversations;
    let ProfileChange { name, data } = set;
    let name = name.as_ref().map(|name| name.as_ref().map(|name| text(name.as_str())));
    let data = data.as_ref().map(|data| data.as_ref().map(|data| text(data.to_text())));
    let sets = Sets::of([("name", name.map_or(Value::Left, Value::of)), ("data", data.map_or(Value::Left, Value::of))]);
    let write = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(user)))
        .update_expression(sets.expression)
        .set_expression_attribute_names(sets.names)
        .set_expression_attribute_values(Some(sets.values))
        .condition_expression("attribute_not_exists(version) OR version < :version")
        .expression_attribute_values(":version", number(to.millis()))
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

fn look_key(conversation: &ConversationId) -> Item {
    Item::from([("conversation_id".to_owned(), text(format!("{LOOK_PREFIX}{conversation}")))])
}

fn read_look(table: &str, item: &Item) -> Result<ConversationProfile, Error> {
    let row = Reader { item, table };
    let id = |key: &str| ConversationId::parse(key.strip_prefix(LOOK_PREFIX).unwrap_or_default());
    Ok(ConversationProfile {
        conversation_id: row.parsed("conversation_id", id)?,
        about: row.optional("about", |row, name| row.parsed(name, About::parse))?,
        data: row.optional("data", |row, name| row.parsed(name, Data::stored))?,
        version: row.seq("version")?,
    })
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
