//! Cost of a message in a group by its number of members. Times of its first and last frame, with latencies as on AWS,
//! and concurrent writers.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::cloud::Cloud;
use testkit::{frame_of, message, up_to};
use tokio::time::{Instant, sleep};

use crate::app::{App, Cost};
use crate::aws::{Pace, as_on_aws, normal};
use crate::{money, report};

/// Members, and how many of the others are connected: three of ten, with a device each.
const SIZES: [(usize, usize); 6] = [(3, 1), (10, 3), (32, 9), (100, 30), (256, 76), (500, 150)];
/// The prediction for these sizes: write units, read units, calls, and dollars for a million messages.
const RECKONED: [(u32, u32, u32, u32); 6] = [
    (10, 8, 10, 13),
    (19, 19, 26, 22),
    (47, 52, 76, 50),
    (136, 156, 233, 141),
    (338, 394, 593, 345),
    (656, 766, 1_157, 669),
];
/// The largest group to whose members `send` posts.
const INLINE_MAX: usize = 32;
/// From a write to the function on its stream: p50 213 ms, p99 552 ms, measured in eu-west-1 in 2022
/// (bitesizedserverless.com/bite/serverless-messaging-latency-compared).
const STREAM_MEDIAN_MS: f64 = 213.0;
const STREAM_SIGMA: f64 = 0.41;
/// Concurrent writers: entries per second, and the duration.
const RATES: [u32; 5] = [5, 10, 20, 30, 50];
const WRITING: Duration = Duration::from_secs(30);

/// Creates Alice's group, of which this number of other members is connected and has read everything.
pub(crate) async fn group(members: usize, online: usize, pace: Option<Pace>) -> (App, Value) {
    let app = App::new(pace);
    let others: Vec<String> = (1..members).map(|number| format!("u{number}")).collect();
    app.online(&["alice"]).await;
    let connected: Vec<&str> = others[..online].iter().map(String::as_str).collect();
    app.online(&connected).await;
    let mut chunks = others.chunks(50);
    let create = json!({"action": "create", "client_msg_id": "c", "title": "Trip", "members": chunks.next()});
    let group = app.ok("alice", create).await["conversation_id"].clone();
    let mut last = 1;
    for chunk in chunks {
        last += 1;
        let add =
            json!({"action": "add", "conversation_id": group, "client_msg_id": format!("a{last}"), "members": chunk});
        app.ok("alice", add).await;
    }
    let _ = app.fanout().await;
    for user in &others[..online] {
        app.ok(user, up_to("read", &group, last)).await;
    }
    (app, group)
}

pub(crate) fn say(group: &Value, id: u64) -> Value {
    let body = "a message of some forty characters, say";
    json!({"action": "send", "conversation_id": group, "client_msg_id": format!("m{id}"), "kind": "text", "body": body})
}

/// Returns the costs of `send` and of `fanout` for one message, without the recipients' requests.
async fn message_in(members: usize, online: usize) -> (Cost, Cost) {
    let (app, group) = group(members, online, None).await;
    let sent = app.cost([("alice", say(&group, 1))]).await;
    (sent, app.fanout().await)
}

/// Returns the costs by the number of members, with the prediction.
pub async fn costs() -> String {
    let mut table = String::from(
        "| members | connected | write units: table + index | read units | calls | frames out | $ per million | predicted writes | predicted reads | predicted calls | predicted $ |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for ((members, online), (writes, reads, calls, dollars)) in SIZES.into_iter().zip(RECKONED) {
        let (sent, told) = message_in(members, online).await;
        let units = |of: fn(&Cost) -> f64| of(&sent) + of(&told);
        let table_writes = units(|cost| cost.units.table_writes);
        let index_writes = units(|cost| cost.units.index_writes);
        let bill = money::in_a_group(&sent, &told);
        let _ = writeln!(
            table,
            "| {members} | {online} | {table_writes} + {index_writes} | {} | {} | {} | ${bill:.0} | {writes} | {reads} | {calls} | ${dollars} |",
            units(|cost| cost.units.reads()),
            sent.calls + told.calls,
            sent.frames_out + told.frames_out,
        );
    }
    table
}

/// The times from `send` to the first and to the last frame.
pub(crate) struct Frames {
    pub first: Duration,
    pub last: Duration,
}

