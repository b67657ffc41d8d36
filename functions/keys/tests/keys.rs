//! The key directory: each package once, who may claim, what the limits are, and the order of refusals.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::BASE64;
use domain::{DeviceKeys, Encryption, Rate};
use keys::KeyRates;
use serde_json::{Value, json};
use store::keys::{self as keys_of, Claim, Free, KeyLimits, Publish, Taken};
use store::{Store, Written};
use testkit::{Limits, Workbench, frame_of, message};
use wire::limits::{FRAME_BYTES_MAX, KEY_PACKAGE_BYTES_MAX, KEY_PACKAGES_LEFT_MAX};
use wire::{Bytes, ClaimKeysResult, ClientMsgId, DeviceId, KeyPackage, Timestamp, UserId};

const DAY: Duration = Duration::from_hours(24);

/// The bytes of a key package.
fn data(name: &str) -> String {
    BASE64.encode(&[&[0, 1, 0, 5, 0, 1, 0, 1], name.as_bytes()].concat())
}

fn package(bench: &Workbench, name: &str, days: u32) -> Value {
    json!({"data": data(name), "expires_at": bench.clock.now().plus(DAY * days)})
}

/// Publishes packages that expire in their order, in 89 days.
async fn publish(bench: &Workbench, user: &str, device: &str, names: &[&str]) -> Value {
    let mut expires_at = bench.clock.now().plus(DAY * 89);
    let packages = names.iter().map(|name| {
        expires_at = expires_at.plus(Duration::from_secs(1));
        json!({"data": data(name), "expires_at": expires_at})
    });
    let packages: Vec<Value> = packages.collect();
    let frame = publication(bench, device, &json!(packages));
    bench.device(user, device, frame).await
}

fn publication(bench: &Workbench, device: &str, packages: &Value) -> Value {
    json!({
        "action": "publish_keys", "credential": BASE64.encode(device.as_bytes()), "key_packages": packages,
        "last_resort": package(bench, &format!("last of {device}"), 400),
    })
}

async fn claim(bench: &Workbench, user: &str, id: &str, users: &[&str]) -> Value {
    bench.device(user, "pixel", json!({"action": "claim_keys", "claim_id": id, "users": users})).await
}

/// The packages of the first user of a claim's reply, as `device: package`.
fn packages(reply: &Value) -> Vec<String> {
    packages_of(reply, 0)
}

