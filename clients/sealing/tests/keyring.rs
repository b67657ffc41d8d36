//! Random walks of keyrings: devices come, write, crash, are lost and begin anew, and answers are lost or come twice.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod town;

use std::collections::{BTreeMap, BTreeSet};

use pigeonhole_sealing::{Conversation, Identity, Notice, Readiness};
use town::{Client, DAY_MS, NOW_MS, Server, user};
use wire::{ClientMsgId, Kind};

/// Counts of the events of a walk: a walk without them proves nothing.
#[derive(Debug, Default)]
struct Met {
    walks: usize,
    entries: usize,
    epochs: u64,
    opened: usize,
    stale: usize,
    crashes: usize,
    lost: usize,
    new: usize,
    resets: usize,
    identities: usize,
    removals: usize,
}

struct Walk {
    server: Server,
    clients: Vec<Client>,
    identities: BTreeMap<&'static str, Identity>,
    random: fastrand::Rng,
    /// The texts by author and id.
    texts: BTreeMap<ClientMsgId, String>,
    now_ms: u64,
    names: usize,
    met: Met,
}

const USERS: [&str; 2] = ["alice", "bob"];

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let identities = USERS.map(|name| (name, Identity::import(user(name), &town::seed(&mut random)))).into();
        let mut server = Server::default();
        server.now_ms = NOW_MS;
        let (clients, texts, met) = Default::default();
        let mut walk = Self { server, clients, identities, random, texts, now_ms: NOW_MS, names: 0, met };
        // The conversation begins in the clear.
        for place in 0..walk.random.usize(..4) {
            let id = ClientMsgId::parse(&format!("p{place}")).unwrap();
            walk.server.append(&user("alice"), &id, Kind::Text).body = format!("old-{place}");
            walk.texts.insert(id, format!("old-{place}"));
        }
        for name in USERS {
            walk.come(name);
        }
        walk
    }

    fn come(&mut self, name: &str) {
        self.names += 1;
        let peer = if name == "alice" { "bob" } else { "alice" };
        let device = format!("{name}-{}", self.names);
        let seed = town::seed(&mut self.random);
        let mut client = Client::new(self.identities[name].clone(), &device, &user(peer), seed);
        // The conversation is old to other devices of the user, or has never come to one.
        let delivered = self.server.log.len() as u64;
        client.turn.held = if self.random.bool() { delivered } else { 0 };
        client.commit();
        // Published, as every client does before it begins.
        client.settle(&mut self.server, self.now_ms);
        self.clients.push(client);
    }

    fn count(&self, name: &str) -> usize {
        self.clients.iter().filter(|client| client.me().as_str() == name).count()
    }

    fn step(&mut self) {
        let by = self.random.usize(..self.clients.len());
        let name = if self.clients[by].me().as_str() == "alice" { "alice" } else { "bob" };
        match self.random.u16(..1000) {
            0..120 => self.write(by),
            120..300 => drop(self.pump(by)),
            300..930 => self.progress(by),
            930..950 => {
                self.clients[by].crash();
                self.met.crashes += 1;
            }
            950..965 => self.pass(),
            965..975 if self.count(name) < 3 => {
                self.come(name);
                self.met.new += 1;
            }
            975..982 => {
                let peer = self.clients[by].with.clone();
                self.clients[by].keyring.reset(peer, self.now_ms);
                self.clients[by].commit();
                self.met.resets += 1;
            }
            982..986 => self.lose_state(by),
            986..991 if self.count(name) > 1 => self.lose_device(by),
            991..992 => self.lose_identity(name),
            992..999 => {
                self.server.is_stingy = self.random.bool();
                self.server.is_narrow = self.random.bool();
            }
            _ => {}
        }
    }

    fn write(&mut self, by: usize) {
        let id = format!("m{}", self.texts.len());
        let text = format!("canary-{id}");
        self.texts.insert(ClientMsgId::parse(&id).unwrap(), text.clone());
        self.clients[by].write(&id, &text);
    }

    fn pump(&mut self, by: usize) -> Readiness {
        let readiness = self.clients[by].pump(self.now_ms);
        if let Readiness::Held(peer) = &readiness {
            self.clients[by].keyring.accept(peer);
        }
        readiness
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
        let spans = [60_000, DAY_MS / 24, DAY_MS, 3 * DAY_MS, 31 * DAY_MS];
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

    /// A device of the user removes another, which is gone, or is found again.
    fn lose_device(&mut self, by: usize) {
        let (user, device) = (self.clients[by].me().clone(), self.clients[by].device.clone());
        let is_other = |client: &&mut Client| *client.me() == user && client.device != device;
        let own = self.clients.iter_mut().find(is_other).unwrap();
        own.keyring.remove_device(&device, self.now_ms);
        own.commit();
        if self.random.bool() {
            self.clients.remove(by);
        }
        self.met.removals += 1;
    }

    /// All devices of a user are gone, with the identity.
    fn lose_identity(&mut self, name: &'static str) {
        let is_its = |client: &Client| client.me().as_str() == name;
        self.clients.retain(|client| !is_its(client));
        self.server.keys.retain(|(owner, _), _| owner.as_str() != name);
        let identity = Identity::import(user(name), &town::seed(&mut self.random));
        self.identities.insert(name, identity);
        self.come(name);
        self.met.identities += 1;
    }

    /// Without losses, each device takes part, writes, and has read all of it.
    fn end(&mut self) {
        self.server.is_stingy = false;
        for round in 0..60 {
            for by in 0..self.clients.len() {
                if round == 0 {
                    self.clients[by].crash();
                }
                // A device that was removed stays out until its user writes.
                if round == 0 || (self.clients[by].group().is_none() && self.clients[by].saved.outbox.is_empty()) {
                    self.write(by);
                }
                let readiness = self.clients[by].settle(&mut self.server, self.now_ms);
                if let Readiness::Held(peer) = readiness {
                    self.clients[by].keyring.accept(&peer);
                }
                self.clients[by].keyring.caught_up(self.now_ms);
                self.clients[by].commit();
            }
            // A refusal ends, and a new day allows a reset.
            self.now_ms += if round % 10 == 9 { DAY_MS } else { 6 * 60_000 };
            let log = self.server.log.len() as u64;
            let is_over = |client: &Client| client.saved.held == log && client.saved.outbox.is_empty();
            if round > 2 && self.clients.iter().all(|client| is_over(client) && client.group().is_some()) {
                return self.check();
            }
        }
        let left: Vec<_> = self.clients.iter().map(|client| (&client.keyring, &client.saved.outbox)).collect();
        panic!("not quiet: {left:#?}");
    }

    fn check(&mut self) {
        let direct = Conversation::direct(&user("alice"), &user("bob"));
        let mut secrets = BTreeSet::new();
        for client in &self.clients {
            let group = client.group().unwrap();
            assert_eq!(group.epoch(&direct).unwrap(), self.server.epoch);
            // Its keys would open the epoch from its beginning.
            assert!(!client.saved.rows.keys().any(|name| name.starts_with("pending/")), "a merged commit is stored");
            secrets.insert((group.authenticator().unwrap(), group.mark().unwrap()));
            let joined = client.saved.notices.iter().rev().find_map(|notice| match notice {
                Notice::Joined { from_seq, .. } => Some(from_seq.value()),
                _ => None,
            });
            for message in &self.server.log {
                let seq = message.seq.value();
                let text = self.texts.get(message.client_msg_id.as_ref().unwrap());
                if message.kind == Kind::Text && !client.saved.shown.contains_key(&seq) {
                    continue;
                }
                match (client.saved.shown.get(&seq), text) {
                    (Some(Ok(shown)), Some(text)) => assert_eq!(shown, text),
                    (None, None) => {}
                    (None | Some(Err(_)), Some(_)) => {
                        assert!(Some(seq) < joined, "{seq} is before no join: {joined:?}");
                    }
                    other => panic!("{seq}: {other:?}"),
                }
            }
        }
        assert_eq!(secrets.len(), 1);
        self.met.entries = self.server.log.len();
        self.met.epochs = self.server.epoch;
        self.met.opened = self.clients.iter().map(|client| client.opened).sum();
        self.met.stale = self.server.stale;
    }
}

#[test]
fn every_device_opens_all_since_its_join_on_every_walk() {
    let walks = std::env::var("PIGEONHOLE_WALKS").map_or(8, |walks| walks.parse().unwrap());
    let first = std::env::var("PIGEONHOLE_WALK").map_or(0, |walk| walk.parse().unwrap());
    let mut sum = Met::default();
    for seed in first..first + walks {
        let mut walk = Walk::new(seed);
        for _ in 0..800 {
            walk.step();
        }
        walk.end();
        let met = walk.met;
        sum.walks += 1;
        sum.entries += met.entries;
        sum.epochs += met.epochs;
        sum.opened += met.opened;
        sum.stale += met.stale;
        sum.crashes += met.crashes;
        sum.lost += met.lost;
        sum.new += met.new;
        sum.resets += met.resets;
        sum.identities += met.identities;
        sum.removals += met.removals;
    }
    println!("{sum:?}");
    let counts = [sum.opened, sum.stale, sum.crashes, sum.lost, sum.new, sum.resets, sum.identities, sum.removals];
    assert!(counts.iter().all(|count| *count > 0), "{sum:?}");
}
