//! The upkeep of a device: packages, new keys, lost devices, and the identities of others.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod town;

use std::collections::BTreeMap;

use pigeonhole_sealing::{Envelope, Identity, Keyring, Lock, Notice, Readiness, RequestKey, Shown, Why, is_frank};
use town::{Client, DAY_MS, NOW_MS, Pair, conversation, user};
use wire::{Action, Bytes, ClientMsgId, DeviceId, Kind, Message};

const HOUR_MS: u64 = DAY_MS / 24;

fn commits(pair: &Pair) -> usize {
    pair.server.log.iter().filter(|message| message.kind == Kind::Commit).count()
}

fn id(id: &str) -> ClientMsgId {
    ClientMsgId::parse(id).unwrap()
}

#[test]
fn keys_are_renewed_with_the_first_message_after_a_day_or_a_hundred() {
    let mut pair = Pair::friends();
    assert_eq!(commits(&pair), 1);
    pair.now_ms += 23 * HOUR_MS;
    pair.alice_says("early");
    assert_eq!(commits(&pair), 1);
    pair.now_ms += HOUR_MS;
    pair.settle();
    assert_eq!(commits(&pair), 1, "without a message there is no commit");
    pair.alice_says("late");
    assert_eq!(commits(&pair), 2);
    for _ in 0..99 {
        pair.alice_says("many");
    }
    assert_eq!(commits(&pair), 2);
    pair.alice_says("the hundred and first");
    assert_eq!(commits(&pair), 3);
    pair.settle();
    assert_eq!(pair.bob.saved.shown.last_key_value().unwrap().1.as_deref(), Ok("the hundred and first"));
}

#[test]
fn who_joins_by_the_last_resort_renews_its_keys_and_replaces_it() {
    let mut pair = Pair::strangers();
    let last = |pair: &Pair| pair.server.keys[&(user("bob"), DeviceId::parse("phone").unwrap())].last_resort.clone();
    let before = last(&pair).unwrap();
    pair.server.is_stingy = true;
    pair.alice_says("hi");
    pair.settle();
    // The birth, and bob's update, without a message of his.
    assert_eq!(commits(&pair), 2);
    assert_eq!(pair.server.log.last().unwrap().sender_id, user("bob"));
    assert_ne!(last(&pair).unwrap(), before);
    let told = Notice::LastResort { conversation_id: conversation() };
    assert!(pair.bob.saved.notices.contains(&told));
    // Another claim may have it for a day: its private part stays for two, until the client has all of the log.
    let packages = |pair: &Pair| pair.bob.saved.rows.keys().filter(|name| name.starts_with("package/")).count();
    assert_eq!(packages(&pair), 27);
    let mut later = |hours: u64| {
        pair.bob.keyring.caught_up(pair.now_ms + hours * HOUR_MS);
        pair.bob.commit();
        packages(&pair)
    };
    assert_eq!((later(47), later(48)), (27, 26));
    // All have expired, the last resort after 400 days.
    assert_eq!((later(24 * 92 - 1), later(24 * 93), later(24 * 403)), (26, 1, 0));
}

#[test]
fn the_private_part_of_a_used_package_goes_with_the_join() {
    let pair = Pair::friends();
    let packages = |rows: &BTreeMap<String, Vec<u8>>| rows.keys().filter(|name| name.starts_with("package/")).count();
    // Alice began, and bob joined by a package of his.
    assert_eq!((packages(&pair.alice.saved.rows), packages(&pair.bob.saved.rows)), (26, 25));
}

