//! The stream of a table, as the embedded database writes it.

use anyhow::Context as _;
use dynoxide::actions::describe_table::DescribeTableRequest;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::database::{DatabaseServer, failed, request};

/// Records that one call answers, at most.
const READ_MAX: usize = 1000;

pub(super) struct Stream {
    engine: dynoxide::Database,
    arn: String,
    position: String,
}

impl Stream {
    /// From its oldest record on.
    pub(super) fn open(database: &DatabaseServer, table: &str) -> anyhow::Result<Self> {
        let engine = database.engine().clone();
        let describe: DescribeTableRequest = request(json!({ "TableName": table }))?;
        let described = serde_json::to_value(engine.describe_table(describe).map_err(failed)?)?;
        let stream = described.pointer("/Table/LatestStreamArn").and_then(Value::as_str);
        let stream = stream.with_context(|| format!("{table} has no stream"))?;
        let (_, label) = stream.rsplit_once('/').unwrap_or_default();
        let iterator: GetShardIteratorRequest = request(json!({
            "StreamArn": stream,
            "ShardId": dynoxide::streams::shard_id(table),
            "ShardIteratorType": "TRIM_HORIZON",
        }))?;
        let iterator = engine.get_shard_iterator(iterator).map_err(failed)?;
        let position = iterator.shard_iterator.context("the stream has no beginning")?;
        let arn = format!("arn:aws:dynamodb:us-east-1:000000000000:table/{table}/stream/{label}");
        Ok(Self { engine, arn, position })
    }

    /// The next records, as a function gets them.
    pub(super) async fn read(&mut self) -> anyhow::Result<Vec<Value>> {
        let engine = self.engine.clone();
        let request = GetRecordsRequest { shard_iterator: self.position.clone(), limit: Some(READ_MAX) };
        let answer = tokio::task::spawn_blocking(move || engine.get_records(request)).await?.map_err(failed)?;
        self.position = answer.next_shard_iterator.context("the stream has ended")?;
        let records = answer.records.into_iter().map(|record| {
            let mut record = serde_json::to_value(record)?;
            if let Some(members) = record.as_object_mut() {
                members.insert("awsRegion".to_owned(), json!("us-east-1"));
                members.insert("eventSourceARN".to_owned(), json!(self.arn));
            }
            Ok(record)
        });
        records.collect()
    }
}

/// To the second.
pub(super) fn created_at(record: &Value) -> OffsetDateTime {
    let seconds = record.pointer("/dynamodb/ApproximateCreationDateTime").and_then(Value::as_f64).unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "seconds are far below where it matters")]
    OffsetDateTime::from_unix_timestamp(seconds as i64).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

pub(super) fn sequence_number(record: &Value) -> &str {
    record.pointer("/dynamodb/SequenceNumber").and_then(Value::as_str).unwrap_or_default()
}
