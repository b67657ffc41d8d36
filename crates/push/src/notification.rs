//! Push notifications, which contain only ids unless the device requested a preview. The app looks up the rest.

use std::time::Duration;

use domain::{Device, LastEntry};
use serde::Serialize;
use serde_json::{Value, json};
use wire::{ConversationId, Kind, Platform, Seq, Title};

/// A dismissal is of no use to a phone that was off for longer: its app catches up when the user opens it.
const CLEAR_TTL: Duration = Duration::from_hours(24);
/// The longest `apns-collapse-id`:
/// <https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns>.
pub const COLLAPSE_ID_BYTES_MAX: usize = 64;

/// A notification as SNS takes it: `message` is JSON by platform, `attributes` are for APNs and FCM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub message: String,
    pub attributes: Vec<(&'static str, String)>,
}

/// The messages that a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// There are messages up to here.
    pub seq: Seq,
    /// The notification is no news. The phone shows it without a sound, instead of the one on its screen.
    pub is_quiet: bool,
}

/// The names that a preview shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The name of the last message's sender. `None`: a preview shows the id.
    pub sender: Option<Title>,
    /// The title of the group.
    pub conversation: Option<Title>,
}

impl Notification {
    /// Notifies the device's user of messages in a conversation. The phone shows `last`, and `badge` if the
    /// device has registered for it.
    pub fn ring(
        conversation: &ConversationId,
        last: &LastEntry,
        names: &Names,
        Ring { seq, is_quiet }: Ring,
        device: &Device,
        badge: Option<u64>,
    ) -> Self {
        // The last message can be a later one by the user, about which the notification shows nothing. A sealed one has ids
        // only.
        let is_told = device.registration.preview && last.kind != Kind::Sealed;
        let from = (last.sender_id != device.user_id && is_told).then_some(&last.sender_id);
        // A picture without a caption has nothing to show, as what is deleted.
        let is_shown = last.kind.counts() && !last.deleted && !last.preview.is_empty();
        let preview = from.filter(|_| is_shown).map(|_| last.preview.as_str());
        let name = from.map(|from| names.sender.as_ref().map_or(from.as_str(), Title::as_str));
        let title = names.conversation.as_ref().filter(|_| is_told);
        if device.registration.platform == Platform::Fcm {
            let mut data = json!({"type": "message", "conversation_id": conversation, "seq": seq.to_string()});
            put(&mut data, "sender_id", from);
            put(&mut data, "sender_name", name.filter(|_| names.sender.is_some()));
            put(&mut data, "conversation_title", title);
            put(&mut data, "preview", preview);
            put(&mut data, "quiet", is_quiet.then_some("true"));
            return Self::fcm(&data, if is_quiet { "normal" } else { "high" }, "message", vec![]);
        }
        let mut alert = json!({});
        match preview {
            Some(text) => put(&mut alert, "body", Some(text)),
            None => put(&mut alert, "loc-key", Some("PIGEONHOLE_MESSAGE")),
        }
        if let Some(name) = name {
            put(&mut alert, "title-loc-key", Some("PIGEONHOLE_FROM"));
            put(&mut alert, "title-loc-args", Some([name]));
        }
        put(&mut alert, "subtitle", title);
        let mut aps = json!({"alert": alert, "thread-id": conversation, "mutable-content": 1});
        if is_quiet {
            put(&mut aps, "interruption-level", Some("passive"));
        } else {
            put(&mut aps, "sound", Some("default"));
        }
        put(&mut aps, "badge", badge);
        let mut own = json!({"type": "message", "conversation_id": conversation, "seq": seq});
        put(&mut own, "sender_id", from);
        put(&mut own, "quiet", is_quiet.then_some(true));
        let mut attributes = alert_attributes(if is_quiet { "5" } else { "10" });
        // APNs refuses a longer id. Ours are shorter today.
        if conversation.as_str().len() <= COLLAPSE_ID_BYTES_MAX {
            attributes.push(("AWS.SNS.MOBILE.APNS.COLLAPSE_ID", conversation.to_string()));
        }
        Self::apns(device.registration.platform, &json!({"aps": aps, "pigeonhole": own}), attributes)
    }

    /// The number on the app's icon, and nothing else: `None` for Android, which counts by itself.
    pub fn badge(device: &Device, badge: u64) -> Option<Self> {
        let platform = device.registration.platform;
        let payload = json!({"aps": {"badge": badge}, "pigeonhole": {"type": "badge"}});
        (platform != Platform::Fcm).then(|| Self::apns(platform, &payload, alert_attributes("5")))
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

    /// SNS uses Google's old name for it. FCM keeps collapsible messages with four keys, and drops others at random:
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

/// Returns the attributes of a visible notification with this priority. Priority 5 saves the battery.
fn alert_attributes(priority: &str) -> Vec<(&'static str, String)> {
    vec![("AWS.SNS.MOBILE.APNS.PUSH_TYPE", "alert".to_owned()), ("AWS.SNS.MOBILE.APNS.PRIORITY", priority.to_owned())]
}

fn put(object: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let Some(value) = value {
        object[name] = json!(value);
    }
}
