//! What scripts are written in: how steps are spelled out, and what the client's own types are called there.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::protocol::{Conversation, Message, Stored};
use crate::session::Answer;
use crate::storage::Saved;
use crate::{Error, Event, Receipt, ReceiptKind, State, Stats, Timing, TokenNeed, Why};

/// The steps for each value of `each`, with everything written out.
pub(super) fn variants(scenario: &Value) -> Vec<Vec<Value>> {
    let steps = scenario["steps"].as_array().unwrap();
    let expanded = |name: &str, value: &Value| steps.iter().map(|step| expand(step, name, value)).collect();
    match scenario["each"].as_object().and_then(|each| each.iter().next()) {
        None => vec![expanded("", &Value::Null)],
        Some((name, values)) => {
            values.as_array().unwrap().iter().map(|value| expanded(&format!("${name}"), value)).collect()
        }
    }
}

fn expand(script: &Value, name: &str, value: &Value) -> Value {
    match script {
        Value::Array(items) => items.iter().map(|item| expand(item, name, value)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| (key.clone(), expand(item, name, value))).collect::<Map<_, _>>().into()
        }
        Value::String(text) if text == name => value.clone(),
        Value::String(text) => expand_message(text).unwrap_or_else(|| script.clone()),
        other => other.clone(),
    }
}

/// `$bob 5`, `$carol 1 in dm_ac`, `$stored 5`.
fn expand_message(text: &str) -> Option<Value> {
    let words: Vec<&str> = text.strip_prefix('$')?.split(' ').collect();
    let (who, number, conversation) = match words[..] {
        [who, number] => (who, number, "dm_ab"),
        [who, number, "in", conversation] => (who, number, conversation),
        _ => return None,
    };
    let seq: u64 = number.parse().ok()?;
    let mut place = json!({"conversation_id": conversation, "seq": seq,
        "message_id": format!("0198b7a0-0000-7000-8000-0000000000{seq:02}"),
        "sent_at": format!("2026-11-20T10:00:{seq:02}.000Z")});
    let rest = match who {
        "stored" => json!({"duplicate": false}),
        who => json!({"sender_id": who, "kind": "text", "body": format!("{who} {seq}")}),
    };
    place.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    Some(place)
}

/// The one of these that the step has.
pub(super) fn verb<'a>(step: &'a Value, verbs: &[&'static str]) -> (&'static str, &'a Value) {
    let found = verbs.iter().find_map(|verb| Some((*verb, step.get(verb)?)));
    found.unwrap_or_else(|| panic!("there is no such step: {step}"))
}

pub(super) fn timing(changed: &Value) -> Timing {
    let mut timing = Timing::default();
    for (name, ms) in changed.as_object().into_iter().flatten() {
        let wait = Duration::from_millis(ms.as_u64().unwrap());
        match name.as_str() {
            "lifetime" => timing.lifetime = wait,
            "lifetime_jitter" => timing.lifetime_jitter = wait,
            "ping_every" => timing.ping_every = wait,
            "silence_max" => timing.silence_max = wait,
            other => panic!("no script has changed {other} so far"),
        }
    }
    timing
}

pub(super) fn saved(saved: &Value) -> Saved {
    let held = saved["held"].as_object().into_iter().flatten();
    Saved {
        outbox: VecDeque::new(),
        held: held.map(|(id, seq)| (id.clone(), seq.as_u64().unwrap())).collect(),
        caught_up: saved["caught_up"].as_str().map(str::to_owned),
    }
}

pub(super) fn target_of(fields: &Value) -> Value {
    match fields.get("to") {
        Some(to) => json!({"to": to}),
        None => json!({"conversation_id": fields["conversation_id"]}),
    }
}

pub(super) fn need_name(need: TokenNeed) -> &'static str {
    match need {
        TokenNeed::Connect => "connect",
        TokenNeed::Refused(_) => "refused",
        TokenNeed::Expired => "expired",
    }
}

pub(super) fn why_not_opened(what: &Value) -> Why {
    let status = what["status"].as_u64().map_or(0, |status| u16::try_from(status).unwrap());
    match what["reason"].as_str().unwrap() {
        "unreachable" => Why::Unreachable(String::new()),
        "refused" => Why::Refused { status },
        "token_refused" => Why::TokenRefused { status },
        "no_token" => Why::NoToken(String::new()),
        other => panic!("{other}"),
    }
}

