//! `$connect`, `$disconnect` and `$default`.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use lambda::Response;
use serde_json::{Value, json};
use store::connections::CONNECTION_TTL;
use testkit::{Fault, Limits, Workbench, file_event, frame_of, message_to_bob, to_event};

fn selected(response: &Response) -> Option<&str> {
    response.headers.get("Sec-WebSocket-Protocol").copied()
}

#[tokio::test]
async fn a_connection_is_noted_with_its_device_and_its_end() {
    let bench = Workbench::default();
    let response = bench.handle("connect", bench.event("connect", "alice")).await.unwrap();
    assert_eq!((response.status_code, selected(&response)), (200, Some("pigeonhole.v1")));
    let at = bench.clock.now();
    let rows = bench.aws.rows("ConnectionsTable");
    let device = file_event("connect")["queryStringParameters"]["device_id"].clone();
    assert_eq!(
        rows,
        [
            json!({"user_id": "alice", "connection_id": "alice=", "device_id": device, "api": "WebSocketApi", "connected_at": at.millis(), "ends_at": at.plus(CONNECTION_TTL).millis(), "expires_at": at.seconds() + 7500 + 600, "v": 1})
        ]
    );
}

#[tokio::test]
async fn a_subprotocol_is_selected_only_if_it_was_offered() {
    let bench = Workbench::default();
    for (offered, expected) in [
        (json!(null), None),
        (json!("chat"), None),
        (json!("bearer.abc"), None),
        (json!("pigeonhole.v1"), Some("pigeonhole.v1")),
        (json!("bearer.abc, pigeonhole.v1"), Some("pigeonhole.v1")),
        (json!("pigeonhole.v10"), None),
    ] {
        let mut event = file_event("connect");
        for headers in ["headers", "multiValueHeaders"] {
            let headers = event[headers].as_object_mut().unwrap();
            headers.retain(|name, _| !name.eq_ignore_ascii_case("sec-websocket-protocol"));
        }
        if offered.is_string() {
            event["headers"]["SEC-WebSocket-protocol"] = offered.clone();
        }
        let response = bench.handle("connect", to_event(event)).await.unwrap();
        assert_eq!(selected(&response), expected, "{offered}");
    }
}

#[tokio::test]
async fn a_connection_that_cannot_be_noted_does_not_open() {
    let bench = Workbench::default();
    bench.aws.fail_next("PutItem", Fault::Status(500));
    let response = bench.handle("connect", bench.event("connect", "alice")).await.unwrap();
    assert_eq!(response.status_code, 503);
}

#[tokio::test]
async fn a_disconnect_removes_its_own_connection_only() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    bench.connected("bob").await;
    bench.handle("disconnect", bench.event("disconnect", "alice")).await.unwrap();
    let rows: Vec<Value> = bench.aws.rows("ConnectionsTable");
    assert_eq!((rows.len(), &rows[0]["user_id"]), (1, &json!("bob")));
    // Once more, for a row that is gone: nothing happens.
    bench.handle("disconnect", bench.event("disconnect", "alice")).await.unwrap();
    assert_eq!(bench.aws.rows("ConnectionsTable").len(), 1);
}

#[tokio::test]
async fn a_late_disconnect_of_an_old_socket_leaves_the_new_one() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    bench.started().connected_at("alice", "newer=", "first").await;
    bench.handle("disconnect", bench.event("disconnect", "alice")).await.unwrap();
    let rows = bench.aws.rows("ConnectionsTable");
    assert_eq!((rows.len(), &rows[0]["connection_id"]), (1, &json!("newer=")));
}

#[tokio::test]
async fn a_connection_is_posted_to_until_it_expires() {
    let bench = Workbench::default();
    bench.handle("connect", bench.event("connect", "bob")).await.unwrap();
    bench.clock.advance(CONNECTION_TTL.saturating_sub(Duration::from_secs(1)));
    bench.ok("alice", message_to_bob("m1")).await;
    assert_eq!(bench.posted("bob"), ["messages.new"]);
    bench.clock.advance(Duration::from_secs(1));
    bench.ok("alice", message_to_bob("m2")).await;
    // DynamoDB has not deleted the row yet.
    assert_eq!((bench.aws.posts("bob="), bench.aws.closed()), (1, vec!["bob=".to_owned()]));
    assert_eq!(bench.aws.rows("ConnectionsTable"), Vec::<Value>::new());
}

