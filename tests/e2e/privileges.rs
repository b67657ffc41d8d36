//! Least privilege, both ways: no function asks AWS for what its policy does not allow, and no policy allows what its
//! function never asks for.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::AttributeValue;
use data_encoding::BASE64;
use serde_json::{Value, json};
use serde_yaml_ng::Value as Yaml;
use sha2::{Digest as _, Sha256};
use testkit::{AwsCall, Fault, Phone, Proxy, TestServer};
use wire::limits::PINNED_CONVERSATIONS_MAX;

use crate::backend::{publish, queue, settled, sqs};
use crate::http::post;
use crate::keys::publication;
use crate::sealed::birth;

/// A function, an IAM action, and the resource that it is on, as the template calls it.
type Privilege = (String, String, String);

/// What Lambda's poller asks for in the function's name.
const OF_POLLER: [(&str, &str, &str); 30] = [
    ("NotifyFunction", "dynamodb:ListStreams", "*"),
    ("NotifyFunction", "dynamodb:DescribeStream", "InboxTable.StreamArn"),
    ("NotifyFunction", "dynamodb:GetShardIterator", "InboxTable.StreamArn"),
    ("NotifyFunction", "dynamodb:GetRecords", "InboxTable.StreamArn"),
    ("NotifyFunction", "sqs:SendMessage", "NotifyFailures"),
    ("FanoutFunction", "dynamodb:ListStreams", "*"),
    ("FanoutFunction", "dynamodb:DescribeStream", "ConversationsTable.StreamArn"),
    ("FanoutFunction", "dynamodb:GetShardIterator", "ConversationsTable.StreamArn"),
    ("FanoutFunction", "dynamodb:GetRecords", "ConversationsTable.StreamArn"),
    // Events that failed after all retries.
    ("FanoutFunction", "sqs:SendMessage", "FanoutFailures"),
    ("IngestFunction", "sqs:ReceiveMessage", "BackendQueue"),
    ("IngestFunction", "sqs:DeleteMessage", "BackendQueue"),
    ("IngestFunction", "sqs:GetQueueAttributes", "BackendQueue"),
    ("JobsFunction", "dynamodb:ListStreams", "*"),
    ("JobsFunction", "dynamodb:DescribeStream", "AuditTable.StreamArn"),
    ("JobsFunction", "dynamodb:GetShardIterator", "AuditTable.StreamArn"),
    ("JobsFunction", "dynamodb:GetRecords", "AuditTable.StreamArn"),
    ("MediaFunction", "dynamodb:ListStreams", "*"),
    ("MediaFunction", "dynamodb:DescribeStream", "MediaTable.StreamArn"),
    ("MediaFunction", "dynamodb:GetShardIterator", "MediaTable.StreamArn"),
    ("MediaFunction", "dynamodb:GetRecords", "MediaTable.StreamArn"),
    ("MediaFunction", "sqs:SendMessage", "MediaFailures"),
    ("PublishFunction", "dynamodb:ListStreams", "*"),
    ("PublishFunction", "dynamodb:DescribeStream", "MessagesTable.StreamArn"),
    ("PublishFunction", "dynamodb:GetShardIterator", "MessagesTable.StreamArn"),
    ("PublishFunction", "dynamodb:GetRecords", "MessagesTable.StreamArn"),
    ("PublishFunction", "dynamodb:DescribeStream", "AuditTable.StreamArn"),
    ("PublishFunction", "dynamodb:GetShardIterator", "AuditTable.StreamArn"),
    ("PublishFunction", "dynamodb:GetRecords", "AuditTable.StreamArn"),
    ("PublishFunction", "sqs:SendMessage", "PublishFailures"),
];

/// The local server has a queue for events, and no bus.
const OF_BUS: (&str, &str, &str) = ("PublishFunction", "events:PutEvents", "EventsTo");

/// The calls to Lambda do not pass the proxy. `filter.rs` runs a filter.
const OF_FILTER: [(&str, &str, &str); 2] = [
    ("SendFunction", "lambda:InvokeFunction", "SendHookArn"),
    ("GroupFunction", "lambda:InvokeFunction", "SendHookArn"),
];

/// SNS's platform applications: the template's parameter, what their ARNs have, and what clients call the platform.
const APPLICATIONS: [(&str, &str, &str); 3] = [
    ("ApnsApplicationArn", "/APNS/", "apns"),
    ("ApnsSandboxApplicationArn", "/APNS_SANDBOX/", "apns_sandbox"),
    ("FcmApplicationArn", "/GCM/", "fcm"),
];

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "sees the functions' calls to AWS")]
async fn the_functions_may_do_what_they_do_and_nothing_else() {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let (record, is_full) = (Arc::clone(&asked), Arc::new(AtomicBool::new(false)));
    let full = Arc::clone(&is_full);
    let proxy = Proxy::open(move |function, call| {
        record.lock().unwrap().extend(privileges(function, call));
        if full.load(Ordering::Relaxed) && call.writes() && call.is_about("InboxTable", "late") {
            return Some(Fault::Full);
        }
        // The function reads a hot partition twice.
        let is_hot = function == "FanoutFunction" && call.operation() == "BatchGetItem";
        (is_hot && call.is_about("InboxTable", "u7")).then_some(Fault::Hot("u7"))
    })
    .await;
    let limits = [("RequestRate", "300+10/1s"), ("ConnectionsPerUser", "2"), ("FirstMessageRate", "900+1/180s")];
    let limits = limits.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let server = proxy
        .server_with(|options| {
            TestServer::ringing(options, 1);
            TestServer::publishing(options);
            options.parameters.extend(limits);
        })
        .await;
    do_everything(&server).await;
    small_group(&server).await;
    lagging_group(&server, &is_full).await;
    large_group(&server).await;
    carry(&server).await;
    channel(&server).await;
    for (_, _, platform) in APPLICATIONS {
        ring(&server, platform).await;
    }
    pin(&server).await;
    do_too_much(&server).await;
    exchange_keys(&server).await;
    seal(&server).await;
    operate(&server).await;
    serve(&server).await;
    erase(&server).await;
    server.until_connections("alice", 0).await;

    let (mut asked, allowed) = (asked.lock().unwrap().clone(), allowed());
    let unseen = OF_POLLER.into_iter().chain(OF_FILTER).chain([OF_BUS]);
    asked.extend(unseen.map(|(function, action, on)| (function.to_owned(), action.to_owned(), on.to_owned())));
    let denied: Vec<_> = asked.difference(&allowed).collect();
    assert!(denied.is_empty(), "not allowed by template.yaml: {denied:#?}");
    let unused: Vec<_> = allowed.difference(&asked).collect();
    assert!(unused.is_empty(), "allowed by template.yaml, and not asked for: {unused:#?}");
}

