//! From a team's own servers: into the queue, as any SDK of SQS does it, and to users.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use local::Queue;
use serde_json::{Value, json};
use testkit::{AwsCall, ConnectError, Fault, PATIENCE, Proxy, TestServer};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// An action of SQS, asked for as its SDKs do: of the queue's own address, if there is one.
pub(crate) async fn sqs(server: &TestServer, action: &str, request: Value) -> Value {
    // The local server also knows a queue by its name alone.
    let url = request["QueueUrl"].as_str().filter(|url| url.starts_with("http")).map(str::to_owned);
    let url = url.unwrap_or_else(|| format!("{}/sqs/", server.local().http_url()));
    let request = server
        .http
        .post(url)
        .header("x-amz-target", format!("AmazonSQS.{action}"))
        .header("content-type", "application/x-amz-json-1.0")
        .json(&request);
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let body: Value = answer.json().await.unwrap();
    assert_eq!(status, 200, "{action}: {body}");
    body
}

pub(crate) fn queue(server: &TestServer) -> &Queue {
    server.local().queue("BackendQueue").unwrap()
}

fn dead_letters(server: &TestServer) -> &Queue {
    server.local().queue("BackendDeadLetters").unwrap()
}

async fn urls(server: &TestServer) -> Value {
    let local = server.http.get(format!("{}/local", server.local().http_url())).send().await.unwrap();
    local.json().await.unwrap()
}

/// The local server's queue, or that of a deployed stack, which `PIGEONHOLE_QUEUE` names.
async fn queue_url(server: &TestServer) -> Value {
    match std::env::var("PIGEONHOLE_QUEUE") {
        Ok(url) => json!(url),
        Err(_) => urls(server).await["queue_url"].take(),
    }
}

/// The user's among the dead letters, of the local server or of where `PIGEONHOLE_DEAD_LETTERS` names.
async fn letters_of(server: &TestServer, user: &str) -> Vec<Value> {
    let url = match std::env::var("PIGEONHOLE_DEAD_LETTERS") {
        Ok(url) => json!(url),
        Err(_) => urls(server).await["dead_letter_url"].take(),
    };
    let ask = json!({
        "QueueUrl": url, "MessageAttributeNames": ["All"], "AttributeNames": ["All"], "VisibilityTimeout": 0,
        "MaxNumberOfMessages": 10,
    });
    let mut letters = sqs(server, "ReceiveMessage", ask).await["Messages"].take();
    let letters = letters.as_array_mut().map(std::mem::take).unwrap_or_default();
    letters.into_iter().filter(|letter| letter["Attributes"]["MessageGroupId"] == server.id(user)).collect()
}

fn entry(to: &str, id: &str, body: &str) -> Value {
    let message = json!({"to": to, "from": "@orders", "client_msg_id": id, "kind": "text", "body": body});
    json!({"Id": id, "MessageGroupId": to, "MessageDeduplicationId": id, "MessageBody": message.to_string()})
}

/// Puts a message into the queue.
pub(crate) async fn publish(server: &TestServer, to: &str, id: &str, body: &str) -> Value {
    send(server, entry(&server.id(to), id, body)).await
}

async fn send(server: &TestServer, mut entry: Value) -> Value {
    entry["QueueUrl"] = queue_url(server).await;
    sqs(server, "SendMessage", entry).await
}

/// Puts many messages into the queue, in batches of SQS's maximum.
async fn send_all(server: &TestServer, entries: &[Value]) {
    let url = queue_url(server).await;
    for batch in entries.chunks(10) {
        let sent = sqs(server, "SendMessageBatch", json!({"QueueUrl": url, "Entries": batch})).await;
        assert_eq!(sent["Successful"].as_array().unwrap().len(), batch.len());
    }
}

pub(crate) async fn settled(queue: &Queue) {
    timeout(PATIENCE, queue.settled()).await.expect("the queue is empty in time");
}

