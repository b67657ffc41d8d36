//! The files of `events/`, fed to the handlers one after another: a small story.

use serde_json::{Value, json};

use crate::bench::{Bench, file_event, frame_of, to_event};

/// Runs a file as it is.
async fn run(bench: &Bench, file: &str) -> Value {
    let event = to_event(file_event(file));
    frame_of(&match file {
        "send" => send::handle(&bench.send_deps(), event).await,
        "drain" | "ack" | "ping" => drain::handle(&bench.drain_deps(), event).await,
        "read" => read::handle(&bench.read_deps(), event).await,
        "inbox" | "history" => inbox::handle(&bench.inbox_deps(), event).await,
        _ => connect::handle(&bench.connect_deps(), event).await,
    })
}

#[tokio::test]
async fn the_events_tell_one_story() {
    let bench = Bench::new().await;
    let connected = connect::handle(&bench.connect_deps(), to_event(file_event("connect"))).await.unwrap();
    assert_eq!(connected.status_code, 200);

    let sent = run(&bench, "send").await;
    assert_eq!((&sent["type"], &sent["action"], &sent["result"]["seq"]), (&json!("reply"), &json!("send"), &json!(1)));
    let conversation = &sent["result"]["conversation_id"];
    assert_eq!(run(&bench, "ping").await["result"]["pending"], true);
    let drained = run(&bench, "drain").await;
    assert_eq!(drained["result"]["messages"][0]["conversation_id"], *conversation);
    assert_eq!(run(&bench, "ack").await["result"], json!({}));
    assert_eq!(run(&bench, "ping").await["result"]["pending"], false);
    assert_eq!(run(&bench, "read").await["result"], json!({"unread": 0}));
    let history = run(&bench, "history").await;
    assert_eq!(history["result"]["messages"][0]["message_id"], sent["result"]["message_id"]);
    assert_eq!(run(&bench, "inbox").await["result"]["conversations"][0]["conversation_id"], *conversation);
    assert_eq!(run(&bench, "default").await["type"], "error");

    let left = connect::handle(&bench.connect_deps(), to_event(file_event("disconnect"))).await.unwrap();
    assert_eq!(left.status_code, 200);
    assert!(bench.database.scan("ConnectionsTable").is_empty());
}
