//! Groups: users come and go, and what others make of it, by the log and the tree alone.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod town;

use std::collections::BTreeSet;

use pigeonhole_sealing::{
    Asked, Conversation, Credential, Entry, Group, Identity, Keyring, Lock, Notice, Pending, Prepared, Readiness, Roll,
    Step,
};
use town::{Change, Client, Town, group_id, user};
use wire::{Action, Bytes, Carried, ClientMsgId, DeviceId, Kind, Message, System, UserId};

const THREE: [&str; 4] = ["alice", "bob", "carol", "dave"];

fn id(name: &str) -> ClientMsgId {
    ClientMsgId::parse(name).unwrap()
}

fn conversation(town: &Town) -> Conversation {
    Conversation::group(group_id(), town.server.members.keys().cloned().collect()).unwrap()
}

fn users(group: &Group) -> BTreeSet<String> {
    group.members().unwrap().iter().map(|member| member.user.as_str().to_owned()).collect()
}

/// Whether a device with this state opens the newest entry that is sealed.
fn opens(town: &Town, group: &Group) -> bool {
    let message = town.server.log.iter().rev().find(|message| message.kind == Kind::Sealed).unwrap();
    let conversation = conversation(town);
    let entry = Entry {
        conversation: &conversation,
        sender_id: &message.sender_id,
        client_msg_id: None,
        epoch: message.epoch.unwrap(),
    };
    group.open(entry, Bytes::parse(&message.body).unwrap().as_slice()).is_ok()
}

#[test]
fn members_read_what_a_member_writes_and_a_stranger_is_no_member() {
    let mut town = Town::begun(&THREE, 3);
    town.says(1, "hi");
    town.settle();
    for by in 0..3 {
        assert_eq!(town.texts(by), ["hello", "hi"]);
        assert_eq!(town.clients[by].keyring.lock(&group_id()), Lock::Sealed);
    }
    assert_eq!(town.texts(3), Vec::<&str>::new());
    assert_eq!(town.says(3, "let me in"), Readiness::Refused("not_member".to_owned()));
    assert!(town.server.log.iter().all(|message| message.sender_id != user("dave")));
}

#[test]
fn who_is_added_reads_from_there_on_by_a_welcome_that_is_three_commits_old() {
    let mut town = Town::begun(&THREE, 3);
    town.roll(0, Change::Add(vec![user("dave")]));
    let adds = town.server.asked.iter().filter(|action| **action == "add").count();
    assert_eq!(adds, 1);
    let entry = town.server.log.last().unwrap().clone();
    assert_eq!(entry.kind, Kind::System);
    assert!(entry.commit.is_some() && entry.welcome.is_some() && entry.tree.is_some());
    town.settle_but(3);
    for by in 0..3 {
        town.now_ms += town::DAY_MS;
        town.says(by, &format!("later {by}"));
        town.settle_but(3);
    }
    assert!(town.server.epoch >= 5, "{}", town.server.epoch);
    town.settle();
    assert_eq!(town.texts(3), ["later 0", "later 1", "later 2"]);
    let joined: Vec<_> = town.clients[3].saved.notices.iter().collect();
    assert_eq!(joined, [&Notice::Joined { conversation_id: group_id(), from_seq: entry.seq }]);
    town.says(3, "thanks");
    town.settle();
    assert_eq!(town.texts(2).last(), Some(&"thanks"));
}

#[test]
fn nothing_is_sealed_before_who_left_is_out() {
    let mut town = Town::begun(&THREE, 3);
    let of_bob = town.clients[1].group().unwrap();
    town.roll(1, Change::Leave);
    assert!(town.clients[1].group().is_none(), "who left keeps keys");
    // Alice has the entry, and commits without help.
    town.go(0);
    assert_eq!(town.clients[0].keyring.prepare(&group_id(), town.now_ms), Readiness::Waits);
    town.says(0, "without bob");
    let commit = town.server.log.iter().rev().find(|message| message.kind == Kind::Commit).unwrap();
    assert_eq!(commit.removes.as_deref(), Some(&vec![user("bob")]));
    assert_eq!(town.server.rekeys, 0);
    town.settle();
    assert_eq!(town.texts(2), ["hello", "without bob"]);
    assert!(!opens(&town, &of_bob));
    assert!(!users(&town.clients[2].group().unwrap()).contains("bob"));
}