/// Waits until the queue is empty, by requests to it, wherever it is.
async fn emptied(server: &TestServer) {
    let counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
    let ask = json!({"QueueUrl": queue_url(server).await, "AttributeNames": counts});
    let empty = async {
        loop {
            let attributes = sqs(server, "GetQueueAttributes", ask.clone()).await["Attributes"].take();
            if counts.iter().all(|count| attributes[count] == "0") {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, empty).await.expect("the queue is empty in time");
}

/// Returns the bodies of the user's messages, oldest first.
async fn told(server: &TestServer, user: &str) -> Vec<String> {
    let mut phone = server.phone(user).await;
    let Some(row) = phone.inbox().await.into_iter().next() else { return vec![] };
    let (id, mut after, mut bodies) = (row["conversation_id"].clone(), 0, vec![]);
    loop {
        let ask = json!({"action": "history", "conversation_id": id, "after_seq": after, "limit": 100});
        let page = phone.ok(ask).await;
        let messages = page["messages"].as_array().unwrap();
        bodies.extend(messages.iter().map(|message| message["body"].as_str().unwrap().to_owned()));
        after += messages.len();
        if page["more"] == false {
            break;
        }
    }
    phone.leave().await;
    bodies
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "SQS takes nothing that is not signed")]
async fn what_a_backend_puts_into_the_queue_reaches_the_user() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    let sent = publish(&server, "bob", "order-1-shipped", "Your parcel is on its way").await;
    assert_eq!(
        publish(&server, "bob", "order-1-shipped", "Your parcel is on its way").await,
        sent,
        "it is one message"
    );
    let event = bob.event("messages.new").await;
    let message = &event["messages"][0];
    assert_eq!((&message["sender_id"], &message["body"]), (&json!("@orders"), &json!("Your parcel is on its way")));
    let row = bob.conversation("@orders").await;
    assert_eq!((&row["kind"], &row["unread"]), (&json!("direct"), &json!(1)));
    let id = row["conversation_id"].as_str().unwrap();
    bob.ack(id, 1).await;
    bob.read(id, 1).await;
    bob.leave().await;
    // And who is not there has it waiting.
    publish(&server, "bob", "order-1-delivered", "It is there").await;
    emptied(&server).await;
    let mut bob = server.phone("bob").await;
    assert!(bob.pending().await);
    assert_eq!(bob.drain().await[0]["body"], "It is there");
    let reply =
        json!({"action": "send", "conversation_id": id, "client_msg_id": "c1", "kind": "text", "body": "thanks"});
    assert_eq!(bob.refused(reply).await, "forbidden");
    assert_eq!(letters_of(&server, "bob").await, Vec::<Value>::new());
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "the issuer of a deployed stack has no such users")]
async fn nobody_connects_as_a_service() {
    let server = TestServer::open().await;
    for id in ["@orders", "@system", "@"] {
        assert_eq!(server.connect(&server.token(id)).await.err(), Some(ConnectError(403)), "{id}");
    }
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "asks the local server for the way to the function")]
async fn a_service_that_wants_an_answer_asks_the_operators_function() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    let admin = async |request: Value| {
        let url = urls(&server).await["admin_url"].as_str().unwrap().to_owned();
        server.http.post(url).json(&request).send().await.unwrap().json::<Value>().await.unwrap()["result"].take()
    };
    let group = admin(json!({
        "op": "create_group", "as": "@orders", "client_msg_id": "order-7", "title": "Order 7", "members": ["bob"],
    }))
    .await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["system"]["event"], "created");
    let send = json!({
        "op": "send", "as": "@orders", "conversation_id": group["conversation_id"], "client_msg_id": "m1", "kind": "text",
        "body": "Ask here",
    });
    assert_eq!(admin(send).await["seq"], 2);
    assert_eq!(bob.event("messages.new").await["messages"][0]["body"], "Ask here");
    let restrict = json!({
        "op": "restrict", "as": "@orders", "conversation_id": group["conversation_id"], "client_msg_id": "r1",
        "user_id": "bob", "until": "forever",
    });
    assert_eq!(admin(restrict).await["seq"], 3);
    assert_eq!(bob.event("messages.new").await["messages"][0]["system"]["event"], "member.restricted");
    admin(json!({"op": "delete_message", "conversation_id": group["conversation_id"], "seq": 2})).await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["kind"], "delete");
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "SQS takes nothing that is not signed")]
async fn poison_is_a_dead_letter_with_its_reason_and_nothing_behind_it_is_held_up() {
    let server = TestServer::open().await;
    let mut bob = server.phone("bob").await;
    let id = server.id("bob");
    let poison = json!({"to": id, "kind": "text", "body": "two"}).to_string();
    let mut entries = [entry(&id, "m1", "one"), entry(&id, "m2", "two"), entry(&id, "m3", "three")];
    entries[1]["MessageBody"] = json!(poison);
    send_all(&server, &entries).await;
    for body in ["one", "three"] {
        assert_eq!(bob.event("messages.new").await["messages"][0]["body"], body);
    }
    let letters = letters_of(&server, "bob").await;
    let [letter] = &letters[..] else { panic!("it is there before what was behind it is stored: {letters:?}") };
    let said = |name: &str| letter["MessageAttributes"][name]["StringValue"].clone();
    assert_eq!((said("reason"), said("detail")), (json!("bad_request"), json!("client_msg_id: is missing")));
    assert_eq!(letter["Body"], poison);
}

