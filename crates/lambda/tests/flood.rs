//! A request's cost counts, and no user exceeds the limit over all processes.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, InProcess, Limits, Workbench, frame_of, message, up_to};

/// API Gateway's ids of requests: the first is one of the sixteenth that are sampled, the second only if it weighs more than three.
const SAMPLED: &str = "r25";
const SAMPLED_IF_HEAVY: &str = "r24";

fn limited() -> Workbench {
    Workbench::limited(Limits::of_requests())
}

/// The answer to a frame that API Gateway has given this id.
async fn ask(functions: &InProcess, user: &str, request_id: &str, frame: Value) -> Value {
    let mut event = message(user, &frame.to_string());
    event.payload.request_context.request_id = Some(request_id.to_owned());
    frame_of(&functions.handle(frame["action"].as_str().unwrap(), event).await)
}

fn ping() -> Value {
    json!({"action": "ping"})
}

/// Returns the reply to a ping with this duration, unless it is refused.
async fn slow_ping(bench: &Workbench, functions: &InProcess, request_id: &str, taking: Duration) -> Value {
    let hold = bench.aws.hold_next("Query");
    let mut asked = pin!(ask(functions, "mallory", request_id, ping()));
    let reached = async {
        hold.reached().await;
        bench.clock.advance(taking);
        hold.release();
    };
    tokio::select! {
        answer = &mut asked => answer,
        () = reached => asked.await,
    }
}

fn samples(bench: &Workbench, user: &str) -> Option<Value> {
    let rows = bench.aws.rows("ConnectionsTable");
    rows.into_iter().find(|row| row["connection_id"] == " samples" && row["user_id"] == user)
}

#[tokio::test]
async fn a_request_that_holds_its_function_counts_as_several() {
    let bench = limited();
    let functions = bench.started();
    let taking = Duration::from_millis(400);
    let mut served = 0;
    while slow_ping(&bench, &functions, "r0", taking).await["type"] == "reply" {
        served += 1;
    }
    assert!((14..=18).contains(&served), "each counts as 8, and 4 come free meanwhile: {served}");
}

#[tokio::test]
async fn a_request_that_leads_to_many_posts_counts_as_several() {
    let bench = limited();
    let functions = bench.started();
    let members: Vec<String> = (0..31).map(|number| format!("u{number}")).collect();
    let create = json!({"action": "create", "client_msg_id": "c", "title": "Trip", "members": members});
    let group = functions.ok("alice", create).await["conversation_id"].clone();
    for member in &members {
        for device in ["one", "two"] {
            functions.connect_at(member, &format!("{member}-{device}="), device).await;
        }
    }
    bench.clock.advance(Duration::from_mins(1));
    let say = |number: usize| json!({"action": "send", "conversation_id": group, "client_msg_id": format!("m{number}"), "kind": "text", "body": "hi"});
    let mut stored = 0;
    while ask(&functions, "alice", "r0", say(stored)).await["type"] == "reply" {
        stored += 1;
    }
    assert_eq!(stored, 16, "of 60 each takes 62 / 16");
}

#[tokio::test]
async fn what_is_read_is_counted_as_dynamodb_bills_it() {
    let bench = Workbench::default();
    let functions = bench.started();
    let mut id = Value::Null;
    for number in 0..10 {
        let body = "x".repeat(8_000);
        let send =
            json!({"action": "send", "to": "bob", "client_msg_id": number.to_string(), "kind": "text", "body": body});
        id = functions.ok("alice", send).await["conversation_id"].clone();
    }
    let before = functions.store.half_read_units();
    functions.ok("alice", json!({"action": "history", "conversation_id": id, "limit": 10})).await;
    let halves = functions.store.half_read_units() - before;
    assert!((20..=60).contains(&halves), "80 KB, read consistently, are 20 units: {halves} halves");
}

#[tokio::test]
async fn one_request_in_sixteen_is_counted_for_all_processes() {
    let bench = limited();
    for number in 0..160 {
        ask(&bench.started(), "alice", &format!("r{number}"), ping()).await;
        bench.clock.advance(Duration::from_secs(2));
    }
    let writes = bench.operations().iter().filter(|operation| *operation == "UpdateItem").count();
    assert!((4..=16).contains(&writes), "{writes} of 160");
    let row = samples(&bench, "alice").unwrap();
    assert_eq!((&row["api"], row.get("floods")), (&json!(" samples"), None));
    // The connection belongs to no user.
    bench.connected("alice").await;
    let looked = bench.started().admin(json!({"op": "connections", "user_id": "alice"})).await;
    assert_eq!(looked["result"]["connections"].as_array().unwrap().len(), 1);
}

/// Each in a process of its own that knows of no other, until the user is kept out.
async fn flood(bench: &Workbench) -> usize {
    for number in 0..1_000 {
        if samples(bench, "mallory").is_some_and(|row| row["flooded_at"] == json!(bench.clock.now().millis())) {
            return number;
        }
        ask(&bench.started(), "mallory", &format!("r{number}"), ping()).await;
    }
    panic!("nobody notices");
}

/// Returns the outcome of a socket that mallory opens now.
async fn connect(bench: &Workbench) -> i64 {
    bench.handle("connect", bench.event("connect", "mallory")).await.unwrap().status_code
}

