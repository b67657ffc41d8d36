//! Floods and legal users over many processes, by the limiter's own rules, in virtual time. A process takes one request at a time; one that
//! finds none idle starts another. `cargo test --workspace --lib -- simulated --nocapture` prints the table.
#![expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Cost, Floods, Rate, SAMPLED, filled_until, is_sampled, window};
use wire::{Timestamp, UserId};

use super::{Seen, Verdict, draw};

const RATE: Rate = Rate { burst: 60, pause: Duration::from_millis(100) };
/// Concurrency of an account with the default quota.
const PROCESSES_MAX: usize = 200;
const SEEDS: u64 = 60;
const SECONDS: u64 = 30;
/// Concurrent processes of one user from the third second on. A wave of 160 that arrives before the user is suspended
/// keeps the most busy; each of its requests holds a process for 12 ms.
const BUSY_MAX: usize = 45;
/// Duration of a refused request.
const REFUSED_MS: u64 = 2;

/// Cost of a served request of one kind.
#[derive(Clone, Copy)]
struct Kind {
    held_ms: u64,
    posts: u64,
    half_read_units: u64,
}

const PING: Kind = Kind { held_ms: 12, posts: 0, half_read_units: 2 };
/// A `send` in a group that always loses.
const COLLISION: Kind = Kind { held_ms: 400, posts: 0, half_read_units: 16 };
/// An `ack` of 25 conversations with peers who have 16 sockets each, of which four get an event.
const RECEIPTS: Kind = Kind { held_ms: 60, posts: 100, half_read_units: 50 };
/// A page of who has read what in a group of 500.
const ROSTER: Kind = Kind { held_ms: 40, posts: 0, half_read_units: 530 };

#[derive(Default)]
struct Outcome {
    served: u64,
    refused: u64,
    posts: u64,
    /// Maximum of concurrent processes, from the third second on.
    busy_max: usize,
    suspended: u32,
}

struct Process {
    seen: Seen,
    busy_until_us: u64,
}

/// Simulates requests that arrive at these times, in microseconds and in order.
fn run(requests: &[(u64, Kind)], seed: u64) -> Outcome {
    let user = UserId::parse("mallory").unwrap();
    let (mut outcome, mut processes) = (Outcome::default(), Vec::<Process>::new());
    let (mut windows, mut floods, mut suspended_until) = (BTreeMap::<i64, Duration>::new(), Floods::default(), None);
    let samples = RATE.of_samples();
    for (number, (at_us, kind)) in requests.iter().enumerate() {
        let now = Timestamp::from_millis(i64::try_from(at_us / 1000).unwrap());
        if suspended_until.is_some_and(|until| now < until) {
            continue;
        }
        // The one that was idle for the shortest time, as Lambda does.
        let idle = (0..processes.len()).filter(|n| processes[*n].busy_until_us <= *at_us);
        let idle = idle.max_by_key(|n| processes[*n].busy_until_us);
        if idle.is_none() && processes.len() == PROCESSES_MAX {
            continue;
        }
        let place = idle.unwrap_or_else(|| {
            processes.push(Process { seen: Seen::default(), busy_until_us: 0 });
            processes.len() - 1
        });
        let process = &mut processes[place];
        let admitted = process.seen.judge(&RATE, &user, now) == Verdict::Admitted;
        let held_ms = if admitted { kind.held_ms } else { REFUSED_MS };
        process.busy_until_us = at_us + held_ms * 1000;
        if admitted {
            outcome.served += 1;
            outcome.posts += kind.posts;
            let held = Duration::from_millis(held_ms);
            let cost = Cost { held, posts: kind.posts, half_read_units: kind.half_read_units };
            process.seen.users.charge(&RATE, &user, now.plus(held), cost.weight());
            let weight = cost.sampled_weight();
            if is_sampled(draw(&format!("{seed} {number}")), weight) {
                *windows.entry(window(now)).or_default() +=
                    samples.pause.mul_f64((weight / f64::from(SAMPLED)).max(1.0));
                windows.retain(|of, _| *of >= window(now) - 8);
                let counted: Vec<_> = windows.iter().map(|(of, filled_for)| (*of, *filled_for)).collect();
                if samples.is_full(filled_until(&counted), now) {
                    let (after, ends) = floods.and_now(now);
                    (floods, suspended_until) = (after, Some(ends));
                    windows.clear();
                    outcome.suspended += 1;
                }
            }
        } else {
            outcome.refused += 1;
        }
        if *at_us >= 2_000_000 {
            let busy = processes.iter().filter(|process| process.busy_until_us > *at_us).count();
            outcome.busy_max = outcome.busy_max.max(busy);
        }
    }
    outcome
}

