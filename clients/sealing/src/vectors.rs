//! The vectors for other implementations of the profile: `conformance/sealing.json`.
//!
//! With `PIGEONHOLE_WRITE=1` the test writes the file. The parts whose keys are random stay those of the file.

use std::path::PathBuf;

use data_encoding::{BASE64, HEXLOWER};
use mls_rs::mls_rs_codec::MlsDecode;
use mls_rs::storage_provider::KeyPackageData;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use wire::{ClientMsgId, ConversationId, DeviceId, UserId};
use zeroize::Zeroizing;

use crate::conversation::authenticated;
use crate::{
    Asked, Checked, Conversation, Credential, Device, Entry, Envelope, FileCipher, FileKey, Followed, Identity, Step,
    frank, safety_number, sealed_file_bytes,
};

const NOW_S: u64 = 1_800_000_000;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/sealing.json")
}

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn id(id: &str) -> ClientMsgId {
    ClientMsgId::parse(id).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

fn bytes(value: &Value) -> Vec<u8> {
    BASE64.decode(value.as_str().unwrap().as_bytes()).unwrap()
}

fn identity(name: &str, byte: u8) -> Identity {
    Identity::import(user(name), &[byte; 32])
}

fn alice() -> Device {
    identity("alice", 1).device(DeviceId::parse("alices-phone").unwrap(), &[2; 32])
}

fn bob() -> Device {
    identity("bob", 3).device(DeviceId::parse("bobs-phone").unwrap(), &[4; 32])
}

fn conversation() -> Conversation {
    Conversation::direct(&user("alice"), &user("bob"))
}

/// Bytes that are easy to make in any language: each is its place modulo 251.
fn plain(count: usize) -> Vec<u8> {
    (0..count).map(|place| u8::try_from(place % 251).unwrap()).collect()
}

#[test]
fn the_vectors_are_what_this_version_computes() {
    let written: Value =
        std::fs::read(file()).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).expect("JSON"));
    let mut all = computed();
    if std::env::var("PIGEONHOLE_WRITE").is_ok() {
        all["transcript"] = transcript();
        let text = serde_json::to_string_pretty(&all).unwrap();
        return std::fs::write(file(), text + "\n").unwrap();
    }
    all["transcript"] = written["transcript"].clone();
    for (part, vectors) in all.as_object().unwrap() {
        assert_eq!(written[part], *vectors, "{part}: PIGEONHOLE_WRITE=1 writes the file");
    }
    assert_eq!(written.as_object().map(Map::len), all.as_object().map(Map::len));
    follow(&written["transcript"]);
}

fn computed() -> Value {
    let group = Conversation::group(ConversationId::parse("gr_trip").unwrap(), [user("alice")].into()).unwrap();
    let ids = |conversation: &Conversation| {
        [0, 1, 41].map(|before| {
            let group_id = String::from_utf8(conversation.group_id(before)).unwrap();
            json!({"conversation_id": conversation.id(), "epoch_before": before, "group_id": group_id})
        })
    };
    let data = |client_msg_id: &str, mark: [u8; 8]| {
        let data = authenticated(conversation().id(), &id(client_msg_id), mark);
        json!({
            "conversation_id": conversation().id(), "client_msg_id": client_msg_id, "mark": hex(&mark), "data": hex(&data),
        })
    };
    let group_ids = [ids(&conversation()), ids(&group)].concat();
    let data = [data("c1", [0; 8]), data("m-2", [0, 1, 2, 0, 4, 5, 6, 0])];
    let credentials = [alice(), bob()].map(|device| credential(&device));
    let safety_numbers = [("alice", 1, "bob", 3), ("bob", 3, "alice", 1), ("alice", 1, "alice2", 5)].map(safety);
    let lengths = LENGTHS.map(|length| json!({"bytes": length, "sealed": sealed_file_bytes(length)}));
    let files = [0, 5, 257, 1_048_577].map(sealed_file);
    json!({
        "group_ids": group_ids, "authenticated_data": data, "credentials": credentials,
        "safety_numbers": safety_numbers, "envelopes": envelopes(), "refused_envelopes": REFUSED,
        "file_lengths": lengths, "files": files,
    })
}

fn credential(device: &Device) -> Value {
    let Credential { user, device: name, key } = device.member();
    json!({
        "user": user, "device": name, "identity_key": hex(key), "leaf_key": hex(&device.leaf_key()),
        "credential": str::from_utf8(device.credential()).unwrap(),
    })
}

