//! A server that lies: nothing of it is shown as a message, and no plain text leaves.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod town;

use pigeonhole_sealing::{Identity, Notice, Readiness, Shown, Taken, Why};
use town::{Client, DAY_MS, Pair, conversation, user};
use wire::{Bytes, ClientMsgId, DeviceId, Emoji, Kind, Message, Seq};

fn at(message: &Message, seq: u64) -> Message {
    Message { seq: Seq::new(seq).unwrap(), ..message.clone() }
}

fn why(taken: &Taken) -> Why {
    let Shown::Unreadable(why) = taken.shown else { panic!("{taken:?}") };
    why
}

fn body(taken: &Taken) -> &str {
    let Shown::Plain { message, .. } = &taken.shown else { panic!("{taken:?}") };
    &message.body
}

/// A message of bob's that alice has not taken, and its place.
fn waiting() -> (Pair, Message, u64) {
    let mut pair = Pair::friends();
    pair.bob_says("secret");
    let message = pair.last();
    let seq = message.seq.value();
    (pair, message, seq)
}

#[test]
fn an_entry_of_another_place_is_forged_and_the_genuine_one_opens_behind_it() {
    type Lie = fn(&mut Message);
    let lies: [Lie; 5] = [
        |message| message.sender_id = user("alice"),
        |message| message.sender_id = user("mallory"),
        |message| message.client_msg_id = Some(ClientMsgId::parse("other").unwrap()),
        |message| message.epoch = Some(7),
        |message| {
            let mut bytes = Bytes::parse(&message.body).unwrap().as_slice().to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            message.body = Bytes::from(bytes).to_text();
        },
    ];
    for lie in lies {
        let (mut pair, message, seq) = waiting();
        let mut forged = message.clone();
        lie(&mut forged);
        assert_eq!(why(&pair.alice_takes(&forged)), Why::Forged);
        assert_eq!(body(&pair.alice_takes(&at(&message, seq + 1))), "secret");
        // The copy behind it.
        assert_eq!(why(&pair.alice_takes(&at(&message, seq + 2))), Why::Forged);
    }
}

#[test]
fn an_entry_in_the_clear_is_shown_as_such_whatever_epoch_it_has() {
    let (mut pair, message, _) = waiting();
    let conversation_id = wire::direct_conversation_id(&user("alice"), &user("carol"));
    let plain = Message { conversation_id, kind: Kind::Text, body: "false".into(), ..at(&message, 1) };
    assert!(plain.epoch.is_some());
    let Shown::Plain { message, .. } = pair.alice_takes(&plain).shown else { panic!() };
    assert_eq!((message.body.as_str(), message.epoch), ("false", None));
}

#[test]
fn an_entry_of_another_conversation_is_not_opened() {
    let (mut pair, message, _) = waiting();
    // Alice and carol have no group: their conversation is not the one in which bob wrote.
    let other = wire::direct_conversation_id(&user("alice"), &user("carol"));
    let moved = Message { conversation_id: other, sender_id: user("carol"), ..at(&message, 1) };
    assert_eq!(pair.alice_takes(&moved).shown, Shown::Later);
    pair.alice.carry(&mut pair.server, pair.now_ms);
    assert_eq!(why(&pair.alice_takes(&moved)), Why::BeforeJoin);
    assert_eq!(body(&pair.alice_takes(&message)), "secret");
}

#[test]
fn a_wrong_mark_is_counted_and_resets_nothing() {
    let (mut pair, message, seq) = waiting();
    let mut bytes = Bytes::parse(&message.body).unwrap().as_slice().to_vec();
    let name = b"m3\0";
    let place = bytes.windows(3).position(|three| three == name).unwrap() + name.len();
    bytes[place] ^= 1;
    let marked = Message { body: Bytes::from(bytes).to_text(), ..message.clone() };
    let asked = pair.server.asked.len();
    for count in 1..=3 {
        let taken = pair.alice_takes(&at(&marked, seq + count - 1));
        assert_eq!(why(&taken), Why::Forged);
        assert_eq!(taken.notices, [Notice::WrongMark { conversation_id: conversation(), count }]);
    }
    pair.alice.pump(pair.now_ms);
    assert_eq!((pair.server.asked.len(), pair.alice.asked.len()), (asked, 0));
    assert_eq!(body(&pair.alice_takes(&at(&message, seq + 3))), "secret");
}

#[test]
fn an_entry_behind_a_gap_waits_and_the_log_is_due() {
    let (mut pair, first, seq) = waiting();
    pair.bob_says("second");
    let second = pair.last();
    assert!(pair.alice.keyring.due().is_empty());
    assert_eq!(pair.alice_takes(&second).shown, Shown::Later);
    assert_eq!(pair.alice.keyring.due(), [(conversation(), Seq::new(seq).unwrap())]);
    // Nothing is sealed before the device has the log.
    assert_eq!(pair.alice.keyring.prepare(&user("bob"), pair.now_ms), Readiness::Waits);
    assert_eq!(body(&pair.alice_takes(&first)), "secret");
    assert_eq!(body(&pair.alice_takes(&second)), "second");
    assert!(pair.alice.keyring.due().is_empty());
    assert_eq!(pair.alice.keyring.prepare(&user("bob"), pair.now_ms), Readiness::Ready);
}