/// `count` concurrent requests, `per_second` times a second.
fn waves(count: u64, per_second: u64, kind: Kind) -> Vec<(u64, Kind)> {
    let waves = 0..SECONDS * per_second;
    waves.flat_map(|wave| (0..count).map(move |n| (wave * 1_000_000 / per_second + n * 10, kind))).collect()
}

/// A little of each.
fn mixed(count: u64) -> Vec<(u64, Kind)> {
    let kinds = [PING, COLLISION, RECEIPTS, ROSTER];
    let all = waves(count, 1, PING).into_iter().zip(kinds.into_iter().cycle());
    all.map(|((at, _), kind)| (at, kind)).collect()
}

#[test]
fn whoever_floods_gets_little_more_than_the_rate() {
    println!("{:32}| served/s | worst but three | posts/s | busy | suspended", "");
    for (name, requests, served_max) in [
        ("160 at once, each second", waves(160, 1, PING), 16.5),
        ("16 at once, ten times a second", waves(16, 10, PING), 16.5),
        ("2,000 a second, even", waves(1, 2_000, PING), 16.5),
        ("40 at once, each second", waves(40, 1, PING), 16.5),
        ("25 at once, each second", waves(25, 1, PING), 20.0),
        ("25 a second, even", waves(1, 25, PING), 16.5),
        ("120 collisions a second, even", waves(1, 120, COLLISION), 16.5),
        ("120 collisions at once", waves(120, 1, COLLISION), 16.5),
        ("12 acks a second with 100 posts", waves(1, 12, RECEIPTS), 16.5),
        ("60 rosters a second, even", waves(1, 60, ROSTER), 16.5),
        ("160 of all kinds at once", mixed(160), 16.5),
    ] {
        let mut outcomes: Vec<Outcome> = (0..SEEDS).map(|seed| run(&requests, seed)).collect();
        let per_second =
            |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>() as f64 / (SEEDS * SECONDS) as f64;
        let (served, posts) = (per_second(|outcome| outcome.served), per_second(|outcome| outcome.posts));
        let busy = outcomes.iter().map(|outcome| outcome.busy_max).max().unwrap();
        let suspended = outcomes.iter().filter(|outcome| outcome.suspended > 0).count();
        outcomes.sort_by_key(|outcome| outcome.served);
        let worst = outcomes[outcomes.len() - 4].served as f64 / SECONDS as f64;
        println!("{name:32}| {served:8.1} | {worst:15.1} | {posts:7.1} | {busy:4} | {suspended} of {SEEDS}");
        assert!(served <= served_max, "{name}: {served}");
        assert!(posts <= 300.0, "{name}: {posts}");
        assert!(busy <= BUSY_MAX, "{name}: {busy} processes");
    }
}

/// One after another: each is sent after the reply to the one before.
fn sequence(count: u64, every_ms: u64, kind: Kind) -> Vec<(u64, Kind)> {
    (0..count).map(|n| (n * every_ms * 1000, kind)).collect()
}

#[test]
fn whoever_does_what_a_person_can_is_never_refused() {
    let page = Kind { held_ms: 45, posts: 6, half_read_units: 50 };
    let desk = Kind { held_ms: 60, posts: 4, half_read_units: 10 };
    // A phone that was away for a week: the list, the pages of what is pending, then the history of the chats that are opened.
    let week: Vec<_> = sequence(5, 120, ROSTER_OF_SMALL)
        .into_iter()
        .chain(sequence(100, 130, page).into_iter().map(|(at, kind)| (at + 600_000, kind)))
        .collect();
    for (name, requests) in [
        ("a phone that drains 10,000 messages", sequence(80, 120, page)),
        ("a support desk with 50 open chats, for an hour", sequence(3_600 * 4, 250, desk)),
        ("a reconnect after a week", week),
        (
            "somebody who writes without end in a group of 32",
            sequence(1_000, 500, Kind { held_ms: 90, posts: 62, half_read_units: 80 }),
        ),
    ] {
        for seed in 0..200 {
            let outcome = run(&requests, seed);
            assert_eq!((outcome.refused, outcome.suspended), (0, 0), "{name}, seed {seed}");
        }
    }
}

const ROSTER_OF_SMALL: Kind = Kind { held_ms: 40, posts: 0, half_read_units: 60 };
