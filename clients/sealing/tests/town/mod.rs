//! A server by the rules of the protocol, and clients that carry between it and a [`Keyring`].

#![allow(dead_code, reason = "each test uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::result_large_err,
    clippy::too_many_lines,
    reason = "a test"
)]

mod client;
mod server;

pub(crate) use client::{Change, Client};
pub(crate) use server::Server;

use pigeonhole_sealing::{Identity, Readiness, Taken};
use wire::{ConversationId, Message, UserId, direct_conversation_id};

/// A time long ago: a look at the clock of the machine, instead of this time, would fail.
pub(crate) const NOW_MS: u64 = 1_000_000_000_000;
pub(crate) const DAY_MS: u64 = 86_400_000;

pub(crate) fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

pub(crate) fn conversation() -> ConversationId {
    direct_conversation_id(&user("alice"), &user("bob"))
}

pub(crate) fn seed(random: &mut fastrand::Rng) -> [u8; 32] {
    std::array::from_fn(|_| random.u8(..))
}

/// Alice and bob, with a device each, who have written to each other.
pub(crate) struct Pair {
    pub(crate) server: Server,
    pub(crate) alice: Client,
    pub(crate) bob: Client,
    pub(crate) now_ms: u64,
    ids: usize,
}

impl Pair {
    pub(crate) fn strangers() -> Self {
        let mut server = Server::default();
        server.now_ms = NOW_MS;
        let mut random = fastrand::Rng::with_seed(1);
        let mut client = |me: &str, peer: &str| {
            let identity = Identity::import(user(me), &seed(&mut random));
            let mut client = Client::new(identity, "phone", &user(peer), seed(&mut random));
            client.settle(&mut server, NOW_MS);
            client
        };
        let (alice, bob) = (client("alice", "bob"), client("bob", "alice"));
        Self { server, alice, bob, now_ms: NOW_MS, ids: 0 }
    }

    pub(crate) fn friends() -> Self {
        let mut pair = Self::strangers();
        pair.alice_says("hi");
        pair.bob_says("hello");
        pair.settle();
        pair
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("m{}", self.ids)
    }

    pub(crate) fn alice_says(&mut self, text: &str) -> Readiness {
        let id = self.id();
        self.alice.write(&id, text);
        self.alice.settle(&mut self.server, self.now_ms)
    }

    pub(crate) fn bob_says(&mut self, text: &str) -> Readiness {
        let id = self.id();
        self.bob.write(&id, text);
        self.bob.settle(&mut self.server, self.now_ms)
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..3 {
            self.alice.settle(&mut self.server, self.now_ms);
            self.bob.settle(&mut self.server, self.now_ms);
        }
    }

    /// The next entry for alice, which she has not taken.
    pub(crate) fn last(&self) -> Message {
        self.server.seen_by(self.alice.me(), self.server.log.len() - 1)
    }

    pub(crate) fn alice_takes(&mut self, message: &Message) -> Taken {
        self.alice.keyring.take(message, self.now_ms)
    }

    /// Another device of this user, that has nothing but the identity.
    pub(crate) fn second(&mut self, of_alice: bool, name: &str) -> Client {
        let first = if of_alice { &self.alice } else { &self.bob };
        let seed = seed(&mut fastrand::Rng::with_seed(2));
        let mut second = Client::new(first.identity.clone(), name, first.with.clone(), seed);
        second.carry(&mut self.server, self.now_ms);
        second.carry(&mut self.server, self.now_ms);
        second
    }
}

/// A group, with a device of each user.
pub(crate) struct Town {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    pub(crate) now_ms: u64,
    ids: usize,
}

pub(crate) fn group_id() -> ConversationId {
    ConversationId::parse("gr_town").unwrap()
}

impl Town {
    /// A group of the first `members` of these users, who have keys.
    pub(crate) fn of(names: &[&str], members: usize) -> Self {
        let users: Vec<UserId> = names.iter().map(|name| user(name)).collect();
        let mut town =
            Self { server: Server::group(&users[..members], NOW_MS), clients: vec![], now_ms: NOW_MS, ids: 0 };
        for user in users {
            let mut random = fastrand::Rng::with_seed(town.clients.len() as u64 + 1);
            let identity = Identity::import(user, &seed(&mut random));
            town.come(identity, "phone");
        }
        town
    }

    /// The same, and the first has written.
    pub(crate) fn begun(names: &[&str], members: usize) -> Self {
        let mut town = Self::of(names, members);
        town.says(0, "hello");
        town.settle();
        town
    }

    pub(crate) fn come(&mut self, identity: Identity, device: &str) -> usize {
        let mut random = fastrand::Rng::with_seed(self.clients.len() as u64 + 100);
        let mut client = Client::new(identity, device, &group_id(), seed(&mut random));
        client.settle(&mut self.server, self.now_ms);
        self.clients.push(client);
        self.clients.len() - 1
    }

    fn next(&mut self, name: &str) -> String {
        self.ids += 1;
        format!("{name}{}", self.ids)
    }

    pub(crate) fn says(&mut self, by: usize, text: &str) -> Readiness {
        let id = self.next("m");
        self.clients[by].write(&id, text);
        self.clients[by].settle(&mut self.server, self.now_ms)
    }

    /// The client goes on alone.
    pub(crate) fn go(&mut self, by: usize) -> Readiness {
        self.clients[by].settle(&mut self.server, self.now_ms)
    }

    pub(crate) fn roll(&mut self, by: usize, change: Change) {
        let id = wire::ClientMsgId::parse(&self.next("r")).unwrap();
        self.clients[by].turn.rolls.push_back((id, change));
        self.clients[by].commit();
        self.go(by);
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..4 {
            for by in 0..self.clients.len() {
                self.clients[by].settle(&mut self.server, self.now_ms);
            }
            // A download that failed is due again.
            self.now_ms += 6_000;
            self.server.now_ms = self.now_ms;
        }
    }

    /// The texts that a client has shown, in order.
    pub(crate) fn texts(&self, of: usize) -> Vec<&str> {
        self.clients[of].saved.shown.values().flatten().map(String::as_str).collect()
    }

    pub(crate) fn member(&self, of: usize) -> UserId {
        self.clients[of].me().clone()
    }
}

impl Town {
    /// All but one.
    pub(crate) fn settle_but(&mut self, out: usize) {
        for _ in 0..3 {
            for by in (0..self.clients.len()).filter(|by| *by != out) {
                self.clients[by].settle(&mut self.server, self.now_ms);
            }
        }
    }
}
