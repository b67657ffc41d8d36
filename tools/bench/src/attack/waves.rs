//! Attackers whose frames each find a process of their own, as on AWS, while each call of the database takes some time.
//! A process sees only a part of such an attack. The bars here limit what all processes together let a user do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use testkit::TestServer;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use super::attackers::{ATTACKER, Attack};
use super::pairs::{self, Noticed, Span};
use super::socket::{Heard, Socket, heard, open};
use super::{GRACE, MEASURED, NOTICED, Report, Site, WARM_UP, is_noticed, limits, name, report};

/// The sockets that a user may have.
const SOCKETS: usize = 16;
/// The concurrent processes of a function. Further events wait.
pub(super) const PROCESSES: usize = 160;
/// The added time of each call of the database.
pub(super) const LATENCY: Duration = Duration::from_millis(8);
/// The time between waves: longer than `retry_after_ms` of a refusal.
const WAVES_EVERY: Duration = Duration::from_millis(1_050);
/// Each message uses a process for longer here, and the machine has two cores.
const PAIRS_PAUSE: Duration = Duration::from_secs(2);
/// The pause after a refused socket.
const RETRY: Duration = Duration::from_secs(1);
/// The largest group that gets `typing`.
const MEMBERS: usize = 32;
/// The largest `ack`.
const ACKED: usize = 25;
/// One more than a page of `inbox`.
const ROWS: usize = 51;
const LARGE_BYTES: usize = 16_000;
const LARGE_MESSAGES: usize = 8;

/// The documented rate of an action times 1.5: 60 in a burst, then 10 per second.
const ACTION_MAX: f64 = 1.5 * (60.0 + 10.0 * MEASURED.as_secs_f64()) / MEASURED.as_secs_f64();
/// The time of the first waves: until then the server knows nothing of the user.
const FIRST_S: usize = 2;
/// The other bars count once the first waves have been served. On AWS that takes less than these two seconds, and longer
/// on two cores. A server that is still busy after this time misses the bars.
const SERVED_S_MAX: usize = 12;
/// Maximum of busy processes of a server that has served the first waves. The pairs keep a few busy.
const QUIET: usize = 5;
/// A server that is busy again within this time has not served the first waves.
const QUIET_FOR: Duration = Duration::from_millis(200);
const POSTS_MAX: f64 = 300.0;
const BUSY_MAX: usize = 20;
/// The units that one partition can read in a second.
const PARTITION_READS_MAX: f64 = 3_000.0;

/// One wave after another over all sockets.
struct Waves {
    server: Arc<TestServer>,
    frames: Vec<String>,
    number: AtomicUsize,
    of_socket: usize,
    every: Duration,
}

/// The outcome.
#[derive(Default)]
struct Gained {
    /// Successful requests, by action.
    accepted: BTreeMap<String, usize>,
    refused: usize,
    closed: usize,
    /// Sockets that did not open.
    turned_away: usize,
}

impl Gained {
    fn add(&mut self, other: Self) {
        for (action, count) in other.accepted {
            *self.accepted.entry(action).or_default() += count;
        }
        self.refused += other.refused;
        self.closed += other.closed;
        self.turned_away += other.turned_away;
    }

