//! What clients may ask. A frame becomes a [`Request`] here, once, or is refused with the name of the field at fault.

use serde_json::{Map, Value};

use crate::cursor::Cursor;
use crate::ids::{ClientMsgId, ConversationId, InvalidId, RequestId, Seq, UserId};
use crate::limits::{
    ACK_ENTRIES_MAX, FRAME_BYTES_MAX, HISTORY_LIMIT_DEFAULT, HISTORY_LIMIT_MAX, INBOX_LIMIT_DEFAULT, INBOX_LIMIT_MAX,
    REQUEST_ID_CHARS_MAX, SEQ_MAX,
};
use crate::message::{Kind, body_fits};
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub id: Option<RequestId>,
    pub action: Action,
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(tag = "action", rename_all = "snake_case"))]
pub enum Action {
    /// Appends a message to a conversation. Sent again with the same `client_msg_id` and body: the same answer.
    Send(SendRequest),
    /// "This device holds everything up to here": two grey ticks at the sender's. Idempotent, never moves back.
    Ack {
        #[cfg_attr(feature = "schema", schemars(length(min = 1, max = ACK_ENTRIES_MAX)))]
        up_to: Vec<AckEntry>,
    },
    /// What no device of the user has acknowledged, a page at a time, oldest first.
    Drain {
        /// The acknowledgement of the page before, applied first.
        #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", length(min = 1, max = ACK_ENTRIES_MAX)))]
        ack: Vec<AckEntry>,
    },
    /// "The user has read everything up to here", and so holds it: blue ticks. Idempotent, never moves back.
    Read(ReadRequest),
    /// The chat list, most recently active first.
    Inbox(InboxRequest),
    /// Messages of a conversation, and how far its members have come.
    History(HistoryRequest),
    /// Whether anything is pending; also keeps an idle socket open.
    Ping,
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendRequest {
    #[cfg_attr(feature = "schema", schemars(flatten))]
    pub target: Target,
    /// The idempotency key: unique per sender and conversation.
    pub client_msg_id: ClientMsgId,
    pub kind: Kind,
    /// At most 16 KiB of UTF-8, and at most 24 KiB once written as JSON.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::BODY_BYTES_MAX)))]
    pub body: String,
}

/// Whom to write to.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Target {
    /// The direct conversation with this user, which the first message creates.
    #[cfg_attr(feature = "schema", schemars(rename = "to", extend("not" = {"required": ["conversation_id"]})))]
    User(UserId),
    /// A conversation that the user is a member of.
    #[cfg_attr(feature = "schema", schemars(rename = "conversation_id", extend("not" = {"required": ["to"]})))]
    Conversation(ConversationId),
}

/// "This device holds everything up to here."
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckEntry {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReadRequest {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxRequest {
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", range(min = 1, max = INBOX_LIMIT_MAX), extend("default" = INBOX_LIMIT_DEFAULT)))]
    pub limit: u64,
    /// The `next_cursor` of the page before.
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", with = "Option<String>"))]
    pub cursor: Option<Cursor>,
    /// Only conversations that were active since, with any offset from UTC.
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out"))]
    pub since: Option<Timestamp>,
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryRequest {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(flatten, with = "SideFields"))]
    pub side: Side,
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", range(min = 1, max = HISTORY_LIMIT_MAX), extend("default" = HISTORY_LIMIT_DEFAULT)))]
    pub limit: u64,
}

/// Which part of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Newest,
    Before(Seq),
    After(Seq),
}

/// How a [`Side`] is asked for: by at most one of these.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(extend("not" = {"required": ["before_seq", "after_seq"]}))]
#[expect(dead_code, reason = "for its schema")]
struct SideFields {
    /// What comes before this one, nearest to it.
    #[schemars(skip_serializing_if = "left_out", range(min = 1))]
    before_seq: Option<Seq>,
    /// What comes after this one, nearest to it.
    #[schemars(skip_serializing_if = "left_out")]
    after_seq: Option<Seq>,
}

