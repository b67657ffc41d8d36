//! `device`: its writes, its calls to SNS, and the owner of a token after concurrent requests.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use device::Applications;
use serde_json::{Value, json};
use testkit::{Fault, Workbench, frame_of, message};

const DAY: Duration = Duration::from_hours(24);

fn off() -> Value {
    json!({"action": "device", "token": null})
}

/// Lists the devices table: the token of each device, and the owner of each token.
fn owners(bench: &Workbench) -> Vec<String> {
    let mut owners: Vec<String> = bench
        .aws
        .rows("DevicesTable")
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap();
            match row.get("owner_id") {
                Some(_) => format!("{}/{} owns one", text("owner_id"), text("owner_device")),
                None => format!("{}/{} has {}", text("user_id"), text("device_id"), text("token")),
            }
        })
        .collect();
    owners.sort();
    owners
}

fn one(user: &str, token: &str) -> Vec<String> {
    owner_of(user, token, token)
}

fn owner_of(user: &str, device: &str, token: &str) -> Vec<String> {
    vec![format!("{user}/{device} has {token}"), format!("{user}/{device} owns one")]
}

#[tokio::test]
async fn a_registration_is_an_endpoint_and_then_two_rows_in_one_transaction() {
    let bench = Workbench::default();
    let answer = bench.register("bob", "aa01", json!({"preview": true, "badge": true, "when": "unread"})).await;
    assert_eq!(answer["result"], json!({"device_id": "aa01", "registered": true}));
    assert_eq!(
        bench.operations(),
        ["Query", "GetItem", "CreatePlatformEndpoint", "SetEndpointAttributes", "TransactWriteItems"]
    );
    let rows = bench.aws.rows("DevicesTable");
    let device = rows.iter().find(|row| row["user_id"] == "bob").unwrap();
    let arn = "arn:aws:sns:us-east-1:000000000000:endpoint/APNS/local/aa01";
    assert_eq!(
        device,
        &json!({
            "user_id": "bob", "device_id": "aa01", "platform": "apns", "token": "aa01", "endpoint_arn": arn, "preview": true,
            "badge": true, "when": "unread", "registered_at": 1_800_000_000_000_u64, "expires_at": 1_805_184_000, "v": 1,
        })
    );
    let token = rows.iter().find(|row| row["user_id"] != "bob").unwrap();
    assert!(token["user_id"].as_str().unwrap().starts_with("token "), "no user's id has a space");
    assert_eq!((&token["owner_id"], &token["expires_at"]), (&json!("bob"), &device["expires_at"]));
    assert!(!token.to_string().contains("aa01\"}"), "hashed");
}

#[tokio::test]
async fn the_same_again_within_a_week_costs_two_reads() {
    let bench = Workbench::default();
    bench.register("bob", "aa01", json!({})).await;
    bench.clock.advance(DAY * 6);
    bench.operations();
    // Apps write the digits in either case.
    let frame = json!({"action": "device", "platform": "apns", "token": "AA01"});
    assert_eq!(bench.device("bob", "aa01", frame).await["result"]["registered"], true);
    assert_eq!(bench.operations(), ["Query", "GetItem"]);

    bench.register("bob", "aa01", json!({"preview": true})).await;
    assert!(bench.operations().contains(&"TransactWriteItems".to_owned()), "another preview is another registration");
    bench.clock.advance(DAY * 7);
    bench.operations();
    bench.register("bob", "aa01", json!({"preview": true})).await;
    assert!(bench.operations().contains(&"TransactWriteItems".to_owned()), "it is renewed before it ends");
}

#[tokio::test]
async fn a_request_names_what_is_wrong_with_it() {
    let bench = Workbench::default();
    let mut event = message("bob", &off().to_string());
    event.payload.request_context.authorizer.fields.remove("device_id");
    let answer = frame_of(&bench.handle("device", event).await);
    assert_eq!(answer["error"]["message"], "device_id: must be set at connect");

    let frame = json!({"action": "device", "platform": "apns", "token": "none-of-this-platform"});
    let answer = bench.device("bob", "d1", frame).await;
    assert_eq!(answer["error"]["message"], "token: must be a device token of this platform");
    assert!(bench.aws.rows("DevicesTable").is_empty());
}

#[tokio::test]
async fn a_new_token_takes_the_place_of_the_one_before() {
    let bench = Workbench::default();
    for token in ["aa01", "aa02"] {
        bench.device("bob", "d1", json!({"action": "device", "platform": "apns", "token": token})).await;
    }
    assert_eq!(owners(&bench), owner_of("bob", "d1", "aa02"));
    assert_eq!(bench.aws.with_sns(|sns| sns.tokens().join(" ")), "aa02");
}

