//! Each operation's cost against everything that grows.

use std::fmt::Write as _;

use serde_json::{Value, json};
use testkit::up_to;

use crate::app::{App, Cost, with_conversations};
use crate::{ingest, plot, report};

/// Returns the costs by everything that grows, and writes a plot. The page explains each cost that is not flat.
pub async fn table() -> anyhow::Result<String> {
    let mut table =
        String::from("| what grows | operation | read units | write units | calls |\n|---|---|---|---|---|\n");
    let (bar, mut all) = (report::progress(5), Vec::new());
    by_devices(&mut all).await;
    bar.inc(1);
    by_size(&mut all).await;
    bar.inc(1);
    by_messages(&mut all).await;
    bar.inc(1);
    by_conversations(&mut all).await;
    bar.inc(1);
    by_waiting(&mut all).await;
    bar.finish_and_clear();
    for Row { count, what, operation, cost } in &all {
        let (reads, writes) = (cost.units.reads(), cost.units.writes());
        let _ = writeln!(table, "| {count} {what} | {operation} | {reads} | {writes} | {} |", cost.calls);
    }
    let line = |name, operation: &str, what: &str| {
        let rows = all.iter().filter(|row| row.operation == operation && row.what == what);
        (name, rows.map(|row| (row.count as f64, row.cost.units.reads() + row.cost.units.writes())).collect())
    };
    let lines = [
        line("send, by messages in the conversation", "send", MESSAGES),
        line("send, by conversations of the user", "send", CONVERSATIONS),
        line("inbox page, by conversations", "inbox page of 10", CONVERSATIONS),
        line("read of half, by messages", READ_OF_HALF, MESSAGES),
    ];
    plot::lines_by_powers("growth", "conversations or messages there are", "read and write units", &lines)?;
    Ok(table)
}

const CONVERSATIONS: &str = "conversations of the user";
const MESSAGES: &str = "messages in the conversation";
const WAITING: &str = "pending messages of a service";
const DEVICES: &str = "devices of the recipient";
const BYTES: &str = "bytes of body";
const READ_OF_HALF: &str = "read of the older half";

struct Row {
    count: usize,
    what: &'static str,
    operation: &'static str,
    cost: Cost,
}

async fn by_conversations(rows: &mut Vec<Row>) {
    for count in [10, 1_000, 100_000] {
        let mut app = with_conversations(count).await;
        app.online(&["bob"]).await;
        let mut row = |operation, cost| rows.push(Row { count, what: CONVERSATIONS, operation, cost });
        row("inbox page of 10", app.cost([("bob", json!({"action": "inbox", "limit": 10}))]).await);
        row("ping", app.cost([("bob", json!({"action": "ping"}))]).await);
        let next = app.message("bob", "hi");
        row("send", app.cost([("peer-0", next)]).await);
    }
}

async fn by_messages(rows: &mut Vec<Row>) {
    for count in [10, 1_000, 10_000] {
        let mut app = App::new(None);
        app.online(&["alice", "bob"]).await;
        let (mut conversation, mut seq) = (Value::Null, 0);
        for _ in 0..count {
            (conversation, seq) = app.say("alice", "bob", "hi").await;
        }
        let mut row = |operation, cost| rows.push(Row { count, what: MESSAGES, operation, cost });
        let page = json!({"action": "history", "conversation_id": conversation, "limit": 10});
        row("history page of 10", app.cost([("bob", page)]).await);
        row("ack", app.cost([("bob", up_to("ack", &conversation, seq))]).await);
        row(READ_OF_HALF, app.cost([("bob", up_to("read", &conversation, seq / 2))]).await);
        row("read of the rest", app.cost([("bob", up_to("read", &conversation, seq))]).await);
        let next = app.message("bob", "hi");
        row("send", app.cost([("alice", next)]).await);
    }
}

async fn by_waiting(rows: &mut Vec<Row>) {
    for count in [10, 1_000, 10_000] {
        let app = App::new(None);
        let told = |id| [("bob", ingest::message("bob", id))];
        for id in 0..count {
            let _ = app.ingest(&told(id)).await;
        }
        let mut row = |operation, cost| rows.push(Row { count, what: WAITING, operation, cost });
        row("ingest: next message", app.ingest(&told(count)).await);
        app.online(&["bob"]).await;
        let inbox = json!({"action": "inbox", "limit": 10});
        let conversation = app.ok("bob", inbox.clone()).await["conversations"][0]["conversation_id"].clone();
        row("inbox page of 10", app.cost([("bob", inbox)]).await);
        row("drain page", app.cost([("bob", json!({"action": "drain"}))]).await);
        row("ack of the first", app.cost([("bob", up_to("ack", &conversation, 1))]).await);
        row("ack of all", app.cost([("bob", up_to("ack", &conversation, count as u64 + 1))]).await);
    }
}

async fn by_devices(rows: &mut Vec<Row>) {
    for count in [0, 1, 5, 20] {
        let mut app = App::new(None);
        app.online(&["alice"]).await;
        let _ = app.say("alice", "bob", "hi").await;
        for device in 0..count {
            app.device("bob", device).await;
        }
        let next = app.message("bob", "hi");
        rows.push(Row { count, what: DEVICES, operation: "send", cost: app.cost([("alice", next)]).await });
    }
}

async fn by_size(rows: &mut Vec<Row>) {
    for count in [10, 1_000, 4_000, 16_000] {
        let mut app = App::new(None);
        app.online(&["alice", "bob"]).await;
        let _ = app.say("alice", "bob", "hi").await;
        let next = app.message("bob", &"x".repeat(count));
        rows.push(Row { count, what: BYTES, operation: "send", cost: app.cost([("alice", next)]).await });
    }
}
