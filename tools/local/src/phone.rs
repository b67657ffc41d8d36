//! A phone that exists only here, with an app that does what `docs/clients.md` requires.
#![allow(clippy::indexing_slicing, reason = "indexing JSON answers null where there is nothing")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Platform {
    Apns,
    ApnsSandbox,
    /// As SNS still calls FCM.
    Gcm,
}

/// The app's name, shown if a notification has no title.
const APP: &str = "Pigeonhole";
/// The app's translations of the keys that pushes name; `%@` takes an argument.
const STRINGS: [(&str, &str); 2] = [("PIGEONHOLE_MESSAGE", "New message"), ("PIGEONHOLE_FROM", "%@")];
const COLLAPSE_ID_BYTES_MAX: usize = 64;

/// A notification on its way to a phone.
pub(crate) struct Push<'a> {
    pub(crate) platform: Platform,
    pub(crate) payload: &'a Value,
    /// The message attributes of SNS.
    pub(crate) attributes: &'a BTreeMap<&'a str, &'a str>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Phone {
    /// The app was removed, and the token with it.
    dead: bool,
    /// On the app's icon, once a push has said.
    badge: Option<u64>,
    /// The user and the device id that the app was last seen with.
    owner: Option<(String, String)>,
    /// The newest first.
    notifications: Vec<Notification>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Notification {
    /// A push replaces the notification with the same id.
    collapse_id: Option<String>,
    conversation_id: String,
    seq: u64,
    title: String,
    body: String,
    /// When the phone got it: RFC 3339, in UTC.
    at: String,
}

impl Phone {
    /// A phone that SNS does not know.
    pub(crate) fn dead() -> Self {
        Self { dead: true, ..Self::default() }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead
    }

    /// The app is removed, and what it shows with it.
    pub(crate) fn kill(&mut self) {
        *self = Self { dead: true, owner: self.owner.take(), ..Self::default() };
    }

    /// The app is there again.
    pub(crate) fn revive(&mut self) {
        self.dead = false;
    }

    /// Processes a push, or returns the reason why the phone can't.
    pub(crate) fn receive(&mut self, push: &Push, now: OffsetDateTime) -> Result<(), String> {
        match push.platform {
            Platform::Apns | Platform::ApnsSandbox => self.receive_apns(push, now),
            Platform::Gcm => self.receive_fcm(push.payload, now),
        }
    }

    fn receive_apns(&mut self, push: &Push, now: OffsetDateTime) -> Result<(), String> {
        let attribute = |name: &str| push.attributes.get(format!("AWS.SNS.MOBILE.APNS.{name}").as_str()).copied();
        let aps = push.payload.get("aps").ok_or("APNs wants aps in the payload")?;
        let ours = push.payload.get("pigeonhole").unwrap_or(&Value::Null);
        if attribute("PUSH_TYPE") == Some("background") {
            if *aps != json!({ "content-available": 1 }) {
                return Err("the aps of a background push has content-available and nothing else".to_owned());
            }
            if ours["type"] == "read" {
                self.clear(ours);
                self.badge = ours["badge"].as_u64().or(self.badge);
            }
            return Ok(());
        }
        let collapse_id = attribute("COLLAPSE_ID").map(str::to_owned);
        if collapse_id.as_ref().is_some_and(|id| id.len() > COLLAPSE_ID_BYTES_MAX) {
            return Err(format!("a collapse id has at most {COLLAPSE_ID_BYTES_MAX} bytes"));
        }
        self.badge = aps["badge"].as_u64().or(self.badge);
        let Some(alert) = aps.get("alert") else {
            return if aps["badge"].is_number() { Ok(()) } else { Err("an alert that shows nothing".to_owned()) };
        };
        self.show(Notification {
            collapse_id,
            conversation_id: ours["conversation_id"].as_str().unwrap_or_default().to_owned(),
            seq: ours["seq"].as_u64().unwrap_or_default(),
            title: localized(alert, ["title", "title-loc-key", "title-loc-args"]).unwrap_or_else(|| APP.to_owned()),
            body: alert
                .as_str()
                .map(str::to_owned)
                .or_else(|| localized(alert, ["body", "loc-key", "loc-args"]))
                .unwrap_or_default(),
            at: rfc3339(now),
        });
        Ok(())
    }

