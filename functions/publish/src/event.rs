//! Events, as the bus or the queue gets them.

use std::collections::BTreeSet;

use domain::{Entry, Sight};
use lambda::BadVariable;
use serde_json::{Map, Value, json};
use wire::{ConversationId, Report, Seq, UserId};

/// The parts of an entry that its event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Full,
    /// No content: the team's servers read it where they need it.
    Ids,
}

impl Content {
    /// Reads `EVENTS_CONTENT`.
    ///
    /// # Errors
    /// [`BadVariable`] for another word.
    pub fn parse(text: &str) -> Result<Self, BadVariable> {
        match text {
            "full" => Ok(Self::Full),
            "ids" => Ok(Self::Ids),
            _ => Err(BadVariable::new("EVENTS_CONTENT", "must be full or ids")),
        }
    }

    fn of_message(self, mut message: Map<String, Value>) -> Map<String, Value> {
        if self == Self::Ids {
            message
                .retain(|field, _| !["body", "data", "media", "mentions", "system", "plaintext"].contains(&&**field));
        }
        message
    }
}

/// An event, and the place of its record in the batch.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) place: usize,
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    /// Events of a group stay in order in a FIFO queue.
    pub(crate) group: String,
    pub(crate) json: String,
    /// The replay's id, since a FIFO queue drops an id that it had before.
    pub(crate) job_id: Option<String>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) conversation: &'a ConversationId,
    pub(crate) seq: Seq,
    /// The members of a direct conversation.
    pub(crate) members: Option<&'a BTreeSet<UserId>>,
}

/// Makes the event of an entry. `None`: the entry can't be read, so the event only names it.
pub(crate) fn of_entry(content: Content, stack: &str, of: Of, entry: Option<&Entry>) -> Event {
    let Of { conversation, seq, members } = of;
    let shown = entry.map(|entry| {
        let mut shown = entry.seen_by(&UserId::service_default(), &Sight::WHOLE);
        shown.client_msg_id = None;
        object(serde_json::to_value(shown))
    });
    let message = shown.unwrap_or_else(|| object(Ok(json!({"conversation_id": conversation, "seq": seq}))));
    let mut about = object(Ok(json!({"conversation_id": conversation, "kind": conversation.kind()})));
    about.extend(members.map(|members| ("members".to_owned(), json!(members))));
    let id = format!("{conversation}:{seq}");
    let json = json!({
        "v": 1, "type": "entry", "id": id, "stack": stack, "conversation": about,
        "message": content.of_message(message),
    });
    Event { place: 0, kind: "entry", id, group: conversation.to_string(), json: json.to_string(), job_id: None }
}

/// Makes the event of a report.
pub(crate) fn of_report(content: Content, stack: &str, report: Report) -> Event {
    let id = report.report_id.to_string();
    let group = report.conversation_id.as_ref().map_or_else(|| id.clone(), ToString::to_string);
    let messages: Vec<_> = report.messages.iter().cloned().map(|message| content.of_message(message)).collect();
    let mut event = object(serde_json::to_value(Report { messages: vec![], ..report }));
    if content == Content::Ids {
        event.retain(|field, _| !["note", "claimed"].contains(&&**field));
    }
    if !messages.is_empty() {
        event.insert("messages".to_owned(), json!(messages));
    }
    event.extend(object(Ok(json!({"v": 1, "type": "report", "id": id, "stack": stack}))));
    Event { place: 0, kind: "report", id, group, json: Value::Object(event).to_string(), job_id: None }
}

fn object(value: serde_json::Result<Value>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::new(),
    }
}
