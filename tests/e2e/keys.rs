//! The key directory, between devices of several users.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use serde_json::{Value, json};
use testkit::TestServer;
use wire::Timestamp;

/// The request of a device for these packages.
#[expect(clippy::disallowed_methods, reason = "the server has its own clock")]
pub(crate) fn publication(device: &str, names: &[&str]) -> Value {
    let expires_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_hours(90 * 24);
    let expires_at = Timestamp::from_millis(expires_at.as_millis().try_into().unwrap());
    let package = |name: &str| {
        let data = BASE64.encode(&[&[0, 1, 0, 5, 0, 1, 0, 1], name.as_bytes()].concat());
        json!({"data": data, "expires_at": expires_at})
    };
    let packages: Vec<Value> = names.iter().map(|name| package(name)).collect();
    json!({
        "action": "publish_keys", "credential": BASE64.encode(device.as_bytes()), "key_packages": packages,
        "last_resort": package(&format!("last of {device}")),
    })
}

/// The packages of a claim's only user.
fn packages(claimed: &Value) -> Vec<String> {
    let devices = claimed["users"][0]["devices"].as_array().unwrap();
    let name = |device: &Value| {
        let bytes = BASE64.decode(device["key_package"].as_str().unwrap().as_bytes()).unwrap();
        String::from_utf8(bytes[8..].to_vec()).unwrap()
    };
    devices.iter().map(name).collect()
}

#[tokio::test]
async fn each_package_goes_to_one_claim_and_the_device_hears_when_few_are_left() {
    let server = TestServer::open().await;
    let mut alice = server.device("alice", "laptop").await;
    let (mut phone, mut tablet) = (server.device("bob", "phone").await, server.device("bob", "tablet").await);
    assert_eq!(phone.ok(publication("phone", &["p1", "p2"])).await, json!({"left": 2, "devices": 1}));
    assert_eq!(tablet.ok(publication("tablet", &["t1"])).await, json!({"left": 1, "devices": 2}));
    let claim = |id: &str| json!({"action": "claim_keys", "claim_id": id, "users": ["bob"]});
    let mut first = alice.ok(claim("k1")).await;
    assert_eq!(alice.ok(claim("k1")).await, first, "repeated");
    assert_eq!(phone.event("keys.low").await["left"], 1);
    assert_eq!(tablet.event("keys.low").await["left"], 0);
    let second = alice.ok(claim("k2")).await;
    let mut all = [packages(&first), packages(&second)].concat();
    all.sort_unstable();
    assert_eq!(all, ["last of tablet", "p1", "p2", "t1"]);
    first["users"][0]["devices"].take();

    let listed = tablet.ok(json!({"action": "list_keys"})).await;
    let left: Vec<&Value> = listed["devices"].as_array().unwrap().iter().map(|device| &device["left"]).collect();
    assert_eq!(left, [0, 0]);
    assert_eq!(tablet.ok(json!({"action": "remove_keys", "device_id": "phone"})).await, json!({"devices": 1}));
    assert_eq!(packages(&alice.ok(claim("k3")).await), ["last of tablet"]);
}

#[tokio::test]
async fn who_has_no_device_neither_publishes_nor_claims() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    assert_eq!(alice.refused(publication("phone", &[])).await, "device_required");
    let claim = json!({"action": "claim_keys", "claim_id": "k1", "users": ["bob"]});
    assert_eq!(alice.refused(claim.clone()).await, "device_required");
    let mut laptop = server.device("alice", "laptop").await;
    let refused = laptop.ask(claim).await;
    assert_eq!((&refused["error"]["code"], &refused["error"]["users"]), (&json!("no_keys"), &json!(["bob"])));
}

#[tokio::test]
async fn bytes_have_one_form_and_a_package_its_beginning() {
    let server = TestServer::open().await;
    let mut phone = server.device("bob", "phone").await;
    let long = "x".repeat(1_017);
    for (data, code) in [
        ("AAEABQABAAE=", None),
        ("AAEABQABAAE", Some("bad_request")),
        ("AAEABQABAAF=", Some("bad_request")),
        ("AAEABQABAAE= ", Some("bad_request")),
        ("AAEABQABAAI=", Some("bad_request")),
        ("AAEABQABAA==", Some("bad_request")),
        ("", Some("bad_request")),
        (&*BASE64.encode(&[&[0, 1, 0, 5, 0, 1, 0, 1], long.as_bytes()].concat()), Some("too_large")),
        (&*BASE64.encode(&[&[0, 1, 0, 5, 0, 1, 0, 1], &long.as_bytes()[1..]].concat()), None),
    ] {
        let mut frame = publication("phone", &["p1"]);
        frame["key_packages"][0]["data"] = json!(data);
        let reply = phone.ask(frame).await;
        assert_eq!(reply["error"]["code"].as_str(), code, "{data:.20}: {reply}");
    }
}
