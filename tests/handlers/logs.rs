//! What is written to the log, and what never is.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::Failure;
use tracing::instrument::WithSubscriber;

use crate::bench::{Bench, message_to_bob};

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
    let subscriber = lambda::subscriber("trace", move || writer.clone());
    let result = run.with_subscriber(subscriber).await;
    (result, lines.text())
}

#[tokio::test]
async fn no_line_has_a_body_a_key_or_a_user_in_it() {
    let bench = Bench::new().await;
    bench.connected("user-alice").await;
    bench.connected("user-bob").await;
    let message = json!({"action": "send", "to": "user-bob", "client_msg_id": "secret-key", "kind": "text", "body": "secret-body"});
    let story = async {
        bench.ok("user-alice", message.clone()).await;
        bench.recorder.fail_next("TransactWriteItems", Failure::internal());
        bench.run("user-alice", message.clone()).await;
        bench
            .recorder
            .fail_next("TransactWriteItems", Failure::cancelled(&["None", "ThrottlingError", "None", "None"]));
        bench.run("user-alice", message.clone()).await;
        bench.management.fail("user-bob=", 500);
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
    let bench = Bench::new().await;
    bench.connected("bob").await;
    let message = json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi"});
    let (answer, log) = logged(bench.ok("alice", message)).await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ours: Vec<&Value> = lines.iter().filter(|line| line["level"] == "INFO").collect();
    assert_eq!(ours.len(), 1, "{log}");
    let line = ours[0];
    assert_eq!((&line["outcome"], &line["span"]["route"]), (&json!("ok"), &json!("send")));
    assert_eq!(
        (&line["span"]["seq"], &line["span"]["tries"], &line["span"]["posted"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(line["span"]["conversation_id"], answer["conversation_id"]);
    assert!(line["duration_ms"].is_number());
}

#[tokio::test]
async fn the_line_counts_the_frames_that_went_out_and_those_that_did_not() {
    let bench = Bench::new().await;
    for connection in ["bob", "bob-gone", "bob-gone-too", "bob-busy", "bob-busy-too", "bob-busy-three"] {
        let mut event = bench.event("connect", "bob");
        event.payload.request_context.connection_id = Some(format!("{connection}="));
        connect::handle(&bench.connect_deps(), event).await.unwrap();
    }
    for gone in ["bob-gone=", "bob-gone-too="] {
        bench.management.gone(gone);
    }
    for busy in ["bob-busy=", "bob-busy-too=", "bob-busy-three="] {
        bench.management.fail(busy, 429);
    }
    let (_, log) = logged(bench.ok("alice", message_to_bob("m1"))).await;
    let line: Value = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["level"] == "INFO")
        .unwrap();
    let span = &line["span"];
    assert_eq!((&span["posted"], &span["gone"], &span["failed"]), (&json!(1), &json!(2), &json!(3)), "{log}");
}

#[tokio::test]
async fn a_failure_names_the_operation_and_the_table() {
    let bench = Bench::new().await;
    bench.recorder.fail_next("Query", Failure::internal());
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
