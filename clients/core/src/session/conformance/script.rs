//! The language of the scripts: how they spell steps, and the client's types.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use wire::{ConversationId, Seq, Target, Timestamp};

use crate::saved::{Queued, StorageChange};
use crate::{Error, Event, ReceiptKind, State, Stats, Timing, TokenNeed, Why, Write};

/// The steps for each value of `each`, with everything written out.
pub(crate) fn variants(scenario: &Value) -> Vec<Vec<Value>> {
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
        Value::String(text) if !name.is_empty() && text == name => value.clone(),
        Value::String(text) => expand_message(text).unwrap_or_else(|| script.clone()),
        other => other.clone(),
    }
}

/// `$bob 5`, `$carol 1 in dm_ac`, `$alice 6 as m1`, `$bob 5 on 2026-11-21`, `$stored 5`, and what may follow: see the README.
fn expand_message(text: &str) -> Option<Value> {
    let mut words = text.strip_prefix('$')?.split(' ');
    let (who, seq) = (words.next()?, words.next()?.parse::<u64>().ok()?);
    let mut pairs = Vec::new();
    while let Some(word) = words.next() {
        pairs.push((word, words.next()?));
    }
    // `body` may stand before the word that empties it.
    pairs.sort_by_key(|(word, _)| *word == "body");
    let named = |name: &str| pairs.iter().find(|(word, _)| *word == name).map(|(_, value)| *value);
    let day = named("on").unwrap_or("2026-11-20");
    let at = |seq: u64| json!(format!("{day}T10:00:{seq:02}.000Z"));
    let mut message = json!({"conversation_id": named("in").unwrap_or("dm_ab"), "seq": seq,
        "message_id": format!("0198b7a0-0000-7000-8000-0000000000{seq:02}"), "sent_at": at(seq)});
    let rest = match who {
        "stored" => json!({"duplicate": false}),
        who => json!({"sender_id": who, "kind": "text", "body": format!("{who} {seq}")}),
    };
    message.set(rest);
    for (word, value) in &pairs {
        let number = value.parse::<u64>();
        let mut change = |kind: &str, target: u64| message.set(json!({"kind": kind, "target_seq": target, "body": ""}));
        match *word {
            "in" | "on" => {}
            "as" => message["client_msg_id"] = json!(value),
            "body" => message["body"] = json!(value),
            "answers" => message["reply_to"] = json!(number.ok()?),
            "version" => message["version"] = json!(number.ok()?),
            "edited" => message["edited_at"] = at(number.ok()?),
            "deleted" => {
                let deleted_at = at(number.ok()?);
                message.set(json!({"body": "", "deleted_at": deleted_at, "deleted_by": who}));
            }
            "reactions" => message["reactions"] = value.split('+').map(reaction).collect(),
            "edits" => change("edit", number.ok()?),
            "deletes" => change("delete", number.ok()?),
            "reacts" => change("reaction", number.ok()?),
            "emoji" => message["emoji"] = json!(value),
            "before" => message["emoji_before"] = json!(value),
            "upto" => message["reactions_seq"] = json!(number.ok()?),
            "mentions" => message["mentions"] = users(value),
            "created" => message.set(system(&json!({"event": "created", "title": value, "members": []}))),
            "members" => message["system"]["members"] = users(value),
            "adds" => message.set(system(&json!({"event": "members.added", "members": users(value)}))),
            "removes" => message.set(system(&json!({"event": "members.removed", "members": users(value)}))),
            "leaves" => message.set(system(&json!({"event": "member.left"}))),
            "makes" => {
                let (user, role) = value.split_once(':')?;
                message.set(system(&json!({"event": "role.changed", "user_id": user, "role": role})));
            }
            "renames" => message.set(system(&json!({"event": "info.changed", "title": value}))),
            _ => return None,
        }
    }
    Some(message)
}

fn users(text: &str) -> Value {
    text.split('+').collect()
}

fn system(system: &Value) -> Value {
    json!({"kind": "system", "body": "", "system": system})
}

trait Fields {
    fn set(&mut self, fields: Value);
}

