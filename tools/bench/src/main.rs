//! `cargo run --release --bin bench`: measures, and writes what it measured into docs/.

use std::time::Instant;

use anyhow::bail;
use bench::attack::Attack;
use bench::{attack, channels, cold, groups, growth, ingest, load, money, path, report, ring, storm, units, uploads};
use clap::{Parser, ValueEnum};
use tokio::runtime::Builder;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Part {
    /// Request units, calls, invocations and frames of each operation
    Units,
    /// Calls in a row, and the time they take with latencies as on AWS
    Path,
    /// Process start, memory and size of each function
    Cold,
    /// Messages per second through the local server
    Load,
    /// From a message to the ring of its recipient's phone
    Ring,
    /// Each operation's cost as things grow
    Growth,
    /// What a message in a group costs and how long it takes, by the number of members; and how many can write at once
    Groups,
    /// The same of a post in a channel, by the numbers of its members and of those who look at it
    Channels,
    /// How long a file takes from one disk to its message, and from there to another one
    Uploads,
    /// What your own servers write: a million messages' cost, messages a second, and what people who chat notice of a campaign
    Ingest,
    /// Dollars per million messages
    Money,
    /// How a million phones come back after a break
    Storm,
    /// What people who chat notice of one attacker after another, and what those cost
    Attack,
}

/// Measures what Pigeonhole costs and how long it takes, and writes it into docs/bench/README.md and docs/deploying.md.
#[derive(Parser)]
struct Arguments {
    /// Only these parts, with commas between
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,

    /// Only these attackers, and nothing is written
    #[arg(long, value_delimiter = ',')]
    attack: Vec<Attack>,
}

fn main() -> anyhow::Result<()> {
    let Arguments { only, attack } = Arguments::parse();
    if !attack.is_empty() {
        let attack::Report { pairs, attacks, broken } = attack::measure(&attack)?;
        println!("{pairs}\n{attacks}");
        return verdict(&broken);
    }
    let mut broken = Vec::new();
    for part in Part::value_variants() {
        if !only.is_empty() && !only.contains(part) {
            continue;
        }
        let name = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let started = Instant::now();
        println!("== {name}");
        for (section, table) in measure(*part, &mut broken)? {
            println!("{table}");
            report::replace(section, &table)?;
        }
        println!("({:.0} s)", started.elapsed().as_secs_f64());
    }
    println!("written to docs/bench/ and, per month, docs/deploying.md");
    if only.is_empty() || only.contains(&Part::Attack) { verdict(&broken) } else { Ok(()) }
}

/// Whether the limits do what they are for.
fn verdict(broken: &[String]) -> anyhow::Result<()> {
    if !broken.is_empty() {
        bail!("with the limits on, those who chat notice more than they may of: {}", broken.join(", "));
    }
    println!("with the limits on, those who chat notice nothing but the machine that they share");
    Ok(())
}

/// The tables of a part, by the section that each belongs in; and what does not hold though it must.
fn measure(part: Part, broken: &mut Vec<String>) -> anyhow::Result<Vec<(&'static str, String)>> {
    // In-process parts run on tokio's own time, which costs none; the others on the clock's.
    let counted = || Builder::new_current_thread().enable_time().start_paused(true).build();
    let timed = || Builder::new_multi_thread().enable_all().build();
    Ok(match part {
        Part::Units => vec![("units", counted()?.block_on(units::table()))],
        Part::Path => vec![
            ("in-a-row", counted()?.block_on(path::in_a_row())),
            ("latencies", counted()?.block_on(path::latencies())?),
        ],
        Part::Groups => vec![
            ("groups-costs", counted()?.block_on(groups::costs())),
            ("groups-times", counted()?.block_on(groups::times())),
            ("groups-contention", counted()?.block_on(groups::contention())),
        ],
        Part::Channels => vec![
            ("channels-costs", counted()?.block_on(channels::costs())),
            ("channels-times", counted()?.block_on(channels::times())),
        ],
        Part::Uploads => vec![("uploads", timed()?.block_on(uploads::table())?)],
        Part::Ingest => vec![
            ("ingest-costs", counted()?.block_on(ingest::costs())),
            ("ingest-rates", timed()?.block_on(ingest::rates())),
            ("ingest-beside", ingest::beside()?),
        ],
        Part::Growth => vec![("growth", counted()?.block_on(growth::table())?)],
        Part::Money => {
            vec![
                ("money", counted()?.block_on(money::table())),
                ("changing", counted()?.block_on(money::changing())),
                ("ringing", counted()?.block_on(money::ringing())),
                ("photos", counted()?.block_on(money::photos())),
                ("monthly", counted()?.block_on(money::monthly())),
            ]
        }
        Part::Storm => vec![("storm", storm::table()?)],
        Part::Cold => vec![("cold", timed()?.block_on(cold::table())?)],
        Part::Load => vec![("load", timed()?.block_on(load::table())?)],
        Part::Ring => vec![("ring", timed()?.block_on(ring::table())?)],
        Part::Attack => {
            let attack::Report { pairs, attacks, broken: all } = attack::measure(&[])?;
            broken.extend(all);
            vec![("attack", pairs), ("attack-costs", attacks)]
        }
    })
}
