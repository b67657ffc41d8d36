//! What a team's own servers write: what a million messages cost, how many a second come through the queue on this machine, and what
//! people who chat notice of a campaign, by how many batches are delivered at once.

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

/// Batches at once, as `BackendConcurrency` says.
const AT_ONCE: [u32; 4] = [2, 5, BY_DEFAULT, 50];
const BY_DEFAULT: u32 = 10;
/// What SQS and Lambda put into a batch.
const BATCH: usize = 10;
/// How many are put into the queue for one measurement, and to how many users.
const MESSAGES: usize = 2_000;
const USERS: usize = 200;
const PATIENCE: Duration = Duration::from_mins(2);
/// For people who chat: before the campaign, beside it, and for what is still under way.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(2);
/// More than the machine delivers in that time.
const CAMPAIGN: usize = 40_000;

pub(crate) fn message(to: &str, id: usize) -> Value {
    let body = "a message of some forty characters, say";
    json!({"to": to, "from": "@orders", "client_msg_id": format!("m{id}"), "kind": "text", "body": body})
}

/// Of a million messages, as they come out of the queue one by one or in full batches, to users of whom each has had one before.
pub async fn costs() -> String {
    let mut table = String::from(
        "| a million messages | SQS | Lambda | logs | reads | writes | frames | all |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (name, messages, is_online) in [
        ("in tens, online", BATCH, true),
        ("in tens, offline", BATCH, false),
        ("one by one, online", 1, true),
        ("one by one, offline", 1, false),
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

/// What a batch costs, of which each message is to another user.
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

/// The local server, which delivers so many batches at once.
async fn server(at_once: u32) -> TestServer {
    TestServer::with(|options| {
        options.parameters.insert("BackendConcurrency".to_owned(), at_once.to_string());
    })
    .await
}

fn queue(server: &TestServer) -> &Queue {
    server.local().queue("BackendQueue").expect("the template has it")
}

/// Puts messages into the queue, to so many users in turn, and has nothing taken out of it from here on.
async fn fill(server: &TestServer, ids: Range<usize>, users: usize) {
    queue(server).pause(true);
    let local = format!("{}/local", server.local().http_url());
    let local: Value = server.http.get(local).send().await.expect("it answers").json().await.expect("in JSON");
    for batch in ids.collect::<Vec<_>>().chunks(BATCH) {
        let entries = batch.iter().map(|id| {
            let user = format!("u{}", id % users);
            json!({
                "Id": id.to_string(), "MessageGroupId": user, "MessageDeduplicationId": id.to_string(),
                "MessageBody": message(&user, *id).to_string(),
            })
        });
        let request = json!({"QueueUrl": local["queue_url"], "Entries": entries.collect::<Vec<_>>()});
        let url = format!("{}/sqs/", server.local().http_url());
        let post = server.http.post(url).header("x-amz-target", "AmazonSQS.SendMessageBatch").json(&request);
        post.send().await.expect("it answers").error_for_status().expect("all of them are taken");
    }
}

/// Until all that is in the queue is delivered.
async fn emptied(server: &TestServer) -> Duration {
    let began = Instant::now();
    queue(server).pause(false);
    timeout(PATIENCE, queue(server).settled()).await.expect("all of it is delivered");
    began.elapsed()
}

/// Messages a second out of the queue, to people who are not there.
pub async fn rates() -> String {
    let mut table = String::from("| batches at once | to users | messages/s |\n|---|---|---|\n");
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

/// What pairs notice of a campaign, beside others on a server that has none.
pub fn beside() -> anyhow::Result<String> {
    let mut table = String::from(
        "| batches at once | campaign, messages/s | p50, ms | p99 | beside: p50 | p99 | refused | lost | closed | turned away |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let bar = report::progress(AT_ONCE.len() + 1);
    for at_once in [None].into_iter().chain(AT_ONCE.map(Some)) {
        bar.inc(1);
        // A server ends with its runtime, and so does whatever was left over.
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

/// What those notice on whose server the campaign is, and those beside; and its messages a second.
async fn round(at_once: Option<u32>) -> (Noticed, Noticed, f64) {
    let at_most = at_once.unwrap_or(BY_DEFAULT);
    let (here, beside) = tokio::join!(server(at_most), server(at_most));
    let (here, beside) = (Arc::new(here), Arc::new(beside));
    let (pairs, pairs_beside) = (pairs::connect(&here).await, pairs::connect(&beside).await);
    fill(&here, 0..if at_once.is_some() { CAMPAIGN } else { 0 }, USERS).await;
    let start = Instant::now();
    let (from, until) = (start + WARM_UP, start + WARM_UP + MEASURED);
    let span = Span { start, from, until, end: until + GRACE };
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
