//! DynamoDB: an embedded database with the template's tables, served over HTTP on the loopback interface.

mod http;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::serve::ListenerExt as _;
use dynoxide::actions::{
    create_table::CreateTableRequest, describe_table::DescribeTableRequest, query::QueryRequest, scan::ScanRequest,
    update_table::UpdateTableRequest, update_time_to_live::UpdateTimeToLiveRequest,
};
use dynoxide::storage::Storage;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use template::{Table, plain_item};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

/// The engine searches all records of the table for the highest number at each write, and keeps them for ever. After
/// 20,000 records a write takes 2 ms, and later more. An index finds the number immediately, and at every thousandth
/// record the server removes those before the last 100,000. A write then takes 0.1 ms, after a million records as well
/// (`a_million_records` in `tests/mappings.rs`).
const STREAM_RECORDS: &str = "
    CREATE INDEX IF NOT EXISTS local_stream_records ON _stream_records (table_name, CAST(sequence_number AS INTEGER));
    CREATE TRIGGER IF NOT EXISTS local_stream_trim AFTER INSERT ON _stream_records WHEN NEW.id % 1000 = 0
    BEGIN DELETE FROM _stream_records WHERE id <= NEW.id - 100000; END;";

/// The least time from the end of a sweep to the next.
const SWEEP_REST_MIN: Duration = Duration::from_mins(1);
/// That time as a multiple of what the last sweep took. A sweep reads all rows that can expire: with a million of them and no
/// such rest, one would follow the other.
const SWEEP_REST_TIMES: u32 = 20;

/// Stops serving when dropped.
pub struct DatabaseServer {
    engine: dynoxide::Database,
    address: SocketAddr,
    _stop: DropGuard,
}

impl DatabaseServer {
    /// Tables that already exist in `data` are kept. Without `data` everything is in memory. Port 0 takes any.
    pub async fn start(tables: &[Table], data: Option<&Path>, port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .with_context(|| format!("the database cannot listen on port {port}; choose another with --port"))?;
        let address = listener.local_addr()?;
        let engine = open(data)?;
        for table in tables {
            ensure_table(&engine, table).with_context(|| format!("table {}", table.name))?;
        }
        let stop = CancellationToken::new();
        // Without this, small answers wait for the other side's delayed acknowledgement.
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap_or_default());
        let serving = axum::serve(listener, http::router(engine.clone()));
        tokio::spawn(serving.with_graceful_shutdown(stop.clone().cancelled_owned()).into_future());
        tokio::spawn(stop.clone().run_until_cancelled_owned(sweep(engine.clone())));
        Ok(Self { engine, address, _stop: stop.drop_guard() })
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// For who has no need of a network in between.
    pub fn engine(&self) -> &dynoxide::Database {
        &self.engine
    }

    /// Every table's name and its number of rows.
    pub fn tables(&self) -> anyhow::Result<Map<String, Value>> {
        let tables = self.engine.table_stats().map_err(failed)?;
        Ok(tables.into_iter().map(|table| (table.table_name, json!(table.item_count))).collect())
    }

    /// Up to `rows_max` rows as plain JSON, or `None` if there is no such table.
    pub fn rows(&self, table: &str, rows_max: usize) -> anyhow::Result<Option<Vec<Value>>> {
        if self.engine.get_table_metadata(table).map_err(failed)?.is_none() {
            return Ok(None);
        }
        let pages = |start: Value| {
            let scan: ScanRequest = request(json!({ "TableName": table, "ExclusiveStartKey": start }))?;
            Ok(serde_json::to_value(self.engine.scan(scan).map_err(failed)?)?)
        };
        all(pages, rows_max).map(Some)
    }

    /// The rows of one user as plain JSON, in a table whose partition key is `user_id`.
    pub fn rows_of(&self, table: &str, user: &str) -> anyhow::Result<Vec<Value>> {
        let pages = |start: Value| {
            let query: QueryRequest = request(json!({
                "TableName": table,
                "ExclusiveStartKey": start,
                "KeyConditionExpression": "user_id = :user",
                "ExpressionAttributeValues": { ":user": { "S": user } },
            }))?;
            Ok(serde_json::to_value(self.engine.query(query).map_err(failed)?)?)
        };
        all(pages, usize::MAX)
    }
}

/// Returns the items of all pages. Each request has the last key of the page before.
fn all(page: impl Fn(Value) -> anyhow::Result<Value>, rows_max: usize) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    let mut start = Value::Null;
    loop {
        let page = page(start)?;
        let items = page.get("Items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        rows.extend(items.iter().take(rows_max - rows.len()).map(plain_item));
        match page.get("LastEvaluatedKey") {
            Some(key) if rows.len() < rows_max => start = key.clone(),
            _ => return Ok(rows),
        }
    }
}

