//! `epochs`: a row for each sealed conversation, with the keys of its newest epoch. Each commit replaces them, in the
//! transaction of its entry.

use aws_sdk_dynamodb::types::Update;
use aws_sdk_dynamodb::types::builders::UpdateBuilder;
use domain::{Entry, NewCommit};
use wire::{ConversationId, GroupInfoResult};

use crate::error::CallResult as _;
use crate::item::{Reader, binary, carried, number, text, version};
use crate::{Error, Store};

/// Returns the newest epoch; `None`: the conversation is plain. Consistent: never older than a commit that got a reply.
pub async fn get(store: &Store, conversation: &ConversationId) -> Result<Option<GroupInfoResult>, Error> {
    let table = &store.tables.epochs;
    let get = store.client.get_item().table_name(table).consistent_read(true);
    let got = get.key("conversation_id", text(conversation.as_str())).send().await.of_call("GetItem", table)?;
    let read = |item| {
        let row = Reader { item, table };
        Ok(GroupInfoResult {
            conversation_id: conversation.clone(),
            epoch: row.count("epoch")?,
            seq: row.seq("seq")?,
            birth_seq: row.seq("birth_seq")?,
            group_info: row.bytes("group_info")?,
            tree: row.carried("tree")?,
        })
    };
    got.item().map(read).transpose()
}

/// Returns the update for a commit. The inbox rows or the head in the same transaction have the condition that no other
/// commit came between.
pub(crate) fn update(store: &Store, entry: &Entry, commit: &NewCommit) -> UpdateBuilder {
    let birth = if commit.is_birth() { ", birth_seq = :seq" } else { "" };
    let update = Update::builder()
        .table_name(&store.tables.epochs)
        .key("conversation_id", text(entry.conversation_id.as_str()))
        .update_expression(format!(
            "SET epoch = :epoch, seq = :seq, group_info = :group_info, tree = :tree, v = if_not_exists(v, :v){birth}"
        ))
        .expression_attribute_values(":epoch", number(commit.begins()))
        .expression_attribute_values(":seq", number(entry.place.seq))
        .expression_attribute_values(":group_info", binary(&commit.group_info))
        .expression_attribute_values(":v", version());
    carried(&commit.tree).into_iter().fold(update, |update, tree| update.expression_attribute_values(":tree", tree))
}
