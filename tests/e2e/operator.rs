//! The operator's requests, through the local server's endpoint for the function.

use serde_json::{Value, json};
use testkit::{PATIENCE, TestServer};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

async fn admin(server: &TestServer, request: Value) -> Value {
    let http = server.local().http_url();
    let local: Value = server.http.get(format!("{http}/local")).send().await.unwrap().json().await.unwrap();
    let url = local["admin_url"].as_str().unwrap();
    server.http.post(url).json(&request).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local server for the way to the function")]
async fn who_is_suspended_is_out_and_comes_back() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    alice.send("bob", "m1", "hi").await;
    bob.event("messages.new").await;
    let suspend = json!({"op": "suspend", "user_id": "bob", "until": "2099-01-01T00:00:00Z"});
    assert_eq!(admin(&server, suspend).await, json!({"result": {"closed": 1}}));
    assert_eq!(bob.closed().await, Some(CloseCode::Normal));
    assert_eq!(server.connect(&server.token("bob")).await.err().map(|refused| refused.0), Some(403));
    alice.send("bob", "m2", "waits").await;
    admin(&server, json!({"op": "unsuspend", "user_id": "bob"})).await;
    assert_eq!(server.phone("bob").await.drain().await.len(), 2, "the first was not acknowledged");
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local server for the way to the function")]
async fn an_erased_user_is_out_and_the_peer_hears_of_it() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].take();
    bob.event("messages.new").await;
    let begun = admin(&server, json!({"op": "erase", "user_id": "alice"})).await["result"].take();
    assert_eq!(alice.closed().await, Some(CloseCode::Normal));
    assert_eq!(server.connect(&server.token("alice")).await.err().map(|refused| refused.0), Some(403));
    let erased = bob.event("messages.new").await["messages"][0].take();
    assert_eq!(
        (&erased["kind"], &erased["user_id"], &erased["seqs"]),
        (&json!("erased"), &begun["erased_id"], &json!([[1, 1]]))
    );
    let history = bob.ok(json!({"action": "history", "conversation_id": conversation})).await["messages"].take();
    assert_eq!((&history[0]["body"], &history[0]["deleted_by"]), (&json!(""), &json!("@erased")));
    server.jobs_done().await;
    let job = admin(&server, json!({"op": "job", "job_id": begun["job_id"]})).await;
    assert_eq!(job["result"]["state"], "done");
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local server for the way to the function")]
async fn a_kick_closes_and_a_look_shows() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    let look = json!({"op": "connections", "user_id": "bob"});
    assert_eq!(admin(&server, look.clone()).await["result"]["connections"].as_array().unwrap().len(), 1);
    assert_eq!(admin(&server, json!({"op": "kick", "user_id": "bob"})).await["result"]["closed"], 1);
    bob.closed().await;
    assert_eq!(admin(&server, look).await["result"]["connections"], json!([]));
    let unknown = admin(&server, json!({"op": "dance"})).await;
    assert_eq!(unknown["error"]["code"], "bad_request");
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local server for the way to the function")]
async fn members_of_a_group_who_were_left_behind_are_brought_along() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let members: Vec<String> = (0..40).map(|number| format!("u{number}")).chain(["bob".to_owned()]).collect();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Club", "members": members});
    server.group_stream().hold().await;
    let group = alice.ok(create).await["conversation_id"].take();
    let repaired = admin(&server, json!({"op": "repair", "conversation_id": group})).await;
    assert_eq!(repaired["result"], json!({"roster": 0, "moved": 42, "unreadable": 0, "left_behind": 0, "next": null}));
    assert_eq!(bob.event("messages.new").await["messages"][0]["system"]["event"], "created");
    let send = json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    alice.ok(send).await;
    let script = template::workspace_root().join("tools/scripts/repair.py");
    let mut python = tokio::process::Command::new("python3");
    let repaired = python.arg(script).env("PIGEONHOLE_LOCAL", server.local().http_url()).output().await.unwrap();
    let said = String::from_utf8(repaired.stdout).unwrap();
    assert_eq!(said, "groups: 1, moved: 42, unreadable: 0\n", "{}", String::from_utf8_lossy(&repaired.stderr));
    assert_eq!(bob.event("messages.new").await["messages"][0]["body"], "hi");
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local server for its log")]
async fn a_trace_says_where_a_message_is_in_whatever_conversation() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    // A line comes a moment after its answer.
    let shows = async |conversation: &Value, seq: u64, expected: &[&str]| {
        let fits = |steps: &[String]| {
            steps.len() == expected.len() && steps.iter().zip(expected).all(|(step, begin)| step.starts_with(begin))
        };
        let look = async {
            loop {
                let steps = steps(&server, conversation, seq).await;
                if fits(&steps) {
                    break;
                }
                eprintln!("not yet: {steps:#?}");
            }
        };
        timeout(PATIENCE, look).await.expect("what it shows is above");
    };

    alice.send("bob", "m1", "hi").await;
    let message = bob.event("messages.new").await["messages"][0].take();
    let direct = &message["conversation_id"];
    bob.ok(json!({"action": "ack", "up_to": [{"conversation_id": direct, "seq": 1}]})).await;
    let posted = "posted        1 frames taken, 0 gone, 0 failed; left pending for 0";
    shows(direct, 1, &["stored        send by ", posted, "acknowledged  by "]).await;
    alice.ok(json!({"action": "edit", "conversation_id": direct, "seq": 1, "client_msg_id": "e1", "body": "ho"})).await;
    shows(direct, 2, &["stored        edit by ", "posted        1 frames taken"]).await;

    for others in [0, 40] {
        let members: Vec<String> = (0..others).map(|number| format!("u{number}")).chain(["bob".to_owned()]).collect();
        let create =
            json!({"action": "create", "client_msg_id": format!("c{others}"), "title": "Club", "members": members});
        let group = alice.ok(create).await["conversation_id"].take();
        let posted = if others > 0 { "posted        none by this request" } else { "posted        1 frames taken" };
        shows(&group, 1, &["stored        create by ", posted]).await;
        let send =
            json!({"action": "send", "conversation_id": group, "client_msg_id": "m2", "kind": "text", "body": "hi"});
        alice.ok(send).await;
        shows(&group, 2, &["stored        send by ", posted]).await;
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "the local server's tools")]
async fn the_tools_say_in_one_line_that_there_is_no_server() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let scripts = template::workspace_root().join("tools/scripts");
    for (script, arguments) in [
        ("publish.py", &["bob", "hi"][..]),
        ("admin.py", &[r#"{"op":"connections","user_id":"bob"}"#]),
        ("message_trace.py", &["dm_ab", "1"]),
        ("repair.py", &[]),
    ] {
        let mut python = tokio::process::Command::new("python3");
        let python = python.arg(scripts.join(script)).args(arguments);
        let ended = python.env("PIGEONHOLE_LOCAL", format!("http://{nobody}/")).output().await.unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && said.lines().count() == 1, "{script}: {said}");
        assert!(said.starts_with(&format!("no server at http://{nobody} ")), "{script}: {said}");
    }
}

