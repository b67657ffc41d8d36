//! Phones in pockets: what each shows of what its user did not take. A phone is one of the local server's own, behind its SNS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use local::{Logs, StreamLimits};
use serde_json::{Value, json};
use testkit::{Fault, PATIENCE, Phone, Proxy, TestServer};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::client::Folder;
use crate::failures::until_logged;

/// Time for a connected user to acknowledge. For tests of offline users, and of users who acknowledge.
const LONG: u32 = 10;

async fn ringing(grace_s: u32) -> TestServer {
    TestServer::with(|options| TestServer::ringing(options, grace_s)).await
}

/// Registers the user's device with what `more` asks for; then it goes offline.
async fn register(server: &TestServer, user: &str, device: &str, platform: &str, more: Value) {
    let mut phone = server.device(user, device).await;
    on(&mut phone, device, platform, more).await;
    phone.leave().await;
    server.until_connections(user, 0).await;
}

async fn on(phone: &mut Phone, device: &str, platform: &str, more: Value) {
    let mut request = json!({"action": "device", "platform": platform, "token": token_of(device)});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(phone.ok(request).await, json!({"device_id": device, "registered": true}));
}

/// As APNs' tokens look, which FCM's may too.
fn token_of(device: &str) -> String {
    data_encoding::HEXLOWER.encode(device.as_bytes())
}

/// `[seq, title, body]` of each notification of the user's only phone.
async fn shown(server: &TestServer, user: &str) -> Vec<Value> {
    let phones = server.phones(user).await;
    assert_eq!(phones.len(), 1, "{phones:?}");
    notifications(&phones[0])
}

fn notifications(phone: &Value) -> Vec<Value> {
    let shown = phone["notifications"].as_array().unwrap().iter();
    shown.map(|one| json!([one["seq"], one["title"], one["body"]])).collect()
}

/// Returns the notifications on the phone with this id.
async fn shown_on(server: &TestServer, user: &str, device: &str) -> Vec<Value> {
    let phones = server.phones(user).await;
    notifications(phones.iter().find(|phone| phone["device_id"] == device).expect("it is listed"))
}

/// Without a preview.
fn plain(seq: u64) -> Value {
    json!([seq, "Pigeonhole", "New message"])
}

async fn kill(server: &TestServer, user: &str, device: &str) {
    let url = format!("{}/phones/kill?user={user}&device_id={device}", server.local().http_url());
    assert_eq!(server.http.post(url).send().await.unwrap().status(), 200);
}

