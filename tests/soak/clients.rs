//! Users of the Rust, the Kotlin and the web client chat in pairs, over a server with faults and sockets that are cut.
//! Kotlin and Node apps are killed at any time and started again, Rust apps are closed and opened again. At the end, the
//! server has each message once and in order, and the views of both users show exactly that.
//!
//! `just soak-clients MESSAGES SEED` builds the clients and runs this. The seed decides each choice of users and faults;
//! the order of these choices depends on the machine.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use faults::Faults;
use pigeonhole_client::{At, Client, Config, Content, Item, Progress, Screen, Seq, Timing, UserId, View};
use serde_json::Value;
use testkit::{Network, Proxy, TestServer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

const USERS: [&str; 6] = ["rust-1", "rust-2", "kotlin-1", "kotlin-2", "node-1", "node-2"];
/// One call to AWS in this many fails.
const FAULT_ONE_IN: u32 = 40;
/// A user's network breaks at one in this many own messages.
const CUT_ONE_IN: u32 = 30;
/// A user's app ends at one in this many own messages.
const END_ONE_IN: u32 = 50;
/// One app in this many is killed soon after its start, perhaps before it has opened its store.
const END_EARLY_ONE_IN: u32 = 4;
const EARLY_MS: std::ops::Range<u64> = 100..3_000;
/// Messages of a Rust user to a peer that wait for the server's reply. The other programs have the same number.
const UNDER_WAY_MAX: u64 = 8;
/// If nothing changes for this long, what is missing counts as lost.
const PATIENCE: Duration = Duration::from_mins(2);

/// An entry of a conversation: its `seq`, its sender and its text.
type Entry = (u64, String, String);

/// A conversation as a view shows it.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    entries: Vec<Entry>,
    unread: u64,
    /// Own messages that are neither delivered nor read.
    under_way: Vec<String>,
}

/// The state of an app: the conversation with each peer, and the requests in the outbox.
#[derive(Debug, Default, PartialEq)]
struct Report {
    seen: BTreeMap<String, Seen>,
    outbox: u64,
}

#[derive(Debug, Default)]
struct Counts {
    ends: u64,
    cuts: u64,
    reconnects: u64,
    /// Messages that the outbox had before a kill, and not after it.
    forgotten: u64,
}