/// A frame that is no request, with what of it could be read, so that the client can tell which one it was.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected {
    pub action: Option<String>,
    pub id: Option<RequestId>,
    pub refusal: Refusal,
}

impl Request {
    /// Reads a frame that `caller` sent. Unknown fields are ignored.
    ///
    /// # Errors
    /// [`Rejected`] with the first field that is wrong.
    pub fn parse(frame: &str, caller: &UserId) -> Result<Self, Rejected> {
        let unreadable = |refusal| Rejected { action: None, id: None, refusal };
        if frame.len() > FRAME_BYTES_MAX {
            return Err(unreadable(Refusal::TooLarge { field: "frame", problem: "must be at most 32 KiB" }));
        }
        let object = match serde_json::from_str(frame) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return Err(unreadable(Refusal::bad_request("frame", "must be a JSON object"))),
            Err(_) => return Err(unreadable(Refusal::bad_request("frame", "must be valid JSON"))),
        };
        let fields = Fields { object: &object, path: "" };
        let name = fields.text("action");
        let echoed = name.as_ref().ok().filter(|name| name.chars().count() <= REQUEST_ID_CHARS_MAX);
        let echoed = echoed.map(|&name| name.to_owned());
        let id = match fields.optional("id", RequestId::parse) {
            Ok(id) => id,
            Err(refusal) => return Err(Rejected { action: echoed, id: None, refusal }),
        };
        match name.and_then(|name| Action::parse(name, &fields, caller)) {
            Ok(action) => Ok(Self { id, action }),
            Err(refusal) => Err(Rejected { action: echoed, id, refusal }),
        }
    }
}

impl Action {
    /// The name of the route and of the answers to it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Send(_) => "send",
            Self::Ack { .. } => "ack",
            Self::Drain { .. } => "drain",
            Self::Read(_) => "read",
            Self::Inbox(_) => "inbox",
            Self::History(_) => "history",
            Self::Ping => "ping",
        }
    }

    fn parse(name: &str, fields: &Fields, caller: &UserId) -> Result<Self, Refusal> {
        match name {
            "send" => SendRequest::parse(fields).map(Self::Send),
            "ack" => fields.entries("up_to")?.ok_or_else(|| fields.missing("up_to")).map(|up_to| Self::Ack { up_to }),
            "drain" => fields.entries("ack").map(|ack| Self::Drain { ack: ack.unwrap_or_default() }),
            "read" => ReadRequest::parse(fields).map(Self::Read),
            "inbox" => InboxRequest::parse(fields, caller).map(Self::Inbox),
            "history" => HistoryRequest::parse(fields).map(Self::History),
            "ping" => Ok(Self::Ping),
            _ => Err(Refusal::UnknownAction),
        }
    }
}

impl SendRequest {
    fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let to = fields.optional("to", UserId::parse)?;
        let conversation = fields.optional("conversation_id", ConversationId::parse)?;
        let target = match (to, conversation) {
            (Some(user), None) => Target::User(user),
            (None, Some(conversation)) => Target::Conversation(conversation),
            (Some(_), Some(_)) => return Err(Refusal::bad_request("to", "must not stand beside conversation_id")),
            (None, None) => {
                return Err(Refusal::bad_request("to", "is missing; name a user here, or a conversation_id"));
            }
        };
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let kind = Kind::parse(fields.text("kind")?).ok_or_else(|| fields.wrong("kind", "must be \"text\""))?;
        let body = fields.text("body")?;
        if body.is_empty() {
            return Err(fields.wrong("body", "must not be empty"));
        }
        if !body_fits(body) {
            return Err(Refusal::TooLarge {
                field: "body",
                problem: "must be at most 16 KiB of UTF-8, and at most 24 KiB once written as JSON",
            });
        }
        Ok(Self { target, client_msg_id, kind, body: body.to_owned() })
    }
}

impl ReadRequest {
    fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        Ok(Self { conversation_id, seq: fields.required_seq("seq")? })
    }
}