#[test]
fn a_message_that_the_server_refuses_for_who_left_is_stored_after_a_commit_that_names_them() {
    let mut town = Town::begun(&THREE, 3);
    let of_bob = town.clients[1].group().unwrap();
    // Alice's request is under way when bob leaves.
    town.clients[0].write("m-late", "late");
    town.clients[0].pump(town.now_ms);
    town.roll(1, Change::Leave);
    town.clients[0].serve(&mut town.server, 0);
    town.clients[0].answer(0, town.now_ms, false);
    town.clients[0].commit();
    assert_eq!(town.server.rekeys, 1);
    town.now_ms += 2_000;
    town.settle();
    assert_eq!(town.texts(2), ["hello", "late"]);
    assert!(!opens(&town, &of_bob));
    assert_eq!(town.server.rekeys, 1);
}

#[test]
fn a_remove_has_its_commit_and_without_one_it_is_as_a_leave() {
    let mut town = Town::begun(&THREE, 4);
    let (of_carol, of_dave) = (town.clients[2].group().unwrap(), town.clients[3].group().unwrap());
    town.roll(0, Change::Remove(user("dave")));
    let entry = town.server.log.last().unwrap();
    assert!(entry.kind == Kind::System && entry.commit.is_some());
    assert!(town.server.unnamed.is_empty());
    town.settle();
    town.says(1, "three");
    town.settle();
    assert_eq!(town.texts(2), ["hello", "three"]);
    assert!(!opens(&town, &of_dave) && opens(&town, &town_before(&of_carol, &town)));

    // A device without a part removes carol.
    let identity = town.clients[0].identity.clone();
    let second = town.come(identity, "tablet");
    let asked = town.clients[second].keyring.roll(&group_id(), &id("r-x"), Roll::Remove(&user("carol")), town.now_ms);
    assert!(matches!(asked, Prepared::Ready(_)), "{asked:?}");
    town.clients[second].crash();
    let mut fresh = Town::of(&["alice", "bob"], 2);
    let plain = fresh.clients[0].keyring.roll(&group_id(), &id("r-y"), Roll::Remove(&user("bob")), fresh.now_ms);
    assert_eq!(plain, Prepared::Plain);
    let of_carol = town.clients[2].group().unwrap();
    let (owner, phone) = (user("alice"), DeviceId::parse("other").unwrap());
    let request = wire::RemoveRequest {
        conversation_id: group_id(),
        client_msg_id: id("r-plain"),
        user_id: user("carol"),
        keys: None,
    };
    town.server.ask(&owner, &phone, &Action::Remove(request)).unwrap();
    town.settle();
    town.says(1, "two");
    town.settle();
    assert_eq!(town.texts(0).last(), Some(&"two"));
    assert!(!opens(&town, &of_carol));
    assert!(town.server.unnamed.is_empty());
}

/// The state after all that the log has.
fn town_before(group: &Group, town: &Town) -> Group {
    let mut group = group.clone();
    let everybody = Conversation::group(group_id(), THREE.iter().map(|name| user(name)).collect()).unwrap();
    for message in &town.server.log {
        let epoch = message.epoch.unwrap_or_default();
        let entry = Entry { conversation: &everybody, sender_id: &message.sender_id, client_msg_id: None, epoch };
        if let Some(Carried::Bytes(commit)) = message.commit.as_deref()
            && let Ok(pigeonhole_sealing::Followed::Changed(next, _)) = group.follow(entry, commit.as_slice(), None)
        {
            group = next;
        }
    }
    group
}

/// Appends a commit of alice's that no honest client makes. Returns whether carol follows it.
fn carol_follows(
    town: &mut Town,
    make: impl FnOnce(&Town, &Group) -> Pending,
    entry: impl FnOnce(&mut Message),
) -> bool {
    let group = town.clients[0].group().unwrap();
    let pending = make(town, &group);
    town.server.epoch += 1;
    let epoch = town.server.epoch;
    let message = town.server.append(&user("alice"), &pending.client_msg_id.clone(), Kind::Commit);
    message.silent = true;
    message.epoch = Some(epoch);
    message.commit = pending.commit.map(|commit| Box::new(Carried::Bytes(commit.into())));
    message.tree = pending.welcome.as_ref().map(|_| Box::new(Carried::Bytes(pending.next.tree().to_vec().into())));
    message.welcome = pending.welcome.map(|welcome| Box::new(Carried::Bytes(welcome.into())));
    entry(message);
    while town.clients[2].read(&town.server, town.now_ms) {}
    let is_broken = town.clients[2].turn.notices.iter().any(|notice| matches!(notice, Notice::Broken { .. }));
    !is_broken
}

