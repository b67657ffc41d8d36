//! Sealed conversations: commits and births, sealed entries, the order of refusals, the limits, and what other actions do.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use data_encoding::BASE64;
use domain::Encryption;
use serde_json::{Value, json};
use testkit::{Limits, Workbench, frame_of, message};
use wire::limits::{COMMIT_CHARS_MAX, SEALED_BYTES_MAX};

fn bytes(text: &str) -> String {
    BASE64.encode(text.as_bytes())
}

/// A commit between alice and bob. Its bytes name it.
fn commit(id: &str, epoch: u64) -> Value {
    let [commit, info, tree] = ["commit", "info", "tree"].map(|part| bytes(&format!("{part} of {id}")));
    json!({
        "action": "commit", "conversation_id": dm(), "client_msg_id": id, "epoch": epoch, "commit": commit,
        "group_info": info, "tree": tree,
    })
}

/// A birth that adds a device.
fn birth(id: &str, epoch: u64) -> Value {
    let mut birth = commit(id, epoch);
    birth["welcome"] = json!(bytes(&format!("welcome of {id}")));
    without(birth, "commit")
}

fn first_birth(id: &str) -> Value {
    let mut birth = without(birth(id, 0), "conversation_id");
    birth["to"] = json!("bob");
    birth
}

fn sealed(id: &str, epoch: u64) -> Value {
    json!({
        "action": "send", "conversation_id": dm(), "client_msg_id": id, "kind": "sealed", "epoch": epoch,
        "body": bytes(id),
    })
}

fn silent(id: &str, epoch: u64) -> Value {
    let mut frame = sealed(id, epoch);
    frame["silent"] = json!(true);
    frame
}

fn text(id: &str) -> Value {
    json!({"action": "send", "conversation_id": dm(), "client_msg_id": id, "kind": "text", "body": id})
}

fn without(mut frame: Value, field: &str) -> Value {
    frame.as_object_mut().unwrap().remove(field).unwrap();
    frame
}

fn dm() -> &'static str {
    "dm_cqnezuscwz7if3puu6f3iggubjvdq4gs"
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

async fn entries(bench: &Workbench, user: &str) -> Vec<Value> {
    let mut history = done(bench, user, json!({"action": "history", "conversation_id": dm()})).await;
    history["messages"].as_array_mut().unwrap().drain(..).collect()
}

async fn inbox(bench: &Workbench, user: &str) -> Value {
    done(bench, user, json!({"action": "inbox"})).await["conversations"].take()
}

#[tokio::test]
async fn a_conversation_is_born_written_in_and_read() {
    let bench = Workbench::default();
    assert_eq!(code(&bench, "alice", json!({"action": "group_info", "to": "bob"})).await, "gone");
    let born = done(&bench, "alice", first_birth("b1")).await;
    assert_eq!((&born["conversation_id"], &born["seq"], &born["epoch"]), (&json!(dm()), &json!(1), &json!(1)));
    assert_eq!(born["duplicate"], false);
    for user in ["alice", "bob"] {
        assert_eq!(inbox(&bench, user).await, json!([]), "the chat list begins with an entry that counts");
    }
    assert_eq!(done(&bench, "bob", json!({"action": "ping"})).await["pending"], true);
    let drained = done(&bench, "bob", json!({"action": "drain"})).await["messages"][0].take();
    assert_eq!(
        drained,
        json!({
            "conversation_id": dm(), "seq": 1, "message_id": born["message_id"], "sender_id": "alice", "kind": "commit",
            "silent": true, "epoch": 1, "body": "", "welcome": bytes("welcome of b1"), "tree": bytes("tree of b1"),
            "sent_at": born["sent_at"],
        }),
    );
    done(&bench, "alice", sealed("m1", 1)).await;
    let shown = inbox(&bench, "bob").await[0].take();
    assert_eq!((&shown["encrypted"], &shown["epoch"], &shown["unread"]), (&json!(true), &json!(1), &json!(1)));
    assert_eq!((&shown["last_message"]["kind"], &shown["last_message"]["preview"]), (&json!("sealed"), &json!("")));
    assert_eq!(shown["last_seq"], 2);
    let entry = entries(&bench, "bob").await.pop().unwrap();
    assert_eq!((&entry["body"], &entry["epoch"], &entry["seq"]), (&json!(bytes("m1")), &json!(1), &json!(2)));
    assert!(entry.get("silent").is_none() && entry.get("tree").is_none());

    let info = done(&bench, "bob", json!({"action": "group_info", "conversation_id": dm()})).await;
    let expected = json!({
        "conversation_id": dm(), "epoch": 1, "seq": 1, "birth_seq": 1, "group_info": bytes("info of b1"),
        "tree": bytes("tree of b1"),
    });
    assert_eq!(info, expected);
    let updated = done(&bench, "bob", commit("c1", 1)).await;
    assert_eq!((&updated["seq"], &updated["epoch"]), (&json!(3), &json!(2)));
    let entry = entries(&bench, "alice").await.pop().unwrap();
    assert_eq!(entry["commit"], json!(bytes("commit of c1")));
    assert!(entry.get("tree").is_none() && entry.get("group_info").is_none(), "only a welcome needs its tree");
    let info = done(&bench, "alice", json!({"action": "group_info", "to": "bob"})).await;
    assert_eq!((&info["epoch"], &info["seq"], &info["birth_seq"]), (&json!(2), &json!(3), &json!(1)));
    assert_eq!(info["tree"], json!(bytes("tree of c1")));
    let reset = done(&bench, "alice", birth("b2", 2)).await;
    let info = done(&bench, "alice", json!({"action": "group_info", "to": "bob"})).await;
    assert_eq!((&info["epoch"], &info["birth_seq"]), (&json!(3), &reset["seq"]));
}

