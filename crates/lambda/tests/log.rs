//! Contents of the log, and texts that it must not contain.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lambda::{Clock, LogKey};
use serde_json::{Value, json};
use testkit::{Fault, Workbench, message_to_bob};
use tracing::instrument::WithSubscriber;

const KEY: &str = "key-of-tests";

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// What `run` logs at the finest level, as the functions do.
async fn logged<T>(run: impl Future<Output = T>) -> (T, String) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = lambda::subscriber("trace", "stack-of-tests", LogKey::new(KEY), move || writer.clone());
    let result = run.with_subscriber(subscriber).await;
    (result, lines.text())
}

#[tokio::test]
async fn no_line_has_a_body_a_key_or_a_user_in_it() {
    let bench = Workbench::default();
    bench.connected("user-alice").await;
    bench.connected("user-bob").await;
    let message = json!({"action": "send", "to": "user-bob", "client_msg_id": "secret-key", "kind": "text", "body": "secret-body"});
    let story = async {
        bench.ok("user-alice", message.clone()).await;
        bench.aws.fail_next("TransactWriteItems", Fault::Status(500));
        bench.run("user-alice", message.clone()).await;
        bench.aws.fail_next("TransactWriteItems", Fault::Cancelled(&["ThrottlingError"]));
        bench.run("user-alice", message.clone()).await;
        bench.aws.fail_always("user-bob=", Fault::Status(500));
        bench.run("user-alice", message.clone()).await;
        bench.run("user-bob", json!({"action": "drain"})).await;
        bench.run("user-bob", json!({"action": "inbox", "cursor": "secret-body"})).await;
        bench.run("user-bob", json!({"action": "secret-body"})).await;
    };
    let ((), log) = logged(story).await;
    assert!(log.lines().count() >= 7, "{log}");
    for line in log.lines() {
        for secret in ["secret-body", "secret-key"] {
            assert!(!line.contains(secret), "{line}");
        }
        // Connection ids of this bench are made of user ids; real ones are not.
        assert!(!line.replace("user-alice=", "").replace("user-bob=", "").contains("user-"), "{line}");
    }
}

#[tokio::test]
async fn one_line_says_what_came_of_an_event() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let message = json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi"});
    let (answer, log) = logged(bench.ok("alice", message)).await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ours: Vec<&Value> = lines.iter().filter(|line| line["level"] == "INFO").collect();
    assert_eq!(ours.len(), 1, "{log}");
    let line = ours[0];
    assert_eq!((&line["outcome"], &line["route"]), (&json!("ok"), &json!("send")));
    assert_eq!(
        (&line["seq"], &line["conflicts"], &line["posted"], &line["left_pending"]),
        (&json!(1), &Value::Null, &json!(1), &json!(0)),
        "the samples of `left_pending` are the messages"
    );
    let logged_as = |id: &str| json!(LogKey::new(KEY).logged_as(id));
    assert_eq!(line["conversation"], logged_as(answer["conversation_id"].as_str().unwrap()));
    assert_eq!((&line["user"], line.get("conversation_id")), (&logged_as("alice"), None));
    assert_eq!((&line["message"], &line["level"]), (&json!("answered"), &json!("INFO")));
}

/// Rows as a later version could write them, which this one can't read.
fn spoil(bench: &Workbench, table: &str, spoil: impl Fn(&mut Value) -> bool) {
    let mut rows = bench.aws.raw_rows(table);
    rows.retain_mut(spoil);
    bench.aws.put_rows(table, &rows);
}

#[tokio::test]
async fn what_cannot_be_read_is_counted() {
    let bench = Workbench::default();
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    bench.ok("carol", message_to_bob("m1")).await;
    let carols = bench.ok("carol", message_to_bob("m2")).await["conversation_id"].clone();
    let count = async |user: &str, request: Value| {
        let (_, log) = logged(bench.ok(user, request)).await;
        let line = lines(&log).into_iter().find(|line| line.get("outcome").is_some()).unwrap();
        line["unreadable"].as_u64()
    };
    let drain = json!({"action": "drain"});
    assert_eq!(count("bob", drain.clone()).await, None, "there is nothing to say");

    spoil(&bench, "MessagesTable", |row| {
        row["body"] = json!({"M": {}});
        row["conversation_id"]["S"] == id
    });
    assert_eq!(count("bob", drain.clone()).await, Some(1));
    assert_eq!(count("alice", json!({"action": "history", "conversation_id": id})).await, Some(1));
    spoil(&bench, "InboxTable", |row| {
        row["unread"] = json!({"S": "many"});
        row["user_id"]["S"] == "bob"
    });
    assert_eq!(count("bob", drain).await, Some(2));
    assert_eq!(count("bob", json!({"action": "inbox"})).await, Some(2));
    let first = json!([{"conversation_id": carols, "seq": 1}]);
    assert_eq!(count("bob", json!({"action": "ack", "up_to": first})).await, Some(1));
}