fn why_name(why: &Why) -> &'static str {
    match why {
        Why::Closed => "closed",
        Why::Lost(_) => "lost",
        Why::Silent => "silent",
        Why::Unreachable(_) => "unreachable",
        Why::Refused { .. } => "refused",
        Why::TokenRefused { .. } => "token_refused",
        Why::TokenExpired => "token_expired",
        Why::NoToken(_) => "no_token",
    }
}

pub(super) fn plain_stats(stats: Stats) -> Value {
    let Stats { sent, answered, resent, failed, received, duplicates_dropped, gaps_repaired, reconnects } = stats;
    json!({"sent": sent, "answered": answered, "resent": resent, "failed": failed, "received": received,
        "duplicates_dropped": duplicates_dropped, "gaps_repaired": gaps_repaired, "reconnects": reconnects})
}

/// Independent of the id, and of the order of marks.
pub(super) fn comparable(request: &Value) -> Value {
    let mut request = request.clone();
    let fields = request.as_object_mut().unwrap();
    fields.remove("id");
    for marks in ["up_to", "ack"] {
        if let Some(Value::Array(marks)) = fields.get_mut(marks) {
            marks.sort_by_key(|mark| mark["conversation_id"].to_string());
        }
    }
    request
}

/// An event as the scripts write it.
pub(super) fn plain_event(event: &Event) -> Value {
    match event {
        Event::Message { message, missed } => {
            let Message { conversation_id, seq, message_id, sender_id, kind, body, sent_at, client_msg_id } = message;
            json!({"missed": missed, "message": {"conversation_id": conversation_id, "seq": seq, "message_id": message_id,
                "sender_id": sender_id, "kind": kind, "body": body, "sent_at": sent_at, "client_msg_id": client_msg_id}})
        }
        Event::Receipt(Receipt { kind, conversation_id, user_id, seq, at }) => {
            let kind = if *kind == ReceiptKind::Read { "read" } else { "delivered" };
            json!({"receipt": {"kind": kind, "conversation_id": conversation_id, "user_id": user_id, "seq": seq, "at": at}})
        }
        Event::ConversationChanged(Conversation { conversation_id, peer_id, unread, .. }) => {
            json!({"conversation": {"conversation_id": conversation_id, "peer_id": peer_id, "unread": unread}})
        }
        Event::State(State::Connecting) => json!({"state": "connecting"}),
        Event::State(State::Online) => json!({"state": "online"}),
        Event::State(State::CaughtUp) => json!({"state": "caught_up"}),
        Event::State(State::Offline { why, .. }) => json!({"state": "offline", "why": why_name(why)}),
        Event::Failed { client_msg_id, target, body, error } => {
            let code = if let Error::Refused { code, .. } = error { code } else { "" };
            let mut failed = json!({"client_msg_id": client_msg_id, "body": body, "code": code});
            failed.as_object_mut().unwrap().extend(serde_json::to_value(target).unwrap().as_object().unwrap().clone());
            json!({"failed": failed})
        }
    }
}

pub(super) fn assert_answer(answer: Result<Answer, Error>, step: &Value) {
    match (answer, step.get("error")) {
        (Err(Error::Refused { code, .. }), Some(error)) => assert_eq!(code, *error),
        (Ok(Answer::Unread(unread)), None) => assert_eq!(json!(unread), step["ok"]),
        (Ok(Answer::Stored(stored)), None) => {
            let Stored { conversation_id, seq, duplicate, .. } = stored;
            let stored = json!({"conversation_id": conversation_id, "seq": seq, "duplicate": duplicate});
            assert_within(&step["ok"], &stored, &step.to_string());
        }
        (Ok(Answer::History(history)), None) => assert_eq!(json!(history.last_seq), step["ok"]["last_seq"]),
        (Ok(Answer::Inbox(inbox)), None) => {
            assert_eq!(json!(inbox.conversations.len()), step["ok"]["conversations"].as_array().unwrap().len());
        }
        (answer, _) => panic!("{step}: {answer:?}"),
    }
}

/// All that is expected is found, at whatever depth; there may be more.
pub(super) fn assert_within(expected: &Value, found: &Value, place: &str) {
    match expected {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                assert_within(value, &found[name], &format!("{place}: {name}"));
            }
        }
        other => assert_eq!(other, found, "{place}"),
    }
}
