//! The events as JSON.

use pigeonhole_core::{Event, Notice, Queued, ReceiptKind, State, Why};
use serde_json::{Value, json};

use crate::fault::Fault;

/// Returns an object whose only field names the event.
pub(crate) fn written(event: &Event) -> Value {
    match event {
        Event::Message { message, missed } => json!({"message": {"entry": message, "missed": missed}}),
        Event::Receipt { kind, receipt } => {
            let kind = if *kind == ReceiptKind::Read { "read" } else { "delivered" };
            json!({"receipt": with(json!(receipt), "kind", kind)})
        }
        Event::ConversationChanged(row) => json!({"conversation": row}),
        Event::SettingsChanged(settings) => json!({"settings": settings}),
        Event::StorageSetAside(path) => json!({"set_aside": {"path": path}}),
        Event::State(state) => json!({"state": state_of(state)}),
        Event::Typing { conversation_id, user_id, at, text } => {
            json!({"typing": {"conversation_id": conversation_id, "user_id": user_id, "at": at, "text": text}})
        }
        Event::PresenceChanged(presence) => json!({"presence": presence}),
        Event::Uploading { client_msg_id, done, bytes } => {
            json!({"uploading": {"client_msg_id": client_msg_id, "done": done, "bytes": bytes}})
        }
        Event::Reacted { queued } => json!({"reacted": {"request": queued}}),
        Event::Unwatched { conversation_id, error } => {
            let Fault::Failed { code, reason, .. } = error.clone().into();
            json!({"unwatched": {"conversation_id": conversation_id, "code": code, "reason": reason}})
        }
        Event::Unreadable { conversation_id, seq, sender_id, why } => {
            json!({"unreadable": {"conversation_id": conversation_id, "seq": seq, "sender_id": sender_id, "why": why}})
        }
        Event::Security(notice) => json!({"security": notice_of(notice)}),
        Event::Failed { queued, error } => failed(queued, error.clone().into()),
        // `Event` may get further cases, which this version has no name for.
        _ => json!({}),
    }
}

/// Returns the fields of a notice, with its name in `is`.
fn notice_of(notice: &Notice) -> Value {
    match json!(notice) {
        Value::Object(by_name) => {
            by_name.into_iter().next().map_or(Value::Null, |(name, fields)| with(fields, "is", &name))
        }
        notice => notice,
    }
}

fn failed(queued: &Queued, Fault::Failed { code, reason, .. }: Fault) -> Value {
    json!({"failed": {"request": queued, "code": code, "reason": reason}})
}

fn state_of(state: &State) -> Value {
    match state {
        State::Connecting => json!({"is": "connecting"}),
        State::Online => json!({"is": "online"}),
        State::CaughtUp => json!({"is": "caught_up"}),
        State::Replaced => json!({"is": "replaced"}),
        State::Offline { why, retry_at } => {
            let (name, status) = why_of(why);
            json!({"is": "offline", "why": name, "status": status, "reason": why.to_string(), "retry_at": retry_at.millis()})
        }
    }
}

fn why_of(why: &Why) -> (&'static str, Option<u16>) {
    match why {
        Why::Closed => ("closed", None),
        Why::Lost(_) => ("lost", None),
        Why::Silent => ("silent", None),
        Why::Store(_) => ("store", None),
        Why::Unreachable(_) => ("unreachable", None),
        Why::Refused { status } => ("refused", Some(*status)),
        Why::TokenRefused { status } => ("token_refused", Some(*status)),
        Why::TokenExpired => ("token_expired", None),
        Why::NoToken(_) => ("no_token", None),
        Why::WrongUser(_) => ("wrong_user", None),
        // `Why` may get further cases.
        _ => ("other", None),
    }
}

fn with(mut object: Value, name: &str, value: &str) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert(name.to_owned(), value.into());
    }
    object
}