#[test]
fn nothing_plain_is_shown_behind_a_birth() {
    let mut pair = Pair::friends();
    let mut seq = pair.server.log.len() as u64;
    let mut plain = |kind, emoji| {
        seq += 1;
        let mut message = at(&pair.last(), seq);
        (message.kind, message.body, message.epoch, message.emoji) = (kind, "in the clear".into(), None, emoji);
        pair.alice_takes(&message).shown
    };
    let behind = Shown::Unreadable(Why::PlainBehindBirth);
    assert_eq!(plain(Kind::Text, None), behind);
    assert_eq!(plain(Kind::Edit, None), behind);
    assert_eq!(plain(Kind::Image, None), behind);
    assert_eq!(plain(Kind::Reaction, Some(Emoji::parse("👍").unwrap())), behind);
    // Neither says anything.
    assert!(matches!(plain(Kind::Delete, None), Shown::Plain { .. }));
    assert!(matches!(plain(Kind::Reaction, None), Shown::Plain { .. }));
}

#[test]
fn a_conversation_that_was_sealed_does_not_begin_again_as_a_plain_one() {
    let mut pair = Pair::friends();
    let mut tablet = pair.second(true, "tablet");
    let birth = pair.server.seen_by(tablet.me(), 1);
    assert_eq!(tablet.keyring.take(&birth, pair.now_ms).shown, Shown::Later);
    pair.server.group_info = None;
    tablet.write("m9", "canary");
    let asked = pair.server.asked.len();
    tablet.carry(&mut pair.server, pair.now_ms);
    assert_eq!(tablet.pump(pair.now_ms), Readiness::Refused("gone".into()));
    assert!(pair.server.asked[asked..].iter().all(|action| *action == "group_info"));
}

#[test]
fn a_ghost_device_is_added_by_nobody() {
    let mut pair = Pair::friends();
    // The server gives each user a device of its own making, beside theirs.
    for name in ["alice", "bob"] {
        let identity = Identity::import(user(name), &[7; 32]);
        let mut ghost = Client::new(identity, "ghost", &user("carol"), [8; 32]);
        ghost.settle(&mut pair.server, pair.now_ms);
    }
    let bob = user("bob");
    pair.alice.keyring.reset(&bob, pair.now_ms);
    pair.settle();
    let members = pair.alice.group().unwrap().members().unwrap();
    let devices: Vec<_> = members.iter().map(|member| (member.user.as_str(), member.device.as_str())).collect();
    assert_eq!(devices, [("alice", "phone"), ("bob", "phone")]);
    assert_eq!(pair.server.epoch, 2);
    // A notice tells the user, once.
    pair.alice.keyring.connected();
    pair.settle();
    pair.alice.keyring.connected();
    pair.settle();
    let ghost = DeviceId::parse("ghost").unwrap();
    let told =
        pair.alice.saved.notices.iter().filter(|notice| **notice == Notice::UnknownDevice { device: ghost.clone() });
    assert_eq!(told.count(), 1);
}

#[test]
fn a_conversation_does_not_begin_without_a_good_package_of_the_other_user() {
    let mut pair = Pair::strangers();
    // The server names another device for the packages.
    let (bob, name) = (user("bob"), |name: &str| DeviceId::parse(name).unwrap());
    let packages = pair.server.keys.remove(&(bob.clone(), name("phone"))).unwrap();
    pair.server.keys.insert((bob, name("other")), packages);
    assert_eq!(pair.alice_says("secret"), Readiness::Refused("no_keys".to_owned()));
    assert_eq!((pair.server.epoch, pair.server.log.len()), (0, 0));
}

#[test]
fn a_commit_that_was_left_out_is_followed_by_a_reset_once_a_day() {
    let mut pair = Pair::friends();
    let resets = |pair: &Pair| {
        let is_reset = |notice: &&Notice| matches!(notice, Notice::Reset { .. });
        pair.alice.saved.notices.iter().filter(is_reset).count()
    };
    for day in 0..2_u64 {
        // Bob renews his keys twice, and alice gets the second of the two alone.
        for _ in 0..2 {
            pair.now_ms += DAY_MS + 1;
            pair.bob_says("anew");
        }
        let second = pair.server.log.iter().rposition(|message| message.kind == Kind::Commit).unwrap();
        let next = pair.alice.turn.held + 1;
        let commit = at(&pair.server.seen_by(&user("alice"), second), next);
        let taken = pair.alice_takes(&commit);
        assert_eq!(taken.notices, [Notice::Broken { conversation_id: conversation(), seq: commit.seq }]);
        // Alice opens nothing behind it, and no message is the reason of a reset.
        let message = at(&pair.server.seen_by(&user("alice"), second + 1), next + 1);
        pair.alice.turn.held = pair.server.log.len() as u64;
        assert_eq!(why(&pair.alice_takes(&message)), Why::Broken);
        pair.alice.commit();
        pair.settle();
        assert_eq!(u64::try_from(resets(&pair)).unwrap(), day + 1);
        pair.bob_says("again");
        pair.settle();
        assert_eq!(body_of(&pair), "again");
    }
    // A second time on one day, the device waits.
    let before = resets(&pair);
    let mut commit = at(&pair.last(), pair.alice.turn.held + 1);
    (commit.kind, commit.epoch) = (Kind::Commit, Some(pair.server.epoch + 1));
    commit.commit = Some(Box::new(wire::Carried::Bytes(vec![1, 2, 3].into())));
    let taken = pair.alice_takes(&commit);
    assert!(matches!(taken.notices[..], [Notice::Broken { .. }]));
    pair.alice.commit();
    pair.alice.settle(&mut pair.server, pair.now_ms);
    assert_eq!(pair.alice_says("hold"), Readiness::Refused("broken".into()));
    assert_eq!(resets(&pair), before);
    let wake_at = pair.alice.keyring.wake_at().unwrap();
    assert!(wake_at > pair.now_ms && wake_at <= pair.now_ms + DAY_MS);
    pair.now_ms = wake_at;
    pair.alice.settle(&mut pair.server, wake_at);
    assert_eq!(resets(&pair), before + 1);
}

