//! The attackers. Each continues until the end, and opens another socket after the server closes one.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use testkit::TestServer;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use wire::limits::{PROFILES_MAX, REPORT_SEQS_MAX};

use super::WARM_UP;
use super::socket::{Heard, Socket, heard, open};

const SOCKETS: usize = 2_000;
/// Two cores carry a hundred upgrades per second. With more, the bench would measure the machine.
const SOCKETS_PER_SECOND: u32 = 80;
const FRAMES_PER_SECOND: u32 = 1_000;
const STRANGERS: usize = 30_000;
const STRANGERS_SOCKETS: usize = 16;
/// Concurrent upgrades, and concurrent requests over HTTP.
const UPGRADES: usize = 32;
/// The largest page of `history`, and of a DynamoDB read: 64 times 16 KB is 1 MB.
const LARGE_MESSAGES: usize = 64;
const LARGE_BYTES: usize = 16_000;
/// The rate that the limits allow permanently.
const PATIENT_PER_SECOND: u32 = 10;
const RETRY: Duration = Duration::from_millis(100);

/// The user id of the attacker, to whom other users write.
pub(super) const ATTACKER: &str = "mallory";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Attack {
    /// No attack
    Nobody,
    /// 2,000 sockets of one user, who gets a message once a second
    Sockets,
    /// 1,000 frames a second: send, each to another user who does not exist
    MadeUp,
    /// 1,000 frames a second: send, in one conversation with a connected user
    Conversation,
    /// 1,000 frames a second: drain, with 1 MB pending
    Drain,
    /// 1,000 frames a second: history, of messages of 16 KB
    History,
    /// 1,000 frames a second: ping
    Ping,
    /// 1,000 frames a second that are not JSON
    Garbage,
    /// 30,000 first messages to strangers, by 16 sockets as fast as the replies come
    Strangers,
    /// A socket whose token has expired: 1,000 frames a second, while its user gets messages
    Ended,
    /// Upgrades with a token of a wrong signature, as fast as they are refused
    Upgrades,
    /// The largest pages of history, at the rate that the limits allow
    Largest,
    /// 1,000 frames a second: profiles of 50 users
    Profiles,
    /// 1,000 frames a second: report, each of the same messages of another user
    Reports,
    /// 1,000 frames a second: pin, of the same message
    Pins,
    /// Requests over HTTP, as fast as the replies come: send, in one conversation with a connected user
    Http,
    /// 120 frames a second: send, into the attacker's own group, where each collides with the others
    OwnGroup,
    /// A wave of 32 frames each second: the same ack and drain of 25 conversations with users of 16 sockets
    Acks,
    /// A wave of 16 frames each second: typing and send, in a group of 32 with 16 sockets each
    GroupFrames,
    /// A wave of 160 frames each second: ping
    PingWaves,
    /// A wave of 64 frames each second: inbox, with a page of 50 conversations
    HotPartition,
    /// A wave of 16 frames each second: drain, of 25 groups with 8 messages of 16 KB that are never acknowledged
    DrainWaves,
    /// A wave of 32 frames each second, of all these kinds by turns
    Mix,
    /// No attack: a phone that drains 10,000 messages, a support desk, and a return after a week
    Legal,
}

impl Attack {
    /// Returns whether each frame finds a process of its own, as on AWS.
    pub(super) fn is_wave(self) -> bool {
        matches!(
            self,
            Self::OwnGroup
                | Self::Acks
                | Self::GroupFrames
                | Self::PingWaves
                | Self::HotPartition
                | Self::DrainWaves
                | Self::Mix
                | Self::Legal
        )
    }
}

/// The outcome of an attack.
#[derive(Clone, Copy, Default)]
pub(super) struct Fate {
    /// Successful requests; or opened sockets, if the attack opens sockets.
    pub(super) accepted: usize,
    pub(super) refused: usize,
    /// Requests that the stage refused, before a function ran.
    pub(super) throttled: usize,
    /// Sockets that the server closed.
    pub(super) closed: usize,
    /// Stored messages of the attacker, and to the attacker.
    pub(super) stored: usize,
    /// Messages that the attacker's sockets received.
    pub(super) received: usize,
    /// Open sockets of the attacker at the end.
    pub(super) open: usize,
}