#[tokio::test]
async fn what_is_stored_gets_its_first_reply_however_many_epochs_later() {
    let bench = Workbench::default();
    done(&bench, "alice", first_birth("b1")).await;
    let mut first = done(&bench, "alice", sealed("m1", 1)).await;
    let mut born = done(&bench, "bob", commit("c1", 1)).await;
    let stale = of(&bench, "alice", sealed("m2", 1)).await["error"].take();
    assert_eq!((&stale["code"], &stale["retryable"]), (&json!("stale_epoch"), &json!(false)));
    assert_eq!((&stale["conversation_id"], &stale["epoch"], &stale["last_seq"]), (&json!(dm()), &json!(2), &json!(3)));
    assert_eq!(code(&bench, "alice", sealed("m2", 3)).await, "stale_epoch", "nor above it");
    assert_eq!(done(&bench, "alice", sealed("m2", 2)).await["seq"], 4, "the id is free");
    for result in [&mut first, &mut born] {
        result["duplicate"] = json!(true);
    }
    assert_eq!(done(&bench, "alice", sealed("m1", 1)).await, first);
    assert_eq!(done(&bench, "bob", commit("c1", 1)).await, born, "with its own epoch");
    for (user, frame) in [("alice", sealed("m1", 2)), ("alice", silent("m1", 1)), ("bob", commit("c1", 2))] {
        assert_eq!(code(&bench, user, frame).await, "id_reused");
    }
    let mut other = commit("c1", 1);
    other["tree"] = json!(bytes("another"));
    assert_eq!(code(&bench, "bob", other).await, "id_reused");
    assert_eq!(code(&bench, "bob", commit("c2", 1)).await, "stale_epoch");
    let stranger = of(
        &bench,
        "carol",
        json!({"action": "commit", "to": "dave", "client_msg_id": "c1", "epoch": 3,
        "group_info": "AAAA", "tree": "AAAA"}),
    )
    .await["error"]
        .take();
    assert_eq!(
        (&stranger["epoch"], &stranger["last_seq"], stranger.get("conversation_id")),
        (&json!(0), &json!(0), None)
    );
}

