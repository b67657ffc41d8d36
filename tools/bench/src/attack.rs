//! One attacker after another beside pairs of people who chat: what these notice, and what the attack costs, with the template's
//! limits and without any.
//!
//! The control is in the same seconds: pairs like them chat on a second server on the same machine, which nobody attacks. So
//! what both notice is the machine, which they share, and what only the first notice is the server.

mod attackers;
pub(crate) mod pairs;
mod socket;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use attackers::Attack;
use attackers::{Attacker, Fate};
use clap::ValueEnum as _;
use local::Logs;
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
/// For what is still under way.
const GRACE: Duration = Duration::from_secs(2);
/// More than there are cores, so that a call of the embedded database doesn't keep everybody else's from running.
pub(crate) const THREADS: usize = 8;

/// How many times as long as beside it a message may take, of a hundred the slowest but one.
const TIMES_MAX: f64 = 1.5;
/// A difference of less is no more than two runs of the same have.
const DIFFERENCE_MS_MIN: f64 = 20.0;

/// The parameters of the template that limit somebody, and their values for no limit.
const LIFTED: [(&str, &str); 6] = [
    ("ConnectionsPerUser", "0"),
    ("RequestRate", "off"),
    ("SendRate", "off"),
    ("FirstMessageRate", "off"),
    ("ThrottlingRateLimit", "1000000"),
    ("ThrottlingBurstLimit", "1000000"),
];

/// What was measured.
pub struct Report {
    /// What the pairs noticed.
    pub pairs: String,
    /// What became of the attacks.
    pub attacks: String,
    /// What does not hold though it must.
    pub broken: Vec<String>,
}

/// Runs these attacks, or all, with the limits and without.
pub fn measure(only: &[Attack]) -> anyhow::Result<Report> {
    let mut written = Report {
        pairs: "| attack | limits | p50, ms | p99 | beside: p50 | p99 | refused | lost | closed | turned away |\n|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned(),
        attacks: "| attack | limits | accepted | refused | throttled | closed | posts per message | read units/s | write units/s | $ per hour |\n|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned(),
        broken: Vec::new(),
    };
    let attacks = Attack::value_variants().iter().filter(|attack| only.is_empty() || only.contains(attack));
    let bar = report::progress(attacks.clone().count() * 2);
    for attack in attacks {
        for limited in [true, false] {
            bar.set_message(format!("{}, {}", name(*attack), limits(limited)));
            // A server ends with its runtime, and so does whatever was left over.
            let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
            let round = runtime.block_on(round(*attack, limited));
            runtime.shutdown_timeout(GRACE);
            round.write(&mut written);
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
    /// What the attacked server spent, and the one beside it.
    spent: Spent,
    spent_beside: Spent,
}

async fn round(attack: Attack, limited: bool) -> Round {
    let (here, beside) = tokio::join!(Site::open(limited), Site::open(limited));
    let (pairs, pairs_beside) = (pairs::connect(&here.server).await, pairs::connect(&beside.server).await);
    let attacker = Attacker::prepare(attack, &here.server).await;
    let start = Instant::now();
    let (from, until) = (start + WARM_UP, start + WARM_UP + MEASURED);
    let span = Span { start, from, until, end: until + GRACE };
    let attacking = async {
        sleep_until(from).await;
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
        let at = |noticed: &Noticed, percent| report::percentile_ms(&noticed.latencies, percent);
        let (p99, p99_beside) = (at(noticed, 99), at(beside, 99));
        let Noticed { refused, lost, closed, turned_away, .. } = noticed;
        let (p50, p50_beside) = (at(noticed, 50), at(beside, 50));
        let _ = writeln!(
            written.pairs,
            "| {name} | {limits} | {p50:.1} | {p99:.1} | {p50_beside:.1} | {p99_beside:.1} | {refused} | {lost} | {closed} | {turned_away} |"
        );
        let is_slower = p99 > TIMES_MAX * p99_beside && p99 - p99_beside > DIFFERENCE_MS_MIN;
        let is_noticed = is_slower || [refused, lost, closed, turned_away].into_iter().any(|count| *count > 0);
        // With limits or without.
        let is_heard = *attack == Attack::Ended && fate.received > 0;
        if is_heard || (*limited && is_noticed) {
            written.broken.push(name.clone());
        }
        self.write_attack(&name, limits, &mut written.attacks);
    }

    fn write_attack(&self, name: &str, limits: &str, written: &mut String) {
        let Fate { accepted, refused, throttled, closed, stored, open, .. } = self.fate;
        let seconds = MEASURED.as_secs_f64();
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

/// A server, and what it spends.
struct Site {
    server: Arc<TestServer>,
    watched: Arc<Mutex<Spent>>,
    lines: Arc<Mutex<Vec<String>>>,
    _proxy: Proxy,
}

#[derive(Default)]
struct Spent {
    cost: Cost,
    /// Frames with messages of others than the pairs.
    posts: usize,
}

impl Site {
    async fn open(limited: bool) -> Self {
        let (watched, lines) = (Arc::<Mutex<Spent>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let watching = Arc::clone(&watched);
        let proxy = Proxy::watching(move |_, call, status, body| {
            watching.lock().expect("nobody panics with it").count(call, status, body);
        });
        let proxy = proxy.await;
        let logs = Logs::Keep(Arc::clone(&lines));
        let server = proxy.server_with(|options| {
            // What a test lifts is as in the template again.
            options.parameters = if limited { as_deployed() } else { lifted() };
            options.logs = logs;
        });
        Self { server: server.await, watched, lines, _proxy: proxy }
    }

    /// Since the last look.
    fn spent(&self) -> Spent {
        let mut spent = std::mem::take(&mut *self.watched.lock().expect("nobody panics with it"));
        let lines = std::mem::take(&mut *self.lines.lock().expect("nobody panics with it"));
        // An event's line has how long it took. Of those, connections that come and go brought no frame.
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

/// All as in the template, also what the local server lifts.
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
        self.cost.units += units(call, status, body);
        if let AwsCall::Post { frame, .. } = call
            && status == 200
        {
            self.cost.frames_out += 1;
            let sender = frame["messages"][0]["sender_id"].as_str();
            self.posts += usize::from(sender.is_some_and(|sender| !sender.starts_with(pairs::PREFIX)));
        }
    }
}
