//! What a function remembers of the phones that it posted to.

use std::time::Duration;

use domain::limits::CONNECTION_TTL;
use serde_json::Value;
use testkit::Failure;

use crate::bench::{Bench, message, message_to_bob};

/// `send`, as a process that goes on from one message to the next, and where its frames arrive.
struct Sender {
    bench: Bench,
    deps: send::Deps,
}

impl Sender {
    /// One that wrote to Bob a moment ago.
    async fn new() -> Self {
        let bench = Bench::new().await;
        bench.connected("bob").await;
        let deps = bench.send_deps();
        let sender = Self { bench, deps };
        sender.send("m1").await;
        assert_eq!(sender.posts("bob="), 1);
        sender
    }

    async fn send(&self, client_msg_id: &str) {
        let response = send::handle(&self.deps, message("alice", &message_to_bob(client_msg_id).to_string())).await;
        assert_eq!(crate::bench::frame_of(&response)["type"], "reply");
    }

    fn posts(&self, connection: &str) -> usize {
        self.bench.management.posts(connection)
    }

    async fn connect(&self, connection: &str) {
        let mut event = self.bench.event("connect", "bob");
        event.payload.request_context.connection_id = Some(connection.to_owned());
        connect::handle(&self.bench.connect_deps(), event).await.unwrap();
        self.bench.clock.advance(Duration::from_mins(1));
    }
}

#[tokio::test]
async fn a_frame_to_a_remembered_phone_does_not_wait_for_the_connections() {
    let sender = Sender::new().await;
    sender.bench.recorder.fail_always("Query", Failure::internal());
    sender.send("m2").await;
    assert_eq!(sender.posts("bob="), 2);
}

#[tokio::test]
async fn a_second_phone_is_found_and_nobody_gets_a_frame_twice() {
    let sender = Sender::new().await;
    sender.connect("second=").await;
    sender.send("m2").await;
    assert_eq!((sender.posts("bob="), sender.posts("second=")), (2, 1));
    sender.send("m3").await;
    assert_eq!((sender.posts("bob="), sender.posts("second=")), (3, 2));
}

#[tokio::test]
async fn a_phone_that_said_goodbye_is_posted_to_once_at_most() {
    let sender = Sender::new().await;
    connect::handle(&sender.bench.connect_deps(), sender.bench.event("disconnect", "bob")).await.unwrap();
    // API Gateway may take a frame for a socket that has just been closed.
    sender.send("m2").await;
    sender.send("m3").await;
    assert_eq!(sender.posts("bob="), 2);
}

#[tokio::test]
async fn a_phone_that_is_gone_is_forgotten_and_loses_its_row() {
    let sender = Sender::new().await;
    sender.bench.management.gone("bob=");
    // Its row is read before it is deleted, so the connections read do not tell.
    sender.send("m2").await;
    assert_eq!(sender.bench.database.scan("ConnectionsTable"), Vec::<Value>::new());
    sender.bench.recorder.fail_always("Query", Failure::internal());
    sender.send("m3").await;
    assert_eq!(sender.posts("bob="), 2);
}

#[tokio::test]
async fn no_phone_is_remembered_longer_than_a_socket_lives() {
    let sender = Sender::new().await;
    sender.bench.recorder.fail_always("Query", Failure::internal());
    sender.bench.clock.advance(CONNECTION_TTL);
    sender.send("m2").await;
    assert_eq!(sender.posts("bob="), 1);
}