#[tokio::test]
async fn a_batch_of_notifications_says_what_came_of_each() {
    let bench = Workbench::ringing();
    let numbers = async |notified: &str| {
        let (_, log) = logged(bench.notify()).await;
        let line = lines(&log).into_iter().find(|line| line["route"] == "notify").unwrap();
        assert_eq!(line["duration_ms"], 0, "{notified}");
        ["rings", "spared", "muted", "no_device", "pushed", "cleared", "gone", "failed", "waits", "age_ms"]
            .map(|name| line[name].as_u64())
    };
    // A line has no zeros.
    let some = |numbers: [u64; 9], age_ms: Option<u64>| -> Vec<Option<u64>> {
        numbers.into_iter().map(|number| (number > 0).then_some(number)).chain([age_ms]).collect()
    };
    for (user, token) in [("bob", "aa01"), ("bob", "aa02"), ("dave", "bb01"), ("erin", "cc01"), ("frank", "dd01")] {
        bench.register(user, token, json!({})).await;
    }
    let to =
        |user: &str, id: &str| json!({"action": "send", "to": user, "client_msg_id": id, "kind": "text", "body": "hi"});
    let mut ids = HashMap::new();
    for user in ["bob", "carol", "dave", "erin", "frank"] {
        ids.insert(user, bench.ok("alice", to(user, "m1")).await["conversation_id"].clone());
    }
    let read = |user: &str, seq: u64| json!({"action": "read", "conversation_id": ids[user], "seq": seq});
    for user in ["dave", "frank"] {
        let mute = json!({"action": "settings", "conversation_id": ids[user], "set": {"muted_until": "forever"}});
        bench.ok(user, mute).await;
    }
    bench.ok("erin", read("erin", 1)).await;
    bench.clock.advance(Duration::from_millis(1_500));
    // Bob's two phones ring; carol has none; dave and frank are not to be disturbed; erin has read it.
    assert_eq!(numbers("rung").await.to_vec(), some([5, 1, 2, 1, 2, 0, 0, 0, 0], Some(1_500)));
    bench.ok("bob", read("bob", 1)).await;
    assert_eq!(numbers("cleared").await.to_vec(), some([0, 0, 0, 0, 0, 2, 0, 0, 0], None));
    bench.aws.with_sns(|sns| sns.kill("aa01"));
    bench.ok("alice", to("bob", "m2")).await;
    assert_eq!(numbers("dead").await.to_vec(), some([1, 0, 0, 0, 1, 0, 1, 0, 0], Some(0)));
    bench.ok("alice", to("bob", "m3")).await;
    bench.ok("alice", to("erin", "m2")).await;
    bench.aws.fail_always("BatchGetItem", Fault::Status(500));
    assert_eq!(numbers("failed").await.to_vec(), some([2, 0, 0, 0, 0, 0, 0, 2, 0], None));
}