/// Checks effects of every AWS that has streams. Effects on other users are tested elsewhere: `MiniStack` has no
/// batching window, and drops failed records.
#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "what SNS delivers is seen on a phone only")]
async fn a_phone_rings_again_in_the_place_of_the_first_time_and_is_cleared() {
    let server = TestServer::open_ringing(0).await;
    let token: String = std::iter::repeat_with(|| fastrand::digit(16)).take(64).collect();
    let mut phone = server.device("bob", "pixel").await;
    phone.ok(json!({"action": "device", "platform": "fcm", "token": token, "preview": true})).await;
    phone.leave().await;
    let mut alice = server.phone("alice").await;
    alice.send("bob", "m1", "are you there?").await;
    let is = |body: &'static str| move |shown: &[Value]| shown.len() == 1 && shown[0]["body"] == body;
    server.until_phone_shows(&token, is("are you there?")).await;
    let conversation = alice.send("bob", "m2", "hello?").await["conversation_id"].as_str().unwrap().to_owned();
    server.until_phone_shows(&token, is("hello?")).await;
    let mut tab = server.phone("bob").await;
    tab.drain().await;
    tab.read(&conversation, 2).await;
    server.until_phone_shows(&token, <[Value]>::is_empty).await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn an_edit_changes_what_is_shown_and_what_is_deleted_goes_from_the_phone() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({"preview": true, "badge": true})).await;
    let mut alice = server.phone("alice").await;
    let id = alice.send("bob", "m1", "are you there?").await["conversation_id"].clone();
    assert_eq!(shown(&server, "bob").await, [json!([1, "alice", "are you there?"])]);
    let change =
        |action: &str| json!({"action": action, "conversation_id": id, "seq": 1, "client_msg_id": action, "body": "x"});
    alice.ok(change("edit")).await;
    assert_eq!(shown(&server, "bob").await, [json!([1, "alice", "x"])]);
    alice.ok(change("delete")).await;
    assert!(shown(&server, "bob").await.is_empty());
    assert_eq!(server.phones("bob").await[0]["badge"], 0);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn who_is_offline_is_rung_once_and_sees_what_each_phone_asked_for() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({"preview": true, "badge": true})).await;
    register(&server, "bob", "pixel", "fcm", json!({})).await;
    let mut alice = server.phone("alice").await;
    let sent = alice.send("bob", "m1", "are you there?").await;
    let phones = server.phones("bob").await;
    let [iphone, pixel] = phones.as_slice() else { panic!("{phones:?}") };
    assert_eq!(
        (&iphone["device_id"], &iphone["platform"], &iphone["badge"]),
        (&json!("iphone"), &json!("apns"), &json!(1))
    );
    assert_eq!(
        (&pixel["device_id"], &pixel["platform"], &pixel["badge"]),
        (&json!("pixel"), &json!("fcm"), &Value::Null)
    );
    assert_eq!(notifications(iphone), [json!([1, "alice", "are you there?"])]);
    assert_eq!(notifications(pixel), [plain(1)]);
    assert_eq!(iphone["notifications"][0]["conversation_id"], sent["conversation_id"]);

    // The next of the same conversation stands in its place, and one of another beside it.
    alice.send("bob", "m2", "hello?").await;
    assert_eq!(shown_on(&server, "bob", "pixel").await, [plain(2)]);
    server.phone("carol").await.send("bob", "c1", "hi").await;
    assert_eq!(shown_on(&server, "bob", "iphone").await, [json!([1, "carol", "hi"]), json!([2, "alice", "hello?"])]);
    assert_eq!(server.phones("bob").await[0]["badge"], 3);
    assert_eq!(server.phones("alice").await, Vec::<Value>::new());
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn who_acknowledges_within_the_grace_is_not_rung_and_who_does_not_is() {
    let looked = Arc::new(Notify::new());
    let proxy = Proxy::open({
        let looked = Arc::clone(&looked);
        move |function, call| {
            if function == "NotifyFunction" && call.body()["TableName"] == "ConnectionsTable" {
                looked.notify_one();
            }
            None
        }
    })
    .await;
    let server = proxy.server_with(|options| TestServer::ringing(options, LONG)).await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    bob.event("messages.new").await;
    timeout(PATIENCE, looked.notified()).await.expect("it is asked whether bob is connected");
    bob.ack(&conversation, 1).await;
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);

    // On another server the time is over soon: the socket is open, and no client acknowledges.
    let server = ringing(1).await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    let (mut alice, mut bob) = (server.phone("alice").await, server.phone("bob").await);
    alice.send("bob", "m1", "hi").await;
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    bob.event("messages.new").await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn what_was_read_elsewhere_goes_from_every_phone() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({"badge": true})).await;
    register(&server, "bob", "pixel", "fcm", json!({})).await;
    let mut alice = server.phone("alice").await;
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    server.phone("carol").await.send("bob", "c1", "hi").await;
    assert_eq!(shown_on(&server, "bob", "iphone").await.len(), 2);

    // To acknowledge is not to see.
    let mut tab = server.phone("bob").await;
    tab.drain().await;
    assert_eq!(shown_on(&server, "bob", "iphone").await.len(), 2);
    tab.read(&conversation, 1).await;
    for phone in server.phones("bob").await {
        assert_eq!(notifications(&phone), [plain(1)], "carol's is left");
        assert!(phone["badge"].is_null() || phone["badge"] == 1, "{phone}");
    }
    // And rings again for what comes then.
    tab.leave().await;
    server.until_connections("bob", 0).await;
    alice.send("bob", "m2", "and now?").await;
    assert_eq!(shown_on(&server, "bob", "pixel").await, [plain(2), plain(1)]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn an_app_that_is_opened_takes_away_what_is_read_in_it() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({"badge": true})).await;
    let mut alice = server.phone("alice").await;
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    let mut app = server.device("bob", "iphone").await;
    app.drain().await;
    assert_eq!(shown(&server, "bob").await, [plain(1)], "it is there until it is looked at");
    app.read(&conversation, 1).await;
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);
    assert_eq!(server.phones("bob").await[0]["badge"], 0);
    app.leave().await;
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn muted_and_blocked_conversations_do_not_ring() {
    let server = ringing(0).await;
    register(&server, "bob", "iphone", "apns", json!({"badge": true})).await;
    let (mut alice, mut carol, mut bob) =
        (server.phone("alice").await, server.phone("carol").await, server.phone("bob").await);
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].clone();
    bob.event("messages.new").await;
    bob.drain().await;
    bob.read(conversation.as_str().unwrap(), 1).await;
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);
    let set = |set| json!({"action": "settings", "conversation_id": conversation, "set": set});
    bob.ok(set(json!({"muted_until": "forever"}))).await;
    alice.send("bob", "m2", "not now").await;
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);
    carol.send("bob", "c1", "hi").await;
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    assert_eq!(server.phones("bob").await[0]["badge"], 1, "without what is muted");
    bob.ok(set(json!({"muted_until": null}))).await;
    alice.send("bob", "m3", "now").await;
    assert_eq!(shown(&server, "bob").await, [plain(3), plain(1)]);

    // A message is on its way while the block arrives.
    server.pending_stream().hold().await;
    alice.send("bob", "m4", "one more").await;
    bob.ok(json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    server.pending_stream().release();
    assert_eq!(shown(&server, "bob").await, [plain(3), plain(1)]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn a_page_left_open_takes_everything_and_the_phone_that_asked_rings_all_the_same() {
    let server = ringing(1).await;
    register(&server, "bob", "pocket", "apns", json!({"when": "unread"})).await;
    register(&server, "bob", "desk", "apns", json!({"when": "pending"})).await;
    let (mut alice, mut tab) = (server.phone("alice").await, server.phone("bob").await);
    server.pending_stream().hold().await;
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    tab.ack(&conversation, 1).await;
    server.pending_stream().release();
    assert_eq!(shown_on(&server, "bob", "pocket").await, [plain(1)]);
    assert_eq!(shown_on(&server, "bob", "desk").await, [] as [Value; 0]);
    tab.read(&conversation, 1).await;
    assert_eq!(shown_on(&server, "bob", "pocket").await, [] as [Value; 0]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "kills functions")]
async fn whoever_rings_may_be_killed_before_it_notes_that_it_has() {
    let (kill, marks) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let proxy = Proxy::open({
        let (kill, marks) = (Arc::clone(&kill), Arc::clone(&marks));
        move |function, call| {
            let is_mark = function == "NotifyFunction" && call.operation() == "UpdateItem";
            marks.fetch_or(is_mark, Relaxed);
            (is_mark && kill.swap(false, Relaxed)).then_some(Fault::Killed)
        }
    })
    .await;
    let server = proxy.server_with(|options| TestServer::ringing(options, LONG)).await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    let mut alice = server.phone("alice").await;
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    assert!(marks.load(Relaxed) && !kill.load(Relaxed), "it was killed there");
    assert_eq!(server.rows("InboxTable", "bob")[0]["notified_seq"], 1, "and noted it when it ran again");
    let mut tab = server.phone("bob").await;
    tab.drain().await;
    tab.read(&conversation, 1).await;
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn a_stream_that_comes_twice_and_late_rings_as_one_that_does_not() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    server.pending_stream().duplicate(true);
    let mut alice = server.phone("alice").await;
    let conversation = alice.send("bob", "m1", "hi").await["conversation_id"].as_str().unwrap().to_owned();
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    // Read while the stream stands still: what comes then, twice, is all past.
    server.pending_stream().hold().await;
    alice.send("bob", "m2", "hi again").await;
    let mut tab = server.phone("bob").await;
    tab.drain().await;
    tab.read(&conversation, 2).await;
    server.pending_stream().release();
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "kills phones of the local server")]
async fn a_phone_without_the_app_is_forgotten_until_it_registers_again() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    let mut alice = server.phone("alice").await;
    alice.send("bob", "m1", "hi").await;
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    kill(&server, "bob", "iphone").await;
    let gone = json!({
        "device_id": "iphone", "platform": "apns", "alive": false, "badge": null, "notifications": [],
    });
    // The app was installed again, with the same token, which the server knows.
    register(&server, "bob", "iphone", "apns", json!({})).await;
    assert_eq!(server.phones("bob").await[0]["alive"], true);
    alice.send("bob", "m2", "there?").await;
    assert_eq!(shown(&server, "bob").await, [plain(2)]);
    kill(&server, "bob", "iphone").await;
    // SNS learns of it by the first, and says so at the second.
    for id in ["m3", "m4"] {
        alice.send("bob", id, "still there?").await;
        assert_eq!(server.phones("bob").await, std::slice::from_ref(&gone));
    }
    assert_eq!(server.rows("DevicesTable", "bob"), [] as [Value; 0], "nobody is rung in vain for ever");
    register(&server, "bob", "iphone", "apns", json!({})).await;
    alice.send("bob", "m5", "welcome back").await;
    assert_eq!(server.phones("bob").await[0]["alive"], true);
    assert_eq!(shown(&server, "bob").await, [plain(5)]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "restarts the server")]
