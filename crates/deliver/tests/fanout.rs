//! The connections that a function remembers from earlier posts.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use deliver::{Delivery, Fanout, USERS_REMEMBERED_MAX};
use domain::{ConnectionId, Frames};
use serde_json::{Value, json};
use store::connections::CONNECTION_TTL;
use store::connections::Connection;
use testkit::{Fault, InProcess, PATIENCE, Workbench, message, message_to_bob};
use wire::{ServerEvent, UserId};

/// The functions as processes that go on from one message to the next, and where their frames arrive.
struct Warm {
    bench: Workbench,
    functions: InProcess,
}

impl Warm {
    /// Alice wrote to Bob a moment ago.
    async fn new() -> Self {
        let bench = Workbench::default();
        bench.connected("bob").await;
        let functions = bench.started();
        let warm = Self { bench, functions };
        warm.send("m1").await;
        assert_eq!(warm.posts("bob="), 1);
        warm
    }

    async fn send(&self, client_msg_id: &str) {
        self.functions.ok("alice", message_to_bob(client_msg_id)).await;
    }

    fn posts(&self, connection: &str) -> usize {
        self.bench.aws.posts(connection)
    }
}

#[tokio::test]
async fn a_frame_to_a_remembered_phone_does_not_wait_for_the_connections() {
    let warm = Warm::new().await;
    warm.bench.aws.fail_always("Query", Fault::Status(500));
    warm.send("m2").await;
    assert_eq!(warm.posts("bob="), 2);
}

#[tokio::test]
async fn a_second_phone_is_found_and_nobody_gets_a_frame_twice() {
    let warm = Warm::new().await;
    warm.functions.connected_at("bob", "second=", "second").await;
    warm.send("m2").await;
    assert_eq!((warm.posts("bob="), warm.posts("second=")), (2, 1));
    warm.send("m3").await;
    assert_eq!((warm.posts("bob="), warm.posts("second=")), (3, 2));
}

#[tokio::test]
async fn a_phone_that_said_goodbye_is_posted_to_once_at_most() {
    let warm = Warm::new().await;
    warm.bench.handle("disconnect", warm.bench.event("disconnect", "bob")).await.unwrap();
    // API Gateway may take a frame for a socket that has just been closed.
    warm.send("m2").await;
    warm.send("m3").await;
    assert_eq!(warm.posts("bob="), 2);
}

#[tokio::test]
async fn a_phone_that_is_gone_is_forgotten_and_loses_its_row() {
    let warm = Warm::new().await;
    warm.bench.aws.fail_always("bob=", Fault::Status(410));
    // Its row is read before it is deleted, so the connections read do not tell.
    warm.send("m2").await;
    assert_eq!(warm.bench.aws.rows("ConnectionsTable"), Vec::<Value>::new());
    warm.bench.aws.fail_always("Query", Fault::Status(500));
    warm.send("m3").await;
    assert_eq!(warm.posts("bob="), 2);
}

#[tokio::test]
async fn a_connection_to_another_api_is_neither_posted_to_nor_forgotten() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let mut row = bench.aws.raw_rows("ConnectionsTable").remove(0);
    row["connection_id"] = json!({"S": "elsewhere="});
    row["api"] = json!({"S": "another"});
    bench.aws.put_rows("ConnectionsTable", &[row.clone()]);
    bench.aws.fail_always("elsewhere=", Fault::Status(410));
    bench.started().ok("alice", message_to_bob("m1")).await;
    assert_eq!((bench.aws.posts("bob="), bench.aws.posts("elsewhere=")), (1, 0));
    assert!(bench.aws.raw_rows("ConnectionsTable").contains(&row));
    // Nor does it count.
    let looked = bench.started().admin(json!({"op": "connections", "user_id": "bob"})).await;
    assert_eq!(looked["result"]["connections"].as_array().unwrap().len(), 1);
    // A row that does not say whose it is comes from the version before, when there was one API.
    row.as_object_mut().unwrap().remove("api");
    bench.aws.put_rows("ConnectionsTable", &[row]);
    bench.started().ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.aws.posts("elsewhere="), 1);
}

#[tokio::test]
async fn no_phone_is_remembered_longer_than_a_socket_lives() {
    let warm = Warm::new().await;
    warm.bench.aws.fail_always("Query", Fault::Status(500));
    // He connected a minute ago.
    warm.bench.clock.advance(CONNECTION_TTL.saturating_sub(Duration::from_mins(1)));
    warm.send("m2").await;
    assert_eq!(warm.posts("bob="), 1);
}

