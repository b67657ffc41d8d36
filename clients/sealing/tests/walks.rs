//! Random walks: several devices begin, add, remove, renew, join, lose races and state, and read all that is theirs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod world;

use pigeonhole_sealing::{Followed, Step};
use world::{Content, World};

/// Counts of the events of a walk: a walk without them proves nothing.
#[derive(Debug, Default)]
struct Met {
    epochs: u64,
    opened: usize,
    stale_commits: usize,
    stale_messages: usize,
    replays: usize,
    joins: usize,
    removals: usize,
    adds: usize,
    births: usize,
}

struct Walk {
    world: World,
    random: fastrand::Rng,
    met: Met,
}

impl Walk {
    fn step(&mut self) {
        let by = self.random.usize(..self.world.phones.len());
        self.world.catch_up(by, self.world.log.len());
        match self.random.u8(..100) {
            // The log goes on while the others read.
            0..45 => self.say(by),
            45..55 => self.stale_message(by),
            55..65 => self.commit(by, true),
            65..75 => self.commit(by, false),
            75..83 => self.race(),
            83..91 => self.join(by),
            91..97 => self.replay(by),
            // A device that lost its state.
            97..99 => self.world.phones[by].group = None,
            _ => self.birth(by),
        }
        let reader = self.random.usize(..self.world.phones.len());
        let upto = self.random.usize(self.world.phones[reader].at..=self.world.log.len());
        self.world.catch_up(reader, upto);
    }

    fn say(&mut self, by: usize) {
        if self.world.phones[by].group.is_some() {
            self.world.say(by);
        }
    }

    /// Others refuse what was sealed for an epoch that has ended, and lose nothing by it.
    fn stale_message(&mut self, by: usize) {
        let Some(late) = self.world.seal(by) else { return };
        self.commit(by, false);
        for phone in 0..self.world.phones.len() {
            self.world.catch_up(phone, self.world.log.len());
            let (Some(group), Content::Sealed { body, .. }) = (&self.world.phones[phone].group, &late.content) else {
                continue;
            };
            if self.world.epoch > late.epoch {
                assert!(group.open(self.world.entry(&late), body).is_err());
                self.met.stale_messages += 1;
            }
        }
    }

    fn commit(&mut self, by: usize, adds: bool) {
        if self.make(by, adds) {
            assert!(self.world.send(by));
            self.world.catch_up(by, self.world.log.len());
        }
    }

