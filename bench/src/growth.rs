//! Each operation's cost against everything that grows.

use std::fmt::Write as _;

use serde_json::{Value, json};
use testkit::cloud::Request;

use crate::app::{App, Cost, up_to};

/// What it costs as things grow. Flat, or the line under the table says what it grows with.
pub async fn table() -> String {
    let mut table =
        String::from("| what grows | operation | read units | write units | calls |\n|---|---|---|---|---|\n");
    for (what, operation, cost) in
        [by_conversations().await, by_history().await, by_devices().await, by_size().await].concat()
    {
        let (reads, writes) = (cost.units.reads(), cost.units.writes());
        writeln!(table, "| {what} | {operation} | {reads} | {writes} | {} |", cost.calls).ok();
    }
    table
}

type Rows = Vec<(String, &'static str, Cost)>;

async fn by_conversations() -> Rows {
    let mut rows = Rows::new();
    for conversations in [10, 1_000, 100_000] {
        let what = format!("{conversations} conversations of the user");
        let mut app = with_conversations(conversations).await;
        app.online(&["bob"]).await;
        rows.push((
            what.clone(),
            "inbox page of 10",
            app.cost([("bob", json!({"action": "inbox", "limit": 10}))]).await,
        ));
        rows.push((what.clone(), "ping", app.cost([("bob", json!({"action": "ping"}))]).await));
        let next = app.message("bob", "hi");
        rows.push((what, "send", app.cost([("peer-1", next)]).await));
    }
    rows
}

async fn by_history() -> Rows {
    let mut rows = Rows::new();
    for length in [10, 1_000, 10_000] {
        let what = format!("{length} messages in the conversation");
        let mut app = App::new(None);
        app.online(&["alice", "bob"]).await;
        let (mut conversation, mut seq) = (Value::Null, 0);
        for _ in 0..length {
            (conversation, seq) = app.say("alice", "bob", "hi").await;
        }
        let page = json!({"action": "history", "conversation_id": conversation, "limit": 10});
        rows.push((what.clone(), "history page of 10", app.cost([("bob", page)]).await));
        rows.push((what.clone(), "ack", app.cost([("bob", up_to("ack", &conversation, seq))]).await));
        let half = up_to("read", &conversation, seq / 2);
        rows.push((what.clone(), "read of the older half, at once", app.cost([("bob", half)]).await));
        rows.push((what.clone(), "read of the rest", app.cost([("bob", up_to("read", &conversation, seq))]).await));
        let next = app.message("bob", "hi");
        rows.push((what, "send", app.cost([("alice", next)]).await));
    }
    rows
}

async fn by_devices() -> Rows {
    let mut rows = Rows::new();
    for devices in [0, 1, 5, 20] {
        let mut app = App::new(None);
        app.online(&["alice"]).await;
        drop(app.say("alice", "bob", "hi").await);
        for device in 0..devices {
            app.device("bob", device).await;
        }
        let next = app.message("bob", "hi");
        rows.push((format!("{devices} devices of the recipient"), "send", app.cost([("alice", next)]).await));
    }
    rows
}

async fn by_size() -> Rows {
    let mut rows = Rows::new();
    for (bytes, what) in [
        (10, "body of 10 bytes"),
        (1_000, "body of 1,000 bytes"),
        (4_000, "body of 4,000 bytes"),
        (16_000, "body of 16,000 bytes"),
    ] {
        let mut app = App::new(None);
        app.online(&["alice", "bob"]).await;
        drop(app.say("alice", "bob", "hi").await);
        let next = app.message("bob", &"x".repeat(bytes));
        rows.push((what.to_owned(), "send", app.cost([("alice", next)]).await));
    }
    rows
}

/// An app whose user `bob` has that many conversations, of one message each.
pub async fn with_conversations(count: usize) -> App {
    let mut app = App::new(None);
    drop(app.say("peer-0", "bob", "a message of some forty characters, say").await);
    let table = app.aws.with_cloud(|cloud| cloud.table_name("InboxTable").to_owned());
    let rows = app.aws.with_cloud(|cloud| cloud.scan(&table));
    let row = rows.iter().find(|row| row["user_id"]["S"] == "bob").expect("bob has a row").clone();
    // Its copies, differing in what must differ: sending each would take minutes.
    for number in 1..count {
        let mut item = row.clone();
        item["conversation_id"]["S"] = json!(format!("dm_copy{number:025}"));
        item["peer_id"]["S"] = json!(format!("copy-{number}"));
        let active_at = 1_700_000_000_000_u64 + number as u64;
        item["active_at"]["N"] = json!(active_at.to_string());
        for pending in ["pending_from", "pending_since"] {
            item.as_object_mut().expect("a row").remove(pending);
        }
        let put = Request::Store { operation: "PutItem".to_owned(), body: json!({"TableName": table, "Item": item}) };
        let (status, body) = app.aws.with_cloud(|cloud| cloud.perform(&put));
        assert_eq!(status, 200, "{body}");
    }
    app
}
