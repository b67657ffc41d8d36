//! What APNs and FCM get for each notification.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use domain::{Device, LastEntry};
use insta::assert_snapshot;
use proptest::prelude::*;
use push::{COLLAPSE_ID_BYTES_MAX, Names, Notification, Ring};
use serde_json::Value;
use wire::limits::{CONVERSATION_ID_CHARS_MAX, PREVIEW_CHARS_MAX, TITLE_CHARS_MAX, USER_ID_CHARS_MAX};
use wire::{
    ConversationId, DeviceId, DeviceToken, Kind, MessageId, Platform, Registration, Seq, Timestamp, Title, UserId, When,
};

/// What APNs and FCM take.
const PAYLOAD_BYTES_MAX: usize = 4096;

fn device(platform: Platform, preview: bool) -> Device {
    let token = DeviceToken::parse("9f2c").unwrap();
    Device {
        user_id: UserId::parse("alice").unwrap(),
        device_id: DeviceId::parse("phone").unwrap(),
        registration: Registration { platform, token, preview, badge: true, when: When::Pending, quiet: None },
        endpoint: "arn".to_owned(),
        registered_at: Timestamp::from_millis(0),
    }
}

fn conversation() -> ConversationId {
    ConversationId::parse("dm_x").unwrap()
}

fn last() -> LastEntry {
    LastEntry {
        seq: seq(42),
        message_id: MessageId::stored("m"),
        sender_id: UserId::parse("bob").unwrap(),
        kind: Kind::Text,
        preview: "hi".to_owned(),
        sent_at: Timestamp::from_millis(1_000_000),
        deleted: false,
        system: None,
    }
}

fn seq(value: u64) -> Seq {
    Seq::new(value).unwrap()
}

fn loud(value: u64) -> Ring {
    Ring { seq: seq(value), is_quiet: false }
}

/// Renders a notification: the payload of this platform, and the attributes for APNs or FCM.
fn shown(notification: &Notification, key: &str) -> String {
    let message: Value = serde_json::from_str(&notification.message).unwrap();
    let attributes: Vec<_> = notification
        .attributes
        .iter()
        .map(|(name, value)| format!("{}={value}", name.trim_start_matches("AWS.SNS.MOBILE.")))
        .collect();
    let lines = [message[key].as_str().unwrap(), &attributes.join(" ")];
    lines.join("\n").trim_end().to_owned()
}

