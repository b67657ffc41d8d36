//! Requests over HTTP, as API Gateway passes them on.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Limits, Workbench, file_event, to_event};

fn hi(id: &str) -> Value {
    json!({"to": "bob", "client_msg_id": id, "kind": "text", "body": "hi"})
}

#[tokio::test]
async fn a_request_over_http_is_that_of_a_socket_with_a_status() {
    let bench = Workbench::default();
    let functions = bench.started();
    let (status, sent) = functions.http("alice", None, "send", hi("m1")).await;
    assert_eq!((status, &sent["type"], &sent["action"]), (200, &json!("reply"), &json!("send")), "{sent}");
    // The same request by a socket.
    let mut again = hi("m1");
    again["action"] = json!("send");
    let again = functions.ok("alice", again).await;
    assert_eq!((&again["seq"], &again["duplicate"]), (&sent["result"]["seq"], &json!(true)));
    let conversation = &sent["result"]["conversation_id"];
    let mut reused = hi("m1");
    reused["body"] = json!("ho");
    let unknown = json!({"conversation_id": conversation, "seq": 7, "client_msg_id": "e1", "body": "x"});
    let other = json!({"action": "drain", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi"});
    for (path, frame, status, code) in [
        ("send", reused, 409, "id_reused"),
        ("send", json!({}), 400, "bad_request"),
        ("send", other, 400, "bad_request"),
        ("send", json!({"more": "x".repeat(33 * 1024)}), 413, "too_large"),
        ("edit", unknown, 404, "gone"),
        ("history", json!({"conversation_id": "gr_x"}), 403, "not_member"),
    ] {
        let (got, error) = functions.http("alice", None, path, frame).await;
        assert_eq!((got, &error["error"]["code"]), (status, &json!(code)), "{error}");
        assert_eq!((&error["type"], &error["action"]), (&json!("error"), &json!(path)));
    }
    bench.aws.fail_next("Query", Fault::Status(500));
    let (status, _) = functions.http("alice", None, "inbox", json!({})).await;
    assert_eq!(status, 503);
}

#[tokio::test]
async fn each_request_over_http_looks_at_expiry_suspension_rate_and_device() {
    let bench = Workbench::limited(Limits::of_requests());
    let functions = bench.started();
    let until = bench.clock.now().plus(Duration::from_hours(1));
    functions.admin(json!({"op": "suspend", "user_id": "mallory", "until": until})).await;
    let (status, error) = functions.http("mallory", None, "send", hi("m1")).await;
    assert_eq!((status, &error["error"]["code"]), (403, &json!("forbidden")));
    bench.clock.advance(Duration::from_hours(2));
    assert_eq!(functions.http("mallory", None, "send", hi("m1")).await.0, 200);
    let (status, error) = functions.http("alice", Some("a b"), "send", hi("m1")).await;
    assert_eq!(status, 400);
    assert!(error["error"]["message"].as_str().unwrap().starts_with("X-Device-Id: "), "{error}");
    // A service has routes of its own.
    let (status, error) = functions.http("@orders", None, "send", hi("m1")).await;
    assert_eq!((status, &error["error"]["code"]), (403, &json!("forbidden")));

    let mut expired = file_event("http");
    expired["requestContext"]["authorizer"]["lambda"]["exp"] = json!("1");
    let answer = functions.handle("send", to_event(expired)).await.unwrap();
    assert_eq!(answer.status_code, 401);
    let mut encoded = file_event("http");
    encoded["body"] = json!(data_encoding::BASE64.encode(hi("m2").to_string().as_bytes()));
    encoded["isBase64Encoded"] = json!(true);
    assert_eq!(functions.handle("send", to_event(encoded)).await.unwrap().status_code, 200);
    let mut last = 200;
    for _ in 0..200 {
        last = functions.http("eve", None, "drain", json!({})).await.0;
    }
    assert_eq!(last, 429);
}

#[tokio::test]
async fn the_users_other_devices_get_a_copy_and_the_same_device_does_not() {
    let bench = Workbench::default();
    let functions = bench.started();
    functions.connected_at("alice", "phone=", "phone").await;
    functions.connected_at("alice", "laptop=", "laptop").await;
    functions.connected_at("bob", "bob=", "his").await;
    let copies = || ["phone", "laptop"].map(|connection| bench.posted(connection).len());
    functions.http("alice", Some("phone"), "send", hi("m1")).await;
    assert_eq!(copies(), [0, 1]);
    // Also where a process has posted before.
    functions.http("alice", Some("phone"), "send", hi("m2")).await;
    assert_eq!(copies(), [0, 2]);
    functions.http("alice", None, "send", hi("m3")).await;
    assert_eq!(copies(), [1, 3]);
    let group = json!({"action": "create", "kind": "group", "client_msg_id": "g1", "title": "G", "members": ["bob"]});
    let group = functions.ok("alice", group).await["conversation_id"].clone();
    let [phone, laptop] = copies();
    let say = json!({"conversation_id": group, "client_msg_id": "g2", "kind": "text", "body": "hi"});
    assert_eq!(functions.http("alice", Some("phone"), "send", say).await.0, 200);
    assert_eq!(copies(), [phone, laptop + 1]);
}

#[tokio::test]
async fn a_service_does_over_http_what_admin_does_as_it_and_nothing_of_an_operator() {
    let bench = Workbench::default();
    let functions = bench.started();
    let services =
        async |op: &str, frame: Value| functions.http("@orders", None, &format!("services/{op}"), frame).await;
    let (status, sent) = services("send", hi("order-1")).await;
    assert_eq!((status, &sent["type"], &sent["action"]), (200, &json!("reply"), &json!("send")), "{sent}");
    let mut as_admin = hi("order-1");
    (as_admin["op"], as_admin["as"]) = (json!("send"), json!("@orders"));
    let again = functions.admin(as_admin.clone()).await;
    assert_eq!((&again["result"]["seq"], &again["result"]["duplicate"]), (&sent["result"]["seq"], &json!(true)));
    as_admin["as"] = json!("@others");
    let (status, error) = services("send", as_admin).await;
    assert_eq!(status, 400, "{error}");
    let group = json!({"kind": "group", "client_msg_id": "g1", "title": "G", "members": ["alice", "bob"]});
    let (status, made) = services("create_group", group).await;
    assert_eq!(status, 200, "{made}");
    let id = &made["result"]["conversation_id"];
    let change = |key: &str, more: Value| {
        let mut frame = json!({"conversation_id": id, "client_msg_id": key});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    for (op, more) in [
        ("add", json!({"members": ["carol"]})),
        ("restrict", json!({"user_id": "carol", "until": "forever"})),
        ("remove", json!({"user_id": "carol"})),
    ] {
        let (status, answer) = services(op, change(op, more)).await;
        assert_eq!(status, 200, "{answer}");
    }
    for (user, frame) in [
        ("@orders", json!({"set": {"name": "Your orders"}})),
        ("alice", json!({"user_id": "alice", "set": {"name": "Alice"}})),
    ] {
        let (status, answer) = services("profile", frame).await;
        assert_eq!(status, 200, "{answer}");
        let seen = functions.ok("bob", json!({"action": "profiles", "user_ids": [user]})).await;
        assert!(seen["profiles"][0]["name"].is_string(), "{seen}");
    }
    for op in ["kick", "suspend", "delete_message", "reports", "repair", "pending", "edit", ""] {
        let (status, error) = services(op, json!({"user_id": "alice"})).await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("unknown_action")), "{op}");
    }
    let (status, error) = functions.http("alice", None, "services/send", hi("m1")).await;
    assert_eq!((status, &error["error"]["code"]), (403, &json!("forbidden")));
}

#[tokio::test]
async fn each_request_of_a_service_looks_at_expiry_suspension_and_size() {
    let bench = Workbench::default();
    let functions = bench.started();
    let mut expired = file_event("http");
    expired["requestContext"]["routeKey"] = json!("POST /v1/services/{op}");
    expired["requestContext"]["authorizer"]["lambda"] = json!({"principalId": "@orders", "exp": "1"});
    (expired["pathParameters"], expired["body"]) = (json!({"op": "send"}), json!(hi("order-1").to_string()));
    assert_eq!(functions.backend(to_event(expired)).await.status_code, 401);
    let large = json!({"more": "x".repeat(33 * 1024)});
    let (status, error) = functions.http("@orders", None, "services/profile", large).await;
    assert_eq!((status, &error["error"]["code"]), (413, &json!("too_large")));
    let (status, error) = functions.http("@orders", None, "services/send", json!([])).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("bad_request")));
    let until = bench.clock.now().plus(Duration::from_hours(1));
    functions.admin(json!({"op": "suspend", "user_id": "@orders", "until": until})).await;
    let (status, error) = functions.http("@orders", None, "services/send", hi("order-1")).await;
    assert_eq!((status, &error["error"]["code"]), (403, &json!("forbidden")));
    bench.clock.advance(Duration::from_hours(1));
    assert_eq!(functions.http("@orders", None, "services/send", hi("order-1")).await.0, 200);
}
