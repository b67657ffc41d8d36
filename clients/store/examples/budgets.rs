//! Measures the store with 100,000 messages against its budgets, and writes `docs/bench/store.csv`.
//!
//! The program fails if a figure is above three times its budget: another machine can be slower.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use pigeonhole_core::{StorageChange, Write};
use pigeonhole_store::Store;
use serde_json::json;
use wire::{ConversationId, Message, MessageId, Seq, Side, Timestamp, UserId};

const CONVERSATIONS: u64 = 200;
const MESSAGES: u64 = 100_000;
/// The program fails at this many times a budget.
const FACTOR_MAX: f64 = 3.0;
/// Each word is in one message of 36. `often` is in one of six.
const WORDS: [&str; 6] = ["soon", "lunch", "tomorrow", "東京都", "Café", "🎉"];
/// The last one finds nothing.
const SEARCHES: [&str; 8] = ["often", "lunch b", "b", "ka", "kafe", "東京", "cafe", "q"];

fn main() -> Result<()> {
    if let Some(path) = env::args().nth(1) {
        return fill(&mut Store::open(path, &UserId::parse("alice")?)?);
    }
    let folder = env::temp_dir().join(format!("pigeonhole-budgets-{:x}", fastrand::u64(..)));
    fs::create_dir(&folder)?;
    let figures = measure(&folder.join("store"));
    fs::remove_dir_all(&folder)?;
    let figures = figures?;
    let mut table = "figure,unit,budget,p50,p95\n".to_owned();
    for Figure { name, unit, budget, p50, p95 } in &figures {
        writeln!(table, "{name},{unit},{budget},{p50:.2},{p95:.2}")?;
    }
    print!("{table}");
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench/store.csv"), table)?;
    let above = figures.iter().filter(|figure| figure.p95 > figure.budget * FACTOR_MAX);
    let above: Vec<&str> = above.map(|figure| figure.name).collect();
    ensure!(above.is_empty(), "more than {FACTOR_MAX} budgets: {}", above.join(", "));
    Ok(())
}

struct Figure {
    name: &'static str,
    unit: &'static str,
    budget: f64,
    p50: f64,
    p95: f64,
}

impl Figure {
    /// Runs a step repeatedly.
    fn of_times(name: &'static str, budget: f64, runs: u64, mut step: impl FnMut(u64) -> Result<()>) -> Result<Self> {
        let mut times = Vec::new();
        for number in 0..runs {
            let started = Instant::now();
            step(number)?;
            times.push(started.elapsed());
        }
        times.sort_unstable();
        let at = |percent| times.get(times.len() * percent / 100).map_or(0.0, Duration::as_secs_f64) * 1_000.0;
        Ok(Self { name, unit: "ms", budget, p50: at(50), p95: at(95) })
    }
}

fn measure(path: &Path) -> Result<Vec<Figure>> {
    // Another process, so that its memory does not count.
    ensure!(Command::new(env::current_exe()?).arg(path).status()?.success(), "the store was not filled");
    let before = resident_mib()?;
    let me = UserId::parse("alice")?;
    let opening = Figure::of_times("open to the first list", 100.0, 40, |_| {
        ensure!(Store::open(path, &me)?.chats()?.len() == usize::try_from(CONVERSATIONS)?);
        Ok(())
    })?;
    let mut store = Store::open(path, &me)?;
    let middle = Seq::new(MESSAGES / CONVERSATIONS / 2).context("the middle")?;
    let figures = vec![
        opening,
        Figure::of_times("the newest 50 messages of a conversation", 50.0, CONVERSATIONS, |number| {
            ensure!(store.window(&conversation(number)?, Side::Newest, 50)?.messages.len() == 50);
            Ok(())
        })?,
        Figure::of_times("50 messages before one in the middle", 50.0, CONVERSATIONS, |number| {
            ensure!(store.window(&conversation(number)?, Side::Before(middle), 50)?.messages.len() == 50);
            Ok(())
        })?,
        Figure::of_times("a search", 50.0, 300, |number| {
            let search = SEARCHES.iter().cycle().nth(usize::try_from(number)?).context("a search")?;
            ensure!(store.search(search, 50)?.is_empty() == (*search == "q"), "{search}");
            Ok(())
        })?,
        Figure::of_times("a message kept", 1.0, 2_000, |number| {
            Ok(store.apply(&a_message(MESSAGES + number)?, false)?)
        })?,
        Figure::of_times("a message kept over a power failure", 10.0, 400, |number| {
            Ok(store.apply(&a_message(MESSAGES + 2_000 + number)?, true)?)
        })?,
    ];
    let grown = resident_mib()? - before;
    let memory = Figure { name: "memory of an open store", unit: "MiB", budget: 12.0, p50: grown, p95: grown };
    Ok(figures.into_iter().chain([memory]).collect())
}

fn fill(store: &mut Store) -> Result<()> {
    for from in (0..MESSAGES).step_by(500) {
        let writes: Result<Vec<_>> = (from..from + 500).map(a_message).collect();
        store.apply(&writes?.concat(), false)?;
    }
    let rows: Result<Vec<Write>> = (0..CONVERSATIONS).map(a_row).collect();
    Ok(store.apply(&rows?, true)?)
}

fn conversation(number: u64) -> Result<ConversationId> {
    Ok(ConversationId::parse(&format!("gr_{number}"))?)
}

/// Returns the writes of one message, and of the mark up to it.
fn a_message(number: u64) -> Result<Vec<Write>> {
    let conversation_id = conversation(number % CONVERSATIONS)?;
    let seq = Seq::new(number / CONVERSATIONS + 1).context("the seq")?;
    let special = WORDS.get(usize::try_from(number * 7 % 36)?).unwrap_or(&"");
    let often = if number.is_multiple_of(6) { "often" } else { "" };
    let rest: Vec<String> = (1..9).map(|at| word((number + 1) * at * 31 % 5_003)).collect();
    let body = format!("{special} {often} {}", rest.join(" "));
    let (sender, sent_at) = (UserId::parse("bob")?, Timestamp::from_millis(1_763_632_800_000 + i64::try_from(number)?));
    let id = MessageId::stored(format!("{number:026}"));
    let entry = Message::text(conversation_id.clone(), seq, id, sender, body, sent_at);
    Ok(vec![Write::Entry(entry), Write::Change(StorageChange::Held { conversation_id, seq })])
}

/// Returns one of 5,003 words of two syllables.
fn word(number: u64) -> String {
    let letter = |letters: &str, number| letters.chars().cycle().nth(usize::try_from(number).unwrap_or(0));
    let syllable = |number| [letter("bcdfghjklmnprstvwxyz", number / 5), letter("aeiou", number % 5)];
    [number % 100, number / 100 % 100].into_iter().flat_map(syllable).flatten().collect()
}

fn a_row(number: u64) -> Result<Write> {
    let sent_at = Timestamp::from_millis(1_763_632_800_000 + i64::try_from(MESSAGES + number)?);
    let last_seq = MESSAGES / CONVERSATIONS;
    let last_message =
        json!({"seq": last_seq, "sender_id": "bob", "kind": "text", "preview": "hi", "sent_at": sent_at});
    let row = json!({"conversation_id": conversation(number)?, "kind": "group", "title": format!("Group {number}"),
        "last_message": last_message, "unread": 0, "delivered_seq": 0, "read_seq": last_seq, "last_seq": last_seq});
    Ok(Write::Row(serde_json::from_value(row)?))
}

/// Returns the memory of this process, as Linux reports it.
fn resident_mib() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("the memory of the process")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1_024.0)
}
