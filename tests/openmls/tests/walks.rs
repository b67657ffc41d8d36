//! Random walks of devices of both implementations in one conversation. Each device reads all that is its own, and all
//! have the same secrets after each commit.
//!
//! `WALKS=100 cargo test --release` runs more of them.

use std::collections::BTreeSet;
use std::env;
use std::time::SystemTime;

use openmls_judge::{Commit, Judge, Step};
use sealing::{Asked, Checked, Conversation, Credential, Device, Entry, Followed, Group, Identity, Pending};
use wire::{ClientMsgId, ConversationId, DeviceId, UserId};

type Packages = Vec<(Vec<u8>, zeroize::Zeroizing<Vec<u8>>)>;

/// A device of either implementation.
#[expect(clippy::large_enum_variant, reason = "a walk has few of them")]
enum Party {
    Ours { device: Device, group: Option<Group>, pending: Option<Pending>, packages: Packages },
    Theirs(Box<Judge>),
}

struct Member {
    party: Party,
    /// The entries that it has taken.
    at: usize,
}

struct Logged {
    by: Credential,
    id: ClientMsgId,
    epoch: u64,
    content: Content,
}

enum Content {
    Sealed { body: Vec<u8>, plaintext: Vec<u8> },
    Commit { commit: Option<Vec<u8>>, welcome: Option<(Vec<u8>, Vec<u8>)> },
}

#[derive(Debug, Default)]
struct Met {
    epochs: u64,
    opened_by_ours: usize,
    opened_by_theirs: usize,
    adds: usize,
    removals: usize,
    joins: usize,
    lost_races: usize,
    /// The most devices that one commit added or removed.
    changed_most: usize,
}

struct World {
    conversation: Conversation,
    members: Vec<Member>,
    log: Vec<Logged>,
    epoch: u64,
    group_info: Vec<u8>,
    tree: Vec<u8>,
    ids: u64,
    /// The number of devices that a commit adds or removes at most.
    changed_max: usize,
    random: fastrand::Rng,
    now_s: u64,
    met: Met,
}

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

impl Member {
    fn device(&self) -> &Device {
        match &self.party {
            Party::Ours { device, .. } => device,
            Party::Theirs(judge) => &judge.device,
        }
    }

    fn is_in(&self) -> bool {
        match &self.party {
            Party::Ours { group, .. } => group.is_some(),
            Party::Theirs(judge) => judge.is_member(),
        }
    }

    fn secrets(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        match &self.party {
            Party::Ours { group, .. } => {
                group.as_ref().map(|group| (group.authenticator().unwrap(), group.mark().unwrap().to_vec()))
            }
            Party::Theirs(judge) => judge.is_member().then(|| judge.secrets().unwrap()),
        }
    }

    fn package(&mut self, now_s: u64) -> Vec<u8> {
        match &mut self.party {
            Party::Ours { device, packages, .. } => {
                let package = device.new_packages(1, false, now_s).unwrap().remove(0);
                packages.push((package.reference, package.private));
                package.data
            }
            Party::Theirs(judge) => judge.package(now_s).unwrap(),
        }
    }
}

impl World {
    /// Alice and bob with as many devices each, of both implementations in turn.
    fn direct(seed: u64, devices: usize) -> Self {
        let conversation = Conversation::direct(&user("alice"), &user("bob"));
        Self::of(seed, conversation, &["alice", "bob"], devices, 4)
    }

    /// A group of six users with as many devices each. A commit can remove or add half of them.
    fn group(seed: u64, devices: usize) -> Self {
        let users = ["alice", "bob", "carol", "dave", "erin", "fred"];
        let id = ConversationId::parse("gr_walk").unwrap();
        let conversation = Conversation::group(id, users.map(user).into()).unwrap();
        Self::of(seed, conversation, &users, devices, users.len() * devices / 2)
    }

    fn of(seed: u64, conversation: Conversation, users: &[&str], devices: usize, changed_max: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = || std::array::from_fn(|_| random.u8(..));
        let mut members = Vec::new();
        for name in users {
            let identity = Identity::import(user(name), &bytes());
            for place in 0..devices {
                let device = identity.device(DeviceId::parse(&format!("{name}-{place}")).unwrap(), &bytes());
                let party = if (place + members.len()) % 2 == 0 {
                    Party::Ours { device, group: None, pending: None, packages: Vec::new() }
                } else {
                    Party::Theirs(Box::new(Judge::new(device)))
                };
                members.push(Member { party, at: 0 });
            }
        }
        #[expect(clippy::disallowed_methods, reason = "OpenMLS looks at this clock too")]
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        Self {
            conversation,
            changed_max,
            members,
            log: Vec::new(),
            epoch: 0,
            group_info: Vec::new(),
            tree: Vec::new(),
            ids: 0,
            random,
            now_s,
            met: Met::default(),
        }
    }