#[tokio::test]
async fn a_plain_conversation_becomes_sealed_for_good() {
    let bench = Workbench::default();
    let mut first = text("t1");
    first["to"] = json!("bob");
    let mut plain = done(&bench, "alice", without(first.clone(), "conversation_id")).await;
    assert_eq!(code(&bench, "alice", json!({"action": "group_info", "to": "bob"})).await, "gone");
    assert_eq!(code(&bench, "alice", sealed("m1", 1)).await, "stale_epoch");
    done(&bench, "bob", birth("b1", 0)).await;
    let shown = inbox(&bench, "alice").await[0].take();
    assert_eq!((&shown["encrypted"], &shown["last_message"]["preview"]), (&json!(true), &json!("t1")), "it stays");
    plain["duplicate"] = json!(true);
    assert_eq!(done(&bench, "alice", without(first, "conversation_id")).await, plain, "it was stored before");
    for frame in [
        text("t2"),
        json!({"action": "edit", "conversation_id": dm(), "seq": 1, "client_msg_id": "e1", "body": "x"}),
        json!({"action": "react", "conversation_id": dm(), "seq": 1, "client_msg_id": "r1", "emoji": "👍"}),
        json!({"action": "upload", "to": "bob", "kind": "image", "mime": "image/jpeg", "bytes": 5, "sha256":
            "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="}),
    ] {
        assert_eq!(code(&bench, "alice", frame.clone()).await, "encryption_required", "{frame}");
    }
    done(
        &bench,
        "alice",
        json!({"action": "react", "conversation_id": dm(), "seq": 1, "client_msg_id": "r2", "emoji": null}),
    )
    .await;
    done(&bench, "alice", json!({"action": "delete", "conversation_id": dm(), "seq": 1, "client_msg_id": "d1"})).await;
}

#[tokio::test]
async fn a_silent_entry_neither_counts_nor_shows() {
    let bench = Workbench::default();
    done(&bench, "alice", first_birth("b1")).await;
    done(&bench, "alice", silent("s1", 1)).await;
    assert_eq!(inbox(&bench, "bob").await, json!([]), "nothing counts yet");
    done(&bench, "alice", sealed("m1", 1)).await;
    done(&bench, "alice", silent("s2", 1)).await;
    done(&bench, "alice", sealed("m2", 1)).await;
    done(&bench, "alice", commit("c1", 1)).await;
    let shown = inbox(&bench, "bob").await[0].take();
    assert_eq!(
        (&shown["unread"], &shown["last_message"]["seq"], &shown["last_seq"]),
        (&json!(2), &json!(5), &json!(6))
    );
    let read = json!({"action": "read", "conversation_id": dm(), "seq": 3});
    assert_eq!(done(&bench, "bob", read).await["unread"], 1, "a silent entry is not counted as unread");
    assert_eq!(entries(&bench, "bob").await[3]["silent"], true);
}

#[tokio::test]
async fn a_delete_takes_the_bytes_of_sealed_entries_and_keeps_no_copy() {
    let bench = Workbench::default();
    done(&bench, "alice", first_birth("b1")).await;
    for frame in [sealed("m1", 1), silent("s1", 1), sealed("m2", 1)] {
        done(&bench, "alice", frame).await;
    }
    let delete =
        |seq: u64| json!({"action": "delete", "conversation_id": dm(), "seq": seq, "client_msg_id": format!("d{seq}")});
    done(&bench, "alice", delete(3)).await;
    assert_eq!(inbox(&bench, "bob").await[0]["unread"], 2, "a silent entry was not counted");
    done(&bench, "alice", delete(2)).await;
    assert_eq!(inbox(&bench, "bob").await[0]["unread"], 1);
    assert_eq!(code(&bench, "alice", delete(1)).await, "gone", "a commit stays");
    assert_eq!(code(&bench, "bob", delete(4)).await, "forbidden");
    let entries = entries(&bench, "bob").await;
    for (place, is_silent) in [(1, false), (2, true)] {
        let entry = &entries[place];
        assert_eq!((&entry["body"], &entry["epoch"]), (&json!(""), &json!(1)), "{entry}");
        assert!(entry["deleted_at"].is_string() && entry.get("silent").is_some() == is_silent);
    }
    assert_eq!(bench.aws.rows("AuditTable"), Vec::<Value>::new());
}

