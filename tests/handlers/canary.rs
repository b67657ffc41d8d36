//! A deleted word is nowhere: in no reply, frame, notification or log line after the delete, and in no table except the
//! operators' one. Without the delete, the same story finds the word in each.

use std::io::Write;
use std::sync::{Arc, Mutex};

use data_encoding::BASE64;
use lambda::LogKey;
use serde_json::{Value, json};
use testkit::fake_sns::Push;
use testkit::{Workbench, message_to_bob, up_to};
use tracing::instrument::WithSubscriber;

const TABLES: [&str; 11] = [
    "AuditTable",
    "ConnectionsTable",
    "ConversationsTable",
    "DevicesTable",
    "IdempotencyTable",
    "InboxTable",
    "KeysTable",
    "MediaTable",
    "MembersTable",
    "WatchersTable",
    "MessagesTable",
];

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// All that a word could be found in, by what it is.
#[derive(Default)]
struct Told(Vec<(String, String)>);

impl Told {
    fn add(&mut self, what: impl Into<String>, text: &Value) {
        self.0.push((what.into(), text.to_string()));
    }

    fn add_tables(&mut self, bench: &Workbench) {
        for table in TABLES {
            self.add(table, &json!(bench.aws.rows(table)));
        }
    }

    /// Where the word is, each place once.
    fn finds(&self, word: &str) -> Vec<&str> {
        let mut places: Vec<&str> =
            self.0.iter().filter(|(_, text)| text.contains(word)).map(|(what, _)| what.as_str()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

fn send(body: &str) -> Value {
    json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": body})
}

fn edit(id: &Value, body: &str) -> Value {
    json!({"action": "edit", "conversation_id": id, "seq": 1, "client_msg_id": "e1", "body": body})
}

/// Alice writes a word, and edits it to another one. Then the message is deleted, or not, and each user requests
/// everything.
async fn story(bench: &Workbench, first: &str, second: &str, deleted: bool) -> Told {
    assert_eq!(bench.register("bob", "aa01", json!({"preview": true})).await["type"], "reply");
    let id = bench.ok("alice", send(first)).await["conversation_id"].clone();
    bench.ok("alice", edit(&id, second)).await;
    bench
        .ok("alice", json!({"action": "react", "conversation_id": id, "seq": 1, "client_msg_id": "r1", "emoji": "👍"}))
        .await;
    if deleted {
        bench.ok("alice", json!({"action": "delete", "conversation_id": id, "seq": 1, "client_msg_id": "d1"})).await;
    }
    let mut told = Told::default();
    told.add_tables(bench);
    bench.notify().await;
    bench.aws.with_sns(|sns| {
        for push in sns.pushes() {
            told.add("notification", &json!([push.says(), push.payload]));
        }
    });
    for user in ["alice", "bob"] {
        bench.connected(user).await;
    }
    let history = json!({"action": "history", "conversation_id": id});
    let page = json!({"action": "history", "conversation_id": id, "after_seq": 1, "limit": 1});
    for (user, frame) in [
        // Repeated, as by a client that had no answer.
        ("alice", send(first)),
        ("alice", edit(&id, second)),
        ("bob", json!({"action": "drain"})),
        ("bob", history.clone()),
        ("bob", page),
        ("bob", json!({"action": "inbox"})),
        ("alice", history.clone()),
        ("alice", json!({"action": "inbox"})),
        ("bob", up_to("read", &id, 1)),
        ("bob", up_to("ack", &id, 3)),
        // Others' requests that name it, refused and served.
        ("bob", edit(&id, "x")),
        ("bob", json!({"action": "react", "conversation_id": id, "seq": 1, "client_msg_id": "r1", "emoji": "🎉"})),
        ("alice", message_to_bob("m2")),
    ] {
        let what = frame["action"].as_str().unwrap().to_owned();
        told.add(format!("answer to {what}"), &bench.run(user, frame).await);
    }
    for user in ["alice", "bob"] {
        told.add("frame", &json!(bench.aws.frames(&format!("{user}="))));
    }
    bench.notify().await;
    bench.aws.with_sns(|sns| told.add("notification", &json!(sns.pushes().iter().map(Push::says).collect::<Vec<_>>())));
    let admin = bench.started();
    told.add("answer to an operator", &admin.admin(json!({"op": "conversation", "user_ids": ["alice", "bob"]})).await);
    told.add("answer to an operator", &admin.admin(json!({"op": "pending", "user_id": "bob"})).await);
    told.add_tables(bench);
    told
}

async fn told(first: &str, second: &str, deleted: bool) -> Told {
    let bench = Workbench::ringing();
    logged(story(&bench, first, second, deleted)).await
}

/// With what the story leaves in the log.
async fn logged(story: impl Future<Output = Told>) -> Told {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = lambda::subscriber("trace", "stack-of-tests", LogKey::new("key-of-tests"), move || writer.clone());
    let mut told = story.with_subscriber(subscriber).await;
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(log.lines().count() > 10, "{log}");
    told.add("log", &json!(log));
    told
}

#[tokio::test]
async fn a_deleted_word_is_nowhere_but_with_the_operator() {
    let [first, second] = ["canary", "finch"].map(|bird| format!("{bird}-{}", fastrand::u64(..)));
    let deleted = told(&first, &second, true).await;
    for word in [&first, &second] {
        assert_eq!(deleted.finds(word), ["AuditTable"], "{word}");
    }
    let control = told(&first, &second, false).await;
    // The word before the edit is gone too.
    assert_eq!(control.finds(&first), ["AuditTable"]);
    assert_eq!(
        control.finds(&second),
        [
            "InboxTable",
            "MessagesTable",
            "answer to drain",
            "answer to history",
            "answer to inbox",
            "frame",
            "notification"
        ]
    );
}

/// Bob's phone publishes keys, and alice claims them.
async fn key_story(bench: &Workbench, credential: &str, package: &str) -> Told {
    let package = json!({"data": package, "expires_at": "2027-02-19T10:00:00.000Z"});
    let publish = json!({
        "action": "publish_keys", "credential": credential, "key_packages": [package], "last_resort": package,
    });
    let mut told = Told::default();
    for user in ["alice", "bob"] {
        bench.connected(user).await;
    }
    for (user, frame) in [
        ("bob", publish.clone()),
        ("alice", json!({"action": "list_keys"})),
        ("bob", json!({"action": "list_keys"})),
        ("alice", json!({"action": "claim_keys", "claim_id": "k1", "users": ["bob"]})),
        ("alice", json!({"action": "claim_keys", "claim_id": "k1", "users": ["bob"]})),
        ("alice", json!({"action": "claim_keys", "claim_id": "k2", "users": ["carol"]})),
        ("bob", publish),
        ("bob", json!({"action": "publish_keys", "credential": credential, "key_packages": 7})),
        ("bob", json!({"action": "remove_keys", "device_id": "firefox-7f3a"})),
    ] {
        let what = frame["action"].as_str().unwrap().to_owned();
        told.add(format!("answer to {what}"), &bench.run(user, frame).await);
    }
    told.add("frame", &json!(bench.aws.frames("bob=")));
    told
}

#[tokio::test]
async fn no_log_has_a_key() {
    let random: [u8; 24] = std::array::from_fn(|_| fastrand::u8(..));
    let package = BASE64.encode(&[&[0, 1, 0, 5, 0, 1, 0, 1], &random[..]].concat());
    let credential = BASE64.encode(&random[..15]);
    let told = logged(key_story(&Workbench::default(), &credential, &package)).await;
    assert_eq!(told.finds(&package), ["answer to claim_keys"]);
    assert_eq!(told.finds(&credential), ["answer to list_keys"]);
    // The bytes, as a program prints them that does not hide them.
    assert_eq!(told.finds(&format!("{}, {}, {}", random[0], random[1], random[2])), Vec::<&str>::new());
}

/// Alice sends a file of this name. Then the message is deleted, or not, and each user requests everything.
async fn file_story(bench: &Workbench, name: &str, deleted: bool) -> Told {
    let described = json!({"mime": "text/plain", "bytes": 2, "sha256": "j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ="});
    let with = |more: Value| {
        let mut frame = described.clone();
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    let place = bench.ok("alice", with(json!({"action": "upload", "to": "bob", "kind": "file"}))).await;
    let media_id = &place["media_id"];
    let put = bench.aws.with_s3(|s3| s3.put(place["url"].as_str().unwrap(), &place["headers"], b"hi"));
    assert_eq!(put, 200);
    bench.ok("alice", json!({"action": "uploaded", "media_id": media_id})).await;
    let media = with(json!({"media_id": media_id, "name": name}));
    let send =
        json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "file", "body": "", "media": media});
    let id = bench.ok("alice", send.clone()).await["conversation_id"].clone();
    if deleted {
        bench.ok("alice", json!({"action": "delete", "conversation_id": id, "seq": 1, "client_msg_id": "d1"})).await;
    }
    assert_eq!(bench.sweep().await, json!([]));
    let mut told = Told::default();
    for user in ["alice", "bob"] {
        bench.connected(user).await;
    }
    for (user, frame) in [
        ("alice", send),
        ("bob", json!({"action": "drain"})),
        ("bob", json!({"action": "history", "conversation_id": id})),
        ("bob", json!({"action": "inbox"})),
        ("bob", json!({"action": "download", "media_ids": [media_id]})),
        ("alice", json!({"action": "upload", "media_id": media_id})),
        ("bob", json!({"action": "upload", "to": "carol", "copy_of": {"conversation_id": id, "seq": 1}})),
    ] {
        let what = frame["action"].as_str().unwrap().to_owned();
        told.add(format!("answer to {what}"), &bench.run(user, frame).await);
    }
    for user in ["alice", "bob"] {
        told.add("frame", &json!(bench.aws.frames(&format!("{user}="))));
    }
    told.add("object", &json!(bench.aws.with_s3(|s3| s3.keys().join(" "))));
    told.add_tables(bench);
    told
}

#[tokio::test]
async fn a_deleted_file_is_nowhere_and_neither_is_its_name() {
    let name = format!("canary-{}", fastrand::u64(..));
    let deleted = logged(file_story(&Workbench::default(), &name, true)).await;
    assert_eq!(deleted.finds(&name), Vec::<&str>::new());
    assert_eq!(deleted.finds("media/file/"), Vec::<&str>::new(), "no object, and no URL of one");
    let control = logged(file_story(&Workbench::default(), &name, false)).await;
    assert_eq!(
        control.finds(&name),
        ["MediaTable", "MessagesTable", "answer to download", "answer to drain", "answer to history", "frame"]
    );
    assert_eq!(control.finds("media/file/"), ["answer to download", "object"]);
}

/// Words that no other text of the story contains, in data, a name, a title and a note.
struct Private {
    data: String,
    edited: String,
    silent: String,
    name: String,
    title: String,
    note: String,
}

/// Alice writes data, sets a name, and makes a group. Bob reports her. Then her entries are deleted, or not, and each
/// user requests everything.
async fn team_story(bench: &Workbench, private: &Private, deleted: bool) -> Told {
    let Private { data, edited, silent, name, title, note } = private;
    let of = |word: &str| json!({ "of": word });
    let text = json!({
        "action": "send", "to": "bob", "client_msg_id": "m1", "kind": "x-poll", "body": "a poll", "data": of(data),
    });
    let id = bench.ok("alice", text.clone()).await["conversation_id"].clone();
    bench
        .ok("bob", json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "hi"}))
        .await;
    let in_pair = |mut frame: Value| {
        frame["conversation_id"] = id.clone();
        frame
    };
    let edit =
        in_pair(json!({"action": "edit", "seq": 1, "client_msg_id": "e1", "body": "a poll", "data": of(edited)}));
    bench.ok("alice", edit.clone()).await;
    let mood = in_pair(json!({"action": "send", "client_msg_id": "s1", "kind": "xs-mood", "data": of(silent)}));
    bench.ok("alice", mood.clone()).await;
    bench.ok("alice", json!({"action": "profile", "set": {"name": name}})).await;
    let create = json!({"action": "create", "client_msg_id": "c1", "title": title, "members": ["bob"]});
    bench.ok("alice", create.clone()).await;
    let report = json!({"action": "report", "user_id": "alice", "reason": "spam", "note": note});
    bench.ok("bob", report.clone()).await;
    if deleted {
        for (seq, key) in [(1, "d1"), (4, "d2")] {
            bench.ok("alice", in_pair(json!({"action": "delete", "seq": seq, "client_msg_id": key}))).await;
        }
    }
    bench.notify().await;
    bench.fanout().await;
    let mut told = Told::default();
    for user in ["alice", "bob"] {
        bench.connected(user).await;
    }
    for (user, frame) in [
        ("alice", text),
        ("alice", edit),
        ("alice", mood),
        ("alice", create),
        ("bob", report),
        ("bob", json!({"action": "drain"})),
        ("bob", in_pair(json!({"action": "history"}))),
        ("bob", json!({"action": "inbox"})),
        ("bob", json!({"action": "profiles", "user_ids": ["alice"]})),
        // Refused: the message names the field.
        ("alice", json!({"action": "profile", "set": {"name": name.repeat(99)}})),
        ("bob", json!({"action": "report", "user_id": "alice", "reason": "spam", "note": note.repeat(99)})),
    ] {
        let what = frame["action"].as_str().unwrap().to_owned();
        told.add(format!("answer to {what}"), &bench.run(user, frame).await);
    }
    told.add("frame", &json!(bench.aws.frames("bob=")));
    let month = bench
        .aws
        .rows("AuditTable")
        .iter()
        .find_map(|row| row["conversation_id"].as_str()?.strip_prefix("reports ").map(str::to_owned));
    let reports = json!({"op": "reports", "month": month.expect("bob reported")});
    told.add("answer to an operator", &bench.started().admin(reports).await);
    told.add_tables(bench);
    told
}

#[tokio::test]
async fn no_log_has_data_a_name_a_title_or_a_note() {
    let word = |bird: &str| format!("{bird}-{}", fastrand::u64(..));
    let private = Private {
        data: word("finch"),
        edited: word("heron"),
        silent: word("wren"),
        name: word("Robin"),
        title: word("owls"),
        note: word("crow"),
    };
    let deleted = logged(team_story(&Workbench::ringing(), &private, true)).await;
    for data in [&private.data, &private.edited, &private.silent] {
        assert_eq!(deleted.finds(data), ["AuditTable"], "{data}");
    }
    assert_eq!(deleted.finds(&private.name), ["ConversationsTable", "answer to profiles"]);
    assert_eq!(deleted.finds(&private.note), ["AuditTable", "answer to an operator"]);
    let control = logged(team_story(&Workbench::ringing(), &private, false)).await;
    for data in [&private.edited, &private.silent] {
        assert_eq!(control.finds(data), ["MessagesTable", "answer to drain", "answer to history", "frame"], "{data}");
    }
    let places = control.finds(&private.title);
    assert!(places.contains(&"answer to inbox") && !places.contains(&"log"), "{places:?}");
}