/// Runs a program of the examples against the server, as its reader does. Returns what it prints.
async fn run(server: &TestServer, program: &str, arguments: &[&str]) -> String {
    let (root, http) = (template::workspace_root(), server.local().http_url());
    let queue_url = urls(server).await["queue_url"].as_str().unwrap().to_owned();
    let ended = Command::new(program)
        .args(arguments)
        .current_dir(&root)
        .envs([("AWS_ACCESS_KEY_ID", "any"), ("AWS_SECRET_ACCESS_KEY", "any"), ("AWS_REGION", "us-east-1")])
        .envs([("AWS_DEFAULT_REGION", "us-east-1"), ("AWS_ENDPOINT_URL_SQS", &format!("{http}/sqs"))])
        .envs([("QUEUE_URL", &*queue_url), ("PIGEONHOLE_LOCAL", &http)])
        .envs([("ADMIN_FUNCTION", "AdminFunction"), ("AWS_ENDPOINT_URL_LAMBDA", &format!("{http}/lambda"))])
        .env("PYTHONPATH", "clients/server-python/src")
        .output()
        .await
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

#[tokio::test]
#[ignore = "wants the SDKs, which `just tools` and `just examples` install"]
async fn the_examples_reach_a_user() {
    let server = TestServer::open().await;
    let run = async |program: &str, arguments: &[&str]| run(&server, program, arguments).await;
    run(".venv/bin/python", &["docs/examples/backend.py", "bob", "shipped"]).await;
    settled(queue(&server)).await;
    run("node", &["docs/examples/backend.mjs", "bob", "delivered"]).await;
    settled(queue(&server)).await;
    run("python3", &["tools/scripts/publish.py", "bob", "thanks", "@orders"]).await;
    settled(queue(&server)).await;
    let numbered = (1..=12).map(|number| format!("shipped ({number})"));
    let expected: Vec<String> = ["shipped".to_owned()].into_iter().chain(numbered).collect();
    assert_eq!(told(&server, "bob").await, [&expected[..], &["delivered".to_owned(), "thanks".to_owned()]].concat());
    // By the function: the group's entries are its begin, an addition, a message, a restriction, a removal and a delete.
    for (program, script, number) in
        [(".venv/bin/python", "docs/examples/support.py", "7"), ("node", "docs/examples/support.mjs", "8")]
    {
        let printed: Value = serde_json::from_str(&run(program, &[script, "bob", number]).await).unwrap();
        assert_eq!(printed, json!([1, ["carol"], 3, true, 6, "id_reused"]), "{script}");
    }
    let groups = server.phone("bob").await.inbox().await;
    let titles: Vec<_> = groups.iter().filter_map(|row| row["title"].as_str()).collect();
    assert_eq!(titles, ["Case 8", "Case 7"]);
    assert_eq!(run("node", &["--input-type=module", "--eval", CONSOLE]).await.lines().last(), Some("403 403 200 200"));
    // What SQS's own SDK asks for of the dead letters.
    run(".venv/bin/python", &["-c", DEAD_LETTERS]).await;
}

#[tokio::test]
#[ignore = "wants the packages for servers, which `just examples` builds"]
async fn both_packages_for_servers_call_over_http() {
    let server = TestServer::open().await;
    let from_python = run(&server, ".venv/bin/python", &["-c", OUTSIDE_PY]).await;
    let from_node = run(&server, "node", &["--input-type=module", "--eval", OUTSIDE_JS]).await;
    for printed in [from_python, from_node] {
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), json!([1, 4, true, "id_reused"]));
    }
    assert_eq!(server.phone("bob").await.inbox().await.len(), 4);
}

const OUTSIDE_PY: &str = r#"
import json, os, urllib.request
from pigeonhole_server import RefusedError, Service, over_http

local = os.environ["PIGEONHOLE_LOCAL"]
def token():
    return json.load(urllib.request.urlopen(f"{local}/token?user=@parcels"))["token"]
