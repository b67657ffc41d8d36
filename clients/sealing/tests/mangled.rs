//! Bytes and frames of a server that changes them at random: no function panics, nothing false is shown, and what is
//! stored stays valid.
//!
//! `just mangled 100000 7` tries more of them, and other ones.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::too_many_lines, reason = "a test")]

mod town;
mod world;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use data_encoding::BASE64;
use pigeonhole_sealing::{Asked, Device, Envelope, Group, Keyring, Readiness, Shown, Step};
use serde_json::{Value, json};
use town::{Client, DAY_MS, Pair};
use wire::{Kind, Message, UserId};
use world::{Content, NOW_S, World};

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Runs each input with a seed of its own, which a panic names.
fn each_input(default: u64, mut try_one: impl FnMut(&mut fastrand::Rng)) {
    let first = env("PIGEONHOLE_SEED", 0);
    for seed in first..first + env("PIGEONHOLE_INPUTS", default) {
        let outcome = catch_unwind(AssertUnwindSafe(|| try_one(&mut fastrand::Rng::with_seed(seed))));
        assert!(outcome.is_ok(), "PIGEONHOLE_SEED={seed} PIGEONHOLE_INPUTS=1 fails");
    }
}

/// Changes bytes in one to three places.
fn mangled(bytes: &[u8], others: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.usize(1..=3) {
        let at = random.usize(0..=bytes.len());
        let end = (at + random.usize(0..=40)).min(bytes.len());
        match random.u8(..8) {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            2 if at < bytes.len() => {
                bytes[at] = *random.choice(&[0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xff]).unwrap();
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..end)),
            5 => bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(40).collect::<Vec<_>>()),
            6 => {
                let part = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, part));
            }
            _ => {
                if let Some(other) = random.choice(others) {
                    let from = random.usize(0..=other.len());
                    drop(bytes.splice(at.., other[from..].iter().copied()));
                }
            }
        }
    }
    bytes
}

#[test]
fn no_bytes_of_the_server_make_a_device_panic_or_read_what_nobody_wrote() {
    let mut world = World::direct(2, 2);
    assert!(world.birth(0, &[1, 2, 3]));
    let invited = world.phones[2].device.clone();
    let private: Vec<_> = world.phones[2].packages.iter().map(|(_, name, key)| (name.clone(), key.clone())).collect();
    world.catch_all_up();
    let early: Vec<Group> = world.phones.iter().map(|phone| phone.group.clone().unwrap()).collect();
    let body = world.say(0);
    world.catch_all_up();
    let before: Vec<Group> = world.phones.iter().map(|phone| phone.group.clone().unwrap()).collect();
    let place = world.log.len();
    world.commit(1, Step::Update).unwrap();
    assert!(world.send(1));
    let commit = world.log[place].clone();
    let (info, tree, epoch) = (world.group_info.clone(), world.tree.clone(), world.epoch);
    let birth = world.log[0].clone();
    let Content::Commit { welcome: Some((welcome, birth_tree)), .. } = &birth.content else { panic!() };
    let Content::Commit { commit: Some(update), .. } = &commit.content else { panic!() };
    let Content::Sealed { body: sealed, plaintext } = &body.content else { panic!() };
    // A device that joins by itself, and one with the package of the birth.
    let fresh = world::device(&world.identities["alice"], "fresh");
    let package = fresh.new_packages(1, false, NOW_S).unwrap().remove(0);
    let device = fresh.to_bytes();
    let corpus = vec![
        sealed.clone(),
        update.clone(),
        welcome.clone(),
        tree.clone(),
        birth_tree.clone(),
        info.clone(),
        package.data.clone(),
        plaintext.clone(),
        device.to_vec(),
        before[2].state().to_vec(),
        fresh.credential().to_vec(),
    ];
    let conversation = &world.conversation;
    each_input(600, |random| {
        let mut changed = |bytes: &[u8]| {
            let other = mangled(bytes, &corpus, random);
            (other != bytes).then_some(other)
        };
        let at = |logged| world::entry(conversation, logged);
        if let Some(bytes) = changed(sealed) {
            assert!(early[2].open(at(&body), &bytes).is_err(), "a message");
        }
        if let Some(bytes) = changed(update) {
            assert!(before[2].follow(at(&commit), &bytes, None).is_err(), "a commit");
        }
        // A Welcome has parts for other devices, which this one can't check.
        let welcomed = |welcome: &[u8], tree: &[u8]| {
            let joined = invited.join_by_welcome(at(&birth), true, welcome, tree, &private);
            joined.map(|(group, _)| group.authenticator().unwrap())
        };
        let genuine = welcomed(welcome, birth_tree).unwrap();
        if let Some(bytes) = changed(welcome) {
            assert!(welcomed(&bytes, birth_tree).map_or(true, |joined| joined == genuine), "a Welcome");
        }
        if let Some(bytes) = changed(birth_tree) {
            assert!(welcomed(welcome, &bytes).is_err(), "the tree of a Welcome");
        }
        let join =
            |info: &[u8], tree: &[u8]| fresh.join_external(conversation, &world::id("j1"), epoch, info, tree).map(drop);
        join(&info, &tree).unwrap();
        if let Some(bytes) = changed(&info) {
            assert!(join(&bytes, &tree).is_err(), "a group info");
        }
        if let Some(bytes) = changed(&tree) {
            assert!(join(&info, &bytes).is_err(), "a tree");
        }
        let own = fresh.member();
        let asked = Asked { user: &own.user, device: &own.device, key: Some(&own.key), last_resort: false };
        if let Some(bytes) = changed(&package.data) {
            assert!(fresh.check_package(&bytes, asked, NOW_S).is_err(), "a package");
        }
        if let Some(bytes) = changed(before[2].state()) {
            assert!(Group::from_stored(bytes, before[2].tree().to_vec()).is_err(), "a state");
        }
        if let Some(bytes) = changed(&device) {
            assert!(Device::from_bytes(&bytes).is_err(), "a device");
        }
        if let Some(bytes) = changed(plaintext)
            && let Ok(read) = Envelope::read(&bytes)
        {
            assert_eq!(Envelope::read(&read.write()).unwrap(), read);
        }
    });
}