/// Every action, with everything that can come of it.
async fn do_everything(server: &TestServer) {
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    // A dead connection is found by each function that posts: with a message, with a receipt, with a read mark.
    for action in ["send", "ack", "read"] {
        alice.send("bob", &format!("{action}-1"), "hi").await;
        let second = alice.send("bob", &format!("{action}-2"), "hi").await;
        let (conversation, seq) = (second["conversation_id"].as_str().unwrap(), second["seq"].as_u64().unwrap());
        let row = if action == "send" { "bob" } else { "alice" };
        server.store_dead_connection(row).await;
        match action {
            "send" => drop(alice.send("bob", "send-3", "hi").await),
            // Below the last message: the row, and what is left of the conversation, are read.
            "ack" => bob.ack(conversation, seq - 1).await,
            _ => drop(bob.read(conversation, seq - 1).await),
        }
    }
    change_everything(&mut alice, &mut bob).await;
    bob.drain().await;
    bob.inbox().await;
    assert!(!bob.pending().await);
    for set in [
        json!({"user_id": "nobody", "set": {"blocked": true}}),
        json!({"user_id": "nobody", "set": {"blocked": false}}),
        json!({"user_id": "mallory", "set": {"blocked": true}}),
        json!({"conversation_id": "dm_x", "set": {"archived": true}}),
    ] {
        let mut frame = set;
        frame["action"] = json!("settings");
        bob.ask(frame).await;
    }
    // The server checks whether a refused message is stored already.
    let mut mallory = server.phone("mallory").await;
    let send = json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi"});
    assert_eq!(mallory.refused(send).await, "forbidden");
    mallory.leave().await;
    let conversation = bob.conversation("alice").await["conversation_id"].as_str().unwrap().to_owned();
    bob.history(&conversation).await;
    bob.ok(json!({"action": "profile", "set": {"name": "Bob"}})).await;
    bob.ok(json!({"action": "profiles", "user_ids": ["alice", "bob"]})).await;
    bob.ok(json!({"action": "report", "conversation_id": conversation, "seqs": [1], "reason": "spam"})).await;
    assert_eq!(bob.refused(json!({"action": "dance"})).await, "unknown_action");
    alice.leave().await;
    bob.leave().await;
}