fn safety((one, one_seed, other, other_seed): (&str, u8, &str, u8)) -> Value {
    let (ours, theirs) = (identity(one, one_seed), identity(other, other_seed));
    let number = safety_number((ours.user(), &ours.key()), (theirs.user(), &theirs.key()));
    json!({
        "users": [one, other], "keys": [hex(&ours.key()), hex(&theirs.key())], "bytes": hex(number.bytes()),
        "number": number.to_string(),
    })
}

/// Plaintexts that have one reading, with their digests. An implementation can order the fields otherwise.
fn envelopes() -> Vec<Value> {
    let to = json!({"seq": 7, "client_msg_id": "m-2"});
    let envelope = |kind: &str, body: &str, fields: &[(&str, &Value)]| {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())).collect();
        let at = "2026-11-25T10:00:00.000Z".into();
        let envelope = Envelope { kind: kind.into(), body: body.into(), at, after: 41, fields };
        let (plaintext, digest) = envelope.write_franked(&[9; 32]);
        assert_eq!(digest, frank(&[9; 32], &plaintext));
        json!({
            "kind": kind, "body": body, "fields": envelope.fields, "plain": str::from_utf8(&envelope.write()).unwrap(),
            "frank_key": hex(&[9; 32]), "franked": str::from_utf8(&plaintext).unwrap(), "frank": hex(&digest),
        })
    };
    vec![
        envelope("text", "hi", &[]),
        envelope("text", &"é🙂".repeat(50), &[]),
        envelope("text", "", &[("x_later", &json!({"a": [1, null]}))]),
        envelope("edit", "hello", &[("to", &to)]),
    ]
}

/// Plaintexts that no client shows, before the spaces.
const REFUSED: [&str; 8] = [
    r#"{"v":1,"kind":"text","body":"hi","at":"now","after":1,"body":"bye"}"#,
    r#"{"v":1,"kind":"text","body":"hi","at":"now","after":1,"b\u006fdy":"bye"}"#,
    r#"{"v":1,"kind":"edit","body":"hi","at":"now","after":1,"to":{"seq":1,"seq":2}}"#,
    r#"{"v":1,"kind":"text","body":"hi","at":"now","after":1}{}"#,
    r#" {"v":1,"kind":"text","body":"hi","at":"now","after":1}"#,
    r#"{"v":2,"kind":"text","body":"hi","at":"now","after":1}"#,
    r#"{"v":1,"kind":"text","body":"hi","at":"now","after":-1}"#,
    r#"{"v":1,"kind":"text","body":"hi","at":"now"}"#,
];

#[test]
fn a_refused_envelope_of_the_vectors_is_refused() {
    for text in REFUSED {
        assert!(Envelope::read(text.as_bytes()).is_err(), "{text}");
    }
}

const LENGTHS: [u64; 9] = [0, 1, 256, 257, 1_000, 284_113, 1_048_576, 1_048_577, 100_000_000];

fn sealed_file(count: usize) -> Value {
    let (key, plain) = (FileKey::new([7; 32]), plain(count));
    let cipher = FileCipher::new(&key, plain.len() as u64).unwrap();
    let (mut left, mut sealed) = (plain.as_slice(), Vec::new());
    for segment in 0..cipher.segments() {
        let (now, rest) = left.split_at(usize::try_from(cipher.plaintext_bytes(segment)).unwrap());
        sealed.extend(cipher.seal(segment, now.to_vec()).unwrap());
        left = rest;
    }
    let mut vector = json!({
        "key": hex(key.bytes()), "bytes": count, "sealed_bytes": sealed.len(), "sha256": hex(&Sha256::digest(&sealed)),
    });
    if sealed.len() < 1_000 {
        vector["sealed"] = json!(base64(&sealed));
    }
    vector
}

fn checked(package: &[u8]) -> Checked {
    let bob = bob();
    let Credential { user, device, key } = bob.member();
    let asked = Asked { user, device, key: Some(key), last_resort: false };
    alice().check_package(package, asked, NOW_S).unwrap()
}

