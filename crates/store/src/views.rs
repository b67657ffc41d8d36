//! A member's row of a group in `inbox`, which follows the group's log.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use domain::{Membership, View};
use wire::{ConversationId, Timestamp, UserId};

use crate::inbox::{MemberRows, Update, key, member_rows, outcome, read_if_written, row};
use crate::item::{Reader, Value, number, readable, text, version};
use crate::view::earlier_text;
use crate::{Error, Store, batch};

/// Returns the existing rows of these members. The read is eventually consistent: a conditional write detects an old
/// row.
pub async fn glance(
    store: &Store,
    conversation: &ConversationId,
    users: &[UserId],
) -> Result<MemberRows<Membership>, Error> {
    member_rows(store, conversation, users, false, read_if_written).await
}

/// Counts how often each of these users left the group since the last own join, by the existing rows. For a current
/// member the member list has the count, and this row may lack it.
pub async fn leaves(
    store: &Store,
    conversation: &ConversationId,
    users: &[UserId],
) -> Result<HashMap<UserId, u64>, Error> {
    if users.is_empty() {
        return Ok(HashMap::new());
    }
    let table = &store.tables.inbox;
    let keys = users.iter().map(|user| key(user, conversation)).collect();
    let rows = batch::all(store, table, keys, true).await?;
    let leaves = rows.iter().map(|item| {
        let row = Reader { item, table };
        Ok((row.parsed("user_id", UserId::parse)?, row.optional("leaves", Reader::count)?.unwrap_or_default()))
    });
    Ok(readable(leaves).0.into_iter().collect())
}

/// Moves the row further along the log, if it is unchanged: not if an ack, a read, a push or another catch-up came
/// between. One write, for any number of entries.
pub async fn advance(store: &Store, before: Option<&Membership>, after: &Membership) -> Result<Update, Error> {
    let Some(view) = after.view() else {
        return Err(Error::Item { table: store.tables.inbox.clone(), attribute: "first_seq" });
    };
    let mut sets = vec!["v = if_not_exists(v, :v)".to_owned()];
    let mut write = row(store, &after.user_id, &after.conversation_id).expression_attribute_values(":v", version());
    let mut removes = vec![];
    let (is_silent, news) = (after.last.seq != after.end.seq, view.news);
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
        ("leaves", Value::of((view.leaves > 0).then(|| number(view.leaves)))),
        ("restricted_until", Value::of(view.restricted_until.map(|until| text(until.to_string())))),
        ("earlier", Value::of(earlier_text(&after.owed()).map(text))),
        ("moved_by", Value::of(view.moved_by.map(number))),
        ("notified_seq", Value::of(after.notified_seq.map(number))),
        ("pending_from", Value::of(after.marks.pending_from.map(number))),
        ("look", after.look.map_or(Value::Left, |look| Value::Set(text(look.stored())))),
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
    if let Some(at) = read_with_own_entry(before, after) {
        sets.push("read_at = :read_at".to_owned());
        write = write.expression_attribute_values(":read_at", number(at.millis()));
        removes.extend(["badged_at", "marked_unread"]);
        removes.extend(after.look.is_none().then_some("look"));
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

/// Returns when the member read all, if an own entry shows that.
fn read_with_own_entry(before: Option<&Membership>, after: &Membership) -> Option<Timestamp> {
    after.read_at.filter(|at| before.and_then(|before| before.read_at) != Some(*at))
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