#[tokio::test]
async fn a_message_can_be_followed_by_the_lines_about_it() {
    let bench = Workbench::default();
    let mut id = String::new();
    let story = async {
        id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].as_str().unwrap().to_owned();
        bench.ok("alice", message_to_bob("m2")).await;
        bench.ok("bob", json!({"action": "drain"})).await;
        let held = json!([{"conversation_id": id, "seq": 2}]);
        bench.ok("bob", json!({"action": "drain", "ack": held})).await;
        bench.ok("bob", json!({"action": "ack", "up_to": held})).await;
        bench.ok("bob", json!({"action": "read", "conversation_id": id, "seq": 2})).await;
    };
    let ((), log) = logged(story).await;
    let [alice, bob, conversation] = ["alice", "bob", &id].map(|id| LogKey::new(KEY).logged_as(id));
    let both = json!([format!("{conversation}:2")]);
    let lines = lines(&log).into_iter().filter(|line| line.get("outcome").is_some());
    let told: Vec<Value> = lines
        .map(|line| {
            let [user, seq] = [&line["user"], &line["seq"]];
            json!([user, line["conversation"], seq, line["drained"], line["acked"]])
        })
        .collect();
    let expected = [
        json!([alice, conversation, 1, null, null]),
        json!([alice, conversation, 2, null, null]),
        json!([bob, null, null, both, null]),
        json!([bob, null, null, null, both]),
        json!([bob, null, null, null, both]),
        json!([bob, conversation, 2, null, null]),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_line_says_where_the_time_went() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let (write, connections) = (bench.aws.hold_next("TransactWriteItems"), bench.aws.hold_next("Query"));
    let slow = async {
        write.reached().await;
        bench.clock.advance(Duration::from_millis(30));
        write.release();
        connections.reached().await;
        bench.clock.advance(Duration::from_millis(7));
        connections.release();
    };
    let (_, log) = logged(async { tokio::join!(bench.ok("alice", message_to_bob("m1")), slow) }).await;
    let line = &lines(&log).into_iter().find(|line| line["route"] == "send").unwrap();
    assert_eq!([&line["store_ms"], &line["fanout_ms"], &line["duration_ms"]], [30, 7, 37]);

    let put = bench.aws.hold_next("PutItem");
    let slow = async {
        put.reached().await;
        bench.clock.advance(Duration::from_millis(5));
        put.release();
    };
    let connect = bench.handle("connect", bench.event("connect", "alice"));
    let (_, log) = logged(async { tokio::join!(connect, slow) }).await;
    let line = &lines(&log).into_iter().find(|line| line["route"] == "$connect").unwrap();
    assert_eq!(line["duration_ms"], 5);
}

/// The line's metrics as CloudWatch would take them: the dimensions' values and the name, and the number.
fn metrics(line: &Value) -> BTreeMap<String, i64> {
    let meta = line["_aws"].as_object().unwrap();
    // The specification requires these members. CloudWatch accepts times from two weeks ago to two hours ahead.
    assert_eq!(meta.keys().collect::<Vec<_>>(), ["CloudWatchMetrics", "Timestamp"]);
    let age_ms = Clock::system().now().millis() - meta["Timestamp"].as_i64().unwrap();
    assert!((0..60_000).contains(&age_ms), "{age_ms}");
    let mut metrics = BTreeMap::new();
    for directive in meta["CloudWatchMetrics"].as_array().unwrap() {
        let members: Vec<&String> = directive.as_object().unwrap().keys().collect();
        assert_eq!(members, ["Dimensions", "Metrics", "Namespace"]);
        assert_eq!(directive["Namespace"], "Pigeonhole");
        let definitions = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&definitions.len()), "{directive}");
        for dimensions in directive["Dimensions"].as_array().unwrap() {
            let dimensions = dimensions.as_array().unwrap();
            assert!(dimensions.len() <= 30, "{directive}");
            let value = |name: &Value| line[name.as_str().unwrap()].as_str().filter(|value| !value.is_empty()).unwrap();
            let values: Vec<&str> = dimensions.iter().map(value).collect();
            for definition in definitions {
                let name = definition["Name"].as_str().unwrap();
                assert_eq!(definition.as_object().unwrap().len(), 1, "{name} has nothing beside its name");
                let number = line[name].as_i64().unwrap_or_else(|| panic!("{name} is no whole number in {line}"));
                assert!(metrics.insert(format!("{} {name}", values.join(" ")), number).is_none(), "{name} comes twice");
            }
        }
    }
    metrics
}