fn remove(name: &str) -> impl FnOnce(&Town, &Group) -> Pending + '_ {
    move |town, group| {
        let gone: Vec<Credential> =
            group.members().unwrap().into_iter().filter(|member| member.user.as_str() == name).collect();
        let gone: Vec<_> = gone.iter().map(|member| (&member.user, &member.device)).collect();
        group.commit(&conversation(town), &id("crook"), Step::Remove(&gone), town.now_ms / 1_000).unwrap().1
    }
}

fn add(name: &str) -> impl FnOnce(&Town, &Group) -> Pending {
    let identity = Identity::import(user(name), &[7; 32]);
    move |town, group| {
        let device = identity.device(DeviceId::parse("new").unwrap(), &[8; 32]);
        let package = device.new_packages(1, false, town.now_ms / 1_000).unwrap().remove(0);
        let member = device.member();
        let asked = Asked { user: &member.user, device: &member.device, key: None, last_resort: false };
        let other = Identity::import(user("checker"), &[5; 32]).device(device.member().device.clone(), &[6; 32]);
        let checked = other.check_package(&package.data, asked, town.now_ms / 1_000).unwrap();
        let members = town.server.members.keys().cloned().chain([member.user.clone()]).collect();
        let lax = Conversation::group(group_id(), members).unwrap();
        group.commit(&lax, &id("crook"), Step::Add(&[checked]), town.now_ms / 1_000).unwrap().1
    }
}

/// A birth with carol's and dave's devices.
fn birth(town: &Town, _: &Group) -> Pending {
    let (alice, now_s) = (&town.clients[0], town.now_ms / 1_000);
    let device = alice.identity.device(alice.device.clone(), &alice.seed);
    let packages = [2, 3].map(|of| {
        let Client { identity, device: of, .. } = &town.clients[of];
        let package = &town.server.keys[&(identity.user().clone(), of.clone())].left[0].0;
        let asked = Asked { user: identity.user(), device: of, key: None, last_resort: false };
        device.check_package(package.as_slice(), asked, now_s).unwrap()
    });
    let lax = Conversation::group(group_id(), THREE.iter().map(|name| user(name)).collect()).unwrap();
    device.birth(&lax, &id("crook"), town.server.epoch, &packages, now_s).unwrap()
}

fn update(town: &Town, group: &Group) -> Pending {
    group.commit(&conversation(town), &id("crook"), Step::Update, town.now_ms / 1_000).unwrap().1
}

fn system(event: System) -> impl FnOnce(&mut Message) {
    move |message| (message.kind, message.system) = (Kind::System, Some(event))
}

#[test]
fn a_commit_does_what_its_entry_names_and_nothing_else() {
    let begun = || Town::begun(&THREE, 3);
    let removed = |name: &str| system(System::MembersRemoved { members: vec![user(name)] });
    let added = |name: &str| system(System::MembersAdded { members: vec![user(name)] });
    let names = |name: &'static str| move |message: &mut Message| message.removes = Some(Box::new(vec![user(name)]));
    let nothing = |_: &mut Message| {};
    // Honest clients make this.
    assert!(carol_follows(&mut begun(), update, nothing));
    assert!(carol_follows(&mut begun(), remove("bob"), removed("bob")));
    assert!(carol_follows(&mut begun(), add("dave"), added("dave")));
    let mut town = begun();
    town.roll(1, Change::Leave);
    assert!(carol_follows(&mut town, remove("bob"), names("bob")));
    // A stranger, and members who are removed by no entry.
    assert!(!carol_follows(&mut begun(), add("dave"), nothing));
    assert!(!carol_follows(&mut begun(), remove("bob"), nothing));
    assert!(!carol_follows(&mut begun(), remove("bob"), names("bob")));
    assert!(!carol_follows(&mut begun(), remove("carol"), names("carol")));
    assert!(!carol_follows(&mut begun(), remove("carol"), nothing));
    // The entry names others.
    assert!(!carol_follows(&mut begun(), remove("bob"), removed("dave")));
    assert!(!carol_follows(&mut begun(), update, removed("bob")));
    assert!(!carol_follows(&mut begun(), add("dave"), added("erin")));
    assert!(!carol_follows(&mut begun(), update, added("dave")));
    let mut town = begun();
    town.roll(1, Change::Leave);
    assert!(!carol_follows(&mut town, remove("bob"), nothing), "it does not name who left");
    let mut town = begun();
    town.roll(1, Change::Leave);
    assert!(!carol_follows(&mut town, update, names("bob")), "it names bob, and leaves the devices in");
    // A user who left does not come back by a commit.
    let mut town = begun();
    town.roll(1, Change::Leave);
    town.says(0, "without bob");
    town.settle();
    assert!(!carol_follows(&mut town, add("bob"), nothing));
}

