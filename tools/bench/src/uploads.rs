//! Times of a file from the sender's disk to its message, and from the message to the recipient's disk, through the
//! local server.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pigeonhole_client::{Attachment, Client, Event, Events, Message, Target};
use testkit::TestServer;
use wire::{FileName, MimeType, UserId};

use crate::{load, report};

const MIB: usize = 1024 * 1024;
/// Sizes in MiB, and the number of runs. The last file is uploaded in parts.
const FILES: [(usize, usize); 3] = [(1, 20), (10, 20), (100, 5)];
const TEXTS: usize = 20;

pub async fn table() -> anyhow::Result<String> {
    let server = TestServer::with(|options| {
        let lifted = [("MediaMaxMiB", "100"), ("UploadRate", "off")];
        options.parameters.extend(lifted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    })
    .await;
    let folder = std::env::temp_dir().join(format!("pigeonhole-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = measure(&server, &folder).await;
    std::fs::remove_dir_all(&folder)?;
    measured
}

async fn measure(server: &TestServer, folder: &Path) -> anyhow::Result<String> {
    let bob = UserId::parse("bob")?;
    let (writing, mut own) = load::connect(server, "alice").await;
    let (reading, mut events) = load::connect(server, "bob").await;
    let draining = tokio::spawn(async move { while own.next().await.is_some() {} });
    let mut table = String::from(
        "| what | sent, p50, ms | longest | MiB/s | fetched, p50, ms | longest | MiB/s |\n|---|---|---|---|---|---|---|\n",
    );
    let bar = report::progress(TEXTS + FILES.iter().map(|(_, times)| times).sum::<usize>());
    let mut times = Vec::new();
    for _ in 0..=TEXTS {
        let began = Instant::now();
        writing.send_to(bob.clone(), "a message of some forty characters, say").await?.stored().await?;
        times.push(began.elapsed());
        next(&mut events).await?;
        bar.inc(1);
    }
    // The first message starts processes.
    times.remove(0);
    times.sort_unstable();
    let _ = writeln!(table, "| a text | {}| | | |", column(&times, None));
    for (mib, count) in FILES {
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(once(mib * MIB, folder, &writing, &reading, &mut events).await?);
            bar.inc(1);
        }
        let [sent, fetched] = report::sorted(times.into_iter());
        let _ = writeln!(table, "| {mib} MiB | {}| {}|", column(&sent, Some(mib)), column(&fetched, Some(mib)));
    }
    bar.finish_and_clear();
    draining.abort();
    Ok(table)
}

fn column(sorted: &[Duration], mib: Option<usize>) -> String {
    let at = |percent| report::percentile_ms(sorted, percent);
    let rate = mib.map(|mib| format!("{:.0} ", mib as f64 * 1_000.0 / at(50))).unwrap_or_default();
    format!("{:.1} | {:.1} | {rate}", at(50), at(100))
}

/// Returns the time until the message is stored, and until the recipient has the file.
async fn once(
    bytes: usize,
    folder: &Path,
    writing: &Client,
    reading: &Client,
    events: &mut Events,
) -> anyhow::Result<[Duration; 2]> {
    let (from, to) = (folder.join("sent"), folder.join("fetched"));
    // Different bytes each time, so that no upload finds them stored.
    let content: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(bytes).collect();
    std::fs::write(&from, &content)?;
    let file = Attachment::file(&from, MimeType::parse("application/zip")?, FileName::parse("all.zip")?);
    let began = Instant::now();
    writing.send_media(Target::User(UserId::parse("bob")?), file).await?.stored().await?;
    let sent = began.elapsed();
    let message = next(events).await?;
    let began = Instant::now();
    reading.download(&message, &to).await?;
    let fetched = began.elapsed();
    anyhow::ensure!(std::fs::read(&to)? == content, "what was fetched is something else");
    std::fs::remove_file(&to)?;
    Ok([sent, fetched])
}

async fn next(events: &mut Events) -> anyhow::Result<Message> {
    loop {
        if let Event::Message { message, .. } = events.next().await.context("the client has ended")? {
            return Ok(message);
        }
    }
}
