//! Runs the chat model against conformance/chat.yaml, whose README explains the steps.

mod list;

pub(crate) use list::brief as brief_row;

use serde_json::{Value, json};
use wire::{
    Conversation, ConversationId, Data, Emoji, HistoryResult, Kind, Message, Reaction, ReceiptsResult, Seq, Side,
    Timestamp,
};

use super::*;
use crate::session::conformance::frames::check;
use crate::session::conformance::scenarios;
use crate::session::conformance::script::{queued_of, read, variants};
use crate::store::{Span, Window};
use crate::{Error, Event, Moment, ReceiptKind, State};

#[test]
fn the_scripts_for_the_chat_model() {
    for scenario in scenarios("chat") {
        for steps in variants(&scenario) {
            if steps[0].get("list").is_some() {
                list::play(&scenario, &steps);
                continue;
            }
            let mut view = View::new(&scenario, &steps[0]["open"]);
            for step in &steps[1..] {
                view.take(step, &format!("{}: {step}", scenario["name"]));
            }
        }
    }
}

struct View {
    messages: Messages,
    conversation_id: ConversationId,
    /// At the last step that expected something.
    version: u64,
}

impl View {
    fn new(scenario: &Value, open: &Value) -> Self {
        let conversation_id: ConversationId = read(open.get("conversation_id").unwrap_or(&json!("dm_ab")));
        let (me, zone) = (read(&scenario["user"]), zone(&open["zone"]));
        let messages = Messages::new(me, conversation_id.clone(), at(&open["at"]), zone);
        Self { messages, conversation_id, version: 0 }
    }

    fn take(&mut self, step: &Value, place: &str) {
        let (name, what) = step.as_object().unwrap().iter().next().unwrap();
        let (view, id) = (&mut self.messages, &self.conversation_id);
        match name.as_str() {
            "expect" => self.expect(what, place),
            "row" => {
                check::<Conversation>(what);
                view.timeline_mut().row(&read(what));
            }
            "receipts" => view.timeline_mut().receipts(&read::<ReceiptsResult>(what)),
            "queued" => {
                let mut fields = what.clone();
                fields["conversation_id"] = json!(id);
                view.timeline_mut().queued(queued_of(&fields));
            }
            "loaded" => {
                let span = |span: &Value| Span { from: read(&span[0]), to: read(&span[1]) };
                let spans = what["spans"].as_array().unwrap().iter().map(span).collect();
                view.loaded(side(what), Window { messages: entries(id, what), spans });
            }
            "page" => {
                let mut page = what.clone();
                page["messages"] = json!(entries(id, what));
                page["members"] = what.get("members").cloned().unwrap_or(json!([]));
                let page: HistoryResult = read(&page);
                view.page(side(what), page);
            }
            "messages" => {
                for message in entries(id, &json!({"ranges": what})) {
                    view.event(&Event::Message { message, missed: false }, Moment::default());
                }
            }
            "lost" => view.lost(side(what)),
            "older" => view.older(),
            "newer" => view.newer(),
            "jump" => view.jump(at(what)),
            "zone" => view.set_zone(zone(what)),
            "dismiss" => view.timeline_mut().dismiss(&read(what)),
            "seen" => assert_eq!(json!(view.seen(what["key"].as_str().unwrap())), what["read"], "{place}"),
            "read_all" => assert_eq!(json!(view.read_all()), what["read"], "{place}"),
            _ => view.event(&event_of(id, name, what), Moment::default()),
        }
    }

    fn expect(&mut self, expected: &Value, place: &str) {
        let snapshot = self.messages.snapshot().clone();
        for (name, expected) in expected.as_object().unwrap() {
            let found = match name.as_str() {
                "items" => snapshot.items.iter().map(|item| brief(item)).collect(),
                "runs" => json!(runs(&snapshot)),
                "entries" => {
                    let is_stored = |key: &&str| snapshot.items.iter().any(|item| item.key == **key && is_stored(item));
                    let keys: Vec<&str> = snapshot.items.iter().map(|item| &*item.key).filter(is_stored).collect();
                    json!([keys.first(), keys.last(), keys.len()])
                }
                "has_older" => json!(snapshot.has_older),
                "has_newer" => json!(snapshot.has_newer),
                "unread" => json!(snapshot.unread),
                // With the text, if the message has come.
                "pins" => {
                    snapshot.pins.iter().map(|pin| json!([pin.seq, pin.message.as_ref().map(|it| &it.body)])).collect()
                }
                "changed" => json!(snapshot.version > self.version),
                "requests" => self.messages.requests().iter().map(request).collect(),
                other => panic!("a view has no {other}"),
            };
            assert_eq!(found, *expected, "{place}: {name}");
        }
        self.version = snapshot.version;
    }
}