/// Returns the outcome of a receipt to bob, who is connected.
async fn receipt_to_bob(bench: &Workbench) -> Frames {
    let InProcess { store, connections, .. } = bench.started();
    let fanout = Fanout::new(store, connections);
    let bob = UserId::parse("bob").unwrap();
    let receipt = json!({"type": "receipt.read", "conversation_id": "dm_x", "user_id": "alice", "seq": 1, "at": "2027-01-15T08:00:00.000Z"});
    let event: ServerEvent = serde_json::from_value(receipt).unwrap();
    fanout.deliver(bench.clock.now(), &[Delivery { user: &bob, event, except: None }]).await[0].frames
}

#[tokio::test]
async fn whatever_is_not_posted_counts_as_failed() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    assert_eq!(receipt_to_bob(&bench).await, Frames { posted: 1, ..Frames::default() });
    bench.aws.fail_next("Query", Fault::Status(500));
    assert_eq!(receipt_to_bob(&bench).await, Frames { failed: 1, ..Frames::default() }, "the connections are unknown");
    tokio::time::pause();
    bench.aws.fail_next("bob=", Fault::Delayed(PATIENCE));
    assert_eq!(receipt_to_bob(&bench).await, Frames { failed: 1, ..Frames::default() }, "it did not end in time");
    bench.aws.fail_next("Query", Fault::Delayed(PATIENCE));
    assert_eq!(receipt_to_bob(&bench).await, Frames { failed: 1, ..Frames::default() }, "nor did the look-up");
}

#[tokio::test]
async fn what_others_do_is_told_to_the_four_newest_connections_and_messages_to_all() {
    let bench = Workbench::default();
    let functions = bench.started();
    for number in 0..6 {
        functions.connected_at("bob", &format!("bob-{number}="), &format!("device-{number}")).await;
    }
    let posts = || (0..6).map(|number| bench.aws.posts(&format!("bob-{number}="))).collect::<Vec<_>>();
    let id = functions.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    assert_eq!(posts(), [1, 1, 1, 1, 1, 1]);
    let send = json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "hi"});
    bench.ok("bob", send).await;
    assert_eq!(posts(), [2, 2, 2, 2, 2, 2]);
    // Also by a process that has posted to all of them.
    for functions in [&functions, &bench.started()] {
        let typing = json!({"action": "typing", "conversation_id": id}).to_string();
        functions.handle("typing", message("alice", &typing)).await.unwrap();
    }
    assert_eq!(posts(), [2, 2, 4, 4, 4, 4]);
    functions.ok("alice", testkit::up_to("read", &id, 2)).await;
    assert_eq!(posts(), [2, 2, 5, 5, 5, 5]);
    // The user's own mark clears the badges of all.
    bench.ok("bob", testkit::up_to("read", &id, 2)).await;
    assert_eq!(posts(), [3, 3, 6, 6, 6, 6]);
}

#[tokio::test]
async fn too_many_are_remembered_by_nobody_and_a_known_one_is_not_too_many() {
    let bench = Workbench::default();
    let InProcess { store, connections, .. } = bench.started();
    let fanout = Fanout::new(store, connections);
    let (bob, now) = (UserId::parse("bob").unwrap(), bench.clock.now());
    let at = |id: &str| Connection::new(ConnectionId::new(id), now, now.plus(Duration::from_hours(1)));
    fanout.remember(&bob, at("bob="));
    for number in 1..USERS_REMEMBERED_MAX {
        fanout.remember(&UserId::parse(&format!("user-{number}")).unwrap(), at("elsewhere="));
    }
    fanout.remember(&bob, at("second="));
    bench.aws.fail_always("Query", Fault::Status(500));
    let receipt = json!({"type": "receipt.read", "conversation_id": "dm_x", "user_id": "alice", "seq": 1, "at": "2027-01-15T08:00:00.000Z"});
    let event: ServerEvent = serde_json::from_value(receipt).unwrap();
    let to_bob = [Delivery { user: &bob, event, except: None }];
    let posted = async || fanout.deliver(now, &to_bob).await[0].frames.posted;
    assert_eq!(posted().await, 2);
    fanout.remember(&UserId::parse("one-more").unwrap(), at("elsewhere="));
    assert_eq!(posted().await, 0);
}

#[tokio::test]
async fn warming_up_goes_to_api_gateway_before_the_first_event() {
    let bench = Workbench::default();
    let InProcess { store, connections, .. } = bench.started();
    Fanout::new(store, connections).warm_up().await;
    assert_eq!(bench.aws.posts("warm-up"), 1);
}
