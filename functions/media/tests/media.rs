//! Uploads, messages, downloads and removals of media: the calls in their order, and the refusals.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Limits, Workbench, message_to_bob};

const PNG: &[u8] = b"\x89PNG, or what calls itself so";
const MIB: usize = 1024 * 1024;

fn digest(bytes: &[u8]) -> String {
    data_encoding::BASE64.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

fn image() -> Value {
    json!({"action": "upload", "to": "bob", "kind": "image", "mime": "image/png", "bytes": PNG.len(), "sha256": digest(PNG)})
}

/// The message that carries the image of [`image`].
fn message(media_id: &Value, client_msg_id: &str) -> Value {
    let media = json!({
        "media_id": media_id, "mime": "image/png", "bytes": PNG.len(), "sha256": digest(PNG), "width": 4, "height": 3
    });
    json!({
        "action": "send", "to": "bob", "client_msg_id": client_msg_id, "kind": "image", "body": "us, at last", "media": media
    })
}

fn uploaded(media_id: &Value) -> Value {
    json!({"action": "uploaded", "media_id": media_id})
}

fn download(media_id: &Value) -> Value {
    json!({"action": "download", "media_ids": [media_id]})
}

fn put(bench: &Workbench, place: &Value, bytes: &[u8]) -> u16 {
    bench.aws.with_s3(|s3| s3.put(place["url"].as_str().unwrap(), &place["headers"], bytes))
}

/// Alice has uploaded the image for Bob: what it is called.
async fn ready(bench: &Workbench) -> Value {
    let place = bench.ok("alice", image()).await;
    assert_eq!(put(bench, &place, PNG), 200);
    bench.ok("alice", uploaded(&place["media_id"])).await;
    place["media_id"].clone()
}

fn keys(bench: &Workbench) -> Vec<String> {
    bench.aws.with_s3(|s3| s3.keys().into_iter().map(str::to_owned).collect())
}

fn rows(bench: &Workbench) -> Vec<Value> {
    bench.aws.rows("MediaTable")
}

fn expire(bench: &Workbench, media_id: &Value) {
    bench.aws.remove_row("MediaTable", &json!({"media_id": {"S": media_id}}));
}

#[tokio::test]
async fn a_picture_goes_from_one_to_the_other() {
    let bench = Workbench::default();
    let place = bench.ok("alice", image()).await;
    assert_eq!(
        bench.operations(),
        ["GetItem", "PutItem"],
        "her row of the conversation; a URL is signed without a call"
    );
    let media_id = &place["media_id"];
    assert_eq!(media_id.as_str().unwrap().len(), 28);
    let signed = place["url"].as_str().unwrap();
    let wanted = "X-Amz-SignedHeaders=content-length%3Bcontent-type%3Bhost%3Bif-none-match%3Bx-amz-checksum-sha256";
    assert!(signed.contains(wanted), "{signed}");
    assert!(signed.contains("X-Amz-Expires=900"), "{signed}");
    let headers = json!({"content-type": "image/png", "if-none-match": "*", "x-amz-checksum-sha256": digest(PNG)});
    assert_eq!(place["headers"], headers);

    assert_eq!(bench.refused("alice", uploaded(media_id)).await, "not_ready");
    assert_eq!(bench.refused("alice", message(media_id, "m1")).await, "not_ready");
    assert_eq!(put(&bench, &place, PNG), 200);
    assert_eq!(put(&bench, &place, PNG), 412, "once");
    assert_eq!(bench.refused("alice", message(media_id, "m1")).await, "not_ready", "nobody has looked yet");
    bench.operations();
    bench.ok("alice", uploaded(media_id)).await;
    assert_eq!(bench.operations(), ["GetItem", "HeadObject", "UpdateItem"]);
    bench.ok("alice", uploaded(media_id)).await;
    assert_eq!(bench.operations(), ["GetItem"]);

    let sent = bench.ok("alice", message(media_id, "m1")).await;
    assert_eq!(
        bench.operations(),
        ["GetItem", "GetItem", "TransactWriteItems", "Query", "Query"],
        "as a first text, and S3 is not asked"
    );
    let row = &rows(&bench)[0];
    assert_eq!((&row["seq"], &row["expires_at"]), (&json!(1), &Value::Null), "{row}");
    let history = json!({"action": "history", "conversation_id": sent["conversation_id"]});
    let shown = bench.ok("bob", history).await["messages"][0].clone();
    assert_eq!((&shown["kind"], &shown["body"]), (&json!("image"), &json!("us, at last")));
    assert_eq!(shown["media"], message(media_id, "m1")["media"]);
    assert_eq!(bench.ok("bob", json!({"action": "inbox"})).await["conversations"][0]["unread"], 1);

    bench.operations();
    let got = bench.ok("bob", download(media_id)).await;
    assert_eq!(bench.operations(), ["BatchGetItem", "GetItem"]);
    let url = got["items"][0]["url"].as_str().unwrap();
    assert!(url.contains("response-content-disposition=attachment&response-content-type=image%2Fpng"), "{url}");
    assert!(url.contains("X-Amz-Expires=300"), "{url}");
    // The retry has its first answer, and nothing is attached twice.
    assert_eq!(bench.ok("alice", message(media_id, "m1")).await["duplicate"], true);
    assert_eq!(bench.refused("alice", message(media_id, "m2")).await, "gone");
}

#[tokio::test]
async fn a_retry_beside_its_first_try_is_not_told_that_the_upload_is_gone() {
    let bench = Workbench::default();
    let media_id = ready(&bench).await;
    // The first try is just being written: it has taken the upload, and holds its idempotency row.
    let in_the_middle = &["None", "TransactionConflict", "ConditionalCheckFailed"];
    bench.aws.fail_next("TransactWriteItems", Fault::Cancelled(in_the_middle));
    assert_eq!(bench.ok("alice", message(&media_id, "m1")).await["seq"], 1);
}

#[tokio::test]
async fn what_was_put_is_looked_at() {
    let bench = Workbench::default();
    let place = bench.ok("alice", image()).await;
    let key = format!("media/image/{}", place["media_id"].as_str().unwrap());
    let with_null = [PNG, b"\0"].concat();
    for (mime, bytes) in [("image/png", &b"other bytes"[..]), ("text/html", PNG), ("image/png", &with_null)] {
        bench.aws.with_s3(|s3| s3.insert(&key, mime, bytes));
        assert_eq!(bench.refused("alice", uploaded(&place["media_id"])).await, "not_ready");
    }
    assert_eq!(put(&bench, &place, PNG), 412, "begin with another upload");
}

#[tokio::test]
async fn only_what_is_one_s_own_and_as_it_was_announced_can_be_sent() {
    let bench = Workbench::default();
    let media_id = &ready(&bench).await;
    bench.ok("mallory", message_to_bob("m1")).await;
    for user in ["mallory", "bob"] {
        let to = if user == "bob" { "alice" } else { "bob" };
        let mut theirs = message(media_id, "m2");
        theirs["to"] = json!(to);
        assert_eq!(bench.refused(user, theirs).await, "gone", "{user}");
        assert_eq!(bench.refused(user, uploaded(media_id)).await, "gone", "{user}");
        assert_eq!(bench.refused(user, json!({"action": "upload", "media_id": media_id})).await, "gone", "{user}");
    }
    let mut elsewhere = message(media_id, "m3");
    elsewhere["to"] = json!("carol");
    assert_eq!(bench.refused("alice", elsewhere).await, "gone");
    for (field, value) in [("mime", json!("image/gif")), ("bytes", json!(1)), ("sha256", json!(digest(b"x")))] {
        let mut other = message(media_id, "m4");
        other["media"][field] = value;
        let answer = bench.run("alice", other).await;
        assert_eq!(answer["error"]["code"], "bad_request", "{answer}");
        assert_eq!(answer["error"]["message"], format!("media.{field}: must be what was uploaded"));
    }
    let mut file = message(media_id, "m5");
    file["kind"] = json!("file");
    file["media"]["name"] = json!("a.png");
    assert_eq!(bench.run("alice", file).await["error"]["message"], "kind: must be what was uploaded");
    assert_eq!(bench.refused("alice", message(&json!("m_none"), "m6")).await, "gone");
    assert!(bench.aws.rows("MessagesTable").iter().all(|row| row["kind"] == "text"), "nothing was written");
    bench.clock.advance(Duration::from_hours(24));
    assert_eq!(
        bench.refused("alice", message(media_id, "m7")).await,
        "gone",
        "too late, whether the TTL was there or not"
    );
    assert_eq!(bench.refused("alice", json!({"action": "upload", "media_id": media_id})).await, "gone");
}

#[tokio::test]
async fn the_same_id_with_another_picture_is_another_message() {
    let bench = Workbench::default();
    let (first, second) = (&ready(&bench).await, &ready(&bench).await);
    bench.ok("alice", message(first, "m1")).await;
    assert_eq!(bench.refused("alice", message(second, "m1")).await, "id_reused");
}

#[tokio::test]
async fn who_does_not_see_the_message_does_not_get_what_it_carries() {
    let bench = Workbench::default();
    let media_id = &ready(&bench).await;
    for user in ["alice", "bob"] {
        let got = bench.ok(user, download(media_id)).await;
        assert_eq!(got, json!({"items": [], "gone": [media_id]}), "it is not sent");
    }
    bench.ok("alice", message(media_id, "m1")).await;
    assert_eq!(bench.ok("mallory", download(media_id)).await["gone"], json!([media_id]));
    assert_eq!(bench.ok("bob", download(media_id)).await["gone"], json!([]));
    let ids = json!({"action": "download", "media_ids": ["m_none", media_id]});
    let got = bench.ok("alice", ids).await;
    assert_eq!((&got["gone"], &got["items"][0]["media_id"]), (&json!(["m_none"]), media_id));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_no_other_conversation_s_picture_back() {
    let bench = Workbench::default();
    let mut pictures = vec![];
    for user in ["alice", "carol"] {
        let place = bench.ok(user, image()).await;
        assert_eq!(put(&bench, &place, PNG), 200);
        bench.ok(user, uploaded(&place["media_id"])).await;
        bench.ok(user, message(&place["media_id"], "m1")).await;
        pictures.push(place["media_id"].clone());
    }
    let mut row = bench
        .aws
        .raw_rows("InboxTable")
        .into_iter()
        .find(|row| row["user_id"]["S"] == "bob" && row["peer_id"]["S"] == "alice")
        .unwrap();
    row["unread"] = json!({"S": "many"});
    bench.aws.put_rows("InboxTable", &[row]);
    let got = bench.ok("bob", json!({"action": "download", "media_ids": pictures})).await;
    assert_eq!((&got["gone"], &got["items"][0]["media_id"]), (&json!([pictures[0]]), &pictures[1]));
}

#[tokio::test]
async fn a_group_s_picture_is_for_who_is_in_it_then() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob", "carol"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let mut announced = image();
    announced.as_object_mut().unwrap().remove("to");
    announced["conversation_id"] = group.clone();
    assert_eq!(bench.refused("mallory", announced.clone()).await, "not_member");
    let mut sent = vec![];
    for (number, leaver) in [("m1", Some("carol")), ("m2", None)] {
        let place = bench.ok("alice", announced.clone()).await;
        put(&bench, &place, PNG);
        bench.ok("alice", uploaded(&place["media_id"])).await;
        let mut frame = message(&place["media_id"], number);
        frame.as_object_mut().unwrap().remove("to");
        frame["conversation_id"] = group.clone();
        bench.ok("alice", frame).await;
        sent.push(place["media_id"].clone());
        if let Some(user) = leaver {
            bench.ok(user, json!({"action": "leave", "conversation_id": group, "client_msg_id": "l1"})).await;
            bench.fanout().await;
        }
    }
    let add = json!({"action": "add", "conversation_id": group, "client_msg_id": "a1", "members": ["dave"]});
    bench.ok("alice", add).await;
    let all = json!({"action": "download", "media_ids": sent});
    for (user, gone) in
        [("bob", json!([])), ("carol", json!([sent[1]])), ("dave", json!(sent)), ("mallory", json!(sent))]
    {
        assert_eq!(bench.ok(user, all.clone()).await["gone"], gone, "{user}");
    }
    // An admin deletes another user's message, and its object goes.
    let mut announced = announced.clone();
    announced["conversation_id"] = group.clone();
    let delete = json!({"action": "delete", "conversation_id": group, "seq": 2, "client_msg_id": "d1"});
    bench.ok("alice", delete).await;
    assert_eq!(bench.sweep().await, json!([]));
    assert_eq!(keys(&bench), [format!("media/image/{}", sent[1].as_str().unwrap())]);
}

#[tokio::test]
async fn a_delete_takes_the_object_along() {
    let bench = Workbench::default();
    let media_id = &ready(&bench).await;
    let sent = bench.ok("alice", message(media_id, "m1")).await;
    let delete =
        json!({"action": "delete", "conversation_id": sent["conversation_id"], "seq": 1, "client_msg_id": "d1"});
    bench.ok("alice", delete).await;
    assert_eq!(bench.ok("bob", download(media_id)).await["gone"], json!([media_id]), "at once");
    let stored = bench.aws.rows("MessagesTable").into_iter().find(|row| row["seq"] == 1).unwrap();
    assert_eq!(stored["media"], Value::Null);
    let shown = bench.ok("bob", json!({"action": "history", "conversation_id": sent["conversation_id"]})).await;
    assert_eq!(shown["messages"][0]["media"], Value::Null);
    bench.operations();
    assert_eq!(bench.sweep().await, json!([]));
    assert_eq!(bench.operations(), ["PutItem", "DeleteObject"]);
    assert!(keys(&bench).is_empty());
    // A client can put the object again with its URL, for a quarter of an hour. The server removes that object, too.
    bench.aws.with_s3(|s3| s3.insert(&format!("media/image/{}", media_id.as_str().unwrap()), "image/png", PNG));
    assert_eq!(bench.refused("alice", uploaded(media_id)).await, "gone");
    assert_eq!(bench.refused("alice", message(media_id, "m2")).await, "gone");
    bench.clock.advance(Duration::from_hours(2));
    expire(&bench, media_id);
    assert_eq!(bench.sweep().await, json!([]));
    assert!(keys(&bench).is_empty());
    assert!(rows(&bench).is_empty(), "and nothing is left behind by that");
}

#[tokio::test]
async fn what_an_operator_deletes_takes_its_object_along() {
    let bench = Workbench::default();
    let media_id = &ready(&bench).await;
    let sent = bench.ok("alice", message(media_id, "m1")).await;
    let delete = json!({"op": "delete_message", "conversation_id": sent["conversation_id"], "seq": 1});
    assert!(bench.started().admin(delete).await["result"].is_object());
    assert_eq!(bench.ok("bob", download(media_id)).await["gone"], json!([media_id]));
    assert_eq!(bench.sweep().await, json!([]));
    assert!(keys(&bench).is_empty());
}

#[tokio::test]
async fn a_service_sends_no_picture_and_is_sent_none() {
    let bench = Workbench::default();
    let mut picture = message(&ready(&bench).await, "m1");
    picture["from"] = json!("@orders");
    assert!(bench.ingest(&[("bob", picture.clone())]).await.is_empty());
    assert_eq!(bench.aws.dead_letters()[0][1], "kind: must be \"text\", or \"x-\" and a name");
    picture["op"] = json!("send");
    picture["as"] = json!("@orders");
    let answer = bench.started().admin(picture).await;
    assert_eq!(answer["error"]["message"], "kind: must be \"text\", or \"x-\" and a name: services upload nothing");
    let text = json!({"from": "@orders", "to": "alice", "client_msg_id": "m1", "kind": "text", "body": "hi"});
    assert!(bench.ingest(&[("alice", text)]).await.is_empty());

    let mut to_service = image();
    to_service["to"] = json!("@orders");
    assert_eq!(bench.refused("alice", to_service.clone()).await, "forbidden");
    let inbox = bench.ok("alice", json!({"action": "inbox"})).await;
    to_service.as_object_mut().unwrap().remove("to");
    to_service["conversation_id"] = inbox["conversations"][0]["conversation_id"].clone();
    assert_eq!(bench.refused("alice", to_service).await, "forbidden");
}

#[tokio::test]
async fn what_was_never_sent_is_removed_with_its_row() {
    let bench = Workbench::default();
    let media_id = &ready(&bench).await;
    bench.clock.advance(Duration::from_hours(30));
    expire(&bench, media_id);
    bench.operations();
    assert_eq!(bench.sweep().await, json!([]));
    assert_eq!(bench.operations(), ["DeleteObject"], "nobody can put it any more");
    assert!(keys(&bench).is_empty() && rows(&bench).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_comes_again() {
    let bench = Workbench::default();
    let (first, second) = (ready(&bench).await, ready(&bench).await);
    bench.clock.advance(Duration::from_hours(30));
    for media_id in [&first, &second] {
        expire(&bench, media_id);
    }
    let records = bench.aws.removed();
    bench.aws.fail_always("DeleteObject", Fault::Status(500));
    bench.aws.fail_always("HeadObject", Fault::Status(500));
    let again = bench.started().sweep(records.clone()).await;
    assert_eq!(again[0]["itemIdentifier"], records[0]["dynamodb"]["SequenceNumber"]);
    bench.aws.recover();
    assert_eq!(bench.started().sweep(records).await, json!([]));
    assert!(keys(&bench).is_empty());
    assert_eq!(
        bench.started().sweep(vec![json!({"dynamodb": {}})]).await,
        json!([]),
        "what can't be read holds up nothing"
    );
}

/// Alice has sent `count` pictures and deleted them.
async fn deleted(bench: &Workbench, count: usize) -> Vec<Value> {
    let mut ids = vec![];
    for number in 0..count {
        let media_id = ready(bench).await;
        let sent = bench.ok("alice", message(&media_id, &format!("m{number}"))).await;
        let delete = json!({
            "action": "delete", "conversation_id": sent["conversation_id"], "seq": sent["seq"], "client_msg_id": format!("d{number}")
        });
        bench.ok("alice", delete).await;
        ids.push(media_id);
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn an_object_that_s3_refuses_holds_up_no_other_and_can_be_found_and_removed_later() {
    let bench = Workbench::default();
    let ids = deleted(&bench, 3).await;
    let refused = ids[1].as_str().unwrap().to_owned();
    bench.aws.fail_if(move |call| {
        (call.operation() == "DeleteObject" && call.body().to_string().contains(&refused)).then_some(Fault::Status(500))
    });
    assert_eq!(bench.sweep().await, json!([]), "nothing behind it waits");
    assert_eq!(keys(&bench), [format!("media/image/{}", ids[1].as_str().unwrap())]);
    let [event] = &bench.aws.given_up()[..] else { panic!("{:?}", bench.aws.given_up()) };
    bench.aws.recover();
    assert_eq!(bench.started().sweep_again(event.clone()).await, json!([]));
    assert!(keys(&bench).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_only_object_of_a_batch_is_given_up_alone_too() {
    let bench = Workbench::default();
    deleted(&bench, 1).await;
    bench.aws.fail_always("DeleteObject", Fault::Status(500));
    let records = bench.aws.removed();
    // The batch keeps the row until the queue has taken it.
    bench.aws.fail_next("SendMessage", Fault::Status(500));
    assert_eq!(bench.started().sweep(records.clone()).await.as_array().unwrap().len(), 1);
    assert_eq!(bench.started().sweep(records).await, json!([]));
    assert_eq!(bench.aws.given_up().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_s3_answers_nothing_the_batch_comes_again() {
    let bench = Workbench::default();
    deleted(&bench, 2).await;
    bench.aws.fail_always("DeleteObject", Fault::Status(500));
    bench.aws.fail_always("HeadObject", Fault::Status(500));
    let records = bench.aws.removed();
    assert_eq!(bench.started().sweep(records.clone()).await.as_array().unwrap().len(), 1);
    assert!(bench.aws.given_up().is_empty());
    bench.aws.recover();
    assert_eq!(bench.started().sweep(records).await, json!([]));
    assert!(keys(&bench).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_passes_is_no_failure() {
    let bench = Workbench::default();
    deleted(&bench, 2).await;
    bench.aws.fail_next("DeleteObject", Fault::Throttled);
    assert_eq!(bench.sweep().await, json!([]));
    assert!(keys(&bench).is_empty() && bench.aws.given_up().is_empty());
}

#[tokio::test]
async fn a_large_file_goes_in_parts() {
    let bench = Workbench::default();
    let bytes = vec![7; 81 * MIB];
    let digests: Vec<String> = bytes.chunks(8 * MIB).map(digest).collect();
    let all: Vec<u8> = digests.iter().flat_map(|part| data_encoding::BASE64.decode(part.as_bytes()).unwrap()).collect();
    let announced = json!({
        "action": "upload", "to": "bob", "kind": "file", "mime": "video/mp4", "bytes": bytes.len(), "sha256": digest(&all), "parts": digests
    });
    let mut wrong = announced.clone();
    wrong["parts"].as_array_mut().unwrap().pop();
    assert_eq!(bench.refused("alice", wrong).await, "bad_request");
    bench.operations();
    let first = bench.ok("alice", announced).await;
    assert_eq!(bench.operations(), ["GetItem", "CreateMultipartUpload", "PutItem"]);
    let media_id = &first["media_id"];
    assert_eq!(
        (first["parts"].as_array().unwrap().len(), &first["url"]),
        (8, &Value::Null),
        "as many as a frame holds"
    );
    let put_part = |part: &Value| {
        let offset = usize::try_from(part["offset"].as_u64().unwrap()).unwrap();
        let length = usize::try_from(part["bytes"].as_u64().unwrap()).unwrap();
        let url = part["url"].as_str().unwrap();
        let wanted = "X-Amz-SignedHeaders=content-length%3Bhost%3Bx-amz-checksum-sha256";
        assert!(url.contains(wanted), "{url}");
        assert_eq!(bench.aws.with_s3(|s3| s3.put(url, &part["headers"], &bytes[offset..offset + length])), 200);
    };
    // All parts are uploaded except the first. The reply then lists only that one.
    first["parts"].as_array().unwrap().iter().skip(1).for_each(put_part);
    assert_eq!(bench.refused("alice", uploaded(media_id)).await, "not_ready");
    let again = json!({"action": "upload", "media_id": media_id});
    let rest = bench.ok("alice", again.clone()).await;
    let numbers: Vec<u64> =
        rest["parts"].as_array().unwrap().iter().map(|part| part["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 9, 10, 11]);
    rest["parts"].as_array().unwrap().iter().for_each(put_part);
    assert_eq!(bench.ok("alice", again).await["parts"], Value::Null, "all of it is there");
    // The answer to what puts it together is lost; and asked again it is known to be done.
    bench.aws.fail_next("CompleteMultipartUpload", Fault::ReplyLost);
    assert_eq!(bench.refused("alice", uploaded(media_id)).await, "unavailable");
    bench.ok("alice", uploaded(media_id)).await;
    let media = json!({
        "media_id": media_id, "mime": "video/mp4", "bytes": bytes.len(), "sha256": digest(&all), "name": "the \"sea\".mp4"
    });
    let frame =
        json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "file", "body": "", "media": media});
    bench.ok("alice", frame).await;
    let url = bench.ok("bob", download(media_id)).await["items"][0]["url"].take();
    let saved =
        "attachment%3B%20filename%3D%22the%20_sea_.mp4%22%3B%20filename%2A%3DUTF-8%27%27the%2520%2522sea%2522.mp4";
    assert!(url.as_str().unwrap().contains(saved), "{url}");
    assert!(url.as_str().unwrap().contains("response-content-type=application%2Foctet-stream"), "{url}");
}

#[tokio::test]
async fn parts_that_nobody_put_together_go_with_their_row() {
    let bench = Workbench::default();
    let bytes = vec![7; 17 * MIB];
    let digests: Vec<String> = bytes.chunks(8 * MIB).map(digest).collect();
    let all: Vec<u8> = digests.iter().flat_map(|part| data_encoding::BASE64.decode(part.as_bytes()).unwrap()).collect();
    let announced = json!({
        "action": "upload", "to": "bob", "kind": "file", "mime": "x/y", "bytes": bytes.len(), "sha256": digest(&all), "parts": digests
    });
    let media_id = &bench.ok("alice", announced).await["media_id"];
    bench.clock.advance(Duration::from_hours(30));
    expire(&bench, media_id);
    assert_eq!(bench.sweep().await, json!([]));
    assert_eq!(bench.aws.with_s3(|s3| s3.uploads()), 0);
}

#[tokio::test]
async fn a_copy_is_an_object_of_its_own() {
    let bench = Workbench::default();
    let media_id = &ready(&bench).await;
    let sent = bench.ok("alice", message(media_id, "m1")).await;
    let source = json!({"conversation_id": sent["conversation_id"], "seq": 1});
    let copy = json!({"action": "upload", "to": "carol", "copy_of": source});
    assert_eq!(bench.refused("mallory", copy.clone()).await, "not_member");
    bench.operations();
    let copied = bench.ok("bob", copy.clone()).await;
    assert_eq!(bench.operations(), ["GetItem", "GetItem", "GetItem", "GetItem", "PutItem", "CopyObject", "UpdateItem"]);
    assert_eq!((&copied["url"], &copied["parts"]), (&Value::Null, &Value::Null), "there is nothing to put");
    let mut forwarded = message(&copied["media_id"], "f1");
    forwarded["to"] = json!("carol");
    bench.ok("bob", forwarded).await;
    let delete =
        json!({"action": "delete", "conversation_id": sent["conversation_id"], "seq": 1, "client_msg_id": "d1"});
    bench.ok("alice", delete).await;
    bench.sweep().await;
    assert_eq!(bench.ok("carol", download(&copied["media_id"])).await["gone"], json!([]));
    assert_eq!(keys(&bench), [format!("media/image/{}", copied["media_id"].as_str().unwrap())]);
    assert_eq!(bench.refused("bob", copy).await, "gone", "it is deleted");
}

#[tokio::test]
async fn a_user_uploads_so_much_at_once_and_so_much_a_day() {
    let uploads = domain::Rate::parse("3+24/86400s").unwrap();
    let bench = Workbench::limited(Limits { uploads, media_bytes: 2 * MIB as u64, ..Limits::default() });
    let of = |bytes: usize| json!({"action": "upload", "to": "bob", "kind": "image", "mime": "image/png", "bytes": bytes, "sha256": digest(PNG)});
    let error = bench.run("alice", of(2 * MIB + 1)).await["error"].take();
    let told =
        json!({"code": "too_large", "message": "bytes: must be at most 2 MiB on this server", "retryable": false});
    assert_eq!(error, told);
    bench.ok("alice", of(MIB + 1)).await;
    bench.ok("alice", of(1)).await;
    let refused = bench.run("alice", of(1)).await;
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["retry_after_ms"]),
        (&json!("rate_limited"), &json!(3_600_000))
    );
    bench.ok("bob", of(1)).await;
    bench.clock.advance(Duration::from_hours(1));
    bench.ok("alice", of(1)).await;
    assert_eq!(rows(&bench).iter().filter(|row| row["uploads_until"].is_number()).count(), 2);
    // The function reads a count again that another request has changed.
    bench.clock.advance(Duration::from_hours(1));
    let hold = bench.aws.hold_next("PutItem");
    let other = bench.started();
    let (first, second) = tokio::join!(bench.run("alice", of(1)), async {
        hold.reached().await;
        let second = other.run("alice", of(1)).await;
        hold.release();
        second
    });
    assert_eq!((&second["type"], &first["error"]["code"]), (&json!("reply"), &json!("rate_limited")));
}

#[tokio::test]
async fn who_is_blocked_uploads_nothing_for_the_other() {
    let bench = Workbench::default();
    bench.ok("bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    assert_eq!(bench.refused("alice", image()).await, "forbidden");
    let mut there = image();
    there.as_object_mut().unwrap().remove("to");
    there["conversation_id"] = json!("dm_x");
    assert_eq!(bench.refused("alice", there).await, "not_member");
}

#[tokio::test]
async fn without_s3_texts_go_on() {
    let bench = Workbench::default();
    let place = bench.ok("alice", image()).await;
    put(&bench, &place, PNG);
    for operation in ["HeadObject", "CopyObject", "CreateMultipartUpload"] {
        bench.aws.fail_always(operation, Fault::Status(500));
    }
    bench.ok("alice", image()).await;
    assert_eq!(bench.refused("alice", uploaded(&place["media_id"])).await, "unavailable");
    bench.ok("alice", message_to_bob("m1")).await;
}

#[tokio::test]
async fn a_caption_can_be_edited_and_emptied_and_the_picture_stays() {
    let bench = Workbench::default();
    let media_id = &ready(&bench).await;
    let sent = bench.ok("alice", message(media_id, "m1")).await;
    let edit = |id: &str, body: &str| {
        json!({
            "action": "edit", "conversation_id": sent["conversation_id"], "seq": 1, "client_msg_id": id, "body": body
        })
    };
    bench.ok("alice", edit("e1", "")).await;
    let history = json!({"action": "history", "conversation_id": sent["conversation_id"]});
    let shown = bench.ok("bob", history).await["messages"][0].clone();
    assert_eq!((&shown["body"], &shown["media"]["media_id"]), (&json!(""), media_id));
    bench.ok("alice", message_to_bob("m2")).await;
    let text = json!({"action": "edit", "conversation_id": sent["conversation_id"], "seq": 3, "client_msg_id": "e2", "body": ""});
    assert_eq!(bench.run("alice", text).await["error"]["message"], "body: must not be empty");
}
