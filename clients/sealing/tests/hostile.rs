//! Members and a server that keep no rule. All phones refuse each input for one reason, and lose nothing by it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod crook;
mod world;

use std::collections::BTreeSet;

use crook::{Scene, Ways, authenticated, package, reason, signer};
use mls_rs::crypto::HpkePublicKey;
use mls_rs::extension::ExtensionType;
use mls_rs::group::ExportedTree;
use mls_rs::storage_provider::in_memory::InMemoryKeyPackageStorage;
use mls_rs::{Extension, ExtensionList, MlsMessage, ProtocolVersion};
use pigeonhole_sealing::{
    Asked, Conversation, Device, Entry, Error, Followed, Group, Identity, LAST_RESORT_LIFETIME_S, Named,
    PACKAGE_LIFETIME_S, Step,
};
use wire::{ConversationId, DeviceId};
use world::{Content, NOW_S, Phone, World, device, entry, id, identity, text, user};

fn zero() -> HpkePublicKey {
    vec![0; 32].into()
}

fn message(bytes: &[u8]) -> MlsMessage {
    MlsMessage::from_bytes(bytes).unwrap()
}

/// The control of the tests below: without a crooked way, others follow the crook's commits.
#[test]
fn a_good_commit_of_the_crooks_client_is_followed() {
    for step in ["update", "add", "remove"] {
        let mut scene = Scene::new(Ways::default());
        let data = scene.data();
        let fresh = scene_device(&scene, "phone-9");
        let mut builder = scene.crook.commit_builder().authenticated_data(data).commit_time(NOW_S.into());
        match step {
            "add" => builder = builder.add_member(message(&package(&fresh, &Ways::default()))).unwrap(),
            "remove" => builder = builder.remove_member(1).unwrap(),
            _ => {}
        }
        let commit = builder.build().unwrap().commit_message().to_bytes().unwrap();
        let logged = scene.logged(2);
        let followed = scene.group(0).follow(scene.world.entry(&logged), &commit, None).unwrap();
        assert!(matches!(followed, Followed::Changed(..)), "{step}");
        let other = scene.group(1).follow(scene.world.entry(&logged), &commit, None).unwrap();
        assert_eq!(matches!(other, Followed::Removed), step == "remove");
    }
}

/// A device of bob, by bob's own identity.
fn scene_device(scene: &Scene, name: &str) -> Device {
    device(&scene.world.identities["bob"], name)
}

/// The reason for which a commit is refused that the crook makes by `build`.
fn refused(ways: Ways, build: impl FnOnce(&mut Scene, Vec<u8>) -> MlsMessage) -> String {
    let mut scene = Scene::new(ways);
    let data = scene.data();
    let commit = build(&mut scene, data);
    scene.refused(&commit)
}

fn added(scene: &mut Scene, data: Vec<u8>, packages: &[Vec<u8>]) -> MlsMessage {
    let mut builder = scene.crook.commit_builder().authenticated_data(data).commit_time(NOW_S.into());
    for package in packages {
        builder = builder.add_member(message(package)).unwrap();
    }
    builder.build().unwrap().commit_message().clone()
}

#[test]
fn a_members_commit_in_the_clear_is_refused() {
    let ways = Ways { public: true, ..Ways::default() };
    let reason = refused(ways, |scene, data| scene.crook.commit(data).unwrap().commit_message().clone());
    assert_eq!(reason, "against the profile: a member's message is public");
}

#[test]
fn a_commit_that_ends_the_group_is_refused() {
    let reason = refused(Ways::default(), |scene, data| {
        let builder = scene.crook.commit_builder().authenticated_data(data);
        let builder = builder.reinit(None, ProtocolVersion::MLS_10, crook::SUITE, ExtensionList::new()).unwrap();
        builder.build().unwrap().commit_message().clone()
    });
    assert_eq!(reason, "against the profile: the commit ends the group");
}

#[test]
fn a_commit_that_adds_and_removes_is_refused() {
    let reason = refused(Ways::default(), |scene, data| {
        let fresh = package(&scene_device(scene, "phone-9"), &Ways::default());
        let builder = scene.crook.commit_builder().authenticated_data(data).commit_time(NOW_S.into());
        let builder = builder.add_member(message(&fresh)).unwrap().remove_member(1).unwrap();
        builder.build().unwrap().commit_message().clone()
    });
    assert_eq!(reason, "against the profile: the commit does two things");
}

#[test]
fn a_commit_with_extensions_of_the_group_is_refused() {
    let reason = refused(Ways::default(), |scene, data| {
        // A type that MLS knows by itself, so that no leaf need list it: required capabilities, which are none.
        let extension = Extension::new(ExtensionType::REQUIRED_CAPABILITIES, vec![0, 0, 0]);
        let builder = scene.crook.commit_builder().authenticated_data(data);
        let builder = builder.set_group_context_ext(ExtensionList::from(vec![extension])).unwrap();
        builder.build().unwrap().commit_message().clone()
    });
    assert_eq!(reason, "against the profile: a proposal that no commit has");
}

#[test]
fn a_leaf_with_other_capabilities_is_refused() {
    let ways = || Ways { extension: true, ..Ways::default() };
    let reason_of_add = refused(Ways::default(), |scene, data| {
        let fresh = package(&scene_device(scene, "phone-9"), &ways());
        added(scene, data, &[fresh])
    });
    let reason_of_update = refused(ways(), |scene, data| scene.crook.commit(data).unwrap().commit_message().clone());
    assert_eq!(reason_of_add, "against the profile: a leaf has other capabilities");
    assert_eq!(reason_of_update, reason_of_add);
}

