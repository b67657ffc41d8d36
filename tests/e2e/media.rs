//! Pictures, files and voice, as two people and an S3 see them: over sockets, and by URLs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use data_encoding::BASE64;
use pigeonhole_client::{Attachment, MimeType, Target, UserId};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::{Fault, PATIENCE, Phone, Proxy, TestServer};
use tokio::time::timeout;

use crate::client::{App, Folder, config};

const MIB: usize = 1024 * 1024;
/// A URL's, where it is not to be good for long: time enough to ask for it, and to begin with it.
const URL_LIFE: Duration = Duration::from_secs(8);
/// A page that calls itself a picture.
const HTML: &[u8] = b"<!doctype html><script>alert(1)</script>";

fn digest(bytes: &[u8]) -> String {
    BASE64.encode(&Sha256::digest(bytes))
}

fn upload(kind: &str, mime: &str, bytes: &[u8]) -> Value {
    json!({"action": "upload", "to": "bob", "kind": kind, "mime": mime, "bytes": bytes.len(), "sha256": digest(bytes)})
}

/// Returns the `media` of a message.
fn media(media_id: &Value, mime: &str, bytes: &[u8], more: &Value) -> Value {
    let mut media = json!({"media_id": media_id, "mime": mime, "bytes": bytes.len(), "sha256": digest(bytes)});
    media.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    media
}

fn send(kind: &str, id: &str, media: &Value) -> Value {
    json!({"action": "send", "to": "bob", "client_msg_id": id, "kind": kind, "body": "", "media": media})
}

fn headers(place: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(place["headers"].clone()).unwrap()
}

async fn put(server: &TestServer, url: &str, headers: &BTreeMap<String, String>, bytes: &[u8]) -> StatusCode {
    let mut put = server.http.put(url).body(bytes.to_vec());
    for (name, value) in headers {
        put = put.header(name, value);
    }
    put.send().await.unwrap().status()
}

async fn get(server: &TestServer, url: &str) -> Response {
    server.http.get(url).send().await.unwrap()
}

/// Puts these bytes as announced. Returns their `media_id`.
async fn uploaded(server: &TestServer, phone: &mut Phone, announced: Value, bytes: &[u8]) -> Value {
    let place = phone.ok(announced).await;
    assert_eq!(put(server, place["url"].as_str().unwrap(), &headers(&place), bytes).await, StatusCode::OK);
    phone.ok(json!({"action": "uploaded", "media_id": place["media_id"]})).await["media_id"].clone()
}

async fn url_of(phone: &mut Phone, media_id: &Value) -> String {
    let got = phone.ok(json!({"action": "download", "media_ids": [media_id]})).await;
    got["items"][0]["url"].as_str().unwrap_or_else(|| panic!("{got}")).to_owned()
}

/// Has an upload end then.
async fn end_at(server: &TestServer, media_id: &Value, seconds: u64) {
    let update = server.tables().update_item().table_name("MediaTable");
    let update = update.key("media_id", AttributeValue::S(media_id.as_str().unwrap().to_owned()));
    let update = update.update_expression("SET expires_at = :then");
    update.expression_attribute_values(":then", AttributeValue::N(seconds.to_string())).send().await.unwrap();
}

/// In seconds, as the table has it.
#[expect(clippy::disallowed_methods, reason = "the functions and S3 have the system's clock")]
fn in_future(by: Duration) -> u64 {
    (SystemTime::now() + by).duration_since(UNIX_EPOCH).unwrap().as_secs()
}

async fn swept(server: &TestServer) {
    server.local().mapping("MediaStream").unwrap().settled().await;
}