#[tokio::test]
async fn a_flood_over_many_processes_is_closed_and_kept_out_for_longer_each_time() {
    let bench = limited();
    for device in ["one", "two", "three"] {
        bench.started().connected_at("mallory", &format!("{device}="), device).await;
    }
    bench.connected("alice").await;
    assert!((100..400).contains(&flood(&bench).await), "twelve samples, of 16 requests each");
    assert_eq!(bench.aws.closed(), ["three=", "two=", "one="]);
    for seconds in [30, 60, 120] {
        assert_eq!(connect(&bench).await, 403);
        bench.clock.advance(Duration::from_millis(seconds * 1_000 - 1));
        assert_eq!(connect(&bench).await, 403);
        bench.clock.advance(Duration::from_millis(1));
        assert_eq!(connect(&bench).await, 200);
        flood(&bench).await;
    }
    // Others are served, and an hour later it is forgotten.
    assert_eq!(ask(&bench.started(), "alice", SAMPLED, ping()).await["type"], "reply");
    bench.clock.advance(Duration::from_hours(1));
    flood(&bench).await;
    bench.clock.advance(Duration::from_secs(30));
    assert_eq!(connect(&bench).await, 200);
}

#[tokio::test]
async fn a_flood_does_not_shorten_what_an_operator_said() {
    let bench = limited();
    let until = bench.clock.now().plus(Duration::from_hours(1));
    let suspend = json!({"op": "suspend", "user_id": "mallory", "until": until.to_string()});
    bench.started().admin(suspend).await;
    flood(&bench).await;
    bench.clock.advance(Duration::from_mins(59));
    assert_eq!(connect(&bench).await, 403);
}

#[tokio::test]
async fn two_processes_that_find_the_same_flood_count_it_once() {
    let bench = limited();
    flood(&bench).await;
    let row = samples(&bench, "mallory").unwrap();
    assert_eq!(row["floods"], 1);
    // Full again, and as both saw it.
    let mut rows = bench.aws.raw_rows("ConnectionsTable");
    rows.retain(|row| row["connection_id"]["S"] == " samples");
    rows[0]["at_1"] = json!({"N": "4102444800000"});
    bench.aws.put_rows("ConnectionsTable", &rows);
    bench.clock.advance(Duration::from_secs(31));
    let (one, other) = (bench.started(), bench.started());
    tokio::join!(ask(&one, "mallory", SAMPLED, ping()), ask(&other, "mallory", SAMPLED, ping()));
    assert_eq!(samples(&bench, "mallory").unwrap()["floods"], 2);
}

#[tokio::test]
async fn the_wave_that_is_too_much_is_the_last_one() {
    let bench = limited();
    bench.connected("mallory").await;
    // Each process has one event, and learns of its sample only after the request is done.
    for number in 0..20 {
        let (functions, hold) = (bench.started(), bench.aws.hold_next("UpdateItem"));
        let queries = || bench.operations().iter().filter(|operation| *operation == "Query").count();
        let before = queries();
        let late = async {
            hold.reached().await;
            while queries() == before {
                tokio::task::yield_now().await;
            }
            hold.release();
        };
        tokio::join!(ask(&functions, "mallory", SAMPLED, ping()), late);
        if number == 0 {
            assert_eq!(samples(&bench, "mallory").unwrap().get("floods"), None);
        }
        if !bench.aws.closed().is_empty() {
            break;
        }
    }
    assert_eq!(bench.aws.closed().len(), 1);
    assert_eq!(connect(&bench).await, 403);
}

#[tokio::test]
async fn no_answer_waits_long_for_a_sample_and_the_next_event_goes_on_with_it() {
    let bench = limited();
    let functions = bench.started();
    let hold = bench.aws.hold_next("UpdateItem");
    assert_eq!(ask(&functions, "alice", SAMPLED, ping()).await["type"], "reply");
    hold.reached().await;
    assert_eq!(samples(&bench, "alice"), None);
    hold.release();
    while samples(&bench, "alice").is_none() {
        ask(&functions, "bob", "r0", ping()).await;
    }
}

#[tokio::test]
async fn a_sample_that_is_lost_takes_nothing_with_it() {
    let bench = limited();
    let id = bench.conversation(1).await;
    for fault in [Fault::Lost, Fault::ReplyLost, Fault::Status(500), Fault::Throttled] {
        bench.aws.fail_next("UpdateItem", fault);
        assert_eq!(ask(&bench.started(), "bob", SAMPLED, ping()).await["type"], "reply", "{fault}");
    }
    let functions = bench.started();
    bench.aws.pass_next("UpdateItem");
    bench.aws.fail_next("UpdateItem", Fault::Status(500));
    ask(&functions, "bob", "r0", up_to("ack", &id, 1)).await;
    assert_eq!(bench.row("bob")["delivered_seq"], 1);
}

#[tokio::test]
async fn what_weighs_more_is_sampled_more_often() {
    let bench = limited();
    let functions = bench.started();
    for _ in 0..3 {
        ask(&functions, "mallory", SAMPLED_IF_HEAVY, ping()).await;
    }
    assert_eq!(samples(&bench, "mallory"), None);
    slow_ping(&bench, &functions, SAMPLED_IF_HEAVY, Duration::from_millis(200)).await;
    while samples(&bench, "mallory").is_none() {
        ask(&functions, "alice", "r0", ping()).await;
    }
}

#[tokio::test]
async fn who_sets_no_rate_pays_for_no_samples() {
    let bench = Workbench::default();
    ask(&bench.started(), "alice", SAMPLED, ping()).await;
    assert_eq!(bench.operations(), ["Query"]);
}