pub(crate) async fn told(app: &App, frame: Value, rng: &mut fastrand::Rng, by_stream: bool) -> Frames {
    let _ = app.aws.calls();
    let began = Instant::now();
    app.ok("alice", frame).await;
    if by_stream {
        // The record exists from the commit on.
        let calls = app.aws.calls();
        let commit = calls.iter().find(|call| call.operation == "TransactWriteItems").expect("it was stored").ended;
        let comes = commit + Duration::from_secs_f64(STREAM_MEDIAN_MS / 1e3 * (STREAM_SIGMA * normal(rng)).exp());
        sleep(comes.saturating_duration_since(Instant::now())).await;
        let batch = json!({ "Records": app.aws.with_cloud(Cloud::heads) });
        assert_eq!(app.functions.fanout(batch).await, json!([]), "nothing fails here");
    } else {
        let _ = app.aws.with_cloud(Cloud::heads);
    }
    let calls = app.aws.calls();
    let posts = || calls.iter().filter(|call| call.operation == "PostToConnection").map(|call| call.ended - began);
    Frames { first: posts().min().expect("somebody is connected"), last: posts().max().unwrap_or_default() }
}

/// Returns the times of a direct message and of groups.
pub async fn times() -> String {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut table = String::from(
        "| to | posted by | messages | first frame p50, ms | p99 | last frame p50, ms | p99 |\n|---|---|---|---|---|---|---|\n",
    );
    let mut row = |name: &str, by: &str, all: Vec<Frames>| {
        let [first, last] = report::sorted(all.iter().map(|frames| [frames.first, frames.last]));
        let at = |times: &[Duration], percent| report::percentile_ms(times, percent);
        let (first, last) = ([at(&first, 50), at(&first, 99)], [at(&last, 50), at(&last, 99)]);
        let [[f50, f99], [l50, l99]] = [first, last];
        let _ = writeln!(table, "| {name} | {by} | {} | {f50:.0} | {f99:.0} | {l50:.0} | {l99:.0} |", all.len());
    };
    let mut app = App::new(Some(as_on_aws));
    app.online(&["alice", "bob"]).await;
    let _ = app.say("alice", "bob", "hi").await;
    let mut all = vec![];
    for _ in 0..500 {
        let next = app.message("bob", "hi");
        all.push(told(&app, next, &mut rng, false).await);
    }
    row("one user", "`send`", all);
    for (members, online) in SIZES {
        let (app, group) = group(members, online, Some(as_on_aws)).await;
        let by_stream = members > INLINE_MAX;
        let mut all = vec![];
        for id in 0..if by_stream { 3_000 / members as u64 } else { 500 } {
            all.push(told(&app, say(&group, id), &mut rng, by_stream).await);
        }
        row(&format!("a group of {members}"), if by_stream { "`fanout`" } else { "`send`" }, all);
    }
    table
}

/// The outcome of an entry that was written concurrently with others.
struct Written {
    took: Duration,
    is_refused: bool,
}

/// Writes entries at random times, at each rate, into one group in which `fanout` posts.
pub async fn contention() -> String {
    let mut table = String::from(
        "| entries/s | entries | tries per entry | `conflict` replies | reply p50, ms | p99 |\n|---|---|---|---|---|---|\n",
    );
    for rate in RATES {
        let (app, group) = group(40, 0, Some(as_on_aws)).await;
        let _ = app.aws.calls();
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut at, mut starts) = (0.0, vec![]);
        while at < WRITING.as_secs_f64() {
            at += -(1.0 - rng.f64()).ln() / f64::from(rate);
            starts.push(Duration::from_secs_f64(at));
        }
        let writing = starts.into_iter().enumerate().map(async |(id, start)| {
            sleep(start).await;
            let began = Instant::now();
            let user = format!("u{}", 1 + id % 39);
            let answer = app.functions.handle("send", message(&user, &say(&group, id as u64).to_string())).await;
            let answer = frame_of(&answer);
            let is_refused = answer["error"]["code"] == "conflict";
            assert!(is_refused || answer["type"] == "reply", "{answer}");
            Written { took: began.elapsed(), is_refused }
        });
        let written = join_all(writing).await;
        let tries = app.aws.calls().iter().filter(|call| call.operation == "TransactWriteItems").count();
        let refused = written.iter().filter(|one| one.is_refused).count();
        let mut took: Vec<_> = written.iter().filter(|one| !one.is_refused).map(|one| one.took).collect();
        took.sort();
        let (entries, all) = (written.len(), written.len() as f64);
        let _ = writeln!(
            table,
            "| {rate} | {entries} | {:.2} | {:.1} % | {:.0} | {:.0} |",
            tries as f64 / all,
            100.0 * refused as f64 / all,
            report::percentile_ms(&took, 50),
            report::percentile_ms(&took, 99),
        );
    }
    table
}