#[tokio::test]
async fn refusals_come_in_their_order() {
    let off = Workbench::limited(Limits { encryption: Encryption::Off, ..Limits::default() });
    for frame in [first_birth("b1"), json!({"action": "group_info", "to": "bob"})] {
        let expected = if frame["action"] == "commit" { "forbidden" } else { "gone" };
        assert_eq!(code(&off, "alice", frame).await, expected);
    }
    done(&off, "alice", json!({"action": "send", "to": "bob", "client_msg_id": "t1", "kind": "text", "body": "hi"}))
        .await;
    for frame in [sealed("m1", 1), birth("b1", 0), json!({"action": "group_info", "to": "bob"})] {
        assert_eq!(code(&off, "alice", frame).await, "forbidden");
    }

    let bench = Workbench::default();
    let mut event = message("alice", &first_birth("b1").to_string());
    event.payload.request_context.authorizer.fields.remove("device_id");
    let reply = frame_of(&bench.handle("commit", event).await);
    assert_eq!(reply["error"]["code"], "device_required");
    for (frame, refused) in [
        (commit("c1", 0), "bad_request"),
        (birth("b1", 0), "not_member"),
        (sealed("m1", 1), "not_member"),
        (json!({"action": "group_info", "conversation_id": dm()}), "not_member"),
        (json!({"action": "group_info", "conversation_id": "gr_x"}), "not_member"),
        (json!({"action": "group_info", "conversation_id": "ch_x"}), "bad_request"),
    ] {
        assert_eq!(code(&bench, "alice", frame.clone()).await, refused, "{frame}");
    }
    for (conversation, refused) in [("gr_x", "not_member"), ("ch_x", "bad_request")] {
        for mut frame in [birth("b1", 0), sealed("m1", 1)] {
            frame["conversation_id"] = json!(conversation);
            assert_eq!(code(&bench, "alice", frame).await, refused);
        }
    }
    let mut to_service = first_birth("b1");
    to_service["to"] = json!("@orders");
    assert_eq!(code(&bench, "alice", to_service).await, "forbidden");
    done(&bench, "alice", first_birth("b1")).await;
    done(&bench, "bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    for frame in [commit("c1", 7), sealed("m1", 7), text("t1")] {
        assert_eq!(code(&bench, "alice", frame).await, "forbidden", "before another epoch");
    }
    let info = json!({"action": "group_info", "conversation_id": dm()});
    assert_eq!(done(&bench, "alice", info).await["epoch"], 1, "also beyond a block");
}

#[tokio::test]
async fn where_encryption_is_required_users_write_nothing_in_the_clear() {
    let bench = Workbench::limited(Limits { encryption: Encryption::Required, ..Limits::default() });
    let features = json!({"action": "ping", "features": true});
    assert_eq!(
        done(&bench, "alice", features).await["features"],
        json!(testkit::features(&["encryption", "encryption.groups", "encryption.media", "encryption.required"]))
    );
    let plain = |to: &str| json!({"action": "send", "to": to, "client_msg_id": "t1", "kind": "text", "body": "hi"});
    for to in ["bob", "alice"] {
        assert_eq!(code(&bench, "alice", plain(to)).await, "encryption_required");
    }
    let group =
        done(&bench, "alice", json!({"action": "create", "client_msg_id": "g1", "title": "Trip", "members": ["bob"]}))
            .await["conversation_id"]
            .take();
    let upload = json!({"action": "upload", "conversation_id": group, "kind": "image", "mime": "image/jpeg", "bytes": 5,
        "sha256": "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="});
    let say = json!({"action": "send", "conversation_id": group, "client_msg_id": "t2", "kind": "text", "body": "hi"});
    for frame in [say, upload] {
        assert_eq!(code(&bench, "alice", frame).await, "encryption_required");
    }
    let channel = json!({"action": "create", "client_msg_id": "k1", "kind": "channel", "title": "News", "members": []});
    let channel = done(&bench, "alice", channel).await["conversation_id"].take();
    let post =
        json!({"action": "send", "conversation_id": channel, "client_msg_id": "t3", "kind": "text", "body": "hi"});
    done(&bench, "alice", post).await;
    assert_eq!(
        bench.ingest(&[("@orders bob", json!({"to": "bob", "client_msg_id": "o1", "body": "packed"}))]).await,
        Vec::<usize>::new()
    );
    assert_eq!(done(&bench, "alice", first_birth("b1")).await["seq"], 1);
}

