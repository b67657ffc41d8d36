//! Jobs: work that takes longer than a request. Rows of the operator's table `audit`, whose stream brings each write of
//! a job's row to the function `jobs`. A job that is saved is thus the next record, and needs no timer.
//!
//! `jobs` lists the jobs under way, so that a job whose record was lost is found. `lease` counts a job's tries: its writes
//! have another key, which invokes no function. `ledger` has each erased user, for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::{DeleteBuilder, PutBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, ReturnValue, TransactWriteItem, Update};
use wire::{ConversationId, Timestamp, UserId};

use crate::error::{CallResult as _, written};
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::replays::{OP, PREFIX, STATE};
use crate::transaction::{self, Outcome};
use crate::{Error, Store, Written};

/// Time for which the row of a job that has ended is kept.
const ENDED_TTL: Duration = Duration::from_hours(90 * 24);
/// Time after which a lease's row expires. No job is that long at one step.
const LEASE_TTL: Duration = Duration::from_hours(7 * 24);
/// The partition of the jobs under way.
const UNDER_WAY: &str = "jobs";
/// The partition of the erased users.
const LEDGER: &str = "ledger";
/// The partition of what an operator holds.
const HOLDS: &str = "holds";

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Queued,
    Running,
    Done,
    Failed,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Result<Self, ()> {
        [Self::Queued, Self::Running, Self::Done, Self::Failed]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(())
    }

    /// Whether the function still works at it.
    pub fn is_under_way(self) -> bool {
        match self {
            Self::Queued | Self::Running => true,
            Self::Done | Self::Failed => false,
        }
    }
}

/// A job that erases a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: String,
    pub user: UserId,
    /// The id that the user has from then on.
    pub gone: UserId,
    pub state: State,
    /// Each save raises it, and is a condition of the next one. So a save is always a new record of the stream.
    pub step: u64,
    /// Where the function goes on, in its own form. Empty at the beginning.
    pub cursor: String,
    pub counts: BTreeMap<String, u64>,
    pub saved_at: Timestamp,
    /// When no backup has the data any more.
    pub complete_at: Option<Timestamp>,
}

/// A user who was erased, or is being erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erased {
    pub job_id: String,
    pub gone: UserId,
}

/// Returns the entry of the ledger for this user.
pub async fn erased(store: &Store, user: &UserId) -> Result<Option<Erased>, Error> {
    let item = get_item(store, key(LEDGER, user.as_str())).await?;
    item.map(|item| read_erased(&store.tables.audit, &item)).transpose()
}

/// Returns all users of the ledger.
pub async fn ledger(store: &Store) -> Result<Vec<Erased>, Error> {
    let table = &store.tables.audit;
    let pages = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression("conversation_id = :ledger")
        .expression_attribute_values(":ledger", text(LEDGER))
        .into_paginator()
        .items()
        .send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.of_call("Query", table)?;
    Ok(readable(found.iter().map(|item| read_erased(table, item))).0)
}

fn read_erased(table: &str, item: &Item) -> Result<Erased, Error> {
    let row = Reader { item, table };
    Ok(Erased { job_id: row.text("job_id")?.to_owned(), gone: row.parsed("erased_id", UserId::parse)? })
}

/// Begins the erasure of a user, unless the ledger has the user. `Lost`: it has.
pub async fn begin(store: &Store, job: &Job, reason: Option<&str>) -> Result<Written, Error> {
    let table = &store.tables.audit;
    let Job { id, user, gone, saved_at: now, .. } = job;
    let mut ledger = key(LEDGER, user.as_str());
    ledger.extend(reason.map(|reason| ("reason".to_owned(), text(reason))));
    let ledger = Put::builder()
        .table_name(table)
        .set_item(Some(ledger))
        .item("job_id", text(id))
        .item("erased_id", text(gone.as_str()))
        .item("at", number(now.millis()))
        .item(VERSION, version())
        .condition_expression("attribute_not_exists(job_id)");
    let row = Put::builder()
        .table_name(table)
        .set_item(Some(key_of(id)))
        .item("op", text("erase"))
        .item("user_id", text(user.as_str()))
        .item("erased_id", text(gone.as_str()))
        .item("state", text(State::Queued.as_str()))
        .item("step", number(0))
        .item("cursor", text(""))
        .item("counts", counts_value(&BTreeMap::new()))
        .item("saved_at", number(now.millis()))
        .item(VERSION, version());
    let writes = [transaction::put(ledger), transaction::put(row), transaction::put(listing(store, id))];
    write_all(store, writes.into()).await
}