parcels = Service("@parcels", over_http(local, token))
sent = parcels.send(to="bob", client_msg_id="h1", body="by HTTP")
case = parcels.create_group(client_msg_id="h2", title="By HTTP", members=["bob"])["conversation_id"]
parcels.add(conversation_id=case, client_msg_id="h3", members=["carol"])
parcels.restrict(conversation_id=case, client_msg_id="h4", user_id="bob", until=None)
removed = parcels.remove(conversation_id=case, client_msg_id="h5", user_id="carol")
version = parcels.profile("@parcels", {"name": "Parcels"})["version"]
try:
    refused = parcels.add(conversation_id=case, client_msg_id="h5", members=["dave"])
except RefusedError as error:
    refused = error.code
print(json.dumps([sent["seq"], removed["seq"], version > 0, refused]))
"#;

const OUTSIDE_JS: &str = r#"
import { overHttp, Service } from "./clients/server-node/dist/index.js";
const url = process.env.PIGEONHOLE_LOCAL;
const token = async () => (await (await fetch(`${url}/token?user=@orders`)).json()).token;
const orders = new Service("@orders", overHttp({ url, token }));
const sent = await orders.send({ to: "bob", client_msg_id: "h1", body: "by HTTP" });
const { conversation_id } = await orders.createGroup({ client_msg_id: "h2", title: "By HTTP", members: ["bob"] });
await orders.add({ conversation_id, client_msg_id: "h3", members: ["carol"] });
await orders.restrict({ conversation_id, client_msg_id: "h4", user_id: "bob", until: null });
const removed = await orders.remove({ conversation_id, client_msg_id: "h5", user_id: "carol" });
const { version } = await orders.profile("@orders", { name: "Orders" });
const refused = await orders.add({ conversation_id, client_msg_id: "h5", members: ["dave"] }).catch(({ code }) => code);
console.log(JSON.stringify([sent.seq, removed.seq, version > 0, refused]));
"#;

/// The console behind a sign-in: without one, from another site's form, and signed in.
const CONSOLE: &str = r#"
import { handler } from "./docs/examples/console.mjs";
const request = { path: "/admin", httpMethod: "POST", body: '{"op":"pending","user_id":"bob"}' };
const json = { "content-type": "application/json" };
const signedIn = { "x-amzn-oidc-identity": "eve" };
const replies = [
    await handler({ ...request, headers: json }),
    await handler({ ...request, headers: { ...signedIn, "content-type": "text/plain" } }),
    await handler({ ...request, headers: { ...signedIn, ...json } }),
    await handler({ path: "/console-transport.js", httpMethod: "GET", headers: signedIn }),
];
if (JSON.parse(replies[2].body).result.conversations.length === 0) throw new Error(replies[2].body);
console.log(replies.map(({ statusCode }) => statusCode).join(" "));
"#;

/// A message that is poison, found among the dead letters with its reason, moved back, and gone there again.
const DEAD_LETTERS: &str = r#"
import os, time, boto3
sqs = boto3.client("sqs")
queue, dead = os.environ["QUEUE_URL"], sqs.get_queue_url(QueueName="BackendDeadLetters.fifo")["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageGroupId="bob", MessageDeduplicationId="x", MessageBody="poison")
def letter():
    found = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20, VisibilityTimeout=0, MessageAttributeNames=["All"])["Messages"]
    assert found[0]["MessageAttributes"]["reason"]["StringValue"] == "bad_request", found
    return found[0]
letter()
arn = lambda url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
sqs.start_message_move_task(SourceArn=arn(dead), DestinationArn=arn(queue))
sqs.delete_message(QueueUrl=dead, ReceiptHandle=letter()["ReceiptHandle"])
assert "Messages" not in sqs.receive_message(QueueUrl=dead)
try:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    raise SystemExit("a message without a group was taken")
except sqs.exceptions.ClientError as error:
    assert error.response["Error"]["Code"] == "MissingParameter", error
"#;