fn event_of(conversation_id: &ConversationId, name: &str, what: &Value) -> Event {
    let mut fields = what.clone();
    match name {
        "message" => Event::Message { message: read(what), missed: false },
        "receipt" => {
            let kind = if what["kind"] == "read" { ReceiptKind::Read } else { ReceiptKind::Delivered };
            fields["conversation_id"] = json!(conversation_id);
            fields["at"] = json!("2026-11-20T10:00:00.000Z");
            Event::Receipt { kind, receipt: read(&fields) }
        }
        "uploading" => {
            let (client_msg_id, done) = (read(&what["client_msg_id"]), read(&what["done"]));
            Event::Uploading { client_msg_id, done, bytes: 0 }
        }
        "failed" => {
            fields["conversation_id"] = json!(conversation_id);
            let code = read::<String>(&fields.as_object_mut().unwrap().remove("code").unwrap());
            let refused = || Error::Refused { code: code.clone(), message: String::new() };
            let error = if code == "cancelled" { Error::Cancelled } else { refused() };
            Event::Failed { queued: queued_of(&fields), error }
        }
        "reacted" => {
            fields["conversation_id"] = json!(conversation_id);
            Event::Reacted { queued: queued_of(&fields) }
        }
        "conversation" => Event::ConversationChanged(read(what)),
        "settings" => Event::SettingsChanged(read(what)),
        "typing" => {
            let user_id = read(&what["user_id"]);
            let text = what["text"].as_str().map(str::to_owned);
            Event::Typing { conversation_id: conversation_id.clone(), user_id, at: Timestamp::default(), text }
        }
        "state" if what == "caught_up" => Event::State(State::CaughtUp),
        other => panic!("there is no step {other}"),
    }
}

/// The entries of a step: those that are written out, then all of each range.
fn entries(conversation_id: &ConversationId, step: &Value) -> Vec<Message> {
    let mut entries: Vec<Message> = step["messages"].as_array().into_iter().flatten().map(read).collect();
    let ranges = step["ranges"].as_object().into_iter().flatten();
    for (sender, range) in ranges {
        for seq in read::<u64>(&range[0])..=read::<u64>(&range[1]) {
            let begin = Timestamp::parse("2026-11-20T10:00:00Z").unwrap();
            let sent_at = Timestamp::from_millis(begin.millis() + i64::try_from(seq).unwrap() * 1000);
            entries.push(read(&json!({"conversation_id": conversation_id, "seq": seq, "sender_id": sender,
                "message_id": format!("0198b7a0-0000-7000-8000-{seq:012}"), "kind": "text",
                "body": format!("{sender} {seq}"), "sent_at": sent_at})));
        }
    }
    entries.sort_by_key(|entry| entry.seq);
    entries
}

fn at(text: &Value) -> At {
    match text.as_str() {
        Some("newest") => At::Newest,
        Some("first_unread") => At::FirstUnread,
        _ => At::Seq(read(text)),
    }
}

fn zone(offsets: &Value) -> Zone {
    let offset = |offset: &Value| (read(&offset[0]), read(&offset[1]));
    Zone::new(offsets.as_array().into_iter().flatten().map(offset).collect())
}

fn side(fields: &Value) -> Side {
    let seq = |name| fields.get(name).map(read::<Seq>);
    seq("before_seq").map(Side::Before).or(seq("after_seq").map(Side::After)).unwrap_or(Side::Newest)
}

