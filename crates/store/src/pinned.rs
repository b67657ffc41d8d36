//! The pinned conversations of a user: a list of `inbox` has their order, and the row of each shows that it is pinned.

use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use wire::{ConversationId, UserId};

use crate::inbox::get_item;
use crate::item::{Item, Reader, VERSION, text, version};
use crate::{Error, Store};

/// The key of the row with the lists: no conversation has it, since their ids have no space.
const PINNED: &str = " pinned";

/// Which of a user's two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Direct conversations and groups.
    Chats,
    Channels,
}

/// A list as it was read, the conversation pinned last first.
#[derive(Debug)]
pub struct Pinned {
    pub ids: Vec<ConversationId>,
    list: List,
    was: Option<AttributeValue>,
}

/// The list after a change, which replaces the list as it was read.
#[derive(Debug)]
pub struct Pins {
    pub ids: Vec<ConversationId>,
    pub was: Pinned,
}

impl List {
    fn attribute(self) -> &'static str {
        match self {
            Self::Chats => "chats",
            Self::Channels => "channels",
        }
    }
}

pub async fn get(store: &Store, user: &UserId, list: List) -> Result<Pinned, Error> {
    let item = get_item(store, user, PINNED).await?.unwrap_or_default();
    let was = item.get(list.attribute()).cloned();
    let ids = Reader { item: &item, table: &store.tables.inbox }.optional(list.attribute(), Reader::conversations)?;
    Ok(Pinned { ids: ids.unwrap_or_default(), list, was })
}

pub(crate) fn list_update(store: &Store, user: &UserId, pins: &Pins) -> UpdateBuilder {
    let Pins { ids, was: Pinned { list, was, .. } } = pins;
    let key = Item::from([("user_id".to_owned(), text(user.as_str())), ("conversation_id".to_owned(), text(PINNED))]);
    let unchanged = if was.is_some() { "#list = :was" } else { "attribute_not_exists(#list)" };
    let update = Update::builder()
        .table_name(&store.tables.inbox)
        .set_key(Some(key))
        .update_expression(format!("SET #list = :list, {VERSION} = if_not_exists({VERSION}, :v)"))
        .condition_expression(unchanged)
        .expression_attribute_names("#list", list.attribute())
        .expression_attribute_values(":list", AttributeValue::L(ids.iter().map(|id| text(id.as_str())).collect()))
        .expression_attribute_values(":v", version());
    match was {
        Some(was) => update.expression_attribute_values(":was", was.clone()),
        None => update,
    }
}
