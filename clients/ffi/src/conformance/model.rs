//! The chat model and the timeline by themselves, for the scripts of `conformance/`. The library that apps ship lacks it: the feature `bindgen` is
//! for tests and for the program that writes the bindings.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pigeonhole_core::chat::{At, Conversations, Filter, ListSnapshot, Messages, Request, Zone};
use pigeonhole_core::{
    Draft, Error, Event, Moment, Queued, Readers, ReceiptKind, Span, State, Tick, Timeline, TimelineEntry, Window,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::{ClientMsgId, ConversationId, Message, Seq, Side, Timestamp, UserId};

use crate::edge::read_json;
use crate::fault::Fault;

/// A view of one conversation, a chat list or a timeline, without an engine.
#[derive(uniffi::Object)]
pub struct Model(Mutex<Part>);

enum Part {
    View(Box<Messages>),
    List(Box<Conversations>, ListSnapshot),
    Timeline(Box<Timeline>),
}

/// The fields of a step. Each step has some.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Step {
    before_seq: Option<Seq>,
    after_seq: Option<Seq>,
    messages: Vec<Message>,
    spans: Vec<(Seq, Seq)>,
    key: String,
    draft: Option<Draft>,
    kind: String,
    client_msg_id: Option<ClientMsgId>,
    conversation_id: Option<ConversationId>,
    user_id: Option<UserId>,
    done: u64,
    code: String,
    request: Option<Queued>,
}

impl Step {
    fn side(&self) -> Side {
        let before = self.before_seq.map(Side::Before);
        before.or(self.after_seq.map(Side::After)).unwrap_or(Side::Newest)
    }
}

#[uniffi::export]
impl Model {
    /// Creates the view of a conversation, with `at` and `zone` as JSON.
    ///
    /// # Errors
    /// `bad_request`.
    #[uniffi::constructor]
    pub fn view(user_id: &str, conversation_id: &str, at: &str, zone: &str) -> Result<Arc<Self>, Fault> {
        let (me, id): (UserId, ConversationId) = (read(&json!(user_id))?, read(&json!(conversation_id))?);
        let view = Messages::new(me, id, read_json(at)?, Zone::new(read_json(zone)?));
        Ok(Arc::new(Self(Mutex::new(Part::View(Box::new(view))))))
    }

    /// Creates a chat list.
    ///
    /// # Errors
    /// `bad_request`.
    #[uniffi::constructor]
    pub fn list(user_id: &str) -> Result<Arc<Self>, Fault> {
        let list = Conversations::new(read(&json!(user_id))?);
        Ok(Arc::new(Self(Mutex::new(Part::List(Box::new(list), ListSnapshot::default())))))
    }

    /// Creates a timeline.
    ///
    /// # Errors
    /// `bad_request`.
    #[uniffi::constructor]
    pub fn timeline(user_id: &str) -> Result<Arc<Self>, Fault> {
        Ok(Arc::new(Self(Mutex::new(Part::Timeline(Box::new(Timeline::new(read(&json!(user_id))?)))))))
    }

    /// Takes a step, and returns its result as JSON, which most steps lack. `now` is in milliseconds.
    ///
    /// # Errors
    /// `bad_request`.
    pub fn take(&self, name: &str, what: &str, now: u64) -> Result<String, Fault> {
        let mut part = self.0.lock().map_err(|_| Fault::broken())?;
        let what: Value = read_json(what)?;
        let now = Moment::default() + Duration::from_millis(now);
        let result = match &mut *part {
            Part::View(view) => in_view(view, name, &what, now)?,
            Part::List(list, _) => in_list(list, name, &what, now)?,
            Part::Timeline(timeline) => in_timeline(timeline, name, &what, now)?,
        };
        Ok(result.to_string())
    }

    /// Returns what is shown, as [`EdgeOutput::Show`](crate::EdgeOutput::Show) has it. The filter is for the list.
    ///
    /// # Errors
    /// `bad_request`.
    pub fn shown(&self, filter: &str, now: u64, at: i64) -> Result<String, Fault> {
        let mut part = self.0.lock().map_err(|_| Fault::broken())?;
        let now = Moment::default() + Duration::from_millis(now);
        Ok(match &mut *part {
            Part::View(view) => json!(view.snapshot()).to_string(),
            Part::List(list, shown) => {
                let filter: Filter = read_json(filter)?;
                *shown = list.snapshot(shown, &filter, now, Timestamp::from_millis(at));
                json!(shown).to_string()
            }
            Part::Timeline(timeline) => drawn(timeline).to_string(),
        })
    }

