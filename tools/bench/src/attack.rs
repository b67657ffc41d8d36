//! Attacks a server on which pairs of users chat, with the template's limits and without, and measures the pairs'
//! delays and the attack's cost.
//!
//! Control pairs chat at the same time on a second server on the same machine, which has no attacker. Delays of both
//! are the machine's; delays of only the attacked pairs are the server's.

mod attackers;
mod legal;
pub(crate) mod pairs;
mod socket;
mod waves;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use attackers::Attack;
use attackers::{Attacker, Fate};
use clap::ValueEnum as _;
use local::{Concurrency, Logs, Options};
use pairs::{Noticed, Span};
use template::{Overrides, Template};
use testkit::{AwsCall, Proxy, TestServer};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep_until};

use crate::app::Cost;
use crate::aws::units;
use crate::money::{Bill, socket_hours};
use crate::report;

const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(30);
/// The limits grant any user a burst, which the attacker uses up in this time. The delays of the pairs count after it.
const BURST: Duration = Duration::from_secs(1);
/// The time for requests that are still running at the end.
const GRACE: Duration = Duration::from_secs(2);
/// More threads than cores, so that a call of the embedded database does not block all other calls.
pub(crate) const THREADS: usize = 8;

/// The allowed p99 of the pairs, as a multiple of the control's.
const TIMES_MAX: f64 = 1.5;
/// A smaller difference also occurs between two equal runs.
const DIFFERENCE_MS_MIN: f64 = 20.0;

/// The parameters of the template that limit a user, and their values for no limit.
const LIFTED: [(&str, &str); 6] = [
    ("ConnectionsPerUser", "0"),
    ("RequestRate", "off"),
    ("SendRate", "off"),
    ("FirstMessageRate", "off"),
    ("ThrottlingRateLimit", "1000000"),
    ("ThrottlingBurstLimit", "1000000"),
];

/// The measured tables.
pub struct Report {
    /// Delays and failures of the pairs, and the bars that an attack broke.
    pub pairs: String,
    /// Outcome and cost of the attacks.
    pub attacks: String,
    /// Outcome of the attacks whose frames each find a process.
    pub waves: String,
    /// The attacks that broke a limit.
    pub broken: Vec<String>,
}

/// The bar that all attacks share.
const NOTICED: &str = "others notice it";

impl Report {
    /// Adds the attack's row of the pairs and their control, and the bars that the attack broke.
    fn conclude(&mut self, name: &str, limits: &str, [noticed, beside]: [&Noticed; 2], wrong: &[String]) {
        let at = |noticed: &Noticed, percent| report::percentile_ms(&noticed.latencies, percent);
        let times = [(noticed, 50), (noticed, 99), (beside, 50), (beside, 99)];
        let times = times.map(|(noticed, percent)| format!("{:.1}", at(noticed, percent))).join(" | ");
        let Noticed { refused, lost, closed, turned_away, .. } = noticed;
        let bars = self.bars(name, wrong);
        let _ = writeln!(
            self.pairs,
            "| {name} | {limits} | {times} | {refused} | {lost} | {closed} | {turned_away} | {bars} |"
        );
    }

    /// Returns the cell of the bars that the attack broke.
    fn bars(&mut self, name: &str, wrong: &[String]) -> String {
        if wrong.is_empty() {
            return "hold".to_owned();
        }
        let bars = wrong.join("; ");
        self.broken.push(format!("{name} ({bars})"));
        bars
    }
}