/// Changes one value of a frame: bytes in Base64, a name, a number, or a field that is gone or of another type.
fn mangle(value: &mut Value, others: &[Vec<u8>], random: &mut fastrand::Rng) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = random.choice(&names).unwrap();
            if random.u8(..12) == 0 {
                fields.remove(name);
            } else {
                mangle(&mut fields[name], others, random);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let place = random.usize(..items.len());
            match random.u8(..6) {
                0 => drop(items.remove(place)),
                1 => items.push(items[place].clone()),
                _ => mangle(&mut items[place], others, random),
            }
        }
        Value::String(text) => match BASE64.decode(text.as_bytes()) {
            Ok(bytes) if bytes.len() > 8 => *text = BASE64.encode(&mangled(&bytes, others, random)),
            _ => {
                let names = ["", "alice", "bob", "carol", "phone", "sealed", "commit", "text", "m1"];
                *text = (*random.choice(&names).unwrap()).into();
            }
        },
        Value::Number(_) => {
            let now = value.as_u64().unwrap_or_default();
            *value =
                json!(random.choice([now.saturating_add(1), now.saturating_sub(1), 0, u64::MAX, 1 << 53]).unwrap());
        }
        other => *other = random.choice([json!(true), json!(null), json!(7), json!("x"), json!([])]).unwrap(),
    }
}

/// Opens what a client has stored, which is always valid.
fn opened(client: &Client, rows: std::collections::BTreeMap<String, Vec<u8>>) -> Keyring {
    Keyring::open(&client.identity, client.device.clone(), rows, &client.seed).unwrap()
}

/// Checks that the stored rows of the victim are valid, and that it goes on with them.
fn is_whole(client: &Client, victim: &mut Keyring, now_ms: u64) {
    let mut rows = client.saved.rows.clone();
    for (name, row) in victim.take_changes() {
        match row {
            Some(row) => drop(rows.insert(name, row.to_vec())),
            None => drop(rows.remove(&name)),
        }
    }
    let mut again = opened(client, rows);
    again.connected();
    let _ = again.requests(now_ms);
    let _ = again.prepare(client.with.clone(), now_ms);
    let _ = again.uploads(now_ms);
    let _ = again.fetches(now_ms);
}

/// A pair's conversation, step by step. Each step returns whether there is another.
fn step(pair: &mut Pair, place: usize) -> Readiness {
    match place % 4 {
        0 => pair.alice_says(&format!("a{place}")),
        1 => pair.bob_says(&format!("b{place}")),
        2 => {
            pair.now_ms += DAY_MS;
            pair.alice_says(&format!("a{place}"))
        }
        _ => {
            let with = pair.alice.with.clone();
            pair.alice.keyring.reset(with, pair.now_ms);
            pair.alice.settle(&mut pair.server, pair.now_ms)
        }
    }
}

