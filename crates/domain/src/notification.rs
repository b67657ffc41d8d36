//! What phones are sent. Only ids, unless the device asked for a preview: the app looks up the rest.

use serde::Serialize;
use serde_json::{Value, json};
use wire::{ConversationId, Kind, Platform, Seq};

use crate::device::Device;
use crate::limits::{CLEAR_TTL, COLLAPSE_ID_BYTES_MAX};
use crate::membership::Membership;

/// What SNS hands on to a phone: `message` as JSON by platform, and what APNs and FCM are told beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub message: String,
    pub attributes: Vec<(&'static str, String)>,
}

impl Notification {
    /// There are messages up to `seq`. `badge` for a device that asked for it.
    pub fn ring(row: &Membership, seq: Seq, device: &Device, badge: Option<u64>) -> Self {
        // The row is about its last message. That can be a later one of the user's own, of which there is nothing to say.
        let from = (row.last.sender_id != row.user_id && device.registration.preview).then_some(&row.last.sender_id);
        let preview = from.filter(|_| row.last.kind == Kind::Text).map(|_| row.last.preview.as_str());
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
