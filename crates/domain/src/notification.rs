//! What phones are sent. Only ids, unless the device asked for a preview: the app looks up the rest.

use serde::Serialize;
use serde_json::{Value, json};
use wire::{ConversationId, Platform, Seq};

use crate::device::Device;
use crate::limits::{CLEAR_TTL, COLLAPSE_ID_BYTES_MAX};
use crate::membership::{LastEntry, Membership};

/// What SNS hands on to a phone: `message` as JSON by platform, and what APNs and FCM are told beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub message: String,
    pub attributes: Vec<(&'static str, String)>,
}

impl Notification {
    /// There are messages up to `seq`, of which `last` is what there is to say. `badge` for a device that asked for it.
    pub fn ring(row: &Membership, last: &LastEntry, seq: Seq, device: &Device, badge: Option<u64>) -> Self {
        // It can be a later one of the user's own, of which there is nothing to say.
        let from = (last.sender_id != row.user_id && device.registration.preview).then_some(&last.sender_id);
        // A picture without a caption has nothing to show, as what is deleted.
        let is_shown = last.kind.counts() && !last.deleted && !last.preview.is_empty();
        let preview = from.filter(|_| is_shown).map(|_| last.preview.as_str());
        let conversation = &row.conversation_id;
        if device.registration.platform == Platform::Fcm {
            let mut data = json!({"type": "message", "conversation_id": conversation, "seq": seq.to_string()});
            put(&mut data, "sender_id", from);
            put(&mut data, "preview", preview);
            return Self::fcm(&data, "high", "message", vec![]);
        }
        let mut alert = json!({});
        match preview {
            Some(text) => put(&mut alert, "body", Some(text)),
            None => put(&mut alert, "loc-key", Some("PIGEONHOLE_MESSAGE")),
        }
        if let Some(from) = from {
            put(&mut alert, "title-loc-key", Some("PIGEONHOLE_FROM"));
            put(&mut alert, "title-loc-args", Some([from]));
        }
        let mut aps = json!({"alert": alert, "sound": "default", "thread-id": conversation, "mutable-content": 1});
        put(&mut aps, "badge", badge);
        let mut own = json!({"type": "message", "conversation_id": conversation, "seq": seq});
        put(&mut own, "sender_id", from);
        let mut attributes = vec![
            ("AWS.SNS.MOBILE.APNS.PUSH_TYPE", "alert".to_owned()),
            ("AWS.SNS.MOBILE.APNS.PRIORITY", "10".to_owned()),
        ];
        // APNs refuses a longer one. Ours are shorter, and nobody promises that.
        if conversation.as_str().len() <= COLLAPSE_ID_BYTES_MAX {
            attributes.push(("AWS.SNS.MOBILE.APNS.COLLAPSE_ID", conversation.to_string()));
        }
        Self::apns(device.registration.platform, &json!({"aps": aps, "pigeonhole": own}), attributes)
    }

    /// Everything up to `seq` was read elsewhere. Silent, and of no use a day later.
    pub fn clear(conversation: &ConversationId, seq: Seq, device: &Device, badge: Option<u64>) -> Self {
        let ttl = CLEAR_TTL.as_secs().to_string();
        let platform = device.registration.platform;
        let ttl_of = match platform {
            Platform::Fcm => {
                let data = json!({"type": "read", "conversation_id": conversation, "seq": seq.to_string()});
                return Self::fcm(&data, "normal", "read", vec![("AWS.SNS.MOBILE.FCM.TTL", ttl)]);
            }
            Platform::Apns => "AWS.SNS.MOBILE.APNS.TTL",
            Platform::ApnsSandbox => "AWS.SNS.MOBILE.APNS_SANDBOX.TTL",
        };
        let mut own = json!({"type": "read", "conversation_id": conversation, "seq": seq});
        // Not in `aps`: with anything but this one member in it, it would be no background notification.
        put(&mut own, "badge", badge);
        let attributes = vec![
            ("AWS.SNS.MOBILE.APNS.PUSH_TYPE", "background".to_owned()),
            ("AWS.SNS.MOBILE.APNS.PRIORITY", "5".to_owned()),
            (ttl_of, ttl),
        ];
        Self::apns(platform, &json!({"aps": {"content-available": 1}, "pigeonhole": own}), attributes)
    }