/// Alice begins a conversation with bob's package, writes, renews her keys, and writes again.
fn transcript() -> Value {
    let (conversation, package) = (conversation(), bob().new_packages(1, false, NOW_S).unwrap().remove(0));
    let private = KeyPackageData::mls_decode_exhaustive(&package.private).unwrap();
    let birth = alice().birth(&conversation, &id("b1"), 0, &[checked(&package.data)], NOW_S).unwrap();
    let text = |body: &str| Envelope { kind: "text".into(), body: body.into(), ..Envelope::default() }.write();
    let (group, first) = birth.next.seal(&conversation, &id("m1"), &text("hi")).unwrap();
    let (_, update) = group.commit(&conversation, &id("c1"), Step::Update, NOW_S).unwrap();
    let (_, second) = update.next.seal(&conversation, &id("m2"), &text("again")).unwrap();
    let epoch = |group: &crate::Group| json!({"authenticator": hex(&group.authenticator().unwrap()), "mark": hex(&group.mark().unwrap())});
    json!({
        "conversation_id": conversation.id(),
        "package": {
            "data": base64(&package.data), "now_s": NOW_S, "leaf_seed": hex(&[4; 32]),
            "init_key": hex(private.init_key.as_ref()), "leaf_key": hex(private.leaf_node_key.as_ref()),
            "mls_rs": base64(&package.private), "reference": hex(&package.reference),
        },
        "entries": [
            {"sender_id": "alice", "client_msg_id": "b1", "kind": "commit", "epoch": 1, "welcome": birth.welcome.as_deref().map(base64),
                "tree": base64(birth.next.tree()), "group_info": base64(&birth.group_info), "after": epoch(&birth.next)},
            {"sender_id": "alice", "client_msg_id": "m1", "kind": "sealed", "epoch": 1, "body": base64(&first), "plaintext": "hi"},
            {"sender_id": "alice", "client_msg_id": "c1", "kind": "commit", "epoch": 2, "commit": update.commit.as_deref().map(base64),
                "tree": base64(update.next.tree()), "group_info": base64(&update.group_info), "after": epoch(&update.next)},
            {"sender_id": "alice", "client_msg_id": "m2", "kind": "sealed", "epoch": 2, "body": base64(&second), "plaintext": "again"},
        ],
    })
}

/// Bob joins by the Welcome of the file, and opens what follows. A new device joins by itself.
fn follow(transcript: &Value) {
    let (conversation, package) = (conversation(), &transcript["package"]);
    assert_eq!(checked(&bytes(&package["data"])).member, *bob().member());
    let reference = HEXLOWER.decode(package["reference"].as_str().unwrap().as_bytes()).unwrap();
    let private = [(reference, Zeroizing::new(bytes(&package["mls_rs"])))];
    let mut group = None;
    for logged in transcript["entries"].as_array().unwrap() {
        let (sender, msg_id) = (user("alice"), id(logged["client_msg_id"].as_str().unwrap()));
        let epoch = logged["epoch"].as_u64().unwrap();
        let entry = Entry { conversation: &conversation, sender_id: &sender, client_msg_id: Some(&msg_id), epoch };
        let now = match (group.take(), logged["kind"].as_str().unwrap()) {
            (None, _) => {
                let (welcome, tree) = (bytes(&logged["welcome"]), bytes(&logged["tree"]));
                bob().join_by_welcome(entry, true, &welcome, &tree, &private).unwrap().0
            }
            (Some(group), "commit") => {
                let group: crate::Group = group;
                let Followed::Changed(next, _) = group.follow(entry, &bytes(&logged["commit"]), None).unwrap() else {
                    panic!("the commit changes the members")
                };
                next
            }
            (Some(group), _) => {
                let (next, opened) = group.open(entry, &bytes(&logged["body"])).unwrap();
                assert_eq!(Envelope::read(&opened.plaintext).unwrap().body, logged["plaintext"]);
                next
            }
        };
        if let Some(after) = logged["after"].as_object() {
            assert_eq!(hex(&now.authenticator().unwrap()), after["authenticator"]);
            assert_eq!(hex(&now.mark().unwrap()), after["mark"]);
            assert_eq!(now.tree(), bytes(&logged["tree"]));
            let device = identity("bob", 3).device(DeviceId::parse("bobs-tablet").unwrap(), &[6; 32]);
            let info = bytes(&logged["group_info"]);
            let join = device.join_external(&conversation, &id("j1"), epoch, &info, now.tree()).unwrap();
            assert_eq!(join.epoch, epoch);
        }
        group = Some(now);
    }
}
