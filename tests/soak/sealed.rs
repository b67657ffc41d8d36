//! Users write encrypted messages, in pairs and in groups, over a server whose calls to AWS fail. Devices come, restart
//! and are lost; members come and go. At the end, each device has shown every message since it joined. Each message was
//! shown once, in order and as its author wrote it. The server has no text.
//!
//! `just soak-sealed MESSAGES SEED` runs this. The seed decides each choice of users and faults; the order in which
//! threads make these choices depends on the machine.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod faults;
mod timing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use faults::Faults;
use local::Logs;
use pigeonhole_client::{
    Client, Config, ConversationId, DeviceId, Event, Keys, Kind, NewGroup, Notice, Outgoing, Seq, Side, System, Target,
    Title, UserId,
};
use serde_json::Value;
use testkit::{Canary, Network, Proxy, TestServer};
use timing::timing;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Enough for the gate. `just soak-sealed` sends more.
const MESSAGES: u64 = 500;
/// The first one creates the groups.
const USERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
const GROUPS: usize = 2;
const DEVICES_MAX: usize = 3;
/// One call to AWS in this many fails.
const FAULT_ONE_IN: u32 = 40;
/// Messages that wait for the server's reply.
const UNDER_WAY: usize = 12;
/// If no device shows more for this long, the missing messages count as lost.
const PATIENCE: Duration = Duration::from_mins(2);

/// Frames and calls to AWS that have a text.
static FOUND: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn look(canary: &Canary, bytes: &[u8]) {
    if canary.is_in(bytes) {
        FOUND.lock().unwrap().push(String::from_utf8_lossy(bytes).into_owned());
    }
}

type Place = (ConversationId, u64);

/// The messages and notices that an app has shown.
#[derive(Debug, Default)]
struct Seen {
    texts: BTreeMap<Place, (UserId, String)>,
    last: BTreeMap<ConversationId, u64>,
    out_of_order: u64,
    /// Entries that were shown once more with another text.
    differing: u64,
    unreadable: Vec<(Place, String)>,
    /// The entries by which the device joined each conversation.
    joined: BTreeMap<ConversationId, Vec<u64>>,
    /// Texts that the server refused in groups of which the user was no member any more.
    refused: BTreeSet<String>,
    notices: Vec<String>,
}

impl Seen {
    fn take(&mut self, event: Event) {
        match event {
            Event::Message { message, .. } if message.kind == Kind::Text => {
                assert!(message.epoch.is_some(), "in the clear: {message:?}");
                let (id, seq) = (message.conversation_id, message.seq.value());
                let before = self.last.insert(id.clone(), seq);
                self.out_of_order += u64::from(before.is_some_and(|before| before >= seq));
                let now = (message.sender_id, message.body);
                // The last one before a restart comes again.
                let before = self.texts.insert((id, seq), now.clone());
                self.differing += u64::from(before.is_some_and(|before| before != now));
            }
            Event::Unreadable { conversation_id, seq, why, .. } => {
                self.unreadable.push(((conversation_id, seq.value()), format!("{why:?}")));
            }
            Event::Security(Notice::Joined { conversation_id, from_seq }) => {
                self.joined.entry(conversation_id).or_default().push(from_seq.value());
            }
            Event::Security(notice) => self.notices.push(format!("{notice:?}")),
            Event::Failed { queued, error } => match queued.outgoing {
                Outgoing::Message { target: Target::Conversation(_), draft, .. }
                    if ["not_member", "gone", "forbidden"].contains(&error.code()) =>
                {
                    self.refused.insert(draft.body);
                }
                Outgoing::Request(_) => {}
                outgoing @ Outgoing::Message { .. } => panic!("refused: {outgoing:?}: {error}"),
            },
            _ => {}
        }
    }

    /// Returns the entry from which on the device shows everything.
    fn joined_at(&self, id: &ConversationId) -> Option<u64> {
        self.joined.get(id).and_then(|all| all.last()).copied()
    }
}

struct Device {
    user: &'static str,
    id: String,
    client: Client,
    network: Network,
    seen: Arc<Mutex<Seen>>,
    /// The texts that the user wrote on it.
    said: Vec<String>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: u64,
    in_groups: u64,
    came: u64,
    lost: u64,
    restarts: u64,
    cuts: u64,
    resets: u64,
    members: u64,
}