#[test]
fn a_device_that_is_in_is_not_added_under_new_keys() {
    let reason = refused(Ways::default(), |scene, data| {
        let again = package(&scene_device(scene, "phone-0"), &Ways::default());
        added(scene, data, &[again])
    });
    assert!(reason.starts_with("does not open"), "{reason}");
}

#[test]
fn a_package_is_not_added_twice() {
    let mut scene = Scene::new(Ways::default());
    let fresh = Phone::new(scene_device(&scene, "phone-9"));
    let checked = world::package(&fresh, &scene.world.phones[0].device);
    assert!(scene.world.commit(0, Step::Add(&[checked.clone(), checked])).is_err());
}

#[test]
fn a_members_key_is_not_added_under_another_name() {
    let mut scene = Scene::new(Ways::default());
    let seed: [u8; 32] = scene.world.phones[1].device.to_bytes()[..32].try_into().unwrap();
    let twin = scene.world.identities["bob"].device(DeviceId::parse("phone-9").unwrap(), &seed);
    let checked = world::package(&Phone::new(twin), &scene.world.phones[0].device);
    assert!(scene.world.commit(0, Step::Add(&[checked])).is_err());
}

#[test]
fn a_strangers_device_is_refused() {
    let reason = refused(Ways::default(), |scene, data| {
        let stranger = package(&device(&identity("mallory"), "phone-0"), &Ways::default());
        added(scene, data, &[stranger])
    });
    assert_eq!(reason, "against the profile: the commit adds a stranger");
}

#[test]
fn a_ghost_by_another_identity_is_refused() {
    let reason = refused(Ways::default(), |scene, data| {
        let ghost = package(&device(&identity("alice"), "ghost"), &Ways::default());
        added(scene, data, &[ghost])
    });
    assert_eq!(reason, "against the profile: a user has two identities");
}

#[test]
fn a_device_that_its_identity_did_not_sign_is_refused() {
    let reason = refused(Ways::default(), |scene, data| {
        // The credential of a good device, with a key that the identity never saw.
        let good = scene_device(scene, "phone-9");
        let ghost = forged(&good);
        added(scene, data, &[ghost])
    });
    assert_eq!(reason, "against the profile: the identity did not sign the device");
}

/// A package with an extension.
fn extended(device: &Device) -> Vec<u8> {
    let client = crook::client(device, InMemoryKeyPackageStorage::new(), &Ways::default());
    let extensions = ExtensionList::from(vec![Extension::new(ExtensionType::APPLICATION_ID, vec![0])]);
    let message = client.generate_key_package_message(extensions, ExtensionList::new(), Some(NOW_S.into()));
    message.unwrap().to_bytes().unwrap()
}

/// A package with the credential of this device and another key.
fn forged(good: &Device) -> Vec<u8> {
    let (mut identity, _) = signer(good);
    let (other, key) = signer(&device(&identity_of(good), "other"));
    identity.signature_key = other.signature_key;
    let client = mls_rs::Client::builder()
        .crypto_provider(mls_rs_crypto_rustcrypto::RustCryptoProvider::with_enabled_cipher_suites(vec![crook::SUITE]))
        .identity_provider(mls_rs::identity::basic::BasicIdentityProvider)
        .signing_identity(identity, key, crook::SUITE)
        .build();
    let none = ExtensionList::new;
    client.generate_key_package_message(none(), none(), Some(NOW_S.into())).unwrap().to_bytes().unwrap()
}

fn identity_of(device: &Device) -> Identity {
    Identity::import(device.member().user.clone(), &world::seed())
}

#[test]
fn an_update_keeps_the_leafs_device_and_key() {
    let names = ["phone-9", "phone-0"];
    for name in names {
        let reason = refused(Ways::default(), |scene, data| {
            let (identity, key) = signer(&scene_device(scene, name));
            let builder = scene.crook.commit_builder().authenticated_data(data).set_new_signing_identity(key, identity);
            builder.build().unwrap().commit_message().clone()
        });
        assert!(!reason.is_empty(), "{reason}");
    }
}

#[test]
fn an_encryption_key_of_a_small_order_is_refused() {
    for in_update in [true, false] {
        let reason = refused(Ways::default(), |scene, data| {
            if in_update {
                scene.ways.keys.lock().unwrap().push(zero());
                return scene.crook.commit(data).unwrap().commit_message().clone();
            }
            let ways = Ways::default();
            let fresh = scene_device(scene, "phone-9");
            // The leaf's key is made second.
            let (_, good) = crook_keys();
            ways.keys.lock().unwrap().extend([zero(), good]);
            let fresh = package(&fresh, &ways);
            added(scene, data, &[fresh])
        });
        assert_eq!(reason, "against the profile: an encryption key has a small order");
    }
}

fn crook_keys() -> (mls_rs::crypto::HpkeSecretKey, HpkePublicKey) {
    use mls_rs::{CipherSuiteProvider, CryptoProvider};
    let provider = mls_rs_crypto_rustcrypto::RustCryptoProvider::new();
    provider.cipher_suite_provider(crook::SUITE).unwrap().kem_generate().unwrap()
}

#[test]
fn an_added_init_key_of_a_small_order_is_refused() {
    let reason = refused(Ways::default(), |scene, data| {
        let ways = Ways::default();
        ways.keys.lock().unwrap().push(zero());
        let fresh = package(&scene_device(scene, "phone-9"), &ways);
        added(scene, data, &[fresh])
    });
    assert_eq!(reason, "does not open: init key is not valid for cipher suite");
}