/// A row that was not written for another reason than that it is there: what is put without one would stay for ever.
#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "breaks calls to AWS")]
async fn where_the_row_is_not_written_nothing_can_be_put() {
    let breaks = Arc::new(AtomicBool::new(true));
    let proxy = Proxy::open({
        let breaks = Arc::clone(&breaks);
        move |function, call| {
            let is_row =
                function == "MediaFunction" && call.operation() == "PutItem" && call.body().get("Item").is_some();
            let is_of_upload = is_row && call.body()["Item"].get("owner_id").is_some();
            (is_of_upload && breaks.load(SeqCst)).then_some(Fault::Conflict)
        }
    })
    .await;
    let server = proxy.server().await;
    let mut alice = server.phone("alice").await;
    assert_eq!(alice.refused(upload("file", "text/plain", b"hi")).await, "unavailable");
    breaks.store(false, SeqCst);
    uploaded(&server, &mut alice, upload("file", "text/plain", b"hi"), b"hi").await;
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack checks no signature of a URL")]
async fn a_picture_is_put_sent_fetched_and_deleted() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let media_id = uploaded(&server, &mut alice, upload("image", "image/png", HTML), HTML).await;
    let media = media(&media_id, "image/png", HTML, &json!({"width": 4, "height": 3}));
    let sent = alice.ok(send("image", "m1", &media)).await;
    let told = bob.event("messages.new").await["messages"][0].take();
    assert_eq!((&told["kind"], &told["body"], &told["media"]), (&json!("image"), &json!(""), &media));
    let url = url_of(&mut bob, &media_id).await;
    let got = get(&server, &url).await;
    assert_eq!(got.status(), StatusCode::OK);
    // No browser shows a file by itself, or treats it as a page.
    assert_eq!(got.headers()["content-disposition"], "attachment");
    assert_eq!(got.headers()["content-type"], "image/png");
    assert_eq!(got.bytes().await.unwrap(), HTML);
    let part = server.http.get(&url).header("range", "bytes=2-8").send().await.unwrap();
    assert_eq!((part.status(), part.bytes().await.unwrap().as_ref()), (StatusCode::PARTIAL_CONTENT, &HTML[2..9]));
    // A client can't turn it into another URL.
    let as_a_page = url.replace("response-content-type=image%2Fpng", "response-content-type=text%2Fhtml");
    assert_ne!(as_a_page, url);
    let shown = url.replace("response-content-disposition=attachment&", "");
    let another = url.replace("/media/image/", "/media/file/");
    for changed in [as_a_page, shown, another, url.split('?').next().unwrap().to_owned()] {
        assert_eq!(get(&server, &changed).await.status(), StatusCode::FORBIDDEN, "{changed}");
    }
    assert_eq!(server.http.delete(&url).send().await.unwrap().status(), StatusCode::FORBIDDEN);

    let delete =
        json!({"action": "delete", "conversation_id": sent["conversation_id"], "seq": 1, "client_msg_id": "d1"});
    alice.ok(delete).await;
    let gone = bob.ok(json!({"action": "download", "media_ids": [media_id]})).await;
    assert_eq!(gone, json!({"items": [], "gone": [media_id]}));
    // The URL of before dies with the object.
    while get(&server, &url).await.status() != StatusCode::NOT_FOUND {
        tokio::task::yield_now().await;
    }
    let message = bob.history(sent["conversation_id"].as_str().unwrap()).await["messages"][0].take();
    assert_eq!((&message["media"], &message["body"]), (&Value::Null, &json!("")));
}

/// A phone on the desk reaches no URL that names 127.0.0.1.
#[tokio::test]
#[cfg(target_os = "linux")] // Elsewhere the machine has no second address without a network.
#[cfg_attr(feature = "deployed", ignore = "a stack has a name and not an address")]
async fn urls_name_the_address_that_the_server_listens_on() {
    let server = TestServer::with(|options| options.host = [127, 0, 0, 2].into()).await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let media_id = uploaded(&server, &mut alice, upload("file", "text/plain", b"hi"), b"hi").await;
    let media = media(&media_id, "text/plain", b"hi", &json!({"name": "hi.txt"}));
    alice.ok(send("file", "m1", &media)).await;
    bob.event("messages.new").await;
    let url = url_of(&mut bob, &media_id).await;
    assert!(url.starts_with("http://127.0.0.2:"), "{url}");
    assert_eq!(get(&server, &url).await.bytes().await.unwrap().as_ref(), b"hi");

    let tokens = format!("{}/token?user=alice", server.local().http_url());
    for (host, status) in [("localhost", StatusCode::OK), ("192.168.1.20", StatusCode::FORBIDDEN)] {
        let asked = server.http.get(&tokens).header("host", host).send().await.unwrap();
        assert_eq!(asked.status(), status, "{host}");
    }
}

