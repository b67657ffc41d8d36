//! The parts of a group's commits that are files: attached with their entry, seen by its readers, gone after it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use data_encoding::BASE64;
use serde_json::{Value, json};
use testkit::Workbench;

fn digest(bytes: &[u8]) -> String {
    BASE64.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

fn announced(group: &Value, bytes: &str) -> Value {
    let mut upload = json!({
        "action": "upload", "kind": "sealed", "bytes": bytes.len(), "sha256": digest(bytes.as_bytes()),
    });
    upload["conversation_id"] = group.clone();
    upload
}

/// Uploads these bytes to a group. Returns the form in which a request has them.
async fn file(bench: &Workbench, user: &str, group: &Value, bytes: &str) -> Value {
    let upload = bench.ok(user, announced(group, bytes)).await;
    let url = upload["url"].as_str().unwrap();
    assert_eq!(bench.aws.with_s3(|s3| s3.put(url, &upload["headers"], bytes.as_bytes())), 200);
    bench.ok(user, json!({"action": "uploaded", "media_id": upload["media_id"]})).await;
    json!({"media_id": upload["media_id"]})
}

/// The form in which an entry has them.
fn told(file: &Value, bytes: &str) -> Value {
    json!({"media_id": file["media_id"], "bytes": bytes.len(), "sha256": digest(bytes.as_bytes())})
}

fn bytes(text: &str) -> Value {
    json!(BASE64.encode(text.as_bytes()))
}

fn frame(action: &str, group: &Value, id: &str, more: Value) -> Value {
    let mut frame =
        json!({"action": action, "conversation_id": group, "client_msg_id": id, "group_info": bytes("info")});
    let Value::Object(more) = more else { panic!("{more}") };
    frame.as_object_mut().unwrap().extend(more);
    frame
}

fn birth(group: &Value, id: &str, welcome: &Value, tree: &Value) -> Value {
    frame("commit", group, id, json!({"epoch": 0, "welcome": welcome, "tree": tree}))
}

fn commit(group: &Value, id: &str, epoch: u64, commit: &Value, tree: &Value) -> Value {
    frame("commit", group, id, json!({"epoch": epoch, "commit": commit, "tree": tree}))
}

async fn done(bench: &Workbench, user: &str, frame: Value) -> Value {
    let mut reply = bench.device(user, "pixel", frame).await;
    assert_eq!(reply["type"], "reply", "{reply}");
    reply["result"].take()
}

async fn refusal(bench: &Workbench, user: &str, frame: Value) -> String {
    let error = bench.device(user, "pixel", frame).await["error"].take();
    format!("{} · {}", error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

async fn code(bench: &Workbench, user: &str, frame: Value) -> String {
    refusal(bench, user, frame).await.split(' ').next().unwrap().to_owned()
}

async fn last(bench: &Workbench, user: &str, group: &Value) -> Value {
    let history = json!({"action": "history", "conversation_id": group, "limit": 1});
    done(bench, user, history).await["messages"][0].take()
}

async fn has(bench: &Workbench, user: &str, file: &Value) -> bool {
    let download = json!({"action": "download", "media_ids": [file["media_id"]]});
    let reply = bench.ok(user, download).await;
    reply["gone"].as_array().unwrap().is_empty()
}

/// Alice's group of bob and carol.
async fn group(bench: &Workbench) -> Value {
    let create = json!({
        "action": "create", "client_msg_id": "g1", "title": "Trip", "members": ["bob", "carol"], "encrypted": true,
    });
    done(bench, "alice", create).await["conversation_id"].take()
}

/// Alice's group at epoch 1, without a file.
async fn born(bench: &Workbench) -> Value {
    let group = group(bench).await;
    done(bench, "alice", birth(&group, "b1", &bytes("welcome"), &bytes("tree"))).await;
    group
}

#[tokio::test]
async fn a_birth_by_files_is_stored_told_and_fetched() {
    let bench = Workbench::default();
    let group = group(&bench).await;
    let (welcome, tree) = (file(&bench, "alice", &group, "welcome").await, file(&bench, "alice", &group, "tree").await);
    assert!(!has(&bench, "alice", &tree).await, "no member downloads it before the entry");
    bench.connected("bob").await;
    bench.aws.clear();
    let born = done(&bench, "alice", birth(&group, "b1", &welcome, &tree)).await;
    let entry = last(&bench, "carol", &group).await;
    assert_eq!((&entry["welcome"], &entry["tree"]), (&told(&welcome, "welcome"), &told(&tree, "tree")));
    assert_eq!(bench.aws.frames("bob=")[0]["messages"][0], entry, "the event has the same");
    let info = done(&bench, "bob", json!({"action": "group_info", "conversation_id": group})).await;
    assert_eq!((&info["tree"], &info["seq"]), (&told(&tree, "tree"), &born["seq"]));
    for user in ["bob", "alice"] {
        assert!(has(&bench, user, &welcome).await && has(&bench, user, &tree).await);
    }
    assert!(!has(&bench, "mallory", &tree).await, "no other user");
    let again = done(&bench, "alice", birth(&group, "b1", &welcome, &tree)).await;
    assert_eq!((&again["seq"], &again["duplicate"]), (&born["seq"], &json!(true)), "the first reply, to a repetition");
    let other = birth(&group, "b1", &bytes("welcome"), &tree);
    assert_eq!(code(&bench, "alice", other).await, "id_reused", "the file is a part of the request");
    let copy = json!({
        "action": "upload", "conversation_id": group, "copy_of": {"conversation_id": group, "seq": born["seq"]},
    });
    assert_eq!(code(&bench, "bob", copy).await, "gone", "there is no copy of it");
}

#[tokio::test]
async fn a_commit_takes_no_other_file_than_its_sender_s_for_it() {
    let bench = Workbench::default();
    let group = born(&bench).await;
    let plain = json!({"action": "create", "client_msg_id": "g2", "title": "Other", "members": ["bob"]});
    let elsewhere = done(&bench, "alice", plain).await["conversation_id"].take();
    let of = |tree: Value| commit(&group, "c1", 1, &bytes("commit"), &tree);
    let bobs = file(&bench, "bob", &group, "tree").await;
    let waiting = json!({"media_id": bench.ok("alice", announced(&group, "tree")).await["media_id"]});
    let in_another = file(&bench, "alice", &elsewhere, "tree").await;
    for (tree, expected) in [
        (bobs, "gone"),
        (in_another, "gone"),
        (json!({"media_id": "m_x_4"}), "gone"),
        (json!({"media_id": "m_x"}), "gone"),
        (waiting, "not_ready"),
    ] {
        assert_eq!(code(&bench, "alice", of(tree.clone())).await, expected, "{tree}");
    }
    let own = file(&bench, "alice", &group, "tree").await;
    let twice = commit(&group, "c1", 1, &own, &own);
    let problem = "bad_request · tree.media_id: must not be that of another field";
    assert_eq!(refusal(&bench, "alice", twice).await, problem);
    assert_eq!(refusal(&bench, "alice", of(json!({}))).await, "bad_request · tree.media_id: is missing");
    let stale = commit(&group, "c1", 2, &bytes("commit"), &own);
    assert_eq!(code(&bench, "alice", stale).await, "stale_epoch");
    done(&bench, "alice", of(own.clone())).await;
    let later = commit(&group, "c2", 2, &own, &bytes("tree"));
    assert_eq!(code(&bench, "alice", later).await, "gone", "one entry has it");
    bench.clock.advance(Duration::from_hours(25));
    assert!(has(&bench, "bob", &own).await);
}

#[tokio::test]
async fn a_file_that_waited_for_a_day_is_gone() {
    let bench = Workbench::default();
    let group = born(&bench).await;
    let tree = file(&bench, "alice", &group, "tree").await;
    bench.clock.advance(Duration::from_hours(24));
    assert_eq!(code(&bench, "alice", commit(&group, "c1", 1, &bytes("commit"), &tree)).await, "gone");
}

#[tokio::test]
async fn only_groups_take_files() {
    let bench = Workbench::default();
    let direct = json!({
        "action": "commit", "to": "bob", "client_msg_id": "b1", "epoch": 0, "group_info": bytes("info"),
        "welcome": bytes("welcome"), "tree": {"media_id": "m_x_4"},
    });
    let problem = "bad_request · tree: must be bytes in base64: only a group takes a file";
    assert_eq!(refusal(&bench, "alice", direct).await, problem);
}

#[tokio::test]
async fn members_come_and_go_by_files() {
    let bench = Workbench::default();
    let group = born(&bench).await;
    let [commit, welcome, tree] = ["commit", "welcome", "tree"];
    let files = [
        file(&bench, "alice", &group, commit).await,
        file(&bench, "alice", &group, welcome).await,
        file(&bench, "alice", &group, tree).await,
    ];
    let [of_commit, of_welcome, of_tree] = &files;
    let keys = json!({"members": ["dave"], "epoch": 1, "commit": of_commit, "welcome": of_welcome, "tree": of_tree});
    let added = done(&bench, "alice", frame("add", &group, "a1", keys)).await;
    let entry = last(&bench, "bob", &group).await;
    assert_eq!((&entry["kind"], &entry["seq"]), (&json!("system"), &added["seq"]));
    assert_eq!(
        (&entry["commit"], &entry["welcome"], &entry["tree"]),
        (&told(of_commit, commit), &told(of_welcome, welcome), &told(of_tree, tree)),
    );
    for file in &files {
        assert!(has(&bench, "dave", file).await, "the new member sees the entry");
    }
    let of_remove = file(&bench, "alice", &group, "remove").await;
    let keys = json!({"user_id": "bob", "epoch": 2, "commit": of_remove, "tree": bytes("tree")});
    done(&bench, "alice", frame("remove", &group, "r1", keys)).await;
    assert_eq!(last(&bench, "dave", &group).await["commit"], told(&of_remove, "remove"));
    let newer = file(&bench, "alice", &group, "newer").await;
    done(&bench, "alice", self::commit(&group, "c3", 3, &newer, &bytes("tree"))).await;
    assert!(has(&bench, "bob", &of_remove).await, "who was removed sees that entry");
    assert!(!has(&bench, "bob", &newer).await, "and none behind it");
}

#[tokio::test]
async fn each_member_has_the_newest_tree() {
    let bench = Workbench::default();
    let group = born(&bench).await;
    let leave = json!({"action": "leave", "conversation_id": group, "client_msg_id": "l1"});
    done(&bench, "carol", leave).await;
    let tree = file(&bench, "alice", &group, "tree").await;
    let committed = done(&bench, "alice", commit(&group, "c1", 1, &bytes("commit"), &tree)).await;
    assert_eq!(last(&bench, "bob", &group).await["tree"], Value::Null, "no entry has it");
    assert!(!has(&bench, "carol", &tree).await, "she is no member");
    done(&bench, "carol", json!({"action": "join", "conversation_id": group})).await;
    let seen = last(&bench, "carol", &group).await;
    assert!(seen["seq"].as_u64() > committed["seq"].as_u64(), "she does not see the commit");
    let info = done(&bench, "carol", json!({"action": "group_info", "conversation_id": group})).await;
    assert_eq!(info["tree"], told(&tree, "tree"));
    assert!(has(&bench, "carol", &tree).await && has(&bench, "bob", &tree).await);
    assert!(!has(&bench, "mallory", &tree).await);
    done(&bench, "bob", commit(&group, "c2", 2, &bytes("commit"), &bytes("tree"))).await;
    assert!(!has(&bench, "carol", &tree).await, "an older one is of its readers");
}

#[tokio::test]
async fn a_tree_of_no_entry_ends_a_day_after_the_next_commit() {
    let bench = Workbench::default();
    let group = born(&bench).await;
    let loose = file(&bench, "alice", &group, "loose").await;
    done(&bench, "alice", commit(&group, "c1", 1, &bytes("commit"), &loose)).await;
    bench.clock.advance(Duration::from_hours(72));
    assert!(has(&bench, "bob", &loose).await, "the newest stays");
    done(&bench, "bob", commit(&group, "c2", 2, &bytes("commit"), &bytes("tree"))).await;
    let row = |bench: &Workbench, file: &Value| {
        bench.aws.rows("MediaTable").into_iter().find(|row| row["media_id"] == file["media_id"]).unwrap()
    };
    let ends = row(&bench, &loose)["expires_at"].as_i64().unwrap();
    assert_eq!(ends, bench.clock.now().plus(Duration::from_hours(24)).seconds());
    assert!(has(&bench, "bob", &loose).await, "for who asked before");
    let (welcome, tree) = (file(&bench, "alice", &group, "welcome").await, file(&bench, "alice", &group, "tree").await);
    let keys = json!({"members": ["dave"], "epoch": 3, "commit": bytes("c"), "welcome": welcome, "tree": tree});
    done(&bench, "alice", frame("add", &group, "a1", keys)).await;
    done(&bench, "alice", commit(&group, "c4", 4, &bytes("commit"), &bytes("tree"))).await;
    assert_eq!(row(&bench, &tree)["expires_at"], Value::Null, "who joins by a welcome weeks later needs its tree");
    assert_eq!(row(&bench, &loose)["expires_at"], json!(ends), "the end does not move");
}
