//! Phones in pockets: what each shows of what its user did not take. A phone is one of the local server's own, behind its SNS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use local::Logs;
use serde_json::{Value, json};
use testkit::{Fault, PATIENCE, Phone, Proxy, TestServer};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::client::Folder;
use crate::failures::until_logged;

/// Who is connected has this long to acknowledge. For tests of who is not, and of who does.
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
    // As APNs' tokens look, which FCM's may too.
    let token = data_encoding::HEXLOWER.encode(device.as_bytes());
    let mut request = json!({"action": "device", "platform": platform, "token": token});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    assert_eq!(phone.ok(request).await, json!({"device_id": device, "registered": true}));
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

/// Of the phone with this id.
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

/// What every AWS can do that has streams. What others see of it too is not said of others here: `MiniStack` has no batching window, and
/// drops what a function says has failed.
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
async fn an_edit_rings_nobody_and_what_is_deleted_goes_from_the_phone() {
    let server = ringing(LONG).await;
    register(&server, "bob", "iphone", "apns", json!({"preview": true, "badge": true})).await;
    let mut alice = server.phone("alice").await;
    let id = alice.send("bob", "m1", "are you there?").await["conversation_id"].clone();
    assert_eq!(shown(&server, "bob").await, [json!([1, "alice", "are you there?"])]);
    let change =
        |action: &str| json!({"action": action, "conversation_id": id, "seq": 1, "client_msg_id": action, "body": "x"});
    alice.ok(change("edit")).await;
    assert_eq!(shown(&server, "bob").await, [json!([1, "alice", "are you there?"])]);
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

    // Another server, where it is over soon: the socket is there, and nobody takes what comes.
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

    // What is on its way while the block comes.
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
    // Installed again before anybody noticed: with the same token, of which the server knows already.
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
async fn while_an_application_is_disabled_rings_wait_and_then_come() {
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
    set_enabled("true").await;
    assert_eq!(shown(&server, "bob").await, [plain(1)]);
}