#[test]
fn packages_are_published_when_few_are_left_and_a_last_resort_after_30_days() {
    let mut pair = Pair::strangers();
    let key = (user("bob"), DeviceId::parse("phone").unwrap());
    let published = |pair: &mut Pair| {
        let before = pair.server.asked.len();
        pair.bob.settle(&mut pair.server, pair.now_ms);
        pair.server.asked[before..].contains(&"publish_keys")
    };
    assert_eq!(pair.server.keys[&key].left.len(), 25);
    // The user sees the device before the next connection.
    let listed: Vec<_> = pair.bob.keyring.devices().into_iter().map(|it| (it.device, it.known, it.left)).collect();
    assert_eq!(listed, [(key.1.clone(), true, 25)]);
    pair.bob.keyring.keys_low(11);
    assert!(!published(&mut pair));
    pair.server.keys.get_mut(&key).unwrap().left.truncate(10);
    pair.bob.keyring.keys_low(10);
    assert!(published(&mut pair));
    assert_eq!(pair.server.keys[&key].left.len(), 35);
    let last = pair.server.keys[&key].last_resort.clone();
    for (days, is_new) in [(29, false), (1, true)] {
        pair.now_ms += days * DAY_MS;
        pair.bob.keyring.connected();
        assert_eq!(published(&mut pair), is_new);
    }
    assert_ne!(pair.server.keys[&key].last_resort, last);
    // The directory has lost the device.
    pair.server.keys.remove(&key);
    pair.bob.keyring.connected();
    assert!(published(&mut pair));
}

#[test]
fn a_request_is_the_same_after_a_crash() {
    let mut pair = Pair::strangers();
    pair.alice.write("m1", "hi");
    let mut pending: BTreeMap<String, Action> = BTreeMap::new();
    for _ in 0..12 {
        pair.alice.pump(pair.now_ms);
        pair.alice.crash();
        for (key, action) in pair.alice.keyring.requests(pair.now_ms) {
            let key = format!("{key:?}");
            if let Some(before) = pending.get(&key) {
                assert_eq!(*before, action);
            }
            pending.insert(key, action);
        }
        pair.alice.crash();
        pair.alice.pump(pair.now_ms);
        if pair.alice.asked.is_empty() {
            break;
        }
        // The last: `list_keys` leaves after each crash.
        let place = pair.alice.asked.len() - 1;
        pair.alice.serve(&mut pair.server, place);
        pair.alice.answer(place, pair.now_ms, false);
        pair.alice.commit();
    }
    assert!(pending.keys().any(|key| key.starts_with("Claim")) && pending.keys().any(|key| key.starts_with("Commit")));
}

#[test]
fn a_lost_device_is_removed_and_stays_out_until_its_user_writes() {
    let mut pair = Pair::friends();
    let mut tablet = pair.second(true, "tablet");
    tablet.turn.held = pair.server.log.len() as u64;
    tablet.keyring.met(&user("bob"), pair.now_ms);
    tablet.settle(&mut pair.server, pair.now_ms);
    assert!(tablet.group().is_some());
    pair.settle();
    pair.alice.keyring.remove_device(&tablet.device, pair.now_ms);
    pair.settle();
    let members = pair.bob.group().unwrap().members().unwrap();
    assert!(members.iter().all(|member| member.device != tablet.device));
    assert!(!pair.server.keys.contains_key(&(user("alice"), tablet.device.clone())));
    let gone = |user: wire::UserId| Notice::DeviceRemoved {
        conversation_id: conversation(),
        user,
        device: tablet.device.clone(),
    };
    assert!(pair.bob.saved.notices.contains(&gone(user("alice"))));
    let (told, epoch) = (gone(user("alice")), pair.server.epoch);
    tablet.settle(&mut pair.server, pair.now_ms);
    tablet.keyring.connected();
    tablet.settle(&mut pair.server, pair.now_ms);
    assert!(tablet.saved.notices.contains(&told) && tablet.group().is_none());
    assert_eq!((pair.server.epoch, tablet.keyring.lock(&user("bob"))), (epoch, Lock::Joining));
    tablet.write("m9", "back");
    tablet.settle(&mut pair.server, pair.now_ms);
    assert!(tablet.group().is_some());
    assert_eq!(pair.server.epoch, epoch + 1);
}