    fn next_id(&mut self) -> ClientMsgId {
        self.ids += 1;
        ClientMsgId::parse(&format!("c{}", self.ids)).unwrap()
    }

    fn checked(&mut self, place: usize, by: usize) -> (Checked, Vec<u8>) {
        let data = self.members[place].package(self.now_s);
        let member = self.members[place].device().member().clone();
        let asked = Asked { user: &member.user, device: &member.device, key: Some(&member.key), last_resort: false };
        (self.members[by].device().check_package(&data, asked, self.now_s).unwrap(), data)
    }

    /// The first device begins with some of the others.
    fn begin(&mut self) {
        let all: Vec<usize> = (1..self.members.len()).filter(|_| self.random.bool()).collect();
        let packages: Vec<Checked> = all.iter().map(|place| self.checked(*place, 0).0).collect();
        let (id, epoch) = (self.next_id(), self.epoch);
        let Party::Ours { device, pending, .. } = &mut self.members[0].party else { panic!("ours begins") };
        *pending = Some(device.birth(&self.conversation, &id, epoch, &packages, self.now_s).unwrap());
        assert!(self.send(0, &id, None));
    }

    /// The server takes the pending commit, or says that it is stale.
    fn send(&mut self, by: usize, id: &ClientMsgId, theirs: Option<(u64, Commit)>) -> bool {
        self.catch_up(by, self.log.len());
        let member = self.members[by].device().member().clone();
        let (epoch, commit, welcome) = match (&self.members[by].party, theirs) {
            (Party::Ours { pending: Some(pending), .. }, _) => {
                (pending.epoch, pending.commit.clone(), pending.welcome.clone())
            }
            (_, Some((epoch, Commit { commit, welcome }))) => (epoch, Some(commit), welcome),
            // The catching up has dropped it.
            _ => return false,
        };
        if epoch != self.epoch {
            return false;
        }
        self.epoch += 1;
        self.met.epochs += 1;
        match &mut self.members[by].party {
            Party::Ours { group, pending, .. } => {
                let pending = pending.take().unwrap();
                self.group_info.clone_from(&pending.group_info);
                self.tree = pending.next.tree().to_vec();
                *group = Some(pending.next);
            }
            Party::Theirs(judge) => (self.group_info, self.tree) = judge.merge().unwrap(),
        }
        let welcome = welcome.map(|welcome| (welcome, self.tree.clone()));
        let content = Content::Commit { commit, welcome };
        self.log.push(Logged { by: member, id: id.clone(), epoch: self.epoch, content });
        self.members[by].at = self.log.len();
        true
    }