fn request(request: &Request) -> Value {
    let side = |side: &Side| match side {
        Side::Newest => json!({}),
        Side::Before(seq) => json!({"before_seq": seq}),
        Side::After(seq) => json!({"after_seq": seq}),
    };
    match request {
        Request::Load(of) => json!({"load": side(of)}),
        Request::History(of) => json!({"history": side(of)}),
    }
}

fn is_stored(item: &Item) -> bool {
    match &item.content {
        Content::Message(message) => message.seq.is_some(),
        Content::System { .. } | Content::Unreadable { .. } => true,
        Content::Day { day: _ } | Content::Unread { count: _ } | Content::Gap { .. } => false,
    }
}

/// The keys of each run.
fn runs(snapshot: &Snapshot) -> Vec<Vec<&str>> {
    let mut runs = Vec::new();
    for item in &snapshot.items {
        let Content::Message(message) = &item.content else { continue };
        if message.run.is_first {
            runs.push(Vec::new());
        }
        runs.last_mut().unwrap().push(&*item.key);
    }
    let ends: Vec<&str> = snapshot
        .items
        .iter()
        .filter(|item| matches!(&item.content, Content::Message(it) if it.run.is_last))
        .map(|item| &*item.key)
        .collect();
    assert_eq!(runs.iter().filter_map(|run| run.last().copied()).collect::<Vec<_>>(), ends);
    runs
}

pub(crate) fn brief(item: &Item) -> String {
    let key = &item.key;
    match &item.content {
        Content::Day { day } => {
            assert_eq!(*key, format!("d{day}"));
            key.clone()
        }
        Content::Unread { count } => format!("{key} {count}"),
        Content::Gap { after_seq, before_seq } => {
            assert_eq!(*key, format!("g{after_seq}"));
            format!("{key} to {before_seq}")
        }
        Content::System { seq, sender_id, event, .. } => {
            assert_eq!(*key, format!("s{seq}"));
            format!("{key} {sender_id} {}", json!(event)["event"].as_str().unwrap())
        }
        Content::Unreadable { sender_id, why, .. } => format!("{key} {sender_id} {}", json!(why).as_str().unwrap()),
        Content::Message(message) => format!("{key} {}", brief_message(message)),
    }
}

fn brief_message(message: &MessageItem) -> String {
    let mut words = vec![match &message.progress {
        None => message.sender_id.to_string(),
        Some(Progress::Uploading { done, of }) => format!("own uploading {done}/{of}"),
        Some(Progress::Failed { code, can_help }) => format!("own failed {code}{}", again(*can_help)),
        Some(progress) => format!("own {progress:?}").to_lowercase(),
    }];
    words.extend(matches!(message.kind, Kind::Own(_)).then(|| message.kind.to_string()));
    words.extend(message.data.as_ref().map(Data::to_text));
    words.extend(message.edited_at.map(|_| format!("edited {}", message.body)));
    words.extend(message.deleted_by.as_ref().map(|by| format!("deleted by {by}")));
    let reaction = |Reaction { emoji, count, mine }: &Reaction| {
        format!("{}:{count}{}", Emoji::as_str(emoji), if *mine { ":mine" } else { "" })
    };
    if !message.reactions.is_empty() {
        words.push(format!("with {}", message.reactions.iter().map(reaction).collect::<Vec<_>>().join("+")));
    }
    words.extend(message.reply.as_ref().map(|reply| match &reply.message {
        None => "to nothing".to_owned(),
        Some(quote) if quote.deleted_at.is_some() => format!("to {} deleted", quote.seq),
        Some(quote) => format!("to {} {}", reply.seq, quote.body),
    }));
    let signal = |Signal { sender_id, data, .. }: &Signal| format!("{sender_id}:{}", json!(data));
    if !message.signals.is_empty() {
        words.push(format!("signals {}", message.signals.iter().map(signal).collect::<Vec<_>>().join("+")));
    }
    words.extend(message.is_changing.then(|| "changing".to_owned()));
    words
        .extend(message.refused.as_ref().map(|refused| format!("refused {}{}", refused.code, again(refused.can_help))));
    words.join(" ")
}

fn again(can_help: bool) -> &'static str {
    if can_help { " again" } else { "" }
}
