//! Users chat through the client library over the real local server. Meanwhile sockets are cut, sandboxes killed, and
//! calls to AWS lost, refused and delayed. The users write and change messages in pairs and in groups with changing
//! members. Some messages have a picture or an own kind. Users change their names, and a backend writes to them. A filter
//! of messages stalls and fails. At the end, the test accounts for every message.
//!
//! `PIGEONHOLE_MESSAGES` and `PIGEONHOLE_SEED` (or `just soak MESSAGES SEED`) set the number and the seed. The seed
//! decides every choice of users and faults. The order in which threads make these choices depends on the machine.
//! With `PIGEONHOLE_EVENTS` (`just soak MESSAGES SEED --events`) a consumer reads the queue of events along.
//! After Ctrl-C the users stop sending, and the test accounts for the messages so far.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod backend;
mod changes;
mod events;
mod faults;
mod filter;
mod groups;
mod media;
mod phones;
mod profiles;
mod timing;
mod user;

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use backend::{Backend, TOLD_ONE_IN};
use events::{Reading, Refusals};
use faults::Faults;
use filter::Judge;
use indicatif::{ProgressBar, ProgressStyle};
use media::Folder;
use pigeonhole_client::ConversationId;
use testkit::{Proxy, TestServer};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use user::{Counts, User};

/// Half of them in groups. `just soak` sends more than the tests have the time for.
const MESSAGES: usize = 3_000;
const USERS: usize = 16;
/// Each chats with those next to it.
const NEIGHBOURS: [usize; 4] = [1, 2, USERS - 2, USERS - 1];
/// One call to AWS in this many fails.
const FAULT_ONE_IN: u32 = 40;
/// If no message arrives for this long, the missing ones count as lost.
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn every_message_arrives_once_and_in_order_whatever_breaks() {
    let (messages, seed) = (parameter("PIGEONHOLE_MESSAGES", MESSAGES), parameter("PIGEONHOLE_SEED", 1));
    let (judge, filter) = Judge::start().await;
    let (_proxy, server, faults, refusals) = server(seed, filter).await;
    let started = Instant::now();
    let (counts, stop, done) = (Arc::new(Counts::default()), CancellationToken::new(), CancellationToken::new());
    tokio::spawn(stop_by_hand(stop.clone()));
    let reading = Reading::start(&server, &refusals).await;
    let name = |number: usize| format!("user-{}", number % USERS);
    phones::register(&server, (0..USERS).map(name)).await;
    let (in_groups, messages) = (messages / 2, messages - messages / 2);
    let backend = Backend::start(&server, (0..USERS).map(name).collect(), USERS / 2, seed, &counts).await;
    let users = everybody(&server, messages, in_groups, seed, (&counts, backend.group())).await;
    let all_groups = Arc::clone(&users[0].groups.all);
    faults.begin();
    server.group_stream().duplicate(true);
    let telling = tokio::spawn(backend.tell((messages + in_groups) / TOLD_ONE_IN, [stop.clone(), done.clone()]));
    let mut chatting = JoinSet::new();
    for user in users {
        chatting.spawn(user.chat(stop.clone(), done.clone()));
    }
    watch(messages as u64, in_groups as u64, &counts, &stop).await;
    groups::settled(&server).await;
    done.cancel();
    // Panics if a user has.
    let mut users = chatting.join_all().await;
    let backend = telling.await.expect("it has not panicked");
    let pending = settle(&mut users).await;
    let of_groups = groups::check(&server, &mut users, &all_groups).await;
    for user in &mut users {
        user.check_views().await;
        user.check_ticks().await;
        user.check_badges().await;
    }
    let pictures = media::check(&server, &users).await;
    let other_names = profiles::check(&users).await;
    let phones = phones::ring_and_clear(&server, &mut users).await;
    let consumed = reading.end(&server).await;

    let tally = faults.tally();
    let sent = counts.sent.load(Relaxed);
    let wanted = if stop.is_cancelled() { sent } else { messages as u64 };
    println!("{sent} messages among {USERS} users, seed {seed}: {:.0} s", started.elapsed().as_secs_f64());
    table(&account(&counts, &users));
    table(&of_groups.account(&counts));
    table(&[backend.account(), pictures.account(&counts)].concat());
    table(&judge.account());
    table(&consumed.account);
    table(&[
        ("conversations that phones rang for", phones.rung),
        ("notifications that were not marked", phones.unmarked),
        ("calls to AWS", tally.calls),
        ("of them with a fault", tally.faults.values().sum()),
    ]);
    table(&tally.faults.iter().map(|(name, count)| (*name, *count)).collect::<Vec<_>>());
    let mut wrong = wrong(&counts, wanted);
    wrong.extend([
        ("users with something left pending", pending),
        ("names that are not the last", other_names),
        ("conversations that no phone rang for", phones.silent),
        ("notifications of what was read", phones.left),
    ]);
    wrong.extend(of_groups.wrong(&counts));
    wrong.extend(backend.wrong());
    wrong.extend(pictures.wrong(&counts));
    wrong.extend(consumed.wrong);
    table(&wrong);
    assert!(wrong.iter().all(|(_, count)| *count == 0), "{wrong:?}");
    let disturbed = tally.faults.values().sum::<u64>() + counts.cuts.load(Relaxed) + counts.restarts.load(Relaxed);
    assert!(disturbed * 10 >= wanted, "only {disturbed} faults: this proves little");
    proves_something(&counts, phones.rung, wanted);
    judge.proves_something();
}

