//! Messages per second through the local server: real sockets, real function processes, the embedded database, one machine.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pigeonhole_client::{Client, Config, Event};
use testkit::TestServer;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{plot, report};

/// How long each row is measured, after it has run for a while.
const MEASURED: Duration = Duration::from_secs(8);
const WARM_UP: Duration = Duration::from_secs(2);

const PAIRS: [usize; 6] = [1, 2, 4, 8, 16, 64];

/// Pairs of clients chat as fast as the replies come, then at half of the best rate.
pub async fn table() -> anyhow::Result<String> {
    let mut table = String::from(
        "| pairs of clients | requested rate | messages/s | p50 send → recipient, ms | p95 | p99 |\n|---|---|---|---|---|---|\n",
    );
    let (mut best, mut plotted) = (0.0, Vec::new());
    let bar = report::progress(PAIRS.len() + 1);
    for pairs in PAIRS {
        bar.inc(1);
        let row = measure(pairs, None).await?;
        best = f64::max(best, row.rate);
        plotted.push((pairs as f64, row.rate));
        row.write(&mut table, pairs, "maximum");
    }
    plot::lines("load", "pairs of clients", "messages/s", &[("sent, delivered and acknowledged", plotted)])?;
    let half = measure(16, Some(best / 2.0)).await?;
    bar.finish_and_clear();
    half.write(&mut table, 16, &format!("{:.0}/s", best / 2.0));
    Ok(table)
}

struct Row {
    rate: f64,
    /// Sorted.
    latencies: Vec<Duration>,
}

impl Row {
    fn write(&self, table: &mut String, pairs: usize, asked: &str) {
        let at = |percent| report::percentile_ms(&self.latencies, percent);
        let _ =
            writeln!(table, "| {pairs} | {asked} | {:.0} | {:.1} | {:.1} | {:.1} |", self.rate, at(50), at(95), at(99));
    }
}

async fn measure(pairs: usize, rate: Option<f64>) -> anyhow::Result<Row> {
    let server = Arc::new(TestServer::with(|_| {}).await);
    let start = Instant::now() + WARM_UP;
    let mut talking = JoinSet::new();
    for pair in 0..pairs {
        let every = rate.map(|rate| Duration::from_secs_f64(pairs as f64 / rate));
        // Not all at the same moment.
        let first = every.unwrap_or_default().mul_f64(pair as f64 / pairs as f64);
        talking.spawn(talk(Arc::clone(&server), pair, first, every, start));
    }
    let mut latencies: Vec<_> = talking.join_all().await.into_iter().flatten().collect();
    latencies.sort();
    Ok(Row { rate: latencies.len() as f64 / MEASURED.as_secs_f64(), latencies })
}

/// Writes with one client and reads with the other. Returns the time from each measured send to its arrival.
async fn talk(
    server: Arc<TestServer>,
    pair: usize,
    first: Duration,
    every: Option<Duration>,
    start: Instant,
) -> Vec<Duration> {
    let (writer, reader) = (format!("writer-{pair}"), format!("reader-{pair}"));
    let (writing, mut own) = connect(&server, &writer).await;
    let (_reading, mut events) = connect(&server, &reader).await;
    // The writer's own events must not pile up.
    let draining = tokio::spawn(async move { while own.next().await.is_some() {} });
    let mut latencies = Vec::new();
    let mut due = Instant::now() + first;
    while start.elapsed() < MEASURED {
        if let Some(every) = every {
            sleep(due.saturating_duration_since(Instant::now())).await;
            due += every;
        }
        let sent = Instant::now();
        let stored = writing
            .send_to(reader.clone(), "a message of some forty characters, say")
            .await
            .expect("it is in the outbox");
        loop {
            if let Some(Event::Message { .. }) = events.next().await {
                break;
            }
        }
        if sent > start {
            latencies.push(sent.elapsed());
        }
        stored.stored().await.expect("it is stored");
    }
    // Messages count after all are acknowledged. The client acknowledges the last one with the app's next request for
    // an event.
    let asking = tokio::spawn(async move { while events.next().await.is_some() {} });
    let acknowledged = async {
        while server.rows("InboxTable", &reader).iter().any(|row| row["pending_from"].is_u64()) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(MEASURED, acknowledged).await.expect("everything is acknowledged");
    draining.abort();
    asking.abort();
    latencies
}

pub(crate) async fn connect(server: &TestServer, user: &str) -> (Client, pigeonhole_client::Events) {
    let token = server.token(user);
    let give = move |_| std::future::ready(Ok(token.clone()));
    Client::connect(Config::new(server.url(), user, give)).await.expect("a client starts")
}
