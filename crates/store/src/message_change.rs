//! The transaction that changes a message: the silent entry that says so, its idempotency row, every member's inbox row, the message's
//! own row, and what is kept of it for the operator. All or nothing.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use domain::{Change, Draft, Membership, Place, StoredMessage, preview};
use wire::{Seq, Timestamp, UserId};

use crate::item::{VERSION, number, text, version};
use crate::media::media_delete;
use crate::message_append::{AppendOutcome, Entry, NOT_BLOCKED, PENDING, begin, commit, own_marks, with_count};
use crate::transaction::{delete, put, update};
use crate::{Error, Store};

/// A change of a message, by rows as they were read: the user's own first, then the message, so that whoever changed it since has
/// moved the conversation's end, which is a condition.
#[derive(Debug)]
pub struct Alter<'a> {
    pub entry: Entry<'a>,
    pub change: &'a Change,
    /// The user's row before; where an operator changes it, that of a member.
    pub previous: &'a Membership,
    /// The message before.
    pub target: &'a StoredMessage,
    /// Of a delete, the rows of the others, who may not have read it.
    pub others: &'a [Membership],
    /// What the message said until now is kept until then, if at all.
    pub kept_until: Option<Timestamp>,
}

/// Changes the message, if nobody else wrote meanwhile, and if the idempotency key is unused.
pub async fn change(store: &Store, alter: &Alter<'_>) -> Result<AppendOutcome, Error> {
    commit(store, alter.entry.draft, alter.entry.place, writes(store, alter)).await
}

fn writes(store: &Store, alter: &Alter<'_>) -> Result<Vec<TransactWriteItem>, BuildError> {
    let Entry { draft, place, .. } = alter.entry;
    let mut writes = begin(store, draft, &alter.entry.stored())?;
    if !alter.entry.audience.own().is_service() {
        writes.push(update(own_row_update(store, alter))?);
    }
    for other in alter.entry.audience.others() {
        writes.push(update(other_row_update(store, alter, other))?);
    }
    writes.push(update(target_update(store, draft, place, alter.target, alter.change, None))?);
    let is_of_text = matches!(alter.change, Change::Edit { .. } | Change::Delete);
    if let Some(until) = alter.kept_until.filter(|_| is_of_text) {
        writes.push(put(audit_put(store, place, alter.target, until))?);
    }
    writes.extend(carried_delete(store, alter.target, alter.change)?);
    Ok(writes)
}

/// What a message carried goes with it: the object follows its row.
pub(crate) fn carried_delete(
    store: &Store,
    target: &StoredMessage,
    change: &Change,
) -> Result<Option<TransactWriteItem>, BuildError> {
    let carried = target.media.as_ref().filter(|_| matches!(change, Change::Delete));
    carried.map(|media| delete(media_delete(store, &media.media_id))).transpose()
}

/// The conversation ends with a silent entry now; what the chat list shows stays.
const SILENT: &str = "SET last_seq = :seq, silent_seq = :seq, silent_at = :at, shown_seq = :shown";

fn own_row_update(store: &Store, alter: &Alter) -> UpdateBuilder {
    let own = alter.entry.audience.own();
    let (line, update) = row_update(store, alter, own);
    let blocked = match alter.change {
        Change::Edit { .. } | Change::React { .. } => format!(" AND {NOT_BLOCKED}"),
        Change::Delete => String::new(),
    };
    let marks = own_marks(&alter.entry, Some(alter.previous));
    with_count(update, &alter.entry)
        .update_expression(format!("{SILENT}{line}{marks}"))
        .condition_expression(format!("last_seq = :previous{blocked}"))
}

/// A message that is deleted is unread no more, and no phone shows it: the stream says that the mark went.
fn other_row_update(store: &Store, alter: &Alter, other: &UserId) -> UpdateBuilder {
    let (line, mut update) = row_update(store, alter, other);
    let mut expression = format!("{SILENT}{line}, {PENDING}");
    let mut condition = "last_seq = :previous".to_owned();
    let target = alter.target.place.seq;
    let unread = |row: &Membership| Some((row.clone(), row.unread_without(target)?));
    let row = alter.others.iter().find(|row| row.user_id == *other && alter.target.sender_id != *other);
    if let Some((row, unread)) = row.and_then(unread) {
        expression.push_str(", unread = :unread");
        condition.push_str(" AND read_seq = :was_read");
        update = update
            .expression_attribute_values(":unread", number(unread))
            .expression_attribute_values(":was_read", number(row.marks.read_seq));
        match row.notified_seq {
            // A phone that is rung meanwhile would show it for ever.
            None => condition.push_str(" AND attribute_not_exists(notified_seq)"),
            Some(notified) => {
                condition.push_str(" AND notified_seq = :was_notified");
                update = update.expression_attribute_values(":was_notified", number(notified));
                if notified == target {
                    expression.push_str(" REMOVE notified_seq");
                }
            }
        }
    }
    update.update_expression(expression).condition_expression(condition)
}