/// Starts a server whose calls to AWS fail.
async fn server(seed: u64, filter: String) -> (Proxy, Arc<TestServer>, Arc<Faults>, Arc<Refusals>) {
    let (faults, refusals) = (Arc::new(Faults::new(seed, FAULT_ONE_IN)), Arc::new(Refusals::default()));
    let proxy = Proxy::open({
        let (faults, refusals) = (Arc::clone(&faults), Arc::clone(&refusals));
        move |function, call| refusals.draw(function, call).or_else(|| faults.draw(call))
    })
    .await;
    // A connected user has a second. Some get a notification, since recovery takes longer.
    let server = proxy
        .server_with(|options| {
            TestServer::ringing(options, 1);
            options.parameters.insert("UploadRate".to_owned(), "off".to_owned());
            options.parameters.insert("SendHookMs".to_owned(), filter::TIME_MS.to_string());
            options.send_hook = Some(filter);
            if events::are_wanted() {
                TestServer::publishing(options);
            }
        })
        .await;
    (proxy, server, faults, refusals)
}

fn proves_something(counts: &Counts, rung: u64, wanted: u64) {
    let count = |count: &AtomicU64| count.load(Relaxed);
    assert!(count(&counts.ticks) > 0, "no tick was compared: this proves little");
    assert!(rung > 0, "no phone rang: this proves little");
    assert!(count(&counts.changes) * 10 >= wanted, "few changes: this proves little");
    assert!(count(&counts.churn) * 10 >= count(&counts.in_groups), "little churn: this proves little");
    assert!(count(&counts.pictures) * 20 >= wanted, "few pictures: this proves little");
    assert!(count(&counts.own_kinds) * 20 >= wanted, "few messages of own kinds: this proves little");
    assert!(count(&counts.silent) * 100 >= wanted, "few silent entries: this proves little");
    assert!(count(&counts.renames) > 0, "nobody had another name: this proves little");
    assert!(count(&counts.fetched) > 0, "no picture was fetched: this proves little");
    assert!(count(&counts.published_again) > 0, "nothing was published twice: this proves little");
}

/// Creates the users, each with a share of the messages, and their groups, before faults begin.
async fn everybody(
    server: &Arc<TestServer>,
    messages: usize,
    in_groups: usize,
    seed: u64,
    (counts, shop): (&Arc<Counts>, &ConversationId),
) -> Vec<User> {
    let name = |number: usize| format!("user-{}", number % USERS);
    let share = |all: usize, number: usize| all / USERS + usize::from(number < all % USERS);
    let names: Vec<String> = (0..USERS).map(name).collect();
    let folder = Arc::new(Folder::make());
    let mut users = Vec::new();
    for number in 0..USERS {
        let peers = NEIGHBOURS.map(|away| name(number + away)).to_vec();
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let who = (name(number), names.clone());
        users.push(User::new(server, who, peers, share(messages, number), seed, (counts, &folder)).await);
    }
    let mut groups = groups::make(&users).await;
    groups.push(shop.clone());
    let groups = Arc::new(groups);
    for (number, user) in users.iter_mut().enumerate() {
        (user.groups.all, user.groups.left_to_do) = (Arc::clone(&groups), share(in_groups, number));
    }
    users
}