/// In a container: its ports are ports of 127.0.0.1 for programs outside of it.
#[tokio::test]
#[cfg(target_os = "linux")] // As above.
#[cfg_attr(feature = "deployed", ignore = "a stack has a name and not an address")]
async fn a_server_on_all_addresses_is_127_0_0_1_to_clients() {
    let server = TestServer::with(|options| options.host = [0, 0, 0, 0].into()).await;
    let place = server.phone("alice").await.ok(upload("file", "text/plain", b"hi")).await;
    assert!(place["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{place}");
    let elsewhere = format!("http://127.0.0.2:{}/token?user=alice", server.local().port());
    let asked = server.http.get(elsewhere).header("host", "127.0.0.1").send().await.unwrap();
    assert_eq!(asked.status(), StatusCode::OK);
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack takes headers of S3's that are not signed")]
async fn s3_takes_no_header_of_its_own_that_is_not_signed() {
    let server = TestServer::open().await;
    let place = server.phone("alice").await.ok(upload("file", "text/html", HTML)).await;
    let mut tagged = headers(&place);
    tagged.insert("x-amz-meta-note".to_owned(), "not signed".to_owned());
    assert_eq!(put(&server, place["url"].as_str().unwrap(), &tagged, HTML).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn s3_takes_what_was_announced_once_and_nothing_else() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let place = alice.ok(upload("file", "text/html", HTML)).await;
    let (url, signed) = (place["url"].as_str().unwrap(), headers(&place));
    let with = |name: &str, value: &str| {
        let mut changed = signed.clone();
        changed.insert(name.to_owned(), value.to_owned());
        changed
    };
    let mut same_length = HTML.to_vec();
    same_length[3] ^= 1;
    assert_eq!(put(&server, url, &signed, &same_length).await, StatusCode::BAD_REQUEST, "other bytes");
    assert_eq!(put(&server, url, &signed, &HTML[1..]).await, StatusCode::FORBIDDEN, "fewer");
    assert_eq!(
        put(&server, url, &with("content-type", "image/png"), HTML).await,
        StatusCode::FORBIDDEN,
        "another type"
    );
    let other_digest = with("x-amz-checksum-sha256", &digest(&same_length));
    assert_eq!(put(&server, url, &other_digest, &same_length).await, StatusCode::FORBIDDEN, "another digest");
    for name in signed.keys() {
        let mut fewer = signed.clone();
        fewer.remove(name);
        assert_eq!(put(&server, url, &fewer, HTML).await, StatusCode::FORBIDDEN, "without {name}");
    }
    let elsewhere = url.replace("/media/file/", "/media/image/");
    assert_eq!(put(&server, &elsewhere, &signed, HTML).await, StatusCode::FORBIDDEN, "elsewhere");
    let longer = url.replace("X-Amz-Expires=900", "X-Amz-Expires=90000");
    assert_eq!(put(&server, &longer, &signed, HTML).await, StatusCode::FORBIDDEN, "for longer");
    let media_id = &place["media_id"];
    let is_there = json!({"action": "uploaded", "media_id": media_id});
    assert_eq!(alice.refused(is_there.clone()).await, "not_ready", "nothing of all that is there");
    assert_eq!(put(&server, url, &signed, HTML).await, StatusCode::OK);
    assert_eq!(put(&server, url, &signed, HTML).await, StatusCode::PRECONDITION_FAILED, "twice");
    alice.ok(is_there).await;
    let file = media(media_id, "text/html", HTML, &json!({"name": "a.html"}));
    let mut named = file.clone();
    for name in ["../../etc/passwd", "a\nb", "exe\u{202e}gpj.html"] {
        named["name"] = json!(name);
        assert_eq!(alice.refused(send("file", "m1", &named)).await, "bad_request", "{name:?}");
    }
    alice.ok(send("file", "m1", &file)).await;
    assert_eq!(alice.refused(send("file", "m2", &file)).await, "gone", "in two messages");
    // Types that browsers run are downloaded as another type.
    let got = get(&server, &url_of(&mut server.phone("bob").await, media_id).await).await;
    assert_eq!(got.headers()["content-type"], "application/octet-stream");
    assert_eq!(got.headers()["content-disposition"], "attachment; filename=\"a.html\"; filename*=UTF-8''a.html");
    assert_eq!(alice.refused(upload("image", "image/svg+xml", HTML)).await, "bad_request", "it is no image");
}

#[tokio::test]
#[cfg_attr(feature = "ministack", ignore = "MiniStack keeps no encoding of an object")]
async fn what_would_be_unpacked_on_its_way_is_no_upload() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let place = alice.ok(upload("image", "image/png", HTML)).await;
    let (url, mut encoded) = (place["url"].as_str().unwrap(), headers(&place));
    encoded.insert("content-encoding".to_owned(), "gzip".to_owned());
    assert_eq!(put(&server, url, &encoded, HTML).await, StatusCode::OK, "S3 takes a header that is not its own");
    let is_there = json!({"action": "uploaded", "media_id": place["media_id"]});
    assert_eq!(alice.refused(is_there).await, "not_ready");
    // How long it is to be cached is the server's word alone.
    let place = alice.ok(upload("image", "image/png", HTML)).await;
    let (url, mut cached) = (place["url"].as_str().unwrap(), headers(&place));
    cached.insert("cache-control".to_owned(), "public, max-age=31536000".to_owned());
    assert_eq!(put(&server, url, &cached, HTML).await, StatusCode::OK);
    let media_id = alice.ok(json!({"action": "uploaded", "media_id": place["media_id"]})).await["media_id"].take();
    let media = media(&media_id, "image/png", HTML, &json!({"width": 4, "height": 3}));
    alice.ok(send("image", "m1", &media)).await;
    let got = get(&server, &url_of(&mut bob, &media_id).await).await;
    assert_eq!(
        (got.status(), &got.headers()["cache-control"]),
        (StatusCode::OK, &"private, no-store".parse().unwrap())
    );
}

#[tokio::test]
async fn a_large_file_goes_on_where_it_was_interrupted() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let bytes: Vec<u8> = (0..17 * MIB).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let digests: Vec<String> = bytes.chunks(8 * MIB).map(digest).collect();
    let all: Vec<u8> = bytes.chunks(8 * MIB).flat_map(Sha256::digest).collect();
    let mut announced = upload("file", "video/mp4", &bytes);
    announced["sha256"] = json!(digest(&all));
    announced["parts"] = json!(digests);
    let begun = alice.ok(announced).await;
    let media_id = begun["media_id"].clone();
    let of = |part: &Value| {
        let [offset, length] = ["offset", "bytes"].map(|name| usize::try_from(part[name].as_u64().unwrap()).unwrap());
        bytes[offset..offset + length].to_vec()
    };
    let [first, second, third] = begun["parts"].as_array().unwrap().as_slice() else { panic!("{begun}") };
    for part in [third, first] {
        let put = put(&server, part["url"].as_str().unwrap(), &headers(part), &of(part)).await;
        assert_eq!(put, StatusCode::OK);
    }
    let bad = put(&server, second["url"].as_str().unwrap(), &headers(second), &of(first)).await;
    assert_eq!(bad, StatusCode::BAD_REQUEST, "another part's bytes");
    // The app was restarted: only the part that is missing is put.
    alice.leave().await;
    let mut alice = server.phone("alice").await;
    let is_there = json!({"action": "uploaded", "media_id": media_id});
    assert_eq!(alice.refused(is_there.clone()).await, "not_ready");
    let rest = alice.ok(json!({"action": "upload", "media_id": media_id})).await;
    let [part] = rest["parts"].as_array().unwrap().as_slice() else { panic!("{rest}") };
    assert_eq!(part["number"], 2);
    assert_eq!(put(&server, part["url"].as_str().unwrap(), &headers(part), &of(part)).await, StatusCode::OK);
    alice.ok(is_there).await;
    let mut file = media(&media_id, "video/mp4", &bytes, &json!({"name": "sea.mp4"}));
    file["sha256"] = json!(digest(&all));
    alice.ok(send("file", "m1", &file)).await;
    let url = url_of(&mut server.phone("bob").await, &media_id).await;
    assert_eq!(get(&server, &url).await.bytes().await.unwrap(), bytes);
}

#[tokio::test]
async fn a_forwarded_picture_outlives_the_first() {
    let server = TestServer::open().await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let media_id = uploaded(&server, &mut alice, upload("voice", "audio/webm", b"hi"), b"hi").await;
    let voice = media(&media_id, "audio/webm", b"hi", &json!({"duration_ms": 900, "waveform": "AAAA"}));
    let sent = alice.ok(send("voice", "m1", &voice)).await;
    let copy_of = json!({"conversation_id": sent["conversation_id"], "seq": sent["seq"]});
    let copied = bob.ok(json!({"action": "upload", "to": "carol", "copy_of": copy_of})).await["media_id"].take();
    let mut forwarded = voice.clone();
    forwarded["media_id"] = copied.clone();
    let mut frame = send("voice", "f1", &forwarded);
    frame["to"] = json!("carol");
    bob.ok(frame).await;
    let delete =
        json!({"action": "delete", "conversation_id": sent["conversation_id"], "seq": 1, "client_msg_id": "d1"});
    alice.ok(delete).await;
    let url = url_of(&mut server.phone("carol").await, &copied).await;
    assert_eq!(get(&server, &url).await.bytes().await.unwrap().as_ref(), b"hi");
}

#[tokio::test]
async fn what_a_post_carries_is_for_who_sees_the_post() {
    let server = TestServer::open().await;
    let [mut alice, mut bob, mut carol, mut dave] = [
        server.phone("alice").await,
        server.phone("bob").await,
        server.phone("carol").await,
        server.phone("dave").await,
    ];
    let create = json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": [],
        "join": "open"});
    let channel = alice.ok(create).await["conversation_id"].take();
    let about = |action: &str, more: Value| {
        let mut frame = json!({"action": action, "conversation_id": channel});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    let only = |action: &str| about(action, json!({}));
    for phone in [&mut bob, &mut carol] {
        phone.ok(only("join")).await;
    }
    bob.ok(only("watch")).await;
    let mut announced = upload("image", "image/png", HTML);
    announced.as_object_mut().unwrap().remove("to");
    announced["conversation_id"] = channel.clone();
    assert_eq!(dave.refused(announced.clone()).await, "not_member");
    let media_id = uploaded(&server, &mut alice, announced, HTML).await;
    let media = media(&media_id, "image/png", HTML, &json!({"width": 4, "height": 3}));
    let post = about("send", json!({"client_msg_id": "m1", "kind": "image", "body": "", "media": media}));
    assert_eq!(bob.refused(post.clone()).await, "forbidden");
    let sent = alice.ok(post.clone()).await;
    assert_eq!(alice.ok(post).await["duplicate"], true);
    assert_eq!(bob.event("messages.new").await["messages"][0]["media"], media);
    assert_eq!(bob.ok(json!({"action": "channels"})).await["conversations"][0]["unread"], 1);
    let url = url_of(&mut bob, &media_id).await;
    assert_eq!(get(&server, &url).await.bytes().await.unwrap(), HTML);
    // Not who is no member, nor who joined later, nor who has left.
    let download = json!({"action": "download", "media_ids": [media_id]});
    let gone = json!({"items": [], "gone": [media_id]});
    let copy = json!({"action": "upload", "to": "erin", "copy_of": {"conversation_id": channel, "seq": sent["seq"]}});
    assert_eq!(dave.ok(download.clone()).await, gone);
    assert_eq!(dave.refused(copy.clone()).await, "not_member");
    dave.ok(only("join")).await;
    assert_eq!(dave.ok(download.clone()).await, gone);
    assert_eq!(dave.refused(copy.clone()).await, "gone");
    carol.ok(copy.clone()).await;
    carol.ok(only("leave")).await;
    assert_eq!(carol.ok(download.clone()).await, gone);

    alice.ok(about("delete", json!({"seq": sent["seq"], "client_msg_id": "d1"}))).await;
    assert_eq!(bob.ok(download).await, gone);
    assert_eq!(bob.refused(copy).await, "gone");
    while get(&server, &url).await.status() != StatusCode::NOT_FOUND {
        tokio::task::yield_now().await;
    }
    let message = bob.history(channel.as_str().unwrap()).await["messages"][0].take();
    assert_eq!((&message["seq"], &message["media"]), (&sent["seq"], &Value::Null));
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks into the tables and the bucket")]
async fn what_is_never_sent_goes_by_its_ttl() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let orphan = uploaded(&server, &mut alice, upload("image", "image/png", HTML), HTML).await;
    let kept = uploaded(&server, &mut alice, upload("image", "image/png", HTML), HTML).await;
    alice.ok(send("image", "m1", &media(&kept, "image/png", HTML, &json!({"width": 4, "height": 3})))).await;
    end_at(&server, &orphan, 1).await;
    let engine = server.local().database().engine().clone();
    tokio::task::spawn_blocking(move || engine.sweep_ttl()).await.unwrap().unwrap();
    swept(&server).await;
    assert_eq!(server.local().objects().keys(), [format!("media/image/{}", kept.as_str().unwrap())]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks into the tables")]
async fn a_url_that_has_ended_takes_nothing_and_another_one_does() {
    let server = TestServer::open().await;
    let mut alice = server.phone("alice").await;
    let media_id = alice.ok(upload("image", "image/png", HTML)).await["media_id"].take();
    let again = json!({"action": "upload", "media_id": media_id});
    // No URL outlives its upload.
    end_at(&server, &media_id, in_future(URL_LIFE)).await;
    let place = alice.ok(again.clone()).await;
    end_at(&server, &media_id, in_future(Duration::from_hours(1))).await;
    let (url, signed) = (place["url"].as_str().unwrap(), headers(&place));
    let mut other = HTML.to_vec();
    other[3] ^= 1;
    // While it is good S3 looks at the bytes.
    let is_good = async {
        while put(&server, url, &signed, &other).await == StatusCode::BAD_REQUEST {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, is_good).await.expect("it ends");
    assert_eq!(put(&server, url, &signed, HTML).await, StatusCode::FORBIDDEN);
    assert_eq!(alice.refused(json!({"action": "uploaded", "media_id": media_id})).await, "not_ready");
    let place = alice.ok(again).await;
    assert_eq!(put(&server, place["url"].as_str().unwrap(), &headers(&place), HTML).await, StatusCode::OK);
    alice.ok(json!({"action": "uploaded", "media_id": media_id})).await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "delays a PUT, and looks into the tables")]
async fn an_app_whose_url_ends_while_it_puts_asks_for_another_one() {
    let (puts, is_slow) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let proxy = Proxy::open({
        let (puts, is_slow) = (Arc::clone(&puts), Arc::clone(&is_slow));
        move |_, call| {
            // At first the network is gone, and then the first PUT takes longer than its URL is good.
            (call.operation() == "PutObject").then(|| puts.fetch_add(1, SeqCst));
            match (call.operation(), is_slow.load(SeqCst), puts.load(SeqCst)) {
                ("PutObject", false, _) => Some(Fault::Lost),
                ("PutObject", true, 1) => Some(Fault::Delayed(URL_LIFE + Duration::from_secs(1))),
                _ => None,
            }
        }
    })
    .await;
    let server = proxy.server().await;
    let mut bob = server.phone("bob").await;
    let folder = Folder::new("ended-url");
    let start = || config(&server, server.url(), "alice").store(folder.0.join("alice"));
    let alice = App::ready(start()).await;
    let picture = Attachment::image(folder.with("a.png", HTML), MimeType::parse("image/png").unwrap(), 4, 3);
    alice.client.send_media(Target::User(UserId::parse("bob").unwrap()), picture).await.unwrap();
    until(|| puts.load(SeqCst) > 0).await;
    alice.client.close().await;

    let media_id = server.local().database().rows("MediaTable", usize::MAX).unwrap().unwrap()[0]["media_id"].take();
    end_at(&server, &media_id, in_future(URL_LIFE)).await;
    puts.store(0, SeqCst);
    is_slow.store(true, SeqCst);
    let _alice = App::start(start()).await;
    until(|| puts.load(SeqCst) > 0).await;
    end_at(&server, &media_id, in_future(Duration::from_hours(1))).await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["media"]["media_id"], media_id, "it is the same upload");
    assert_eq!(puts.load(SeqCst), 2, "the first was refused");
}

async fn until(holds: impl Fn() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waited).await.expect("in time");
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "the local S3 follows the template, and a stack's origins are its own")]
async fn a_page_may_put_and_get_what_it_has_a_url_for() {
    let server = TestServer::open().await;
    let place = server.phone("alice").await.ok(upload("image", "image/png", HTML)).await;
    let names: Vec<String> = headers(&place).into_keys().collect();
    let ask = async |origin: &str| {
        let ask = server.http.request(Method::OPTIONS, place["url"].as_str().unwrap()).header("origin", origin);
        let ask = ask.header("access-control-request-method", "PUT");
        ask.header("access-control-request-headers", names.join(",")).send().await.unwrap()
    };
    assert_eq!(ask("https://evil.example").await.status(), 403, "the local server is for pages of this machine");
    let answer = ask("http://localhost:5173").await;
    assert!(answer.status().is_success());
    assert_eq!(answer.headers()["access-control-allow-origin"], "*");
    let allowed = answer.headers()["access-control-allow-headers"].to_str().unwrap();
    for name in names {
        assert!(allowed.split(',').any(|allowed| allowed.trim() == name), "{name} is not among {allowed}");
    }
}