struct Town {
    server: Arc<TestServer>,
    canary: Canary,
    keys: BTreeMap<&'static str, Keys>,
    devices: Vec<Device>,
    groups: Vec<ConversationId>,
    under_way: Arc<Semaphore>,
    /// Texts in the outbox of a device that was lost: stored or not.
    perhaps: BTreeSet<String>,
    said: BTreeSet<String>,
    folder: PathBuf,
    rng: Rng,
    names: u64,
    counts: Counts,
}

fn user(name: &str) -> UserId {
    UserId::parse(name).expect("a name")
}

impl Town {
    async fn open(&self, user: &'static str, id: &str, seen: Arc<Mutex<Seen>>) -> Device {
        let canary = self.canary.clone();
        let look = move |frame: &[u8]| look(&canary, frame);
        let network = Network::watched(&self.server, look).await;
        let token = self.server.token(user);
        let give = move |_| std::future::ready(Ok(token.clone()));
        let config = Config::new(network.url(), user, give).device_id(id).store(self.folder.join(id));
        let config = config.timing(timing()).encrypted(self.keys[user].clone());
        let (client, mut events) = Client::connect(config).await.unwrap();
        let shown = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                shown.lock().unwrap().take(event);
            }
        });
        Device { user, id: id.to_owned(), client, network, seen, said: Vec::new() }
    }

    async fn come(&mut self, user: &'static str) {
        self.names += 1;
        let id = format!("{user}-{}", self.names);
        let device = self.open(user, &id, Arc::default()).await;
        self.devices.push(device);
    }

    async fn make_groups(&mut self) {
        for number in 0..GROUPS {
            let title = Title::parse(&format!("group {number}")).unwrap();
            let group = NewGroup::new(title, USERS[1..].iter().map(|name| user(name)));
            let made = self.devices[0].client.create(group).await.unwrap().stored();
            self.groups.push(timeout(PATIENCE, made).await.expect("in time").unwrap().conversation_id);
        }
    }

    fn count(&self, user: &str) -> usize {
        self.devices.iter().filter(|device| device.user == user).count()
    }

    async fn step(&mut self) {
        let place = self.rng.usize(..self.devices.len());
        let user = self.devices[place].user;
        match self.rng.u32(..1_000) {
            0..16 if self.count(user) < DEVICES_MAX => {
                self.come(user).await;
                self.counts.came += 1;
            }
            16..28 if self.count(user) > 1 => self.lose(place).await,
            28..42 => self.restart(place).await,
            42..70 => {
                self.devices[place].network.cut();
                self.counts.cuts += 1;
            }
            70..78 => {
                let peer = self.peer(user);
                self.devices[place].client.reset(&self::user(peer));
                self.counts.resets += 1;
            }
            78..82 if user == USERS[0] => {
                let group = self.rng.choice(&self.groups).unwrap();
                self.devices[place].client.reset_group(group);
                self.counts.resets += 1;
            }
            82..102 => self.change_members().await,
            number => self.say(place, number % 2 == 0).await,
        }
    }

    fn peer(&mut self, user: &str) -> &'static str {
        let others: Vec<_> = USERS.into_iter().filter(|other| *other != user).collect();
        self.rng.choice(others).unwrap()
    }

    async fn say(&mut self, place: usize, in_group: bool) {
        let user = self.devices[place].user;
        let peer = self.peer(user);
        let group = self.rng.choice(&self.groups).unwrap().clone();
        let device = &mut self.devices[place];
        let text = format!("{} {user} on {} {:08}", self.canary.text(), device.id, self.counts.sent);
        device.said.push(text.clone());
        self.said.insert(text.clone());
        self.counts.sent += 1;
        self.counts.in_groups += u64::from(in_group);
        let permit = Arc::clone(&self.under_way).acquire_owned();
        let permit = timeout(PATIENCE, permit).await.expect("messages are stored").unwrap();
        let target = if in_group { Target::Conversation(group) } else { Target::User(self::user(peer)) };
        let sent = device.client.send(target, text).await.expect("it goes into the outbox");
        tokio::spawn(async move {
            let _ = sent.stored().await;
            drop(permit);
        });
    }

    /// The first user adds and removes; others leave.
    async fn change_members(&mut self) {
        let group = self.rng.choice(&self.groups).unwrap().clone();
        let whom = *self.rng.choice(&USERS[1..]).unwrap();
        let by = if self.rng.u32(..5) == 0 { whom } else { USERS[0] };
        let by = self.devices.iter().find(|device| device.user == by).expect("each user has a device");
        if by.user == whom {
            by.client.leave(&group).await.map(drop).expect("it goes into the outbox");
        } else if self.rng.u32(..3) == 0 {
            by.client.remove(&group, &user(whom)).await.map(drop).expect("it goes into the outbox");
        } else {
            by.client.add(&group, [user(whom)]).await.map(drop).expect("it goes into the outbox");
        }
        self.counts.members += 1;
    }

    /// The device is gone with its store, and another one of the user removes it.
    async fn lose(&mut self, place: usize) {
        let lost = self.devices.remove(place);
        lost.network.cut();
        lost.client.close().await;
        remove_store(&self.folder, &lost.id);
        self.perhaps.extend(lost.said);
        let other = self.devices.iter().find(|device| device.user == lost.user).expect("there is another one");
        other.client.remove_device(DeviceId::parse(&lost.id).unwrap());
        self.counts.lost += 1;
    }

    async fn restart(&mut self, place: usize) {
        let Device { user, id, client, network, seen, said } = self.devices.remove(place);
        network.cut();
        client.close().await;
        seen.lock().unwrap().last.clear();
        let again = self.open(user, &id, seen).await;
        self.devices.push(Device { said, ..again });
        self.counts.restarts += 1;
    }

    /// Waits until all devices show everything, or no more comes. A device that missed the event of a conversation's last
    /// message, which another device of the user has acknowledged, finds it when it connects again.
    async fn settle(&self) -> BTreeMap<String, Log> {
        let (mut last, mut since, mut has_connected) = (u64::MAX, Instant::now(), false);
        loop {
            let logs = self.logs();
            self.read_stores(&self.lacking(&logs)).await;
            let mut waits = self.lacking(&logs).len() as u64;
            let mut queued = 0;
            for device in &self.devices {
                queued += device.client.outbox().await.unwrap().len() as u64;
            }
            if queued == 0 && !has_connected {
                self.devices.iter().for_each(|device| device.network.cut());
                has_connected = true;
                waits += 1;
            }
            if waits + queued != last {
                (last, since) = (waits + queued, Instant::now());
            }
            if last == 0 || since.elapsed() > PATIENCE {
                return logs;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn logs(&self) -> BTreeMap<String, Log> {
        let rows =
            self.server.local().database().rows("MessagesTable", usize::MAX).unwrap().expect("the table is there");
        let mut logs = BTreeMap::<String, Log>::new();
        for row in rows {
            logs.entry(row["conversation_id"].as_str().unwrap().to_owned()).or_default().take(&row);
        }
        logs
    }

    /// Reads what devices opened after the app had passed it: that comes in the store, and in no event.
    async fn read_stores(&self, lacking: &[(String, Place)]) {
        for (name, (id, seq)) in lacking {
            let device = self.devices.iter().find(|device| device.id == *name).expect("it is there");
            let side = Side::After(Seq::new(seq - 1).unwrap());
            let window = device.client.window(id, side, 1).await.unwrap();
            let message =
                window.messages.into_iter().find(|entry| entry.seq.value() == *seq && entry.kind == Kind::Text);
            if let Some(message) = message {
                let text = (message.sender_id, message.body);
                device.seen.lock().unwrap().texts.insert((id.clone(), *seq), text);
            }
        }
    }

    /// Returns the messages that a device lacks which joined before.
    fn lacking(&self, logs: &BTreeMap<String, Log>) -> Vec<(String, Place)> {
        let mut lacking = Vec::new();
        for device in &self.devices {
            let seen = device.seen.lock().unwrap();
            for (id, log) in logs {
                let id = ConversationId::parse(id).unwrap();
                let Some((since, upto)) = log.membership(&id, device.user) else { continue };
                let joined = seen.joined_at(&id);
                if joined.is_none() && upto < u64::MAX {
                    // The device came after its user had left.
                    continue;
                }
                // A device that joined again shows nothing from between.
                let from = joined.unwrap_or(0).max(since);
                let absent = log.sealed.range(from..upto).filter(|seq| !seen.texts.contains_key(&(id.clone(), **seq)));
                lacking.extend(absent.map(|seq| (device.id.clone(), (id.clone(), *seq))));
            }
        }
        lacking
    }

    /// Returns the texts that the server has somewhere.
    fn found_on_the_server(&self, log: &[String]) -> Vec<String> {
        let database = self.server.local().database();
        let tables = database.tables().unwrap();
        let rows = tables.keys().flat_map(|table| database.rows(table, usize::MAX).unwrap().unwrap());
        let texts = rows.map(|row| row.to_string()).chain(log.iter().cloned());
        texts.filter(|text| self.canary.is_in(text)).collect()
    }
}

fn remove_store(folder: &Path, id: &str) {
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name == id || name.starts_with(&format!("{id}-")) || name.starts_with(&format!("{id}.")) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

/// A conversation as the server has it.
#[derive(Default)]
struct Log {
    sealed: BTreeSet<u64>,
    /// In a group: the entries by which each user came and went.
    turns: BTreeMap<UserId, Vec<u64>>,
}

impl Log {
    fn take(&mut self, row: &Value) {
        let seq = row["seq"].as_u64().unwrap();
        if row["kind"] == "sealed" && row.get("silent").is_none() {
            self.sealed.insert(seq);
        }
        let system = row.get("system").and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok());
        let who = match system {
            Some(
                System::Created { members, .. } | System::MembersAdded { members } | System::MembersRemoved { members },
            ) => members,
            Some(System::MemberLeft {}) => vec![user(row["sender_id"].as_str().unwrap())],
            _ => vec![],
        };
        for one in who {
            self.turns.entry(one).or_default().push(seq);
        }
    }

    /// Returns the entries between which the user was a member last.
    fn membership(&self, id: &ConversationId, name: &str) -> Option<(u64, u64)> {
        if !id.is_group() {
            let is_member = |peer: &&str| *id == wire::direct_conversation_id(&user(name), &user(peer));
            return USERS.iter().any(is_member).then_some((0, u64::MAX));
        }
        let mut turns = self.turns.get(&user(name))?.clone();
        turns.sort_unstable();
        let last = turns.chunks(2).next_back()?;
        Some((last[0], last.get(1).copied().unwrap_or(u64::MAX)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_device_reads_all_messages_since_it_joined_whatever_breaks() {
    let parameter =
        |name, otherwise: u64| std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (messages, seed) = (parameter("PIGEONHOLE_MESSAGES", MESSAGES), parameter("PIGEONHOLE_SEED", 1));
    let (faults, canary) = (Arc::new(Faults::new(seed, FAULT_ONE_IN)), Canary::random());
    let proxy = Proxy::open({
        let (faults, canary) = (Arc::clone(&faults), canary.clone());
        move |_, call| {
            look(&canary, call.body().to_string().as_bytes());
            faults.draw(call)
        }
    })
    .await;
    let off = ["SendRate", "ClaimRate", "KeyDeviceRate", "CommitRate", "BirthRate"];
    let log = Arc::new(Mutex::new(Vec::new()));
    let server = proxy.server_with(|options| {
        options.parameters.extend(off.map(|name| (name.to_owned(), "off".to_owned())));
        options.logs = Logs::Keep(Arc::clone(&log));
    });
    let folder = std::env::temp_dir().join(format!("pigeonhole-soak-sealed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut town = Town {
        server: server.await,
        canary,
        keys: USERS.map(|user| (user, Keys::generate().unwrap())).into(),
        devices: vec![],
        groups: vec![],
        under_way: Arc::new(Semaphore::new(UNDER_WAY)),
        perhaps: BTreeSet::new(),
        said: BTreeSet::new(),
        folder,
        rng: Rng::with_seed(seed),
        names: 0,
        counts: Counts::default(),
    };
    let started = Instant::now();
    for user in USERS {
        town.come(user).await;
    }
    town.make_groups().await;
    faults.begin();
    town.server.group_stream().duplicate(true);
    while town.counts.sent < messages {
        town.step().await;
    }
    let logs = town.settle().await;
    let tally = faults.tally();
    println!("seed {seed}: {:.0} s, {:?}", started.elapsed().as_secs_f64(), town.counts);
    println!("{} calls to AWS, {} with a fault", tally.calls, tally.faults.values().sum::<u64>());
    check(&town, &logs);
    proves_something(&town.counts);
    assert_eq!(town.found_on_the_server(&log.lock().unwrap()), Vec::<String>::new());
    assert_eq!(*FOUND.lock().unwrap(), Vec::<String>::new(), "frames and calls to AWS have a text");
    for device in town.devices {
        device.client.close().await;
    }
    std::fs::remove_dir_all(&town.folder).unwrap();
}

fn proves_something(counts: &Counts) {
    let Counts { sent, in_groups, came, lost, restarts, cuts, resets, members } = counts;
    let all = [in_groups, came, lost, restarts, cuts, resets, members];
    assert!(*sent < MESSAGES || all.into_iter().all(|count| *count > 0), "{counts:?}: this proves little");
}

fn check(town: &Town, logs: &BTreeMap<String, Log>) {
    let (mut differing, mut out_of_order, mut unreadable, mut again, mut shown) = (0, 0, vec![], 0, 0);
    let (mut by_place, mut refused) = (BTreeMap::<Place, (UserId, String)>::new(), BTreeSet::new());
    for device in &town.devices {
        let seen = device.seen.lock().unwrap();
        shown += seen.texts.len();
        differing += seen.differing;
        out_of_order += seen.out_of_order;
        refused.extend(seen.refused.iter().cloned());
        again += seen.joined.values().map(|all| all.len() - 1).sum::<usize>();
        for (place, text) in &seen.texts {
            differing += u64::from(by_place.entry(place.clone()).or_insert(text.clone()) != text);
        }
        let is_read = |place: &Place| seen.texts.contains_key(place);
        let behind = |place: &Place| seen.joined_at(&place.0).is_some_and(|at| place.1 > at) && !is_read(place);
        let behind = seen.unreadable.iter().filter(|(place, _)| behind(place));
        unreadable.extend(behind.map(|entry| (device.id.clone(), entry.clone())));
    }
    let lacking = town.lacking(logs);
    let texts: BTreeSet<&String> = by_place.values().map(|(_, text)| text).collect();
    let is_lost = |text: &&String| !texts.contains(text) && !refused.contains(*text) && !town.perhaps.contains(*text);
    let lost: Vec<&String> = town.said.iter().filter(is_lost).collect();
    let twice = by_place.len() - texts.len();
    let is_by = |(sender, text): &(UserId, String)| text.contains(&format!(" {sender} on "));
    let of_another = by_place.values().filter(|entry| !is_by(entry)).count();
    let stored: usize = logs.values().map(|log| log.sealed.len()).sum();
    println!(
        "{stored} stored, {} refused in groups, {shown} times shown on {} devices, which joined again {again} times",
        refused.len(),
        town.devices.len(),
    );
    println!("missing {}, lost {}, twice {twice}, out of order {out_of_order}", lacking.len(), lost.len());
    println!("of another {of_another}, differing {differing}, unreadable {}", unreadable.len());
    for (name, (id, seq)) in lacking.iter().take(20) {
        let device = town.devices.iter().find(|device| device.id == *name).expect("it is there");
        let seen = device.seen.lock().unwrap();
        let turns = logs.get(id.as_str()).map(|log| &log.turns);
        println!("{name} lacks {seq} of {id}: joined {:?}, {turns:?}, {:?}", seen.joined.get(id), seen.notices);
    }
    assert_eq!((twice, out_of_order, differing, of_another), (0, 0, 0, 0));
    assert_eq!(&unreadable[..unreadable.len().min(20)], []);
    assert_eq!(&lost[..lost.len().min(20)], Vec::<&String>::new().as_slice());
    assert_eq!(&lacking[..lacking.len().min(20)], []);
}
