//! Plays the scenarios about the chat list.

use std::time::Duration;

use serde_json::{Value, json};
use wire::{Channel, Conversation, ConversationId, Timestamp};

use super::super::*;
use super::{again, event_of};
use crate::Draft;
use crate::session::conformance::frames::check;
use crate::session::conformance::script::{queued_of, read};

pub(super) fn play(scenario: &Value, steps: &[Value]) {
    let mut list = Conversations::new(read(&scenario["user"]));
    let mut shown = ListSnapshot::default();
    for step in &steps[1..] {
        let place = format!("{}: {step}", scenario["name"]);
        let (name, what) = step.as_object().unwrap().iter().next().unwrap();
        match name.as_str() {
            "expect" => shown = expect(&list, what, &shown, &place),
            "row" => {
                check::<Conversation>(what);
                list.row(&read(what));
            }
            "channel" => {
                check::<Channel>(what);
                list.channel(&read(what));
            }
            "queued" => list.queued(queued_of(what)),
            "direct" => assert_eq!(json!(list.direct(&read(&what["peer_id"]))), what["key"], "{place}"),
            "draft" => list.draft(key(what), what["text"].as_str().map(Draft::new)),
            "presence" => list.presence(&read::<Vec<_>>(what)),
            "read_all" => {
                let mark = list.read_all(key(what)).map(|(id, seq)| json!([id, seq]));
                assert_eq!(json!(mark), what["read"], "{place}");
            }
            "read" => list.read(&read(&what["conversation_id"]), read(&what["seq"])),
            "pins" => {
                let order: Vec<ConversationId> = read(&what["order"]);
                let unpinned = list.pinned_are(read(&what["of"]), &order.iter().collect::<Vec<_>>());
                assert_eq!(json!(unpinned), what["unpinned"], "{place}");
            }
            "dismiss" => list.dismiss(&read(what)),
            "remove" => list.remove(key(what)),
            _ => {
                let id = what.get("conversation_id").map_or_else(id, read::<ConversationId>);
                list.event(&event_of(&id, name, what), moment(&what["now"]));
            }
        }
    }
}

fn key(what: &Value) -> &str {
    what["key"].as_str().unwrap()
}

fn moment(ms: &Value) -> Moment {
    Moment::default() + Duration::from_millis(ms.as_u64().unwrap_or_default())
}

fn expect(list: &Conversations, expected: &Value, before: &ListSnapshot, place: &str) -> ListSnapshot {
    let filter = Filter {
        archived: expected["archived"] == true,
        kinds: expected.get("kinds").map(read).unwrap_or_default(),
        words: expected["words"].as_str().unwrap_or_default().to_owned(),
    };
    let at = expected.get("at").map_or(Timestamp::default(), read);
    let snapshot = list.snapshot(before, &filter, moment(&expected["now"]), at);
    for (name, expected) in expected.as_object().unwrap() {
        let found = match name.as_str() {
            "rows" => snapshot.rows.iter().map(|row| brief(row)).collect(),
            "unread" => json!(snapshot.unread),
            "changed" => json!(snapshot.version > before.version),
            "archived" | "kinds" | "words" | "at" | "now" => continue,
            other => panic!("a list has no {other}"),
        };
        assert_eq!(found, *expected, "{place}: {name}");
    }
    snapshot
}

pub(crate) fn brief(row: &ChatRow) -> String {
    let mut words = vec![row.key.clone()];
    words.extend(row.title.clone());
    words.extend((row.unread > 0).then(|| format!("{} unread", row.unread)));
    words.extend((row.mentions > 0).then(|| format!("{} mentions", row.mentions)));
    let flags = [
        (row.is_muted, "muted"),
        (row.is_pinned, "pinned"),
        (row.is_blocked, "blocked"),
        (row.is_closed, "closed"),
        (row.presence.as_ref().is_some_and(|presence| presence.online), "online"),
    ];
    words.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| (*word).to_owned()));
    words.extend(row.failed.as_ref().map(|code| format!("failed {code}")));
    words.extend(row.draft.as_ref().map(|draft| format!("draft {}", draft.body)));
    words.extend(row.typing.iter().map(|user| match row.texts.get(user) {
        Some(text) => format!("{user} types {text}"),
        None => format!("{user} types"),
    }));
    if let Some(line) = &row.line {
        words.push("|".to_owned());
        words.extend(line.seq.map(|seq| seq.to_string()));
        words.push(match &line.progress {
            None => line.sender_id.to_string(),
            Some(Progress::Failed { code, can_help }) => format!("own failed {code}{}", again(*can_help)),
            Some(Progress::Uploading { done, of }) => format!("own uploading {done}/{of}"),
            Some(progress) => format!("own {progress:?}").to_lowercase(),
        });
        let event = line.event.as_ref().map(|event| json!(event)["event"].as_str().unwrap().to_owned());
        let kind = || (line.kind != wire::Kind::Text).then(|| line.kind.to_string());
        words.extend(event.or_else(kind));
        words.push(if line.is_deleted { "deleted".to_owned() } else { line.text.clone() });
        words.retain(|word| !word.is_empty());
    }
    words.join(" ")
}