/// Changes of messages, and who is there to see them.
async fn change_everything(alice: &mut Phone, bob: &mut Phone) {
    let sent = alice.send("bob", "change", "hi").await;
    let (id, seq) = (&sent["conversation_id"], sent["seq"].as_u64().unwrap());
    bob.ack(id.as_str().unwrap(), seq).await;
    let change = |action: &str, more: Value| {
        let mut frame = json!({"action": action, "conversation_id": id, "seq": seq, "client_msg_id": action});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    let edit = change("edit", json!({"body": "hello"}));
    alice.ok(edit.clone()).await;
    // The page lacks the target of the reaction.
    bob.ok(json!({"action": "history", "conversation_id": id, "limit": 1})).await;
    bob.ok(json!({"action": "drain"})).await;
    bob.ok(change("react", json!({"emoji": "👍"}))).await;
    bob.ok(change("pin", json!({"pinned": true}))).await;
    alice.ok(change("delete", json!({}))).await;
    // Repeated: looked up, and told.
    alice.ok(edit).await;
    // A stranger sees neither.
    bob.send("alice", "answer", "hi").await;
    bob.send_text(&json!({"action": "typing", "conversation_id": id}).to_string()).await;
    alice.event("typing").await;
    alice.ok(json!({"action": "presence", "user_ids": ["bob"]})).await;
}

/// The key directory: published, listed, claimed until few are left, and removed.
async fn exchange_keys(server: &TestServer) {
    let (mut first, mut second) = (server.device("kim", "pixel").await, server.device("lee", "pixel").await);
    second.ok(publication("pixel", &["a", "b"])).await;
    // A dead connection of the device, which has published on another day.
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let put = server.tables().put_item().table_name("ConnectionsTable").item("user_id", text("lee"));
    let put = put.item("connection_id", text("dead=")).item("device_id", text("pixel"));
    let put = put.item("connected_at", AttributeValue::N("1700000000000".to_owned()));
    put.item("ends_at", AttributeValue::N("4102444800000".to_owned())).send().await.unwrap();
    let seen = server.tables().update_item().table_name("KeysTable").key("user_id", text("lee"));
    let seen = seen.key("key_id", text("device pixel")).update_expression("SET seen_at = :day");
    seen.expression_attribute_values(":day", AttributeValue::N("0".to_owned())).send().await.unwrap();
    let claim = json!({"action": "claim_keys", "claim_id": "k1", "users": ["lee"]});
    first.ok(claim).await;
    second.event("keys.low").await;
    second.ok(json!({"action": "list_keys"})).await;
    second.ok(json!({"action": "remove_keys", "device_id": "pixel"})).await;
    first.leave().await;
    second.leave().await;
}

/// A sealed conversation: commits, one of them repeated and one refused, and what a device needs to join.
async fn seal(server: &TestServer) {
    let (mut first, mut second) = (server.device("kim", "pixel").await, server.device("lee", "pixel").await);
    let born = first.ok(birth("lee", "b1")).await;
    // Repeated, and read. Another one is refused, and looked up.
    assert_eq!(first.ok(birth("lee", "b1")).await["duplicate"], true);
    assert_eq!(second.refused(birth("kim", "b2")).await, "stale_epoch");
    second.ok(json!({"action": "group_info", "conversation_id": born["conversation_id"]})).await;
    let create = json!({"action": "create", "client_msg_id": "sealed", "title": "Trip", "members": ["lee", "mia"]});
    let group = first.ok(create).await["conversation_id"].take();
    let keys = |epoch: u64| json!({"epoch": epoch, "commit": "AAEC", "group_info": "AAED", "tree": "AAEE"});
    let with = |keys: Value, more: Value| {
        let mut keys = keys;
        keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        keys
    };
    let claim = json!({"action": "claim_keys", "claim_id": "k2", "users": ["lee"], "conversation_id": group});
    first.ask(claim).await;
    let mut birth = with(keys(0), json!({"welcome": "AAEF"}));
    birth.as_object_mut().unwrap().remove("commit");
    let birth = about(&group, "commit", "g1", &birth);
    first.ok(birth.clone()).await;
    assert_eq!(first.ok(birth).await["duplicate"], true);
    second.ok(json!({"action": "group_info", "conversation_id": group})).await;
    server.store_dead_connection("mia").await;
    second.ok(about(&group, "commit", "g2", &keys(1))).await;
    // A member who comes back sees no entry with the newest tree.
    let mut third = server.phone("mia").await;
    third.ok(about(&group, "leave", "l1", &json!({}))).await;
    let (of_commit, of_remove) = (file(server, &mut second, &group).await, file(server, &mut first, &group).await);
    second.ok(about(&group, "commit", "g3", &with(keys(2), json!({"tree": &of_commit})))).await;
    third.ok(json!({"action": "join", "conversation_id": group})).await;
    let got = third.ok(json!({"action": "download", "media_ids": [of_commit["media_id"]]})).await;
    assert_eq!(got["gone"], json!([]));
    third.leave().await;
    let of_remove = with(keys(3), json!({"user_id": "mia", "commit": of_remove}));
    first.ok(about(&group, "remove", "g4", &of_remove)).await;
    first.leave().await;
    second.leave().await;
}

/// Uploads a part of a commit.
async fn file(server: &TestServer, device: &mut Phone, group: &Value) -> Value {
    let sha256 = BASE64.encode(&Sha256::digest(b"part"));
    let upload = json!({"action": "upload", "conversation_id": group, "kind": "sealed", "bytes": 4, "sha256": sha256});
    let place = device.ok(upload).await;
    assert_eq!(put(server, &place, b"part").await, 200);
    device.ok(json!({"action": "uploaded", "media_id": place["media_id"]})).await;
    json!({"media_id": place["media_id"]})
}

/// Puts the bytes where they belong. Returns the status.
async fn put(server: &TestServer, place: &Value, bytes: &[u8]) -> u16 {
    let mut put = server.http.put(place["url"].as_str().unwrap()).body(bytes.to_vec());
    for (name, value) in place["headers"].as_object().unwrap() {
        put = put.header(name, value.as_str().unwrap());
    }
    put.send().await.unwrap().status().as_u16()
}

fn about(group: &Value, action: &str, id: &str, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": group, "client_msg_id": id});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn say(group: &Value, id: &str) -> Value {
    about(group, "send", id, &json!({"kind": "text", "body": "hi"}))
}

/// A small group: the writer's function updates the members.
async fn small_group(server: &TestServer) {
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let create = json!({"action": "create", "client_msg_id": "small", "title": "Trip", "members": ["bob"]});
    let group = alice.ok(create.clone()).await["conversation_id"].take();
    server.store_dead_connection("bob").await;
    // Repeated: looked up.
    assert_eq!(alice.ok(create).await["duplicate"], true);
    // Else it could be the stream that finds the dead one.
    server.group_stream().hold().await;
    alice.ok(about(&group, "add", "a1", &json!({"members": ["carol"]}))).await;
    server.group_stream().release();
    alice.ok(say(&group, "m1")).await;
    bob.ack(group.as_str().unwrap(), 3).await;
    bob.read(group.as_str().unwrap(), 3).await;
    bob.send_text(&json!({"action": "typing", "conversation_id": group}).to_string()).await;
    alice.event("typing").await;
    let mut phone = server.device("carol", "fcm").await;
    phone.ok(json!({"action": "device", "platform": "fcm", "token": "ca01", "preview": true})).await;
    phone.leave().await;
    alice.ok(about(&group, "edit", "e1", &json!({"seq": 3, "body": "hello"}))).await;
    alice.ok(say(&group, "m2")).await;
    server.phones("carol").await;
    alice.ok(about(&group, "members", "", &json!({}))).await;
    alice.ok(about(&group, "receipts", "", &json!({}))).await;
    alice.ok(about(&group, "reactions", "", &json!({"seq": 3}))).await;
    alice.inbox().await;
    alice.ok(about(&group, "remove", "x1", &json!({"user_id": "carol"}))).await;
    let mut carol = server.phone("carol").await;
    carol.inbox().await;
    carol.leave().await;
    let direct = bob.send("alice", "direct", "hi").await;
    bob.ok(about(&direct["conversation_id"], "reactions", "", &json!({"seq": direct["seq"]}))).await;
    alice.leave().await;
    bob.leave().await;
}

/// A member's row is behind the log: the function that writes the next entry reads the entries between.
async fn lagging_group(server: &TestServer, is_full: &AtomicBool) {
    let mut alice = server.phone("alice").await;
    server.group_stream().hold().await;
    is_full.store(true, Ordering::Relaxed);
    let create = json!({"action": "create", "client_msg_id": "lagging", "title": "Trip", "members": ["late"]});
    let group = alice.ok(create).await["conversation_id"].take();
    alice.ok(say(&group, "m1")).await;
    alice.ok(about(&group, "update", "t1", &json!({"title": "Journey"}))).await;
    let mut device = server.device("alice", "pixel").await;
    let birth = json!({"epoch": 0, "welcome": "AAEF", "group_info": "AAED", "tree": "AAEE"});
    device.ok(about(&group, "commit", "g1", &birth)).await;
    device.leave().await;
    is_full.store(false, Ordering::Relaxed);
    server.group_stream().release();
    alice.leave().await;
}

/// A large group: the stream updates the members, and a member's own request does so earlier.
async fn large_group(server: &TestServer) {
    let mut alice = server.phone("alice").await;
    let others: Vec<String> = (0..40).map(|number| format!("u{number}")).collect();
    let create = json!({"action": "create", "client_msg_id": "large", "title": "Club", "members": others});
    let group = alice.ok(create).await["conversation_id"].take();
    let mut looks = [server.phone("u1").await, server.phone("u2").await, server.phone("u3").await];
    alice.ok(say(&group, "m1")).await;
    server.groups_settled().await;
    server.group_stream().hold().await;
    server.store_dead_connection("u3").await;
    server.store_dead_connection("u4").await;
    server.store_ended_connection("u5").await;
    alice.ok(about(&group, "edit", "e1", &json!({"seq": 2, "body": "hello"}))).await;
    let [first, second, third] = &mut looks;
    first.ack(group.as_str().unwrap(), 3).await;
    second.read(group.as_str().unwrap(), 3).await;
    third.inbox().await;
    alice.ok(about(&group, "remove", "x1", &json!({"user_id": "u6"}))).await;
    server.group_stream().release();
    server.groups_settled().await;
    for mut phone in looks {
        // The last message is the removal of a member.
        phone.inbox().await;
        phone.leave().await;
    }
    alice.leave().await;
}

/// Every path of media: whole and in parts, in a group, copied, deleted, and abandoned.
async fn carry(server: &TestServer) {
    let digest = |bytes: &[u8]| BASE64.encode(&Sha256::digest(bytes));
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let create = json!({"action": "create", "client_msg_id": "media", "title": "Trip", "members": ["bob"]});
    let group = alice.ok(create).await["conversation_id"].take();
    let described = |bytes: &[u8]| json!({"mime": "x/y", "bytes": bytes.len(), "sha256": digest(bytes)});
    let announce = |bytes: &[u8]| {
        let mut frame = described(bytes);
        frame["action"] = json!("upload");
        frame["kind"] = json!("file");
        frame["conversation_id"] = group.clone();
        frame
    };
    let place = alice.ok(announce(b"hi")).await;
    assert_eq!(put(server, &place, b"hi").await, 200);
    alice.ok(json!({"action": "uploaded", "media_id": place["media_id"]})).await;
    let mut media = described(b"hi");
    media["media_id"] = place["media_id"].clone();
    media["name"] = json!("a.txt");
    let send = about(&group, "send", "c1", &json!({"kind": "file", "body": "", "media": &media}));
    let seq = alice.ok(send).await["seq"].clone();
    let got = bob.ok(json!({"action": "download", "media_ids": [place["media_id"]]})).await;
    let got = server.http.get(got["items"][0]["url"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(got.status(), 200);
    let copy = json!({"action": "upload", "to": "carol", "copy_of": {"conversation_id": group, "seq": seq}});
    bob.ok(copy).await;
    alice.ok(about(&group, "delete", "d1", &json!({"seq": seq}))).await;

    let bytes = vec![7; 17 * 1024 * 1024];
    let parts: Vec<String> = bytes.chunks(8 * 1024 * 1024).map(digest).collect();
    let all: Vec<u8> = bytes.chunks(8 * 1024 * 1024).flat_map(Sha256::digest).collect();
    let mut announced = announce(&bytes);
    announced["sha256"] = json!(digest(&all));
    announced["parts"] = json!(parts);
    let begun = alice.ok(announced.clone()).await;
    for part in begun["parts"].as_array().unwrap() {
        let [offset, length] = ["offset", "bytes"].map(|name| usize::try_from(part[name].as_u64().unwrap()).unwrap());
        assert_eq!(put(server, part, &bytes[offset..offset + length]).await, 200);
    }
    alice.ok(json!({"action": "uploaded", "media_id": begun["media_id"]})).await;
    media["sha256"] = announced["sha256"].clone();
    media["bytes"] = announced["bytes"].clone();
    media["media_id"] = begun["media_id"].clone();
    let send = about(&group, "send", "c2", &json!({"kind": "file", "body": "", "media": media}));
    let seq = alice.ok(send).await["seq"].clone();
    // An operator deletes that one.
    let delete = json!({"op": "delete_message", "conversation_id": group, "seq": seq});
    assert!(admin(server, &delete).await["result"].is_object());
    // Given up half way.
    let given_up = alice.ok(announced).await["media_id"].as_str().unwrap().to_owned();
    let key = AttributeValue::S(given_up);
    server.tables().delete_item().table_name("MediaTable").key("media_id", key).send().await.unwrap();
    server.local().mapping("MediaStream").unwrap().settled().await;
    alice.leave().await;
    bob.leave().await;
}

/// Which is read, watched, left, and told to connections that are dead.
async fn channel(server: &TestServer) {
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let create = json!({"action": "create", "client_msg_id": "ch", "kind": "channel", "title": "News", "members": [], "join": "open"});
    let channel = alice.ok(create).await["conversation_id"].take();
    let only = |action: &str| json!({"action": action, "conversation_id": channel});
    for mut phone in [server.phone("carol").await, server.phone("dave").await] {
        phone.ok(only("join")).await;
        phone.ok(only("watch")).await;
        phone.leave().await;
    }
    bob.ok(only("join")).await;
    bob.ok(only("watch")).await;
    alice.ok(about(&channel, "send", "m1", &json!({"kind": "text", "body": "hi"}))).await;
    bob.event("messages.new").await;
    alice.ok(about(&channel, "update", "u1", &json!({"rings": "mentions"}))).await;
    alice.ok(about(&channel, "send", "m2", &json!({"kind": "text", "body": "hi", "mentions": ["bob"]}))).await;
    bob.ok(about(&channel, "react", "r1", &json!({"seq": 2, "emoji": "👍"}))).await;
    alice.ok(about(&channel, "react", "r1", &json!({"seq": 2, "emoji": "👍"}))).await;
    bob.history(channel.as_str().unwrap()).await;
    bob.ok(json!({"action": "channels"})).await;
    bob.read(channel.as_str().unwrap(), 2).await;
    bob.ok(only("unwatch")).await;
    bob.ok(only("watch")).await;
    let mut dave = server.phone("dave").await;
    dave.ok(only("leave")).await;
    dave.leave().await;
    alice.ok(about(&channel, "role", "o1", &json!({"user_id": "bob", "role": "admin"}))).await;
    alice.ok(about(&channel, "remove", "x1", &json!({"user_id": "bob"}))).await;
    server.groups_settled().await;
    for mut phone in [alice, bob] {
        phone.ask(only("leave")).await;
        phone.leave().await;
    }
}

/// A phone is registered, rung and cleared; its app is removed, and comes back; and its user logs out.
async fn ring(server: &TestServer, platform: &str) {
    let mut alice = server.phone("alice").await;
    let register = json!({"action": "device", "platform": platform, "token": "00ff", "badge": true});
    let mut phone = server.device("bob", platform).await;
    phone.ok(register.clone()).await;
    phone.leave().await;
    let sent = alice.send("bob", &format!("{platform}-1"), "hi").await;
    let again = alice.send("bob", &format!("{platform}-again"), "hi").await;
    server.phones("bob").await;
    // The device shows the remaining message again.
    let (conversation, seq) = (&again["conversation_id"], &again["seq"]);
    let id = format!("{platform}-delete");
    alice.ok(json!({"action": "delete", "conversation_id": conversation, "seq": seq, "client_msg_id": id})).await;
    server.phones("bob").await;
    server.phone("bob").await.read(sent["conversation_id"].as_str().unwrap(), sent["seq"].as_u64().unwrap()).await;
    server.phones("bob").await;
    let kill = format!("{}/phones/kill?user=bob&device_id={platform}", server.local().http_url());
    assert_eq!(server.http.post(kill).send().await.unwrap().status(), 200);
    for number in 2..=3 {
        alice.send("bob", &format!("{platform}-{number}"), "hi").await;
        server.phones("bob").await;
    }
    let mut phone = server.device("bob", platform).await;
    phone.ok(register).await;
    phone.ok(json!({"action": "device", "token": null})).await;
}

/// A list of pinned conversations that is full.
async fn pin(server: &TestServer) {
    let mut pia = server.phone("pia").await;
    for number in 0..=PINNED_CONVERSATIONS_MAX {
        let sent = pia.send(&format!("peer{number}"), &format!("pin{number}"), "hi").await;
        pia.ask(about(&sent["conversation_id"], "settings", "", &json!({"set": {"pinned": true}}))).await;
    }
    pia.ok(json!({"action": "inbox", "pinned": true})).await;
    pia.leave().await;
}

/// More than a user may: more connections, and to each function more requests, as if most of them had gone to other processes.
async fn do_too_much(server: &TestServer) {
    let mut oldest = server.phone("mallory").await;
    let (_second, _third) = (server.phone("mallory").await, server.phone("mallory").await);
    oldest.event("connection.replaced").await;
    for action in ["send", "ack", "read", "inbox", "device", "list_keys", "members", "uploaded", "dance"] {
        let user = format!("mallory-{action}");
        let mut mallory = server.phone(&user).await;
        server.store_samples(&user).await;
        mallory.flood(&json!({ "action": action }).to_string()).await;
    }
}

/// No part of the channel has room for one more to watch it.
async fn crowd(server: &TestServer, channel: &str) {
    let text = |value: String| AttributeValue::S(value);
    for part in 0..8 {
        let puts = (0..251).map(|number| {
            let put = server.tables().put_item().table_name("WatchersTable");
            put.item("channel_part", text(format!("{channel} {part}")))
                .item("connection_id", text(format!("crowd{number}=")))
                .item("user_id", text("nobody".to_owned()))
                .item("from_seq", AttributeValue::N("1".to_owned()))
                .item("ends_at", AttributeValue::N("9000000000000".to_owned()))
                .send()
        });
        for put in puts {
            put.await.unwrap();
        }
    }
}

/// Sends every request of an operator.
async fn operate(server: &TestServer) {
    let mut phone = server.phone("bob").await;
    let mut live = vec![];
    for id in ["crowded", "watched"] {
        let create =
            json!({"action": "create", "kind": "channel", "client_msg_id": id, "title": "News", "members": []});
        let channel = phone.ok(create).await["conversation_id"].take();
        if id == "crowded" {
            crowd(server, channel.as_str().unwrap()).await;
        }
        live.push(phone.ok(about(&channel, "watch", "", &json!({}))).await["live"].take());
    }
    assert_eq!(live, [false, true]);
    let close = json!({"op": "report_close", "month": "2026-01", "report_id": "r_x", "outcome": "none"});
    assert_eq!(admin(server, &close).await["error"]["code"], "gone");
    admin(server, &json!({"op": "reports", "month": "2026-01"})).await;
    admin(server, &json!({"op": "profile", "user_id": "bob", "set": {"name": "Bob"}})).await;
    let sent = phone.send("alice", "again", "hi").await;
    let replay = json!({"op": "replay", "conversation_id": sent["conversation_id"], "from_seq": 1, "to_seq": 1});
    admin(server, &replay).await;
    // The step of the replay, and the end that the step has noted.
    for _ in 0..2 {
        server.events().await;
    }
    for request in [
        json!({"op": "connections", "user_id": "bob"}),
        json!({"op": "pending", "user_id": "bob"}),
        json!({"op": "logged_as", "id": "bob"}),
        json!({"op": "conversation", "user_ids": ["alice", "bob"]}),
        json!({"op": "suspend", "user_id": "bob", "until": "2099-01-01T00:00:00Z"}),
        json!({"op": "unsuspend", "user_id": "bob"}),
    ] {
        let answer = admin(server, &request).await;
        assert!(answer["result"].is_object(), "{request}: {answer}");
    }
    repair(server).await;
}

/// Erases a user who has something in each table.
async fn erase(server: &TestServer) {
    let (mut eve, lee) = (server.device("eve", "pixel").await, server.phone("lee").await);
    for (_, _, platform) in APPLICATIONS {
        let mut phone = server.device("eve", platform).await;
        phone.ok(json!({"action": "device", "platform": platform, "token": format!("eve-{platform}")})).await;
        phone.leave().await;
    }
    eve.ok(publication("pixel", &["a", "b"])).await;
    eve.send("eve", "note", "hi").await;
    eve.send("lee", "m1", "hi").await;
    let create = json!({"action": "create", "kind": "channel", "client_msg_id": "c", "title": "News", "members": []});
    let channel = eve.ok(create).await["conversation_id"].take();
    eve.ok(about(&channel, "watch", "", &json!({}))).await;
    admin(server, &json!({"op": "hold", "user_id": "lee", "on": true})).await;
    admin(server, &json!({"op": "hold", "user_id": "lee", "on": false})).await;
    let mut begun = admin(server, &json!({"op": "erase", "user_id": "eve"})).await["result"].take();
    eve.closed().await;
    server.store_ended_connection("eve").await;
    server.jobs_done().await;
    admin(server, &json!({"op": "erase_again", "since": "2020-01-01T00:00:00Z"})).await;
    server.jobs_done().await;
    let mut job = json!({"op": "job", "job_id": begun["job_id"].take()});
    assert_eq!(admin(server, &job).await["result"]["state"], "done");
    fail_and_go_on(server, &mut job).await;
    lee.leave().await;
}

/// A job that can't be read: the function gives it up, and an operator has it go on.
async fn fail_and_go_on(server: &TestServer, job: &mut Value) {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let key = format!("job {}", job["job_id"].as_str().unwrap());
    let set = |cursor: AttributeValue, state: &str| {
        let update = server.tables().update_item().table_name("AuditTable").key("conversation_id", text(&key));
        update
            .key("seq_version", text("state"))
            .update_expression("SET #cursor = :cursor, #state = :state")
            .expression_attribute_names("#cursor", "cursor")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":cursor", cursor)
            .expression_attribute_values(":state", text(state))
    };
    set(AttributeValue::Bool(true), "running").send().await.unwrap();
    server.jobs_done().await;
    set(text(""), "failed").send().await.unwrap();
    job["again"] = json!(true);
    assert_eq!(admin(server, job).await["result"]["state"], "queued");
    server.jobs_done().await;
}

/// Sends every request of a team's own server, to the queue and to the function.
async fn serve(server: &TestServer) {
    let mut bob = server.phone("bob").await;
    server.store_dead_connection("bob").await;
    server.store_ended_connection("bob").await;
    publish(server, "bob", "p1", "hi").await;
    settled(queue(server)).await;
    bob.event("messages.new").await;
    // Again, as after a run that died; with another text; and a profile.
    let again = |body| json!({"to": "bob", "from": "@orders", "client_msg_id": "p1", "kind": "text", "body": body});
    let profile = json!({"profile": "@orders", "set": {"name": "Your orders"}});
    for (id, message) in [("again", again("hi")), ("other", again("no")), ("profile", profile)] {
        let url = server.local().http_url();
        let send = json!({
            "QueueUrl": format!("{url}/sqs/0/BackendQueue.fifo"), "MessageGroupId": "bob", "MessageDeduplicationId": id,
            "MessageBody": message.to_string(),
        });
        sqs(server, "SendMessage", send).await;
    }
    settled(queue(server)).await;
    for over_http in [false, true] {
        server.store_dead_connection("bob").await;
        server.store_ended_connection("bob").await;
        act_as_service(server, over_http).await;
    }
    let service = server.token("@http");
    post(server, &service, "services/profile", &json!({"set": {"name": "Yours"}})).await;
    for (path, frame) in [("inbox", json!({})), ("drain", json!({}))] {
        assert_eq!(post(server, &server.token("bob"), path, &frame).await.0, 200);
    }
    bob.leave().await;
}

/// Does all that a service may, by the operator's function or over HTTP.
async fn act_as_service(server: &TestServer, over_http: bool) {
    let service = if over_http { "@http" } else { "@orders" };
    let token = server.token(service);
    let ask = async |op: &str, id: &str, more: Value| {
        let mut request = json!({"op": op, "as": service, "client_msg_id": id});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut answer = if over_http {
            post(server, &token, &format!("services/{op}"), &request).await.1
        } else {
            admin(server, &request).await
        };
        answer["result"].take()
    };
    let said = json!({"to": "bob", "kind": "text", "body": "hi"});
    let sent = ask("send", "s1", said.clone()).await;
    // Repeated: looked up, and told. With another text: refused.
    ask("send", "s1", said).await;
    ask("send", "s1", json!({"to": "bob", "kind": "text", "body": "no"})).await;
    let delete = |id: &Value, seq: &Value| json!({"op": "delete_message", "conversation_id": id, "seq": seq});
    for _ in 0..2 {
        admin(server, &delete(&sent["conversation_id"], &sent["seq"])).await;
    }
    for (kind, count) in [("group", 3), ("channel", 3), ("group", 40)] {
        let members: Vec<String> = (0..count).map(|number| format!("s{number}")).collect();
        let of_kind = json!({"kind": kind, "title": "Orders", "members": members});
        let id = ask("create_group", &format!("{kind}-{count}"), of_kind).await["conversation_id"].take();
        ask("add", "a1", json!({"conversation_id": id, "members": ["s50", "s1"]})).await;
        ask("send", "m1", json!({"conversation_id": id, "kind": "text", "body": "hi"})).await;
        ask("remove", "x1", json!({"conversation_id": id, "user_id": "s0"})).await;
        assert!(admin(server, &delete(&id, &json!(3))).await["result"].is_object());
    }
}

/// Members who were left behind, and one who is missing in the roster.
async fn repair(server: &TestServer) {
    let mut alice = server.phone("alice").await;
    server.group_stream().hold().await;
    let members: Vec<String> = (0..40).map(|number| format!("r{number}")).collect();
    let create = json!({"action": "create", "client_msg_id": "repaired", "title": "Club", "members": members});
    let group = alice.ok(create).await["conversation_id"].take();
    alice.ok(say(&group, "m1")).await;
    let all = json!({"op": "repair"});
    admin(server, &all).await;
    server.store_dead_connection("r1").await;
    server.store_ended_connection("r2").await;
    alice.ok(about(&group, "edit", "e1", &json!({"seq": 2, "body": "hello"}))).await;
    alice.ok(about(&group, "remove", "x1", &json!({"user_id": "r3"}))).await;
    admin(server, &all).await;
    let lose = server.tables().delete_item().table_name("MembersTable").key("user_id", AttributeValue::S("r4".into()));
    lose.key("conversation_id", AttributeValue::S(group.as_str().unwrap().into())).send().await.unwrap();
    let one = json!({"op": "repair", "conversation_id": group});
    assert_eq!(admin(server, &one).await["result"]["roster"], 1);
    server.group_stream().release();
    alice.leave().await;
}

async fn admin(server: &TestServer, request: &Value) -> Value {
    let url = format!("{}/local/admin", server.local().http_url());
    server.http.post(url).json(request).send().await.unwrap().json().await.unwrap()
}

/// What IAM asks for a call: a transaction takes the permission of each write in it.
fn privileges(function: &str, call: &AwsCall) -> Vec<Privilege> {
    let of = |action: &str, resource: &str| {
        let service = match call {
            AwsCall::Database { .. } => "dynamodb",
            AwsCall::Push { .. } => "sns",
            AwsCall::Queue { .. } => "sqs",
            AwsCall::Object { .. } => "s3",
            AwsCall::Post { .. } | AwsCall::Close { .. } => "execute-api",
        };
        (function.to_owned(), format!("{service}:{action}"), resource.to_owned())
    };
    let resource = |body: &Value| {
        let table = body["TableName"].as_str().unwrap_or_default();
        if table == "AuditTable" && function != "JobsFunction" {
            return format!("{table} of {}", audited(function, body));
        }
        let key = body["Key"]["conversation_id"]["S"].as_str().unwrap_or_default();
        // The others may write heads, too.
        if key.starts_with("profile ") && function == "IngestFunction" {
            return format!("{table} of profile *");
        }
        body["IndexName"].as_str().map_or_else(|| table.to_owned(), |index| format!("{table}/index/{index}"))
    };
    match call.operation() {
        "PostToConnection" => vec![of("ManageConnections", "@connections/POST")],
        "DeleteConnection" => vec![of("ManageConnections", "@connections/DELETE")],
        operation if matches!(call, AwsCall::Queue { .. }) => {
            let url = call.body()["QueueUrl"].as_str().unwrap();
            if url.ends_with("/Events") {
                return vec![of("SendMessage", "EventsTo")];
            }
            vec![of(operation, url.rsplit('/').next().unwrap().trim_end_matches(".fifo"))]
        }
        operation if matches!(call, AwsCall::Object { .. }) => {
            let on = |action: &str| of(action, "MediaBucket/media");
            match operation {
                // S3 reports a missing object only to a caller that may list.
                "HeadObject" => vec![on("GetObject"), of("ListBucket", "MediaBucket")],
                "CopyObject" => vec![on("GetObject"), on("PutObject")],
                "CreateMultipartUpload" | "UploadPart" | "CompleteMultipartUpload" => vec![on("PutObject")],
                "ListParts" => vec![on("ListMultipartUploadParts")],
                other => vec![on(other)],
            }
        }
        operation if matches!(call, AwsCall::Push { .. }) => {
            let named = |name: &str| call.body()[name].as_str();
            let endpoint = named("EndpointArn").or_else(|| named("TargetArn"));
            let arn = endpoint.or_else(|| named("PlatformApplicationArn")).unwrap();
            let (parameter, ..) = APPLICATIONS.iter().find(|(_, part, _)| arn.contains(part)).unwrap();
            let resource = if endpoint.is_some() { format!("{parameter}/endpoints") } else { (*parameter).to_owned() };
            vec![of(operation, &resource)]
        }
        "BatchGetItem" => {
            let tables = call.body()["RequestItems"].as_object().into_iter().flatten();
            tables.map(|(table, _)| of("BatchGetItem", table)).collect()
        }
        "TransactWriteItems" => {
            let writes = call.body()["TransactItems"].as_array().into_iter().flatten();
            let writes = writes.flat_map(|write| write.as_object().into_iter().flatten());
            writes.map(|(kind, write)| of(&format!("{kind}Item"), &resource(write))).collect()
        }
        // An index that holds keys only has not all attributes: the rows come from the table.
        operation if call.body()["Select"] == "ALL_ATTRIBUTES" && call.body()["IndexName"].is_string() => {
            let table = call.body()["TableName"].as_str().unwrap_or_default();
            vec![of(operation, &resource(call.body())), of(operation, table)]
        }
        operation => vec![of(operation, &resource(call.body()))],
    }
}

/// Returns the partition keys among which the call's is: those of conversations, of reports, or of jobs.
fn audited(function: &str, body: &Value) -> &'static str {
    let keys = [&body["Key"]["conversation_id"], &body["Item"]["conversation_id"]];
    let of_query = [":reports", ":ledger", ":holds"].map(|name| &body["ExpressionAttributeValues"][name]);
    let key = keys.into_iter().chain(of_query).find_map(|value| value["S"].as_str()).unwrap();
    match key.split(' ').next() {
        Some("reports") => "reports *",
        Some("job" | "jobs" | "ledger" | "holds" | "lease") if function == "AdminFunction" => {
            "job *, ledger, holds, jobs, lease *"
        }
        Some("job") => "job *",
        _ => "dm_*, gr_*, ch_*",
    }
}

/// Returns the template's permissions.
fn allowed() -> BTreeSet<Privilege> {
    let text = std::fs::read_to_string(template::workspace_root().join("template.yaml")).unwrap();
    let template: Yaml = serde_yaml_ng::from_str(&text).unwrap();
    let mut allowed = BTreeSet::new();
    for (name, resource) in template["Resources"].as_mapping().unwrap() {
        // What GuardDuty may do is for AWS to say.
        if resource["Type"] == "AWS::IAM::Role" {
            continue;
        }
        let statements = resource["Properties"]["Policies"].as_sequence().into_iter().flatten();
        let statements = statements.flat_map(|policy| policy["Statement"].as_sequence().unwrap());
        for statement in statements.map(if_it_holds) {
            assert_eq!(statement["Effect"], "Allow");
            for action in one_or_more(&statement["Action"]) {
                for resource in one_or_more(&statement["Resource"]).into_iter().map(if_it_holds) {
                    let on = resource_of(resource) + &keys_of(statement);
                    allowed.insert((name.as_str().unwrap().to_owned(), text_of(action), on));
                }
            }
        }
    }
    allowed
}

/// ` of x *, y *` where the statement is about items with these partition keys.
fn keys_of(statement: &Yaml) -> String {
    let Some(keys) = statement.get("Condition") else { return String::new() };
    let keys = one_or_more(&keys["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]);
    format!(" of {}", keys.into_iter().map(text_of).collect::<Vec<_>>().join(", "))
}

fn one_or_more(value: &Yaml) -> Vec<&Yaml> {
    value.as_sequence().map_or_else(|| vec![value], |all| all.iter().collect())
}

/// Returns the branch of a condition that holds: everything is configured here.
fn if_it_holds(value: &Yaml) -> &Yaml {
    match value {
        Yaml::Tagged(tagged) if tagged.tag == "!If" => &tagged.value[1],
        value => value,
    }
}

/// Returns the string inside any intrinsic function.
fn text_of(value: &Yaml) -> String {
    match value {
        Yaml::Tagged(tagged) => text_of(&tagged.value),
        value => value.as_str().unwrap().to_owned(),
    }
}

/// `!GetAtt InboxTable.Arn` as `InboxTable`, `${InboxTable.Arn}/index/pending` as `InboxTable/index/pending`.
fn resource_of(value: &Yaml) -> String {
    if let Yaml::Tagged(tagged) = value
        && let Some(application) = endpoints_of(&tagged.value)
    {
        return format!("{application}/endpoints");
    }
    let text = text_of(value);
    for method in ["POST", "DELETE"] {
        if text.ends_with(&format!("/{method}/@connections/*")) {
            return format!("@connections/{method}");
        }
    }
    // All objects are one thing, and nothing else is in their folder.
    let text = text.replace("${MediaBucket.Arn}/media/*", "MediaBucket/media");
    assert!(!text.contains('*') || text == "*", "{text} allows more than one thing");
    text.replace("${", "").replace('}', "").replace(".Arn", "")
}

/// `["${Of}/*", {Of: !Join [":endpoint/", !Split [":app/", !Ref ApnsApplicationArn]]}]` as `ApnsApplicationArn`.
fn endpoints_of(sub: &Yaml) -> Option<String> {
    let Yaml::Tagged(join) = sub.get(1)?.get("Of")? else { return None };
    let Yaml::Tagged(split) = join.value.get(1)? else { return None };
    assert_eq!(
        (sub[0].as_str(), join.value[0].as_str(), split.value[0].as_str()),
        (Some("${Of}/*"), Some(":endpoint/"), Some(":app/"))
    );
    Some(text_of(&split.value[1]))
}