impl AddAssign for Fate {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.throttled += other.throttled;
        self.closed += other.closed;
        self.stored += other.stored;
        self.received += other.received;
        self.open += other.open;
    }
}

impl Fate {
    /// Counts a frame. Returns false at the end of the socket.
    fn count(&mut self, heard: &Heard) -> bool {
        match heard {
            Heard::Reply(frame) => {
                self.accepted += 1;
                self.stored += usize::from(frame["action"] == "send");
            }
            Heard::Refusal(_) => self.refused += 1,
            Heard::Throttled => self.throttled += 1,
            Heard::Event(event) => self.received += usize::from(event["type"] == "messages.new"),
            Heard::Other => {}
            Heard::End => {
                self.closed += 1;
                return false;
            }
        }
        true
    }

    fn count_refused_upgrade(&mut self, status: u16) {
        if status == 429 { self.throttled += 1 } else { self.refused += 1 }
    }
}

/// A prepared attacker.
pub(super) struct Attacker {
    attack: Attack,
    server: Arc<TestServer>,
    token: String,
    /// The sockets that are open before the attack.
    socket: Option<Socket>,
    /// A conversation with large messages.
    conversation: String,
}

impl Attacker {
    pub(super) async fn prepare(attack: Attack, server: &Arc<TestServer>) -> Self {
        let (mut token, mut conversation, mut socket) = (server.token(ATTACKER), String::new(), None);
        match attack {
            Attack::Drain | Attack::History | Attack::Largest | Attack::Reports | Attack::Pins => {
                conversation = store_large_messages(server).await;
            }
            // The token expires while the pairs warm up.
            Attack::Ended => {
                token = server.token_for(ATTACKER, u32::try_from(WARM_UP.as_secs()).unwrap_or_default());
                socket = open(server.url(), &token).await.ok();
            }
            // The last characters are the signature.
            Attack::Upgrades => token.replace_range(token.len() - 8.., "AAAAAAAA"),
            Attack::Nobody
            | Attack::Sockets
            | Attack::MadeUp
            | Attack::Conversation
            | Attack::Ping
            | Attack::Garbage
            | Attack::Profiles
            | Attack::Http
            | Attack::Strangers => {}
            wave => unreachable!("{wave:?} has a round of its own"),
        }
        Self { attack, server: Arc::clone(server), token, socket, conversation }
    }

    pub(super) async fn run(mut self, until: Instant) -> Fate {
        let socket = self.socket.take();
        match self.attack {
            Attack::Nobody => {
                sleep_until(until).await;
                Fate::default()
            }
            Attack::Sockets => beside(self.open_many(until), self.write_to_attacker(until)).await,
            Attack::Ended => beside(self.flood(socket, FRAMES_PER_SECOND, until), self.write_to_attacker(until)).await,
            Attack::Conversation => beside(self.flood(socket, FRAMES_PER_SECOND, until), self.listen(until)).await,
            Attack::Strangers => self.write_to_strangers(until).await,
            Attack::Upgrades => self.upgrade(until).await,
            Attack::Http => beside(self.post(until), self.listen(until)).await,
            Attack::Largest => self.flood(socket, PATIENT_PER_SECOND, until).await,
            Attack::MadeUp
            | Attack::Drain
            | Attack::History
            | Attack::Ping
            | Attack::Garbage
            | Attack::Profiles
            | Attack::Reports
            | Attack::Pins => self.flood(socket, FRAMES_PER_SECOND, until).await,
            wave => unreachable!("{wave:?} has a round of its own"),
        }
    }

    fn frame(&self, number: usize) -> String {
        match self.attack {
            Attack::MadeUp | Attack::Strangers => message(&format!("nobody-{number}"), number).to_string(),
            Attack::Conversation | Attack::Http => message("victim", number).to_string(),
            Attack::Profiles => {
                let users: Vec<String> = (0..PROFILES_MAX).map(|user| format!("nobody-{number}-{user}")).collect();
                json!({"action": "profiles", "user_ids": users}).to_string()
            }
            Attack::Reports => {
                let seqs: Vec<usize> = (1..=REPORT_SEQS_MAX).collect();
                json!({"action": "report", "conversation_id": self.conversation, "seqs": seqs, "reason": "spam"})
                    .to_string()
            }
            Attack::Pins => {
                let pin = json!({
                    "action": "pin", "conversation_id": self.conversation, "seq": 1, "pinned": number.is_multiple_of(2),
                    "client_msg_id": format!("p{number}"),
                });
                pin.to_string()
            }
            Attack::Drain => r#"{"action":"drain"}"#.to_owned(),
            Attack::History | Attack::Largest => {
                json!({"action": "history", "conversation_id": self.conversation, "limit": 100}).to_string()
            }
            Attack::Garbage => "no JSON ".repeat(1 + number % 100),
            _ => r#"{"action":"ping"}"#.to_owned(),
        }
    }