    /// Returns the new requests of the view: of the store and of the server, each with its side.
    ///
    /// # Errors
    /// `broken`.
    pub fn requests(&self) -> Result<String, Fault> {
        let mut part = self.0.lock().map_err(|_| Fault::broken())?;
        let side = |side: Side| match side {
            Side::Newest => json!({}),
            Side::Before(seq) => json!({"before_seq": seq}),
            Side::After(seq) => json!({"after_seq": seq}),
        };
        let request = |request: Request| match request {
            Request::Load(of) => json!({"load": side(of)}),
            Request::History(of) => json!({"history": side(of)}),
        };
        Ok(match &mut *part {
            Part::View(view) => view.requests().into_iter().map(request).collect::<Value>().to_string(),
            Part::List(..) | Part::Timeline(_) => json!([]).to_string(),
        })
    }
}

fn in_view(view: &mut Messages, name: &str, what: &Value, now: Moment) -> Result<Value, Fault> {
    match name {
        "row" => view.timeline_mut().row(&read(what)?),
        "receipts" => view.timeline_mut().receipts(&read(what)?),
        "queued" => view.timeline_mut().queued(read(what)?),
        "dismiss" => view.timeline_mut().dismiss(&read(what)?),
        "page" => view.page(read::<Step>(what)?.side(), read(what)?),
        "loaded" => {
            let step: Step = read(what)?;
            let spans = step.spans.iter().map(|(from, to)| Span { from: *from, to: *to }).collect();
            view.loaded(step.side(), Window { messages: step.messages, spans });
        }
        "lost" => view.lost(read::<Step>(what)?.side()),
        "older" => view.older(),
        "newer" => view.newer(),
        "jump" => view.jump(read::<At>(what)?),
        "zone" => view.set_zone(Zone::new(read(what)?)),
        "seen" => return Ok(json!(view.seen(&read::<Step>(what)?.key))),
        "read_all" => return Ok(json!(view.read_all())),
        _ => view.event(&event(name, what)?, now),
    }
    Ok(Value::Null)
}

fn in_list(list: &mut Conversations, name: &str, what: &Value, now: Moment) -> Result<Value, Fault> {
    let key = || Ok::<_, Fault>(read::<Step>(what)?.key);
    match name {
        "row" => list.row(&read(what)?),
        "channel" => list.channel(&read(what)?),
        "queued" => list.queued(read(what)?),
        "presence" => list.presence(&read::<Vec<_>>(what)?),
        "dismiss" => list.dismiss(&read(what)?),
        "direct" => return Ok(json!(list.direct(&read(what)?))),
        "read_all" => return Ok(json!(list.read_all(&key()?))),
        "pins" => {
            let order: Vec<ConversationId> = read(&what["order"])?;
            return Ok(json!(list.pinned_are(read(&what["of"])?, &order.iter().collect::<Vec<_>>())));
        }
        "remove" => list.remove(&key()?),
        "draft" => list.draft(&key()?, read::<Step>(what)?.draft),
        "read" => list.read(&read(&what["conversation_id"])?, read(&what["seq"])?),
        _ => list.event(&event(name, what)?, now),
    }
    Ok(Value::Null)
}

