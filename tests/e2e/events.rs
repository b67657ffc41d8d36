//! The events that a team's own servers get, in the queue of the local server.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, PATIENCE, Proxy, TestServer};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

async fn admin(server: &TestServer, request: Value) -> Value {
    let url = format!("{}/local/admin", server.local().http_url());
    server.http.post(url).json(&request).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "reads the local server's queue")]
async fn every_entry_of_every_conversation_is_an_event() {
    let server = TestServer::with(TestServer::publishing).await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let features = alice.ok(json!({"action": "ping", "features": true})).await["features"].clone();
    assert_eq!(
        features,
        json!(testkit::features(&["http", "events", "encryption", "encryption.groups", "encryption.media"]))
    );

    let direct = alice.send("bob", "m1", "hi").await["conversation_id"].clone();
    let change = |action: &str| json!({"action": action, "conversation_id": direct, "seq": 1, "client_msg_id": action});
    let mut edit = change("edit");
    edit["body"] = json!("hello");
    alice.ok(edit).await;
    let mut reaction = change("react");
    reaction["emoji"] = json!("👍");
    bob.ok(reaction).await;
    alice.ok(change("delete")).await;
    let mut conversations = vec![];
    for (kind, members) in [("group", json!(["bob"])), ("channel", json!([]))] {
        let create =
            json!({"action": "create", "kind": kind, "client_msg_id": kind, "title": "Trip", "members": members});
        let conversation = alice.ok(create).await["conversation_id"].clone();
        let say = json!({"action": "send", "conversation_id": conversation, "client_msg_id": format!("said-{kind}"), "kind": "text", "body": kind});
        alice.ok(say).await;
        conversations.push(conversation);
    }
    let report = json!({"action": "report", "user_id": "bob", "reason": "spam"});
    let report = alice.ok(report).await["report_id"].clone();

    let events = server.events().await;
    let ids: Vec<&Value> = events.iter().map(|event| &event["id"]).collect();
    let id = |conversation: &Value, seq: u64| json!(format!("{}:{seq}", conversation.as_str().unwrap()));
    let [group, channel] = conversations.try_into().unwrap();
    for (conversation, last) in [(&direct, 4), (&group, 2), (&channel, 2)] {
        for seq in 1..=last {
            assert!(ids.contains(&&id(conversation, seq)), "{seq} of {conversation} is missing");
        }
    }
    assert!(ids.contains(&&report));
    assert_eq!(ids.len(), 9);
    let kind = |conversation: &Value| {
        let of = |event: &&Value| event["conversation"]["conversation_id"] == *conversation;
        events.iter().find(of).unwrap()["conversation"]["kind"].clone()
    };
    assert_eq!([&direct, &group, &channel].map(kind), ["direct", "group", "channel"]);

    let page: Value =
        server.http.get(format!("{}/events", server.local().http_url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(page, json!(events), "the page shows the same");
}

/// The bus or the queue refuses for a while, and the functions die: each entry comes, and none with a deleted text.
#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "reads the local server's queue")]
async fn a_consumer_ends_with_every_entry_though_the_queue_refuses_for_a_while() {
    let calls = Arc::new(AtomicU32::new(0));
    let proxy = Proxy::open({
        let calls = Arc::clone(&calls);
        move |function, call| {
            let fails = function == "PublishFunction" && call.operation() == "SendMessageBatch";
            let fault = if calls.load(Ordering::Relaxed).is_multiple_of(2) { Fault::Lost } else { Fault::KilledAfter };
            (fails && calls.fetch_add(1, Ordering::Relaxed) < 6).then_some(fault)
        }
    })
    .await;
    let server = proxy.server_with(TestServer::publishing).await;
    let mut alice = server.phone("alice").await;
    let mut conversation = Value::Null;
    for number in 1..=30 {
        conversation = alice.send("bob", &format!("m{number}"), "canary").await["conversation_id"].clone();
    }
    let events = server.events().await;
    let has = |seq: u64| events.iter().any(|event| event["message"]["seq"] == seq);
    assert!((1..=30).all(has), "{} events", events.len());
    assert!(calls.load(Ordering::Relaxed) > 6, "the queue has refused");

    // A replay brings what the consumer has lost, as it is now.
    server.local().queue("Events").unwrap().purge();
    for seq in 1..=30 {
        let delete = json!({"action": "delete", "conversation_id": conversation, "seq": seq, "client_msg_id": format!("d{seq}")});
        alice.ok(delete).await;
    }
    let replay = json!({"op": "replay", "conversation_id": conversation, "from_seq": 1, "to_seq": 1000});
    assert_eq!(admin(&server, replay).await, json!({"result": {"events": 60}}));
    let again = async {
        while server.local().queue("Events").unwrap().len() < 90 {
            server.events().await;
        }
    };
    timeout(PATIENCE, again).await.expect("the deletes, and all entries once more");
    assert!(server.events().await.iter().all(|event| !event.to_string().contains("canary")));
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "changes the server's options")]
async fn a_server_without_events_has_no_queue_for_them() {
    let server = TestServer::with(|_| {}).await;
    let local: Value =
        server.http.get(format!("{}/local", server.local().http_url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(local["events_url"], Value::Null);
    let page = server.http.get(format!("{}/events", server.local().http_url())).send().await.unwrap();
    assert_eq!(page.status(), 404);
    let mut alice = server.phone("alice").await;
    let sent = alice.send("bob", "m1", "hi").await;
    let replay = json!({"op": "replay", "conversation_id": sent["conversation_id"], "from_seq": 1, "to_seq": 1});
    assert_eq!(admin(&server, replay).await["error"]["code"], "forbidden");
}

/// A program of `docs/examples`, until it is dropped.
struct Recipe {
    _program: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Recipe {
    fn start(server: &TestServer, arguments: &[&str]) -> Self {
        let http = server.local().http_url();
        let mut program = Command::new("node")
            .args(arguments)
            .current_dir(template::workspace_root().join("docs/examples"))
            .envs([("AWS_ACCESS_KEY_ID", "any"), ("AWS_SECRET_ACCESS_KEY", "any"), ("AWS_REGION", "us-east-1")])
            .envs([
                ("AWS_ENDPOINT_URL_SQS", format!("{http}/sqs")),
                ("AWS_ENDPOINT_URL_LAMBDA", format!("{http}/lambda")),
            ])
            .envs([("EVENTS_URL", &*format!("{http}/sqs/000000000000/Events")), ("ADMIN_FUNCTION", "AdminFunction")])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap()).lines();
        Self { _program: program, lines }
    }

    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("the program prints a line");
        line.unwrap().expect("the program goes on")
    }
}

#[tokio::test]
#[ignore = "wants the SDKs, which `just tools` and `just examples` install"]
async fn the_recipe_of_a_search_index_finds_the_newest_text_and_none_that_is_deleted() {
    let server = TestServer::with(TestServer::publishing).await;
    let mut search = Recipe::start(&server, &["search.mjs", "0"]);
    let url = search.line().await;
    let mut alice = server.phone("alice").await;
    let conversation = alice.send("bob", "m1", "the parcel").await["conversation_id"].clone();
    let until = async |word: &str, seqs: &[u64]| {
        let wanted: Vec<String> = seqs.iter().map(|seq| format!("{}:{seq}", conversation.as_str().unwrap())).collect();
        let finds = async {
            while server.http.get(format!("{url}{word}")).send().await.unwrap().json::<Value>().await.unwrap()
                != json!(wanted)
            {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, finds).await.unwrap_or_else(|_| panic!("{word} is in {wanted:?}"));
    };
    until("parcel", &[1]).await;
    let change =
        |action: &str| json!({"action": action, "conversation_id": conversation, "seq": 1, "client_msg_id": action});
    let mut edit = change("edit");
    edit["body"] = json!("the letter");
    alice.ok(edit).await;
    until("letter", &[1]).await;
    until("parcel", &[]).await;
    alice.ok(change("delete")).await;
    until("letter", &[]).await;
}

#[tokio::test]
#[ignore = "wants the SDKs, which `just tools` and `just examples` install"]
async fn the_recipe_of_a_digest_mails_who_has_not_received_a_message_in_time() {
    let server = TestServer::with(TestServer::publishing).await;
    let mut digest = Recipe::start(&server, &["digest.mjs", "1"]);
    let (mut alice, mut carol) = (server.phone("alice").await, server.phone("carol").await);
    let sent = alice.send("carol", "m1", "hi").await;
    carol.ack(sent["conversation_id"].as_str().unwrap(), 1).await;
    alice.send("bob", "m2", "hi").await;
    let mail: Value = serde_json::from_str(&digest.line().await).unwrap();
    assert_eq!(mail, json!({"to": "bob", "subject": "1 conversations have new messages"}));
}

#[tokio::test]
#[ignore = "wants the SDKs, which `just tools` and `just examples` install"]
async fn the_recipe_of_a_bot_answers_in_its_group() {
    let server = TestServer::with(TestServer::publishing).await;
    let mut bot = Recipe::start(&server, &["bot.mjs", "bob"]);
    let group = bot.line().await;
    let mut bob = server.phone("bob").await;
    bob.send("alice", "m1", "/sum 1 1").await;
    let ask =
        json!({"action": "send", "conversation_id": group, "client_msg_id": "m2", "kind": "text", "body": "/sum 40 2"});
    bob.ok(ask).await;
    loop {
        let event = bob.event("messages.new").await;
        let message = &event["messages"][0];
        if message["sender_id"] == "@bot" && message["kind"] == "text" {
            assert_eq!((&message["conversation_id"], &message["body"]), (&json!(group), &json!("42")));
            break;
        }
    }
}
