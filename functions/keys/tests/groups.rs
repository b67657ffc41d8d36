//! Sealed groups: births, sealed entries, commits of members who come and go, and claims.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use data_encoding::BASE64;
use domain::Encryption;
use serde_json::{Value, json};
use testkit::{Limits, Workbench};

fn bytes(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

/// A frame about a group.
fn frame(action: &str, group: &Value, id: &str, more: Value) -> Value {
    with(json!({"action": action, "conversation_id": group, "client_msg_id": id}), more)
}

fn with(mut frame: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more}") };
    frame.as_object_mut().unwrap().extend(more);
    frame
}

/// The keys of a change, whose bytes name it.
fn keys(id: &str, epoch: u64) -> Value {
    let [commit, info, tree] = ["commit", "info", "tree"].map(|part| bytes(&format!("{part} of {id}")));
    json!({"epoch": epoch, "commit": commit, "group_info": info, "tree": tree})
}

fn commit(group: &Value, id: &str, epoch: u64) -> Value {
    frame("commit", group, id, keys(id, epoch))
}

fn birth(group: &Value, id: &str, epoch: u64) -> Value {
    let mut birth = with(commit(group, id, epoch), json!({"welcome": bytes(&format!("welcome of {id}"))}));
    birth.as_object_mut().unwrap().remove("commit");
    birth
}

fn sealed(group: &Value, id: &str, epoch: u64) -> Value {
    frame("send", group, id, json!({"kind": "sealed", "epoch": epoch, "body": bytes(id)}))
}

fn silent(group: &Value, id: &str, epoch: u64) -> Value {
    with(sealed(group, id, epoch), json!({"silent": true}))
}

fn text(group: &Value, id: &str) -> Value {
    frame("send", group, id, json!({"kind": "text", "body": id}))
}

fn add(group: &Value, id: &str, members: &[&str], epoch: u64) -> Value {
    let keys = with(keys(id, epoch), json!({"welcome": bytes(&format!("welcome of {id}"))}));
    frame("add", group, id, with(keys, json!({"members": members})))
}

fn remove(group: &Value, id: &str, user: &str) -> Value {
    frame("remove", group, id, json!({"user_id": user}))
}

fn group_info(group: &Value) -> Value {
    json!({"action": "group_info", "conversation_id": group})
}

async fn of(bench: &Workbench, user: &str, frame: Value) -> Value {
    bench.device(user, "pixel", frame).await
}

async fn done(bench: &Workbench, user: &str, frame: Value) -> Value {
    let mut reply = of(bench, user, frame).await;
    assert_eq!(reply["type"], "reply", "{reply}");
    reply["result"].take()
}

