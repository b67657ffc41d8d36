//! Groups, as their members see them.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{Phone, TestServer};

fn about(action: &str, group: &str, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": group});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn say(group: &str, id: &str, body: &str) -> Value {
    about("send", group, &json!({"client_msg_id": id, "kind": "text", "body": body}))
}

async fn create(phone: &mut Phone, members: &[&str]) -> String {
    let frame = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": members});
    phone.ok(frame).await["conversation_id"].as_str().unwrap().to_owned()
}

/// Returns the next entry in an event to the phone.
async fn told(phone: &mut Phone) -> Value {
    phone.event("messages.new").await["messages"][0].take()
}

/// Returns the entry with this number. The sender's function and the stream's may both send an event, also to new
/// members.
async fn told_of(phone: &mut Phone, seq: &Value) -> Value {
    let is_it = |frame: &Value| frame["type"] == "messages.new" && frame["messages"][0]["seq"] == *seq;
    phone.wait_for(is_it).await["messages"][0].take()
}

async fn row(phone: &mut Phone, group: &str) -> Value {
    phone.inbox().await.into_iter().find(|row| row["conversation_id"] == group).expect("the group is in the inbox")
}

fn seqs(messages: &[Value]) -> Vec<u64> {
    messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect()
}

/// Alice makes a group of three, and all of them have its first entry.
async fn three(server: &TestServer) -> (Phone, Phone, Phone, String) {
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let mut carol = server.phone("carol").await;
    let group = create(&mut alice, &["bob", "carol"]).await;
    for phone in [&mut bob, &mut carol] {
        assert_eq!(told(phone).await["system"]["event"], "created");
        phone.ack(&group, 1).await;
    }
    (alice, bob, carol, group)
}

#[tokio::test]
async fn three_phones_chat() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, mut carol, group) = three(&server).await;
    let mut tablet = server.phone("bob").await;
    // The author of the covered entry gets each receipt.
    for _ in 0..2 {
        assert_eq!(alice.event("receipt.delivered").await["seq"], 1);
    }
    let sent = bob.ok(say(&group, "m1", "hi")).await;
    for phone in [&mut alice, &mut carol, &mut tablet] {
        let entry = told_of(phone, &sent["seq"]).await;
        assert_eq!((&entry["body"], &entry["sender_id"]), (&json!("hi"), &json!("bob")));
    }
    bob.expect_silence().await;
    carol.read(&group, 2).await;
    // Her first read mark covers what Alice wrote, too.
    for phone in [&mut alice, &mut bob] {
        let receipt = phone.event("receipt.read").await;
        assert_eq!((&receipt["user_id"], &receipt["seq"]), (&json!("carol"), &json!(2)));
    }
    alice.ok(say(&group, "m2", "hello")).await;
    told(&mut bob).await;
    bob.ack(&group, 3).await;
    assert_eq!(alice.event("receipt.delivered").await["seq"], 3);
    carol.read(&group, 3).await;
    // An event may come twice.
    alice.wait_for(|frame| frame["type"] == "receipt.read" && frame["seq"] == 3).await;
    bob.expect_silence().await;
    let row = row(&mut bob, &group).await;
    assert_eq!((&row["unread"], &row["last_message"]["preview"]), (&json!(1), &json!("hello")));
    assert_eq!(row["title"], "Trip");
    let receipts = bob.ok(about("receipts", &group, &json!({}))).await;
    assert_eq!((&receipts["delivered_seq"], &receipts["read_seq"]), (&json!(1), &json!(1)));
    let marks: Vec<_> =
        receipts["members"].as_array().unwrap().iter().map(|m| m["read_seq"].as_u64().unwrap()).collect();
    assert_eq!(marks, [1, 3], "alice, carol");
    bob.send_text(&about("typing", &group, &json!({})).to_string()).await;
    assert_eq!(carol.event("typing").await["user_id"], "bob");
}

