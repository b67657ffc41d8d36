//! Changes of a table on their way to a function that is the test program's own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use local::{Logs, Options, Server, StreamLimits, Switches};
use serde_json::{Value, json};

struct Fixture {
    server: Server,
    logs: Arc<Mutex<Vec<String>>>,
}

async fn start() -> Fixture {
    let function = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/function");
    let logs = Arc::default();
    let options = Options {
        port: 0,
        template: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/template.yaml"),
        program: function,
        streams: StreamLimits {
            read_every: Duration::from_millis(5),
            window_max: Duration::ZERO,
            ..StreamLimits::default()
        },
        logs: Logs::Keep(Arc::clone(&logs)),
        ..Options::default()
    };
    Fixture { server: Server::start(options).await.unwrap(), logs }
}

impl Fixture {
    fn mapping(&self) -> &Switches {
        self.server.mapping("Changes").unwrap()
    }

    fn put(&self, id: &str, what: &str) {
        let item = json!({ "id": { "S": id }, "wanted": { "BOOL": true }, "do": { "S": what } });
        self.put_item(&item);
    }

    fn put_item(&self, item: &Value) {
        let put = serde_json::from_value(json!({ "TableName": "ThingsTable", "Item": item })).unwrap();
        self.server.database().engine().put_item(put).unwrap();
    }

    /// Writes these in one go, so that they come in one batch.
    async fn deliver(&self, things: &[(&str, &str)]) -> Vec<String> {
        self.mapping().hold().await;
        for (id, what) in things {
            self.put(id, what);
        }
        self.mapping().release();
        self.settled().await
    }

    /// The ids of each batch that the function got, when there is nothing more to come.
    async fn settled(&self) -> Vec<String> {
        tokio::time::timeout(Duration::from_secs(20), self.mapping().settled()).await.unwrap();
        let logs = self.logs.lock().unwrap();
        let events = logs.iter().filter_map(|line| serde_json::from_str::<Value>(line.split_once("event=")?.1).ok());
        let ids = |event: Value| {
            let records = event["Records"].as_array().unwrap();
            records.iter().map(|record| record["dynamodb"]["Keys"]["id"]["S"].as_str().unwrap()).collect::<String>()
        };
        events.map(ids).collect()
    }
}

#[tokio::test]
async fn changes_that_fit_come_in_order_and_as_lambda_shows_them() {
    let fixture = start().await;
    fixture.put_item(&json!({ "id": { "S": "x" } }));
    let batches = fixture.deliver(&[("a", ""), ("b", ""), ("c", ""), ("d", ""), ("e", "")]).await;
    assert_eq!(batches, ["abcd", "e"], "four at once, and not what does not fit");
    let logs = fixture.logs.lock().unwrap().join("\n");
    let event = logs.lines().find_map(|line| line.split_once("event=")).unwrap().1;
    let record: Value = serde_json::from_str::<Value>(event).unwrap()["Records"][0].clone();
    assert_eq!((&record["eventSource"], &record["eventName"]), (&json!("aws:dynamodb"), &json!("INSERT")));
    assert_eq!(
        (&record["awsRegion"], record["dynamodb"]["NewImage"]["id"]["S"].as_str()),
        (&json!("us-east-1"), Some("a"))
    );
    let arn = record["eventSourceARN"].as_str().unwrap();
    assert!(arn.starts_with("arn:aws:dynamodb:us-east-1:000000000000:table/ThingsTable/stream/"), "{arn}");
    assert_eq!(record["dynamodb"]["SequenceNumber"].as_str().unwrap().len(), 21);
}

#[tokio::test]
async fn a_record_that_fails_is_tried_again_with_what_comes_after_it_and_then_given_up() {
    let fixture = start().await;
    let batches = fixture.deliver(&[("a", ""), ("b", ""), ("c", "fail"), ("d", "")]).await;
    // From the failure on, then it alone: once, and two retries.
    assert_eq!(batches, ["abcd", "cd", "c", "c", "c", "d"]);
    assert!(fixture.logs.lock().unwrap().iter().any(|line| line.contains("1 records given up after 2 retries")));
    let told = fixture.mapping().given_up().pop().unwrap();
    assert_eq!(
        (&told["requestContext"]["condition"], &told["DDBStreamBatchInfo"]["batchSize"]),
        (&json!("RetryAttemptsExhausted"), &json!(1))
    );
}

#[tokio::test]
async fn what_is_too_old_is_given_up_and_the_queue_is_told_where_it_was_and_not_what() {
    let fixture = start().await;
    fixture.mapping().behind(Duration::from_mins(2));
    assert_eq!(fixture.deliver(&[("a", "a secret"), ("b", "")]).await, Vec::<String>::new());
    let told = fixture.mapping().given_up();
    assert_eq!(told.len(), 1);
    let batch = &told[0]["DDBStreamBatchInfo"];
    assert_eq!(
        (&told[0]["requestContext"]["condition"], &batch["batchSize"]),
        (&json!("RecordAgeExceeded"), &json!(2))
    );
    assert!(batch["startSequenceNumber"].as_str() < batch["endSequenceNumber"].as_str(), "{batch}");
    assert!(!told[0].to_string().contains("secret"));
    fixture.mapping().purge_given_up();
    fixture.mapping().behind(Duration::ZERO);
    assert_eq!(fixture.deliver(&[("c", "")]).await, ["c"]);
    assert!(fixture.mapping().given_up().is_empty());
}

#[tokio::test]
async fn a_batch_that_fails_whole_is_divided() {
    let fixture = start().await;
    let batches = fixture.deliver(&[("a", ""), ("b", "fail all"), ("c", ""), ("d", "")]).await;
    assert_eq!(batches, ["abcd", "ab", "a", "b", "b", "b", "cd"]);
}

#[tokio::test]
async fn a_mapping_can_be_held_repeated_and_delayed() {
    let fixture = start().await;
    fixture.mapping().hold().await;
    fixture.put("a", "");
    fixture.mapping().duplicate(true);
    fixture.mapping().release();
    assert_eq!(fixture.settled().await, ["a", "a"]);
    fixture.mapping().duplicate(false);
    let delay = Duration::from_millis(50);
    fixture.mapping().delay(delay);
    let began = Instant::now();
    fixture.put("b", "");
    assert_eq!(fixture.settled().await, ["a", "a", "b"]);
    assert!(began.elapsed() >= delay);
}

/// Measures the cost of a million records, in a minute, by hand: `PIGEONHOLE_RECORDS=1000000 cargo test --workspace
/// --test mappings -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "measures, as many as PIGEONHOLE_RECORDS says"]
async fn a_million_records() {
    let Ok(records) = std::env::var("PIGEONHOLE_RECORDS") else { return };
    let fixture = start().await;
    let began = Instant::now();
    let mut last = began;
    for round in 1..=records.parse::<u64>().unwrap() {
        fixture.put_item(&json!({ "id": { "S": format!("{}", round % 1000) }, "n": { "N": round.to_string() } }));
        if round % 100_000 == 0 {
            println!("{round} records: {} µs each", last.elapsed().as_micros() / 100_000);
            last = Instant::now();
        }
    }
    let written = Instant::now();
    fixture.mapping().settled().await;
    println!("read to the end {:.2} s after the last write", written.elapsed().as_secs_f64());
    let size = fixture.server.database().engine().db_size_bytes().unwrap();
    println!("{} MiB in the database", size / 1024 / 1024);
}