#[tokio::test]
async fn births_and_commits_of_a_user_have_limits_in_each_conversation() {
    let bench = Workbench::default();
    done(&bench, "alice", first_birth("b0")).await;
    for epoch in 1..3 {
        done(&bench, "alice", birth(&format!("b{epoch}"), epoch)).await;
    }
    let refused = of(&bench, "alice", birth("b3", 3)).await["error"].take();
    assert_eq!(refused["code"], "rate_limited");
    assert_eq!(code(&bench, "alice", birth("b3", 2)).await, "stale_epoch", "before the limit");
    assert_eq!(done(&bench, "alice", birth("b2", 2)).await["duplicate"], true, "what is stored is repeated");
    done(&bench, "bob", birth("b3", 3)).await;
    for epoch in 4..31 {
        done(&bench, "alice", commit(&format!("c{epoch}"), epoch)).await;
    }
    assert_eq!(code(&bench, "alice", commit("c31", 31)).await, "rate_limited");
    bench.clock.advance(Duration::from_secs(30));
    done(&bench, "alice", commit("c31", 31)).await;
    bench.clock.advance(Duration::from_hours(1));
    done(&bench, "alice", birth("b4", 32)).await;
    assert_eq!(code(&bench, "alice", birth("b5", 33)).await, "rate_limited");
}

#[tokio::test]
async fn sizes_and_forms_are_checked() {
    let bench = Workbench::default();
    let long = |count: usize| BASE64.encode(&vec![7; count]);
    done(&bench, "alice", first_birth("b1")).await;
    let with = |mut frame: Value, field: &str, value: Value| {
        frame[field] = value;
        frame
    };
    let third = COMMIT_CHARS_MAX / 4 * 3 / 3;
    for (frame, refused) in [
        (with(sealed("m1", 1), "body", json!(long(SEALED_BYTES_MAX + 1))), "too_large"),
        (with(sealed("m1", 1), "body", json!("")), "bad_request"),
        (with(sealed("m1", 1), "body", json!("Zh==")), "bad_request"),
        (with(sealed("m1", 1), "epoch", json!(0)), "bad_request"),
        (with(sealed("m1", 1), "reply_to", json!(1)), "bad_request"),
        (with(sealed("m1", 1), "data", json!({})), "bad_request"),
        (with(sealed("m1", 1), "frank", json!("AAAA")), "bad_request"),
        (with(text("t1"), "epoch", json!(1)), "bad_request"),
        (with(text("t1"), "silent", json!(false)), "bad_request"),
        (with(commit("c1", 1), "removes", json!(["bob"])), "bad_request"),
        (with(commit("c1", 1), "commit", json!({"media_id": "m_x"})), "bad_request"),
        (without(commit("c1", 1), "tree"), "bad_request"),
        (with(with(commit("c1", 1), "group_info", json!(long(third))), "tree", json!(long(2 * third))), "too_large"),
    ] {
        assert_eq!(code(&bench, "alice", frame.clone()).await, refused, "{}", &frame.to_string()[..80]);
    }
    done(&bench, "alice", with(sealed("m1", 1), "body", json!(long(SEALED_BYTES_MAX)))).await;
    done(&bench, "alice", with(sealed("m2", 1), "silent", json!(false))).await;
    let mut largest = with(commit("c1", 1), "tree", json!(long(2 * third)));
    largest["commit"] = json!("AAAA");
    largest["group_info"] = json!(long(third - 3));
    done(&bench, "alice", largest).await;
    assert_eq!(entries(&bench, "bob").await[1]["body"], json!(long(SEALED_BYTES_MAX)));
}

#[tokio::test]
async fn a_commit_shows_no_stranger_that_its_author_is_online() {
    let bench = Workbench::limited(Limits { presence: true, ..Limits::default() });
    bench.connected("alice").await;
    done(&bench, "alice", first_birth("b1")).await;
    let presence = json!({"action": "presence", "user_ids": ["alice"]});
    assert_eq!(done(&bench, "bob", presence.clone()).await["users"], json!([]), "alice wrote nothing");
    done(&bench, "alice", sealed("m1", 1)).await;
    assert_eq!(done(&bench, "bob", presence).await["users"][0]["online"], true);
}
