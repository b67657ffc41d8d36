//! The way to the recipient: what stands between an event and the frame that comes of it, and how long that takes when each
//! call takes as long as AWS's do. The time is tokio's own, so none of it is waited for and all of it is exact.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::up_to;
use tokio::time::Instant;

use crate::app::App;
use crate::{plot, report};

const MESSAGES: usize = 5_000;

/// The median of a call, by operation, with a long tail: p95 is 2.8 times the median, p99 4.3 times.
pub(crate) fn as_on_aws(operation: &str, rng: &mut fastrand::Rng) -> Duration {
    let median_ms = match operation {
        "TransactWriteItems" => 10.0,
        "PostToConnection" => 8.0,
        _ => 4.0,
    };
    // Log-normal: what a sum of many small delays that multiply looks like.
    Duration::from_secs_f64(median_ms / 1_000.0 * (0.63 * normal(rng)).exp())
}

/// Box and Muller's.
pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// So that the time taken is the number of calls that stood in a row.
fn one_second(_: &str, _: &mut fastrand::Rng) -> Duration {
    Duration::from_secs(1)
}

/// When, after an event, the first frame was posted, and the answer was there.
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

/// The number of calls in a row: to the recipient's frame and to the answer.
pub async fn in_a_row() -> String {
    let mut app = App::new(Some(one_second));
    app.online(&["alice", "bob"]).await;
    let mut rows = Vec::new();
    // By processes of their own: the conversation exists, and nobody is remembered.
    app.functions
        .restarted()
        .ok("alice", json!({"action": "send", "to": "bob", "client_msg_id": "first", "kind": "text", "body": "hi"}))
        .await;
    for send in ["send, from a process that has just started", "send, from one that has posted to them before"] {
        let next = app.message("bob", "hi");
        rows.push((send, times(&app, "alice", next.clone()).await));
        // Its answer says where it is.
        let stored = app.ok("alice", next).await;
        let (conversation, seq) = (&stored["conversation_id"], stored["seq"].as_u64().unwrap_or_default());
        rows.push(("ack, the same", times(&app, "bob", up_to("ack", conversation, seq)).await));
        rows.push(("read, the same", times(&app, "bob", up_to("read", conversation, seq)).await));
    }
    let next = app.message("carol", "hi");
    rows.push(("send, the first to somebody, who is offline", times(&app, "alice", next).await));
    let next = app.message("carol", "hi");
    rows.push(("send, to somebody offline", times(&app, "alice", next).await));
    let mut table = String::from("| operation | calls in a row to the frame | to the answer |\n|---|---|---|\n");
    for (name, Times { frame, answer }) in rows {
        let frame = frame.map_or_else(|| "none".to_owned(), |frame| frame.as_secs().to_string());
        let _ = writeln!(table, "| {name} | {frame} | {} |", answer.as_secs());
    }
    table
}

/// From an event to the frames, with latencies as on AWS: a table, and a plot beside it.
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
        [("send → recipient's frame", frames), ("send → answer", answers), ("ack → sender's tick", ticks)]
    {
        times.sort();
        let at = |percent| report::percentile_ms(&times, percent);
        let _ = writeln!(table, "| {name} | {:.0} | {:.0} | {:.0} |", at(50), at(95), at(99));
        plotted.push((name, (0..100).map(|percent| (at(percent), percent as f64)).collect()));
    }
    plot::lines("latencies", "ms", "% of messages within", &plotted)?;
    Ok(table)
}