    /// Counts a frame. Returns false at the end of the socket.
    fn count(&mut self, heard: &Heard) -> bool {
        match heard {
            Heard::Reply(frame) => {
                *self.accepted.entry(frame["action"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
            }
            Heard::Refusal(_) | Heard::Throttled => self.refused += 1,
            Heard::Event(_) | Heard::Other => {}
            Heard::End => {
                self.closed += 1;
                return false;
            }
        }
        true
    }
}

/// Runs one attack with the template's limits, and a control server without an attack.
pub(super) async fn round(attack: Attack, written: &mut Report) {
    let (here, beside) = tokio::join!(Site::elastic(), Site::elastic());
    let mut scene = Scene { server: Arc::clone(&here.server), peers: Vec::new(), listening: JoinSet::new() };
    let (frames, of_socket, every) = scene.of(attack).await;
    for route in ["send", "ack", "drain", "inbox", "ping", "typing"] {
        if frames.iter().any(|frame| frame.contains(&format!("\"{route}\""))) {
            here.server.local().warm(route, SOCKETS * of_socket).await.expect("processes start");
        }
    }
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        sockets.push(open(here.server.url(), &here.server.token(ATTACKER)).await.ok());
    }
    let server = Arc::clone(&here.server);
    let waves = Arc::new(Waves { server, frames, number: AtomicUsize::new(0), of_socket, every });
    let (pairs, pairs_beside) = (pairs::connect(&here.server).await, pairs::connect(&beside.server).await);
    let start = Instant::now();
    let (from, until) = (start + WARM_UP, start + WARM_UP + MEASURED);
    let span = Span { pause: PAIRS_PAUSE, start, from, until, end: until + GRACE };
    let attacking = async {
        sleep_until(from).await;
        let _ = (here.spent(), beside.spent());
        waves.run(sockets, from, until).await
    };
    let (noticed, noticed_beside, gained, (busy, served_s), (busy_beside, _)) = tokio::join!(
        pairs::chat(&here.server, pairs, span),
        pairs::chat(&beside.server, pairs_beside, span),
        attacking,
        busy(&here.server, from, until),
        busy(&beside.server, from, until),
    );
    let spent = here.spent();
    let posts = by_second(spent.posted.iter().map(|at| (*at, 1.0)), from);
    let reads = by_second(spent.partition_reads.into_iter(), from);
    Round { attack, gained, posts, reads, busy, busy_beside, served_s, noticed, noticed_beside }.write(written);
}

struct Round {
    attack: Attack,
    gained: Gained,
    posts: Vec<f64>,
    reads: Vec<f64>,
    busy: Vec<f64>,
    busy_beside: Vec<f64>,
    /// The first whole second after the first waves were served.
    served_s: usize,
    noticed: Noticed,
    noticed_beside: Noticed,
}

impl Round {
    fn write(self, written: &mut Report) {
        let Self { attack, gained, posts, reads, busy, busy_beside, served_s, noticed, noticed_beside } = self;
        let most = gained.accepted.iter().max_by_key(|(_, count)| **count);
        let (action, accepted) = most.map_or(("none", 0), |(action, count)| (action.as_str(), *count));
        let rate = accepted as f64 / MEASURED.as_secs_f64();
        let (first, later) = (worst(&posts, 0..served_s), worst(&posts, served_s..usize::MAX));
        let reads = worst(&reads, served_s..usize::MAX);
        let (busy_first, busy) = (worst(&busy, 0..served_s), worst(&busy, served_s..usize::MAX));
        let busy_beside = worst(&busy_beside, served_s..usize::MAX);
        let Gained { refused, closed, turned_away, .. } = gained;
        let at = |noticed: &Noticed, percent| report::percentile_ms(&noticed.latencies, percent);
        let pairs = [&noticed, &noticed_beside].map(|noticed| format!("{:.0}", at(noticed, 99))).join(" | ");
        let unwell = noticed.refused + noticed.lost + noticed.closed + noticed.turned_away;
        let name = name(attack);
        let _ = writeln!(
            written.waves,
            "| {name} | {action} {rate:.1} | {served_s} | {first:.0} | {later:.0} | {busy_first:.0} | {busy:.0} | {busy_beside:.0} | {reads:.0} | {refused} | {closed} | {turned_away} | {pairs} | {unwell} |"
        );
        let mut wrong = Vec::new();
        let mut bar = |holds: bool, what: String| wrong.extend((!holds).then_some(what));
        bar(served_s <= SERVED_S_MAX, format!("busy for {served_s} s"));
        bar(rate <= ACTION_MAX, format!("{rate:.1} {action}/s"));
        bar(later <= POSTS_MAX, format!("{later:.0} posts/s"));
        bar(busy - busy_beside <= BUSY_MAX as f64, format!("{busy:.0} processes busy"));
        bar(reads <= PARTITION_READS_MAX, format!("{reads:.0} units/s of one partition"));
        bar(closed > 0, "never closed".to_owned());
        bar(!is_noticed(&noticed, &noticed_beside), NOTICED.to_owned());
        written.conclude(&name, limits(true), [&noticed, &noticed_beside], &wrong);
    }
}

/// The maximum of a second.
fn worst(seconds: &[f64], of: std::ops::Range<usize>) -> f64 {
    let end = of.end.min(seconds.len());
    seconds.get(of.start.min(end)..end).unwrap_or_default().iter().copied().fold(0.0, f64::max)
}

fn by_second(events: impl Iterator<Item = (Instant, f64)>, from: Instant) -> Vec<f64> {
    let mut seconds = Vec::new();
    for (at, weight) in events {
        let second = usize::try_from(at.saturating_duration_since(from).as_secs()).unwrap_or_default();
        seconds.resize(seconds.len().max(second + 1), 0.0);
        seconds[second] += weight;
    }
    seconds
}

/// Counts the busy processes in each second. Returns also the first whole second after the first waves were served.
async fn busy(server: &Arc<TestServer>, from: Instant, until: Instant) -> (Vec<f64>, usize) {
    let seconds = usize::try_from(MEASURED.as_secs()).unwrap_or_default() + 1;
    let (mut most, mut quiet_since, mut served_s) = (vec![0.0; seconds], None, None);
    sleep_until(from).await;
    while Instant::now() < until {
        let second = usize::try_from(from.elapsed().as_secs()).unwrap_or_default();
        let running = server.local().running();
        most[second] = f64::max(most[second], running as f64);
        let quiet = if running <= QUIET { *quiet_since.get_or_insert_with(Instant::now) } else { Instant::now() };
        if running > QUIET {
            quiet_since = None;
        }
        if served_s.is_none() && second >= FIRST_S && quiet.elapsed() >= QUIET_FOR {
            // The rest of this second has a part of the first waves.
            served_s = Some(second + 1);
        }
        sleep(Duration::from_millis(5)).await;
    }
    (most, served_s.unwrap_or(seconds))
}

impl Waves {
    async fn run(self: Arc<Self>, sockets: Vec<Option<Socket>>, from: Instant, until: Instant) -> Gained {
        let mut flooding = JoinSet::new();
        for socket in sockets {
            flooding.spawn(Arc::clone(&self).flood(socket, from, until));
        }
        let mut all = Gained::default();
        for gained in flooding.join_all().await {
            all.add(gained);
        }
        all
    }