fn packages_of(reply: &Value, user: usize) -> Vec<String> {
    let devices = reply["result"]["users"][user]["devices"].as_array().unwrap_or_else(|| panic!("{reply}"));
    let text = |device: &Value| {
        let bytes = BASE64.decode(device["key_package"].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(device["last_resort"] == true, bytes[8..].starts_with(b"last of "));
        format!("{}: {}", device["device_id"].as_str().unwrap(), String::from_utf8_lossy(&bytes[8..]))
    };
    devices.iter().map(text).collect()
}

fn code(reply: &Value) -> &str {
    reply["error"]["code"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

async fn left(bench: &Workbench, user: &str) -> Vec<String> {
    let list = bench.device(user, "tv", json!({"action": "list_keys"})).await;
    let devices = list["result"]["devices"].as_array().unwrap_or_else(|| panic!("{list}"));
    devices.iter().map(|device| format!("{}: {}", device["device_id"].as_str().unwrap(), device["left"])).collect()
}

#[tokio::test]
async fn a_publication_is_one_transaction_and_a_repetition_adds_nothing() {
    let bench = Workbench::default();
    let reply = publish(&bench, "bob", "phone", &["a", "b", "a"]).await;
    assert_eq!(reply["result"], json!({"left": 2, "devices": 1}), "a package that is there twice is one");
    let operations = bench.operations();
    assert_eq!(operations.iter().filter(|operation| *operation == "TransactWriteItems").count(), 1);
    assert_eq!(publish(&bench, "bob", "phone", &["a", "b"]).await["result"], json!({"left": 2, "devices": 1}));
    assert!(!bench.operations().contains(&"TransactWriteItems".to_owned()), "nothing is new");
    assert_eq!(publish(&bench, "bob", "tablet", &["c"]).await["result"], json!({"left": 1, "devices": 2}));
    assert_eq!(left(&bench, "bob").await, ["phone: 2", "tablet: 1"]);
}

#[tokio::test]
async fn a_package_goes_to_one_claim_and_is_not_added_again() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a", "b"]).await;
    let first = claim(&bench, "alice", "k1", &["bob", "alice"]).await;
    assert_eq!((packages(&first), packages_of(&first, 1)), (vec!["phone: a".to_owned()], vec![]));
    assert_eq!(first["result"]["left"], json!([]));
    assert_eq!(publish(&bench, "bob", "phone", &["a", "b"]).await["result"]["left"], 1, "`a` was handed out");
    let other = claim(&bench, "carol", "k1", &["bob"]).await;
    assert_eq!(packages(&other), ["phone: b"]);
    // The last resort stays.
    for id in ["k2", "k3"] {
        assert_eq!(packages(&claim(&bench, "alice", id, &["bob"]).await), ["phone: last of phone"]);
    }
}

#[tokio::test]
async fn a_repeated_claim_gets_the_first_reply_for_a_day() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a", "b", "c"]).await;
    publish(&bench, "alice", "tablet", &["x"]).await;
    let first = claim(&bench, "alice", "k1", &["bob", "alice"]).await;
    bench.clock.advance(Duration::from_secs(24 * 60 * 60 - 2));
    assert_eq!(claim(&bench, "alice", "k1", &["alice", "bob"]).await["result"], first["result"], "whatever the order");
    assert_eq!(code(&claim(&bench, "alice", "k1", &["bob"]).await), "id_reused");
    let frame = json!({"action": "claim_keys", "claim_id": "k1", "users": ["bob"]});
    let of_other_device = bench.device("alice", "tablet", frame).await;
    assert_eq!(packages(&of_other_device), ["phone: b"], "the id is of the device");
    bench.clock.advance(Duration::from_secs(4));
    assert_eq!(packages(&claim(&bench, "alice", "k1", &["bob"]).await), ["phone: c"], "it is another claim by now");
}

#[tokio::test]
async fn the_package_that_expires_first_is_taken_and_none_that_has_expired() {
    let bench = Workbench::default();
    let list = json!([package(&bench, "late", 80), package(&bench, "soon", 1), package(&bench, "later", 90)]);
    let frame = publication(&bench, "phone", &list);
    bench.device("bob", "phone", frame).await;
    assert_eq!(packages(&claim(&bench, "alice", "k1", &["bob"]).await), ["phone: soon"]);
    bench.clock.advance(DAY * 80);
    assert_eq!(left(&bench, "bob").await, ["phone: 1"]);
    assert_eq!(packages(&claim(&bench, "alice", "k2", &["bob"]).await), ["phone: later"]);
    bench.clock.advance(DAY * 321);
    assert_eq!(left(&bench, "bob").await, Vec::<String>::new(), "all has expired");
    assert_eq!(code(&claim(&bench, "alice", "k3", &["bob"]).await), "no_keys");
}

#[tokio::test]
async fn a_user_gets_ten_packages_of_anothers_device_in_a_day() {
    let bench = Workbench::default();
    let names: Vec<String> = (0..24).map(|number| format!("p{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    publish(&bench, "bob", "phone", &names).await;
    for id in 0..10 {
        assert_eq!(packages(&claim(&bench, "alice", &format!("a{id}"), &["bob"]).await).len(), 1);
    }
    assert_eq!(left(&bench, "bob").await, ["phone: 14"]);
    assert_eq!(packages(&claim(&bench, "alice", "a10", &["bob"]).await), ["phone: last of phone"]);
    assert_ne!(packages(&claim(&bench, "carol", "c1", &["bob"]).await), ["phone: last of phone"], "of alice alone");
    for id in 0..12 {
        let own = claim(&bench, "bob", &format!("b{id}"), &["bob"]).await;
        assert_ne!(packages(&own), ["phone: last of phone"], "one's own have no such limit");
    }
    bench.clock.advance(DAY);
    assert_ne!(packages(&claim(&bench, "alice", "a11", &["bob"]).await), ["phone: last of phone"]);
}

#[tokio::test]
async fn another_credential_ends_the_packages_of_the_one_before() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a", "b"]).await;
    let added_at = bench.clock.now();
    bench.clock.advance(DAY);
    let mut frame = publication(&bench, "phone", &json!([package(&bench, "a", 90), package(&bench, "c", 90)]));
    frame["credential"] = json!("bmV3");
    assert_eq!(bench.device("bob", "phone", frame.clone()).await["result"], json!({"left": 1, "devices": 1}));
    let list = bench.device("bob", "phone", json!({"action": "list_keys"})).await;
    let device = &list["result"]["devices"][0];
    assert_eq!((&device["credential"], &device["added_at"]), (&json!("bmV3"), &json!(added_at)));
    assert_eq!(packages(&claim(&bench, "alice", "k1", &["bob"]).await), ["phone: c"]);
    assert_eq!(packages(&claim(&bench, "alice", "k2", &["bob"]).await), ["phone: last of phone"]);
    // The first credential again does not bring its packages back.
    assert_eq!(publish(&bench, "bob", "phone", &[]).await["result"]["left"], 0);
}

#[tokio::test]
async fn removed_keys_have_ended_and_a_device_that_publishes_again_is_new() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a", "b"]).await;
    publish(&bench, "bob", "tablet", &["c"]).await;
    let remove = json!({"action": "remove_keys", "device_id": "phone"});
    assert_eq!(bench.run("bob", remove.clone()).await["result"], json!({"devices": 1}), "from any connection");
    assert_eq!(bench.run("bob", remove).await["result"], json!({"devices": 1}), "also once there are none");
    assert_eq!(packages(&claim(&bench, "alice", "k1", &["bob"]).await), ["tablet: c"]);
    assert_eq!(publish(&bench, "bob", "phone", &["a", "d"]).await["result"], json!({"left": 1, "devices": 2}));
    assert_eq!(left(&bench, "bob").await, ["phone: 1", "tablet: 0"]);
}

#[tokio::test]
async fn a_device_is_seen_on_the_days_on_which_it_publishes_or_lists() {
    let bench = Workbench::default();
    let seen = async |device: &str| {
        let list = bench.device("bob", device, json!({"action": "list_keys"})).await;
        list["result"]["devices"][0]["seen_at"].clone()
    };
    let day = |days: u32| json!(Timestamp::parse("2027-01-15T00:00:00.000Z").unwrap().plus(DAY * days));
    publish(&bench, "bob", "phone", &["a"]).await;
    bench.clock.advance(DAY * 2);
    assert_eq!(seen("tv").await, day(0), "another device's look");
    bench.operations();
    assert_eq!(seen("phone").await, day(2));
    assert_eq!(bench.operations(), ["Query", "Query", "UpdateItem"]);
    assert_eq!(seen("phone").await, day(2));
    assert_eq!(bench.operations(), ["Query", "Query"], "once a day");
    assert_eq!(seen("tv").await, day(2));
}

#[tokio::test]
async fn few_packages_are_told_to_the_device_by_the_claim_that_leaves_them() {
    let bench = Workbench::default();
    let functions = bench.started();
    functions.connected_at("bob", "bobs-phone=", "phone").await;
    functions.connected_at("bob", "bobs-tablet=", "tablet").await;
    publish(&bench, "bob", "phone", &["a", "b", "c", "d", "e", "f", "g"]).await;
    let mut told = vec![];
    for (id, low) in [("k1", None), ("k2", Some(5)), ("k3", Some(4)), ("k3", None)] {
        claim(&bench, "alice", id, &["bob"]).await;
        told.extend(low.map(|left| json!({"type": "keys.low", "left": left})));
        assert_eq!(bench.aws.frames("bobs-phone="), told, "{id}");
    }
    assert_eq!(bench.aws.frames("bobs-tablet="), Vec::<Value>::new());
}

#[tokio::test]
async fn whom_one_may_not_write_to_one_may_not_claim_from() {
    let bench = Workbench::default();
    for user in ["bob", "mallory"] {
        publish(&bench, user, "phone", &["a"]).await;
    }
    bench.ok("bob", json!({"action": "settings", "user_id": "mallory", "set": {"blocked": true}})).await;
    for (user, other) in [("mallory", "bob"), ("bob", "mallory"), ("alice", "@orders")] {
        assert_eq!(code(&claim(&bench, user, "k1", &[other]).await), "forbidden", "{user} of {other}");
    }
    let until = bench.clock.now().plus(DAY);
    bench.started().admin(json!({"op": "suspend", "user_id": "bob", "until": until})).await;
    assert_eq!(code(&claim(&bench, "alice", "k2", &["bob"]).await), "forbidden", "a stranger who is suspended");
    assert_eq!(left(&bench, "bob").await, ["phone: 1"]);
}

#[tokio::test]
async fn without_a_device_of_one_user_nothing_is_taken_and_the_id_is_free() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a"]).await;
    let refused = claim(&bench, "alice", "k1", &["bob", "carol", "alice", "dave"]).await;
    assert_eq!(code(&refused), "no_keys");
    assert_eq!(refused["error"]["users"], json!(["carol", "dave"]));
    assert_eq!(packages(&claim(&bench, "alice", "k1", &["bob"]).await), ["phone: a"]);
}