    fn apns(platform: Platform, payload: &Value, attributes: Vec<(&'static str, String)>) -> Self {
        let key = if platform == Platform::ApnsSandbox { "APNS_SANDBOX" } else { "APNS" };
        Self::of(key, payload, attributes)
    }

    /// SNS kept Google's old name for it. Of collapsible messages FCM keeps those with four keys, and drops others at random:
    /// <https://firebase.google.com/docs/cloud-messaging/customize-messages/collapsible-message-types>. We use two.
    fn fcm(data: &Value, priority: &str, collapse_key: &str, attributes: Vec<(&'static str, String)>) -> Self {
        let android = json!({"priority": priority, "collapse_key": collapse_key});
        let message = json!({"data": data, "android": android});
        Self::of("GCM", &json!({"fcmV1Message": {"validate_only": false, "message": message}}), attributes)
    }

    /// SNS wants `default`, which no phone gets, and the payload as text.
    fn of(key: &str, payload: &Value, attributes: Vec<(&'static str, String)>) -> Self {
        let message = json!({"default": "Pigeonhole", key: payload.to_string()}).to_string();
        Self { message, attributes }
    }
}

fn put(object: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let Some(value) = value {
        object[name] = json!(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::row;
    use insta::assert_snapshot;
    use proptest::prelude::*;
    use wire::limits::{CONVERSATION_ID_CHARS_MAX, PREVIEW_CHARS_MAX, USER_ID_CHARS_MAX};
    use wire::{DeviceId, DeviceToken, Kind, Registration, Timestamp, UserId, When};

    /// What APNs and FCM take.
    const PAYLOAD_BYTES_MAX: usize = 4096;

    fn device(platform: Platform, preview: bool) -> Device {
        let token = DeviceToken::parse("9f2c").unwrap();
        Device {
            user_id: UserId::parse("alice").unwrap(),
            device_id: DeviceId::parse("phone").unwrap(),
            registration: Registration { platform, token, preview, badge: true, when: When::Pending },
            endpoint: "arn".to_owned(),
            registered_at: Timestamp::from_millis(0),
        }
    }

    fn seq(value: u64) -> Seq {
        Seq::new(value).unwrap()
    }

    /// What a phone of this platform gets, and what APNs or FCM is told beside it.
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
        let row = row(42, 41, 41, 1, Some(42));
        let ring = |platform| Notification::ring(&row, &row.last, seq(42), &device(platform, false), None);
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
        let mut row = row(42, 41, 41, 1, Some(42));
        let ring =
            |row: &Membership, platform| Notification::ring(row, &row.last, seq(42), &device(platform, true), Some(3));
        assert_snapshot!(shown(&ring(&row, Platform::Apns), "APNS"), @r#"
        {"aps":{"alert":{"body":"hi","title-loc-args":["bob"],"title-loc-key":"PIGEONHOLE_FROM"},"badge":3,"mutable-content":1,"sound":"default","thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","sender_id":"bob","seq":42,"type":"message"}}
        APNS.PUSH_TYPE=alert APNS.PRIORITY=10 APNS.COLLAPSE_ID=dm_x
        "#);
        assert_snapshot!(shown(&ring(&row, Platform::Fcm), "GCM"), @r#"{"fcmV1Message":{"message":{"android":{"collapse_key":"message","priority":"high"},"data":{"conversation_id":"dm_x","preview":"hi","sender_id":"bob","seq":"42","type":"message"}},"validate_only":false}}"#);
        row.last.kind = Kind::stored("sealed");
        assert_snapshot!(shown(&ring(&row, Platform::Apns), "APNS"), @r#"
        {"aps":{"alert":{"loc-key":"PIGEONHOLE_MESSAGE","title-loc-args":["bob"],"title-loc-key":"PIGEONHOLE_FROM"},"badge":3,"mutable-content":1,"sound":"default","thread-id":"dm_x"},"pigeonhole":{"conversation_id":"dm_x","sender_id":"bob","seq":42,"type":"message"}}
        APNS.PUSH_TYPE=alert APNS.PRIORITY=10 APNS.COLLAPSE_ID=dm_x
        "#);
        assert_snapshot!(shown(&ring(&row, Platform::Fcm), "GCM"), @r#"{"fcmV1Message":{"message":{"android":{"collapse_key":"message","priority":"high"},"data":{"conversation_id":"dm_x","sender_id":"bob","seq":"42","type":"message"}},"validate_only":false}}"#);
        // One's own last message is nobody's to be shown.
        row.last.sender_id = row.user_id.clone();
        assert!(!shown(&ring(&row, Platform::Apns), "APNS").contains("alice"));
    }

    #[test]
    fn a_clear_is_silent() {
        let conversation = row(42, 42, 42, 0, None).conversation_id;
        let clear = |platform| Notification::clear(&conversation, seq(42), &device(platform, true), Some(2));
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
        let mut row = row(1, 0, 0, 1, Some(1));
        row.conversation_id = ConversationId::parse(&"x".repeat(COLLAPSE_ID_BYTES_MAX + 1)).unwrap();
        let ring = Notification::ring(&row, &row.last, seq(1), &device(Platform::Apns, false), None);
        assert!(!ring.attributes.iter().any(|(name, _)| name.ends_with("COLLAPSE_ID")));
    }

    proptest! {
        #[test]
        fn the_longest_fits_and_fcm_gets_text(
            preview in proptest::collection::vec(any::<char>(), PREVIEW_CHARS_MAX),
            id in "[!-~]{128}",
            platform in prop::sample::select(vec![Platform::Apns, Platform::ApnsSandbox, Platform::Fcm]),
        ) {
            assert_eq!((CONVERSATION_ID_CHARS_MAX, USER_ID_CHARS_MAX), (128, 128));
            let mut row = row(1, 0, 0, 1, Some(1));
            row.conversation_id = ConversationId::parse(&id).unwrap();
            row.last.sender_id = UserId::parse(&id).unwrap();
            row.last.preview = preview.into_iter().collect();
            let last = seq((1 << 53) - 1);
            let device = device(platform, true);
            let ring = Notification::ring(&row, &row.last, last, &device, Some(u64::MAX));
            let clear = Notification::clear(&row.conversation_id, last, &device, Some(u64::MAX));
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
}