/// Returns a job; `None`: there is none of this function's with this id.
pub async fn get(store: &Store, id: &str) -> Result<Option<Job>, Error> {
    let item = get_item(store, key_of(id)).await?;
    let item = item.filter(|item| item.get("op").and_then(|op| op.as_s().ok()).is_none_or(|op| op != OP));
    item.map(|item| read(&store.tables.audit, id, &item)).transpose()
}

/// Whether a job has failed, which may be unreadable otherwise.
pub async fn has_failed(store: &Store, id: &str) -> Result<bool, Error> {
    let item = get_item(store, key_of(id)).await?.unwrap_or_default();
    Ok(item.get("state").and_then(|state| state.as_s().ok()).is_some_and(|state| state == State::Failed.as_str()))
}

fn read(table: &str, id: &str, item: &Item) -> Result<Job, Error> {
    let row = Reader { item, table };
    let counts = |row: &Reader, name| -> Result<_, Error> {
        let map = row.item.get(name).and_then(|value| value.as_m().ok()).ok_or_else(|| row.unusable(name))?;
        let count = |count: &AttributeValue| count.as_n().ok()?.parse().ok();
        Ok(map.iter().filter_map(|(name, value)| Some((name.clone(), count(value)?))).collect())
    };
    Ok(Job {
        id: id.to_owned(),
        user: row.parsed("user_id", UserId::parse)?,
        gone: row.parsed("erased_id", UserId::parse)?,
        state: row.parsed("state", State::parse)?,
        step: row.count("step")?,
        cursor: row.text("cursor")?.to_owned(),
        counts: counts(&row, "counts")?,
        saved_at: row.time("saved_at")?,
        complete_at: row.optional("complete_at", Reader::time)?,
    })
}

/// Saves a job that was read at `step`: its state, cursor and counts. A job that has ended leaves the list of jobs under
/// way, and a job that begins again returns to it. `Lost`: another run has saved meanwhile.
pub async fn save(store: &Store, job: &Job, step: u64) -> Result<Written, Error> {
    let Job { id, state, cursor, counts, saved_at, complete_at, .. } = job;
    let mut set = "SET #state = :state, step = :step, #cursor = :cursor, #counts = :counts, saved_at = :now".to_owned();
    let mut update = Update::builder()
        .table_name(&store.tables.audit)
        .set_key(Some(key_of(id)))
        .condition_expression("step = :was")
        .expression_attribute_names("#state", "state")
        .expression_attribute_names("#cursor", "cursor")
        .expression_attribute_names("#counts", "counts")
        .expression_attribute_values(":state", text(state.as_str()))
        .expression_attribute_values(":step", number(step + 1))
        .expression_attribute_values(":was", number(step))
        .expression_attribute_values(":cursor", text(cursor))
        .expression_attribute_values(":counts", counts_value(counts))
        .expression_attribute_values(":now", number(saved_at.millis()));
    let mut removes = vec![];
    match complete_at {
        Some(at) => {
            set.push_str(", complete_at = :complete");
            update = update.expression_attribute_values(":complete", number(at.millis()));
        }
        None => removes.push("complete_at"),
    }
    if state.is_under_way() {
        removes.push("expires_at");
    } else {
        set.push_str(", expires_at = :expires");
        update = update.expression_attribute_values(":expires", number(saved_at.plus(ENDED_TTL).seconds()));
    }
    let removes = if removes.is_empty() { String::new() } else { format!(" REMOVE {}", removes.join(", ")) };
    let listed = if state.is_under_way() {
        transaction::put(listing(store, id))
    } else {
        transaction::delete(listing_delete(store, id))
    };
    write_all(store, vec![transaction::update(update.update_expression(format!("{set}{removes}"))), listed]).await
}