#[tokio::test]
async fn a_device_is_posted_to_at_its_two_newest_connections() {
    let bench = Workbench::default();
    for connection in ["oldest=", "old=", "new="] {
        bench.started().connected_at("bob", connection, "first").await;
    }
    bench.ok("alice", message_to_bob("m1")).await;
    let posts = ["oldest=", "old=", "new="].map(|connection| bench.aws.posts(connection));
    assert_eq!(posts, [0, 1, 1]);
}

#[tokio::test]
async fn a_frame_that_names_connect_connects_nobody() {
    let bench = Workbench::default();
    let mut event = file_event("default");
    event["requestContext"]["routeKey"] = json!("$connect");
    event["body"] = json!("{\"action\":\"$connect\",\"id\":\"1\"}");
    let answer = frame_of(&bench.handle("connect", to_event(event)).await);
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!("unknown_action"), &json!("1")));
    assert!(bench.operations().is_empty());
}

#[tokio::test]
async fn with_one_more_than_a_user_may_have_the_oldest_is_closed() {
    let bench = Workbench::limited(Limits { connections: 2, ..Limits::default() });
    for (connection, device) in [("a=", "first"), ("b=", "second"), ("c=", "third")] {
        bench.started().connected_at("bob", connection, device).await;
    }
    assert_eq!(bench.aws.closed(), ["a="]);
    let rows = bench.aws.rows("ConnectionsTable");
    assert_eq!(rows.iter().map(|row| row["connection_id"].clone()).collect::<Vec<_>>(), ["b=", "c="]);
}

#[tokio::test]
async fn one_that_could_not_be_closed_gets_no_message_and_is_closed_by_the_next() {
    let bench = Workbench::limited(Limits { connections: 1, ..Limits::default() });
    bench.started().connected_at("bob", "a=", "first").await;
    bench.aws.fail_next("DeleteConnection", Fault::Status(500));
    bench.started().connected_at("bob", "b=", "second").await;
    bench.ok("alice", message_to_bob("m1")).await;
    // `a=` gets the event `connection.replaced` twice, and nothing else.
    assert_eq!((bench.aws.posts("a="), bench.aws.posts("b=")), (2, 1));
    assert_eq!(bench.aws.closed(), ["a=", "a="]);
}

#[tokio::test]
async fn whoever_is_closed_for_another_is_told_so() {
    let bench = Workbench::limited(Limits { connections: 1, ..Limits::default() });
    bench.started().connected_at("bob", "a=", "first").await;
    // The test reads the frames before the close, because those of a closed connection are gone.
    let close = bench.aws.hold_next("DeleteConnection");
    let watching = async {
        close.reached().await;
        assert_eq!(bench.aws.frames("a="), [json!({"type": "connection.replaced"})]);
        close.release();
    };
    let functions = bench.started();
    tokio::join!(functions.connected_at("bob", "b=", "second"), watching);
}

#[tokio::test]
async fn a_connection_ends_with_its_token() {
    let bench = Workbench::default();
    let mut event = bench.event("connect", "bob");
    let exp = bench.clock.now().plus(Duration::from_mins(5));
    event.payload.request_context.authorizer.fields.insert("exp".to_owned(), json!(exp.seconds().to_string()));
    let functions = bench.started();
    functions.handle("connect", event).await.unwrap();
    bench.clock.advance(Duration::from_mins(5).saturating_sub(Duration::from_millis(1)));
    functions.ok("alice", message_to_bob("m1")).await;
    bench.clock.advance(Duration::from_millis(1));
    // A process that remembers the connection posts nothing to it, too.
    functions.ok("alice", message_to_bob("m2")).await;
    assert_eq!((bench.aws.posts("bob="), bench.aws.closed()), (1, vec!["bob=".to_owned()]));
    assert_eq!(bench.aws.rows("ConnectionsTable"), Vec::<Value>::new());
}
