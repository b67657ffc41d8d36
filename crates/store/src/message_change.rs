//! The transaction that changes a message. Its writes are the change entry, its idempotency row, every member's inbox row,
//! the target's row, and the operator's copy of the old text. All or nothing.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use domain::{Change, Draft, Look, Membership, MessageEntry, Place, Wanted, pins_after, preview};
use wire::{Data, Kind, Seq, Timestamp, UserId};

use crate::item::{VERSION, number, seqs, text, version};
use crate::media::media_delete;
use crate::message_append::{
    AppendOutcome, NOT_BLOCKED, NewEntry, PENDING, SILENT, begin, commit, own_marks, with_count,
};
use crate::transaction::{delete, put, update};
use crate::{Error, Store};

/// A change of a message, by rows as they were read: first the user's own, then the message. A concurrent change has
/// therefore moved the conversation's end, which is a condition.
#[derive(Debug)]
pub struct Alter<'a> {
    pub entry: NewEntry<'a>,
    pub change: &'a Change,
    /// The user's row before; where an operator changes it, that of a member.
    pub previous: &'a Membership,
    /// The message before.
    pub target: MessageEntry<'a>,
    /// For a delete, the rows of the other members, who may not have read the message.
    pub others: &'a [Membership],
    /// The old text is kept for the operator until then, if at all.
    pub kept_until: Option<Timestamp>,
}

/// Changes the message, if no other write came between, and if the idempotency key is unused.
pub async fn change(store: &Store, alter: &Alter<'_>) -> Result<AppendOutcome, Error> {
    commit(store, alter.entry.draft, alter.entry.place, writes(store, alter)).await
}

fn writes(store: &Store, alter: &Alter<'_>) -> Result<Vec<TransactWriteItem>, BuildError> {
    let NewEntry { draft, place, .. } = alter.entry;
    let mut writes = begin(store, draft, &alter.entry.stored())?;
    if !alter.entry.audience.own().is_service() {
        writes.push(update(own_row_update(store, alter))?);
    }
    // A user who was erased has no row.
    for other in alter.entry.audience.others().iter().filter(|other| !other.is_service()) {
        writes.push(update(other_row_update(store, alter, other))?);
    }
    if let Some(target) = target_update(store, draft, place, alter.target, alter.change, None) {
        writes.push(update(target)?);
    }
    // No operator could read a copy of sealed bytes.
    let is_of_text =
        matches!(alter.change, Change::Edit { .. } | Change::Delete) && alter.target.message.kind != Kind::Sealed;
    if let Some(until) = alter.kept_until.filter(|_| is_of_text) {
        writes.push(put(audit_put(store, place, alter.target, until))?);
    }
    writes.extend(carried_delete(store, alter.target, alter.change)?);
    Ok(writes)
}

/// Deletes the row of the message's media: the object follows its row.
pub(crate) fn carried_delete(
    store: &Store,
    target: MessageEntry<'_>,
    change: &Change,
) -> Result<Option<TransactWriteItem>, BuildError> {
    let carried = target.message.media.as_ref().filter(|_| matches!(change, Change::Delete));
    carried.map(|media| delete(media_delete(store, media.media_id()))).transpose()
}

fn own_row_update(store: &Store, alter: &Alter) -> UpdateBuilder {
    let own = alter.entry.audience.own();
    let (line, update) = row_update(store, alter, own);
    let blocked = match alter.change {
        Change::Edit { .. } | Change::React { .. } | Change::Pin { .. } => format!(" AND {NOT_BLOCKED}"),
        Change::Delete => String::new(),
    };
    let marks = own_marks(&alter.entry, Some(alter.previous), false);
    with_count(update, &alter.entry)
        .update_expression(format!("{SILENT}{line}{marks}"))
        .condition_expression(format!("last_seq = :previous{blocked}"))
}

