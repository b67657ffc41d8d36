//! Attachments of sealed messages, and the digests for reports.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use data_encoding::BASE64;
use domain::Encryption;
use serde_json::{Value, json};
use testkit::{Limits, Workbench};

const CIPHERTEXT: &[u8] = b"what only devices of the members can open";

fn dm() -> &'static str {
    "dm_cqnezuscwz7if3puu6f3iggubjvdq4gs"
}

fn digest(bytes: &[u8]) -> String {
    BASE64.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

fn upload() -> Value {
    let (bytes, sha256) = (CIPHERTEXT.len(), digest(CIPHERTEXT));
    json!({"action": "upload", "conversation_id": dm(), "kind": "sealed", "bytes": bytes, "sha256": sha256})
}

fn image() -> Value {
    with(with(upload(), "kind", json!("image")), "mime", json!("image/png"))
}

fn with(mut frame: Value, field: &str, value: Value) -> Value {
    frame[field] = value;
    frame
}

fn sealed(id: &str) -> Value {
    json!({
        "action": "send", "conversation_id": dm(), "client_msg_id": id, "kind": "sealed", "epoch": 1,
        "body": BASE64.encode(id.as_bytes()),
    })
}

fn carrying(id: &str, media_id: &Value) -> Value {
    with(sealed(id), "media", json!({"media_id": media_id}))
}

fn frank() -> Value {
    json!(BASE64.encode(&[7; 32]))
}

fn birth() -> Value {
    let part = BASE64.encode(b"part");
    json!({
        "action": "commit", "to": "bob", "client_msg_id": "b1", "epoch": 0, "welcome": part, "group_info": part,
        "tree": part,
    })
}

/// A sealed conversation of alice and bob.
async fn born(sealed_reports: bool) -> Workbench {
    let bench = Workbench::limited(Limits { sealed_reports, ..Limits::default() });
    let reply = bench.device("alice", "pixel", birth()).await;
    assert_eq!(reply["type"], "reply", "{reply}");
    bench
}

async fn told(bench: &Workbench, user: &str, frame: Value) -> String {
    let error = bench.run(user, frame).await["error"].take();
    format!("{} · {}", error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

async fn ready(bench: &Workbench) -> Value {
    let place = bench.ok("alice", upload()).await;
    let status = bench.aws.with_s3(|s3| s3.put(place["url"].as_str().unwrap(), &place["headers"], CIPHERTEXT));
    assert_eq!(status, 200);
    bench.ok("alice", json!({"action": "uploaded", "media_id": place["media_id"]})).await;
    place["media_id"].clone()
}

async fn entry(bench: &Workbench, user: &str, seq: u64) -> Value {
    let history = json!({"action": "history", "conversation_id": dm(), "after_seq": seq - 1, "limit": 1});
    bench.ok(user, history).await["messages"][0].take()
}

fn download(media_id: &Value) -> Value {
    json!({"action": "download", "media_ids": [media_id]})
}

#[tokio::test]
async fn a_sealed_file_is_sent_fetched_and_deleted() {
    let bench = born(false).await;
    let media_id = ready(&bench).await;
    let early = bench.ok("bob", download(&media_id)).await;
    assert_eq!(early["gone"], json!([media_id]), "nobody sees it before it is sent");
    let sent = bench.ok("alice", carrying("m1", &media_id)).await;
    assert_eq!(sent["seq"], 2);
    let shown = entry(&bench, "bob", 2).await;
    assert_eq!(shown["media"], json!({"media_id": media_id, "bytes": CIPHERTEXT.len()}));
    assert_eq!(bench.ok("bob", download(&media_id)).await["items"][0]["media_id"], media_id);
    let again = bench.ok("alice", carrying("m1", &media_id)).await;
    assert_eq!((&again["seq"], &again["duplicate"]), (&json!(2), &json!(true)));
    assert_eq!(bench.refused("alice", sealed("m1")).await, "id_reused", "the media is a part of the request");
    assert_eq!(bench.refused("alice", carrying("m2", &media_id)).await, "gone", "one message has it");
    let delete = json!({"action": "delete", "conversation_id": dm(), "seq": 2, "client_msg_id": "d1"});
    bench.ok("alice", delete).await;
    assert_eq!(entry(&bench, "bob", 2).await["media"], Value::Null);
    assert_eq!(bench.ok("bob", download(&media_id)).await["gone"], json!([media_id]));
}

#[tokio::test]
async fn an_upload_is_as_secret_as_its_conversation() {
    let bench = born(false).await;
    assert_eq!(bench.refused("alice", image()).await, "encryption_required");
    for (field, value) in [("mime", json!("image/png")), ("name", json!("a.png"))] {
        let problem = format!("bad_request · {field}: must be left out: kind is \"sealed\"");
        assert_eq!(told(&bench, "alice", with(upload(), field, value)).await, problem);
    }
    let mut to_carol = upload();
    to_carol.as_object_mut().unwrap().remove("conversation_id");
    let to_carol = with(to_carol, "to", json!("carol"));
    let problem = "bad_request · kind: must not be \"sealed\": the conversation is not";
    assert_eq!(told(&bench, "alice", to_carol).await, problem);
    let group = json!({"action": "create", "client_msg_id": "g1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", group).await["conversation_id"].clone();
    bench.ok("alice", with(upload(), "conversation_id", group.clone())).await;
    bench.ok("alice", with(image(), "conversation_id", group)).await;
    let sealed = json!({"action": "create", "client_msg_id": "g2", "title": "Trip", "members": [], "encrypted": true});
    let sealed = bench.ok("alice", sealed).await["conversation_id"].clone();
    assert_eq!(bench.refused("alice", with(image(), "conversation_id", sealed.clone())).await, "encryption_required");
    bench.ok("alice", with(upload(), "conversation_id", sealed)).await;
    assert_eq!(bench.refused("carol", upload()).await, "not_member");
}

#[tokio::test]
async fn a_copy_of_sealed_media_is_sealed() {
    let bench = born(false).await;
    let media_id = ready(&bench).await;
    bench.ok("alice", carrying("m1", &media_id)).await;
    let copy = json!({"action": "upload", "conversation_id": dm(), "copy_of": {"conversation_id": dm(), "seq": 2}});
    let copied = bench.ok("alice", copy.clone()).await["media_id"].clone();
    let sent = bench.ok("alice", carrying("m2", &copied)).await;
    let shown = entry(&bench, "bob", sent["seq"].as_u64().unwrap()).await;
    assert_eq!(shown["media"], json!({"media_id": copied, "bytes": CIPHERTEXT.len()}));
    let mut to_carol = copy;
    to_carol.as_object_mut().unwrap().remove("conversation_id");
    assert_eq!(bench.refused("alice", with(to_carol, "to", json!("carol"))).await, "bad_request");
}

#[tokio::test]
async fn a_message_takes_no_other_media_than_its_sender_s_upload_for_it() {
    let bench = born(false).await;
    let media_id = ready(&bench).await;
    assert_eq!(bench.refused("bob", carrying("m1", &media_id)).await, "gone");
    let forged = json!(format!("{}0", media_id.as_str().unwrap()));
    for none in [forged, json!("m_x"), json!("m_x_"), json!("m_x_99999999999999999999"), json!("m__-1")] {
        assert_eq!(bench.refused("alice", carrying("m1", &none)).await, "gone", "{none}");
    }
    let waiting = bench.ok("alice", upload()).await["media_id"].clone();
    assert_eq!(bench.refused("alice", carrying("m1", &waiting)).await, "not_ready");
    for (media, problem) in [
        (json!("m_x"), "bad_request · media: must be an object"),
        (json!({}), "bad_request · media.media_id: is missing"),
        (json!({"media_id": media_id, "name": "a"}), "bad_request · media.name: must be left out: kind is \"sealed\""),
    ] {
        assert_eq!(told(&bench, "alice", with(sealed("m1"), "media", media)).await, problem);
    }
    bench.ok("alice", carrying("m1", &media_id)).await;
}

#[tokio::test]
async fn a_sealed_send_with_media_costs_what_a_plain_one_costs() {
    let bench = born(false).await;
    let media_id = ready(&bench).await;
    bench.operations();
    bench.ok("alice", carrying("m1", &media_id)).await;
    let sealed = bench.operations();
    let plain = Workbench::default();
    plain
        .ok("alice", json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi"}))
        .await;
    let place = plain.ok("alice", image()).await;
    plain.aws.with_s3(|s3| s3.put(place["url"].as_str().unwrap(), &place["headers"], CIPHERTEXT));
    plain.ok("alice", json!({"action": "uploaded", "media_id": place["media_id"]})).await;
    let media = json!({
        "media_id": place["media_id"], "mime": "image/png", "bytes": CIPHERTEXT.len(), "sha256": digest(CIPHERTEXT),
        "width": 4, "height": 3
    });
    plain.operations();
    let frame = json!({
        "action": "send", "conversation_id": dm(), "client_msg_id": "m2", "kind": "image", "body": "", "media": media
    });
    plain.ok("alice", frame).await;
    assert_eq!(sealed, plain.operations());
}

#[tokio::test]
async fn where_reports_are_on_each_sealed_message_has_its_digest() {
    let bench = born(true).await;
    assert_eq!(bench.refused("alice", sealed("m1")).await, "forbidden");
    let silent = with(sealed("m1"), "silent", json!(true));
    assert_eq!(bench.refused("alice", silent.clone()).await, "forbidden");
    for (wrong, code) in
        [(json!(BASE64.encode(&[7; 31])), "bad_request"), (json!(BASE64.encode(&[7; 33])), "too_large")]
    {
        assert_eq!(bench.refused("alice", with(sealed("m1"), "frank", wrong)).await, code);
    }
    let framed = with(sealed("m1"), "frank", frank());
    bench.ok("alice", framed.clone()).await;
    assert_eq!(entry(&bench, "bob", 2).await["frank"], frank());
    assert_eq!(bench.ok("alice", framed).await["duplicate"], true);
    let other = with(sealed("m1"), "frank", json!(BASE64.encode(&[8; 32])));
    assert_eq!(bench.refused("alice", other).await, "id_reused");
    let delete = json!({"action": "delete", "conversation_id": dm(), "seq": 2, "client_msg_id": "d1"});
    bench.ok("alice", delete).await;
    assert_eq!(entry(&bench, "bob", 2).await["frank"], Value::Null, "a deleted message shows none");
    let rows = bench.aws.rows("MessagesTable");
    let row = rows.iter().find(|row| row["seq"] == 2).unwrap();
    assert_eq!(row["frank"], frank(), "the row keeps it for a report: {row}");
    let features = bench.ok("alice", json!({"action": "ping", "features": true})).await["features"].take();
    let expected = testkit::features(&["encryption", "encryption.groups", "encryption.media", "encryption.report"]);
    assert_eq!(features, json!(expected));
}

#[tokio::test]
async fn what_the_server_does_not_have_is_left_out() {
    let bench = born(false).await;
    let problem = "bad_request · frank: must be left out: this server has no encryption.report";
    assert_eq!(told(&bench, "alice", with(sealed("m1"), "frank", frank())).await, problem);
    let plain =
        json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi", "frank": frank()});
    assert_eq!(bench.refused("alice", plain).await, "bad_request");
    let off = Workbench::limited(Limits { encryption: Encryption::Off, ..Limits::default() });
    let problem = "bad_request · kind: must not be \"sealed\": this server has no encryption.media";
    assert_eq!(told(&off, "alice", upload()).await, problem);
    assert_eq!(off.refused("alice", carrying("m1", &json!("m_x_1"))).await, "not_member");
    let mut to_bob = with(carrying("m1", &json!("m_x_1")), "to", json!("bob"));
    to_bob.as_object_mut().unwrap().remove("conversation_id");
    let problem = "bad_request · media: must be left out: this server has no encryption.media";
    assert_eq!(told(&off, "alice", to_bob).await, problem);
}