#[test]
fn a_device_that_was_not_seen_for_45_days_is_removed() {
    let mut pair = Pair::friends();
    let mut tablet = pair.second(true, "tablet");
    tablet.turn.held = pair.server.log.len() as u64;
    tablet.keyring.met(&user("bob"), pair.now_ms);
    tablet.settle(&mut pair.server, pair.now_ms);
    pair.settle();
    let has_tablet = |pair: &Pair| pair.server.keys.contains_key(&(user("alice"), tablet.device.clone()));
    let leaves = |pair: &Pair| pair.bob.group().unwrap().members().unwrap().len();
    let connect = |pair: &mut Pair, server_days: u64, own_days: u64| {
        pair.server.now_ms = NOW_MS + server_days * DAY_MS;
        pair.now_ms = NOW_MS + own_days * DAY_MS;
        pair.alice.keyring.connected();
        pair.settle();
    };
    connect(&mut pair, 44, 44);
    assert_eq!((has_tablet(&pair), leaves(&pair)), (true, 3));
    connect(&mut pair, 44, 300);
    assert_eq!((has_tablet(&pair), leaves(&pair)), (true, 3), "the clock of the device is wrong");
    connect(&mut pair, 45, 45);
    assert_eq!((has_tablet(&pair), leaves(&pair)), (false, 2), "the keys and the leaf");
    // Bob's only device stays, however long it was away.
    connect(&mut pair, 300, 300);
    assert_eq!((pair.server.keys.len(), leaves(&pair)), (2, 2));
}

#[test]
fn a_removed_device_does_not_come_back_by_the_welcome_that_it_has_used() {
    let mut pair = Pair::strangers();
    let mut tablet = pair.second(true, "tablet");
    // The private part of a last resort stays for two days.
    pair.server.is_stingy = true;
    pair.bob_says("hi");
    let settle = |pair: &mut Pair, tablet: &mut Client| {
        for _ in 0..3 {
            tablet.settle(&mut pair.server, pair.now_ms);
            pair.settle();
        }
    };
    settle(&mut pair, &mut tablet);
    tablet.write("m8", "seen");
    settle(&mut pair, &mut tablet);
    pair.alice.keyring.remove_device(&tablet.device, pair.now_ms);
    settle(&mut pair, &mut tablet);
    assert!(tablet.group().is_none());
    let (removed, opened) = (tablet.saved.held, tablet.opened);
    tablet.write("m9", "back");
    tablet.settle(&mut pair.server, pair.now_ms);
    // A join, and the message: nothing is opened again.
    assert_eq!((tablet.saved.held, tablet.opened), (removed + 2, opened));
}

#[test]
fn a_message_waits_while_the_device_makes_a_birth_that_comes_second() {
    let mut pair = Pair::strangers();
    let mut tablet = pair.second(true, "tablet");
    tablet.write("m9", "hi");
    // The conversation is new, and the tablet claims packages.
    tablet.carry(&mut pair.server, pair.now_ms);
    // Bob is first. Another device has acknowledged his birth, so that it does not come to this one.
    pair.bob_says("me first");
    let message = pair.server.seen_by(tablet.me(), 1);
    assert_eq!(tablet.keyring.take(&message, pair.now_ms).shown, Shown::Later);
    tablet.commit();
    tablet.turn.held = 1;
    tablet.settle(&mut pair.server, pair.now_ms);
    assert_eq!(tablet.saved.shown.values().map(|text| text.as_deref()).collect::<Vec<_>>(), [Ok("me first"), Ok("hi")]);
}

