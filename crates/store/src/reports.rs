//! Reports of users, in the operator's table `audit`: a partition for each month, a row for each report.

use domain::month;
use wire::{Report, ReportId, Timestamp, UserId};

use crate::error::{CallResult as _, written};
use crate::inbox::get_item;
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::{Error, Store, Written};

/// The key of the row that counts a user's reports: no conversation has it, since their ids have no space.
const COUNT: &str = " reports";

/// Whether the report is there, of the month of `at`.
pub async fn exists(store: &Store, report: &ReportId, at: Timestamp) -> Result<bool, Error> {
    let table = &store.tables.audit;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(key(&month(at), report)));
    Ok(get.projection_expression("seq_version").send().await.of_call("GetItem", table)?.item.is_some())
}

/// Returns a report, unless it has expired.
pub async fn get(store: &Store, month: &str, report: &ReportId) -> Result<Option<Report>, Error> {
    let table = &store.tables.audit;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(key(month, report)));
    let item = get.send().await.of_call("GetItem", table)?.item;
    let report =
        |item: &Item| Reader { item, table }.parsed("report", |text| serde_json::from_str(text).map_err(|_| ()));
    item.as_ref().map(report).transpose()
}

/// Returns the time until which the user's reports fill their rate.
pub async fn filled_until(store: &Store, user: &UserId) -> Result<Option<Timestamp>, Error> {
    let item = get_item(store, user, COUNT).await?.unwrap_or_default();
    Reader { item: &item, table: &store.tables.inbox }.optional("sends_until", Reader::time)
}

/// Counts a report, if no other was counted since the time was read.
pub async fn count(
    store: &Store,
    user: &UserId,
    was_until: Option<Timestamp>,
    until: Timestamp,
) -> Result<Written, Error> {
    let table = &store.tables.inbox;
    let update = store
        .client
        .update_item()
        .table_name(table)
        .key("user_id", text(user.as_str()))
        .key("conversation_id", text(COUNT))
        .update_expression("SET sends_until = :until, v = if_not_exists(v, :v)")
        .expression_attribute_values(":until", number(until.millis()))
        .expression_attribute_values(":v", version());
    let update = match was_until {
        None => update.condition_expression("attribute_not_exists(sends_until)"),
        Some(was) => {
            update.condition_expression("sends_until = :was").expression_attribute_values(":was", number(was.millis()))
        }
    };
    written(update.send().await.of_call("UpdateItem", table))
}

/// Stores a report, unless the report is there already.
pub async fn put(store: &Store, report: &Report, until: Timestamp) -> Result<(), Error> {
    let table = &store.tables.audit;
    let put = store
        .client
        .put_item()
        .table_name(table)
        .set_item(Some(key(&month(report.at), &report.report_id)))
        .item("report", text(serde_json::to_string(report).unwrap_or_default()))
        .item("expires_at", number(until.seconds()))
        .item(VERSION, version())
        .condition_expression("attribute_not_exists(seq_version)");
    match put.send().await.of_call("PutItem", table) {
        Err(error) if !error.is_refused() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The open reports of a month, in the order of their ids.
#[derive(Debug)]
pub struct Page {
    pub reports: Vec<Report>,
    /// The last id that was read, if there are more.
    pub next: Option<String>,
}

/// Lists the open reports of a month behind an id: as many as one query reads.
pub async fn list(store: &Store, month: &str, behind: Option<&ReportId>) -> Result<Page, Error> {
    let table = &store.tables.audit;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("conversation_id = :reports")
        .filter_expression("attribute_not_exists(closed_at)")
        .expression_attribute_values(":reports", text(partition(month)))
        .set_exclusive_start_key(behind.map(|report| key(month, report)));
    let found = query.send().await.of_call("Query", table)?;
    let report =
        |item: &Item| Reader { item, table }.parsed("report", |text| serde_json::from_str(text).map_err(|_| ()));
    let (reports, _) = readable(found.items().iter().map(report));
    let next = found.last_evaluated_key().map(|item| Reader { item, table }.text("seq_version").map(str::to_owned));
    Ok(Page { reports, next: next.transpose()? })
}

/// Closes an open report with an outcome. `Lost`: there is none.
pub async fn close(
    store: &Store,
    month: &str,
    report: &ReportId,
    outcome: &str,
    now: Timestamp,
) -> Result<Written, Error> {
    let table = &store.tables.audit;
    let update = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(month, report)))
        .update_expression("SET outcome = :outcome, closed_at = :now")
        .condition_expression("attribute_exists(report) AND attribute_not_exists(closed_at)")
        .expression_attribute_values(":outcome", text(outcome))
        .expression_attribute_values(":now", number(now.millis()));
    match update.send().await.of_call("UpdateItem", table) {
        Ok(_) => Ok(Written::Done),
        Err(error) if error.is_refused() => Ok(Written::Lost),
        Err(error) => Err(error),
    }
}

/// Replaces the reporter in the reports that the user made in a month. Reports about the user stay.
pub async fn replace_reporter(store: &Store, month: &str, user: &UserId, gone: &UserId) -> Result<(), Error> {
    let table = &store.tables.audit;
    let pages = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("conversation_id = :reports")
        // Others may have the same text.
        .filter_expression("contains(report, :user)")
        .expression_attribute_values(":reports", text(partition(month)))
        .expression_attribute_values(":user", text(user.as_str()))
        .into_paginator()
        .items()
        .send();
    for item in pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)? {
        let row = Reader { item: &item, table };
        let report: Report = row.parsed("report", |text| serde_json::from_str(text).map_err(|_| ()))?;
        if report.reporter_id != *user {
            continue;
        }
        let report = Report { reporter_id: gone.clone(), ..report };
        let update = store
            .client
            .update_item()
            .table_name(table)
            .set_key(Some(key(month, &report.report_id)))
            .update_expression("SET report = :report")
            // The TTL may have removed it.
            .condition_expression("attribute_exists(report)")
            .expression_attribute_values(":report", text(serde_json::to_string(&report).unwrap_or_default()));
        written(update.send().await.of_call("UpdateItem", table))?;
    }
    Ok(())
}

/// Before a month in the key. No conversation's id has a space.
pub(crate) const PREFIX: &str = "reports ";

fn partition(month: &str) -> String {
    format!("{PREFIX}{month}")
}

fn key(month: &str, report: &ReportId) -> Item {
    let key = [("conversation_id", partition(month)), ("seq_version", report.as_str().to_owned())];
    key.map(|(name, value)| (name.to_owned(), text(value))).into()
}