#[test]
fn no_frame_of_the_server_makes_a_keyring_panic_or_show_what_nobody_wrote() {
    let mut pair = Pair::strangers();
    let corpus: Vec<Vec<u8>> = vec![vec![0; 64], (0..=255).collect()];
    let (mut states, mut frames) = (Vec::new(), Vec::<(usize, Value)>::new());
    // Bob as he was before each of his entries, and the entry.
    for place in 0..16 {
        step(&mut pair, place);
        loop {
            states.push(pair.bob.saved.clone());
            let next = pair.bob.turn.held;
            if !pair.bob.read(&pair.server, pair.now_ms) {
                break;
            }
            let entry = pair.server.seen_by(pair.bob.me(), usize::try_from(next).unwrap());
            frames.push((states.len() - 1, serde_json::to_value(&entry).unwrap()));
            pair.bob.commit();
        }
        pair.bob.carry(&mut pair.server, pair.now_ms);
    }
    assert!(frames.len() > 10);
    let written: BTreeSet<(UserId, String)> = (0..16)
        .flat_map(|place| [("alice", format!("a{place}")), ("bob", format!("b{place}"))])
        .map(|(by, text)| (town::user(by), text))
        .collect();
    let now_ms = pair.now_ms;
    let mut shown = 0;
    each_input(600, |random| {
        let (state, frame) = random.choice(&frames).unwrap();
        let mut frame = frame.clone();
        for _ in 0..random.u8(1..3) {
            mangle(&mut frame, &corpus, random);
        }
        // A frame that is none never reaches the keyring.
        let Ok(message) = serde_json::from_value::<Message>(frame) else { return };
        pair.bob.saved = states[*state].clone();
        let mut victim = opened(&pair.bob, pair.bob.saved.rows.clone());
        let taken = victim.take(&message, now_ms);
        if let Shown::Plain { message, .. } = &taken.shown
            && message.epoch.is_some()
            && message.kind == Kind::Text
        {
            assert!(written.contains(&(message.sender_id.clone(), message.body.clone())), "{message:?}");
            shown += 1;
        }
        is_whole(&pair.bob, &mut victim, now_ms);
    });
    assert!(shown > 0 || env("PIGEONHOLE_INPUTS", 600) < 100, "some changes touch nothing that is sealed");
}

#[test]
fn no_reply_of_the_server_makes_a_keyring_panic() {
    let corpus: Vec<Vec<u8>> = vec![vec![0; 64]];
    // Each request of alice's from her first list of keys on, with its reply.
    let mut pair = Pair::strangers();
    let mut replies = Vec::new();
    for place in 0..6 {
        pair.alice.write(&format!("w{place}"), "hi");
        pair.now_ms += DAY_MS;
        pair.alice.keyring.connected();
        for _ in 0..20 {
            while pair.alice.read(&pair.server, pair.now_ms) {
                pair.alice.commit();
            }
            pair.alice.pump(pair.now_ms);
            let saved = pair.alice.saved.clone();
            if pair.alice.asked.is_empty() {
                break;
            }
            while !pair.alice.asked.is_empty() {
                pair.alice.serve(&mut pair.server, 0);
                if let (Some(key), Some(Ok(reply))) = (&pair.alice.asked[0].key, &pair.alice.asked[0].answer) {
                    replies.push((saved.clone(), key.clone(), reply.clone()));
                }
                pair.alice.answer(0, pair.now_ms, false);
                pair.alice.commit();
            }
        }
        let with = pair.alice.with.clone();
        pair.alice.keyring.reset(with, pair.now_ms);
        pair.bob.settle(&mut pair.server, pair.now_ms);
    }
    let kinds: BTreeSet<String> = replies
        .iter()
        .map(|(_, key, _)| format!("{key:?}").chars().take_while(char::is_ascii_alphabetic).collect())
        .collect();
    assert!(kinds.len() >= 4, "{kinds:?}");
    let now_ms = pair.now_ms;
    each_input(500, |random| {
        let (saved, key, reply) = random.choice(&replies).unwrap();
        let mut reply = reply.clone();
        for _ in 0..random.u8(1..4) {
            mangle(&mut reply, &corpus, random);
        }
        pair.alice.saved = saved.clone();
        let mut victim = opened(&pair.alice, saved.rows.clone());
        victim.connected();
        let _ = victim.requests(now_ms);
        let _ = victim.answered(key, Ok(reply), now_ms);
        let _ = victim.requests(now_ms);
        is_whole(&pair.alice, &mut victim, now_ms);
    });
}