#[tokio::test]
async fn a_phone_that_changes_hands_is_the_last_ones_only() {
    let bench = Workbench::default();
    bench.register("alice", "aa01", json!({"preview": true})).await;
    bench.operations();
    bench.register("bob", "aa01", json!({})).await;
    assert_eq!(
        bench.operations(),
        ["Query", "GetItem", "CreatePlatformEndpoint", "SetEndpointAttributes", "GetItem", "TransactWriteItems"],
    );
    assert_eq!(owners(&bench), one("bob", "aa01"));
    assert_eq!(bench.aws.with_sns(|sns| sns.tokens().join(" ")), "aa01");
    // Nothing of hers is left to take out, and his stays.
    assert_eq!(bench.device("alice", "aa01", off()).await["result"]["registered"], false);
    assert_eq!(owners(&bench), one("bob", "aa01"));
}

#[tokio::test]
async fn the_last_owner_keeps_what_another_token_has_replaced() {
    let bench = Workbench::default();
    bench.device("alice", "d1", json!({"action": "device", "platform": "apns", "token": "aa01"})).await;
    // The TTL took her device's row and not yet its token's; then she registered another one.
    let stale: Vec<Value> =
        bench.aws.raw_rows("DevicesTable").into_iter().filter(|row| row.get("owner_id").is_some()).collect();
    bench.device("alice", "d1", json!({"action": "device", "platform": "apns", "token": "aa02"})).await;
    bench.aws.put_rows("DevicesTable", &stale);
    bench.register("bob", "aa01", json!({})).await;
    assert_eq!(owners(&bench), [owner_of("alice", "d1", "aa02"), one("bob", "aa01")].concat());
}

#[tokio::test(start_paused = true)]
async fn of_two_who_take_over_what_the_ttl_has_half_removed_one_has_it() {
    let bench = Workbench::default();
    bench.register("carol", "aa01", json!({})).await;
    let tokens =
        || bench.aws.raw_rows("DevicesTable").into_iter().filter(|row| row.get("owner_id").is_some()).collect();
    let stale: Vec<Value> = tokens();
    bench.device("carol", "aa01", off()).await;
    bench.aws.put_rows("DevicesTable", &stale);
    let hold = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.register("bob", "aa01", json!({}));
    let quick = async {
        hold.reached().await;
        bench.register("alice", "aa01", json!({})).await;
        hold.release();
    };
    tokio::join!(slow, quick);
    assert_eq!(owners(&bench), one("bob", "aa01"));
}

#[tokio::test]
async fn a_reinstalled_app_with_the_same_token_is_one_device() {
    let bench = Workbench::default();
    for device in ["d1", "d2"] {
        bench.device("bob", device, json!({"action": "device", "platform": "fcm", "token": "Ff:01"})).await;
    }
    assert_eq!(owners(&bench), owner_of("bob", "d2", "Ff:01"));
}

#[tokio::test]
async fn a_device_is_taken_out_with_its_token_and_once() {
    let bench = Workbench::default();
    bench.register("bob", "aa01", json!({})).await;
    bench.operations();
    assert_eq!(bench.device("bob", "aa01", off()).await["result"], json!({"device_id": "aa01", "registered": false}));
    assert_eq!(bench.operations(), ["GetItem", "TransactWriteItems", "DeleteEndpoint"]);
    assert!(bench.aws.rows("DevicesTable").is_empty());
    assert_eq!(bench.device("bob", "aa01", off()).await["result"]["registered"], false);
    assert_eq!(bench.operations(), ["GetItem"]);
}

#[tokio::test]
async fn the_seventeenth_device_replaces_the_one_that_registered_longest_ago() {
    let bench = Workbench::default();
    for n in 1..=17 {
        bench.clock.advance(Duration::from_secs(1));
        bench.register("bob", &format!("aa{n:02}"), json!({})).await;
    }
    let owners = owners(&bench);
    assert_eq!(owners.len(), 32, "{owners:?}");
    assert!(!owners.iter().any(|owner| owner.contains("aa01")), "{owners:?}");
    assert!(!bench.aws.with_sns(|sns| sns.tokens().contains(&"aa01")));
}

#[tokio::test]
async fn ever_new_tokens_are_asked_of_sns_a_few_at_a_time() {
    let bench = Workbench::default();
    let functions = bench.started();
    let register = async |token: u32| {
        let frame = json!({"action": "device", "platform": "apns", "token": format!("{token:04x}")});
        functions.device("bob", "pixel", frame).await
    };
    for token in 0..8 {
        assert_eq!(register(token).await["type"], "reply");
    }
    bench.operations();
    let refused = register(8).await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["retry_after_ms"]),
        (&json!("rate_limited"), &json!(10_000))
    );
    assert_eq!(bench.operations(), ["Query", "GetItem"], "SNS is not asked");
    // A repeated registration does not call SNS, so the rate does not refuse it.
    assert_eq!(register(7).await["type"], "reply");
    bench.clock.advance(Duration::from_secs(10));
    assert_eq!(register(8).await["type"], "reply");
}