struct User {
    name: &'static str,
    /// Messages to each peer.
    messages: u64,
    /// The number of the last message to each peer.
    said: BTreeMap<&'static str, u64>,
    server: Arc<TestServer>,
    network: Network,
    folder: PathBuf,
    rng: Rng,
    counts: Counts,
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_show_each_message_once_and_in_order() {
    let parameter =
        |name, otherwise: u64| std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (messages, seed) = (parameter("PIGEONHOLE_MESSAGES", 3_000), parameter("PIGEONHOLE_SEED", 1));
    let each = messages.div_ceil((USERS.len() * (USERS.len() - 1)) as u64);
    let faults = Arc::new(Faults::new(seed, FAULT_ONE_IN));
    let proxy = Proxy::open({
        let faults = Arc::clone(&faults);
        move |_, call| faults.draw(call)
    })
    .await;
    let (server, started) = (proxy.server().await, Instant::now());
    let folder = std::env::temp_dir().join(format!("pigeonhole-soak-clients-{}", std::process::id()));
    faults.begin();

    let (mut rusts, mut programs) = (JoinSet::new(), JoinSet::new());
    for (number, name) in USERS.into_iter().enumerate() {
        let rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let said = USERS.into_iter().filter(|peer| *peer != name).map(|peer| (peer, 0)).collect();
        let (network, folder) = (Network::to(&server).await, folder.join(name));
        std::fs::create_dir_all(&folder).expect("it can be made");
        let (server, counts) = (Arc::clone(&server), Counts::default());
        let user = User { name, messages: each, said, server, network, folder, rng, counts };
        if name.starts_with("rust") {
            rusts.spawn(Rust::chat(user));
        } else {
            programs.spawn(Program::chat(user));
        }
    }
    // Panics if a user has.
    let (mut rusts, mut programs) = (rusts.join_all().await, programs.join_all().await);

    let (mut reports, mut since) = (BTreeMap::new(), Instant::now());
    while !is_settled(&reports, each) && since.elapsed() < PATIENCE {
        let mut now = BTreeMap::new();
        for app in &mut rusts {
            now.insert(app.user.name, app.report().await);
        }
        for app in &mut programs {
            now.insert(app.user.name, app.report().await);
        }
        if now != reports {
            (reports, since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let mut counts = Counts::default();
    for user in rusts.iter().map(|app| &app.user).chain(programs.iter().map(|app| &app.user)) {
        counts.ends += user.counts.ends;
        counts.cuts += user.counts.cuts;
        counts.reconnects += user.counts.reconnects;
        counts.forgotten += user.counts.forgotten;
    }
    counts.reconnects += rusts.iter().map(|app| app.client.stats().reconnects).sum::<u64>();
    let tally = faults.tally();
    let wrong = check(&server, &reports, each, counts.forgotten);
    println!(
        "{} messages in {:.0} s: {} kills and restarts, {} sockets cut, {} reconnects, {} faults in {} calls to AWS; {}",
        each * (USERS.len() * (USERS.len() - 1)) as u64,
        started.elapsed().as_secs_f64(),
        counts.ends,
        counts.cuts,
        counts.reconnects,
        tally.faults.values().sum::<u64>(),
        tally.calls,
        wrong.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", "),
    );
    for app in programs {
        app.end().await;
    }
    assert!(wrong.iter().all(|(_, count)| *count == 0), "{wrong:?}; the apps' files are in {}", folder.display());
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    assert!(counts.ends > 0 && counts.cuts > 0, "nothing was disturbed: this proves little");
}

fn is_settled(reports: &BTreeMap<&str, Report>, each: u64) -> bool {
    let is_whole = |seen: &Seen| seen.entries.len() as u64 >= 2 * each && seen.unread == 0 && seen.under_way.is_empty();
    reports.len() == USERS.len() && reports.values().all(|all| all.outbox == 0 && all.seen.values().all(is_whole))
}

/// Compares the reports with the server's table. Counts that must be zero.
fn check(server: &TestServer, reports: &BTreeMap<&str, Report>, each: u64, forgotten: u64) -> Vec<(&'static str, u64)> {
    let rows = server.local().database().rows("MessagesTable", usize::MAX).unwrap().expect("there is such a table");
    let user = |name: &str| UserId::parse(name).expect("a name");
    let (mut lost, mut doubled, mut out_of_order, mut differing) = (0, 0, 0, 0);
    for (number, one) in USERS.into_iter().enumerate() {
        for other in &USERS[number + 1..] {
            let id = wire::direct_conversation_id(&user(one), &user(other));
            let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let log = rows.iter().filter(|row| row["conversation_id"] == id.as_str());
            let log =
                log.map(|row| (row["seq"].as_u64().unwrap_or_default(), text(row, "sender_id"), text(row, "body")));
            let mut log: Vec<Entry> = log.collect();
            log.sort();
            for sender in [one, *other] {
                let said = log.iter().filter(|entry| entry.1 == sender);
                let said: Vec<u64> = said.map(|entry| entry.2.parse().expect("a number")).collect();
                let distinct: BTreeSet<&u64> = said.iter().collect();
                lost += (1..=each).filter(|number| !distinct.contains(number)).count();
                doubled += said.len() - distinct.len();
                out_of_order += said.windows(2).filter(|pair| pair[0] > pair[1]).count();
            }
            for (me, peer) in [(one, *other), (*other, one)] {
                let seen = &reports[me].seen[peer].entries;
                if *seen != log {
                    let at = seen.iter().zip(&log).position(|(seen, entry)| seen != entry);
                    println!("{me} sees {} entries of {} with {peer}, others from {at:?}", seen.len(), log.len());
                    differing += 1;
                }
                for message in &reports[me].seen[peer].under_way {
                    println!("{me} to {peer}: {message}, of {} entries", log.len());
                }
            }
        }
    }
    let all_seen = || reports.values().flat_map(|report| report.seen.values());
    vec![
        ("lost", lost as u64),
        ("doubled", doubled as u64),
        ("out of order", out_of_order as u64),
        ("forgotten", forgotten),
        ("differing views", differing),
        ("not delivered", all_seen().map(|seen| seen.under_way.len() as u64).sum()),
        ("unread", all_seen().map(|seen| seen.unread).sum()),
        ("in an outbox", reports.values().map(|report| report.outbox).sum()),
    ]
}

/// A user with the Rust client.
struct Rust {
    user: User,
    client: Client,
    views: BTreeMap<&'static str, View<Screen>>,
}

impl Rust {
    async fn chat(user: User) -> Self {
        let (client, views) = Self::open(&user).await;
        let mut this = Self { user, client, views };
        loop {
            let User { messages, said, rng, .. } = &mut this.user;
            let left: Vec<&'static str> = said.iter().filter(|(_, said)| **said < *messages).map(|it| *it.0).collect();
            let Some(peer) = rng.choice(left) else { return this };
            let number = said.get_mut(peer).expect("a peer");
            *number += 1;
            let sent = this.client.send_to(peer, number.to_string()).await.expect("it goes into the outbox");
            if number.is_multiple_of(UNDER_WAY_MAX) {
                sent.stored().await.expect("it is stored");
            }
            see(&this.views[peer]);
            if this.user.rng.u32(..CUT_ONE_IN) == 0 {
                this.user.cut();
            }
            if this.user.rng.u32(..END_ONE_IN) == 0 {
                this.user.network.cut();
                this.user.counts.ends += 1;
                this.user.counts.reconnects += this.client.stats().reconnects;
                this.client.close().await;
                (this.client, this.views) = Self::open(&this.user).await;
            }
        }
    }

    async fn open(user: &User) -> (Client, BTreeMap<&'static str, View<Screen>>) {
        let token = user.server.token(user.name);
        let give = move |_| std::future::ready(Ok(token.clone()));
        let config = Config::new(user.network.url(), user.name, give).store(user.folder.join("store"));
        let (client, _) = Client::connect(config.timing(timing())).await.expect("its store is closed");
        let view = |peer| client.direct(peer).unwrap().messages(At::Newest).unwrap();
        let views = user.said.keys().map(|peer| (*peer, view(peer))).collect();
        (client, views)
    }

    async fn report(&mut self) -> Report {
        let mut report = Report { outbox: self.client.outbox().await.unwrap().len() as u64, ..Report::default() };
        for (peer, view) in &mut self.views {
            let (unread, items) = whole(view).await;
            let mut seen = Seen { unread, ..Seen::default() };
            for item in items {
                seen.entries.push(match &item.content {
                    Content::Message(message) => {
                        let is_over = |progress| matches!(progress, &Progress::Delivered | &Progress::Read);
                        if !message.progress.as_ref().is_none_or(is_over) {
                            seen.under_way.push(format!("{} is {:?}", message.body, message.progress));
                        }
                        let seq = message.seq.map_or(0, Seq::value);
                        (seq, message.sender_id.to_string(), message.body.clone())
                    }
                    other => (0, String::new(), format!("{other:?}")),
                });
            }
            report.seen.insert((*peer).to_owned(), seen);
        }
        report
    }
}

/// The user has seen the last stored message.
fn see(view: &View<Screen>) {
    let is_stored = |content: &Content| matches!(content, Content::Message(message) if message.seq.is_some());
    if let Some(screen) = view.shown()
        && let Some(item) = screen.messages.items.iter().rfind(|item| is_stored(&item.content))
    {
        view.seen(&item.key);
    }
}

/// The whole conversation without its separators, and the number of unread messages. A view shows a part of it, so this
/// begins at the end, and puts what is older before what it has.
async fn whole(view: &mut View<Screen>) -> (u64, Vec<Arc<Item>>) {
    view.jump(At::Newest);
    let screen = shown(view, |screen| !screen.messages.has_newer).await;
    see(view);
    let (unread, mut items) = (screen.messages.unread, drawn(&screen));
    let mut has_older = screen.messages.has_older;
    while has_older {
        view.older();
        // A page that was lost must be requested again.
        let _ = timeout(Duration::from_secs(1), view.changed()).await;
        let screen = shown(view, |_| true).await;
        let older = drawn(&screen);
        let is_known = |item: &Arc<Item>| items.first().is_some_and(|first| first.key == item.key);
        let new = older.iter().position(is_known).unwrap_or(older.len());
        items.splice(..0, older.into_iter().take(new));
        has_older = screen.messages.has_older;
    }
    (unread, items)
}

fn drawn(screen: &Screen) -> Vec<Arc<Item>> {
    let is_separator = |item: &&Arc<Item>| matches!(item.content, Content::Day { .. } | Content::Unread { .. });
    screen.messages.items.iter().filter(|item| !is_separator(item)).cloned().collect()
}

/// Waits until the view shows such a part.
async fn shown(view: &mut View<Screen>, is_right: impl Fn(&Screen) -> bool) -> Screen {
    loop {
        if let Some(screen) = view.shown().filter(&is_right) {
            return screen;
        }
        let _ = timeout(Duration::from_secs(1), view.changed()).await;
    }
}

/// A user with another client, in a process of its own.
struct Program {
    user: User,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    async fn chat(mut user: User) -> Self {
        loop {
            let (process, lines) = Self::start(&user);
            let mut this = Self { user, process, lines };
            let early = this.user.rng.u64(EARLY_MS);
            if this.user.rng.u32(..END_EARLY_ONE_IN) > 0 {
                if this.talk(true).await {
                    return this;
                }
            } else if let Ok(true) = timeout(Duration::from_millis(early), this.talk(false)).await {
                return this;
            }
            this.user.counts.ends += 1;
            this.process.start_kill().expect("it runs");
            // Its last lines are in the pipe.
            while let Some(line) = this.lines.next_line().await.unwrap() {
                this.user.take(&line);
            }
            this.process.wait().await.unwrap();
            user = this.user;
        }
    }

    /// Follows the user until all is in the outbox, or it is time for a kill. Returns whether all is.
    async fn talk(&mut self, kills: bool) -> bool {
        loop {
            let line = self.lines.next_line().await.unwrap().expect("the app runs until it is killed");
            if line == "all" {
                return true;
            }
            if !self.user.take(&line) {
                continue;
            }
            if self.user.rng.u32(..CUT_ONE_IN) == 0 {
                self.user.cut();
            }
            if kills && self.user.rng.u32(..END_ONE_IN) == 0 {
                return false;
            }
        }
    }

    fn start(user: &User) -> (Child, Lines<BufReader<ChildStdout>>) {
        let peers: Vec<&str> = user.said.keys().copied().collect();
        let mut process = client(user.name)
            .args([&user.network.url(), &user.server.token(user.name), user.name])
            .arg(&user.folder)
            .args([peers.join(","), user.messages.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Java and Node are there");
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        (process, lines)
    }

    async fn tell(&mut self, what: &str) {
        self.process.stdin.as_mut().unwrap().write_all(what.as_bytes()).await.expect("the app runs");
    }

    async fn report(&mut self) -> Report {
        self.tell("report\n").await;
        let mut report = Report::default();
        loop {
            let line = self.lines.next_line().await.unwrap().expect("the app runs until its end");
            match serde_json::from_str(&line) {
                Ok(Value::Number(outbox)) => {
                    report.outbox = outbox.as_u64().unwrap();
                    return report;
                }
                Ok(seen) => _ = report.seen.insert(seen["peer"].as_str().unwrap().to_owned(), of_program(&seen)),
                Err(_) => _ = self.user.take(&line),
            }
        }
    }

    async fn end(mut self) {
        self.tell("end\n").await;
        assert!(self.process.wait().await.unwrap().success());
    }
}

fn of_program(seen: &Value) -> Seen {
    let items = seen["items"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_over = |item: &&Value| matches!(item[3].as_str(), None | Some("delivered" | "read"));
    Seen {
        entries: items.iter().map(|it| (it[0].as_u64().unwrap_or_default(), text(&it[1]), text(&it[2]))).collect(),
        unread: seen["unread"].as_u64().unwrap(),
        under_way: items.iter().filter(|item| !is_over(item)).map(Value::to_string).collect(),
    }
}

/// The program of the user's client, which the user's arguments follow.
fn client(user: &str) -> Command {
    if user.starts_with("node") {
        let mut node = Command::new("node");
        node.arg(template::workspace_root().join("clients/web/scripts/soak.js"));
        return node;
    }
    let mut java = Command::new("java");
    java.args([
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        &classpath(),
        "dev.pigeonhole.SoakKt",
    ]);
    java
}

/// The classes of the Kotlin client, of its tests, and what they need.
fn classpath() -> String {
    let built = template::workspace_root().join("target/kotlin");
    let others = std::fs::read_to_string(built.join("classpath")).expect("`just soak-clients` has written it");
    let own = |part: &str| built.join("maven").join(part).display().to_string();
    [own("test-classes"), own("classes"), others.trim().to_owned()].join(":")
}

impl User {
    fn cut(&mut self) {
        self.network.cut();
        self.counts.cuts += 1;
    }

    /// Takes a line of the program. Returns whether a new message is in the outbox.
    fn take(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("said"), Some(peer), Some(number)) => {
                let number = number.parse().expect("a number");
                let last = self.said.iter_mut().find(|(name, _)| **name == peer).expect("a peer").1;
                if number < *last {
                    println!(
                        "{} has put {last} messages to {peer} into the outbox, and continues at {number}",
                        self.name
                    );
                    self.counts.forgotten += *last - number;
                }
                let is_new = number > *last;
                *last = number;
                is_new
            }
            (Some("online"), ..) => {
                self.counts.reconnects += 1;
                false
            }
            _ => panic!("{} printed {line}", self.name),
        }
    }
}

/// Waits are shorter than usual where they would only lengthen the run. The other programs have the same.
fn timing() -> Timing {
    Timing {
        retry_first: Duration::from_millis(50),
        reconnect_first: Duration::from_millis(20),
        reconnect_max: Duration::from_secs(1),
        lifetime: Duration::from_mins(1),
        lifetime_jitter: Duration::from_secs(40),
        ..Timing::default()
    }
}
