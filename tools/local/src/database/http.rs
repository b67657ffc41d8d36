//! `DynamoDB`'s HTTP API over the embedded engine. The engine's own server answers every web page, so this one stands in its place.

use std::net::{IpAddr, Ipv4Addr};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use dynoxide::{Database, DynoxideError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::gateway::from_here;

/// `DynamoDB` takes 16 MB.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const PREFIXES: [&str; 2] = ["DynamoDB_20120810.", "DynamoDBStreams_20120810."];

pub(super) fn router(engine: Database) -> Router {
    Router::new()
        .route("/", post(answer))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(IpAddr::V4(Ipv4Addr::LOCALHOST), from_here))
        .with_state(engine)
}

async fn answer(State(engine): State<Database>, headers: HeaderMap, body: String) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let operation = PREFIXES.iter().find_map(|prefix| target.strip_prefix(prefix)).unwrap_or_default();
    let (status, text) = match run(&engine, operation, &body) {
        Some(Ok(text)) => (StatusCode::OK, text),
        Some(Err(error)) => {
            (StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::BAD_REQUEST), error.to_json())
        }
        None => {
            let unknown = json!({ "__type": "com.amazon.coral.service#UnknownOperationException" });
            (StatusCode::BAD_REQUEST, unknown.to_string())
        }
    };
    (status, [(CONTENT_TYPE, "application/x-amz-json-1.0")], text).into_response()
}

type Answer = Result<String, DynoxideError>;

/// `None`: the engine has no such operation.
fn run(engine: &Database, operation: &str, body: &str) -> Option<Answer> {
    Some(match operation {
        "BatchExecuteStatement" => call(body, |request| engine.batch_execute_statement(request)),
        "BatchGetItem" => call(body, |request| engine.batch_get_item(request)),
        "BatchWriteItem" => call(body, |request| engine.batch_write_item(request)),
        "CreateTable" => call(body, |request| engine.create_table(request)),
        "DeleteItem" => call(body, |request| engine.delete_item(request)),
        "DeleteTable" => call(body, |request| engine.delete_table(request)),
        "DescribeStream" => call(body, |request| engine.describe_stream(request)),
        "DescribeTable" => call(body, |request| engine.describe_table(request)),
        "DescribeTimeToLive" => call(body, |request| engine.describe_time_to_live(request)),
        "ExecuteStatement" => call(body, |request| engine.execute_statement(request)),
        "ExecuteTransaction" => call(body, |request| engine.execute_transaction(request)),
        "GetItem" => call(body, |request| engine.get_item(request)),
        "GetRecords" => call(body, |request| engine.get_records(request)),
        "GetShardIterator" => call(body, |request| engine.get_shard_iterator(request)),
        "ListStreams" => call(body, |request| engine.list_streams(request)),
        "ListTables" => call(body, |request| engine.list_tables(request)),
        "ListTagsOfResource" => call(body, |request| engine.list_tags_of_resource(request)),
        "PutItem" => call(body, |request| engine.put_item(request)),
        "Query" => call(body, |request| engine.query(request)),
        "Scan" => call(body, |request| engine.scan(request)),
        "TagResource" => call(body, |request| engine.tag_resource(request)),
        "TransactGetItems" => call(body, |request| engine.transact_get_items(request)),
        "TransactWriteItems" => call(body, |request| engine.transact_write_items(request)),
        "UntagResource" => call(body, |request| engine.untag_resource(request)),
        "UpdateItem" => call(body, |request| engine.update_item(request)),
        "UpdateTable" => call(body, |request| engine.update_table(request)),
        "UpdateTimeToLive" => call(body, |request| engine.update_time_to_live(request)),
        _ => return None,
    })
}

/// The engine reads a request from text, not from a parsed value: only text shows how a number is written.
fn call<Q: DeserializeOwned, A: Serialize>(
    body: &str,
    operation: impl FnOnce(Q) -> Result<A, DynoxideError>,
) -> Answer {
    let request = serde_json::from_str(body).map_err(|error| DynoxideError::ValidationException(error.to_string()))?;
    serde_json::to_string(&operation(request)?).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}
