//! Two or three of the real functions run concurrently, in every order of their calls to AWS. Then the runs
//! repeat with a fault: a kill at any call, a conflict, a failure, or a group transaction that shows in parts. At the end, each user repeats unanswered requests and reconnects, and the test checks all invariants.
//!
//! A failing schedule is printed with a name, by which it runs again alone:
//! `PIGEONHOLE_SCHEDULE=send-read:0,1,1,0!killed cargo test -p tests --test explorer -- --nocapture`.
//!
//! `PIGEONHOLE_RUNS_MAX` bounds the runs of each kind in each scenario, which cover every order of dependent calls.
//! With 0 the runs cover every reachable state, up to a bound, which is lower in groups and with three concurrent
//! functions. `PIGEONHOLE_SCENARIO` names the only scenario to run.
#![recursion_limit = "256"]
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod channels;
mod epochs;
mod groups;
mod invariants;
mod model;
mod scenarios;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use testkit::explorer::{Bounds, Explored, Faults, explore, replay};
use testkit::schedule::{Step, parse_steps};

use model::ChatModel;
use scenarios::{SCENARIOS, Scenario};

/// Runs of each kind in each scenario: all of them take minutes of processor time, unoptimised.
const RUNS_MAX: usize = 30;
/// Runs in a group with one kill, conflict or failure. Such a run takes twice as long, and each kind has more runs than
/// this. Not below the number in `mutants.py`, so that a schedule that catches a mutant there catches it here.
const GROUP_FAULT_RUNS_MAX: usize = 10;
/// With two concurrent functions, fewer runs see every state.
const EVERY_STATE_RUNS_MAX: usize = 30_000;
/// In a group, or with three concurrent functions, there are too many states to see them all.
const LARGE_EVERY_STATE_RUNS_MAX: usize = 500;

const KINDS: [(Faults, &str); 5] = [
    (Faults::None, "as it is"),
    (Faults::Kill, "one killed"),
    (Faults::Conflict, "one conflict"),
    (Faults::Failure, "one failure"),
    (Faults::HalfSeen, "one half seen"),
];

#[test]
fn every_order_of_calls_keeps_every_promise() {
    if let Ok(schedule) = std::env::var("PIGEONHOLE_SCHEDULE") {
        return run(&schedule);
    }
    let only = std::env::var("PIGEONHOLE_SCENARIO").unwrap_or_default();
    let scenarios: Vec<_> = SCENARIOS.iter().filter(|scenario| only.is_empty() || scenario.name == only).collect();
    let (started, next) = (Instant::now(), AtomicUsize::new(0));
    println!("{:22}{}", "schedules", KINDS.map(|(_, name)| format!("{name:>14}")).concat());
    let style = ProgressStyle::with_template("{spinner} {human_pos} runs, {elapsed}").expect("a template");
    let runs = ProgressBar::new_spinner().with_style(style);
    scope(|threads| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let row = row(**scenario, &runs);
                    runs.suspend(|| println!("{row}"));
                }
            });
        }
    });
    let all = runs.position();
    runs.finish_and_clear();
    println!("a + is where the bound was reached; {all} runs, {:.1} s in all", started.elapsed().as_secs_f64());
}

/// Returns the bounds for one kind of fault in the scenario.
fn bounds(scenario: Scenario, faults: Faults) -> Bounds {
    let told = std::env::var("PIGEONHOLE_RUNS_MAX").ok().map(|max| max.parse().expect("a number of runs"));
    let fewer = scenario.is_of_group() && matches!(faults, Faults::Kill | Faults::Conflict | Faults::Failure);
    match told {
        Some(0) if scenario.is_large() => Bounds { runs_max: LARGE_EVERY_STATE_RUNS_MAX, every_state: true },
        Some(0) => Bounds { runs_max: EVERY_STATE_RUNS_MAX, every_state: true },
        Some(runs_max) => Bounds { runs_max, every_state: false },
        None => Bounds { runs_max: if fewer { GROUP_FAULT_RUNS_MAX } else { RUNS_MAX }, every_state: false },
    }
}

/// A scenario's line in the table: how many schedules there are of each kind, and how many runs led nowhere new.
fn row(scenario: Scenario, runs: &ProgressBar) -> String {
    let started = Instant::now();
    let all = KINDS.map(|(faults, _)| {
        let bounds = bounds(scenario, faults);
        // In a direct conversation no query reads a part of a transaction. After entries have been read once, few
        // schedules hide any.
        let hides = scenario.dies() || bounds.every_state && scenario.is_of_group();
        if faults == Faults::HalfSeen && !hides {
            return Explored::default();
        }
        explored(scenario, faults, bounds, runs)
    });
    let numbers =
        all.map(|Explored { schedules, bounded, .. }| format!("{schedules:13}{}", if bounded { "+" } else { " " }));
    let redundant: usize = all.iter().map(|explored| explored.redundant).sum();
    let steps_max = all.iter().map(|explored| explored.steps_max).max().unwrap_or_default();
    let seconds = started.elapsed().as_secs_f64();
    format!("{:22}{}  up to {steps_max} steps, {redundant} more runs, {seconds:.1} s", scenario.name, numbers.concat())
}

fn explored(scenario: Scenario, faults: Faults, bounds: Bounds, runs: &ProgressBar) -> Explored {
    let explored = on_paused_clock(async || {
        let model = ChatModel::new(scenario).await;
        explore(&model, model.gate(), faults, bounds, || runs.inc(1)).await
    });
    explored.unwrap_or_else(|broken| {
        let steps: Vec<_> = broken.steps.iter().map(Step::to_string).collect();
        panic!("{}:{}\n{broken}", scenario.name, steps.join(","))
    })
}

/// Schedules that once broke something.
#[test]
fn what_was_broken_once_stays_whole() {
    for schedule in [
        // No receipt was sent for an acknowledged message, because its function died first. By the time of the retry, a
        // reply of the recipient had moved the mark.
        "reply-ack:1,0,0,0,0,0,0,1,1!killed",
        "reply-read:1,0,0,0,0,0,0,1,1,1!killed",
        // Three entries without events, of which the second adds a member. A query misses the last entry, or the one before;
        // or, in a group whose last entry adds a member, the row of that member.
        "g-fanout:0,0,0,0!unseen",
        "g-fanout:0,0,0,0!hole",
        "g-add-fanout-connect:0,0!unseen",
        // An operator deletes a message after it was emptied, by a row that was read before: its text would be in `audit`.
        "erase-delete:0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,0,0,0,0,0,0,0,0,0,1,1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1",
    ] {
        run(schedule);
    }
}

fn run(schedule: &str) {
    let (name, steps) = schedule.split_once(':').expect("a schedule is a scenario's name, a colon and steps");
    let scenario = SCENARIOS.iter().copied().find(|scenario| scenario.name == name).expect("there is no such scenario");
    let steps = parse_steps(steps).unwrap();
    let outcome = on_paused_clock(async || {
        let model = ChatModel::new(scenario).await;
        replay(&model, model.gate(), &steps).await
    });
    outcome.unwrap_or_else(|broken| panic!("{schedule}\n{broken}"));
}

/// Runs with a clock that advances only for sleepers.
fn on_paused_clock<T>(run: impl AsyncFnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run())
}