#[test]
fn a_commit_waits_for_a_message_that_is_under_way() {
    let mut pair = Pair::friends();
    let mut tablet = pair.second(true, "tablet");
    tablet.keyring.met(&user("bob"), pair.now_ms);
    tablet.settle(&mut pair.server, pair.now_ms);
    pair.settle();
    pair.alice.write("m9", "hi");
    assert_eq!(pair.alice.pump(pair.now_ms), Readiness::Ready);
    pair.alice.keyring.remove_device(&tablet.device, pair.now_ms);
    let is_commit = |(key, _): &(RequestKey, Action)| matches!(key, RequestKey::Commit(..));
    assert!(!pair.alice.keyring.requests(pair.now_ms).iter().any(is_commit));
    pair.alice.serve(&mut pair.server, 0);
    pair.alice.answer(0, pair.now_ms, false);
    assert!(pair.alice.keyring.requests(pair.now_ms).iter().any(is_commit));
}

#[test]
fn a_birth_has_the_devices_for_which_a_frame_had_no_room() {
    let mut pair = Pair::strangers();
    let tablet = pair.second(true, "tablet");
    pair.server.is_narrow = true;
    pair.alice_says("hi");
    let members = pair.alice.group().unwrap().members().unwrap();
    assert_eq!((members.len(), commits(&pair)), (3, 1));
    assert!(members.iter().any(|member| member.device == tablet.device));
}

#[test]
fn a_request_that_may_be_repeated_is_due_again_when_the_server_says() {
    let mut pair = Pair::strangers();
    pair.alice.keyring.connected();
    let keys = |pair: &mut Pair, now_ms| -> Vec<_> {
        pair.alice.keyring.requests(now_ms).into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(&mut pair, NOW_MS), [RequestKey::ListKeys]);
    assert!(keys(&mut pair, NOW_MS + DAY_MS).is_empty());
    let wait = serde_json::json!({"code": "rate_limited", "message": "", "retryable": true, "retry_after_ms": 700});
    pair.alice.keyring.answered(&RequestKey::ListKeys, Err(serde_json::from_value(wait).unwrap()), NOW_MS);
    assert_eq!(pair.alice.keyring.wake_at(), Some(NOW_MS + 700));
    assert!(keys(&mut pair, NOW_MS + 699).is_empty());
    assert_eq!(keys(&mut pair, NOW_MS + 700), [RequestKey::ListKeys]);
}

#[test]
fn a_device_joins_eight_conversations_together() {
    let mut pair = Pair::strangers();
    for place in 0..20 {
        pair.alice.keyring.met(&user(&format!("user-{place}")), pair.now_ms);
    }
    let asked = pair.alice.keyring.requests(pair.now_ms);
    let info: Vec<_> = asked.iter().filter(|(key, _)| key.conversation().is_some()).collect();
    assert_eq!(info.len(), 8);
    assert!(pair.alice.keyring.requests(pair.now_ms).is_empty());
    let none = serde_json::from_value(serde_json::json!({"code": "gone", "message": "", "retryable": false})).unwrap();
    pair.alice.keyring.answered(&info[0].0, Err(none), pair.now_ms);
    assert_eq!(pair.alice.keyring.requests(pair.now_ms).len(), 1);
}