    /// Makes a commit: an add of some who are not in, or else a remove of some, or else an update.
    fn make(&mut self, by: usize, adds: bool) -> bool {
        let Some(group) = &self.world.phones[by].group else { return false };
        let members = group.members().unwrap();
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..self.world.phones.len())
            .filter(|place| *place != by)
            .partition(|place| members.contains(self.world.phones[*place].member()));
        let mut some = |places: Vec<usize>| -> Vec<usize> {
            let wanted = self.random.usize(0..=places.len().min(4));
            self.random.choose_multiple(places, wanted)
        };
        if adds {
            let outside = some(outside);
            if outside.is_empty() {
                return false;
            }
            let packages = self.world.checked(&outside, by);
            self.world.commit(by, Step::Add(&packages)).unwrap();
            self.met.adds += 1;
            return true;
        }
        // Halves of the tree get empty, too.
        let inside = some(inside);
        let devices: Vec<_> = inside.iter().map(|place| self.world.phones[*place].member().clone()).collect();
        let devices: Vec<_> = devices.iter().map(|member| (&member.user, &member.device)).collect();
        let step = if devices.is_empty() { Step::Update } else { Step::Remove(&devices) };
        self.met.removals += devices.len();
        self.world.commit(by, step).unwrap();
        true
    }

    /// Two commits for an epoch: who comes second is stale, and all refuse the bytes.
    fn race(&mut self) {
        self.world.catch_all_up();
        let (one, other) = (self.random.usize(..self.world.phones.len()), self.random.usize(..self.world.phones.len()));
        if one == other || !self.make(one, false) || !self.make(other, false) {
            return;
        }
        assert!(self.world.send(one));
        let lost = self.world.phones[other].pending.clone().unwrap();
        let by = self.world.phones[other].member().clone();
        assert!(!self.world.send(other));
        self.world.catch_all_up();
        for phone in &self.world.phones {
            let Some(group) = &phone.group else { continue };
            let (commit, client_msg_id) = (lost.commit.clone().unwrap(), lost.client_msg_id.clone());
            let content = Content::Commit { commit: None, welcome: None };
            let logged = world::Logged { by: by.clone(), client_msg_id, epoch: lost.epoch + 1, content };
            for epoch in [logged.epoch, self.world.epoch + 1] {
                let entry = pigeonhole_sealing::Entry { epoch, ..self.world.entry(&logged) };
                assert!(!matches!(group.follow(entry, &commit, None), Ok(Followed::Changed(..) | Followed::Removed)));
            }
            self.met.stale_commits += 1;
        }
        self.world.assert_agreement();
    }

    /// A device joins by itself, and removes its old leaf. A device whose user has no leaf can't join.
    fn join(&mut self, by: usize) {
        if self.world.log.is_empty() {
            return;
        }
        let user = &self.world.phones[by].member().user;
        let inside = self.world.phones.iter().filter_map(|phone| phone.group.as_ref());
        let newest = inside.filter(|group| group.epoch(&self.world.conversation).unwrap() == self.world.epoch);
        let tree = newest.map(|group| group.members().unwrap()).next();
        let is_known = tree.map(|members| members.iter().any(|member| member.user == *user));
        let joined = self.world.join(by);
        if let Some(is_known) = is_known {
            assert_eq!(joined.is_ok(), is_known, "{joined:?}");
        }
        if joined.is_ok() {
            assert!(self.world.send(by));
            self.world.catch_up(by, self.world.log.len());
            self.met.joins += 1;
        }
    }

    fn replay(&mut self, by: usize) {
        let Some(group) = &self.world.phones[by].group else { return };
        let Some(logged) = self.random.choice(&self.world.log) else { return };
        let entry = self.world.entry(logged);
        match &logged.content {
            Content::Sealed { body, .. } => assert!(group.open(entry, body).is_err()),
            Content::Commit { commit: Some(commit), .. } => assert!(group.follow(entry, commit, None).is_err()),
            Content::Commit { commit: None, .. } => return,
        }
        self.met.replays += 1;
    }

    /// A birth: the first, or a reset with all devices.
    fn birth(&mut self, by: usize) {
        let others: Vec<usize> = (0..self.world.phones.len()).filter(|place| *place != by).collect();
        assert!(self.world.birth(by, &others));
        self.world.catch_up(by, self.world.log.len());
        self.met.births += 1;
    }
}

fn walk(world: World, seed: u64, steps: usize) -> Met {
    let mut walk = Walk { world, random: fastrand::Rng::with_seed(seed), met: Met::default() };
    walk.birth(0);
    for _ in 0..steps {
        walk.step();
        walk.world.assert_agreement();
    }
    walk.world.catch_all_up();
    walk.world.assert_agreement();
    walk.met.epochs = walk.world.epoch;
    walk.met.opened = walk.world.phones.iter().map(|phone| phone.opened).sum();
    walk.met
}

/// As many walks as the variable says, or else `seeds`.
fn walks(name: &str, seeds: u64, steps: usize, world: impl Fn(&mut fastrand::Rng) -> World) {
    let seeds = std::env::var("PIGEONHOLE_WALKS").map_or(seeds, |walks| walks.parse().unwrap());
    let mut all: Vec<Met> = Vec::new();
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        all.push(walk(world(&mut random), seed, steps));
    }
    let sum = |count: fn(&Met) -> usize| all.iter().map(count).sum::<usize>();
    let epochs: u64 = all.iter().map(|met| met.epochs).sum();
    let met = Met {
        epochs,
        opened: sum(|met| met.opened),
        stale_commits: sum(|met| met.stale_commits),
        stale_messages: sum(|met| met.stale_messages),
        replays: sum(|met| met.replays),
        joins: sum(|met| met.joins),
        removals: sum(|met| met.removals),
        adds: sum(|met| met.adds),
        births: sum(|met| met.births),
    };
    println!("{name}: {seeds} walks of {steps} steps: {met:?}");
    let counts = [met.opened, met.stale_commits, met.stale_messages, met.replays, met.joins, met.removals, met.adds];
    assert!(counts.iter().all(|count| *count > 0), "{met:?}");
}

#[test]
fn devices_of_two_users_read_all_that_is_theirs_on_every_walk() {
    walks("direct", 8, 80, |random| World::direct(random.usize(1..=4), random.usize(1..=4)));
}

#[test]
fn devices_of_a_groups_members_read_all_that_is_theirs_on_every_walk() {
    walks("group", 4, 80, |random| World::group(random.usize(3..=8), random.usize(1..=2)));
}
