//! Messages from a team's own servers: their cost, and their rate through the queue on this machine. Delays of chats
//! during a campaign, by the number of concurrent batches.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use local::Queue;
use serde_json::{Value, json};
use testkit::TestServer;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep_until, timeout};

use crate::app::{App, Cost};
use crate::attack::THREADS;
use crate::attack::pairs::{self, Noticed, Span};
use crate::money::Bill;
use crate::{money, report};

/// Concurrent batches, as in `BackendConcurrency`.
const AT_ONCE: [u32; 4] = [2, 5, BY_DEFAULT, 50];
const BY_DEFAULT: u32 = 10;
/// The largest batch of SQS and Lambda.
const BATCH: usize = 10;
/// The messages in the queue for one measurement, and their recipients.
const MESSAGES: usize = 2_000;
const USERS: usize = 200;
const PATIENCE: Duration = Duration::from_mins(2);
/// The times before, during and after the campaign, for the pairs.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(2);
/// More than the machine delivers in that time.
const CAMPAIGN: usize = 40_000;

pub(crate) fn message(to: &str, id: usize) -> Value {
    let body = "a message of some forty characters, say";
    json!({"to": to, "from": "@orders", "client_msg_id": format!("m{id}"), "kind": "text", "body": body})
}

/// Returns the costs of a million messages, single or in full batches, to users with an earlier message.
pub async fn costs() -> String {
    let mut table = String::from(
        "| a million messages | SQS | Lambda | logs | reads | writes | frames | all |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (name, messages, is_online) in [
        ("in tens, online", BATCH, true),
        ("in tens, offline", BATCH, false),
        ("single, online", 1, true),
        ("single, offline", 1, false),
    ] {
        let cost = taken(messages, is_online).await;
        let (sqs, bill) = money::of_services(&cost, messages);
        let Bill { gateway, lambda, logs, reads, writes } = bill;
        let all = sqs + bill.total();
        let _ = writeln!(
            table,
            "| {name} | ${sqs:.2} | ${lambda:.2} | ${logs:.2} | ${reads:.2} | ${writes:.2} | ${gateway:.2} | **${all:.2}** |"
        );
    }
    table
}