/// A deleted message is no longer unread, and no phone shows it: the stream has the removed mark. `notify` handles the
/// other notifications and badges.
fn other_row_update(store: &Store, alter: &Alter, other: &UserId) -> UpdateBuilder {
    let (line, mut update) = row_update(store, alter, other);
    let mut expression = format!("{SILENT}{line}, {PENDING}");
    let mut condition = "last_seq = :previous".to_owned();
    let (target, at) = (alter.target.entry.place.seq, alter.entry.place.sent_at);
    let mut look = match alter.change {
        Change::Edit { .. } if alter.previous.last.seq == target => Some(Look::new(Wanted::Edited(target), at)),
        Change::Edit { .. } | Change::Delete | Change::React { .. } | Change::Pin { .. } => None,
    };
    let mut removes = "";
    let unread = |row: &Membership| Some((row.clone(), row.unread_without(target)?));
    let counted = alter.target.message.counts() && alter.target.entry.sender_id != *other;
    let row = alter.others.iter().find(|row| row.user_id == *other && counted);
    if let Some((row, unread)) = row.and_then(unread) {
        expression.push_str(", unread = :unread");
        condition.push_str(" AND read_seq = :was_read");
        update = update
            .expression_attribute_values(":unread", number(unread))
            .expression_attribute_values(":was_read", number(row.marks.read_seq));
        look = look.or(Some(Look::new(Wanted::Badge, at)));
        match row.notified_seq {
            // A phone with a push from meanwhile would show the message for ever.
            None => condition.push_str(" AND attribute_not_exists(notified_seq)"),
            Some(notified) => {
                condition.push_str(" AND notified_seq = :was_notified");
                update = update.expression_attribute_values(":was_notified", number(notified));
                if notified == target {
                    (look, removes) = (None, " REMOVE notified_seq");
                }
            }
        }
    }
    if let Some(look) = look {
        expression.push_str(", look = :look");
        update = update.expression_attribute_values(":look", text(look.stored()));
    }
    expression.push_str(removes);
    update.update_expression(expression).condition_expression(condition)
}

/// Returns the update common to all members' rows, with the chat list's last message, if that is the target.
fn row_update(store: &Store, alter: &Alter, owner: &UserId) -> (&'static str, UpdateBuilder) {
    let Alter { entry: NewEntry { draft, place, .. }, previous, target, change, .. } = alter;
    let update = Update::builder()
        .table_name(&store.tables.inbox)
        .key("user_id", text(owner.as_str()))
        .key("conversation_id", text(draft.conversation_id.as_str()))
        .expression_attribute_values(":seq", number(place.seq))
        .expression_attribute_values(":at", number(place.sent_at.millis()))
        .expression_attribute_values(":shown", number(previous.last.seq))
        .expression_attribute_values(":previous", number(previous.end.seq));
    match change {
        Change::Edit { body, .. } if previous.last.seq == target.entry.place.seq => {
            (", last_preview = :preview", update.expression_attribute_values(":preview", text(preview(body))))
        }
        Change::Delete if previous.last.seq == target.entry.place.seq => (
            ", last_preview = :preview, deleted_seq = :shown",
            update.expression_attribute_values(":preview", text("")),
        ),
        Change::Pin { pinned } => {
            let pins = pins_after(&previous.pins, target.entry.place.seq, *pinned);
            (", pins = :pins", update.expression_attribute_values(":pins", seqs(&pins)))
        }
        Change::Edit { .. } | Change::Delete | Change::React { .. } => ("", update),
    }
}