impl Fields for Value {
    fn set(&mut self, fields: Value) {
        self.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
}

/// `👍:2:mine`.
fn reaction(text: &str) -> Value {
    let parts: Vec<&str> = text.split(':').collect();
    json!({"emoji": parts[0], "count": parts[1].parse::<u64>().unwrap(), "mine": parts.get(2) == Some(&"mine")})
}

/// Parses a script's value as the client's type.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
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

/// Returns the data of an earlier run, as writes.
pub(super) fn saved(saved: &Value) -> Vec<Write> {
    let held = if saved["held"].is_null() { json!({}) } else { saved["held"].clone() };
    let held: BTreeMap<ConversationId, Seq> = read(&held);
    let caught_up: Option<Timestamp> = read(&saved["caught_up"]);
    let held = held.into_iter().map(|(conversation_id, seq)| StorageChange::Held { conversation_id, seq });
    held.chain(caught_up.map(StorageChange::CaughtUp)).map(Write::Change).collect()
}

/// Builds the content of the outbox from the fields of a script, in the form of a storage: the conversation is next to
/// the change.
pub(crate) fn queued_of(fields: &Value) -> Queued {
    let mut kept = fields.as_object().unwrap().clone();
    kept.retain(|_, value| !value.is_null());
    let made_at = kept.remove("at");
    let place = ["to", "conversation_id"].map(|name| (name, kept.remove(name)));
    if let Some(change) = kept.values_mut().find(|value| value.is_object() && fields.get("body").is_none()) {
        for (name, value) in place {
            change.as_object_mut().unwrap().extend(value.map(|value| (name.to_owned(), value)));
        }
    } else {
        kept.insert("target".to_owned(), json!(target_of(fields)));
    }
    kept.extend(made_at.map(|at| ("made_at".to_owned(), at)));
    read(&Value::Object(kept))
}

/// And the other way round.
pub(super) fn plain_queued(queued: &Queued) -> Value {
    let mut fields = json!(queued);
    let fields = fields.as_object_mut().unwrap();
    let target = match fields.remove("target") {
        Some(target) => target,
        None => json!(queued.outgoing.target()),
    };
    for value in fields.values_mut().filter_map(Value::as_object_mut) {
        value.remove("conversation_id");
    }
    fields.extend(target.as_object().cloned().unwrap_or_default());
    Value::Object(fields.clone())
}

pub(super) fn target_of(fields: &Value) -> Target {
    match fields.get("to") {
        Some(to) => Target::User(read(to)),
        None => Target::Conversation(read(&fields["conversation_id"])),
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
        "wrong_user" => Why::WrongUser(String::new()),
        other => panic!("{other}"),
    }
}

fn why_name(why: &Why) -> &'static str {
    match why {
        Why::Closed => "closed",
        Why::Lost(_) => "lost",
        Why::Silent => "silent",
        Why::Store(_) => "store",
        Why::Unreachable(_) => "unreachable",
        Why::Refused { .. } => "refused",
        Why::TokenRefused { .. } => "token_refused",
        Why::TokenExpired => "token_expired",
        Why::NoToken(_) => "no_token",
        Why::WrongUser(_) => "wrong_user",
    }
}

pub(super) fn plain_stats(stats: Stats) -> Value {
    let Stats { sent, answered, resent, failed, received, duplicates_dropped, gaps_repaired, reconnects, .. } = stats;
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
        Event::Message { message, missed } => json!({"missed": missed, "message": message}),
        Event::Receipt { kind, receipt } => {
            let mut receipt = json!(receipt);
            receipt["kind"] = json!(if *kind == ReceiptKind::Read { "read" } else { "delivered" });
            json!({"receipt": receipt})
        }
        Event::ConversationChanged(row) => json!({"conversation": row}),
        Event::StorageSetAside(name) => json!({"storage": name}),
        Event::SettingsChanged(settings) => json!({"settings": settings}),
        Event::State(State::Connecting) => json!({"state": "connecting"}),
        Event::State(State::Online) => json!({"state": "online"}),
        Event::State(State::CaughtUp) => json!({"state": "caught_up"}),
        Event::State(State::Replaced) => json!({"state": "replaced"}),
        Event::State(State::Offline { why, .. }) => json!({"state": "offline", "why": why_name(why)}),
        Event::Typing { conversation_id, user_id, at, text: _ } => {
            json!({"typing": {"conversation_id": conversation_id, "user_id": user_id, "at": at}})
        }
        Event::PresenceChanged(presence) => json!({"presence": presence}),
        Event::Failed { queued, error } => {
            let mut failed = plain_queued(queued);
            failed["code"] = json!(code(error));
            json!({"failed": failed})
        }
        Event::Uploading { client_msg_id, done, bytes } => {
            json!({"uploading": {"client_msg_id": client_msg_id, "done": done, "bytes": bytes}})
        }
        Event::Unreadable { .. } | Event::Security(_) => unreachable!("no script has encryption"),
        Event::Reacted { queued } => json!({"reacted": plain_queued(queued)}),
        Event::Unwatched { conversation_id, error } => {
            json!({"unwatched": {"conversation_id": conversation_id, "code": code(error)}})
        }
    }
}

fn code(error: &Error) -> &str {
    match error {
        Error::Refused { code, .. } => code,
        Error::File(_) => "file",
        Error::Cancelled => "cancelled",
        _ => "",
    }
}

pub(super) fn assert_answer(answer: Result<Value, Error>, step: &Value) {
    match (answer, step.get("error")) {
        (Err(Error::Refused { code, .. }), Some(error)) => assert_eq!(code, *error),
        (Err(Error::Unreadable), Some(error)) => assert_eq!("unreadable", *error),
        (Err(Error::File(_)), Some(error)) => assert_eq!("file", *error),
        (Err(Error::Cancelled), Some(error)) => assert_eq!("cancelled", *error),
        (Err(Error::Unwatched), Some(error)) => assert_eq!("unwatched", *error),
        (Ok(answer), None) => assert_within(&step["ok"], &answer, &step.to_string()),
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