/// Counts that describe the run.
fn account(counts: &Counts, users: &[User]) -> Vec<(&'static str, u64)> {
    let count = |count: &AtomicU64| count.load(Relaxed);
    let total = |of: fn(pigeonhole_client::Stats) -> u64| users.iter().map(|user| of(user.stats())).sum::<u64>();
    vec![
        ("sent", count(&counts.sent)),
        ("of them changes", count(&counts.changes)),
        ("messages of an own kind, direct", count(&counts.own_kinds)),
        ("silent entries", count(&counts.silent)),
        ("changes of a name", count(&counts.renames)),
        ("changes that came too late, or were too many", count(&counts.declined)),
        ("deletes after which the text was looked for", count(&counts.looked_for)),
        ("answered", count(&counts.answered)),
        ("received", count(&counts.received)),
        ("sent again by clients", total(|stats| stats.resent)),
        ("duplicates dropped by clients", total(|stats| stats.duplicates_dropped)),
        ("gaps repaired by clients", total(|stats| stats.gaps_repaired)),
        ("ticks compared", count(&counts.ticks)),
        ("reconnects", total(|stats| stats.reconnects)),
        ("sockets cut", count(&counts.cuts)),
        ("apps restarted", count(&counts.restarts)),
    ]
}

/// Counts that must be zero.
fn wrong(counts: &Counts, wanted: u64) -> Vec<(&'static str, u64)> {
    let count = |count: &AtomicU64| count.load(Relaxed);
    let sent = count(&counts.sent);
    let lost = 2 * (sent - count(&counts.declined)) - count(&counts.answered) - count(&counts.received);
    vec![
        ("never sent", wanted - sent),
        ("lost", lost),
        ("out of order", count(&counts.out_of_order)),
        ("shown twice", count(&counts.shown_twice)),
        ("refused for good", count(&counts.refused)),
        ("wrong unread", count(&counts.wrong_unread)),
        ("ticks that are not the marks", count(&counts.wrong_ticks)),
        ("views that differ from the log", count(&counts.wrong_views)),
        ("deleted, and found afterwards", count(&counts.not_deleted)),
        ("data of another message, or none", count(&counts.other_data)),
    ]
}

fn parameter<T: FromStr>(name: &str, otherwise: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => otherwise,
    }
}

/// Stops sending at the first Ctrl-C, and ends the run at the second.
async fn stop_by_hand(stop: CancellationToken) {
    for _ in 0..2 {
        tokio::signal::ctrl_c().await.expect("it can be waited for");
        stop.cancel();
    }
    std::process::exit(130);
}

/// Waits until every user has seen every message, or no more arrive.
async fn watch(messages: u64, in_groups: u64, counts: &Counts, stop: &CancellationToken) {
    let bar = ProgressBar::new(messages);
    let style = "{wide_bar} {pos}/{len} received, {per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).expect("a template"));
    let (mut seen, mut since) = ((0, 0, 0), Instant::now());
    loop {
        let in_groups = if stop.is_cancelled() { counts.in_groups.load(Relaxed) } else { in_groups };
        let messages = if stop.is_cancelled() { counts.sent.load(Relaxed) } else { messages };
        // A change that is declined is neither.
        let over = 2 * counts.declined.load(Relaxed) + counts.answered.load(Relaxed);
        let received = counts.received.load(Relaxed);
        bar.set_length(messages);
        bar.set_position(received);
        let (told, published) = (counts.told.load(Relaxed), counts.published.load(Relaxed));
        let now = (over + received, counts.in_groups.load(Relaxed), counts.shown_in_groups.load(Relaxed) + told);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        let groups_are_done = seen.1 == in_groups && counts.waiting_in_groups.load(Relaxed) == 0;
        let backend_is_done = counts.backend_is_done.load(Relaxed) && told == published;
        if (seen.0 == 2 * messages && groups_are_done && backend_is_done) || since.elapsed() > PATIENCE {
            return bar.finish_and_clear();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the last acknowledgements have arrived; the number of users for whom they don't.
async fn settle(users: &mut [User]) -> u64 {
    let mut pending = 0;
    for user in users {
        let acknowledged = async {
            while user.is_pending() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        pending += u64::from(tokio::time::timeout(PATIENCE, acknowledged).await.is_err());
    }
    pending
}

fn table(rows: &[(&str, u64)]) {
    for (name, count) in rows {
        println!("  {name:44}{count:>10}");
    }
    println!();
}