fn in_timeline(timeline: &mut Timeline, name: &str, what: &Value, now: Moment) -> Result<Value, Fault> {
    match name {
        "history" => timeline.history(read(what)?),
        "message" => timeline.message(read(what)?),
        "receipts" => timeline.receipts(&read(what)?),
        "row" => timeline.row(&read(what)?),
        "channel" => timeline.channel(&read(what)?),
        "queued" => timeline.queued(read(what)?),
        "reacted" => timeline.reacted(&read(what)?),
        "typing" => timeline.typing(&read(&what["user_id"])?, what["text"].as_str(), now),
        "uploading" => timeline.uploading(&read(&what["client_msg_id"])?, read(&what["done"])?),
        "failed" => timeline.failed(&read(&what["client_msg_id"])?, read::<String>(&what["code"])?),
        "dismiss" => timeline.dismiss(&read(what)?),
        "receipt" => {
            let kind = if what["kind"] == "read" { ReceiptKind::Read } else { ReceiptKind::Delivered };
            timeline.receipt(kind, &read(&what["user_id"])?, read(&what["seq"])?);
        }
        "open" => timeline.open(),
        "close" => timeline.close(),
        "readers" => {
            let Readers { read, delivered } = timeline.readers(read(&what["seq"])?);
            return Ok(json!({"seq": what["seq"], "read": read, "delivered": delivered}));
        }
        "writing" => return Ok(json!({"now": what["now"], "users": timeline.writing(now)})),
        "texts" => return Ok(json!({"now": what["now"], "by": timeline.texts(now)})),
        other => return Err(Fault::new("bad_request", format!("there is no step {other}"))),
    }
    Ok(Value::Null)
}

/// All that a timeline returns. Its days are those of UTC.
fn drawn(timeline: &Timeline) -> Value {
    let day = |at: Timestamp| at.to_string().chars().take("2026-11-20".len()).collect::<String>();
    let word = |tick: Tick| format!("{tick:?}").to_lowercase();
    let entry = |entry: TimelineEntry<'_, String>| match entry {
        TimelineEntry::Day(day) => json!({"day": day}),
        TimelineEntry::Unread(count) => json!({"unread": count}),
        TimelineEntry::Gap { after_seq, before_seq } => json!({"gap": [after_seq, before_seq]}),
        TimelineEntry::System { message, .. } | TimelineEntry::Unreadable { message, .. } => {
            json!({"message": message})
        }
        TimelineEntry::Message { message, tick, quote, changing, refused, .. } => {
            let refused = refused.and_then(|unsent| unsent.error.as_ref());
            json!({"message": message, "tick": tick.map(word), "quote": quote, "changing": changing, "refused": refused})
        }
        TimelineEntry::Unsent { unsent, tick, quote, .. } => {
            json!({"unsent": unsent.queued, "tick": word(tick), "quote": quote, "done": unsent.uploaded,
                "error": unsent.error})
        }
    };
    json!({
        "entries": timeline.entries(day).into_iter().map(entry).collect::<Value>(),
        "missing": timeline.missing(),
        "more_before": timeline.more_before(),
        "unread": timeline.unread(),
        "mentions": timeline.mentions(),
        "read_up_to": timeline.read_up_to(),
        "closed": timeline.is_closed(),
    })
}

fn event(name: &str, what: &Value) -> Result<Event, Fault> {
    let lacks = || Fault::new("bad_request", format!("{name} lacks a field"));
    Ok(match name {
        "message" => Event::Message { message: read(what)?, missed: false },
        "receipt" => {
            let is_read = read::<Step>(what)?.kind == "read";
            let kind = if is_read { ReceiptKind::Read } else { ReceiptKind::Delivered };
            Event::Receipt { kind, receipt: read(what)? }
        }
        "conversation" => Event::ConversationChanged(read(what)?),
        "settings" => Event::SettingsChanged(read(what)?),
        "state" => Event::State(State::CaughtUp),
        "uploading" => {
            let Step { client_msg_id, done, .. } = read(what)?;
            Event::Uploading { client_msg_id: client_msg_id.ok_or_else(lacks)?, done, bytes: 0 }
        }
        "typing" => {
            let Step { conversation_id, user_id, .. } = read(what)?;
            let (conversation_id, user_id) = (conversation_id.ok_or_else(lacks)?, user_id.ok_or_else(lacks)?);
            let text = what["text"].as_str().map(str::to_owned);
            Event::Typing { conversation_id, user_id, at: Timestamp::default(), text }
        }
        "failed" | "reacted" => {
            let Step { request, code, .. } = read(what)?;
            let queued = request.ok_or_else(lacks)?;
            match code.as_str() {
                "" => Event::Reacted { queued },
                "cancelled" => Event::Failed { queued, error: Error::Cancelled },
                _ => Event::Failed { queued, error: Error::Refused { code, message: String::new() } },
            }
        }
        other => return Err(Fault::new("bad_request", format!("there is no step {other}"))),
    })
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Fault> {
    T::deserialize(value).map_err(|error| Fault::new("bad_request", error.to_string()))
}