#[test]
fn a_commit_with_a_mark_or_place_of_another_is_refused() {
    let (conversation, mark) = ("dm_cqnezuscwz7if3puu6f3iggubjvdq4gs", [7; 8]);
    let reasons = [
        refused(Ways::default(), |scene, _| {
            scene.crook.commit(authenticated(conversation, "crook", mark)).unwrap().commit_message().clone()
        }),
        refused(Ways::default(), |scene, data| {
            let data = [b"dm_other\0crook\0", &data[data.len() - 8..]].concat();
            scene.crook.commit(data).unwrap().commit_message().clone()
        }),
        refused(Ways::default(), |scene, data| {
            let data = authenticated(conversation, "other", data[data.len() - 8..].try_into().unwrap());
            scene.crook.commit(data).unwrap().commit_message().clone()
        }),
        refused(Ways::default(), |scene, _| scene.crook.commit(Vec::new()).unwrap().commit_message().clone()),
    ];
    let expected = [
        "against the profile: the mark is of another epoch",
        "misplaced: the bytes are of another conversation",
        "misplaced: the bytes have another client_msg_id",
        "malformed: authenticated data",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn a_message_with_a_mark_of_another_epoch_is_refused() {
    let mut scene = Scene::new(Ways::default());
    let data = authenticated(scene.world.conversation.id().as_str(), "crook", [7; 8]);
    let body = scene.crook.encrypt_application_message(&text("hi"), data).unwrap().to_bytes().unwrap();
    let logged = world::Logged { epoch: scene.world.epoch, ..scene.logged(2) };
    let error = scene.group(0).open(scene.world.entry(&logged), &body).unwrap_err();
    assert_eq!(reason(&error), "against the profile: the mark is of another epoch");
    // The mark of bytes that do not open says whether they claim the same epoch.
    let mut broken = body;
    *broken.last_mut().unwrap() ^= 1;
    let error = scene.group(0).open(scene.world.entry(&logged), &broken).unwrap_err();
    assert!(matches!(error, Error::Unopened { own_mark: false, .. }));
}

#[test]
fn a_standalone_proposal_is_refused() {
    let scene = Scene::new(Ways::default());
    let (_, mut body) = scene.group(0).seal(&scene.world.conversation, &id("crook"), &text("hi")).unwrap();
    // The content type is behind version, wire format, group id and epoch.
    let place = 4 + 1 + usize::from(body[4]) + 8;
    assert_eq!(body[place], 1);
    body[place] = 2;
    let logged = scene.logged(0);
    let entry = scene.world.entry(&logged);
    let expected = "against the profile: a proposal has no commit";
    assert_eq!(reason(&scene.group(1).open(entry, &body).unwrap_err()), expected);
    assert_eq!(reason(&scene.group(1).follow(entry, &body, None).unwrap_err()), expected);
}

/// A join by the crook's client for this device, which removes the leaf at this place.
fn external(scene: &Scene, device: &Device, ways: &Ways, removes: Option<u32>) -> Vec<u8> {
    let client = crook::client(device, InMemoryKeyPackageStorage::new(), ways);
    let data = authenticated(scene.world.conversation.id().as_str(), "crook", [0; 8]);
    let tree = ExportedTree::from_bytes(&scene.world.tree).unwrap();
    let mut builder = client.external_commit_builder().unwrap().with_tree_data(tree).with_authenticated_data(data);
    if let Some(place) = removes {
        builder = builder.with_removal(place);
    }
    let (_, commit) = builder.commit_time(NOW_S.into()).build(message(&scene.world.group_info)).unwrap();
    commit.to_bytes().unwrap()
}

#[test]
fn a_join_is_of_a_known_identity_and_removes_the_same_device_alone() {
    let mut scene = Scene::new(Ways::default());
    let old = scene.world.phones[2].device.clone();
    let fresh = scene_device(&scene, "phone-9");
    let good = Ways::default();
    // The controls: the device anew, and a new device of bob.
    for (device, removes) in [(&old, Some(2)), (&fresh, None)] {
        let commit = external(&scene, device, &good, removes);
        let logged = scene.logged(2);
        let followed = scene.group(0).follow(scene.world.entry(&logged), &commit, None).unwrap();
        assert!(matches!(followed, Followed::Changed(..)));
    }
    let (stranger, ghost) = (device(&identity("mallory"), "phone-0"), device(&identity("bob"), "ghost"));
    let extension = Ways { extension: true, ..Ways::default() };
    let wrong = [
        // Removes another device of bob, and then alice's.
        (external(&scene, &fresh, &good, Some(1)), "does not open"),
        (external(&scene, &fresh, &good, Some(0)), "does not open"),
        // Is in already, under other keys or the same.
        (external(&scene, &scene_device(&scene, "phone-1"), &good, None), ""),
        (external(&scene, &stranger, &good, None), "against the profile: no leaf has the joiner's identity"),
        (external(&scene, &ghost, &good, None), "against the profile: a user has two identities"),
        (external(&scene, &fresh, &extension, None), "against the profile: a leaf has other capabilities"),
    ];
    for (commit, expected) in wrong {
        let reason = scene.refused_bytes(&commit, 2);
        assert!(reason.starts_with(expected), "{reason}");
    }
}

#[test]
fn a_user_whose_leaves_are_gone_does_not_join_under_another_identity() {
    // The old leaf of the device goes with the join: the tree alone would show one identity.
    let scene = {
        let mut scene = Scene::new(Ways::default());
        let bob = scene.world.phones[1].member().clone();
        scene.world.commit(0, Step::Remove(&[(&bob.user, &bob.device)])).unwrap();
        assert!(scene.world.send(0));
        scene.world.catch_all_up();
        scene
    };
    let ghost = device(&identity("bob"), "phone-1");
    let commit = external(&scene, &ghost, &Ways::default(), Some(2));
    let logged = scene.logged(2);
    let error = scene.group(0).follow(scene.world.entry(&logged), &commit, None).unwrap_err();
    assert!(!reason(&error).is_empty());
    let ghost = ghost.join_external(
        &scene.world.conversation,
        &id("crook"),
        scene.world.epoch,
        &scene.world.group_info,
        &scene.world.tree,
    );
    assert!(ghost.is_err());
}

#[test]
fn a_join_that_removes_this_leaf_says_so() {
    let scene = Scene::new(Ways::default());
    let commit = external(&scene, &scene.world.phones[1].device, &Ways::default(), Some(1));
    let logged = scene.logged(1);
    let followed = scene.group(1).follow(scene.world.entry(&logged), &commit, None).unwrap();
    assert_eq!(followed, Followed::Removed);
    let logged = scene.logged(0);
    let error = scene.group(1).follow(scene.world.entry(&logged), &commit, None).unwrap_err();
    assert_eq!(reason(&error), "misplaced: the commit is of another sender");
}

#[test]
fn a_group_info_that_is_not_of_this_epoch_lets_nobody_in() {
    let mut scene = Scene::new(Ways::default());
    let (stale_info, stale_tree) = (scene.world.group_info.clone(), scene.world.tree.clone());
    scene.world.commit(0, Step::Update).unwrap();
    assert!(scene.world.send(0));
    scene.world.catch_all_up();
    let fresh = scene_device(&scene, "phone-9");
    let join = |info: &[u8], tree: &[u8], epoch| {
        fresh.join_external(&scene.world.conversation, &id("crook"), epoch, info, tree)
    };
    assert!(join(&scene.world.group_info, &scene.world.tree, scene.world.epoch).is_ok());
    let (info, tree) = (&scene.world.group_info, &scene.world.tree);
    // Stale, with another tree, of another epoch.
    assert!(matches!(join(&stale_info, &stale_tree, scene.world.epoch), Err(Error::Epoch { .. })));
    assert!(join(info, &stale_tree, scene.world.epoch).is_err());
    assert!(join(&stale_info, tree, scene.world.epoch).is_err());
    assert!(join(info, tree, scene.world.epoch + 1).is_err());
    // A byte behind, and each byte of the signature's last ones turned.
    assert!(join(&[info, &[0][..]].concat(), tree, scene.world.epoch).is_err());
    assert!(join(info, &[tree, &[0][..]].concat(), scene.world.epoch).is_err());
    for place in 1..=64 {
        let mut forged = info.clone();
        let place = forged.len() - place;
        forged[place] ^= 1;
        assert!(join(&forged, tree, scene.world.epoch).is_err());
    }
    // Where the server and an insider agree on a stale one, the members refuse the join.
    let stale = fresh.join_external(&scene.world.conversation, &id("crook"), 1, &stale_info, &stale_tree);
    let commit = stale.unwrap().commit.unwrap();
    scene.refused_bytes(&commit, 2);
}

#[test]
fn a_group_info_with_a_key_of_a_small_order_lets_nobody_in() {
    // The crook signs it: extensions are what its word alone stands for.
    let scene = Scene::new(Ways::default());
    let info = scene.crook.group_info_message_internal(
        ExtensionList::from(vec![Extension::new(ExtensionType::EXTERNAL_PUB, [&[32][..], &[0; 32]].concat())]),
        false,
    );
    let info = info.unwrap().to_bytes().unwrap();
    let fresh = scene_device(&scene, "phone-9");
    let tree = &scene.world.tree;
    let join = fresh.join_external(&scene.world.conversation, &id("crook"), scene.world.epoch, &info, tree);
    assert!(reason(&join.unwrap_err()).ends_with("the key has a small order"));
}

#[test]
fn a_corrupted_copy_takes_nothing_from_the_genuine_one() {
    let mut world = World::begun(1, 1);
    for place in 0..100 {
        let sealed = world.seal(0).unwrap();
        let Content::Sealed { body, .. } = &sealed.content else { panic!() };
        let group = world.phones[1].group.clone().unwrap();
        let mut copy = body.clone();
        let turned = copy.len() - 1 - place * 3;
        copy[turned] ^= 1;
        assert!(group.open(world.entry(&sealed), &copy).is_err(), "{turned}");
        assert!(group.open(world.entry(&sealed), &[body, &[0][..]].concat()).is_err());
        assert!(group.open(world.entry(&sealed), &body[..body.len() - 1]).is_err());
        world.log.push(sealed);
        world.catch_up(1, world.log.len());
    }
    world.commit(0, Step::Update).unwrap();
    let commit = world.phones[0].pending.as_ref().unwrap().commit.clone().unwrap();
    assert!(world.send(0));
    let logged = world.log.last().unwrap().clone();
    for turned in (0..commit.len()).step_by(7) {
        let mut copy = commit.clone();
        copy[turned] ^= 1;
        let group = world.phones[1].group.as_ref().unwrap();
        assert!(group.follow(world.entry(&logged), &copy, None).is_err(), "{turned}");
    }
    let group = world.phones[1].group.as_ref().unwrap();
    assert!(group.follow(world.entry(&logged), &[&commit[..], &[0]].concat(), None).is_err());
    world.catch_all_up();
    world.assert_agreement();
}

#[test]
fn a_server_can_not_move_a_message() {
    let mut scene = Scene::new(Ways::default());
    let sealed = scene.world.say(0);
    let Content::Sealed { body, .. } = &sealed.content else { panic!() };
    let group = scene.group(1);
    let entry = scene.world.entry(&sealed);
    let (bob, carol) = (user("bob"), user("carol"));
    let other = Conversation::direct(&bob, &carol);
    let other_id = id("other");
    let opened = |entry: Entry<'_>| group.open(entry, body).map(|_| ()).map_err(|error| reason(&error));
    assert_eq!(opened(Entry { sender_id: &bob, ..entry }).unwrap_err(), "misplaced: the message is of another sender");
    let expected = "misplaced: the group is of another conversation";
    assert_eq!(opened(Entry { conversation: &other, ..entry }).unwrap_err(), expected);
    let expected = "misplaced: the bytes have another client_msg_id";
    assert_eq!(opened(Entry { client_msg_id: Some(&other_id), ..entry }).unwrap_err(), expected);
    let expected = "the input is of epoch 2, the group of 1";
    assert_eq!(opened(Entry { epoch: 2, ..entry }).unwrap_err(), expected);
    // The sender does not open its own.
    assert!(scene.group(0).open(entry, body).is_err());
    // A message is no commit.
    let error = group.follow(Entry { epoch: 2, ..entry }, body, None).unwrap_err();
    assert_eq!(reason(&error), "malformed: another kind of message");
    opened(entry).unwrap();
    opened(Entry { client_msg_id: None, ..entry }).unwrap();
    // A message of another group of the same users.
    let twin = World::begun(1, 1);
    let mut foreign = twin;
    let sealed = foreign.say(0);
    let Content::Sealed { body, .. } = &sealed.content else { panic!() };
    let error = scene.group(1).open(scene.world.entry(&sealed), body).unwrap_err();
    assert!(matches!(error, Error::Unopened { own_mark: false, .. }), "{error:?}");
}

#[test]
fn a_server_can_not_move_a_message_to_another_epoch() {
    let mut world = World::begun(1, 1);
    let sealed = world.seal(0).unwrap();
    let Content::Sealed { body, .. } = &sealed.content else { panic!() };
    let moved = |world: &World| {
        let entry = Entry { epoch: world.epoch, ..world.entry(&sealed) };
        reason(&world.phones[1].group.as_ref().unwrap().open(entry, body).unwrap_err())
    };
    world.commit(0, Step::Update).unwrap();
    assert!(world.send(0));
    world.catch_all_up();
    assert_eq!(moved(&world), "the input is of epoch 1, the group of 2");
    // After a reset, MLS counts from one again.
    assert!(world.birth(1, &[0]));
    world.catch_all_up();
    assert_eq!(moved(&world), "misplaced: the bytes are of another group");
    world.say(0);
    world.catch_all_up();
}

#[test]
fn a_commit_of_nobody_is_none() {
    let mut world = World::begun(1, 1);
    assert!(world.commit(0, Step::Add(&[])).is_err());
    assert!(world.commit(0, Step::Remove(&[])).is_err());
    let (bob, unknown) = (user("bob"), DeviceId::parse("unknown").unwrap());
    assert!(world.commit(0, Step::Remove(&[(&bob, &unknown)])).is_err());
    let own = world.phones[0].member().clone();
    assert!(world.commit(0, Step::Remove(&[(&own.user, &own.device)])).is_err());
    world.say(0);
    world.catch_all_up();
}

#[test]
fn a_server_can_not_rename_a_commit() {
    let mut scene = Scene::new(Ways::default());
    scene.world.commit(0, Step::Update).unwrap();
    let commit = scene.world.phones[0].pending.as_ref().unwrap().commit.clone().unwrap();
    let logged = scene.logged(2);
    let error = scene.group(1).follow(Entry { client_msg_id: None, ..scene.world.entry(&logged) }, &commit, None);
    assert_eq!(reason(&error.unwrap_err()), "misplaced: the commit is of another sender");
    // The entry of an erased user has a sender without a leaf.
    let erased = user("erased-1");
    let entry = Entry { client_msg_id: None, sender_id: &erased, ..scene.world.entry(&logged) };
    assert!(scene.group(1).follow(entry, &commit, None).is_ok());
    // Nor is a remove of this device by alice bob's.
    let bob = scene.world.phones[1].member().clone();
    scene.world.phones[0].pending = None;
    scene.world.commit(0, Step::Remove(&[(&bob.user, &bob.device)])).unwrap();
    let commit = scene.world.phones[0].pending.as_ref().unwrap().commit.clone().unwrap();
    let error = scene.group(1).follow(Entry { client_msg_id: None, ..scene.world.entry(&logged) }, &commit, None);
    assert_eq!(reason(&error.unwrap_err()), "misplaced: the commit is of another sender");
}

#[test]
fn an_own_commit_is_known_by_its_bytes() {
    let mut world = World::begun(1, 1);
    world.commit(0, Step::Update).unwrap();
    let pending = world.phones[0].pending.clone().unwrap();
    assert!(world.send(0));
    let logged = world.log.last().unwrap().clone();
    let entry = world.entry(&logged);
    let own = world.phones[0].member();
    let commit = pending.commit.as_deref();
    let other = [commit.unwrap(), &[0]].concat();
    let (bob, other_id) = (user("bob"), id("other"));
    assert!(pending.merge(own, entry, Some(&other), None).is_err());
    assert!(pending.merge(own, entry, None, None).is_err());
    assert!(pending.merge(own, entry, commit, Some(&other)).is_err());
    assert!(pending.merge(own, Entry { sender_id: &bob, ..entry }, commit, None).is_err());
    assert!(pending.merge(own, Entry { epoch: entry.epoch + 1, ..entry }, commit, None).is_err());
    assert!(pending.merge(own, Entry { client_msg_id: Some(&other_id), ..entry }, commit, None).is_err());
    assert!(pending.merge(own, Entry { client_msg_id: None, ..entry }, commit, None).is_err());
    let other = Conversation::direct(&bob, &user("carol"));
    assert!(pending.merge(own, Entry { conversation: &other, ..entry }, commit, None).is_err());
    assert_eq!(pending.merge(own, entry, commit, None).unwrap(), pending.next);
}

#[test]
fn a_welcome_of_another_place_is_refused() {
    let world = World::begun(1, 1);
    let mut fresh = World::direct(1, 1);
    let packages = fresh.checked(&[1], 0);
    let (alice, bob) = (fresh.phones[0].member().clone(), fresh.phones[1].member().clone());
    let birth = fresh.phones[0].device.birth(&fresh.conversation, &id("c1"), 0, &packages, NOW_S).unwrap();
    let private: Vec<_> = fresh.phones[1].packages.iter().map(|(_, name, key)| (name.clone(), key.clone())).collect();
    let (welcome, tree) = (birth.welcome.unwrap(), birth.next.tree().to_vec());
    let device = &fresh.phones[1].device;
    let client_msg_id = id("c1");
    let entry = Entry {
        conversation: &fresh.conversation,
        sender_id: &alice.user,
        client_msg_id: Some(&client_msg_id),
        epoch: 1,
    };
    let join = |entry: Entry<'_>, is_birth| device.join_by_welcome(entry, is_birth, &welcome, &tree, &private);
    let (group, used) = join(entry, true).unwrap();
    assert_eq!(group.epoch(&fresh.conversation).unwrap(), 1);
    // The private part is not deleted yet: the same Welcome joins again. Then it is, and nothing does.
    join(entry, true).unwrap();
    let left: Vec<_> = private.iter().filter(|(name, _)| *name != used).cloned().collect();
    assert!(matches!(device.join_by_welcome(entry, true, &welcome, &tree, &left), Err(Error::NotForUs)));
    let other = Conversation::direct(&bob.user, &user("carol"));
    let wrong = [
        join(Entry { sender_id: &bob.user, ..entry }, true),
        join(Entry { epoch: 2, ..entry }, true),
        join(Entry { conversation: &other, ..entry }, true),
        device.join_by_welcome(entry, true, &welcome, world.phones[0].group.as_ref().unwrap().tree(), &private),
        device.join_by_welcome(entry, true, &welcome, &[&tree[..], &[0]].concat(), &private),
        device.join_by_welcome(entry, true, &[&welcome[..], &[0]].concat(), &tree, &private),
        device.join_by_welcome(entry, true, &welcome[..welcome.len() - 1], &tree, &private),
        // Another device's keys don't fit.
        fresh.phones[0].device.join_by_welcome(entry, true, &welcome, &tree, &private),
    ];
    for (place, wrong) in wrong.into_iter().enumerate() {
        assert!(wrong.is_err(), "{place}");
    }
}

#[test]
fn a_birth_with_a_stranger_or_a_later_epoch_is_refused() {
    // A crook begins a group, and adds a stranger, or makes more commits before the server gets the birth.
    let ways = Ways { tree_in_welcome: false, ..Ways::default() };
    for wrong in ["", "stranger", "two identities", "late", "tree", "extensions", "two identities in a group"] {
        let world = if wrong.ends_with("group") { World::group(2, 1) } else { World::direct(1, 1) };
        let ways = Ways { tree_in_welcome: wrong == "tree", ..ways.clone() };
        let crook = crook::client(&world.phones[0].device, InMemoryKeyPackageStorage::new(), &ways);
        let none = ExtensionList::new;
        let before = if wrong == "late" { 0 } else { 6 };
        let name = format!("{}/{before}", world.conversation.id()).into_bytes();
        let mut extensions = none();
        if wrong == "extensions" {
            extensions.set(Extension::new(ExtensionType::REQUIRED_CAPABILITIES, vec![0, 0, 0]));
        }
        let mut group = crook.create_group_with_id(name, extensions, none(), Some(NOW_S.into())).unwrap();
        if wrong == "late" {
            for _ in 0..6 {
                group.commit(Vec::new()).unwrap();
                group.apply_pending_commit().unwrap();
            }
        }
        let mut builder = group.commit_builder().commit_time(NOW_S.into());
        builder = builder.add_member(message(&world.phones[1].packages[0].0)).unwrap();
        let extra = match wrong {
            "stranger" => Some(identity("mallory")),
            "two identities" | "two identities in a group" => Some(identity(world.phones[0].member().user.as_str())),
            _ => None,
        };
        if let Some(extra) = extra {
            builder = builder.add_member(message(&package(&device(&extra, "extra"), &ways))).unwrap();
        }
        let built = builder.build().unwrap();
        group.apply_pending_commit().unwrap();
        let tree = group.export_tree().to_bytes().unwrap();
        let welcome = built.welcome_messages()[0].to_bytes().unwrap();
        let (phone, author) = (&world.phones[1], &world.phones[0].member().user);
        let private: Vec<_> = phone.packages.iter().map(|(_, name, key)| (name.clone(), key.clone())).collect();
        let entry = Entry { conversation: &world.conversation, sender_id: author, client_msg_id: None, epoch: 7 };
        let joined = phone.device.join_by_welcome(entry, true, &welcome, &tree, &private);
        assert_eq!(joined.is_ok(), wrong.is_empty(), "{wrong}");
    }
}

#[test]
fn a_claimed_package_is_checked_before_use() {
    let (alice, bob) = (identity("alice"), identity("bob"));
    let (phone, theirs) = (device(&alice, "phone"), device(&bob, "phone"));
    let packages = theirs.new_packages(1, false, NOW_S).unwrap();
    let data = &packages[0].data;
    let lasting = theirs.new_packages(1, true, NOW_S).unwrap().remove(0);
    assert!(data.len() <= 1_024 && lasting.data.len() <= 1_024 && theirs.credential().len() <= 512);
    assert_eq!(packages[0].expires_at_s, NOW_S + PACKAGE_LIFETIME_S);
    assert_eq!(lasting.expires_at_s, NOW_S + LAST_RESORT_LIFETIME_S);
    let (bob_id, phone_id) = (user("bob"), DeviceId::parse("phone").unwrap());
    let (carol_id, other_id) = (user("carol"), DeviceId::parse("other").unwrap());
    let key = bob.key();
    let asked = Asked { user: &bob_id, device: &phone_id, key: Some(&key), last_resort: false };
    let check = |data: &[u8], asked, now_s| phone.check_package(data, asked, now_s).map_err(|error| reason(&error));
    let last_resort = Asked { last_resort: true, ..asked };
    assert_eq!(check(data, asked, NOW_S).unwrap().member, *theirs.member());
    check(data, Asked { key: None, ..asked }, NOW_S).unwrap();
    check(&lasting.data, last_resort, NOW_S).unwrap();
    let other_key = alice.key();
    let wrong = [
        check(data, Asked { user: &carol_id, ..asked }, NOW_S),
        check(data, Asked { device: &other_id, ..asked }, NOW_S),
        check(data, Asked { key: Some(&other_key), ..asked }, NOW_S),
        check(data, asked, NOW_S + PACKAGE_LIFETIME_S + 1),
        check(data, asked, NOW_S - 3_601),
        check(&lasting.data, asked, NOW_S),
        check(&lasting.data, last_resort, NOW_S + LAST_RESORT_LIFETIME_S + 1),
        check(&[&data[..], &[0]].concat(), asked, NOW_S),
        check(&data[..data.len() - 1], asked, NOW_S),
        check(&forged(&theirs), asked, NOW_S),
        check(&package(&theirs, &Ways { extension: true, ..Ways::default() }), last_resort, NOW_S),
        check(&package(&theirs, &Ways { no_credential_type: true, ..Ways::default() }), last_resort, NOW_S),
        check(&extended(&theirs), last_resort, NOW_S),
        // The init key is made first, the leaf's key second.
        check(&package(&theirs, &with_keys([zero()])), last_resort, NOW_S),
        check(&package(&theirs, &with_keys([zero(), crook_keys().1])), last_resort, NOW_S),
    ];
    for (place, wrong) in wrong.iter().enumerate() {
        assert!(wrong.is_err(), "{place}: {wrong:?}");
    }
    // The control: the crook's client makes good ones too.
    check(&package(&theirs, &Ways::default()), last_resort, NOW_S).unwrap();
    // Each byte counts.
    for place in 0..data.len() {
        let mut turned = data.clone();
        turned[place] ^= 1;
        assert!(check(&turned, asked, NOW_S).is_err(), "{place}");
    }
}

fn with_keys<const COUNT: usize>(keys: [HpkePublicKey; COUNT]) -> Ways {
    let ways = Ways::default();
    ways.keys.lock().unwrap().extend(keys);
    ways
}

#[test]
fn an_old_package_in_a_commit_is_the_adders_affair() {
    // A phone that was away for longer must follow what was good when it was made.
    let mut scene = Scene::new(Ways::default());
    let fresh = package(&scene_device(&scene, "phone-9"), &Ways::default());
    let data = scene.data();
    let builder = scene.crook.commit_builder().authenticated_data(data).commit_time(NOW_S.into());
    let commit = builder.add_member(message(&fresh)).unwrap().build().unwrap().commit_message().to_bytes().unwrap();
    let logged = scene.logged(2);
    assert!(scene.group(0).follow(scene.world.entry(&logged), &commit, None).is_ok());
}

#[test]
fn a_gap_of_a_thousand_messages_is_the_most() {
    let mut world = World::begun(1, 1);
    let sealed: Vec<_> = (0..1_026).map(|_| world.seal(0).unwrap()).collect();
    let group = world.phones[1].group.clone().unwrap();
    let open = |place: usize| {
        let Content::Sealed { body, .. } = &sealed[place].content else { panic!() };
        group.open(world.entry(&sealed[place]), body)
    };
    let (later, _) = open(1_023).unwrap();
    assert!(open(1_025).is_err());
    // The skipped keys are gone.
    let Content::Sealed { body, .. } = &sealed[1_000].content else { panic!() };
    assert!(later.open(world.entry(&sealed[1_000]), body).is_err());
}

#[test]
fn a_system_entry_names_whom_its_commit_adds_and_removes() {
    let mut world = World::group(3, 1);
    let packages = world.checked(&[1], 0);
    let client_msg_id = world.next_id();
    let phone = &mut world.phones[0];
    phone.pending = Some(phone.device.birth(&world.conversation, &client_msg_id, 0, &packages, NOW_S).unwrap());
    assert!(world.send(0));
    world.catch_all_up();
    let packages = world.checked(&[2], 0);
    world.commit(0, Step::Add(&packages)).unwrap();
    let named = |added: &[&str], removed: &[&str]| {
        let users = |names: &[&str]| names.iter().map(|name| user(name)).collect::<BTreeSet<_>>();
        (users(added), users(removed))
    };
    let follow = |world: &World, named: &(BTreeSet<_>, BTreeSet<_>)| {
        let pending = world.phones[0].pending.as_ref().unwrap();
        let logged = world::Logged {
            by: world.phones[0].member().clone(),
            client_msg_id: pending.client_msg_id.clone(),
            epoch: pending.epoch + 1,
            content: Content::Commit { commit: None, welcome: None },
        };
        let named = Named::System { added: &named.0, removed: &named.1 };
        let group = world.phones[1].group.as_ref().unwrap();
        group.follow(entry(&world.conversation, &logged), pending.commit.as_ref().unwrap(), Some(named)).is_ok()
    };
    assert!(follow(&world, &named(&["user-2"], &[])));
    for (added, removed) in
        [(&[][..], &[][..]), (&["user-1"], &[]), (&["user-2", "user-7"], &[]), (&["user-2"], &["user-1"])]
    {
        assert!(!follow(&world, &named(added, removed)), "{added:?} {removed:?}");
    }
    assert!(world.send(0));
    world.catch_all_up();
    let gone = world.phones[2].member().clone();
    world.commit(0, Step::Remove(&[(&gone.user, &gone.device)])).unwrap();
    assert!(follow(&world, &named(&[], &["user-2"])));
    for (added, removed) in
        [(&[][..], &[][..]), (&[], &["user-1"]), (&[], &["user-1", "user-2"]), (&["user-2"], &["user-2"])]
    {
        assert!(!follow(&world, &named(added, removed)), "{added:?} {removed:?}");
    }
}

#[test]
fn nothing_is_sealed_for_a_user_who_left() {
    let mut world = World::group(3, 1);
    world.begin();
    let members = [user("user-0"), user("user-1")].into();
    let after = Conversation::group(ConversationId::parse("gr_walk").unwrap(), members).unwrap();
    let group = world.phones[0].group.clone().unwrap();
    assert_eq!(group.strangers(&after).unwrap(), [user("user-2")].into());
    assert!(group.seal(&after, &id("m1"), &text("hi")).is_err());
    // Members may still join and renew, until one of them removes the leaf.
    let gone = world.phones[2].member().clone();
    world.conversation = after;
    world.commit(1, Step::Update).unwrap();
    assert!(world.send(1));
    world.catch_up(0, world.log.len());
    world.catch_up(1, world.log.len());
    world.join(1).unwrap();
    assert!(world.send(1));
    world.catch_up(0, world.log.len());
    world.catch_up(1, world.log.len());
    world.commit(0, Step::Remove(&[(&gone.user, &gone.device)])).unwrap();
    assert!(world.send(0));
    world.catch_all_up();
    assert!(world.phones[2].group.is_none());
    world.say(0);
    world.catch_up(1, world.log.len());
}

/// Turns a byte, cuts, appends, or writes the length of 2^30 bytes somewhere.
fn damaged(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let place = random.usize(..bytes.len());
    match random.u8(..4) {
        0 => bytes[place] ^= random.u8(1..),
        1 => bytes.truncate(place),
        2 => bytes.extend((0..random.usize(1..9)).map(|_| random.u8(..))),
        _ => drop(bytes.splice(place..place, [0xbf, 0xff, 0xff, 0xff])),
    }
    bytes
}

#[test]
fn damaged_bytes_are_refused_without_a_panic() {
    let mut scene = Scene::new(Ways::default());
    let sealed = scene.world.say(0);
    scene.world.commit(0, Step::Update).unwrap();
    let Content::Sealed { body, .. } = &sealed.content else { panic!() };
    let commit = scene.world.phones[0].pending.as_ref().unwrap().commit.clone().unwrap();
    let logged = scene.logged(0);
    let of_commit = Entry { client_msg_id: None, ..scene.world.entry(&logged) };
    let group = scene.group(1).clone();
    let fresh = scene_device(&scene, "phone-9");
    let package = fresh.new_packages(1, false, NOW_S).unwrap().remove(0);
    let member = fresh.member();
    let asked = Asked { user: &member.user, device: &member.device, key: None, last_resort: false };
    let (conversation, by) = (&scene.world.conversation, &scene.world.phones[0].device);
    let (info, tree, join_id) = (&scene.world.group_info, &scene.world.tree, id("join"));
    let random = &mut fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        assert!(group.open(scene.world.entry(&sealed), &damaged(body, random)).is_err());
        assert!(group.follow(of_commit, &damaged(&commit, random), None).is_err());
        assert!(by.check_package(&damaged(&package.data, random), asked, NOW_S).is_err());
        assert!(fresh.join_external(conversation, &join_id, 1, &damaged(info, random), tree).is_err());
        assert!(fresh.join_external(conversation, &join_id, 1, info, &damaged(tree, random)).is_err());
        assert!(Group::from_stored(group.state().to_vec(), damaged(group.tree(), random)).is_err());
        assert!(Device::from_bytes(&damaged(&fresh.to_bytes(), random)).is_err());
        assert!(Group::from_stored(damaged(group.state(), random), group.tree().to_vec()).is_err());
    }
    group.open(scene.world.entry(&sealed), body).unwrap();
    group.follow(of_commit, &commit, None).unwrap();
}