#[test]
fn what_nobody_can_follow_ends_with_a_birth_and_a_remove_needs_no_commit() {
    let mut town = Town::begun(&THREE, 4);
    // Dave stores bytes that no member can follow.
    town.server.epoch += 1;
    let epoch = town.server.epoch;
    let message = town.server.append(&user("dave"), &id("c-bad"), Kind::Commit);
    (message.silent, message.epoch) = (true, Some(epoch));
    message.commit = Some(Box::new(Carried::Bytes(vec![1, 2, 3].into())));
    let asked = town.clients[0].keyring.roll(&group_id(), &id("r-1"), Roll::Remove(&user("dave")), town.now_ms);
    assert!(matches!(asked, Prepared::Ready(_)), "the log has not come: {asked:?}");
    town.clients[0].crash();
    town.roll(0, Change::Remove(user("dave")));
    town.settle();
    town.says(1, "after");
    town.settle();
    let births = town.server.log.iter().filter(|message| message.kind == Kind::Commit && message.commit.is_none());
    assert_eq!(births.count(), 2);
    assert!(!users(&town.clients[2].group().unwrap()).contains("dave"));
    assert_eq!(town.texts(2).last(), Some(&"after"));
    assert_eq!(town.texts(0).last(), Some(&"after"));
}

/// A birth by the client at this place is under way when bob leaves, and the server stores it.
fn born_beside_a_leave(by: usize) -> Town {
    let mut town = Town::begun(&THREE, 3);
    let now_ms = town.now_ms;
    town.clients[by].keyring.reset(&group_id(), now_ms);
    town.clients[by].commit();
    let is_birth = |client: &Client| client.asked.iter().any(|asked| matches!(asked.action, Action::Commit(_)));
    while !is_birth(&town.clients[by]) {
        town.clients[by].pump(now_ms);
        while !is_birth(&town.clients[by]) && !town.clients[by].asked.is_empty() {
            town.clients[by].serve(&mut town.server, 0);
            town.clients[by].answer(0, now_ms, false);
        }
    }
    town.server.append(&user("bob"), &id("r-leave"), Kind::System).system = Some(System::MemberLeft {});
    town.clients[by].serve(&mut town.server, 0);
    town.server.members.remove(&user("bob"));
    town
}

#[test]
fn a_birth_beside_a_leave_is_followed_and_who_left_is_out_before_the_next_message() {
    let mut town = born_beside_a_leave(0);
    assert!(town.server.log.last().unwrap().commit.is_none(), "the birth is stored");
    while town.clients[2].read(&town.server, town.now_ms) {}
    town.clients[2].commit();
    assert!(users(&town.clients[2].group().unwrap()).contains("bob"), "the author did not know it");
    town.settle();
    let of_bob = town.clients[1].group();
    town.says(0, "without bob");
    town.settle();
    assert_eq!(town.texts(2).last(), Some(&"without bob"));
    assert!(!users(&town.clients[2].group().unwrap()).contains("bob"));
    assert!(of_bob.is_none(), "who left keeps keys");
}

#[test]
fn a_birth_with_a_stranger_is_not_followed_and_a_newcomer_seals_nothing_for_the_stranger() {
    let mut town = Town::begun(&THREE, 3);
    town.clients[2].keyring.caught_up(town.now_ms);
    assert!(!carol_follows(&mut town, birth, |_| {}));
    // Carol may not know of a member who left since.
    let mut town = Town::begun(&THREE, 3);
    assert!(carol_follows(&mut town, birth, |_| {}));
    let now_ms = town.now_ms;
    assert_eq!(town.clients[2].keyring.prepare(&group_id(), now_ms), Readiness::Waits);
    let requests = town.clients[2].keyring.requests(now_ms);
    let removes = requests.into_iter().find_map(|(_, action)| match action {
        Action::Commit(request) => Some(request.removes),
        _ => None,
    });
    assert_eq!(removes, Some(vec![user("dave")]));
}