fn body_of(pair: &Pair) -> &str {
    pair.alice.saved.shown.last_key_value().unwrap().1.as_ref().unwrap()
}

#[test]
fn an_own_commit_that_was_called_stale_is_known_in_the_log() {
    let mut pair = Pair::friends();
    pair.now_ms += DAY_MS + 1;
    assert_eq!(pair.alice.keyring.prepare(&user("bob"), pair.now_ms), Readiness::Waits);
    let (key, action) = pair.alice.keyring.requests(pair.now_ms).pop().unwrap();
    let last_seq = pair.server.log.len() + 1;
    pair.server.ask(&user("alice"), &pair.alice.device, &action).unwrap();
    let stale = serde_json::json!({"code": "stale_epoch", "message": "", "retryable": false, "epoch": 2,
        "last_seq": last_seq});
    pair.alice.keyring.answered(&key, Err(serde_json::from_value(stale).unwrap()), pair.now_ms);
    assert!(pair.alice.keyring.requests(pair.now_ms).is_empty());
    assert_eq!(pair.alice.keyring.due().len(), 1);
    let taken = pair.alice_takes(&pair.last());
    assert_eq!((taken.shown, taken.notices.len()), (Shown::Nothing, 0));
    assert_eq!(pair.alice.keyring.prepare(&user("bob"), pair.now_ms), Readiness::Ready);
}

#[test]
fn a_stale_group_info_is_refused() {
    let mut pair = Pair::friends();
    let (old, epoch) = (pair.server.group_info.clone(), pair.server.epoch);
    pair.now_ms += DAY_MS + 1;
    pair.bob_says("anew");
    pair.settle();
    // Alice has seen the newer epoch. The server gives her an older one.
    let bob = user("bob");
    pair.alice.keyring.reset(&bob, pair.now_ms);
    let newest = (pair.server.group_info.clone(), pair.server.epoch);
    (pair.server.group_info, pair.server.epoch) = (old, epoch);
    let asked = pair.server.asked.len();
    pair.alice.carry(&mut pair.server, pair.now_ms);
    pair.alice.pump(pair.now_ms);
    assert_eq!(pair.server.asked[asked..], ["group_info"]);
    assert!(pair.alice.asked.is_empty());
    (pair.server.group_info, pair.server.epoch) = newest;
}

#[test]
fn an_old_commit_at_a_new_place_changes_nothing() {
    let mut pair = Pair::friends();
    pair.now_ms += DAY_MS + 1;
    pair.bob_says("anew");
    pair.settle();
    let place = pair.server.log.iter().rposition(|message| message.kind == Kind::Commit).unwrap();
    let next = pair.alice.turn.held + 1;
    let again = at(&pair.server.seen_by(&user("alice"), place), next);
    let taken = pair.alice_takes(&again);
    assert_eq!((why(&taken), taken.notices.len()), (Why::Forged, 0));
    pair.bob_says("still");
    let message = at(&pair.last(), next + 1);
    assert_eq!(body(&pair.alice_takes(&message)), "still");
}

#[test]
fn the_rows_open_no_earlier_message() {
    let mut pair = Pair::friends();
    pair.now_ms += DAY_MS + 1;
    for text in ["one", "two", "three"] {
        pair.bob_says(text);
        pair.settle();
    }
    let next = pair.alice.saved.held + 1;
    let sealed: Vec<_> = (0..pair.server.log.len()).map(|place| pair.server.seen_by(&user("alice"), place)).collect();
    let sealed = sealed.iter().filter(|message| message.kind == Kind::Sealed && message.sender_id == user("bob"));
    for message in sealed.clone() {
        pair.alice.crash();
        let again = Message { epoch: Some(pair.server.epoch), ..at(message, next) };
        assert_eq!(why(&pair.alice_takes(&again)), Why::Forged);
    }
    assert_eq!(sealed.count(), 4);
}
