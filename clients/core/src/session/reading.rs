//! Reads the server's frames so that one unknown part from a later version does not make the rest unreadable.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use wire::{Channel, Conversation, ConversationKind, InboxResult, Message, Reply, ServerFrame};

/// The fields of every entry, besides a body.
const OF_ENTRIES: [&str; 6] = ["conversation_id", "seq", "message_id", "sender_id", "kind", "sent_at"];
/// The fields of every row of the chat list.
const OF_ROWS: [&str; 7] =
    ["conversation_id", "kind", "last_message", "unread", "delivered_seq", "read_seq", "last_seq"];

/// A frame, with those of its entries that can be read.
pub(super) fn read_frame(text: &str) -> ServerFrame {
    match ServerFrame::parse(text) {
        ServerFrame::Unknown => serde_json::from_str(text)
            .and_then(|frame| serde_json::from_value(with_readable_entries(frame)))
            .map_or(ServerFrame::Unknown, ServerFrame::Event),
        frame @ (ServerFrame::Reply { .. }
        | ServerFrame::Error { .. }
        | ServerFrame::Event(_)
        | ServerFrame::Gateway) => frame,
    }
}

/// Parses a reply. From a list of entries, drops those that can't be read.
pub(super) fn readable<T: DeserializeOwned>(result: Value) -> Option<T> {
    T::deserialize(&result).or_else(|_| T::deserialize(with_readable_entries(result))).ok()
}

/// Reads the reply to an app's request. A list has those of its rows and entries that can be read.
pub(super) fn read_reply(action: &str, result: Value) -> Option<Reply> {
    let result = match action {
        "inbox" => with_readable_rows(result),
        "channels" => with_readable_channels(result),
        // The others have no rows.
        _ => result,
    };
    Reply::parse(action, result.clone()).or_else(|_| Reply::parse(action, with_readable_entries(result))).ok()
}

/// A page of the chat list, without conversations of kinds that this version does not know.
pub(super) fn read_inbox(result: Value) -> Option<InboxResult> {
    serde_json::from_value(with_readable_rows(result)).ok()
}

fn with_readable_rows(mut result: Value) -> Value {
    let is_known = |kind: &Value| ConversationKind::deserialize(kind).is_ok();
    keep_of(&mut result, "conversations", |row| {
        if row.get("kind").is_some_and(is_known) { readable_part::<Conversation>(row, &OF_ROWS) } else { None }
    });
    result
}

fn with_readable_channels(mut result: Value) -> Value {
    keep_of(&mut result, "conversations", |row| if Channel::deserialize(&row).is_ok() { Some(row) } else { None });
    result
}

/// An entry that lacks what all have is a gap.
fn with_readable_entries(mut result: Value) -> Value {
    keep_of(&mut result, "messages", |mut entry| {
        if let Value::Object(fields) = &mut entry
            && !fields.get("body").is_some_and(Value::is_string)
        {
            fields.insert("body".to_owned(), "".into());
        }
        let of_all: Vec<&str> = OF_ENTRIES.into_iter().chain(["body"]).collect();
        readable_part::<Message>(entry, &of_all)
    });
    result
}

fn keep_of(result: &mut Value, list: &str, keep: impl FnMut(Value) -> Option<Value>) {
    if let Some(Value::Array(items)) = result.get_mut(list) {
        *items = std::mem::take(items).into_iter().filter_map(keep).collect();
    }
}

/// With those of its fields that can be read. `None`: it lacks some of those that all have.
fn readable_part<T: DeserializeOwned>(item: Value, of_all: &[&str]) -> Option<Value> {
    let is_readable = |item: &Value| T::deserialize(item).is_ok();
    if is_readable(&item) {
        return Some(item);
    }
    let Value::Object(fields) = item else { return None };
    let (of_all, others): (Map<_, _>, Map<_, _>) =
        fields.into_iter().partition(|(name, _)| of_all.contains(&name.as_str()));
    let mut part = of_all.clone();
    for (name, value) in others {
        let mut with_it = of_all.clone();
        with_it.insert(name.clone(), value.clone());
        if is_readable(&Value::Object(with_it)) {
            part.insert(name, value);
        }
    }
    let part = Value::Object(part);
    if is_readable(&part) { Some(part) } else { None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::{DrainResult, HistoryResult, Kind, Role, ServerEvent};

    use super::*;

    fn entry(seq: u64, more: &Value) -> Value {
        let mut entry = json!({
            "conversation_id": "gr_ab", "seq": seq, "message_id": "m", "sender_id": "bob", "kind": "text", "body": "hi",
            "sent_at": "2026-11-20T10:00:05.000Z",
        });
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    }

    /// A kind that is not known, fields that are others, and nothing that is an entry.
    fn entries() -> Value {
        let media = json!({"media_id": 1, "bytes": 5, "sha256": "x"});
        json!([
            entry(1, &json!({"kind": "hologram", "media": media, "body": {"for": "alice"}, "client_msg_id": "a"})),
            entry(2, &json!({"reactions": "many", "version": 2})),
            entry(3, &json!({"sent_at": "soon"})),
            7,
            entry(4, &json!({})),
        ])
    }

    fn check(messages: &[Message]) {
        let read: Vec<_> = messages.iter().map(|it| (it.seq.value(), &*it.body, it.version)).collect();
        assert_eq!(read, [(1, "", None), (2, "hi", Some(2)), (4, "hi", None)]);
        assert!(
            matches!(&messages[0], Message { kind: Kind::Other(kind), media: None, client_msg_id: Some(_), .. } if kind == "hologram")
        );
    }

    #[test]
    fn of_entries_what_can_be_read_is_read() {
        check(&readable::<DrainResult>(json!({"messages": entries(), "more": true})).unwrap().messages);
        let page = json!({"messages": entries(), "more": true, "last_seq": 4, "first_seq": 1, "members": []});
        check(&readable::<HistoryResult>(page).unwrap().messages);
        let event = json!({"type": "messages.new", "conversation_id": "gr_ab", "messages": entries()});
        match read_frame(&event.to_string()) {
            ServerFrame::Event(ServerEvent::MessagesNew { messages, .. }) => check(&messages),
            other => panic!("{other:?}"),
        }
        assert_eq!(read_frame(r#"{"type":"messages.new","messages":5}"#), ServerFrame::Unknown);
        assert_eq!(readable::<DrainResult>(json!({"messages": 5, "more": true})), None);
    }

    #[test]
    fn of_rows_what_can_be_read_is_read() {
        let row = |more: Value| {
            let mut row = json!({
                "conversation_id": "gr_ab", "kind": "group", "title": "Trip", "role": "admin", "unread": 0,
                "delivered_seq": 1, "read_seq": 1, "last_seq": 1,
                "last_message": {"seq": 1, "sender_id": "bob", "kind": "text", "preview": "hi",
                    "sent_at": "2026-11-20T10:00:05.000Z"},
            });
            row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            row
        };
        let rows = json!([
            row(json!({})),
            row(json!({"role": "guest", "post": "guests"})),
            row(json!({"kind": "forum"})),
            row(json!({"last_seq": "many"})),
        ]);
        let page = read_inbox(json!({"conversations": rows, "next_cursor": null})).unwrap();
        let read: Vec<_> = page.conversations.iter().map(|row| (row.role, row.title.as_deref())).collect();
        assert_eq!(read, [(Some(Role::Admin), Some("Trip")), (None, Some("Trip"))]);
    }
}
