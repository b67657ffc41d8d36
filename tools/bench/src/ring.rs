//! The time from a stored message to the push on its recipient's phone. The event source mapping of the local server
//! reads and waits like Lambda's, by the template.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use local::StreamLimits;
use serde_json::json;
use testkit::TestServer;
use tokio::time::sleep;

use crate::report;

const RINGS: usize = 20;
/// More than the batching window, so that a message comes at any time of a window.
const PAUSE_MAX: Duration = Duration::from_secs(7);
/// The template's.
const GRACE_S: u32 = 5;

pub async fn table() -> anyhow::Result<String> {
    let mut table = String::from("| recipient | p50 from reply to push, s | longest | pushes |\n|---|---|---|---|\n");
    let bar = report::progress(2 * RINGS);
    for (who, is_connected) in [("not connected", false), ("connected, acknowledges nothing", true)] {
        let mut times = Vec::new();
        let server = TestServer::with(|options| {
            TestServer::ringing(options, GRACE_S);
            options.streams = StreamLimits::default();
        })
        .await;
        let mut phone = server.device("bob", "pixel").await;
        phone.ok(json!({"action": "device", "platform": "fcm", "token": "bobs-pixel"})).await;
        // A socket that the bench does not read.
        let phone = if is_connected {
            Some(phone)
        } else {
            phone.leave().await;
            None
        };
        server.until_connections("bob", usize::from(is_connected)).await;
        let mut alice = server.phone("alice").await;
        for seq in 1..=RINGS {
            bar.inc(1);
            sleep(PAUSE_MAX.mul_f64(fastrand::f64())).await;
            alice.send("bob", &seq.to_string(), "hi").await;
            let stored = Instant::now();
            server.until_phone_shows("bobs-pixel", |shown| shown.iter().any(|one| one["seq"] == seq)).await;
            times.push(stored.elapsed());
        }
        drop(phone);
        times.sort();
        let seconds = |percent| report::percentile_ms(&times, percent) / 1_000.0;
        let _ = writeln!(table, "| {who} | {:.1} | {:.1} | {RINGS} |", seconds(50), seconds(100));
    }
    bar.finish_and_clear();
    Ok(table)
}
