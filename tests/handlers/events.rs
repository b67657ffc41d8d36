//! The files of `events/`, fed to the handlers.

use serde_json::Value;

use crate::bench::{Bench, file_event, to_event};

/// Runs a file as it is.
async fn run(bench: &Bench, file: &str) -> Value {
    let event = to_event(file_event(file));
    let response = match file {
        "send" => send::handle(&bench.send_deps(), event).await,
        "drain" | "ack" | "ping" => drain::handle(&bench.drain_deps(), event).await,
        "read" => read::handle(&bench.read_deps(), event).await,
        "inbox" | "history" => inbox::handle(&bench.inbox_deps(), event).await,
        _ => connect::handle(&bench.connect_deps(), event).await,
    };
    serde_json::to_value(response.unwrap()).unwrap()
}

#[tokio::test]
async fn the_events_tell_one_story() {
    let bench = Bench::new().await;
    tests::events_tell_one_story(async |file| run(&bench, file).await).await;
    assert!(bench.database.scan("ConnectionsTable").is_empty());
}
