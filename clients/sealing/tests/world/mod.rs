//! A log as the server keeps it, and devices that follow it.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::missing_panics_doc, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use pigeonhole_sealing::{
    Asked, Checked, Conversation, Credential, Device, Entry, Envelope, Error, Followed, Group, Identity, Pending, Step,
};
use wire::{ClientMsgId, ConversationId, DeviceId, UserId};
use zeroize::Zeroizing;

/// A time long ago: a look at the clock of the machine, instead of this time, would fail.
pub(crate) const NOW_S: u64 = 1_000_000_000;

pub(crate) fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

pub(crate) fn id(id: &str) -> ClientMsgId {
    ClientMsgId::parse(id).unwrap()
}

pub(crate) fn seed() -> [u8; 32] {
    std::array::from_fn(|_| fastrand::u8(..))
}

pub(crate) fn identity(name: &str) -> Identity {
    Identity::import(user(name), &seed())
}

pub(crate) fn device(identity: &Identity, name: &str) -> Device {
    identity.device(DeviceId::parse(name).unwrap(), &seed())
}

pub(crate) fn text(body: &str) -> Vec<u8> {
    Envelope { kind: "text".into(), body: body.into(), at: "now".into(), ..Envelope::default() }.write()
}

/// A package as a claim returns it, checked by `by`.
pub(crate) fn package(of: &Phone, by: &Device) -> Checked {
    let package = of.packages.last().unwrap();
    let member = of.device.member();
    let asked = Asked { user: &member.user, device: &member.device, key: Some(&member.key), last_resort: false };
    by.check_package(&package.0, asked, NOW_S).unwrap()
}

/// A published package: the public part, its reference, the private part.
pub(crate) type Published = (Vec<u8>, Vec<u8>, Zeroizing<Vec<u8>>);

/// An installation of an app.
pub(crate) struct Phone {
    pub(crate) device: Device,
    pub(crate) packages: Vec<Published>,
    pub(crate) group: Option<Group>,
    pub(crate) pending: Option<Pending>,
    /// The entries that the phone has taken in.
    pub(crate) at: usize,
    pub(crate) opened: usize,
}

impl Phone {
    pub(crate) fn new(device: Device) -> Self {
        let mut phone = Self { device, packages: Vec::new(), group: None, pending: None, at: 0, opened: 0 };
        phone.publish();
        phone
    }

    pub(crate) fn publish(&mut self) {
        let package = self.device.new_packages(1, false, NOW_S).unwrap().remove(0);
        self.packages.push((package.data, package.reference, package.private));
    }

    pub(crate) fn member(&self) -> &Credential {
        self.device.member()
    }

    /// As after a start of the app: nothing but the bytes is left.
    fn restart(&mut self) {
        self.device = Device::from_bytes(&self.device.to_bytes()).unwrap();
        if let Some(group) = self.group.take() {
            self.group = Some(Group::from_stored(group.state().to_vec(), group.tree().to_vec()).unwrap());
        }
    }
}

#[derive(Clone)]
pub(crate) struct Logged {
    pub(crate) by: Credential,
    pub(crate) client_msg_id: ClientMsgId,
    pub(crate) epoch: u64,
    pub(crate) content: Content,
}

#[derive(Clone)]
pub(crate) enum Content {
    Sealed { body: Vec<u8>, plaintext: Vec<u8> },
    Commit { commit: Option<Vec<u8>>, welcome: Option<(Vec<u8>, Vec<u8>)> },
}

/// A conversation at a server that looks at epochs alone.
pub(crate) struct World {
    pub(crate) conversation: Conversation,
    pub(crate) phones: Vec<Phone>,
    pub(crate) log: Vec<Logged>,
    pub(crate) epoch: u64,
    pub(crate) group_info: Vec<u8>,
    pub(crate) tree: Vec<u8>,
    pub(crate) ids: u32,
    pub(crate) identities: BTreeMap<String, Identity>,
}

impl World {
    /// A direct conversation of alice and bob with as many devices each.
    pub(crate) fn direct(alices: usize, bobs: usize) -> Self {
        let conversation = Conversation::direct(&user("alice"), &user("bob"));
        Self::of(conversation, &[("alice", alices), ("bob", bobs)])
    }