async fn phones_outlive_a_restart_with_the_tables() {
    let folder = Folder::new("phones");
    let start = || {
        TestServer::with(|options| {
            TestServer::ringing(options, LONG);
            options.data = Some(folder.0.clone());
        })
    };
    let server = start().await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    server.phone("alice").await.send("bob", "m1", "hi").await;
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    server.shutdown().await;

    let server = start().await;
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
    server.phone("alice").await.send("bob", "m2", "hi again").await;
    assert_eq!(shown(&server, "bob").await, [plain(2)]);
    server.shutdown().await;
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn a_phone_that_changes_hands_rings_for_its_new_user_only() {
    let server = ringing(LONG).await;
    register(&server, "alice", "handset", "fcm", json!({"preview": true})).await;
    let mut carol = server.phone("carol").await;
    carol.send("alice", "c1", "for alice").await;
    assert_eq!(shown(&server, "alice").await, [json!([1, "carol", "for alice"])]);
    register(&server, "bob", "handset", "fcm", json!({"preview": true})).await;
    assert_eq!(server.phones("alice").await, Vec::<Value>::new());
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0], "an app shows nothing of whom it is no longer for");
    carol.send("alice", "c2", "still for alice").await;
    carol.send("bob", "c3", "for bob").await;
    assert_eq!(shown(&server, "bob").await, [json!([1, "carol", "for bob"])]);
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn who_has_logged_out_is_not_rung() {
    let server = ringing(LONG).await;
    let mut phone = server.device("bob", "iphone").await;
    on(&mut phone, "iphone", "apns", json!({})).await;
    assert_eq!(server.phones("bob").await.len(), 1);
    let off = json!({"action": "device", "token": null});
    assert_eq!(phone.ok(off).await, json!({"device_id": "iphone", "registered": false}));
    phone.leave().await;
    server.until_connections("bob", 0).await;
    server.phone("alice").await.send("bob", "m1", "hi").await;
    assert_eq!(server.phones("bob").await, Vec::<Value>::new());
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "disables an application of the local server")]
async fn what_an_application_that_is_disabled_did_not_take_rings_when_it_is_tried_again() {
    let log = Arc::default();
    let server = TestServer::with(|options| {
        TestServer::ringing(options, LONG);
        options.logs = Logs::Keep(Arc::clone(&log));
    })
    .await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    let set_enabled = async |enabled: &str| {
        let form = format!(
            "Action=SetPlatformApplicationAttributes&Attributes.entry.1.key=Enabled&Attributes.entry.1.value={enabled}\
             &PlatformApplicationArn=arn:aws:sns:us-east-1:000000000000:app/APNS/local"
        );
        let url = format!("{}/sns", server.local().http_url());
        assert_eq!(server.http.post(url).body(form).send().await.unwrap().status(), 200);
    };
    set_enabled("false").await;
    let mut alice = server.phone("alice").await;
    alice.send("bob", "m1", "hi").await;
    until_logged(&log, &["PlatformApplicationDisabled"]).await;
    assert_eq!(shown(&server, "bob").await, [] as [Value; 0]);
    set_enabled("true").await;
    assert!(server.local().replay("NotifyFunction", "PendingStream", "NotifyFailures").await.unwrap());
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
}