/// The one place of what people wrote. A pin is no part of it, and changes only the conversation. `seq` is that of the change's entry in a group, of whose log each member knows
/// only a part.
pub(crate) fn target_update(
    store: &Store,
    draft: &Draft,
    place: &Place,
    target: MessageEntry<'_>,
    change: &Change,
    seq: Option<Seq>,
) -> Option<UpdateBuilder> {
    let update = Update::builder()
        .table_name(&store.tables.messages)
        .key("conversation_id", text(draft.conversation_id.as_str()))
        .key("seq", number(target.entry.place.seq))
        // Emptied meanwhile: that moves no end.
        .condition_expression("attribute_exists(seq) AND attribute_not_exists(emptied_at)");
    let update = match change {
        Change::Pin { .. } => return None,
        Change::Edit { body, data } => with_edited_seq(update, seq, data.as_ref())
            .expression_attribute_values(":body", text(body))
            .expression_attribute_values(":version", number(target.message.version_number() + 1))
            .expression_attribute_values(":at", number(place.sent_at.millis())),
        Change::Delete => with_deleted_seq(update, seq)
            .expression_attribute_values(":nothing", text(""))
            .expression_attribute_values(":at", number(place.sent_at.millis()))
            .expression_attribute_values(":by", text(draft.sender_id.as_str())),
        Change::React { emoji } => {
            let user = draft.sender_id.as_str();
            let own = |update: UpdateBuilder| update.expression_attribute_names("#user", user);
            let update = update.expression_attribute_values(":seq", number(place.seq));
            match emoji {
                None if target.message.reactions.is_empty() => {
                    update.update_expression("SET reactions_seq = :seq REMOVE reactions")
                }
                None => own(update).update_expression("SET reactions_seq = :seq REMOVE reactions.#user"),
                Some(emoji) if target.message.reactions.is_empty() => {
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
    };
    Some(update)
}

fn with_edited_seq(mut update: UpdateBuilder, seq: Option<Seq>, data: Option<&Option<Data>>) -> UpdateBuilder {
    let mut expression = "SET body = :body, version = :version, edited_at = :at".to_owned();
    if let Some(seq) = seq {
        expression.push_str(", edited_seq = :seq");
        update = update.expression_attribute_values(":seq", number(seq));
    }
    match data {
        None => {}
        Some(None) => expression.push_str(" REMOVE #data"),
        Some(Some(data)) => {
            expression.push_str(", #data = :data");
            update = update.expression_attribute_values(":data", text(data.to_text()));
        }
    }
    if data.is_some() {
        // A reserved word.
        update = update.expression_attribute_names("#data", "data");
    }
    update.update_expression(expression)
}

fn with_deleted_seq(update: UpdateBuilder, seq: Option<Seq>) -> UpdateBuilder {
    let (by, update) = match seq {
        None => ("", update),
        Some(seq) => (", deleted_seq = :seq", update.expression_attribute_values(":seq", number(seq))),
    };
    let of_group = if seq.is_some() { ", edited_seq, reaction_counts" } else { "" };
    update
        .update_expression(format!(
            "SET body = :nothing, deleted_at = :at, deleted_by = :by{by} \
         REMOVE reactions, reactions_seq, version, edited_at, media, #data{of_group}"
        ))
        .expression_attribute_names("#data", "data")
}

/// Keeps the old text. Only an operator with permission for the table reads it.
pub(crate) fn audit_put(store: &Store, place: &Place, target: MessageEntry<'_>, until: Timestamp) -> PutBuilder {
    let MessageEntry { entry, message } = target;
    let said_at = message.edited_at.unwrap_or(entry.place.sent_at);
    let put = Put::builder().table_name(&store.tables.audit);
    let put = match &message.data {
        Some(data) => put.item("data", text(data.to_text())),
        None => put,
    };
    put.item("conversation_id", text(entry.conversation_id.as_str()))
        .item("seq_version", text(format!("{} {}", entry.place.seq, message.version_number())))
        .item("sender_id", text(entry.sender_id.as_str()))
        .item("kind", text(message.kind.as_str()))
        .item("body", text(&message.text))
        .item("said_at", number(said_at.millis()))
        .item("replaced_at", number(place.sent_at.millis()))
        .item("expires_at", number(until.seconds()))
        .item(VERSION, version())
}