/// Runs these attacks, or all, with the limits and without.
pub fn measure(only: &[Attack]) -> anyhow::Result<Report> {
    let mut written = Report {
        pairs: "| attack | limits | p50, ms | p99 | control p50 | control p99 | refused | lost | closed | not opened | bars |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned(),
        attacks: "| attack | limits | accepted | refused | throttled | closed | posts per message | read units/s | write units/s | $ per hour |\n|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned(),
        waves: "| attack | most of one action/s | first waves served, s | posts/s until then | posts/s, later | busy processes until then | later | control | read units/s of the attacker's partition | refused | closed | not opened | pairs p99, ms | control p99 | pairs refused, lost, closed, not opened |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n".to_owned(),
        broken: Vec::new(),
    };
    let attacks = Attack::value_variants().iter().filter(|attack| only.is_empty() || only.contains(attack));
    let bar = report::progress(attacks.clone().count() * 2);
    for attack in attacks {
        for limited in [true, false] {
            if attack.is_wave() && !limited {
                continue;
            }
            bar.set_message(format!("{}, {}", name(*attack), limits(limited)));
            // A server ends with its runtime, and so do all of its tasks.
            let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
            if *attack == Attack::Legal {
                runtime.block_on(legal::round(&mut written));
            } else if attack.is_wave() {
                runtime.block_on(waves::round(*attack, &mut written));
            } else {
                runtime.block_on(round(*attack, limited)).write(&mut written);
            }
            runtime.shutdown_timeout(GRACE);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(written)
}

fn name(attack: Attack) -> String {
    attack.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn limits(limited: bool) -> &'static str {
    if limited { "on" } else { "off" }
}

struct Round {
    attack: Attack,
    limited: bool,
    noticed: Noticed,
    beside: Noticed,
    fate: Fate,
    /// The cost of the attacked server, and of the control.
    spent: Spent,
    spent_beside: Spent,
}

async fn round(attack: Attack, limited: bool) -> Round {
    let (here, beside) = tokio::join!(Site::open(limited), Site::open(limited));
    let (pairs, pairs_beside) = (pairs::connect(&here.server).await, pairs::connect(&beside.server).await);
    let attacker = Attacker::prepare(attack, &here.server).await;
    let start = Instant::now();
    let begin = start + WARM_UP;
    let from = begin + BURST;
    let until = from + MEASURED;
    let span = Span { pause: pairs::PAUSE, start, from, until, end: until + GRACE };
    let attacking = async {
        sleep_until(begin).await;
        let _ = (here.spent(), beside.spent());
        let fate = attacker.run(until).await;
        (fate, here.spent(), beside.spent())
    };
    let (noticed, noticed_beside, (fate, spent, spent_beside)) = tokio::join!(
        pairs::chat(&here.server, pairs, span),
        pairs::chat(&beside.server, pairs_beside, span),
        attacking
    );
    Round { attack, limited, noticed, beside: noticed_beside, fate, spent, spent_beside }
}

impl Round {
    fn write(&self, written: &mut Report) {
        let Self { attack, limited, noticed, beside, fate, .. } = self;
        let (name, limits) = (name(*attack), limits(*limited));
        let mut wrong = Vec::new();
        // With limits or without.
        wrong.extend(
            (*attack == Attack::Ended && fate.received > 0).then(|| "an expired socket gets frames".to_owned()),
        );
        wrong.extend((*limited && is_noticed(noticed, beside)).then(|| NOTICED.to_owned()));
        written.conclude(&name, limits, [noticed, beside], &wrong);
        self.write_attack(&name, limits, &mut written.attacks);
    }

    fn write_attack(&self, name: &str, limits: &str, written: &mut String) {
        let Fate { accepted, refused, throttled, closed, stored, open, .. } = self.fate;
        let seconds = (BURST + MEASURED).as_secs_f64();
        let both = [&self.spent, &self.spent_beside];
        let per_second = |of: fn(&Spent) -> f64| {
            let [here, beside] = both.map(of);
            (here - beside).max(0.0) / seconds
        };
        let (reads, writes) =
            (per_second(|spent| spent.cost.units.reads()), per_second(|spent| spent.cost.units.writes()));
        let dollars =
            per_second(|spent| Bill::of_a_million(&spent.cost).total() / 1e6) * 3_600.0 + socket_hours(open as f64);
        let posts =
            if stored == 0 { "none".to_owned() } else { format!("{:.1}", self.spent.posts as f64 / stored as f64) };
        let _ = writeln!(
            written,
            "| {name} | {limits} | {accepted} | {refused} | {throttled} | {closed} | {posts} | {reads:.0} | {writes:.0} | ${dollars:.2} |"
        );
    }
}

/// Returns whether the pairs have longer delays or more failures than the control.
fn is_noticed(noticed: &Noticed, beside: &Noticed) -> bool {
    let [p99, p99_beside] = [noticed, beside].map(|noticed| report::percentile_ms(&noticed.latencies, 99));
    let is_slower = p99 > TIMES_MAX * p99_beside && p99 - p99_beside > DIFFERENCE_MS_MIN;
    let counts = |noticed: &Noticed| [noticed.refused, noticed.lost, noticed.closed, noticed.turned_away];
    is_slower || counts(noticed).iter().zip(counts(beside)).any(|(here, beside)| *here > beside)
}

/// A server and its costs.
struct Site {
    server: Arc<TestServer>,
    watched: Arc<Mutex<Spent>>,
    lines: Arc<Mutex<Vec<String>>>,
    _proxy: Proxy,
}

#[derive(Default)]
struct Spent {
    cost: Cost,
    /// Frames with messages of users outside of the pairs.
    posts: usize,
    /// The times of posts to users outside of the pairs.
    posted: Vec<Instant>,
    /// Units read of the inbox rows of the attacker.
    partition_reads: Vec<(Instant, f64)>,
}

impl Site {
    async fn open(limited: bool) -> Self {
        // Tests lift some limits; here they are the template's again.
        Self::with(Duration::ZERO, |options| options.parameters = if limited { as_deployed() } else { lifted() }).await
    }

    /// A server with a process for each event and slow calls of the database.
    async fn elastic() -> Self {
        let change = |options: &mut Options| {
            options.parameters = as_deployed();
            options.concurrency = Concurrency { of_function: waves::PROCESSES, of_socket: waves::PROCESSES };
        };
        Self::with(waves::LATENCY, change).await
    }

    async fn with(latency: Duration, change: impl FnOnce(&mut Options)) -> Self {
        let (watched, lines) = (Arc::<Mutex<Spent>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let watching = Arc::clone(&watched);
        let proxy = Proxy::distant(latency, move |_, call, status, body| {
            watching.lock().expect("nobody panics with it").count(call, status, body);
        });
        let proxy = proxy.await;
        let logs = Logs::Keep(Arc::clone(&lines));
        let server = proxy.server_with(|options| {
            change(options);
            options.logs = logs;
        });
        Self { server: server.await, watched, lines, _proxy: proxy }
    }

    /// Counts the log lines since the last call that contain this text.
    fn lines_with(&self, part: &str) -> usize {
        let lines = std::mem::take(&mut *self.lines.lock().expect("nobody panics with it"));
        lines.iter().filter(|line| line.contains(part)).count()
    }

    /// Returns the costs since the last call.
    fn spent(&self) -> Spent {
        let mut spent = std::mem::take(&mut *self.watched.lock().expect("nobody panics with it"));
        let lines = std::mem::take(&mut *self.lines.lock().expect("nobody panics with it"));
        // The line of an event has its duration. An event of a connect or disconnect has no frame.
        let events = lines.iter().filter(|line| line.contains(" duration_ms="));
        let is_frame = |line: &&String| {
            ![" route=authorize", " route=$connect", " route=$disconnect"].iter().any(|route| line.contains(route))
        };
        spent.cost.invocations = events.clone().count();
        spent.cost.frames_in = events.filter(is_frame).count();
        spent.cost.frames_out += spent.cost.frames_in;
        spent
    }
}

/// All limits as in the template, including those that the local server lifts.
fn as_deployed() -> Overrides {
    let template = Template::of_workspace().expect("the workspace has a template");
    let first_messages =
        template.functions.values().find_map(|function| function.environment.get("FIRST_MESSAGE_RATE"));
    let first_messages = first_messages.expect("the template has the rate").clone();
    Overrides::from([("FirstMessageRate".to_owned(), first_messages)])
}

fn lifted() -> Overrides {
    LIFTED.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl Spent {
    fn count(&mut self, call: &AwsCall, status: u16, body: &str) {
        self.cost.calls += 1;
        let units = units(call, status, body);
        let of_attacker = || call.body().to_string().contains(&format!("\"{}\"", attackers::ATTACKER));
        if call.body()["TableName"] == "InboxTable" && of_attacker() {
            self.partition_reads.push((Instant::now(), units.reads()));
        }
        self.cost.units += units;
        if let AwsCall::Post { frame, .. } = call
            && status == 200
        {
            self.cost.frames_out += 1;
            let sender = frame["messages"][0]["sender_id"].as_str();
            self.posts += usize::from(sender.is_some_and(|sender| !sender.starts_with(pairs::PREFIX)));
            if !frame.to_string().contains(pairs::PREFIX) {
                self.posted.push(Instant::now());
            }
        }
    }
}