#[tokio::test]
async fn an_endpoint_that_sns_knows_with_other_attributes_is_taken() {
    let bench = Workbench::default();
    let application = "arn:aws:sns:us-east-1:000000000000:app/APNS/local";
    bench.aws.with_sns(|sns| sns.register_with_attributes(application, "aa01"));
    assert_eq!(bench.register("bob", "aa01", json!({})).await["result"]["registered"], true);
    assert_eq!(owners(&bench), one("bob", "aa01"));
}

#[tokio::test]
async fn a_token_that_was_dead_is_rung_again() {
    let bench = Workbench::default();
    bench.register("bob", "aa01", json!({})).await;
    bench.aws.with_sns(|sns| sns.kill("aa01"));
    bench.register("bob", "aa01", json!({"badge": true})).await;
    assert_eq!(bench.aws.with_sns(|sns| sns.tokens().join(" ")), "aa01");
}

#[tokio::test]
async fn what_fails_is_unavailable_and_leaves_no_row() {
    for operation in ["CreatePlatformEndpoint", "SetEndpointAttributes", "Query", "GetItem", "TransactWriteItems"] {
        let bench = Workbench::default();
        bench.aws.fail_always(operation, Fault::Status(500));
        let answer = bench.register("bob", "aa01", json!({})).await;
        assert_eq!(answer["error"]["code"], "unavailable", "{operation}");
        assert!(bench.aws.rows("DevicesTable").is_empty(), "{operation}");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_forgotten_fails_nobody() {
    let bench = Workbench::default();
    bench.register("bob", "aa01", json!({})).await;
    bench.aws.fail_always("DeleteEndpoint", Fault::Throttled);
    assert_eq!(bench.device("bob", "aa01", off()).await["result"]["registered"], false);
    assert!(bench.aws.rows("DevicesTable").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_read_again_and_five_are_a_conflict() {
    let bench = Workbench::default();
    bench.aws.fail_next("TransactWriteItems", Fault::Conflict);
    assert_eq!(bench.register("bob", "aa01", json!({})).await["result"]["registered"], true);
    assert_eq!(bench.operations().iter().filter(|name| *name == "TransactWriteItems").count(), 2);

    bench.aws.fail_always("TransactWriteItems", Fault::Conflict);
    assert_eq!(bench.register("bob", "aa01", json!({"badge": true})).await["error"]["code"], "conflict");
    assert_eq!(bench.operations().iter().filter(|name| *name == "TransactWriteItems").count(), 5);
    assert_eq!(bench.device("bob", "aa01", off()).await["error"]["code"], "conflict");
}

/// In the end one user has the token and the other has no row of it, whatever each read before the other's write.
#[tokio::test(start_paused = true)]
async fn of_two_who_register_a_token_at_once_one_has_it() {
    for held_at in ["CreatePlatformEndpoint", "TransactWriteItems", "DeleteEndpoint"] {
        let bench = Workbench::default();
        // He had another one, so that there is something to forget.
        bench.device("bob", "d1", json!({"action": "device", "platform": "apns", "token": "bb01"})).await;
        let hold = bench.aws.hold_next(held_at);
        let slow = bench.device("bob", "d1", json!({"action": "device", "platform": "apns", "token": "aa01"}));
        let quick = async {
            hold.reached().await;
            let answer = bench.register("alice", "aa01", json!({})).await;
            hold.release();
            answer
        };
        let (slow, quick) = tokio::join!(slow, quick);
        assert_eq!((&slow["result"]["registered"], &quick["result"]["registered"]), (&json!(true), &json!(true)));
        let last = if held_at == "DeleteEndpoint" { one("alice", "aa01") } else { owner_of("bob", "d1", "aa01") };
        assert_eq!(owners(&bench), last, "{held_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_tokens_of_a_device_at_once_one_stays_and_the_others_row_goes() {
    let bench = Workbench::default();
    let frame = |token: &str| json!({"action": "device", "platform": "apns", "token": token});
    let hold = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.device("bob", "d1", frame("aa01"));
    let quick = async {
        hold.reached().await;
        bench.device("bob", "d1", frame("aa02")).await;
        hold.release();
    };
    tokio::join!(slow, quick);
    assert_eq!(owners(&bench), owner_of("bob", "d1", "aa01"));
    assert_eq!(bench.aws.with_sns(|sns| sns.tokens().join(" ")), "aa01");
}

#[tokio::test]
async fn a_platform_without_an_application_is_refused() {
    let bench = Workbench::default();
    let mut started = bench.started();
    started.device.applications = Applications::default();
    let frame = json!({"action": "device", "platform": "fcm", "token": "Ff:01"});
    let answer = frame_of(&started.handle("device", message("bob", &frame.to_string())).await);
    assert_eq!(answer["error"]["message"], "platform: fcm is not configured on this server");
    assert!(bench.operations().is_empty());
}