    /// Sends this number of frames per second over one socket, and over another after the server closes it.
    async fn flood(&self, mut socket: Option<Socket>, per_second: u32, until: Instant) -> Fate {
        let (mut fate, number) = (Fate::default(), AtomicUsize::new(0));
        while Instant::now() < until {
            let opened = match socket.take() {
                Some(socket) => Ok(socket),
                None => open(self.server.url(), &self.token).await,
            };
            match opened {
                Ok(socket) => self.flood_one(socket, per_second, until, &number, &mut fate).await,
                Err(status) => {
                    fate.count_refused_upgrade(status);
                    sleep(RETRY).await;
                }
            }
        }
        fate
    }

    async fn flood_one(&self, socket: Socket, per_second: u32, until: Instant, number: &AtomicUsize, fate: &mut Fate) {
        let (mut sink, mut stream) = socket.split();
        // Several per tick: a timer's resolution is a millisecond.
        let at_once = per_second.div_ceil(200);
        let mut ticks = interval(Duration::from_secs(1) * at_once / per_second);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let writing = async {
            loop {
                ticks.tick().await;
                for _ in 0..at_once {
                    let frame = self.frame(number.fetch_add(1, Ordering::Relaxed));
                    // The socket is closed; the reading side finds that.
                    let _ = sink.feed(Message::text(frame)).await;
                }
                let _ = sink.flush().await;
            }
        };
        let reading = async { while fate.count(&heard(stream.next().await)) {} };
        tokio::select! {
            () = writing => {}
            () = reading => {}
            () = sleep_until(until) => {}
        }
    }

    /// Opens sockets one after another, and keeps all open.
    async fn open_many(&self, until: Instant) -> Fate {
        let mut ticks = interval(Duration::from_secs(1) / SOCKETS_PER_SECOND);
        let (mut fate, mut opening) = (Fate::default(), JoinSet::new());
        for _ in 0..SOCKETS {
            if timeout_at(until, ticks.tick()).await.is_err() {
                break;
            }
            let (server, token) = (Arc::clone(&self.server), self.token.clone());
            opening.spawn(async move {
                let mut fate = Fate::default();
                match timeout_at(until, open(server.url(), &token)).await {
                    Ok(Ok(socket)) => listen(socket, until, &mut fate).await,
                    Ok(Err(status)) => fate.count_refused_upgrade(status),
                    Err(_) => {}
                }
                fate
            });
        }
        for one in opening.join_all().await {
            fate += one;
        }
        fate
    }

    /// Sends first messages, over sockets that each wait for the reply.
    async fn write_to_strangers(&self, until: Instant) -> Fate {
        let (mut fate, number) = (Fate::default(), AtomicUsize::new(0));
        let writers = (0..STRANGERS_SOCKETS).map(|_| async {
            let mut fate = Fate::default();
            while Instant::now() < until && number.load(Ordering::Relaxed) < STRANGERS {
                match open(self.server.url(), &self.token).await {
                    Ok(socket) => {
                        let asking = self.ask_again_and_again(socket, &number, &mut fate);
                        let _ = timeout_at(until, asking).await;
                    }
                    Err(status) => {
                        fate.count_refused_upgrade(status);
                        sleep(RETRY).await;
                    }
                }
            }
            fate
        });
        for one in futures_util::future::join_all(writers).await {
            fate += one;
        }
        fate
    }

    async fn ask_again_and_again(&self, mut socket: Socket, number: &AtomicUsize, fate: &mut Fate) {
        loop {
            let number = number.fetch_add(1, Ordering::Relaxed);
            if number >= STRANGERS {
                return;
            }
            let _ = socket.send(Message::text(self.frame(number))).await;
            if !fate.count(&heard(socket.next().await)) {
                return;
            }
        }
    }