#[test]
fn a_ring_has_ids_only() {
    let ring = |platform| {
        Notification::ring(&conversation(), &last(), &Names::default(), loud(42), &device(platform, false), None)
    };
    assert_snapshot!(shown(&ring(Platform::Apns), "APNS"), @r#"
    {"aps":{"alert":{"loc-key":"PIGEONHOLE_MESSAGE"},"mutable-content":1,"sound":"default","thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","seq":42,"type":"message"}}
    APNS.PUSH_TYPE=alert APNS.PRIORITY=10 APNS.COLLAPSE_ID=dm_x
    "#);
    assert_snapshot!(shown(&ring(Platform::ApnsSandbox), "APNS_SANDBOX"), @r#"
    {"aps":{"alert":{"loc-key":"PIGEONHOLE_MESSAGE"},"mutable-content":1,"sound":"default","thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","seq":42,"type":"message"}}
    APNS.PUSH_TYPE=alert APNS.PRIORITY=10 APNS.COLLAPSE_ID=dm_x
    "#);
    assert_snapshot!(shown(&ring(Platform::Fcm), "GCM"), @r#"{"fcmV1Message":{"message":{"android":{"collapse_key":"message","priority":"high"},"data":{"conversation_id":"dm_x","seq":"42","type":"message"}},"validate_only":false}}"#);
}

#[test]
fn a_preview_says_who_and_what() {
    let mut last = last();
    let ring = |last: &LastEntry, platform| {
        Notification::ring(&conversation(), last, &Names::default(), loud(42), &device(platform, true), Some(3))
    };
    assert_snapshot!(shown(&ring(&last, Platform::Apns), "APNS"), @r#"
    {"aps":{"alert":{"body":"hi","title-loc-args":["bob"],"title-loc-key":"PIGEONHOLE_FROM"},"badge":3,"mutable-content":1,"sound":"default","thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","sender_id":"bob","seq":42,"type":"message"}}
    APNS.PUSH_TYPE=alert APNS.PRIORITY=10 APNS.COLLAPSE_ID=dm_x
    "#);
    assert_snapshot!(shown(&ring(&last, Platform::Fcm), "GCM"), @r#"{"fcmV1Message":{"message":{"android":{"collapse_key":"message","priority":"high"},"data":{"conversation_id":"dm_x","preview":"hi","sender_id":"bob","seq":"42","type":"message"}},"validate_only":false}}"#);
    last.kind = Kind::stored("hologram");
    assert_snapshot!(shown(&ring(&last, Platform::Apns), "APNS"), @r#"
    {"aps":{"alert":{"loc-key":"PIGEONHOLE_MESSAGE","title-loc-args":["bob"],"title-loc-key":"PIGEONHOLE_FROM"},"badge":3,"mutable-content":1,"sound":"default","thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","sender_id":"bob","seq":42,"type":"message"}}
    APNS.PUSH_TYPE=alert APNS.PRIORITY=10 APNS.COLLAPSE_ID=dm_x
    "#);
    assert_snapshot!(shown(&ring(&last, Platform::Fcm), "GCM"), @r#"{"fcmV1Message":{"message":{"android":{"collapse_key":"message","priority":"high"},"data":{"conversation_id":"dm_x","sender_id":"bob","seq":"42","type":"message"}},"validate_only":false}}"#);
    last.kind = Kind::Sealed;
    for platform in [Platform::Apns, Platform::Fcm] {
        let key = if platform == Platform::Fcm { "GCM" } else { "APNS" };
        let without =
            Notification::ring(&conversation(), &last, &Names::default(), loud(42), &device(platform, false), Some(3));
        assert_eq!(shown(&ring(&last, platform), key), shown(&without, key), "ids only");
    }
    last.kind = Kind::Text;
    // A notification shows nothing of the user's own last message.
    last.sender_id = UserId::parse("alice").unwrap();
    assert!(!shown(&ring(&last, Platform::Apns), "APNS").contains("alice"));
}

#[test]
fn a_preview_has_names_where_there_are_some() {
    let title = |text| Title::parse(text).unwrap();
    let names = Names { sender: Some(title("Bob B.")), conversation: Some(title("Trip")) };
    let ring = |preview, platform| {
        Notification::ring(&conversation(), &last(), &names, loud(42), &device(platform, preview), None)
    };
    assert_snapshot!(shown(&ring(true, Platform::Apns), "APNS"), @r#"
    {"aps":{"alert":{"body":"hi","subtitle":"Trip","title-loc-args":["Bob B."],"title-loc-key":"PIGEONHOLE_FROM"},"mutable-content":1,"sound":"default","thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","sender_id":"bob","seq":42,"type":"message"}}
    APNS.PUSH_TYPE=alert APNS.PRIORITY=10 APNS.COLLAPSE_ID=dm_x
    "#);
    assert_snapshot!(shown(&ring(true, Platform::Fcm), "GCM"), @r#"{"fcmV1Message":{"message":{"android":{"collapse_key":"message","priority":"high"},"data":{"conversation_id":"dm_x","conversation_title":"Trip","preview":"hi","sender_id":"bob","sender_name":"Bob B.","seq":"42","type":"message"}},"validate_only":false}}"#);
    for (platform, key) in [(Platform::Apns, "APNS"), (Platform::Fcm, "GCM")] {
        let without = shown(&ring(false, platform), key);
        assert!(!without.contains("Bob") && !without.contains("Trip"), "{without}");
    }
}

#[test]
fn what_is_no_news_makes_no_sound() {
    let quiet = Ring { seq: seq(42), is_quiet: true };
    let ring = |platform| {
        Notification::ring(&conversation(), &last(), &Names::default(), quiet, &device(platform, true), Some(3))
    };
    assert_snapshot!(shown(&ring(Platform::Apns), "APNS"), @r#"
    {"aps":{"alert":{"body":"hi","title-loc-args":["bob"],"title-loc-key":"PIGEONHOLE_FROM"},"badge":3,"interruption-level":"passive","mutable-content":1,"thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","quiet":true,"sender_id":"bob","seq":42,"type":"message"}}
    APNS.PUSH_TYPE=alert APNS.PRIORITY=5 APNS.COLLAPSE_ID=dm_x
    "#);
    assert_snapshot!(shown(&ring(Platform::Fcm), "GCM"), @r#"{"fcmV1Message":{"message":{"android":{"collapse_key":"message","priority":"normal"},"data":{"conversation_id":"dm_x","preview":"hi","quiet":"true","sender_id":"bob","seq":"42","type":"message"}},"validate_only":false}}"#);
    let badge = |platform| Notification::badge(&device(platform, true), 3);
    assert_snapshot!(shown(&badge(Platform::ApnsSandbox).unwrap(), "APNS_SANDBOX"), @r#"
    {"aps":{"badge":3},"pigeonhole":{"type":"badge"}}
    APNS.PUSH_TYPE=alert APNS.PRIORITY=5
    "#);
    assert_eq!(badge(Platform::Fcm), None);
}

#[test]
fn a_clear_is_silent() {
    let clear = |platform| Notification::clear(&conversation(), seq(42), &device(platform, true), Some(2));
    assert_snapshot!(shown(&clear(Platform::Apns), "APNS"), @r#"
    {"aps":{"content-available":1},"pigeonhole":{"badge":2,"conversation_id":"dm_x","seq":42,"type":"read"}}
    APNS.PUSH_TYPE=background APNS.PRIORITY=5 APNS.TTL=86400
    "#);
    assert_snapshot!(shown(&clear(Platform::ApnsSandbox), "APNS_SANDBOX"), @r#"
    {"aps":{"content-available":1},"pigeonhole":{"badge":2,"conversation_id":"dm_x","seq":42,"type":"read"}}
    APNS.PUSH_TYPE=background APNS.PRIORITY=5 APNS_SANDBOX.TTL=86400
    "#);
    assert_snapshot!(shown(&clear(Platform::Fcm), "GCM"), @r#"
    {"fcmV1Message":{"message":{"android":{"collapse_key":"read","priority":"normal"},"data":{"conversation_id":"dm_x","seq":"42","type":"read"}},"validate_only":false}}
    FCM.TTL=86400
    "#);
}

#[test]
fn a_conversation_with_a_long_id_replaces_nothing() {
    let long = ConversationId::parse(&"x".repeat(COLLAPSE_ID_BYTES_MAX + 1)).unwrap();
    let ring = Notification::ring(&long, &last(), &Names::default(), loud(1), &device(Platform::Apns, false), None);
    assert!(!ring.attributes.iter().any(|(name, _)| name.ends_with("COLLAPSE_ID")));
}

proptest! {
    #[test]
    fn the_longest_fits_and_fcm_gets_text(
        preview in proptest::collection::vec(any::<char>(), PREVIEW_CHARS_MAX),
        id in "[!-~]{128}",
        name in proptest::collection::vec(any::<char>(), 0..=TITLE_CHARS_MAX),
        platform in prop::sample::select(vec![Platform::Apns, Platform::ApnsSandbox, Platform::Fcm]),
    ) {
        assert_eq!((CONVERSATION_ID_CHARS_MAX, USER_ID_CHARS_MAX), (128, 128));
        let conversation = ConversationId::parse(&id).unwrap();
        let sender_id = UserId::parse(&id).unwrap();
        let shown = LastEntry { sender_id, preview: preview.into_iter().collect(), ..last() };
        let last = seq((1 << 53) - 1);
        let device = device(platform, true);
        let name = Title::parse(&name.into_iter().collect::<String>()).ok();
        let names = Names { sender: name.clone(), conversation: name };
        let ring = Ring { seq: last, is_quiet: true };
        let ring = Notification::ring(&conversation, &shown, &names, ring, &device, Some(u64::MAX));
        let clear = Notification::clear(&conversation, last, &device, Some(u64::MAX));
        for notification in [ring, clear] {
            let message: Value = serde_json::from_str(&notification.message).unwrap();
            let key = if platform == Platform::Fcm { "GCM" } else if platform == Platform::Apns { "APNS" } else { "APNS_SANDBOX" };
            let payload = message[key].as_str().unwrap();
            prop_assert!(payload.len() <= PAYLOAD_BYTES_MAX, "{}", payload.len());
            let payload: Value = serde_json::from_str(payload).unwrap();
            if let Some(data) = payload["fcmV1Message"]["message"]["data"].as_object() {
                prop_assert!(data.values().all(Value::is_string));
            }
        }
    }
}