#[tokio::test]
async fn a_claim_of_many_devices_fills_a_frame_with_whole_users() {
    let bench = Workbench::default();
    let users = ["bob", "carol", "dave", "erin"];
    let long = "x".repeat(KEY_PACKAGE_BYTES_MAX - 9);
    for user in users {
        for device in 0..10 {
            let reply = publish(&bench, user, &format!("d{device}"), &[&format!("{device}{long}")]).await;
            assert_eq!(reply["result"]["devices"], device + 1);
        }
        let more = publish(&bench, user, "one-more", &["a"]).await;
        assert_eq!(code(&more), "device_limit");
    }
    let mut wanted = users.to_vec();
    let mut claims = 0;
    while !wanted.is_empty() {
        let reply = claim(&bench, "alice", &format!("k{claims}"), &wanted).await;
        assert!(reply.to_string().len() <= FRAME_BYTES_MAX);
        let claimed = reply["result"]["users"].as_array().unwrap().len();
        for user in 0..claimed {
            assert_eq!(packages_of(&reply, user).len(), 10);
        }
        assert_eq!(reply["result"]["left"], json!(wanted[claimed..]));
        wanted.drain(..claimed);
        claims += 1;
    }
    assert_eq!(claims, 2);
    for user in users {
        assert!(left(&bench, user).await.iter().all(|device| device.ends_with(": 0")));
    }
}