#[test]
fn another_identity_is_told_and_holds_what_waits_for_a_verified_user() {
    for verified in [false, true] {
        let mut pair = Pair::friends();
        let (alice, bob) = (user("alice"), user("bob"));
        let number = pair.alice.keyring.safety_number(&bob).unwrap();
        assert_eq!(number, pair.bob.keyring.safety_number(&alice).unwrap());
        if verified {
            pair.alice.keyring.verify(&bob);
        }
        pair.alice.commit();
        // Bob loses all he has.
        pair.server.keys.retain(|(owner, _), _| *owner != bob);
        let identity = Identity::import(bob.clone(), &[7; 32]);
        pair.bob = Client::new(identity, "new-phone", &alice, [8; 32]);
        pair.bob_says("it's me");
        pair.settle();
        assert!(pair.alice.saved.notices.contains(&Notice::IdentityChanged { user: bob.clone() }));
        assert_ne!(pair.alice.keyring.safety_number(&bob).unwrap(), number);
        pair.alice.crash();
        let wanted = if verified { Lock::Changed } else { Lock::Sealed };
        assert_eq!(pair.alice.keyring.lock(&bob), wanted);
        let entries = pair.server.log.len();
        if verified {
            assert_eq!(pair.alice_says("prove it"), Readiness::Held(bob.clone()));
            // Nor does a client seal that does not ask first.
            assert!(pair.alice.keyring.seal(&bob, &id("h1"), &Envelope::default()).is_err());
            assert_eq!(pair.server.log.len(), entries);
            pair.alice.keyring.accept(&bob);
            pair.alice.commit();
            pair.alice.settle(&mut pair.server, pair.now_ms);
        } else {
            pair.alice_says("welcome");
        }
        assert_eq!(pair.server.log.len(), entries + 1);
        assert_eq!(pair.alice.keyring.lock(&bob), Lock::Sealed);
    }
}

#[test]
fn a_new_identity_keeps_the_pins_and_knows_what_is_sealed() {
    let mut pair = Pair::friends();
    let bob = user("bob");
    pair.alice.keyring.verify(&bob);
    pair.alice.commit();
    let identity = Identity::import(user("alice"), &[7; 32]);
    let rows = pair.alice.saved.rows.clone();
    let mut keyring = Keyring::open(&identity, pair.alice.device.clone(), rows.clone(), &[8; 32]).unwrap();
    assert_eq!(keyring.lock(&bob), Lock::Joining);
    assert!(keyring.safety_number(&bob).is_some());
    let mut kept = rows;
    for (name, row) in keyring.take_changes() {
        match row {
            Some(row) => kept.insert(name, row.to_vec()),
            None => kept.remove(&name),
        };
    }
    let mut names: Vec<_> = kept.keys().map(|name| name.split('/').next().unwrap()).collect();
    names.dedup();
    assert_eq!(names, ["device", "pin", "seat"]);
    // Another user has nothing of it.
    let carol = Identity::import(user("carol"), &[7; 32]);
    let keyring = Keyring::open(&carol, pair.alice.device.clone(), kept, &[8; 32]).unwrap();
    assert!(keyring.safety_number(&bob).is_none());
}

#[test]
fn a_note_to_oneself_needs_no_other_device() {
    let mut pair = Pair::strangers();
    let me = user("alice");
    let mut keyring = pair.alice.keyring;
    assert_eq!(keyring.prepare(&me, pair.now_ms), Readiness::Waits);
    for _ in 0..4 {
        for (key, action) in keyring.requests(pair.now_ms) {
            if let Action::GroupInfo(_) = action {
                let gone =
                    serde_json::from_value(serde_json::json!({"code": "gone", "message": "", "retryable": false}));
                keyring.answered(&key, Err(gone.unwrap()), pair.now_ms);
            } else if let Action::ClaimKeys(_) = action {
                let none = serde_json::json!({"users": [{"user_id": "alice", "devices": []}], "left": []});
                keyring.answered(&key, Ok(none), pair.now_ms);
            } else if let Action::Commit(request) = action {
                assert!(request.commit.is_none() && request.welcome.is_none());
                pair.server.asked.push("commit");
            }
        }
    }
    assert_eq!(pair.server.asked.last(), Some(&"commit"));
}