    pub(crate) fn group(users: usize, devices: usize) -> Self {
        let names: Vec<String> = (0..users).map(|place| format!("user-{place}")).collect();
        let members: BTreeSet<UserId> = names.iter().map(|name| user(name)).collect();
        let conversation = Conversation::group(ConversationId::parse("gr_walk").unwrap(), members).unwrap();
        let counts: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), devices)).collect();
        Self::of(conversation, &counts)
    }

    fn of(conversation: Conversation, counts: &[(&str, usize)]) -> Self {
        let mut phones = Vec::new();
        let mut identities = BTreeMap::new();
        for (name, count) in counts {
            let identity = identity(name);
            phones.extend((0..*count).map(|place| Phone::new(device(&identity, &format!("phone-{place}")))));
            identities.insert((*name).to_owned(), identity);
        }
        let (log, group_info, tree) = Default::default();
        Self { conversation, phones, log, epoch: 0, group_info, tree, ids: 0, identities }
    }

    /// A direct conversation that `phones[0]` has begun with all the others, and that all have joined.
    pub(crate) fn begun(alices: usize, bobs: usize) -> Self {
        let mut world = Self::direct(alices, bobs);
        world.begin();
        world
    }

    pub(crate) fn begin(&mut self) {
        let all: Vec<usize> = (1..self.phones.len()).collect();
        assert!(self.birth(0, &all));
        self.catch_all_up();
    }

    pub(crate) fn next_id(&mut self) -> ClientMsgId {
        self.ids += 1;
        id(&format!("c{}", self.ids))
    }

    /// Claims a package of each of these phones. Each claim takes another package.
    pub(crate) fn checked(&mut self, places: &[usize], by: usize) -> Vec<Checked> {
        places
            .iter()
            .map(|place| {
                let checked = package(&self.phones[*place], &self.phones[by].device);
                self.phones[*place].publish();
                checked
            })
            .collect()
    }

    pub(crate) fn birth(&mut self, by: usize, others: &[usize]) -> bool {
        let packages = self.checked(others, by);
        let client_msg_id = self.next_id();
        let phone = &mut self.phones[by];
        let birth = phone.device.birth(&self.conversation, &client_msg_id, self.epoch, &packages, NOW_S).unwrap();
        phone.pending = Some(birth);
        self.send(by)
    }

    pub(crate) fn join(&mut self, by: usize) -> Result<(), Error> {
        let client_msg_id = self.next_id();
        let phone = &mut self.phones[by];
        let (info, tree) = (&self.group_info, &self.tree);
        let join = phone.device.join_external(&self.conversation, &client_msg_id, self.epoch, info, tree)?;
        phone.pending = Some(join);
        Ok(())
    }

    pub(crate) fn commit(&mut self, by: usize, step: Step<'_>) -> Result<(), Error> {
        let client_msg_id = self.next_id();
        let phone = &mut self.phones[by];
        let group = phone.group.as_ref().unwrap();
        let (group, pending) = group.commit(&self.conversation, &client_msg_id, step, NOW_S)?;
        phone.group = Some(group);
        phone.pending = Some(pending);
        Ok(())
    }

    /// The server takes the pending commit, or says that it is stale.
    pub(crate) fn send(&mut self, by: usize) -> bool {
        let pending = self.phones[by].pending.as_ref().unwrap();
        if pending.epoch != self.epoch {
            self.phones[by].pending = None;
            return false;
        }
        self.epoch += 1;
        self.group_info = pending.group_info.clone();
        self.tree = pending.next.tree().to_vec();
        let welcome = pending.welcome.clone().map(|welcome| (welcome, self.tree.clone()));
        let content = Content::Commit { commit: pending.commit.clone(), welcome };
        let client_msg_id = pending.client_msg_id.clone();
        self.log.push(Logged { by: self.phones[by].member().clone(), client_msg_id, epoch: self.epoch, content });
        true
    }

    pub(crate) fn seal(&mut self, by: usize) -> Option<Logged> {
        let client_msg_id = self.next_id();
        let plaintext = text(client_msg_id.as_str());
        let phone = &mut self.phones[by];
        let group = phone.group.as_ref()?;
        let epoch = group.epoch(&self.conversation).unwrap();
        let (group, body) = group.seal(&self.conversation, &client_msg_id, &plaintext).unwrap();
        phone.group = Some(group);
        Some(Logged { by: phone.member().clone(), client_msg_id, epoch, content: Content::Sealed { body, plaintext } })
    }

    /// Seals and stores a message.
    pub(crate) fn say(&mut self, by: usize) -> Logged {
        let sealed = self.seal(by).unwrap();
        assert_eq!(sealed.epoch, self.epoch);
        self.log.push(sealed.clone());
        sealed
    }

    pub(crate) fn entry<'a>(&'a self, logged: &'a Logged) -> Entry<'a> {
        entry(&self.conversation, logged)
    }

    /// A phone takes in the entries up to this one. Each must open that is of an epoch which the phone has.
    pub(crate) fn catch_up(&mut self, by: usize, upto: usize) {
        while self.phones[by].at < upto {
            let logged = self.log[self.phones[by].at].clone();
            let phone = &mut self.phones[by];
            phone.at += 1;
            take_in(&self.conversation, phone, &logged);
            phone.restart();
        }
    }

    pub(crate) fn catch_all_up(&mut self) {
        for place in 0..self.phones.len() {
            self.catch_up(place, self.log.len());
        }
    }

    /// All who have the newest epoch have the same secrets.
    pub(crate) fn assert_agreement(&self) {
        let groups = self.phones.iter().filter_map(|phone| phone.group.as_ref());
        let newest = groups.filter(|group| group.epoch(&self.conversation).unwrap() == self.epoch);
        let seen: BTreeSet<_> = newest.map(|group| (group.authenticator().unwrap(), group.mark().unwrap())).collect();
        assert!(seen.len() <= 1);
    }
}