/// Returns the cost of a batch with a different user for each message.
async fn taken(messages: usize, is_online: bool) -> Cost {
    let app = App::new(None);
    let users: Vec<String> = (0..messages).map(|number| format!("u{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    if is_online {
        app.online(&users).await;
    }
    let batch = |id| users.iter().map(|user| (*user, message(user, id))).collect::<Vec<_>>();
    let _ = app.ingest(&batch(1)).await;
    app.ingest(&batch(2)).await
}

/// Starts a local server with this number of concurrent batches.
async fn server(at_once: u32) -> TestServer {
    TestServer::with(|options| {
        options.parameters.insert("BackendConcurrency".to_owned(), at_once.to_string());
    })
    .await
}

pub(crate) fn queue(server: &TestServer) -> &Queue {
    server.local().queue("BackendQueue").expect("the template has it")
}

/// Pauses the queue, and puts messages for this number of users into it.
async fn fill(server: &TestServer, ids: Range<usize>, users: usize) {
    queue(server).pause(true);
    publish(server, ids.map(|id| message(&format!("u{}", id % users), id)).collect()).await;
}

/// Puts messages into the queue.
pub(crate) async fn publish(server: &TestServer, messages: Vec<Value>) {
    let local = format!("{}/local", server.local().http_url());
    let local: Value = server.http.get(local).send().await.expect("it answers").json().await.expect("in JSON");
    for batch in messages.chunks(BATCH) {
        let entries = batch.iter().map(|message| {
            let id = &message["client_msg_id"];
            json!({
                "Id": id, "MessageGroupId": message["to"], "MessageDeduplicationId": id, "MessageBody": message.to_string(),
            })
        });
        let request = json!({"QueueUrl": local["queue_url"], "Entries": entries.collect::<Vec<_>>()});
        let url = format!("{}/sqs/", server.local().http_url());
        let post = server.http.post(url).header("x-amz-target", "AmazonSQS.SendMessageBatch").json(&request);
        post.send().await.expect("it answers").error_for_status().expect("all of them are taken");
    }
}

/// Waits until the queue is delivered, and returns the time.
async fn emptied(server: &TestServer) -> Duration {
    let began = Instant::now();
    queue(server).pause(false);
    timeout(PATIENCE, queue(server).settled()).await.expect("all of it is delivered");
    began.elapsed()
}

/// Returns the messages per second out of the queue, to offline users.
pub async fn rates() -> String {
    let mut table = String::from("| concurrent batches | users | messages/s |\n|---|---|---|\n");
    let bar = report::progress(AT_ONCE.len() + 1);
    let rows = AT_ONCE.into_iter().map(|at_once| (at_once, USERS));
    for (at_once, users) in rows.chain([(BY_DEFAULT, 1)]) {
        bar.inc(1);
        let server = server(at_once).await;
        // Processes start, and connect.
        fill(&server, 0..USERS, users).await;
        emptied(&server).await;
        fill(&server, USERS..USERS + MESSAGES, users).await;
        let rate = MESSAGES as f64 / emptied(&server).await.as_secs_f64();
        let _ = writeln!(table, "| {at_once} | {users} | {rate:.0} |");
    }
    bar.finish_and_clear();
    table
}

/// Returns the delays of pairs during a campaign, and of control pairs on another server.
pub fn beside() -> anyhow::Result<String> {
    let mut table = String::from(
        "| concurrent batches | campaign, messages/s | p50, ms | p99 | control p50 | control p99 | refused | lost | closed | not opened |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let bar = report::progress(AT_ONCE.len() + 1);
    for at_once in [None].into_iter().chain(AT_ONCE.map(Some)) {
        bar.inc(1);
        // A server ends with its runtime, and so do all of its tasks.
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let (noticed, noticed_beside, rate) = runtime.block_on(round(at_once));
        runtime.shutdown_timeout(GRACE);
        let at = |noticed: &Noticed, percent| report::percentile_ms(&noticed.latencies, percent);
        let name = at_once.map_or_else(|| "no campaign".to_owned(), |at_once| at_once.to_string());
        let Noticed { refused, lost, closed, turned_away, .. } = noticed;
        let _ = writeln!(
            table,
            "| {name} | {rate:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {refused} | {lost} | {closed} | {turned_away} |",
            at(&noticed, 50),
            at(&noticed, 99),
            at(&noticed_beside, 50),
            at(&noticed_beside, 99),
        );
    }
    bar.finish_and_clear();
    Ok(table)
}

/// Returns the delays of the pairs, of the control pairs, and the messages per second of the campaign.
async fn round(at_once: Option<u32>) -> (Noticed, Noticed, f64) {
    let at_most = at_once.unwrap_or(BY_DEFAULT);
    let (here, beside) = tokio::join!(server(at_most), server(at_most));
    let (here, beside) = (Arc::new(here), Arc::new(beside));
    let (pairs, pairs_beside) = (pairs::connect(&here).await, pairs::connect(&beside).await);
    fill(&here, 0..if at_once.is_some() { CAMPAIGN } else { 0 }, USERS).await;
    let start = Instant::now();
    let (from, until) = (start + WARM_UP, start + WARM_UP + MEASURED);
    let span = Span { pause: pairs::PAUSE, start, from, until, end: until + GRACE };
    let campaign = async {
        sleep_until(from).await;
        let waiting = queue(&here).len();
        queue(&here).pause(false);
        sleep_until(until).await;
        queue(&here).pause(true);
        let left = queue(&here).len();
        assert_eq!(left == 0, waiting == 0, "a campaign is longer than what is measured");
        (waiting - left) as f64 / MEASURED.as_secs_f64()
    };
    tokio::join!(pairs::chat(&here, pairs, span), pairs::chat(&beside, pairs_beside, span), campaign)
}