    async fn flood(self: Arc<Self>, mut socket: Option<Socket>, from: Instant, until: Instant) -> Gained {
        let mut gained = Gained::default();
        while Instant::now() < until {
            let opened = match socket.take() {
                Some(socket) => Ok(socket),
                None => open(self.server.url(), &self.server.token(ATTACKER)).await,
            };
            if let Ok(socket) = opened {
                self.flood_one(socket, from, until, &mut gained).await;
            } else {
                gained.turned_away += 1;
                sleep(RETRY).await;
            }
        }
        gained
    }

    async fn flood_one(&self, socket: Socket, from: Instant, until: Instant, gained: &mut Gained) {
        let (mut sink, mut stream) = socket.split();
        // All sockets at the same moment, including those that were opened later.
        let passed = from.elapsed().as_secs_f64() / self.every.as_secs_f64();
        // The attack begins with its first wave: bars count seconds from there.
        let waves = if passed < 0.5 { 0.0 } else { passed.ceil() };
        let mut ticks = interval_at(from + self.every.mul_f64(waves), self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let writing = async {
            loop {
                ticks.tick().await;
                for _ in 0..self.of_socket {
                    let number = self.number.fetch_add(1, Ordering::Relaxed);
                    let frame = self.frames[number % self.frames.len()].replace("NUMBER", &number.to_string());
                    // The socket is closed; the reading side finds that.
                    let _ = sink.feed(Message::text(frame)).await;
                }
                let _ = sink.flush().await;
            }
        };
        let reading = async { while gained.count(&heard(stream.next().await)) {} };
        tokio::select! {
            () = writing => {}
            () = reading => {}
            () = sleep_until(until) => {}
        }
    }
}

/// The state before an attack begins.
struct Scene {
    server: Arc<TestServer>,
    peers: Vec<String>,
    /// The sockets of the other users, which read all frames.
    listening: JoinSet<()>,
}

impl Scene {
    /// The frames of an attack, the frames per socket and wave, and the time between waves.
    async fn of(&mut self, attack: Attack) -> (Vec<String>, usize, Duration) {
        match attack {
            Attack::OwnGroup => (self.own_group().await, 1, Duration::from_millis(133)),
            Attack::Acks => (self.acks().await, 2, WAVES_EVERY),
            Attack::GroupFrames => (self.group_frames().await, 1, WAVES_EVERY),
            Attack::PingWaves => (vec![json!({"action": "ping"}).to_string()], 10, WAVES_EVERY),
            Attack::HotPartition => (self.inbox().await, 4, WAVES_EVERY),
            Attack::DrainWaves => (self.drain().await, 1, WAVES_EVERY),
            // All these kinds.
            _ => {
                let mut frames = vec![json!({"action": "ping"}).to_string()];
                frames.extend(self.acks().await);
                frames.extend(self.group_frames().await);
                frames.extend(self.inbox().await);
                frames.extend(self.drain().await);
                frames.extend(self.own_group().await);
                (frames, 2, WAVES_EVERY)
            }
        }
    }