/// What `just trace` prints of a message, without the times.
async fn steps(server: &TestServer, conversation: &Value, seq: u64) -> Vec<String> {
    let root = template::workspace_root();
    // With nothing installed.
    let mut python = tokio::process::Command::new("python3");
    let traced = python.arg(root.join("tools/scripts/message_trace.py")).arg(conversation.as_str().unwrap());
    let traced = traced.arg(seq.to_string()).env("PIGEONHOLE_LOCAL", server.local().http_url());
    let traced = traced.output().await.unwrap();
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let said = String::from_utf8(traced.stdout).unwrap();
    said.lines().skip(1).map(|line| line[25..].to_owned()).collect()
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local server for its log")]
async fn the_log_has_what_became_of_a_message_and_nobodys_name() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice-of-the-log").await, server.phone("bob-of-the-log").await);
    alice.send("bob-of-the-log", "m1", "hi").await;
    bob.event("messages.new").await;
    let conversation = bob.conversation("alice-of-the-log").await["conversation_id"].clone();
    let logged_as = admin(&server, json!({"op": "logged_as", "id": conversation})).await["result"]["logged_as"].clone();
    let local = server.local().http_url();
    let log = server.http.get(format!("{local}/local/log?with={}", logged_as.as_str().unwrap())).send().await.unwrap();
    let log = log.text().await.unwrap();
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!([&line["route"], &line["seq"], &line["left_pending"]], [&json!("send"), &json!(1), &json!(0)]);
    let all = server.http.get(format!("{local}/local/log")).send().await.unwrap().text().await.unwrap();
    assert!(all.contains("$connect") && !all.contains("of-the-log") && !all.contains(conversation.as_str().unwrap()));
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "the local server's own")]
async fn pages_from_elsewhere_get_no_token_and_no_table() {
    let server = TestServer::open().await;
    let http = server.local().http_url();
    for path in
        ["/token?user=alice", "/tables/InboxTable", "/local", "/.well-known/jwks.json", "/phones?user=bob", "/sns"]
    {
        let get =
            |name: &'static str, value: &'static str| server.http.get(format!("{http}{path}")).header(name, value);
        assert_eq!(get("origin", "https://example.com").send().await.unwrap().status(), 403, "{path}");
        assert_eq!(get("host", "rebound.example.com").send().await.unwrap().status(), 403, "{path}");
        assert_eq!(get("origin", "http://localhost:5173").send().await.unwrap().status(), 200, "{path}");
    }
}
