//! The rules for trees and for the outcomes of commits, on trees that no client makes.

use wire::{ClientMsgId, DeviceId, UserId};

use crate::judge::{commit, external};
use crate::reader::Reader;
use crate::tree::{Leaf, Source, Tree};
use crate::{Asked, Conversation, Credential, Device, Error, Identity, Kind, Step};

const NOW_S: u64 = 1_000_000_000;

fn device(user: &str, device: &str, byte: u8) -> Device {
    let identity = Identity::import(UserId::parse(user).unwrap(), &[byte; 32]);
    identity.device(DeviceId::parse(device).unwrap(), &[byte + 1; 32])
}

/// Alice's two devices and bob's, after an update, so that there are parents.
fn tree() -> (Tree, Conversation) {
    let (alice, second, bob) = (device("alice", "one", 1), device("alice", "two", 1), device("bob", "one", 5));
    let second = {
        let identity = Identity::import(alice.member().user.clone(), &[1; 32]);
        identity.device(second.member().device.clone(), &[9; 32])
    };
    let conversation = Conversation::direct(&alice.member().user, &bob.member().user);
    let packages: Vec<_> = [&second, &bob]
        .map(|device| {
            let data = device.new_packages(1, false, NOW_S).unwrap().remove(0).data;
            let member = device.member();
            let asked = Asked { user: &member.user, device: &member.device, key: None, last_resort: false };
            alice.check_package(&data, asked, NOW_S).unwrap()
        })
        .into();
    let id = ClientMsgId::parse("c1").unwrap();
    let birth = alice.birth(&conversation, &id, 0, &packages, NOW_S).unwrap();
    let (_, update) = birth.next.commit(&conversation, &id, Step::Update, NOW_S).unwrap();
    let bytes = update.next.tree();
    // Each leaf has a basic credential: another type is refused, also where its bytes are the same.
    let place = bytes.windows(5).position(|five| five == b"{\"v\":").unwrap() - 3;
    assert_eq!(bytes[place], 1);
    let other = [&bytes[..place], &[2], &bytes[place + 1..]].concat();
    assert!(matches!(Tree::read(&other), Err(Error::Profile("the credential is not basic"))));
    (Tree::read(bytes).unwrap(), conversation)
}

#[test]
fn a_tree_has_each_key_device_and_identity_once() {
    let (good, _) = tree();
    good.check().unwrap();
    assert_eq!((good.leaves.len(), good.parent_keys.len()), (3, 2));
    let refused = |change: fn(&mut Tree), reason| {
        let mut tree = good.clone();
        change(&mut tree);
        assert!(matches!(tree.check(), Err(Error::Profile(why)) if why == reason), "{reason}");
    };
    refused(
        |tree| tree.leaves.get_mut(&2).unwrap().encryption_key = tree.leaves[&0].encryption_key.clone(),
        "two nodes have one encryption key",
    );
    refused(|tree| tree.parent_keys[0] = tree.leaves[&0].encryption_key.clone(), "two nodes have one encryption key");
    refused(|tree| tree.parent_keys[1] = vec![0; 32], "an encryption key has a small order");
    refused(|tree| tree.parent_keys[1].truncate(31), "an encryption key has a small order");
    refused(
        |tree| tree.leaves.get_mut(&2).unwrap().signature_key = tree.leaves[&0].signature_key,
        "two leaves have one signature key",
    );
    refused(
        |tree| tree.leaves.get_mut(&1).unwrap().credential = tree.leaves[&0].credential.clone(),
        "a device has two leaves",
    );
    refused(|tree| tree.leaves.get_mut(&1).unwrap().credential.key[0] ^= 1, "a user has two identities");
}

#[test]
fn a_leaf_has_no_extensions() {
    let device = device("alice", "one", 1);
    let data = device.new_packages(1, false, NOW_S).unwrap().remove(0).data;
    // Behind the head and the init key.
    let leaf = &data[8 + 33..];
    Leaf::read(&mut Reader::new(leaf, "")).unwrap();
    // No extensions, and the two bytes of a signature's length.
    let place = leaf.windows(3).position(|three| three == [0, 0x40, 0x40]).unwrap();
    let extended = [&leaf[..place], &[3, 0, 1, 0], &leaf[place + 1..]].concat();
    let read = Leaf::read(&mut Reader::new(&extended, ""));
    assert!(matches!(read, Err(Error::Profile("a leaf has extensions"))));
}

#[test]
fn a_credential_has_one_form() {
    let device = device("al\"ice", "one", 1);
    let key = device.leaf_key();
    let text = String::from_utf8(device.credential().to_vec()).unwrap();
    Credential::verify(text.as_bytes(), &key).unwrap();
    let wrong = [
        text.replace(":1,", ":2,"),
        text.replace(',', ", "),
        format!("{text} "),
        text.replace("\"v\":1,", "\"v\":1,\"x\":1,"),
        text.replace("\"v\":1,", "\"v\":1,\"v\":1,"),
        text.replace("\"one\"", "\"two\""),
        text.replace("al\\\"ice", "bob"),
        text.replace("al\\\"ice", "al\\u0022ice"),
        text.replace('=', ""),
        String::new(),
    ];
    for json in wrong {
        assert!(Credential::verify(json.as_bytes(), &key).is_err(), "{json}");
    }
    assert!(Credential::verify(text.as_bytes(), &[7; 32]).is_err());
}