/// Has the stream bring a job back. A job that is gone leaves the list.
pub async fn touch(store: &Store, id: &str) -> Result<(), Error> {
    let table = &store.tables.audit;
    let update = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key_of(id)))
        .update_expression("ADD step :one")
        .condition_expression("attribute_exists(op)")
        .expression_attribute_values(":one", number(1));
    match update.send().await.of_call("UpdateItem", table) {
        Err(error) if error.is_refused() => delete_item(store, key(UNDER_WAY, id)).await,
        touched => touched.map(drop),
    }
}

/// Ends a job that can't be read or went wrong each time. Nothing but the key is known of it.
pub async fn fail(store: &Store, id: &str, now: Timestamp) -> Result<(), Error> {
    let update = Update::builder()
        .table_name(&store.tables.audit)
        .set_key(Some(key_of(id)))
        .update_expression("SET #state = :failed, expires_at = :expires ADD step :one")
        .condition_expression("attribute_exists(op) AND #state <> :failed")
        .expression_attribute_names("#state", "state")
        .expression_attribute_values(":failed", text(State::Failed.as_str()))
        .expression_attribute_values(":expires", number(now.plus(ENDED_TTL).seconds()))
        .expression_attribute_values(":one", number(1));
    let writes = vec![transaction::update(update), transaction::delete(listing_delete(store, id))];
    write_all(store, writes).await.map(drop)
}

/// Returns the ids of the jobs under way. One page, which is thousands.
pub async fn under_way(store: &Store) -> Result<Vec<String>, Error> {
    Ok(readable(listed(store, UNDER_WAY).await?.into_iter()).0)
}

/// Counts a try of a job at this step. Returns how many there were, with this one. A step that was saved counts anew.
pub async fn count_try(store: &Store, id: &str, step: u64, now: Timestamp) -> Result<u64, Error> {
    let table = &store.tables.audit;
    let write = |expression: &str, condition: &str| {
        store
            .client
            .update_item()
            .table_name(table)
            .set_key(Some(lease_key(id)))
            .update_expression(expression)
            .condition_expression(condition)
            .expression_attribute_values(":of", number(step))
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::AllNew)
    };
    let first = write(
        "SET step = :of, tries = :one, expires_at = :expires, v = if_not_exists(v, :v)",
        "attribute_not_exists(step) OR step <> :of",
    )
    .expression_attribute_values(":expires", number(now.plus(LEASE_TTL).seconds()))
    .expression_attribute_values(":v", version());
    match first.send().await.of_call("UpdateItem", table) {
        Ok(_) => return Ok(1),
        Err(error) if error.is_refused() => {}
        Err(error) => return Err(error),
    }
    let counted = write("SET tries = tries + :one", "step = :of").send().await.of_call("UpdateItem", table)?;
    let item = counted.attributes.unwrap_or_default();
    Reader { item: &item, table }.count("tries")
}

/// Forgets the tries of a job, which an operator begins again.
pub async fn forget_tries(store: &Store, id: &str) -> Result<(), Error> {
    delete_item(store, lease_key(id)).await
}

/// Users and conversations that an operator holds: no job erases anything of theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds(Vec<String>);

impl Holds {
    pub fn has_user(&self, user: &UserId) -> bool {
        self.0.iter().any(|held| held == user.as_str())
    }

    pub fn has_conversation(&self, conversation: &ConversationId) -> bool {
        self.0.iter().any(|held| held == conversation.as_str())
    }
}

/// Returns all that an operator holds. One page, which is thousands.
pub async fn holds(store: &Store) -> Result<Holds, Error> {
    // No hold is skipped, even if its row is of a later version.
    Ok(Holds(listed(store, HOLDS).await?.into_iter().collect::<Result<_, _>>()?))
}

