//! The embedded database over DynamoDB's own HTTP API, and over a restart.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::path::Path;

use local::DatabaseServer;
use serde_json::{Value, json};
use template::Table;

fn things(sort_key: &str) -> Table {
    let attribute = |name| json!({ "AttributeName": name, "AttributeType": "S" });
    let create = json!({
        "TableName": "things",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [attribute("id"), attribute(sort_key)],
        "KeySchema": [
            { "AttributeName": "id", "KeyType": "HASH" },
            { "AttributeName": sort_key, "KeyType": "RANGE" },
        ],
    });
    let (logical_id, name) = ("ThingsTable".to_owned(), "things".to_owned());
    Table { logical_id, name, create, ttl_attribute: Some("expires_at".to_owned()) }
}

async fn put(database: &DatabaseServer, item: &Value) -> u16 {
    let request = reqwest::Client::new()
        .post(database.endpoint())
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", "DynamoDB_20120810.PutItem")
        .header("x-amz-date", "20260101T000000Z")
        .header("authorization", "AWS4-HMAC-SHA256 Credential=x/y/z, SignedHeaders=host, Signature=s")
        .body(json!({ "TableName": "things", "Item": item }).to_string());
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn rows_are_plain_json_and_outlive_a_restart_with_the_same_keys() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{}", std::process::id()));
    let database = DatabaseServer::start(&[things("at")], Some(&folder), 0).await.unwrap();
    let item = json!({
        "id": { "S": "a" }, "at": { "S": "1" }, "n": { "N": "9007199254740993" }, "no": { "NULL": true },
        "list": { "L": [{ "M": { "yes": { "BOOL": true } } }] }, "set": { "SS": ["x"] },
    });
    assert_eq!(put(&database, &item).await, 200);
    let rows = json!([{
        "id": "a", "at": "1", "n": 9_007_199_254_740_993_i64, "no": null, "list": [{ "yes": true }], "set": ["x"],
    }]);
    assert_eq!(json!(database.rows("things", 10).unwrap()), rows);
    drop(database);

    let database = DatabaseServer::start(&[things("at")], Some(&folder), 0).await.unwrap();
    assert_eq!(json!(database.rows("things", 10).unwrap()), rows);
    assert_eq!(json!(database.rows("things", 0).unwrap()), json!([]));
    assert!(database.rows("nothing", 10).unwrap().is_none());
    drop(database);

    let streaming =
        |database: &DatabaseServer| database.engine().get_table_metadata("things").unwrap().unwrap().stream_enabled;
    let mut with_stream = things("at");
    with_stream.create["StreamSpecification"] =
        json!({ "StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES" });
    for (table, streams) in [(with_stream, true), (things("at"), false)] {
        let database = DatabaseServer::start(&[table], Some(&folder), 0).await.unwrap();
        assert_eq!(streaming(&database), streams, "as the template says now");
        assert_eq!(json!(database.rows("things", 10).unwrap()), rows);
    }

    let error = DatabaseServer::start(&[things("other")], Some(&folder), 0).await.err().unwrap();
    assert!(format!("{error:#}").starts_with("table things: the data folder holds it with the keys"), "{error:#}");
    std::fs::remove_dir_all(folder).unwrap();
}