/// From the `send` to the ring on bob's phone, who is offline.
async fn until_rung(server: &TestServer, alice: &mut Phone, id: &str) -> Duration {
    let began = Instant::now();
    let seq = alice.send("bob", id, "hi").await["seq"].clone();
    server.until_phone_shows(&token_of("iphone"), |shown| shown.iter().any(|one| one["seq"] == seq)).await;
    began.elapsed()
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn who_is_offline_is_rung_within_five_seconds_whoever_else_takes_nothing() {
    // The template's own window, and the longest grace.
    let server = TestServer::with(|options| {
        TestServer::ringing(options, LONG);
        options.streams = StreamLimits { visibility_max: options.streams.visibility_max, ..StreamLimits::default() };
    })
    .await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    register(&server, "mallory", "other", "apns", json!({})).await;
    // A socket that is there and takes nothing, and is written to all the time.
    let _mallory = server.phone("mallory").await;
    let (mut alice, mut carol) = (server.phone("alice").await, server.phone("carol").await);
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            for number in 0.. {
                if stop.load(Relaxed) {
                    return;
                }
                carol.send("mallory", &format!("c{number}"), "hi").await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    });
    for id in ["m1", "m2"] {
        let took = until_rung(&server, &mut alice, id).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    stop.store(true, Relaxed);
    writing.await.unwrap();
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "has calls to AWS fail")]
async fn a_hot_partition_among_those_who_ring_holds_up_nobody() {
    let proxy = Proxy::open(|function, call| {
        (function == "NotifyFunction" && call.is_about("InboxTable", "mallory")).then_some(Fault::Hot("mallory"))
    })
    .await;
    let server = proxy.server_with(|options| TestServer::ringing(options, 0)).await;
    register(&server, "bob", "iphone", "apns", json!({})).await;
    register(&server, "mallory", "other", "apns", json!({})).await;
    let mut alice = server.phone("alice").await;
    for number in 0..5 {
        alice.send("mallory", &format!("x{number}"), "hi").await;
        let took = until_rung(&server, &mut alice, &format!("m{number}")).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    // The failed events for mallory are in the queue.
    timeout(PATIENCE, server.pending_stream().settled()).await.unwrap();
    assert!(!server.local().queue("NotifyFailures").unwrap().is_empty());
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "looks at phones of the local server")]
async fn badge_and_notification_follow_what_is_unread() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({"preview": true, "badge": true})).await;
    let mut alice = server.phone("alice").await;
    let id = alice.send("bob", "m1", "one").await["conversation_id"].as_str().unwrap().to_owned();
    alice.send("bob", "m2", "two").await;
    let badge = async || server.phones("bob").await[0]["badge"].clone();
    assert_eq!((shown(&server, "bob").await, badge().await), (vec![json!([2, "alice", "two"])], json!(2)));
    alice.ok(json!({"action": "delete", "conversation_id": id, "seq": 2, "client_msg_id": "d"})).await;
    assert_eq!((shown(&server, "bob").await, badge().await), (vec![json!([1, "alice", "one"])], json!(1)));
    let mut tab = server.phone("bob").await;
    tab.drain().await;
    tab.read(&id, 1).await;
    assert_eq!((shown(&server, "bob").await, badge().await), (vec![], json!(0)));
}