async fn code(bench: &Workbench, user: &str, frame: Value) -> String {
    let reply = of(bench, user, frame).await;
    reply["error"]["code"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

async fn entries(bench: &Workbench, user: &str, group: &Value) -> Vec<Value> {
    let mut history =
        done(bench, user, json!({"action": "history", "conversation_id": group, "after": 0, "limit": 100})).await;
    history["messages"].as_array_mut().unwrap().drain(..).collect()
}

async fn row(bench: &Workbench, user: &str) -> Value {
    done(bench, user, json!({"action": "inbox"})).await["conversations"][0].take()
}

/// Alice makes a group with these.
async fn group(bench: &Workbench, members: &[&str], more: Value) -> Value {
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": members});
    done(bench, "alice", with(create, more)).await["conversation_id"].take()
}

/// A group of alice, bob and carol at epoch 1, whose log ends with the birth.
async fn sealed_group(bench: &Workbench) -> Value {
    let group = group(bench, &["bob", "carol"], json!({})).await;
    done(bench, "alice", birth(&group, "b1", 0)).await;
    group
}

#[tokio::test]
async fn a_group_is_born_written_in_and_read() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob", "carol"], json!({})).await;
    done(&bench, "bob", text(&group, "t1")).await;
    assert_eq!(code(&bench, "alice", group_info(&group)).await, "gone");
    assert_eq!(code(&bench, "bob", birth(&group, "b1", 0)).await, "forbidden", "only for who may update");
    assert_eq!(code(&bench, "alice", sealed(&group, "m1", 1)).await, "stale_epoch");
    assert!(row(&bench, "bob").await.get("encrypted").is_none());

    bench.connected("bob").await;
    bench.aws.clear();
    let born = done(&bench, "alice", birth(&group, "b1", 0)).await;
    assert_eq!((&born["conversation_id"], &born["seq"], &born["epoch"]), (&group, &json!(3), &json!(1)));
    let told = bench.aws.frames("bob=");
    let entry = json!({
        "conversation_id": group, "seq": 3, "message_id": born["message_id"], "sender_id": "alice", "kind": "commit",
        "silent": true, "epoch": 1, "body": "", "welcome": bytes("welcome of b1"), "tree": bytes("tree of b1"),
        "sent_at": born["sent_at"],
    });
    assert_eq!(told[0]["messages"][0], entry);
    let shown = row(&bench, "bob").await;
    assert_eq!((&shown["encrypted"], &shown["epoch"], &shown["unread"]), (&json!(true), &json!(1), &json!(0)));
    assert_eq!(shown["last_message"]["preview"], "t1", "a commit does not show");

    done(&bench, "bob", sealed(&group, "m1", 1)).await;
    let shown = row(&bench, "carol").await;
    assert_eq!((&shown["unread"], &shown["last_message"]["kind"]), (&json!(2), &json!("sealed")));
    assert_eq!(shown["last_message"]["preview"], "");
    assert_eq!(code(&bench, "alice", text(&group, "t2")).await, "encryption_required");
    for change in [json!({"action": "edit", "body": "x"}), json!({"action": "react", "emoji": "👍"})] {
        let change = with(frame("", &group, "e1", json!({"seq": 2})), change);
        assert_eq!(code(&bench, "bob", change).await, "encryption_required");
    }
    let updated = done(&bench, "carol", commit(&group, "c2", 1)).await;
    assert_eq!((&updated["seq"], &updated["epoch"]), (&json!(5), &json!(2)), "any member commits then");
    let info = done(&bench, "bob", group_info(&group)).await;
    assert_eq!(
        info,
        json!({"conversation_id": group, "epoch": 2, "seq": 5, "birth_seq": 3, "group_info": bytes("info of c2"),
            "tree": bytes("tree of c2")})
    );
    assert_eq!(code(&bench, "dave", group_info(&group)).await, "not_member");
    for frame in [sealed(&group, "m2", 2), commit(&group, "c3", 2)] {
        assert_eq!(code(&bench, "dave", frame).await, "not_member");
    }
}

#[tokio::test]
async fn what_a_group_stored_gets_its_first_reply_however_many_epochs_later() {
    let bench = Workbench::default();
    let group = sealed_group(&bench).await;
    let mut first = done(&bench, "bob", sealed(&group, "m1", 1)).await;
    let mut second = done(&bench, "alice", commit(&group, "c2", 1)).await;
    let stale = of(&bench, "bob", sealed(&group, "m2", 1)).await["error"].take();
    assert_eq!((&stale["code"], &stale["epoch"], &stale["last_seq"]), (&json!("stale_epoch"), &json!(2), &json!(4)));
    assert_eq!(stale["conversation_id"], group);
    assert_eq!(code(&bench, "bob", commit(&group, "c3", 1)).await, "stale_epoch");
    done(&bench, "bob", sealed(&group, "m2", 2)).await;
    for (user, frame, result) in
        [("bob", sealed(&group, "m1", 1), &mut first), ("alice", commit(&group, "c2", 1), &mut second)]
    {
        result["duplicate"] = json!(true);
        assert_eq!(done(&bench, user, frame).await, *result);
    }
    let other = with(commit(&group, "c2", 1), json!({"removes": ["bob"]}));
    assert_eq!(code(&bench, "alice", other).await, "id_reused");
}

#[tokio::test]
async fn a_silent_entry_of_a_group_neither_counts_nor_shows() {
    let bench = Workbench::default();
    let group = sealed_group(&bench).await;
    for frame in [silent(&group, "s1", 1), sealed(&group, "m1", 1), silent(&group, "s2", 1), sealed(&group, "m2", 1)] {
        done(&bench, "alice", frame).await;
    }
    done(&bench, "alice", silent(&group, "s3", 1)).await;
    let shown = row(&bench, "bob").await;
    assert_eq!((&shown["unread"], &shown["last_message"]["seq"]), (&json!(2), &json!(6)));
    let delete = |seq: u64| frame("delete", &group, &format!("d{seq}"), json!({"seq": seq}));
    done(&bench, "alice", delete(5)).await;
    assert_eq!(row(&bench, "bob").await["unread"], 2, "a silent entry was not counted");
    done(&bench, "alice", delete(4)).await;
    assert_eq!(row(&bench, "bob").await["unread"], 1);
    assert_eq!(code(&bench, "alice", delete(2)).await, "gone", "a commit stays");
    assert_eq!(bench.aws.rows("AuditTable"), Vec::<Value>::new());
    let entries = entries(&bench, "bob", &group).await;
    assert_eq!(
        (&entries[4]["body"], &entries[4]["silent"], &entries[4]["epoch"]),
        (&json!(""), &json!(true), &json!(1))
    );
    done(&bench, "alice", sealed(&group, "m3", 1)).await;
    assert_eq!(done(&bench, "bob", json!({"action": "read", "conversation_id": group, "seq": 6})).await["unread"], 1);
}

#[tokio::test]
async fn who_is_added_comes_with_the_commit_and_in_one_entry() {
    let bench = Workbench::default();
    let group = sealed_group(&bench).await;
    let plain = frame("add", &group, "a0", json!({"members": ["dave"]}));
    assert_eq!(code(&bench, "bob", plain).await, "encryption_required");
    assert_eq!(code(&bench, "bob", add(&group, "a1", &["dave"], 2)).await, "stale_epoch");
    assert_eq!(code(&bench, "bob", add(&group, "a1", &["dave", "carol"], 1)).await, "forbidden", "not all are new");
    assert_eq!(code(&bench, "bob", add(&group, "a1", &["@orders"], 1)).await, "forbidden");
    let mut added = done(&bench, "bob", add(&group, "a1", &["dave", "erin"], 1)).await;
    assert_eq!((&added["seq"], &added["added"]), (&json!(3), &json!(["dave", "erin"])));
    let entry = entries(&bench, "dave", &group).await.remove(0);
    assert_eq!(
        entry,
        json!({
            "conversation_id": group, "seq": 3, "message_id": added["message_id"], "sender_id": "bob", "kind": "system",
            "body": "", "system": {"event": "members.added", "members": ["dave", "erin"]}, "epoch": 2,
            "commit": bytes("commit of a1"), "welcome": bytes("welcome of a1"), "tree": bytes("tree of a1"),
            "sent_at": added["sent_at"],
        })
    );
    let info = done(&bench, "erin", group_info(&group)).await;
    assert_eq!((&info["epoch"], &info["seq"], &info["birth_seq"]), (&json!(2), &json!(3), &json!(2)));
    done(&bench, "dave", sealed(&group, "m1", 2)).await;
    added["duplicate"] = json!(true);
    assert_eq!(done(&bench, "bob", add(&group, "a1", &["dave", "erin"], 1)).await, added);
    assert_eq!(code(&bench, "bob", add(&group, "a1", &["dave"], 1)).await, "id_reused");

    let removal = with(remove(&group, "r1", "dave"), keys("r1", 2));
    assert_eq!(code(&bench, "bob", removal.clone()).await, "forbidden");
    assert_eq!(code(&bench, "alice", with(removal.clone(), json!({"epoch": 1}))).await, "stale_epoch");
    done(&bench, "alice", removal).await;
    let entry = entries(&bench, "bob", &group).await.pop().unwrap();
    assert_eq!(
        (&entry["kind"], &entry["epoch"], &entry["commit"]),
        (&json!("system"), &json!(3), &json!(bytes("commit of r1")))
    );
    assert!(entry.get("tree").is_none() && entry.get("welcome").is_none());
    assert_eq!(code(&bench, "dave", group_info(&group)).await, "not_member");
    done(&bench, "bob", sealed(&group, "m2", 3)).await;
}

#[tokio::test]
async fn nothing_is_sealed_until_a_commit_names_who_left() {
    let bench = Workbench::default();
    let group = sealed_group(&bench).await;
    for user in ["dave", "erin"] {
        let epoch = if user == "dave" { 1 } else { 2 };
        done(&bench, "alice", add(&group, user, &[user], epoch)).await;
    }
    done(&bench, "bob", frame("leave", &group, "l1", json!({}))).await;
    done(&bench, "alice", remove(&group, "r1", "carol")).await;
    let refused = of(&bench, "dave", sealed(&group, "m1", 3)).await["error"].take();
    assert_eq!((&refused["code"], &refused["members"]), (&json!("rekey_required"), &json!(["bob", "carol"])));
    assert_eq!(refused["retryable"], false);
    assert_eq!(code(&bench, "dave", sealed(&group, "m1", 2)).await, "stale_epoch", "before who left");
    assert_eq!(code(&bench, "alice", add(&group, "a1", &["bob"], 3)).await, "rekey_required");
    done(&bench, "alice", frame("update", &group, "u1", json!({"title": "Tour"}))).await;
    done(&bench, "alice", add(&group, "a2", &["fred"], 3)).await;
    done(&bench, "dave", commit(&group, "c2", 4)).await;
    assert_eq!(code(&bench, "dave", sealed(&group, "m1", 5)).await, "rekey_required", "made before the leave was seen");
    done(&bench, "dave", with(commit(&group, "c3", 5), json!({"removes": ["carol", "zoe"]}))).await;
    let entry = entries(&bench, "alice", &group).await.pop().unwrap();
    assert_eq!(entry["removes"], json!(["carol", "zoe"]));
    let other = with(commit(&group, "c3", 5), json!({"removes": ["carol", "zed"]}));
    assert_eq!(code(&bench, "dave", other).await, "id_reused");
    let refused = of(&bench, "dave", sealed(&group, "m1", 6)).await["error"].take();
    assert_eq!(refused["members"], json!(["bob"]));
    done(&bench, "erin", with(birth(&group, "b2", 6), json!({"removes": ["bob"]}))).await;
    done(&bench, "dave", sealed(&group, "m1", 7)).await;
    done(&bench, "alice", add(&group, "a3", &["bob"], 7)).await;

    // A member who comes back has left all the same.
    done(&bench, "erin", frame("leave", &group, "l2", json!({}))).await;
    done(&bench, "erin", json!({"action": "join", "conversation_id": group})).await;
    assert_eq!(code(&bench, "dave", sealed(&group, "m2", 8)).await, "rekey_required");
    let removal = with(remove(&group, "r3", "erin"), keys("r3", 8));
    done(&bench, "alice", removal).await;
    done(&bench, "dave", sealed(&group, "m2", 9)).await;
}

#[tokio::test]
async fn a_group_is_created_for_encryption_alone() {
    let bench = Workbench::default();
    let create = |more: Value| {
        with(
            json!({"action": "create", "client_msg_id": "x1", "title": "Trip", "members": [], "encrypted": true}),
            more,
        )
    };
    assert_eq!(code(&bench, "alice", create(json!({"kind": "channel"}))).await, "bad_request");
    assert_eq!(code(&bench, "alice", create(json!({"members": ["@orders"]}))).await, "forbidden");
    let group = group(&bench, &["bob"], json!({"encrypted": true})).await;
    let shown = row(&bench, "bob").await;
    assert_eq!((&shown["encrypted"], &shown["epoch"]), (&json!(true), &json!(0)));
    assert_eq!(code(&bench, "alice", text(&group, "t1")).await, "encryption_required");
    done(&bench, "alice", frame("add", &group, "a1", json!({"members": ["carol"]}))).await;
    done(&bench, "alice", remove(&group, "r1", "carol")).await;
    done(&bench, "alice", birth(&group, "b1", 0)).await;
    done(&bench, "bob", sealed(&group, "m1", 1)).await;
    let again = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    assert_eq!(code(&bench, "alice", again).await, "id_reused");
}

#[tokio::test]
async fn rules_and_switches_of_groups_hold() {
    let bench = Workbench::default();
    let by_admins = group(&bench, &["bob"], json!({"post": "admins"})).await;
    done(&bench, "alice", birth(&by_admins, "b1", 0)).await;
    for frame in [sealed(&by_admins, "m1", 1), commit(&by_admins, "c2", 1)] {
        assert_eq!(code(&bench, "bob", frame).await, "forbidden", "who may post commits");
    }
    for frame in [
        with(add(&by_admins, "a1", &["carol"], 1), json!({"tree": ""})),
        with(add(&by_admins, "a1", &["carol"], 1), json!({"welcome": null})),
        with(remove(&by_admins, "r1", "bob"), json!({"epoch": 1})),
        with(remove(&by_admins, "r1", "bob"), with(keys("r1", 1), json!({"welcome": "AAAA"}))),
        with(add(&by_admins, "a1", &["carol"], 1), json!({"epoch": 0})),
        with(commit(&by_admins, "c2", 1), json!({"removes": []})),
        with(commit(&by_admins, "c2", 1), json!({"removes": ["bob", "bob"]})),
        with(add(&by_admins, "a1", &["carol"], 1), json!({"conversation_id": "ch_x"})),
    ] {
        let refused = code(&bench, "alice", frame.clone()).await;
        assert!(refused == "bad_request" || (frame["conversation_id"] == "ch_x" && refused == "not_member"), "{frame}");
    }
    let off = Workbench::limited(Limits { encryption: Encryption::Off, ..Limits::default() });
    let plain = group(&off, &["bob"], json!({})).await;
    for frame in [birth(&plain, "b1", 0), sealed(&plain, "m1", 1), add(&plain, "a1", &["carol"], 1)] {
        assert_eq!(code(&off, "alice", frame).await, "forbidden");
    }
    let encrypted = json!({"action": "create", "client_msg_id": "x1", "title": "T", "members": [], "encrypted": true});
    assert_eq!(code(&off, "alice", encrypted).await, "forbidden");
    done(&off, "alice", text(&plain, "t1")).await;
    let required = Workbench::limited(Limits { encryption: Encryption::Required, ..Limits::default() });
    let group = sealed_group(&required).await;
    done(&required, "bob", sealed(&group, "m1", 1)).await;
}

#[tokio::test]
async fn a_group_with_a_service_is_not_sealed() {
    let bench = Workbench::default();
    let create =
        json!({"op": "create_group", "as": "@orders", "client_msg_id": "s1", "title": "Orders", "members": ["alice"]});
    let group = bench.started().admin(create).await["result"]["conversation_id"].clone();
    assert_eq!(code(&bench, "alice", birth(&group, "b1", 0)).await, "forbidden");
}

#[tokio::test]
async fn commits_in_groups_have_the_limits_of_their_own() {
    let bench = Workbench::default();
    let group = sealed_group(&bench).await;
    // Each frame comes to a new process.
    let code = async |user: &str, frame: Value| {
        let reply = bench.started().device(user, "pixel", frame).await;
        reply["error"]["code"].as_str().unwrap_or_default().to_owned()
    };
    for epoch in 1..3 {
        assert_eq!(code("alice", birth(&group, &format!("b{}", epoch + 1), epoch)).await, "");
    }
    assert_eq!(code("alice", birth(&group, "b4", 3)).await, "rate_limited");
    assert_eq!(code("bob", birth(&group, "b4", 3)).await, "");
    for epoch in 4..31 {
        assert_eq!(code("alice", commit(&group, &format!("c{epoch}"), epoch)).await, "");
    }
    assert_eq!(code("alice", commit(&group, "c31", 31)).await, "rate_limited");
    bench.clock.advance(Duration::from_secs(30));
    assert_eq!(code("alice", commit(&group, "c31", 31)).await, "");
    assert_eq!(code("alice", add(&group, "a1", &["frank"], 32)).await, "rate_limited", "an addition has a commit");
    assert_eq!(code("alice", commit(&group, "c31", 31)).await, "", "what is stored is repeated");
    bench.clock.advance(Duration::from_hours(1));
    assert_eq!(code("alice", birth(&group, "b5", 32)).await, "");
    assert_eq!(code("alice", birth(&group, "b6", 33)).await, "rate_limited");
}

#[tokio::test]
async fn members_are_claimed_whoever_blocks() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob", "carol"], json!({})).await;
    let claim = |id: &str, users: &[&str]| json!({"action": "claim_keys", "claim_id": id, "users": users, "conversation_id": group});
    done(&bench, "bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    assert_eq!(code(&bench, "alice", with(claim("k1", &["bob"]), json!({"conversation_id": null}))).await, "forbidden");
    assert_eq!(code(&bench, "alice", claim("k1", &["bob", "alice"])).await, "no_keys", "he has none");
    assert_eq!(code(&bench, "alice", claim("k1", &["bob", "dave"])).await, "gone");
    assert_eq!(code(&bench, "dave", claim("k1", &["bob"])).await, "not_member");
    for other in ["dm_x", "ch_x"] {
        let frame = with(claim("k1", &["bob"]), json!({"conversation_id": other}));
        assert_eq!(code(&bench, "alice", frame).await, "bad_request");
    }
    done(&bench, "bob", frame("leave", &group, "l1", json!({}))).await;
    assert_eq!(code(&bench, "alice", claim("k1", &["bob"])).await, "gone");
}