/// The reason for which an outcome is refused that differs from the tree before by this change.
fn refused(kind: Kind, change: impl FnOnce(&mut Tree)) -> &'static str {
    let (before, conversation) = tree();
    let mut after = before.clone();
    change(&mut after);
    match commit(&before, &after, kind, 0, &conversation) {
        Err(Error::Profile(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn renew(tree: &mut Tree, place: u32) {
    let leaf = tree.leaves.get_mut(&place).unwrap();
    leaf.encryption_key[0] ^= 0x55;
    leaf.source = Source::Commit;
}

/// A device that was not there before. Its identity did not sign it, which is the last that is checked.
fn add(tree: &mut Tree, source: Source) {
    let mut leaf = tree.leaves[&2].clone();
    leaf.encryption_key[0] ^= 0x77;
    leaf.signature_key[0] ^= 0x77;
    leaf.credential.device = DeviceId::parse("fresh").unwrap();
    leaf.source = source;
    tree.leaves.insert(3, leaf);
}

const PACKAGE: Source = Source::KeyPackage { not_before: 0, not_after: 1 };

#[test]
fn a_commit_renews_its_authors_leaf_and_nothing_else_of_it() {
    let reason = "the author's leaf is not as this commit leaves it";
    assert_eq!(refused(Kind::Update, |_| ()), reason);
    let own = |change: fn(&mut Leaf)| {
        refused(Kind::Update, |tree| {
            renew(tree, 0);
            change(tree.leaves.get_mut(&0).unwrap());
        })
    };
    assert_eq!(own(|leaf| leaf.signature_key[0] ^= 1), reason);
    assert_eq!(own(|leaf| leaf.credential_bytes[0] ^= 1), reason);
    assert_eq!(own(|leaf| leaf.source = PACKAGE), reason);
    // An add has no path.
    let added = refused(Kind::Add, |tree| {
        renew(tree, 0);
        add(tree, PACKAGE);
    });
    assert_eq!(added, reason);
    // The control.
    let (before, conversation) = tree();
    let mut after = before.clone();
    renew(&mut after, 0);
    let change = commit(&before, &after, Kind::Update, 0, &conversation).unwrap();
    assert_eq!(change.by, before.leaves[&0].credential);
}

#[test]
fn a_commit_does_one_thing_to_the_leaves_of_others() {
    let reason = "the commit changes the leaf of another";
    let updated = |change: fn(&mut Tree)| {
        refused(Kind::Update, |tree| {
            renew(tree, 0);
            change(tree);
        })
    };
    assert_eq!(updated(|tree| renew(tree, 2)), reason);
    assert_eq!(updated(|tree| drop(tree.leaves.remove(&2))), reason);
    assert_eq!(updated(|tree| add(tree, PACKAGE)), reason);
    assert_eq!(refused(Kind::Add, |_| ()), reason);
    let removed = refused(Kind::Remove, |tree| {
        renew(tree, 0);
        tree.leaves.remove(&1);
        add(tree, PACKAGE);
    });
    assert_eq!(removed, reason);
    assert_eq!(refused(Kind::Remove, |tree| renew(tree, 0)), reason);
    let added = refused(Kind::Add, |tree| {
        tree.leaves.remove(&1);
        add(tree, PACKAGE);
    });
    assert_eq!(added, reason);
    assert_eq!(refused(Kind::Add, |tree| add(tree, Source::Commit)), "an added leaf is from no package");
    assert_eq!(refused(Kind::Add, |tree| add(tree, PACKAGE)), "the identity did not sign the device");
}

#[test]
fn a_join_changes_no_other_device() {
    let (before, _) = tree();
    let joined = |change: fn(&mut Tree)| {
        let mut after = before.clone();
        add(&mut after, Source::Commit);
        change(&mut after);
        match external(&before, &after, 3) {
            Ok(_) => "",
            Err(Error::Profile(reason)) => reason,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(joined(|_| ()), "");
    assert_eq!(joined(|tree| renew(tree, 0)), "the join changes the leaf of another");
    // Another user's device, and another device of the same user.
    assert_eq!(joined(|tree| drop(tree.leaves.remove(&0))), "the join removes another device");
    assert_eq!(joined(|tree| drop(tree.leaves.remove(&2))), "the join removes another device");
    // The device anew, whose old leaf goes.
    let anew = |identity: u8| {
        let mut after = before.clone();
        let mut leaf = after.leaves.remove(&2).unwrap();
        leaf.encryption_key[0] ^= 0x77;
        leaf.credential.key[0] ^= identity;
        after.leaves.insert(3, leaf);
        external(&before, &after, 3).is_ok()
    };
    assert!(anew(0));
    // The only leaf of the user, under another identity.
    assert!(!anew(1));
}