#[tokio::test]
async fn ten_small_users_are_more_than_a_transaction_writes() {
    let bench = Workbench::limited(Limits { keys: UNLIMITED, ..Limits::default() });
    let users: Vec<String> = (0..10).map(|number| format!("u{number}")).collect();
    for user in &users {
        for device in 0..10 {
            publish(&bench, user, &format!("d{device}"), &[&format!("p{device}")]).await;
        }
    }
    let wanted: Vec<&str> = users.iter().map(String::as_str).collect();
    let reply = claim(&bench, "alice", "k1", &wanted).await;
    // Two writes for each device, one for each user, and two more.
    assert_eq!(reply["result"]["left"], json!(["u4", "u5", "u6", "u7", "u8", "u9"]), "{reply:.300}");
}

const UNLIMITED: KeyRates = KeyRates { claims: Rate::UNLIMITED, packages: Rate::UNLIMITED, devices: Rate::UNLIMITED };

#[tokio::test]
async fn a_device_has_a_hundred_packages() {
    let bench = Workbench::default();
    let names: Vec<String> = (0..=KEY_PACKAGES_LEFT_MAX).map(|number| format!("p{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for chunk in names[..KEY_PACKAGES_LEFT_MAX].chunks(25) {
        publish(&bench, "bob", "phone", chunk).await;
    }
    assert_eq!(left(&bench, "bob").await, ["phone: 100"]);
    assert_eq!(code(&publish(&bench, "bob", "phone", &names[100..]).await), "limit_reached");
    assert_eq!(publish(&bench, "bob", "phone", &names[..25]).await["result"]["left"], 100, "these are not new");
    claim(&bench, "alice", "k1", &["bob"]).await;
    assert_eq!(publish(&bench, "bob", "phone", &names[100..]).await["result"]["left"], 100);
}

#[tokio::test]
async fn claims_packages_and_new_devices_have_rates_and_repetitions_do_not_count() {
    let two = Rate { burst: 2, pause: Duration::from_mins(1) };
    let bench =
        Workbench::limited(Limits { keys: KeyRates { claims: two, packages: two, devices: two }, ..Limits::default() });
    assert_eq!(publish(&bench, "bob", "phone", &["a"]).await["result"]["left"], 1);
    assert_eq!(publish(&bench, "bob", "phone", &["a", "b"]).await["result"]["left"], 2, "one is new");
    let refused = publish(&bench, "bob", "phone", &["c"]).await;
    assert_eq!((code(&refused), &refused["error"]["retry_after_ms"]), ("rate_limited", &json!(60_000)));
    assert_eq!(publish(&bench, "bob", "tablet", &[]).await["result"]["devices"], 2);
    assert_eq!(code(&publish(&bench, "bob", "tv", &[]).await), "rate_limited");
    assert_eq!(publish(&bench, "bob", "tablet", &[]).await["result"]["devices"], 2, "it is no new device");
    for id in ["k1", "k1", "k2", "k1"] {
        assert_eq!(packages(&claim(&bench, "alice", id, &["bob"]).await).len(), 2, "{id}");
    }
    assert_eq!(
        code(&claim(&bench, "alice", "k3", &["carol"]).await),
        "no_keys",
        "not rate_limited: the missing keys come first"
    );
    assert_eq!(code(&claim(&bench, "alice", "k3", &["bob"]).await), "rate_limited");
    bench.clock.advance(Duration::from_mins(1));
    assert_eq!(packages(&claim(&bench, "alice", "k3", &["bob"]).await).len(), 2);
}

#[tokio::test]
async fn refusals_come_in_the_protocols_order() {
    let off = Workbench::limited(Limits { encryption: Encryption::Off, ..Limits::default() });
    let late = json!([package(&off, "a", 92)]);
    let without_device = async |frame: Value| {
        let mut event = message("bob", &frame.to_string());
        event.payload.request_context.authorizer.fields.remove("device_id");
        code(&frame_of(&off.handle(frame["action"].as_str().unwrap(), event).await)).to_owned()
    };
    assert_eq!(without_device(publication(&off, "phone", &late)).await, "bad_request");
    assert_eq!(without_device(publication(&off, "phone", &json!([]))).await, "device_required");
    let claim_frame = json!({"action": "claim_keys", "claim_id": "k1", "users": ["bob"]});
    assert_eq!(without_device(claim_frame).await, "device_required");
    assert_eq!(code(&publish(&off, "bob", "phone", &["a"]).await), "forbidden");
    assert_eq!(code(&claim(&off, "alice", "k1", &["bob"]).await), "forbidden");
    for frame in [json!({"action": "list_keys"}), json!({"action": "remove_keys", "device_id": "phone"})] {
        assert_eq!(without_device(frame).await, "forbidden");
    }
    assert_eq!(off.aws.rows("KeysTable"), Vec::<Value>::new());
}

#[tokio::test]
async fn a_package_lives_91_days_at_most_and_a_last_resort_401() {
    let bench = Workbench::default();
    let mut frame = publication(&bench, "phone", &json!([package(&bench, "a", 91), package(&bench, "b", 92)]));
    frame["last_resort"] = package(&bench, "last of phone", 402);
    let message = async |frame: &Value| {
        let reply = bench.device("bob", "phone", frame.clone()).await;
        reply["error"]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message(&frame).await, "key_packages[1].expires_at: must be at most 91 days ahead");
    frame["key_packages"].as_array_mut().unwrap().pop();
    assert_eq!(message(&frame).await, "last_resort.expires_at: must be at most 401 days ahead");
    frame["last_resort"] = package(&bench, "last of phone", 401);
    assert_eq!(bench.device("bob", "phone", frame).await["result"]["left"], 1);
}

#[tokio::test]
async fn concurrent_claims_and_publications_lose_and_repeat_nothing() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a", "b"]).await;
    let (one, two, published) = tokio::join!(
        claim(&bench, "alice", "k1", &["bob"]),
        claim(&bench, "carol", "k1", &["bob"]),
        publish(&bench, "bob", "phone", &["a", "b", "c"])
    );
    assert_ne!(packages(&one), packages(&two));
    assert_eq!(published["type"], "reply", "{published}");
    assert_eq!(left(&bench, "bob").await, ["phone: 1"]);
}