/// Holds a user or a conversation, or no longer.
pub async fn hold(store: &Store, of: &str, on: bool, now: Timestamp) -> Result<(), Error> {
    let table = &store.tables.audit;
    if on {
        let put = store.client.put_item().table_name(table).set_item(Some(key(HOLDS, of)));
        let put = put.item("at", number(now.millis())).item(VERSION, version());
        return put.send().await.of_call("PutItem", table).map(drop);
    }
    delete_item(store, key(HOLDS, of)).await
}

/// Takes the work on a conversation for a job until then. `Lost`: another job has it.
pub async fn lease(
    store: &Store,
    of: &ConversationId,
    job: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<Written, Error> {
    let table = &store.tables.audit;
    let update = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(lease_key(of.as_str())))
        .update_expression("SET job_id = :job, leased_until = :until, expires_at = :expires, v = if_not_exists(v, :v)")
        .condition_expression("attribute_not_exists(job_id) OR job_id = :job OR leased_until < :now")
        .expression_attribute_values(":job", text(job))
        .expression_attribute_values(":until", number(until.millis()))
        .expression_attribute_values(":expires", number(until.seconds()))
        .expression_attribute_values(":now", number(now.millis()))
        .expression_attribute_values(":v", version());
    written(update.send().await.of_call("UpdateItem", table))
}

/// Gives the work on a conversation back.
pub async fn give_back(store: &Store, of: &ConversationId, job: &str) -> Result<(), Error> {
    let table = &store.tables.audit;
    let delete = store
        .client
        .delete_item()
        .table_name(table)
        .set_key(Some(lease_key(of.as_str())))
        .condition_expression("job_id = :job")
        .expression_attribute_values(":job", text(job));
    written(delete.send().await.of_call("DeleteItem", table)).map(drop)
}

async fn write_all(store: &Store, writes: Vec<Result<TransactWriteItem, BuildError>>) -> Result<Written, Error> {
    match transaction::write(store, &store.tables.audit, writes.into_iter().collect()).await? {
        Outcome::Written => Ok(Written::Done),
        Outcome::Cancelled(cancelled) if cancelled.is_lost() => Ok(Written::Lost),
        Outcome::Cancelled(cancelled) => Err(cancelled.into()),
    }
}

/// Returns the sort keys of the first page of a partition.
async fn listed(store: &Store, partition: &str) -> Result<Vec<Result<String, Error>>, Error> {
    let table = &store.tables.audit;
    let query = store
        .client
        .query()
        .table_name(table)
        .consistent_read(true)
        .key_condition_expression(format!("conversation_id = :{partition}"))
        .expression_attribute_values(format!(":{partition}"), text(partition));
    let found = query.send().await.of_call("Query", table)?;
    let keys = found.items().iter().map(|item| Reader { item, table }.text("seq_version").map(str::to_owned));
    Ok(keys.collect())
}

async fn get_item(store: &Store, key: Item) -> Result<Option<Item>, Error> {
    let table = &store.tables.audit;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(key));
    Ok(get.send().await.of_call("GetItem", table)?.item)
}

async fn delete_item(store: &Store, key: Item) -> Result<(), Error> {
    let table = &store.tables.audit;
    store.client.delete_item().table_name(table).set_key(Some(key)).send().await.of_call("DeleteItem", table).map(drop)
}

fn listing(store: &Store, id: &str) -> PutBuilder {
    Put::builder().table_name(&store.tables.audit).set_item(Some(key(UNDER_WAY, id))).item(VERSION, version())
}

fn listing_delete(store: &Store, id: &str) -> DeleteBuilder {
    Delete::builder().table_name(&store.tables.audit).set_key(Some(key(UNDER_WAY, id)))
}

fn counts_value(counts: &BTreeMap<String, u64>) -> AttributeValue {
    AttributeValue::M(counts.iter().map(|(name, count)| (name.clone(), number(count))).collect())
}

fn key_of(id: &str) -> Item {
    key(&format!("{PREFIX}{id}"), STATE)
}

/// A partition for each, so that no lease waits for another.
fn lease_key(of: &str) -> Item {
    key(&format!("lease {of}"), "-")
}

fn key(partition: &str, sort: &str) -> Item {
    [("conversation_id", partition), ("seq_version", sort)].map(|(name, value)| (name.to_owned(), text(value))).into()
}
