//! `cargo run --release --bin bench` measures, and writes the results into docs/.

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
    /// From a message to the push on its recipient's phone
    Ring,
    /// Cost of each operation by the number of rows, devices and bytes
    Growth,
    /// Cost and time of a message in a group by its number of members, and concurrent writers
    Groups,
    /// Cost and time of a post in a channel by its numbers of members and subscribers
    Channels,
    /// Time of a file from the sender's disk to the recipient's
    Uploads,
    /// Cost and rate of messages from your own servers, and how a campaign delays chats
    Ingest,
    /// Dollars per million messages
    Money,
    /// A simulation of a million phones that reconnect after an outage
    Storm,
    /// How attackers delay chats, and what they cost
    Attack,
}

/// Measures what Pigeonhole costs and how long it takes, and writes the results into docs/bench/ and docs/deploying.md.
#[derive(Parser)]
struct Arguments {
    /// Measure only these parts, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,

    /// Run only these attackers, and write no file
    #[arg(long, value_delimiter = ',')]
    attack: Vec<Attack>,
}

fn main() -> anyhow::Result<()> {
    let Arguments { only, attack } = Arguments::parse();
    if !attack.is_empty() {
        let attack::Report { pairs, attacks, waves, broken } = attack::measure(&attack)?;
        println!("{pairs}\n{attacks}\n{waves}");
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
        for (table, rows) in measure(*part, &mut broken)? {
            println!("{rows}");
            report::record(table, &rows)?;
        }
        println!("({:.0} s)", started.elapsed().as_secs_f64());
    }
    println!("wrote docs/bench/, and the table per month in docs/deploying.md");
    if only.is_empty() || only.contains(&Part::Attack) { verdict(&broken) } else { Ok(()) }
}

/// Fails if an attacker delays others in spite of the limits.
fn verdict(broken: &[String]) -> anyhow::Result<()> {
    if !broken.is_empty() {
        bail!("the limits do not protect other users from: {}", broken.join(", "));
    }
    println!("the limits protect other users from every attack");
    Ok(())
}

/// Returns the tables of a part with their names, and adds the attacks that failed the check to `broken`.
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
            let attack::Report { pairs, attacks, waves, broken: all } = attack::measure(&[])?;
            broken.extend(all);
            vec![("attack", pairs), ("attack-costs", attacks), ("attack-waves", waves)]
        }
    })
}