/// The rows that a request has read, and what it would write.
struct Read {
    store: Store,
    bob: UserId,
    alice: UserId,
    device: DeviceKeys,
    free: Vec<Free>,
    now: Timestamp,
}

impl Read {
    async fn of(bench: &Workbench) -> Self {
        let (store, now) = (bench.started().store, bench.clock.now());
        let [bob, alice] = ["bob", "alice"].map(|user| UserId::parse(user).unwrap());
        let device = keys_of::devices(&store, &bob).await.unwrap().remove(0);
        let free = keys_of::free(&store, &bob, &device, now, 9).await.unwrap();
        Self { store, bob, alice, device, free, now }
    }

    /// Claims, with alice's limits as they are now: the first package, or the last resort.
    async fn claims(&self, id: &str, package: Option<Free>) -> Written {
        let limits = keys_of::limits(&self.store, &self.alice).await.unwrap();
        self.claims_within(id, package, &limits).await
    }

    async fn claims_within(&self, id: &str, package: Option<Free>, limits: &KeyLimits) -> Written {
        let (device, claim_id) = (DeviceId::parse("pixel").unwrap(), ClientMsgId::parse(id).unwrap());
        let taken = [Taken { user: self.bob.clone(), device: self.device.clone(), package, left: 9 }];
        let result = ClaimKeysResult { users: vec![], left: vec![] };
        let claim = Claim {
            user: &self.alice,
            device: &device,
            claim_id: &claim_id,
            users: std::slice::from_ref(&self.bob),
            result: &result,
            taken: &taken,
            limits,
            got: &BTreeMap::new(),
            now: self.now,
        };
        keys_of::claim(&self.store, &claim).await.unwrap()
    }