#[test]
fn a_message_without_the_digest_for_a_report_or_with_a_false_or_copied_one_is_not_shown() {
    let mut pair = Pair::friends();
    pair.settle();
    pair.alice.keyring.set_franking(true);
    pair.alice_says("hi");
    let entry = Message { frank: None, ..pair.server.log.last().unwrap().clone() };
    assert_eq!(pair.bob.keyring.take(&entry, pair.now_ms).shown, Shown::Unreadable(Why::Broken));
    let of_another = pair.server.log.last().unwrap().frank.clone();
    for digest in [of_another.clone(), Some(Bytes::from(vec![0; 32]).into())] {
        pair.alice_says("hi");
        let entry = Message { frank: digest, ..pair.server.log.last().unwrap().clone() };
        assert_eq!(pair.bob.keyring.take(&entry, pair.now_ms).shown, Shown::Unreadable(Why::Broken));
    }
    pair.alice.keyring.set_franking(false);
    pair.alice_says("hello");
    let entry = Message { frank: of_another, ..pair.server.log.last().unwrap().clone() };
    assert_eq!(pair.bob.keyring.take(&entry, pair.now_ms).shown, Shown::Unreadable(Why::Broken));
    pair.alice_says("hello");
    let entry = pair.server.log.last().unwrap();
    let shown = pair.bob.keyring.take(entry, pair.now_ms).shown;
    assert!(matches!(shown, Shown::Plain { message, proof: None, .. } if message.body == "hello"));
}

#[test]
fn an_opened_message_has_its_proof_for_a_report() {
    let mut pair = Pair::friends();
    pair.settle();
    pair.alice.keyring.set_franking(true);
    pair.alice_says("hi");
    let entry = pair.server.log.last().unwrap();
    let Shown::Plain { proof: Some(proof), .. } = pair.bob.keyring.take(entry, pair.now_ms).shown else { panic!() };
    let key = proof.key.as_slice().try_into().unwrap();
    assert!(is_frank(key, proof.plaintext.as_slice(), entry.frank.as_ref().unwrap().as_slice()));
    assert_eq!((proof.seq, Envelope::read(proof.plaintext.as_slice()).unwrap().body.as_str()), (entry.seq, "hi"));
}

#[test]
fn a_message_that_no_request_holds_is_not_sealed() {
    let mut pair = Pair::friends();
    let body = "a".repeat(wire::limits::SEALED_BYTES_MAX);
    let envelope = Envelope { kind: "text".into(), body, ..Envelope::default() };
    assert!(pair.alice.keyring.seal(&user("bob"), &id("l1"), &envelope).is_err());
    assert_eq!(pair.alice.keyring.sealed(&user("bob"), &id("l1")), None);
    pair.alice_says("shorter");
    pair.settle();
    assert!(matches!(pair.bob.saved.shown.values().next_back(), Some(Ok(text)) if text == "shorter"));
}

#[test]
fn a_row_of_a_later_version_is_refused() {
    let mut pair = Pair::friends();
    pair.settle();
    let Client { identity, device, saved, seed, .. } = &pair.alice;
    let open = |rows| Keyring::open(identity, device.clone(), rows, seed);
    assert!(open(saved.rows.clone()).is_ok());
    let versions = saved.rows.iter().filter(|(_, row)| row.starts_with(b"[1,"));
    assert!(versions.clone().count() > 3);
    for (name, row) in versions {
        let mut later = row.clone();
        later[1] = b'2';
        let rows = [(name.clone(), later)].into_iter();
        assert!(open(saved.rows.clone().into_iter().chain(rows).collect()).is_err(), "{name}");
    }
}

#[test]
fn each_sealing_has_a_digest_of_its_own_and_a_repetition_the_same() {
    let mut pair = Pair::friends();
    let envelope = Envelope { kind: "text".into(), body: "hi".into(), ..Envelope::default() };
    let mut seal = |id: &str, is_franking: bool| {
        pair.alice.keyring.set_franking(is_franking);
        pair.alice.keyring.seal(&user("bob"), &ClientMsgId::parse(id).unwrap(), &envelope).unwrap()
    };
    let (first, second) = (seal("f1", true), seal("f2", true));
    assert_eq!(first.frank.as_ref().unwrap().as_slice().len(), 32);
    assert_ne!(first.frank, second.frank);
    assert_eq!(seal("f1", false), first);
    assert_eq!(seal("f3", false).frank, None);
}
