//! Random walks of keyrings in a group: users come, leave, are removed and come back, and their devices crash.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod town;

use std::collections::{BTreeMap, BTreeSet};

use pigeonhole_sealing::{Conversation, Entry, Followed, Group, Identity, Notice, Readiness};
use town::{Change, Client, DAY_MS, NOW_MS, Server, user};
use wire::{Carried, ClientMsgId, ConversationId, Kind, UserId};

/// Counts of the events of a walk: a walk without them proves nothing.
#[derive(Debug, Default)]
struct Met {
    walks: usize,
    entries: usize,
    epochs: u64,
    opened: usize,
    stale: usize,
    rekeys: usize,
    crashes: usize,
    lost: usize,
    new: usize,
    resets: usize,
    added: usize,
    removed: usize,
    left: usize,
    spies: usize,
}

struct Walk {
    server: Server,
    clients: Vec<Client>,
    identities: BTreeMap<UserId, Identity>,
    random: fastrand::Rng,
    /// The texts by author and id.
    texts: BTreeMap<ClientMsgId, String>,
    /// The groups of users who left, and the entries by which they did.
    spies: Vec<(UserId, u64, Group)>,
    now_ms: u64,
    names: usize,
    met: Met,
}

fn group_id() -> ConversationId {
    ConversationId::parse("gr_town").unwrap()
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let names: Vec<UserId> = (0..random.usize(3..=6)).map(|place| user(&format!("user-{place}"))).collect();
        let identities =
            names.iter().map(|name| (name.clone(), Identity::import(name.clone(), &town::seed(&mut random)))).collect();
        // The last one is added later.
        let server = Server::group(&names[..names.len() - 1], NOW_MS);
        let (clients, texts, spies, met) = Default::default();
        let mut walk = Self { server, clients, identities, random, texts, spies, now_ms: NOW_MS, names: 0, met };
        for name in &names {
            walk.come(name);
        }
        walk
    }

    fn come(&mut self, name: &UserId) {
        self.names += 1;
        let device = format!("{name}-{}", self.names);
        let seed = town::seed(&mut self.random);
        let mut client = Client::new(self.identities[name].clone(), &device, &group_id(), seed);
        let delivered = self.server.log.len() as u64;
        client.turn.held = if self.random.bool() { delivered } else { 0 };
        client.commit();
        client.settle(&mut self.server, self.now_ms);
        self.clients.push(client);
    }

    fn is_member(&self, by: usize) -> bool {
        self.server.members.contains_key(self.clients[by].me())
    }

    fn step(&mut self) {
        let by = self.random.usize(..self.clients.len());
        let name = self.clients[by].me().clone();
        match self.random.u16(..1000) {
            0..120 if self.is_member(by) => self.write(by),
            120..300 => drop(self.pump(by)),
            300..820 => self.progress(by),
            820..900 => drop(self.clients[by].settle(&mut self.server, self.now_ms)),
            900..930 => {
                self.clients[by].crash();
                self.met.crashes += 1;
            }
            930..940 => self.pass(),
            940..945 if self.clients.iter().filter(|client| *client.me() == name).count() < 2 => {
                self.come(&name);
                self.met.new += 1;
            }
            945..948 if self.is_member(by) => {
                self.clients[by].keyring.reset(&group_id(), self.now_ms);
                self.clients[by].commit();
                self.met.resets += 1;
            }
            948..951 => self.lose_state(by),
            951..965 if self.is_member(by) => self.add(by),
            965..975 if self.is_member(by) => self.remove(by),
            975..983 if self.is_member(by) && self.server.members.len() > 2 => {
                self.spy(&name);
                self.roll(by, Change::Leave);
            }
            983..993 => {
                self.server.is_narrow = self.random.bool();
                self.server.by_reference = self.random.bool();
            }
            _ => {}
        }
    }

    fn roll(&mut self, by: usize, change: Change) {
        if self.clients[by].turn.rolls.is_empty() {
            let id = ClientMsgId::parse(&format!("r{}", self.names)).unwrap();
            self.names += 1;
            self.clients[by].turn.rolls.push_back((id, change));
            self.clients[by].commit();
        }
    }

    fn add(&mut self, by: usize) {
        let outside: Vec<UserId> =
            self.identities.keys().filter(|user| !self.server.members.contains_key(*user)).cloned().collect();
        if !outside.is_empty() {
            self.roll(by, Change::Add(outside));
            self.met.added += 1;
        }
    }

    fn remove(&mut self, by: usize) {
        let me = self.clients[by].me().clone();
        let others: Vec<UserId> = self.server.members.keys().filter(|user| **user != me).cloned().collect();
        if others.len() > 1 {
            let one = others[self.random.usize(..others.len())].clone();
            self.spy(&one);
            self.roll(by, Change::Remove(one));
            self.met.removed += 1;
        }
    }

    /// Copies the groups of a user's devices, who may be gone soon.
    fn spy(&mut self, name: &UserId) {
        let devices = self.clients.iter().filter(|client| client.me() == name);
        self.spies.extend(devices.filter_map(|client| Some((name.clone(), client.saved.held, client.group()?))));
        self.met.left += 1;
    }

    fn write(&mut self, by: usize) {
        let id = format!("m{}", self.texts.len());
        let text = format!("canary-{id}");
        self.texts.insert(ClientMsgId::parse(&id).unwrap(), text.clone());
        self.clients[by].write(&id, &text);
    }

    fn pump(&mut self, by: usize) -> Readiness {
        self.clients[by].pump(self.now_ms)
    }

    /// A request reaches the server, an answer the client, or the log comes. Then the app may die before it writes.
    fn progress(&mut self, by: usize) {
        let client = &mut self.clients[by];
        match self.random.u8(..10) {
            0..4 if !client.asked.is_empty() => {
                let place = self.random.usize(..client.asked.len());
                client.serve(&mut self.server, place);
                if self.random.u8(..4) > 0 {
                    return;
                }
                client.answer(place, self.now_ms, false);
            }
            4..8 if !client.asked.is_empty() => {
                let place = self.random.usize(..client.asked.len());
                client.answer(place, self.now_ms, self.random.u8(..5) == 0);
            }
            8 => drop(client.carry_files(&mut self.server, self.now_ms)),
            _ => {
                for _ in 0..self.random.u8(1..6) {
                    client.read(&self.server, self.now_ms);
                }
            }
        }
        if self.random.u8(..25) == 0 {
            client.crash();
            self.met.crashes += 1;
        } else {
            client.commit();
        }
        for row in client.saved.rows.values() {
            assert!(!row.windows(6).any(|six| six == b"canary"), "a row has a text");
        }
    }

    fn pass(&mut self) {
        let spans = [60_000, DAY_MS / 24, DAY_MS, 3 * DAY_MS];
        self.now_ms += spans[self.random.usize(..spans.len())];
        self.server.now_ms = self.now_ms;
        for client in &mut self.clients {
            client.keyring.connected();
        }
    }

    /// The rows and the outbox are gone, the identity is not.
    fn lose_state(&mut self, by: usize) {
        let client = &self.clients[by];
        let (identity, device) = (client.identity.clone(), client.device.clone());
        let seed = town::seed(&mut self.random);
        self.clients[by] = Client::new(identity, device.as_str(), client.with.clone(), seed);
        self.clients[by].settle(&mut self.server, self.now_ms);
        self.met.lost += 1;
    }

    /// Without losses, each member's device takes part, writes, and has read all of it.
    fn end(&mut self) {
        for round in 0..80 {
            for by in 0..self.clients.len() {
                if round == 0 {
                    self.clients[by].crash();
                }
                let is_quiet = self.clients[by].group().is_none() && self.clients[by].saved.outbox.is_empty();
                if self.is_member(by) && (round == 0 || is_quiet) {
                    self.write(by);
                }
                self.clients[by].settle(&mut self.server, self.now_ms);
                self.clients[by].keyring.caught_up(self.now_ms);
                self.clients[by].commit();
            }
            // A refusal ends, and a new day allows a reset.
            self.now_ms += if round % 10 == 9 { DAY_MS } else { 6 * 60_000 };
            if round > 2 && (0..self.clients.len()).all(|by| self.is_over(by)) {
                // A user who left behind the last message goes with the next one.
                let Some(by) = (0..self.clients.len()).find(|by| self.is_member(*by) && self.has_stranger(*by)) else {
                    return self.check();
                };
                self.write(by);
            }
        }
        let left: Vec<_> = (0..self.clients.len()).filter(|by| !self.is_over(*by)).collect();
        let rows = left.iter().map(|by| {
            let client = &self.clients[*by];
            let seat = client.saved.rows.get("seat/gr_town").map(|row| String::from_utf8_lossy(row).into_owned());
            let seat = seat.unwrap_or_default();
            (
                client.device.clone(),
                client.saved.held,
                client.saved.outbox.len(),
                seat.split("\"position\"").nth(1).unwrap_or_default().chars().take(900).collect::<String>(),
                client.saved.rolls.clone(),
                client.asked.len(),
            )
        });
        panic!("not quiet: {} entries, {:#?}", self.server.log.len(), rows.collect::<Vec<_>>());
    }

    fn is_over(&self, by: usize) -> bool {
        let client = &self.clients[by];
        let has_read = self.server.next_for(client.me(), client.saved.held).is_none();
        has_read
            && client.saved.outbox.is_empty()
            && client.saved.rolls.is_empty()
            && client.group().is_some() == self.is_member(by)
    }

    fn has_stranger(&self, by: usize) -> bool {
        let conversation = Conversation::group(group_id(), self.server.members.keys().cloned().collect()).unwrap();
        !self.clients[by].group().unwrap().strangers(&conversation).unwrap().is_empty()
    }

    fn check(&mut self) {
        let mut secrets = BTreeSet::new();
        for client in self.clients.iter().filter(|client| self.server.members.contains_key(client.me())) {
            let group = client.group().unwrap();
            let members = self.server.members.keys().cloned().collect();
            let conversation = Conversation::group(group_id(), members).unwrap();
            assert_eq!(group.epoch(&conversation).unwrap(), self.server.epoch);
            assert_eq!(group.strangers(&conversation).unwrap(), BTreeSet::new());
            assert!(!client.saved.rows.keys().any(|name| name.starts_with("pending/")), "a merged commit is stored");
            secrets.insert((group.authenticator().unwrap(), group.mark().unwrap()));
            let joined = client.saved.notices.iter().rev().find_map(|notice| match notice {
                Notice::Joined { from_seq, .. } => Some(from_seq.value()),
                _ => None,
            });
            for message in self.server.log.iter().filter(|message| message.kind == Kind::Sealed) {
                let seq = message.seq.value();
                let text = &self.texts[message.client_msg_id.as_ref().unwrap()];
                match client.saved.shown.get(&seq) {
                    Some(Ok(shown)) => assert_eq!(shown, text),
                    None | Some(Err(_)) => assert!(Some(seq) < joined, "{seq} is before no join: {joined:?}"),
                }
            }
        }
        // All may have left.
        assert_eq!(secrets.len(), usize::from(!self.server.members.is_empty()));
        for (name, at, group) in std::mem::take(&mut self.spies) {
            self.read_on(&name, at, group);
        }
        self.met.entries = self.server.log.len();
        self.met.epochs = self.server.epoch;
        self.met.opened = self.clients.iter().map(|client| client.opened).sum();
        self.met.stale = self.server.stale;
        self.met.rekeys = self.server.rekeys;
    }

    /// A device of a user who left keeps its group, and follows the log as far as it can.
    fn read_on(&mut self, me: &UserId, at: u64, mut group: Group) {
        let members: BTreeSet<UserId> = self.identities.keys().cloned().collect();
        let conversation = Conversation::group(group_id(), members).unwrap();
        let mut has_left = false;
        for message in &self.server.log[usize::try_from(at).unwrap()..] {
            let removed = removed(message);
            has_left |= removed.contains(me) && self.server.next_for(me, message.seq.value()).is_none();
            let entry = Entry {
                conversation: &conversation,
                sender_id: &message.sender_id,
                client_msg_id: None,
                epoch: message.epoch.unwrap_or_default(),
            };
            if message.kind == Kind::Sealed {
                let body = wire::Bytes::parse(&message.body).unwrap();
                if let Ok((moved, _)) = group.open(entry, body.as_slice()) {
                    assert!(!has_left, "{} is open to a user who left", message.seq.value());
                    group = moved;
                }
            } else if let Some(commit) = message.commit.as_deref() {
                let commit = match commit {
                    Carried::Bytes(bytes) => bytes.as_slice().to_vec(),
                    Carried::File { media_id, .. } => self.server.files[media_id.as_str()].clone(),
                };
                match group.follow(entry, &commit, None) {
                    Ok(Followed::Changed(next, _)) => group = next,
                    Ok(Followed::Removed) => {
                        self.met.spies += usize::from(has_left);
                        return;
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

fn removed(message: &wire::Message) -> Vec<UserId> {
    match &message.system {
        Some(wire::System::MembersRemoved { members }) => members.clone(),
        Some(wire::System::MemberLeft {}) => vec![message.sender_id.clone()],
        _ => vec![],
    }
}

#[test]
fn every_device_of_a_group_opens_all_since_its_join_on_every_walk() {
    let walks = std::env::var("PIGEONHOLE_WALKS").map_or(8, |walks| walks.parse().unwrap());
    let first = std::env::var("PIGEONHOLE_WALK").map_or(0, |walk| walk.parse().unwrap());
    let mut sum = Met::default();
    for seed in first..first + walks {
        let mut walk = Walk::new(seed);
        for _ in 0..900 {
            walk.step();
        }
        walk.end();
        let met = walk.met;
        sum.walks += 1;
        sum.entries += met.entries;
        sum.epochs += met.epochs;
        sum.opened += met.opened;
        sum.stale += met.stale;
        sum.rekeys += met.rekeys;
        sum.crashes += met.crashes;
        sum.lost += met.lost;
        sum.new += met.new;
        sum.resets += met.resets;
        sum.added += met.added;
        sum.removed += met.removed;
        sum.left += met.left;
        sum.spies += met.spies;
    }
    println!("{sum:?}");
    let counts =
        [sum.opened, sum.stale, sum.rekeys, sum.crashes, sum.lost, sum.new, sum.resets, sum.added, sum.left, sum.spies];
    assert!(counts.iter().all(|count| *count > 0), "{sum:?}");
}