fn lines(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_line_about_an_event_has_its_metrics_and_no_other_line_has_any() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let message = |to: &str| json!({"action": "send", "to": to, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    bench.aws.fail_always("bob=", Fault::Status(500));
    let story = async {
        bench.ok("alice", message("bob")).await;
        bench.refused("alice", json!({"action": "send"})).await;
    };
    let ((), log) = logged(story).await;
    let (about_events, others): (Vec<_>, Vec<_>) =
        lines(&log).into_iter().partition(|line| line.get("outcome").is_some());
    assert!(!others.is_empty() && others.iter().all(|line| line.get("_aws").is_none()), "{log}");
    let [sent, refused] = about_events.try_into().unwrap();
    // Every byte is paid for; docs/operating.md reckons with these.
    let bytes = sent.to_string().len();
    assert!(bytes < 650, "{bytes} bytes: {sent}");

    let numbers = metrics(&sent);
    let names: Vec<&str> = numbers.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "stack-of-tests ok events",
            "stack-of-tests send duration_ms",
            "stack-of-tests send failed",
            "stack-of-tests send fanout_ms",
            "stack-of-tests send left_pending",
            "stack-of-tests send store_ms",
        ]
    );
    let number = |name: &str| numbers[&format!("stack-of-tests send {name}")];
    // The recipient's only connection did not take it.
    assert_eq!([number("failed"), number("left_pending")], [1, 1]);

    let expected = [
        ("stack-of-tests bad_request events", 1),
        ("stack-of-tests send bad_request events", 1),
        ("stack-of-tests send duration_ms", 0),
    ];
    assert_eq!(metrics(&refused), expected.map(|(name, number)| (name.to_owned(), number)).into());
}

#[tokio::test]
async fn a_connection_that_comes_and_goes_counts_too() {
    let bench = Workbench::default();
    let story = async {
        bench.connected("alice").await;
        bench.aws.fail_next("DeleteItem", Fault::Status(500));
        bench.handle("disconnect", bench.event("disconnect", "alice")).await.unwrap();
    };
    let ((), log) = logged(story).await;
    let counted: BTreeMap<String, i64> =
        lines(&log).iter().filter(|line| line.get("_aws").is_some()).flat_map(metrics).collect();
    let counted: Vec<&str> = counted.keys().map(String::as_str).collect();
    assert_eq!(
        counted,
        [
            "stack-of-tests $connect duration_ms",
            "stack-of-tests $disconnect duration_ms",
            "stack-of-tests $disconnect unavailable events",
            "stack-of-tests ok events",
            "stack-of-tests unavailable events",
        ]
    );
}

#[tokio::test]
async fn a_connection_that_is_refused_is_no_failure_of_ours() {
    let bench = Workbench::default();
    let mut event = bench.event("connect", "alice");
    event.payload.query_string_parameters = HashMap::from([("device_id".to_owned(), "x".repeat(1000))]);
    let (response, log) = logged(bench.handle("connect", event)).await;
    assert_eq!((response.unwrap().status_code, &lines(&log)[0]["outcome"]), (400, &json!("bad_request")));
}

#[tokio::test]
async fn the_line_counts_the_frames_that_went_out_and_those_that_did_not() {
    let bench = Workbench::default();
    for connection in ["bob", "bob-gone", "bob-gone-too", "bob-busy", "bob-busy-too", "bob-busy-three"] {
        let mut event = bench.event("connect", "bob");
        event.payload.request_context.connection_id = Some(format!("{connection}="));
        let device = HashMap::from([("device_id".to_owned(), connection.to_owned())]);
        event.payload.query_string_parameters = device;
        bench.handle("connect", event).await.unwrap();
    }
    for gone in ["bob-gone=", "bob-gone-too="] {
        bench.aws.fail_always(gone, Fault::Status(410));
    }
    for busy in ["bob-busy=", "bob-busy-too=", "bob-busy-three="] {
        bench.aws.fail_always(busy, Fault::Status(429));
    }
    let (_, log) = logged(bench.ok("alice", message_to_bob("m1"))).await;
    let line: Value = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["level"] == "INFO")
        .unwrap();
    assert_eq!((&line["posted"], &line["gone"], &line["failed"]), (&json!(1), &json!(2), &json!(3)), "{log}");
}

#[tokio::test]
async fn a_failure_names_the_operation_and_the_table() {
    let bench = Workbench::default();
    bench.aws.fail_next("Query", Fault::Status(500));
    let (code, log) = logged(bench.refused("bob", json!({"action": "ping"}))).await;
    assert_eq!(code, "unavailable");
    let line: Value = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["message"] == "failed")
        .unwrap();
    let cause = line["cause"].as_str().unwrap();
    assert!(cause.starts_with("Query on InboxTable failed: InternalServerError"), "{cause}");
    assert_eq!((&line["level"], &line["outcome"]), (&json!("ERROR"), &json!("unavailable")));
}