fn open(data: Option<&Path>) -> anyhow::Result<dynoxide::Database> {
    let Some(folder) = data else { return open_in_memory() };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let file = folder.join("tables.sqlite");
    let path = file.to_str().with_context(|| format!("{} is not a name in UTF-8", file.display()))?;
    let storage = Storage::new(path).map_err(failed).with_context(|| format!("cannot open {path}"))?;
    storage.conn().execute_batch(STREAM_RECORDS)?;
    drop(storage);
    dynoxide::Database::new(path).map_err(failed).with_context(|| format!("cannot open {path}"))
}

/// Opens a database in memory. The engine exposes no connection, so it restores a prepared empty database.
fn open_in_memory() -> anyhow::Result<dynoxide::Database> {
    let storage = Storage::memory().map_err(failed)?;
    storage.conn().execute_batch(STREAM_RECORDS)?;
    let file = std::env::temp_dir().join(format!("pigeonhole-{}.sqlite", Uuid::new_v4()));
    let path = file.to_str().with_context(|| format!("{} is not a name in UTF-8", file.display()))?;
    storage.vacuum_into(path).map_err(failed)?;
    let engine = dynoxide::Database::memory().map_err(failed)?;
    let restored = engine.restore_from(path).map_err(failed);
    std::fs::remove_file(&file).with_context(|| format!("cannot remove {path}"))?;
    restored.map(|()| engine)
}

fn ensure_table(engine: &dynoxide::Database, table: &Table) -> anyhow::Result<()> {
    if engine.get_table_metadata(&table.name).map_err(failed)?.is_some() {
        check_keys(engine, table)?;
    } else {
        engine.create_table(request::<CreateTableRequest>(table.create.clone())?).map_err(failed)?;
    }
    ensure_stream(engine, table)?;
    if let Some(attribute) = &table.ttl_attribute {
        let ttl = json!({ "AttributeName": attribute, "Enabled": true });
        let ttl: UpdateTimeToLiveRequest = request(json!({ "TableName": table.name, "TimeToLiveSpecification": ttl }))?;
        engine.update_time_to_live(ttl).map_err(failed)?;
    }
    Ok(())
}

/// A kept table may be from before it had a stream, or from when it still had one.
fn ensure_stream(engine: &dynoxide::Database, table: &Table) -> anyhow::Result<()> {
    let metadata = engine.get_table_metadata(&table.name).map_err(failed)?;
    let kept = metadata.is_some_and(|metadata| metadata.stream_enabled);
    let wanted = table.create.get("StreamSpecification");
    if kept == wanted.is_some() {
        return Ok(());
    }
    let specification = wanted.cloned().unwrap_or_else(|| json!({ "StreamEnabled": false }));
    let update: UpdateTableRequest = request(json!({ "TableName": table.name, "StreamSpecification": specification }))?;
    engine.update_table(update).map_err(failed)?;
    Ok(())
}

/// A kept table whose keys or indexes are not the template's would fail later, and less clearly.
fn check_keys(engine: &dynoxide::Database, table: &Table) -> anyhow::Result<()> {
    let describe: DescribeTableRequest = request(json!({ "TableName": table.name }))?;
    let kept = serde_json::to_value(engine.describe_table(describe).map_err(failed)?)?;
    let kept = keys(kept.get("Table").unwrap_or(&Value::Null));
    let wanted = keys(&table.create);
    if kept != wanted {
        bail!(
            "the data folder holds it with the keys {kept}, the template wants {wanted}; \
             start with another --data folder, or delete this one"
        );
    }
    Ok(())
}

/// The keys of a table and of its indexes, in a form to compare and to show.
fn keys(table: &Value) -> Value {
    let schema = |holder: &Value| holder.get("KeySchema").cloned().unwrap_or_default();
    let mut all = Map::from_iter([("table".to_owned(), schema(table))]);
    for indexes in ["LocalSecondaryIndexes", "GlobalSecondaryIndexes"] {
        for index in table.get(indexes).and_then(Value::as_array).into_iter().flatten() {
            let name = index.get("IndexName").and_then(Value::as_str).unwrap_or_default();
            all.insert(name.to_owned(), schema(index));
        }
    }
    Value::Object(all)
}

async fn sweep(engine: dynoxide::Database) {
    loop {
        let (engine, began) = (engine.clone(), Instant::now());
        // A sweep that failed is made good by the next: DynamoDB promises no moment either.
        let _ = tokio::task::spawn_blocking(move || engine.sweep_ttl()).await;
        sleep(SWEEP_REST_MIN.max(began.elapsed() * SWEEP_REST_TIMES)).await;
    }
}

pub(crate) fn request<T: DeserializeOwned>(body: Value) -> anyhow::Result<T> {
    Ok(serde_json::from_value(body)?)
}

pub(crate) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the embedded database: {error}")
}