/// What all members' rows have in common: and what is set of the chat list's line, if that is the message.
fn row_update(store: &Store, alter: &Alter, owner: &UserId) -> (&'static str, UpdateBuilder) {
    let Alter { entry: Entry { draft, place, .. }, previous, target, change, .. } = alter;
    let update = Update::builder()
        .table_name(&store.tables.inbox)
        .key("user_id", text(owner.as_str()))
        .key("conversation_id", text(draft.conversation_id.as_str()))
        .expression_attribute_values(":seq", number(place.seq))
        .expression_attribute_values(":at", number(place.sent_at.millis()))
        .expression_attribute_values(":shown", number(previous.last.seq))
        .expression_attribute_values(":previous", number(previous.end.seq));
    match change {
        Change::Edit { body } if previous.last.seq == target.place.seq => {
            (", last_preview = :preview", update.expression_attribute_values(":preview", text(preview(body))))
        }
        Change::Delete if previous.last.seq == target.place.seq => (
            ", last_preview = :preview, deleted_seq = :shown",
            update.expression_attribute_values(":preview", text("")),
        ),
        Change::Edit { .. } | Change::Delete | Change::React { .. } => ("", update),
    }
}

/// The one place of what people wrote. `deleted_seq`: of a group, where each member's row knows only a part of the log.
pub(crate) fn target_update(
    store: &Store,
    draft: &Draft,
    place: &Place,
    target: &StoredMessage,
    change: &Change,
    deleted_seq: Option<Seq>,
) -> UpdateBuilder {
    let update = Update::builder()
        .table_name(&store.tables.messages)
        .key("conversation_id", text(draft.conversation_id.as_str()))
        .key("seq", number(target.place.seq))
        .condition_expression("attribute_exists(seq)");
    match change {
        Change::Edit { body } => update
            .update_expression("SET body = :body, version = :version, edited_at = :at")
            .expression_attribute_values(":body", text(body))
            .expression_attribute_values(":version", number(target.version_number() + 1))
            .expression_attribute_values(":at", number(place.sent_at.millis())),
        Change::Delete => with_deleted_seq(update, deleted_seq)
            .expression_attribute_values(":nothing", text(""))
            .expression_attribute_values(":at", number(place.sent_at.millis()))
            .expression_attribute_values(":by", text(draft.sender_id.as_str())),
        Change::React { emoji } => {
            let user = draft.sender_id.as_str();
            let own = |update: UpdateBuilder| update.expression_attribute_names("#user", user);
            let update = update.expression_attribute_values(":seq", number(place.seq));
            match emoji {
                None if target.reactions.is_empty() => {
                    update.update_expression("SET reactions_seq = :seq REMOVE reactions")
                }
                None => own(update).update_expression("SET reactions_seq = :seq REMOVE reactions.#user"),
                Some(emoji) if target.reactions.is_empty() => {
                    let map = HashMap::from([(user.to_owned(), text(emoji.as_str()))]);
                    update
                        .update_expression("SET reactions_seq = :seq, reactions = :reactions")
                        .expression_attribute_values(":reactions", AttributeValue::M(map))
                }
                Some(emoji) => own(update)
                    .update_expression("SET reactions_seq = :seq, reactions.#user = :emoji")
                    .expression_attribute_values(":emoji", text(emoji.as_str())),
            }
        }
    }
}

fn with_deleted_seq(update: UpdateBuilder, deleted_seq: Option<Seq>) -> UpdateBuilder {
    let (by, update) = match deleted_seq {
        None => ("", update),
        Some(seq) => (", deleted_seq = :seq", update.expression_attribute_values(":seq", number(seq))),
    };
    let counts = if deleted_seq.is_some() { ", reaction_counts" } else { "" };
    update.update_expression(format!(
        "SET body = :nothing, deleted_at = :at, deleted_by = :by{by} \
         REMOVE reactions, reactions_seq, version, edited_at, media{counts}"
    ))
}

/// What the message said until now. Nobody reads it but an operator, with a right to the table.
pub(crate) fn audit_put(store: &Store, place: &Place, target: &StoredMessage, until: Timestamp) -> PutBuilder {
    let said_at = target.edited_at.unwrap_or(target.place.sent_at);
    Put::builder()
        .table_name(&store.tables.audit)
        .item("conversation_id", text(target.conversation_id.as_str()))
        .item("seq_version", text(format!("{} {}", target.place.seq, target.version_number())))
        .item("sender_id", text(target.sender_id.as_str()))
        .item("kind", text(target.kind.as_str()))
        .item("body", text(&target.body))
        .item("said_at", number(said_at.millis()))
        .item("replaced_at", number(place.sent_at.millis()))
        .item("expires_at", number(until.seconds()))
        .item(VERSION, version())
}