#[test]
fn a_birth_by_who_left_is_not_followed() {
    let mut town = born_beside_a_leave(1);
    while town.clients[2].read(&town.server, town.now_ms) {}
    assert!(town.clients[2].turn.notices.iter().any(|notice| matches!(notice, Notice::Broken { .. })));
}

#[test]
fn a_group_begins_without_members_who_have_no_keys_and_adds_nobody_without() {
    let mut town = Town::of(&["alice", "bob"], 2);
    town.server.members.insert(user("erin"), 1);
    town.says(0, "hello");
    town.settle();
    assert_eq!(town.texts(1), ["hello"]);
    let without = Notice::WithoutKeys { conversation_id: group_id(), users: vec![user("erin")] };
    assert!(town.clients[0].saved.notices.contains(&without));
    let (roll, now_ms) = (id("r-9"), town.now_ms);
    let frank = [user("frank")];
    assert_eq!(town.clients[0].keyring.roll(&group_id(), &roll, Roll::Add(&frank), now_ms), Prepared::Waits);
    town.clients[0].carry(&mut town.server, now_ms);
    let refused = town.clients[0].keyring.roll(&group_id(), &roll, Roll::Add(&frank), now_ms);
    assert_eq!(refused, Prepared::Refused("no_keys".to_owned(), frank.to_vec()));
    // Messages go on.
    assert_eq!(town.clients[0].keyring.prepare(&group_id(), now_ms), Readiness::Ready);
}

#[test]
fn a_verified_member_with_another_identity_holds_what_is_written() {
    let mut town = Town::begun(&THREE, 3);
    town.clients[0].keyring.verify(&user("carol"));
    // Carol has lost everything, and begins anew.
    town.server.keys.retain(|(owner, _), _| owner.as_str() != "carol");
    town.clients.remove(2);
    let carol = town.come(Identity::import(user("carol"), &[9; 32]), "new-phone");
    town.says(carol, "it is me");
    town.now_ms += town::DAY_MS;
    town.settle();
    assert_eq!(town.clients[0].keyring.lock(&group_id()), Lock::Changed);
    assert_eq!(town.says(0, "who are you"), Readiness::Held(user("carol")));
    town.clients[0].keyring.accept(&user("carol"));
    town.settle();
    assert_eq!(town.texts(1).last(), Some(&"who are you"));
}