impl InboxRequest {
    fn parse(fields: &Fields, caller: &UserId) -> Result<Self, Refusal> {
        let limit = fields.integer("limit", 1, INBOX_LIMIT_MAX)?.unwrap_or(INBOX_LIMIT_DEFAULT);
        let cursor = fields.optional("cursor", |text| {
            Cursor::parse(caller, text).ok_or("must be a next_cursor that this user was given, or left out")
        })?;
        let since = fields.optional("since", |text| {
            Timestamp::parse(text).ok_or("must be a time in RFC 3339, such as 2026-01-31T10:00:00.000Z")
        })?;
        Ok(Self { limit, cursor, since })
    }
}

impl HistoryRequest {
    fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let (before, after) = (fields.seq("before_seq", 1)?, fields.seq("after_seq", 0)?);
        let side = match (before, after) {
            (None, None) => Side::Newest,
            (Some(before), None) => Side::Before(before),
            (None, Some(after)) => Side::After(after),
            (Some(_), Some(_)) => return Err(Refusal::bad_request("before_seq", "must not stand beside after_seq")),
        };
        let limit = fields.integer("limit", 1, HISTORY_LIMIT_MAX)?.unwrap_or(HISTORY_LIMIT_DEFAULT);
        Ok(Self { conversation_id, side, limit })
    }
}

/// The fields of an object, read one by one. `null` counts as left out.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// What stands before a field's name in an error, such as `up_to[3].`.
    path: &'a str,
}

impl<'a> Fields<'a> {
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.object.get(field).filter(|value| !value.is_null())
    }

    fn wrong(&self, field: &str, problem: impl Into<String>) -> Refusal {
        Refusal::bad_request(format!("{}{field}", self.path), problem)
    }

    fn missing(&self, field: &str) -> Refusal {
        self.wrong(field, "is missing")
    }

    fn text(&self, field: &str) -> Result<&'a str, Refusal> {
        let value = self.get(field).ok_or_else(|| self.missing(field))?;
        value.as_str().ok_or_else(|| self.wrong(field, "must be a string"))
    }

    fn optional<T, E: Into<Problem>>(
        &self,
        field: &str,
        parse: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Result<Option<T>, Refusal> {
        self.get(field).is_some().then(|| self.required(field, parse)).transpose()
    }

    fn required<T, E: Into<Problem>>(
        &self,
        field: &str,
        parse: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Result<T, Refusal> {
        parse(self.text(field)?).map_err(|problem| self.wrong(field, problem.into().0))
    }

    fn integer(&self, field: &str, min: u64, max: u64) -> Result<Option<u64>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let value = value.as_u64().filter(|number| (min..=max).contains(number));
        value.map(Some).ok_or_else(|| self.wrong(field, format!("must be an integer from {min} to {max}")))
    }

    fn seq(&self, field: &str, min: u64) -> Result<Option<Seq>, Refusal> {
        Ok(self.integer(field, min, SEQ_MAX)?.and_then(Seq::new))
    }

    fn required_seq(&self, field: &str) -> Result<Seq, Refusal> {
        self.seq(field, 1)?.ok_or_else(|| self.missing(field))
    }

    fn entries(&self, field: &str) -> Result<Option<Vec<AckEntry>>, Refusal> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let list = value.as_array().filter(|list| (1..=ACK_ENTRIES_MAX).contains(&list.len()));
        let list = list.ok_or_else(|| {
            self.wrong(field, format!("must be a list of 1 to {ACK_ENTRIES_MAX} objects with conversation_id and seq"))
        })?;
        list.iter()
            .enumerate()
            .map(|(index, entry)| self.entry(field, index, entry))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn entry(&self, field: &str, index: usize, entry: &Value) -> Result<AckEntry, Refusal> {
        let object = entry.as_object().ok_or_else(|| self.wrong(&format!("{field}[{index}]"), "must be an object"))?;
        let fields = Fields { object, path: &format!("{field}[{index}].") };
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        Ok(AckEntry { conversation_id, seq: fields.required_seq("seq")? })
    }
}

/// What is wrong with a field's text.
struct Problem(String);

impl From<InvalidId> for Problem {
    fn from(invalid: InvalidId) -> Self {
        Self(invalid.to_string())
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests;