pub(crate) fn entry<'a>(conversation: &'a Conversation, logged: &'a Logged) -> Entry<'a> {
    Entry { conversation, sender_id: &logged.by.user, client_msg_id: Some(&logged.client_msg_id), epoch: logged.epoch }
}

fn take_in(conversation: &Conversation, phone: &mut Phone, logged: &Logged) {
    let entry = entry(conversation, logged);
    match &logged.content {
        Content::Sealed { body, plaintext } => {
            let Some(group) = &phone.group else { return };
            if logged.by == *phone.device.member() {
                return;
            }
            let (moved, opened) = group.open(entry, body).unwrap();
            assert_eq!((&opened.by, &opened.plaintext), (&logged.by, plaintext));
            assert_eq!(opened.client_msg_id, logged.client_msg_id);
            // The key is gone.
            assert!(moved.open(entry, body).is_err());
            phone.group = Some(moved);
            phone.opened += 1;
        }
        Content::Commit { commit, welcome } => {
            let pending = phone.pending.take();
            let welcome_bytes = welcome.as_ref().map(|(welcome, _)| welcome.as_slice());
            let own = phone.device.member();
            if let Some(Ok(group)) = pending.map(|pending| pending.merge(own, entry, commit.as_deref(), welcome_bytes))
            {
                phone.group = Some(group);
                return;
            }
            let follows = phone.group.take_if(|_| commit.is_some());
            if let (Some(group), Some(commit)) = (follows, commit) {
                phone.group = match group.follow(entry, commit, None).unwrap() {
                    Followed::Changed(next, change) => {
                        assert_eq!(change.by, logged.by);
                        Some(next)
                    }
                    Followed::Removed => None,
                };
                return;
            }
            phone.group = None;
            if let Some((welcome, tree)) = welcome {
                let private: Vec<_> = phone.packages.iter().map(|(_, name, key)| (name.clone(), key.clone())).collect();
                match phone.device.join_by_welcome(entry, commit.is_none(), welcome, tree, &private) {
                    Ok((group, used)) => {
                        phone.packages.retain(|(_, reference, _)| *reference != used);
                        phone.group = Some(group);
                    }
                    Err(Error::NotForUs) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
}