    /// Publishes, with bob's limits as they are now.
    async fn publishes(&self, was: Option<&str>, new: &[(String, &KeyPackage)]) -> Written {
        let limits = &keys_of::limits(&self.store, &self.bob).await.unwrap();
        let publish = Publish { user: &self.bob, device: &self.device, was, new, limits, now: self.now };
        keys_of::publish(&self.store, &publish).await.unwrap()
    }
}

#[tokio::test]
async fn a_claim_by_rows_that_have_changed_takes_nothing() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a", "b"]).await;
    let read = Read::of(&bench).await;
    let [a, b] = [0, 1].map(|place| Some(read.free[place].clone()));
    let limits = keys_of::limits(&read.store, &read.alice).await.unwrap();
    assert_eq!(read.claims("k1", a.clone()).await, Written::Done);
    assert_eq!(read.claims("k2", a).await, Written::Lost, "the package is taken");
    assert_eq!(read.claims("k1", b.clone()).await, Written::Lost, "the id is used");
    assert_eq!(read.claims_within("k2", b.clone(), &limits).await, Written::Lost, "another request has counted");
    let limits = keys_of::limits(&read.store, &read.alice).await.unwrap();
    assert_eq!(read.claims("k2", None).await, Written::Done);
    assert_eq!(read.claims_within("k3", None, &limits).await, Written::Lost, "another request has counted");

    let mut frame = publication(&bench, "phone", &json!([]));
    frame["last_resort"] = package(&bench, "last of another", 300);
    bench.device("bob", "phone", frame.clone()).await;
    assert_eq!(read.claims("k4", None).await, Written::Lost, "the last resort is another one");
    frame["credential"] = json!("bmV3");
    frame["last_resort"] = package(&bench, "last of phone", 400);
    bench.device("bob", "phone", frame).await;
    assert_eq!(read.claims("k4", None).await, Written::Lost, "the last resort is of another credential");
    assert_eq!(read.claims("k5", b.clone()).await, Written::Lost, "the package has ended with its credential");
    bench.run("bob", json!({"action": "remove_keys", "device_id": "phone"})).await;
    assert_eq!(read.claims("k6", b).await, Written::Lost, "the keys are removed");
}

#[tokio::test]
async fn a_publication_by_rows_that_have_changed_adds_nothing() {
    let bench = Workbench::default();
    publish(&bench, "bob", "phone", &["a"]).await;
    let read = Read::of(&bench).await;
    let expires_at = read.now.plus(DAY);
    let known = KeyPackage { data: Bytes::parse(&data("a")).unwrap(), expires_at };
    let new = [(keys_of::package_digest(&known.data), &known)];
    let was = Some(read.device.generation.as_str());
    assert_eq!(read.publishes(was, &[]).await, Written::Done);
    assert_eq!(read.publishes(was, &new).await, Written::Lost, "the package is known");
    assert_eq!(read.publishes(None, &[]).await, Written::Lost, "the device has keys");
    bench.run("bob", json!({"action": "remove_keys", "device_id": "phone"})).await;
    assert_eq!(read.publishes(was, &[]).await, Written::Lost, "the keys are removed");
    // A look at the list does not bring the row back.
    keys_of::seen(&read.store, &read.bob, &read.device.device_id, read.now).await.unwrap();
    assert!(bench.aws.rows("KeysTable").iter().all(|row| row["key_id"] != "device phone"));
}