    /// Creates this number of other users. Each has written to the attacker, and recipients of a flood have all their
    /// sockets.
    async fn peers(&mut self, count: usize, sockets: usize) -> Vec<String> {
        let mut conversations = Vec::new();
        for number in 0..count {
            let name = format!("peer-{number}");
            let token = self.server.token(&name);
            let mut socket = open(self.server.url(), &token).await.expect("a good token connects");
            let hello =
                json!({"action": "send", "to": ATTACKER, "client_msg_id": "hello", "kind": "text", "body": "hello"});
            let told = ask(&mut socket, &hello).await;
            conversations.push(told["conversation_id"].as_str().unwrap_or_default().to_owned());
            if self.peers.contains(&name) {
                continue;
            }
            self.peers.push(name);
            let mut opening = JoinSet::new();
            for _ in 1..sockets {
                let (server, token) = (Arc::clone(&self.server), token.clone());
                opening.spawn(async move { open(server.url(), &token).await });
            }
            for mut socket in opening.join_all().await.into_iter().flatten().chain((sockets > 0).then_some(socket)) {
                self.listening.spawn(async move { while let Some(Ok(_)) = socket.next().await {} });
            }
        }
        conversations
    }

    async fn attacker(&self) -> Socket {
        open(self.server.url(), &self.server.token(ATTACKER)).await.expect("a good token connects")
    }

    async fn own_group(&mut self) -> Vec<String> {
        let create = json!({"action": "create", "client_msg_id": "own", "title": "own", "members": []});
        let made = ask(&mut self.attacker().await, &create).await;
        vec![to_group(&made)]
    }

    async fn acks(&mut self) -> Vec<String> {
        let conversations = self.peers(MEMBERS - 1, SOCKETS).await;
        let up_to = conversations.iter().take(ACKED).map(|id| json!({"conversation_id": id, "seq": 1}));
        let up_to: Vec<Value> = up_to.collect();
        let ack = json!({"action": "ack", "up_to": up_to}).to_string();
        vec![ack, json!({"action": "drain", "ack": up_to}).to_string()]
    }

    async fn group_frames(&mut self) -> Vec<String> {
        self.peers(MEMBERS - 1, SOCKETS).await;
        let members = &self.peers[..MEMBERS - 1];
        let create = json!({"action": "create", "client_msg_id": "many", "title": "many", "members": members});
        let made = ask(&mut self.attacker().await, &create).await;
        let typing = json!({"action": "typing", "conversation_id": made["conversation_id"]}).to_string();
        vec![typing, to_group(&made)]
    }

    async fn inbox(&mut self) -> Vec<String> {
        self.peers(ROWS, 0).await;
        vec![json!({"action": "inbox", "limit": ROWS - 1}).to_string()]
    }

    /// Groups of others with large messages, which the attacker never acknowledges.
    async fn drain(&mut self) -> Vec<String> {
        let mut writing = JoinSet::new();
        for number in 0..ACKED {
            let server = Arc::clone(&self.server);
            writing.spawn(async move {
                let token = server.token(&format!("author-{number}"));
                let mut socket = open(server.url(), &token).await.expect("a good token connects");
                let create =
                    json!({"action": "create", "client_msg_id": "large", "title": "large", "members": [ATTACKER]});
                let made = ask(&mut socket, &create).await;
                for number in 0..LARGE_MESSAGES {
                    let mut frame: Value = serde_json::from_str(&to_group(&made)).expect("it is JSON");
                    frame["client_msg_id"] = json!(format!("m{number}"));
                    frame["body"] = json!("x".repeat(LARGE_BYTES));
                    ask(&mut socket, &frame).await;
                }
            });
        }
        writing.join_all().await;
        vec![json!({"action": "drain"}).to_string()]
    }
}

fn to_group(made: &Value) -> String {
    let id = &made["conversation_id"];
    json!({"action": "send", "conversation_id": id, "client_msg_id": "mNUMBER", "kind": "text", "body": "hello"})
        .to_string()
}

/// Repeats a request while the server requests a wait, and returns the result.
pub(super) async fn ask(socket: &mut Socket, frame: &Value) -> Value {
    loop {
        socket.send(Message::text(frame.to_string())).await.expect("the socket is open");
        loop {
            match heard(socket.next().await) {
                Heard::Reply(mut frame) => return frame["result"].take(),
                Heard::Refusal(refusal) => {
                    let code = refusal["error"]["code"].as_str().unwrap_or_default();
                    assert!(matches!(code, "rate_limited" | "conflict" | "unavailable"), "{frame}: {refusal}");
                    sleep(Duration::from_millis(refusal["error"]["retry_after_ms"].as_u64().unwrap_or(100))).await;
                    break;
                }
                Heard::End => panic!("whoever waits is not closed"),
                Heard::Throttled | Heard::Event(_) | Heard::Other => {}
            }
        }
    }
}