    fn catch_up(&mut self, place: usize, upto: usize) {
        while self.members[place].at < upto {
            let Self { conversation, members, log, met, .. } = self;
            let member = &mut members[place];
            let logged = &log[member.at];
            member.at += 1;
            let entry = Entry {
                conversation,
                sender_id: &logged.by.user,
                client_msg_id: Some(&logged.id),
                epoch: logged.epoch,
            };
            let is_own = logged.by == *member.device().member();
            match (&mut member.party, &logged.content) {
                (Party::Ours { group, .. }, Content::Sealed { body, plaintext }) => {
                    if let Some(before) = group.as_ref().filter(|_| !is_own) {
                        let (next, opened) = before.open(entry, body).unwrap();
                        assert_eq!((&opened.plaintext, &opened.by), (plaintext, &logged.by));
                        *group = Some(next);
                        met.opened_by_ours += 1;
                    }
                }
                (Party::Theirs(judge), Content::Sealed { body, plaintext }) => {
                    if judge.is_member() && !is_own {
                        assert_eq!(judge.open(body).unwrap(), *plaintext);
                        met.opened_by_theirs += 1;
                    }
                }
                (Party::Ours { device, group, pending, packages }, Content::Commit { commit, welcome }) => {
                    *pending = None;
                    *group = match (group.take(), commit, welcome) {
                        (Some(before), Some(commit), _) => match before.follow(entry, commit, None).unwrap() {
                            Followed::Changed(next, _) => Some(next),
                            Followed::Removed => None,
                        },
                        (None, _, Some((welcome, tree))) => {
                            match device.join_by_welcome(entry, commit.is_none(), welcome, tree, packages) {
                                Ok((joined, _)) => Some(joined),
                                Err(sealing::Error::NotForUs) => None,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        (before, ..) => before,
                    };
                }
                (Party::Theirs(judge), Content::Commit { commit, welcome }) => {
                    if judge.is_member() {
                        judge.drop_pending().unwrap();
                        judge.follow(commit.as_deref().expect("a walk has one birth")).unwrap();
                    } else if let Some((welcome, tree)) = welcome {
                        judge.join_by_welcome(welcome, tree).unwrap();
                    }
                }
            }
        }
    }

    fn say(&mut self, by: usize) {
        let (id, epoch) = (self.next_id(), self.epoch);
        let plaintext = format!("{id} {}", "x".repeat(self.random.usize(..600))).into_bytes();
        let Self { conversation, members, .. } = self;
        let body = match &mut members[by].party {
            Party::Ours { group: Some(group), .. } => {
                let (next, body) = group.seal(conversation, &id, &plaintext).unwrap();
                *group = next;
                body
            }
            Party::Ours { .. } => return,
            Party::Theirs(judge) => judge.seal(conversation, &id, &plaintext).unwrap(),
        };
        let member = self.members[by].device().member().clone();
        self.log.push(Logged { by: member, id, epoch, content: Content::Sealed { body, plaintext } });
        self.members[by].at = self.log.len();
    }

    /// Makes a commit. Returns its id, with the bytes of an OpenMLS device.
    fn make(&mut self, by: usize, adds: bool) -> Option<(ClientMsgId, Option<(u64, Commit)>)> {
        let (inside, outside): (Vec<usize>, Vec<usize>) =
            (0..self.members.len()).filter(|place| *place != by).partition(|place| self.is_inside(*place));
        let from = if adds { outside } else { inside };
        let wanted = self.random.usize(0..=from.len().min(self.changed_max));
        // Neighbours in the tree, so that a removal can empty a half of it.
        let first = self.random.usize(0..=from.len() - wanted);
        let chosen: Vec<usize> = from.into_iter().skip(first).take(wanted).collect();
        self.met.changed_most = self.met.changed_most.max(chosen.len());
        if adds && chosen.is_empty() {
            return None;
        }
        let packages: Vec<(Checked, Vec<u8>)> = if adds {
            // A device that joins by a Welcome has no group.
            chosen.iter().map(|place| self.checked(*place, by)).collect()
        } else {
            Vec::new()
        };
        let devices: Vec<(UserId, DeviceId)> = chosen
            .iter()
            .map(|place| self.members[*place].device().member())
            .map(|member| (member.user.clone(), member.device.clone()))
            .collect();
        let (id, epoch) = (self.next_id(), self.epoch);
        let Self { conversation, members, now_s, .. } = self;
        let (checked, data): (Vec<Checked>, Vec<Vec<u8>>) = packages.into_iter().unzip();
        let theirs = match &mut members[by].party {
            Party::Ours { group: Some(group), pending, .. } => {
                let devices: Vec<_> = devices.iter().map(|(user, device)| (user, device)).collect();
                let step = match (adds, devices.is_empty()) {
                    (true, _) => sealing::Step::Add(&checked),
                    (false, false) => sealing::Step::Remove(&devices),
                    (false, true) => sealing::Step::Update,
                };
                let (moved, made) = group.commit(conversation, &id, step, *now_s).unwrap();
                (*group, *pending) = (moved, Some(made));
                None
            }
            Party::Ours { .. } => return None,
            Party::Theirs(judge) => {
                let step = match (adds, devices.is_empty()) {
                    (true, _) => Step::Add(&data),
                    (false, false) => Step::Remove(&devices),
                    (false, true) => Step::Update,
                };
                Some((epoch, judge.commit(conversation, &id, &step).unwrap()))
            }
        };
        if adds {
            self.met.adds += 1;
        } else {
            self.met.removals += devices.len();
        }
        Some((id, theirs))
    }

    /// Whether the newest tree has a leaf of this device.
    fn is_inside(&self, place: usize) -> bool {
        let member = self.members[place].device().member();
        let name = format!("\"user\":\"{}\",\"device\":\"{}\"", member.user, member.device);
        self.tree.windows(name.len()).any(|part| part == name.as_bytes())
    }

    fn join(&mut self, by: usize) {
        let (id, epoch) = (self.next_id(), self.epoch);
        let Self { conversation, members, group_info, tree, .. } = self;
        let theirs = match &mut members[by].party {
            Party::Ours { device, pending, .. } => {
                // A judge refuses who has no leaf of the same identity.
                let Ok(join) = device.join_external(conversation, &id, epoch, group_info, tree) else { return };
                *pending = Some(join);
                None
            }
            Party::Theirs(judge) => {
                let user = format!("\"user\":\"{}\"", judge.device.member().user);
                if !tree.windows(user.len()).any(|part| part == user.as_bytes()) {
                    return;
                }
                Some((epoch, judge.join(conversation, &id, group_info, tree).unwrap()))
            }
        };
        assert!(self.send(by, &id, theirs));
        self.met.joins += 1;
    }

    fn step(&mut self) {
        let by = self.random.usize(..self.members.len());
        self.catch_up(by, self.log.len());
        match self.random.u8(..100) {
            0..50 if self.members[by].is_in() => self.say(by),
            50..78 if self.members[by].is_in() => {
                let adds = self.random.bool();
                if let Some((id, theirs)) = self.make(by, adds) {
                    assert!(self.send(by, &id, theirs));
                }
            }
            78..88 => self.race(),
            88..97 => self.join(by),
            // A device that lost its state.
            97..99 => match &mut self.members[by].party {
                Party::Ours { group, .. } => *group = None,
                Party::Theirs(judge) => judge.forget(),
            },
            _ => {}
        }
        let reader = self.random.usize(..self.members.len());
        let upto = self.random.usize(self.members[reader].at..=self.log.len());
        self.catch_up(reader, upto);
    }

    /// Two commits for an epoch: the server takes the first.
    fn race(&mut self) {
        let (one, other) = (self.random.usize(..self.members.len()), self.random.usize(..self.members.len()));
        for place in [one, other] {
            self.catch_up(place, self.log.len());
        }
        if one == other || ![one, other].iter().all(|place| self.members[*place].is_in()) {
            return;
        }
        let (first, second) = (self.make(one, false), self.make(other, false));
        let (Some((id, theirs)), Some((late, late_theirs))) = (first, second) else { return };
        assert!(self.send(one, &id, theirs));
        assert!(!self.send(other, &late, late_theirs));
        self.met.lost_races += 1;
    }

    /// All who have come to the end have the same secrets.
    fn agree(&mut self) {
        for place in 0..self.members.len() {
            self.catch_up(place, self.log.len());
        }
        let secrets: BTreeSet<_> = self.members.iter().filter_map(Member::secrets).collect();
        assert!(secrets.len() <= 1, "{} forks", secrets.len());
    }
}

fn walk(name: &str, worlds: impl Fn(u64) -> World) -> Met {
    let walks = env::var("WALKS").ok().and_then(|walks| walks.parse().ok()).unwrap_or(12);
    let mut total = Met::default();
    for seed in 0..walks {
        let mut world = worlds(seed);
        world.begin();
        for step in 0..120 {
            world.step();
            if step % 10 == 9 {
                world.agree();
            }
        }
        world.agree();
        let Met { epochs, opened_by_ours, opened_by_theirs, adds, removals, joins, lost_races, changed_most } =
            world.met;
        total.epochs += epochs;
        total.opened_by_ours += opened_by_ours;
        total.opened_by_theirs += opened_by_theirs;
        total.adds += adds;
        total.removals += removals;
        total.joins += joins;
        total.lost_races += lost_races;
        total.changed_most = total.changed_most.max(changed_most);
    }
    println!("{walks} walks of {name}: {total:?}");
    let Met { epochs, opened_by_ours, opened_by_theirs, adds, removals, joins, lost_races, .. } = total;
    assert!([adds, removals, joins, lost_races].iter().all(|count| *count as u64 >= walks / 2));
    assert!(epochs > walks * 10 && opened_by_ours > 100 && opened_by_theirs > 100);
    total
}

#[test]
fn both_implementations_agree() {
    walk("two users", |seed| World::direct(seed, 2 + seed as usize % 4));
}

/// A removal can empty half of the tree, and an addition fills it without a path.
#[test]
fn both_implementations_agree_in_groups() {
    let met = walk("groups", |seed| World::group(seed, 1 + seed as usize % 3));
    assert!(met.changed_most >= 6);
}