    async fn post(&self, until: Instant) -> Fate {
        let (mut fate, number) = (Fate::default(), AtomicUsize::new(0));
        let url = format!("{}/v1/send", self.server.local().http_url());
        let posting = (0..UPGRADES).map(|_| async {
            let mut fate = Fate::default();
            while Instant::now() < until {
                let frame = self.frame(number.fetch_add(1, Ordering::Relaxed));
                let request = self.server.http.post(&url).bearer_auth(&self.token).body(frame);
                match request.send().await.map(|reply| reply.status().as_u16()) {
                    Ok(200) => {
                        fate.accepted += 1;
                        fate.stored += 1;
                    }
                    Ok(429) => fate.throttled += 1,
                    _ => fate.refused += 1,
                }
            }
            fate
        });
        for one in futures_util::future::join_all(posting).await {
            fate += one;
        }
        fate
    }

    async fn upgrade(&self, until: Instant) -> Fate {
        let mut fate = Fate::default();
        let upgrading = (0..UPGRADES).map(|_| async {
            let mut fate = Fate::default();
            while Instant::now() < until {
                match open(self.server.url(), &self.token).await {
                    Ok(_) => fate.accepted += 1,
                    Err(status) => fate.count_refused_upgrade(status),
                }
            }
            fate
        });
        for one in futures_util::future::join_all(upgrading).await {
            fate += one;
        }
        fate
    }

    /// Sends the attacker a message once a second.
    async fn write_to_attacker(&self, until: Instant) -> Fate {
        let (mut fate, mut ticks) = (Fate::default(), interval(Duration::from_secs(1)));
        let mut socket = open(self.server.url(), &self.server.token("somebody")).await.expect("a good token connects");
        for number in 0.. {
            if timeout_at(until, ticks.tick()).await.is_err() {
                break;
            }
            let _ = socket.send(Message::text(message(ATTACKER, number).to_string())).await;
            if let Ok(Heard::Reply(_)) = timeout_at(until, socket.next()).await.map(heard) {
                fate.stored += 1;
            }
        }
        fate
    }

    /// Connects the user to whom the attacker writes. That user sends nothing.
    async fn listen(&self, until: Instant) -> Fate {
        let socket = open(self.server.url(), &self.server.token("victim")).await.expect("a good token connects");
        listen(socket, until, &mut Fate::default()).await;
        Fate::default()
    }
}

async fn beside(attack: impl Future<Output = Fate>, others: impl Future<Output = Fate>) -> Fate {
    let (mut fate, others) = tokio::join!(attack, others);
    fate += others;
    fate
}

/// Reads all frames.
async fn listen(mut socket: Socket, until: Instant, fate: &mut Fate) {
    fate.accepted += 1;
    let reading = async { while fate.count(&heard(socket.next().await)) {} };
    if timeout_at(until, reading).await.is_err() {
        fate.open += 1;
    }
}

fn message(to: &str, number: usize) -> Value {
    json!({"action": "send", "to": to, "client_msg_id": format!("m{number}"), "kind": "text", "body": "hello there"})
}

/// Sends the attacker a full page of history, waits as the server requests, and returns the conversation.
async fn store_large_messages(server: &Arc<TestServer>) -> String {
    let mut socket = open(server.url(), &server.token("author")).await.expect("a good token connects");
    let (mut conversation, mut stored) = (String::new(), 0);
    while stored < LARGE_MESSAGES {
        let mut frame = message(ATTACKER, stored);
        frame["body"] = json!("x".repeat(LARGE_BYTES));
        socket.send(Message::text(frame.to_string())).await.expect("the socket is open");
        match heard(socket.next().await) {
            Heard::Reply(frame) => {
                stored += 1;
                frame["result"]["conversation_id"].as_str().unwrap_or_default().clone_into(&mut conversation);
            }
            Heard::Refusal(frame) => {
                let wait_ms = frame["error"]["retry_after_ms"].as_u64().expect("it is a limit");
                sleep(Duration::from_millis(wait_ms)).await;
            }
            Heard::End => panic!("whoever waits is not closed"),
            Heard::Throttled | Heard::Event(_) | Heard::Other => {}
        }
    }
    conversation
}