    /// Android shows nothing of a data message: the app does, in the place of what it shows of that conversation.
    fn receive_fcm(&mut self, payload: &Value, now: OffsetDateTime) -> Result<(), String> {
        let request = &payload["fcmV1Message"];
        if request["validate_only"] == true {
            return Ok(());
        }
        let data = request.pointer("/message/data").and_then(Value::as_object).ok_or("FCM's message has no data")?;
        if let Some((name, _)) = data.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!("FCM's data has strings only, and {name} is none"));
        }
        let text = |name: &str| data.get(name).and_then(Value::as_str);
        let conversation_id = text("conversation_id").unwrap_or_default().to_owned();
        let seq = text("seq").and_then(|seq| seq.parse().ok()).unwrap_or_default();
        match text("type") {
            Some("message") => self.show(Notification {
                collapse_id: Some(conversation_id.clone()),
                conversation_id,
                seq,
                title: text("sender_id").unwrap_or(APP).to_owned(),
                body: text("preview").unwrap_or("New message").to_owned(),
                at: rfc3339(now),
            }),
            Some("read") => self.clear(&json!({ "conversation_id": conversation_id, "seq": seq })),
            // An app passes over what a later server says.
            _ => {}
        }
        Ok(())
    }

    fn show(&mut self, notification: Notification) {
        let new = &notification.collapse_id;
        self.notifications.retain(|shown| new.is_none() || shown.collapse_id != *new);
        self.notifications.insert(0, notification);
    }

    /// The conversation was read up to there.
    fn clear(&mut self, read: &Value) {
        let upto = read["seq"].as_u64().unwrap_or_default();
        self.notifications.retain(|shown| read["conversation_id"] != shown.conversation_id || shown.seq > upto);
    }

    /// Applies the user's inbox rows, as an app does after catching up: removes read messages, and sets the badge.
    pub(crate) fn catch_up(&mut self, inbox: &[Value], now: OffsetDateTime) {
        let now_ms = now.unix_timestamp() * 1000;
        let is_muted = |row: &Value| row["muted_until"].as_i64().is_some_and(|until| now_ms < until);
        for row in inbox {
            // Read and deleted messages: a connected app has their entries.
            for seq in [&row["read_seq"], &row["deleted_seq"]].into_iter().filter(|seq| seq.is_number()) {
                self.clear(&json!({ "conversation_id": row["conversation_id"], "seq": seq }));
            }
        }
        let unread = inbox.iter().filter(|row| !is_muted(row)).filter_map(|row| row["unread"].as_u64());
        self.badge = self.badge.map(|_| unread.sum());
    }

    /// As `GET /phones` shows it to the user who is signed in there: a row of the devices table.
    pub(crate) fn look(&mut self, row: &Value) -> Value {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let owner = Some((text("user_id"), text("device_id")));
        if self.owner != owner {
            // An app removes what it showed to the user before when another signs in.
            let since = row["registered_at"].as_i64().map(|ms| i128::from(ms) * 1_000_000);
            let since = since.and_then(|nanos| OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()).map(rfc3339);
            self.notifications.retain(|shown| Some(&shown.at) >= since.as_ref());
            self.owner = owner;
        }
        // iOS has the badge, and Android counts by itself.
        let badge = (row["badge"] == true && row["platform"] != "fcm").then(|| self.badge.unwrap_or_default());
        json!({
            "device_id": row["device_id"],
            "platform": row["platform"],
            "alive": !self.dead,
            "badge": badge,
            "notifications": self.shown(),
        })
    }

    /// The newest first.
    pub(crate) fn shown(&self) -> Value {
        let shown = self.notifications.iter().map(|shown| {
            let Notification { conversation_id, seq, title, body, at, .. } = shown;
            json!({ "conversation_id": conversation_id, "seq": seq, "title": title, "body": body, "at": at })
        });
        shown.collect()
    }
}

/// A text of an alert, as it is or by its key.
fn localized(alert: &Value, [plain, key, arguments]: [&str; 3]) -> Option<String> {
    if let Some(text) = alert[plain].as_str() {
        return Some(text.to_owned());
    }
    let key = alert[key].as_str()?;
    // iOS shows the key where the app has no text for it.
    let text = STRINGS.iter().find(|(known, _)| *known == key).map_or(key, |(_, text)| text);
    let arguments = alert[arguments].as_array().into_iter().flatten();
    Some(
        arguments.fold(text.to_owned(), |text, argument| text.replacen("%@", argument.as_str().unwrap_or_default(), 1)),
    )
}

fn rfc3339(at: OffsetDateTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    at.format(format).unwrap_or_default()
}

#[cfg(test)]
mod tests;