#[test]
fn a_large_group_has_its_bytes_in_files_and_takes_no_others() {
    let names: Vec<String> = (0..46).map(|place| format!("user-{place:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut town = Town::of(&names, 45);
    town.says(0, "hello");
    let birth = town.server.log.iter().find(|message| message.kind == Kind::Commit).unwrap();
    assert!(matches!(birth.tree.as_deref(), Some(Carried::File { .. })), "{birth:?}");
    // The downloads of one device come with other bytes every second time.
    town.settle();
    for by in [1, 30, 44] {
        assert_eq!(town.texts(by), ["hello"], "{by}");
    }
    town.roll(1, Change::Add(vec![user(names[45])]));
    town.settle();
    town.says(45, "hi");
    town.settle();
    for by in [0, 30, 45] {
        assert_eq!(town.texts(by).last(), Some(&"hi"), "{by}");
        let is_broken = |notice: &Notice| matches!(notice, Notice::Broken { .. });
        assert!(!town.clients[by].saved.notices.iter().any(is_broken), "{by} takes other bytes for a fork");
    }
}

/// A group of alice's phone and of twenty users, who have ten devices each, and the first one this many. Bob is no member.
fn crowd(of_first: u8) -> Town {
    let mut town = Town::of(&["alice", "bob"], 1);
    for place in 1..=20 {
        let name = format!("user-{place:02}");
        let identity = Identity::import(user(&name), &[place; 32]);
        for number in 0..if place == 1 { of_first } else { 10 } {
            let mut seed = [place; 32];
            seed[0] = number;
            let device = identity.device(DeviceId::parse(&format!("phone-{number}")).unwrap(), &seed);
            let package = device.new_packages(1, false, town.now_ms / 1_000).unwrap().remove(0);
            let packages = town.server.keys.entry((user(&name), device.member().device.clone())).or_default();
            packages.left.push((package.data.into(), i64::MAX));
        }
        town.server.members.insert(user(&name), 1);
    }
    town
}

#[test]
fn a_group_has_at_most_200_devices() {
    let mut town = crowd(10);
    assert_eq!(town.says(0, "hello"), Readiness::Refused("limit_reached".to_owned()));
    let mut town = crowd(9);
    town.says(0, "hello");
    town.go(0);
    assert_eq!(town.clients[0].keyring.lock(&group_id()), Lock::Sealed);
    let mut asked = Prepared::Waits;
    for _ in 0..4 {
        town.go(0);
        asked = town.clients[0].keyring.roll(&group_id(), &id("r-1"), Roll::Add(&[user("bob")]), town.now_ms);
    }
    assert_eq!(asked, Prepared::Refused("limit_reached".to_owned(), Vec::new()));
}

#[test]
fn a_client_that_carries_no_files_refuses_a_large_group() {
    let names: Vec<String> = (0..46).map(|place| format!("user-{place:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let carries_none = |town: &mut Town| {
        let client = &mut town.clients[0];
        let rows = client.saved.rows.clone();
        client.keyring = Keyring::open(&client.identity, client.device.clone(), rows, &client.seed).unwrap();
        client.keyring.connected();
    };
    let mut town = Town::of(&names, 46);
    carries_none(&mut town);
    town.says(0, "hello");
    assert_eq!(town.go(0), Readiness::Refused("limit_reached".to_owned()));

    // A group that grows too large.
    let mut town = Town::of(&names, 30);
    town.says(0, "hello");
    carries_none(&mut town);
    let (adds, users): (_, Vec<UserId>) = (id("r-1"), names[30..].iter().map(|name| user(name)).collect());
    let mut asked = Prepared::Waits;
    for _ in 0..4 {
        town.go(0);
        asked = town.clients[0].keyring.roll(&group_id(), &adds, Roll::Add(&users), town.now_ms);
    }
    assert_eq!(asked, Prepared::Refused("limit_reached".to_owned(), Vec::new()));
}

#[test]
fn a_user_who_commits_without_end_is_removed_without_a_commit() {
    let mut town = Town::begun(&THREE, 4);
    let of_dave = town.clients[3].group().unwrap();
    let mut dave = of_dave.clone();
    let roll = (id("r-out"), Change::Remove(user("dave")));
    town.clients[0].turn.rolls.push_back(roll);
    let is_removed = |town: &Town| !town.server.members.contains_key(&user("dave"));
    let mut rounds = 0;
    while !is_removed(&town) {
        rounds += 1;
        assert!(rounds < 10, "dave stays");
        town.clients[0].pump(town.now_ms);
        // Dave is always first.
        let pending = update(&town, &dave);
        town.server.epoch += 1;
        let epoch = town.server.epoch;
        let message = town.server.append(&user("dave"), &id(&format!("dave-{rounds}")), Kind::Commit);
        (message.silent, message.epoch) = (true, Some(epoch));
        message.commit = pending.commit.map(|commit| Box::new(Carried::Bytes(commit.into())));
        dave = pending.next;
        while !town.clients[0].asked.is_empty() {
            town.clients[0].serve(&mut town.server, 0);
            town.clients[0].answer(0, town.now_ms, false);
        }
        while town.clients[0].read(&town.server, town.now_ms) {}
        town.clients[0].commit();
    }
    assert_eq!(rounds, 4);
    assert!(town.server.log.last().unwrap().commit.is_none());
    town.settle();
    town.says(1, "without dave");
    town.settle();
    assert_eq!(town.texts(2).last(), Some(&"without dave"));
    assert!(!opens(&town, &dave) && !opens(&town, &of_dave));
    // The next removal has its commit again.
    town.roll(0, Change::Remove(user("carol")));
    assert!(town.server.log.last().unwrap().commit.is_some());
}

#[test]
fn a_user_who_leaves_and_is_added_again_reads_nothing_between() {
    let mut town = Town::begun(&THREE, 3);
    let of_bob = town.clients[1].group().unwrap();
    town.roll(1, Change::Leave);
    town.roll(0, Change::Add(vec![user("bob")]));
    // A commit without bob comes first.
    let log = &town.server.log;
    let named = log.iter().position(|message| message.removes.as_deref() == Some(&vec![user("bob")])).unwrap();
    let added = log.iter().position(|message| matches!(message.system, Some(System::MembersAdded { .. }))).unwrap();
    assert!(named < added);
    town.settle();
    town.says(0, "welcome back");
    town.settle();
    assert_eq!(town.texts(1).last(), Some(&"welcome back"));
    assert!(!opens(&town, &of_bob), "the keys from before the leave open it");
    assert_eq!(users(&town.clients[2].group().unwrap()).len(), 3);
}

#[test]
fn a_device_follows_a_birth_with_a_user_who_left_before_it_loaded_the_members() {
    let mut town = Town::of(&["alice", "bob", "carol"], 3);
    let mut keys = town.server.keys.clone();
    keys.retain(|(owner, _), _| owner.as_str() == "carol");
    town.server.keys.retain(|(owner, _), _| owner.as_str() != "carol");
    town.says(0, "without carol's keys");
    town.server.keys.extend(keys);
    let now_ms = town.now_ms;
    town.clients[0].keyring.reset(&group_id(), now_ms);
    town.go(0);
    assert_eq!(town.server.epoch, 2);
    town.roll(2, Change::Leave);
    // Bob has the whole log before him, and a list without carol.
    town.settle();
    assert!(users(&town.clients[1].group().unwrap()).contains("carol"));
    assert_eq!(town.server.epoch, 2, "bob begins anew");
    town.says(0, "bye");
    town.settle();
    assert_eq!(town.texts(1), ["without carol's keys", "bye"]);
    assert!(!users(&town.clients[1].group().unwrap()).contains("carol"));
}

/// Bob's laptop, which joins behind entries that it has not taken.
fn with_a_laptop() -> Town {
    let mut town = Town::begun(&THREE, 3);
    let (identity, now_ms) = (town.clients[1].identity.clone(), town.now_ms);
    let mut laptop = Client::new(identity, "laptop", &group_id(), [9; 32]);
    for _ in 0..2 {
        laptop.carry(&mut town.server, now_ms);
    }
    // The laptop has the members, and requests nothing more yet.
    laptop.keyring.met(&group_id(), now_ms);
    laptop.carry(&mut town.server, now_ms);
    assert!(town.server.asked.ends_with(&["members"]), "{:?}", town.server.asked);
    town.clients.push(laptop);
    town.roll(0, Change::Add(vec![user("dave")]));
    town.says(0, "hello dave");
    for _ in 0..4 {
        town.clients[4].carry(&mut town.server, now_ms);
    }
    assert!(town.clients[4].group().is_some());
    town
}

#[test]
fn a_device_that_joins_behind_entries_which_it_has_not_taken_removes_no_member() {
    let mut town = with_a_laptop();
    town.says(4, "hi");
    town.settle();
    let removes: Vec<_> = town.server.log.iter().filter_map(|message| message.removes.as_ref()).collect();
    assert!(removes.is_empty(), "{removes:?}");
    assert_eq!(town.texts(3), ["hello dave", "hi"]);
    for client in &town.clients {
        assert!(!client.saved.notices.iter().any(|notice| matches!(notice, Notice::Broken { .. })));
    }
}

#[test]
fn a_device_that_gets_no_list_of_members_reads_up_to_the_entry_that_removes_its_user() {
    let mut town = with_a_laptop();
    town.says(0, "hi bob");
    town.roll(0, Change::Remove(user("bob")));
    town.settle();
    assert_eq!(town.texts(4), ["hi bob"]);
    assert!(town.clients[4].group().is_none());
}

#[test]
fn a_device_loads_all_members_and_follows_them() {
    let names: Vec<String> = (0..8).map(|place| format!("user-{place}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut town = Town::begun(&names, 8);
    for by in 0..8 {
        town.says(by, "hi");
    }
    town.settle();
    // Three pages for each device, and again for the one whose birth may be behind entries that it has not taken.
    let pages = town.server.asked.iter().filter(|action| **action == "members").count();
    assert_eq!(pages, 8 * 3 + 3);
    let all: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(users(&town.clients[7].group().unwrap()), all);
    let members: Vec<UserId> = town.server.members.keys().cloned().collect();
    assert_eq!(members.len(), 8);
}
