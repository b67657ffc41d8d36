//! The messages that a stored state opens, and those that it does not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod world;

use pigeonhole_sealing::{Device, Group, Identity, Step, safety_number};
use wire::DeviceId;
use world::{Content, World, user};

#[test]
fn no_stored_state_opens_an_earlier_message() {
    let mut world = World::begun(1, 2);
    let mut states: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for place in 0..24 {
        // `phones[1]` reads all of it later, and says nothing.
        world.say(place % 2 * 2);
        if place % 8 == 7 {
            for by in [0, 2] {
                world.catch_up(by, world.log.len());
            }
            world.commit(0, Step::Update).unwrap();
            assert!(world.send(0));
            world.catch_up(0, world.log.len());
            world.catch_up(2, world.log.len());
        }
    }
    for upto in 1..=world.log.len() {
        world.catch_up(1, upto);
        let group = world.phones[1].group.as_ref().unwrap();
        states.push((group.state().to_vec(), group.tree().to_vec()));
    }
    let mut opened = 0;
    for (place, (state, tree)) in states.into_iter().enumerate() {
        let group = Group::from_stored(state, tree).unwrap();
        for (seq, logged) in world.log.iter().enumerate() {
            let Content::Sealed { body, .. } = &logged.content else { continue };
            let can = group.open(world.entry(logged), body).is_ok();
            assert!(!can || seq > place, "the state after entry {place} opens entry {seq}");
            // The control: a state opens what came later in its epoch.
            opened += usize::from(can);
        }
    }
    assert!(opened > 0);
}

#[test]
fn a_peek_leaves_the_message_to_be_opened() {
    let mut world = World::begun(1, 1);
    let sealed = world.say(0);
    let Content::Sealed { body, .. } = &sealed.content else { panic!() };
    let group = world.phones[1].group.clone().unwrap();
    let peeked = group.peek(world.entry(&sealed), body).unwrap();
    let (_, opened) = group.open(world.entry(&sealed), body).unwrap();
    assert_eq!(peeked, opened);
    assert_eq!(opened.by, *world.phones[0].member());
}

#[test]
fn a_copied_state_reads_until_the_next_update_and_a_removed_device_nothing() {
    let mut world = World::begun(1, 2);
    let copy = world.phones[1].group.clone().unwrap();
    world.commit(1, Step::Update).unwrap();
    assert!(world.send(1));
    world.catch_all_up();
    let sealed = world.say(0);
    let Content::Sealed { body, .. } = &sealed.content else { panic!() };
    // The thief has the state from before, and each entry: the victim's own commit opens for none of its keys.
    let Content::Commit { commit: Some(commit), .. } = &world.log[1].content else { panic!() };
    assert!(copy.follow(world.entry(&world.log[1]), commit, None).is_err());
    assert!(copy.open(world.entry(&sealed), body).is_err());
    world.catch_all_up();

    let removed = world.phones[2].group.clone().unwrap();
    let member = world.phones[2].member().clone();
    world.commit(0, Step::Remove(&[(&member.user, &member.device)])).unwrap();
    assert!(world.send(0));
    world.catch_all_up();
    assert!(world.phones[2].group.is_none());
    let sealed = world.say(0);
    let Content::Sealed { body, .. } = &sealed.content else { panic!() };
    assert!(removed.open(world.entry(&sealed), body).is_err());
}

#[test]
fn a_state_and_a_tree_of_two_epochs_are_refused() {
    let mut world = World::begun(1, 1);
    let old = world.phones[0].group.clone().unwrap();
    world.commit(0, Step::Update).unwrap();
    assert!(world.send(0));
    world.catch_all_up();
    let new = world.phones[0].group.clone().unwrap();
    assert!(Group::from_stored(old.state().to_vec(), new.tree().to_vec()).is_err());
    assert!(Group::from_stored(new.state().to_vec(), old.tree().to_vec()).is_err());
    assert!(Group::from_stored(new.state().to_vec(), new.tree().to_vec()).is_ok());
    let later = [&[2], &new.state()[1..]].concat();
    assert!(Group::from_stored(later, new.tree().to_vec()).is_err());
    assert!(Group::from_stored(Vec::new(), Vec::new()).is_err());
}

#[test]
fn an_identity_and_a_device_return_as_they_were_exported() {
    let identity = world::identity("alice");
    let again = Identity::import(user("alice"), &identity.export());
    assert_eq!(again.key(), identity.key());
    let device = world::device(&identity, "phone");
    let stored = Device::from_bytes(&device.to_bytes()).unwrap();
    assert_eq!((stored.member(), stored.credential()), (device.member(), device.credential()));
    // A device of another identity, or with another key, is none.
    let mut bytes = device.to_bytes().to_vec();
    bytes[0] ^= 1;
    assert!(Device::from_bytes(&bytes).is_err());
    let other = world::identity("alice").device(DeviceId::parse("phone").unwrap(), &world::seed());
    let mixed = [&device.to_bytes()[..32], other.credential()].concat();
    assert!(Device::from_bytes(&mixed).is_err());
    let bob = world::identity("bob");
    let (alice_id, bob_id) = (user("alice"), user("bob"));
    let ours = safety_number((&alice_id, &identity.key()), (&bob_id, &bob.key()));
    assert_eq!(ours, safety_number((&bob_id, &bob.key()), (&alice_id, &again.key())));
    // Secrets are in no log.
    let seed = format!("{:?}", &identity.export()[..4]);
    assert!(!format!("{identity:?} {device:?}").contains(seed.trim_matches(['[', ']'])));
}

#[test]
fn a_welcome_opens_three_commits_later_with_its_own_tree() {
    let mut world = World::direct(1, 2);
    assert!(world.birth(0, &[1]));
    world.catch_all_up();
    let packages = world.checked(&[2], 0);
    world.commit(0, Step::Add(&packages)).unwrap();
    assert!(world.send(0));
    world.catch_up(0, world.log.len());
    for by in [0, 1, 0] {
        world.catch_up(by, world.log.len());
        world.say(by);
        world.commit(by, Step::Update).unwrap();
        assert!(world.send(by));
    }
    world.catch_all_up();
    assert_eq!(world.phones[2].opened, 3);
    world.assert_agreement();
}

#[test]
fn a_note_of_one_device_needs_nobody() {
    let mut world = World::direct(1, 1);
    world.phones.pop();
    assert!(world.birth(0, &[]));
    world.catch_all_up();
    let Content::Commit { commit, welcome } = &world.log[0].content else { panic!() };
    assert!(commit.is_none() && welcome.is_none());
    world.say(0);
}