#[tokio::test]
async fn changes_and_mentions_reach_everybody() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, mut carol, group) = three(&server).await;
    let mut mention = say(&group, "m1", "hi @bob");
    mention["mentions"] = json!(["bob"]);
    alice.ok(mention).await;
    assert_eq!(told(&mut bob).await["mentions"], json!(["bob"]));
    told(&mut carol).await;
    let [bobs, carols] = [row(&mut bob, &group).await, row(&mut carol, &group).await];
    assert_eq!((&bobs["mentions"], &carols["mentions"], &carols["unread"]), (&json!(1), &json!(0), &json!(1)));
    alice.ok(about("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "hello @bob"}))).await;
    assert_eq!(told(&mut bob).await["body"], "hello @bob");
    assert_eq!(row(&mut carol, &group).await["last_message"]["preview"], "hello @bob");
    carol.ok(about("react", &group, &json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"}))).await;
    assert_eq!(told(&mut bob).await["emoji"], "👍");
    let reactions = bob.ok(about("reactions", &group, &json!({"seq": 2}))).await;
    assert_eq!(reactions["reactions"], json!([{"user_id": "carol", "emoji": "👍"}]));
    // Others' messages are for admins to delete.
    let delete = about("delete", &group, &json!({"seq": 2, "client_msg_id": "d1"}));
    assert_eq!(bob.refused(delete.clone()).await, "forbidden");
    alice.ok(about("role", &group, &json!({"client_msg_id": "o1", "user_id": "bob", "role": "admin"}))).await;
    bob.ok(delete.clone()).await;
    let line = row(&mut bob, &group).await;
    assert_eq!((&line["unread"], &line["mentions"], &line["role"]), (&json!(0), &json!(0), &json!("admin")));
    assert_eq!(line["last_message"]["system"]["event"], "role.changed");
    assert_eq!(alice.refused(delete).await, "gone");
    let everybody = |id: &str| {
        let mut frame = say(&group, id, "all");
        frame["mentions"] = json!(["*"]);
        frame
    };
    assert_eq!(carol.refused(everybody("x")).await, "forbidden");
    alice.ok(everybody("m2")).await;
    assert_eq!(row(&mut carol, &group).await["mentions"], 1);
    let mut direct = json!({"action": "send", "to": "bob", "client_msg_id": "x", "kind": "text", "body": "x"});
    direct["mentions"] = json!(["bob"]);
    assert_eq!(alice.refused(direct).await, "bad_request");
}

#[tokio::test]
async fn who_is_removed_hears_that_and_nothing_more() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, mut carol, group) = three(&server).await;
    alice.ok(say(&group, "m1", "before")).await;
    told(&mut carol).await;
    alice.ok(about("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
    assert_eq!(told(&mut carol).await["system"], json!({"event": "members.removed", "members": ["carol"]}));
    alice.ok(say(&group, "m2", "secret")).await;
    bob.ok(about("react", &group, &json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"}))).await;
    carol.ack(&group, 99).await;
    assert!(!carol.pending().await);
    carol.expect_silence().await;
    for frame in [say(&group, "x", "x"), about("typing", &group, &json!({}))] {
        carol.send_text(&frame.to_string()).await;
    }
    let history = carol.history(&group).await;
    assert_eq!((seqs(history["messages"].as_array().unwrap()), &history["last_seq"]), (vec![1, 2, 3], &json!(3)));
    let row = row(&mut carol, &group).await;
    assert_eq!((&row["role"], &row["member_count"], &row["last_seq"]), (&json!("none"), &json!(3), &json!(3)));
    assert!(!row.to_string().contains("secret"));
    assert_eq!(server.phone("carol").await.drain().await, Vec::<Value>::new());
    assert_eq!(alice.ok(about("members", &group, &json!({}))).await["members"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn who_joins_sees_nothing_from_before() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, _carol, group) = three(&server).await;
    alice.ok(say(&group, "m1", "secret")).await;
    let mut dave = server.phone("dave").await;
    assert_eq!(dave.refused(about("history", &group, &json!({}))).await, "not_member");
    bob.ok(about("add", &group, &json!({"client_msg_id": "a1", "members": ["dave"]}))).await;
    assert_eq!(told(&mut dave).await["seq"], 3);
    bob.ok(about("react", &group, &json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"}))).await;
    let entry = told(&mut dave).await;
    assert_eq!((&entry["target_seq"], &entry["emoji"], &entry["body"]), (&json!(2), &json!("👍"), &json!("")));
    alice.ok(about("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "secret"}))).await;
    told(&mut dave).await;
    let (row, history) = (row(&mut dave, &group).await, dave.history(&group).await);
    assert_eq!((&row["first_seq"], &row["unread"], &history["first_seq"]), (&json!(3), &json!(0), &json!(3)));
    assert_eq!(seqs(history["messages"].as_array().unwrap()), [3, 4, 5]);
    let before = dave.ok(about("history", &group, &json!({"before_seq": 3}))).await;
    assert_eq!((&before["messages"], &before["more"]), (&json!([]), &json!(false)));
    assert!(![row, history].iter().any(|answer| answer.to_string().contains("secret")));
    // Where the group says so, all of it.
    alice.ok(about("update", &group, &json!({"client_msg_id": "u1", "history": "all"}))).await;
    alice.ok(about("add", &group, &json!({"client_msg_id": "a2", "members": ["erin"]}))).await;
    let mut erin = server.phone("erin").await;
    assert_eq!(seqs(erin.history(&group).await["messages"].as_array().unwrap()), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(seqs(&erin.drain().await), [7]);
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_and_leaves_nothing() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, mut carol, group) = three(&server).await;
    let mut mallory = server.phone("mallory").await;
    for frame in [
        say(&group, "x", "x"),
        about("add", &group, &json!({"client_msg_id": "x", "members": ["mallory"]})),
        about("leave", &group, &json!({"client_msg_id": "x"})),
        about("members", &group, &json!({})),
        about("receipts", &group, &json!({})),
        about("reactions", &group, &json!({"seq": 1})),
        about("history", &group, &json!({})),
        about("settings", &group, &json!({"set": {"archived": true}})),
        about("read", &group, &json!({"seq": 1})),
    ] {
        assert_eq!(mallory.refused(frame.clone()).await, "not_member", "{frame}");
    }
    alice.ok(about("update", &group, &json!({"client_msg_id": "u1", "post": "admins", "add": "admins"}))).await;
    for frame in [
        say(&group, "x", "x"),
        about("add", &group, &json!({"client_msg_id": "x", "members": ["dave"]})),
        about("update", &group, &json!({"client_msg_id": "x", "title": "x"})),
        about("remove", &group, &json!({"client_msg_id": "x", "user_id": "carol"})),
        about("role", &group, &json!({"client_msg_id": "x", "user_id": "bob", "role": "owner"})),
    ] {
        assert_eq!(bob.refused(frame.clone()).await, "forbidden", "{frame}");
    }
    assert_eq!(alice.refused(about("leave", &group, &json!({"client_msg_id": "l1"}))).await, "forbidden");
    let remove = about("remove", &group, &json!({"client_msg_id": "x", "user_id": "mallory"}));
    assert_eq!(alice.refused(remove).await, "gone");
    // A user who blocks another one can't be added to a group by that user.
    carol.ok(json!({"action": "settings", "user_id": "mallory", "set": {"blocked": true}})).await;
    let together = json!({"action": "create", "client_msg_id": "c1", "title": "x", "members": ["bob", "carol"]});
    assert_eq!(mallory.refused(together).await, "forbidden");
    assert_eq!(alice.history(&group).await["last_seq"], 2);
    // Handed over, it can be left; and whoever is the last leaves too.
    alice.ok(about("role", &group, &json!({"client_msg_id": "o1", "user_id": "bob", "role": "owner"}))).await;
    for phone in [&mut alice, &mut carol, &mut bob] {
        phone.ok(about("leave", &group, &json!({"client_msg_id": "l2"}))).await;
    }
    let last = bob.history(&group).await;
    assert_eq!(last["messages"].as_array().unwrap().last().unwrap()["system"], json!({"event": "member.left"}));
}

#[tokio::test]
async fn a_group_has_so_many_members() {
    let server = TestServer::with(|options| {
        options.parameters.insert("GroupMembersMax".to_owned(), "3".to_owned());
    })
    .await;
    let (mut alice, .., group) = three(&server).await;
    let add = |id: &str| about("add", &group, &json!({"client_msg_id": id, "members": ["dave"]}));
    assert_eq!(alice.refused(add("a1")).await, "limit_reached");
    alice.ok(about("remove", &group, &json!({"client_msg_id": "x1", "user_id": "bob"}))).await;
    alice.ok(add("a1")).await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "holds the stream of the local server")]
async fn whoever_looks_sees_everything_while_the_stream_is_held() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    // Too large to be told by who writes.
    let others: Vec<String> = (0..40).map(|number| format!("u{number}")).collect();
    let group = create(&mut alice, &others.iter().map(String::as_str).collect::<Vec<_>>()).await;
    server.groups_settled().await;
    server.group_stream().hold().await;
    let (mut first, mut second) = (server.phone("u1").await, server.phone("u2").await);
    alice.ok(say(&group, "m1", "hi")).await;
    assert_eq!(row(&mut first, &group).await["last_message"]["preview"], "hi");
    assert_eq!(told(&mut first).await["body"], "hi");
    assert_eq!(seqs(second.history(&group).await["messages"].as_array().unwrap()), [1, 2]);
    assert_eq!(second.read(&group, 2).await, 0);
    let mut third = server.phone("u3").await;
    assert_eq!(seqs(&third.drain().await), [1, 2], "the first page's ack brings its row there");
    assert_eq!(told(&mut third).await["body"], "hi");
    let mut fourth = server.phone("u4").await;
    assert_eq!(
        fourth.ok(json!({"action": "drain"})).await["messages"].as_array().unwrap().len(),
        1,
        "its row is behind"
    );
    server.group_stream().duplicate(true);
    server.group_stream().release();
    server.groups_settled().await;
    assert_eq!(told(&mut fourth).await["body"], "hi");
    // The same record once more: the first run may have died before its posts to devices without an acknowledgement.
    assert_eq!(told(&mut fourth).await["body"], "hi");
    third.expect_silence().await;
    fourth.expect_silence().await;
    assert_eq!(seqs(&fourth.drain().await), [1, 2]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "kills sandboxes of the local server")]
async fn a_fanout_that_is_killed_is_made_again() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let others: Vec<String> = (0..45).map(|number| format!("u{number}")).collect();
    let group = create(&mut alice, &others.iter().map(String::as_str).collect::<Vec<_>>()).await;
    server.groups_settled().await;
    let mut phones = vec![];
    for user in &others[..8] {
        let mut phone = server.phone(user).await;
        assert_eq!(seqs(&phone.drain().await), [1]);
        phones.push(phone);
    }
    for number in 2..=6 {
        alice.ok(say(&group, &format!("m{number}"), "hi")).await;
        for pid in server.local().sandboxes("FanoutFunction") {
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
    }
    server.groups_settled().await;
    for phone in &mut phones {
        // Told or not, it is pending.
        assert_eq!(seqs(&phone.drain().await), [2, 3, 4, 5, 6]);
    }
}

#[tokio::test]
async fn fifty_of_five_hundred_are_connected() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let others: Vec<String> = (0..499).map(|number| format!("u{number}")).collect();
    let mut chunks = others.chunks(50);
    let first: Vec<&str> = chunks.next().unwrap().iter().map(String::as_str).collect();
    let group = create(&mut alice, &first).await;
    for (number, chunk) in chunks.enumerate() {
        alice.ok(about("add", &group, &json!({"client_msg_id": format!("a{number}"), "members": chunk}))).await;
    }
    let mut phones = vec![];
    for user in others.iter().rev().take(50) {
        phones.push(server.phone(user).await);
    }
    alice.ok(say(&group, "m1", "hi")).await;
    for phone in &mut phones {
        phone
            .wait_for(|frame| frame["messages"].as_array().is_some_and(|all| all.iter().any(|m| m["body"] == "hi")))
            .await;
    }
    assert_eq!(row(&mut alice, &group).await["member_count"], 500);
    let page = alice.ok(about("receipts", &group, &json!({"limit": 100}))).await;
    assert_eq!(page["members"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn a_restricted_member_only_reads_until_an_admin_ends_it() {
    let server = TestServer::open().await;
    let (mut alice, mut bob, _carol, group) = three(&server).await;
    let restrict = |id: &str, until: &Value| {
        about("restrict", &group, &json!({"client_msg_id": id, "user_id": "bob", "until": until}))
    };
    alice.ok(restrict("r1", &json!("forever"))).await;
    let system = json!({"event": "member.restricted", "user_id": "bob", "until": "forever"});
    assert_eq!(told(&mut bob).await["system"], system);
    assert_eq!(row(&mut bob, &group).await["restricted_until"], "forever");
    assert_eq!(bob.refused(say(&group, "m1", "hi")).await, "forbidden");
    assert_eq!(bob.refused(restrict("r2", &Value::Null)).await, "forbidden");
    alice.ok(restrict("r2", &Value::Null)).await;
    assert_eq!(told(&mut bob).await["system"], json!({"event": "member.restricted", "user_id": "bob"}));
    bob.ok(say(&group, "m1", "hi")).await;
}
