//! The path to the recipient: the calls between an event and its frame, and their time with latencies as on AWS. The
//! clock is tokio's own, so the bench waits for nothing and all times are exact.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::up_to;
use tokio::time::Instant;

use crate::app::App;
use crate::aws::as_on_aws;
use crate::groups::{group, say};
use crate::{plot, report};

const MESSAGES: usize = 5_000;

/// Makes the elapsed time the number of calls in a row. No timeout is shorter than a few steps.
const STEP: Duration = Duration::from_millis(100);

fn one_step(_: &str, _: &mut fastrand::Rng) -> Duration {
    STEP
}

/// The times from an event to the first frame and to the reply.
struct Times {
    frame: Option<Duration>,
    answer: Duration,
}

async fn times(app: &App, user: &str, frame: Value) -> Times {
    let _ = app.aws.calls();
    let began = Instant::now();
    app.ok(user, frame).await;
    let answer = began.elapsed();
    let posts = app.aws.calls();
    let posts = posts.iter().filter(|call| call.operation == "PostToConnection");
    Times { frame: posts.map(|post| post.ended - began).min(), answer }
}

/// Returns the number of calls in a row up to the post of the recipient's frame, and before the reply.
pub async fn in_a_row() -> String {
    let mut app = App::new(Some(one_step));
    app.online(&["alice", "bob"]).await;
    let mut rows = Vec::new();
    // In other processes: the conversation exists, and these processes remember no connections.
    app.functions
        .restarted()
        .ok("alice", json!({"action": "send", "to": "bob", "client_msg_id": "first", "kind": "text", "body": "hi"}))
        .await;
    for process in ["new process", "warm process"] {
        let next = app.message("bob", "hi");
        rows.push((format!("send, {process}"), times(&app, "alice", next.clone()).await));
        // The reply contains its place.
        let stored = app.ok("alice", next).await;
        let (conversation, seq) = (&stored["conversation_id"], stored["seq"].as_u64().unwrap_or_default());
        rows.push((format!("ack, {process}"), times(&app, "bob", up_to("ack", conversation, seq)).await));
        rows.push((format!("read, {process}"), times(&app, "bob", up_to("read", conversation, seq)).await));
    }
    let next = app.message("carol", "hi");
    rows.push(("send, first message, recipient offline".to_owned(), times(&app, "alice", next).await));
    let next = app.message("carol", "hi");
    rows.push(("send, recipient offline".to_owned(), times(&app, "alice", next).await));
    for (members, name) in [(3, "send, in a group of 3, warm process"), (32, "send, in a group of 32, warm process")] {
        let (app, group) = group(members, 1, Some(one_step)).await;
        app.ok("alice", say(&group, 1)).await;
        rows.push((name.to_owned(), times(&app, "alice", say(&group, 2)).await));
    }
    let mut table =
        String::from("| operation | calls in a row with the frame's post | before the reply |\n|---|---|---|\n");
    for (name, Times { frame, answer }) in rows {
        let calls = |time: Duration| time.as_millis() / STEP.as_millis();
        let frame = frame.map_or_else(|| "none".to_owned(), |frame| calls(frame).to_string());
        let _ = writeln!(table, "| {name} | {frame} | {} |", calls(answer));
    }
    table
}

/// Returns the times from an event to the frames, with latencies as on AWS, and writes a plot.
pub async fn latencies() -> anyhow::Result<String> {
    let mut app = App::new(Some(as_on_aws));
    app.online(&["alice", "bob"]).await;
    let (conversation, _) = app.say("alice", "bob", "hi").await;
    let (mut frames, mut answers, mut ticks) = (Vec::new(), Vec::new(), Vec::new());
    let bar = report::progress(MESSAGES);
    for seq in 2..2 + MESSAGES as u64 {
        bar.inc(1);
        let next = app.message("bob", "hi");
        let sent = times(&app, "alice", next).await;
        frames.extend(sent.frame);
        answers.push(sent.answer);
        ticks.extend(times(&app, "bob", up_to("ack", &conversation, seq)).await.frame);
    }
    bar.finish_and_clear();
    let mut table = format!("| {MESSAGES} messages, in ms | p50 | p95 | p99 |\n|---|---|---|---|\n");
    let mut plotted = Vec::new();
    for (name, mut times) in
        [("send → recipient's frame", frames), ("send → reply", answers), ("ack → sender's tick", ticks)]
    {
        times.sort();
        let at = |percent| report::percentile_ms(&times, percent);
        let _ = writeln!(table, "| {name} | {:.0} | {:.0} | {:.0} |", at(50), at(95), at(99));
        plotted.push((name, (0..100).map(|percent| (at(percent), percent as f64)).collect()));
    }
    plot::lines("latencies", "ms", "% of messages within", &plotted)?;
    Ok(table)
}