/// Returns the numbers of messages and users. `PIGEONHOLE_MESSAGES=10000` runs the whole campaign.
fn campaign() -> (usize, usize) {
    let messages = std::env::var("PIGEONHOLE_MESSAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    (messages, messages / 20)
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "breaks the functions' calls, and kills them")]
async fn of_many_messages_none_is_lost_or_doubled_and_each_user_has_them_in_order() {
    let (messages, users) = campaign();
    let random = Mutex::new(fastrand::Rng::with_seed(1));
    let broken = Arc::new(AtomicU64::new(0));
    let proxy = Proxy::open({
        let broken = Arc::clone(&broken);
        move |function, call| {
            let is_ingests =
                function == "IngestFunction" && matches!(call, AwsCall::Database { .. } | AwsCall::Queue { .. });
            let faults = [
                Fault::Status(500),
                Fault::Throttled,
                Fault::Lost,
                Fault::ReplyLost,
                Fault::Conflict,
                Fault::Killed,
                Fault::KilledAfter,
            ];
            let mut random = random.lock().unwrap();
            let fault = (is_ingests && random.u8(..100) < 4).then(|| *random.choice(&faults).unwrap());
            broken.fetch_add(u64::from(fault.is_some()), Ordering::Relaxed);
            fault
        }
    })
    .await;
    let server = proxy.server_with(|options| options.streams.visibility_max = Duration::from_millis(50)).await;
    let began = std::time::Instant::now();
    let entries = (0..messages).map(|number| {
        let mut entry = entry(&format!("u{}", number % users), &format!("m{number}"), &number.to_string());
        if number % 100 == 50 {
            entry["MessageBody"] = json!("poison");
        }
        entry
    });
    send_all(&server, &entries.collect::<Vec<_>>()).await;
    timeout(PATIENCE * 20, queue(&server).settled()).await.expect("all is delivered in time");
    let took = began.elapsed();
    for user in 0..users {
        let expected: Vec<String> =
            (0..messages).filter(|n| n % users == user && n % 100 != 50).map(|n| n.to_string()).collect();
        assert_eq!(told(&server, &format!("u{user}")).await, expected, "u{user}");
    }
    let mut reasons = BTreeMap::<String, usize>::new();
    for (body, attributes) in dead_letters(&server).messages() {
        assert_eq!(body, "poison");
        *reasons.entry(attributes["reason"]["StringValue"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let poison = (0..messages).filter(|number| number % 100 == 50).count();
    assert_eq!(reasons, BTreeMap::from([("bad_request".to_owned(), poison)]));
    println!("{messages} messages to {users} users in {took:?}, with {} faults", broken.load(Ordering::Relaxed));
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "has the local queue wait")]
async fn who_has_many_messages_waiting_holds_nobody_else_up() {
    let (many, others) = (campaign().0, 5);
    let server = TestServer::open().await;
    queue(&server).pause(true);
    let entries = (0..many).map(|number| entry("bob", &format!("m{number}"), &number.to_string()));
    send_all(&server, &entries.collect::<Vec<_>>()).await;
    let mut phones = Vec::new();
    for other in 0..others {
        let user = format!("u{other}");
        phones.push(server.phone(&user).await);
        publish(&server, &user, "m", "hi").await;
    }
    queue(&server).pause(false);
    for phone in &mut phones {
        phone.event("messages.new").await;
    }
    let row = server.rows("InboxTable", "bob").pop().unwrap_or_default();
    assert!(row["last_seq"].as_u64().unwrap_or_default() < many as u64, "all of bob's came first: {row}");
    timeout(PATIENCE * 20, queue(&server).settled()).await.expect("all is delivered in time");

    // All that wait for him, page by page.
    let mut bob = server.phone("bob").await;
    let drained: Vec<String> =
        bob.drain().await.iter().map(|message| message["body"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> = (0..many).map(|number| number.to_string()).collect();
    assert_eq!(drained, expected);
    assert!(!bob.pending().await);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "breaks the functions' calls")]
async fn what_failed_too_often_is_a_dead_letter_and_goes_on_in_order_once_it_is_redriven() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let proxy = Proxy::open({
        let is_broken = Arc::clone(&is_broken);
        move |function, call| {
            let breaks = function == "IngestFunction" && call.operation() == "TransactWriteItems";
            (breaks && is_broken.load(Ordering::Relaxed)).then_some(Fault::Status(403))
        }
    })
    .await;
    let server = proxy.server_with(|options| options.streams.visibility_max = Duration::from_millis(20)).await;
    for number in 1..=3 {
        publish(&server, "bob", &format!("m{number}"), &number.to_string()).await;
    }
    settled(queue(&server)).await;
    let letters = dead_letters(&server).messages();
    assert_eq!((letters.len(), &letters[0].1["reason"]["StringValue"]), (3, &json!("unavailable")));
    assert_eq!(told(&server, "bob").await, Vec::<String>::new());

    is_broken.store(false, Ordering::Relaxed);
    let arn = |name: &str| format!("arn:aws:sqs:us-east-1:000000000000:{name}.fifo");
    let redrive = json!({"SourceArn": arn("BackendDeadLetters"), "DestinationArn": arn("BackendQueue")});
    sqs(&server, "StartMessageMoveTask", redrive).await;
    settled(queue(&server)).await;
    assert_eq!(told(&server, "bob").await, ["1", "2", "3"]);
    assert!(dead_letters(&server).is_empty());
}
