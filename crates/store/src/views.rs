//! A member's row of a group in `inbox`, which follows the group's log.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use domain::{Membership, News, View};
use wire::{ConversationId, UserId};

use crate::inbox::{Update, key, outcome, read_if_written, row};
use crate::item::{Item, Reader, Value, number, text, version};
use crate::roster::role;
use crate::{Error, Store, batch};

/// Rows of some members of a group.
#[derive(Debug, Default)]
pub struct Views {
    pub rows: Vec<Membership>,
    /// Whose row can't be read.
    pub unreadable: Vec<UserId>,
}

/// The rows of those of these members who have one, perhaps as they were a moment ago: whoever moves one finds out.
pub async fn glance(store: &Store, conversation: &ConversationId, users: &[UserId]) -> Result<Views, Error> {
    let table = &store.tables.inbox;
    let keys = users.iter().map(|user| key(user, conversation)).collect();
    let mut views = Views::default();
    for item in batch::rows(store, table, keys, false).await? {
        match read_if_written(table, &item) {
            Ok(row) => views.rows.extend(row),
            Err(error) => {
                tracing::error!(%error, "a row can't be read; it is passed over");
                views.unreadable.push(Reader { item: &item, table }.parsed("user_id", UserId::parse)?);
            }
        }
    }
    Ok(views)
}

/// Makes the row what it is further on in the log, if it is still as it was: not if an ack, a read, a ring or somebody else who brings
/// it along came between. One write, whatever it went over.
pub async fn advance(store: &Store, before: Option<&Membership>, after: &Membership) -> Result<Update, Error> {
    let Some(view) = after.view() else {
        return Err(Error::Item { table: store.tables.inbox.clone(), attribute: "first_seq" });
    };
    let mut sets = vec!["v = if_not_exists(v, :v)".to_owned()];
    let mut write = row(store, &after.user_id, &after.conversation_id).expression_attribute_values(":v", version());
    let mut removes = vec![];
    let is_silent = after.last.seq != after.end.seq;
    let news = view.news;
    let silent = |value| if is_silent { Value::Set(value) } else { Value::Left };
    for (name, value) in [
        ("last_seq", Value::Set(number(after.end.seq))),
        ("last_message_id", Value::Set(text(after.last.message_id.as_str()))),
        ("last_at", Value::Set(number(after.last.sent_at.millis()))),
        ("last_sender_id", Value::Set(text(after.last.sender_id.as_str()))),
        ("last_kind", Value::Set(text(after.last.kind.as_str()))),
        ("active_at", Value::Set(number(after.active_at.millis()))),
        ("silent_seq", silent(number(after.end.seq))),
        ("silent_at", silent(number(after.end.sent_at.millis()))),
        ("shown_seq", silent(number(after.last.seq))),
        ("unread", Value::Set(number(after.marks.unread))),
        ("mentions", Value::Set(number(after.marks.mentions))),
        ("delivered_seq", Value::Set(number(after.marks.delivered_seq))),
        ("read_seq", Value::Set(number(after.marks.read_seq))),
        ("first_seq", Value::Set(number(view.first_seq))),
        ("member_role", Value::Set(text(view.role.as_str()))),
        ("left_seq", Value::of(view.left_seq.map(number))),
        ("news_seq", Value::of(news.map(|news| number(news.seq)))),
        ("news_at", Value::of(news.map(|news| number(news.at.millis())))),
        ("deleted_seq", Value::of(news.filter(|news| news.deleted).map(|news| number(news.seq)))),
        ("mentioned_seq", Value::of(view.mentioned_seq.map(number))),
        ("notified_seq", Value::of(after.notified_seq.map(number))),
        ("pending_from", Value::of(after.marks.pending_from.map(number))),
    ] {
        match value {
            Value::Set(value) => {
                sets.push(format!("{name} = :{name}"));
                write = write.expression_attribute_values(format!(":{name}"), value);
            }
            Value::Removed => removes.push(name),
            Value::Left => {}
        }
    }
    if after.marks.pending_from.is_some() {
        sets.push("pending_since = if_not_exists(pending_since, :since)".to_owned());
        write = write.expression_attribute_values(":since", number(after.end.sent_at.millis()));
    } else {
        removes.push("pending_since");
    }
    // Something new takes it out again, also if it was archived just now.
    let news_seq = |view: &View| view.news.map(|news| news.seq);
    let is_new = before.and_then(Membership::view).map(news_seq) != Some(news_seq(view));
    if is_new || before.is_some_and(|before| before.settings.archived && !after.settings.archived) {
        removes.push("archived");
    }
    let mut expression = format!("SET {}", sets.join(", "));
    if !removes.is_empty() {
        expression = format!("{expression} REMOVE {}", removes.join(", "));
    }
    outcome(store, unchanged(write.update_expression(expression), before)).await
}

/// If the row is still as it was.
fn unchanged(write: UpdateItemFluentBuilder, before: Option<&Membership>) -> UpdateItemFluentBuilder {
    let (condition, write) = match before {
        None => ("attribute_not_exists(last_seq)".to_owned(), write),
        Some(before) => {
            let write = write
                .expression_attribute_values(":was_last", number(before.end.seq))
                .expression_attribute_values(":was_delivered", number(before.marks.delivered_seq))
                .expression_attribute_values(":was_read", number(before.marks.read_seq));
            let marks = "last_seq = :was_last AND delivered_seq = :was_delivered AND read_seq = :was_read";
            match before.notified_seq {
                None => (format!("{marks} AND attribute_not_exists(notified_seq)"), write),
                Some(notified) => (
                    format!("{marks} AND notified_seq = :was_notified"),
                    write.expression_attribute_values(":was_notified", number(notified)),
                ),
            }
        }
    };
    write.condition_expression(condition)
}

/// What only the view of a group has.
pub(crate) fn is_of_group(item: &Item) -> bool {
    item.contains_key("first_seq")
}

/// Only the part of the row that a group has and a direct conversation has not.
pub(crate) fn view(row: &Reader) -> Result<View, Error> {
    let deleted_seq = row.optional("deleted_seq", Reader::seq)?;
    let news = |row: &Reader, name| {
        let seq = row.seq(name)?;
        Ok(News { seq, at: row.time("news_at")?, deleted: deleted_seq == Some(seq) })
    };
    Ok(View {
        role: role(row.text("member_role")?),
        first_seq: row.seq("first_seq")?,
        left_seq: row.optional("left_seq", Reader::seq)?,
        news: row.optional("news_seq", news)?,
        mentioned_seq: row.optional("mentioned_seq", Reader::seq)?,
        group: None,
        rules: None,
    })
}
